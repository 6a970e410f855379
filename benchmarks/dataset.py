"""Measure how data sets are built, beside the usual ways to make the same features, and beside the bare scan.

Simulated rounds are laid into parts of a store, and the same ticks into bare Parquet files. Each contestant runs in a
process of its own and is measured in rows per second of processor time, all threads together; all of them write what
they make: the same four tables, value for value. Our build alone also reads events through the store's manifest,
finds episodes and their outcomes, hashes every value, splits, sums up the train split, and brings files to the disk.
The bare scan reads every column of the bare files and takes its largest value.
Leaves out: recorded players, whose presses are few beside the ticks.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.datasets import DatasetConfig, build
from playproof.errors import ConfigError
from playproof.events import Event
from playproof.game import Game, first, game_names, load_game
from playproof.game.episode_columns import ColumnarSession
from playproof.store import EventLog, EventStore, PartFiles
from playproof.store.log.compaction import draft_part, list_parts, publish
from playproof.store.log.parts import fill, schema

TICKS = 10_000_000
FACTOR = 4
"""How much larger the second build is, for memory and linearity."""
SESSION_ROUNDS = 250
"""Rounds of a session: an evening."""
PART_SESSIONS = 20
SAMPLES = {"per event": 1, "pandas": 5}
"""Files that slower contestants take, of those of the smaller build."""
POLARS = ("Polars", "Polars, written lightly")
"""Plain, which ours is held against, and with the settings that let it write quickest, which is shown beside."""
MOMENT = datetime(2025, 1, 15, tzinfo=UTC)
EVENT_GOAL, POLARS_GOAL, SCAN_GOAL, MEMORY_GOAL, LINEAR_GOAL = 15.0, 1.7, 0.12, 1.5, 0.15


def bench_game() -> tuple[Game, ColumnarSession]:
    """Give the installed game that deals sessions in bulk."""
    for name in game_names():
        game = load_game(name)
        if (batch := game.recording().columnar) is not None and batch.deal is not None:
            return game, batch
    raise ConfigError("expected an installed game that deals sessions in bulk, found none")


def make_home(home: Path, bare: Path, ticks: int) -> int:
    """Deal so many ticks into the parts of a store, and the same into bare files; give how many it were."""
    game, batch = bench_game()
    assert batch.deal is not None
    shape, dealt, number = schema(game.columns), 0, 0
    files = PartFiles.at(home)
    bare.mkdir(parents=True)
    with EventLog.open(home, game.columns) as log:
        while dealt < ticks:
            sessions = [f"bench-{number + at:06d}" for at in range(PART_SESSIONS)]
            log.append([Event(MOMENT, "replay", "system_event", name, 0, "bench") for name in sessions])
            tables = [
                batch.deal(name, 1, (number + at) * SESSION_ROUNDS, SESSION_ROUNDS) for at, name in enumerate(sessions)
            ]
            day = (date(2025, 1, 15) + timedelta(days=number // PART_SESSIONS)).isoformat()
            for doc_type in tables[0]:
                table = pa.concat_tables([of[doc_type] for of in tables])
                draft = draft_part(log, doc_type, day, fill(table, shape))
                publish(log, files, [draft])
                log.transact(lambda connection, draft=draft: list_parts(connection, [draft]))  # type: ignore[misc]
                if doc_type == "game_tick":
                    dealt += table.num_rows
                    pq.write_table(table, bare / f"{number:06d}.parquet", compression="zstd")
            number += PART_SESSIONS
    return dealt


def run_build(home: str) -> int:
    """Build the data set of a store; give the ticks read."""
    game, _ = bench_game()
    config = DatasetConfig("bench", first(game.observations), first(game.actions), first(game.rewards().presets))
    store = EventStore(Path(home), game.columns)
    build(game, store, config, Path(home))
    return ticks_of(home)


def ticks_of(home: str) -> int:
    """Count a store's ticks."""
    rows: int = EventStore(Path(home)).scan("game_tick").select(pl.len()).collect().item()
    return rows


def run_scan(bare: str) -> int:
    """Read every column of the bare files; give the rows."""
    rows = 0
    for path in sorted(Path(bare).glob("*.parquet")):
        frame = pl.read_parquet(path)
        rows += frame.select(pl.all().max()).height and frame.height
    return rows


def run_peer(bare: str, name: str, files: int | None) -> int:
    """Build bare files one by one with a peer; give the ticks read."""
    _, batch = bench_game()
    rows = 0
    with tempfile.TemporaryDirectory(dir=Path(bare).parent) as target:
        for path in sorted(Path(bare).glob("*.parquet"))[:files]:
            batch.peers[name](path, Path(target) / path.name)
            rows += pq.read_metadata(path).num_rows
            for written in Path(target).iterdir():
                written.unlink()
    return rows


CONTESTANTS: Mapping[str, Callable[..., int]] = {"build": run_build, "scan": run_scan, "peer": run_peer}


def child(request: str) -> str:
    """Run one contestant here; give rows, processor and wall seconds, and the most memory held."""
    payload = json.loads(request)
    contestant = CONTESTANTS[payload["what"]]
    for warm in payload.get("warm", []):
        contestant(*warm)
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    rows = contestant(*payload["arguments"])
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.dumps({"rows": rows, "cpu": cpu, "wall": time.perf_counter() - start, "peak": peak_memory()})


def peak_memory() -> float:
    """Give the most memory that this process held, in GB; getrusage would tell its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e9


def measure(what: str, *arguments: Any, warm: tuple[Any, ...] | None = None) -> dict[str, float]:
    """Run one contestant in a process of its own; `warm` is a small run before, for compiling and importing."""
    request = json.dumps({"what": what, "arguments": arguments, "warm": [warm] if warm else []})
    program = "import sys; from benchmarks import dataset; print(dataset.child(sys.argv[1]))"
    answer = subprocess.run([sys.executable, "-c", program, request], capture_output=True, text=True, check=False)  # noqa: S603
    if answer.returncode:
        raise ConfigError(f"expected {what} to run, found: {answer.stderr[-2000:]}")
    payload: dict[str, float] = json.loads(answer.stdout)
    return payload


def run(ticks: int = TICKS) -> dict[str, Any]:
    """Measure everything in a folder of its own on the disk of the home."""
    path = Path(os.environ.get("PLAYPROOF_HOME") or ".")
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path, prefix="bench-", ignore_cleanup_errors=True) as folder:
        root = Path(folder).absolute()
        for name, count in (("warm", 1), ("small", ticks), ("large", FACTOR * ticks)):
            make_home(root / name, root / f"{name}-bare", count)
        result = _measure(root)
    return _report(result).to_json()


def _measure(root: Path) -> dict[str, dict[str, float]]:
    """Measure every contestant, ours once at each size."""
    home, bare, warm = str(root / "small"), str(root / "small-bare"), str(root / "warm-bare")
    result = {"scan": measure("scan", bare, warm=(warm,))}
    result["build"] = measure("build", home, warm=(str(root / "warm"),))
    for name in (*POLARS, *SAMPLES):
        result[name] = measure("peer", bare, name, SAMPLES.get(name), warm=(warm, name, 1))
    result["large"] = measure("build", str(root / "large"), warm=(str(root / "warm"),))
    return result


def _report(result: Mapping[str, Mapping[str, float]]) -> BenchmarkReport:
    rates = {name: of["rows"] / of["cpu"] for name, of in result.items()}
    titles = {"scan": "bare scan", "build": "our build", "large": "our build, four times the ticks"}
    results = [Measurement(f"{titles.get(name, name)}: rows", result[name]["rows"], "ticks") for name in rates]
    results += [Measurement(titles.get(name, name), rate, "rows/CPU s") for name, rate in rates.items()]
    results += [Measurement(f"{titles.get(name, name)}: peak memory", result[name]["peak"], "GB") for name in rates]
    results += [Measurement(f"{titles.get(name, name)}: wall", result[name]["wall"], "s") for name in rates]
    results.append(Measurement(f"our build over {POLARS[1]}", rates["build"] / rates[POLARS[1]], "x"))
    goals = (
        Goal.at_least("our build over the per-event builder", rates["build"] / rates["per event"], EVENT_GOAL),
        Goal.at_least("our build over plain Polars", rates["build"] / rates[POLARS[0]], POLARS_GOAL),
        Goal.at_least("our build over the bare scan", rates["build"] / rates["scan"], SCAN_GOAL),
        Goal.at_most("peak memory, GB", result["build"]["peak"], MEMORY_GOAL),
        Goal.at_most("peak memory at four times the ticks, GB", result["large"]["peak"], MEMORY_GOAL),
        Goal.at_most(
            "time per row at four times the ticks, off by", abs(rates["build"] / rates["large"] - 1), LINEAR_GOAL
        ),
    )
    return BenchmarkReport("dataset", tuple(results), goals)
