"""Parts that are damaged, away or stored twice: what readers, writers and `verify` say of them."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from flip_proofs import flip_footers
from store_proofs import COLUMNS, numbered, stored
from typer.testing import CliRunner

from playproof.cli.data.store import app
from playproof.errors import InputError, StoreError
from playproof.store import EventLog, EventStore, verify


def parts_of(home: Path) -> list[Path]:
    return sorted((home / "events").glob("doc_type=*/date=*/part-*.parquet"))


def compacted(home: Path, count: int = 400) -> None:
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq) for seq in range(count)])
        log.compact(final=True)


def test_no_flipped_bit_of_a_footer_is_read(home: Path) -> None:
    assert flip_footers(home, 300, seed=1) == 300


def test_commands_name_the_damaged_part(home: Path, tmp_path: Path) -> None:
    compacted(home)
    victim = parts_of(home)[0]
    content = bytearray(victim.read_bytes())
    content[-40] ^= 1
    victim.write_bytes(content)
    for words in (
        ["query", "SELECT count(*) FROM game_tick"],
        ["show"],
        ["export", str(tmp_path / "out.jsonl")],
        ["export", str(tmp_path / "out.parquet")],
    ):
        answer = CliRunner().invoke(app, words)
        assert answer.exit_code == 0, answer.output
        assert f"{victim.name}: SHA-256 of the footer differs; run: playproof store verify" in answer.stderr.replace(
            "\n", " "
        ), words


def test_damage_in_the_pages_never_shows_duckdbs_own_error(home: Path) -> None:
    compacted(home)
    for victim in parts_of(home):
        content = bytearray(victim.read_bytes())
        content[4:200] = bytes(196)
        victim.write_bytes(content)
    store = EventStore(home)
    assert store.query("SELECT count(*) AS n, max(raw) AS raw, max(seq) AS s FROM game_tick").to_pylist()[0]["n"] == 0
    assert len(store.problems) == len(parts_of(home))
    with pytest.raises(InputError, match=r"expected a query over .*, found: .*own words"):
        EventStore(home).query("SELECT error('own words')")


def test_parts_of_an_earlier_version_are_checked_whole_until_a_compaction_notes_their_footers(home: Path) -> None:
    compacted(home)
    with contextlib.closing(sqlite3.connect(home / "log" / "main.db", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE parts DROP COLUMN footer")
        connection.execute("DELETE FROM migrations WHERE name = 'add_footers'")
    assert stored(home) == 400
    victim = parts_of(home)[0]
    sound = victim.read_bytes()
    victim.write_bytes(sound[:-40] + bytes([sound[-40] ^ 1]) + sound[-39:])
    store = EventStore(home)
    list(store.events())
    assert [victim.name in problem for problem in store.problems] == [True]
    victim.write_bytes(sound)
    with EventLog.open(home, COLUMNS) as log:
        log.compact()
    with contextlib.closing(sqlite3.connect(home / "log" / "main.db")) as connection:
        assert connection.execute("SELECT count(*) FROM parts WHERE footer IS NULL").fetchone() == (0,)
    assert stored(home) == 400
    assert verify(home).findings == ()


def test_events_of_a_part_that_is_away_are_not_taken_again(home: Path) -> None:
    compacted(home)
    victim = parts_of(home)[0]
    away = victim.rename(home / "away.parquet")
    lost = 400 - len(list(EventStore(home).events()))
    assert lost > 50
    with EventLog.open(home, COLUMNS) as log:
        with pytest.raises(StoreError, match=f"{victim.name}.*found: missing; nothing of this call was stored"):
            log.append([numbered(seq) for seq in range(400)])
        log.append([numbered(seq) for seq in range(400, 420)])  # what is new for certain is taken
        away.rename(victim)
        log.append([numbered(seq) for seq in range(400)])
    assert stored(home) == 420
    assert verify(home).findings == ()


def test_a_missing_part_that_is_given_up_can_be_sent_again_and_stays_unread(home: Path) -> None:
    compacted(home)
    victim = parts_of(home)[0]
    content = victim.read_bytes()
    victim.unlink()
    answer = CliRunner().invoke(app, ["verify", "--give-up-missing"])
    assert answer.exit_code == 2, answer.output
    assert verify(home).findings == ()
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq) for seq in range(400)])
    victim.write_bytes(content)
    assert stored(home) == 400
    assert verify(home).findings == ()


def test_verify_names_events_that_are_stored_twice(home: Path) -> None:
    compacted(home, 100)
    with contextlib.closing(sqlite3.connect(home / "log" / "main.db", isolation_level=None)) as connection:
        connection.execute("UPDATE part_sessions SET last = -1")  # the writer no longer knows what the parts hold
        with EventLog.open(home, COLUMNS) as log:
            log.append([numbered(7), numbered(30)])
    result = verify(home)
    assert [(finding.kind, finding.what) for finding in result.damage] == [
        ("double", "proof/7"),
        ("double", "proof/30"),
    ]
    assert CliRunner().invoke(app, ["verify"]).exit_code == 2
