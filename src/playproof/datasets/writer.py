"""Write tables whose columns were found to be runs as Parquet files that any reader opens.

Libraries look at every value to write a column; here a column of runs costs what its runs cost: a dictionary of its
values, and for each run its length (RLE). Other columns are written as they are and compressed by LZ4. One data page
a column and row group, with a checksum, and no column that may lack a value.
Leaves out: statistics, nested and optional columns, reading (any Parquet library).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.datasets.runs import EncodedColumn

Array = NDArray[Any]
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
compiled = compiler(__file__)
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
