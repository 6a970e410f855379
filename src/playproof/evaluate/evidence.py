"""Weigh profits against luck: a test that stays valid whenever one looks, and an interval.

Leaves out: SPA, deflated Sharpe, PBO, calibration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError

BETS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Shares of the bankroll that the bettors on the claim put on each window."""
REJECT = 20.0
"""A bankroll that has grown so much happens to a game without edge at most once in 20."""


@dataclass(frozen=True)
class EProcess:
    """The bankroll of a bettor who bets on the claim, window by window, as logarithms."""

    logs: NDArray[np.float64]

    @property
    def value(self) -> float:
        """Give the bankroll after the last window, 1 before the first."""
        return float(np.exp(min(self.logs[-1], 700.0))) if len(self.logs) else 1.0

    @property
    def crossed(self) -> int | None:
        """Give the number of windows after which the bankroll first reached 20, None if it never did."""
        hits = np.flatnonzero(self.logs >= math.log(REJECT))
        return int(hits[0]) + 1 if len(hits) else None


def e_process(returns: NDArray[np.float64]) -> EProcess:
    """Bet on a claim of profit, each window's return being per unit reserved BEFORE the window.

    W = mean over lambda of the product of (1 + lambda X). Where the expected return of every window,
    given all before it, is at most 0, W is a supermartingale, so that it ever reaches 20 with
    probability at most 1/20, whenever one stops. A return divided by what was staked in hindsight
    is not of this kind.
    """
    if not np.isfinite(returns).all() or (len(returns) and float(returns.min()) < -1.0):
        raise InputError("expected returns of at least -1 per unit reserved, found a lower one or NaN")
    bets = np.asarray(BETS)[:, None]
    logs = np.cumsum(np.log1p(bets * returns[None, :]), axis=1)  # (bets, windows)
    return EProcess(np.logaddexp.reduce(logs, axis=0) - math.log(len(BETS)))


def bootstrap_interval(
    values: NDArray[np.float64], rng: np.random.Generator, level: float = 0.95, draws: int = 2000
) -> tuple[float, float]:
    """Give the percentile interval of the mean, windows drawn whole."""
    if not len(values):
        return -math.inf, math.inf
    means = values[rng.integers(len(values), size=(draws, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def windows_needed(returns: NDArray[np.float64]) -> int | None:
    """Give how many windows like these would bring the bankroll to 20; None if no number would."""
    if not len(returns):
        return None
    growth = max(float(np.log1p(bet * returns).mean()) for bet in BETS)
    return math.ceil(math.log(REJECT * len(BETS)) / growth) if growth > 0 else None
