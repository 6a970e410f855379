"""Search a method's settings: pruned, resumable, every trial in the trial ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.configs import Settings, configured
from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import run_folder, simulated_game
from playproof.cli.train.data_options import Players, Stake
from playproof.cli.train.group import SimulatedGame
from playproof.errors import ConfigError
from playproof.game import lookup
from playproof.json_types import Json
from playproof.money import to_units

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from playproof.train.tuning import Search

app = typer.Typer()


@app.command()
@configured()
def tune(
    method: Annotated[str, typer.Argument(help="ppo, cql, iql, sidebet, or module:function of a trainer.")],
    *,
    name: Annotated[str, typer.Option(help="Name of the study; the same name goes on with it.")],
    world: Annotated[str, typer.Option(help="World to train and validate in.")],
    game: SimulatedGame = None,
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
    settings: Settings,
    as_json: AsJson = False,
) -> None:
    """Search for the settings that earn most on validation windows; poor trials end early.

    The study lies in runs/NAME/study.db: called again it goes on until so many trials are finished. Every finished
    trial is written to the trial ledger, which later claims are corrected by.

    Example: playproof train tune sidebet --game crash --world hazard --trials 10 --name leaves
    """
    from playproof.parallel import LocalEngine, Ray
    from playproof.train.trainers import CONFIGS, SPACES, TRAINERS
    from playproof.train.tuning import Axis
    from playproof.train.tuning import Search as Asked
    from playproof.train.tuning import tune as search

    if engine not in ("local", "ray"):
        raise ConfigError(f"expected --engine local or ray, found {engine!r}")
    space = {key: Axis.parse(value) for key, _, value in (text.partition("=") for text in axis or ())}
    if method not in TRAINERS and (":" not in method or not space):
        raise ConfigError(f"expected a method among {', '.join(TRAINERS)}, or module:function with --axis")
    payload = {
        "game": simulated_game(game).name,
        "world": world,
        "stake": to_units(stake),
        "windows": windows,
        "rounds": rounds,
        "players": list(player or ["best:0.2", "best:0.6"]),
        "config": settings.changes(CONFIGS[method]) if method in CONFIGS else settings.plain(),
    }
    asked = Asked(
        name,
        TRAINERS.get(method, method),
        space or SPACES[method],
        trials,
        run_folder(name) / "study.db",
        options=payload,
        seed=seed,
    )
    lookup(simulated_game(game).worlds, world, "world")
    begun = asked.storage.exists()
    note(f"{'going on with' if begun else 'beginning'} study {name}: {trials} trials wanted; Ctrl-C keeps the finished")
    with _counting(asked, trials):
        match = search(
            asked, Ray(workers=workers) if engine == "ray" else LocalEngine(workers, processes=workers > 1), workers
        )
    result = {
        "study": str(asked.storage),
        "report": str(_write_page(run_folder(name), payload, match)),
        "trials": match,
    }
    emit(result, as_json, lambda: _table(match))


@contextmanager
def _counting(search: Search, wanted: int) -> Iterator[None]:
    """Show how many trials are finished while the search goes on, and how long the rest may take."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from playproof.train.tuning import results

    console, over = Console(stderr=True), Event()
    if not console.is_terminal:
        yield
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("trials"), *columns, console=console) as bar:
        task = bar.add_task("trials", total=wanted)

        def watch() -> None:
            while not over.wait(1.0):
                if search.storage.exists():
                    bar.update(task, completed=len(results(search)))

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _write_page(path: Path, payload: Mapping[str, object], result: list[Json]) -> Path:
    """Write the study's page: configuration, every trial, and the best so far."""
    from playproof.train.run import CONFIG, LOG, REPORT, Run

    for file in (CONFIG, LOG):
        (path / file).unlink(missing_ok=True)
    run = Run.create(path, "tune", dict(payload))
    for trial in result:
        run.note("trial", trial["number"], {"worth": trial["worth"], "state": trial["state"], **trial["settings"]})
    run.finish({"trials": len(result), "best": result[0] if result else None})
    run.close()
    return path / REPORT


def _table(result: list[Json]) -> Table:
    from rich.table import Table

    names = sorted({name for trial in result for name in trial["settings"]})
    table = Table("trial", "state", "return", *names)
    for trial in result:
        worth = "-" if trial["worth"] is None else f"{trial['worth']:+.5f}"
        shown = [_short(trial["settings"].get(name)) for name in names]
        table.add_row(str(trial["number"]), trial["state"], worth, *shown)
    return table


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
