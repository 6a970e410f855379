"""Find what a command was given: a policy by folder, run, baseline or module:attribute, and the game it plays.

Leaves out: loading the policy (validate.subject).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from playproof.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from playproof.game import Game

POLICY = "A checkpoint's folder, a run's folder or name, a baseline's name, or module:attribute."


def find_policy(what: str) -> str:
    """Give a checkpoint's folder for a run's folder or name; everything else, baselines before runs, as it is."""
    from playproof.home import folder
    from playproof.policies.checkpoint import CARD

    path = Path(what)
    if (path / CARD).exists() or ":" in what or _playing(what):
        return what
    from playproof.train.run import CONFIG, find_checkpoint

    runs = [path] if "/" in what else [path, folder("runs") / what]
    run = next((item for item in runs if (item / CONFIG).is_file()), None)
    return what if run is None else str(find_checkpoint(run))


def choose_game(policies: Sequence[str], game: str | None, data: str | None, world: str | None) -> Game:
    """Give the game that was asked for, that of a data set, or the one that all policies play."""
    from playproof.game import load_game

    if game is not None:
        return load_game(game)
    if data is None:
        return game_of(policies, world)
    from playproof.datasets import open_dataset
    from playproof.datasets.registry import find_dataset

    return load_game(open_dataset(find_dataset(data)).manifest["game"]["name"])


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
        names = sorted({name for item in _playable() for name in item.baselines})
        raise UnknownName("policy (a checkpoint's folder, run, module:attribute, or baseline)", unknown, names)
    there = [item for item in fitting if world is None or world in item.worlds]
    if len(there) == 1:
        return there[0]
    names_of = ", ".join(item.name for item in there or fitting)
    raise ConfigError(
        f"expected one game in which {', '.join(policies)} can play{f' in world {world}' if world else ''}, found"
        f" {names_of if there else 'none'}; say which with --game ({names_of}), or name one of its worlds with --world"
    )


def _playable() -> list[Game]:
    from playproof.game import game_names, load_game

    return [item for item in map(load_game, game_names()) if item.simulation is not None]


def _playing(baseline: str) -> list[Game]:
    return [item for item in _playable() if baseline in item.baselines]
