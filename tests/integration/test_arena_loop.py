"""The loop: one cycle after the other, honest keeping, and kill -9 at any step without loss or a second training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from playproof.cli.app import main
from playproof.errors import ConfigError, InputError
from playproof.money import UNIT
from playproof.workflows.arena.benchmark import ScriptedContestant, WindowResult
from playproof.workflows.arena.loop import (
    STEPS,
    Loop,
    LoopPlan,
    LoopSteps,
    TrainRequest,
    alone,
    read_state,
    status,
    write_state,
)

PLAN = LoopPlan("random", decisions=2, bench_windows=4)


def joints(teach: Any, **more: Any) -> LoopSteps:
    payload: dict[str, Any] = {
        "collect": lambda plan, model, run: {"run": run},
        "outcomes": dict,
        "score": lambda plan, run: {"scored": 1},
        "contestant": lambda model, plan: ScriptedContestant(model),
    }
    return LoopSteps(teach, **(payload | more))


EARNS = {"random": -4.0, "hold": 0.0, "momentum": 1.0, "informed": 9.0, "wait": 0.0, "weak": 6.0, "strong": 12.0}


def earning(who: Any, plan: Any, scenario: Any, numbers: Any) -> list[WindowResult]:
    """Stand for playing: a mean that is known, and luck that all share."""
    luck = {number: np.random.default_rng([number, *scenario.name.encode()]).normal(0, 30) for number in numbers}
    own = {number: np.random.default_rng([number, *who.name.encode()]).normal(0, 3) for number in numbers}
    return [
        WindowResult(number, round((EARNS[who.name] + luck[number] + own[number]) * UNIT), 0.0, 6, 6, 0, 0, 1, 0)
        for number in numbers
    ]


def test_a_better_candidate_is_kept_and_a_worse_one_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playproof.workflows.arena.loop.play_windows", earning)
    lessons: list[TrainRequest] = []

    def teach(lesson: TrainRequest) -> Mapping[str, Any]:
        lessons.append(lesson)
        return {"checkpoint": "strong" if lesson.cycle == 1 else "weak"}

    noted: list[tuple[int, Mapping[str, Any]]] = []
    plan = LoopPlan("random", decisions=6, bench_windows=40)
    loop = Loop(tmp_path, joints(teach, note=lambda cycle, payload: noted.append((cycle, payload))), plan)
    shown: list[str] = []
    first = loop.cycle(lambda step, payload: shown.append(step))
    second = loop.cycle()
    assert shown == list(STEPS)
    assert first["kept"], first
    assert not second["kept"]
    assert "in use" in second["why"]
    assert loop.state["in_use"] == "strong"
    assert [lesson.base for lesson in lessons] == ["random", "strong"]
    assert lessons[0].seed != lessons[1].seed
    assert [cycle for cycle, _ in noted] == [1, 2]
    assert noted[0][1]["kept"] == 1.0
    lines = status(tmp_path)
    assert lines[0].endswith("cycle 3, collect")
    assert "model in use: strong" in lines
    assert any("cycle 1" in line and "kept" in line for line in lines)


def test_the_same_model_again_is_not_shown_to_be_better(tmp_path: Path) -> None:
    loop = Loop(tmp_path, joints(lambda lesson: {"checkpoint": lesson.base}), PLAN)
    entry = loop.cycle()
    assert not entry["kept"]
    assert entry["gain"] == 0.0


def test_a_training_that_fails_is_data_and_the_loop_goes_on(tmp_path: Path) -> None:
    def teach(lesson: TrainRequest) -> Mapping[str, Any]:
        if lesson.cycle == 1:
            raise InputError("expected windows to learn from, found none")
        return {"checkpoint": None}

    loop = Loop(tmp_path, joints(teach), PLAN)
    assert "found none" in loop.cycle()["why"]
    assert loop.cycle()["why"] == "training gave no candidate"
    assert loop.state["in_use"] == "random"


def test_every_cycle_has_windows_of_its_own(tmp_path: Path) -> None:
    loop = Loop(tmp_path, joints(lambda lesson: {}), PLAN)
    terms = [loop._fresh(number)[0].terms(2) for number in (1, 2, 1)]
    assert terms[0] == terms[2] != terms[1]
    assert terms[0].window(0) != terms[1].window(0)


def test_other_settings_need_another_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name the model"):
        Loop(tmp_path, joints(dict))
    Loop(tmp_path, joints(dict), PLAN)
    assert Loop(tmp_path, joints(dict)).plan == PLAN
    with pytest.raises(ConfigError, match="another name"):
        Loop(tmp_path, joints(dict), LoopPlan("hold"))


def test_two_loops_at_once_are_one(tmp_path: Path) -> None:
    with alone(tmp_path) as first, alone(tmp_path) as second:
        assert first
        assert not second
    with alone(tmp_path) as again:
        assert again


def test_a_state_that_is_no_state_is_told(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    write_state(tmp_path, {"plan": {}})
    with pytest.raises(InputError, match="state of a loop"):
        read_state(tmp_path)


PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from playproof.workflows.arena.benchmark import ScriptedContestant, WindowResult
from playproof.workflows.arena.loop import Loop, LoopPlan, LoopSteps

path, log, left = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def event():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def told(what):
    with log.open("a") as out:
        out.write(json.dumps(what) + "\\n")
        out.flush()
        os.fsync(out.fileno())
    event()

def teach(lesson):
    # A trainer with a resume point of its own, as GRPO has: an iteration is settled once.
    lesson.path.mkdir(parents=True, exist_ok=True)
    for iteration in (1, 2, 3):
        mark = lesson.path / str(iteration)
        if not mark.exists():
            told(["learned", lesson.cycle, iteration])
            mark.touch()
    return {"checkpoint": "momentum" if lesson.cycle % 2 else "wait"}

def collect(plan, model, run):
    told(["collected", run])
    return {"run": run}

def step(name):
    def did(*_):
        told([name])
        return {}
    return did

class Mortal(ScriptedContestant):
    def answers(self, tables, place):
        event()
        return super().answers(tables, place)

joints = LoopSteps(teach, collect, step("outcomes"), step("score"), lambda model, plan: Mortal(model))
loop = Loop(path, joints, LoopPlan("random", decisions=2, bench_windows=6))
while loop.state["cycle"] <= 3:
    loop.cycle()
"""


def test_kill_9_at_any_moment_loses_and_repeats_nothing(tmp_path: Path) -> None:
    path, log = tmp_path / "loop", tmp_path / "log.jsonl"
    program = [sys.executable, "-c", PROGRAM, str(path), str(log)]
    kills = (1, 2, 4, 7, 12, 20)
    for events in kills:
        assert subprocess.run([*program, str(events)], check=False).returncode == -signal.SIGKILL
    assert subprocess.run([*program, "0"], check=False).returncode == 0
    state = read_state(path)
    assert state is not None
    assert [entry["cycle"] for entry in state["history"]] == [1, 2, 3]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    learned = [tuple(line[1:]) for line in lines if line[0] == "learned"]
    again = len(learned) - len(set(learned))
    assert sorted(set(learned)) == [(cycle, iteration) for cycle in (1, 2, 3) for iteration in (1, 2, 3)]
    assert again <= len(kills)
    runs = [line[1] for line in lines if line[0] == "collected"]
    assert len(runs) == len(set(runs))
    windows = [json.loads(line) for line in (path / "benchmarked.jsonl").read_text().splitlines() if line.strip()]
    indices = [(window["cycle"], window["who"], window["number"]) for window in windows]
    assert set(indices) == {(cycle, who, at) for cycle, who, _ in indices for at in range(6)}

    calm = tmp_path / "calm"
    teach = lambda lesson: {"checkpoint": "momentum" if lesson.cycle % 2 else "wait"}  # noqa: E731
    undisturbed = Loop(calm, joints(teach), LoopPlan("random", decisions=2, bench_windows=6))
    for _ in range(3):
        undisturbed.cycle()
    mine, other = ([{**item, "ended": ""} for item in payload["history"]] for payload in (state, undisturbed.state))
    assert mine == other


def test_the_command_collects_scores_and_decides(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One real cycle but for the training, which hands the informed player over."""
    from playproof.workflows.arena import loop_command

    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    monkeypatch.setattr(loop_command, "grpo", lambda lesson, track, name: {"checkpoint": "informed"})
    command = ["arena", "loop", "random", "--once", "--decisions", "6", "--bench-windows", "4", "--windows", "2"]
    assert main([*command, "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert len(payload["cycles"]) == 1
    assert main(["arena", "loop", "--status", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["status"][0].startswith("loop: waiting for the next start; cycle 2, collect")
    state = read_state(home / "runs" / "loop")
    assert state is not None
    assert state["history"] == payload["cycles"]
    with alone(home / "runs" / "loop"):
        assert main([*command]) == 0
        assert "running already" in capsys.readouterr().err


def test_collected_windows_are_recorded_with_outcomes_and_scored(home: Path) -> None:
    from playproof.workflows.arena.loop_command import collect, score, sync_outcomes

    plan = LoopPlan("balanced", decisions=2, windows=2, reward="computed")
    done = collect(plan, "balanced", "loop-1-1")
    assert len(done["windows"]) == 2
    assert sync_outcomes()["known"] == 2
    payload = score(plan, "loop-1-1")
    assert (payload["groups"], payload["scored"], payload["reward"]) == (2, 2, "computed")
    assert payload["lowest"] <= payload["mean"] <= payload["highest"]
    again = collect(plan, "balanced", "loop-1-2")
    assert not set(again["windows"]) & set(done["windows"])


MORTAL = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {tests!r}
import tongues
from playproof.cli.app import main
from playproof.workflows.arena.presets import PRESETS
from playproof.train.language.grpo import GRPOLearner

PRESETS["small"] = tongues.small_preset(Path({base!r}))
whole, steps = GRPOLearner.step, 0

def step(self, batch, stats):
    global steps
    steps += 1
    whole(self, batch, stats)
    if steps == 2:  # the second iteration has changed the weights, and nothing of it is saved
        os.kill(os.getpid(), signal.SIGKILL)

if {mortal}:
    GRPOLearner.step = step
sys.exit(main(["arena", "loop", "--preset", "small", "--once", "--json"]))
"""


@pytest.mark.torture
def test_kill_9_amid_real_training_ends_in_the_same_loop(tmp_path: Path) -> None:
    """Teach, collect with a served model, train by GRPO, benchmark, decide: killed in GRPO, and undisturbed."""
    from sqlalchemy import select
    from tongues import saved, texts

    from playproof.store.db import UsedWindow, connect
    from playproof.train.language.model import load_language_model, weights_hash
    from playproof.train.language.tiny import make_tiny

    base = saved(tmp_path / "base", make_tiny(texts(64), 1, width=128, layers=2))
    ended = []
    for name, mortals in (("calm", (False,)), ("killed", (True, False))):
        for mortal in mortals:
            program = MORTAL.format(
                tests=[str(Path(__file__).parent), str(Path(__file__).parents[1])], base=str(base), mortal=mortal
            )
            payload = subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PLAYPROOF_HOME": str(tmp_path / name), "JUDGE_MODEL": "", "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert payload.returncode == (-signal.SIGKILL if mortal else 0), payload.stderr[-2000:]
        state = read_state(tmp_path / name / "runs" / "loop")
        assert state is not None
        (entry,) = state["history"]
        trained = load_language_model(entry["candidate"])
        engine = connect(home=tmp_path / name)
        with engine.connect() as connection:
            columns = (UsedWindow.window_id, UsedWindow.purpose, UsedWindow.iteration, UsedWindow.settled)
            used = sorted(map(tuple, connection.execute(select(*columns))))
        engine.dispose()
        ended.append((entry["kept"], entry["gain"], trained.version, weights_hash(trained.model), used))
    assert ended[0] == ended[1]
    assert [item[2] for item in ended[0][-1] if item[1] == "train"] == [1] * 4 + [2] * 4 + [3] * 4
