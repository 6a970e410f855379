"""The event store: identity, snapshots, compaction, queries, damage, migrations, commands."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs
from store_proofs import COLUMNS, SESSION, numbered, stored
from typer.testing import CliRunner

from playproof.cli.data.store import app
from playproof.errors import InputError, PlayproofError, StoreError, UnknownName
from playproof.events import DOC_TYPES, Event
from playproof.game import Column
from playproof.store import EventLog, EventStore, PartFiles, compact, verify
from playproof.store.log import compaction, schema
from playproof.store.log.compaction import whole_windows
from playproof.store.log.parts import QUARANTINE, STAGING
from playproof.testing.strategies import IDS, MOMENTS, TEXTS


def fill(home: Path, count: int = 200, *, compacted: bool = False) -> list[Event]:
    events = [numbered(seq) for seq in range(count)]
    with EventLog.open(home, COLUMNS) as log:
        log.append(events)
        if compacted:
            log.compact()
    return events


def parts_of(home: Path) -> list[Path]:
    return sorted((home / "events").glob("doc_type=*/date=*/part-*.parquet"))


def connection_of(home: Path) -> sqlite3.Connection:
    return sqlite3.connect(home / "log" / "main.db", isolation_level=None)


# What comes back.


VALUES = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "money": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False).map(lambda value: value + 0.0),
    "bool": st.booleans(),
    "text": TEXTS,
}


def any_event() -> st.SearchStrategy[Event]:
    columns = st.fixed_dictionaries({}, optional={column.name: VALUES[column.kind] for column in COLUMNS})
    return st.builds(
        Event,
        ts=MOMENTS,
        source=st.just("ui"),
        doc_type=st.sampled_from(DOC_TYPES),
        session_id=st.sampled_from(["a", "b", "c"]),
        seq=st.integers(0, 30),
        event_name=IDS,
        server_ts=st.none() | MOMENTS,
        window_id=st.none() | st.sampled_from(["w1", "w2", "w3"]),
        player_id=st.none() | IDS,
        raw=st.none() | TEXTS,
        columns=columns,
    )


STEPS = st.lists(
    st.lists(any_event(), max_size=6) | st.sampled_from(["compact", "final", "reopen", "verify"]),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40)
@given(STEPS)
def test_any_sequence_of_steps_keeps_every_event_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Event] | str]
) -> None:
    """The model is a dictionary by identity: the first body stays, a call with another body is refused whole."""
    home = tmp_path_factory.mktemp("home")
    model: dict[tuple[str, int], Event] = {}
    log = EventLog.open(home, COLUMNS)
    for step in steps:
        if isinstance(step, list):
            grown = dict(model)
            clean = all(grown.setdefault((event.session_id, event.seq), event) == event for event in step)
            if clean:
                log.append(step)
                model = grown
            else:
                with pytest.raises(StoreError, match="another body"):
                    log.append(step)
        elif step == "reopen":
            log.close()
            log = EventLog.open(home, COLUMNS)
        elif step == "verify":
            assert verify(home).findings == ()
        else:
            log.compact(final=step == "final")
        expected = [model[identity] for identity in sorted(model)]
        assert list(EventStore(home).events()) == expected
    log.close()
    store = EventStore(home)
    by_type = {doc_type: store.arrow(doc_type).num_rows for doc_type in DOC_TYPES}
    assert by_type == {doc_type: sum(e.doc_type == doc_type for e in model.values()) for doc_type in DOC_TYPES}


def test_every_way_to_read_sees_hot_and_compacted_rows(home: Path) -> None:
    events = fill(home, compacted=True)
    store = EventStore(home)
    ticks = [event for event in events if event.doc_type == "game_tick"]
    assert 0 < sum(1 for _ in connection_of(home).execute("SELECT 1 FROM events")) < len(events)
    table = store.arrow("game_tick", ["seq", "cash"])
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == [(e.seq, e.columns["cash"]) for e in ticks]
    assert table.schema.field("cash").type == pa.int64()
    frame = store.scan("game_tick").sort("seq").collect()
    assert frame["price"].to_list() == [event.columns["price"] for event in ticks]
    assert frame["ts"].dtype == pl.Datetime("us", "UTC")
    assert frame["ts"].to_list() == [event.ts for event in ticks]
    assert frame["raw"].to_list() == [event.raw for event in ticks]
    answer = store.query("SELECT count(*) AS n, sum(cash)::BIGINT AS cash, min(ts) AS first FROM game_tick").to_pylist()
    assert answer == [{"n": len(ticks), "cash": sum(int(e.columns["cash"] or 0) for e in ticks), "first": ticks[0].ts}]
    assert store.problems == ()


def test_events_are_chosen_by_type_window_and_session(home: Path) -> None:
    fill(home, compacted=True)
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq, "other") for seq in range(40)])
    store = EventStore(home)
    for session in (SESSION, "other"):
        assert {event.session_id for event in store.events(session_id=session)} == {session}
    result = list(store.events(doc_type="game_tick", window_id="w1", session_id=SESSION))
    assert result == [e for e in map(numbered, range(200)) if e.doc_type == "game_tick" and e.window_id == "w1"]
    assert list(store.events(session_id="nobody")) == []
    with pytest.raises(UnknownName, match="doc_type"):
        store.events(doc_type="nothing")
    with pytest.raises(UnknownName, match="column"):
        store.arrow("game_tick", ["nothing"])


def test_an_empty_home_has_no_events(home: Path) -> None:
    store = EventStore(home, COLUMNS)
    assert list(store.events()) == []
    assert store.arrow("game_tick").num_rows == store.scan("game_tick").collect().height == 0
    assert store.query("SELECT count(*) AS n FROM game_tick WHERE price > 1").to_pylist() == [{"n": 0}]


def test_parts_can_live_on_another_file_system(home: Path) -> None:
    memory = PartFiles(fs._MockFileSystem())
    events = [numbered(seq) for seq in range(100)]
    with EventLog.open(home, COLUMNS) as log:
        log.append(events)
        log.compact(final=True, files=memory)
    store = EventStore(home, files=memory)
    assert list(store.events()) == events
    assert store.scan("game_tick").select(pl.len()).collect().item() == 25
    assert parts_of(home) == []


# Identity, and what is refused.


def test_the_same_event_again_changes_nothing_and_another_body_is_refused(home: Path) -> None:
    events = fill(home, compacted=True)
    with EventLog.open(home, COLUMNS) as log:
        log.append(events)
        log.append([events[0], events[0], events[-1]])
        for old in (events[0], events[-1]):  # one in a part, one hot
            for other in (
                replace(old, raw="{}"),
                replace(old, columns={**old.columns, "cash": 1}),
                replace(old, ts=UTC_2000),
            ):
                with pytest.raises(StoreError, match=f"event {old.event_id} as it is stored, found another body"):
                    log.append([numbered(500), other])
        assert log.failure is None
    assert stored(home) == len(events)


UTC_2000 = datetime(2000, 1, 1, tzinfo=UTC)


def test_two_equal_facts_are_both_kept(home: Path) -> None:
    twin = replace(numbered(0), seq=1)
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(0), twin])
    assert list(EventStore(home).events()) == [numbered(0), twin]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"fame": 1}, "columns that the game declares"),
        ({"tick": 2**63}, "whole number of 64 bits in column 'tick'"),
        ({"tick": True}, "whole number"),
        ({"cash": 0.5}, "whole number"),
        ({"price": float("nan")}, "a number in column 'price'"),
        ({"price": "1"}, "a number"),
        ({"forced": 1}, "True or False"),
        ({"coin": 5}, "a text"),
    ],
)
def test_what_a_column_cannot_hold_is_refused_alone(home: Path, columns: dict[str, object], match: str) -> None:
    with EventLog.open(home, COLUMNS) as log:
        with pytest.raises(StoreError, match=match):
            log.append([numbered(0), replace(numbered(1), columns=columns)])
        log.append([numbered(0)])
    assert stored(home) == 1


def test_a_refused_group_does_not_harm_the_groups_committed_with_it(home: Path) -> None:
    fill(home, 5)
    with EventLog.open(home, COLUMNS) as log:
        with log._turn:  # nobody can commit: the three gather
            futures = [
                log.submit(item) for item in ([numbered(5)], [numbered(6), replace(numbered(0), raw="")], [numbered(6)])
            ]
        assert futures[0].result(5) is None
        with pytest.raises(StoreError, match="another body"):
            futures[1].result(5)
        assert futures[2].result(5) is None
    assert stored(home) == 7


def test_a_future_cannot_be_taken_back(home: Path) -> None:
    with EventLog.open(home, COLUMNS) as log:
        with log._turn:
            future = log.submit([numbered(0)])
            assert not future.cancel()
        future.result(5)
    assert stored(home) == 1


def test_close_stores_what_was_submitted_and_a_closed_log_refuses(home: Path) -> None:
    log = EventLog.open(home, COLUMNS)
    futures = [log.submit([numbered(seq)]) for seq in range(20)]
    log.close()
    log.close()
    assert all(future.done() for future in futures)
    assert stored(home) == 20
    with pytest.raises(StoreError, match="closed"):
        log.append([numbered(20)])


def test_many_threads_share_commits(home: Path) -> None:
    commits = 0

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    def work(first: int) -> None:
        for seq in range(first, 200, 8):
            log.append([numbered(seq)])

    with EventLog.open(home, COLUMNS) as log:
        log._connection.set_trace_callback(count)
        threads = [threading.Thread(target=work, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stored(home) == 200
    assert commits < 150


def test_a_second_writer_is_refused_and_another_log_is_not(home: Path) -> None:
    code = (
        "import sys, pathlib, time\n"
        "from playproof.store import EventLog\n"
        "log = EventLog.open(pathlib.Path(sys.argv[1]), ())\n"
        "print('open', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(StoreError, match=f"one writer of log 'main', found process {other.pid}"):
            EventLog.open(home, COLUMNS)
        with pytest.raises(StoreError, match="one writer"):
            compact(home)
        with EventLog.open(home, COLUMNS, "second") as second:
            second.append([numbered(0)])
        other.communicate()
    with EventLog.open(home, COLUMNS) as log, pytest.raises(StoreError, match="found it in 'second'"):
        log.append([numbered(1)])
    assert stored(home) == 1


@pytest.mark.parametrize("name", ["../out", "a/b", "", "a\0b", "x" * 65])
def test_a_log_is_named_by_an_id(home: Path, name: str) -> None:
    with pytest.raises(PlayproofError, match="log"):
        EventLog.open(home, COLUMNS, name)


def test_text_that_utf8_cannot_hold_is_kept_as_its_escape(home: Path) -> None:
    odd = replace(numbered(0), raw='"\ud800"', event_name="\udfff", columns={"coin": "a\ud800b\0é"})
    with EventLog.open(home, COLUMNS) as log:
        log.append([odd])
        log.append([odd])
        log.compact(final=True)
        log.append([odd])
    (event,) = EventStore(home).events()
    assert json.loads(event.raw or "") == "\ud800"
    assert (event.event_name, event.columns["coin"]) == ("\\udfff", "a\\ud800b\0é")


# Readers beside a writer.


def test_a_new_log_never_needs_a_rollback_journal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer killed right after its log took its place leaves one that readers can open."""

    class Killed(BaseException):
        pass

    def die(path: Path) -> sqlite3.Connection:
        if path.suffix == ".db":
            raise Killed
        return schema.connect(path)

    monkeypatch.setattr("playproof.store.log.writer.connect", die)
    with pytest.raises(Killed):
        EventLog.open(home, COLUMNS)
    path = home / "log" / "main.db"
    assert path.read_bytes()[18:20] == b"\2\2", "not in WAL mode"
    assert sorted(item.name for item in path.parent.iterdir()) == ["main.db", "main.lock"]
    assert stored(home) == 0


def test_readers_see_all_of_a_commit_or_none(home: Path) -> None:
    done = threading.Event()

    def work() -> None:
        with EventLog.open(home, COLUMNS) as log:
            for group in range(60):
                log.append([numbered(seq) for seq in range(10 * group, 10 * group + 10)])
                if group % 7 == 6:
                    log.compact(final=group % 2 == 0)
        done.set()

    writer = threading.Thread(target=work)
    writer.start()
    seen = [0]
    while not done.is_set():
        count = stored(home)
        assert count % 10 == 0
        seen.append(count)
    writer.join()
    assert seen == sorted(seen)
    assert stored(home) == 600


def test_a_reader_of_replaced_parts_goes_on(home: Path) -> None:
    fill(home, 60, compacted=True)
    frame, events = EventStore(home).scan("game_tick"), EventStore(home).events()
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq) for seq in range(60, 200)])
        log.compact()
        log.compact(final=True)
    assert frame.collect().height == 15
    assert [event.seq for event in events] == list(range(60))


# Compaction.


def test_parts_are_partitioned_sorted_and_listed(home: Path) -> None:
    events = fill(home, 400, compacted=True)
    listed = connection_of(home).execute("SELECT path, rows, bytes, sha256 FROM parts WHERE state = 'live'").fetchall()
    assert [home / "events" / path for path, *_ in sorted(listed)] == parts_of(home)
    dates = set()
    for path, rows, size, sha256 in listed:
        content = (home / "events" / path).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (size, sha256)
        part = pq.ParquetFile(home / "events" / path)
        assert part.metadata.num_rows == rows
        table = part.read()
        assert table["seq"].to_pylist() == sorted(table["seq"].to_pylist())
        doc_type, date, _ = path.split("/")
        dates.add(date)
        assert set(table["doc_type"].to_pylist()) == {doc_type.removeprefix("doc_type=")}
        assert {f"date={moment.date()}" for moment in table["ts"].to_pylist()} == {date}
        compressions = {part.metadata.row_group(0).column(index).compression for index in range(table.num_columns)}
        assert compressions == {"ZSTD"}
    assert dates == {"date=2026-03-01", "date=2026-03-02"}  # the session runs over midnight
    assert list(EventStore(home).events()) == events


@given(st.lists(st.none() | st.sampled_from("abcd"), max_size=30), st.booleans(), st.integers(1, 6))
def test_windows_are_never_cut(windows: list[str | None], final: bool, batch: int) -> None:
    rows = list(enumerate(windows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "BATCH_ROWS", batch)
        ranges = list(whole_windows(rows, final))
    index = 0
    for item in ranges:
        assert (item.first, item.rows) == (index, item.last - index + 1)
        inside, outside = set(windows[index : item.last + 1]), set(windows[:index] + windows[item.last + 1 :])
        assert not (inside & outside) - {None}
        index = item.last + 1
    if final:
        assert index == len(rows)
    else:
        assert not set(windows[:index]) & {next((w for w in reversed(windows) if w), "none")}


def test_small_parts_are_taken_together(home: Path) -> None:
    for first in range(0, 600, 30):
        with EventLog.open(home, COLUMNS) as log:
            log.append([numbered(seq) for seq in range(first, first + 30)])
        compact(home, final=True, grace=0)
    assert stored(home) == 600
    assert len(parts_of(home)) < 20 * 4 / 2
    listed = {path for (path,) in connection_of(home).execute("SELECT path FROM parts")}
    assert {str(path.relative_to(home / "events")) for path in parts_of(home)} == listed
    assert verify(home).findings == ()


def test_what_a_killed_compaction_left_is_cleaned(home: Path) -> None:
    fill(home, 60)
    staged = home / "events" / STAGING / "main" / "part-x.parquet"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"PAR1 torn")
    published = home / "events" / "doc_type=game_tick" / "date=2026-03-01" / "part-y.parquet"
    published.parent.mkdir(parents=True)
    published.write_bytes(b"whole, but never listed")
    with contextlib.closing(connection_of(home)) as connection:
        connection.execute("INSERT INTO unfinished VALUES (?)", (str(published.relative_to(home / "events")),))
    assert stored(home) == 60
    assert compact(home)["main"]["removed"] == 2
    assert not staged.exists()
    assert not published.exists()
    assert stored(home) == 60


def test_clock_jumps_change_neither_order_nor_partition(home: Path) -> None:
    jumps = [0, 86_400, -86_400, 3_600, -7_200, 0.000001]
    events = [replace(numbered(seq), ts=UTC_2000 + timedelta(seconds=jump)) for seq, jump in enumerate(jumps)]
    with EventLog.open(home, COLUMNS) as log:
        log.append(events)
        assert list(EventStore(home).events()) == events
        log.compact(final=True)
    assert list(EventStore(home).events()) == events
    names = {path.parent.name for path in parts_of(home)}
    assert names == {f"date={event.ts.date()}" for event in events}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
def test_time_zone_and_hash_seed_do_not_change_the_parts(tmp_path: Path, zone: str) -> None:
    code = (
        "import sys, pathlib, store_proofs as p\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "with p.EventLog.open(home, p.COLUMNS) as log:\n"
        "    log.append([p.numbered(seq) for seq in range(300)])\n"
        "    log.compact(final=True)\n"
        "print(p.EventStore(home).query('SELECT min(ts::DATE), max(ts::DATE), min(ts)::VARCHAR FROM game_tick'))\n"
    )
    names, answers = [], set()
    for index, (where, seed) in enumerate((("UTC", "1"), (zone, "2"))):
        home = tmp_path / str(index)
        environment = os.environ | {"TZ": where, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-c", code, str(home)], env=environment, capture_output=True, text=True, check=True
        )
        answers.add(done.stdout)
        names.append([path.relative_to(home) for path in parts_of(home)])
    assert names[0] == names[1] != []
    assert len(answers) == 1


def test_columns_can_be_added_and_not_changed(home: Path) -> None:
    fill(home, 60, compacted=True)
    new = Column("mood", "text", "text", "how it felt")
    with EventLog.open(home, (new,)) as log:
        log.append([replace(numbered(60), columns={**numbered(60).columns, "mood": "fine"})])
    store = EventStore(home)
    assert verify(home).findings == ()
    assert store.query("SELECT count(*) n, count(mood) m FROM ws_event").to_pylist() == [{"n": 16, "m": 1}]
    assert store.scan("ws_event").select(pl.col("mood").count()).collect().item() == 1
    assert store.arrow("ws_event", ["mood"]).num_rows == 16
    compact(home, final=True)
    assert [event.columns.get("mood") for event in store.events()][-1] == "fine"
    for wrong in (replace(new, kind="int"), Column("raw", "text", "", ""), Column("MOOD", "text", "", "")):
        with pytest.raises(StoreError, match=r"mood|raw|MOOD"):
            EventLog.open(home, (wrong,))


def test_migrations_run_once_and_a_newer_log_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home, 10)

    def add_note(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE note (text TEXT)")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_note))
        for _ in range(2):
            EventLog.open(home, COLUMNS).close()
        assert connection_of(home).execute("SELECT name FROM migrations").fetchall() == [
            ("create_tables",),
            ("add_footers",),
            ("add_note",),
        ]
        assert stored(home) == 10
    with pytest.raises(StoreError, match="install a newer playproof"):
        EventLog.open(home, COLUMNS)


# Queries.


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "DROP VIEW game_tick",
        "COPY game_tick TO 'out.csv'",
        "SELECT 1; SELECT 2",
        "SET threads = 1",
        "PRAGMA version",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "LOAD sqlite",
        "INSERT INTO hot_events SELECT * FROM hot_events",
        "CREATE TABLE t AS SELECT 1",
        "EXPORT DATABASE 'x'",
        "CALL pragma_version()",
        "SELEC",
    ],
)
def test_only_one_select_is_run(home: Path, sql: str) -> None:
    with pytest.raises(InputError, match="expected one SELECT"):
        EventStore(home).query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_blob('{log}')",
        "SELECT nothing FROM game_tick",
        "SELECT * FROM pa",
        "SELECT * FROM COLUMNS",
        "FROM query('COPY (SELECT 1) TO ''{folder}/out.csv''')",
    ],
)
def test_a_query_reaches_nothing_but_the_events(home: Path, tmp_path: Path, sql: str) -> None:
    fill(home, 60, compacted=True)
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    names = {"file": secret, "folder": tmp_path, "log": home / "log" / "main.db"}
    with pytest.raises(InputError):
        EventStore(home).query(sql.format(**names))
    assert not (tmp_path / "out.csv").exists()


# Damage.


def damage(path: Path, index: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if index is None else index] ^= 0xFF
    path.write_bytes(content)


def test_foreign_torn_and_empty_files_fail_no_query(home: Path) -> None:
    events = fill(home, compacted=True)
    folder = parts_of(home)[0].parent
    (folder / "part-torn.parquet").write_bytes(parts_of(home)[0].read_bytes()[:-20])
    (folder / "part-empty.parquet").touch()
    (folder / "notes.txt").write_text("not ours")
    pq.write_table(pa.table({"a": [1]}), folder / "part-foreign.parquet")
    store = EventStore(home)
    assert list(store.events()) == events
    assert store.query("SELECT count(*) AS n FROM game_tick").to_pylist() == [{"n": 50}]
    result = verify(home)
    assert result.damage == ()
    assert {Path(finding.what).name for finding in result.findings} == {
        *("part-torn.parquet", "part-empty.parquet", "notes.txt", "part-foreign.parquet")
    }
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize("how", ["torn", "empty", "missing", "flipped"])
def test_a_damaged_part_is_passed_over_told_and_set_aside(home: Path, how: str) -> None:
    events = fill(home, 400, compacted=True)
    victim = next(path for path in parts_of(home) if "game_tick" in str(path))
    lost = pq.ParquetFile(victim).metadata.num_rows
    if how == "torn":
        victim.write_bytes(victim.read_bytes()[:-7])
    elif how == "empty":
        victim.write_bytes(b"")
    elif how == "missing":
        victim.unlink()
    else:
        raw = pq.ParquetFile(victim).metadata.row_group(0).column(15)
        assert raw.path_in_schema == "raw"
        damage(victim, raw.data_page_offset + raw.total_compressed_size // 2)
    store = EventStore(home)
    ticks = sum(event.doc_type == "game_tick" for event in events)
    whole = ticks - lost
    assert store.arrow("game_tick").num_rows == whole
    assert any(victim.name in problem for problem in store.problems)
    answer = store.query("SELECT count(*) AS n, sum(length(raw)) AS r FROM game_tick").to_pylist()
    assert answer[0]["n"] in {whole, ticks}  # flipped bits that still decode are found by verify
    result = verify(home)
    assert [(finding.kind, finding.set_aside) for finding in result.damage] == [
        ("missing", False) if how == "missing" else ("part", True)
    ]
    if how == "missing":
        return
    assert not victim.exists()
    assert (home / "events" / QUARANTINE / victim.relative_to(home / "events")).exists()
    assert verify(home).findings == ()
    assert EventStore(home).query("SELECT count(*) AS n FROM game_tick").to_pylist() == [{"n": whole}]
    with EventLog.open(home, COLUMNS) as log:  # the source still has them: append again, and all is there once
        log.append(events)
        log.compact(final=True)
    assert stored(home) == 400


def test_a_damaged_row_is_passed_over_told_and_set_aside(home: Path) -> None:
    events = fill(home, 30)
    path = home / "log" / "main.db"
    content = path.read_bytes()
    position = content.index(b'{"seq": 7,')
    path.write_bytes(content[: position + 9] + b"8" + content[position + 10 :])
    store = EventStore(home)
    whole = [event for event in events if event.seq != 7]
    assert list(store.events()) == whole
    assert len(store.problems) == 1
    assert [(f.kind, f.what, f.set_aside) for f in verify(home).findings] == [("row", f"{SESSION}/7", True)]
    assert verify(home).findings == ()
    assert list(store.events()) == whole
    with EventLog.open(home, COLUMNS) as log:
        log.append(events)
    assert stored(home) == 30


def test_compaction_does_not_carry_damage_into_a_part(home: Path) -> None:
    events = fill(home, 30)
    with contextlib.closing(connection_of(home)) as connection:
        connection.execute("UPDATE events SET cash = cash + 1 WHERE raw LIKE '%\"seq\": 9,%'")
    assert compact(home, final=True)["main"]["damaged"] == 1
    assert list(EventStore(home).events()) == [event for event in events if event.seq != 9]
    assert connection_of(home).execute("SELECT count(*) FROM quarantine").fetchone() == (1,)


def test_an_unreadable_log_leaves_the_others_readable(home: Path) -> None:
    with EventLog.open(home, COLUMNS, "good") as log:
        log.append([numbered(0)])
    (home / "log" / "broken.db").write_bytes(b"not a database at all" * 500)
    (home / "log" / "empty.db").touch()
    store = EventStore(home)
    assert list(store.events()) == [numbered(0)]
    assert len(store.problems) == 2
    assert {finding.what for finding in verify(home).damage} == {"broken", "empty"}


def test_damage_under_a_writer_is_told_and_not_touched(home: Path) -> None:
    fill(home, 60, compacted=True)
    damage(parts_of(home)[0])
    with EventLog.open(home, COLUMNS):
        assert [finding.set_aside for finding in verify(home).damage] == [False]
    assert [finding.set_aside for finding in verify(home).damage] == [True]


# Commands.


def command(*words: str, code: int = 0) -> str:
    answer = CliRunner().invoke(app, list(words))
    assert answer.exit_code == code, answer.output
    return answer.stdout


def test_commands(home: Path, tmp_path: Path) -> None:
    fill(home, compacted=True)
    first = command("ls"), command("ls", "--json")
    assert (command("ls"), command("ls", "--json")) == first
    listing = json.loads(first[1])
    assert listing["events"] == 200
    assert listing["sessions"] == [{"session_id": SESSION, "events": 200}]
    shown = json.loads(command("show", "--doc-type", "game_tick", "--window", "w0", "--limit", "2", "--json"))["events"]
    assert [event["seq"] for event in shown] == [1, 5]
    assert shown[0]["columns"]["cash"] == 10**15 + 1
    answer = json.loads(command("query", "SELECT count(*), sum(cash), min(ts) FROM game_tick", "--json"))
    assert answer["rows"][0][:2] == [50, sum(10**15 + seq for seq in range(1, 200, 4))]
    assert "50" in command("query", "SELECT count(*) FROM game_tick")
    assert json.loads(command("compact", "--final", "--json"))["logs"]["main"]["rows"] > 0
    assert json.loads(command("verify", "--json")) | {"parts": 0} == {
        "parts": 0,
        "rows": 0,
        "damaged": False,
        "findings": [],
    }
    for name in ("out.parquet", "out.jsonl"):
        assert json.loads(command("export", str(tmp_path / name), "--json"))["events"] == 200
    table = pq.ParquetFile(tmp_path / "out.parquet").read()
    assert table["cash"].to_pylist() == [10**15 + seq for seq in range(200)]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["columns"] for line in lines] == [dict(numbered(seq).columns) for seq in range(200)]
    assert command("show")
    assert command("compact")


def test_verify_says_no_with_exit_code_2(home: Path) -> None:
    fill(home, 60, compacted=True)
    damage(parts_of(home)[0])
    assert "SHA-256 differs" in command("verify", code=2)
    command("verify")


@pytest.mark.parametrize("words", [("export", "x.csv"), ("query", "DROP TABLE x"), ("compact", "--log", "nothing")])
def test_wrong_commands_say_why(home: Path, words: Sequence[str]) -> None:
    fill(home, 5)
    answer = CliRunner().invoke(app, list(words))
    assert isinstance(answer.exception, PlayproofError)
    assert "expected" in str(answer.exception)


def test_the_bench_reports_every_goal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import load, store

    for name, value in {
        "ROUNDS": 1,
        "ROUND_EVENTS": {1: 2, 100: 100, 1000: 1000},
        "ACK_SECONDS": 0.1,
        "SCANNED": 4000,
        "PART": 2000,
        "BUTTONS": 500,
        "REPEATS": 1,
    }.items():
        monkeypatch.setattr(store, name, value)
    report = load("store")()
    assert [goal["name"].split(",")[0] for goal in report["goals"]] == [
        *["rate over bare SQLite"] * 3,
        "ack p99 over one fdatasync's p99",
        "bytes per compacted tick",
        "bytes per compacted button event",
        "scan of one column over the bare scan",
        "scan of all columns over the bare scan",
    ]
    assert all(result["value"] > 0 for result in report["results"])
    assert not list(home.iterdir())
