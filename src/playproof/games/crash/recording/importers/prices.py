"""Rounds as lists of prices: a file of JSON in which every round is the list of its prices, tick by tick to the rug.

Known shapes, a round a line or all in one document:
{"id": ..., "prices": [...]} with or without timestamp, rugged, provablyFair and gameVersion; {id: [...], ...};
[[...], ...]; [{"id": ..., "prices": [...]}, ...]; and any of these under "rounds", "games" or "gameHistory".
The place in the list is the tick, the last price is the rug's. A round without an id is named by its prices. Such
rounds hold no play: they serve the audit, tapes to validate on, and training of a predictor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from playproof.game import Fact, Frame
from playproof.game.importers import (
    ImportedFact,
    Importer,
    ImportPart,
    ImportProblem,
    ImportReading,
    ImportSettings,
    WindowCoverage,
)
from playproof.games.crash.recording.decode import CrashDecoder
from playproof.games.crash.recording.json_fields import to_moment, to_number, to_record
from playproof.games.crash.recording.round_tracker import MAX_PRICE, MAX_TICK
from playproof.games.crash.rules.windows import is_window, window_named
from playproof.games.crash.server.protocol import STATE, event_frame

TICK_TIME = timedelta(milliseconds=250)
_IDS = ("id", "gameId", "game_id", "round", "name")
_GROUPS = ("rounds", "games", "gameHistory", "history")


def is_row(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is a round with its prices."""
    return _is_prices(value.get("prices"))


def documents(document: object) -> Sequence[Mapping[str, Any]] | None:  # noqa: PLR0911
    """Give the rounds of a document; None if it holds none."""
    if isinstance(document, Mapping):
        for name in _GROUPS:
            if name in document:
                return documents(document[name])
        if is_row(document):
            return [document]
        if document and all(_is_prices(value) for value in document.values()):
            return [{"id": name, "prices": prices} for name, prices in document.items()]
        return None
    if isinstance(document, list) and document:
        if all(isinstance(item, Mapping) and is_row(item) for item in document):
            return document
        if all(_is_prices(item) for item in document):
            return [{"prices": item} for item in document]
    return None


def _is_prices(value: object) -> bool:
    """Tell whether a list can be the prices of a round: every round begins at 1."""
    if not isinstance(value, list) or len(value) < 2 or value[0] != 1:
        return False
    return all(to_number(price, MAX_PRICE) is not None for price in value)


def recording(value: Mapping[str, Any]) -> str | None:
    """Give the round of a row: each is a recording of its own."""
    return round_id(value) if is_row(value) else None


def round_id(value: Mapping[str, Any]) -> str:
    """Give the id of a round as this game deals them; any other name, or the prices themselves, stand for one."""
    name = next((str(value[key]) for key in _IDS if value.get(key) is not None), "")
    return name if is_window(name) else window_named(name or json.dumps(value["prices"]))


def read(parts: Sequence[ImportPart], setting: ImportSettings) -> ImportReading:  # noqa: ARG001
    """Read one round; the same round in several files must have the same prices."""
    rows = [(part, row) for part in parts for row in part.rows]
    problems: list[ImportProblem] = []
    known = [(part, row) for part, row in rows if is_row(row.value)]
    problems += [
        ImportProblem(part.file, row.line, "expected a list of at least two prices; the row was left out")
        for part, row in rows
        if not is_row(row.value)
    ]
    if not known:
        return ImportReading(problems=tuple(problems))
    (part, row), *others = sorted(known, key=lambda item: (item[0].digest, item[1].line))
    for other, again in others:
        if again.value["prices"] != row.value["prices"]:
            problems.append(ImportProblem(other.file, again.line, f"another price list of {round_id(row.value)}"))
    facts, ended = _facts(row.value, row.text)
    window, too_long = round_id(row.value), len(row.value["prices"]) > MAX_TICK + 1
    if too_long:
        problems.append(ImportProblem(part.file, row.line, f"expected at most {MAX_TICK + 1} prices; left out"))
        return ImportReading(problems=tuple(problems))
    return ImportReading(facts, (WindowCoverage(window, ended, ended),), len(others), tuple(problems))


def _facts(value: Mapping[str, Any], text: str) -> tuple[tuple[ImportedFact, ...], bool]:
    """Give the facts of a round as its feed would have told them, a tick each quarter of a second."""
    window, prices = round_id(value), value["prices"]
    ended = value.get("rugged") is not False
    last = to_moment(value.get("timestamp")) or _day(window)
    decoder, facts = CrashDecoder(), list[ImportedFact]()
    raw: str | None = text
    for tick, price in enumerate(prices):
        rugged = ended and tick == len(prices) - 1
        state = {"gameId": window, "tickCount": tick, "price": price, "active": not rugged, "rugged": rugged}
        ts = last - TICK_TIME * (len(prices) - 1 - tick)
        for fact in decoder(Frame(ts, event_frame(STATE, [state | {"cooldownTimer": 0}]), "received")):
            facts.append(ImportedFact(ts, fact, raw))
            raw = None
    entry = {**value, "id": window, "rugged": ended, "provablyFair": to_record(value.get("provablyFair"))}
    revealed: list[Fact] = decoder.rounds.take_history([entry]) if ended else []
    facts += (ImportedFact(last, fact) for fact in revealed)
    return tuple(facts), ended


def _day(window: str) -> datetime:
    """Give a moment on the day in a round's name: noon UTC."""
    return datetime.strptime(window[:8], "%Y%m%d").replace(hour=12, tzinfo=UTC)


IMPORTER = Importer(
    doc="rounds as lists of prices in JSON, without play",
    zone="UTC",
    is_row=is_row,
    recording=recording,
    read=read,
    documents=documents,
)
