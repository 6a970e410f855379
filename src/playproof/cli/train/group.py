"""Train agents: imitation, reinforcement, offline learning, predictors.

Each method is a command of its own, an entry point of the group "playproof.train": its name, and
"module:app" with a Typer app. It is imported only when it is called.
Leaves out: the methods (playproof.train), and their options (train_ppo and others).
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from playproof.cli.app import LazyCommand

GROUP = "playproof.train"


class Methods(TyperGroup):
    """The group of all installed methods."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Name the methods."""
        return sorted(point.name for point in entry_points(group=GROUP))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Give a method's command, not imported yet."""
        result = {point.name: point.value for point in entry_points(group=GROUP)}
        return LazyCommand(cmd_name, result[cmd_name]) if cmd_name in result else None


app = typer.Typer(cls=Methods, no_args_is_help=True, help=__doc__.partition("\n")[0])


@app.callback()
def train() -> None:
    """Train agents: imitation, reinforcement, offline learning, predictors.

    Example: playproof train ppo --game crash --world drift --name first
    """
