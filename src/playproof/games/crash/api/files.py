"""Read events from where users keep them: a store's home, a folder of Parquet, one file, a table, or a list.

Leaves out: what the events mean (reading).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playproof.errors import InputError
from playproof.events import Event
from playproof.games.crash.api.reading import UserEvent, time_of
from playproof.store import EventStore

if TYPE_CHECKING:
    import pyarrow as pa

_OWN = ("session_id", "seq", "ts", "source", "doc_type", "event_name", "window_id", "player_id", "raw")
"""Columns by which a part of a store is known."""


def read_events(source: Any) -> list[UserEvent]:
    """Give all events of a source in the order in which they could be known.

    A source is a home, a folder, a file (.parquet or .jsonl), an open store, a data frame, or the events themselves.
    """
    if isinstance(source, EventStore):
        return list(source.events())
    if isinstance(source, str | Path):
        return _from_path(Path(source).expanduser())
    if hasattr(source, "to_dicts"):  # a Polars frame
        return _sorted(list(map(_filled, source.to_dicts())))
    if hasattr(source, "to_pylist"):  # an Arrow table
        return _sorted(list(map(_filled, source.to_pylist())))
    return list(source)


def _from_path(path: Path) -> list[UserEvent]:
    if not path.exists():
        raise InputError(f"expected a folder or a file of events, found nothing at {path}")
    if path.is_dir() and ((path / "log").is_dir() or (path / "events").is_dir()):
        return list(EventStore(path).events())
    files = sorted([*path.rglob("*.parquet"), *path.rglob("*.jsonl")]) if path.is_dir() else [path]
    if not files:
        raise InputError(f"expected a home or Parquet files, found none in {path}; record or import something first")
    return _sorted([event for file in files for event in _from_file(file)])


def _from_file(path: Path) -> Iterator[UserEvent]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines if line.strip())
        return
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from _from_batch(batch)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"expected a Parquet file at {path}, found: {error}") from error


def _from_batch(batch: pa.RecordBatch) -> Iterator[UserEvent]:
    if set(_OWN) <= set(batch.schema.names):
        from playproof.store.log.parts import to_events

        yield from to_events(batch)
    else:
        yield from map(_filled, batch.to_pylist())


def _filled(row: dict[str, Any]) -> dict[str, Any]:
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
