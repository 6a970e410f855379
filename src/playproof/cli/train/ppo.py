"""Train a policy by PPO in a world, from scratch or from a checkpoint.

Leaves out: the training (playproof.train.ppo.loop).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.errors import ConfigError
from playproof.game import Game, first, game_names, load_game
from playproof.home import folder
from playproof.money import UNIT, to_units

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.train.ppo.loop import PPOConfig, PPOResult

app = typer.Typer()


@app.command()
def ppo(
    *,
    name: Annotated[str, typer.Option(help="Name of the run, a folder under runs/ in the home; or a path.")],
    game: Annotated[str | None, typer.Option(help="The game; needed where several can be simulated.")] = None,
    world: Annotated[
        list[str] | None,
        typer.Option(help="World, or world:share; given again it is a curriculum. Default: the game's first."),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, help="Steps of all lanes together, those of beginnings that are given up left out.")
    ] = 6_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same weights.")] = 1,
    stake: Annotated[
        float | None, typer.Option(help="Money reserved for each window; default: what the game validates with.")
    ] = None,
    reward: Annotated[str | None, typer.Option(help="A reward's name, a file, or module:attribute.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="Policy to start from, such as a clone: a checkpoint or a run.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run of this name stopped.")] = False,
    preset: Annotated[str, typer.Option(help="lanes, or plan: stable-baselines3 on 8 plain environments.")] = "lanes",
    patience: Annotated[int | None, typer.Option(help="Stop after so many evaluations without a better one.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting as name=value, such as frames=4; may be given again."),
    ] = None,
    allow_failing_reward: Annotated[
        bool, typer.Option("--allow-failing-reward", help="Train on a reward that fails its checks; it is noted.")
    ] = False,
    wandb: Annotated[str | None, typer.Option(help="Project of Weights & Biases to log to.")] = None,
    mlflow: Annotated[str | None, typer.Option(help="Experiment of MLflow to log to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a policy by PPO; evaluated in money on validation windows while it learns.

    Three trainings are begun; the one that earns most after 30 % of the steps goes on. --set beginnings=1 begins one.
    Writes runs/NAME: configuration, log, TensorBoard files, checkpoints, a resume point at every update, and
    report.html. Ctrl-C stops after the running update and saves; --resume goes on, to the same weights as an
    unbroken run. Three divergence alarms, reward rising while money does not, stop the training: exit code 2.

    Example: playproof train ppo --game crash --world drift --name first
    """
    from playproof.train.ppo.restarts import steps_of, train_best
    from playproof.train.run import Tracking, find_checkpoint

    played, path = choose_game(game), run_folder(name)
    source = None if source is None else find_checkpoint(_origin(source))
    config = _config(played, world, steps, seed, stake, reward, source, preset, patience, option)
    with _Bar(steps_of(config)) as bar:
        result = train_best(
            played,
            config,
            path,
            source=source,
            resume=resume,
            allow_failing_reward=allow_failing_reward,
            tracking=Tracking(wandb=wandb, mlflow=mlflow),
            show=bar.show,
        )
    ended = _told(result)
    emit(ended, as_json, lambda: _table(ended))
    if result.progress.alarms >= 3:
        raise typer.Exit(2)


def choose_game(name: str | None) -> Game:
    """Give the game of a name, or the only one that can be simulated."""
    if name is not None:
        return load_game(name)
    games = [game for game in map(load_game, game_names()) if game.simulation is not None]
    if len(games) != 1:
        raise ConfigError(f"expected --game, found {len(games)} games that can be simulated; name one")
    return games[0]


def run_folder(name: str) -> Path:
    """Give the folder of a run: a path as it is, a plain name under the home's runs."""
    return Path(name) if "/" in name else folder("runs") / name


def _origin(asked: Path) -> Path:
    """Give the folder of a policy to start from: a path, or the plain name of a run."""
    return asked if asked.exists() else run_folder(str(asked))


def _worlds(game: Game, asked: list[str] | None) -> tuple[tuple[str, float], ...]:
    """Read worlds with their shares; those without one share what is left."""
    parts = [text.partition(":") for text in asked or [first(game.worlds)]]
    try:
        given = {index: float(share) for index, (_, _, share) in enumerate(parts) if share}
    except ValueError:
        raise ConfigError(f"expected worlds as name or name:share, found {asked}") from None
    rest = (1.0 - sum(given.values())) / max(1, len(parts) - len(given))
    return tuple((world, given.get(index, rest)) for index, (world, _, _) in enumerate(parts))


def _config(
    game: Game,
    worlds: list[str] | None,
    steps: int,
    seed: int,
    stake: float | None,
    reward: str | None,
    source: Path | None,
    preset: str,
    patience: int | None,
    options: list[str] | None,
) -> PPOConfig:
    from playproof.train.ppo.loop import PPOConfig, fine_tuned, plan_preset

    config = PPOConfig(
        game=game.name,
        worlds=_worlds(game, worlds),
        steps=steps,
        seed=seed,
        stake=game.defaults.stake if stake is None else to_units(stake),
        reward=reward,
        patience=patience,
    )
    if source is not None:
        config = fine_tuned(config, source, game)
    if preset == "plan":
        config = plan_preset(config)
    elif preset != "lanes":
        raise ConfigError(f"expected --preset lanes or plan, found {preset!r}")
    return with_options(config, options or [])


def with_options(config: PPOConfig, options: list[str]) -> PPOConfig:
    """Change settings by texts such as frames=4, each read as JSON where it can be."""
    from playproof.train.ppo.loop import PPOConfig

    known = {field.name for field in fields(PPOConfig)}
    payload: dict[str, Any] = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise ConfigError(f"expected --set name=value with a name among {', '.join(sorted(known))}; found {text!r}")
        try:
            payload[name] = json.loads(value)
        except ValueError:
            payload[name] = value
    return PPOConfig.from_json({**vars(config), **payload}) if payload else config


def _told(result: PPOResult) -> dict[str, Any]:
    from playproof.train.ppo.restarts import begun

    progress = result.progress
    best = sum(progress.best_pnl) / len(progress.best_pnl) / UNIT if progress.best_pnl else None
    return {
        "run": str(result.path),
        "steps": result.steps,
        "best_checkpoint": None if result.best is None else str(result.best),
        "best_profit_per_window": best,
        "best_step": progress.best_step,
        "beginnings": [item.profit / UNIT for item in begun(result.path)] or None,
        "alarms": progress.alarms,
        "stopped": progress.stopped,
        "seconds": progress.seconds,
        "report": str(result.path / "report.html"),
    }


def _table(payload: Mapping[str, Any]) -> Table:
    from rich.table import Table

    table = Table("", "", show_header=False)
    for name, value in payload.items():
        table.add_row(name.replace("_", " "), "-" if value is None else str(value))
    return table


class _Bar:
    """A progress bar with what is left of the time, and the last profit."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def __enter__(self) -> _Bar:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} steps"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("training", total=self._steps)
        self._progress.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._progress.__exit__(None, None, None)

    def show(self, step: int, payload: Mapping[str, Any]) -> None:
        """Move the bar; say what an evaluation found."""
        self._progress.update(self._task, completed=step)
        if "pnl" in payload:
            se = payload["pnl_se"] or 0.0
            line = f"{step:>12,} steps: {payload['pnl'] / UNIT:+.5f} ± {1.96 * se / UNIT:.5f} coins a window"
            self._progress.update(self._task, description=f"{payload['pnl'] / UNIT:+.4f} a window")
            note(line + (" ALARM: reward rises, money does not" if payload.get("alarm") else ""))
