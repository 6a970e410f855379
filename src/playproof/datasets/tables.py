"""A session's tables: columns as runs of equal values, hashed, summed up by feature, and written as Parquet files.

What changes once a round, never, or not for somebody who only watches is a handful of runs; hashing, summing up and
writing a run costs the same whatever its length. A column of short runs stays as it is. Which of the two it is
depends on its values alone. Sums are taken session by session in the order of their ids, in double precision and on
one thread, so that the same rows give the same last bit everywhere.

Libraries look at every value to write a column; here a column of runs costs what its runs cost: a dictionary of its
values, and for each run its length (RLE). Other columns are written as they are and compressed by LZ4. One data page
a column and row group, with a checksum, and no column that may lack a value. Any Parquet library reads the files.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.errors import ContractError, DecodeError
from playproof.json_types import Json

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


Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Summary:
    """Sums over rows, one value a feature."""

    rows: int
    mean: Floats
    squares: Floats
    """Sum of squared differences from the mean."""
    least: Floats
    most: Floats
    missing: Floats


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


def _known(column: EncodedColumn, weights: Floats, before: Floats) -> Floats:
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


@compiled
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


def describe_features(features: Sequence[str], summary: Summary) -> dict[str, Json]:
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


MAGIC = b"PAR1"
GROUP_ROWS = 1 << 20
"""Rows of a row group; a session seldom has more."""
PLAIN, RLE, DICTIONARY = 0, 3, 8
"""Encodings of values, by their numbers in the format."""
UNCOMPRESSED, LZ4 = 0, 7
DATA_PAGE, DICTIONARY_PAGE = 0, 2
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol."""
PHYSICAL = {"bool": 0, "int16": 1, "int32": 1, "int64": 2, "float32": 4, "float64": 5, "text": 6}
"""A column's type, and its number in the format."""
INT_16, UTF8 = 16, 0
_FIELD = bytes((1 << 4 | I32,))
_LONG = bytes((1 << 4 | I64,))
_NEXT_LONG = bytes((2 << 4 | I64,))
_FIELD_STRUCT = bytes((1 << 4 | STRUCT,))
"""How fields begin: their type, and how far their number is from that of the one before."""
_LZ4 = pa.Codec("lz4_raw")


def varint(value: int) -> bytes:
    """Give a number in groups of seven bits, the lowest first."""
    if value < 1 << 7:
        return bytes((value,))
    out = bytearray()
    while value >= 1 << 7:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=1 << 16)
def whole(value: int) -> bytes:
    """Give a whole number as Thrift does, its sign in the lowest bit."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: str) -> bytes:
    """Give a text behind its length."""
    raw = value.encode()
    return varint(len(raw)) + raw


def struct(*fields: tuple[int, int, bytes | bytearray]) -> bytes:
    """Give a struct of fields: number, type, and the value as it is written."""
    out, last = bytearray(), 0
    for number, kind, value in fields:
        out.append((number - last) << 4 | kind)
        out += value
        last = number
    out.append(0)
    return bytes(out)


def listed(kind: int, items: Sequence[bytes]) -> bytes:
    """Give a list of values of one type."""
    few = len(items) < 15
    head = bytes((len(items) << 4 | kind,)) if few else bytes((0xF0 | kind,)) + varint(len(items))
    return head + b"".join(items)


@compiled
def pack_runs(indices: Array, starts: Array, rows: int, width: int, out: Array) -> int:
    """Write runs, each its length and its value in so many bytes; give how many bytes were written."""
    at = 0
    for run in range(len(indices)):
        left = ((starts[run + 1] if run + 1 < len(starts) else rows) - starts[run]) << 1
        while left >= 0x80:
            out[at] = left & 0x7F | 0x80
            left >>= 7
            at += 1
        out[at] = left
        at += 1
        value = indices[run]
        for _ in range(width):
            out[at] = value & 0xFF
            value >>= 8
            at += 1
    return at


def _packed(indices: Array, column: EncodedColumn, width: int) -> bytes:
    """Give a column's runs as places in a dictionary, or as flags."""
    if len(indices) == 1:
        return varint(column.rows << 1) + int(indices[0]).to_bytes(width, "little")
    assert column.starts is not None
    out = np.empty(len(indices) * (width + 10), np.uint8)
    return out[: pack_runs(indices, column.starts, column.rows, width, out)].tobytes()


def _page(kind: int, rows: int, encoding: int, values: bytes | pa.Buffer, size: int) -> bytes:
    """Give a page's header; `size` is that of the values before they were compressed."""
    checksum = zlib.crc32(values)
    signed = checksum - (1 << 32) if checksum >> 31 else checksum
    numbers = (kind, size, len(values), signed)
    payload = b"".join([_FIELD + whole(number) for number in numbers])
    about = _FIELD + whole(rows) + _FIELD + whole(encoding)
    if kind == DICTIONARY_PAGE:
        return payload + bytes((3 << 4 | STRUCT,)) + about + b"\0\0"
    return payload + bytes((1 << 4 | STRUCT,)) + about + 2 * (_FIELD + whole(RLE)) + b"\0\0"


def _plain(column: EncodedColumn) -> bytes:
    """Give a column's values one after the other, flags as bits."""
    if column.is_text:
        raw = [value.encode() for value in column.values]
        return b"".join(len(value).to_bytes(4, "little") + value for value in raw)
    values = np.asarray(column.values)
    if values.dtype == np.bool_:
        return np.packbits(values, bitorder="little").tobytes()
    return (values.astype(np.int32) if values.dtype == np.int16 else values).tobytes()


class Chunk:
    """One column of one row group, as it stands in the file."""

    def __init__(self, column: EncodedColumn) -> None:
        self.rows, self.kind, self.codec = column.rows, column.kind, UNCOMPRESSED
        self.parts: list[bytes | pa.Buffer] = []
        self.dictionary = self.stored = self.raw = 0
        """Bytes of the dictionary page, of the whole, and of the whole before it was compressed."""
        if column.starts is None:
            self.encoding, self.codec = PLAIN, LZ4
            self._add(DATA_PAGE, self.rows, _plain(column))
        elif self.kind == "bool":
            self.encoding = RLE
            runs = _packed(np.asarray(column.values, np.int64), column, 1)
            self._add(DATA_PAGE, self.rows, len(runs).to_bytes(4, "little") + runs)
        else:
            self._code(column)
        self._sizes = b"".join([_LONG + whole(value) for value in (self.rows, self.raw, self.stored)])

    def _code(self, column: EncodedColumn) -> None:
        """Write the values of runs into a dictionary, and the runs as places in it."""
        distinct, indices = _distinct(column)
        self.encoding = PLAIN
        self._add(DICTIONARY_PAGE, len(distinct), _plain(EncodedColumn(distinct, len(distinct), None)))
        self.encoding, self.dictionary = DICTIONARY, self.stored
        bits = max(1, (len(distinct) - 1).bit_length())
        self._add(DATA_PAGE, self.rows, bytes((bits,)) + _packed(indices, column, (bits + 7) // 8))

    def _add(self, kind: int, rows: int, values: bytes) -> None:
        stored = _LZ4.compress(values) if self.codec == LZ4 else values
        header = _page(kind, rows, self.encoding, stored, len(values))
        self.parts += [header, stored]
        self.stored += len(header) + len(stored)
        self.raw += len(header) + len(values)

    def describe(self, name: str, at: int) -> bytes:
        """Say where the column stands: at this place of the file."""
        payload = _about(name, self.kind, self.encoding, self.codec) + self._sizes
        payload += _NEXT_LONG + whole(at + self.dictionary)
        if self.dictionary:
            payload += _NEXT_LONG + whole(at)
        return _NEXT_LONG + whole(at) + _FIELD_STRUCT + payload + b"\0\0"


def _distinct(column: EncodedColumn) -> tuple[Array | Sequence[str], Array]:
    """Give the values of runs, each once, and the place of every run's value among them."""
    if len(column.values) == 1:
        return column.values, np.zeros(1, np.int64)
    if not isinstance(column.values, np.ndarray):
        at = {word: index for index, word in enumerate(dict.fromkeys(column.values))}
        return list(at), np.array([at[word] for word in column.values], np.int64)
    bits, indices = np.unique(column.values.view(f"u{column.values.dtype.itemsize}"), return_inverse=True)
    return bits.view(column.values.dtype), indices


@lru_cache(maxsize=4096)
def _constant(kind: str, value: bytes, rows: int) -> Chunk:
    """Give a column of one value: most of a spectator's are."""
    return Chunk(EncodedColumn(np.frombuffer(value, kind), rows, np.zeros(1, np.int64)))


class Chunks:
    """Columns as they stand in files, each made once though several files may hold it."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int, int], Chunk] = {}

    def make(self, column: EncodedColumn, first: int, last: int) -> Chunk:
        """Give some rows of a column."""
        part = column.between(first, last)
        if part.starts is not None and len(part.starts) == 1 and isinstance(part.values, np.ndarray):
            return _constant(part.kind, part.values.tobytes(), part.rows)
        key = (id(column), first, last)
        if key not in self._made:
            self._made[key] = Chunk(part)
        return self._made[key]


@lru_cache(maxsize=1024)
def _about(name: str, kind: str, encoding: int, codec: int) -> bytes:
    """Give the part of a column's description that does not depend on its values, without its end."""
    encodings = [whole(item) for item in sorted({PLAIN, RLE, encoding})]
    return struct(
        (1, I32, whole(PHYSICAL[kind])),
        (2, LIST, listed(I32, encodings)),
        (3, LIST, listed(BINARY, [text(name)])),
        (4, I32, whole(codec)),
    )[:-1]


@lru_cache(maxsize=64)
def _schema(columns: tuple[tuple[str, str], ...]) -> bytes:
    """Describe columns: a root, and one required value each."""
    elements = [struct((4, BINARY, text("schema")), (5, I32, whole(len(columns))))]
    for name, kind in columns:
        fields = [(1, I32, whole(PHYSICAL[kind])), (3, I32, whole(0)), (4, BINARY, text(name))]
        if kind in ("int16", "text"):
            fields.append((6, I32, whole(INT_16 if kind == "int16" else UTF8)))
        elements.append(struct(*fields))
    return listed(STRUCT, elements)


def file_parts(columns: Mapping[str, EncodedColumn], chunks: Chunks) -> Iterator[bytes | pa.Buffer]:
    """Give a table's file, piece by piece."""
    yield MAGIC
    rows = next(iter(columns.values())).rows
    at, groups = len(MAGIC), []
    for first in range(0, rows, GROUP_ROWS):
        last, described, begin = min(rows, first + GROUP_ROWS), [], at
        for name, column in columns.items():
            chunk = chunks.make(column, first, last)
            described.append(chunk.describe(name, at))
            at += chunk.stored
            yield from chunk.parts
        size = (2, I64, whole(at - begin))
        groups.append(struct((1, LIST, listed(STRUCT, described)), size, (3, I64, whole(last - first))))
    footer = struct(
        (1, I32, whole(1)),
        (2, LIST, _schema(tuple((name, column.kind) for name, column in columns.items()))),
        (3, I64, whole(rows)),
        (4, LIST, listed(STRUCT, groups)),
        (6, BINARY, text("playproof")),
    )
    yield footer + len(footer).to_bytes(4, "little") + MAGIC


def write_tables(folder: Path, tables: Mapping[str, Mapping[str, EncodedColumn]]) -> None:
    """Write each table as a Parquet file `<name>.parquet`, synced."""
    chunks = Chunks()
    for name, columns in tables.items():
        with (folder / f"{name}.parquet").open("wb", buffering=1 << 20) as file:
            file.writelines(file_parts(columns, chunks))
            file.flush()
            os.fsync(file.fileno())
