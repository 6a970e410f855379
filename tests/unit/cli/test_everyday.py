"""What newcomers stumbled over, command by command: each test is one line of that list."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from playproof.cli.app import main
from playproof.errors import ConfigError
from playproof.stats.ranking import AgentResult, rank_results

SEED, GAME = "787ca98847edfd5a2b495ffb6356a40eec1ce20d0668865eaffbbc2088c389e0", "20251215-ece018bd34bb4acc"


def verify(*options: str) -> int:
    return main(["crash", "verify", "--game-id", GAME, *options])


def test_a_nonsense_seed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--server-seed", "nonsense") == 1
    assert "64 hexadecimal digits" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "result"),
    [
        ((), 0, "computed, nothing to compare with"),
        (("--peak", "1.29", "--rug-tick", "13"), 0, "matches"),
        (("--rug-tick", "14"), 2, "differs"),
        (("--peak", "1.4"), 2, "differs"),
        (("--hash", "00"), 2, "differs"),
    ],
)
def test_a_round_is_compared_with_what_was_published(
    options: tuple[str, ...], code: int, result: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify("--server-seed", SEED, "--json", *options) == code
    assert json.loads(capsys.readouterr().out)["result"] == result


@pytest.mark.parametrize("name", ["nosuchmodel", "someone/some-model"])
def test_a_wrong_model_name_asks_no_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    from playproof.train.language import model as models

    def never() -> None:
        raise AssertionError("a hub would have been asked")

    monkeypatch.setattr(models, "_autos", never)
    with pytest.raises(ConfigError, match="hf:NAME"):
        models.load_language_model(name)


def test_an_address_without_a_model_is_refused_before_a_window_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path))
    arena = ["arena", "run", "--agents", "2", "--windows", "1", "--llm", "http://127.0.0.1:9/v1"]
    assert main(arena) == 1
    assert "nothing was run or recorded" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.db"))


def result(window: int, agent: str, pnl: int, rejected: int) -> AgentResult:
    return AgentResult(f"w{window}", agent, "test", pnl, 10**13, 0.0, 0, 0, 6, rejected)


def test_who_never_decides_is_not_ranked_above_who_does() -> None:
    ranked = rank_results([result(1, "loses", -(10**9), 0), result(1, "dead", 0, 6)], 1)
    assert [item.agent for item in ranked] == ["loses", "dead"]


def test_one_window_has_no_interval_and_says_so() -> None:
    from playproof.cli.output import console
    from playproof.cli.ranking import ranked_table

    ranked = rank_results([result(1, "a", 10**9, 0), result(1, "b", 0, 0)], 1)
    assert not math.isfinite(ranked[0].profit_interval[0])
    assert ranked[0].to_json()["profit_interval"] is None
    shown = console(width=80)
    with shown.capture() as captured:
        shown.print(ranked_table(ranked, "one window"))
    text = captured.get()
    assert "inf" not in text
    assert "No intervals below 3 windows" in text


def test_help_is_asked_for_in_every_way(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["help", "train", "ppo"], ["train", "ppo", "-h"], ["train", "ppo", "--help"]):
        assert main(words) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] == shown[2]
    assert "<bool>" not in shown[0]


def test_no_help_text_is_eaten_by_markup() -> None:
    import typer

    from playproof.cli.app import run_app

    app = typer.Typer()

    @app.command()
    def odd() -> None:
        """Take [red]words[/red] and choice:A:B as they are.

        Example: odd
        """

    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run_app(app, "odd", ["--help"]) == 0
    assert "[red]words[/red] and choice:A:B" in printed.getvalue()


def test_a_shell_completes_commands() -> None:
    asked = {"_PLAYPROOF_COMPLETE": "complete_bash", "COMP_WORDS": "playproof val", "COMP_CWORD": "1"}
    answer = subprocess.run(
        [sys.executable, "-m", "playproof"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.stdout.split() == ["validate"], answer.stderr


BLOCK = """
import sys, importlib.abc
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
from playproof.cli.app import main
sys.exit(main(WORDS))
"""
EXTRAS = (
    *("torch", "stable_baselines3", "sb3_contrib", "lightgbm", "sklearn", "scipy", "arch", "safetensors", "onnx"),
    *("onnxruntime", "optuna", "tensorboard", "transformers", "tokenizers", "peft", "gguf", "openai", "playwright"),
    *("psycopg", "minari", "ray", "wandb", "pandas"),
)


@pytest.mark.parametrize(
    "words",
    [
        "train ppo --game crash --world drift --name x --steps 1000",
        "train sft --name x",
        "validate learner",
        "train tune ppo --name x",
        "serve smollm2",
        "arena run --agents 2 --windows 1 --llm http://127.0.0.1:9/v1",
        "record browser http://127.0.0.1:9",
        "judge check",
    ],
)
def test_a_base_install_says_which_extra_is_missing(words: str, tmp_path: Path) -> None:
    program = BLOCK.replace("MODULES", repr(set(EXTRAS))).replace("WORDS", repr(words.split()))
    environment = {**os.environ, "PLAYPROOF_HOME": str(tmp_path)}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert "Traceback" not in answer.stderr, answer.stderr
    assert answer.returncode in (0, 1), answer.stderr


def test_the_command_of_a_stake_takes_coins() -> None:
    from playproof.cli.proof.validate import app

    answer = CliRunner().invoke(app, ["hold-40", "--rounds", "2", "--stake", "100000000"])
    assert isinstance(answer.exception, ConfigError)
    assert "in coins" in str(answer.exception)
