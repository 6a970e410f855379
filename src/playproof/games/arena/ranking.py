"""Rank the agents of a run by what they earned, with intervals over windows.

Alpha is the return on the equity at a window's beginning minus that of buying and holding; the others
are the mean of all other agents of the same window, so that what the market did cancels out.
Leaves out: verdicts (validate).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.game import resolve
from playproof.games.arena.running import Closed
from playproof.money import UNIT


@dataclass(frozen=True)
class Ranked:
    """One agent's figures, means over windows; money in USD."""

    agent: str
    archetype: str
    windows: int
    profit: float
    profit_interval: tuple[float, float]
    alpha: float
    alpha_interval: tuple[float, float]
    over_others: float
    """Profit minus the mean of all other agents in the same window."""
    over_interval: tuple[float, float]
    fees: float
    trades: float
    valid: float
    """Share of answers that were decisions."""

    def to_json(self) -> dict[str, Any]:
        """Give the figures as JSON."""
        return asdict(self)


def rank(closed: Sequence[Closed], seed: int) -> list[Ranked]:
    """Rank the agents of a run, the most profitable first."""
    pnl = profits(closed)
    starts = np.array([[tally.start_equity for tally in it.tallies] for it in closed]) / UNIT
    alphas = pnl / starts - np.array([it.hold_return for it in closed])[:, None]
    others = pnl - (pnl.sum(1, keepdims=True) - pnl) / max(1, pnl.shape[1] - 1)
    ranked = [_figures(closed, at, pnl[:, at], alphas[:, at], others[:, at], seed) for at in range(pnl.shape[1])]
    return sorted(ranked, key=lambda it: -it.profit)


def profits(closed: Sequence[Closed]) -> NDArray[np.float64]:
    """Give the profits in USD, (windows, agents)."""
    return np.array([[tally.pnl for tally in it.tallies] for it in closed]) / UNIT


def _figures(
    closed: Sequence[Closed],
    at: int,
    pnl: NDArray[np.float64],
    alpha: NDArray[np.float64],
    others: NDArray[np.float64],
    seed: int,
) -> Ranked:
    tallies = [it.tallies[at] for it in closed]
    decisions = sum(tally.decisions for tally in tallies)
    return Ranked(
        tallies[0].agent,
        tallies[0].archetype,
        len(tallies),
        float(pnl.mean()),
        interval(pnl, seed),
        float(alpha.mean()),
        interval(alpha, seed),
        float(others.mean()),
        interval(others, seed),
        sum(tally.fees for tally in tallies) / UNIT / len(tallies),
        sum(tally.trades for tally in tallies) / len(tallies),
        1 - sum(tally.rejected for tally in tallies) / max(1, decisions),
    )


def interval(values: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """Give the 95 % bootstrap interval of the mean over windows."""
    bootstrap: Callable[..., tuple[float, float]] = resolve("playproof.evaluate.evidence:bootstrap_interval")
    low, high = bootstrap(values, np.random.default_rng(seed))
    return float(low), float(high)
