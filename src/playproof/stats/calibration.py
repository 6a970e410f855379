"""How good probabilities are: Brier score and skill, reliability, AUC, with intervals over whole windows.

Skill is always against a constant probability named beforehand: a predictor that knows nothing has skill 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.stats.evidence import DRAWS, cluster_sums, ratio_interval

Floats = NDArray[np.float64]
Clusters = Sequence[str] | NDArray[np.generic]


@dataclass(frozen=True)
class Calibration:
    """What a predictor's probabilities are worth."""

    brier: float
    reference: float
    """Brier score of the constant probability."""
    skill: float
    """1 - brier / reference."""
    interval: tuple[float, float]
    """95 % interval of the skill, windows drawn whole."""
    ece: float
    """Expected calibration error: how far the bins' shares lie from what was predicted, on average."""
    rows: int
    windows: int

    @property
    def skilled(self) -> bool:
        """Tell whether the skill is above 0 with its interval."""
        return self.interval[0] > 0


@dataclass(frozen=True)
class Bin:
    """One bin of a reliability diagram."""

    predicted: float
    """Mean probability."""
    observed: float
    interval: tuple[float, float]
    """95 % interval of the observed share, windows drawn whole."""
    rows: int


def brier_score(predicted: Floats, happened: NDArray[np.bool_]) -> float:
    """Give the mean squared distance of probabilities from what happened."""
    return float(np.mean((predicted - happened) ** 2)) if len(predicted) else 0.0


def calibrate(
    predicted: Floats,
    happened: NDArray[np.bool_],
    windows: Clusters,
    constant: float,
    rng: np.random.Generator,
    bins: int = 10,
    draws: int = DRAWS,
) -> Calibration:
    """Score probabilities against a constant one, such as that of the constant hazard."""
    _check(predicted, happened, windows)
    errors = np.column_stack([(predicted - happened) ** 2, (constant - happened) ** 2])
    sums = cluster_sums(errors, windows)  # (windows, 2)
    above, below = (float(item) for item in sums.sum(axis=0))
    low, high = ratio_interval(sums[:, 0], sums[:, 1], rng, draws=draws)
    rows = max(len(predicted), 1)
    skill = 1 - above / below if below > 0 else 0.0
    ece = calibration_error(predicted, happened, bins)
    return Calibration(above / rows, below / rows, skill, (1 - high, 1 - low), ece, len(predicted), len(sums))


def _places(predicted: Floats, bins: int) -> NDArray[np.intp]:
    """Give each row its bin: bins hold about equally many rows, equal probabilities share one."""
    edges = np.unique(np.quantile(predicted, np.arange(1, bins) / bins))
    return np.searchsorted(edges, predicted, side="right")


def calibration_error(predicted: Floats, happened: NDArray[np.bool_], bins: int = 10) -> float:
    """Give the mean distance of observed share and mean probability over bins of about equal size."""
    if not len(predicted):
        return 0.0
    index = _places(predicted, bins)
    gap = np.bincount(index, predicted - happened)
    return float(np.abs(gap).sum()) / len(predicted)


def reliability(
    predicted: Floats,
    happened: NDArray[np.bool_],
    windows: Clusters,
    rng: np.random.Generator,
    bins: int = 10,
    draws: int = 500,
) -> tuple[Bin, ...]:
    """Give the bins of a reliability diagram, in rising order."""
    _check(predicted, happened, windows)
    if not len(predicted):
        return ()
    index, names = _places(predicted, bins), np.asarray(windows)
    results = []
    for own in (index == number for number in np.unique(index)):
        sums = cluster_sums(np.column_stack([happened[own].astype(np.float64), np.ones(own.sum())]), names[own])
        interval = ratio_interval(sums[:, 0], sums[:, 1], rng, draws=draws)
        results.append(Bin(float(predicted[own].mean()), float(happened[own].mean()), interval, int(own.sum())))
    return tuple(results)


@dataclass(frozen=True)
class Auc:
    """The chance that a row of the one class is scored above one of the other."""

    value: float
    error: float
    """Standard error over windows."""
    interval: tuple[float, float]
    windows: int

    def holds(self, value: float) -> bool:
        """Tell whether a value lies in the interval."""
        return self.interval[0] <= value <= self.interval[1]


def auc(scores: Floats, happened: NDArray[np.bool_], windows: Clusters, level: float = 0.95) -> Auc:
    """Give the area under the ROC curve with an interval that knows that rows of a window belong together.

    The error is Obuchowski's (1997): the placements of DeLong, summed by window. Where one class is missing
    the area is 0.5 and the interval everything.
    """
    _check(scores, happened, windows)
    happened = np.asarray(happened, np.bool_)
    ones, zeros = int(happened.sum()), int((~happened).sum())
    if not ones or not zeros:
        return Auc(0.5, float("inf"), (0.0, 1.0), len(np.unique(np.asarray(windows))))
    placed = placements(scores, happened)
    value = float(placed[happened].mean())
    deviation = np.where(happened, (placed - value) / ones, (placed - value) / zeros)
    by_window = cluster_sums(deviation, windows)
    count = len(by_window)
    error = float(np.sqrt((by_window**2).sum() * count / max(count - 1, 1)))
    width = NormalDist().inv_cdf((1 + level) / 2) * error
    return Auc(value, error, (max(value - width, 0.0), min(value + width, 1.0)), count)


def placements(scores: Floats, happened: NDArray[np.bool_]) -> Floats:
    """Give each row the share of the other class that it is on the right side of, ties by half."""
    ones, zeros = np.sort(scores[happened]), np.sort(scores[~happened])
    placed = np.empty(len(scores))
    placed[happened] = _share_below(zeros, scores[happened])
    placed[~happened] = 1 - _share_below(ones, scores[~happened])
    return placed


def _share_below(ordered: Floats, values: Floats) -> Floats:
    below = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    share: Floats = below / (2 * len(ordered))
    return share


def _check(predicted: Floats, happened: NDArray[np.bool_], windows: Clusters) -> None:
    if not len(predicted) == len(happened) == len(windows):
        raise InputError(
            f"expected a label and a window for each of {len(predicted)} rows, found {len(happened)} and {len(windows)}"
        )
