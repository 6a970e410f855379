"""The trial ledger: a look counts once, whoever chose among many pays for it, the command shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine

from playproof.cli.app import main
from playproof.errors import InputError
from playproof.evaluate.rollout import Score
from playproof.evaluate.trials import Trial, aligned, overlapping, record_trial, trial_of, trials, weigh_selection
from playproof.store.db import connect, upgrade

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STAKE = 100


def look(policy: str = "p", indices: range = range(100), **changes: object) -> Trial:
    rng = np.random.default_rng([*policy.encode(), indices.start])
    pnl = tuple(int(integer) for integer in rng.integers(-50, 51, size=len(indices)))
    made = Trial("family", policy, "data", "test", "test", NOW, tuple(f"w{n:04d}" for n in indices), pnl, STAKE)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def ledger(home: Path) -> Engine:
    engine = connect(home)
    upgrade(engine)
    return engine


class TestLedger:
    def test_a_look_comes_back_as_it_went_in(self, ledger: Engine) -> None:
        trial = look(result={"verdict": "NO EDGE SHOWN"}, origin="validate")
        assert record_trial(ledger, trial)
        assert trials(ledger) == (trial,)

    def test_the_same_policy_on_the_same_data_counts_once(self, ledger: Engine) -> None:
        first = look()
        later = look(created_at=NOW + timedelta(days=1), origin="again")
        assert record_trial(ledger, first)
        assert not record_trial(ledger, later)
        assert trials(ledger) == (first,)
        assert record_trial(ledger, look(data_hash="other"))
        assert record_trial(ledger, look(split="validation", kind="validation"))
        assert len(trials(ledger)) == 3

    def test_they_can_be_asked_for(self, ledger: Engine) -> None:
        for number in range(4):
            record_trial(
                ledger,
                look(
                    f"p{number}",
                    family="odd" if number % 2 else "even",
                    kind="test" if number > 1 else "validation",
                    created_at=NOW + timedelta(minutes=4 - number),
                ),
            )
        assert [trial.policy_hash for trial in trials(ledger)] == ["p3", "p2", "p1", "p0"]
        assert [trial.policy_hash for trial in trials(ledger, family="odd", kind="test")] == ["p3"]
        assert trials(ledger, data_hash="unknown") == ()

    def test_a_score_becomes_a_trial(self) -> None:
        score = Score("x", ("a", "b"), (5, -7), (1, 1), STAKE)
        trial = trial_of(
            score, family="f", policy_hash="p", data_hash="d", split="test", kind="test", now=NOW, origin="test"
        )
        assert trial.roi == pytest.approx(score.roi)
        assert trial.returns == pytest.approx(score.returns)

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(InputError, match="a profit for each"):
            look(pnl=(1,))
        with pytest.raises(InputError, match="kind of trial"):
            look(kind="train")


class TestSelection:
    def test_all_that_share_windows_are_reached(self) -> None:
        one, two, three = look("1", range(10)), look("2", range(8, 20)), look("3", range(19, 30))
        apart, looked = look("4", range(40, 50)), look("5", range(10), kind="validation")
        result = overlapping(one, [one, two, three, apart, looked])
        assert {item.policy_hash for item in result} == {"1", "2", "3"}
        assert result[0] is one

    def test_windows_are_laid_side_by_side(self) -> None:
        one, two = look("1", range(3)), look("2", range(2, 5))
        windows, table = aligned([one, two])
        assert windows == ("w0000", "w0001", "w0002", "w0003", "w0004")
        assert table[:, 0] == pytest.approx([*one.returns, 0, 0])
        assert table[:, 1] == pytest.approx([0, 0, *two.returns])

    def test_the_best_of_many_is_nothing_and_an_edge_is_something(self) -> None:
        rng = np.random.default_rng(1)
        many = [
            look(f"p{n}", range(400), pnl=tuple(int(item) for item in rng.normal(0, 30, size=400))) for n in range(40)
        ]
        best = max(many, key=lambda item: item.roi)
        lucky = weigh_selection(best, many, seed=1, draws=300)
        assert lucky.superior.p > 0.05
        assert lucky.deflated.probability < 0.95
        assert lucky.looks == {"test": 40}
        assert lucky.overfit is not None
        skilled = replace(best, policy_hash="skilled", pnl=tuple(int(item) for item in rng.normal(12, 30, size=400)))
        real = weigh_selection(skilled, [*many, skilled], seed=1, draws=300)
        assert real.superior.p < 0.02
        assert real.deflated.probability > 0.95

    def test_validation_looks_of_the_family_count_too(self) -> None:
        rng = np.random.default_rng(2)
        names = tuple(f"v{n:04d}" for n in range(100))
        tries = [
            look(
                f"t{n}", kind="validation", windows=names, pnl=tuple(int(item) for item in rng.normal(0, 30, size=100))
            )
            for n in range(25)
        ]
        foreign = [replace(item, family="other", policy_hash=f"o{n}") for n, item in enumerate(tries)]
        candidate = look("chosen", pnl=tuple(int(item) for item in rng.normal(7, 30, size=100)))
        alone = weigh_selection(candidate, [candidate], seed=1, draws=200)
        among = weigh_selection(candidate, [*tries, *foreign, candidate], seed=1, draws=200)
        assert (alone.deflated.trials, among.deflated.trials) == (1, 26)
        assert among.looks == {"validation": 25, "test": 1}
        assert among.deflated.probability < alone.deflated.probability


class TestCommand:
    def test_it_lists_the_looks(self, ledger: Engine, capsys: pytest.CaptureFixture[str]) -> None:
        record_trial(ledger, look("abc", origin="validate"))
        record_trial(ledger, look("def", kind="validation", split="validation"))
        assert main(["trials", "ls", "--json"]) == 0
        payload = json.loads(capsys.readouterr().out)
        assert payload["counts"] == {"validation": 1, "test": 1}
        assert {row["policy_hash"] for row in payload["trials"]} == {"abc", "def"}
        assert payload["trials"][0]["windows"] == 100
        assert main(["trials", "ls", "--kind", "test"]) == 0
        shown = capsys.readouterr().out
        assert "abc" in shown
        assert "def" not in shown

    def test_an_empty_home_has_none(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["trials", "ls", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["trials"] == []

    def test_a_wrong_kind_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["trials", "ls", "--kind", "train"]) == 1
        assert "validation" in capsys.readouterr().err
