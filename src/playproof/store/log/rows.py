"""Events as rows: the layout of one log's table, the way in and out of it, and the checksum of a row.

A row is the tuple that SQLite gives back: identity, envelope, the game's columns, raw text, checksum. On its way in
it holds only what an event carries, and a Shape says which columns those are. Times are microseconds since 1970
UTC, money and flags are integers. Leaves out: files, transactions and queries.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import itemgetter
from typing import Any

from playproof.errors import StoreError
from playproof.events import Event, Value
from playproof.game import Column
from playproof.json_types import Json

Row = tuple[Any, ...]

ENVELOPE = ("ts", "server_ts", "source", "doc_type", "direction", "event_name", "window_id", "player_id")
RESERVED = frozenset({*ENVELOPE, "id", "session_id", "seq", "raw", "checksum"})
SQL_TYPES: Mapping[str, str] = {"int": "INTEGER", "money": "INTEGER", "bool": "INTEGER", "float": "", "text": "TEXT"}
"""A float has none: SQLite would keep REAL -0.0 as 0."""
PYTHON_TYPES: Mapping[str, type] = {"int": int, "money": int, "bool": bool, "float": float, "text": str}
WHOLE, FRACTION, TEXT = "q", "d", "s"
_PACKED: Mapping[str, str] = {"int": WHOLE, "money": WHOLE, "bool": WHOLE, "float": FRACTION, "text": TEXT}

SEQ_BITS = 42
SEQ_END = 1 << SEQ_BITS
SESSIONS_END = 1 << (63 - SEQ_BITS)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT_END = 1 << 63
_TEXTS = ("event_name", "window_id", "player_id", "raw")


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


def _whole(value: Value) -> int:
    if type(value) is not int or not -_INT_END <= value < _INT_END:
        raise ValueError("a whole number of 64 bits")
    return value


def _float(value: Value) -> float:
    if type(value) not in (float, int) or math.isnan(number := float(value)):  # type: ignore[arg-type]
        raise ValueError("a number")
    return number


def _flag(value: Value) -> bool:
    if type(value) is not bool:
        raise ValueError("True or False")
    return value


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


class RowShape:
    """One combination of columns that rows carry: how such rows are written and checked."""

    def __init__(self, packed: Mapping[str, str], present: Sequence[str], types: tuple[type, ...] = ()) -> None:
        names = ", ".join([*map(quoted, present), "checksum"])
        marks = ", ".join("?" * (len(present) + 1))
        self.insert = f"INSERT INTO events ({names}) VALUES ({marks})"  # noqa: S608
        self.types = types
        """What the game's columns must be, for rows to need no conversion."""
        order = sorted(range(len(present)), key=present.__getitem__)
        numbers = [index for index in order if packed[present[index]] != TEXT]
        self.numbers = itemgetter(*numbers)
        self._texts = itemgetter(*(index for index in order if packed[present[index]] == TEXT))
        self._pack = struct.Struct("<" + "".join(packed[present[number]] for number in numbers)).pack
        self._seed = zlib.crc32(",".join(sorted(present)).encode())

    def checksum(self, values: Sequence[Any]) -> int:
        """Give the CRC-32 of a row's values and of the names of their columns, whatever order those stand in."""
        texts = "\0".join(self._texts(values)).encode()
        return zlib.crc32(texts, zlib.crc32(self._pack(*self.numbers(values)), self._seed))


class NeedsConversion(Exception):
    """Tell that an event's values need conversion, or do not fit."""


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
        """Give the names of a whole row's values."""
        return ("id", *ENVELOPE, *(column.name for column in self.columns), "raw", "checksum")

    @cached_property
    def select(self) -> str:
        """Give the statement that reads whole rows, to be followed by WHERE or ORDER BY."""
        return f"SELECT {', '.join(map(quoted, self.names))} FROM events"  # noqa: S608

    @cached_property
    def _packed(self) -> dict[str, str]:
        envelope = {name: WHOLE if name in ("ts", "server_ts") else TEXT for name in ENVELOPE}
        return {"id": WHOLE, **envelope, **{column.name: _PACKED[column.kind] for column in self.columns}, "raw": TEXT}

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {column.name: column.kind for column in self.columns}

    @cached_property
    def _coming(self) -> dict[tuple[Any, ...], RowShape]:
        """Shapes of events, by what they carry."""
        return {}

    @cached_property
    def _stored(self) -> dict[tuple[bool, ...], RowShape]:
        """Shapes of whole rows, by which values are there."""
        return {}

    def extended(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Give the columns that are new here; one that changed its kind is refused."""
        known = self._kinds
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

    def row(self, event: Event, number: int) -> tuple[RowShape, Row]:
        """Give an event as a row under its session's number; refuse what the columns cannot hold."""
        try:
            return self._row(event, number)
        except (NeedsConversion, struct.error, UnicodeEncodeError):
            return self._row(self._converted(event), number)

    def _row(self, event: Event, number: int) -> tuple[RowShape, Row]:
        columns = event.columns
        server, window, player, raw = event.server_ts, event.window_id, event.player_id, event.raw
        values: list[Any] = [
            number << SEQ_BITS | event.seq,
            to_micros(event.ts),
            event.source,
            event.doc_type,
            event.direction,
            event.event_name,
            *columns.values(),
        ]
        if server is not None:
            values.append(to_micros(server))
        values += [text for text in (window, player, raw) if text is not None]
        carried = (tuple(columns), server is None, window is None, player is None, raw is None)
        shape = self._coming.get(carried) or self._new_shape(carried)
        if tuple(map(type, columns.values())) != shape.types or event.seq >= SEQ_END:
            raise NeedsConversion
        total = sum(shape.numbers(values))
        if total != total:  # NaN, or infinities of both signs  # noqa: PLR0124
            raise NeedsConversion
        values.append(shape.checksum(values))
        return shape, tuple(values)

    def _new_shape(self, carried: tuple[Any, ...]) -> RowShape:
        names, *absent = carried
        if any(name not in self._kinds for name in names):
            raise NeedsConversion
        optional = [
            name for name, gone in zip(("server_ts", "window_id", "player_id", "raw"), absent, strict=True) if not gone
        ]
        present = ("id", "ts", "source", "doc_type", "direction", "event_name", *names, *optional)
        shape = RowShape(self._packed, present, tuple(PYTHON_TYPES[self._kinds[name]] for name in names))
        return self._coming.setdefault(carried, shape)

    def _converted(self, event: Event) -> Event:
        """Give an event whose values fit as they are, or say which one does not."""
        if event.seq >= SEQ_END:
            raise StoreError(f"expected seq below {SEQ_END}, found {event.seq} in session {event.session_id}")
        columns: dict[str, Value] = {}
        for name, value in event.columns.items():
            if value is not None:
                try:
                    columns[name] = _WAY_IN[self._kinds[name]](value)
                except (KeyError, ValueError, OverflowError) as error:
                    raise _unfit(event, name, value, error) from error
        texts: Json = {name: plain(text) for name in _TEXTS if (text := getattr(event, name)) is not None}
        return replace(event, columns=columns, **texts)

    def intact(self, row: Row) -> bool:
        """Tell whether a whole row is as it was written."""
        there = tuple(value is not None for value in row)
        values = [value for value in row[:-1] if value is not None]
        try:
            shape = self._stored.get(there) or self._stored_shape(there)
            return bool(shape.checksum(values) == row[-1])
        except (struct.error, TypeError, UnicodeError):
            return False

    def _stored_shape(self, there: tuple[bool, ...]) -> RowShape:
        present = [name for name, is_there in zip(self.names[:-1], there[:-1], strict=True) if is_there]
        return self._stored.setdefault(there, RowShape(self._packed, present))

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
