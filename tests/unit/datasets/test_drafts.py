"""What killed builds leave: the next build and `doctor --clean` remove it, and nothing that is still in use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from recordings import crash, played
from recordings import store as fill

from playproof.cli.app import main
from playproof.datasets import DatasetConfig, build
from playproof.home import draft_folder, leftover_drafts
from playproof.store import EventLog, EventStore

HOLD = """
import sys, time
from pathlib import Path
from playproof.home import draft_folder
with draft_folder(Path(sys.argv[1]), "mine") as path:
    (path / "data").mkdir()
    (path / "data" / "half").write_text("half")
    print(path, flush=True)
    time.sleep(600)
"""


def hold(root: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a build that stands still in its draft."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    with process.stdout:
        return process, Path(process.stdout.readline().strip())


@pytest.fixture
def killed_and_running(home: Path) -> Iterator[tuple[Path, Path]]:
    """Leave the draft of a killed build beside that of a running one."""
    root = home / "datasets"
    root.mkdir(parents=True)
    running, used = hold(root)
    killed, left = hold(root)
    killed.send_signal(signal.SIGKILL)
    killed.wait(30)
    assert leftover_drafts(root) == [left]
    yield left, used
    running.kill()
    running.wait(30)


def test_the_next_build_removes_the_draft_of_a_killed_one(home: Path, killed_and_running: tuple[Path, Path]) -> None:
    left, used = killed_and_running
    fill(home, played(1, 3)[1])
    config = DatasetConfig("mine", "policy", "buttons", "minimal", {"train": 0.6, "test": 0.4}, gap=0)
    build(crash(), EventStore(home), config, home)
    assert not left.exists()
    assert (used / "data" / "half").exists()
    assert [path.name for path in (home / "datasets").iterdir() if path.name.startswith(".draft-")] == [used.name]


def test_doctor_lists_what_is_left_and_removes_it(
    home: Path, killed_and_running: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    left, used = killed_and_running
    for name in ("busy", "free"):
        staged = home / "events" / "_staging" / name / "part-x.parquet"
        staged.parent.mkdir(parents=True)
        staged.write_bytes(b"half")
    with EventLog.open(home, (), "busy"), EventLog.open(home, (), "free") as free:
        free.close()
        assert main(["doctor", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)["leftovers"]
        assert listed == [str(left), str(staged)]
        assert main(["doctor", "--clean", "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
    assert (result["removed"], result["leftovers"]) == (listed, [])
    assert not left.exists()
    assert not staged.exists()
    assert (used / "data" / "half").exists()
    assert (home / "events" / "_staging" / "busy" / "part-x.parquet").exists()


def test_a_draft_without_a_lock_is_left_over_only_when_it_is_old(tmp_path: Path) -> None:
    old, new = tmp_path / ".draft-old", tmp_path / ".draft-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert leftover_drafts(tmp_path) == [old]
    with draft_folder(tmp_path, "mine") as path:
        assert sorted(tmp_path.iterdir()) == sorted([new, path])
    assert list(tmp_path.iterdir()) == [new]
    assert leftover_drafts(tmp_path / "missing") == []
