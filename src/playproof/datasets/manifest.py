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
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from playproof.datasets.runs import code_table, digest_columns, from_arrow
from playproof.errors import DecodeError

MANIFEST = "manifest.json"
METADATA = "metadata.json"
TABLES = ("observations", "actions", "rewards")
"""Tables of every session; `labels` is there too if the game has labels."""
LABELS = "labels"
FORMAT = 3
"""Of the folder; one of another format is built again."""


def digest_json(value: object) -> str:
    """Hash a JSON value in its one canonical text."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def digest_table(table: pa.Table) -> str:
    """Hash a table's values, column by column."""
    return digest_columns(code_table(from_arrow(table)))


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


def write_json(path: Path, payload: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(orjson.dumps(payload, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    sync(draft)
    draft.replace(path)


def sync(path: Path) -> None:
    """Bring a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
