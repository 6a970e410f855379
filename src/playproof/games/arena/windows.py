"""Windows of the arena: clock hours, named by their UTC start with the zone.

Leaves out: other lengths than one hour.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from playproof.errors import DecodeError
from playproof.game import Window

_SHAPE = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})Z?", re.ASCII)


def window_id(moment: datetime) -> str:
    """Give the id of the hour that holds an aware time, such as 2025-01-15T10:00Z."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise DecodeError(f"expected an aware time, found {moment.isoformat()} without a zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:00Z")


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
