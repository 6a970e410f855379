"""Play a policy over windows and note what it earned in each, in money.

Leaves out: metrics beyond money, latency and slippage, the trial ledger, worlds that orders move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.events import Event
from playproof.game import Game, Policy, Terms
from playproof.game.play import PlayerConfig, play

STREAM = int.from_bytes(b"play")
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
            game, lambda window: player.make(np.random.default_rng([STREAM, seed, order[window]])), events, seat, order
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
