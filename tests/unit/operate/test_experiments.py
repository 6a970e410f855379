"""Experiments: registered before they start, units in their order, endings that no look changes, three modes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models_kit import NOW, Clock, linear_policy
from sqlalchemy import Engine, insert

from playproof.cli.app import main
from playproof.errors import ConfigError, ContractError, InputError, UnknownName
from playproof.evaluate.trials import trials
from playproof.game import load_game
from playproof.money import UNIT
from playproof.operate.experiments.feeds import agent_units, arm_unit, forked_units
from playproof.operate.experiments.ledger import ExperimentLedger
from playproof.operate.experiments.page import experiment_json, experiment_page
from playproof.operate.experiments.plan import ExperimentArm, ExperimentPlan, ExperimentUnit, differences
from playproof.stats.assignment import assign_arm
from playproof.store.db import AgentRow, Trajectory, connect, upgrade, writing

A, B = ExperimentArm("m:1", "a" * 64, "x"), ExperimentArm("m:2", "b" * 64, "y")
PLAN = ExperimentPlan(
    name="exp",
    mode="shadow",
    game="crash",
    a=A,
    b=B,
    loss_limit=100 * UNIT,
    gain_cap=50 * UNIT,
    margin=UNIT,
    budget=300,
)


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, home: Path) -> Iterator[Engine]:
    url = f"sqlite:///{home / 'x.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres").new()
    engine = connect(url=url)
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def ledger(engine: Engine) -> ExperimentLedger:
    return ExperimentLedger(engine, Clock())


def pairs(a: float, b: float, count: int, seed: int = 1, start: int = 0) -> list[ExperimentUnit]:
    """Draw what two earned in the same windows, their luck shared."""
    rng = np.random.default_rng(seed)
    luck, own = rng.normal(0, 10, count), rng.normal(0, 3, (2, count))
    return [
        ExperimentUnit(
            f"w{start + at}", round((a + luck[at] + own[0, at]) * UNIT), round((b + luck[at] + own[1, at]) * UNIT)
        )
        for at in range(count)
    ]


def test_what_counts_is_fixed_before_it_starts(ledger: ExperimentLedger) -> None:
    first = ledger.register(PLAN)
    assert first.plan == PLAN
    assert ledger.register(PLAN) == first
    with pytest.raises(ConfigError, match="another name"):
        ledger.register(replace(PLAN, margin=2 * UNIT))
    with pytest.raises(UnknownName, match="exp"):
        ledger.find("nobody")
    assert [item.plan.name for item in ledger.all()] == ["exp"]


def test_looks_are_free_and_the_first_ending_stands(ledger: ExperimentLedger) -> None:
    ledger.register(PLAN)
    units = pairs(12.0, 0.0, 200)
    looked = []
    for start in range(0, 200, 5):
        ledger.add("exp", units[start : start + 5])
        looked.append(ledger.look("exp"))
    ended = looked[-1].ended
    assert ended is not None
    assert looked[-1].ending == "A better"
    assert {look.ended for look in looked} == {None, ended}
    experiment = ledger.find("exp")
    assert (experiment.ending, experiment.why) == ("A better", f"after {ended} units")
    assert ledger.add("exp", pairs(0.0, 50.0, 10, start=500)) == 0
    both = trials(ledger.engine, family="experiment exp")
    assert {trial.policy_hash for trial in both} == {A.policy_hash, B.policy_hash}
    assert all(len(trial.windows) == ended for trial in both)

    once = ExperimentLedger(ledger.engine, Clock())
    once.register(replace(PLAN, name="once"))
    once.add("once", units)
    assert once.look("once").ended == ended


def test_units_count_once_and_keep_their_order(ledger: ExperimentLedger) -> None:
    ledger.register(PLAN)
    units = pairs(0.0, 0.0, 20)
    assert ledger.add("exp", units[:10]) == 10
    assert ledger.add("exp", [*units[5:15], units[12]]) == 5
    assert ledger.units("exp") == tuple(units[:15])


def test_limits_that_were_not_kept_refute_the_experiment(ledger: ExperimentLedger) -> None:
    ledger.register(PLAN)
    ledger.add("exp", pairs(0.0, 0.0, 3))
    with pytest.raises(InputError, match="lose more than 100"):
        ledger.add("exp", [ExperimentUnit("x", -101 * UNIT, 0)])
    assert len(ledger.units("exp")) == 3
    capped = differences(PLAN, [ExperimentUnit("x", 700 * UNIT, -100 * UNIT)])
    assert capped.tolist() == [150.0]
    with pytest.raises(ContractError, match="both profits"):
        differences(PLAN, [ExperimentUnit("x", 1, None)])


def test_stopping_by_hand_shows_nothing_and_counts(ledger: ExperimentLedger) -> None:
    ledger.register(PLAN)
    ledger.add("exp", pairs(0.1, 0.0, 20))
    with pytest.raises(InputError, match="reason"):
        ledger.stop("exp", " ")
    ledger.stop("exp", "enough")
    experiment = ledger.find("exp")
    assert (experiment.ending, experiment.why) == ("stopped", "enough")
    assert len(trials(ledger.engine, family="experiment exp")) == 2


def test_a_split_weighs_each_unit_by_its_arm() -> None:
    split = replace(PLAN, mode="split", share=0.25)
    rng = np.random.default_rng(4)
    units = [
        arm_unit(split, f"w{number}", int(rng.normal(8, 20) * UNIT), int(rng.normal(3, 20) * UNIT))
        for number in range(40_000)
    ]
    capped = 5.0 - 0.25  # the cap of 50 takes a little of the better arm
    assert differences(split, units).mean() == pytest.approx(capped, abs=0.8)
    assert split.bound == 400 * UNIT
    wrong = ExperimentUnit("w1", *((None, 1) if units[1].pnl_b is None else (1, None)))
    with pytest.raises(ContractError, match="its hash"):
        differences(split, [wrong])
    with pytest.raises(ContractError, match="one arm"):
        differences(split, [ExperimentUnit("w1", 1, 1)])


def test_plans_that_make_no_sense_are_refused() -> None:
    wrong: list[dict[str, Any]] = [
        {"name": "../x"},
        {"mode": "both"},
        {"b": A},
        {"loss_limit": 0},
        {"share": 0.0},
        {"budget": 0},
        {"margin": 400 * UNIT},
    ]
    for change in wrong:
        with pytest.raises(InputError, match="expected"):
            replace(PLAN, **change)


def test_an_agent_counts_once(engine: Engine) -> None:
    split = replace(PLAN, mode="split")
    with writing(engine) as connection:
        for number in range(4):
            connection.execute(insert(AgentRow).values(agent_id=f"agent{number}", created_at=NOW))
            for window in range(3):
                values = {
                    "trajectory_id": f"t{number}{window}",
                    "agent_id": f"agent{number}",
                    "window_id": f"w{window}",
                    "window_hours": 1,
                    "scenario_id": "s",
                    "start_time": NOW + timedelta(hours=window),
                    "end_time": NOW + timedelta(hours=window + 1),
                    "episode_length": 1,
                    "final_status": "completed",
                    "final_pnl": (10 * number + window) * UNIT,
                    "is_training_data": False,
                    "is_evaluation": False,
                    "used_in_training": False,
                    "created_at": NOW,
                }
                connection.execute(insert(Trajectory).values(**values))
    units = agent_units(split, engine, NOW + timedelta(minutes=30))
    assert len(units) == 4
    for unit in units:
        number = int(unit.unit[5:])
        is_b = assign_arm("exp", unit.unit) == "b"
        assert (unit.pnl_b if is_b else unit.pnl_a) == (10 * number + 1) * UNIT
        assert (unit.pnl_a if is_b else unit.pnl_b) is None
    assert len(differences(split, units)) == 4


def test_forks_see_the_arenas_edge_within_60_windows() -> None:
    """The informed player in clear windows: its order limits change nothing it does, and make its edge plain."""
    plan = replace(
        PLAN,
        mode="forks",
        game="arena",
        a=ExperimentArm("informed", "a" * 64, "informed"),
        b=ExperimentArm("wait", "b" * 64, "wait"),
        on="clear",
        loss_limit=600 * UNIT,
        gain_cap=600 * UNIT,
        budget=60,
        seed=3,
        options={"leverage": 5, "decisions": 4, "prompt": "short", "max_tokens": 9},
    )
    from playproof.stats.sequential import bankroll

    chunks = list(forked_units(plan, load_game("arena")))
    units = [unit for chunk in chunks for unit in chunk]
    assert len(units) == len({unit.unit for unit in units}) == 60
    assert all(unit.pnl_b == 0 for unit in units)
    returns = np.array([unit.pnl_a for unit in units]) / plan.loss_limit
    assert (bankroll(np.minimum(returns, 1.0)) >= np.log(20)).any()
    again = list(forked_units(plan, load_game("arena"), 56))
    assert [unit for chunk in again for unit in chunk] == units[56:]


def test_commands(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str, code: int = 0) -> Any:
        assert main(["ab", *words]) == code
        output = capsys.readouterr()
        return json.loads(output.out) if "--json" in words else output.out + output.err

    start = ["start", "one", "--a", "wait", "--b", "hold-40", "--on", "drift", "--loss", "0.002", "--budget", "200"]
    first = run(*start, "--units", "40", "--json")
    assert (first["ending"], first["units"]) == ("go on", 40)
    done = run(*start, "--json")
    assert done["ending"] in ("A better", "budget used")
    assert done["units"] > 40
    assert done["difference"] > 0
    page = Path(done["report"]).read_text()
    assert "naive p-value" in page
    assert "CONFIDENCE" not in page
    assert json.loads((Path(done["report"]).parent / "report.json").read_text())["units"] == done["units"]
    assert run("report", "one", "--json")["sentence"] == done["sentence"]
    assert "another name" in run(*start, "--margin", "0.001", code=1)

    for number in (1, 2):
        linear_policy(tmp_path / f"p{number}", 1, number)
        assert main(["models", "add", str(tmp_path / f"p{number}"), "--name", "m"]) == 0
    capsys.readouterr()
    split = ["start", "parts", "--a", "m:1", "--b", "m:2", "--mode", "split", "--on", "drift", "--budget", "64"]
    assert run(*split, "--register-only", "--json")["units"] == 0
    assert main(["serve", "--experiment", "parts", "--port", "0", "--seconds", "0.2"]) == 0
    assert main(["serve", "--experiment", "one", "--port", "0"]) == 1
    assert main(["serve", "--port", "0"]) == 1
    capsys.readouterr()
    stopped = run("stop", "parts", "--why", "enough", "--json")
    assert stopped["ending"] == "stopped"
    assert "2 experiments" in run("status")
    assert [item["name"] for item in run("status", "--json")["experiments"]] == ["one", "parts"]
    assert "same files" in run("start", "x", "--a", "m:1", "--b", "m:1", "--on", "drift", code=1)
    assert "shadow" in run("start", "x", "--a", "m:1", "--b", "m:2", "--mode", "other", code=1)
    assert "nine decimals" in run("start", "x", "--a", "m:1", "--b", "m:2", "--margin", "1e-10", code=1)


def test_a_page_of_every_ending(home: Path) -> None:
    engine = connect(url=f"sqlite:///{home / 'x.db'}")
    upgrade(engine)
    ledger = ExperimentLedger(engine, Clock())
    cases = {"a": (12.0, 0.0), "b": (0.0, 12.0), "same": (0.0, 0.0)}
    for name, (a, b) in cases.items():
        plan = replace(PLAN, name=name, margin=4 * UNIT)
        ledger.register(plan)
        ledger.add(name, pairs(a, b, 300))
        verdict = ledger.look(name)
        experiment = ledger.find(name)
        payload = experiment_json(experiment, verdict)
        assert payload["ending"] == {"a": "A better", "b": "B better", "same": "equal"}[name]
        page = experiment_page(experiment, ledger.units(name), verdict)
        assert str(payload["sentence"]) in page.replace("&#39;", "'")
    ledger.register(replace(PLAN, name="new"))
    assert "GO ON" in experiment_page(ledger.find("new"), (), ledger.look("new"))
    engine.dispose()
