"""Everything one has: lists, runs, reports, and a trash from which things come back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from playproof.cli.app import main
from playproof.cli.output import console
from playproof.errors import ConfigError, UnknownName
from playproof.trash import discard, empty_trash, list_trash, restore

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "home"
    monkeypatch.setenv("PLAYPROOF_HOME", str(root))
    return root


def a_run(home: Path, name: str, seed: int = 1, **result: object) -> Path:
    from playproof.train.run import Run

    run = Run.create(home / "runs" / name, "ppo", {"world": "drift", "seed": seed})
    run.note("evaluation", 5_000, {"pnl": 12_000_000})
    run.close()
    if result:
        (home / "runs" / name / "result.json").write_text(json.dumps(result))
    return home / "runs" / name


def a_report(home: Path, name: str, policy: str, verdict: str) -> None:
    path = home / "reports" / name
    path.mkdir(parents=True)
    (path / "report.html").write_text("<p>report</p>")
    payload = {"policy": {"name": policy}, "data": {"name": "world drift"}, "verdict": verdict}
    (path / "report.json").write_text(json.dumps(payload))


def call(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code, capsys.readouterr()
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_everything_is_in_one_list(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_run(home, "first", best="step-5000")
    a_report(home, "validate-1", "first", "NO EDGE SHOWN")
    things = json.loads(call(capsys, "ls", "--json"))["things"]
    assert {(item["kind"], item["name"]) for item in things} == {("run", "first"), ("report", "validate-1")}
    assert [item["name"] for item in json.loads(call(capsys, "ls", "--kind", "run", "--json"))["things"]] == ["first"]
    assert "NO EDGE SHOWN" in call(capsys, "ls")
    assert "expected a kind among" in call(capsys, "ls", "--kind", "nonsense", code=1)


def test_a_home_that_is_not_there_is_not_an_empty_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "found nothing there" in call(capsys, "ls", code=1)
    home.mkdir()
    assert main(["ls"]) == 0
    assert "record something first" in capsys.readouterr().err


def test_runs_are_shown_compared_tagged_and_noted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_run(home, "first", seed=1, best="step-5000")
    a_run(home, "second", seed=2)
    (first, second) = json.loads(call(capsys, "runs", "ls", "--json"))["runs"]
    assert (first["coins"], first["steps"], first["result"]) == (0.012, 5_000, "best step-5000")
    assert second["result"] == "not ended"
    assert json.loads(call(capsys, "runs", "diff", "first", "second", "--json"))["differences"]["config.seed"] == [1, 2]
    call(capsys, "runs", "tag", "first", "keep", "odd [red]tag[/red]")
    call(capsys, "runs", "note", "first", "same seed, other stake")
    shown = json.loads(call(capsys, "runs", "show", "first", "--json"))
    assert shown["tags"] == ["keep", "odd [red]tag[/red]"]
    assert shown["notes"][0]["text"] == "same seed, other stake"
    assert "[red]" in call(capsys, "runs", "ls", "--tag", "keep"), "no markup is read in a tag"
    call(capsys, "runs", "tag", "first", "--", "-keep")
    assert json.loads(call(capsys, "runs", "ls", "--tag", "keep", "--json"))["runs"] == []
    assert "expected a tag of first" in call(capsys, "runs", "tag", "first", "--", "-keep", code=1)


def test_what_is_removed_comes_back(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_run(home, "first", best="x")
    before = sorted(item.relative_to(path) for item in path.rglob("*"))
    call(capsys, "runs", "rm", "first")
    assert not path.exists()
    assert "expected a known run" in call(capsys, "runs", "show", "first", code=1)
    call(capsys, "trash", "restore", "first")
    assert sorted(item.relative_to(path) for item in path.rglob("*")) == before
    assert list_trash() == []


def test_the_newest_of_a_name_comes_back_and_never_over_another(home: Path) -> None:
    a_run(home, "first", seed=1)
    discard(home / "runs" / "first", NOW)
    a_run(home, "first", seed=2)
    with pytest.raises(ConfigError, match="beside the trash"):
        restore("runs/first")
    discard(home / "runs" / "first", datetime(2026, 1, 2, 3, 5, tzinfo=UTC))
    assert '"seed": 2' in (restore("first") / "config.json").read_text()
    assert [item.label for item in list_trash()] == ["runs/first"]
    assert empty_trash() == 1
    with pytest.raises(UnknownName):
        restore("first")


@pytest.mark.parametrize("path", [".", "runs", "runs/first/checkpoints", "/etc/ssl"])
def test_only_things_of_the_home_are_thrown_away(home: Path, path: str) -> None:
    a_run(home, "first")
    with pytest.raises(ConfigError, match="two levels below"):
        discard(home / path, NOW)


def test_a_shelf_of_a_killed_removal_is_cleaned_up(home: Path) -> None:
    shelf = home / "trash" / "20260101T000000-1-runs-first"
    shelf.mkdir(parents=True)
    (shelf / "about.json").write_text("{}")
    assert list_trash() == []
    assert not shelf.exists()


def test_reports_are_listed_opened_and_removed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_report(home, "validate-1", "first", "NO EDGE SHOWN")
    assert call(capsys, "reports", "open", "first", "--no-browser").strip().endswith("validate-1/report.html")
    assert json.loads(call(capsys, "reports", "ls", "--json"))["reports"][0]["result"] == "NO EDGE SHOWN"
    assert "expected a known report" in call(capsys, "reports", "open", "nothing", "--no-browser", code=1)
    call(capsys, "reports", "rm", "validate-1")
    assert not (home / "reports" / "validate-1").exists()


@pytest.mark.parametrize("width", [80, 120])
def test_names_are_whole_in_every_width(home: Path, width: int) -> None:
    from playproof.cli.own.listing import OwnThing, table

    things = [
        OwnThing("report", "validate-d2fa1c643417-5cc8b3329a1d", "2026-01-01 10:00", "a policy on a world", "SUSPECT")
    ]
    shown = console(width=width)
    with shown.capture() as captured:
        shown.print(table(things))
    assert "validate-d2fa1c643417-5cc8b3329a1d" in captured.get()
    assert max(map(len, captured.get().splitlines())) <= width
