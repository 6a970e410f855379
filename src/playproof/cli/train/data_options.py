"""Find what offline methods learn from: a data set, or simulated play of named players. For the train commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import note, progress
from playproof.cli.targets import find_data, simulated_game
from playproof.errors import ConfigError, InputError
from playproof.game import Game, NumericObservation, first, load_game, lookup
from playproof.money import to_units

if TYPE_CHECKING:
    from playproof.datasets import Transitions

DatasetName = Annotated[
    str | None, typer.Option("--dataset", help="Data set to learn from: its name, name@hash, or its folder.")
]
WorldGame = Annotated[str | None, typer.Option(help="The game of --world.")]
World = Annotated[str | None, typer.Option(help="Learn from simulated play in this world instead.")]
Players = Annotated[
    list[str] | None,
    typer.Option(
        "--player",
        help="Who plays there: a baseline, or best; best:0.2 is random in a fifth of the steps. Several take turns.",
    ),
]
Rounds = Annotated[int, typer.Option(min=10, help="Simulated windows to learn from.")]
Clock = Annotated[str, typer.Option(help="tick, or press: as people play.")]
Stake = Annotated[float, typer.Option(help="Coins that the policy reserves for each window.")]


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
    def from_options(
        cls,
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
        return cls(dataset, game, world, tuple(players or ()), rounds, seed, clock, to_units(stake))

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> DataConfig:
        """Read it back from a run's folder."""
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


def load_split(config: DataConfig) -> TrainValSplit:
    """Read the data set's splits, or play."""
    return _from_dataset(config) if config.dataset is not None else _from_play(config)


def _from_dataset(config: DataConfig) -> TrainValSplit:
    from playproof.datasets import open_dataset
    from playproof.train.demonstrations import on_press_clock

    dataset = open_dataset(find_data(config.dataset or ""))
    manifest = dataset.manifest
    game = load_game(manifest["game"]["name"])
    observation, reward = first(game.observations), manifest["reward"]
    parts: list[Transitions] = []
    for split in ("train", "validation"):
        steps = dataset.transitions(split, observation)
        if not len(steps.windows):
            raise InputError(
                f"expected windows in split {split!r}, found none; build the data set with"
                " --split train=0.8,validation=0.2"
            )
        parts.append(on_press_clock(steps) if config.clock == "press" else steps)
    train, unseen = parts
    if not train.actions.any():
        note("nothing was ever chosen in this data set but waiting: were presses recorded?")
    stamp = {"name": reward["name"], "version": reward["version"], "hash": reward.get("hash"), "failed_checks": False}
    return TrainValSplit(
        game,
        observation,
        manifest["actions"]["name"],
        config.clock,
        train,
        unseen,
        manifest["hash"],
        None,
        stamp,
        config.stake,
    )


def only_interventions(split: TrainValSplit) -> TrainValSplit:
    """Keep the steps at which a person had taken over from a bot, from his first tick to the round's end."""
    import json

    import numpy as np

    from playproof.datasets.dataset import take
    from playproof.home import home
    from playproof.record.recorder import INTERVENTION
    from playproof.store import EventStore

    begins: dict[str, int] = {}
    for event in EventStore(home(), split.game.columns).events(doc_type="system_event"):
        if event.event_name == INTERVENTION and event.raw is not None:
            payload = json.loads(event.raw)
            begins.setdefault(payload["window"], payload["tick"])
    card = split.game.display().card if split.game.display is not None else None
    shown = split.game.observations[split.observation]
    if card is None or not isinstance(shown, NumericObservation):
        raise ConfigError(f"expected a game whose rows tell their tick, found {split.game.name!r}")
    ticks = split.train.observations[:, shown.features.index(card.clock)]
    chosen = np.array(
        [window in begins and tick >= begins[window] for window, tick in zip(split.train.windows, ticks, strict=True)],
        np.bool_,
    )
    if not chosen.any():
        raise InputError(
            f"expected steps of a person who took over from a bot, found none among {len(chosen)}; play with"
            " playproof bot run --practice, take over, and build the data set again"
        )
    note(f"{int(chosen.sum())} steps of {len(begins)} take-overs")
    return replace(split, train=take(split.train, chosen))


def _from_play(config: DataConfig) -> TrainValSplit:
    from playproof.train.demonstrations import DemonstrationConfig as Terms
    from playproof.train.demonstrations import Mixture, demonstrate, find_player

    game, world = simulated_game(config.game), config.world or ""
    lookup(game.worlds, world, "world")
    actions = first(game.actions)
    sizes = tuple(map(len, game.actions[actions].heads))
    if not config.players:
        raise ConfigError(f"expected --player, found none; known are best and {', '.join(game.baselines)}")
    players = [find_player(game, text, world, sizes) for text in config.players]
    player = players[0] if len(players) == 1 else Mixture(players)
    terms = Terms(clock=config.clock, stake=config.stake)
    later = max(10, config.rounds // 3)
    with progress() as bar:
        task = bar.add_task("playing", total=config.rounds + later)

        def play(rounds: int, seed: int) -> Transitions:
            return demonstrate(game, player, world, rounds, seed, terms, lambda ended: bar.advance(task, ended))

        train, unseen = play(config.rounds, config.seed), play(later, config.seed + 500_009)
    reward = game.rewards().presets[first(game.rewards().presets)]
    stamp = {"name": reward.name, "version": reward.version, "hash": reward.hash, "failed_checks": False}
    return TrainValSplit(
        game, first(game.observations), actions, config.clock, train, unseen, None, world, stamp, config.stake
    )


def kept_run(path: Path, method: str) -> tuple[Mapping[str, Any], DataConfig]:
    """Read what a run that is to be resumed was asked for: its configuration, and its data."""
    from playproof.train.run import read_config

    payload = read_config(path)
    if payload["method"] != method:
        raise ConfigError(f"expected a run of {method} at {path}, found one of {payload['method']}")
    return payload["config"]["config"], DataConfig.from_dict(payload["config"]["lessons"])
