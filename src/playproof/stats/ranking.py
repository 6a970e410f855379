"""Rank agents by what they earned, with bootstrap intervals over windows.

Alpha is the return on the equity at a window's beginning minus that of buying and holding; the others
are the mean of all other agents of the same window, so that what the market did cancels out. What an
agent did several times in one window, such as in forks of it, counts as one.
Leaves out: verdicts (validate).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from playproof.json_types import Json
from playproof.money import UNIT
from playproof.stats.evidence import bootstrap_interval


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What came of one agent in one window; money in the smallest unit."""

    window: str
    agent: str
    archetype: str
    pnl: int
    start_equity: int
    hold_return: float
    """What buying and holding returned in the window."""
    fees: int
    trades: int
    decisions: int
    rejected: int
    squares: tuple[float, ...] = ()
    """Of each forecast that has been resolved: its distance from what happened, squared."""


@dataclass(frozen=True)
class RankedAgent:
    """One agent's figures, means over windows; money in the currency."""

    agent: str
    archetype: str
    windows: int
    profit: float
    profit_interval: tuple[float, float]
    """Of the mean; (-inf, inf) with fewer windows than an interval needs."""
    alpha: float
    alpha_interval: tuple[float, float]
    over_others: float
    """Profit minus the mean of all other agents in the same window."""
    over_interval: tuple[float, float]
    fees: float
    trades: float
    valid: float
    """Share of answers that were decisions."""
    brier: float | None = None
    """Mean square of the distance of forecasts from what happened; None without any that was resolved."""
    forecasts: int = 0

    def to_json(self) -> Json:
        """Give the figures as JSON; an interval that there is none of is null."""
        figures = asdict(self)
        for name in ("profit_interval", "alpha_interval", "over_interval"):
            if not np.isfinite(figures[name]).all():
                figures[name] = None
        return figures


def rank_results(results: Sequence[AgentResult], seed: int) -> list[RankedAgent]:
    """Rank whoever took part in some windows, the most profitable first; who never decided anything comes last."""
    means: dict[tuple[str, str], list[float]] = {}
    for result in results:
        means.setdefault((result.window, result.agent), []).append(result.pnl / UNIT)
    pnl = {index: sum(mean) / len(mean) for index, mean in means.items()}
    totals: dict[str, list[float]] = {}
    for (window, _), earned in pnl.items():
        totals.setdefault(window, []).append(earned)
    over = {
        (window, agent): earned - (sum(totals[window]) - earned) / max(1, len(totals[window]) - 1)
        for (window, agent), earned in pnl.items()
    }
    agents = dict.fromkeys(item.agent for item in results)
    ranked = [_figures([item for item in results if item.agent == agent], pnl, over, seed) for agent in agents]
    return sorted(ranked, key=lambda item: (item.valid == 0, -item.profit))


def _figures(
    own: Sequence[AgentResult], pnl: dict[tuple[str, str], float], over: dict[tuple[str, str], float], seed: int
) -> RankedAgent:
    agent, windows = own[0].agent, list(dict.fromkeys(item.window for item in own))
    earned = np.array([pnl[window, agent] for window in windows])
    others = np.array([over[window, agent] for window in windows])
    start = {item.window: item.start_equity / UNIT for item in own}
    held = {item.window: item.hold_return for item in own}
    alpha = earned / np.array([start[window] for window in windows]) - np.array([held[window] for window in windows])
    squares = [value for item in own for value in item.squares]
    return RankedAgent(
        agent,
        own[0].archetype,
        len(windows),
        float(earned.mean()),
        interval(earned, seed),
        float(alpha.mean()),
        interval(alpha, seed),
        float(others.mean()),
        interval(others, seed),
        sum(item.fees for item in own) / UNIT / len(own),
        sum(item.trades for item in own) / len(own),
        1 - sum(item.rejected for item in own) / max(1, sum(item.decisions for item in own)),
        sum(squares) / len(squares) if squares else None,
        len(squares),
    )


def interval(values: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """Give the 95 % bootstrap interval of the mean over windows."""
    low, high = bootstrap_interval(values, np.random.default_rng(seed))
    return float(low), float(high)
