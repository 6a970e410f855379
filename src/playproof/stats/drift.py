"""Watch for change: e-detectors, which multiply evidence from every possible moment of change on.

A detector takes e-values: numbers of at least 0 whose expectation is at most 1 as long as nothing has changed. It holds
M = e (1 + M), the sum over all moments of the evidence since then, and alarms at a level; without a change the expected
number of steps to a false alarm is then at least that level, whatever is looked at and whenever (Shin, Ramdas, Rinaldo:
E-detectors, 2022). Pure; times and data are the caller's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from playproof.errors import ConfigError

BETS = (0.05, 0.1, 0.2, 0.4)
POWERS = (0.3, 0.5, 0.7)
RATES = (0.25, 0.5, 2.0, 4.0)


@dataclass
class EDetector:
    """One stream of evidence, as a mixture: one sum for each way of betting, their mean against the level."""

    level: float
    """Expected steps to a false alarm, at least."""
    ways: int
    sums: list[float] = field(init=False)
    steps: int = field(default=0, init=False)
    alarms: list[int] = field(default_factory=list, init=False)
    """Steps at which it alarmed; it begins anew after each."""

    def __post_init__(self) -> None:
        if not self.level > 1 or self.ways < 1:
            raise ConfigError(f"expected a level above 1 and a way to bet, found {self.level} and {self.ways}")
        self.sums = [0.0] * self.ways

    @property
    def value(self) -> float:
        """Give the evidence that something has changed; the level is an alarm."""
        return sum(self.sums) / self.ways

    def update(self, evidence: Sequence[float]) -> bool:
        """Take one e-value a way; tell whether it alarms."""
        self.steps += 1
        self.sums = [value * (1.0 + before) for value, before in zip(evidence, self.sums, strict=True)]
        if not self.value < self.level:
            self.alarms.append(self.steps)
            self.sums = [0.0] * self.ways
            return True
        return False


def rate_evidence(happened: bool, chance: float) -> tuple[float, ...]:
    """Give likelihood ratios of an event's chance being a quarter to four times what it was."""
    rates = (min(0.999, chance * rate) for rate in RATES)
    return tuple(rate / chance if happened else (1.0 - rate) / (1.0 - chance) for rate in rates)


def mean_evidence(value: float, mean: float, low: float, high: float) -> tuple[float, ...]:
    """Give bets on the mean of a bounded number having moved up or down.

    A value outside its bounds, or one that is no number, counts as the bound that speaks most for a change.
    """
    if not low <= value <= high:
        value = high if value > high else low
    up, down = (value - mean) / (mean - low), (mean - value) / (high - mean)
    return tuple(1.0 + bet * side for bet in BETS for side in (up, down))


@dataclass
class ConformalRank:
    """Where a number stands among those of the past: uniform in [0, 1] as long as all are exchangeable."""

    rng: np.random.Generator
    """Breaks ties."""
    seen: list[float] = field(default_factory=list, init=False)

    def update(self, value: float) -> float:
        """Give the rank of a new number, and remember it."""
        below, upto = bisect_left(self.seen, value), bisect_right(self.seen, value)
        share = (below + self.rng.random() * (upto - below + 1)) / (len(self.seen) + 1)
        insort(self.seen, value)
        return float(min(max(share, 1e-6), 1.0 - 1e-6))


def rank_evidence(share: float) -> tuple[float, ...]:
    """Give power bets on ranks coming from either end."""
    return tuple(power * side ** (power - 1.0) for power in POWERS for side in (share, 1.0 - share))


WAYS = {"rate": len(RATES), "mean": 2 * len(BETS), "rank": 2 * len(POWERS)}
"""How many e-values each kind of evidence gives."""
