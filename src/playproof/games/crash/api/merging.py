"""Join presses to the events of a feed: a press comes after the last tick that was received before it.

A press that names its tick belongs to the last tick up to that one; one that names none goes by its time. A press
before the first tick of its round belongs to no step and is left out. Leaves out: what the presses do (training).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Any

from playproof.events import Event
from playproof.games.crash.api.reading import EventReader, UserEvent, folded, named_payload, round_of, time_of
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.windows import Phase

Place = tuple[int, int]
"""Phase and tick."""


@dataclass
class _Ticks:
    """The ticks of one round: where they stand in the round and among the events."""

    ticks_of: list[Place] = field(default_factory=list)
    events: list[int] = field(default_factory=list)


def merged(events: Sequence[UserEvent], presses: Sequence[UserEvent]) -> list[UserEvent]:
    """Put presses among the events, each after all that could be known at its moment and before the next tick."""
    if not presses:
        return list(events)
    if all(isinstance(item, Event) for item in (*events, *presses)):
        own = {(item.session_id, item.seq): item for item in (*events, *presses) if isinstance(item, Event)}
        return [own[key] for key in sorted(own)]
    ticks, times = _ticks(events), _times(events)
    after: dict[int, list[UserEvent]] = {}
    for press in _in_order(presses):
        index = _index_after(press, ticks, len(events), times)
        if index is not None:
            after.setdefault(index, []).append(press)
    return [item for position, event in enumerate(events) for item in (event, *after.get(position, ()))]


def _ticks(events: Iterable[UserEvent]) -> dict[str, _Ticks]:
    """Find every tick of every round."""
    reader, result = EventReader(), dict[str, _Ticks]()
    for number, event in enumerate(events):
        for made in reader.take(event):
            tick, phase = made.columns.get("tick"), made.columns.get("game_phase")
            if made.event_name == c.TICK and made.window_id and isinstance(tick, int) and isinstance(phase, int):
                ticks = result.setdefault(made.window_id, _Ticks())
                ticks.ticks_of.append((phase, tick))
                ticks.events.append(number)
    return result


def _in_order(presses: Sequence[UserEvent]) -> list[UserEvent]:
    """Sort presses by time where all have one."""
    times = [time_of(press) for press in presses]
    known = sorted((ts, index) for index, ts in enumerate(times) if ts is not None)
    return [presses[index] for _, index in known] if len(known) == len(presses) else list(presses)


def _index_after(press: UserEvent, ticks: dict[str, _Ticks], count: int, times: Sequence[datetime]) -> int | None:
    """Give the event after which a press comes, None if there is none."""
    game_id, ts = round_of(press), time_of(press)
    tick, phase = _int_field(press, "tick"), _int_field(press, "gamephase")
    if game_id is None and len(ticks) == 1:
        (game_id,) = ticks
    if tick is None or game_id is None:
        return _last(times, ts, 0, count)
    of = ticks.get(game_id, _Ticks())
    at = bisect_right(of.ticks_of, (int(Phase.ACTIVE) if phase is None else phase, tick)) - 1
    if at < 0:
        return None
    first = of.events[at]
    end = of.events[at + 1] if at + 1 < len(of.events) else count
    later = _last(times, ts, first, end)
    return first if later is None else later


def _last(times: Sequence[datetime], ts: datetime | None, first: int, end: int) -> int | None:
    """Give the last event of a stretch that came no later than a time; None if none did, or times are not known."""
    if ts is None or not times:
        return None
    index = bisect_right(times, ts, first, end) - 1
    return index if index >= first else None


def _times(events: Sequence[UserEvent]) -> list[datetime]:
    """Give by when all events up to each had come; nothing if one of them does not say its time."""
    known = [ts for event in events if (ts := time_of(event)) is not None]
    return list(accumulate(known, max)) if len(known) == len(events) else []


def _int_field(press: UserEvent, name: str) -> int | None:
    """Give a whole number that a press tells."""
    payload: Any = press.columns if isinstance(press, Event) else named_payload(press)[1]
    result = next((value for key, value in payload.items() if folded(key) == folded(name)), None)
    if isinstance(result, bool) or not isinstance(result, int | float) or not math.isfinite(result):
        return None
    return int(result)
