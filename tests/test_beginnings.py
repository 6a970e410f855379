"""Several beginnings of a training: the best goes on as if it had been alone, whatever interrupts it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playproof.errors import ConfigError
from playproof.testing import coin
from playproof.train.beginnings import FOLDER, PLAN, given_up, seed_of, steps_of, train_best
from playproof.train.ppo import PPOConfig, Result, train_ppo
from playproof.train.run import read_result
from test_ppo import CONFIG, GAME, ROLLOUT, same

ASKED = replace(CONFIG, beginnings=3, beginning=0.4)
HALT = 3 * ROLLOUT
"""The first boundary at or after 40 % of six rollouts."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return train_best(GAME, ASKED, tmp_path_factory.mktemp("best") / "run")


def test_the_best_beginning_goes_on_as_if_it_had_been_alone(done: Result, tmp_path: Path) -> None:
    plan = json.loads((done.path / PLAN).read_text())
    profits = [told["profit"] for told in plan["begun"]]
    assert plan["chosen"] == profits.index(max(profits))
    seed = seed_of(ASKED, plan["chosen"])
    assert plan["begun"][plan["chosen"]]["seed"] == seed
    alone = train_ppo(GAME, replace(CONFIG, seed=seed), tmp_path / "alone")
    assert same(done.weights, alone.weights)
    assert done.best is not None
    assert done.best.is_relative_to(done.path)
    assert FOLDER not in done.best.parts
    assert read_result(done.path)["steps"] == ASKED.steps


def test_the_others_go_no_farther_than_the_decision(done: Result) -> None:
    steps = [read_result(done.path / FOLDER / str(number))["steps"] for number in range(3)]
    assert steps == [HALT] * 3
    assert len(given_up(done.path)) == 2
    assert len({seed_of(ASKED, number) for number in range(3)}) == 3


class Killed(Exception):
    """Stands for a kill: nothing is saved after it."""


@pytest.mark.parametrize("after", [4, 11])
def test_a_kill_anywhere_leads_to_the_same_weights(done: Result, after: int, tmp_path: Path) -> None:
    seen = 0

    def show(step: int, told: Mapping[str, Any]) -> None:
        nonlocal seen
        seen += "loss" in told
        if seen == after:
            raise Killed

    with pytest.raises(Killed):
        train_best(GAME, ASKED, tmp_path / "run", show=show)
    again = train_best(GAME, CONFIG, tmp_path / "run", resume=True)
    assert same(again.weights, done.weights)
    assert [vars(it) | {"seconds": 0} for it in given_up(again.path)] == [
        vars(it) | {"seconds": 0} for it in given_up(done.path)
    ]


def test_a_half_made_copy_is_made_again(done: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(place: Path, path: Path) -> None:
        (path / "log.jsonl").write_bytes((place / "log.jsonl").read_bytes()[:100])
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("playproof.train.beginnings._take_over", killed)
        with pytest.raises(Killed):
            train_best(GAME, ASKED, tmp_path / "run")
    assert same(train_best(GAME, ASKED, tmp_path / "run", resume=True).weights, done.weights)


def test_steps_are_counted_over_all_of_them(tmp_path: Path) -> None:
    told: list[int] = []
    train_best(GAME, ASKED, tmp_path / "run", show=lambda step, _: told.append(step))
    assert told == sorted(told)
    assert told[-1] == steps_of(ASKED) == ASKED.steps + 2 * HALT


def test_one_beginning_is_a_plain_training(done: Result, tmp_path: Path) -> None:
    alone = train_best(GAME, replace(ASKED, beginnings=1), tmp_path / "run")
    assert not (alone.path / PLAN).exists()
    assert given_up(alone.path) == ()
    assert same(train_best(GAME, ASKED, done.path, resume=True).weights, done.weights)


def test_what_was_begun_is_not_begun_anew(done: Result) -> None:
    with pytest.raises(ConfigError, match="--resume"):
        train_best(GAME, ASKED, done.path)
    with pytest.raises(ConfigError, match="beginning"):
        replace(ASKED, beginnings=0)
    with pytest.raises(ConfigError, match="beginning"):
        replace(ASKED, beginning=1.0)


def test_a_reward_that_fails_is_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []

    def fails(game: Any, reward: Any, config: PPOConfig) -> tuple[str, ...]:
        judged.append(config.seed)
        return ("R1",)

    monkeypatch.setattr("playproof.train.ppo.failing_checks", fails)
    made = train_best(coin.game(), replace(ASKED, steps=2 * ROLLOUT), tmp_path / "run", allow_failing_reward=True)
    assert len(judged) == 1
    assert made.table.failed_checks
