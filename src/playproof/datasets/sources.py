"""Read a home's stored sessions, piece by piece: what a data set is built from.

A piece is some sessions of one log, small enough to be held at once; each is read in one read transaction, so that an
event is seen once while others record and compact. Leaves out: what is made of the events.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from playproof.errors import StoreError
from playproof.events import Event
from playproof.store.log import log_names, log_path
from playproof.store.parts import PartFiles, to_events, to_table
from playproof.store.rows import SEQ_BITS, row_id
from playproof.store.schema import check_version, connect_reader, read_layout

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
class Piece:
    """Some sessions of one log."""

    home: str
    log: str
    sessions: tuple[tuple[int, str], ...]
    """Number in the log and id, ids ascending."""


def plan(home: Path, sessions: Sequence[str] | None = None, rows: int = PIECE_ROWS) -> list[Piece]:
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
                pieces.append(Piece(str(home), log, tuple(batch)))
                batch, held = [], 0
            batch.append((number, name))
            held += sizes[number]
        if batch:
            pieces.append(Piece(str(home), log, tuple(batch)))
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

    def __init__(self, piece: Piece) -> None:
        self.piece, self.home = piece, Path(piece.home)
        self.files = PartFiles.at(self.home)
        numbers = [number for number, _ in piece.sessions]
        with contextlib.closing(connect_reader(log_path(self.home, piece.log))) as reader:
            reader.execute("BEGIN")
            check_version(reader)
            layout = read_layout(reader)
            marks = ", ".join("?" * len(numbers))
            self.parts: list[tuple[str, str]] = reader.execute(
                f"SELECT DISTINCT path, doc_type FROM part_sessions JOIN parts USING (path)"  # noqa: S608
                f" WHERE state = 'live' AND number IN ({marks}) ORDER BY path",
                numbers,
            ).fetchall()
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
        read = {kind: self._table(kind, wanted) for kind in doc_types}
        found = {kind: table for kind, table in read.items() if table is not None}
        places = {kind: _places(table) for kind, table in found.items()}
        for _, session in self.piece.sessions:
            tables = {
                kind: _at(table, places[kind][session]) for kind, table in found.items() if session in places[kind]
            }
            if tables:
                yield session, tables

    def events(self) -> Iterator[tuple[str, list[Event]]]:
        """Give each session's events, all of them and whole, in their order."""
        by: dict[str, list[Event]] = {session: [] for _, session in self.piece.sessions}
        for path, _ in self.parts:
            for batch in self.files.batches(path):
                chosen = batch.filter(pc.is_in(batch.column("session_id"), pa.array(list(by))))
                for event in to_events(chosen):
                    by[event.session_id].append(event)
        for event in to_events(self.hot):
            by[event.session_id].append(event)
        for session, events in by.items():
            if events:
                yield session, sorted(events, key=lambda event: event.seq)

    def _table(self, doc_type: str, wanted: Sequence[str]) -> pa.Table | None:
        """Give the piece's events of one type, sorted by session and seq."""
        tables = [self._part(path, wanted) for path, kind in self.parts if kind == doc_type]
        if self.hot.num_rows:
            tables.append(self._narrow(self.hot.filter(pc.equal(self.hot["doc_type"], doc_type)), wanted))
        tables = [table for table in tables if table.num_rows]
        if not tables:
            return None
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()

    def _part(self, path: str, wanted: Sequence[str]) -> pa.Table:
        """Give the piece's rows of one part."""
        names = [name for _, name in self.piece.sessions]
        try:
            with self.files.filesystem.open_input_file(path) as source:
                file = pq.ParquetFile(source, page_checksum_verification=True, read_dictionary=list(_TEXTS))
                groups = _groups(file, names[0], names[-1])
                with _reused_memory():
                    table = file.read_row_groups(groups, _held(file, groups, wanted), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"expected to read part {path}, found: {error}; run: playproof store verify") from error
        return self._narrow(_only(table, names), wanted)

    def _narrow(self, table: pa.Table, wanted: Sequence[str]) -> pa.Table:
        """Keep the columns that are wanted and hold anything; texts as places in a list."""
        kept = [name for name in wanted if name in table.schema.names]
        table = table.select([name for name in kept if name in KEYS or table[name].null_count < table.num_rows])
        for place, name in enumerate(table.schema.names):
            if pa.types.is_string(table.schema.field(name).type):
                table = table.set_column(place, name, table[name].dictionary_encode())
        return table


@contextlib.contextmanager
def _reused_memory() -> Iterator[None]:
    """Let Arrow take memory from the C library: its own pool gives freed pages back, and gets them zeroed again."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _groups(file: pq.ParquetFile, first: str, last: str) -> list[int]:
    """Give the row groups that may hold sessions from the first to the last."""
    place = file.schema_arrow.get_field_index("session_id")
    chosen = []
    for group in range(file.metadata.num_row_groups):
        found = file.metadata.row_group(group).column(place).statistics
        if found is None or not found.has_min_max or (found.min <= last and first <= found.max):
            chosen.append(group)
    return chosen


def _held(file: pq.ParquetFile, groups: Sequence[int], wanted: Sequence[str]) -> list[str]:
    """Give the wanted columns that hold anything in some row groups; reading empty ones costs as much as full ones."""
    places = {name: place for place, name in enumerate(file.schema_arrow.names)}

    def holds(name: str) -> bool:
        for group in groups:
            chunk = file.metadata.row_group(group).column(places[name])
            found = chunk.statistics
            if found is None or not found.has_null_count or found.null_count < chunk.num_values:
                return True
        return False

    return [name for name in wanted if name in places and (name in KEYS or holds(name))]


def _only(table: pa.Table, sessions: Sequence[str]) -> pa.Table:
    """Keep the rows of some sessions."""
    table = table.unify_dictionaries()
    column = _one(table["session_id"])
    wanted = set(sessions)
    inside = np.array([text in wanted for text in column.dictionary.to_pylist()], np.bool_)
    if inside.all():
        return table
    return _at(table, np.flatnonzero(inside[column.indices.to_numpy()]))


def _one(column: pa.ChunkedArray) -> pa.DictionaryArray:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _places(table: pa.Table) -> dict[str, Places]:
    """Give where each session's rows are, in the order of seq."""
    column = _one(table["session_id"])
    codes, names, seqs = column.indices.to_numpy(), column.dictionary.to_pylist(), table["seq"].to_numpy()
    bounds = np.flatnonzero(np.diff(codes)) + 1
    found: dict[str, Places] = {}
    for at in np.split(np.arange(len(codes)), bounds):
        name = names[codes[at[0]]]
        found[name] = np.concatenate([found[name], at]) if name in found else at
    return {name: at if (np.diff(seqs[at]) > 0).all() else at[np.argsort(seqs[at])] for name, at in found.items()}


def _at(table: pa.Table, places: Places) -> pa.Table:
    """Give rows of a table, without a copy where they follow each other."""
    if not len(places):
        return table.slice(0, 0)
    first, rows = int(places[0]), len(places)
    if places[-1] - first == rows - 1 and (np.diff(places) == 1).all():
        return table.slice(first, rows)
    return table.take(pa.array(places))
