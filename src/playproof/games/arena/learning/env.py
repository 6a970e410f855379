"""The Gymnasium environment of the arena: one agent among scripted others, one window an episode.

`gymnasium.make("playproof/Arena-v1", ...)`; the keywords are the fields of `LaneSettings`, and `seed`
gives the windows: each reset opens the next one. The end of a window truncates. Amounts in `info` are
integers of 10^-9 USD.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.games.arena.learning.table import FEATURES
from playproof.games.arena.learning.vector_env import HEADS, PLAYER, ArenaMarketPlayer, LaneSettings
from playproof.json_types import Json

_SEEDS = 2**62
LIMIT = 1_000.0
"""No feature comes near it."""


class ArenaEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.int64]]):
    """One agent in a market of scripted others."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(self, render_mode: str | None = None, reward: str = "alpha", **options: Any) -> None:
        self.render_mode = render_mode
        self._options = options | {"benchmark": reward == "alpha"}
        self._lane = ArenaMarketPlayer(LaneSettings(**self._options))
        self._number = -1
        self._over = True
        self.action_space = spaces.MultiDiscrete(list(HEADS))
        self.observation_space = spaces.Box(-LIMIT, LIMIT, (len(FEATURES),), np.float32)

    def reset(self, *, seed: int | None = None, options: Json | None = None) -> tuple[NDArray[np.float32], Json]:
        """Open the next window; a seed begins anew, `options={"window": k}` opens window k of the seed."""
        super().reset(seed=seed)
        if seed is not None:
            self._lane = ArenaMarketPlayer(LaneSettings(**self._options | {"seed": seed % _SEEDS}))
            self._number = -1
        self._number = int((options or {}).get("window", self._number + 1))
        self._lane.begin(self._number)
        self._over = False
        return self._row(), self._info()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, Json]:
        """Take one action: an index for each head."""
        if self._over:
            raise InputError("expected a running episode, found one that is over; call reset first")
        if not self.action_space.contains(np.asarray(action, np.int64)):
            raise InputError(f"expected an action of heads {HEADS}, found {action!r:.60}")
        profit, self._over, hold = self._lane.step(tuple(int(item) for item in action))
        reward = profit - hold if self._lane.settings.benchmark else profit
        return self._row(), reward, False, self._over, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Give which choices can have an effect now, the heads side by side."""
        return np.array(self._lane.mask(), np.bool_)

    def _row(self) -> NDArray[np.float32]:
        return np.clip(np.array(self._lane.row, np.float32), -LIMIT, LIMIT)

    def _info(self) -> Json:
        lane = self._lane
        names = (feature.name for feature in FEATURES)
        return {
            "window": lane.world.window,
            "cash": lane.world.exchange.accounts[PLAYER].cash,
            "equity": lane.equity,
            "opened": lane.opened,
            "no_effect": lane.no_effect,
            "missing": tuple(name for name, unknown in zip(names, lane.missing, strict=True) if unknown),
        }

    def render(self) -> str | None:
        """Write the market as one line of text."""
        if self.render_mode != "ansi":
            return None
        world = self._lane.world
        prices = " ".join(f"{name} {quote.price / 1e9:.2f}" for name, quote in world.public.quotes.items())
        return f"{world.window} minute {world.tick} {prices} equity {self._lane.equity / 1e9:.2f}"
