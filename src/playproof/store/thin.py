"""A thin event store: one file of checked lines, synced before `append` returns.

Two functions, `append` and `read`. A line is the CRC-32 of its JSON text, a space, the text. What a
crash left unfinished at the end of the file was never acknowledged, and the next append cuts it
off. Leaves out: queries, compaction, a second writer, repeated events, going on after a failed sync,
and repair: damage inside the file stops the reading.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from playproof.errors import StoreError
from playproof.events import Event
from playproof.home import folder

FILE = "events.log"


def append(home: Path, events: Iterable[Event]) -> None:
    """Write events behind those already there; they are durable when this returns."""
    path = folder("log", home) / FILE
    lines = b"".join(_line(event) for event in events)
    created = not path.exists()
    try:
        with path.open("x+b" if created else "r+b") as file:
            file.seek(_end(file))
            file.truncate()
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        if created:
            _sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"expected to write to {path}, found: {error.strerror}; nothing was acknowledged") from error


def read(home: Path) -> tuple[Event, ...]:
    """Give every event that was acknowledged, in the order of writing."""
    path = folder("log", home) / FILE
    return tuple(_events(path)) if path.exists() else ()


def _line(event: Event) -> bytes:
    told = {name: getattr(event, name) for name in event.__dataclass_fields__}
    told |= {"ts": event.ts.isoformat(), "server_ts": event.server_ts and event.server_ts.isoformat()}
    text = json.dumps(told | {"columns": dict(event.columns)}, allow_nan=False, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _event(text: bytes) -> Event:
    told: dict[str, Any] = json.loads(text)
    server = told["server_ts"]
    moments = {
        "ts": datetime.fromisoformat(told["ts"]),
        "server_ts": None if server is None else datetime.fromisoformat(server),
    }
    return Event(**told | moments)


def _events(path: Path) -> Iterator[Event]:
    """Read the whole lines, each checked."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            checksum, _, text = line[:-1].partition(b" ")
            if checksum != b"%08x" % zlib.crc32(text):
                raise StoreError(f"expected line {number} of {path} as it was written, found it damaged")
            yield _event(text)


def _end(file: BinaryIO) -> int:
    """Give the place behind the last whole line."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return 0
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return size
    file.seek(0)
    return file.read().rfind(b"\n") + 1


def _sync_folder(path: Path) -> None:
    """Make a new name in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
