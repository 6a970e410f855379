"""Cut a user's events into episodes, one for each round.

Leaves out: steps, money and rewards (training).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from playproof.errors import InputError
from playproof.events import Event
from playproof.games.crash.api.files import Sources
from playproof.games.crash.api.reading import EventReader, UserEvent, named_payload, round_of
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.protocol import STATE


@dataclass(frozen=True)
class Episode:
    """All events of one round, as they were given."""

    game_id: str
    events: tuple[UserEvent, ...] = ()
    is_terminal: bool = False
    """Did it rug, as far as was received?"""
    terminal_tick: int | None = None
    """Tick of the first message that called it rugged."""


@dataclass
class _OpenRound:
    """A round while its events are being gathered."""

    game_id: str
    events: list[UserEvent] = field(default_factory=list)
    ticks: set[int] = field(default_factory=set)
    rugs: set[int] = field(default_factory=set)
    is_shown: bool = False
    """Did the feed itself tell of it, and not only a trade in it?"""

    def take(self, event: UserEvent, made: Iterable[Event]) -> None:
        """Take an event and what was read from it."""
        self.events.append(event)
        self.is_shown |= isinstance(event, Event) or named_payload(event)[0] == STATE
        for item in made:
            tick, phase = item.columns.get("tick"), item.columns.get("game_phase")
            if item.event_name in (c.TICK, c.LATE_TICK) and isinstance(tick, int) and isinstance(phase, int):
                if phase >= Phase.ACTIVE:
                    self.ticks.add(tick)
                if phase == Phase.RUGGED:
                    self.rugs.add(tick)

    def episode(self) -> Episode:
        """Give the record."""
        return Episode(self.game_id, tuple(self.events), bool(self.rugs), min(self.rugs, default=None))


class EpisodeSegmenter:
    """Cut events by round.

    An event that names no round, such as a playerUpdate, belongs to the round that began last. A round that began
    before the recording or that was not seen to rug is an episode too; `is_terminal` tells.

    Example:
        >>> ticks = [{"game_id": "g1", "tick": 1, "price": 1.0}, {"game_id": "g1", "tick": 2, "rugged": True}]
        >>> [(episode.game_id, episode.terminal_tick) for episode in EpisodeSegmenter().segment(ticks)]
        [('g1', 2)]
    """

    def __init__(self, min_ticks: int = 0) -> None:
        self.min_ticks = min_ticks
        """Rounds with fewer distinct ticks received are dropped."""

    def segment(self, events: Iterable[UserEvent]) -> list[Episode]:
        """Give the episodes in the order of their first events."""
        readers: dict[str, EventReader] = {}
        current: dict[str, str] = {}
        result: dict[tuple[str, str], _OpenRound] = {}
        for event in events:
            session = event.session_id if isinstance(event, Event) else ""
            made = readers.setdefault(session, EventReader()).take(event)
            game_id = round_of(event) or current.get(session)
            if game_id is None:
                continue
            if (session, game_id) not in result:
                result[session, game_id], current[session] = _OpenRound(game_id), game_id
            result[session, game_id].take(event, made)
        kept = (item for item in result.values() if item.is_shown and len(item.ticks) >= self.min_ticks)
        return [item.episode() for item in kept]

    def from_parquet(self, path_or_store: Any, limit: int | None = None) -> list[Episode]:
        """Give the episodes, at most `limit` of them, of a home, an event store, Parquet, a pattern or a frame.

        Nothing comes out empty in silence: without an episode the reasons are an error.
        """
        sources = Sources(path_or_store)
        episodes = self.segment(sources.events)
        if not episodes:
            rounds = len(EpisodeSegmenter().segment(sources.events))
            short = f"{rounds} rounds have fewer than {self.min_ticks} ticks" if rounds else "no round of this game"
            why = "; ".join([f"{len(sources.events)} events were read, {short}", *sources.problems[:5]])
            raise InputError(f"expected at least one episode in {path_or_store}, found none: {why}")
        return episodes[:limit]
