"""Several beginnings of a training: the best goes on as if it had been alone, whatever interrupts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from test_ppo import CONFIG, GAME, ROLLOUT, same

from playproof.errors import ConfigError
from playproof.evaluate.rollout import rollout
from playproof.policies import BatchPlayer
from playproof.reports.run import UNIT
from playproof.testing import coin
from playproof.train.ppo.config import PPOConfig
from playproof.train.ppo.loop import VALIDATION, PPOResult, train_ppo
from playproof.train.ppo.restarts import FOLDER, PLAN, discarded, discarded_steps, list_restarts, seed_of, train_best
from playproof.train.run import CONFIG as CONFIG_FILE
from playproof.train.run import read_result

ASKED = replace(CONFIG, restarts=3, restart_share=0.4)
HALT = 3 * ROLLOUT
"""The first boundary at or after 40 % of six rollouts."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> PPOResult:
    return train_best(GAME, ASKED, tmp_path_factory.mktemp("best") / "run")


def test_the_best_beginning_goes_on_as_if_it_had_been_alone(done: PPOResult, tmp_path: Path) -> None:
    plan = json.loads((done.path / PLAN).read_text())
    profits = [payload["profit"] for payload in plan["begun"]]
    assert plan["chosen"] == profits.index(max(profits))
    seed = seed_of(ASKED, plan["chosen"])
    assert plan["begun"][plan["chosen"]]["seed"] == seed
    alone = train_ppo(GAME, replace(CONFIG, seed=seed), tmp_path / "alone")
    assert same(done.weights, alone.weights)
    assert done.best is not None
    assert done.best.is_relative_to(done.path)
    assert FOLDER not in done.best.parts
    assert read_result(done.path)["steps"] == ASKED.steps


def test_the_others_go_no_farther_than_the_decision(done: PPOResult) -> None:
    steps = [read_result(done.path / FOLDER / str(number))["steps"] for number in range(3)]
    assert steps == [HALT] * 3
    assert len(discarded(done.path)) == 2
    assert len({seed_of(ASKED, number) for number in range(3)}) == 3


def test_the_page_tells_of_all_beginnings(done: PPOResult) -> None:
    profits = ", ".join(f"{item.profit / UNIT:+.5f}" for item in list_restarts(done.path))
    assert f"Begun 3 times; the best went on (coins per window: {profits})." in (done.path / "report.html").read_text()


def test_all_are_judged_on_the_same_windows(done: PPOResult, tmp_path: Path) -> None:
    profits = [item.profit for item in list_restarts(done.path)]
    for number, profit in enumerate(profits):
        path = copytree(done.path / FOLDER / str(number), tmp_path / str(number))
        made = train_ppo(GAME, CONFIG, path, resume=True, halt=HALT)
        player = BatchPlayer(made.table.policy(made.weights))
        result = rollout(GAME, player, "biased", 4 * 200, ASKED.seed + VALIDATION, stake=ASKED.stake)
        assert profit == result.pnl.mean()
    assert len(set(profits)) > 1


PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from playproof.testing import coin
from playproof.train.ppo.restarts import train_best
from playproof.train.ppo.config import PPOConfig

seen = 0

def show(step, told):
    global seen
    seen += "loss" in told
    if seen == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

train_best(coin.game(), PPOConfig.from_json(json.loads(sys.argv[2])), Path(sys.argv[1]), show=show)
"""


@pytest.mark.parametrize("after", [5, 11], ids=["in the second beginning", "in what follows"])
def test_a_killed_run_goes_on_to_the_same_weights(done: PPOResult, after: int, tmp_path: Path) -> None:
    path = tmp_path / "run"
    call = [sys.executable, "-c", PROGRAM, str(path), json.dumps(vars(ASKED)), str(after)]
    assert subprocess.run(call, check=False).returncode == -signal.SIGKILL
    assert (path / CONFIG_FILE).exists() == (after > 9)
    again = train_best(GAME, CONFIG, path, resume=True)
    assert same(again.weights, done.weights)
    assert [item.profit for item in list_restarts(path)] == [item.profit for item in list_restarts(done.path)]


class Killed(Exception):
    """Stands for a kill between two writes."""


def test_a_half_made_copy_is_made_again(done: PPOResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(index: Path, path: Path) -> None:
        (path / "log.jsonl").write_bytes((index / "log.jsonl").read_bytes()[:100])
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("playproof.train.ppo.restarts._take_over", killed)
        with pytest.raises(Killed):
            train_best(GAME, ASKED, tmp_path / "run")
    assert same(train_best(GAME, ASKED, tmp_path / "run", resume=True).weights, done.weights)


def test_a_reward_that_lies_is_not_given_up_for_one_that_does_not_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three alarms end the choice, and the run: what a reward teaches is not to be hidden by other seeds."""
    monkeypatch.setattr("playproof.train.ppo.callbacks.diverged", lambda *_: True)
    still = replace(ASKED, steps=12 * ROLLOUT, evaluate_every=1, learning_rate=1e-9)  # its profit never rises
    made = train_best(GAME, still, tmp_path / "run")
    assert made.path == tmp_path / "run"
    assert made.progress.alarms == 3
    assert "alarms" in str(made.progress.stopped)
    assert len(list_restarts(made.path)) == 1
    assert discarded(made.path) == ()


def test_steps_that_were_asked_for_are_those_that_are_counted(tmp_path: Path) -> None:
    shown: list[tuple[int, int]] = []
    made = train_best(
        GAME, ASKED, tmp_path / "run", show=lambda step, payload: shown.append((payload.get("restart", 0), step))
    )
    for restart in (1, 2, 3):
        steps = [step for number, step in shown if number == restart]
        assert steps == sorted(steps)
        assert steps[-1] == HALT
    last = [step for number, step in shown if not number]
    assert last == sorted(last)
    assert last[-1] == made.steps == ASKED.steps
    assert discarded_steps(ASKED) == 2 * HALT


def test_one_beginning_is_a_plain_training(done: PPOResult, tmp_path: Path) -> None:
    alone = train_best(GAME, replace(ASKED, restarts=1), tmp_path / "run")
    assert not (alone.path / PLAN).exists()
    assert discarded(alone.path) == ()
    assert same(train_best(GAME, ASKED, done.path, resume=True).weights, done.weights)


def test_what_was_begun_is_not_begun_anew(done: PPOResult) -> None:
    with pytest.raises(ConfigError, match="--resume"):
        train_best(GAME, ASKED, done.path)
    with pytest.raises(ConfigError, match="restart"):
        replace(ASKED, restarts=0)
    with pytest.raises(ConfigError, match="restart"):
        replace(ASKED, restart_share=1.0)


def test_a_reward_that_fails_is_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []

    def fails(game: Any, reward: Any, config: PPOConfig) -> tuple[str, ...]:
        judged.append(config.seed)
        return ("R1",)

    monkeypatch.setattr("playproof.train.ppo.loop.failing_checks", fails)
    made = train_best(coin.game(), replace(ASKED, steps=2 * ROLLOUT), tmp_path / "run", allow_failing_reward=True)
    assert len(judged) == 1
    assert made.table.failed_checks
