"""Describe what a policy earned over windows: profit factor, Sharpe ratio, drawdown, tail, ruin.

Figures, not claims: whether luck explains them is the business of evidence and selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.stats.evidence import bootstrap_interval, e_process, ratio_intervals

Floats = NDArray[np.float64]
TAIL = 0.05
BANKROLL = 20
"""Reserved stakes that a player owns when ruin is asked for."""
_CELLS = 1 << 21


@dataclass(frozen=True)
class Metrics:
    """A policy's windows in figures; returns are per unit reserved before each window."""

    windows: int
    roi: float
    interval: tuple[float, float]
    """95 % interval of the ROI."""
    e_value: float
    profit_factor: float | None
    """What was won per unit lost; None where nothing was lost."""
    sharpe: float
    """Mean by standard deviation, a window; not annualised."""
    max_drawdown: float
    """The deepest fall of the running sum below its highest point, in reserved stakes."""
    cvar: float
    """Mean return of the worst 5 % of the windows."""
    ruin: float
    """Probability that 20 reserved stakes are gone within as many windows."""


def measure_all(
    players: Mapping[str, Floats], draws: Callable[[], np.random.Generator], bankroll: float = BANKROLL
) -> dict[str, Metrics]:
    """Measure players of the same windows; `draws` gives the same random numbers anew, so that they share them."""
    table = np.column_stack(list(players.values()))
    intervals = ratio_intervals(table, np.ones_like(table), draws())
    return {
        name: measure(returns, draws(), bankroll, (float(low), float(high)))
        for (name, returns), (low, high) in zip(players.items(), intervals, strict=True)
    }


def measure(
    returns: Floats,
    rng: np.random.Generator,
    bankroll: float = BANKROLL,
    interval: tuple[float, float] | None = None,
) -> Metrics:
    """Give every figure of a policy's returns; the interval is drawn unless it is known."""
    return Metrics(
        windows=len(returns),
        roi=float(returns.mean()) if len(returns) else 0.0,
        interval=bootstrap_interval(returns, rng) if interval is None else interval,
        e_value=e_process(returns).value,
        profit_factor=profit_factor(returns),
        sharpe=sharpe_ratio(returns),
        max_drawdown=max_drawdown(returns),
        cvar=expected_shortfall(returns),
        ruin=ruin_probability(returns, rng, bankroll),
    )


def profit_factor(pnl: Floats) -> float | None:
    """Give what winning windows won per unit that losing ones lost; None where none lost."""
    lost = -float(pnl[pnl < 0].sum())
    return float(pnl[pnl > 0].sum()) / lost if lost > 0 else None


def sharpe_ratio(returns: Floats) -> float:
    """Give mean by standard deviation, a window; 0 where nothing varies."""
    spread = float(returns.std(ddof=1)) if len(returns) > 1 else 0.0
    return float(returns.mean()) / spread if spread > 0 else 0.0


def drawdowns(pnl: Floats) -> Floats:
    """Give after each window how far the running sum lies below its highest point, the start included."""
    equity = np.concatenate([[0.0], np.cumsum(pnl)])
    fall: Floats = np.maximum.accumulate(equity) - equity
    return fall[1:]


def max_drawdown(pnl: Floats) -> float:
    """Give the deepest fall of the running sum below its highest point."""
    return float(drawdowns(pnl).max(initial=0.0))


def expected_shortfall(returns: Floats, tail: float = TAIL) -> float:
    """Give the mean of the worst share of the windows; the last one counts by its part."""
    if not 0 < tail <= 1:
        raise InputError(f"expected a tail between 0 and 1, found {tail}")
    if not len(returns):
        return 0.0
    wanted = tail * len(returns)
    whole = math.floor(wanted)
    worst = np.partition(returns, min(whole, len(returns) - 1))
    rest = (wanted - whole) * float(worst[whole]) if whole < len(worst) else 0.0
    return (float(worst[:whole].sum()) + rest) / wanted


def ruin_probability(
    returns: Floats,
    rng: np.random.Generator,
    bankroll: float = BANKROLL,
    windows: int | None = None,
    draws: int = 1000,
) -> float:
    """Give the share of resampled runs in which a bankroll, in reserved stakes, is gone by the end or before."""
    if not len(returns):
        return 0.0
    length, ruined = windows or len(returns), 0
    if length * min(0.0, float(returns.min())) > -bankroll:
        return 0.0
    rows = max(1, _CELLS // length)
    for start in range(0, draws, rows):
        some = min(rows, draws - start)
        runs = np.cumsum(returns[rng.integers(len(returns), size=(some, length), dtype=np.int32)], axis=1)
        ruined += int((runs.min(axis=1) <= -bankroll + 1e-12).sum())
    return ruined / draws
