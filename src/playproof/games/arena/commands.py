"""Run the arena, and look at its windows, outcomes and trajectories."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="Run the arena, and look at its windows, outcomes and trajectories.")
