"""The home folder: where everything that Playproof keeps lives on disk, and safe paths inside a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Literal, get_args

from playproof.errors import ConfigError, DecodeError, InputError

VARIABLE = "PLAYPROOF_HOME"
DEFAULT = "playproof-home"
DATABASE = "playproof.db"
"""The relational tables of a home, where no PostgreSQL URL is given."""

Folder = Literal["log", "events", "datasets", "runs", "models", "reports"]
FOLDERS: tuple[Folder, ...] = get_args(Folder)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def home() -> Path:
    """Give the home folder: $PLAYPROOF_HOME, or playproof-home here. It need not exist."""
    return Path(os.environ.get(VARIABLE) or DEFAULT).expanduser().absolute()


def folder(name: Folder, root: Path | None = None) -> Path:
    """Give one of the home's folders, made if it is missing."""
    path = (root or home()) / name
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"expected a folder that can be made at {path}, found: {error.strerror}; set {VARIABLE}"
        ) from error
    return path


def database(root: Path | None = None) -> Path:
    """Give the path of the home's database."""
    return (root or home()) / DATABASE


def check_id(identity: str, what: str) -> str:
    """Refuse an id that is not [A-Za-z0-9_-]{1,64}; such a one is a file's name too."""
    if not _ID.fullmatch(identity):
        raise DecodeError(f"expected {what} of 1 to 64 letters, digits, - or _, found {identity[:80]!r}")
    return identity


def safe_join(root: Path, *parts: str) -> Path:
    """Join parts under root and give the real path, strictly inside the real root.

    Parts may hold `/`. Refused are `..`, absolute and empty parts, backslashes, drives, NUL, text that no
    file name can hold, and links that lead out. Links made after the call are not seen.
    """
    if not parts:
        raise InputError(f"expected at least one part to join to {root}, found none")
    for part in parts:
        _check_part(part)
    real_root = Path(os.path.realpath(root))
    path = Path(os.path.realpath(real_root.joinpath(*parts)))
    if real_root not in path.parents:
        raise InputError(f"expected a path inside {real_root}, found {'/'.join(parts)!r}, which leads to {path}")
    return path


def _check_part(part: str) -> None:
    """Refuse a part that could leave the folder it is joined to."""
    pure = PurePosixPath(part)
    why = None
    if not pure.parts:
        why = "it names nothing"
    elif ".." in pure.parts:
        why = "it climbs with .."
    elif pure.is_absolute() or PureWindowsPath(part).anchor:
        why = "it is absolute"
    elif "\\" in part or "\0" in part:
        why = "it holds a backslash or NUL"
    elif not _encodable(part):
        why = "no file name can hold it"
    if why:
        raise InputError(f"expected a relative path, found {part[:80]!r}; {why}")


def _encodable(part: str) -> bool:
    """Tell whether the file system's encoding takes the text."""
    try:
        os.fsencode(part)
    except UnicodeEncodeError:
        return False
    return True


def write_durably(path: Path, data: bytes) -> None:
    """Write a file so that after a crash either the old or the whole new one is there."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


DRAFT_PREFIX = ".draft-"
DRAFT_LOCK = "lock"
"""Held by a build in its draft folder as long as its process lives. The file takes its name only after it is locked,
so a draft with a lock file that nobody holds belongs to a build that was killed."""
UNLOCKED_SECONDS = 3600.0
"""Age after which a draft without a lock file is left over: one of an earlier version, or killed at once."""


@contextlib.contextmanager
def draft_folder(root: Path, name: str) -> Iterator[Path]:
    """Give a new folder to build in, removed at the end; drafts of builds that were killed are removed first."""
    for left in leftover_drafts(root):
        shutil.rmtree(left, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=f"{DRAFT_PREFIX}{name}-", dir=root))
    try:
        with (path / ".lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (path / ".lock").rename(path / DRAFT_LOCK)
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def leftover_drafts(root: Path) -> list[Path]:
    """Give the drafts whose builds are gone."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.name.startswith(DRAFT_PREFIX) and _is_left_over(path))


def _is_left_over(path: Path) -> bool:
    try:
        with (path / DRAFT_LOCK).open("r+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            return time.time() - path.stat().st_mtime > UNLOCKED_SECONDS
        return False  # it ended while we looked
    except OSError:
        return False
