"""The record of a bench, and the command that runs benches."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from datetime import UTC, datetime
from pathlib import Path

import pytest

import benchmarks
import playproof
from benchmarks.report import BenchmarkReport, Goal, Measurement, markdown, number
from playproof.cli.app import run_app
from playproof.errors import ContractError, UnknownName
from playproof.provenance import commit

GOOD = BenchmarkReport("toy", (Measurement("speed", 12_345.6, "steps/s"),), (Goal.at_least("fast", 3.0, 2.0),), "abc")
BAD = BenchmarkReport("toy", (), (Goal.at_most("late", 3.0, 2.0),), "abc")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Put a bench called toy beside the known ones."""
    module = types.ModuleType("benchmarks.toy")
    module.run = GOOD.to_json  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.toy", module)
    monkeypatch.setattr(benchmarks, "NAMES", (*benchmarks.NAMES, "toy"))
    return module


def test_a_goal_knows_its_direction() -> None:
    assert Goal.at_least("x", 2.0, 2.0).met
    assert not Goal.at_least("x", 1.9, 2.0).met
    assert Goal.at_most("x", 2.0, 2.0).met
    assert not Goal.at_most("x", 2.1, 2.0).met
    assert not Goal.at_least("x", float("nan"), 2.0).met


def test_a_report_survives_json() -> None:
    data = json.loads(json.dumps(GOOD.to_json()))
    assert set(data) == {"bench", "commit", "results", "goals"}
    assert data["goals"] == [{"name": "fast", "value": 3.0, "goal": 2.0, "met": True}]
    assert BenchmarkReport.from_json(data) == GOOD


@pytest.mark.parametrize(
    "wrong", [{}, {**GOOD.to_json(), "results": [{"name": "x"}]}, {**GOOD.to_json(), "goals": None}]
)
def test_another_shape_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ContractError, match="expected bench, commit, results"):
        BenchmarkReport.from_json(wrong)


def test_the_commit_is_that_of_the_checkout(project: Path) -> None:
    command = ["git", "-C", str(project), "rev-parse", "HEAD"]
    git = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = git.stdout.strip() if git.returncode == 0 else playproof.__version__
    assert commit().removesuffix("-dirty") == expected


def test_without_a_checkout_the_version_stands_for_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__init__.py").touch()
    monkeypatch.setattr(playproof, "__file__", str(tmp_path / "__init__.py"))
    assert commit() == playproof.__version__


def test_a_package_that_a_foreign_checkout_ignores_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "__init__.py").touch()
    monkeypatch.setattr(playproof, "__file__", str(tmp_path / "venv" / "__init__.py"))
    assert commit() == playproof.__version__


def test_numbers_are_short() -> None:
    assert [number(value) for value in (12_345_678.9, 1000, 999.96, 0.012345, -2000.0)] == [
        "12,345,679", "1,000", "1000", "0.01235", "-2,000",
    ]  # fmt: skip


def test_the_command_prints_the_report(toy: types.ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(benchmarks.app, "benchmarks", ["toy", "--json"]) == 0
    assert BenchmarkReport.from_json(json.loads(capsys.readouterr().out)) == GOOD
    assert run_app(benchmarks.app, "benchmarks", ["toy"]) == 0
    out = capsys.readouterr().out
    assert "12,346" in out
    assert "yes" in out


def test_a_missed_goal_is_exit_code_2(toy: types.ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    toy.run = BAD.to_json
    assert run_app(benchmarks.app, "benchmarks", ["toy", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["goals"][0]["met"] is False


def test_an_unknown_bench_names_the_known_ones(toy: types.ModuleType) -> None:
    with pytest.raises(UnknownName, match="toy"):
        benchmarks.load("bogus")


def test_all_benches_write_the_page(
    toy: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = {"one": GOOD, "two": BAD}
    monkeypatch.setattr(benchmarks, "NAMES", tuple(reports))
    monkeypatch.setattr(benchmarks, "run_apart", reports.__getitem__)
    output = tmp_path / "docs" / "benchmarks.md"
    assert run_app(benchmarks.app, "benchmarks", ["--json", "--output", str(output)]) == 2
    assert [load["bench"] for load in json.loads(capsys.readouterr().out)["benches"]] == ["toy", "toy"]
    assert output.read_text().count("## toy") == 2


def test_the_page_says_when_where_and_at_which_commit() -> None:
    text = benchmarks.page([GOOD], datetime(2025, 3, 1, tzinfo=UTC))
    assert "2025-03-01" in text
    assert "commit abc" in text
    assert benchmarks.machine() in text
    assert markdown(GOOD) in text


def test_every_registered_bench_can_be_found() -> None:
    for name in benchmarks.NAMES:
        assert callable(benchmarks.load(name)), name
