"""Measure the import of a player's event store: a thousand small Parquet files, and a million rows beside a bare read.

The rows are those of the packaged recording, a session again and again under other ids: feed messages with their
leaderboards and trades, presses, finished rounds. The bare read is Polars reading every column of the same files into
memory; it orders, parses, redacts and stores nothing. Each import runs as a process of its own; its memory is the
largest that the process held.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.game import load_game
from playproof.games.crash.recording.sample import sample
from playproof.record.session import RecordingSession
from tests.reference.event_store_writer import SCHEMA, rows_of

FILES, ROWS_PER_FILE = 1_000, 100
MILLION = 1_000_000
SECONDS_GOAL, BYTES_GOAL = 10.0, 2**30


def run() -> dict[str, Any]:
    """Measure everything."""
    return measure().to_json()


def measure(files: int = FILES, rows: int = MILLION) -> BenchmarkReport:
    """Measure with so many small files, and with so many rows in larger ones."""
    results: list[Measurement] = []
    goals: list[Goal] = []
    for name, count, per_file in (("small files", files * ROWS_PER_FILE, ROWS_PER_FILE), ("rows", rows, 10_000)):
        if not count:
            continue
        with tempfile.TemporaryDirectory(prefix="playproof-bench-") as scratch:
            root = Path(scratch)
            _write(root / "store", count, per_file)
            begun = time.perf_counter()
            frame = pl.read_parquet(f"{root}/store/*.parquet")
            bare = time.perf_counter() - begun
            assert frame.height == count
            del frame
            seconds, memory = _import(root)
        shown = f"{count // per_file:,} {name}" if name == "small files" else f"{count:,} {name}"
        results += [
            Measurement(f"import of {shown}", count / seconds, "rows/s"),
            Measurement(f"bare read of {shown} by Polars", count / bare, "rows/s"),
            Measurement(f"memory of the import of {shown}", memory / 2**20, "MiB"),
        ]
        if name == "small files":
            goals.append(Goal.at_most(f"import of {shown}, s", seconds, SECONDS_GOAL))
        goals.append(Goal.at_most(f"memory of the import of {shown}, bytes", memory, BYTES_GOAL))
    return BenchmarkReport("imports", tuple(results), tuple(goals))


def _rows(count: int) -> Iterator[dict[str, Any]]:
    """Give rows of one session after the other."""
    session = RecordingSession(load_game("crash"), lambda _: None, "own", "cdp")
    own = list(rows_of(session.take(sample()), ""))
    for number in range(count):
        copy, seq = divmod(number, len(own))
        yield {**own[seq], "session_id": f"session-{copy:05d}", "seq": seq}


def _write(root: Path, count: int, per_file: int) -> None:
    root.mkdir()
    waiting: list[dict[str, Any]] = []
    for number, row in enumerate(_rows(count), 1):
        waiting.append({name: row.get(name) for name in SCHEMA.names})
        if number % per_file == 0:
            pq.write_table(pa.Table.from_pylist(waiting, SCHEMA), root / f"{number:08d}.parquet")
            waiting = []


def _import(root: Path) -> tuple[float, int]:
    """Import the store in a process of its own; give its seconds and its largest memory."""
    command = [sys.executable, "-m", "playproof", "import", str(root / "store"), "--json"]
    begun = time.perf_counter()
    answer = subprocess.run(  # noqa: S603
        command, env={"PLAYPROOF_HOME": str(root / "home"), **_environment()}, capture_output=True, check=True
    )
    seconds = time.perf_counter() - begun
    assert json.loads(answer.stdout)["presses"] > 0
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def _environment() -> dict[str, str]:
    import os

    return {name: value for name, value in os.environ.items() if name != "PLAYPROOF_HOME"}
