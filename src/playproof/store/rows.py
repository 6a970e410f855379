"""Events as rows: the layout of one log's table, the way in and out of it, and the checksum of a row.

A row is the tuple that SQLite gives back: identity, envelope, the game's columns, raw text, checksum. Times are
microseconds since 1970 UTC, money and flags are integers. Leaves out: files, transactions and queries.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from playproof.errors import StoreError
from playproof.events import Event, Value
from playproof.game import Column

Row = tuple[Any, ...]

ENVELOPE = ("ts", "server_ts", "source", "doc_type", "direction", "event_name", "window_id", "player_id")
RESERVED = frozenset({*ENVELOPE, "id", "session_id", "seq", "raw", "checksum"})
SQL_TYPES: Mapping[str, str] = {
    "int": "INTEGER",
    "money": "INTEGER",
    "bool": "INTEGER",
    "float": "REAL",
    "text": "TEXT",
}

SEQ_BITS = 42
SEQ_END = 1 << SEQ_BITS
SESSIONS_END = 1 << (63 - SEQ_BITS)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT_END = 1 << 63


def row_id(number: int, seq: int) -> int:
    """Give the row's key: the session's number in this log above, seq below, so that keys sort as events do."""
    return number << SEQ_BITS | seq


def split_id(identity: int) -> tuple[int, int]:
    """Give a key's session number and seq."""
    return identity >> SEQ_BITS, identity & (SEQ_END - 1)


def to_micros(moment: datetime) -> int:
    """Give an aware time as microseconds since 1970 UTC, without rounding."""
    since = moment - EPOCH
    return since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds


def to_moment(micros: int) -> datetime:
    """Give microseconds since 1970 as an aware UTC time."""
    return EPOCH + timedelta(microseconds=micros)


def checksum(values: Sequence[Any], raw: str | None) -> int:
    """Give the CRC-32 of a row: all before the raw text (None at the end does not count), and the raw text.

    `ascii` writes the same text under every version of Python; columns that are added later change nothing.
    """
    end = len(values)
    while values[end - 1] is None:
        end -= 1
    start = 0xFFFF if raw is None else zlib.crc32(raw.encode())
    return zlib.crc32(ascii(tuple(values[:end])).encode(), start)


def intact(row: Row) -> bool:
    """Tell whether a row is as it was written."""
    try:
        return bool(checksum(row[:-2], row[-2]) == row[-1])
    except (AttributeError, UnicodeError):
        return False


def _whole(value: Value) -> int:
    if type(value) is not int or not -_INT_END <= value < _INT_END:
        raise ValueError("a whole number of 64 bits")
    return value


def _float(value: Value) -> float:
    if type(value) not in (float, int) or math.isnan(number := float(value)):  # type: ignore[arg-type]
        raise ValueError("a number")
    return number + 0.0  # SQLite keeps no -0.0


def _flag(value: Value) -> int:
    if type(value) is not bool:
        raise ValueError("True or False")
    return int(value)


def _text(value: Value) -> str:
    if type(value) is not str:
        raise ValueError("a text")
    return plain(value)


_WAY_IN: Mapping[str, Callable[[Value], Any]] = {
    "int": _whole,
    "money": _whole,
    "float": _float,
    "bool": _flag,
    "text": _text,
}


def plain(text: str) -> str:
    r"""Give a text that UTF-8 holds; a lone surrogate becomes its JSON escape, such as \ud800."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


@dataclass(frozen=True)
class Layout:
    """The columns of one log's table, in their order."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if (folded := column.name.casefold()) in RESERVED or folded in seen:
                raise StoreError(f"expected column names of their own, found {column.name!r} taken; rename it")
            seen.add(folded)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Give the names of a row's values, as SQL writes them."""
        return ("id", *ENVELOPE, *(quoted(column.name) for column in self.columns), "raw", "checksum")

    @cached_property
    def insert(self) -> str:
        """Give the statement that writes a row."""
        marks = ", ".join("?" * len(self.names))
        return f"INSERT INTO events ({', '.join(self.names)}) VALUES ({marks})"  # noqa: S608

    @cached_property
    def select(self) -> str:
        """Give the statement that reads whole rows, to be followed by WHERE or ORDER BY."""
        return f"SELECT {', '.join(self.names)} FROM events"  # noqa: S608

    @cached_property
    def _places(self) -> dict[str, tuple[int, Callable[[Value], Any]]]:
        first = 1 + len(ENVELOPE)
        return {column.name: (first + place, _WAY_IN[column.kind]) for place, column in enumerate(self.columns)}

    @cached_property
    def _empty(self) -> list[None]:
        return [None] * len(self.columns)

    def extended(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Give the columns that are new here; one that changed its kind is refused."""
        known = {column.name: column.kind for column in self.columns}
        new = []
        for column in columns:
            if column.name not in known:
                new.append(column)
            elif known[column.name] != column.kind:
                raise StoreError(
                    f"expected column {column.name!r} as {known[column.name]}, as this log has it, found"
                    f" {column.kind}; record into another log or rename the column"
                )
        return tuple(new)

    def row(self, event: Event, number: int) -> Row:
        """Give an event as a row under its session's number; refuse what the columns cannot hold."""
        if event.seq >= SEQ_END:
            raise StoreError(f"expected seq below {SEQ_END}, found {event.seq} in session {event.session_id}")
        server = event.server_ts
        window, player, raw = event.window_id, event.player_id, event.raw
        values: list[Any] = [
            number << SEQ_BITS | event.seq,
            to_micros(event.ts),
            None if server is None else to_micros(server),
            event.source,
            event.doc_type,
            event.direction,
            plain(event.event_name),
            None if window is None else plain(window),
            None if player is None else plain(player),
            *self._empty,
        ]
        places = self._places
        for name, value in event.columns.items():
            if value is not None:
                try:
                    place, way_in = places[name]
                    values[place] = way_in(value)
                except (KeyError, ValueError, OverflowError) as error:
                    raise _unfit(event, name, value, error) from error
        raw = None if raw is None else plain(raw)
        return (*values, raw, checksum(values, raw))

    def event(self, row: Row, session_id: str) -> Event:
        """Give a row as the event that it was made of."""
        _, ts, server, source, doc_type, direction, name, window, player = row[:9]
        columns = {
            column.name: bool(value) if column.kind == "bool" else value
            for column, value in zip(self.columns, row[9:-2], strict=True)
            if value is not None
        }
        return Event(
            ts=to_moment(ts),
            source=source,
            doc_type=doc_type,
            session_id=session_id,
            seq=row[0] & (SEQ_END - 1),
            event_name=name,
            server_ts=None if server is None else to_moment(server),
            direction=direction,
            window_id=window,
            player_id=player,
            raw=row[-2],
            columns=columns,
        )


def _unfit(event: Event, name: str, value: Value, error: Exception) -> StoreError:
    if isinstance(error, KeyError):
        return StoreError(
            f"expected the columns that the game declares, found {name!r} in event {event.event_id}; open the"
            " log with it"
        )
    return StoreError(
        f"expected {error} in column {name!r}, found {str(value)[:80]!r} in event {event.event_id}; nothing was stored"
    )


def quoted(name: str) -> str:
    """Write a name for SQL."""
    return '"' + name.replace('"', '""') + '"'
