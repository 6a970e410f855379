"""Outcomes from a file, CSV, JSON lines or Parquet: every line is checked, and all of them are written or none.

A flat line is one asset or one question of a window, under the names of the API or of the studio's own table
(`stock_ticker`, `prediction_market_id`, `change_percent`, `news_events`); a line of JSON may also be a whole window as
POST /v1/outcomes takes it. With `keep_going` the windows without a bad line are written, and the others are named.
Leaves out: what makes outcomes right (record.trajectories.posted_outcomes).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Engine

from playproof.errors import InputError, RefusedRecord
from playproof.game import WindowRules
from playproof.game.markets import MarketDeclaration
from playproof.json_types import Json
from playproof.record.trajectories.posted_outcomes import (
    ASSET_FIELDS,
    QUESTION_FIELDS,
    InvalidField,
    PostedOutcomes,
    check_market,
    collect_rows,
    read_asset,
    read_currency,
    read_question,
    read_window_id,
    write_posted,
)
from playproof.store.db import writing

SUFFIXES = (".csv", ".jsonl", ".ndjson", ".parquet")
ALIASES: Mapping[str, str] = {
    "windowId": "window_id",
    "ticker": "asset",
    "stock_ticker": "asset",
    "stockTicker": "asset",
    "startPrice": "start_price",
    "endPrice": "end_price",
    "changePercent": "change_percent",
    "news_events": "news_ids",
    "newsEvents": "news_ids",
    "prediction_market_id": "question_id",
    "predictionMarketId": "question_id",
    "finalProbability": "final_probability",
}
COLUMNS = tuple(
    dict.fromkeys(("window_id", *ASSET_FIELDS, *QUESTION_FIELDS, "change_percent", "currency", "market")).keys()
)
"""What a flat line may hold."""


@dataclass(frozen=True, slots=True)
class LineProblem:
    """Why one line of a file cannot be written."""

    line: int
    window_id: str | None
    field: str
    reason: str


@dataclass
class OutcomeImport:
    """What became of a file of outcomes."""

    file: str
    market: str
    lines: int = 0
    windows: int = 0
    """Windows that were written or are there with the same content."""
    written: int = 0
    """Rows that are new or corrected."""
    again: int = 0
    """Windows that were there already."""
    corrected: int = 0
    problems: list[LineProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> Json:
        """Give the report as one object."""
        return asdict(self)


@dataclass
class _WindowLines:
    """The lines of one window as they are gathered."""

    currency: str
    first: int
    rows: list[Json] = field(default_factory=list)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def import_outcomes(
    engine: Engine,
    path: Path,
    windows: WindowRules,
    now: datetime,
    *,
    market: MarketDeclaration | None = None,
    currency: str | None = None,
    reason: str | None = None,
    keep_going: bool = False,
) -> OutcomeImport:
    """Write a file's outcomes in one transaction; with `reason` as a correction of what is there."""
    report = OutcomeImport(str(path), windows.market)
    gathered = _gather(path, windows, market, currency, report)
    ready: list[tuple[int, PostedOutcomes]] = []
    for window_id, window in sorted(gathered.items()):
        try:
            posted = collect_rows(window_id, window.currency, window.rows, windows, now, market, window.notes, reason)
            ready.append((window.first, posted))
        except InvalidField as error:
            report.problems.append(LineProblem(window.first, window_id, error.field, error.explanation))
        except RefusedRecord as error:
            report.problems.append(LineProblem(window.first, window_id, "window_id", str(error)))
    if ready and (keep_going or not report.problems):
        _write(engine, ready, now, keep_going, report)
    report.problems.sort(key=lambda problem: problem.line)
    return report


def _gather(
    path: Path, windows: WindowRules, market: MarketDeclaration | None, currency: str | None, report: OutcomeImport
) -> dict[str, _WindowLines]:
    """Read every line; give the windows whose lines are all right, and report the other lines."""
    gathered: dict[str, _WindowLines] = {}
    bad: set[str] = set()
    stated = currency or (market.currency if market else None)
    for line, entry in read_lines(path):
        report.lines += 1
        window_id: str | None = None
        try:
            if isinstance(entry, str):
                raise InvalidField("line", entry)
            items = list(_items(entry))
            window_id = read_window_id(entry.get("window_id"), windows)
            check_market(entry.get("market"), windows)
            named = read_currency(entry.get("currency") or stated, market)
            window = gathered.setdefault(window_id, _WindowLines(named, line))
            if window.currency != named:
                raise InvalidField("currency", f"expected {window.currency}, as in line {window.first}, found {named}")
            for kind, item in items:
                row, notes = (read_asset if kind == "asset" else read_question)(item, kind)
                key = (row["kind"], row["subject"])
                if key in window.lines:
                    raise InvalidField(kind, f"expected {key[1]!r} once in {window_id}, found line {window.lines[key]}")
                window.lines[key] = line
                window.rows.append(row)
                window.notes += [f"line {line}: {text}" for text in notes]
        except InputError as error:
            name, why = (error.field, error.explanation) if isinstance(error, InvalidField) else ("line", str(error))
            report.problems.append(LineProblem(line, window_id, name, why))
            if window_id is not None:
                bad.add(window_id)
    if not report.lines:
        raise InputError(f"expected outcomes in {path}, found no line")
    return {name: window for name, window in gathered.items() if name not in bad}


def _write(
    engine: Engine, ready: list[tuple[int, PostedOutcomes]], now: datetime, keep_going: bool, report: OutcomeImport
) -> None:
    """Write windows in one transaction, which is taken back as a whole if one is refused and nobody said to go on."""
    done: list[Json] = []
    with writing(engine) as connection:
        for line, posted in ready:
            try:
                done.append(write_posted(connection, posted, now))
            except RefusedRecord as error:
                report.problems.append(LineProblem(line, posted.window_id, "window_id", str(error)))
        if report.problems and not keep_going:
            connection.rollback()
            return
    for answer in done:
        report.windows += 1
        report.again += answer["again"]
        report.corrected += "revision" in answer
        report.written += 0 if answer["again"] else answer["written"]
        report.notes += answer.get("notes", [])


def _items(entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give the assets and questions of a line: of a whole window, or the one of a flat line."""
    if "assets" in entry or "questions" in entry:
        unknown = set(entry) - {"window_id", "currency", "market", "assets", "questions"}
        if unknown:
            raise InvalidField(sorted(unknown)[0], "expected window_id, currency, market, assets and questions alone")
        for kind, name in (("asset", "assets"), ("question", "questions")):
            items = entry.get(name) or []
            if not isinstance(items, list):
                raise InvalidField(name, f"expected a list, found {items!r:.60}")
            for item in items:
                yield kind, item
        return
    unknown = set(entry) - set(COLUMNS)
    if unknown:
        raise InvalidField(sorted(unknown)[0], f"expected one of {', '.join(COLUMNS)}, found a column of another name")
    given = {name: value for name, value in entry.items() if value is not None}
    kinds = [name for name in ("asset", "question_id") if name in given]
    if len(kinds) != 1:
        raise InvalidField("asset", f"expected either asset or question_id, found {' and '.join(kinds) or 'neither'}")
    if "change_percent" in given:
        try:
            given["change"] = Decimal(str(given.pop("change_percent"))).scaleb(-2)
        except InvalidOperation:
            raise InvalidField("change_percent", "expected a finite number") from None
    names = ASSET_FIELDS if kinds == ["asset"] else QUESTION_FIELDS
    wrong = [name for name in given if name not in (*names, "window_id", "currency", "market")]
    if wrong:
        raise InvalidField(wrong[0], f"expected no {wrong[0]} of {'an asset' if 'asset' in given else 'a question'}")
    if isinstance(news := given.get("news_ids"), str):
        given["news_ids"] = _news(news)
    yield kinds[0].removesuffix("_id"), {name: given[name] for name in names if name in given}


def _news(text: str) -> list[Any]:
    """Read ids that stand in one cell: a JSON list, or separated by semicolons."""
    if text.lstrip().startswith("["):
        try:
            return list(orjson.loads(text))
        except orjson.JSONDecodeError:
            raise InvalidField("news_ids", f"expected a JSON list or ids separated by ;, found {text!r:.60}") from None
    return [name.strip() for name in text.split(";") if name.strip()]


def read_lines(path: Path) -> Iterator[tuple[int, Json | str]]:
    """Give the lines of a file with their numbers: an object, or why there is none."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"expected a file of {', '.join(SUFFIXES)}, found {path.name}")
    try:
        if path.suffix == ".csv":
            yield from _csv_lines(path)
        elif path.suffix == ".parquet":
            yield from _parquet_lines(path)
        else:
            yield from _json_lines(path)
    except OSError as error:
        raise InputError(f"expected a readable {path}, found: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"expected UTF-8 in {path}, found: {error}") from error


def _named(entry: Mapping[Any, Any]) -> Json:
    return {ALIASES.get(str(name).strip(), str(name).strip()): value for name, value in entry.items()}


def _csv_lines(path: Path) -> Iterator[tuple[int, Json | str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        names = _named(dict.fromkeys(rows.fieldnames or ()))
        if "window_id" not in names or set(names) - set(COLUMNS):
            raise InputError(
                f"expected a first line with window_id and columns of {', '.join(COLUMNS)} in {path}, found "
                f"{', '.join(names) or 'nothing'}"
            )
        try:
            for row in rows:
                if None in row or None in row.values():
                    yield rows.line_num, f"expected {len(names)} cells, as in the first line, found more or fewer"
                    continue
                yield rows.line_num, {name: value.strip() or None for name, value in _named(row).items()}
        except csv.Error as error:
            yield rows.line_num, f"expected CSV, found: {error}"


def _json_lines(path: Path) -> Iterator[tuple[int, Json | str]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                entry = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                yield number, f"expected a line of JSON, found: {error}"
                continue
            yield number, _named(entry) if isinstance(entry, dict) else f"expected an object, found {entry!r:.60}"


def _parquet_lines(path: Path) -> Iterator[tuple[int, Json | str]]:
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"expected a Parquet file at {path}, found: {error}") from error
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        entry = _named(row)
        moment = entry.get("window_id")
        if isinstance(moment, datetime):
            aware = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
            entry["window_id"] = aware.strftime("%Y-%m-%dT%H:%MZ")
        yield number, entry
