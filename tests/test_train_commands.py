"""The train commands as a user meets them: what they refuse, what they leave behind, and going on after Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from playproof.cli.app import main
from playproof.cli.train.data_options import with_options
from playproof.errors import ConfigError
from playproof.reports.page import PageSection, PageTable
from playproof.reports.run import likeness_tables
from playproof.train.bc import BcConfig
from playproof.train.bc_trees import TreesConfig

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
    assert with_options(BcConfig(), ["hidden=[8, 4]", "dropout=0", "watched=[]"]).hidden == (8, 4)
    assert isinstance(with_options(BcConfig(), ["dropout=0"]).dropout, float)
    assert with_options(TreesConfig(), ['acts={"leaves": 4}']).acts.leaves == 4
    for text in ("epochs=1.5", "screen=1", "hidden=4", "activation=3", "acts=4"):
        with pytest.raises(ConfigError, match="--set"):
            with_options(TreesConfig() if text.startswith("acts") else BcConfig(), [text])


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
