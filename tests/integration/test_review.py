"""`playproof review`: from a folder of recordings to a page about the player."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from playproof.cli.app import main
from playproof.events import Event
from playproof.game import load_game
from playproof.games.crash.recording.sample import sample
from playproof.money import UNIT, to_units
from playproof.record.session import RecordingSession
from tests.reference.event_store_writer import rows_of, write_store


def review(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main(["review", *args, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    session = RecordingSession(load_game("crash"), lambda events: None, "own", "cdp")
    events: tuple[Event, ...] = session.take(sample())
    return write_store(tmp_path_factory.mktemp("his"), rows_of(events, "his"))


def test_money_is_settled_again_and_equals_what_the_feed_said(
    store: Path, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = review(capsys, str(store), "--output", str(tmp_path / "out"))
    (settled,) = told["settled"]
    assert settled["feed"] == settled["ledger"] == told["pnl"]
    assert settled["difference"] == 0
    assert told["rounds"] == told["played"] == 2
    assert "too few" in told["answer"]
    assert all(told["checks"].values())
    # by hand: 0.011, 0.024 and 0.1 bought in the first round, 0.011 bet beside; then 0.05 bet, and twice 0.05 bought
    assert told["mix"]["BUY"] == 5
    assert told["outcomes"]["refused"] >= 1
    assert sum(told["outcomes"].values()) == told["sequences"]
    page = Path(told["page"]).read_text()
    assert "Your play, reviewed" in page
    assert told["best"]["window_id"] in page
    assert told["worst"]["window_id"] in page
    assert Path(told["replay"]).stat().st_size < 1_000_000
    assert len(page) < 1_000_000
    assert review(capsys, str(store), "--output", str(tmp_path / "out"))["pnl"] == told["pnl"]


def test_the_sample_store(shared_data: Path, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shared_data / "crash" / "event-store-sample.tar.gz")
    told = review(capsys, path, "--output", str(tmp_path / "out"))
    assert told["pnl"] == to_units(0.984726661) - UNIT
    assert told["staked"] == (64 + 12) * to_units(0.011)
    assert told["outcomes"]["refused"] == 5
    assert [item["difference"] for item in told["settled"]] == [0]


def test_recordings_without_play_are_reviewed_as_such(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = {f"r{n}": [1, *(1 + tick / 50 for tick in range(1, 30 + n)), 0.01] for n in range(12)}
    (tmp_path / "rounds.json").write_text(json.dumps(rounds))
    told = review(capsys, str(tmp_path / "rounds.json"), "--output", str(tmp_path / "out"))
    assert "no play to judge" in told["answer"]
    assert told["played"] == 0


def test_nothing_to_review_is_an_error(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("hello")
    assert main(["review", str(tmp_path)]) == 1
    assert "found none that can be read" in capsys.readouterr().err
