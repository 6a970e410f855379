"""Compare two players window by window, looking as often as one likes: two e-processes and a confidence sequence.

A bettor with a bankroll of 1 bets on "the mean lies above m": each window x in [-1, 1] multiplies it by 1 + lambda
(x - m), with lambda chosen from the windows before alone and below 1/(1 + m). If the mean, given all before, never lies
above m, the bankroll is a supermartingale, so that it ever reaches 1/alpha with probability at most alpha, whenever one
stops (Ville; Waudby-Smith and Ramdas 2024). The same bettor on -x bets on "below".

Half of the bankroll bets the share that would have grown fastest so far (mean over second moment), which finds a steady
edge in few windows; the other half is spread over fixed shares, which no outlier of the past can fool.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError

Floats = NDArray[np.float64]
Ending = Literal["A better", "B better", "equal", "go on", "budget used"]
ALPHA = 0.05
MOST = 0.98
"""Of the bankroll that can be lost in one window."""
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Fixed bets, as parts of the largest."""
PRIOR = 0.1
"""Second moment of the one window that is taken as seen before the first."""
_STEPS = 30
"""Halvings in the search for an end of the confidence sequence: below a billionth of the bound."""


def bankroll(x: Floats, mean: float = 0.0) -> Floats:
    """Give the log bankroll after each window of who bets that the mean lies above one; windows along the last axis."""
    x = np.asarray(x, np.float64)
    if x.size and not (np.isfinite(x).all() and float(np.abs(x).max()) <= 1.0 + 1e-12):
        raise InputError("expected differences within the declared bound, found one beyond it or NaN")
    gain = x - mean
    largest = MOST / max(1.0 + mean, 1e-9)
    seen = np.arange(1, x.shape[-1] + 1)  # windows before, and the one of the prior
    first = _before(gain) / seen
    second = (PRIOR + _before(gain**2)) / seen
    adaptive = np.clip(first / second, 0.0, largest)
    bettors = [np.cumsum(np.log1p(adaptive * gain), axis=-1) + math.log(0.5)]
    weight = math.log(0.5 / len(SHARES))
    bettors += [np.cumsum(np.log1p(share * largest * gain), axis=-1) + weight for share in SHARES]
    result: Floats = np.logaddexp.reduce(bettors, axis=0)
    return result


def _before(values: Floats) -> Floats:
    """Sum what came before each window."""
    total: Floats = np.cumsum(values, axis=-1) - values
    return total


@dataclass(frozen=True)
class SequentialTerms:
    """What is fixed before an experiment starts."""

    bound: float
    """Largest difference that the limits of one window allow, in money."""
    margin: float = 0.0
    """Differences below it do not matter; 0: equality is never concluded."""
    budget: int = 0
    """Windows after which it ends in any case; 0: none."""
    alpha: float = ALPHA
    """Probability of a wrong ending, both directions together."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"expected a bound above 0, found {self.bound}")
        if not 0 <= self.margin < self.bound or self.budget < 0 or not 0 < self.alpha < 0.5:
            raise InputError(
                f"expected a margin from 0 to the bound, a budget of windows and alpha below 0.5, found {self}"
            )

    @property
    def threshold(self) -> float:
        """Give the log bankroll at which one direction is concluded: half of alpha for each."""
        return math.log(2 / self.alpha)


@dataclass(frozen=True)
class SequentialVerdict:
    """How an experiment stands after its windows; money as in the differences."""

    ending: Ending
    ended: int | None
    """Windows after which it ended; None while it goes on."""
    windows: int
    """That were used: those after the ending do not count."""
    logs_a: Floats
    """Log e-value that A earns more, after each window."""
    logs_b: Floats
    mean: float
    interval: tuple[float, float]
    """Confidence sequence of the mean difference after the last window: it holds at all windows together."""
    naive_p: float
    """Of a test that believes this was its only look."""
    naive_first: int | None
    """Windows after which that p first lay below alpha, looking after each."""
    needed: int | None
    """Windows in all that would end it, if they stay as they were; None where no number would."""


def weigh_differences(differences: Sequence[float] | Floats, terms: SequentialTerms) -> SequentialVerdict:
    """Give the ending of an experiment, and where it stands: differences are A less B, window by window.

    The ending is that of the first window after which one is reached, however often it was looked at.
    """
    x = np.asarray(differences, np.float64) / terms.bound
    if terms.budget:
        x = x[: terms.budget]
    up, down = bankroll(x), bankroll(-x)
    ending, ended = _ending(x, up, down, terms)
    used = len(x) if ended is None else ended
    x, up, down = x[:used], up[:used], down[:used]
    low, high = confidence_bounds(x, terms.alpha)
    ps = naive_ps(x)
    small = np.flatnonzero(ps < terms.alpha)
    return SequentialVerdict(
        ending,
        ended,
        used,
        up,
        down,
        float(x.mean() * terms.bound) if used else 0.0,
        (low * terms.bound, high * terms.bound),
        float(ps[-1]) if used else 1.0,
        int(small[0]) + 1 if len(small) else None,
        ended if ended is not None else _needed(x, terms),
    )


def _ending(x: Floats, up: Floats, down: Floats, terms: SequentialTerms) -> tuple[Ending, int | None]:
    """Give the ending that is reached first; a difference goes before equality in the same window."""
    reached: list[tuple[int, int, Ending]] = []
    for rank, (name, logs) in enumerate((("A better", up), ("B better", down))):
        hits = np.flatnonzero(logs >= terms.threshold)
        if len(hits):
            reached.append((int(hits[0]) + 1, rank, "A better" if name == "A better" else "B better"))
    if terms.margin > 0:
        margin = terms.margin / terms.bound
        above = np.maximum.accumulate(bankroll(x, -margin)) >= terms.threshold
        below = np.maximum.accumulate(bankroll(-x, -margin)) >= terms.threshold
        hits = np.flatnonzero(above & below)
        if len(hits):
            reached.append((int(hits[0]) + 1, 2, "equal"))
    if reached:
        ended, _, ending = min(reached)
        return ending, ended
    if terms.budget and len(x) >= terms.budget:
        return "budget used", terms.budget
    return "go on", None


def confidence_bounds(x: Floats, alpha: float = ALPHA) -> tuple[float, float]:
    """Give the confidence sequence of the mean after the last window: what no bettor has refuted up to there.

    Low lies above 0 if and only if the bettor on "above 0" ever reached 2 / alpha, but for the search's precision.
    """
    threshold = math.log(2 / alpha)
    return _low(x, threshold), -_low(-x, threshold)


def _low(x: Floats, threshold: float) -> float:
    """Give the largest mean that the bettor on "above" refutes, by halving."""
    low, high = -1.0, float(x.mean()) if len(x) else -1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        refuted = bool((bankroll(x, middle) >= threshold).any())
        low, high = (middle, high) if refuted else (low, middle)
    return low


def confidence_path(x: Floats, times: Sequence[int], alpha: float = ALPHA) -> tuple[Floats, Floats]:
    """Give the ends of the confidence sequence after some numbers of windows; they only ever come closer."""
    ends = np.array([confidence_bounds(x[:time], alpha) for time in times]).reshape(-1, 2)
    return np.maximum.accumulate(ends[:, 0]), np.minimum.accumulate(ends[:, 1])


def naive_ps(x: Floats) -> Floats:
    """Give after each window the p-value of a z-test that believes it is the only look; windows along the last axis."""
    number = np.arange(1, x.shape[-1] + 1)
    mean = np.cumsum(x, axis=-1) / number
    spread = np.sqrt(np.maximum(np.cumsum(x**2, axis=-1) / number - mean**2, 0.0) * number / np.maximum(number - 1, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(mean) / (spread / np.sqrt(number))
    z = np.where((number < 2) | (spread <= 1e-12), 0.0, z)
    result: Floats = np.vectorize(math.erfc, otypes=[np.float64])(z / math.sqrt(2))
    return result


def _needed(x: Floats, terms: SequentialTerms) -> int | None:
    """Give how many windows like these would conclude a difference, half of the bankroll betting the best share."""
    if not len(x):
        return None
    side = x if x.mean() > 0 else -x
    shares = np.array(SHARES) * MOST
    growth = float(np.log1p(shares[:, None] * side).mean(axis=1).max())
    return max(len(x) + 1, math.ceil((terms.threshold + math.log(2)) / growth)) if growth > 1e-12 else None
