"""A player's own event store, imported: every order at its tick, exact money, and nothing lost in silence."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from playproof.cli.app import main
from playproof.datasets.segment import Segmentation, segment
from playproof.events import Event
from playproof.game import load_game
from playproof.game.importers import ImportSettings
from playproof.games.crash.recording.importers.event_store import IMPORTER, bets_are_after
from playproof.games.crash.recording.sample import sample
from playproof.money import UNIT, to_units
from playproof.record.imports import event_store as stage
from playproof.record.redaction import Redaction
from playproof.record.session import RecordingSession
from playproof.store import EventStore
from tests.reference.event_store_writer import OLD_SCHEMA, rows_of, write_store

MAIN = ("WAIT", "BUY", "SELL", "SIDEBET")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def recorded() -> tuple[Event, ...]:
    """Give a session as our own recorder keeps it."""
    session = RecordingSession(load_game("crash"), lambda events: None, "own", "cdp")
    return tuple(session.take(sample()))


@pytest.fixture
def rows(recorded: tuple[Event, ...]) -> Rows:
    return list(rows_of(recorded, "his-session"))


def imported(root: Path) -> list[Event]:
    files = [stage.StoreFile(path.name, path) for path in sorted(root.rglob("*.parquet"))]
    survey = stage.StoreSurvey(files, IMPORTER, lambda done, total: None)
    setting = ImportSettings(UTC, lambda: Redaction(b"k" * 32))
    return [event for session in survey.sessions(setting) for event in session.events("events")]


def cut(events: Any) -> Segmentation:
    return segment(load_game("crash"), events, "recorded", "buttons-share")


def same(left: Segmentation, right: Segmentation) -> bool:
    """Tell whether two segmentations hold the same episodes, value by value."""
    return [episode.window_id for episode in left.episodes] == [
        episode.window_id for episode in right.episodes
    ] and all(
        one.steps == two.steps and np.array_equal(np.array(one.observations), np.array(two.observations))
        for one, two in zip(left.episodes, right.episodes, strict=True)
    )


def import_json(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> dict[str, Any]:
    assert main(["import", *args, "--json"]) == code
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


# --- the round trip


def test_a_recording_written_in_his_format_gives_the_same_data_set(
    recorded: tuple[Event, ...], rows: Rows, tmp_path: Path
) -> None:
    own, his = cut(recorded), cut(imported(write_store(tmp_path, rows)))
    assert [episode.window_id for episode in his.episodes] == [episode.window_id for episode in own.episodes]
    assert own.episodes
    for mine, theirs in zip(own.episodes, his.episodes, strict=True):
        assert theirs.steps == mine.steps
        np.testing.assert_array_equal(np.array(theirs.observations), np.array(mine.observations))
        assert theirs.outcome == mine.outcome
        assert theirs.corrected == mine.corrected


# --- the sample store, with its truth


@pytest.fixture(scope="module")
def truth(shared_data: Path) -> dict[str, Any]:
    with tarfile.open(shared_data / "crash" / "event-store-sample.tar.gz") as archive:
        member = archive.extractfile("event-store-sample/truth.json")
        assert member is not None
        result: dict[str, Any] = json.load(member)
    return result


def test_every_order_of_the_truth_is_a_step(
    shared_data: Path, truth: dict[str, Any], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(shared_data / "crash" / "event-store-sample.tar.gz")
    report = import_json(capsys, path)
    assert (report["presses"], report["orders"], report["completed"]) == (334, 142, 1)
    assert (report["matched"], report["refused"]) == (137, 5)
    assert report["rugged"] == truth["rounds"]
    events = list(EventStore(home, load_game("crash").columns).events())
    made = segment(load_game("crash"), events, "recorded", "buttons")
    found = Counter[tuple[Any, ...]]()
    money = waits = 0
    for episode in made.episodes:
        money += episode.steps[-1].after.cash - episode.steps[0].before.cash
        for step, decision in zip(episode.steps, episode.decisions, strict=True):
            assert isinstance(step.action, tuple)
            main_action = MAIN[step.action[0]]
            waits += main_action == "WAIT" and step.action[1] == 0
            if main_action != "WAIT":
                bet = None if main_action == "SELL" else step.before.facts["bet_amount"]
                found[episode.window_id, decision.columns["tick"], main_action, bet, step.effect] += 1
    wanted = Counter(
        (order["game"], order["tick"], order["button"], order["bet"] and to_units(order["bet"]), order["ok"])
        for order in truth["executed"]
    )
    assert found == wanted
    assert money == to_units(truth["final_cash"]) - UNIT
    assert waits > 1000
    assert [window.reason for window in made.left_out] == ["no rug was seen"]
    first = events
    import_json(capsys, path)
    assert list(EventStore(home, load_game("crash").columns).events()) == first


def test_the_sample_builds_and_passes_every_check(
    shared_data: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_json(capsys, "events", str(shared_data / "crash" / "event-store-sample.tar.gz"))
    assert main(["dataset", "build", "his", "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert (built["windows"], built["left_out"]) == (8, 1)
    assert main(["dataset", "check", "his", "--json"]) == 0


# --- what a store may look like


def test_a_pattern_a_file_an_archive_and_a_folder_are_read_alike(
    rows: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_store(tmp_path / "store", rows)
    archive = tmp_path / "store.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root, "events_parquet")
    reports = [
        import_json(capsys, "events", str(given)) for given in (root, archive, f"{root}/**/*.parquet", f"{root}/../")
    ]
    assert all({**report, "problems": []} == {**reports[0], "problems": []} for report in reports)
    alone = next((root / "doc_type=button_event").rglob("*.parquet"))
    refused = import_json(capsys, "events", str(alone), code=1)  # the whole session is stored already
    assert refused["refused_sessions"] == 1
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path / "new"))
    assert import_json(capsys, "events", str(alone))["presses"] > 0


def test_torn_and_unfinished_files_are_skipped_by_name(
    rows: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_store(tmp_path, rows)
    whole = next((root / "doc_type=complete_game").rglob("*.parquet"))
    whole.with_name("torn.parquet").write_bytes(whole.read_bytes()[:-30])
    whole.with_name(f".{whole.name}.tmp").write_bytes(b"half")
    report = import_json(capsys, "events", str(root))
    problems = {Path(item["file"]).name: item["problem"] for item in report["problems"]}
    assert "whole Parquet file" in problems["torn.parquet"]
    assert "unfinished" in problems[f".{whole.name}.tmp"]
    assert report["presses"] > 0


def test_older_files_lack_columns_and_newer_ones_have_more(
    rows: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_store(tmp_path / "old", rows, OLD_SCHEMA)
    old = cut(imported(root))
    newer = tmp_path / "new" / "a.parquet"
    newer.parent.mkdir()
    pq.write_table(
        pa.Table.from_pylist([{"seq": seq, **row, "schema_version": "2.0.0"} for seq, row in enumerate(rows)]), newer
    )
    events = imported(newer.parent)
    assert same(cut(events), old)
    assert sum(event.event_name == "store_columns" for event in events) == len(rows)


def test_two_sources_of_one_tick_and_a_file_that_stands_twice_change_nothing(rows: Rows, tmp_path: Path) -> None:
    once = imported(write_store(tmp_path / "once", rows))
    twice: Rows = []
    for row in rows:
        twice.append(row)
        if row["doc_type"] == "ws_event" and row["event_name"] == "gameStateUpdate":
            twice.append({**row, "source": "public_ws"})
    both = imported(write_store(tmp_path / "both", twice))
    assert same(cut(both), cut(once))
    root = write_store(tmp_path / "copied", rows)
    for file in list(root.rglob("*.parquet")):
        file.with_name(f"copy-{file.name}").write_bytes(file.read_bytes())
    assert imported(root) == once


def test_derived_ticks_are_all_there_is_where_the_feed_is_missing(rows: Rows, tmp_path: Path) -> None:
    derived: Rows = []
    for row in rows:
        message = json.loads(row["raw_json"])
        state = message.get("data") if isinstance(message, dict) else None
        if row["doc_type"] == "ws_event" and row["event_name"] == "gameStateUpdate":
            if isinstance(state, dict) and state.get("active") and not state.get("rugged"):
                tick = {"tick": state["tickCount"], "price": state["price"], "gameId": state["gameId"]}
                derived.append({**row, "doc_type": "game_tick", "event_name": None, "raw_json": json.dumps(tick)})
        elif row["doc_type"] != "ws_event" or row["event_name"] != "gameStateUpdate":
            derived.append(row)
    full, alone = cut(imported(write_store(tmp_path / "full", rows))), cut(imported(write_store(tmp_path, derived)))
    # the second round is never published in this recording: without its own messages nobody knows that it rugged
    assert [episode.window_id for episode in alone.episodes] == [full.episodes[0].window_id]
    assert [window.reason for window in alone.left_out] == ["no rug was seen"]
    for mine, theirs in zip(full.episodes, alone.episodes, strict=False):
        active = [step for step in mine.steps if step.before.facts["phase"] == 2]
        assert [step.action for step in theirs.steps if step.before.facts["phase"] == 2] == [s.action for s in active]


def test_player_state_rows_serve_where_the_feed_has_no_player_updates(rows: Rows, tmp_path: Path) -> None:
    without = [row for row in rows if row.get("event_name") != "playerUpdate"]
    kept, full = imported(write_store(tmp_path / "w", without)), imported(write_store(tmp_path / "f", rows))
    assert [step for episode in cut(kept).episodes for step in episode.steps] == [
        step for episode in cut(full).episodes for step in episode.steps
    ]


def test_programs_orders_without_presses_are_choices(rows: Rows, tmp_path: Path) -> None:
    orders: Rows = []
    for row in rows:
        press = json.loads(row["raw_json"])
        if row["doc_type"] != "button_event":
            orders.append(row)
        elif press["button_category"] == "action":
            action = {"action_type": press["button_id"].lower(), "amount": press["bet_amount"], "percentage": 100}
            orders.append({**row, "doc_type": "player_action", "raw_json": json.dumps(action)})
    pressed = [
        (step.action[0], step.before.facts["tick"])
        for episode in cut(imported(write_store(tmp_path / "p", rows))).episodes
        for step in episode.steps
        if isinstance(step.action, tuple) and step.action[0]
    ]
    sent = [
        (step.action[0], step.before.facts["tick"])
        for episode in cut(imported(write_store(tmp_path / "o", orders))).episodes
        for step in episode.steps
        if isinstance(step.action, tuple) and step.action[0]
    ]
    assert sent == pressed
    assert sent


@pytest.mark.parametrize("written", ["before", "after"])
def test_both_ways_to_write_the_bet_down_give_the_same_bets(written: str, rows: Rows, tmp_path: Path) -> None:
    recorded_bets = [
        event.columns["bet_amount"]
        for event in imported(write_store(tmp_path / "before", rows))
        if event.event_name == "press"
    ]
    presses = [row for row in rows if row["doc_type"] == "button_event"]
    if written == "after":
        for row, bet in zip(presses, recorded_bets, strict=True):
            assert isinstance(bet, int)
            row["raw_json"] = json.dumps(json.loads(row["raw_json"]) | {"bet_amount": bet / UNIT})
    assert bets_are_after([json.loads(row["raw_json"]) for row in presses]) == (written == "after")
    again = [
        event.columns["bet_amount"]
        for event in imported(write_store(tmp_path / "again", rows))
        if event.event_name == "press"
    ]
    assert again == recorded_bets


def test_labels_of_the_page_are_buttons_and_unknown_ones_are_named(
    rows: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"INC_01": "+0.01", "CLEAR": "X", "HALF": "1/2", "BUY": "buy"}
    for row in rows:
        if row["doc_type"] == "button_event":
            press = json.loads(row["raw_json"])
            row["raw_json"] = json.dumps(press | {"button_id": labels.get(press["button_id"], press["button_id"])})
    assert import_json(capsys, "events", str(write_store(tmp_path / "a", rows)))["problems"] == []
    presses = [row for row in rows if row["doc_type"] == "button_event"]
    presses[0]["raw_json"] = json.dumps(json.loads(presses[0]["raw_json"]) | {"button_id": "foo"})
    other = [{**row, "session_id": "another"} for row in presses]
    report = import_json(capsys, "events", str(write_store(tmp_path / "b", other)))
    assert any("'foo'" in item["problem"] for item in report["problems"])


def test_a_store_without_rounds_or_presses_is_an_error_with_reasons(
    rows: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = [{**row, "raw_json": "{"} for row in rows if row["doc_type"] == "ws_event"]
    assert main(["import", "events", str(write_store(tmp_path / "broken", broken))]) == 1
    assert "raw_json of a ws_event" in capsys.readouterr().err
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), other)
    assert main(["import", str(other)]) == 1
    assert "without" in capsys.readouterr().err


def test_a_mixed_folder_is_sorted_out(
    rows: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_store(tmp_path / "mixed", rows)
    games = {"20250102-0123456789abcdef": [1, 1.1, 0.01], "g2": [1, 1.2, 1.4, 0.02]}
    (tmp_path / "mixed" / "rounds.json").write_text(json.dumps(games, indent=2))
    (tmp_path / "mixed" / "notes.txt").write_text("hello")
    (tmp_path / "mixed" / "lines.jsonl").write_text(
        "".join(json.dumps({"id": f"r{n}", "prices": [1, 1 + n / 10, 0.0]}) + "\n" for n in range(1, 4))
    )
    capture = {"seq": 1, "ts": "2025-01-01T00:00:00", "event": "gameStateUpdate"}
    state = {"gameId": "20250103-0123456789abcdef", "active": True, "tickCount": 0, "price": 1.0}
    (tmp_path / "mixed" / "capture.jsonl").write_text(json.dumps({**capture, "data": state}) + "\n")
    report = import_json(capsys, str(tmp_path / "mixed"))
    assert report["kinds"].keys() == {"events", "prices", "capture"}
    assert report["kinds"]["prices"] == 2
    assert [item["file"] for item in report["problems"]] == ["notes.txt"]
    assert report["corrupt_lines"] == 0


@pytest.mark.parametrize(
    "document",
    [
        [[1, 1.5, 0.1], [1, 0.02]],
        {"a": [1, 1.5, 0.1], "b": [1, 0.02]},
        [{"id": "a", "prices": [1, 1.5, 0.1]}, {"id": "b", "prices": [1, 0.02]}],
        {"rounds": [[1, 1.5, 0.1], [1, 0.02]]},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_lists_of_prices_are_rounds(
    document: Any, indent: int | None, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rounds.json").write_text(json.dumps(document, indent=indent))
    report = import_json(capsys, str(tmp_path / "rounds.json"))
    assert (report["rounds"], report["rugged"], report["incomplete"], report["ticks"]) == (2, 2, 0, 5)


def test_a_json_document_of_another_shape_is_one_problem_and_no_corrupt_lines(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"a": list(range(1000))}, indent=2))
    assert main(["import", str(tmp_path / "settings.json"), "--json"]) == 1
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["corrupt_lines"], len(report["problems"])) == (0, 1)
    assert "an object with the keys a" in err


def test_a_session_whose_numbers_begin_anew_is_ordered_by_its_clock(rows: Rows, tmp_path: Path) -> None:
    start = datetime(2025, 1, 15, 12, tzinfo=UTC)
    timed = [{**row, "ts": (start + timedelta(minutes=index)).isoformat()} for index, row in enumerate(rows)]
    again = [{**row, "seq": index % 50} for index, row in enumerate(timed)]
    assert [event.columns for event in imported(write_store(tmp_path / "a", again))] == [
        event.columns for event in imported(write_store(tmp_path / "b", timed))
    ]


def test_a_late_joiners_round_is_completed_from_published_prices(rows: Rows, tmp_path: Path) -> None:
    def late() -> Iterator[dict[str, Any]]:
        begun = False
        for row in rows:
            message = json.loads(row["raw_json"])
            state = message.get("data") if row.get("event_name") == "gameStateUpdate" else None
            begun = begun or (isinstance(state, dict) and state.get("active") is True and state["tickCount"] >= 30)
            if begun:
                yield row

    events = imported(write_store(tmp_path, late()))
    filled = [event for event in events if event.columns.get("from_history")]
    assert [event.columns["tick"] for event in filled] == list(range(30))
    made = cut(events)
    assert made.episodes[0].outcome is not None
    assert made.episodes[0].steps[0].before.facts["tick"] == 30
    assert {event.event_name for event in filled} == {"late_tick"}


def test_a_declared_market_does_not_stand_in_the_way(
    rows: Rows, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["market", "add", "mine", "--asset", "BTC", "--action", "BUY"]) == 0
    capsys.readouterr()
    assert import_json(capsys, str(write_store(tmp_path, rows)))["presses"] > 0
    assert main(["dataset", "build", "his", "--split", "train=1.0", "--gap", "0", "--json"]) == 0
