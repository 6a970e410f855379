"""Old recordings of the crash game: JSON Lines with the rows game_start, tick, game_end and a few others.

A row becomes what the same message of the feed would have become in a live recording: the first
rugged row is the rug, a ghost row after it is no tick, and a known tick with another price is a
conflict. A round is a recording of its own, in however many files it stands; nothing that is
missing is filled in. Leaves out: files and damaged lines.

The recorder wrote local time without a zone. The ids of rounds name the day in UTC: rounds change
day at 20:00 in the recordings of October 2025 and at 19:00 in those after 2 November, which is
the time of New York and of no zone without its summer time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from operator import itemgetter
from typing import Any

from playproof.errors import DecodeError
from playproof.events import DocType, Value
from playproof.game import Fact
from playproof.game.importers import (
    ImportedFact,
    Importer,
    ImportPart,
    ImportProblem,
    ImportReading,
    ImportRow,
    ImportSettings,
    WindowCoverage,
    read_moment,
)
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.json_fields import to_number, to_whole
from playproof.games.crash.recording.round_tracker import MAX_PRICE, MAX_TICK, MAX_TIMER, Place
from playproof.games.crash.rules.windows import Phase, is_window

ZONE = "America/New_York"
TYPES = ("session_start", "game_start", "tick", "game_end", "game_complete", "session_end")
KEPT: Fact = Fact("frame", "ws_event")
"""Stands for a row from which nothing was read; it is kept raw."""
INCOMPLETE = "incomplete"
PRESALE = "PRESALE"

_PLACE = ("active", "rugged", "tick", "cooldown_timer", "price")
_SAID = (*_PLACE, "phase", "trade_count")
_TICK_FIELDS = {"game_id", *_SAID}
_LONGEST = timedelta(minutes=30)
"""From the naming of a round to its last message: 5000 ticks, cooldown and presale take 21 minutes."""
_EARLY = timedelta(minutes=1)


def is_tick(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is a whole tick row: every field is there, and holds what it should."""
    if value.get("type") != "tick" or not value.keys() >= _TICK_FIELDS:
        return False
    flags = type(value["active"]) is bool and type(value["rugged"]) is bool
    whole = to_whole(value["tick"], MAX_TICK) is not None and to_whole(value["trade_count"]) is not None
    timer, price = to_whole(value["cooldown_timer"], MAX_TIMER), to_number(value["price"], MAX_PRICE)
    return flags and whole and timer is not None and price is not None and isinstance(value["phase"], str)


def is_row(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is a whole row."""
    kind = value.get("type")
    if not isinstance(value.get("timestamp"), str):
        return False
    return is_tick(value) if kind == "tick" else kind in TYPES


def recording(value: Mapping[str, Any]) -> str | None:
    """Give the round that a row tells of."""
    game_id = value.get("game_id")
    return game_id if isinstance(game_id, str) and is_window(game_id) else None


said = itemgetter(*_SAID)
"""Gives what a tick row says apart from its time: one that says the same again is not kept."""


def place_of(value: Mapping[str, Any]) -> tuple[object, ...]:
    """Give where a tick row stands in its round, with the price: one at a known place tells nothing new."""
    return (*_place(value), value["phase"] == PRESALE)


_place = itemgetter(*_PLACE)


def phase_of_row(value: Mapping[str, Any]) -> Phase | None:
    """Give the phase of a tick row; None where it does not say."""
    if value["rugged"]:
        return Phase.RUGGED
    if value["active"]:
        return Phase.ACTIVE
    if value["phase"] == PRESALE:
        return Phase.PRESALE
    return Phase.COOLDOWN if value["cooldown_timer"] > 0 else None


class RoundFollower:
    """Follow one round from its tick rows; tells what `Rounds` tells of the same messages, and is quicker."""

    def __init__(self, game_id: str) -> None:
        self.game_id = game_id
        self.prices: dict[Place, float] = {}
        self.newest: Place | None = None
        self.rug_tick: int | None = None
        self._timer, self._trades, self._opened = MAX_TIMER, 0, False

    def take(self, value: Mapping[str, Any]) -> list[Fact]:
        """Give what a tick row adds."""
        facts = [] if self._opened else [Fact(c.ROUND, "server_state", {}, self.game_id)]
        self._opened, phase = True, phase_of_row(value)
        if phase is not None:
            facts += self._at((int(phase), int(value["tick"])), float(value["price"]), value)
        return facts

    def _at(self, index: Place, price: float, value: Mapping[str, Any]) -> Iterator[Fact]:
        """Tell a row by where it stands."""
        known = self.prices.get(index)
        if known is not None:
            yield from self._again(index, price, known, value)
            return
        self.prices[index] = price
        if self.rug_tick is not None and index > (Phase.RUGGED, self.rug_tick):
            yield self._fact(c.RUG_REPEAT, "server_state", index, price)
            return
        if index[0] == Phase.RUGGED:
            self.rug_tick = index[1]
        if self.newest is None or index > self.newest:
            yield from self._gap(index)
            self.newest = index
            yield self._shown(c.TICK, "game_tick", index, price, value)
        elif index[0] >= Phase.ACTIVE:
            yield self._fact(c.LATE_TICK, "game_tick", index, price)

    def _again(self, index: Place, price: float, known: float, value: Mapping[str, Any]) -> Iterator[Fact]:
        """Tell a row at a known place: before tick 0 the timer moves on, and a price must not change."""
        if price != known:
            yield self._fact(c.CONFLICT, "system_event", index, price)
        elif index == self.newest:
            before = self._timer
            shown = self._shown(c.COUNTDOWN, "server_state", index, price, value)
            if index[0] < Phase.ACTIVE and self._timer < before:
                yield shown

    def _gap(self, index: Place) -> Iterator[Fact]:
        """Tell the ticks that are missing before a place."""
        if self.newest is not None and index[0] >= Phase.ACTIVE:
            expected = self.newest[1] + 1 if self.newest[0] >= Phase.ACTIVE else 0
            if index[1] > expected:
                yield c.fact(c.GAP, {"missing_from": expected, "missing_to": index[1] - 1}, self.game_id)

    def _fact(self, name: str, doc_type: DocType, index: Place, price: float) -> Fact:
        return Fact(name, doc_type, {"tick": index[1], "price": price, "game_phase": index[0]}, self.game_id)

    def _shown(self, name: str, doc_type: DocType, index: Place, price: float, value: Mapping[str, Any]) -> Fact:
        """Give a fact with all that is shown now.

        The recorder wrote a trade_count of 0 where the message had none: a 0 says nothing.
        """
        self._timer, self._trades = int(value["cooldown_timer"]), int(value["trade_count"]) or self._trades
        columns: dict[str, Value] = {
            "tick": index[1],
            "price": price,
            "game_phase": index[0],
            "cooldown_timer_ms": self._timer,
        }
        if self._trades:
            columns["trade_count"] = self._trades
        return Fact(name, doc_type, columns, self.game_id)


@dataclass
class RoundProgress:
    """What was received of one round."""

    received: dict[int, float] = field(default_factory=dict)
    """Price of each tick while the round ran."""
    rugs: dict[int, float] = field(default_factory=dict)

    def take(self, columns: Mapping[str, Value]) -> None:
        """Take the columns of a tick."""
        tick, price, phase = (columns.get(name) for name in ("tick", "price", "game_phase"))
        if isinstance(tick, int) and isinstance(price, float) and isinstance(phase, int) and phase >= Phase.ACTIVE:
            (self.rugs if phase == Phase.RUGGED else self.received)[tick] = price

    @property
    def rug_tick(self) -> int | None:
        """Give the tick of the rug."""
        return min(self.rugs, default=None)

    def reason(self) -> str | None:
        """Say why the round is not whole; None if every tick from 0 to the rug was received."""
        end = self.rug_tick
        if end is None:
            return "the rug was not received" if self.received else "no tick of it was received"
        missing = [tick for tick in range(end) if tick not in self.received]
        return f"{len(missing)} ticks before the rug were not received, the first is {missing[0]}" if missing else None

    def seen(self, window_id: str, *, completed: bool = False) -> WindowCoverage:
        """Say how much was received."""
        return WindowCoverage(window_id, self.rug_tick is not None, self.reason() is None, completed)

    def closing(self, game_id: str) -> Fact:
        """Tell how the round ended, or that it is not whole."""
        why, end = self.reason(), self.rug_tick
        if why is not None or end is None:
            return Fact(INCOMPLETE, "system_event", {"reason": why}, game_id)
        payload: dict[str, Value] = {
            "game_id": game_id,
            "rug_seen": True,
            "rug_tick": end,
            "rug_price": self.rugs[end],
            "peak": max([self.rugs[end], *(self.received[tick] for tick in range(end))]),
            "ended_by_rug": True,
        }
        return c.fact(c.COMPLETE, payload, game_id)


def missing_runs(fact: Fact, received: set[int]) -> Iterator[Fact]:
    """Give the gaps that remain of one when later rows bring some of its ticks."""
    start, end = fact.columns["missing_from"], fact.columns["missing_to"]
    assert isinstance(start, int)
    assert isinstance(end, int)
    first = None
    for tick in range(start, end + 2):
        missing = tick <= end and tick not in received
        if missing and first is None:
            first = tick
        elif not missing and first is not None:
            yield c.fact(c.GAP, {"missing_from": first, "missing_to": tick - 1}, fact.window_id)
            first = None


class Day:
    """The day in a round's name, against which the times of its rows are held."""

    def __init__(self, game_id: str, zone: tzinfo) -> None:
        day = datetime.strptime(f"{game_id[:8]}+0000", "%Y%m%d%z")
        self.game_id, self.zone = game_id, zone
        self.first, self.last = day - _EARLY, day + timedelta(days=1) + _LONGEST
        self._changes = self.first.astimezone(zone).utcoffset() != self.last.astimezone(zone).utcoffset()

    def why_odd(self, written: object, ts: datetime) -> str | None:
        """Say what is wrong with a row's time, if anything is."""
        if not self.first <= ts <= self.last:
            return (
                f"{written} in {self.zone} is not on the day of {self.game_id} in UTC: another zone, or written later"
            )
        if self._changes and _read_late(written, self.zone) != ts:
            return f"{written} in {self.zone} is not one moment: the clock was changed; the earlier one was taken"
        return None


def _read_late(written: object, zone: tzinfo) -> datetime:
    """Read a time as the second of two where the clock was set back."""
    local = datetime.fromisoformat(str(written))
    return (local if local.tzinfo else local.replace(tzinfo=zone, fold=1)).astimezone(UTC)


class RoundReader:
    """Read the rows of one round in their order."""

    def __init__(self, game_id: str, parts: Sequence[ImportPart], zone: tzinfo) -> None:
        self.game_id, self.zone, self.day = game_id, zone, Day(game_id, zone)
        self.follower, self.progress = RoundFollower(game_id), RoundProgress()
        self.facts: list[ImportedFact] = []
        self.problems: list[ImportProblem] = []
        self.duplicates = 0
        self._parts = parts
        self._kept = Fact(KEPT.event_name, KEPT.doc_type, window_id=game_id)
        self._told: set[object] = set()
        self._places: set[object] = set()
        self._odd_times: set[str] = set()

    def take(self, row: ImportRow, file: str) -> None:
        """Read one row."""
        try:
            ts = read_moment(row.value.get("timestamp"), self.zone)
        except DecodeError as error:
            self._report(row, file, f"{error}; the row was left out")
            return
        self._check_time(row, file, ts)
        tick = is_tick(row.value)
        same = said(row.value) if tick else row.text
        if same in self._told:
            self.duplicates += 1
            return
        self._told.add(same)
        raw: str | None = row.text
        for fact in (self._tick(row, file) if tick else self._other(row, file)) or (self._kept,):
            self.facts.append(ImportedFact(ts, fact, raw))
            raw = None

    def _other(self, row: ImportRow, file: str) -> list[Fact]:
        """Give what a row tells that is no tick."""
        kind = row.value.get("type")
        if kind in TYPES and kind != "tick":
            return [Fact(str(kind), "system_event", window_id=self.game_id)]
        self._report(row, file, f"a row of type {str(kind)[:40]!r} that cannot be read was kept raw")
        return []

    def _tick(self, row: ImportRow, file: str) -> list[Fact]:
        """Give what a tick row tells; nothing at a known place."""
        index = place_of(row.value)
        if index in self._places:
            self.duplicates += 1
            return []
        self._places.add(index)
        facts = [fact for payload in self.follower.take(row.value) for fact in self._really(payload)]
        for fact in facts:
            if fact.doc_type == "game_tick":
                self.progress.take(fact.columns)
            elif fact.event_name == c.CONFLICT:
                self._report(row, file, conflict(fact))
        return facts

    def _really(self, fact: Fact) -> Iterable[Fact]:
        """Take out of a gap what later rows bring."""
        return missing_runs(fact, self._received) if fact.event_name == c.GAP else (fact,)

    @cached_property
    def _received(self) -> set[int]:
        """Give the ticks of the running round that any row brings."""
        values = (row.value for part in self._parts for row in part.rows)
        running = (value for value in values if value.get("active") is True and is_tick(value))
        return {value["tick"] for value in running if not value["rugged"]}

    def _report(self, row: ImportRow, file: str, problem: str) -> None:
        self.problems.append(ImportProblem(file, row.line, problem))

    def _check_time(self, row: ImportRow, file: str, ts: datetime) -> None:
        """Report, once a file, a time that does not fit the day in the round's name, or that could be two."""
        if file not in self._odd_times and (why := self.day.why_odd(row.value.get("timestamp"), ts)):
            self._odd_times.add(file)
            self._report(row, file, why)

    def reading(self) -> ImportReading:
        """Close the round, and give everything."""
        result = tuple(self.facts)
        if result:
            result += (ImportedFact(result[-1].ts, self.progress.closing(self.game_id)),)
        return ImportReading(result, (self.progress.seen(self.game_id),), self.duplicates, tuple(self.problems))


def conflict(fact: Fact) -> str:
    """Say that a known tick came with another price."""
    return f"tick {fact.columns['tick']} of {fact.window_id} is known with another price than {fact.columns['price']}"


def _in_order(parts: Iterable[ImportPart]) -> list[ImportPart]:
    """Sort parts by their first time as it was written, then by content."""
    return sorted(parts, key=lambda part: (str(part.rows[0].value.get("timestamp")), part.digest))


def read(parts: Sequence[ImportPart], setting: ImportSettings) -> ImportReading:
    """Read one round, or the rows of a file that belong to none."""
    game_id = recording(parts[0].rows[0].value)
    if game_id is None:
        return _read_others(parts, setting)
    reader = RoundReader(game_id, parts, setting.zone)
    for part in _in_order(parts):
        for row in part.rows:
            reader.take(row, part.file)
    return reader.reading()


def _read_others(parts: Sequence[ImportPart], setting: ImportSettings) -> ImportReading:
    """Keep rows that belong to no round, with the time that they give."""
    results, problems = [], []
    for part in parts:
        for row in part.rows:
            kind = row.value.get("type")
            try:
                ts = read_moment(row.value.get("timestamp"), setting.zone)
            except DecodeError as error:
                problems.append(ImportProblem(part.file, row.line, f"{error}; the row was left out"))
                continue
            known = kind in TYPES and "game_id" not in row.value
            if not known:
                problems.append(
                    ImportProblem(part.file, row.line, "a row without a round that can be read was kept raw")
                )
            results.append(ImportedFact(ts, Fact(str(kind), "system_event") if known else KEPT, row.text))
    return ImportReading(tuple(results), problems=tuple(problems))


IMPORTER = Importer(
    doc="JSON Lines of an older recorder, a file a round: game_start, tick and game_end rows",
    zone=ZONE,
    is_row=is_row,
    recording=recording,
    read=read,
)
