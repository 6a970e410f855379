"""Raw captures of the crash game's socket: JSON Lines {"seq", "ts", "event", "data"[, "source", "direction"]}.

A row becomes the Socket.IO frame that it was, with the very text of its data, and goes through the
same redaction and decoder as a live recording. An event with two arguments stands as the list
[trace, payload]; a recorder that kept the trace alone has lost the payload, which is reported.
Leaves out: files and damaged lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from playproof.errors import DecodeError
from playproof.events import Direction
from playproof.game import Fact, Frame
from playproof.game.importers import (
    ImportedFact,
    Importer,
    ImportPart,
    ImportProblem,
    ImportReading,
    ImportRow,
    ImportSettings,
    read_moment,
)
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.decode import CrashDecoder
from playproof.games.crash.recording.importers.legacy import KEPT, ZONE, RoundProgress, conflict
from playproof.games.crash.recording.json_fields import to_id, to_record
from playproof.games.crash.recording.round_tracker import read_core
from playproof.games.crash.server.protocol import STATE

LIFECYCLE: Mapping[str, str] = {"connect": "40", "disconnect": "41"}
"""What a client calls events although the socket has frames of their own for them."""
TRACE = "__trace"

_SPACE = re.compile(r"[ \t\r\n]*")
_SCAN = json.JSONDecoder().raw_decode


def is_row(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is a whole row."""
    texts = isinstance(value.get("ts"), str) and isinstance(value.get("event"), str)
    return texts and "data" in value and "seq" in value


def members(text: str) -> dict[str, str]:
    """Give the members of a JSON object as they were written."""
    result: dict[str, str] = {}
    skip = text.index("{") + 1
    while True:
        skip = _skip(text, skip, ",")
        if text[skip] == "}":
            return result
        key, skip = _SCAN(text, skip)
        start = _skip(text, skip, ":")
        _, skip = _SCAN(text, start)
        result[key] = text[start:skip]


def _skip(text: str, index: int, mark: str) -> int:
    """Go over space, one mark if it is there, and space."""
    index = _space(text, index)
    return _space(text, index + 1) if text[index] == mark else index


def _space(text: str, index: int) -> int:
    match = _SPACE.match(text, index)
    return match.end() if match else index


def frame_of(row: ImportRow) -> str:
    """Write the frame that a row was made from."""
    event, data = row.value["event"], row.value["data"]
    if data is None and event in LIFECYCLE:
        return LIFECYCLE[event]
    name = orjson.dumps(event).decode()
    if data is None:
        return f"42[{name}]"
    text = members(row.text)["data"]
    return f"42[{name},{text[1:-1].strip() if _two_arguments(data) else text}]"


def _two_arguments(data: object) -> bool:
    return isinstance(data, list) and len(data) == 2 and _is_trace(data[0])


def _is_trace(value: object) -> bool:
    return isinstance(value, dict) and value.get(TRACE) is True


def direction_of(row: ImportRow) -> Direction:
    """Give the direction of a row; one that says nothing was received."""
    return "sent" if row.value.get("direction") == "sent" else "received"


class CaptureReader:
    """Read the rows of one capture in their order."""

    def __init__(self, file: str, setting: ImportSettings) -> None:
        self.file, self.setting, self.redactor = file, setting, setting.redactor()
        self.decoder = CrashDecoder()
        self.progress: dict[str, RoundProgress] = {}
        self.facts: list[ImportedFact] = []
        self.problems: list[ImportProblem] = []
        self.duplicates = 0
        self._last_seq: int | None = None

    def take(self, row: ImportRow) -> None:
        """Read one row."""
        try:
            if not is_row(row.value):
                raise DecodeError("expected seq, ts, event and data in a row")
            ts = read_moment(row.value["ts"], self.setting.zone)
        except DecodeError as error:
            self._report(row, f"{error}; the row was left out")
            return
        self._check(row)
        direction = direction_of(row)
        raw: str | None = self.redactor.clean(frame_of(row), direction)
        assert raw is not None
        facts = self.decoder(Frame(ts, raw, direction))
        self._count(row, facts)
        for fact in facts or (KEPT,):
            self.facts.append(ImportedFact(ts, fact, raw, direction))
            raw = None

    def _check(self, row: ImportRow) -> None:
        """Report rows that are not there, and payloads that are not."""
        seq, last = row.value["seq"], self._last_seq
        if isinstance(seq, int):
            if last is not None and seq != last + 1:
                self._report(row, f"seq {seq} follows {last}: rows are missing or out of order")
            self._last_seq = seq
        data = row.value["data"]
        if _is_trace(data):
            self._report(row, f"the recorder kept only the trace of {row.value['event']!r}; its payload is lost")

    def _count(self, row: ImportRow, facts: Sequence[Fact]) -> None:
        """Follow the rounds, and count the states that told nothing new."""
        for fact in facts:
            if fact.doc_type == "game_tick" and fact.window_id is not None:
                self.progress.setdefault(fact.window_id, RoundProgress()).take(fact.columns)
            elif fact.event_name == c.CONFLICT:
                self._report(row, conflict(fact))
        if row.value["event"] == STATE and not facts:
            data = to_record(row.value["data"])
            if to_id(data.get("gameId")) in self.decoder.rounds.kept and read_core(data) is not None:
                self.duplicates += 1
            else:
                self._report(row, "a gameStateUpdate that cannot be read was kept raw")

    def _report(self, row: ImportRow, problem: str) -> None:
        self.problems.append(ImportProblem(self.file, row.line, problem))


def _own_names(parts: Sequence[ImportPart], setting: ImportSettings) -> Iterator[str]:
    """Find out who the recorded player is, by decoding until the feed says so."""
    decoder = CrashDecoder()
    for row in (row for part in parts for row in part.rows if is_row(row.value)):
        try:
            ts = read_moment(row.value["ts"], setting.zone)
        except DecodeError:
            continue
        for fact in decoder(Frame(ts, frame_of(row), direction_of(row))):
            if fact.event_name == c.IDENTITY and fact.player_id is not None:
                yield fact.player_id
                return


def read(parts: Sequence[ImportPart], setting: ImportSettings) -> ImportReading:
    """Read one capture."""
    (part,) = parts
    reader = CaptureReader(part.file, setting)
    reader.redactor.learn(_own_names(parts, setting))
    for row in part.rows:
        reader.take(row)
    seen = tuple(progress.seen(game_id) for game_id, progress in reader.progress.items())
    return ImportReading(tuple(reader.facts), seen, reader.duplicates, tuple(reader.problems))


IMPORTER = Importer(
    doc="raw events of a socket or of a browser's socket, one JSON object a line",
    zone=ZONE,
    is_row=is_row,
    recording=lambda value: None,  # noqa: ARG005
    read=read,
)
