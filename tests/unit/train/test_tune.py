"""Searching settings: pruned, resumable, shared by workers, and all of it in the trial ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playproof.errors import ConfigError, ContractError
from playproof.evaluate.rollout import Score
from playproof.evaluate.trials import trials
from playproof.parallel import LocalEngine
from playproof.store.db import connect
from playproof.train.trainers import SPACES, TRAINERS, hash_of
from playproof.train.tuning import Axis, Report, Search, Settings, TrialResult, results, tune

CALLS: list[Settings] = []
BREAK = {"at": -1}


def hill(settings: Settings, seed: int, report: Report, options: Mapping[str, Any]) -> TrialResult:
    """Earn most at x = 3; poor settings show at once."""
    CALLS.append(settings)
    if len(CALLS) == BREAK["at"]:
        raise KeyboardInterrupt
    x = float(settings["x"])
    worth = -((x - 3.0) ** 2) / 100
    for step in range(3):
        report(step, worth)
    pnl = round(worth * 10**6)
    return TrialResult(Score("hill", ("a", "b"), (pnl, pnl), (1, 1), 10**7), f"{x:.12f}", "toy")


@pytest.fixture
def search(tmp_path: Path) -> Search:
    CALLS.clear()
    BREAK["at"] = -1
    return Search(
        "hills",
        "test_tune:hill",
        {"x": Axis("float", -10.0, 10.0), "y": Axis("choice", choices=("a", "b"))},
        9,
        tmp_path / "study.db",
        f"sqlite:///{tmp_path}/ledger.db",
        startup=3,
    )


def test_finds_the_hill_and_prunes(search: Search) -> None:
    result = tune(search)
    assert len(result) == 9
    assert abs(result[0]["settings"]["x"] - 3.0) < 5.0
    assert {trial["state"] for trial in result} == {"complete", "pruned"}
    assert result[0]["worth"] == max(item["worth"] for item in result if item["worth"] is not None)


def test_every_finished_trial_is_in_the_ledger(search: Search) -> None:
    result = tune(search)
    kept = trials(connect(url=search.ledger))
    complete = [trial for trial in result if trial["state"] == "complete"]
    assert {trial.trial_id for trial in kept} == {trial["trial_id"] for trial in complete}
    assert {(trial.family, trial.kind, trial.split) for trial in kept} == {("tune:hills", "validation", "validation")}


def test_a_stopped_search_goes_on(search: Search) -> None:
    BREAK["at"] = 5
    with pytest.raises(KeyboardInterrupt):
        tune(search)
    before = results(search)
    assert len(before) == 4
    result = tune(search)
    assert len(result) == 9
    assert {trial["number"] for trial in before} <= {trial["number"] for trial in result}
    calls = len(CALLS)
    assert tune(search) == result
    assert len(CALLS) == calls


def test_workers_share_the_study(search: Search) -> None:
    result = tune(replace(search, trials=6), LocalEngine(2), workers=2)
    assert len(result) == 6


def test_axes_are_read_and_refused() -> None:
    assert Axis.parse("log:1e-4:1e-2") == Axis("log", 1e-4, 1e-2)
    assert Axis.parse("choice:1:x:0.5").choices == (1, "x", 0.5)
    for text in ("log:0:1", "float:2:1", "between:1:2", "int:1", "choice"):
        with pytest.raises(ConfigError, match="expected a range"):
            Axis.parse(text)


def test_a_trainer_that_is_not_there_is_named(search: Search) -> None:
    with pytest.raises(ContractError, match="module:function"):
        tune(replace(search, trainer="test_tune:nowhere"))


def test_every_method_has_a_trainer_and_a_space() -> None:
    from importlib import import_module

    for name, text in TRAINERS.items():
        module, _, attribute = text.partition(":")
        assert callable(getattr(import_module(module), attribute))
        assert SPACES[name]


def test_predictor_is_tuned_in_money(search: Search) -> None:
    options = {"game": "crash", "world": "hazard", "stake": 10**8, "windows": 40, "rounds": 60, "config": {"trees": 10}}
    asked = replace(search, trainer=TRAINERS["sidebet"], space={"leaves": Axis("int", 2, 4)}, options=options, trials=2)
    result = tune(asked)
    assert len(result) == 2
    kept = trials(connect(url=search.ledger))
    assert all(len(trial.pnl) == 40 for trial in kept)


def test_policies_are_told_apart() -> None:
    assert hash_of("a") != hash_of("b")
