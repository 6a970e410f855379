"""Windows of the arena: stretches of whole clock hours, named by their UTC start with the zone.

A day is cut from midnight UTC on; the usual window is one hour.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from playproof.errors import ConfigError, DecodeError
from playproof.game import Window

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 24)
"""Hours that a window may last, so that days are cut alike."""
_SHAPE = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})Z?", re.ASCII)


def window_start(moment: datetime, hours: int = 1) -> datetime:
    """Give the beginning of the window that holds an aware time."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise DecodeError(f"expected an aware time, found {moment.isoformat()} without a zone")
    if hours not in LENGTHS:
        raise ConfigError(f"expected a window of {', '.join(map(str, LENGTHS))} hours, found {hours}")
    there = moment.astimezone(UTC)
    return there.replace(hour=there.hour - there.hour % hours, minute=0, second=0, microsecond=0)


def window_id(moment: datetime, hours: int = 1) -> str:
    """Give the id of the window that holds an aware time, such as 2025-01-15T10:00Z."""
    return window_start(moment, hours).strftime("%Y-%m-%dT%H:00Z")


def parse_window(text: str) -> Window:
    """Read a window id; one without the Z is read as UTC."""
    shape = _SHAPE.fullmatch(text)
    try:
        start = datetime.strptime(f"{shape[1]}Z", "%Y-%m-%dT%H:%M%z") if shape else None
    except ValueError:
        start = None
    if start is None or start.minute:
        raise DecodeError(f"expected a window id such as 2025-01-15T10:00Z, found {text[:80]!r}")
    start = start.astimezone(UTC)
    return Window(window_id(start), start)
