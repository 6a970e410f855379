"""What a data set says of itself: content hashes over values, the manifest, and the files that hold both.

The hash of a table is over its columns' names, types and values, whatever file, compression or chunks they stand in;
that of a data set is over its sessions in the order of their ids. So it does not depend on the order of files, on
threads, locale, time zone, or where it was built; one changed value changes it.
Leaves out: making rows (observe, build) and reading them back (transitions).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from playproof.errors import DecodeError

MANIFEST = "manifest.json"
METADATA = "metadata.json"
TABLES = ("observations", "actions", "rewards")
"""Tables of every session; `labels` is there too if the game has labels."""
LABELS = "labels"
FORMAT = 2
"""Of the folder; one of another format is built again."""


def digest_json(told: object) -> str:
    """Hash a JSON value in its one canonical text."""
    return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()


def digest_table(table: pa.Table) -> str:
    """Hash a table's values, column by column."""
    digest = hashlib.sha256(str(table.num_rows).encode())
    for name, column in zip(table.schema.names, table.columns, strict=True):
        kind, values = _bytes(column)
        digest.update(f"{name}:{kind}".encode())
        digest.update(values)
    return digest.hexdigest()


def _bytes(column: pa.ChunkedArray) -> tuple[str, Any]:
    """Give a column's type and its values as bytes: texts as runs, flags as bits, numbers as they are."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text", json.dumps(_runs(column)).encode()
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], kind)
    if array.null_count:
        raise DecodeError(f"expected a value in every row, found {array.null_count} without")
    if pa.types.is_boolean(kind):
        return "bool", _bits(array)
    return _packed(str(kind), np.ascontiguousarray(array.to_numpy(zero_copy_only=False)))


def _bits(flags: pa.BooleanArray) -> NDArray[np.uint8]:
    """Give flags as bits, the lowest first, zeros after the last."""
    if flags.offset:
        return np.packbits(flags.to_numpy(zero_copy_only=False), bitorder="little")
    size = (len(flags) + 7) // 8
    bits = np.frombuffer(flags.buffers()[1] or b"", np.uint8)[:size].copy()
    if len(flags) % 8:
        bits[-1] &= (1 << len(flags) % 8) - 1
    return bits


def _packed(kind: str, values: NDArray[Any]) -> tuple[str, Any]:
    """Give numbers as they are, or, where all are the same to the last bit, one of them: hashing is slow."""
    bits = values.view(f"u{values.dtype.itemsize}")
    if len(bits) and bits[0] == bits[-1] and (bits == bits[0]).all():
        return f"{kind} throughout", values[:1]
    return kind, values


def _runs(column: pa.ChunkedArray) -> list[tuple[str | None, int]]:
    """Give a text column as texts and how often each comes in a row."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.large_string()).dictionary_encode()
    runs: list[tuple[str | None, int]] = []
    for chunk in column.chunks:
        codes = chunk.indices.to_numpy(zero_copy_only=False)
        texts = chunk.dictionary.to_pylist()
        bounds = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]]).tolist()
        for start, end in pairwise(bounds):
            if end > start:
                text = texts[int(codes[start])]
                if runs and runs[-1][0] == text:
                    runs[-1] = (text, runs[-1][1] + end - start)
                else:
                    runs.append((text, end - start))
    return runs


def digest_sessions(sessions: Mapping[str, Mapping[str, str]]) -> str:
    """Hash all rows: the digest of each table of each session, in the order of the sessions' ids."""
    return digest_json([[name, sorted(sessions[name].items())] for name in sorted(sessions)])


def content_hash(sessions: Mapping[str, Mapping[str, pl.DataFrame]]) -> str:
    """Hash the values of sessions' tables, column by column, whatever files they will stand in."""
    return digest_sessions(
        {
            session: {name: digest_table(table.to_arrow()) for name, table in tables.items()}
            for session, tables in sessions.items()
        }
    )


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a data set's manifest; refuse a folder without one, and one whose hash is not that of what it says."""
    if not (path / MANIFEST).exists():
        raise DecodeError(f"expected {MANIFEST} in {path}, found none; the data set was not finished: build it again")
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        core, format_ = manifest["core"], manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise DecodeError(f"expected the manifest of a data set in {path}, found: {error}; build it again") from error
    if format_ != FORMAT:
        raise DecodeError(f"expected a data set of format {FORMAT} in {path}, found {format_}; build it again")
    if digest_json({key: manifest[key] for key in core}) != manifest["hash"]:
        raise DecodeError(f"expected the manifest of {path} as it was written, found another; build it again")
    return dict(manifest)


def write_json(path: Path, told: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    sync(draft)
    draft.replace(path)


def sync(path: Path) -> None:
    """Bring a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
