"""A plain pipeline that learns a label from rows: the one that probes for leaks and studies of them run.

Logistic regression on scaled rows and their squares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from playproof.validate.leaks import Floats, HoldoutScores, Samples


def train_rows(samples: Samples, *, by_row: bool) -> NDArray[np.bool_]:
    """Tell which rows are for training: by chance, or those of the first windows."""
    if by_row:
        drawn: NDArray[np.bool_] = np.random.default_rng(7).random(len(samples.rows)) < 0.6
        return drawn
    starts = samples.starts
    early: NDArray[np.bool_] = np.arange(len(samples.rows)) < starts[round(0.6 * len(starts))]
    return early


def learn_and_score(samples: Samples, *, by_row: bool, scale_all: bool) -> HoldoutScores:
    """Split, scale and learn by logistic regression on scaled rows and their squares."""
    train = train_rows(samples, by_row=by_row)
    fitted = samples.rows if scale_all else samples.rows[train]
    spread = fitted.std(axis=0)
    rows = (samples.rows - fitted.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    rows = np.clip(rows, -8, 8)
    inputs = np.column_stack([np.ones(len(rows)), rows, rows**2])
    weights = _logistic(inputs[train], samples.labels[train])
    return HoldoutScores(np.flatnonzero(~train), inputs[~train] @ weights)


def _logistic(inputs: Floats, labels: NDArray[np.bool_], steps: int = 8, ridge: float = 1.0) -> Floats:
    """Fit by Newton's method with a ridge."""
    weights = np.zeros(inputs.shape[1])
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        slope = inputs.T @ (chance - labels) + ridge * weights
        bend = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + ridge * np.eye(len(weights))
        weights = weights - np.linalg.solve(bend, slope)
    return weights
