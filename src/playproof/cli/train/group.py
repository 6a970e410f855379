"""Train agents: imitation, reinforcement, offline learning, predictors.

Each method is a command of its own, an entry point of the group "playproof.train": its name, and
"module:app" with a Typer app. It is imported only when it is called.
What the commands share is here too: options, progress bars, tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from playproof.cli.app import LazyCommand
from playproof.cli.output import note
from playproof.errors import ConfigError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from playproof.train.run import Run, Tracking


Name = Annotated[str, typer.Option(help="Name of the run, a folder under runs/ in the home; or a path.")]
SimulatedGame = Annotated[str | None, typer.Option(help="The game; needed where several can be simulated.")]
LanguageGame = Annotated[str | None, typer.Option(help="The game; needed where several are played in words.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where the run of this name stopped.")]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Also log to wandb or mlflow; tensorboard is always written. May be given again."),
]


def tracking(names: list[str] | None, run: str) -> Tracking:
    """Give where numbers go beside the log."""
    from playproof.train.run import Tracking

    unknown = set(names or ()) - {"tensorboard", "wandb", "mlflow"}
    if unknown:
        raise ConfigError(f"expected --track tensorboard, wandb or mlflow, found {', '.join(sorted(unknown))}")
    project = run.rpartition("/")[2]
    return Tracking(
        wandb=project if "wandb" in (names or ()) else None, mlflow=project if "mlflow" in (names or ()) else None
    )


def check_new(path: Path) -> None:
    """Refuse a run that is there already, before anything is played for it."""
    from playproof.train.run import CONFIG

    if (path / CONFIG).exists():
        raise ConfigError(f"expected a new run at {path}, found one; use --resume to go on, or another name")


@contextmanager
def opened_run(path: Path, method: str, payload: Mapping[str, object], resume: bool) -> Iterator[Run]:
    """Begin a run, or go on with one; its folder keeps what it was asked for. Ctrl-C says how to go on."""
    from playproof.train.run import STATE, Run

    run = Run.resume(path, method) if resume else Run.create(path, method, payload)
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


def progress_bar(unit: str) -> Progress:
    """Give a bar on stderr with the time that is left, silent where stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(unit), TimeElapsedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)


def epochs_bar(total: int) -> tuple[Progress, Callable[[int, Mapping[str, float]], None]]:
    """Give a progress bar over epochs, and what moves it."""
    bar = progress_bar("{task.completed}/{task.total} epochs")
    task = bar.add_task("learning", total=total)

    def moved(epoch: int, losses: Mapping[str, float]) -> None:
        bar.update(task, completed=epoch + 1, description=f"loss {losses['loss']:.4f}")

    return bar, moved


def figures(payload: Mapping[str, object], title: str | None = None, digits: str = ",.6g") -> Table:
    """Lay a result out, one figure a line, numbers inside numbers included."""
    from rich.table import Table

    table = Table("", "", title=title, title_justify="left", show_header=False)

    def add(rows: Mapping[str, object], before: str) -> None:
        for name, value in rows.items():
            label = f"{before}{name}".replace("_", " ")
            if isinstance(value, Mapping):
                add(value, f"{label} ")
            else:
                shown = format(value, digits) if isinstance(value, float) else "-" if value is None else str(value)
                table.add_row(label, shown)

    add(payload, "")
    return table


GROUP = "playproof.train"


class Methods(TyperGroup):
    """The group of all installed methods."""

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002
        """Name the methods."""
        return sorted(point.name for point in entry_points(group=GROUP))

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ARG002
        """Give a method's command, not imported yet."""
        result = {point.name: point.value for point in entry_points(group=GROUP)}
        return LazyCommand(cmd_name, result[cmd_name]) if cmd_name in result else None


app = typer.Typer(cls=Methods, no_args_is_help=True, help=__doc__.partition("\n")[0])


@app.callback()
def train() -> None:
    """Train agents: imitation, reinforcement, offline learning, predictors.

    Example: playproof train ppo --game crash --world drift --name first
    """
