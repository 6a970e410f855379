"""The public surface: small, sorted, documented, and usable from end to end; results show themselves in notebooks."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import recordings as r

import playproof
from playproof.errors import ConfigError, PlayproofError


def test_the_surface_is_small_sorted_and_documented() -> None:
    names = playproof.__all__
    assert names == sorted(names)
    assert len(names) <= 15
    for name in set(names) - {"__version__"}:
        assert inspect.getdoc(getattr(playproof, name)), name
    assert dir(playproof) == names


def test_importing_the_package_stays_light() -> None:
    program = (
        "import sys, playproof; print(sorted({'numba', 'torch', 'polars', 'pyarrow', 'typer'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bogus'"):
        playproof.bogus  # noqa: B018


def test_environments_are_made_by_the_games_name() -> None:
    env = playproof.make_env("crash", world="published")
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    many = playproof.make_env("crash", num_envs=3)
    rows, _ = many.reset(seed=1)
    assert len(rows) == 3


def test_a_training_gives_a_run_whose_policy_can_be_loaded_and_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path))
    run = playproof.train_policy(
        "bc", "clone", game="crash", world="published", player="human", rounds=12, settings={"epochs": 2}
    )
    assert run.path == tmp_path / "runs" / "clone"
    assert run.report.is_file()
    assert hasattr(run.policy(), "act")
    assert hasattr(playproof.load_policy("clone"), "act")
    assert "Run clone" in run._repr_html_()
    seen = playproof.validate_policy("clone", world="published", rounds=40)
    assert seen.verdict.name != "EDGE SHOWN"
    assert seen.verdict.sentence[:20] in seen._repr_html_()
    with pytest.raises(ConfigError, match="either data or world"):
        playproof.validate_policy("clone", world="published", data="demo")
    with pytest.raises(PlayproofError, match="epochs"):
        playproof.train_policy("bc", "other", game="crash", world="published", player="human", settings={"epoch": 2})


def test_a_store_and_a_data_set_are_opened_by_home_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from playproof.datasets import DatasetConfig, build
    from playproof.store import EventLog

    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path))
    game = r.crash()
    with EventLog.open(tmp_path, game.columns) as log:
        log.append(r.decoded(game.recording().sample()))
    store = playproof.open_store()
    assert next(iter(store.events())).session_id
    config = DatasetConfig("mine", "policy", "buttons", "minimal", shares={"train": 1.0}, gap=0)
    build(game, store, config, tmp_path)
    dataset = playproof.load_dataset("mine")
    assert dataset.windows("train")
    shown = dataset._repr_html_()
    assert "mine" in shown
    assert dataset.manifest["hash"] in shown


def test_trajectories_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path))
    with playproof.record_trajectories("arena") as recorder:
        identity = recorder.start_trajectory("alice")
        recorder.end_trajectory(identity)
    assert identity


def test_notebook_tables_escape_what_they_show() -> None:
    from playproof.notebook import facts_table

    shown = facts_table("<b>", {"<i>": "<script>", "long": "x" * 500, "number": 0.123456789})
    assert "<script>" not in shown
    assert "0.123457" in shown
    assert "x" * 200 not in shown
