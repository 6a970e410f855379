"""What choosing costs: the best of many looks good by luck, and these say how good.

The studentised step-down test (Romano and Wolf 2005) asks whether one policy, chosen among many, earns more than
nothing: it is the test about the candidate. SPA (Hansen 2005, through arch) asks whether the best of all policies tried
beats doing nothing, deflated Sharpe (Bailey and Lopez de Prado 2014) whether a Sharpe ratio beats the best of as many
lucky trials, PBO (Bailey et al. 2017) how often the best in one half of the windows is below the median in the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError, MissingExtra
from playproof.stats.evidence import resample_sums

Floats = NDArray[np.float64]
_STEP_STREAM = int.from_bytes(b"stepm")
EULER = 0.5772156649015329
_NORMAL = NormalDist()


@dataclass(frozen=True)
class SuperiorityTest:
    """What the test for superior predictive ability found."""

    p: float
    """Consistent p-value of "no policy is better than the benchmark"."""
    lower: float
    upper: float
    policies: int
    windows: int


def superior_ability(
    returns: Floats, seed: int, benchmark: Floats | None = None, draws: int = 1000, block: int = 1
) -> SuperiorityTest:
    """Test whether the best of some policies beats a benchmark; `returns` is (windows, policies).

    The benchmark is doing nothing unless returns of its own are given. Blocks of one window suit windows
    that do not depend on each other. Policies that never differ from the benchmark say nothing and are left out.
    """
    windows, _ = returns.shape
    base = np.zeros(windows) if benchmark is None else benchmark
    different = returns[:, np.ptp(returns - base[:, None], axis=0) > 0] if windows else returns[:, :0]
    if windows < 2 or not different.shape[1]:
        return SuperiorityTest(1.0, 1.0, 1.0, returns.shape[1], windows)
    try:
        from arch.bootstrap import SPA
    except ModuleNotFoundError as error:
        raise MissingExtra("arch", "train") from error
    test = SPA(-base, -different, block_size=block, reps=draws, bootstrap="stationary", seed=seed)
    test.compute()
    result = test.pvalues
    return SuperiorityTest(
        float(result["consistent"]), float(result["lower"]), float(result["upper"]), returns.shape[1], windows
    )


@dataclass(frozen=True)
class StepDownTest:
    """What the studentised step-down test says of one policy among all that were tried."""

    p: float
    """Adjusted p-value of "the candidate earns nothing": the chance of any such claim being wrong is held."""
    t: float
    """The candidate's mean in its own standard errors."""
    policies: int
    windows: int


def step_down(returns: Floats, seed: int, candidate: int = 0, draws: int = 2000) -> StepDownTest:
    """Test whether a candidate earns more than nothing, among all policies tried; `returns` is (windows, policies).

    Means are divided by their standard errors, in the sample and in every resample of whole windows, so that a policy
    with large stakes does not hide another. Policies with a larger t than the candidate's are rejected before it, as
    the step-down method does: they do not raise its bar. Policies whose returns never vary say nothing.
    """
    windows, policies = returns.shape
    kept = np.flatnonzero(np.ptp(returns, axis=0) > 0) if windows > 1 else np.empty(0, np.intp)
    if candidate not in kept:
        return StepDownTest(1.0, 0.0, policies, windows)
    values = returns[:, kept]
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(windows)
    t = mean / error
    sums = resample_sums(np.hstack([values, values**2]), np.random.default_rng([_STEP_STREAM, seed]), draws) / windows
    drawn, squares = sums[:, : len(kept)], sums[:, len(kept) :]
    errors = np.sqrt(np.maximum(squares - drawn**2, 0.0) / windows)
    # A resample without any of the rare losses has almost no spread: its t would be unbounded.
    luck = (drawn - mean) / np.maximum(errors, error / 4)  # (draws, policies)
    order = np.argsort(-t, kind="stable")
    above = np.maximum.accumulate(luck[:, order[::-1]], axis=1)[:, ::-1]  # the largest of this policy and all below it
    p = (1 + (above >= t[order]).sum(axis=0)) / (1 + draws)
    adjusted = np.maximum.accumulate(p)
    own = int(np.flatnonzero(kept == candidate)[0])
    return StepDownTest(float(adjusted[np.flatnonzero(order == own)[0]]), float(t[own]), policies, windows)


@dataclass(frozen=True)
class DeflatedSharpe:
    """A Sharpe ratio a window, and what luck among many trials would have given."""

    sharpe: float
    bar: float
    """The expected best Sharpe ratio of as many trials without skill."""
    probability: float
    """The probability that the true Sharpe ratio lies above 0, the choice accounted for."""
    trials: int


def lucky_sharpe(trials: int, variance: float) -> float:
    """Give the expected highest Sharpe ratio of trials without skill whose Sharpe ratios vary so much."""
    if trials < 1 or variance < 0:
        raise InputError(f"expected at least one trial and a variance >= 0, found {trials} and {variance}")
    if trials == 1:
        return 0.0
    first, second = _NORMAL.inv_cdf(1 - 1 / trials), _NORMAL.inv_cdf(1 - 1 / (trials * math.e))
    return math.sqrt(variance) * ((1 - EULER) * first + EULER * second)


def sharpe_probability(sharpe: float, bar: float, windows: int, skew: float, kurtosis: float) -> float:
    """Give the probability that the true Sharpe ratio exceeds the bar; `kurtosis` is 3 for a normal one."""
    if windows < 2:
        return 0.0
    error = math.sqrt(max(1 - skew * sharpe + (kurtosis - 1) / 4 * sharpe**2, 1e-12))
    return _NORMAL.cdf((sharpe - bar) * math.sqrt(windows - 1) / error)


def deflated_sharpe(returns: Floats, sharpes: Floats, luck: float = math.inf) -> DeflatedSharpe:
    """Deflate a policy's Sharpe ratio by the Sharpe ratios of all trials, its own among them.

    Where fewer than two trials are known the variance of their Sharpe ratios is unknown, and there is nothing
    to deflate. `luck` is the most that luck alone makes them vary: beyond it trials differ in skill, and the best
    of them is not to be blamed for how bad the others are.
    """
    trials = max(len(sharpes), 1)
    bar = lucky_sharpe(trials, min(luck, float(np.var(sharpes, ddof=1))) if trials > 1 else 0.0)
    spread = float(returns.std()) if len(returns) else 0.0
    if spread == 0:
        return DeflatedSharpe(0.0, bar, 0.0, trials)
    scaled = (returns - returns.mean()) / spread
    sharpe = float(returns.mean()) / float(returns.std(ddof=1)) if len(returns) > 1 else 0.0
    skew, kurtosis = float((scaled**3).mean()), float((scaled**4).mean())
    return DeflatedSharpe(sharpe, bar, sharpe_probability(sharpe, bar, len(returns), skew, kurtosis), trials)


@dataclass(frozen=True)
class OverfitProbability:
    """How well the best in one half of the windows does in the other."""

    probability: float
    """The share of halvings whose best falls below the median of the other half; 0.5 is pure luck."""
    logits: Floats
    """By halving: the log odds of its rank in the other half, 0 at the median."""
    kept: float
    """The slope of the best's Sharpe ratio in the other half on that in its own."""


def overfit_probability(returns: Floats, blocks: int = 16) -> OverfitProbability:
    """Compute PBO by combinatorially symmetric cross-validation; `returns` is (windows, policies), in time order."""
    windows, policies = returns.shape
    if blocks % 2 or blocks < 2 or windows < 2 * blocks or policies < 2:
        raise InputError(
            f"expected an even number of blocks, 2 windows for each and 2 policies, found {blocks} blocks,"
            f" {windows} windows, {policies} policies"
        )
    edges = np.linspace(0, windows, blocks + 1).astype(int)
    stacked = np.stack([np.ones_like(returns), returns, returns**2])  # (3, windows, policies)
    sums = np.add.reduceat(stacked, edges[:-1], axis=1)  # (3, blocks, policies)
    chosen = np.zeros((math.comb(blocks, blocks // 2), blocks))
    for row, members in enumerate(combinations(range(blocks), blocks // 2)):
        chosen[row, list(members)] = 1
    inside, outside = _sharpes(chosen @ sums), _sharpes((1 - chosen) @ sums)  # (halvings, policies)
    best = inside.argmax(axis=1)
    rows = np.arange(len(best))
    taken = outside[rows, best]
    rank = (outside < taken[:, None]).sum(axis=1) + 0.5 * ((outside == taken[:, None]).sum(axis=1) - 1) + 1
    share = rank / (policies + 1)
    logits = np.log(share / (1 - share))
    spread = inside[rows, best] - inside[rows, best].mean()
    squares = float(spread @ spread)
    return OverfitProbability(
        float(np.mean(logits <= 0)), logits, float(spread @ taken) / squares if squares > 0 else 0.0
    )


def _sharpes(sums: Floats) -> Floats:
    """Give Sharpe ratios from counts, sums and sums of squares (3, ...); 0 where nothing varies."""
    count, total, squares = sums
    mean = total / count
    spread = np.sqrt(np.maximum(squares / count - mean**2, 0) * count / np.maximum(count - 1, 1))
    floats: Floats = np.divide(
        mean, spread, out=np.zeros_like(mean), where=spread > 1e-12 * np.abs(mean).max(initial=1)
    )
    return floats
