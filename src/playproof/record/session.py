"""One unbroken recording of one player: frames become events, acknowledged once they are durable.

Leaves out: where frames come from (sockets, browsers, importers), redaction and listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from playproof.events import Event, Source, check_id
from playproof.game import Fact, Frame, Game, resolve

Commit = Callable[[Sequence[Event]], None]
"""Makes events durable before it returns, or raises."""

UNREAD = Fact("frame", "ws_event")
"""Stands for a frame from which the game read nothing; it is kept raw."""


class Session:
    """Decode frames in their order, number the events, and commit them."""

    def __init__(self, game: Game, commit: Commit, session_id: str, source: Source) -> None:
        self._decode = resolve(game.decoder)()
        self._commit, self._source = commit, source
        self.session_id = check_id(session_id, "session_id")
        self._seq = 0

    def take(self, frames: Iterable[Frame]) -> tuple[Event, ...]:
        """Record frames as one group; the events given back are acknowledged."""
        events = tuple(event for frame in frames for event in self._events(frame))
        self._commit(events)
        return events

    def _events(self, frame: Frame) -> Iterator[Event]:
        """Give a frame's events, the raw text with the first of them."""
        payload = frame.payload
        raw: str | None = payload if isinstance(payload, str) else payload.decode("utf-8", "backslashreplace")
        for fact in self._decode(frame) or (UNREAD,):
            yield fact.event(
                frame.ts, self.session_id, self._seq, source=self._source, direction=frame.direction, raw=raw
            )
            self._seq += 1
            raw = None
