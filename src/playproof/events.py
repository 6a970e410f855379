"""The event: an immutable fact with two clocks, in one envelope for every game."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Literal, get_args

from playproof.errors import DecodeError
from playproof.home import check_id as check_id  # noqa: PLC0414 - events export it to all that make ids

Source = Literal["cdp", "public_ws", "replay", "ui", "import"]
DocType = Literal[
    "ws_event",
    "game_tick",
    "player_action",
    "button_event",
    "server_state",
    "system_event",
    "complete_game",
    "gap",
    "ml_episode",
]
Direction = Literal["received", "sent", "none"]
Value = str | int | float | bool | None

SOURCES: tuple[Source, ...] = get_args(Source)
DOC_TYPES: tuple[DocType, ...] = get_args(DocType)
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

_NOTHING: Mapping[str, Value] = MappingProxyType({})


def check_utc(moment: datetime, what: str) -> datetime:
    """Refuse a time that is not aware UTC."""
    if moment.utcoffset() != timedelta(0):
        raise DecodeError(f"expected {what} as aware UTC, found {moment.isoformat()}")
    return moment.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """One fact as it was recorded."""

    ts: datetime
    """When this client could know it, aware UTC."""
    source: Source
    doc_type: DocType
    session_id: str
    seq: int
    """Position in the session's recording, from 0; (session_id, seq) is the event's identity."""
    event_name: str
    server_ts: datetime | None = None
    """When it happened by the server's clock, where the server says so."""
    direction: Direction = "none"
    window_id: str | None = None
    player_id: str | None = None
    raw: str | None = None
    """The JSON text as it came, after redaction."""
    columns: Mapping[str, Value] = field(default_factory=lambda: _NOTHING)
    """The columns that the game declares; money as integers of its smallest unit."""

    def __post_init__(self) -> None:
        check_utc(self.ts, "ts")
        if self.server_ts is not None:
            check_utc(self.server_ts, "server_ts")
        check_id(self.session_id, "session_id")
        if self.seq < 0:
            raise DecodeError(f"expected seq >= 0, found {self.seq}")
        for result, known, what in (
            (self.source, SOURCES, "source"),
            (self.doc_type, DOC_TYPES, "doc_type"),
            (self.direction, DIRECTIONS, "direction"),
        ):
            if result not in known:
                raise DecodeError(f"expected {what} to be one of {', '.join(known)}, found {result!r}")

    @property
    def event_id(self) -> str:
        """Give the identity of this event in every store."""
        return f"{self.session_id}/{self.seq}"
