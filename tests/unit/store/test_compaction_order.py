"""Compaction beside appends, reads and crashes: every order of their steps, and threads without any order."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from compaction_proofs import fill_in_while_compacting, interleavings, two_late_appends
from store_proofs import COLUMNS, numbered, stored

from playproof.store import EventLog
from playproof.store.log import schema
from playproof.store.log.compaction import consecutive_runs


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the syncs out: here a crash is a killed process, whose writes the kernel keeps."""
    monkeypatch.setattr(schema, "PRAGMAS", ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.usefixtures("quick_disk")
def test_every_order_of_two_appends_a_compaction_a_read_and_a_crash_keeps_each_event_once(tmp_path: Path) -> None:
    steps = two_late_appends(tmp_path / "dry", set()).run("C" * 50)
    assert steps == 7  # swept, planned, read, staged, noted, published, committed
    orders = interleavings(steps)
    assert len(orders) == 400
    seen: set[str] = set()
    for order in orders:
        two_late_appends(tmp_path / "home", seen).run(order)
        shutil.rmtree(tmp_path / "home")


def test_runs_hold_the_ids_and_nothing_between_them() -> None:
    assert consecutive_runs([]) == []
    assert consecutive_runs([5]) == [(5, 5)]
    assert consecutive_runs([1, 2, 3, 5, 8, 9]) == [(1, 3), (5, 5), (8, 9)]


def test_a_transaction_whose_work_fails_leaves_nothing_open(home: Path) -> None:
    with EventLog.open(home, COLUMNS) as log:

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO unfinished VALUES ('half')")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            log.transact(work)
        log.append([numbered(0)])
        reader = sqlite3.connect(home / "log" / "main.db")
        with contextlib.closing(reader):
            assert reader.execute("SELECT count(*) FROM unfinished").fetchone() == (0,)
    assert stored(home) == 1


@pytest.mark.parametrize("seed", range(24))
def test_late_events_are_stored_once_while_another_thread_compacts(tmp_path: Path, seed: int) -> None:
    """A few runs here; the torture test makes a thousand."""
    assert fill_in_while_compacting(tmp_path, 1_500, 150, seed) == 0
