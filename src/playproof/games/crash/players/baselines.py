"""Baselines of the crash game: policies that are shown beside every score, thousands of lanes at once.

A policy reads rows of the observation set `policy` and answers with actions of the set `buttons`.
It notices by itself that a lane begins a new round: the phase or the tick goes back. Where a round is
broken off before its tick 0, or a new player sits down, `begin` tells it.
Leaves out: the scripted human's decisions (human), and scores.

Every step is played as it comes, on either clock. A bet other than the one in the bet field is
reached by presses, one a step, from the first step on; the last of them goes with the order itself.
On the clock `tick` a larger bet therefore delays a first entry by as many ticks as it needs presses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, UnknownName
from playproof.game import Baseline, Observation
from playproof.games.crash.features.state import ACTIVE, PRESALE
from playproof.games.crash.rules.money import MIN_BET, SIDEBET_TICKS
from playproof.games.crash.sim.kernel import HEADS, INCREMENTS, MAX_BET
from playproof.money import UNIT, show, to_units

TICK, PRICE, PHASE = 0, 1, 2
BALANCE, QTY, AVG_ENTRY, PNL, INVESTED = 8, 9, 10, 11, 12
COUNT_2X, VELOCITY, PNL_PCT, TIME_IN_POSITION, SINCE_ACTION, BET = 17, 22, 25, 28, 29, 30
"""Places in a row of the set `policy`."""

WAIT, BUY, SELL, SIDEBET = range(4)
NONE, CLEAR, INC_001, INC_01, INC_10, INC_1, HALF, DOUBLE, MAX = range(9)
"""Choices of the two heads of `buttons`."""

Rows = NDArray[np.float32]
Actions = NDArray[np.int64]
Ints = NDArray[np.int64]
Chosen = NDArray[np.bool_]
Rng = np.random.Generator

_UNSEEN = np.iinfo(np.int64).max
_CELL = MIN_BET // 8
"""Bets are planned in eighths of the smallest bet, so that halves and quarters may be passed through."""
_LARGEST_PLANNED = 5 * UNIT
_CELLS = 8 * _LARGEST_PLANNED // _CELL
_STEPS = {button: int(INCREMENTS[button]) // _CELL for button in (INC_1, INC_10, INC_01, INC_001)}


class VectorPolicy(Protocol):
    """One way to choose in many lanes at once."""

    def start(self, lanes: int, rng: Rng) -> Any:
        """Give what the policy remembers of so many lanes, before their first row."""

    def begin(self, state: Any, chosen: Chosen) -> None:
        """Forget what is remembered of the chosen lanes."""

    def act(self, obs: Rows, state: Any) -> Actions:
        """Choose for rows (N, 31) an action a lane, (N, 2); remembers in `state`."""


@lru_cache(maxsize=64)
def _press_counts(start: int) -> NDArray[np.int8]:
    """Count the presses from one cell to every other, by breadth-first search; -1 where there is no way."""
    counts = np.full(_CELLS + 1, -1, np.int8)
    counts[start] = 0
    for presses in count(1):
        last = np.flatnonzero(counts == presses - 1)
        if not len(last):
            break
        reached = np.concatenate([*(last + step for step in _STEPS.values()), 2 * last, last[last % 2 == 0] // 2, [0]])
        reached = reached[reached <= _CELLS]
        counts[reached[counts[reached] < 0]] = presses
    return counts


def _presses_before(cell: int) -> Iterator[tuple[int, int]]:
    """Give every press that leads to a cell other than 0, with the cell it leads from."""
    yield from ((button, cell - step) for button, step in _STEPS.items() if cell >= step)
    if cell % 2 == 0:
        yield DOUBLE, cell // 2
    if 2 * cell <= _CELLS:
        yield HALF, 2 * cell


def _trace(counts: NDArray[np.int8], cell: int) -> tuple[int, ...]:
    """Walk back from a cell to where the counts start; give the presses in their order."""
    presses: list[int] = []
    while counts[cell] > 0:
        button, cell = (
            next((button, at) for button, at in _presses_before(cell) if counts[at] == counts[cell] - 1)
            if cell
            else (CLEAR, cell)
        )
        presses.append(button)
        if button == CLEAR:
            break
    return tuple(reversed(presses))


@lru_cache(maxsize=4096)
def presses_to(bet_now: int, target: int) -> tuple[int, ...]:
    """Plan the presses from the amount in the bet field to another; both in units of 10^-9.

    The shortest way for targets up to 5 coins (MAX is left out: it depends on the balance). A larger
    target is reached by doubling, and an amount that is no eighth of the smallest bet is cleared first.
    """
    if target % MIN_BET or not 0 <= target <= MAX_BET:
        raise ConfigError(f"expected a bet of whole steps of {show(MIN_BET)}, found {show(target)}")
    if bet_now == target:
        return ()
    if bet_now % _CELL or not 0 <= bet_now <= _CELLS * _CELL:
        return (CLEAR, *presses_to(0, target))
    if target > _LARGEST_PLANNED:
        half, odd = divmod(target // MIN_BET, 2)
        return (*presses_to(bet_now, half * MIN_BET), DOUBLE, *([INC_001] * odd))
    return _trace(_press_counts(bet_now // _CELL), target // _CELL)


def bet_units(obs: Rows) -> Ints:
    """Read the bet field in units of 10^-9; a float32 next to a whole eighth of the smallest bet is that eighth."""
    coins = obs[:, BET].astype(np.float64)
    cells = np.rint(coins * (UNIT // _CELL))
    near = np.abs(coins * (UNIT // _CELL) - cells) <= 2e-7 * np.maximum(cells, 1.0)
    return np.where(near, cells * _CELL, np.rint(coins * UNIT)).astype(np.int64)


def next_presses(bets: Ints, target: int) -> tuple[Ints, Ints]:
    """Give for each bet field the next press towards the target, and how many presses are left."""
    codes, left = np.zeros_like(bets), np.zeros_like(bets)
    off = bets != target
    for bet in np.unique(bets[off]).tolist() if off.any() else ():
        plan = presses_to(bet, target)
        codes[bets == bet], left[bets == bet] = plan[0], len(plan)
    return codes, left


@dataclass
class BaselineMemory:
    """What a baseline remembers of its lanes."""

    rng: Rng
    seen: Ints
    """How far the round was at the last row: its tick, -1 before tick 0."""
    note: Ints
    """One number of the policy's own, 0 when a round begins."""


def progress(obs: Rows) -> Ints:
    """Tell how far each lane's round is: its tick, -1 before tick 0."""
    ints: Ints = obs[:, TICK].astype(np.int64)
    ints[obs[:, PHASE] < ACTIVE] = -1
    return ints


@dataclass(frozen=True)
class RuleBaseline:
    """Play by a rule that needs one number of memory a lane; a subclass gives `choose`."""

    bet: float = MIN_BET / UNIT
    """What an order is worth, in coins."""

    def __post_init__(self) -> None:
        if self.target < MIN_BET or self.target % MIN_BET:
            raise ConfigError(f"expected a bet of whole steps of {show(MIN_BET)}, found {self.bet}")

    @cached_property
    def target(self) -> int:
        """Give the bet in units of 10^-9."""
        return to_units(self.bet)

    @cached_property
    def _shown(self) -> np.float32:
        """Give the bet as a row shows it."""
        return np.float32(self.target / UNIT)

    def start(self, lanes: int, rng: Rng) -> BaselineMemory:
        """Remember nothing of so many lanes."""
        return BaselineMemory(rng, np.full(lanes, _UNSEEN), np.zeros(lanes, np.int64))

    def begin(self, state: BaselineMemory, chosen: Chosen) -> None:
        """Forget what is remembered of the chosen lanes."""
        state.seen[chosen] = _UNSEEN

    @property
    def narrows(self) -> bool:
        """Tell that lanes can be left."""
        return True

    def keep(self, state: BaselineMemory, kept: Ints) -> None:
        """Remember these lanes alone."""
        state.seen, state.note = state.seen[kept], state.note[kept]

    def act(self, obs: Rows, state: BaselineMemory) -> Actions:
        """Choose for every lane."""
        now = progress(obs)
        state.note[now < state.seen] = 0
        state.seen[:] = now
        return self.choose(obs, state)

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:
        """Choose for every lane, new rounds noticed."""
        raise NotImplementedError

    def order(self, obs: Rows, main: Ints) -> Actions:
        """Give actions that press towards the bet; a buy or a sidebet waits until its last press."""
        actions = np.zeros((len(main), 2), np.int64)
        actions[:, 0] = main
        off = np.flatnonzero(obs[:, BET] != self._shown)
        if len(off):
            codes, left = next_presses(bet_units(obs[off]), self.target)
            early = off[(left > 1) & (main[off] != SELL)]
            actions[early, 0] = WAIT
            actions[off, 1] = codes
        return actions


@dataclass(frozen=True)
class Wait(RuleBaseline):
    """Do nothing, for ever."""

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:  # noqa: ARG002
        """Wait."""
        return np.zeros((len(obs), 2), np.int64)


@dataclass(frozen=True)
class Random(RuleBaseline):
    """Choose by chance, whatever is shown."""

    weights: tuple[float, ...] = field(default=(1.0,) * (HEADS[0][0] * HEADS[0][1]))
    """Of the 36 pairs (action, adjustment), the adjustments of WAIT first; they need not sum to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = HEADS[0][0] * HEADS[0][1]
        if len(self.weights) != pairs or min(self.weights) < 0.0 or not sum(self.weights) > 0.0:
            raise ConfigError(f"expected {pairs} weights >= 0, one of them positive; found {self.weights}")

    @classmethod
    def like(cls, actions: Actions) -> Random:
        """Give the random policy with the frequencies of some actions (N, 2)."""
        pairs = np.bincount(actions[:, 0] * HEADS[0][1] + actions[:, 1], minlength=HEADS[0][0] * HEADS[0][1])
        return cls(weights=tuple(pairs.astype(float).tolist()))

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:
        """Draw a pair for every lane."""
        limits = np.cumsum(self.weights)
        drawn = np.searchsorted(limits, state.rng.random(len(obs)) * limits[-1], side="right")
        return np.stack(np.divmod(drawn, HEADS[0][1]), axis=1)


@dataclass(frozen=True)
class SingleEntry(RuleBaseline):
    """Buy once a round, at the first tick from `entry_tick` on; a subclass says when to sell."""

    entry_tick: int = 0

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:
        """Buy, hold or sell."""
        active, held = obs[:, PHASE] == ACTIVE, obs[:, QTY] > 0
        enters = active & ~held & (state.note == 0) & (obs[:, TICK] >= self.entry_tick)
        main = np.where(enters, BUY, np.where(active & held & self.exits(obs), SELL, WAIT))
        actions = self.order(obs, main)
        state.note[actions[:, 0] == BUY] = 1
        return actions

    def exits(self, obs: Rows) -> Chosen:
        """Tell where a position is to be sold."""
        raise NotImplementedError


@dataclass(frozen=True)
class Hold(SingleEntry):
    """Buy once a round and sell k ticks later."""

    k: int = 40

    def exits(self, obs: Rows) -> Chosen:
        """Tell where the k ticks are over."""
        return obs[:, TIME_IN_POSITION] >= self.k


@dataclass(frozen=True)
class TakeProfit(SingleEntry):
    """Buy once a round; sell at a profit or at a loss that was fixed before."""

    profit: float = 0.25
    """Of the position's cost."""
    loss: float = 0.15

    def exits(self, obs: Rows) -> Chosen:
        """Tell where the profit or the loss is reached."""
        return (obs[:, PNL_PCT] >= self.profit) | (obs[:, PNL_PCT] <= -self.loss)


@dataclass(frozen=True)
class AlwaysSidebet(RuleBaseline):
    """Place a sidebet as soon as one is allowed: in the presale, then whenever the last one is over."""

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:
        """Bet where no bet of this round can be open and the balance allows it; `note` is when the next may start."""
        phase, tick = obs[:, PHASE], obs[:, TICK].astype(np.int64)
        free = ((phase == PRESALE) | (phase == ACTIVE)) & (tick >= state.note) & (obs[:, BALANCE] >= self.bet)
        actions = self.order(obs, np.where(free, SIDEBET, WAIT))
        state.note[:] = np.where(actions[:, 0] == SIDEBET, tick + SIDEBET_TICKS, state.note)
        return actions


@dataclass(frozen=True)
class SweetSpot(RuleBaseline):
    """Buy when the price comes into a range; sell above it, below a floor, or after some ticks.

    After an entry the price must leave the range and come back before the next one.
    """

    low: float = 25.0
    high: float = 50.0
    floor: float = 20.0
    longest: int = 60
    """Ticks that a position is held at most."""

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:
        """Buy, hold or sell; `note` is 1 from an entry until the price has left the range."""
        price, held, active = obs[:, PRICE], obs[:, QTY] > 0, obs[:, PHASE] == ACTIVE
        inside = (price >= self.low) & (price <= self.high)
        state.note[~inside] = 0
        leaves = (price > self.high) | (price < self.floor) | (obs[:, TIME_IN_POSITION] >= self.longest)
        enters = active & ~held & inside & (state.note == 0)
        actions = self.order(obs, np.where(enters, BUY, np.where(active & held & leaves, SELL, WAIT)))
        state.note[actions[:, 0] == BUY] = 1
        return actions


def _human() -> VectorPolicy:
    from playproof.games.crash.players.human import Human

    return Human()


@dataclass(frozen=True)
class BaselineEntry:
    """One line of the table of baselines."""

    doc: str
    make: Callable[[], VectorPolicy]


BASELINES: dict[str, BaselineEntry] = {
    "wait": BaselineEntry("does nothing; the best that the published game allows", Wait),
    "random": BaselineEntry("presses any pair of buttons, each equally often", Random),
    "hold-40": BaselineEntry("buys at tick 0 and sells 40 ticks later; hold-k for any other k", Hold),
    "take-profit": BaselineEntry("buys at tick 0, sells at +25 % or -15 %", TakeProfit),
    "sidebet": BaselineEntry("always has a sidebet open", AlwaysSidebet),
    "sweet-spot": BaselineEntry("buys at 25x to 50x; sells above 50x, below 20x or after 60 ticks", SweetSpot),
    "human": BaselineEntry("a scripted person: moods, hesitation, bet adjustments, mistakes", _human),
}


def make_baseline(name: str) -> VectorPolicy:
    """Make the baseline of a name; `hold-k` is known for every k."""
    if name in BASELINES:
        return BASELINES[name].make()
    if match := re.fullmatch(r"hold-([1-9][0-9]*)", name):
        return Hold(k=int(match[1]))
    raise UnknownName("baseline", name, [*BASELINES, "hold-k"])


class SingleEnvAdapter:
    """Sit a policy of many lanes down in one: row in, action out (playproof.game.Policy)."""

    def __init__(self, policy: VectorPolicy, rng: Rng) -> None:
        self.policy = policy
        self.state = policy.start(1, rng)

    def act(self, observation: Observation) -> tuple[int, int]:
        """Choose for one row."""
        main, adjustment = self.policy.act(np.asarray(observation, np.float32)[None, :], self.state)[0].tolist()
        return main, adjustment


def _seat(name: str, rng: Rng) -> SingleEnvAdapter:
    return SingleEnvAdapter(make_baseline(name), rng)


def game_baselines(names: Sequence[str] = tuple(BASELINES)) -> dict[str, Baseline]:
    """Give the baselines as the Game record lists them."""
    return {
        name: Baseline(BASELINES[name].doc, "policy", "buttons", partial(_seat, name), partial(make_baseline, name))
        for name in names
    }
