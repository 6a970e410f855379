"""Broken event stores and price lists: a clear word about each, and nothing half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from playproof.cli.app import main
from playproof.game import load_game
from playproof.games.crash.recording.sample import sample
from playproof.record.session import RecordingSession
from playproof.store import EventStore
from tests.reference.event_store_writer import SCHEMA, rows_of

Rows = list[dict[str, Any]]
Break = Callable[[Rows], Any]


@pytest.fixture(scope="module")
def whole() -> Rows:
    session = RecordingSession(load_game("crash"), lambda events: None, "own", "cdp")
    rows = rows_of(session.take(sample()), "his")
    return [{"seq": seq} | row for seq, row in enumerate(rows)]


def states(rows: Rows) -> Rows:
    return [row for row in rows if row.get("event_name") == "gameStateUpdate"]


def presses(rows: Rows) -> Rows:
    return [row for row in rows if row["doc_type"] == "button_event"]


def change(row: dict[str, Any], **fields: Any) -> None:
    """Change the payload of a message or of a press."""
    payload = json.loads(row["raw_json"])
    target = payload["data"] if row["doc_type"] == "ws_event" else payload
    target.update(fields)
    row["raw_json"] = json.dumps(payload)


def every(rows: Rows, **columns: Any) -> None:
    for row in rows:
        row.update(columns)


NAMED: dict[str, tuple[Break, str]] = {
    "half a JSON": (lambda rows: states(rows)[9].update(raw_json='{"event": "gameSta'), "expected {"),
    "no raw_json": (lambda rows: states(rows)[9].update(raw_json=None), "raw_json of a ws_event"),
    "a list for a message": (lambda rows: states(rows)[9].update(raw_json="[1, 2]"), "raw_json of a ws_event"),
    "no time": (lambda rows: states(rows)[9].update(ts=None), "expected a time"),
    "a time of the year 0": (lambda rows: states(rows)[9].update(ts="0000-01-01T00:00:00"), "expected a time"),
    "words for a time": (lambda rows: states(rows)[9].update(ts="yesterday"), "expected a time"),
    "an unknown button": (lambda rows: change(presses(rows)[0], button_id="foo"), "'foo'"),
    "a button that is a number": (lambda rows: change(presses(rows)[0], button_id=7), "'7'"),
    "a press without a button": (lambda rows: change(presses(rows)[0], button_id=None), "'None'"),
    "only the trace": (
        lambda rows: states(rows)[9].update(
            raw_json=json.dumps({"event": "gameStateUpdate", "data": {"__trace": True, "traceparent": "00"}})
        ),
        "only the trace",
    ),
    "a press that names another tick": (lambda rows: change(presses(rows)[4], tick=4000), "names tick 4000"),
    "a finished round without prices": (
        lambda rows: next(row for row in rows if row["doc_type"] == "complete_game").update(raw_json='{"id": "x"}'),
        "expected id and prices",
    ),
    "another price for a known tick": (
        lambda rows: rows.insert(
            rows.index(states(rows)[-1]),
            {**states(rows)[200], "seq": states(rows)[-1]["seq"], "raw_json": _conflict(states(rows)[200])},
        ),
        "another price",
    ),
}


def _conflict(row: dict[str, Any]) -> str:
    payload = json.loads(row["raw_json"])
    payload["data"]["price"] = 77.0
    return json.dumps(payload)


@pytest.mark.parametrize("name", NAMED)
def test_a_broken_row_is_named_and_the_others_come_in(
    name: str, whole: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [dict(row) for row in whole]
    mend, expected = NAMED[name]
    mend(rows)
    report = run(write(tmp_path, rows), capsys)
    assert any(expected in problem["problem"] for problem in report["problems"]), report["problems"]
    assert all(problem["line"] for problem in report["problems"] if expected in problem["problem"])
    assert report["rugged"] >= 1
    assert report["presses"] >= len(presses(rows)) - 1


def test_values_that_are_none_change_nothing(
    whole: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [dict(row) for row in whole]
    nan = states(rows)[9]
    nan["raw_json"] = nan["raw_json"].replace('"price": ', '"price": NaN, "was": ')
    change(states(rows)[12], price=-1.0)
    change(states(rows)[15], tickCount=10**30)
    report = run(write(tmp_path, rows), capsys)
    stored = list(EventStore(home, load_game("crash").columns).events(doc_type="game_tick"))
    assert all(0 <= price < 1e9 for event in stored if isinstance(price := event.columns["price"], float))
    assert report["rounds"] >= 1


REFUSED: dict[str, tuple[Callable[[Rows], pa.Table], str]] = {
    "no seq column": (lambda rows: _table(rows).drop_columns(["seq"]), "without seq"),
    "seq as text": (lambda rows: _cast(rows, "seq", pa.string(), "x"), "the column seq as string"),
    "seq as fractions": (lambda rows: _cast(rows, "seq", pa.float64(), 0.5), "the column seq as double"),
    "no session": (lambda rows: _table(rows).drop_columns(["session_id"]), "without session_id"),
    "another table": (lambda rows: pa.table({"a": [1, 2]}), "without doc_type"),
    "an empty table": (lambda rows: _table(rows).slice(0, 0), "found none"),
    "only rows of other doc types": (lambda rows: _table([{**row, "doc_type": "bbc_round"} for row in rows]), "none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_table_is_an_error_and_stores_no_round(
    name: str, whole: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, expected = REFUSED[name]
    pq.write_table(make([dict(row) for row in whole]), tmp_path / "a.parquet")
    assert main(["import", "events", str(tmp_path / "a.parquet")]) == 1
    out, err = capsys.readouterr()
    assert expected in " ".join((out + err).split())
    assert not list(EventStore(home, load_game("crash").columns).events(doc_type="game_tick"))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("[[1, 2", "no JSON"),
        ("[[1, -2, 3]]", "a list of 1"),
        ('[[1, "2", 3]]', "a list of 1"),
        ("[[1, NaN]]", "no JSON"),
        ("{}", "an empty object"),
        ("[]", "an empty list"),
        ('{"a": {"b": 1}}', "keys a"),
        ("[[2, 3, 4]]", "a list of 1"),  # no round begins at 2
    ],
)
def test_a_broken_price_list_is_an_error(
    document: str, expected: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rounds.json").write_text(document)
    assert main(["import", str(tmp_path / "rounds.json")]) == 1
    assert expected in capsys.readouterr().err


def run(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["import", "events", str(path), "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def write(tmp_path: Path, rows: Rows) -> Path:
    pq.write_table(_table(rows), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def _table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in SCHEMA.names} for row in rows], SCHEMA)


def _cast(rows: Rows, name: str, kind: pa.DataType, value: Any) -> pa.Table:
    table = _table(rows)
    return table.set_column(table.schema.get_field_index(name), name, pa.array([value] * table.num_rows, kind))
