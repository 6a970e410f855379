"""Parquet parts: what they look like, and the one seam through which their files are reached.

A part holds events of one doc_type and one UTC date, sorted by (session_id, seq), and never changes. Its name is
made of its content. Everything goes through a `pyarrow.fs.FileSystem`, so that parts can live elsewhere; where it
is the local disk, a part is written beside, synced, renamed and its folder synced.
Leaves out: which events go into which part (compaction), and the manifest that lists them.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from playproof.events import Event
from playproof.game import Column
from playproof.home import folder
from playproof.store.log.rows import Layout, Row, split_id, to_moment
from playproof.store.log.writer import sync_folder

ROW_GROUP = 1 << 18
FOOTER_END = 8
"""Bytes behind the metadata of a Parquet file: the length of the metadata and the magic number."""
STAGING = "_staging"
QUARANTINE = "_quarantine"
TIME = pa.timestamp("us", tz="UTC")
ARROW_TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "money": pa.int64(),
    "bool": pa.bool_(),
    "float": pa.float64(),
    "text": pa.string(),
}
ENVELOPE = (
    pa.field("session_id", pa.string()),
    pa.field("seq", pa.int64()),
    pa.field("ts", TIME),
    pa.field("server_ts", TIME),
    pa.field("source", pa.string()),
    pa.field("doc_type", pa.string()),
    pa.field("direction", pa.string()),
    pa.field("event_name", pa.string()),
    pa.field("window_id", pa.string()),
    pa.field("player_id", pa.string()),
)
CHECKSUM = pa.field("checksum", pa.uint32())
SORTED = [("session_id", "ascending"), ("seq", "ascending")]


@dataclass(frozen=True, slots=True)
class PartEntry:
    """One entry of a manifest."""

    log: str
    path: str
    """Below the folder of events."""
    doc_type: str
    date: str
    rows: int
    bytes: int
    sha256: str
    footer: str | None = None
    """SHA-256 of the file's end, as `footer_sha256` gives it; None in manifests of earlier versions."""


def schema(columns: Sequence[Column]) -> pa.Schema:
    """Give the Arrow schema of events that carry these columns."""
    return pa.schema(
        [
            *ENVELOPE,
            *(pa.field(column.name, ARROW_TYPES[column.kind]) for column in columns),
            pa.field("raw", pa.string()),
            CHECKSUM,
        ]
    )


def to_table(rows: Sequence[Row], layout: Layout, sessions: Mapping[int, str]) -> pa.Table:
    """Give rows of a log as an Arrow table."""
    shape = schema(layout.columns)
    if not rows:
        return shape.empty_table()
    ids, *values = zip(*rows, strict=True)
    identities = [split_id(item) for item in ids]
    lines: list[Sequence[Any]] = [
        [sessions[number] for number, _ in identities],
        [seq for _, seq in identities],
        *values,
    ]
    return pa.table([_array(item, field.type) for item, field in zip(lines, shape, strict=True)], schema=shape)


def _array(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    if kind == pa.bool_():
        values = [None if value is None else bool(value) for value in values]
    return pa.array(values, kind)


def fill(table: pa.Table, shape: pa.Schema) -> pa.Table:
    """Give a table the columns of a schema, None where it has none."""
    have = set(table.schema.names)
    columns = [
        table[item.name].cast(item.type) if item.name in have else pa.nulls(table.num_rows, item.type) for item in shape
    ]
    return pa.table(columns, schema=shape)


def to_events(batch: pa.RecordBatch | pa.Table) -> Iterator[Event]:
    """Give the events of a table, in its order."""
    shape = batch.schema
    columns = [_values(column) for column in batch.columns]
    envelope = [columns[shape.get_field_index(field.name)] for field in ENVELOPE]
    raws = columns[shape.get_field_index("raw")]
    kept = {*(field.name for field in ENVELOPE), "raw", CHECKSUM.name}
    game = [(name, values) for name, values in zip(shape.names, columns, strict=True) if name not in kept]
    for index, (session, seq, ts, server, source, doc, direction, name, window, player) in enumerate(
        zip(*envelope, strict=True)
    ):
        yield Event(
            ts=to_moment(ts),
            source=source,
            doc_type=doc,
            session_id=session,
            seq=seq,
            event_name=name,
            server_ts=None if server is None else to_moment(server),
            direction=direction,
            window_id=window,
            player_id=player,
            raw=raws[index],
            columns={column: value for column, values in game if (value := values[index]) is not None},
        )


def _values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Give a column's values, times as microseconds."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def encode(table: pa.Table) -> pa.Buffer:
    """Write a sorted table as the bytes of a part; the same rows give the same bytes."""
    repeated, encodings = _encodings(table)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=3,
        use_dictionary=repeated,
        column_encoding=encodings,
        row_group_size=ROW_GROUP,
        write_page_checksum=True,
        sorting_columns=pq.SortingColumn.from_ordering(table.schema, SORTED),
    )
    return sink.getvalue()


def _encodings(table: pa.Table) -> tuple[list[str], dict[str, str]]:
    """Choose: a dictionary where values repeat, differences for other whole numbers, the rest plain."""
    repeated: list[str] = []
    encodings = {}
    for field in table.schema:
        if field.name in ("raw", CHECKSUM.name) or field.type == pa.bool_():
            encodings[field.name] = "PLAIN"
        elif pa.types.is_string(field.type) or _repeats(table[field.name]):
            repeated.append(field.name)
        else:
            encodings[field.name] = "PLAIN" if field.type == pa.float64() else "DELTA_BINARY_PACKED"
    return repeated, encodings


def _repeats(column: pa.ChunkedArray) -> bool:
    """Tell whether a dictionary pays: judged on the first row group."""
    sample = column.slice(0, ROW_GROUP)
    return bool(8 * pc.count_distinct(sample).as_py() <= len(sample) - sample.null_count)


@dataclass(frozen=True)
class PartFiles:
    """The folder of parts, on whatever file system it lives."""

    filesystem: fs.FileSystem
    local: Path | None = None
    """Where the folder is on this machine's disk, if it is."""

    @classmethod
    def at(cls, home: Path) -> PartFiles:
        """Give the parts of a home on the local disk."""
        root = folder("events", home).absolute()
        return cls(fs.SubTreeFileSystem(str(root), fs.LocalFileSystem()), root)

    def stage(self, log: str, name: str, content: pa.Buffer) -> str:
        """Write bytes beside the parts, synced; they are no part yet."""
        path = f"{STAGING}/{log}/{name}"
        self.filesystem.create_dir(f"{STAGING}/{log}", recursive=True)
        with self.filesystem.open_output_stream(path) as stream:
            stream.write(content)
        if self.local:
            _sync_file(self.local / path)
        return path

    def publish(self, staged: str, path: str) -> None:
        """Give staged bytes their place, durably."""
        partition = path.rpartition("/")[0]
        self.filesystem.create_dir(partition, recursive=True)
        self.filesystem.move(staged, path)
        if self.local:
            for parent in (self.local / partition, (self.local / partition).parent, self.local, self.local.parent):
                sync_folder(parent)

    def read(self, path: str) -> bytes:
        """Give a file's bytes."""
        with self.filesystem.open_input_stream(path) as stream:
            content: bytes = stream.read()
        return content

    def batches(self, path: str, size: int = 8192) -> Iterator[pa.RecordBatch]:
        """Give a part's rows in their order, pages checked."""
        with self.filesystem.open_input_file(path) as file:
            yield from pq.ParquetFile(file, page_checksum_verification=True).iter_batches(size)

    def table(self, path: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Give a part's rows, pages checked."""
        with self.filesystem.open_input_file(path) as file:
            return pq.ParquetFile(file, page_checksum_verification=True).read(columns)

    def footer_sha256(self, path: str) -> str | None:
        """Give the SHA-256 of a file's footer and the eight bytes behind it; None if there is no footer."""
        with self.filesystem.open_input_file(path) as file:
            end = file.size()
            if end < FOOTER_END:
                return None
            file.seek(end - FOOTER_END)
            size = footer_size(file.read(FOOTER_END))
            if size > end:
                return None
            file.seek(end - size)
            return hashlib.sha256(file.read(size)).hexdigest()

    def sizes(self, paths: Sequence[str]) -> dict[str, int | None]:
        """Give the size of each file, None where there is none."""
        file_info = self.filesystem.get_file_info(list(paths))
        return {path: info.size if info.is_file else None for path, info in zip(paths, file_info, strict=True)}

    def remove(self, path: str) -> None:
        """Delete a file that may be there."""
        if self.sizes([path])[path] is not None:
            self.filesystem.delete_file(path)

    def clear_staging(self, log: str) -> int:
        """Delete what an earlier compaction of the log left unfinished."""
        left = self._files(f"{STAGING}/{log}")
        for path in left:
            self.filesystem.delete_file(path)
        return len(left)

    def set_aside(self, path: str) -> str:
        """Move a damaged part out of the way of readers; give its new path."""
        target = f"{QUARANTINE}/{path}"
        self.filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        self.filesystem.move(path, target)
        return target

    def all(self) -> list[str]:
        """Give every file below the folder, staged and quarantined ones apart, sorted."""
        files = self._files("")
        return sorted(path for path in files if path.partition("/")[0] not in (STAGING, QUARANTINE))

    def _files(self, below: str) -> list[str]:
        chosen = fs.FileSelector(below, recursive=True, allow_not_found=True)
        return [info.path for info in self.filesystem.get_file_info(chosen) if info.is_file]


def footer_size(content: bytes | memoryview) -> int:
    """Give how many bytes at the end of a Parquet file describe it: the metadata, its length and the magic number."""
    length = int.from_bytes(content[-FOOTER_END:-4], "little")
    return length + FOOTER_END


def part_path(log: str, doc_type: str, date: str, content: pa.Buffer) -> tuple[str, str]:
    """Give a part's path and the SHA-256 of its bytes; logs with equal events have parts of their own."""
    sha256 = hashlib.sha256(content).hexdigest()
    name = hashlib.sha256(f"{log}:{sha256}".encode()).hexdigest()[:32]
    return f"doc_type={doc_type}/date={date}/part-{name}.parquet", sha256


def date_of(micros: int) -> str:
    """Give the UTC date of a time."""
    moment: datetime = to_moment(micros)
    return moment.date().isoformat()


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def live_parts(connection: sqlite3.Connection, log: str) -> list[PartEntry]:
    """Give the parts that a log's manifest lists for readers, in the order of their partitions."""
    # A reader may meet a log that no writer of this version has opened yet.
    footer = "footer" if any(row[1] == "footer" for row in connection.execute("PRAGMA table_info(parts)")) else "NULL"
    result = connection.execute(
        f"SELECT path, doc_type, date, rows, bytes, sha256, {footer} FROM parts"  # noqa: S608
        " WHERE state = 'live' ORDER BY doc_type, date, path"
    )
    return [PartEntry(log, *item) for item in result]


def check_footer(files: PartFiles, part: PartEntry) -> str | None:
    """Tell what is wrong with a part's file before a library parses it: its size and the SHA-256 of its footer.

    A wrong footer can end the process inside the Parquet library, or give other rows without a word. Damage in the
    pages is found by their own checksums, and by `check_part`.
    """
    if part.footer is None:
        return check_part(files, part)
    size = files.sizes([part.path])[part.path]
    if size is None:
        return "missing"
    if size != part.bytes:
        return f"{size} bytes where {part.bytes} were written"
    try:
        footer = files.footer_sha256(part.path)
    except OSError as error:
        return f"unreadable: {error}"
    return None if footer == part.footer else "SHA-256 of the footer differs"


def check_part(files: PartFiles, part: PartEntry) -> str | None:
    """Tell what is wrong with a part's file; None if it is as it was written."""
    size = files.sizes([part.path])[part.path]
    if size is None:
        return "missing"
    if size != part.bytes:
        return f"{size} bytes where {part.bytes} were written"
    try:
        content = files.read(part.path)
    except OSError as error:
        return f"unreadable: {error}"
    if hashlib.sha256(content).hexdigest() != part.sha256:
        return "SHA-256 differs"
    return None
