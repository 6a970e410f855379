"""Tell how ready recorded windows are for training, write their outcomes, and seal them.

A game mounts these under its own name: `survey_app` and `outcomes_app` take what gives the game, and what knows the
prices of its windows; `app` takes any game or declared market. Leaves out: the survey itself
(playproof.record.trajectories.windows).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.data.trajectories import GameName, clock_game, money
from playproof.cli.output import AsJson, emit, note
from playproof.home import home

if TYPE_CHECKING:
    from rich.console import RenderableType
    from sqlalchemy import Engine

    from playproof.game import Game
    from playproof.record.trajectories.outcomes import OutcomeSync, Row
    from playproof.record.trajectories.windows import Survey

Prices = Callable[["Engine", Sequence[str]], "list[Row]"]
Hours = Annotated[float | None, typer.Option("--hours", help="Only windows that began in the last so many hours.")]


MinAgents = Annotated[int, typer.Option(help="Agents that make a window ready.", min=1)]
MinActions = Annotated[int, typer.Option(help="Usable steps that make an agent count.", min=1)]
Seal = Annotated[bool, typer.Option("--seal", help="Write usable windows into the event store's Parquet.")]

app = typer.Typer(help="Tell how many windows can be trained on; exit code 2 without any.")


@app.callback(invoke_without_command=True)
def windows(
    *,
    game: GameName = None,
    min_agents: MinAgents = 5,
    min_actions: MinActions = 5,
    hours: Hours = None,
    seal: Seal = False,
    as_json: AsJson = False,
) -> None:
    """Count windows by agents, and say READY FOR TRAINING, LIMITED DATA or NO DATA (exit code 2).

    Example: playproof windows --game my-market --min-agents 5 --json
    """
    tell_windows(clock_game(game), min_agents, min_actions, hours, seal, as_json)


def survey_app(game: Callable[[], Game]) -> typer.Typer:
    """Make the command that surveys a game's windows."""
    app = typer.Typer(help="Tell how many windows can be trained on; exit code 2 without any.")

    @app.callback(invoke_without_command=True)
    def windows(
        *,
        min_agents: MinAgents = 5,
        min_actions: MinActions = 5,
        hours: Hours = None,
        seal: Seal = False,
        as_json: AsJson = False,
    ) -> None:
        """Count windows by agents, and say READY FOR TRAINING, LIMITED DATA or NO DATA (exit code 2).

        Example: playproof arena windows --min-agents 5 --json
        """
        tell_windows(game(), min_agents, min_actions, hours, seal, as_json)

    return app


def tell_windows(game: Game, min_agents: int, min_actions: int, hours: float | None, seal: bool, as_json: bool) -> None:
    """Print the survey of a game's or market's windows, and seal the usable ones where that is asked for."""
    from playproof.record.trajectories.windows import NONE, survey, undeclared_actions
    from playproof.store.db import opened, ready
    from playproof.store.db.sealing import seal_windows

    rules = game.windows
    now = datetime.now(UTC)
    with opened(home()) as engine:
        result = survey(ready(engine), rules, now, hours=hours, min_agents=min_agents, min_actions=min_actions)
        unknown = undeclared_actions(engine, rules) if rules.action_types else {}
        if seal:
            usable = [window.window_id for window in result.windows if window.usable]
            count = seal_windows(engine, home(), usable, rules.market)
            note(f"sealed {count} trajectories of {len(usable)} windows")
    if unknown:
        listed = ", ".join(f"{name} ({count})" for name, count in unknown.items())
        note(f"steps with actions that {game.name} does not declare are not usable: {listed}")
    payload = result.to_json() | ({"undeclared_actions": unknown} if rules.action_types else {})
    emit(payload, as_json, lambda: _survey(result))
    if result.sft == NONE:
        raise typer.Exit(2)


def outcomes_app(game: Callable[[], Game], prices: Prices) -> typer.Typer:
    """Make the commands of a game's outcomes."""
    app = typer.Typer(no_args_is_help=True, help="Write the outcomes of windows that have closed.")

    @app.callback()
    def outcomes() -> None:
        """Write the outcomes of windows that have closed."""

    @app.command()
    def sync(*, hours: Hours = 24.0, as_json: AsJson = False) -> None:
        """Write the outcomes of closed windows, once, from the prices at each window's own ends.

        Example: playproof arena outcomes sync --hours 24
        """
        from playproof.record.trajectories import outcomes as book
        from playproof.store.db import opened, ready

        with opened(home()) as engine:
            ready(engine)
            done = book.sync(
                engine, lambda names: prices(engine, names), game().windows, datetime.now(UTC), hours=hours
            )
        emit(asdict(done), as_json, lambda: _synced(done))

    return app


def _survey(survey: Survey) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from playproof.record.trajectories.windows import LEVELS

    counts = Table("agents", "windows", title="windows that have closed and have outcomes", title_justify="left")
    for level in LEVELS:
        counts.add_row(f"{level}+", str(survey.with_agents(level)))
    table = Table("window", "state", "agents", "trajectories", "actions", "P&L")
    for column in table.columns[2:]:
        column.justify = "right"
    for window in survey.windows:
        state = "open" if not window.closed else "usable" if window.has_outcomes else "no outcomes"
        numbers = (str(window.agents), str(window.trajectories), str(window.actions), money(window.pnl))
        table.add_row(Text(window.window_id), state, *numbers)
    return Group(
        counts, table, f"SFT: {survey.sft}", f"GRPO: {survey.grpo} ({survey.groups} groups with log-probabilities)"
    )


def _synced(done: OutcomeSync) -> Any:
    from rich.table import Table

    table = Table("windows", "count", "which")
    payload = (("written", done.written), ("known", done.known), ("still open", done.open), ("no prices", done.missing))
    for name, item in payload:
        table.add_row(name, str(len(item)), ", ".join(item[:3]) + (" …" if len(item) > 3 else ""))
    return table
