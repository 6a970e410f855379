"""How a game reads its old recordings: rows in, facts with their times out.

The stage `record` opens files and archives, finds the rows and keeps the facts; the game says what
rows mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol

from playproof.errors import DecodeError
from playproof.events import Direction
from playproof.game.types import Fact


@dataclass(frozen=True, slots=True)
class ImportRow:
    """One JSON object of an old recording."""

    line: int
    """Where it stands in its file, from 1."""
    text: str
    """The object as it was written."""
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ImportPart:
    """The rows that one file holds of one recording, in their order."""

    file: str
    digest: str
    """SHA-256 of the file's bytes: orders parts without a look at their names."""
    rows: tuple[ImportRow, ...]


@dataclass(frozen=True, slots=True, order=True)
class ImportProblem:
    """Something that was expected otherwise."""

    file: str
    line: int
    """From 1; 0 if it is about the whole file."""
    problem: str


@dataclass(frozen=True, slots=True)
class ImportedFact:
    """A fact, when the recorder knew it, and the raw text that it was read from."""

    ts: datetime
    fact: Fact
    raw: str | None = None
    """None for the second and later facts of one raw text."""
    direction: Direction = "none"


@dataclass(frozen=True, slots=True)
class WindowCoverage:
    """How much of a window a recording holds."""

    window_id: str
    ended: bool
    """Was its end seen?"""
    whole: bool
    """Was everything seen, from its beginning to its end?"""


@dataclass(frozen=True, slots=True)
class ImportReading:
    """What the rows of one recording came to."""

    facts: tuple[ImportedFact, ...] = ()
    seen: tuple[WindowCoverage, ...] = ()
    duplicates: int = 0
    problems: tuple[ImportProblem, ...] = ()


class Redactor(Protocol):
    """Takes secrets and names out of raw text."""

    def clean(self, text: str, direction: Direction) -> str:
        """Give a text that may be kept."""

    def learn(self, names: Iterable[str]) -> None:
        """Take names as the recorded player's own, which stay."""


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """What a reading depends on beside the rows."""

    zone: tzinfo
    """The zone of times that name none."""
    redactor: Callable[[], Redactor]
    """Makes one for each recording, so that none knows another's player."""


@dataclass(frozen=True)
class Importer:
    """One kind of old recordings."""

    doc: str
    zone: str
    """IANA name of the zone in which its recorder wrote times that name none."""
    is_row: Callable[[Mapping[str, Any]], bool]
    """Tell whether an object found inside a damaged line is a whole row and no piece of one."""
    recording: Callable[[Mapping[str, Any]], str | None]
    """Give the recording that a row belongs to, in whatever file it stands, as letters, digits, - and _;
    None if that is its own file."""
    read: Callable[[Sequence[ImportPart], ImportSettings], ImportReading]
    """Read one recording; the parts come in any order, and their order must not matter."""


def read_moment(value: object, zone: tzinfo) -> datetime:
    """Read an ISO time as aware UTC; without a zone it is local to `zone`, where that is two times the first."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None:
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise DecodeError(f"expected a time such as 2025-12-12T17:16:58.624285, found {str(value)[:40]!r}")
