"""Plan on what a policy is examined: the windows of a world, or the recorded ones of a data set.

Leaves out: playing them (examine).
"""

from __future__ import annotations

import hashlib
from typing import Any

from playproof.game import Game, first, lookup
from playproof.validate.examine import EvalPlan
from playproof.validate.gates import RULES, Gate, skipped


def world_plan(game: Game, world: str | None, rounds: int | None, seed: int) -> EvalPlan:
    """Plan a simulation."""
    name = world or first(game.worlds)
    lookup(game.worlds, name, "world")
    windows = rounds or game.defaults.windows
    identity = hashlib.sha256(f"{game.name} {game.version} {name} {seed} {windows}".encode()).hexdigest()
    about = Gate("D3", True, f"the claim is about the simulated world {name!r} alone", RULES["D3"])
    split = skipped("D1", RULES["D1"], "simulated windows that no training saw: their seeds are kept apart")
    return EvalPlan(
        name,
        f"world {name}, {windows:,} windows",
        identity,
        "test",
        windows,
        seed,
        ceiling=game.simulated().ceiling(name),
        provenance=(split, about),
    )


def data_plan(game: Game, data: str, split: str, rounds: int | None, seed: int) -> EvalPlan:
    """Plan a replay of recorded windows."""
    from playproof.datasets import open_dataset
    from playproof.datasets.registry import find_dataset
    from playproof.validate.recorded_windows import data_gates, label_gate, recorded_tape

    dataset = open_dataset(find_dataset(data))
    tape = recorded_tape(game, dataset, split)
    windows = min(rounds or len(tape), len(tape))
    manifest: Any = dataset.manifest
    return EvalPlan(
        tape,
        f"data set {manifest['name']}, split {split}, {windows:,} recorded windows",
        manifest["hash"],
        split,
        windows,
        seed,
        ceiling=game.simulated().ceiling(first(game.worlds)),
        provenance=(*data_gates(game, dataset), label_gate(game, dataset, seed)),
    )
