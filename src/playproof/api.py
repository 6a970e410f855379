"""The public Python surface: open a store, load a data set, make an environment, train, validate, load a policy.

Everything here is importable from `playproof` itself and stays where it is; every other module may move.
Results show themselves in a notebook.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playproof.errors import ConfigError, PlayproofError
from playproof.notebook import facts_table

if TYPE_CHECKING:
    import gymnasium

    from playproof.datasets import Dataset
    from playproof.game import Policy
    from playproof.record.trajectories.recorder import TrajectoryRecorder
    from playproof.store import EventStore
    from playproof.validate.examine import Examination


def open_store(path: Path | str | None = None) -> EventStore:
    """Open the event store of a home folder for reading; without a path, that of PLAYPROOF_HOME."""
    from playproof.home import home
    from playproof.store import EventStore

    return EventStore(home() if path is None else Path(path))


def load_dataset(name: str | Path) -> Dataset:
    """Load a data set by its name in the home folder, or by its folder."""
    from playproof.datasets import open_dataset
    from playproof.datasets.registry import find_dataset

    return open_dataset(find_dataset(name))


def make_env(game: str, num_envs: int | None = None, **options: Any) -> gymnasium.Env[Any, Any]:
    """Make the Gymnasium environment of a game; with `num_envs` its vector environment."""
    import gymnasium

    from playproof.game import load_game

    name = load_game(game).simulated().environment
    if name is None:
        raise ConfigError(f"expected a game with a Gymnasium environment, found {game!r}, which has none")
    if num_envs is None:
        return gymnasium.make(name, **options)
    made: Any = gymnasium.make_vec(name, num_envs=num_envs, vectorization_mode="vector_entry_point", **options)
    return made  # type: ignore[no-any-return]


@dataclass(frozen=True)
class TrainedRun:
    """A finished training: its folder, its result, and its policy."""

    path: Path
    result: Mapping[str, Any]

    @property
    def report(self) -> Path:
        """Give the page that shows how the training went."""
        return self.path / "report.html"

    def policy(self) -> Policy:
        """Load the policy of the checkpoint that the training kept."""
        return load_policy(self.result["checkpoint"])

    def _repr_html_(self) -> str:
        return facts_table(f"Run {self.path.name}", {**self.result, "folder": self.path})


def train_policy(method: str, name: str, **options: Any) -> TrainedRun:
    """Train as `playproof train METHOD --name NAME` does; the keyword arguments are the command's options.

    A list gives an option several times, True is a flag, and `settings` is a mapping that becomes `--set key=value`.
    """
    from playproof.cli.app import main

    settings = options.pop("settings", {})
    arguments = ["train", method, "--name", name, "--json"]
    for key, value in options.items():
        option = "--" + key.replace("_", "-")
        for single in value if isinstance(value, list | tuple) else [value]:
            arguments += [option] if single is True else [f"{option}={single}"]
    arguments += [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
    said, problems = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(problems):
        code = main(arguments)
    if code != 0:
        raise PlayproofError(problems.getvalue().strip().removeprefix("error: ") or f"training ended with code {code}")
    result = json.loads(said.getvalue())
    from playproof.home import folder

    return TrainedRun(Path(result.get("run") or folder("runs") / name), result)


def load_policy(what: str | Path, game: str | None = None) -> Policy:
    """Load a trained policy: a checkpoint's folder, or the name of a run."""
    from playproof.cli.targets import find_policy
    from playproof.game import load_game
    from playproof.policies.checkpoint import load_policy as load

    return load(Path(find_policy(str(what))), None if game is None else load_game(game))


def validate_policy(
    policy: str | Path,
    *,
    game: str | None = None,
    world: str | None = None,
    data: str | None = None,
    split: str = "test",
    rounds: int | None = None,
    seed: int = 0,
    stake: int | None = None,
) -> Examination:
    """Play a frozen policy beside its controls and ask every gate; the verdict is `result.verdict`.

    The policy is a run's name, a checkpoint's folder, a baseline or "module:attribute". The look is written into the
    trial ledger, as by `playproof validate`.
    """
    from datetime import UTC, datetime

    from playproof.cli.targets import find_data, find_policy, policy_game
    from playproof.home import home
    from playproof.store.db import connect, ready
    from playproof.validate.examine import data_plan, examine, load_subject, reward_gates, world_plan

    if data and world:
        raise ConfigError("expected either data or world, found both")
    name, data = find_policy(str(policy), game), str(find_data(data)) if data else None
    chosen = policy_game([name], game, data, world)
    subject = load_subject(chosen, name, stake=stake)
    plan = data_plan(chosen, data, split, rounds, seed) if data else world_plan(chosen, world, rounds, seed)
    gates = reward_gates(chosen, subject, search=False)
    return examine(chosen, subject, plan, ready(connect(home())), datetime.now(UTC), reward_gates=gates)


def record_trajectories(game: str, url: str | None = None) -> TrajectoryRecorder:
    """Open a recorder of agents' trajectories in the relational tables; use it as a context manager."""
    from playproof.game import load_game
    from playproof.home import home
    from playproof.record.trajectories.recorder import TrajectoryRecorder
    from playproof.store.db import connect, ready

    return TrajectoryRecorder(ready(connect(home(), url)), windows=load_game(game).windows)
