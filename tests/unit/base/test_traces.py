"""How many modules a reader must open: three tasks are traced, and the modules whose functions ran are counted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from tongues import saved, small_model

import playproof
from playproof.cli.app import main
from playproof.datasets import DatasetConfig, build, open_dataset
from playproof.game import load_game
from playproof.store import EventLog, EventStore
from playproof.train import bc
from playproof.train.config import BcConfig

SOURCE = str(Path(playproof.__file__).parent)


class Walk:
    """The modules of the package whose functions were called, each with the names of those functions.

    What runs while a module is imported does not count: neither its body nor what the body calls.
    """

    def __init__(self) -> None:
        self.modules: dict[str, set[str]] = {}
        self.ended = False

    def profile(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note the module of a call, unless an import made it."""
        code = frame.f_code
        if self.ended or event != "call" or not code.co_filename.startswith(SOURCE):
            return
        caller: FrameType | None = frame
        while caller is not None:
            if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(SOURCE):
                return
            caller = caller.f_back
        self.modules.setdefault(code.co_filename[len(SOURCE) + 1 :], set()).add(code.co_name)

    def check(self, most: int) -> None:
        """Fail with the list of modules where there are more than so many."""
        lines = [f"{name}: {', '.join(sorted(names)[:8])}" for name, names in sorted(self.modules.items())]
        assert len(lines) <= most, f"{len(lines)} modules, expected at most {most}:\n" + "\n".join(lines)


@contextmanager
def traced() -> Iterator[Walk]:
    """Note the modules that run inside, on every thread."""
    walk = Walk()
    before = sys.getprofile()
    threading.setprofile(walk.profile)
    sys.setprofile(walk.profile)
    try:
        yield walk
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def ending(walk: Walk, call: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
    """Give a function after whose first return nothing more is noted."""

    def ended(*arguments: object) -> dict[str, float]:
        result = call(*arguments)
        walk.ended = True
        return result

    return ended


def test_a_calls_module_counts_and_an_imports_does_not() -> None:
    with traced() as walk:
        load_game("crash")
        sys.modules.pop("playproof.games.crash.rules.theory", None)
        import playproof.games.crash.rules.theory  # noqa: F401
    assert "game/registry.py" in walk.modules
    assert "games/crash/rules/theory.py" not in walk.modules
    with pytest.raises(AssertionError, match="expected at most 0"):
        walk.check(0)


def test_a_stored_event_becomes_a_bc_loss_in_25_modules(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    game = load_game("crash")
    with EventLog.open(home, game.columns) as log:
        frames = game.recording().sample()
        facts = [(frame, fact) for frame, of in zip(frames, game.decode(frames), strict=True) for fact in of]
        log.append([fact.event(frame.ts, "sample", number) for number, (frame, fact) in enumerate(facts)])
    config = DatasetConfig("traced", "policy", "buttons", "minimal", shares={"train": 1.0}, gap=0)
    with traced() as walk:
        monkeypatch.setattr(bc.CloningLearner, "update", ending(walk, bc.CloningLearner.update))
        steps = open_dataset(build(game, EventStore(home), config, home)).transitions("train")
        bc.clone(game, steps, BcConfig(epochs=1), observation="policy", actions="buttons")
    assert walk.ended
    assert {"train/bc.py", "datasets/build.py", "store/log/read.py"} <= walk.modules.keys()
    walk.check(25)


def test_train_grpo_visits_30_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    monkeypatch.delenv("PLAYPROOF_DB", raising=False)
    base = saved(tmp_path / "base", small_model())
    asked = ["train", "grpo", "--name", "traced", "--base", str(base), "--iterations", "1", "--json"]
    asked += ["--windows-per-iteration", "2", "--forks", "5", "--holdout", "2", "--decisions", "1", "--prompt", "brief"]
    with traced() as walk:
        assert main(asked) == 0
    assert "train/language/grpo.py" in walk.modules
    walk.check(30)


def test_validate_visits_40_modules() -> None:
    with traced() as walk:
        assert main(["validate", "hold-40", "--world", "published", "--rounds", "20", "--json"]) in (0, 2)
    assert {"validate/examine.py", "validate/gates.py", "validate/leaks.py"} <= walk.modules.keys()
    walk.check(40)
