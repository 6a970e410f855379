"""Statistics of a data set's features over some of its windows, as scalers are made of them.

Sums are taken session by session in the order of their ids, in double precision and on one thread, so that the same
rows give the same last bit everywhere. Leaves out: choosing the windows; it is the train split that they are made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.datasets.runs import EncodedColumn, code_table, from_arrow
from playproof.errors import ContractError

Array = NDArray[np.float64]
Rows = NDArray[np.bool_]


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


def summarize(table: Mapping[str, EncodedColumn], features: Sequence[str], chosen: Rows | None = None) -> Summary:
    """Sum up the steps of a table of observations, in the chosen rows alone; rows after the last step are left out."""
    rows = ~expand(table["final"])
    if chosen is not None:
        rows &= chosen
    weights = rows.astype(np.float64)
    before = np.concatenate([[0.0], np.cumsum(weights)])
    columns = np.zeros((5, len(features)))
    if count := int(before[-1]):
        for index, name in enumerate(features):
            columns[4, index] = _known(table[f"{name}__missing"], weights, before)[0] * count
            columns[:4, index] = _known(table[name], weights, before)
    return Summary(count, *columns)


def _known(column: EncodedColumn, weights: Array, before: Array) -> Array:
    """Give mean, sum of squared differences from it, least and most.

    `weights` is 1 for the chosen rows and 0 for others, and `before` counts those chosen before each row.
    """
    values, out = np.asarray(column.values), np.zeros(4)
    if column.starts is None:
        sum_up(values, weights, out)
    elif len(values) == 1:
        out[[0, 2, 3]] = values[0]
    else:
        sum_up(values, np.diff(before[np.append(column.starts, column.rows)]), out)
    return out


def expand(column: EncodedColumn) -> Any:
    """Give a column's value in every row."""
    return np.asarray(column.values) if column.starts is None else np.repeat(column.values, column.lengths)


@compiler(__file__)
def sum_up(values: Any, weights: Any, out: Any) -> None:
    """Write mean, sum of squared differences from it, least and most of values that stand for so many rows each."""
    count, total, least, most = 0.0, 0.0, np.inf, -np.inf
    for i in range(len(values)):
        if weights[i] > 0.0:
            value = np.float64(values[i])
            count += weights[i]
            total += weights[i] * value
            least = min(least, value)
            most = max(most, value)
    mean = total / count
    squares = 0.0
    for i in range(len(values)):
        apart = np.float64(values[i]) - mean
        squares += weights[i] * apart * apart
    out[0], out[1], out[2], out[3] = mean, squares, least, most


def check_finite(session_id: str, table: Mapping[str, EncodedColumn], features: Sequence[str]) -> None:
    """Refuse observations with NaN or infinity."""
    for name in features:
        if not np.isfinite(table[name].values).all():
            raise ContractError(f"expected {name} to be finite in session {session_id}, found NaN or infinity")


def summarize_file(path: Path, features: Sequence[str], chosen: frozenset[str]) -> Summary:
    """Sum up the steps that a session's file has in the chosen windows."""
    wanted = ["window_id", *features, *(f"{name}__missing" for name in features), "final"]
    table = pq.ParquetFile(path, read_dictionary=["window_id"]).read(wanted, use_threads=False)
    columns = code_table(from_arrow(table))
    windows = columns["window_id"]
    inside = np.repeat(np.array([text in chosen for text in windows.values], np.bool_), windows.lengths)
    return summarize(columns, features, inside)


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


def describe_features(features: Sequence[str], summary: Summary) -> dict[str, dict[str, Any]]:
    """Write a summary by feature: mean, std, min, max, and the share of rows in which it was unknown."""
    rows = max(1, summary.rows)
    return {
        name: {
            "mean": float(summary.mean[at]),
            "std": float(np.sqrt(summary.squares[at] / rows)),
            "min": float(summary.least[at]),
            "max": float(summary.most[at]),
            "missing": float(summary.missing[at] / rows),
        }
        for at, name in enumerate(features)
    }
