"""Read a home's stored sessions, piece by piece: what a data set is built from.

A piece is some sessions of one log, small enough to be held at once; each is read in one read transaction, so that an
event is seen once while others record and compact.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from playproof.errors import StoreError
from playproof.events import Event
from playproof.store.log.parts import PartEntry, PartFiles, check_footer, live_parts, to_events, to_table
from playproof.store.log.rows import SEQ_BITS, row_id
from playproof.store.log.schema import check_version, connect_reader, log_names, log_path, read_layout

if TYPE_CHECKING:
    import sqlite3

PIECE_ROWS = 1 << 20
"""Stored events of a piece, unless one session has more."""
KEYS = ("session_id", "seq", "ts", "event_name", "window_id", "player_id")
_TEXTS = ("session_id", "event_name", "window_id", "player_id")
Places = NDArray[np.int64]
Tables = Mapping[str, pa.Table]
"""A session's events by doc_type."""


@dataclass(frozen=True)
class SourcePiece:
    """Some sessions of one log."""

    home: str
    log: str
    sessions: tuple[tuple[int, str], ...]
    """Number in the log and id, ids ascending."""


def plan(home: Path, sessions: Sequence[str] | None = None, rows: int = PIECE_ROWS) -> list[SourcePiece]:
    """Cut a home's sessions into pieces, in the order of their ids within each log."""
    pieces = []
    for log in log_names(home):
        with contextlib.closing(connect_reader(log_path(home, log))) as reader:
            reader.execute("BEGIN")
            check_version(reader)
            names = dict(reader.execute("SELECT number, session_id FROM sessions").fetchall())
            sizes = _sizes(reader)
        chosen = [
            (name, number) for number, name in names.items() if sizes.get(number) and (not sessions or name in sessions)
        ]
        batch: list[tuple[int, str]] = []
        held = 0
        for name, number in sorted(chosen):
            if batch and held + sizes[number] > rows:
                pieces.append(SourcePiece(str(home), log, tuple(batch)))
                batch, held = [], 0
            batch.append((number, name))
            held += sizes[number]
        if batch:
            pieces.append(SourcePiece(str(home), log, tuple(batch)))
    return pieces


def _sizes(reader: sqlite3.Connection) -> dict[int, int]:
    """Count the events of each session, hot and compacted."""
    sizes: dict[int, int] = {}
    for statement in (
        "SELECT number, sum(part_sessions.rows) FROM part_sessions JOIN parts USING (path)"
        " WHERE state = 'live' GROUP BY number",
        f"SELECT id >> {SEQ_BITS}, count(*) FROM events GROUP BY 1",  # noqa: S608
    ):
        for number, rows in reader.execute(statement):
            sizes[number] = sizes.get(number, 0) + rows
    return sizes


class Reader:
    """One piece, as it stands now."""

    def __init__(self, piece: SourcePiece) -> None:
        self.piece, self.home = piece, Path(piece.home)
        self.files = PartFiles.at(self.home)
        numbers = [number for number, _ in piece.sessions]
        with contextlib.closing(connect_reader(log_path(self.home, piece.log))) as reader:
            reader.execute("BEGIN")
            check_version(reader)
            layout = read_layout(reader)
            marks = ", ".join("?" * len(numbers))
            chosen = reader.execute(
                f"SELECT DISTINCT path FROM part_sessions WHERE number IN ({marks})",  # noqa: S608
                numbers,
            ).fetchall()
            paths = {path for (path,) in chosen}
            self.parts = sorted(
                (part for part in live_parts(reader, piece.log) if part.path in paths), key=lambda part: part.path
            )
            hot = [
                row
                for number in numbers
                for row in reader.execute(
                    f"{layout.select} WHERE id BETWEEN ? AND ? ORDER BY id",
                    (row_id(number, 0), row_id(number + 1, 0) - 1),
                )
            ]
        self.hot = to_table([row for row in hot if layout.intact(row)], layout, dict(piece.sessions))
        self.damaged = len(hot) - self.hot.num_rows

    def tables(self, doc_types: Sequence[str], columns: Sequence[str]) -> Iterator[tuple[str, Tables]]:
        """Give each session's events of some types, with some columns, by doc_type."""
        wanted = [*KEYS, *(name for name in columns if name not in KEYS)]
        names = [name for _, name in self.piece.sessions]
        parts: dict[str, list[SourcePart | LoadedTable]] = {kind: [] for kind in doc_types}
        for part in self.parts:
            if part.doc_type in parts:
                parts[part.doc_type].append(SourcePart(self.files, self._sound(part), wanted, names))
        for kind in doc_types if self.hot.num_rows else ():
            parts[kind].append(LoadedTable(_narrow(self.hot.filter(pc.equal(self.hot["doc_type"], kind)), wanted)))
        for session in names:
            result = {kind: [rows for held in of for rows in held.rows(session)] for kind, of in parts.items()}
            if tables := {kind: _joined(rows) for kind, rows in result.items() if rows}:
                yield session, tables

    def events(self) -> Iterator[tuple[str, list[Event]]]:
        """Give each session's events, all of them and whole, in their order."""
        by: dict[str, list[Event]] = {session: [] for _, session in self.piece.sessions}
        for part in self.parts:
            for batch in self._batches(part):
                chosen = batch.filter(pc.is_in(batch.column("session_id"), pa.array(list(by))))
                for event in to_events(chosen):
                    by[event.session_id].append(event)
        for event in to_events(self.hot):
            by[event.session_id].append(event)
        for session, events in by.items():
            if events:
                yield session, sorted(events, key=lambda event: event.seq)

    def _sound(self, part: PartEntry) -> str:
        """Give a part's path after its check: without its events, a data set would be another one."""
        problem = check_footer(self.files, part)
        if problem is not None:
            raise unreadable_part(part.path, problem)
        return part.path

    def _batches(self, part: PartEntry) -> Iterator[pa.RecordBatch]:
        path = self._sound(part)
        try:
            yield from self.files.batches(path)
        except (OSError, pa.ArrowException) as error:
            raise unreadable_part(path, error) from error


def unreadable_part(path: str, problem: object) -> StoreError:
    """Say that a part is damaged, and what to do."""
    return StoreError(
        f"expected part {path} as it was written, found: {problem}; nothing was built: restore the file, or set it"
        " aside with: playproof store verify"
    )


class LoadedTable:
    """A table at hand, and where each session's rows are in it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.unify_dictionaries()
        self._places = _places(self.table) if table.num_rows else {}

    def rows(self, session: str) -> Iterator[pa.Table]:
        """Give a session's rows, in the order of seq."""
        if session in self._places:
            yield _at(self.table, self._places[session])


class SourcePart:
    """One part: its row groups are read when a session needs them, and let go when the sessions are past them."""

    def __init__(self, files: PartFiles, path: str, wanted: Sequence[str], sessions: Sequence[str]) -> None:
        self.files, self.path, self.wanted = files, path, wanted
        with self._open() as file:
            self.metadata = file.metadata
            self._bounds = _bounds(file, sessions[0], sessions[-1])
            self.columns = _held(file, list(self._bounds), wanted)
        self._held: dict[int, LoadedTable] = {}

    @contextlib.contextmanager
    def _open(self, metadata: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
        try:
            with self.files.filesystem.open_input_file(self.path) as source:
                yield pq.ParquetFile(
                    source, metadata=metadata, page_checksum_verification=True, read_dictionary=list(_TEXTS)
                )
        except (OSError, pa.ArrowException) as error:
            raise unreadable_part(self.path, error) from error

    def rows(self, session: str) -> Iterator[pa.Table]:
        """Give a session's rows, group by group; sessions are asked for in the order of their ids."""
        for group, (least, most) in self._bounds.items():
            if most < session:
                self._held.pop(group, None)
            elif least <= session:
                if group not in self._held:
                    self._held[group] = LoadedTable(self._read(group))
                yield from self._held[group].rows(session)

    def _read(self, group: int) -> pa.Table:
        with _reused_memory(), self._open(self.metadata) as file:
            table = file.read_row_groups([group], self.columns, use_threads=False)
        return _narrow(table, self.wanted)


def _narrow(table: pa.Table, wanted: Sequence[str]) -> pa.Table:
    """Keep the columns that are wanted and hold anything; texts as places in a list."""
    kept = [name for name in wanted if name in table.schema.names]
    table = table.select([name for name in kept if name in KEYS or table[name].null_count < table.num_rows])
    for index, name in enumerate(table.schema.names):
        if pa.types.is_string(table.schema.field(name).type):
            table = table.set_column(index, name, table[name].dictionary_encode())
    return table


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Put a session's rows together."""
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()


@contextlib.contextmanager
def _reused_memory() -> Iterator[None]:
    """Let Arrow take memory from the C library: its own pool gives freed pages back, and gets them zeroed again."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _bounds(file: pq.ParquetFile, first: str, last: str) -> dict[int, tuple[str, str]]:
    """Give the row groups that may hold sessions from the first to the last, and the range of each."""
    field_index = file.schema_arrow.get_field_index("session_id")
    bounds = {}
    for group in range(file.metadata.num_row_groups):
        result = file.metadata.row_group(group).column(field_index).statistics
        least, most = (result.min, result.max) if result is not None and result.has_min_max else (first, last)
        if least <= last and first <= most:
            bounds[group] = (least, most)
    return bounds


def _held(file: pq.ParquetFile, groups: Sequence[int], wanted: Sequence[str]) -> list[str]:
    """Give the wanted columns that hold anything in some row groups; reading empty ones costs as much as full ones."""
    indices = {name: index for index, name in enumerate(file.schema_arrow.names)}

    def holds(name: str) -> bool:
        for group in groups:
            chunk = file.metadata.row_group(group).column(indices[name])
            result = chunk.statistics
            if result is None or not result.has_null_count or result.null_count < chunk.num_values:
                return True
        return False

    return [name for name in wanted if name in indices and (name in KEYS or holds(name))]


def _one(column: pa.ChunkedArray) -> pa.DictionaryArray:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _places(table: pa.Table) -> dict[str, slice | Places]:
    """Give where each session's rows are, in the order of seq."""
    column = _one(table["session_id"])
    codes, names, seqs = column.indices.to_numpy(), column.dictionary.to_pylist(), table["seq"].to_numpy()
    bounds = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    runs: dict[str, list[slice]] = {}
    for start, end in pairwise(bounds):
        runs.setdefault(names[codes[start]], []).append(slice(start, end))
    return {name: _sorted(of, seqs) for name, of in runs.items()}


def _sorted(runs: Sequence[slice], seqs: Places) -> slice | Places:
    if len(runs) == 1 and (seqs[runs[0]][1:] > seqs[runs[0]][:-1]).all():
        return runs[0]
    at = np.concatenate([np.arange(run.start, run.stop) for run in runs])
    return at[np.argsort(seqs[at])]


def _at(table: pa.Table, indices: slice | Places) -> pa.Table:
    """Give rows of a table, without a copy where they follow each other."""
    if isinstance(indices, slice):
        return table.slice(indices.start, indices.stop - indices.start)
    return table.take(pa.array(indices))
