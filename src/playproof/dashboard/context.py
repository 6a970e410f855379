"""What the dashboard's pages are built from: the home, its tables, and small caches that a change makes void."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine

T = TypeVar("T")
MOST_CACHED = 512


class StateCache:
    """Results by key and state: what was computed from a state of files is kept until that changes; bounded."""

    def __init__(self, most: int = MOST_CACHED) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[Hashable, object]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, state: Hashable, make: Callable[[], T]) -> T:
        """Give what was made of this state, or make it."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept[0] == state:
                self._kept.move_to_end(key)
                return kept[1]  # type: ignore[return-value]
        result = make()
        with self._lock:
            self._kept[key] = (state, result)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return result


@dataclass
class DashboardContext:
    """One home, as the pages see it."""

    root: Path
    engine: Engine
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    cache: StateCache = field(default_factory=StateCache)
    curves: StateCache = field(default_factory=lambda: StateCache(128))
    """Learning curves, which weigh more."""


def stat_of(path: Path) -> tuple[int, int] | None:
    """Give the state of a file: when it was written, and its size; None where it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
