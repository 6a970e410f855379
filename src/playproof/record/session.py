"""One unbroken recording of one player: frames become events, numbered in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from playproof.events import Event, Source, check_id
from playproof.game import Fact, Frame, Game

Commit = Callable[[Sequence[Event]], None]
"""Makes events durable before it returns, or raises."""

NOTE = "record."
"""How the names of events begin that the recorder itself tells, and that no frame lies behind."""
UNNAMED = "frame"
_NAMED = re.compile(r'42(?:/[^,\["]{0,200},)?[0-9]{0,18}\["([A-Za-z0-9_./:@ -]{1,64})"')
_CONTROL = {"1": "close", "2": "ping", "3": "pong"}
_BEGINNINGS = {"0{": "open", "40": "connect", "41": "disconnect", "43": "ack", "44": "refused"}


def text_of(payload: str | bytes) -> str:
    """Give a frame's text; bytes and halves of characters that no file holds are escaped."""
    if isinstance(payload, bytes):
        return payload.decode("utf-8", "backslashreplace")
    return payload if payload.isascii() else payload.encode("utf-8", "backslashreplace").decode()


def unread(text: str) -> Fact:
    """Name a frame from which the game read nothing, by its Socket.IO event where it is one; it is kept raw."""
    named = _NAMED.match(text)
    if named:
        return Fact(named[1], "ws_event")
    return Fact(_CONTROL.get(text) or _BEGINNINGS.get(text[:2], UNNAMED), "ws_event")


class RecordingSession:
    """Decode frames in their order, number the events, and commit them."""

    def __init__(self, game: Game, commit: Commit, session_id: str, source: Source) -> None:
        self._decode = game.recording().decoder()
        self._commit, self._source = commit, source
        self.session_id = check_id(session_id, "session_id")
        self._seq = 0

    def take(self, frames: Iterable[Frame]) -> tuple[Event, ...]:
        """Record frames as one group; the events given back are acknowledged."""
        events = tuple(event for frame in frames for event in self.read(frame))
        self._commit(events)
        return events

    def read(self, frame: Frame) -> Iterator[Event]:
        """Give a frame's events, the raw text with the first of them; nothing is committed."""
        return self.number(frame, self.decode(frame))

    def decode(self, frame: Frame) -> tuple[Fact, ...]:
        """Give a frame's facts, at least one: a frame from which the game read nothing is a fact itself."""
        return self._decode(frame) or (unread(text_of(frame.payload)),)

    def number(self, frame: Frame, facts: Iterable[Fact]) -> Iterator[Event]:
        """Put the facts of a frame into their envelopes."""
        raw: str | None = text_of(frame.payload)
        for fact in facts:
            yield self._numbered(fact, frame.ts, frame, raw)
            raw = None

    def number_fact(self, fact: Fact, ts: datetime, raw: str | None = None) -> Event:
        """Number a fact that no frame lies behind; nothing is committed."""
        return self._numbered(fact, ts, None, raw)

    def _numbered(self, fact: Fact, ts: datetime, frame: Frame | None, raw: str | None) -> Event:
        direction = frame.direction if frame else "none"
        pressed = self._source == "cdp" and frame is not None and direction == "none"
        source: Source = "ui" if pressed else self._source
        event = fact.event(ts, self.session_id, self._seq, source=source, direction=direction, raw=raw)
        self._seq += 1
        return event


def recorded_frames(events: Iterable[Event]) -> Iterator[Frame]:
    """Give the frames that stored events of one session were read from, in their order."""
    for event in events:
        if event.raw is not None and not event.event_name.startswith(NOTE):
            yield Frame(event.ts, event.raw, event.direction)
