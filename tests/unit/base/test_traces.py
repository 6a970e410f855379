"""How many modules a reader must open: three tasks are traced, and the modules whose functions ran are counted.

Set-up is not counted: the recorded session, the model to begin with, and the tables of a fresh home.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from tongues import saved, small_model

import playproof
from playproof.cli.app import main
from playproof.datasets import DatasetConfig, build, open_dataset
from playproof.game import Game, Language, Message, load_game
from playproof.game.forks import ForkEnd, ForkTerms, Prompt
from playproof.judge import judging
from playproof.judge.computed import computed
from playproof.judge.group import JudgedGroup, Scores
from playproof.store import EventLog, EventStore
from playproof.store.db import connect, ready
from playproof.testing import coin
from playproof.train import bc
from playproof.train.config import BcConfig
from playproof.train.language.grpo import GRPOLearner

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
        path = frame.f_code.co_filename
        if self.ended or event != "call" or not (path.startswith(SOURCE) and path.endswith(".py")):
            return
        caller: FrameType | None = frame
        while caller is not None:
            if caller.f_code.co_filename.startswith("<frozen importlib"):
                return
            caller = caller.f_back
        self.modules.setdefault(path[len(SOURCE) + 1 :], set()).add(frame.f_code.co_name)

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
    assert "game/game.py" in walk.modules
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


class CoinForks:
    """Copies of one flip, in words: an answer with an even number of letters bets on heads, any other on tails."""

    def __init__(self, terms: ForkTerms, number: int, count: int) -> None:
        self.over, self.heads = False, bool(np.random.default_rng([terms.seed, number]).integers(2))
        self.results: tuple[ForkEnd, ...] = ()
        self.count = count

    def prompts(self) -> tuple[Prompt, ...]:
        """Ask the same of every copy."""
        return ((Message("user", "Heads or tails?"),),) * self.count

    def scripted(self, player: str, rng: np.random.Generator) -> tuple[str, ...]:
        """Bet on heads."""
        return ("no",) * self.count

    def act(self, answers: Sequence[str]) -> None:
        """Flip."""
        won = [(sum(map(str.isalpha, answer)) % 2 == 0) == self.heads for answer in answers]
        self.results = tuple(ForkEnd(10**9, 10**7 if one else -(10**7), 0.01, 1, 1, 0, 1) for one in won)
        self.over = True

    def ends(self) -> tuple[ForkEnd, ...]:
        """Give the money of each copy."""
        return self.results

    def outcomes(self) -> tuple[Mapping[str, object], ...]:
        """Give what the coin would have returned to one who holds it: nothing."""
        return ({"kind": "asset", "subject": "coin", "start_price": 1.0, "end_price": 1.0, "change": 0.0},)


def coin_in_words() -> Game:
    """Give the CoinGame for a language model."""
    return replace(coin.game(), language=lambda: Language(forks=CoinForks))


def by_letters(group: JudgedGroup) -> Scores:
    """Score by the answers' letters too, so that a model that knows nothing yet gives groups with a spread."""
    result = computed(group)
    more = {item.trajectory_id: 1e-3 * sum(map(len, item.answers)) for item in group.contenders}
    return replace(result, values={name: value + more[name] for name, value in result.values.items()})


@pytest.mark.parametrize(
    ("game", "world", "prompt", "most"), [("coin", "fair", "full", 30), ("arena", "news", "brief", 49)]
)
def test_train_grpo_visits_few_modules(
    game: str, world: str, prompt: str, most: int, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 30 with the smallest game; the arena's market, prompts and decisions are 20 modules of its own."""
    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    monkeypatch.delenv("PLAYPROOF_DB", raising=False)
    monkeypatch.setattr(judging, "reward_function", lambda *_: by_letters)
    own = EntryPoint("coin", "test_traces:coin_in_words", "playproof.games")
    monkeypatch.setattr("playproof.game.game.entry_points", lambda group: (*entry_points(group=group), own))
    ready(connect(home)).dispose()
    base = saved(tmp_path / "base", small_model())
    asked = ["train", "grpo", "--name", "traced", "--game", game, "--world", world, "--prompt", prompt, "--json"]
    asked += ["--base", str(base), "--iterations", "1", "--windows-per-iteration", "2", "--forks", "5"]
    asked += ["--holdout", "2", "--decisions", "1", "--max-kl", "50"]
    with traced() as walk:
        assert main(asked) == 0
    functions = walk.modules["train/language/grpo.py"]
    assert {"train_grpo", "take", "choose", GRPOLearner.step.__name__, "grpo_loss"} <= functions
    walk.check(most)


def test_validate_visits_40_modules(home: Path) -> None:
    ready(connect(home)).dispose()
    asked = ["validate", "hold-40", "--game", "crash", "--world", "published", "--rounds", "20", "--json"]
    with traced() as walk:
        assert main(asked) in (0, 2)
    assert {"validate/examine.py", "validate/gates.py", "validate/leaks.py"} <= walk.modules.keys()
    walk.check(40)
