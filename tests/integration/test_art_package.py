"""OpenPipe ART's own package, in a virtual environment of its own: our groups, its RULER and client, W&B offline."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_the_real_package_takes_what_we_write(project: Path) -> None:
    python = Path(os.environ.get("PLAYPROOF_ART_PYTHON", project / ".venv-art" / "bin" / "python"))
    if not python.exists():
        pytest.skip("ART TEST NOT RUN: no .venv-art; run: make art")
    done = subprocess.run(
        [python, project / "scripts" / "art_check.py", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    classes, ruler, backend, wandb = (result[name] for name in ("classes", "ruler", "backend", "wandb"))
    assert classes["equal"] == classes["groups"] == 30
    assert classes["choices"] == classes["turns"] > 0
    assert ruler["largest_difference"] < 1e-9
    assert ruler["pairs_ordered_alike"] == ruler["pairs"] > 100
    assert ruler["faults"]["other order"]["ours"] == "right scores"
    wrong = [fault for fault, row in ruler["faults"].items() if row["ours"].startswith("wrong")]
    assert not wrong, "our judge takes no faulty answer for a score"
    assert (backend["jobs"], backend["choices_of_the_first"]) == (2, 1)
    assert len(set(backend["rewards_of_the_first_group"])) > 1
    assert (wandb["sync_finished"], wandb["losses_equal"]) == (True, True)
