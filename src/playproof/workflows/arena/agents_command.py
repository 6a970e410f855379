"""Rank the agents that were recorded, over all windows whose outcomes are known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit
from playproof.errors import GateFailed

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.games.arena.recording.ranking import RankedAgent

app = typer.Typer(help="Rank the agents that were recorded, over all windows whose outcomes are known.")


@app.callback(invoke_without_command=True)
def agents(
    *,
    hours: Annotated[
        float | None, typer.Option("--hours", help="Only windows that began in the last so many hours.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same intervals.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Rank every recorded agent by profit, alpha and what it made over the others; exit code 2 without any.

    Example: playproof arena agents --hours 168
    """
    from playproof.games.arena.market.windows import window_id
    from playproof.games.arena.recording.ranking import rank_results
    from playproof.workflows.arena.collect import read_results

    since = "" if hours is None else window_id(datetime.now(UTC) - timedelta(hours=hours))
    from playproof.store.db import opened, ready

    with opened() as engine:
        results = read_results(ready(engine), since)
    if not results:
        raise GateFailed("expected windows with agents and outcomes, found none; run: playproof arena run")
    ranked, windows = rank_results(results, seed), sorted({item.window for item in results})
    title = f"{len(windows)} windows from {windows[0]} to {windows[-1]}; USD a window, 95 % intervals over windows"
    data = {"windows": windows, "agents": [item.to_json() for item in ranked]}
    emit(data, as_json, lambda: ranked_table(ranked, title))


def ranked_table(ranked: Sequence[RankedAgent], title: str) -> Table:
    """Draw a ranking; every figure that luck moves stands with its interval."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("agent")
    forecasts = any(entry.forecasts for entry in ranked)
    columns = ("profit", "alpha, % of equity", "over the others", "fees", "trades", "valid")
    for column in (*columns, "Brier") if forecasts else columns:
        table.add_column(column, justify="right", no_wrap=True)
    for item in ranked:
        row = [
            item.agent,
            _within(item.profit, item.profit_interval, 1),
            _within(100 * item.alpha, (100 * item.alpha_interval[0], 100 * item.alpha_interval[1]), 2),
            _within(item.over_others, item.over_interval, 1),
            f"{item.fees:.2f}",
            f"{item.trades:.1f}",
            f"{item.valid:.0%}",
        ]
        table.add_row(*row, *(["" if item.brier is None else f"{item.brier:.2f}"] if forecasts else []))
    return table


def _within(value: float, interval: tuple[float, float], digits: int) -> str:
    return f"{value:+.{digits}f} ({interval[0]:+.{digits}f} {interval[1]:+.{digits}f})"
