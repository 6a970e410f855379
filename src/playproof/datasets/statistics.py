"""Statistics of a data set's features over some of its windows, as scalers are made of them.

Sums are taken session by session in the order of their ids, in double precision and on one thread, so that the same
rows give the same last bit everywhere. Leaves out: choosing the windows; it is the train split that they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from playproof.compiled import compiler

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Sums over rows, one value a feature."""

    rows: int
    mean: Array
    squares: Array
    """Sum of squared differences from the mean."""
    least: Array
    most: Array
    missing: Array


def summarize(values: NDArray[np.float32], missing: NDArray[np.bool_], rows: NDArray[np.bool_]) -> Summary:
    """Sum up the chosen rows of features (features, rows)."""
    columns = np.zeros((5, len(values)))
    if rows.any():
        sum_up(values, missing, rows, columns)
    return Summary(int(rows.sum()), *columns)


@compiler(__file__, ("statistics",))
def sum_up(values: Any, missing: Any, rows: Any, out: Any) -> None:
    """Write mean, sum of squared differences from it, least, most and missing rows of each feature."""
    for f in range(len(values)):
        count, unknown, total = 0, 0, 0.0
        least, most = np.inf, -np.inf
        for i in range(len(rows)):
            if rows[i]:
                value = np.float64(values[f, i])
                count += 1
                unknown += missing[f, i]
                total += value
                least = min(least, value)
                most = max(most, value)
        mean = total / count
        squares = 0.0
        for i in range(len(rows)):
            if rows[i]:
                apart = np.float64(values[f, i]) - mean
                squares += apart * apart
        out[0, f], out[1, f], out[2, f], out[3, f], out[4, f] = mean, squares, least, most, unknown


def summarize_file(path: Path, features: Sequence[str], chosen: frozenset[str]) -> Summary:
    """Sum up the steps that a session's file has in the chosen windows; rows after the last step are left out."""
    file = pq.ParquetFile(path, read_dictionary=["window_id"])
    rows = _chosen(file, chosen)
    table = file.read([*features, *(f"{name}__missing" for name in features)], use_threads=False)
    values = np.stack([table[name].to_numpy() for name in features])
    missing = np.stack([table[f"{name}__missing"].to_numpy() for name in features])
    return summarize(values, missing, rows)


def _chosen(file: pq.ParquetFile, windows: frozenset[str]) -> NDArray[np.bool_]:
    table = file.read(["window_id", "final"], use_threads=False).unify_dictionaries().combine_chunks()
    column = table["window_id"].chunk(0)
    inside = np.array([text in windows for text in column.dictionary.to_pylist()], np.bool_)
    chosen: NDArray[np.bool_] = inside[column.indices.to_numpy()] & ~table["final"].to_numpy()
    return chosen


def combine(one: Summary, other: Summary) -> Summary:
    """Add two summaries up."""
    if not one.rows or not other.rows:
        return one if one.rows else other
    rows = one.rows + other.rows
    apart = other.mean - one.mean
    return Summary(
        rows,
        one.mean + apart * (other.rows / rows),
        one.squares + other.squares + apart * apart * (one.rows * other.rows / rows),
        np.minimum(one.least, other.least),
        np.maximum(one.most, other.most),
        one.missing + other.missing,
    )


def describe_features(features: Sequence[str], found: Summary) -> dict[str, dict[str, Any]]:
    """Write a summary by feature: mean, std, min, max, and the share of rows in which it was unknown."""
    rows = max(1, found.rows)
    return {
        name: {
            "mean": float(found.mean[at]),
            "std": float(np.sqrt(found.squares[at] / rows)),
            "min": float(found.least[at]),
            "max": float(found.most[at]),
            "missing": float(found.missing[at] / rows),
        }
        for at, name in enumerate(features)
    }
