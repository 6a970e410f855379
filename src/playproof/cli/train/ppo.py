"""Train a policy by PPO in a world, from scratch or from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.configs import Settings, configured
from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import find_model, run_folder, simulated_game
from playproof.cli.train.group import Name, Resume, SimulatedGame, figures, progress_bar
from playproof.errors import ConfigError
from playproof.game import first
from playproof.json_types import Json
from playproof.money import UNIT, to_units
from playproof.train.ppo.config import PPOConfig, fine_tuned, plan_preset

if TYPE_CHECKING:
    from playproof.train.ppo.loop import PPOResult

app = typer.Typer()


@app.command()
@configured(PPOConfig)
def ppo(
    *,
    name: Name,
    game: SimulatedGame = None,
    world: Annotated[
        list[str] | None,
        typer.Option(help="World, or world:share; given again it is a curriculum. Default: the game's first."),
    ] = None,
    stake: Annotated[
        float | None, typer.Option(help="Money reserved for each window; default: what the game validates with.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="Policy to start from, such as a clone: a checkpoint or a run.")
    ] = None,
    resume: Resume = False,
    preset: Annotated[str, typer.Option(help="lanes, or plan: stable-baselines3 on 8 plain environments.")] = "lanes",
    allow_failing_reward: Annotated[
        bool, typer.Option("--allow-failing-reward", help="Train on a reward that fails its checks; it is noted.")
    ] = False,
    wandb: Annotated[str | None, typer.Option(help="Project of Weights & Biases to log to.")] = None,
    mlflow: Annotated[str | None, typer.Option(help="Experiment of MLflow to log to.")] = None,
    settings: Settings,
    as_json: AsJson = False,
) -> None:
    """Train a policy by PPO; evaluated in money on validation windows while it learns.

    Three trainings are begun; the one that earns most after 30 % of the steps goes on. --restarts 1 begins one. The
    steps of the others come on top of --steps, and are shown apart.
    Writes runs/NAME: configuration, log, TensorBoard files, checkpoints, a resume point at every update, and
    report.html. Ctrl-C stops after the running update and saves; --resume goes on, to the same weights as an
    unbroken run. Three divergence alarms, reward rising while money does not, stop the training: exit code 2.

    Example: playproof train ppo --game crash --world drift --name first
    """
    from playproof.train.ppo.restarts import discarded_steps, halt_of, list_restarts, train_best
    from playproof.train.run import Tracking, find_checkpoint

    played, path = simulated_game(game), run_folder(name)
    source = None if source is None else find_checkpoint(Path(find_model(str(source))))
    config = PPOConfig(game=played.name, worlds=((first(played.worlds), 1.0),), stake=played.defaults.stake)
    if source is not None:
        config = fine_tuned(config, source, played)
    if preset == "plan":
        config = plan_preset(config)
    elif preset != "lanes":
        raise ConfigError(f"expected --preset lanes or plan, found {preset!r}")
    worlds = None if world is None else read_worlds(world)
    config = settings.apply(config, worlds=worlds, stake=None if stake is None else to_units(stake))
    with _Bar(config.steps, config.restarts, halt_of(config)) as bar:
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
    payload = _summary(result) | {"discarded_steps": discarded_steps(config) if list_restarts(result.path) else 0}
    emit(payload, as_json, lambda: figures(payload))
    if result.progress.alarms >= 3:
        raise typer.Exit(2)


def read_worlds(texts: list[str]) -> tuple[tuple[str, float], ...]:
    """Read worlds with their shares; those without one share what is left."""
    parts = [text.partition(":") for text in texts]
    try:
        given = {index: float(share) for index, (_, _, share) in enumerate(parts) if share}
    except ValueError:
        raise ConfigError(f"expected worlds as name or name:share, found {texts}") from None
    rest = (1.0 - sum(given.values())) / max(1, len(parts) - len(given))
    return tuple((world, given.get(index, rest)) for index, (world, _, _) in enumerate(parts))


def _summary(result: PPOResult) -> Json:
    from playproof.train.ppo.restarts import list_restarts

    progress = result.progress
    best = sum(progress.best_pnl) / len(progress.best_pnl) / UNIT if progress.best_pnl else None
    return {
        "run": str(result.path),
        "steps": result.steps,
        "best_checkpoint": None if result.best is None else str(result.best),
        "best_profit_per_window": best,
        "best_step": progress.best_step,
        "restarts": [item.profit / UNIT for item in list_restarts(result.path)] or None,
        "alarms": progress.alarms,
        "stopped": progress.stopped,
        "seconds": progress.seconds,
        "report": str(result.path / "report.html"),
    }


class _Bar:
    """A progress bar with what is left of the time, and the last profit."""

    def __init__(self, steps: int, restarts: int, halt: int) -> None:
        self._steps, self._restarts, self._halt = steps, restarts, halt
        self._last: int | None = None

    def __enter__(self) -> _Bar:
        self._progress = progress_bar("{task.completed:,.0f} steps")
        self._task = self._progress.add_task("training", total=self._steps)
        self._progress.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._progress.__exit__(None, None, None)

    def show(self, step: int, payload: Mapping[str, Any]) -> None:
        """Move the bar; say what an evaluation found."""
        restart = payload.get("restart")
        total = self._halt if restart else self._steps
        if restart != self._last:  # each training has a bar of its own: time left is that of its own steps
            self._last = restart
            self._progress.reset(self._task, total=total, description="training")
        named = f"restart {restart} of {self._restarts}, " if restart else ""
        self._progress.update(self._task, completed=min(step, total), description=f"{named}training")
        if "pnl" in payload:
            se = payload["pnl_se"] or 0.0
            line = f"{named}{step:>12,} steps: {payload['pnl'] / UNIT:+.5f} ± {1.96 * se / UNIT:.5f} coins a window"
            self._progress.update(self._task, description=f"{named}{payload['pnl'] / UNIT:+.4f} a window")
            note(line + (" ALARM: reward rises, money does not" if payload.get("alarm") else ""))
