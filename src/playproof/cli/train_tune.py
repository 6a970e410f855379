"""Search a method's settings: pruned, resumable, every trial in the trial ledger.

Leaves out: the search (playproof.train.tune).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.lessons import Players, Stake
from playproof.cli.output import AsJson, emit
from playproof.errors import ConfigError
from playproof.money import to_units

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer()


@app.command()
def tune(
    method: Annotated[str, typer.Argument(help="ppo, cql, iql, sidebet, or module:function of a trainer.")],
    *,
    name: Annotated[str, typer.Option(help="Name of the study; the same name goes on with it.")],
    world: Annotated[str, typer.Option(help="World to train and validate in.")],
    game: Annotated[str | None, typer.Option(help="The game; needed where several can be simulated.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Finished trials wanted, those of earlier runs included.")] = 20,
    axis: Annotated[
        list[str] | None,
        typer.Option("--axis", help="name=log:LOW:HIGH, float, int or choice:A:B; may be given again."),
    ] = None,
    player: Players = None,
    rounds: Annotated[int, typer.Option(min=10, help="Windows that offline methods learn from.")] = 500,
    windows: Annotated[int, typer.Option(min=8, help="Validation windows, the same for all trials.")] = 1024,
    workers: Annotated[int, typer.Option(min=1, help="Trials at once.")] = 1,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    stake: Stake = 0.5,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    option: Annotated[list[str] | None, typer.Option("--set", help="A fixed setting as name=value.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search for the settings that earn most on validation windows; poor trials end early.

    The study lies in runs/NAME/study.db: called again it goes on until so many trials are finished. Every finished
    trial is written to the trial ledger, which later claims are corrected by.

    Example: playproof train tune sidebet --game crash --world hazard --trials 10 --name leaves
    """
    from playproof.cli.train_ppo import choose_game, run_folder
    from playproof.engine import Local, Ray
    from playproof.train.trainers import SPACES, TRAINERS
    from playproof.train.tune import Axis
    from playproof.train.tune import Search as Asked
    from playproof.train.tune import tune as search

    if engine not in ("local", "ray"):
        raise ConfigError(f"expected --engine local or ray, found {engine!r}")
    space = {key: Axis.parse(value) for key, _, value in (text.partition("=") for text in axis or ())}
    if method not in TRAINERS and (":" not in method or not space):
        raise ConfigError(f"expected a method among {', '.join(TRAINERS)}, or module:function with --axis")
    told = {
        "game": choose_game(game).name,
        "world": world,
        "stake": to_units(stake),
        "windows": windows,
        "rounds": rounds,
        "players": list(player or ["best:0.2", "best:0.6"]),
        "config": _fixed(option),
    }
    asked = Asked(
        name,
        TRAINERS.get(method, method),
        space or SPACES[method],
        trials,
        run_folder(name) / "study.db",
        options=told,
        seed=seed,
    )
    found = search(asked, Ray(workers=workers) if engine == "ray" else Local(workers, processes=workers > 1), workers)
    emit({"study": str(asked.storage), "trials": found}, as_json, lambda: _table(found))


def _fixed(options: list[str] | None) -> dict[str, Any]:
    """Read fixed settings, each as JSON where it can be."""
    import json

    told: dict[str, Any] = {}
    for text in options or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"expected --set name=value, found {text!r}")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        told[name] = tuple(read) if isinstance(read, list) else read
    return told


def _table(found: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    names = sorted({name for trial in found for name in trial["settings"]})
    table = Table("trial", "state", "return", *names)
    for trial in found:
        worth = "-" if trial["worth"] is None else f"{trial['worth']:+.5f}"
        shown = [_short(trial["settings"].get(name)) for name in names]
        table.add_row(str(trial["number"]), trial["state"], worth, *shown)
    return table


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
