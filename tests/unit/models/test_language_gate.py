"""The gate of language models: the paired benchmark against the model in use, random, hold and momentum."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tongues
from models_kit import open_registry

from playproof.errors import InputError
from playproof.models.benchmarks import read_benchmark
from playproof.models.changing import promote, rollback
from playproof.models.gates import PromotionRefused
from playproof.models.registry import ModelVersion, Registry
from playproof.money import UNIT
from playproof.workflows.arena import loop_command
from playproof.workflows.arena.benchmark import ScriptedContestant, WindowResult, figures
from playproof.workflows.arena.loop import Loop, LoopPlan, LoopSteps


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("bases")
    model = tongues.small_model(1)
    return [tongues.saved(root / f"m{number}", model, f"small@{number}") for number in range(2)]


@pytest.fixture
def registry(home: Path) -> Iterator[Registry]:
    engine, registry = open_registry(f"sqlite:///{home / 'playproof.db'}", home)
    yield registry
    engine.dispose()


def benchmark(path: Path, means: dict[str, float], policies: dict[str, str], windows: int = 40) -> Path:
    """Write the figures of windows that are made up, as `arena bench` does."""
    rng = np.random.default_rng(1)
    luck = rng.normal(0, 30, windows)
    results: Any = {
        name: {
            "held-out": [
                WindowResult(at, round((mean + luck[at] + rng.normal(0, 3)) * UNIT), 0.0, 6, 6, 0, 0, 1, 0)
                for at in range(windows)
            ]
        }
        for name, mean in means.items()
    }
    path.mkdir(parents=True, exist_ok=True)
    payload = {"policies": policies, "figures": [asdict(item) for item in figures(results)]}
    (path / "leaderboard.json").write_text(json.dumps(payload))
    return path


RIVALS = {"random": -4.0, "hold": 0.0, "momentum": 1.0}


def test_the_benchmark_opens_the_gate_or_says_who_was_not_beaten(
    registry: Registry, bases: list[Path], tmp_path: Path
) -> None:
    first, _ = registry.add(bases[0], "talker")
    second, _ = registry.add(bases[1], "talker")
    assert (first.kind, first.parent) == ("language", "tiny")

    def refused(version: ModelVersion, report: Path | None, words: str) -> None:
        with pytest.raises(PromotionRefused, match=words) as caught:
            promote(registry, version, "in-use", who="me", why="x", report=report)
        assert caught.value.gate == "benchmark"

    refused(first, None, "playproof arena bench talker:1")
    weak = benchmark(tmp_path / "weak", {**RIVALS, "small@0": 0.5}, {"small@0": first.policy_hash})
    refused(first, weak, "more than hold with a lower bound above 0")
    lacking = benchmark(tmp_path / "lacking", {"random": 0.0, "small@0": 9.0}, {"small@0": first.policy_hash})
    refused(first, lacking, "against hold")
    good = benchmark(tmp_path / "good", {**RIVALS, "small@0": 9.0}, {"small@0": first.policy_hash})
    refused(second, good, "talker:2 in")
    done = promote(registry, first, "in-use", who="me", why="x", report=good).change
    assert done.gate == "benchmark: more than random, hold, momentum on 40 held-out windows"
    assert done.report_hash == read_benchmark(good).report_hash
    alone = benchmark(tmp_path / "alone", {**RIVALS, "b": 19.0}, {"b": second.policy_hash})
    refused(second, alone, "the model in use, talker:1")
    both = {"a": first.policy_hash, "b": second.policy_hash}
    refused(second, benchmark(tmp_path / "same", {**RIVALS, "a": 9.0, "b": 9.0}, both), r"more than a \(in use\)")
    better = benchmark(tmp_path / "better", {**RIVALS, "a": 9.0, "b": 19.0}, both)
    assert "a (in use)" in promote(registry, second, "in-use", who="me", why="x", report=better).change.gate
    assert rollback(registry, "talker", "in-use", who="me", why="x").change.to_version == 1
    with pytest.raises(PromotionRefused, match="playproof validate"):
        promote(registry, second, "live", who="me", why="x", report=None)
    with pytest.raises(InputError, match=r"leaderboard\.json"):
        promote(registry, second, "in-use", who="me", why="x", report=tmp_path)


def test_the_loop_promotes_through_the_registry(
    registry: Registry, bases: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The benchmark is of made-up windows; gate, registry, pointer and the next cycle's model are real."""
    earns = {**RIVALS, "informed": 9.0, "wait": 0.0, "base": 2.0, str(bases[0]): 12.0, str(bases[1]): 24.0}

    class Checkpoint(ScriptedContestant):
        """Stands for a model; only its hash is real."""

    def play(who: Any, plan: Any, scenario: Any, numbers: Any) -> list[WindowResult]:
        luck = {number: np.random.default_rng([number, *scenario.name.encode()]).normal(0, 30) for number in numbers}
        return [
            WindowResult(at, round((worth(who.name) + luck[at] + at % 3) * UNIT), 0.0, 6, 6, 0, 0, 1, 0)
            for at in numbers
        ]

    def worth(name: str) -> float:
        known = {version.checkpoint: version.source for version in registry.versions()}
        return earns[known.get(Path(name).name, name)]

    def hashes(everybody: Any) -> dict[str, str]:
        from playproof.models.facts import read_facts

        return {name: read_facts(Path(who.name)).policy_hash for name, who in everybody.items() if "/" in who.name}

    monkeypatch.setattr("playproof.workflows.arena.loop.play_windows", play)
    monkeypatch.setattr("playproof.workflows.arena.loop.policy_hashes", hashes)
    trained = iter([bases[0], bases[1], bases[0]])
    bases_used: list[str] = []

    def train(lesson: Any) -> dict[str, str]:
        bases_used.append(lesson.base)
        return {"checkpoint": str(next(trained))}

    steps = LoopSteps(
        train,
        lambda plan, model, run: {},
        dict,
        lambda plan, run: {},
        lambda model, plan: Checkpoint(model),
        lambda candidate, why, report: loop_command.promote_candidate("talker", candidate, why, report),
        lambda: loop_command.model_in_use("talker"),
    )
    loop = Loop(tmp_path / "talker", steps, LoopPlan("base", bench_windows=40))
    assert loop.cycle()["kept"]
    assert loop.cycle()["kept"]
    pointer = registry.pointer("talker", "in-use")
    assert (pointer.version, pointer.generation) == (2, 2)
    assert loop.state["in_use"] == str(registry.open(registry.version("talker", 2)))
    rollback(registry, "talker", "in-use", who="me", why="by hand")
    rollback(registry, "talker", "in-use", who="me", why="by hand")
    third = loop.cycle()
    assert third["kept"], third["why"]
    assert bases_used == ["base", str(registry.open(registry.version("talker", 1))), "base"]
    assert [change.kind for change in registry.history("talker", "in-use")] == [
        "promote",
        "promote",
        "rollback",
        "rollback",
        "promote",
    ]
    assert all(
        "benchmark:" in change.gate for change in registry.history("talker", "in-use") if change.kind == "promote"
    )
    promoted = loop_command.promote_candidate("talker", str(bases[0]), "again", tmp_path)
    assert promoted == str(registry.open(registry.version("talker", 1)))
    assert registry.pointer("talker", "in-use").generation == 5
    assert loop_command.promote_candidate("talker", "informed", "x", tmp_path) == "informed"
