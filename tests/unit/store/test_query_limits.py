"""Bounds of a query: time, memory and rows, each with an error that says what to do."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from store_proofs import COLUMNS, numbered
from typer.testing import CliRunner

from playproof.cli.data.store import app
from playproof.errors import InputError
from playproof.store import EventLog, EventStore
from playproof.store.log.query import QueryLimits

FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
FOREVER_STREAMED = "SELECT a.range FROM range(1000000000000) a"
CROSS = "SELECT a.raw, b.raw, c.raw FROM game_tick a, game_tick b, game_tick c, game_tick d ORDER BY random()"
CROSS_COUNT = "SELECT count(*) FROM game_tick a, game_tick b, game_tick c, game_tick d, game_tick e, game_tick f"


@pytest.fixture
def filled(home: Path) -> Path:
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq) for seq in range(1200)])
        log.compact()
    return home


@pytest.mark.parametrize("sql", [FOREVER, CROSS_COUNT])
def test_a_query_that_does_not_end_is_stopped(filled: Path, sql: str) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match=r"at most 0\.5 seconds.*--max-seconds|at most \d+ MB.*--max-memory"):
        EventStore(filled).query(sql, QueryLimits(seconds=0.5))
    assert time.monotonic() - start < 15


def test_a_cross_join_that_needs_much_memory_is_refused(filled: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"at most 128 MB of memory.*--max-memory"):
        EventStore(filled).query(CROSS, QueryLimits(seconds=60, memory_mb=128))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000


def test_a_result_that_is_too_large_is_refused_and_not_cut(filled: Path) -> None:
    store = EventStore(filled)
    with pytest.raises(InputError, match=r"at most 1000 rows, found more.*--max-rows"):
        store.query(FOREVER_STREAMED, QueryLimits(rows=1000))
    with pytest.raises(InputError, match="result of at most 20 MB, found more"):
        store.query("SELECT repeat('x', 1000) || range AS x FROM range(100000)", QueryLimits(memory_mb=20))
    assert store.query("SELECT range FROM range(1000)", QueryLimits(rows=1000)).num_rows == 1000


def test_limits_are_positive() -> None:
    with pytest.raises(InputError, match="positive limit, found rows = 0"):
        QueryLimits(rows=0)


def test_the_command_has_the_limits_and_says_no(filled: Path) -> None:
    answer = CliRunner().invoke(app, ["query", "SELECT seq FROM game_tick", "--max-rows", "10"])
    assert isinstance(answer.exception, InputError)
    assert "--max-rows" in str(answer.exception)
    words = [sys.executable, "-m", "playproof", "store", "query", FOREVER, "--max-seconds", "1", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "--max-" in done.stderr
