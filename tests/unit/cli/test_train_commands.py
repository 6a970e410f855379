"""The train commands as a user meets them: what they refuse, what they leave behind, and going on after Ctrl-C."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from playproof.cli.app import LazyCommand, main
from playproof.cli.configs import Settings, change
from playproof.cli.train.group import GROUP
from playproof.errors import ConfigError
from playproof.reports.page import PageSection, PageTable
from playproof.reports.run import likeness_tables
from playproof.train.config import BcConfig, CqlConfig, IqlConfig, RugPredictorConfig, TreesConfig
from playproof.train.language.config import GRPOConfig, SFTConfig
from playproof.train.ppo.config import PPOConfig

PLAY = ["--game", "crash", "--world", "published", "--player", "human", "--rounds", "10"]
SMALL = ["--set", "epochs=2", "--set", "hidden=[4]"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["bc"], "either --dataset or --world"),
        (["bc", "--world", "published", "--game", "crash"], "expected --player"),
        (["bc", "--world", "mars", "--player", "human", "--game", "crash"], "'mars'"),
        (["bc", "--dataset", "nothing"], "'nothing'"),
        (["bc", *PLAY, "--set", "epochs=x"], "epochs=30"),
        (["bc", *PLAY, "--model", "forest"], "network or trees"),
        (["bc", "--resume"], "config.json"),
        (["cql", "--resume"], "config.json"),
        (["iql", *PLAY, "--set", "alpha=1"], "expectile"),
        (["sidebet", "--game", "crash", "--world", "hazard", "--set", "leaves=1"], "at least 2 leaves"),
        (["tune", "nonsense", "--world", "hazard", "--game", "crash"], "among"),
        (["tune", "cql", "--world", "mars", "--game", "crash"], "'mars'"),
        (["tune", "cql", "--world", "drift", "--game", "crash", "--axis", "alpha=log:0:1"], "log:LOW:HIGH"),
        (["ensemble", "--policy", "none", "--predictor", "none"], "checkpoint.json"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing_behind(
    words: list[str], text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words, "--name", "run"]) == 1
    assert text in capsys.readouterr().err
    assert not (home / "runs" / "run" / "config.json").exists()


def test_a_clone_goes_on_after_ctrl_c_to_the_same_weights(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import playproof.cli.train.bc as command

    def stopping(total: int) -> tuple[Any, Any]:
        bar, moved = bars(total)

        def stop(epoch: int, losses: Any) -> None:
            moved(epoch, losses)
            if epoch == 1:
                raise KeyboardInterrupt

        return bar, stop

    bars = command.epochs_bar
    assert main(["train", "bc", *PLAY, *SMALL, "--name", "whole", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(command, "epochs_bar", stopping)
    assert main(["train", "bc", *PLAY, *SMALL, "--name", "broken"]) == 130
    assert "--resume goes on" in capsys.readouterr().err
    monkeypatch.setattr(command, "epochs_bar", bars)
    assert main(["train", "bc", "--name", "broken", "--resume", "--json"]) == 0
    broken = json.loads(capsys.readouterr().out)
    weights = [(Path(item["checkpoint"]) / "weights.safetensors").read_bytes() for item in (whole, broken)]
    assert weights[0] == weights[1]
    assert broken["heads"] == whole["heads"]
    text = (home / "runs" / "whole" / "report.html").read_text()
    assert "How well it knows the player" in text
    for head in whole["heads"]:
        assert f"Balanced accuracy {head['balanced']:.3f} over" in text
        for name, precision in zip(head["choices"], head["precision"], strict=True):
            shares = whole["mix"].get(name, (None, None))
            cells = ["-" if item is None else f"{item:.3f}" for item in (*shares, precision)]
            row = "".join(f'<td class="n">{cell}</td>' for cell in cells)
            assert f'<th scope="row">{name}</th>{row}' in text
    assert "confusion" not in text.split("<h1>")[1]  # nothing is printed as the program keeps it
    assert "Money on validation windows" not in text  # a clone plays none
    assert main(["train", "bc", *PLAY, "--name", "whole"]) == 1
    assert "--resume" in capsys.readouterr().err


def test_settings_keep_their_kind() -> None:
    assert change(BcConfig(), ["hidden=[8, 4]", "dropout=0", "watched=[]"]).hidden == (8, 4)
    assert isinstance(change(BcConfig(), ["dropout=0"]).dropout, float)
    assert change(TreesConfig(), ['acts={"leaves": 4}']).acts.leaves == 4
    assert change(BcConfig(), ["epochs=3"]) == BcConfig(epochs=3)
    for text in ("epochs=1.5", "screen=1", "hidden=4", "activation=3", "acts=4"):
        with pytest.raises(ConfigError, match="--set"):
            change(TreesConfig() if text.startswith("acts") else BcConfig(), [text])


def test_a_page_says_where_too_little_was_held_out() -> None:
    scores = dict.fromkeys(("accuracy", "always_wait", "majority", "balanced", "log_loss", "mix_loss"), 0.5)
    head = scores | {"choices": ["WAIT", "BUY"], "scored": ["WAIT"], "precision": [1.0, None], "recall": [1.0, None]}
    few = {"heads": [head | {"confusion": [[3, 0], [9, 20]]}], "mix": {"BUY": [0.1, None]}, "scored_steps": 32}
    text, table = likeness(few)
    assert "He did something 29 times in them: too few to tell" in text
    assert "clone's share" not in table.head  # it was not let play
    text, table = likeness(few | {"heads": [head | {"confusion": [[3, 0], [9, 21]]}], "mix": {"BUY": [0.1, 0.2]}})
    assert "too few" not in text
    assert table.rows[1][:3] == ("BUY", "0.100", "0.200")
    assert likeness_tables({}) is None


def likeness(result: dict[str, Any]) -> tuple[str, PageTable]:
    """Give what the page of a clone says about its likeness, and the table of its first head."""
    section = likeness_tables(result)
    assert section is not None
    text, head = section.parts
    assert isinstance(text, str)
    assert isinstance(head, PageSection)
    table = head.parts[1]
    assert isinstance(table, PageTable)
    return text, table


def test_options_overrule_set_and_both_overrule_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('epochs = 2\nbatch = 64\nactivation = "relu"\nhidden = [8]\n')
    settings = Settings(file, ("batch=32", "activation=tanh"), {"activation": "relu"})
    config = settings.make(BcConfig)
    assert (config.epochs, config.batch, config.activation, config.hidden) == (2, 32, "relu", (8,))
    assert settings.apply(BcConfig(knots=4, activation="relu"), batch=16) == BcConfig(
        knots=4, activation="relu", epochs=2, batch=16, hidden=(8,)
    )
    file.write_text("[acts]\nleaves = 4\n")
    trees = Settings(file).make(TreesConfig)
    assert (trees.acts.leaves, trees.acts.least) == (4, TreesConfig().acts.least)


@pytest.mark.parametrize(
    ("written", "texts", "options", "message"),
    [
        (None, ("epoch=3",), {}, r"did you mean 'epochs'\?"),
        (None, ("epochs",), {}, "name=value"),
        (None, ("epochs=0",), {}, "epochs as int at least 1"),
        (None, (), {"close_frames": 3}, "'close_frames' .--close-frames"),
        ("epochs = ", (), {}, "TOML"),
        ("epochs = 'four'", (), {}, r"epochs as int .*settings.toml"),
        ("depth = 4", (), {}, "expected a setting among"),
    ],
)
def test_a_wrong_setting_is_named_with_its_type_and_source(
    written: str | None, texts: tuple[str, ...], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    if written is not None:
        file.write_text(written)
    with pytest.raises(ConfigError, match=message):
        Settings(None if written is None else file, texts, options).make(BcConfig)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml"):
        Settings(tmp_path / "nothing.toml").make(BcConfig)


@pytest.mark.parametrize(
    ("method", "kind", "without"),
    [
        ("bc", BcConfig, set()),
        ("bc", TreesConfig, {"acts", "does", "seldom"}),
        ("cql", CqlConfig, set()),
        ("iql", IqlConfig, set()),
        ("sidebet", RugPredictorConfig, set()),
        ("ppo", PPOConfig, {"worlds", "options"}),
        ("sft", SFTConfig, {"options"}),
        ("grpo", GRPOConfig, {"options", "reward"}),
    ],
)
def test_every_setting_is_an_option_with_help_and_every_command_takes_a_file(
    method: str, kind: type, without: set[str]
) -> None:
    command = LazyCommand(method, {point.name: point.value for point in entry_points(group=GROUP)}[method]).load()
    helps = {param.name: param.help for param in command.params}
    names = {field.name for field in fields(kind)}
    assert not names - set(helps) - without
    assert all(helps[name] for name in names & set(helps))
    assert {"--set", "--config"} <= {flag for param in command.params for flag in param.opts}


def test_a_command_reads_its_file_and_its_options(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "small.toml").write_text("epochs = 2\nhidden = [4]\nbatch = 64\n")
    words = ["--config", str(home / "small.toml"), "--batch", "32", "--set", "batch=16", "--no-exclusive"]
    assert main(["train", "bc", *PLAY, *words, "--name", "run", "--json"]) == 0
    kept = json.loads((home / "runs" / "run" / "config.json").read_text())["config"]["config"]
    assert (kept["epochs"], kept["hidden"], kept["batch"], kept["exclusive"]) == (2, [4], 32, False)
