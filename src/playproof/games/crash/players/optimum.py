"""The best that can be done in the two worlds with an edge, to measure learners against.

`drift`: dynamic programming over (ticks left of the countdown, value of the position over its
largest cost). Prices do not know of the rug, a tick moves them by a known mean, and open cost is
capped; so the best stationary policy buys at the cap as soon as a countdown runs, sells when it ends,
and on the way sells a position that has fallen so far that the gain of a whole one, bought again a
tick later, outweighs the tick missed. The programme neglects three small things: what a rug pays
(at most 2 %), that volatility grows with the price, and the presses until the first bet; so its value
is a little above or below what `best_policy` earns when it is played, and the latter is the yardstick.

`hazard`: in a hot round a sidebet wins with probability p = 1 - 0.98^40, in any other with 18 %.
The Bayes-optimal bettor bets whenever he can in hot rounds and never else; a bet of one unit after
the other then earns (5 p - 1) (1 + (1 - p) + (1 - p)^2 + ...) = 5 - 1 / p units a hot round.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from playproof.errors import UnknownName
from playproof.game.vector_env import BatchPolicy
from playproof.games.crash.features.state import ACTIVE, PRESALE
from playproof.games.crash.features.table import POLICY
from playproof.games.crash.players.baselines import (
    BALANCE,
    BUY,
    PHASE,
    PNL_PCT,
    QTY,
    SELL,
    SIDEBET,
    TICK,
    WAIT,
    Actions,
    BaselineMemory,
    Rows,
    RuleBaseline,
    bet_units,
)
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.rules.prices import RUG_CHANCE
from playproof.games.crash.rules.worlds import (
    COUNTDOWN_CHANCE,
    COUNTDOWN_TICKS,
    DRIFT_CHANGE,
    HOT_HAZARD,
    HOT_SHARE,
    TICK_MS,
    WORLDS,
)
from playproof.money import UNIT

TIMER, RATIO = POLICY.index("cooldown_timer_ms"), POLICY.index("rugpool_ratio")
HOT_RATIO = 0.8
SURVIVAL = 1.0 - RUG_CHANCE
_GRID = np.geomspace(0.4, 2.5, 241)
"""Value of a position over its largest cost."""
_DRAWS = 33

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DriftSolution:
    """The best stationary policy of world `drift`, per unit of the cap on open cost."""

    value: float
    """Expected profit of a round, from tick 0."""
    refresh: tuple[float, ...]
    """By ticks left: below this value over cost a position is sold, to be bought whole again."""


def _changes() -> Floats:
    """Give equally likely changes of a tick inside a countdown, at a price near 1."""
    u = (np.arange(_DRAWS) + 0.5) / _DRAWS
    changes: Floats = DRIFT_CHANGE + 0.055 * (u - 0.5)
    return changes


def _expected(values: Floats, changes: Floats) -> Floats:
    """Give the mean of a function on the grid after a change, (grid,)."""
    moved = _GRID[:, None] * (1.0 + changes[None, :])
    floats: Floats = np.interp(moved, _GRID, values).mean(axis=1)
    return floats


@lru_cache(maxsize=1)
def solve_drift(rounds: int = 40) -> DriftSolution:
    """Iterate values from countdown to countdown until they stand still.

    held(k, x): best expected profit to come, with a position worth x times the cap and k ticks left;
    flat(k): the same without one. A choice is made, then the tick passes.
    """
    changes, flat_outside = _changes(), 0.0
    refresh = np.zeros(COUNTDOWN_TICKS + 1)
    for _ in range(rounds):
        held = _GRID + SURVIVAL * flat_outside  # no ticks left: sell
        flat = SURVIVAL * flat_outside
        for left in range(1, COUNTDOWN_TICKS + 1):
            hold = SURVIVAL * _expected(held, changes)
            sell = _GRID + SURVIVAL * flat
            buy = float(np.interp(1.0, _GRID, hold)) - 1.0
            refresh[left] = _GRID[np.argmax(hold >= sell)] if sell[0] > hold[0] else 0.0
            held, flat = np.maximum(hold, sell), max(buy, SURVIVAL * flat)
        waiting = SURVIVAL * COUNTDOWN_CHANCE / (1.0 - SURVIVAL * (1.0 - COUNTDOWN_CHANCE))
        flat_outside = waiting * flat
    return DriftSolution(flat_outside, tuple(refresh.tolist()))


@dataclass(frozen=True)
class BestDrift(RuleBaseline):
    """Hold as much as the cap allows while a countdown runs, nothing outside."""

    bet: float = 0.1
    refresh: tuple[float, ...] = ()
    """By ticks left: below this value over cost, sell and buy again; empty: never."""

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:  # noqa: ARG002
        """Buy, hold or sell."""
        left = np.rint(obs[:, TIMER] / TICK_MS).astype(np.int64)
        active, held = obs[:, PHASE] == ACTIVE, obs[:, QTY] > 0
        runs = active & (left > 0)
        limits = np.array(self.refresh or (0.0,) * (COUNTDOWN_TICKS + 1))
        fallen = 1.0 + obs[:, PNL_PCT] < limits[np.clip(left, 0, COUNTDOWN_TICKS)]
        main = np.where(runs & ~held, BUY, np.where(active & held & (~runs | fallen), SELL, WAIT))
        return self.order(obs, main)


@dataclass(frozen=True)
class BestHazard(RuleBaseline):
    """Have a sidebet open all through the rounds that show themselves as hot, and none else."""

    def choose(self, obs: Rows, state: BaselineMemory) -> Actions:
        """Bet where no bet of this round can be open; `note` is when the next may start."""
        phase, tick = obs[:, PHASE], obs[:, TICK].astype(np.int64)
        hot = obs[:, RATIO] >= np.float32(HOT_RATIO) * (1 - 1e-6)
        free = hot & ((phase == PRESALE) | (phase == ACTIVE)) & (tick >= state.note) & (obs[:, BALANCE] >= self.bet)
        actions = self.order(obs, np.where(free, SIDEBET, WAIT))
        placed = (actions[:, 0] == SIDEBET) & (bet_units(obs) >= 0)
        state.note[:] = np.where(placed, tick + SIDEBET_TICKS, state.note)
        return actions


def hot_win_chance() -> float:
    """Give the chance that a sidebet wins in a hot round."""
    return float(1.0 - (1.0 - HOT_HAZARD * RUG_CHANCE) ** SIDEBET_TICKS)


def hazard_value() -> float:
    """Give the expected profit of a round of world `hazard`, in units of one bet, of one bet after the other."""
    return HOT_SHARE * (5.0 - 1.0 / hot_win_chance())


def best_policy(world: str) -> BatchPolicy:
    """Give the best stationary policy of a world with an edge, for the sets `policy` and `buttons`."""
    if world == "drift":
        cap = WORLDS[world].open_cost or UNIT
        return BestDrift(bet=cap / UNIT, refresh=solve_drift().refresh)
    if world == "hazard":
        return BestHazard()
    raise UnknownName("world with a known best policy", world, ("drift", "hazard"))
