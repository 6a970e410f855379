"""Finding things by name: runs for every command, choices for ambiguous names, the nearest for unknown ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from playproof.cli.app import main
from playproof.cli.targets import (
    choose_game,
    find_data,
    find_model,
    find_policy,
    find_run,
    game_of,
    language_game,
    nearest,
    simulated_game,
)
from playproof.errors import ConfigError, InputError, UnknownName

PLAY = ["--game", "crash", "--world", "published", "--player", "human", "--rounds", "10"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def make_run(path: Path) -> Path:
    checkpoint = path / "checkpoints" / "000000000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "checkpoint.json").write_text("{}")
    (path / "config.json").write_text("{}")
    return checkpoint


def test_a_name_of_a_run_and_of_a_baseline_is_refused_with_both(home: Path) -> None:
    checkpoint = make_run(home / "runs" / "hold-40")
    with pytest.raises(ConfigError, match=r"runs/hold-40, baseline:hold-40"):
        find_policy("hold-40")
    assert find_policy("baseline:hold-40") == "hold-40"
    assert find_policy(str(home / "runs" / "hold-40")) == str(checkpoint)


def test_a_name_of_two_runs_is_refused_with_both(home: Path, tmp_path: Path) -> None:
    make_run(home / "runs" / "first")
    here = make_run(tmp_path / "first")
    for find in (find_run, find_policy, find_model):
        with pytest.raises(ConfigError, match=r"stands for one thing, found 'first'.*/first, .*home/runs/first"):
            find("first")
    assert Path(find_policy("./first")).resolve() == here


def test_an_unknown_run_is_answered_with_the_nearest(home: Path) -> None:
    for number in range(20):
        make_run(home / "runs" / f"ppo-{number}")
    make_run(home / "runs" / "clone")
    with pytest.raises(UnknownName, match="clone"):
        find_run("clonn")
    with pytest.raises(UnknownName, match="clone"):
        game_of(["clonn"])
    assert nearest("clonn", ["a", "clone"]) == ["a", "clone"]
    assert nearest("clonn", [*map(str, range(20)), "clone"])[0] == "clone"


def test_the_folder_of_a_model_is_no_run(home: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert find_model("model") == "model"
    assert find_model("smollm2") == "smollm2"
    checkpoint = make_run(home / "runs" / "taught")
    assert find_model("taught") == str(checkpoint)


def test_a_game_is_chosen_by_what_it_can(home: Path) -> None:
    assert language_game(None).name == "arena"
    assert simulated_game("crash").name == "crash"
    with pytest.raises(ConfigError, match=r"expected one game that flies, found none; choose with --game"):
        choose_game(None, lambda _: False, "flies")
    with pytest.raises(ConfigError, match=r"expected one game that exists, found arena, crash"):
        choose_game(None, lambda _: True, "exists")
    with pytest.raises(ConfigError, match="found 'crash', which cannot"):
        language_game("crash")


def test_of_data_sets_with_one_name_the_newest_is_taken_and_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for digits in ("aaaa", "bbbb"):
        path = home / "datasets" / f"mine@{digits}"
        path.mkdir(parents=True)
        (path / "manifest.json").write_text(json.dumps({"name": "mine", "hash": digits}))
    assert find_data("mine").name == "mine@bbbb"
    assert "2 data sets are called mine" in capsys.readouterr().err
    assert find_data("mine@a").name == "mine@aaaa"
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match="mine@aaaa"):
        find_data("yours")


def test_validate_compare_replay_and_serve_take_the_name_of_a_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--epochs", "1", "--hidden", "4", "--name", "clone", "--json"]
    assert main(["train", "bc", *PLAY, *small]) == 0
    capsys.readouterr()
    few = ["--rounds", "20", "--json"]
    assert main(["validate", "clone", *few]) in (0, 2)
    assert result(capsys)["policy"]["name"].startswith("bc")
    assert main(["compare", "clone", "wait", *few]) == 0
    assert Path(result(capsys)["page"]).exists()
    assert main(["replay", "clone", "--show", "2", *few]) == 0
    assert result(capsys)["episodes"]
    served: list[str] = []

    def prepare(checkpoint: str, *_: Any) -> None:
        served.append(checkpoint)
        raise InputError("enough")

    monkeypatch.setattr("playproof.serve.serving.prepare", prepare)
    assert main(["serve", "clone"]) == 1
    assert served == [str(home / "runs" / "clone" / "checkpoints" / "000000000001")]


def result(capsys: pytest.CaptureFixture[str]) -> Mapping[str, Any]:
    payload: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    return payload
