"""Play a policy over many windows of a world, or over recorded ones, and note what came of each, in money.

The windows depend on source, seed and their number alone: every policy that is played with the same ones
faces the same windows, and their profits can be compared in pairs. Another number of windows may be played in
other lanes and then gives other windows, with other names.
`play_windows` scores a policy of a game without lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, ContractError, InputError
from playproof.events import Event
from playproof.game import Game, Policy, Terms, first, lookup
from playproof.game.play import PlayerConfig, play
from playproof.game.vector_env import BatchPolicy, ReplayTape, RolloutStats, VectorGame, VectorTerms, play_lanes
from playproof.json_types import Json

PLAY_STREAM = int.from_bytes(b"play")
"""Keeps the players' random numbers apart from those of worlds with the same seed."""


@dataclass(frozen=True)
class Score:
    """What a policy earned, window by window."""

    name: str
    windows: tuple[str, ...]
    pnl: tuple[int, ...]
    """Change in equity of each window, in the smallest unit."""
    opened: tuple[int, ...]
    """Positions opened in each window."""
    stake: int
    """Reserved for each window before it began."""

    def __post_init__(self) -> None:
        if self.stake <= 0 or min(self.pnl, default=0) < -self.stake:
            raise ConfigError(f"expected no window to lose more than the stake {self.stake}, found {min(self.pnl)}")

    @property
    def returns(self) -> NDArray[np.float64]:
        """Give each window's profit per unit reserved, at least -1."""
        return np.asarray(self.pnl, np.float64) / self.stake

    @property
    def roi(self) -> float:
        """Give the profit per unit reserved over all windows."""
        return sum(self.pnl) / (self.stake * len(self.pnl)) if self.pnl else 0.0


@dataclass(frozen=True)
class PolicyPlayer:
    """A policy to be scored: how it is made, what it sees and what it may do."""

    name: str
    make: Callable[[np.random.Generator], Policy]
    observation: str
    actions: str


def play_windows(
    game: Game, player: PolicyPlayer, events: Sequence[Event], windows: Sequence[str], *, stake: int, seed: int
) -> Score:
    """Play one session's windows in their order, each with a fresh ledger and a fresh policy."""
    order = {window: number for number, window in enumerate(windows)}
    seat = PlayerConfig(player.observation, Terms(player.actions, stake=stake))
    episodes = list(
        play(
            game,
            lambda window: player.make(np.random.default_rng([PLAY_STREAM, seed, order[window]])),
            events,
            seat,
            order,
        )
    )
    if tuple(episode.window_id for episode in episodes) != tuple(windows):
        raise ConfigError(f"expected {len(windows)} windows in the order of the recording, found {len(episodes)}")
    return Score(
        player.name,
        tuple(windows),
        tuple(episode.pnl for episode in episodes),
        tuple(episode.opened for episode in episodes),
        stake,
    )


LANES = 1024
"""Most lanes that are played at once."""
FEWEST = 32
EACH = 4
"""Windows that a lane plays at least, where that leaves lanes enough: seating a player costs more than playing."""
STREAM = int.from_bytes(b"rollout")
"""Keeps the windows of rollouts apart from those of training with the same seed."""


@dataclass(frozen=True)
class RolloutOptions:
    """What a rollout can be asked for beyond its money; None is the game's own default."""

    observation: str | None = None
    actions: str | None = None
    clock: str | None = None
    reward: Any = None
    """Name of a reward, or the reward itself: its sum is noted beside the money."""
    delay: int = 0
    """Steps between choosing an order and its being carried out: latency; 1 is one tick of slippage. Heads of the
    player's own controls act at once."""
    game: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What only this game can be asked for."""


@dataclass(frozen=True, kw_only=True)
class Rollout(RolloutStats):
    """What one policy did in each of n windows; money in the smallest unit."""

    name: str
    windows: tuple[str, ...]
    stake: int | None
    """Reserved for each window before it began; None: nothing was."""
    choices: tuple[str, ...]
    """Names of the columns of `decisions`."""

    def score(self) -> Score:
        """Give the profits as scores weigh them; refused where no stake was reserved."""
        if self.stake is None:
            raise InputError("expected a rollout with a reserved stake, found one without; give rollout a stake")
        return Score(self.name, self.windows, tuple(self.pnl.tolist()), tuple(self.opened.tolist()), self.stake)

    @property
    def mix(self) -> dict[str, float]:
        """Give the share of each choice of the first head among all steps."""
        total = max(1, int(self.steps.sum()))
        return {name: float(count) / total for name, count in zip(self.choices, self.decisions.sum(0), strict=True)}

    def summary(self) -> Json:
        """Give the figures that logs show; money in the smallest unit."""
        n = len(self)
        acted = int(self.decisions.sum() - self.decisions[:, self.choices.index("WAIT")].sum())
        payload: Json = {
            "windows": n,
            "pnl": float(self.pnl.mean()),
            "pnl_se": float(self.pnl.std(ddof=1) / np.sqrt(n)) if n > 1 else None,
            "roi": float(self.pnl.sum() / (self.stake * n)) if self.stake else None,
            "positions": int(self.opened.sum()),
            "staked": float(self.staked.mean()),
            "in_market": float(self.in_market.sum() / max(1, self.steps.sum())),
            "no_effect": float(self.no_effect.sum() / acted) if acted else 0.0,
            "reward": float(self.reward.mean()),
            "mix": self.mix,
        }
        return payload | {"components": {name: float(part.mean()) for name, part in self.components.items()}}


def make_lanes(game: Game, terms: VectorTerms, count: int) -> VectorGame:
    """Make a game's lanes, or say that it has none."""
    if game.simulation is None:
        raise ContractError(f"expected game {game.name!r} to have lanes, found none; score it with play_windows")
    return game.simulated().vector(terms, count)


def rollout(
    game: Game,
    player: BatchPolicy,
    source: str | ReplayTape,
    rounds: int | None,
    seed: int,
    *,
    stake: int | None,
    balance: int | None = None,
    name: str = "policy",
    options: RolloutOptions = RolloutOptions(),  # noqa: B008  (frozen)
    progress: Callable[[int], None] | None = None,
) -> Rollout:
    """Play a batch policy over windows of a world or a tape, each with a fresh balance and stake.

    `rounds` None plays a tape once. The policy's own random numbers come from the seed too.
    """
    taped = not isinstance(source, str)
    if rounds is None and not taped:
        raise ConfigError("expected a number of rounds to play in a world, found None")
    windows = len(source) if rounds is None else rounds
    if windows < 1 or (taped and windows > len(source)):
        raise ConfigError(f"expected 1 to {len(source) if taped else 'any number of'} rounds, found {windows}")
    actions = lookup(game.actions, options.actions or first(game.actions), "action set")
    lanes = rollout_lanes(game, source, windows, seed, stake=stake, balance=balance, options=options)
    wait = actions.wait if isinstance(actions.wait, tuple) else ()
    rng = player_rng(seed)
    played = play_lanes(
        lanes, player, windows, rng, delay=options.delay, wait=wait, local=actions.local, progress=progress
    )
    names = source.windows[:windows] if not isinstance(source, str) else _names(source, seed, windows)
    return Rollout(**vars(played), name=name, windows=names, stake=stake, choices=actions.heads[0])


def rollout_lanes(
    game: Game,
    source: str | ReplayTape,
    windows: int,
    seed: int,
    *,
    stake: int | None,
    balance: int | None = None,
    options: RolloutOptions = RolloutOptions(),  # noqa: B008  (frozen)
) -> VectorGame:
    """Make the lanes on which so many windows are played: the same arguments give the same windows."""
    terms = VectorTerms(
        source,
        (STREAM, seed),
        options.observation,
        options.actions,
        options.reward,
        options.clock,
        balance,
        stake,
        options.game,
    )
    return make_lanes(game, terms, lanes_for(windows))


def player_rng(seed: int) -> np.random.Generator:
    """Give the generator that a policy draws from in a rollout."""
    return np.random.default_rng([STREAM, seed, 1])


def lanes_for(windows: int) -> int:
    """Give how many lanes play so many windows: their number decides which windows a seed gives, and names them."""
    return min(LANES, windows, max(FEWEST, windows // EACH))


def _names(world: str, seed: int, windows: int) -> tuple[str, ...]:
    """Name simulated windows; the same name is the same window."""
    return tuple(f"{world}-{seed}-{lanes_for(windows)}-{number}" for number in range(windows))
