"""Take values out of JSON that nobody vouches for: the value if it is one, else None."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from playproof.errors import DecodeError
from playproof.money import to_units

MAX_INT = 10**9
MAX_NUMBER = 1e12
MAX_COINS = 9_000_000_000
"""Above this units do not fit 64 bits."""
MAX_TEXT = 500
_ID = re.compile(r"[A-Za-z0-9_.:@+=-]{1,128}")
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_LAST_MS = 4_102_444_800_000
"""The year 2100."""


def to_record(value: object) -> dict[str, object]:
    """Take an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def to_list(value: object) -> list[object]:
    """Take a list, or an empty one."""
    return value if isinstance(value, list) else []


def to_flag(value: object) -> bool | None:
    """Take true or false."""
    return value if isinstance(value, bool) else None


def to_whole(value: object, most: int = MAX_INT) -> int | None:
    """Take a whole number from 0 on, also one written as 5.0."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= most else None


def to_number(value: object, most: float = MAX_NUMBER) -> float | None:
    """Take a finite number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most else None


def to_amount(value: object, *, signed: bool = False) -> int | None:
    """Take an amount of at most nine decimals as units of 10^-9: a number by its shortest text, or decimal text."""
    if isinstance(value, str):
        return to_units(value) if _DECIMAL.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_COINS:
        return None
    try:
        units = to_units(value)
    except DecodeError:
        return None
    return units if signed or units >= 0 else None


def to_id(value: object) -> str | None:
    """Take an id of printable characters that no path or markup is made of."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def to_text(value: object) -> str | None:
    """Take a text, cut to a bounded length; halves of surrogate pairs, which no file holds, become question marks."""
    return value[:MAX_TEXT].encode("utf-8", "replace").decode() if isinstance(value, str) else None


def to_moment(value: object) -> datetime | None:
    """Take milliseconds since 1970 as aware UTC."""
    ms = to_number(value, _LAST_MS)
    return datetime.fromtimestamp(math.floor(ms) / 1000, UTC) if ms else None
