"""Weigh profits against luck: a test that stays valid whenever one looks, intervals, and how much more is needed.

Whatever is drawn again is drawn by whole clusters (windows, sessions): rows of one cluster are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError

Floats = NDArray[np.float64]
Method = Literal["percentile", "bca", "studentised"]

BETS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Shares of the bankroll that the bettors on the claim put on each window."""
REJECT = 20.0
"""A bankroll that has grown so much happens to a game without edge at most once in 20."""
DRAWS = 2000
FOLDS = 5
"""Stretches of time in none of which a claim may be lost."""
FEWEST = 3
"""Windows below which there is no interval."""
SMALL = 30
"""Windows below which an interval is at least Student's: a bootstrap of few windows is too narrow."""
_CELLS = 1 << 20
"""Counts held at once while drawing: 8 MB."""
_NORMAL = NormalDist()


@dataclass(frozen=True)
class EProcess:
    """The bankroll of a bettor who bets on the claim, window by window, as logarithms."""

    logs: Floats

    @property
    def value(self) -> float:
        """Give the bankroll after the last window, 1 before the first."""
        return float(np.exp(min(self.logs[-1], 700.0))) if len(self.logs) else 1.0

    @property
    def crossed(self) -> int | None:
        """Give the number of windows after which the bankroll first reached 20, None if it never did."""
        hits = np.flatnonzero(self.logs >= math.log(REJECT))
        return int(hits[0]) + 1 if len(hits) else None


def e_process(returns: Floats) -> EProcess:
    """Bet on a claim of profit, each window's return being per unit reserved BEFORE the window.

    W = mean over lambda of the product of (1 + lambda X). Where the expected return of every window,
    given all before it, is at most 0, W is a supermartingale, so that it ever reaches 20 with
    probability at most 1/20, whenever one stops. A return divided by what was staked in hindsight
    is not of this kind.
    """
    if not np.isfinite(returns).all() or (len(returns) and float(returns.min()) < -1.0):
        raise InputError("expected returns of at least -1 per unit reserved, found a lower one or NaN")
    logs = np.cumsum(_bet_logs(returns), axis=0)  # (windows, bets)
    return EProcess(np.logaddexp.reduce(logs, axis=1) - math.log(len(BETS)))


def _bet_logs(returns: Floats) -> Floats:
    """Give what each bettor's log bankroll gains in each window: (windows, bets)."""
    return np.log1p(np.asarray(BETS) * returns[:, None])


def cluster_sums(values: Floats, clusters: Sequence[str] | NDArray[np.generic]) -> Floats:
    """Sum rows by cluster, clusters in sorted order; (rows,) gives (clusters,), (rows, k) gives (clusters, k)."""
    names, index = np.unique(np.asarray(clusters), return_inverse=True)
    columns = values[:, None] if values.ndim == 1 else values
    if len(columns) != len(index):
        raise InputError(f"expected a cluster for each of {len(columns)} rows, found {len(index)}")
    sums: Floats = np.stack([np.bincount(index, column, len(names)).astype(np.float64) for column in columns.T], axis=1)
    return sums[:, 0] if values.ndim == 1 else sums


def resample_sums(sums: Floats, rng: np.random.Generator, draws: int = DRAWS) -> Floats:
    """Draw clusters with replacement; give the sums (draws, k) of the columns of `sums` (clusters, k).

    All columns share their draws, so that whatever is compared is compared on the same clusters.
    """
    return np.concatenate([counts @ sums for counts in _counts(len(sums), rng, draws)])


def _counts(clusters: int, rng: np.random.Generator, draws: int) -> Iterator[Floats]:
    """Give how often each cluster was drawn, some draws at a time: (some, clusters)."""
    rows = max(1, _CELLS // max(clusters, 1))
    for start in range(0, draws, rows):
        some = min(rows, draws - start)
        drawn = rng.integers(clusters, size=(some, clusters), dtype=np.int32)
        drawn += np.arange(some, dtype=np.int32)[:, None] * np.int32(clusters)
        yield np.bincount(drawn.ravel(), minlength=some * clusters).reshape(some, clusters).astype(np.float64)


def ratio_intervals(
    numerators: Floats,
    denominators: Floats,
    rng: np.random.Generator,
    level: float = 0.95,
    draws: int = DRAWS,
    method: Method = "percentile",
) -> Floats:
    """Give the interval (k, 2) of each ratio of sums; rows are clusters, columns are what is measured.

    percentile takes the quantiles of the drawn ratios; bca shifts them by the bias and the skew that the
    jackknife shows; studentised takes the quantiles of the drawn ratio's distance in its own standard
    errors, which holds its level best where losses are rare and large. With fewer than SMALL clusters the interval
    is at least Student's. A column that is measured in fewer than FEWEST clusters has the interval (-inf, inf).
    """
    above, below = np.atleast_2d(numerators.T).T, np.atleast_2d(denominators.T).T  # (clusters, k)
    above, below = np.broadcast_arrays(above, below)
    wide = np.column_stack([np.full(above.shape[1], -np.inf), np.full(above.shape[1], np.inf)])
    measured = (below != 0).sum(axis=0) if len(above) else np.zeros(above.shape[1], np.intp)
    good = np.flatnonzero(measured >= FEWEST)
    if not len(good):
        return wide
    above, below = above[:, good].astype(np.float64), below[:, good].astype(np.float64)
    tail = (1 - level) / 2
    compute = {"percentile": _percentile, "bca": _bca, "studentised": _studentised}[method]
    wide[good] = compute(above, below, rng, draws, tail)
    few = good[measured[good] < SMALL]
    if len(few):
        columns = np.flatnonzero(measured[good] < SMALL)
        estimate, error = ratio_errors(above[:, columns], below[:, columns])
        counts = measured[few]
        # ratio_errors divides by n; Student's needs n - 1.
        half = (
            np.array([student_quantile(1 - tail, int(n) - 1) for n in counts]) * error * np.sqrt(counts / (counts - 1))
        )
        wide[few, 0] = np.minimum(wide[few, 0], estimate - half)
        wide[few, 1] = np.maximum(wide[few, 1], estimate + half)
    return wide


@lru_cache(maxsize=256)
def student_quantile(share: float, freedom: int) -> float:
    """Give a quantile of Student's t by its density: exact to 1e-9, without scipy."""
    if freedom > 10_000:
        return _NORMAL.inv_cdf(share)
    # CDF by the angle a with t = sqrt(v) tan a: the density of a is proportional to cos(a)^(v - 1).
    angles = np.linspace(0.0, math.pi / 2, 200_001)
    density = np.cos(angles) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    angle = float(np.interp(abs(share - 0.5) * 2, mass / mass[-1], angles))
    return math.copysign(math.sqrt(freedom) * math.tan(angle), share - 0.5)


def ratio_interval(
    numerators: Floats,
    denominators: Floats,
    rng: np.random.Generator,
    level: float = 0.95,
    draws: int = DRAWS,
    method: Method = "percentile",
) -> tuple[float, float]:
    """Give the interval of one ratio of sums, a row for each cluster."""
    low, high = ratio_intervals(numerators, denominators, rng, level, draws, method)[0]
    return float(low), float(high)


def bootstrap_interval(
    values: Floats, rng: np.random.Generator, level: float = 0.95, draws: int = DRAWS, method: Method = "percentile"
) -> tuple[float, float]:
    """Give the interval of the mean, windows drawn whole."""
    return ratio_interval(values, np.ones_like(values), rng, level, draws, method)


def paired_intervals(
    returns: Floats,
    others: Mapping[str, Floats],
    rng: np.random.Generator,
    level: float = 0.95,
    method: Method = "percentile",
) -> dict[str, tuple[float, float]]:
    """Give for each other player the interval of the mean difference, window by window."""
    if not others:
        return {}
    if any(len(other) != len(returns) for other in others.values()):
        raise InputError(f"expected {len(returns)} windows of every player, found other numbers")
    differences = returns[:, None] - np.column_stack(list(others.values()))
    result = ratio_intervals(differences, np.ones_like(differences), rng, level, method=method)
    return {name: (float(low), float(high)) for name, (low, high) in zip(others, result, strict=True)}


def _percentile(above: Floats, below: Floats, rng: np.random.Generator, draws: int, tail: float) -> Floats:
    ratios = _ratios(resample_sums(np.hstack([above, below]), rng, draws))
    return np.nanquantile(ratios, [tail, 1 - tail], axis=0).T


def _ratios(sums: Floats) -> Floats:
    """Divide the first half of the columns by the second; NaN where there is nothing to divide by."""
    k = sums.shape[1] // 2
    return np.divide(sums[:, :k], sums[:, k:], out=np.full((len(sums), k), np.nan), where=sums[:, k:] != 0)


def _bca(above: Floats, below: Floats, rng: np.random.Generator, draws: int, tail: float) -> Floats:
    ratios = _ratios(resample_sums(np.hstack([above, below]), rng, draws))
    totals, under = above.sum(axis=0), below.sum(axis=0)
    estimate = totals / under
    with np.errstate(divide="ignore", invalid="ignore"):
        left = (totals - above) / (under - below)  # jackknife (clusters, k)
    result = np.empty((above.shape[1], 2))
    for index, (draw, value, knife) in enumerate(zip(ratios.T, estimate, left.T, strict=True)):
        result[index] = _bca_one(draw[np.isfinite(draw)], float(value), knife[np.isfinite(knife)], tail)
    return result


def _bca_one(draws: Floats, estimate: float, knife: Floats, tail: float) -> tuple[float, float]:
    """Take the quantiles that bias and acceleration name (Efron 1987)."""
    under = (np.count_nonzero(draws < estimate) + 0.5 * np.count_nonzero(draws == estimate)) / len(draws)
    bias = _NORMAL.inv_cdf(min(max(under, 0.5 / len(draws)), 1 - 0.5 / len(draws)))
    spread = knife.mean() - knife
    cubes, squares = float((spread**3).sum()), float((spread**2).sum())
    acceleration = cubes / (6 * squares**1.5) if squares > 0 else 0.0

    def quantile(share: float) -> float:
        z = bias + _NORMAL.inv_cdf(share)
        return float(np.quantile(draws, _NORMAL.cdf(bias + z / (1 - acceleration * z))))

    return quantile(tail), quantile(1 - tail)


def _studentised(above: Floats, below: Floats, rng: np.random.Generator, draws: int, tail: float) -> Floats:
    estimate, error = ratio_errors(above, below)
    result = np.empty((len(estimate), 2))
    for index, column in enumerate(_distances(above, below, rng, draws).T):
        if error[index] == 0:  # every cluster has the same ratio
            result[index] = estimate[index]
            continue
        usable = column[np.isfinite(column)]
        high, low = np.quantile(usable, [tail, 1 - tail]) if len(usable) else (-np.inf, np.inf)
        result[index] = estimate[index] - error[index] * low, estimate[index] - error[index] * high
    return result


def _distances(above: Floats, below: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Give how far each drawn ratio lies from the measured one, in its own standard errors; NaN where it has none."""
    k = above.shape[1]
    estimate, error = ratio_errors(above, below)
    sums = resample_sums(np.hstack([above, below, above**2, above * below, below**2]), rng, draws)
    top, base, squares, products, bases = (sums[:, index * k : (index + 1) * k] for index in range(5))
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = top / base
        errors = np.sqrt(np.maximum(squares - 2 * drawn * products + drawn**2 * bases, 0)) / np.abs(base)
        return np.where(errors > 1e-12 * error, (drawn - estimate) / errors, np.nan)


def ratio_errors(above: Floats, below: Floats) -> tuple[Floats, Floats]:
    """Give each ratio of sums and its standard error over clusters: that of the residuals above - ratio x below."""
    total = below.sum(axis=0)
    estimate = above.sum(axis=0) / total
    return estimate, np.sqrt(((above - estimate * below) ** 2).sum(axis=0)) / np.abs(total)


@dataclass(frozen=True)
class JointTest:
    """Several measured ratios against what each was expected to be, all at once."""

    statistic: float
    """The largest distance of them, in its own standard errors."""
    p: float
    """How often luck alone brings one of them so far off."""
    critical: float
    """The distance that luck alone passes in 5 % of the cases: intervals of this width hold all at once."""


def joint_test(
    numerators: Floats, denominators: Floats, expected: Floats, rng: np.random.Generator, draws: int = DRAWS
) -> JointTest:
    """Test whether any of several ratios of sums (clusters, k) differs from its expectation (k,).

    The distribution of the largest distance is that of resampled clusters around the measured ratios, so that
    what the ratios have in common is taken into account.
    """
    estimate, error = ratio_errors(numerators, denominators)
    if not len(estimate) or not (error > 0).any():
        return JointTest(0.0, 1.0, math.inf)
    distance = _distances(numerators, denominators, rng, draws)
    largest = np.nanmax(np.abs(np.where(error > 0, distance, 0.0)), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = float(np.nanmax(np.where(error > 0, np.abs(estimate - expected) / error, 0.0)))
    p = (1 + np.count_nonzero(largest >= statistic)) / (1 + len(largest))
    return JointTest(statistic, float(p), float(np.quantile(largest, 0.95)))


def windows_needed(returns: Floats) -> int | None:
    """Give how many windows like these would bring the bankroll to 20; None if no number would."""
    if not len(returns):
        return None
    growth = max(float(np.log1p(bet * returns).mean()) for bet in BETS)
    return math.ceil(math.log(REJECT * len(BETS)) / growth) if growth > 0 else None


@dataclass(frozen=True)
class Claim:
    """What must hold together before an edge is shown; all arrays are of the same windows."""

    returns: Floats
    baselines: Mapping[str, Floats] = field(default_factory=dict)
    """Players whose difference to the policy must have a lower bound above 0."""
    stressed: Mapping[str, Floats] = field(default_factory=dict)
    """The policy under worse terms (latency, slippage): the mean must stay above 0."""
    sharpe_bar: float | None = None
    """The Sharpe ratio a window that the best of as many lucky trials would reach; None: no such gate."""


@dataclass(frozen=True)
class RequiredWindows:
    """How many windows would show a claim, if windows stay as they were."""

    windows: int | None
    """None: no number up to the limit does."""
    power: float
    """The share of simulated samples of that size (or of the limit) that pass every part."""
    passing: Mapping[str, float]
    """The same by part."""


def sample_needed(
    claim: Claim, rng: np.random.Generator, power: float = 0.9, draws: int = 400, limit: int = 1_000_000
) -> RequiredWindows:
    """Give the smallest number of windows at which all parts together pass with the wanted probability.

    Samples are simulated from the windows seen, weighted anew for each sample (Bayesian bootstrap): what is
    not known yet about the edge counts against it, so that an edge that may well be 0 needs no finite number.
    """
    columns, parts = _columns(claim)
    if not len(columns):
        return RequiredWindows(None, 0.0, dict.fromkeys(parts, 0.0))
    weights = rng.dirichlet(np.ones(len(columns)), size=draws)
    seed = int(rng.integers(2**63))
    order = np.argsort(-claim.returns)

    def passing(windows: int) -> dict[str, float]:
        fresh = np.random.default_rng(seed)
        counts = fresh.multinomial(windows, weights).astype(np.float64)
        checks = _checks(claim, counts @ columns, windows, fresh)
        checks["without the best"] = _without_best(claim.returns[order], counts[:, order], windows) > 0
        checks["all"] = np.all(list(checks.values()), axis=0)
        return {name: float(np.mean(check)) for name, check in checks.items()}

    if (most := passing(limit))["all"] < power:
        return RequiredWindows(None, most["all"], _parts_of(most))
    low, high, result = 1, _guess(claim.returns, limit), most
    while (at := passing(high))["all"] < power:
        low, high = high, min(limit, 2 * high)
    result = at
    while low == 1 and high > 32 and (at := passing(high // 2))["all"] >= power:
        high, result = high // 2, at
    low = max(low, high // 2)
    while high > 1.03 * low:
        middle = math.isqrt(low * high)
        if middle in (low, high):
            break
        at = passing(middle)
        low, high, result = (low, middle, at) if at["all"] >= power else (middle, high, result)
    return RequiredWindows(high, result["all"], _parts_of(result))


def _guess(returns: Floats, limit: int) -> int:
    """Give where to begin to look."""
    return min(limit, max(32, windows_needed(returns) or 32))


def _without_best(sorted_returns: Floats, counts: Floats, windows: int, share: float = 0.01) -> Floats:
    """Give the sum of each sample without its best windows; columns stand in the order of falling returns."""
    drop = math.ceil(windows * share)
    left = np.minimum(np.maximum(np.cumsum(counts, axis=1) - drop, 0.0), counts)
    sums: Floats = left @ sorted_returns
    return sums


def _parts_of(result: Mapping[str, float]) -> dict[str, float]:
    return {name: share for name, share in result.items() if name != "all"}


def _columns(claim: Claim) -> tuple[Floats, list[str]]:
    """Give the columns whose sums over a sample decide every part, and the parts' names."""
    x = claim.returns
    differences = [x - other for other in claim.baselines.values()]
    powers = [x, x**2, x**3, x**4]
    paired = [column for difference in differences for column in (difference, difference**2)]
    columns = np.column_stack([_bet_logs(x), *powers, *paired, *claim.stressed.values()])
    names = ["e-value", "interval", *(f"against {name}" for name in claim.baselines), *claim.stressed, "stretches"]
    return columns, [*names, *(["deflated Sharpe"] if claim.sharpe_bar is not None else []), "without the best"]


def _checks(claim: Claim, sums: Floats, windows: int, rng: np.random.Generator) -> dict[str, NDArray[np.bool_]]:
    """Decide each part on the sums of each simulated sample (draws, columns); bounds are normal ones."""
    bets, used = len(BETS), len(BETS) + 4
    logs = np.logaddexp.reduce(sums[:, :bets], axis=1) - math.log(bets)
    checks = {"e-value": logs >= math.log(REJECT), "interval": _bound(sums[:, bets], sums[:, bets + 1], windows) > 0}
    for index, name in enumerate(claim.baselines):
        at = used + 2 * index
        checks[f"against {name}"] = _bound(sums[:, at], sums[:, at + 1], windows) > 0
    used += 2 * len(claim.baselines)
    checks |= {name: sums[:, used + position] > 0 for position, name in enumerate(claim.stressed)}
    if claim.sharpe_bar is not None:
        checks["deflated Sharpe"] = _clears(sums[:, bets : bets + 4] / windows, claim.sharpe_bar, windows)
    mean, spread = sums[:, bets] / windows, np.sqrt(np.maximum(sums[:, bets + 1] / windows, 1e-30))
    return checks | {"stretches": _stretches(mean / spread * math.sqrt(windows / FOLDS), rng) >= -1.0}


def _stretches(expected: Floats, rng: np.random.Generator) -> Floats:
    """Give the worst of some equal stretches in its own standard errors, where each is expected to have so many."""
    luck = rng.normal(size=(len(expected), FOLDS))
    worst: Floats = (expected[:, None] + luck - luck.mean(axis=1, keepdims=True)).min(axis=1)
    return worst


def _bound(total: Floats, squares: Floats, windows: int) -> Floats:
    """Give the lower 97.5 % bound of a mean from its sums."""
    mean = total / windows
    spread = np.sqrt(np.maximum(squares / windows - mean**2, 0) / windows)
    bound: Floats = mean - _NORMAL.inv_cdf(0.975) * spread
    return bound


def _clears(moments: Floats, bar: float, windows: int) -> NDArray[np.bool_]:
    """Tell which samples' Sharpe ratio lies above a bar with 95 % (Bailey and Lopez de Prado 2014)."""
    m1, m2, m3, m4 = moments.T
    spread = np.sqrt(np.maximum(m2 - m1**2, 1e-30))  # returns that never vary clear nothing
    skew = (m3 - 3 * m1 * m2 + 2 * m1**3) / spread**3
    kurtosis = (m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4) / spread**4
    sharpe = m1 / spread
    error = np.sqrt(np.maximum(1 - skew * sharpe + (kurtosis - 1) / 4 * sharpe**2, 1e-12))
    clears: NDArray[np.bool_] = (sharpe - bar) * math.sqrt(max(windows - 1, 0)) / error >= _NORMAL.inv_cdf(0.95)
    return clears
