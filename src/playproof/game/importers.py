"""How a game reads recordings that other programs made: rows in, facts with their times out.

The stage `record` opens files and archives, orders the rows and keeps the facts; the game says what rows mean.
Two shapes: `Importer` for files of JSON (a line or a document a row), `StoreImporter` for tables of events in Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
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
    completed: bool = False
    """Did a part of it come from what the feed published after its end?"""


@dataclass(frozen=True, slots=True)
class PlayCounts:
    """What the recorded player did, as an import counts it."""

    presses: int = 0
    sequences: int = 0
    orders: int = 0
    """Orders by a press of an action button, or by a program."""
    matched: int = 0
    """Orders whose fill was recorded."""
    refused: int = 0
    """Orders without a fill, and without a change of the player's money."""

    def __add__(self, other: PlayCounts) -> PlayCounts:
        return PlayCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class ImportReading:
    """What the rows of one recording came to."""

    facts: tuple[ImportedFact, ...] = ()
    seen: tuple[WindowCoverage, ...] = ()
    duplicates: int = 0
    problems: tuple[ImportProblem, ...] = ()
    play: PlayCounts = PlayCounts()


class Redactor(Protocol):
    """Takes secrets and names out of raw text."""

    def clean(self, text: str, direction: Direction) -> str:
        """Give a text that may be kept."""

    def clean_message(self, name: str, data: str) -> tuple[str, object]:
        """Give the frame of a received message that may be kept, and its payload; None if that is no JSON."""

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
    documents: Callable[[object], Sequence[Mapping[str, Any]] | None] = lambda document: None  # noqa: ARG005
    """Give the rows of a whole JSON document that is no JSON Lines file; None if it is not of this kind."""


@dataclass(frozen=True, slots=True)
class StoreRow:
    """One row of a foreign event store."""

    file: str
    line: int
    """Row of its file, from 1."""
    values: Mapping[str, Any]
    """By column; null columns are left out."""


@dataclass(frozen=True)
class StoreSession:
    """What is known of one session before its rows are read in their order."""

    session_id: str
    kinds: frozenset[tuple[str, str, str, str]] = frozenset()
    """Every combination of doc type, event name, window and player that occurs; an empty text where a row has none."""
    first: Mapping[tuple[str, str], StoreRow] = field(default_factory=dict)
    """The first row of every doc type and event name."""
    presses: tuple[StoreRow, ...] = ()
    """The rows of presses, in the order of arrival."""


class StoreReader(Protocol):
    """Read the rows of one session of a foreign event store."""

    def take(self, row: StoreRow) -> Iterable[ImportedFact]:
        """Give the facts of the next row, in the order of arrival."""

    def repeat(self, row: StoreRow) -> Iterable[ImportedFact]:
        """Take a row that stands in two files."""

    def close(self) -> Iterable[ImportedFact]:
        """Give what was held back until it was clear that nothing follows."""

    def reading(self) -> ImportReading:
        """Give what was counted; its facts are empty."""


@dataclass(frozen=True)
class StoreImporter:
    """One kind of foreign event store: a table of events in Parquet files."""

    doc: str
    zone: str
    """IANA name of the zone of times that name none."""
    columns: frozenset[str]
    """Columns by which a table of this kind is known."""
    presses: str
    """Doc type of the rows of presses."""
    reader: Callable[[StoreSession, ImportSettings], StoreReader]


def read_moment(value: object, zone: tzinfo) -> datetime:
    """Read an ISO time as aware UTC; without a zone it is local to `zone`, where that is two times the first."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None:
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise DecodeError(f"expected a time such as 2025-12-12T17:16:58.624285, found {str(value)[:40]!r}")
