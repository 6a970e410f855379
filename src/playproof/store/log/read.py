"""Reading: hot rows and parts through the manifest, as events, Arrow, Polars or SQL.

Every read sees one state of each log: manifest and hot rows come from one read transaction, so an event is seen
once, be it hot or compacted. What is damaged is passed over and told in `problems`; files that no manifest lists
are not looked at. Leaves out: repair (verification).
"""

from __future__ import annotations

import contextlib
import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from playproof.errors import PlayproofError, StoreError, UnknownName
from playproof.events import DOC_TYPES, Event
from playproof.game import Column
from playproof.store.log.parts import (
    CHECKSUM,
    PartEntry,
    PartFiles,
    check_footer,
    check_part,
    fill,
    live_parts,
    schema,
    to_events,
    to_table,
)
from playproof.store.log.rows import Layout, Row, row_id, split_id
from playproof.store.log.schema import check_version, connect_reader, log_names, log_path, read_layout

if TYPE_CHECKING:
    import polars as pl

    from playproof.store.log.query import QueryLimits

T = TypeVar("T")
PartCheck = Callable[[PartFiles, PartEntry], str | None]
"""Tells what is wrong with a part's file."""
Key = tuple[str, int]


@dataclass(frozen=True)
class LogView:
    """One state of one log."""

    name: str
    layout: Layout
    sessions: Mapping[int, str]
    parts: tuple[PartEntry, ...]
    rows: tuple[Row, ...]
    starts: Mapping[str, Key]
    """By path of a part: the (session_id, seq) of its first event."""

    spans: tuple[tuple[str, str, int], ...]
    """Path, session and rows for each session of each part."""

    def compacted(self) -> dict[str, int]:
        """Count the events in parts by session."""
        counts: dict[str, int] = {}
        paths = {part.path for part in self.parts}
        for path, session, rows in self.spans:
            if path in paths:
                counts[session] = counts.get(session, 0) + rows
        return counts

    def session(self, row: Row) -> str:
        """Give the session of a hot row."""
        return self.sessions[split_id(row[0])[0]]

    def hot(self) -> pa.Table:
        """Give the hot rows as a table."""
        return to_table(self.rows, self.layout, self.sessions)


@dataclass(frozen=True)
class EventFilter:
    """Which events a read is about; None stands for all."""

    doc_type: str | None = None
    window_id: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        if self.doc_type is not None and self.doc_type not in DOC_TYPES:
            raise UnknownName("doc_type", self.doc_type, DOC_TYPES)

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give the rows of a batch that are wanted."""
        for name in ("window_id", "session_id"):
            if (value := getattr(self, name)) is not None:
                batch = batch.filter(pc.equal(batch.column(batch.schema.get_field_index(name)), value))
        return batch


class EventStore:
    """The events of a home, for any number of readers, also while they are being written."""

    def __init__(self, home: Path, columns: Sequence[Column] = (), files: PartFiles | None = None) -> None:
        self.home, self._columns = home, tuple(columns)
        self._files = files
        self.problems: tuple[str, ...] = ()
        """What the last read had to pass over."""

    @property
    def files(self) -> PartFiles:
        """Give the files of the parts."""
        if self._files is None:
            self._files = PartFiles.at(self.home)
        return self._files

    def events(
        self, *, doc_type: str | None = None, window_id: str | None = None, session_id: str | None = None
    ) -> Iterator[Event]:
        """Give events ordered by (session_id, seq)."""
        wanted = EventFilter(doc_type, window_id, session_id)
        views = self._views(wanted)
        return merged(stream for view in views for stream in self._streams(view, wanted))

    def arrow(self, doc_type: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Give the events of a doc_type as a table, in the order of the parts; hot rows come last."""
        return self._reading(EventFilter(doc_type), lambda views: self._table(views, columns), _unreadable)

    def scan(self, doc_type: str) -> pl.LazyFrame:
        """Give the events of a doc_type as a Polars frame that reads what is asked of it."""
        import polars as pl

        views = self._views(EventFilter(doc_type))
        shape = self.schema(views)
        parts = [part.path for view in views for part in view.parts]
        hot = [_frame(fill(view.hot(), shape)) for view in views if view.rows]
        if not parts:
            return pl.concat([_frame(shape.empty_table()), *hot]).lazy()
        return pl.concat([self._scan_parts(parts, shape), *(item.lazy() for item in hot)])

    def _scan_parts(self, paths: Sequence[str], shape: pa.Schema) -> pl.LazyFrame:
        import polars as pl

        if self.files.local is None:
            return pl.scan_pyarrow_dataset(ds.dataset(list(paths), schema=shape, filesystem=self.files.filesystem))
        frame = pl.scan_parquet(
            [self.files.local / path for path in paths],
            schema=_frame(shape.empty_table()).schema,
            missing_columns="insert",
            extra_columns="ignore",
            hive_partitioning=False,
            glob=False,
        )
        return frame.select(shape.names)

    def query(self, sql: str, limits: QueryLimits | None = None) -> pa.Table:
        """Run one SELECT over the views, one for each doc_type, in a DuckDB that reaches nothing else.

        It is stopped and refused where it takes more than the limits: time, memory, rows of the result.
        """
        from playproof.store.log.query import QueryLimits, check_select, query_failure, run_select

        check_select(sql)
        bounds = limits or QueryLimits()
        return self._reading(
            EventFilter(), lambda views: run_select(sql, views, self.schema(views), self.files, bounds), query_failure
        )

    def schema(self, views: Sequence[LogView]) -> pa.Schema:
        """Give the columns of all logs and those declared here, checksums apart."""
        shapes = [schema(view.layout.columns) for view in views] + [schema(self._columns)]
        try:
            result = pa.unify_schemas(shapes, promote_options="permissive")
        except pa.ArrowException as error:
            raise StoreError(f"expected columns of one name to agree in all logs, found: {error}") from error
        fields = [item for item in result if item.name not in ("raw", CHECKSUM.name)]
        return pa.schema([*fields, result.field("raw")])

    def views(self, doc_type: str | None = None) -> tuple[LogView, ...]:
        """Give the present state of every log; parts of another size than written and damaged rows are left out."""
        return self._views(EventFilter(doc_type), _check_size)

    def _reading(
        self,
        wanted: EventFilter,
        read: Callable[[Sequence[LogView]], T],
        failure: Callable[[Exception], PlayproofError],
    ) -> T:
        """Read; if a file cannot be read, check every byte, leave out what is damaged and read again."""
        with contextlib.suppress(OSError, pa.ArrowException):
            return read(self._views(wanted))
        views = self._views(wanted, check_part)
        try:
            return read(views)
        except (OSError, pa.ArrowException) as error:
            raise failure(error) from error

    def _views(self, wanted: EventFilter, check: PartCheck = check_footer) -> tuple[LogView, ...]:
        problems: list[str] = []
        views = []
        for name in log_names(self.home):
            try:
                view = _view(log_path(self.home, name), wanted, problems)
            except sqlite3.DatabaseError as error:
                problems.append(f"log {name}: unreadable: {error}")
                continue
            views.append(self._sound(view, problems, check))
        self.problems = tuple(problems)
        return tuple(views)

    def _sound(self, view: LogView, problems: list[str], check: PartCheck) -> LogView:
        """Leave out parts whose files are not what the manifest says."""
        good = []
        for part in view.parts:
            problem = check(self.files, part)
            if problem is None:
                good.append(part)
            else:
                problems.append(f"part {part.path}: {problem}")
        return replace(view, parts=tuple(good))

    def _table(self, views: Sequence[LogView], columns: Sequence[str] | None) -> pa.Table:
        shape = self.schema(views)
        if columns is not None:
            unknown = set(columns) - set(shape.names)
            if unknown:
                raise UnknownName("column", min(unknown), shape.names)
            shape = pa.schema([shape.field(name) for name in columns])
        paths = [part.path for view in views for part in view.parts]
        tables = [shape.empty_table()]
        if paths:
            options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
            parts = ds.dataset(
                paths,
                schema=shape,
                format=ds.ParquetFileFormat(default_fragment_scan_options=options),
                filesystem=self.files.filesystem,
            )
            tables.append(parts.to_table())
        return pa.concat_tables([*tables, *(fill(view.hot(), shape) for view in views if view.rows)])

    def _streams(self, view: LogView, wanted: EventFilter) -> Iterator[Stream]:
        """Give each part's events, and the hot ones, with the place at which they begin."""
        for part in view.parts:
            yield Stream(view.starts[part.path], self._part_events(part, wanted))
        rows = sorted(view.rows, key=lambda row: (view.session(row), row[0]))
        if rows:
            events = (view.layout.event(row, view.session(row)) for row in rows)
            yield Stream((view.session(rows[0]), split_id(rows[0][0])[1]), events)

    def _part_events(self, part: PartEntry, wanted: EventFilter) -> Iterator[Event]:
        """Give the wanted events of a part, up to where it cannot be read."""
        try:
            for batch in self.files.batches(part.path):
                yield from to_events(wanted.keep(batch))
        except (OSError, pa.ArrowException) as error:
            self.problems += (f"part {part.path}: unreadable: {error}",)


class Stream(NamedTuple):
    """Sorted events, none of which comes before a place."""

    start: Key
    events: Iterator[Event]


def merged(streams: Iterable[Stream]) -> Iterator[Event]:
    """Merge sorted streams; each is opened only when its start is reached."""
    waiting = sorted(streams, key=lambda stream: stream.start, reverse=True)
    heap: list[tuple[Key, int, Event, Iterator[Event]]] = []
    while waiting or heap:
        while waiting and (not heap or waiting[-1].start <= heap[0][0]):
            _push(heap, len(waiting), waiting.pop().events)
        if heap:
            _, tie, event, events = heapq.heappop(heap)
            yield event
            _push(heap, tie, events)


def _push(heap: list[tuple[Key, int, Event, Iterator[Event]]], tie: int, events: Iterator[Event]) -> None:
    event = next(events, None)
    if event is not None:
        heapq.heappush(heap, ((event.session_id, event.seq), tie, event, events))


def _view(path: Path, wanted: EventFilter, problems: list[str]) -> LogView:
    """Read manifest and hot rows of a log in one transaction."""
    with contextlib.closing(connect_reader(path)) as reader:
        reader.execute("BEGIN")
        check_version(reader)
        layout = read_layout(reader)
        sessions = dict(reader.execute("SELECT number, session_id FROM sessions").fetchall())
        parts = live_parts(reader, path.stem)
        spans = reader.execute("SELECT path, number, first, rows FROM part_sessions").fetchall()
        hot = _hot_rows(reader, layout, sessions, wanted)
    good = tuple(row for row in hot if layout.intact(row))
    problems += [f"log {path.stem}: row {row[0]} damaged: checksum differs" for row in hot if not layout.intact(row)]
    starts: dict[str, Key] = {}
    for part, number, first, _ in spans:
        if wanted.session_id in (None, sessions[number]):
            starts[part] = min(starts.get(part, (sessions[number], first)), (sessions[number], first))
    chosen = (part for part in parts if part.path in starts and wanted.doc_type in (None, part.doc_type))
    counts = tuple((part, sessions[number], rows) for part, number, _, rows in spans)
    return LogView(path.stem, layout, sessions, tuple(chosen), good, starts, counts)


def _hot_rows(
    reader: sqlite3.Connection, layout: Layout, sessions: Mapping[int, str], wanted: EventFilter
) -> list[Row]:
    conditions, values = ["TRUE"], list[object]()
    for name in ("doc_type", "window_id"):
        if (value := getattr(wanted, name)) is not None:
            conditions.append(f"{name} = ?")
            values.append(value)
    if wanted.session_id is not None:
        number = next((number for number, name in sessions.items() if name == wanted.session_id), 0)
        conditions.append("id BETWEEN ? AND ?")
        values += [row_id(number, 0), row_id(number + 1, 0) - 1]
    return reader.execute(f"{layout.select} WHERE {' AND '.join(conditions)} ORDER BY id", values).fetchall()


def _check_size(files: PartFiles, part: PartEntry) -> str | None:
    """Tell whether a part's file is there in its size; enough to list what the store holds."""
    return None if files.sizes([part.path])[part.path] == part.bytes else check_part(files, part)


def _unreadable(error: Exception) -> StoreError:
    return StoreError(f"expected parts that can be read, found: {error}; run: playproof store verify")


def _frame(table: pa.Table) -> pl.DataFrame:
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
