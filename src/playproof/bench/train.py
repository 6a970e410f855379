"""Measure what training finds where theory knows the best, how long it takes, and how fast a policy acts.

A section is a function `run(quick) -> (results, goals)` of the list SECTIONS or of the entry-point group
"playproof.train_benches", by which other methods and games bring theirs. Each section's outcome is kept
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
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from playproof.bench.report import Goal, Report, Result, commit
from playproof.cli.output import note
from playproof.errors import ContractError
from playproof.game import lookup
from playproof.home import folder

GROUP = "playproof.train_benches"
QUICK, ONLY = "PLAYPROOF_BENCH_QUICK", "PLAYPROOF_BENCH_ONLY"
Section = Callable[[bool], tuple[list[Result], list[Goal]]]


def sections() -> dict[str, str]:
    """Give every section by name, sorted, as "module:function"; or those that are asked for."""
    found = dict(sorted((point.name, point.value) for point in entry_points(group=GROUP)))
    only = [name for name in os.environ.get(ONLY, "").split(",") if name]
    return {name: lookup(found, name, "section of the bench") for name in only} or found


def run() -> dict[str, Any]:
    """Run every section that was not run at this commit yet, and report all."""
    quick = os.environ.get(QUICK, "0") not in ("", "0")
    kept = folder("runs") / "bench-train" / ("quick" if quick else commit())
    kept.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    goals: list[Goal] = []
    for name, target in sections().items():
        found = _section(name, target, kept, quick)
        results += [Result(**result) for result in found["results"]]
        goals += [Goal(**goal) for goal in found["goals"]]
    return Report("train", tuple(results), tuple(goals)).to_json()


def _section(name: str, target: str, kept: Path, quick: bool) -> dict[str, Any]:
    """Give what a section found, from its file or by running it."""
    file = kept / f"{name}.json"
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found
    note(f"bench train: {name} ...")
    module, _, attribute = target.partition(":")
    section: Section | None = getattr(import_module(module), attribute, None)
    if section is None:
        raise ContractError(f"expected a section of the bench at {target}, found none")
    results, goals = section(quick)
    found = {"results": [asdict(result) for result in results], "goals": [asdict(goal) for goal in goals]}
    file.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found
