"""The store under kill -9, failing disks and full ones: acknowledged is there once, the rest is refused.

`tests/torture` runs the same with large counts.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_proofs import COLUMNS, Killer, acknowledged, kills, numbered, stored, strace

from playproof.errors import StoreError
from playproof.store import EventLog, verify

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.mark.slow
def test_100_writers_killed_at_random_times_lose_and_double_nothing(tmp_path: Path) -> None:
    payload = list(kills(tmp_path, 100, seed=1))
    assert [number for number, _ in payload] == list(range(1, 101))
    assert sum(there for _, there in payload) > 1000, "the writers were killed before they wrote"
    compacted = list(tmp_path.glob("home-*/events/doc_type=*/date=*/part-*.parquet"))
    assert compacted, "no compaction took place"
    for home in tmp_path.glob("home-*"):
        assert verify(home).damage == ()


def test_writers_killed_while_they_make_their_log_leave_one_that_can_be_read(tmp_path: Path) -> None:
    rng = random.Random(5)
    with Killer(tmp_path) as killer:
        for number in range(40):
            folder = f"home-{number}"
            payload = killer.kill_one(folder, 0, rng.randrange(2**32), after=0, delay=rng.uniform(0, 0.03))
            assert stored(tmp_path / folder) >= payload


@needs_strace
def test_each_acknowledgement_comes_after_the_sync_of_its_commit(home: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code, payload = strace(home, trace, ["-y", "-e", "trace=fdatasync,fsync,pwrite64,write,rename"])
    assert (code, payload[-1]) == (0, "done")
    dirty, acks, synced = False, 0, 0
    unsynced: set[str] = set()
    for line in trace.read_text().splitlines():
        call = re.search(r" (\w+)\((\d+)<([^>]*)>", line)
        if " rename(" in line:  # a part takes its place only when its bytes are synced
            staged = line.split('"')[1]
            assert staged not in unsynced
            continue
        if call is None:
            continue
        name, _, path = call.groups()
        if path.endswith("main.db-wal"):
            dirty = name == "pwrite64" or (dirty and name not in ("fdatasync", "fsync"))
            synced += name == "fdatasync"
        elif '"ack ' in line:
            assert not dirty, f"acknowledged before the sync: {line}"
            acks += 1
        elif path.endswith(".parquet"):
            (unsynced.discard if name == "fsync" else unsynced.add)(path)
    assert acks == 12
    assert synced >= acks
    assert not unsynced


WAL = "log/main.db-wal"
FAULTS = [
    ("fdatasync", "EIO", WAL, 6),
    ("fdatasync", "EIO", WAL, 9),
    ("pwrite64", "ENOSPC", WAL, 45),
    ("pwrite64", "EIO", WAL, 25),
]


@needs_strace
@pytest.mark.parametrize(("call", "error", "path", "when"), FAULTS)
def test_after_a_failed_write_the_log_is_read_only_until_it_is_opened_again(
    home: Path, tmp_path: Path, call: str, error: str, path: str, when: int
) -> None:
    trace = tmp_path / "trace"
    options = ["-P", str(home / path), "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}"]
    code, payload = strace(home, trace, options)
    assert (code, payload[-1]) == (0, "done"), payload
    assert "INJECTED" in trace.read_text()
    index = next(position for position, line in enumerate(payload) if line.startswith("failed"))
    assert "read-only" in payload[index]
    assert payload[index - 1] == "refused True"
    assert sum(line.startswith("failed") for line in payload) == 1
    assert stored(home) == acknowledged(payload) == 60
    assert verify(home).damage == ()


@needs_strace
@pytest.mark.parametrize(("call", "when"), [("pwrite64", 4), ("pwrite64", 13), ("fdatasync", 2)])
def test_a_log_that_could_not_be_made_whole_does_not_take_its_place(
    home: Path, tmp_path: Path, call: str, when: int
) -> None:
    trace = tmp_path / "trace"
    made = str(home / "log/main.new")
    options = ["-P", made, "-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when={when}"]
    code, payload = strace(home, trace, options)
    assert (code, payload[-1]) == (0, "done"), payload
    assert "INJECTED" in trace.read_text()
    assert payload[0].startswith("failed"), payload
    assert stored(home) == acknowledged(payload) == 60
    assert verify(home).damage == ()


@needs_strace
@pytest.mark.parametrize(("call", "error"), [("fsync", "EIO"), ("write", "ENOSPC"), ("rename", "EIO")])
def test_a_compaction_that_fails_keeps_every_event(home: Path, tmp_path: Path, call: str, error: str) -> None:
    code, _ = strace(tmp_path / "dry", tmp_path / "trace", ["-y", "-e", "trace=rename"])
    assert code == 0
    staged = re.findall(r'rename\("([^"]*_staging[^"]*)"', (tmp_path / "trace").read_text())
    paths = [option for name in staged for option in ("-P", name.replace(str(tmp_path / "dry"), str(home)))]
    code, payload = strace(home, tmp_path / "trace", [*paths, "-e", f"inject={call}:error={error}:when=2"])
    assert "INJECTED" in (tmp_path / "trace").read_text()
    assert (code, payload[-1]) == (0, "done"), payload
    assert any(line.startswith("failed") and "all events are kept" in line for line in payload), payload
    assert stored(home) == acknowledged(payload) == 60
    assert verify(home).findings == ()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of one megabyte, or skip where none can be mounted."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_acknowledges_nothing_and_keeps_nothing_partial(small_disk: Path) -> None:
    home = small_disk / "home"
    ballast = small_disk / "ballast"
    EventLog.open(home, COLUMNS).close()
    ballast.write_bytes(bytes(400_000))
    payload = 0
    with EventLog.open(home, COLUMNS) as log:
        while log.failure is None:
            with contextlib.suppress(StoreError):
                log.append([numbered(seq) for seq in range(payload, payload + 10)])
                payload += 10
        assert "full" in log.failure
        with pytest.raises(StoreError, match="read-only"):
            log.append([numbered(payload)])
        with pytest.raises(StoreError, match="read-only"):
            log.submit([numbered(payload)])
    assert payload > 100
    assert stored(home) == payload
    ballast.unlink()
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq) for seq in range(payload - 50, payload + 50)])
    assert stored(home) == payload + 50
    assert verify(home).damage == ()


def test_a_full_disk_stops_a_compaction_and_nothing_else(small_disk: Path) -> None:
    home = small_disk / "home"
    with EventLog.open(home, COLUMNS) as log:
        log.append([numbered(seq) for seq in range(500)])
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(512)):
                pass
        with pytest.raises(StoreError, match="expected"):
            log.compact(final=True)
        assert stored(home) == 500
        ballast.unlink()
    with EventLog.open(home, COLUMNS) as log:
        log.compact(final=True)
    assert stored(home) == 500
    assert verify(home).findings == ()
