"""Find what a command was given by name: a run, a policy, a model, a data set, and the game that fits.

A name that stands for several things is refused with the choices; an unknown one is answered with the nearest names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from playproof.game import Game
    from playproof.models.registry import ModelTarget, Registry

POLICY = "A checkpoint's folder, a run, a model (NAME, NAME:VERSION, NAME@ALIAS), a baseline, or module:attribute."
_MODEL = re.compile(r"[A-Za-z0-9_-]{1,64}(?P<which>@[A-Za-z0-9_-]{1,64}|:v?\d{1,9})?", re.ASCII)
StakeOption = Annotated[float | None, typer.Option(help="Reserved for each window, in whole coins, such as 0.1.")]
MOST_STAKE = 1_000_000.0
"""Coins; a larger number is one of the smallest unit, as older versions took it."""
SHOWN = 8
"""Names that a message lists at most, the nearest first."""


def stake_units(stake: float | None) -> int | None:
    """Read a stake in coins."""
    from playproof.money import to_units

    if stake is None:
        return None
    if not 0 < stake <= MOST_STAKE:
        raise ConfigError(f"expected a stake in coins, above 0 and at most {MOST_STAKE:,.0f}, found {stake:g}")
    return to_units(stake)


def nearest(text: str, names: Iterable[str]) -> list[str]:
    """Give the names that are most like a text; all where there are few."""
    known = sorted(set(names))
    close = difflib.get_close_matches(text, known, SHOWN, 0.0)
    return known if len(known) <= SHOWN else close


def run_folder(name: str) -> Path:
    """Give the folder of a run, there or not yet: a path as it is, a plain name under the home's runs."""
    from playproof.home import folder

    return Path(name) if "/" in name else folder("runs") / name


def run_names() -> list[str]:
    """Give the names of the home's runs."""
    from playproof.home import folder
    from playproof.train.run import CONFIG

    return sorted(path.parent.name for path in folder("runs").glob(f"*/{CONFIG}"))


def find_run(name: str) -> Path:
    """Give the folder of a run that is there, by its folder or its name."""
    runs = _run_folders(name)
    if not runs:
        raise UnknownName("run (a folder, or a name under runs/ of the home)", name, nearest(name, run_names()))
    if len(runs) > 1:
        raise _ambiguous(name, [str(path.absolute()) for path in runs])
    return runs[0]


def find_policy(what: str, game: str | None = None) -> str:
    """Give a checkpoint's folder for a run; a checkpoint, a baseline (of a game, where one is named) as it is.

    "baseline:NAME" tells a baseline from a run of its name. A name that nothing has is given back as it is: whoever
    looks for its game refuses it, with the names that the game knows.
    """
    from playproof.policies.checkpoint import CARD
    from playproof.train.run import find_checkpoint

    if what.startswith("baseline:"):
        return what.partition(":")[2]
    checkpoint, runs = (Path(what) / CARD).exists(), _run_folders(what)
    baseline = "/" not in what and bool(_playing(what, game))
    versions = _registered(what, runs)
    if checkpoint + len(runs) + baseline + len(versions) > 1:
        choices = [f"./{what}"] * checkpoint + [str(path.absolute()) for path in runs] + [f"baseline:{what}"] * baseline
        raise _ambiguous(what, [*choices, *versions])
    if versions:
        return next(iter(versions.values()))
    return str(find_checkpoint(runs[0])) if runs else what


def find_model(what: str) -> str:
    """Give what can be served: the checkpoint of a run or of a registered model; anything else as it is."""
    from playproof.policies.checkpoint import CARD
    from playproof.train.run import find_checkpoint

    runs = _run_folders(what)
    versions = _registered(what, runs)
    checkpoint = (Path(what) / CARD).exists() and not runs
    if versions and len(versions) + len(runs) + checkpoint > 1:
        raise _ambiguous(what, [f"./{what}"] * checkpoint + [str(path.absolute()) for path in runs] + [*versions])
    if versions:
        return next(iter(versions.values()))
    return str(find_checkpoint(find_run(what))) if runs else what


@contextmanager
def open_registry() -> Iterator[Registry]:
    """Give the registry of the home's database."""
    from playproof.home import home
    from playproof.models.registry import Registry
    from playproof.store.db import opened, ready

    with opened(home()) as engine:
        yield Registry(ready(engine))


def find_registered(what: str) -> ModelTarget | None:
    """Give what a model's NAME, NAME:VERSION or NAME@ALIAS stands for; None for a text that names no model.

    A plain name that no model has is None; with a version or an alias it is an error that lists the known ones.
    """
    shape = _MODEL.fullmatch(what)
    if shape is None or not (shape["which"] or _is_model(what)):
        return None
    with open_registry() as registry:
        return registry.find(what)


def _is_model(name: str) -> bool:
    """Tell whether the home's database knows a model of a name; one that is not there or away knows none."""
    from sqlalchemy import inspect, select
    from sqlalchemy.exc import SQLAlchemyError

    from playproof.home import home
    from playproof.store.db import ModelRow, database_url, opened

    url = database_url(home())
    if url.drivername == "sqlite" and not Path(str(url.database)).exists():
        return False
    try:
        with opened(home()) as engine, engine.connect() as connection:
            if not inspect(connection).has_table(ModelRow.__tablename__):
                return False
            return connection.scalar(select(ModelRow.name).where(ModelRow.name == name)) is not None
    except SQLAlchemyError:
        return False


def _registered(what: str, runs: Sequence[Path]) -> dict[str, str]:
    """Give the registered version that a name can mean and its checked files; none if it is the run's own checkpoint.

    A run that was added under its own name thus stays one thing, until it trains on or another version is added.
    """
    from playproof.models.files import content_hash, hash_files
    from playproof.train.run import find_checkpoint

    target = find_registered(what)
    if target is None:
        return {}
    version = target.version
    if len(runs) == 1 and content_hash(hash_files(find_checkpoint(runs[0]))) == version.checkpoint:
        return {}
    with open_registry() as registry:
        return {version.label: str(registry.open(version))}


def find_data(name: str) -> Path:
    """Give the folder of a data set; of several with one name the newest, and say so."""
    from playproof.cli.output import note
    from playproof.datasets.registry import find_dataset, list_datasets
    from playproof.home import home

    path = find_dataset(name, home())
    if not Path(name).exists():
        wanted, _, start = name.partition("@")
        others = [
            item.label
            for item in list_datasets(home())
            if item.manifest.get("name") == wanted and item.manifest["hash"].startswith(start) and item.path != path
        ]
        if others:
            count = len(others) + 1
            note(f"{count} data sets are called {name}: taking the newest, {path.name}, not {', '.join(others)}")
    return path


def choose_game(name: str | None, able: Callable[[Game], bool], ability: str) -> Game:
    """Give the game of a name, or the only one that is able to do what is asked; `ability` completes "a game that"."""
    from playproof.game import game_names, load_game

    if name is not None:
        game = load_game(name)
        if not able(game) and game.windows.market:
            raise ConfigError(
                f"market {name} is recorded, not simulated: this needs a simulation, of a game that {ability}"
            )
        if not able(game):
            raise ConfigError(f"expected a game that {ability}, found {name!r}, which cannot")
        return game
    games = [game for game in map(load_game, game_names()) if _is_able(game, able)]
    if len(games) != 1:
        names = ", ".join(game.name for game in games) or "none"
        raise ConfigError(f"expected one game that {ability}, found {names}; choose with --game")
    return games[0]


def _is_able(game: Game, able: Callable[[Game], bool]) -> bool:
    """Tell whether a game is able; a declared market refuses to say how frames of a feed are read."""
    try:
        return able(game)
    except ConfigError:
        if game.windows.market:
            return False
        raise


def simulated_game(name: str | None) -> Game:
    """Give the game of a name, or the only one that can be simulated."""
    return choose_game(name, lambda game: game.simulation is not None, "can be simulated")


def language_game(name: str | None) -> Game:
    """Give the game of a name, or the only one whose windows can be forked for players of words."""
    return choose_game(name, lambda game: game.language is not None, "is played in words")


def recorded_game(name: str | None) -> Game:
    """Give the game or declared market of a name whose agents were recorded in words."""
    return choose_game(
        name, lambda game: game.language is not None or bool(game.windows.market), "is played or recorded in words"
    )


def policy_game(policies: Sequence[str], game: str | None, data: str | None, world: str | None) -> Game:
    """Give the game that was asked for, that of a data set, or the one that all policies play."""
    from playproof.game import load_game

    if game is not None:
        chosen = load_game(game)
        if chosen.windows.market:
            chosen.simulated()  # says that a market has no simulation
        return chosen
    if data is None:
        return game_of(policies, world)
    from playproof.datasets import open_dataset

    return load_game(open_dataset(find_data(data)).manifest["game"]["name"])


def game_of(policies: Sequence[str], world: str | None = None) -> Game:
    """Give the game that all policies play: the one a card names, or the only one with such baselines and world."""
    from playproof.game import load_game
    from playproof.policies.checkpoint import CARD, load_checkpoint

    trained = next((Path(name) for name in policies if (Path(name) / CARD).exists()), None)
    if trained is not None:
        return load_game(load_checkpoint(trained).card.game)
    plain = [name for name in policies if ":" not in name]
    fitting = [item for item in _playable() if all(name in item.baselines for name in plain)]
    if not fitting:
        unknown = next((name for name in plain if not _playing(name)), None)
        if unknown is None:
            raise ConfigError(
                f"expected policies of one game, found none that all of these play: {', '.join(policies)}"
            )
        names = {name for item in _playable() for name in item.baselines}
        raise UnknownName(
            "policy (a checkpoint's folder, run, module:attribute, or baseline)",
            unknown,
            nearest(unknown, [*names, *run_names()]),
        )
    there = [item for item in fitting if world is None or world in item.worlds]
    if len(there) == 1:
        return there[0]
    names_of = ", ".join(item.name for item in there or fitting)
    raise ConfigError(
        f"expected one game in which {', '.join(policies)} can play{f' in world {world}' if world else ''}, found"
        f" {names_of if there else 'none'}; say which with --game ({names_of}), or name one of its worlds with --world"
    )


def _run_folders(name: str) -> list[Path]:
    """Give the runs that a name can mean: a folder here, and one of the home."""
    from playproof.train.run import CHECKPOINTS, CONFIG, LOG

    def is_run(path: Path) -> bool:
        # The folder of a model of transformers has a config.json too.
        return (path / CONFIG).is_file() and ((path / LOG).exists() or (path / CHECKPOINTS).is_dir())

    return list({path.resolve(): path for path in (Path(name), run_folder(name)) if is_run(path)}.values())


def _ambiguous(name: str, choices: Sequence[str]) -> ConfigError:
    return ConfigError(f"expected a name that stands for one thing, found {name!r}, which may be: {', '.join(choices)}")


def _playable() -> list[Game]:
    from playproof.game import game_names, load_game

    return [item for item in map(load_game, game_names()) if item.simulation is not None]


def _playing(baseline: str, game: str | None = None) -> list[Game]:
    from playproof.game import load_game

    return [item for item in ([load_game(game)] if game else _playable()) if baseline in item.baselines]
