"""What columns of the relational tables hold: moments, money, texts and JSON, the same in SQLite and PostgreSQL.

Leaves out: which columns there are (records).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import BigInteger, DateTime, Dialect, TypeDecorator

from playproof.errors import InputError

MONEY = BigInteger
"""Integers of the game's smallest unit."""
LARGEST = 2**63 - 1
_MOST_DEPTH = 200


class Moment(TypeDecorator[datetime]):
    """An aware UTC time: timestamptz in PostgreSQL, text in UTC in SQLite, so that both sort and compare alike."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a time without a zone; give it as UTC."""
        if value is None:
            return None
        if value.utcoffset() is None:
            raise InputError(f"expected an aware time, found {value.isoformat()} without a zone")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Give the time back as aware UTC, whatever zone the session speaks in."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def moment_text(moment: datetime) -> str:
    """Write a moment as SQLite keeps it, for statements that go to the driver itself."""
    there = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return there.isoformat(" ", "microseconds")[:26]


def storable(text: str) -> str:
    """Give a text that both databases can hold: NUL and halves of surrogate pairs become U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain(value: Any, depth: int = 0) -> Any:
    """Give a JSON value that both databases can hold; refuse what JSON cannot say and whole numbers beyond 64 bits.

    Numbers that are not finite become None: unknown.
    """
    if depth > _MOST_DEPTH:
        raise InputError(f"expected JSON nested at most {_MOST_DEPTH} deep, found more")
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | float):
        return _number(value)
    raise InputError(f"expected a JSON value, found {type(value).__name__}; give texts, numbers, lists and objects")


def _number(value: float | bool | None) -> float | bool | None:
    if isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
        raise InputError(f"expected whole numbers of 64 bits, found one of {value.bit_length()} bits")
    return None if isinstance(value, float) and value - value != 0.0 else value


class JsonText(str):
    """A JSON value that is written already."""

    __slots__ = ()


def write_json(value: Any) -> str:
    """Write a JSON column's text; what one of the databases could not hold is replaced or refused as in `plain`."""
    if isinstance(value, JsonText):
        return str(value)
    try:
        text = orjson.dumps(value)
    except TypeError:
        return orjson.dumps(plain(value)).decode()
    return text.decode() if b"\\u0000" not in text else orjson.dumps(plain(value)).decode()


def read_json(text: str | bytes) -> Any:
    """Read a JSON column's text."""
    return orjson.loads(str(text) if isinstance(text, JsonText) else text)
