"""Windows of the crash game: rounds, their phases, and their names: the day and 16 hex digits that the site deals."""

from __future__ import annotations

import re
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b

from playproof.errors import DecodeError
from playproof.game import Window

EXAMPLES = ("20251215-ece018bd34bb4acc", "20240229-0123456789abcdef")


class Phase(IntEnum):
    """Say where a round stands, with the numbers that recordings use."""

    COOLDOWN = 0
    PRESALE = 1
    ACTIVE = 2
    RUGGED = 3


_SHAPE = re.compile(r"(\d{8})-[0-9a-f]{16}", re.ASCII)


@lru_cache(maxsize=256)
def is_window(text: str) -> bool:
    """Tell whether a text is the id of a round."""
    shape = _SHAPE.fullmatch(text)
    try:
        return shape is not None and bool(datetime.strptime(f"{shape[1]}+0000", "%Y%m%d%z"))
    except ValueError:
        return False


def window_named(name: str) -> str:
    """Give a round's id in the form that the game deals; any text stands for one round."""
    if is_window(name):
        return name
    return f"20000101-{blake2b(name.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def parse_window(text: str) -> Window:
    """Read a gameId such as 20251215-ece018bd34bb4acc; it has this one form."""
    if not is_window(text):
        raise DecodeError(f"expected a round's id such as {EXAMPLES[0]}, found {text[:80]!r}")
    return Window(text)
