"""What a policy of the crash game is shown beside: players who bet as much and hold as long, and hindsight.

Leaves out: playing them and comparing (validate).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from playproof.game.vector_env import ActivityProfile, ControlPolicy
from playproof.games.crash.features.state import ACTIVE
from playproof.games.crash.players.baselines import (
    PHASE,
    PRICE,
    Actions,
    AlwaysSidebet,
    BaselineMemory,
    Chosen,
    Hold,
    Ints,
    Rng,
    Rows,
    RuleBaseline,
    Wait,
)
from playproof.games.crash.rules.actions import ACTIONS
from playproof.games.crash.rules.money import MIN_BET
from playproof.money import UNIT

Floats = NDArray[np.float64]
NAMES = ACTIONS["buttons"].heads[0]


@dataclass(frozen=True)
class RandomControl(RuleBaseline):
    """Choose by chance, each action as often as somebody else does, with a bet of that size."""

    shares: tuple[float, ...] = (1.0,)
    """Of the actions, in their order."""

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:
        """Draw an action for every lane."""
        limits = np.cumsum(self.shares)
        drawn = np.searchsorted(limits, state.rng.random(len(obs)) * limits[-1], side="right")
        return self.order(obs, drawn)


@dataclass(frozen=True)
class ConstantBatchPolicy(RuleBaseline):
    """Choose the same action for ever."""

    action: int = 0

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:  # noqa: ARG002
        """Choose it."""
        return self.order(obs, np.full(len(obs), self.action))


def control_policies(habits: ActivityProfile) -> Mapping[str, ControlPolicy]:
    """Make the players that a policy with these habits has to beat."""
    bet = max(MIN_BET, round(min(habits.bet, habits.stake) / MIN_BET) * MIN_BET) / UNIT
    held = max(1, round(habits.held))
    shares = tuple(habits.mix.get(name, 0.0) for name in NAMES)
    usual = int(np.argmax(shares))
    return {
        "do nothing": ControlPolicy("waits for ever", Wait()),
        "random": ControlPolicy("the same actions as often, at random", RandomControl(bet, shares)),
        f"hold-{held}": ControlPolicy("buys once a round and holds as long as the policy does", Hold(bet, k=held)),
        "always sidebet": ControlPolicy("always has a sidebet open", AlwaysSidebet(bet)),
        "majority": ControlPolicy(
            f"always {NAMES[usual]}, the most frequent action", ConstantBatchPolicy(bet, usual) if usual else Wait()
        ),
    }


@dataclass
class _WindowTrack:
    """What was seen of the windows that run."""

    low: Floats
    gain: Floats
    """The best ratio of a price to one before it."""
    seats: Ints
    """Numbers of the lanes among those that began."""


@dataclass
class HindsightTrader:
    """Wait and watch prices; tell what buying at one and selling at a later one would have earned at best."""

    lanes: int = 0
    ended: list[list[float]] = field(default_factory=list)
    """By lane the best gain of each window that ended."""

    def start(self, lanes: int, rng: Rng) -> _WindowTrack:  # noqa: ARG002
        """See nothing of so many lanes yet."""
        self.lanes, self.ended = lanes, [[] for _ in range(lanes)]
        return _WindowTrack(np.full(lanes, np.inf), np.ones(lanes), np.arange(lanes))

    def begin(self, state: _WindowTrack, chosen: Chosen) -> None:
        """Note what the windows that ended had to give."""
        for lane in np.flatnonzero(chosen).tolist():
            self.ended[state.seats[lane]].append(float(state.gain[lane]))
        state.low[chosen], state.gain[chosen] = np.inf, 1.0

    @property
    def narrows(self) -> bool:
        """Tell that lanes can be left."""
        return True

    def keep(self, state: _WindowTrack, kept: Ints) -> None:
        """Watch these lanes alone."""
        state.low, state.gain, state.seats = state.low[kept], state.gain[kept], state.seats[kept]

    def act(self, obs: Rows, state: _WindowTrack) -> Actions:
        """Wait, and look at the price."""
        price = np.where(obs[:, PHASE] == ACTIVE, obs[:, PRICE], np.nan)
        np.fmin(state.low, price, out=state.low)
        np.fmax(state.gain, price / state.low, out=state.gain)
        return np.zeros((len(obs), 2), np.int64)

    def best(self, windows: int, stake: int) -> Ints:
        """Give each window's profit: the stake put on the best pair of prices."""
        gains = np.array([self.ended[n % self.lanes][n // self.lanes] for n in range(windows)])
        return np.floor((gains - 1.0) * stake).astype(np.int64)
