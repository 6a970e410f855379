"""Importing old recordings: every kind of damage made up here, the real ones counted a second, slow way."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playproof.cli.app import main
from playproof.cli.data.importing import importing_game
from playproof.errors import InputError, StoreError
from playproof.events import Event
from playproof.game import load_game
from playproof.game.importers import ImportRow, ImportSettings
from playproof.games.crash.recording.importers import legacy
from playproof.games.crash.recording.round_tracker import RoundTracker
from playproof.record.imports.archives import LIMITS, ArchiveLimits
from playproof.record.imports.importing import Import, ImportReport
from playproof.record.imports.rows import salvage
from playproof.store import EventStore

GAME_ID = "20251029-b9466781d3e64c27"
OTHER_ID = "20251029-0123456789abcdef"
START = datetime(2025, 10, 29, 18, 0, tzinfo=UTC)


class MemoryLog:
    """Keep events in memory, as EventLog does: known ones are passed over, contradictions refused."""

    failure: str | None = None

    def __init__(self) -> None:
        self.events: dict[tuple[str, int], Event] = {}
        self.groups: list[int] = []

    def submit(self, events: Sequence[Event]) -> Future[None]:
        future = Future[None]()
        if any(self.events.get((one.session_id, one.seq), one) != one for one in events):
            future.set_exception(StoreError("another body"))
            return future
        self.groups.append(len(events))
        self.events |= {(event.session_id, event.seq): event for event in events}
        future.set_result(None)
        return future

    def sorted(self) -> list[Event]:
        return [self.events[key] for key in sorted(self.events)]


class NoRedaction:
    def clean(self, text: str, direction: str) -> str:
        return text

    def learn(self, names: Iterable[str]) -> None:
        pass


def run(
    path: Path, *, kind: str = "legacy", log: Any = None, limits: ArchiveLimits = LIMITS, zone: str = "UTC"
) -> ImportReport:
    importer = load_game("crash").recording().importers[kind]
    setting = ImportSettings(ZoneInfo(zone), NoRedaction)
    return Import(path, kind, importer, setting, log or MemoryLog(), limits=limits).run()


def told(report: ImportReport) -> list[tuple[str, int | None, str]]:
    return [(one["file"], one["line"], one["problem"]) for one in report.problems]


def tick(number: int, price: float = 1.0, game_id: str = GAME_ID, **fields: Any) -> dict[str, Any]:
    """Make a row of a running round."""
    row = {"type": "tick", "timestamp": moment(100 + number), "game_id": game_id, "tick": number, "price": price}
    row |= {"phase": "ACTIVE_GAMEPLAY", "active": True, "rugged": False, "cooldown_timer": 0, "trade_count": number}
    return row | fields


def rug(number: int, **fields: Any) -> dict[str, Any]:
    return tick(number, 0.01, rugged=True, **fields)


def presale(timer: int) -> dict[str, Any]:
    fields = {"phase": "PRESALE", "active": False, "cooldown_timer": timer, "trade_count": 0}
    return tick(0, **fields, timestamp=moment(100 - timer // 100))


def moment(steps: int) -> str:
    return datetime.fromtimestamp(START.timestamp() + steps / 4, UTC).replace(tzinfo=None).isoformat()


def bare(kind: str, steps: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": moment(steps), "game_id": GAME_ID} | fields


def whole(ticks: int = 5) -> list[dict[str, Any]]:
    """Make the rows of a whole round with its ghost."""
    rows = [
        bare("game_start"),
        presale(2000),
        presale(1000),
        *(tick(number, 1 + number / 8) for number in range(ticks)),
    ]
    return [*rows, rug(ticks), rug(ticks + 2, phase="RUG_EVENT_1", trade_count=0), bare("game_end", 200)]


def write(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def pack(path: Path, members: Iterable[tuple[str | tarfile.TarInfo, bytes]], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for member, content in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def counts(report: ImportReport) -> dict[str, int]:
    """Give what every importer counts; a player's presses and orders have tests of their own."""
    shared = ["files", "rounds", "rugged", "ticks", "duplicates", "gaps", "incomplete", "corrupt_lines"]
    return {name: asdict(report)[name] for name in shared}


# --- rounds


def test_a_whole_round_becomes_ticks_and_its_end(tmp_path: Path) -> None:
    log = MemoryLog()
    report = run(write(tmp_path / "a.jsonl", whole()), log=log)
    assert counts(report) == {
        "files": 1,
        "rounds": 1,
        "rugged": 1,
        "ticks": 7,
        "duplicates": 0,
        "gaps": 0,
        "incomplete": 0,
        "corrupt_lines": 0,
    }
    assert report.problems == []
    events = log.sorted()
    assert {event.session_id for event in events} == {f"legacy-{GAME_ID}"}
    assert [event.seq for event in events] == list(range(len(events)))
    assert {event.source for event in events} == {"import"}
    names = [event.event_name for event in events]
    assert names == [
        "game_start",
        "round",
        "tick",
        "countdown",
        *["tick"] * 6,
        "rug_repeat",
        "game_end",
        "complete_game",
    ]
    assert log.groups == [len(events)]


def test_the_rug_is_the_first_rugged_row_and_the_outcome_agrees(tmp_path: Path) -> None:
    log = MemoryLog()
    run(write(tmp_path / "a.jsonl", whole()), log=log)
    outcome = load_game("crash").recording().outcome(log.sorted())
    assert outcome is not None
    complete = log.sorted()[-1]
    assert complete.doc_type == "complete_game"
    for name in ("rug_tick", "rug_price", "peak", "ended_by_rug"):
        assert outcome.values[name] == complete.columns[name]
    assert (complete.columns["rug_tick"], complete.columns["rug_price"], complete.columns["peak"]) == (5, 0.01, 1.5)


def test_every_row_is_kept_raw_once(tmp_path: Path) -> None:
    log, rows = MemoryLog(), [*whole(), bare("news", 300), tick(0, phase=3)]
    run(write(tmp_path / "a.jsonl", rows), log=log)
    assert [event.raw for event in log.sorted() if event.raw] == [json.dumps(row) for row in rows]


def test_missing_ticks_become_gap_records_and_the_round_is_incomplete(tmp_path: Path) -> None:
    log, rows = MemoryLog(), [row for row in whole(9) if not (row.get("tick") in (2, 3, 6) and row["active"])]
    report = run(write(tmp_path / "a.jsonl", rows), log=log)
    gaps = [event.columns for event in log.sorted() if event.doc_type == "gap"]
    assert gaps == [{"missing_from": 2, "missing_to": 3}, {"missing_from": 6, "missing_to": 6}]
    assert (report.gaps, report.rugged, report.incomplete) == (2, 1, 1)
    last = log.sorted()[-1]
    assert (last.event_name, last.columns["reason"]) == (
        "incomplete",
        "3 ticks before the rug were not received, the first is 2",
    )


def test_a_late_tick_is_no_gap(tmp_path: Path) -> None:
    log = MemoryLog()
    rows = [presale(100), tick(0), tick(1), tick(5), tick(3), rug(6)]
    report = run(write(tmp_path / "a.jsonl", rows), log=log)
    gaps = [tuple(event.columns.values()) for event in log.sorted() if event.doc_type == "gap"]
    assert gaps == [(2, 2), (4, 4)]
    assert (report.gaps, report.ticks) == (2, 6)


@pytest.mark.parametrize(
    ("rows", "rugged"),
    [
        ([tick(7), tick(8), rug(9)], 1),
        ([presale(100), tick(0), tick(1)], 0),
        ([presale(100)], 0),
        ([bare("game_start")], 0),
    ],
)
def test_rounds_that_are_not_whole_are_kept_and_marked(rows: list[Any], rugged: int, tmp_path: Path) -> None:
    log = MemoryLog()
    report = run(write(tmp_path / "a.jsonl", rows), log=log)
    assert (report.rounds, report.rugged, report.incomplete, report.gaps) == (1, rugged, 1, 0)
    assert log.sorted()[-1].event_name == "incomplete"
    assert load_game("crash").recording().outcome(log.sorted()) is None


def test_a_rug_at_tick_0_does_not_stop_the_import(tmp_path: Path) -> None:
    assert run(write(tmp_path / "a.jsonl", [presale(100), rug(0)])).rugged == 1


def test_a_changed_value_for_a_known_tick_is_flagged(tmp_path: Path) -> None:
    log = MemoryLog()
    rows = [presale(100), tick(0), tick(1, 1.1), tick(1, 1.2), tick(2), rug(3)]
    report = run(write(tmp_path / "a.jsonl", rows), log=log)
    assert told(report) == [("a.jsonl", 4, f"tick 1 of {GAME_ID} is known with another price than 1.2")]
    assert [event.columns["price"] for event in log.sorted() if event.event_name == "conflict"] == [1.2]
    assert (report.ticks, report.duplicates) == (5, 0)


def test_duplicates_are_counted_and_change_nothing(tmp_path: Path) -> None:
    clean, twice = MemoryLog(), MemoryLog()
    rows = whole()
    run(write(tmp_path / "a.jsonl", rows), log=clean)
    again = [copy for row in rows for copy in (row, row)]
    report = run(write(tmp_path / "b.jsonl", again), log=twice)
    assert report.duplicates == len(rows)
    assert twice.sorted() == clean.sorted()


def test_a_known_tick_that_says_more_is_a_duplicate_and_kept_raw(tmp_path: Path) -> None:
    log = MemoryLog()
    report = run(write(tmp_path / "a.jsonl", [tick(3), tick(3, trade_count=99)]), log=log)
    assert (report.duplicates, report.ticks) == (1, 1)
    assert [event.event_name for event in log.sorted()] == ["round", "tick", "frame", "incomplete"]


def test_a_round_in_two_files_is_merged_whatever_their_names(tmp_path: Path) -> None:
    rows = whole(20)
    early, late = rows[:12], [bare("game_start", 112), *rows[9:]]
    logs = []
    for number, (first, second) in enumerate((("a", "b"), ("z", "y"), ("sub/x", "a"))):
        write(tmp_path / str(number) / f"{first}.jsonl", early)
        write(tmp_path / str(number) / f"{second}.jsonl", late)
        log = MemoryLog()
        report = run(tmp_path / str(number), log=log)
        assert (report.files, report.rounds, report.duplicates, report.incomplete) == (2, 1, 3, 0)
        assert len(log.groups) == 1
        logs.append(log.sorted())
    assert logs[0] == logs[1] == logs[2]


def test_a_copy_of_a_file_is_duplicates_alone(tmp_path: Path) -> None:
    write(tmp_path / "one" / "a.jsonl", whole())
    for name in ("a", "b"):
        write(tmp_path / "two" / f"{name}.jsonl", whole())
    one, two = MemoryLog(), MemoryLog()
    run(tmp_path / "one", log=one)
    report = run(tmp_path / "two", log=two)
    assert one.sorted() == two.sorted()
    assert (report.files, report.duplicates) == (2, len(whole()))
    assert told(report) == [("b.jsonl", None, "the same bytes as a.jsonl; counted as duplicates")]


def test_one_file_of_several_rounds_and_rows_of_none(tmp_path: Path) -> None:
    log = MemoryLog()
    session = {"type": "session_start", "timestamp": moment(0), "session_id": "x"}
    rows = [session, *whole(3), *(row | {"game_id": OTHER_ID} for row in whole(3))]
    report = run(write(tmp_path / "a.jsonl", rows), log=log)
    assert (report.rounds, report.incomplete, report.problems) == (2, 0, [])
    assert len({event.session_id for event in log.sorted()}) == 3
    assert len(log.groups) == 1


# --- times


@pytest.mark.parametrize(
    ("written", "zone", "utc"),
    [
        ("2025-10-29T18:00:00", "America/New_York", "2025-10-29T22:00:00+00:00"),
        ("2025-11-03T18:00:00", "America/New_York", "2025-11-03T23:00:00+00:00"),
        ("2025-11-03T18:00:00+02:00", "America/New_York", "2025-11-03T16:00:00+00:00"),
        ("2025-11-03T18:00:00", "UTC", "2025-11-03T18:00:00+00:00"),
    ],
)
def test_local_times_become_utc(written: str, zone: str, utc: str, tmp_path: Path) -> None:
    log = MemoryLog()
    row = tick(0, timestamp=written, game_id=f"{written[:10].replace('-', '')}-0123456789abcdef")
    assert run(write(tmp_path / "a.jsonl", [row]), log=log, zone=zone).problems == []
    assert {event.ts.isoformat() for event in log.sorted()} == {utc}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("2025-11-02T01:30:00", "is not one moment"),
        ("2025-11-04T12:00:00", "is not on the day of"),
        ("2025-11-01T12:00:00", "is not on the day of"),
    ],
)
def test_odd_times_are_reported_once_a_file(written: str, problem: str, tmp_path: Path) -> None:
    rows = [tick(number, timestamp=written, game_id="20251102-0123456789abcdef") for number in range(3)]
    (result,) = told(run(write(tmp_path / "a.jsonl", rows), zone="America/New_York"))
    assert result[:2] == ("a.jsonl", 1)
    assert problem in result[2]


@pytest.mark.parametrize("written", [None, 5, "yesterday", "9999-12-31T23:59:59-23:00", ["x"]])
def test_rows_without_a_time_are_left_out(written: object, tmp_path: Path) -> None:
    log = MemoryLog()
    report = run(write(tmp_path / "a.jsonl", [tick(0), tick(1, timestamp=written)]), log=log)
    assert report.ticks == 1
    assert "expected a time" in told(report)[0][2]


# --- damaged lines


def test_rows_of_two_writers_in_one_line_are_salvaged(tmp_path: Path) -> None:
    one, two, three = (json.dumps(tick(number)) for number in (1, 2, 3))
    damaged = [one + two, "{" + one, one[:-12] + two, one[:30] + two + one[30:], one + three[:50] + two + three[50:]]
    for line in damaged:
        log = MemoryLog()
        report = run(write(tmp_path / "a.jsonl", [json.dumps(tick(0)), line, json.dumps(tick(9))]), log=log)
        assert report.corrupt_lines == 1
        expected = {0, 9} | {number for number, text in ((1, one), (2, two), (3, three)) if text in line}
        assert {event.columns["tick"] for event in log.sorted() if event.event_name == "tick"} == expected
        assert "whole rows found in it" in told(report)[0][2]


@pytest.mark.parametrize(
    "line",
    [
        "}",
        "null",
        "[]",
        '"text"',
        "17",
        json.dumps(tick(1))[:-1],
        json.dumps(tick(1)).replace(': "tick"', ': "tick", "type": "tick"') + "}",
        '{"a": {"type": "tick", "timestamp": "2025-10-29T18:00:00"}',
        json.dumps(tick(1)).replace("1.0", "NaN"),
        "## a note",
        "{" * 100_000,
        '{"a":' * 20_000,
        '{"' * 50_000,
        "\ufeff",
        "\x00\x01",
    ],
)
def test_lines_that_hold_no_row_are_counted_and_the_rest_goes_on(line: str, tmp_path: Path) -> None:
    rows = [*map(json.dumps, whole()), line, "", "   ", json.dumps(tick(0, game_id=OTHER_ID))]
    log = MemoryLog()
    report = run(write(tmp_path / "a.jsonl", rows), log=log)
    if line == "\x00\x01":
        assert report.files == 0
        return
    assert (report.corrupt_lines, report.rounds, report.incomplete) == (1, 2, 1)
    assert told(report) == [("a.jsonl", len(whole()) + 1, "not one JSON object; whole rows found in it: 0")]


def test_bytes_that_are_no_utf_8_spoil_their_own_object_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good, bad = lines([tick(1)]).strip(), lines([tick(2)]).strip().replace(b"ACTIVE", b"\xff\xfe")
    path.write_bytes(lines([tick(0)]) + bad + good + b"\n")
    log = MemoryLog()
    assert run(path, log=log).corrupt_lines == 1
    assert [event.columns["tick"] for event in log.sorted() if event.event_name == "tick"] == [0, 1]


def test_salvage_takes_no_piece_of_an_object() -> None:
    inner = {"type": "game_start", "timestamp": moment(0)}
    assert salvage(json.dumps({"outer": inner})[:-1], lambda value: "seq" in value) == []
    assert salvage('{"seq": 1, "data": {"seq": 2}', lambda value: "data" in value) == []


def test_a_line_too_long_is_left_out(tmp_path: Path) -> None:
    rows = [tick(0), tick(1, phase="x" * 5000), tick(2)]
    report = run(write(tmp_path / "a.jsonl", rows), limits=replace(LIMITS, line_bytes=1000))
    assert (report.ticks, report.corrupt_lines) == (2, 1)
    assert told(report)[0] == ("a.jsonl", 2, "a line that is too long was left out")


def test_a_flood_of_problems_is_summed_up(tmp_path: Path) -> None:
    report = run(write(tmp_path / "a.jsonl", [tick(0), *["x"] * 50]), limits=replace(LIMITS, problems=10))
    assert report.corrupt_lines == 50
    assert len(report.problems) == 11
    assert any("further problems are not listed" in problem for _, _, problem in told(report))


INTACT = st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True)
DAMAGE = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(["cut", "splice", "join", "noise", "swap"]), st.integers(0, 400))
)


def damage(text: str, how: str, index: int) -> str:
    other = json.dumps(tick(77))
    at = index % (len(text) + 1)
    done = {
        "cut": text[:at],
        "splice": text[:at] + other[: index % 90] + text[at:],
        "join": text + other[at % len(other) :],
        "noise": text[:at] + '\\"{}[]:\udc80'[index % 8] + text[at:],
        "swap": text[at:] + text[:at],
    }
    return done[how]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ticks=INTACT, damages=DAMAGE)
def test_random_damage_never_stops_it_and_loses_no_intact_line(
    ticks: list[int], damages: list[tuple[int, str, int]], tmp_path: Path
) -> None:
    texts: list[str] = [json.dumps(tick(number)) for number in ticks]
    intact = dict(enumerate(ticks))
    for line, how, index in damages:
        texts[line % len(texts)] = damage(texts[line % len(texts)], how, index)
        intact.pop(line % len(texts), None)
    path = tmp_path / "a.jsonl"
    path.write_bytes("".join(text + "\n" for text in texts).encode("utf-8", "surrogateescape"))
    log = MemoryLog()
    report = run(path, log=log)
    result = {event.columns["tick"] for event in log.sorted() if event.doc_type == "game_tick"}
    assert set(intact.values()) <= result
    assert report.corrupt_lines <= len(texts) - len(intact)
    again = MemoryLog()
    assert asdict(run(path, log=again)) == asdict(report)
    assert again.sorted() == log.sorted()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6), st.sampled_from([1.0, 1.5]), st.sampled_from(["wait", "buy", "run", "rug", "none"])
        )
    )
)
def test_a_round_is_followed_as_in_a_live_recording(steps: list[tuple[int, float, str]]) -> None:
    shapes: dict[str, dict[str, Any]] = {
        "wait": {"active": False, "phase": "UNKNOWN", "cooldown_timer": 12_000},
        "buy": {"active": False, "phase": "PRESALE", "cooldown_timer": 500},
        "run": {},
        "rug": {"rugged": True},
        "none": {"active": False, "phase": "UNKNOWN"},
    }
    rows = []
    for number, price, shape in steps:
        row = tick(number, price, trade_count=number) | shapes[shape]
        row["cooldown_timer"] = max(0, row["cooldown_timer"] - 100 * number)
        rows.append(row)
    check_twin(rows)


def check_twin(values: Iterable[dict[str, Any]]) -> None:
    """Hold the quick follower against the decoder's own Rounds."""
    follower, rounds = legacy.RoundFollower(GAME_ID), RoundTracker()
    for value in values:
        assert follower.take(value) == list(rounds.take(as_message(value))), value


def as_message(value: dict[str, Any]) -> dict[str, Any]:
    """Give a row as the gameStateUpdate that it was written from."""
    message = {
        "gameId": GAME_ID,
        "tickCount": value["tick"],
        "price": value["price"],
        "active": value["active"],
        "rugged": value["rugged"],
        "cooldownTimer": value["cooldown_timer"],
        "allowPreRoundBuys": value["phase"] == "PRESALE",
    }
    return message | ({"tradeCount": value["trade_count"]} if value["trade_count"] else {})


# --- files and archives


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_folder_archive_and_single_files_give_the_same(mode: str, tmp_path: Path) -> None:
    rounds = {"x/a.jsonl": lines(whole(4)), "b.jsonl": lines(row | {"game_id": OTHER_ID} for row in whole(6))}
    for name, content in rounds.items():
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    packed = tmp_path / "packed"
    packed.mkdir()
    for number, content in enumerate(rounds.values()):
        (packed / f"{number}.jsonl.gz").write_bytes(gzip.compress(content))
    archive = pack(tmp_path / ("a.tar.gz" if mode == "w:gz" else "a.tar"), reversed(rounds.items()), mode)
    nested = tmp_path / "nested"
    nested.mkdir()
    (nested / "a.tar.gz").write_bytes(archive.read_bytes())
    logs = []
    for path in (tmp_path / "folder", archive, packed, nested):
        log = MemoryLog()
        report = run(path, log=log)
        assert (report.files, report.rounds, report.problems) == (2, 2, [])
        logs.append(log.sorted())
    assert all(log == logs[0] for log in logs)


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def test_an_archive_cannot_reach_outside(tmp_path: Path) -> None:
    members = [
        ("../out.jsonl", lines(whole())),
        ("/etc/out.jsonl", lines(whole())),
        ("a/../../out.jsonl", lines(whole())),
        ("a\\..\\out.jsonl", lines(whole())),
        special("link.jsonl", tarfile.SYMTYPE, "/etc/passwd"),
        special("hard.jsonl", tarfile.LNKTYPE, "good.jsonl"),
        special("device", tarfile.CHRTYPE),
        special("pipe", tarfile.FIFOTYPE),
        special("folder", tarfile.DIRTYPE),
        ("good.jsonl", lines(whole())),
    ]
    before = sorted(tmp_path.rglob("*"))
    report = run(pack(tmp_path / "a.tar.gz", members))
    assert (report.files, report.rounds) == (1, 1)
    assert len(report.problems) == 8
    assert sorted(tmp_path.rglob("*")) == [*before, tmp_path / "a.tar.gz"]


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside.jsonl", whole())
    write(tmp_path / "in" / "a.jsonl", [tick(0, game_id=OTHER_ID)])
    (tmp_path / "in" / "link.jsonl").symlink_to(outside)
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    report = run(tmp_path / "in")
    assert (report.files, report.rounds) == (1, 1)
    assert [problem for _, _, problem in told(report)] == ["a link or special file was left out"]


def test_bombs_are_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.jsonl.gz"
    bomb.write_bytes(gzip.compress(lines([tick(0)]) + b" " * 80_000_000))
    report = run(bomb, limits=replace(LIMITS, spared_bytes=1000))
    assert report.files == 0
    assert "bytes unpacked, found more" in told(report)[0][2]
    members = [("bomb.jsonl", lines([tick(0)]) + b" " * 5_000_000), ("good.jsonl", lines(whole()))]
    report = run(pack(tmp_path / "a.tar", members, "w"), limits=replace(LIMITS, file_bytes=1_000_000))
    assert (report.files, report.rounds) == (1, 1)
    many = pack(tmp_path / "many.tar.gz", ((f"{number}.jsonl", lines([tick(number)])) for number in range(50)))
    report = run(many, limits=replace(LIMITS, files=10))
    assert report.files == 10
    assert "at most 10 files" in told(report)[0][2]


def test_files_that_share_a_round_are_held_to_the_limit_together(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path / f"{number}.jsonl", [tick(10 * number + step) for step in range(10)])
    write(tmp_path / "other.jsonl", [row | {"game_id": OTHER_ID} for row in whole()])
    log = MemoryLog()
    report = run(tmp_path, log=log, limits=replace(LIMITS, file_bytes=6000))
    assert {event.window_id for event in log.sorted()} == {OTHER_ID}
    assert sum("that share a recording" in problem for _, _, problem in told(report)) == 6


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar", "a.tgz"])
def test_an_archive_that_is_none_is_reported(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"no archive at all\n")
    write(tmp_path / "good.jsonl", whole())
    report = run(tmp_path)
    assert report.rounds == 1
    assert told(report) == [(name, None, "expected a tar archive, as its name says, found something else")]


def test_torn_files_keep_what_can_be_read(tmp_path: Path) -> None:
    packed = gzip.compress(lines(tick(number, 1 + number / 7) for number in range(4000)), mtime=0)
    (tmp_path / "torn.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x00\x00")
    (tmp_path / "note.txt").write_text("not a recording\n")
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x08\x00broken")
    write(tmp_path / "good.jsonl", [row | {"game_id": OTHER_ID} for row in whole()])
    report = run(tmp_path)
    assert (report.files, report.rounds) == (2, 2)
    assert 100 < report.ticks < 4000
    assert {file for file, _, _ in told(report)} == {
        *("torn.jsonl.gz", "empty.jsonl", "picture.png", "note.txt", "broken.gz")
    }


def test_a_torn_archive_keeps_the_files_before_the_tear(tmp_path: Path) -> None:
    members = [(f"{number}.jsonl", lines([tick(number), tick(number + 1)])) for number in range(0, 60, 2)]
    whole_tar = pack(tmp_path / "whole.tar", members, "w").read_bytes()
    torn = tmp_path / "torn.tar"
    torn.write_bytes(whole_tar[: len(whole_tar) // 2 + 100])
    report = run(torn)
    assert 5 < report.files < 30
    assert any("read to its end" in problem for _, _, problem in told(report))


def test_a_file_that_changes_meanwhile_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", whole())
    write(tmp_path / "b.jsonl", [row | {"game_id": OTHER_ID} for row in whole()])
    importer, log = (load_game("crash").recording().importers["legacy"]), MemoryLog()

    def change(what: str, done: int, total: int | None) -> None:
        if what == "reading" and done == 2:
            write(path, whole(9))

    report = Import(tmp_path, "legacy", importer, ImportSettings(UTC, NoRedaction), log).run(change)
    assert told(report) == [("a.jsonl", None, "the file changed while it was read; import it again")]
    assert {event.window_id for event in log.sorted()} == {OTHER_ID}


def test_nothing_at_the_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found nothing at"):
        run(tmp_path / "nothing")


# --- the store


def test_what_the_store_refuses_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    log = MemoryLog()
    run(write(tmp_path / "a.jsonl", whole(4)), log=log)
    before = log.sorted()
    write(tmp_path / "more" / "a.jsonl", whole(9))
    write(tmp_path / "more" / "b.jsonl", [row | {"game_id": OTHER_ID} for row in whole()])
    report = run(tmp_path / "more", log=log)
    assert told(report) == [("a.jsonl", None, "the store refused it: another body")]
    assert [event for event in log.sorted() if event.window_id == GAME_ID] == before
    assert any(event.window_id == OTHER_ID for event in log.sorted())


def test_a_log_that_refuses_at_once_is_reported_too(tmp_path: Path) -> None:
    class Refusing(MemoryLog):
        def submit(self, events: Sequence[Event]) -> Future[None]:
            raise StoreError("it is in another log")

    report = run(write(tmp_path / "a.jsonl", whole(4)), log=Refusing())
    assert told(report) == [("a.jsonl", None, "the store refused it: it is in another log")]


def test_a_log_that_failed_is_an_error(tmp_path: Path) -> None:
    log = MemoryLog()
    run(write(tmp_path / "a.jsonl", whole(4)), log=log)
    log.failure = "the disk is full"
    with pytest.raises(StoreError):
        run(write(tmp_path / "a.jsonl", whole(5)), log=log)


def imported(kind: str, path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["import", kind, str(path), "--json", *options]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_the_command_imports_into_the_store_and_again_changes_nothing(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    write(folder / "a.jsonl", [*whole(), "damaged"])
    write(folder / "b.jsonl", [row | {"game_id": OTHER_ID} for row in whole()[:-3]])
    first = imported("legacy", folder, capsys)
    assert list(first) == [
        *("files", "rounds", "rugged", "ticks", "duplicates", "gaps", "incomplete", "corrupt_lines", "problems")
    ]
    assert first["problems"][0] == {
        "file": "a.jsonl",
        "line": len(whole()) + 1,
        "problem": "not one JSON object; whole rows found in it: 0",
    }
    stored = list(EventStore(home, load_game("crash").columns).events())
    assert main(["store", "ls", "--json"]) == 0
    listing = capsys.readouterr().out
    assert imported("legacy", folder, capsys) == first
    assert list(EventStore(home, load_game("crash").columns).events()) == stored
    assert main(["store", "ls", "--json"]) == 0
    assert capsys.readouterr().out == listing
    assert main(["store", "compact", "--json"]) == 0
    capsys.readouterr()
    assert imported("legacy", folder, capsys) == first
    assert list(EventStore(home, load_game("crash").columns).events()) == stored
    log = MemoryLog()
    run(folder, log=log, zone=legacy.ZONE)
    assert stored == log.sorted()


def test_the_command_shows_a_table_and_says_which_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.jsonl", [*whole(), *["[bad]"] * 30])
    assert main(["import", "legacy", str(path)]) == 1  # more lines were dropped than kept
    out, err = capsys.readouterr()
    assert "dropped 30 and kept" in err
    assert "corrupt_lines" in out
    assert "10 more" in out
    assert "America/New_York" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nothing"], "found nothing at"),
        (["empty"], "found none that can be read"),
        (["good.jsonl", "--zone", "Nowhere/Land"], "expected a time zone"),
        (["good.jsonl", "--game", "chess"], "expected a known game"),
    ],
)
def test_wrong_calls_are_errors(
    args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "good.jsonl", whole())
    (tmp_path / "empty").mkdir()
    assert main(["import", "legacy", *args]) == 1
    assert message in capsys.readouterr().err


def test_a_game_is_found_by_what_it_imports() -> None:
    assert importing_game("legacy", None).name == importing_game("legacy", "crash").name
    with pytest.raises(InputError, match="expected a known kind of recording"):
        importing_game("telegraph", "crash")
    with pytest.raises(InputError, match="found none"):
        importing_game("telegraph", None)


# --- the real recordings, counted a second way


def slow_objects(text: str) -> Iterator[dict[str, Any]]:
    """Give the whole rows in a damaged line by trying every pair of braces."""
    start = 0
    while (start := text.find("{", start)) >= 0:
        for end in (index for index in range(start, len(text)) if text[index] == "}"):
            try:
                value = json.loads(text[start : end + 1])
            except ValueError:
                continue
            if "timestamp" in value:
                yield value
                start = end
            break
        start += 1


def slow_count(folder: Path) -> dict[str, int]:
    """Count what docs/guides/importing.md defines, with plain json and sets."""
    corrupt, rows = 0, defaultdict(list)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        result: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in path.read_bytes().decode().split("\n"):
            if not line.strip():
                continue
            try:
                values = [json.loads(line)]
                assert isinstance(values[0], dict)
            except (ValueError, AssertionError):
                corrupt += 1
                values = list(slow_objects(line))
            for value in values:
                if "game_id" in value:
                    result[value["game_id"]].append(value)
        for game_id, values in result.items():
            rows[game_id].append(values)
    total = {"files": len(files), "rounds": len(rows), "corrupt_lines": corrupt}
    total |= dict.fromkeys(("rugged", "ticks", "duplicates", "gaps", "incomplete"), 0)
    for parts in rows.values():
        parts.sort(key=lambda values: values[0]["timestamp"])
        ticks = [value for values in parts for value in values if value["type"] == "tick"]
        for name, count in slow_round(ticks).items():
            total[name] += count
    return total


def slow_round(ticks: list[dict[str, Any]]) -> dict[str, int]:
    said, duplicates = set(), 0
    for value in ticks:
        key = tuple(value[name] for name in ("active", "rugged", "tick", "cooldown_timer", "price"))
        duplicates += (*key, value["phase"] == "PRESALE") in said
        said.add((*key, value["phase"] == "PRESALE"))
    rugs = [value["tick"] for value in ticks if value["rugged"]]
    running = {value["tick"] for value in ticks if value["active"] and not value["rugged"]}
    waits = slow_waits(ticks)
    missing: set[int] = set()
    if running or rugs:
        first = 0 if waits else min([*running, *rugs[:1]])
        missing = set(range(first, rugs[0] if rugs else max(running))) - running
    return {
        "rugged": bool(rugs),
        "ticks": len(running) + bool(rugs) + len(waits),
        "duplicates": duplicates,
        "gaps": sum(tick - 1 not in missing for tick in missing),
        "incomplete": not rugs or not set(range(rugs[0])) <= running,
    }


def slow_waits(ticks: list[dict[str, Any]]) -> set[int]:
    """Give which of cooldown (0) and presale (1) were seen before a later phase was."""
    seen, latest = set(), 0
    for value in ticks:
        phase = 2 if value["active"] or value["rugged"] else int(value["phase"] == "PRESALE")
        latest = max(latest, phase)
        if phase == latest < 2 and (phase or value["cooldown_timer"] > 0):
            seen.add(phase)
    return seen


REPORT = {
    "files": 601,
    "rounds": 589,
    "rugged": 575,
    "ticks": 111_968,
    "duplicates": 626,
    "gaps": 64,
    "incomplete": 41,
    "corrupt_lines": 130,
}
"""Of ../shared/data, as docs/guides/importing.md has it."""


@pytest.fixture(scope="module")
def recordings(shared_data: Path) -> Path:
    return shared_data / "crash" / "legacy-recordings.tar.gz"


@pytest.fixture(scope="module")
def unpacked(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(recordings) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def real(recordings: Path) -> tuple[ImportReport, MemoryLog]:
    log = MemoryLog()
    return run(recordings, log=log, zone=legacy.ZONE), log


def test_the_report_of_the_real_recordings_is_right(real: tuple[ImportReport, MemoryLog], unpacked: Path) -> None:
    assert counts(real[0]) == slow_count(unpacked) == REPORT


def test_the_real_report_names_every_damaged_line(real: tuple[ImportReport, MemoryLog]) -> None:
    damaged = [(file, line) for file, line, problem in told(real[0]) if problem.startswith("not one JSON object")]
    assert len(damaged) == len(set(damaged)) == REPORT["corrupt_lines"]
    assert len({file for file, _ in damaged}) == 10
    others = [problem for _, _, problem in told(real[0]) if not problem.startswith("not one JSON object")]
    assert len(others) == 1
    assert "is not on the day of" in others[0]


def test_the_zone_is_the_one_that_fits_the_rounds_names(unpacked: Path) -> None:
    odd = {}
    for zone in (legacy.ZONE, "UTC", "Etc/GMT+4", "Etc/GMT+5", "America/Chicago"):
        day = {}
        odd[zone] = 0
        for path in sorted(unpacked.rglob("*.jsonl")):
            first = json.loads(path.read_text().partition("\n")[0])
            if "game_id" in first:
                day = legacy.Day(first["game_id"], ZoneInfo(zone))
                odd[zone] += bool(day.why_odd(first["timestamp"], legacy.read_moment(first["timestamp"], day.zone)))
    assert odd[legacy.ZONE] == 0
    assert all(count > 0 for zone, count in odd.items() if zone != legacy.ZONE), odd


def test_real_rounds_are_whole_exactly_where_the_game_knows_their_outcome(real: tuple[ImportReport, MemoryLog]) -> None:
    outcome = load_game("crash").recording().outcome
    rounds: dict[str, list[Event]] = defaultdict(list)
    for event in real[1].sorted():
        if event.window_id:
            rounds[event.window_id].append(event)
    assert len(rounds) == REPORT["rounds"]
    for events in rounds.values():
        known, last = outcome(events), events[-1]
        assert (known is None) == (last.event_name == "incomplete")
        if known is not None:
            assert {name: known.values[name] for name in ("rug_tick", "rug_price", "peak")} == {
                name: last.columns[name] for name in ("rug_tick", "rug_price", "peak")
            }


def test_real_rows_are_followed_as_in_a_live_recording(unpacked: Path) -> None:
    for path in sorted(unpacked.rglob("game_*.jsonl"))[::20]:
        values = [row.value for row in whole_rows(path) if legacy.is_tick(row.value)]
        check_twin(dict(value) for value in values)


def whole_rows(path: Path) -> Iterator[ImportRow]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            yield ImportRow(number, "", json.loads(line))
        except ValueError:
            continue


def test_files_in_another_order_and_under_other_names_give_the_same_rows(
    unpacked: Path, real: tuple[ImportReport, MemoryLog], tmp_path: Path
) -> None:
    chosen = sorted(unpacked.rglob("*.jsonl"))[100:220]
    for number, path in enumerate(reversed(chosen)):
        target = tmp_path / "other" / str(number % 3) / f"{number:03}.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    log = MemoryLog()
    run(tmp_path / "other", log=log, zone=legacy.ZONE)
    assert log.events
    whole_rounds = {event.window_id for event in log.sorted() if event.doc_type == "complete_game"}
    assert len(whole_rounds) > 100
    for key, event in log.events.items():
        if event.window_id in whole_rounds:
            assert real[1].events[key] == event


@pytest.mark.slow
def test_the_real_recordings_import_twice_into_one_store(
    recordings: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = imported("legacy", recordings, capsys)
    assert {name: first[name] for name in REPORT} == REPORT
    result = digest(home)
    assert imported("legacy", recordings, capsys) == first
    assert digest(home) == result
    assert (result[1]["game_tick"], result[1]["gap"]) == (REPORT["ticks"], REPORT["gaps"])


def digest(home: Path) -> tuple[str, Counter[str]]:
    """Give a hash of every event that is stored, and how many there are of each kind."""
    hashed, docs = hashlib.sha256(), Counter[str]()
    for event in EventStore(home, load_game("crash").columns).events():
        hashed.update(repr(event).encode())
        docs[event.doc_type] += 1
    return hashed.hexdigest(), docs
