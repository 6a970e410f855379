"""How long windows live: hazard, survival, and whether the hazard is the same at every age.

Ages are whole ticks from 1. A life may be joined late (it is known to have lasted `entered` ticks before anybody
looked) and may be lost from sight (`ended` False: it lasted at least `end` ticks).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError

Floats = NDArray[np.float64]
_STEPS, _NEWTON = 200, 50


@dataclass(frozen=True)
class Lifetimes:
    """How long some windows lived, in ticks."""

    entered: NDArray[np.int64]
    """Ticks that a life had lasted when it was first seen, 0 from its beginning."""
    end: NDArray[np.int64]
    """The tick at which it ended, or the last at which it was seen alive."""
    ended: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if not len(self.entered) == len(self.end) == len(self.ended):
            raise InputError("expected as many ages at entry as at the end, found other numbers")
        if len(self.end) and (self.entered.min() < 0 or (self.end - self.ended < self.entered).any()):
            raise InputError("expected every life to be seen alive before it ends, found one that was not")

    @property
    def deaths(self) -> int:
        """Give how many ends were seen."""
        return int(self.ended.sum())

    @property
    def exposure(self) -> int:
        """Give the ticks at which a life was at risk."""
        return int((self.end - self.entered).sum())

    def between(self, low: int, high: float) -> tuple[int, int]:
        """Give the deaths and the ticks at risk at ages low < age <= high."""
        risk = np.minimum(self.end, high) - np.maximum(self.entered, low)
        deaths = self.ended & (self.end > low) & (self.end <= high)
        return int(deaths.sum()), int(np.maximum(risk, 0).sum())


def lives(ends: NDArray[np.int64]) -> Lifetimes:
    """Give lives that were all seen from their beginning to their end."""
    ends = np.asarray(ends, np.int64)
    return Lifetimes(np.zeros_like(ends), ends, np.ones(len(ends), np.bool_))


@dataclass(frozen=True)
class Hazard:
    """The chance that a tick is the last, and its interval."""

    value: float
    interval: tuple[float, float]
    deaths: int
    exposure: int


def constant_hazard(lifetimes: Lifetimes, level: float = 0.95) -> Hazard:
    """Estimate one hazard for all ages, with the interval of the likelihood ratio."""
    return hazard_of(lifetimes.deaths, lifetimes.exposure, level)


def hazard_of(deaths: int, exposure: int, level: float = 0.95) -> Hazard:
    """Estimate a hazard from deaths and ticks at risk."""
    if exposure <= 0:
        return Hazard(math.nan, (0.0, 1.0), deaths, exposure)
    value, drop = deaths / exposure, quantile_chi2(level, 1) / 2
    best = _binomial(value, deaths, exposure)

    def inside(hazard: float) -> bool:
        return best - _binomial(hazard, deaths, exposure) <= drop

    return Hazard(value, (_edge(inside, value, 0.0), _edge(inside, value, 1.0)), deaths, exposure)


def _binomial(hazard: float, deaths: int, exposure: int) -> float:
    """Give the log likelihood of a hazard."""
    alive = exposure - deaths
    dead = deaths * math.log(hazard) if deaths and hazard > 0 else (-math.inf if deaths else 0.0)
    lived = alive * math.log1p(-hazard) if alive and hazard < 1 else (-math.inf if alive else 0.0)
    return dead + lived


def _edge(inside: Callable[[float], bool], within: float, outer: float) -> float:
    """Find by bisection where a stretch around `within` ends towards `outer`."""
    if inside(outer):
        return outer
    for _ in range(_STEPS):
        middle = (within + outer) / 2
        within, outer = (middle, outer) if inside(middle) else (within, middle)
    return within


@dataclass(frozen=True)
class HazardTest:
    """A constant hazard against one that may differ by age."""

    against: str
    statistic: float
    """Twice the gain in log likelihood."""
    freedom: int
    p: float
    estimates: tuple[float, ...]
    """Weibull: the shape, 1 if constant; piecewise: the hazard of each band."""


def weibull_test(lifetimes: Lifetimes) -> HazardTest:
    """Test a constant hazard against S(t) = exp(-rate t^shape), by likelihood ratio."""
    constant = _binomial(lifetimes.deaths / max(lifetimes.exposure, 1), lifetimes.deaths, lifetimes.exposure)
    if lifetimes.deaths < 2:
        return HazardTest("weibull", 0.0, 1, 1.0, (1.0,))
    shape = _highest(lambda log_shape: _weibull(lifetimes, math.exp(log_shape)), math.log(0.1), math.log(10.0))
    statistic = max(0.0, 2 * (_weibull(lifetimes, math.exp(shape)) - constant))
    return HazardTest("weibull", statistic, 1, survival_chi2(statistic, 1), (math.exp(shape),))


def _weibull(lifetimes: Lifetimes, shape: float) -> float:
    """Give the log likelihood of a shape at its best rate, found by Newton's method; it is concave in the log rate."""
    entered, end, died = lifetimes.entered.astype(np.float64), lifetimes.end.astype(np.float64), lifetimes.ended
    lasted = np.where(died, end - 1, end) ** shape - entered**shape
    width = (end[died] ** shape) - (end[died] - 1) ** shape
    total = float(lasted.sum())

    log_rate = math.log(lifetimes.deaths / max(float((end**shape - entered**shape).sum()), 1e-300))
    for _ in range(_NEWTON):
        lived = math.exp(log_rate) * width
        share = lived / np.expm1(lived)
        slope = float(share.sum()) - math.exp(log_rate) * total
        bend = float((share * (1 - share * np.exp(lived))).sum()) - math.exp(log_rate) * total
        step = slope / bend
        log_rate -= max(min(step, 1.0), -1.0)
        if abs(step) < 1e-10:
            break
    rate = math.exp(log_rate)
    return float(np.log(-np.expm1(-rate * width)).sum()) - rate * total


def _highest(value: Callable[[float], float], low: float, high: float) -> float:
    """Find the maximum of a function with one peak by golden section."""
    share = (math.sqrt(5) - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = value(left), value(right)
    while high - low > 1e-6:
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = value(right)
    return (low + high) / 2


def piecewise_test(lifetimes: Lifetimes, edges: Sequence[int]) -> HazardTest:
    """Test a constant hazard against one of its own in each band of ages, by likelihood ratio.

    Edges are inner ones: (50, 100) makes the bands 1 to 50, 51 to 100 and above.
    """
    bands = hazard_bands(lifetimes, edges)
    used = [band for band in bands if band.exposure]
    constant = _binomial(lifetimes.deaths / max(lifetimes.exposure, 1), lifetimes.deaths, lifetimes.exposure)
    split = sum(_binomial(band.value, band.deaths, band.exposure) for band in used)
    statistic, freedom = max(0.0, 2 * (split - constant)), max(len(used) - 1, 0)
    p = survival_chi2(statistic, freedom) if freedom else 1.0
    return HazardTest("piecewise", statistic, freedom, p, tuple(band.value for band in bands))


def hazard_bands(lifetimes: Lifetimes, edges: Sequence[int], level: float = 0.95) -> tuple[Hazard, ...]:
    """Estimate the hazard in each band of ages."""
    limits = [0, *edges, math.inf]
    if any(high <= low for low, high in pairwise(limits)):
        raise InputError(f"expected rising edges above 0, found {list(edges)}")
    return tuple(hazard_of(*lifetimes.between(int(low), high), level) for low, high in pairwise(limits))


def quantile_bands(lifetimes: Lifetimes, bands: int = 6) -> tuple[int, ...]:
    """Give inner edges that cut the deaths into bands of about equal number."""
    ends = np.sort(lifetimes.end[lifetimes.ended])
    if not len(ends):
        return ()
    edges = np.unique(np.quantile(ends, np.arange(1, bands) / bands).astype(int))
    return tuple(int(edge) for edge in edges if 0 < edge < ends[-1])


@dataclass(frozen=True)
class Survival:
    """Kaplan and Meier's estimate at the ages at which lives ended, with its interval."""

    ages: NDArray[np.int64]
    alive: Floats
    low: Floats
    high: Floats

    def at(self, age: int) -> tuple[float, float, float]:
        """Give the share alive after an age, and its interval."""
        index = int(np.searchsorted(self.ages, age, side="right")) - 1
        if index < 0:
            return 1.0, 1.0, 1.0
        return float(self.alive[index]), float(self.low[index]), float(self.high[index])


def kaplan_meier(lifetimes: Lifetimes, level: float = 0.95) -> Survival:
    """Estimate the share that lives longer than an age; intervals on the log-minus-log scale (Greenwood)."""
    from statistics import NormalDist

    ages, deaths = np.unique(lifetimes.end[lifetimes.ended], return_counts=True)
    at_risk = np.searchsorted(np.sort(lifetimes.entered), ages, side="left") - np.searchsorted(
        np.sort(lifetimes.end), ages, side="left"
    )
    alive = np.cumprod(1 - deaths / at_risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(deaths / (at_risk * (at_risk - deaths)))
        error = np.sqrt(variance) / np.abs(np.log(alive))
        width = NormalDist().inv_cdf((1 + level) / 2) * error
        low, high = alive ** np.exp(width), alive ** np.exp(-width)
    gone = alive <= 0
    return Survival(
        ages.astype(np.int64), alive, np.where(gone, 0.0, low), np.where(gone, high[~gone][-1:].sum(), high)
    )


def survival_chi2(statistic: float, freedom: int) -> float:
    """Give the chance that a chi-square variable is larger, by the recursion over its degrees of freedom."""
    if freedom < 1:
        raise InputError(f"expected at least 1 degree of freedom, found {freedom}")
    half = statistic / 2
    if half <= 0:
        return 1.0
    result, index = (math.erfc(math.sqrt(half)), 1) if freedom % 2 else (math.exp(-half), 2)
    while index < freedom:
        result += math.exp(index / 2 * math.log(half) - half - math.lgamma(index / 2 + 1))
        index += 2
    return min(result, 1.0)


def quantile_chi2(level: float, freedom: int) -> float:
    """Give the value that a chi-square variable stays below with a probability."""
    return _edge(lambda value: survival_chi2(value, freedom) >= 1 - level, 0.0, 1e4)
