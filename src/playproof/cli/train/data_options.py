"""Find what offline methods learn from: a data set, or simulated play of named players. For the train commands.

Leaves out: the methods (playproof.train).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from playproof.cli.output import note, progress
from playproof.errors import ConfigError, InputError
from playproof.game import Game, first, load_game, lookup
from playproof.money import to_units

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.datasets import Dataset, Transitions
    from playproof.train.run import Run

C = TypeVar("C")

DatasetName = Annotated[
    str | None, typer.Option("--dataset", help="Data set to learn from: its name, name@hash, or its folder.")
]
World = Annotated[str | None, typer.Option(help="Learn from simulated play in this world instead.")]
Players = Annotated[
    list[str] | None,
    typer.Option(
        "--player",
        help="Who plays there: a baseline, or best; best:0.2 is random in a fifth of the steps. Several take turns.",
    ),
]
Rounds = Annotated[int, typer.Option(min=10, help="Simulated windows to learn from.")]
Stake = Annotated[float, typer.Option(help="Coins that the policy reserves for each window.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Any other setting as name=value; may be given again.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where the run of this name stopped.")]


@dataclass(frozen=True)
class DataConfig:
    """Where the steps come from, as a run's folder keeps it."""

    dataset: str | None
    game: str | None
    world: str | None
    players: tuple[str, ...]
    rounds: int
    seed: int
    clock: str
    stake: int

    @classmethod
    def from_json(cls, payload: Mapping[str, Any]) -> DataConfig:
        """Read it back."""
        return cls(**{**payload, "players": tuple(payload["players"])})


@dataclass(frozen=True)
class TrainValSplit:
    """Steps to learn from, and steps of later windows to score on."""

    game: Game
    observation: str
    actions: str
    clock: str
    train: Transitions
    unseen: Transitions
    data_hash: str | None
    world: str | None
    reward: Mapping[str, Any]
    stake: int

    @property
    def heads(self) -> tuple[tuple[str, ...], ...]:
        """Give the names of each head's choices."""
        return self.game.actions[self.actions].heads


def asked(
    dataset: str | None,
    game: str | None,
    world: str | None,
    players: Sequence[str] | None,
    rounds: int,
    seed: int,
    clock: str,
    stake: float,
) -> DataConfig:
    """Check that steps were asked for in one of the two ways."""
    if (dataset is None) == (world is None):
        raise ConfigError("expected either --dataset or --world with --player, found both or none")
    return DataConfig(dataset, game, world, tuple(players or ()), rounds, seed, clock, to_units(stake))


def find_lessons(data_config: DataConfig) -> TrainValSplit:
    """Read the data set's splits, or play."""
    return _from_dataset(data_config) if data_config.dataset is not None else _from_play(data_config)


def _from_dataset(data_config: DataConfig) -> TrainValSplit:
    from playproof.datasets import open_dataset
    from playproof.datasets.registry import find_dataset

    result = open_dataset(find_dataset(data_config.dataset or ""))
    manifest = result.manifest
    game = load_game(manifest["game"]["name"])
    observation = first(game.observations)
    reward = manifest["reward"]
    train, unseen = (_split(result, split, observation, data_config.clock) for split in ("train", "validation"))
    if not train.actions.any():
        note("nothing was ever chosen in this data set but waiting: were presses recorded?")
    return TrainValSplit(
        game,
        observation,
        manifest["actions"]["name"],
        data_config.clock,
        train,
        unseen,
        manifest["hash"],
        None,
        {"name": reward["name"], "version": reward["version"], "hash": reward.get("hash"), "failed_checks": False},
        data_config.stake,
    )


def _split(dataset: Dataset, split: str, observation: str, clock: str) -> Transitions:
    """Read a split's steps as the clock plays them, or say that there are none."""
    from playproof.train.demonstrations import on_press_clock

    steps = dataset.transitions(split, observation)
    if not len(steps.windows):
        raise InputError(
            f"expected windows in split {split!r}, found none; build the data set with --split train=0.8,validation=0.2"
        )
    return on_press_clock(steps) if clock == "press" else steps


def _from_play(data_config: DataConfig) -> TrainValSplit:
    from playproof.cli.train.ppo import choose_game
    from playproof.train.demonstrations import DemonstrationConfig as Terms
    from playproof.train.demonstrations import Mixture, demonstrate
    from playproof.train.players import find_player

    game, world = choose_game(data_config.game), data_config.world or ""
    lookup(game.worlds, world, "world")
    actions = first(game.actions)
    sizes = tuple(map(len, game.actions[actions].heads))
    if not data_config.players:
        raise ConfigError(f"expected --player, found none; known are best and {', '.join(game.baselines)}")
    players = [find_player(game, text, world, sizes) for text in data_config.players]
    player = players[0] if len(players) == 1 else Mixture(players)
    terms = Terms(clock=data_config.clock, stake=data_config.stake)
    with progress() as bar:
        task = bar.add_task("playing", total=data_config.rounds + data_config.rounds // 3)

        def play(rounds: int, seed: int) -> Transitions:
            return demonstrate(game, player, world, rounds, seed, terms, lambda ended: bar.advance(task, ended))

        train, unseen = (
            play(data_config.rounds, data_config.seed),
            play(max(10, data_config.rounds // 3), data_config.seed + 500_009),
        )
    reward = game.rewards().presets[first(game.rewards().presets)]
    stamp = {"name": reward.name, "version": reward.version, "hash": reward.hash, "failed_checks": False}
    return TrainValSplit(
        game, first(game.observations), actions, data_config.clock, train, unseen, None, world, stamp, data_config.stake
    )


def with_options(config: C, options: Sequence[str] | None) -> C:
    """Change settings of a configuration by texts such as epochs=4, each read as JSON where it can be."""
    known = {field.name: getattr(config, field.name) for field in fields(config)}  # type: ignore[arg-type]
    payload: dict[str, Any] = {}
    for text in options or ():
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise ConfigError(f"expected --set name=value with a name among {', '.join(sorted(known))}; found {text!r}")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        payload[name] = _as_before(name, known[name], read)
    return replace(config, **payload)  # type: ignore[type-var]


def _as_before(name: str, before: Any, read: Any) -> Any:
    """Give a value that was read as the kind that the setting has, or refuse it."""
    if isinstance(before, tuple) and isinstance(read, list):
        return tuple(read)
    if is_dataclass(before) and isinstance(read, dict):
        return with_options(before, [f"{key}={json.dumps(value)}" for key, value in read.items()])
    if isinstance(before, float) and isinstance(read, int) and not isinstance(read, bool):
        return float(read)
    if type(before) is not type(read):
        raise ConfigError(f"expected --set {name}=... like {name}={json.dumps(before, default=vars)}, found {read!r}")
    return read


def read_config(kind: Callable[..., C], payload: Mapping[str, Any]) -> C:
    """Read a configuration back from a run's folder."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in payload.items()})


def figures(title: str, rows: Mapping[str, Any]) -> Table:
    """Lay figures out, one a line."""
    from rich.table import Table

    table = Table("", "", title=title, title_justify="left", show_header=False)
    for name, value in rows.items():
        shown = f"{value:.4f}" if isinstance(value, float) else "-" if value is None else str(value)
        table.add_row(name.replace("_", " "), shown)
    return table


def epochs_bar(total: int) -> tuple[Any, Callable[[int, Mapping[str, float]], None]]:
    """Give a progress bar over epochs, and what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} epochs"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task("learning", total=total)

    def moved(epoch: int, losses: Mapping[str, float]) -> None:
        bar.update(task, completed=epoch + 1, description=f"loss {losses['loss']:.4f}")

    return bar, moved


@contextmanager
def opened_run(
    path: Path, method: str, config: Mapping[str, Any], data_config: DataConfig, resume: bool
) -> Iterator[Run]:
    """Begin a run, or go on with one; its folder keeps what it was asked for. Ctrl-C says how to go on."""
    from playproof.train.run import STATE, Run

    run = (
        Run.resume(path, method)
        if resume
        else Run.create(path, method, {"config": dict(config), "lessons": vars(data_config)})
    )
    try:
        yield run
    except KeyboardInterrupt:
        if (path / STATE).exists():
            note(f"stopped; what was learned is kept: playproof train {method} --name {path.name} --resume goes on")
        else:
            note(f"stopped before anything was kept; remove {path}, or begin again under another name")
        raise
    finally:
        run.close()


def kept_run(path: Path, method: str) -> tuple[Mapping[str, Any], DataConfig]:
    """Read what a run that is to be resumed was asked for: its configuration, and its lessons."""
    from playproof.train.run import read_config as read_run

    payload = read_run(path)
    if payload["method"] != method:
        raise ConfigError(f"expected a run of {method} at {path}, found one of {payload['method']}")
    return payload["config"]["config"], DataConfig.from_json(payload["config"]["lessons"])


def check_new(path: Path) -> None:
    """Refuse a run that is there already, before anything is played for it."""
    from playproof.train.run import CONFIG

    if (path / CONFIG).exists():
        raise ConfigError(f"expected a new run at {path}, found one; use --resume to go on, or another name")
