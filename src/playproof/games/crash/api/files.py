"""Read events from where users keep them: a store's home, their own event store, Parquet, JSON Lines, frames, lists.

A table with the columns of an event store (session_id, seq, ts, doc_type, raw_json) is read as
`playproof import events` reads it. Other tables hold one event a row, in any of the forms that `reading` knows.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from playproof.errors import InputError
from playproof.events import Direction, Event
from playproof.game.importers import ImportSettings
from playproof.games.crash.api.reading import UserEvent, time_of
from playproof.games.crash.recording.importers.event_store import IMPORTER
from playproof.json_types import Json
from playproof.record.imports.archives import is_temporary
from playproof.record.imports.event_store import StoreFile, StoreSurvey, first_line
from playproof.record.imports.recognise import expand
from playproof.store import EventStore

if TYPE_CHECKING:
    import pyarrow as pa

_OWN = ("session_id", "seq", "ts", "source", "doc_type", "event_name", "window_id", "player_id", "raw")
"""Columns by which a part of a store is known."""
KIND = "events"


class KeepNames:
    """Leave names and texts as they are: nothing that is read here is stored."""

    def clean(self, text: str, direction: Direction) -> str:  # noqa: ARG002
        """Give the text itself."""
        return text

    def clean_message(self, name: str, data: str) -> tuple[str, object]:
        """Write the frame of a message, and read its payload."""
        try:
            payload = orjson.loads(data) if data else None
        except orjson.JSONDecodeError:
            payload = None
        return f"42[{json.dumps(name)}{',' if data else ''}{data}]", payload

    def learn(self, names: Iterable[str]) -> None:
        """Learn nothing."""


class Sources:
    """Events gathered from any number of sources, in the order in which they could be known."""

    def __init__(self, *sources: Any) -> None:
        self.problems: list[str] = []
        """What could not be read, and why."""
        self._tables: list[StoreFile] = []
        self._rows: list[UserEvent] = []
        with tempfile.TemporaryDirectory(prefix="playproof-events-") as scratch:
            self._scratch = Path(scratch)
            for source in sources:
                if source is not None:
                    self._add(source)
            self.events: list[UserEvent] = [*self._from_tables(), *_sorted(self._rows)]

    def _add(self, source: Any) -> None:
        if isinstance(source, EventStore):
            self._rows += source.events()
        elif isinstance(source, str | Path):
            for path in expand(source):
                self._add_path(path)
        elif hasattr(source, "to_arrow") or hasattr(source, "to_pylist") or hasattr(source, "itertuples"):
            self._add_table(_arrow(source))
        else:
            rows = list(source)
            dicts = [row for row in rows if isinstance(row, Mapping)]
            if rows and len(dicts) == len(rows) and all(_is_store(row.keys()) for row in dicts):
                self._add_table(_arrow(dicts))
            else:
                self._rows += rows

    def _add_path(self, path: Path) -> None:
        if path.is_dir() and ((path / "log").is_dir() or (path / "events").is_dir()):
            self._rows += EventStore(path).events()
            return
        files = sorted([*path.rglob("*.parquet"), *path.rglob("*.jsonl")]) if path.is_dir() else [path]
        if not files:
            raise InputError(
                f"expected a home or Parquet files, found none in {path}; record or import something first"
            )
        for file in files:
            if is_temporary(file.name):
                self.problems.append(f"{file.name} is unfinished and was skipped")
            elif file.suffix == ".jsonl":
                with file.open(encoding="utf-8") as lines:
                    self._rows += (json.loads(line) for line in lines if line.strip())
            else:
                self._add_parquet(file)

    def _add_parquet(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path) as file:
                if _is_store(file.schema_arrow.names):
                    self._tables.append(StoreFile(path.name, path))
                    return
                for batch in file.iter_batches():
                    self._rows += _from_batch(batch)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"expected a Parquet file at {path}, found: {first_line(error)}") from error

    def _add_table(self, table: pa.Table) -> None:
        """Take a frame; one of an event store is read from a file, as all of them are."""
        import pyarrow.parquet as pq

        if _is_store(table.schema.names):
            path = self._scratch / f"{len(self._tables)}.parquet"
            pq.write_table(table, path)
            self._tables.append(StoreFile("the frame", path))
        else:
            self._rows += _sorted([_filled(row) for row in table.to_pylist()])

    def _from_tables(self) -> Iterator[Event]:
        if not self._tables:
            return
        survey = StoreSurvey(self._tables, IMPORTER, lambda done, total: None)  # noqa: ARG005
        for session in survey.sessions(ImportSettings(UTC, KeepNames)):
            yield from session.events(KIND)
            self.problems += (problem.problem for problem in session.reading().problems)
        self.problems += (f"{problem.file}: {problem.problem}" for problem in survey.problems)


def read_events(source: Any) -> list[UserEvent]:
    """Give all events of a source in the order in which they could be known.

    A source is a home, a folder, a file (.parquet or .jsonl), a pattern, an open store, a frame of pandas, Polars or
    Arrow, or the events themselves.
    """
    return Sources(source).events


def _is_store(names: Iterable[str]) -> bool:
    return set(names) >= IMPORTER.columns


def _arrow(source: Any) -> pa.Table:
    """Give a frame of pandas or Polars, or rows, as an Arrow table."""
    import pyarrow as pa

    if isinstance(source, list):
        return pa.Table.from_pylist([dict(row) for row in source])
    if hasattr(source, "to_arrow"):
        return source.to_arrow()
    return source if isinstance(source, pa.Table) else pa.Table.from_pandas(source, preserve_index=False)


def _from_batch(batch: pa.RecordBatch) -> Iterator[UserEvent]:
    if set(_OWN) <= set(batch.schema.names):
        from playproof.store.log.parts import to_events

        yield from to_events(batch)
    else:
        yield from map(_filled, batch.to_pylist())


def _filled(row: Json) -> Json:
    """Leave out what a row of a table does not tell."""
    return {name: value for name, value in row.items() if value is not None}


def _sorted(events: list[UserEvent]) -> list[UserEvent]:
    """Sort events of the store by session and place, others by their time if each has one."""
    own = [event for event in events if isinstance(event, Event)]
    if len(own) == len(events):
        own.sort(key=lambda event: (event.session_id, event.seq))
        return list(own)
    times = [time_of(event) for event in events]
    known = [(ts, index) for index, ts in enumerate(times) if ts is not None]
    return [events[index] for _, index in sorted(known)] if len(known) == len(events) else events
