"""The store's long proofs. Progress is kept, so that a run which was cut off goes on where it was.

PLAYPROOF_TORTURE_KILLS: how many random kills, 10,000 unless told. PLAYPROOF_TORTURE_STRIDE: take every n-th syscall
of the 200-event run, 1 unless told. PLAYPROOF_TORTURE_RUNS: runs of late events beside compactions, 1,000 unless told.
PLAYPROOF_TORTURE_FLIPS: flipped bits in footers, 20,000 unless told.
PLAYPROOF_TORTURE_STATE: the folder that keeps the progress.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from compaction_proofs import fill_in_while_compacting, interleavings, two_late_appends
from flip_proofs import flip_footers
from store_proofs import COLUMNS, acknowledged, kills, numbered, stored, strace

from playproof.provenance import commit
from playproof.store import EventLog, verify

pytestmark = pytest.mark.torture

KILLS = int(os.environ.get("PLAYPROOF_TORTURE_KILLS", "10000"))
RUNS = int(os.environ.get("PLAYPROOF_TORTURE_RUNS", "1000"))
FLIPS = int(os.environ.get("PLAYPROOF_TORTURE_FLIPS", "20000"))
STRIDE = int(os.environ.get("PLAYPROOF_TORTURE_STRIDE", "1"))
STATE = Path(os.environ.get("PLAYPROOF_TORTURE_STATE", Path(tempfile.gettempdir()) / "playproof-torture"))
PER_HOME = 25
EVENTS = 200
FAULTS = {
    "kill": None,
    "EIO": {"openat", "pread64", "read", "pwrite64", "write", "fdatasync", "fsync", "rename", "ftruncate", "unlink"},
    "ENOSPC": {"openat", "mkdir", "pwrite64", "write", "fdatasync", "fsync", "rename", "ftruncate"},
}


class Progress:
    """What was done of one proof at this commit, kept in a file."""

    def __init__(self, name: str) -> None:
        self.path = STATE / f"{name}.json"
        self.name = name
        known = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.done: list[str] = known.get("done", []) if known.get("commit") == commit() else []

    def add(self, what: str, total: int, value: object) -> None:
        self.done.append(what)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"commit": commit(), "done": self.done}))
        sys.stderr.write(f"\r{self.name}: {len(self.done)}/{total} {value}    ")
        sys.stderr.flush()


def test_random_kills(tmp_path: Path) -> None:
    progress = Progress("kills")
    blocks = [str(number) for number in range(-(-KILLS // PER_HOME))]
    for block in blocks:
        if block not in progress.done:
            events = list(kills(tmp_path / block, PER_HOME, seed=int(block), per_home=PER_HOME))[-1][1]
            shutil.rmtree(tmp_path / block)
            progress.add(block, len(blocks), f"blocks of {PER_HOME} kills, {events} events in the last")


def _calls(home: Path, trace: Path) -> tuple[Counter[str], list[str]]:
    """Run once without faults; give how often a thread called what on the store's files, and the files."""
    code, payload = strace(home, trace, ["-y", "-e", "trace=%file,%desc"], EVENTS)
    assert (code, payload[-1]) == (0, "done"), payload
    counts: Counter[tuple[str, str]] = Counter()
    files: set[str] = set()
    for line in trace.read_text().splitlines():
        matches = re.findall(rf'[<"]({re.escape(str(home))}[^>"]*)[>"]', line)
        call = re.match(r"(\d+) +(\w+)\(", line)
        if matches and call:
            counts[call.group(1), call.group(2)] += 1
            files |= set(matches)
    most: Counter[str] = Counter()
    for (_, name), count in counts.items():
        most[name] = max(most[name], count)
    return most, sorted(files)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_at_every_syscall_on_the_stores_files(tmp_path: Path, fault: str) -> None:
    calls, files = _calls(tmp_path / "dry", tmp_path / "trace")
    names = sorted(set(calls) & (FAULTS[fault] or set(calls)))
    cases = [f"{name}:{when}" for name in names for when in range(1, calls[name] + 1)][::STRIDE]
    assert cases
    progress = Progress(f"syscalls-{fault}")
    failures = []
    for case in cases:
        if case not in progress.done:
            try:
                _one_fault(tmp_path / "home", tmp_path, fault, case, files)
                progress.add(case, len(cases), case)
            except AssertionError as failure:
                failures.append(f"{case}: {failure}")
                shutil.rmtree(tmp_path / "home", ignore_errors=True)
    assert not failures, "\n".join(failures)


def _one_fault(home: Path, tmp_path: Path, fault: str, case: str, files: list[str]) -> None:
    name, when = case.split(":")
    effect = "signal=KILL" if fault == "kill" else f"error={fault}"
    paths = [option for path in files for option in ("-P", path.replace(str(tmp_path / "dry"), str(home)))]
    options = [*paths, "-e", f"trace={name}", "-e", f"inject={name}:{effect}:when={when}"]
    _, payload = strace(home, tmp_path / "trace", options, EVENTS)
    assert not any(line.startswith("stderr") and "Traceback" in line for line in payload), payload
    assert "refused False" not in payload, payload
    there = stored(home)
    assert there >= acknowledged(payload), f"acknowledged {acknowledged(payload)}, found {there}"
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq) for seq in range(EVENTS)])
        log.compact(final=True)
    assert stored(home) == EVENTS
    assert verify(home).damage == ()
    shutil.rmtree(home)


def test_late_events_beside_compactions(tmp_path: Path) -> None:
    """Short runs of threads without any order, and long ones as the defect was found with."""
    progress = Progress("late")
    sizes = {number: (12_000, 600) if number % 50 == 0 else (600, 60) for number in range(RUNS)}
    for number, (total, late) in sizes.items():
        if str(number) not in progress.done:
            assert fill_in_while_compacting(tmp_path / "home", total, late, number) == 0, number
            shutil.rmtree(tmp_path / "home")
            progress.add(str(number), RUNS, "runs")


def test_flipped_bits_in_footers(tmp_path: Path) -> None:
    """Blocks of a thousand flips: 0 silent, 0 signals, 0 tracebacks."""
    progress = Progress("flips")
    for block in range(FLIPS // 1000):
        if str(block) not in progress.done:
            flip_footers(tmp_path / "home", 1000, block)
            shutil.rmtree(tmp_path / "home")
            progress.add(str(block), FLIPS // 1000, "thousands of flips")


def test_every_order_with_three_parts(tmp_path: Path) -> None:
    steps = two_late_appends(tmp_path / "dry", set(), 3).run("C" * 50)
    seen: set[str] = set()
    for order in interleavings(steps):
        two_late_appends(tmp_path / "home", seen, 3).run(order)
        shutil.rmtree(tmp_path / "home")
