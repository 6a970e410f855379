"""Draft folders: where a data set is built before it takes its place, and what a killed build leaves of them.

A build holds a lock in its draft as long as its process lives. The lock file takes its name only after it is locked, so
a draft with a lock file that nobody holds belongs to a build that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = ".draft-"
LOCK = "lock"
UNLOCKED_SECONDS = 3600.0
"""Age after which a draft without a lock file is left over: one of an earlier version, or killed at once."""


@contextlib.contextmanager
def draft_folder(root: Path, name: str) -> Iterator[Path]:
    """Give a new draft folder, removed at the end; drafts of builds that were killed are removed first."""
    for left in leftover_drafts(root):
        shutil.rmtree(left, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-", dir=root))
    try:
        with (path / ".lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (path / ".lock").rename(path / LOCK)
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def leftover_drafts(root: Path) -> list[Path]:
    """Give the drafts whose builds are gone."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.name.startswith(PREFIX) and _is_left(path))


def _is_left(path: Path) -> bool:
    try:
        with (path / LOCK).open("r+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            return time.time() - path.stat().st_mtime > UNLOCKED_SECONDS
        return False  # it ended while we looked
    except OSError:
        return False
