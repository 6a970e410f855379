"""Take values out of JSON that nobody vouches for: the value if it is one, else None.

Leaves out: what the values mean.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

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


def to_record(found: object) -> dict[str, Any]:
    """Take an object, or an empty one."""
    return found if isinstance(found, dict) else {}


def to_list(found: object) -> list[Any]:
    """Take a list, or an empty one."""
    return found if isinstance(found, list) else []


def to_flag(found: object) -> bool | None:
    """Take true or false."""
    return found if isinstance(found, bool) else None


def to_whole(found: object, most: int = MAX_INT) -> int | None:
    """Take a whole number from 0 on, also one written as 5.0."""
    if type(found) is float and found.is_integer():
        found = int(found)
    return found if type(found) is int and 0 <= found <= most else None


def to_number(found: object, most: float = MAX_NUMBER) -> float | None:
    """Take a finite number from 0 on."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if 0 <= found <= most else None


def to_amount(found: object, *, signed: bool = False) -> int | None:
    """Take an amount of at most nine decimals as units of 10^-9: a number by its shortest text, or decimal text."""
    if isinstance(found, str):
        return to_units(found) if _DECIMAL.fullmatch(found) else None
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= MAX_COINS:
        return None
    try:
        units = to_units(found)
    except DecodeError:
        return None
    return units if signed or units >= 0 else None


def to_id(found: object) -> str | None:
    """Take an id of printable characters that no path or markup is made of."""
    return found if isinstance(found, str) and _ID.fullmatch(found) else None


def to_text(found: object) -> str | None:
    """Take a text, cut to a bounded length; halves of surrogate pairs, which no file holds, become question marks."""
    return found[:MAX_TEXT].encode("utf-8", "replace").decode() if isinstance(found, str) else None


def to_moment(found: object) -> datetime | None:
    """Take milliseconds since 1970 as aware UTC."""
    ms = to_number(found, _LAST_MS)
    return datetime.fromtimestamp(math.floor(ms) / 1000, UTC) if ms else None
