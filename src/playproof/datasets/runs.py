"""Columns as runs of equal values, which is what most columns of a recording are.

What changes once a round, never, or not for somebody who only watches is a handful of runs; hashing, summing up and
writing a run costs the same whatever its length. A column of short runs stays as it is. Which of the two it is
depends on its values alone. Leaves out: files (parquet) and what the columns mean (observe).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.errors import DecodeError

Array = NDArray[Any]
Places = NDArray[np.int64]
SHORTEST = 8
"""Rows that a run must have on average."""
BLOCK = 64
compiled = compiler(__file__)


@dataclass(frozen=True, eq=False, slots=True)
class TextColumn:
    """A column of texts: each and how many rows it stands in."""

    texts: Sequence[str]
    lengths: Places


Column = Array | TextColumn


@dataclass(frozen=True, eq=False, slots=True)
class EncodedColumn:
    """A column and, if it has few, its runs."""

    values: Array | Sequence[str]
    """Every row; of texts, and where there are starts, one a run."""
    rows: int
    starts: Places | None
    """Where each run begins."""

    @property
    def kind(self) -> str:
        """Name the type of its values."""
        return _name(self.values.dtype) if isinstance(self.values, np.ndarray) else "text"

    @property
    def is_text(self) -> bool:
        """Tell whether it is a column of texts."""
        return not isinstance(self.values, np.ndarray)

    @property
    def lengths(self) -> Places:
        """Give how many rows each run has."""
        assert self.starts is not None
        return np.diff(self.starts, append=self.rows)

    def between(self, first: int, last: int) -> EncodedColumn:
        """Give some of the rows."""
        if (first, last) == (0, self.rows):
            return self
        if self.starts is None:
            return EncodedColumn(self.values[first:last], last - first, None)
        low = int(np.searchsorted(self.starts, first, "right")) - 1
        high = int(np.searchsorted(self.starts, last, "left"))
        return EncodedColumn(self.values[low:high], last - first, np.maximum(self.starts[low:high] - first, 0))


@lru_cache(maxsize=64)
def _name(dtype: np.dtype[Any]) -> str:
    """Give a type's name, which numpy puts together anew each time."""
    return dtype.name


@compiled
def find_starts(bits: Array, starts: Array) -> int:
    """Write where runs begin; give how many there are, or -1 if they do not fit.

    Blocks of one value are passed over at once.
    """
    count, rows, at = 1, len(bits), 1
    starts[0] = 0
    held = bits[0]
    while at < rows:
        if at + BLOCK <= rows:
            block = bits[at : at + BLOCK]
            differs = held ^ held
            for i in range(BLOCK):
                differs |= block[i] ^ held
            if differs == 0:
                at += BLOCK
                continue
        end = min(rows, at + BLOCK)
        while at < end:
            if bits[at] != held:
                if count == len(starts):
                    return -1
                held = bits[at]
                starts[count] = at
                count += 1
            at += 1
    return count


def code(column: Column) -> EncodedColumn:
    """Find a column's runs; equal is what has the same bits."""
    if isinstance(column, TextColumn):
        return _code_texts(column)
    rows = len(column)
    if rows and column.strides == (0,):
        return EncodedColumn(column[:1].copy(), rows, np.zeros(1, np.int64))
    values = np.ascontiguousarray(column)
    most = rows // SHORTEST + 1
    if not rows:
        return EncodedColumn(values, 0, np.zeros(0, np.int64))
    starts = np.empty(most, np.int64)
    count = find_starts(values.view(f"u{values.dtype.itemsize}"), starts)
    if count < 0:
        return EncodedColumn(values, rows, None)
    starts = starts[:count].copy()
    return EncodedColumn(values[starts], rows, starts)


def _code_texts(column: TextColumn) -> EncodedColumn:
    """Put neighbours of one text together; none of them is empty."""
    indices = [index for index, length in enumerate(column.lengths.tolist()) if length]
    kept = [index for at, index in enumerate(indices) if not at or column.texts[index] != column.texts[indices[at - 1]]]
    ends = np.cumsum(column.lengths)
    starts = (ends - column.lengths)[kept]
    return EncodedColumn([column.texts[index] for index in kept], int(ends[-1]) if len(ends) else 0, starts)


def code_tables(tables: Mapping[str, Mapping[str, Column]]) -> dict[str, dict[str, EncodedColumn]]:
    """Find the runs of every column; one that stands in several tables is looked at once."""
    encoded_columns: dict[int, EncodedColumn] = {}
    for columns in tables.values():
        for column in columns.values():
            if id(column) not in encoded_columns:
                encoded_columns[id(column)] = code(column)
    return {name: {key: encoded_columns[id(column)] for key, column in of.items()} for name, of in tables.items()}


def code_table(columns: Mapping[str, Column]) -> dict[str, EncodedColumn]:
    """Find the runs of every column of a table."""
    return code_tables({"": columns})[""]


def digest_tables(tables: Mapping[str, Mapping[str, EncodedColumn]]) -> dict[str, str]:
    """Hash the values of tables, each column once: names, types, and every column's runs or values."""
    known: dict[int, bytes] = {}
    digests = {}
    for name, columns in tables.items():
        rows = {column.rows for column in columns.values()}
        if len(rows) > 1:
            raise DecodeError(f"expected as many rows in every column of {name}, found {sorted(rows)}")
        digest = hashlib.sha256(str(max(rows, default=0)).encode())
        for key, column in columns.items():
            if id(column) not in known:
                known[id(column)] = _digest(column)
            digest.update(f"{key}:{column.kind}:".encode() + known[id(column)])
        digests[name] = digest.hexdigest()
    return digests


def _digest(column: EncodedColumn) -> bytes:
    values = column.values.data if isinstance(column.values, np.ndarray) else orjson.dumps(column.values)
    if column.starts is not None and len(column.starts) == 1:
        return b"one:" + bytes(values)
    digest = hashlib.sha256(b"values:" if column.starts is None else column.starts.data)
    digest.update(values)
    return digest.digest()


def digest_columns(columns: Mapping[str, EncodedColumn]) -> str:
    """Hash the values of one table."""
    return digest_tables({"a table": columns})["a table"]


def from_arrow(table: pa.Table) -> dict[str, Column]:
    """Give a table's columns; refuse one that lacks a value."""
    return {name: _column(name, table[name]) for name in table.schema.names}


def _column(name: str, column: pa.ChunkedArray) -> Column:
    if column.null_count:
        raise DecodeError(f"expected a value in every row of {name}, found {column.null_count} without")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return np.asarray(column.to_numpy())
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.large_string()).dictionary_encode()
    texts: list[str] = []
    lengths: list[Places] = []
    for chunk in column.chunks:
        if len(chunk):
            runs = code(chunk.indices.to_numpy(zero_copy_only=False))
            positions = runs.values if runs.starts is not None else np.asarray(runs.values)
            words = chunk.dictionary.to_pylist()
            texts += [words[index] for index in np.asarray(positions).tolist()]
            lengths.append(runs.lengths if runs.starts is not None else np.ones(len(chunk), np.int64))
    return TextColumn(texts, np.concatenate(lengths) if lengths else np.zeros(0, np.int64))
