"""Options that the commands for language models share. Leaves out: the commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from playproof.errors import ConfigError
from playproof.game import Game, game_names, load_game

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.train.run import Tracking

C = TypeVar("C")

Name = Annotated[str, typer.Option(help="Name of the run, a folder under runs/ in the home; or a path.")]
GameName = Annotated[str | None, typer.Option("--game", help="The game; needed where several are played in words.")]
World = Annotated[str, typer.Option(help="World of the forked windows.")]
Decisions = Annotated[int, typer.Option(min=1, help="Decisions of an episode.")]
Holdout = Annotated[int, typer.Option(min=0, help="Later windows that are held out to measure on.")]
LookbackHours = Annotated[float, typer.Option(min=0, help="How far back recorded windows may have begun.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same windows, same weights.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where the run of this name stopped.")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting as name=value, such as rank=8; may be given again."),
]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Also log to wandb or mlflow; tensorboard is always written. May be given again."),
]


def choose_game(name: str | None) -> Game:
    """Give the game of a name, or the only one whose windows can be forked for players of words."""
    if name is not None:
        return load_game(name)
    games = [game for game in map(load_game, game_names()) if game.language is not None]
    if len(games) != 1:
        raise ConfigError(f"expected --game, found {len(games)} games that are played in words; name one")
    return games[0]


def read_settings(config: C, asked: list[str] | None) -> C:
    """Change settings by texts such as rank=8, each read as JSON where it can be."""
    known = {field.name for field in fields(config)}  # type: ignore[arg-type]
    payload: dict[str, Any] = {}
    for text in asked or []:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise ConfigError(f"expected --set name=value with a name among {', '.join(sorted(known))}; found {text!r}")
        try:
            payload[name] = json.loads(value)
        except ValueError:
            payload[name] = value
    return type(config)(**{**asdict(config), **payload})  # type: ignore[call-overload]


def tracking(asked: list[str] | None, name: str) -> Tracking:
    """Give where numbers go beside the log."""
    from playproof.train.run import Tracking

    unknown = set(asked or ()) - {"tensorboard", "wandb", "mlflow"}
    if unknown:
        raise ConfigError(f"expected --track tensorboard, wandb or mlflow, found {', '.join(sorted(unknown))}")
    project = name.rpartition("/")[2]
    return Tracking(
        wandb=project if "wandb" in (asked or ()) else None, mlflow=project if "mlflow" in (asked or ()) else None
    )


def shown(payload: Mapping[str, Any]) -> Table:
    """Lay a result out, numbers inside numbers included."""
    from rich.table import Table

    table = Table("", "", show_header=False)
    for name, value in _flat(payload, ""):
        table.add_row(name, f"{value:,.6g}" if isinstance(value, float) else "-" if value is None else str(value))
    return table


def _flat(payload: Mapping[str, Any], before: str) -> list[tuple[str, Any]]:
    results: list[tuple[str, Any]] = []
    for name, value in payload.items():
        label = f"{before}{name}".replace("_", " ")
        results += _flat(value, f"{label} ") if isinstance(value, Mapping) else [(label, value)]
    return results
