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


def summarize(item: tuple[str, str, Sequence[str], frozenset[str]]) -> Summary:
    """Sum up the steps that one session has in the chosen windows; rows after the last step are left out."""
    place, session, features, chosen = item
    file = pq.ParquetFile(Path(place) / "sessions" / session / "observations.parquet", read_dictionary=["window_id"])
    rows = _chosen(file, chosen)
    columns = [np.zeros(len(features)) for _ in range(5)]
    count = int(rows.sum())
    if count:
        for at, name in enumerate(features):
            table = file.read([name, f"{name}__missing"], use_threads=False)
            values = table[name].to_numpy()[rows].astype(np.float64)
            mean = values.sum() / count
            columns[0][at], columns[1][at] = mean, np.square(values - mean).sum()
            columns[2][at], columns[3][at] = values.min(), values.max()
            columns[4][at] = np.count_nonzero(table[f"{name}__missing"].to_numpy()[rows])
    return Summary(count, *columns)


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
