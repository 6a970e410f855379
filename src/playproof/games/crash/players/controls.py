"""What a policy of the crash game is shown beside: players who bet as much and hold as long, hindsight, old targets.

Older plans wanted hit rates; each is measured beside a dummy that reaches it too. A hit rate is not an edge: what is
right often can lose more when it is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.game.vector_env import ActivityProfile, BatchPolicy, ControlPolicy, RolloutStats, Target, leave, narrows
from playproof.games.crash.features.state import ACTIVE
from playproof.games.crash.players.baselines import (
    BUY,
    PHASE,
    PRICE,
    QTY,
    SELL,
    WAIT,
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
    make_baseline,
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


ZONE = (25.0, 50.0)
ROUNDS = 59
"""Rounds over which an old plan measured its ROI."""
WANTED = 0.05
COMPARED = ROUNDS
"""Rounds in which a policy's choices are compared with a person's."""
SOON = 20
"""Ticks within which selling beats nine rugs in ten."""


@dataclass
class EntryExitLog:
    """Play as somebody else does, and note entries and exits."""

    player: BatchPolicy
    entries: int = 0
    in_zone: int = 0
    sold: int = 0
    rugged: int = 0
    held: Chosen = field(default_factory=lambda: np.zeros(0, np.bool_))

    def start(self, lanes: int, rng: Rng) -> Any:
        """Begin to note."""
        self.held = np.zeros(lanes, np.bool_)
        return self.player.start(lanes, rng)

    def begin(self, state: Any, chosen: Chosen) -> None:
        """Count the positions that a rug closed."""
        self.rugged += int((self.held & chosen).sum())
        self.held[chosen] = False
        self.player.begin(state, chosen)

    @property
    def narrows(self) -> bool:
        """Tell whether who plays can leave lanes."""
        return narrows(self.player)

    def keep(self, state: Any, kept: Ints) -> None:
        """Note these lanes alone."""
        self.held = self.held[kept]
        leave(self.player, state, kept)

    def act(self, obs: Rows, state: Any) -> Actions:
        """Choose as the other does."""
        actions = self.player.act(obs, state)
        held, price = obs[:, QTY] > 0, obs[:, PRICE]
        active = obs[:, PHASE] == ACTIVE
        enters = active & ~held & (actions[:, 0] == BUY)
        sells = active & held & (actions[:, 0] == SELL)
        self.entries += int(enters.sum())
        self.in_zone += int((enters & (price >= ZONE[0]) & (price <= ZONE[1])).sum())
        self.sold += int(sells.sum())
        self.held[:] = (held & ~sells) | enters
        return actions


@dataclass
class AgreementCounter:
    """Play as a person does, and count how often somebody else would have done the same."""

    person: BatchPolicy
    other: BatchPolicy
    steps: int = 0
    agreed: int = 0
    waits: int = 0

    def start(self, lanes: int, rng: Rng) -> Any:
        """Remember for both."""
        return self.person.start(lanes, rng), self.other.start(lanes, rng)

    def begin(self, state: Any, chosen: Chosen) -> None:
        """Forget for both."""
        self.person.begin(state[0], chosen)
        self.other.begin(state[1], chosen)

    def act(self, obs: Rows, state: Any) -> Actions:
        """Choose as the person does."""
        done, would = self.person.act(obs, state[0]), self.other.act(obs, state[1])
        self.steps += len(done)
        self.agreed += int((done[:, 0] == would[:, 0]).sum())
        self.waits += int((done[:, 0] == WAIT).sum())
        return done


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _lucky(pnl: NDArray[np.int64], staked: NDArray[np.int64]) -> float | None:
    """Give how many stretches of 59 rounds ended above 5 % of what was staked in them."""
    stretches = len(pnl) // ROUNDS
    if not stretches:
        return None
    won = pnl[: stretches * ROUNDS].reshape(stretches, ROUNDS).sum(axis=1)
    paid = staked[: stretches * ROUNDS].reshape(stretches, ROUNDS).sum(axis=1)
    return float(np.mean(won > WANTED * paid))


def targets(player: BatchPolicy, options: Any, play: Callable[..., RolloutStats]) -> tuple[Target, ...]:
    """Measure accuracy, entries at 25x to 50x, exits before the rug, and ROI above 5 %."""
    noting, dummy = EntryExitLog(player), EntryExitLog(Hold(k=SOON))
    played, lucky = play(noting, options), play(dummy, type(options)())
    agreeing: AgreementCounter | None = None
    if options.observation in (None, "policy") and options.actions in (None, "buttons"):
        agreeing = AgreementCounter(make_baseline("human"), player)
        play(agreeing, type(options)(), COMPARED)
    return (
        Target(
            "accuracy: does what the scripted person does",
            "> 80 %",
            _share(agreeing.agreed, agreeing.steps) if agreeing else None,
            "always WAIT",
            _share(agreeing.waits, agreeing.steps) if agreeing else None,
        ),
        Target(
            "entries at 25x to 50x",
            "most",
            _share(noting.in_zone, noting.entries),
            f"hold-{SOON}",
            _share(dummy.in_zone, dummy.entries),
        ),
        Target(
            "exits before the rug",
            "> 90 %",
            _share(noting.sold, noting.sold + noting.rugged),
            f"sells within {SOON + 1} ticks",
            _share(dummy.sold, dummy.sold + dummy.rugged),
        ),
        Target(
            f"ROI above 5 % over {ROUNDS} rounds: share of such stretches",
            "> 5 %",
            _lucky(played.pnl, played.staked),
            f"hold-{SOON}, by luck",
            _lucky(lucky.pnl, lucky.staked),
        ),
    )
