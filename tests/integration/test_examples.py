"""Every example runs by itself and prints what its table says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
SAYS = {
    "record": "tick",
    "build_dataset": "windows 2 steps",
    "train": "first action",
    "validate": "hold-40",
    "own_game": "broken clause worlds",
    "own_agent": "steps 3 model calls 3",
    "sb3": "one round: reward",
}


def test_every_example_is_run_and_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(SAYS)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.py`" in readme for name in names)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PLAYPROOF_HOME": str(tmp_path / "home")}
    answer = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert SAYS[name] in answer.stdout, answer.stdout
