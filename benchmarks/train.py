"""Measure what training finds where theory knows the best, how long it takes, and how fast a policy acts.

A section is a function `section(quick) -> (results, goals)` of the table SECTIONS. Each section's outcome is kept
in the folder `$PLAYPROOF_HOME/runs/bench-train`, so that an interrupted bench goes on where it stopped;
PLAYPROOF_BENCH_QUICK=1 runs every section small, to see that it runs, and its goals are then not to be quoted;
PLAYPROOF_BENCH_ONLY=ppo-edge,ppo-null runs and reports these sections alone.
Leaves out: the sections.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.cli.output import note
from playproof.game import lookup
from playproof.home import folder
from playproof.provenance import commit

QUICK, ONLY = "PLAYPROOF_BENCH_QUICK", "PLAYPROOF_BENCH_ONLY"
Section = Callable[[bool], tuple[list[Measurement], list[Goal]]]


SECTIONS = {
    "clone": ("train_bc", "clone"),
    "offline": ("train_offline", "offline"),
    "ppo-clone": ("ppo", "clone"),
    "ppo-edge": ("ppo", "edge"),
    "ppo-latency": ("ppo", "latency"),
    "ppo-null": ("ppo", "null"),
    "ppo-speed": ("ppo", "speed"),
    "predictor-edge": ("train_rug_predictor", "edge"),
    "predictor-null": ("train_rug_predictor", "null"),
}
"""Name of a section, its module in this package and its function."""


def sections() -> list[str]:
    """Give the sections to run, sorted: all of them, or those that the environment names."""
    only = [name for name in os.environ.get(ONLY, "").split(",") if name]
    for name in only:
        lookup(SECTIONS, name, "section of the benchmark")
    return only or sorted(SECTIONS)


def run() -> dict[str, Any]:
    """Run every section that was not run at this commit yet, and report all."""
    quick = os.environ.get(QUICK, "0") not in ("", "0")
    kept = folder("runs") / "bench-train" / ("quick" if quick else commit())
    kept.mkdir(parents=True, exist_ok=True)
    results: list[Measurement] = []
    goals: list[Goal] = []
    for name in sections():
        section = _section(name, kept, quick)
        results += [Measurement(**result) for result in section["results"]]
        goals += [Goal(**goal) for goal in section["goals"]]
    return BenchmarkReport("train", tuple(results), tuple(goals)).to_json()


def _section(name: str, kept: Path, quick: bool) -> dict[str, Any]:
    """Give what a section found, from its file or by running it."""
    file = kept / f"{name}.json"
    if file.exists():
        payload: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return payload
    note(f"bench train: {name} ...")
    module, function = SECTIONS[name]
    section: Section = getattr(import_module(f"benchmarks.{module}"), function)
    results, goals = section(quick)
    payload = {"results": [asdict(result) for result in results], "goals": [asdict(goal) for goal in goals]}
    file.write_text(json.dumps(payload, indent=1), encoding="utf-8")
    return payload
