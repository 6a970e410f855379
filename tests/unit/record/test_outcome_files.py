"""Outcomes from files: CSV, JSON lines, Parquet; all lines or none, every bad line named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sqlalchemy import Engine, func, select

from playproof.cli.app import main
from playproof.errors import InputError
from playproof.game import load_game
from playproof.game.markets import MarketDeclaration, add_market
from playproof.record.imports.outcome_files import import_outcomes
from playproof.record.trajectories.outcomes import read_outcomes
from playproof.store.db import MarketOutcome, connect, upgrade

NOW = datetime(2025, 1, 16, tzinfo=UTC)
MARKET = MarketDeclaration(name="mine", assets=("BTC", "ETH"))
HEAD = "window_id,asset,start_price,end_price,change,sentiment,news_ids,volume,question_id,question,outcome"
CSV = f"""{HEAD},final_probability
2025-01-15T10:00,BTC,100.5,101.25,0.0075,0.3,n1;n2,12.5,,,,
2025-01-15T10:00Z,ETH,10,9,,,,,,,,
2025-01-15T10:00,,,,,,,3,q1,"Will it, really?",yes,0.4
2025-01-15T11:00,BTC,101.25,100,,,,,,,,
2025-01-15T11:00,ETH,9,9.5,,,,,,,,
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = connect(url=f"sqlite:///{tmp_path / 'f.db'}")
    upgrade(engine)
    yield engine
    engine.dispose()


def rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(MarketOutcome)).scalar_one())


def take(engine: Engine, path: Path, **more: Any) -> Any:
    return import_outcomes(engine, path, MARKET.windows, NOW, market=MARKET, **more)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_three_formats_are_the_same_outcomes(engine: Engine, tmp_path: Path) -> None:
    report = take(engine, write(tmp_path / "o.csv", CSV))
    assert (report.lines, report.windows, report.written, report.again, report.problems) == (5, 2, 5, 0, [])
    first = read_outcomes(engine, ["2025-01-15T10:00Z"], "mine")["2025-01-15T10:00Z"]
    assert [row["subject"] for row in first.rows] == ["BTC", "ETH", "q1"]
    assert (first.rows[0]["news_ids"], first.rows[0]["volume"]) == (["n1", "n2"], 12_500_000_000)
    assert first.rows[2]["question"] == "Will it, really?"
    frame = pl.read_csv(CSV.encode(), infer_schema_length=None).drop("change")
    frame.write_parquet(tmp_path / "o.parquet")
    frame.write_ndjson(tmp_path / "o.jsonl")
    for name in ("o.csv", "o.parquet", "o.jsonl"):
        again = take(engine, tmp_path / name)
        assert (again.windows, again.again, again.written, again.problems) == (2, 2, 0, []), name
    assert rows(engine) == 5


def test_the_studios_own_names_and_whole_windows_are_read(engine: Engine, tmp_path: Path) -> None:
    names = "window_id,stock_ticker,start_price,end_price,change_percent,news_events\n"
    text = names + '2025-01-15T10:00,BTC,100,110,10.00,"[""a""]"\n2025-01-15T10:00,ETH,3,2,-33.33,\n'
    report = take(engine, write(tmp_path / "t.csv", text))
    assert (report.written, report.notes, report.problems) == (2, [], [])
    whole = {"window_id": "2025-01-15T11:00", "currency": "USD", "assets": [asset("BTC", 1, 2), asset("ETH", 2, 3)]}
    report = take(engine, write(tmp_path / "w.jsonl", json.dumps(whole) + "\n\n"))
    assert (report.lines, report.written, report.problems) == (1, 2, [])


def asset(name: str, start: float, end: float) -> dict[str, Any]:
    return {"asset": name, "start_price": start, "end_price": end}


def test_a_bad_line_stops_all_or_only_its_window(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", CSV.replace("101.25,100,", "101.25,-100,"))
    report = take(engine, path)
    assert [(item.line, item.window_id, item.field) for item in report.problems] == [
        (5, "2025-01-15T11:00Z", "asset.end_price")
    ]
    assert (report.windows, report.written, rows(engine)) == (0, 0, 0)
    going = take(engine, path, keep_going=True)
    assert (going.windows, going.written, len(going.problems), rows(engine)) == (1, 3, 1, 3)
    assert not read_outcomes(engine, ["2025-01-15T11:00Z"], "mine")


def test_other_content_needs_a_correction(engine: Engine, tmp_path: Path) -> None:
    take(engine, write(tmp_path / "o.csv", CSV))
    other = write(tmp_path / "p.csv", CSV.replace("9,9.5", "9,9.75"))
    refused = take(engine, other)
    assert ("--correct" in refused.problems[0].reason, refused.windows) == (True, 0)
    fixed = take(engine, other, reason="a late trade")
    assert (fixed.corrected, fixed.again, fixed.written, fixed.problems) == (1, 1, 2, [])
    rows_now = read_outcomes(engine, ["2025-01-15T11:00Z"], "mine")["2025-01-15T11:00Z"].rows
    assert rows_now[1]["end_price"] == 9_750_000_000


BAD_LINES = {
    "half a JSON": '{"window_id": "2025-01-15T10:00", "ass',
    "a list": "[1]",
    "neither": '{"window_id": "2025-01-15T10:00"}',
    "both": '{"window_id": "2025-01-15T10:00", "asset": "BTC", "question_id": "q"}',
    "an unknown column": '{"window_id": "2025-01-15T10:00", "asset": "BTC", "price": 5}',
    "a probability of an asset": '{"window_id": "2025-01-15T10:00", "asset": "BTC", "final_probability": 0.5}',
    "another currency": '{"window_id": "2025-01-15T10:00", "asset": "BTC", "currency": "EUR"}',
    "another market": '{"window_id": "2025-01-15T10:00", "asset": "BTC", "market": "theirs"}',
    "the same asset again": '{"window_id": "2025-01-15T09:00", "asset": "BTC", "start_price": 1, "end_price": 2}',
    "a wrong window": '{"window_id": "10 o\'clock", "asset": "BTC", "start_price": 1, "end_price": 2}',
    "a percentage that is none": '{"window_id": "2025-01-15T10:00", "asset": "BTC", "change_percent": "up"}',
    "news that are half a list": '{"window_id": "2025-01-15T10:00", "asset": "BTC", "news_ids": "[1"}',
    "assets that are no list": '{"window_id": "2025-01-15T10:00", "assets": 5}',
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_broken_line_is_named_and_nothing_is_written(name: str, engine: Engine, tmp_path: Path) -> None:
    good = [{"window_id": "2025-01-15T09:00", **asset(name, 1, 2)} for name in ("BTC", "ETH")]
    text = "\n".join([*map(json.dumps, good), BAD_LINES[name]])
    report = take(engine, write(tmp_path / "b.jsonl", text))
    assert [item.line for item in report.problems] == [3]
    assert "expected" in report.problems[0].reason
    assert (report.windows, rows(engine)) == (0, 0)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("o.csv", "", "first line"),
        ("o.csv", HEAD + "\n", "no line"),
        ("o.csv", "window,price\n", "window_id"),
        ("o.txt", "x", ".csv"),
        ("o.parquet", "not parquet", "Parquet"),
        ("o.jsonl", "\n\n", "no line"),
    ],
)
def test_files_that_hold_no_outcomes_are_refused(
    file: str, text: str, message: str, engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        take(engine, write(tmp_path / file, text))
    with pytest.raises(InputError, match="readable"):
        take(engine, tmp_path / "missing.csv")


def test_the_command(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("playproof.cli.data.outcomes")
    from playproof.cli.app import run_app
    from playproof.cli.data.outcomes import app

    add_market(MARKET)
    assert load_game("mine").windows.market == "mine"
    path = write(tmp_path / "o.csv", CSV)
    assert run_app(app, "outcomes", ["import", str(path), "--game", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == 5
    assert run_app(app, "outcomes", ["import", str(path), "--game", "mine"]) == 0
    assert run_app(app, "outcomes", ["import", str(path), "--game", "mine", "--correct"]) == 1
    assert "--reason" in capsys.readouterr().err
    other = write(tmp_path / "p.csv", CSV.replace("9,9.5", "9,9.75"))
    assert run_app(app, "outcomes", ["import", str(other), "--game", "mine"]) == 1
    assert "nothing was written" in capsys.readouterr().err
    arguments = ["import", str(other), "--game", "mine", "--correct", "--reason", "a late trade", "--json"]
    assert run_app(app, "outcomes", arguments) == 0
    assert json.loads(capsys.readouterr().out)["corrected"] == 1
    assert run_app(app, "outcomes", ["show", "2025-01-15T11:00", "--game", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "a late trade" in shown
    assert run_app(app, "outcomes", ["import", str(path)]) == 1
    assert "--game" in capsys.readouterr().err, "the arena has windows by the clock too"
    assert main(["games", "--json"]) == 0
    assert "mine" in capsys.readouterr().out
