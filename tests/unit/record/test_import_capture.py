"""Importing raw captures: both shapes, lost payloads, redaction, and the real ones counted a second way."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playproof.cli.app import main
from playproof.events import Event
from playproof.game import load_game
from playproof.game.importers import ImportPart, ImportRow, ImportSettings
from playproof.games.crash.recording.importers import captures
from playproof.record.imports.importing import Import, ImportReport
from playproof.store import EventStore

GAME_ID = "20251212-b9466781d3e64c27"
TRACE = {"__trace": True, "traceparent": "00-ab-cd-01"}


class MemoryLog:
    """Keep events in memory."""

    failure: str | None = None

    def __init__(self) -> None:
        self.events: list[Event] = []

    def submit(self, events: Sequence[Event]) -> Future[None]:
        self.events += events
        future = Future[None]()
        future.set_result(None)
        return future


class NoRedaction:
    def clean(self, text: str, direction: str) -> str:
        return text

    def learn(self, names: Iterable[str]) -> None:
        pass


def run(path: Path, zone: str = captures.ZONE) -> tuple[ImportReport, list[Event]]:
    importer, log = (load_game("crash").recording().importers["capture"]), MemoryLog()
    report = Import(path, "capture", importer, ImportSettings(ZoneInfo(zone), NoRedaction), log).run()
    return report, log.events


def row(seq: int, event: str, data: object, **fields: object) -> dict[str, Any]:
    return {"seq": seq, "ts": f"2025-12-12T17:16:{seq % 60:02}.5", "event": event, "data": data, **fields}


def state(tick: int, price: float = 1.0, **fields: object) -> dict[str, Any]:
    return {"gameId": GAME_ID, "active": True, "rugged": False, "tickCount": tick, "price": price, **fields}


def trade(number: int, **fields: object) -> dict[str, Any]:
    payload = {"id": f"t{number}", "gameId": GAME_ID, "playerId": "p-1", "username": "bob", "type": "buy", "price": 1.5}
    return payload | {"qty": 0.01, "amount": 0.015, "tickIndex": number} | fields


def write(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in rows))
    return path


def problems(report: ImportReport) -> list[tuple[int | None, str]]:
    return [(one["line"], one["problem"]) for one in report.problems]


def test_both_shapes_become_the_frames_that_they_were(tmp_path: Path) -> None:
    rows = [
        row(1, "connect", None),
        row(2, "gameStateUpdate", state(0)),
        row(3, "standard/newTrade", [TRACE, trade(0)]),
        row(4, "chatHistory", None, source="cdp_intercept", direction="sent"),
        row(5, "list", [1, 2]),
        row(6, "getLeaderboard", {"period": "7d"}, source="cdp_intercept", direction="sent"),
        row(7, "newTrade", TRACE, source="cdp_intercept", direction="received"),
        row(8, "disconnect", None),
    ]
    report, events = run(write(tmp_path / "a.jsonl", rows))
    assert [(event.raw, event.direction) for event in events if event.raw is not None] == [
        ("40", "received"),
        (f'42["gameStateUpdate",{json.dumps(state(0))}]', "received"),
        (f'42["standard/newTrade",{json.dumps(TRACE)}, {json.dumps(trade(0))}]', "received"),
        ('42["chatHistory"]', "sent"),
        ('42["list",[1, 2]]', "received"),
        ('42["getLeaderboard",{"period": "7d"}]', "sent"),
        (f'42["newTrade",{json.dumps(TRACE)}]', "received"),
        ("41", "received"),
    ]
    assert problems(report) == [(7, "the recorder kept only the trace of 'newTrade'; its payload is lost")]


def test_the_text_of_numbers_is_kept(tmp_path: Path) -> None:
    line = '{"seq": 1 , "ts":"2025-12-12T17:16:58.5","event":"x", "data": { "a" : 1.50, "b": 1E-9, "c":"\\u0041" } }'
    _, (event,) = run(write(tmp_path / "a.jsonl", [line]))
    assert event.raw == '42["x",{ "a" : 1.50, "b": 1E-9, "c":"\\u0041" }]'


def test_two_argument_events_keep_their_payload(tmp_path: Path) -> None:
    rows = [row(1, "gameStateUpdate", state(0)), row(2, "standard/newTrade", [TRACE, trade(0)])]
    _, events = run(write(tmp_path / "a.jsonl", rows))
    (result,) = [event for event in events if event.event_name == "trade"]
    assert (result.columns["trade_id"], result.columns["trade_amount"]) == ("t0", 15_000_000)
    assert json.loads((result.raw or "")[2:])[1:] == [TRACE, trade(0)]


def test_two_equal_trades_are_both_kept_raw_and_lost_rows_are_reported(tmp_path: Path) -> None:
    rows = [row(1, "gameStateUpdate", state(0)), *(row(3, "standard/newTrade", [TRACE, trade(0)]) for _ in range(2))]
    report, events = run(write(tmp_path / "a.jsonl", rows))
    assert len([event for event in events if event.raw]) == 3
    assert problems(report) == [
        (2, "seq 3 follows 1: rows are missing or out of order"),
        (3, "seq 3 follows 3: rows are missing or out of order"),
    ]


def test_rounds_are_counted(tmp_path: Path) -> None:
    rows = [
        row(1, "gameStateUpdate", {"gameId": GAME_ID, "cooldownTimer": 900, "allowPreRoundBuys": True}),
        *(row(2 + tick, "gameStateUpdate", state(tick, 1 + tick)) for tick in (0, 1, 2)),
        row(5, "gameStateUpdate", state(2, 3)),
        row(6, "gameStateUpdate", state(2, 9)),
        row(7, "gameStateUpdate", state(5, 0.01, rugged=True)),
        row(8, "gameStateUpdate", state(7, 0.01, rugged=True)),
        row(9, "gameStateUpdate", {"gameId": GAME_ID, "price": "dear"}),
        row(10, "gameStateUpdate", "nothing"),
    ]
    report, events = run(write(tmp_path / "a.jsonl", rows))
    assert (report.files, report.rounds, report.rugged, report.incomplete) == (1, 1, 1, 1)
    assert (report.ticks, report.gaps, report.duplicates) == (5, 1, 1)
    assert problems(report) == [
        (6, f"tick 2 of {GAME_ID} is known with another price than 9.0"),
        (9, "a gameStateUpdate that cannot be read was kept raw"),
        (10, "a gameStateUpdate that cannot be read was kept raw"),
    ]
    assert len([event for event in events if event.raw]) == len(rows)


def test_the_session_is_named_by_content_alone(tmp_path: Path) -> None:
    rows = [row(1, "gameStateUpdate", state(0))]
    _, plain = run(write(tmp_path / "a.jsonl", rows))
    (tmp_path / "b.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    _, packed = run(tmp_path / "b.gz")
    assert plain == packed
    _, other = run(write(tmp_path / "a.jsonl", [row(1, "gameStateUpdate", state(1))]))
    assert other[0].session_id != plain[0].session_id


def test_damage_is_reported_and_whole_rows_are_salvaged(tmp_path: Path) -> None:
    one, two, three = (json.dumps(row(seq, "gameStateUpdate", state(seq))) for seq in (1, 2, 3))
    lines = [one, two[:40] + three, '{"seq": 4}', one[:-30], json.dumps({"seq": 5, "ts": "?", "event": "x", "data": 1})]
    report, events = run(write(tmp_path / "a.jsonl", lines))
    assert report.corrupt_lines == 2
    assert [event.columns["tick"] for event in events if event.event_name == "tick"] == [1, 3]
    assert [line for line, problem in problems(report) if "left out" in problem] == [3, 5]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["gameId", "active", "rugged", "tickCount", "price", "cooldownTimer", "gameHistory", "__trace"]
)
DATA = JSON | st.dictionaries(FIELDS, JSON | st.just(GAME_ID) | st.just(True), max_size=6)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "seq": JSON,
        "ts": JSON | st.just("2025-12-12T17:16:58"),
        "event": JSON | st.sampled_from(["gameStateUpdate", "standard/newTrade", "connect"]),
        "data": DATA | st.lists(DATA, max_size=3),
        "direction": JSON | st.just("sent"),
    },
)


@given(st.lists(ROWS, max_size=6))
def test_any_json_is_taken(values: list[dict[str, Any]]) -> None:
    texts = [json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode() for value in values]
    rows = tuple(ImportRow(number, text, json.loads(text)) for number, text in enumerate(texts, 1))
    reading = captures.read((ImportPart("a", "0" * 64, rows),), ImportSettings(ZoneInfo("UTC"), NoRedaction))
    kept = [value for value in reading.facts if value.raw is not None]
    left_out = {problem.line for problem in reading.problems if "left out" in problem.problem}
    assert len(kept) + len(left_out) == len(rows)
    for seq, result in enumerate(reading.facts):
        result.fact.event(result.ts, "s", seq, source="import", direction=result.direction, raw=result.raw)


def test_members_are_given_as_written() -> None:
    assert captures.members(' { "a" :\t[1, 2 ] , "b":{"c": "}"},"d":null}') == {
        "a": "[1, 2 ]",
        "b": '{"c": "}"}',
        "d": "null",
    }
    assert captures.members("{}") == {}


def stored(home: Path) -> list[Event]:
    return list(EventStore(home, load_game("crash").columns).events())


def test_secrets_and_names_are_redacted_before_they_are_stored(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        row(1, "authenticate", [TRACE, {"token": "open-sesame"}], direction="sent"),
        row(2, "gameStateUpdate", state(0)),
        row(3, "standard/newTrade", [TRACE, trade(0)]),
    ]
    path = write(tmp_path / "a.jsonl", rows)
    assert main(["import", "capture", str(path), "--json"]) == 0
    texts = "".join(event.raw or "" for event in stored(home))
    assert "open-sesame" not in texts
    assert "bob" not in texts
    assert "p-1" not in texts
    assert '"amount": 0.015' in texts
    first = stored(home)
    assert main(["import", "capture", str(path), "--json"]) == 0
    assert stored(home) == first
    capsys.readouterr()


def test_names_are_kept_where_asked(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(1, "gameStateUpdate", state(0)), row(2, "standard/newTrade", [TRACE, trade(0)])]
    path = write(tmp_path / "a.jsonl", rows)
    assert main(["import", "capture", str(path), "--keep-names", "--zone", "UTC"]) == 0
    assert "bob" in "".join(event.raw or "" for event in stored(home))
    assert stored(home)[0].ts.isoformat() == "2025-12-12T17:16:01.500000+00:00"
    assert "read as UTC" in capsys.readouterr().err


# --- the real captures, counted a second way


def slow_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def slow_count(path: Path) -> dict[str, int]:
    """Count what docs/guides/importing.md defines, with plain json and sets."""
    states: dict[str, dict[str, Any]] = {}
    indices: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    timers: dict[str, int] = {}
    rugs: dict[str, int] = {}
    duplicates = lost = 0
    for value in slow_rows(path):
        data = value["data"]
        lost += isinstance(data, dict) and data.get("__trace") is True
        if value["event"] != "gameStateUpdate":
            continue
        game_id = data["gameId"]
        now = states.setdefault(game_id, {"active": False, "rugged": False, "tickCount": 0, "price": 1})
        now |= data
        phase = 3 if now["rugged"] else 2 if now["active"] else 1 if now.get("allowPreRoundBuys") else 0
        index, timer = (phase, now["tickCount"]), now.get("cooldownTimer", 0)
        if phase == 3:
            rugs.setdefault(game_id, now["tickCount"])
        known = index in indices[game_id] and indices[game_id][index] == now["price"]
        reveals = any(entry["id"] not in states.get("revealed", {}) for entry in data.get("gameHistory", ()))
        states.setdefault("revealed", {}).update((entry["id"], 1) for entry in data.get("gameHistory", ()))
        duplicates += known and not reveals and (phase >= 2 or timer >= timers[game_id])
        indices[game_id][index] = now["price"]
        timers[game_id] = timer
    runs = {game_id: {tick for phase, tick in result if phase == 2} for game_id, result in indices.items()}
    ghosts = sum(phase == 3 and tick > rugs[game_id] for game_id, result in indices.items() for phase, tick in result)
    return {
        "files": 1,
        "rounds": len(indices),
        "rugged": len(rugs),
        "ticks": sum(map(len, indices.values())) - ghosts,
        "duplicates": duplicates,
        "gaps": sum(tick - 1 not in ran and tick > min(ran) for ran in runs.values() for tick in ran),
        "incomplete": sum(game_id not in rugs or not set(range(rugs[game_id])) <= ran for game_id, ran in runs.items()),
        "corrupt_lines": 0,
        "lost": lost,
    }


REPORTS: dict[str, dict[str, int]] = {
    "socket-capture-public.jsonl.gz": {
        "files": 1,
        "rounds": 3,
        "rugged": 2,
        "ticks": 247,
        "duplicates": 2,
        "gaps": 0,
        "incomplete": 2,
        "corrupt_lines": 0,
        "lost": 0,
    },
    "socket-capture-cdp.jsonl.gz": {
        "files": 1,
        "rounds": 2,
        "rugged": 1,
        "ticks": 102,
        "duplicates": 0,
        "gaps": 0,
        "incomplete": 1,
        "corrupt_lines": 0,
        "lost": 36,
    },
}
"""Of ../shared/data, as docs/guides/importing.md has it; `lost` are the payloads of which only the trace is there."""


@pytest.mark.parametrize("name", REPORTS)
def test_the_reports_of_the_real_captures_are_right(name: str, shared_data: Path) -> None:
    path = shared_data / "crash" / name
    report, events = run(path)
    slow = slow_count(path)
    assert slow == REPORTS[name]
    assert {key: getattr(report, key) for key in slow if key != "lost"} | {"lost": len(report.problems)} == slow
    assert all("its payload is lost" in problem for _, problem in problems(report))
    frames = [event.raw for event in events if event.raw is not None]
    rows = slow_rows(path)
    assert len(frames) == len(rows)
    for frame, value in zip(frames, rows, strict=True):
        if value["data"] is not None:
            arguments = json.loads(frame[2:])[1:]
            assert arguments == (value["data"] if isinstance(value["data"], list) else [value["data"]])


def test_all_real_trades_keep_their_payload(shared_data: Path) -> None:
    _, events = run(shared_data / "crash" / "socket-capture-public.jsonl.gz")
    trades = [event for event in events if event.event_name == "trade"]
    assert len(trades) == 31
    assert all(event.columns.get("trade_amount") for event in trades)


def test_the_zone_is_the_one_in_which_rounds_end_before_they_are_told(shared_data: Path) -> None:
    _, events = run(shared_data / "crash" / "socket-capture-public.jsonl.gz")
    payload = [event.ts - event.server_ts for event in events if event.doc_type == "complete_game" and event.server_ts]
    assert timedelta(0) <= min(payload) < timedelta(minutes=1)


def test_the_real_captures_import_twice_into_one_store(
    shared_data: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, states = [], []
    for _ in range(2):
        for name, expected in REPORTS.items():
            assert main(["import", "capture", str(shared_data / "crash" / name), "--json"]) == 0
            answers.append(capsys.readouterr().out)
            payload = json.loads(answers[-1])
            assert {key: payload[key] for key in expected if key != "lost"} | {
                "lost": len(payload["problems"])
            } == expected
        states.append(stored(home))
    assert answers[:2] == answers[2:]
    assert states[0] == states[1]
