"""Rank the agents that were recorded, over all windows whose outcomes are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit
from playproof.errors import GateFailed
from playproof.game import resolve

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
    opened: Callable[..., Any] = resolve("playproof.store.db:opened")
    ready: Callable[..., Any] = resolve("playproof.store.db:ready")
    with opened() as engine:
        found = read_results(ready(engine), since)
    if not found:
        raise GateFailed("expected windows with agents and outcomes, found none; run: playproof arena run")
    ranked, windows = rank_results(found, seed), sorted({it.window for it in found})
    title = f"{len(windows)} windows from {windows[0]} to {windows[-1]}; USD a window, 95 % intervals over windows"
    data = {"windows": windows, "agents": [it.to_json() for it in ranked]}
    emit(data, as_json, lambda: ranked_table(ranked, title))


def ranked_table(ranked: Sequence[RankedAgent], title: str) -> Table:
    """Draw a ranking; every figure that luck moves stands with its interval."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("agent")
    forecasts = any(it.forecasts for it in ranked)
    columns = ("profit", "alpha, % of equity", "over the others", "fees", "trades", "valid")
    for column in (*columns, "Brier") if forecasts else columns:
        table.add_column(column, justify="right", no_wrap=True)
    for it in ranked:
        row = [
            it.agent,
            _within(it.profit, it.profit_interval, 1),
            _within(100 * it.alpha, (100 * it.alpha_interval[0], 100 * it.alpha_interval[1]), 2),
            _within(it.over_others, it.over_interval, 1),
            f"{it.fees:.2f}",
            f"{it.trades:.1f}",
            f"{it.valid:.0%}",
        ]
        table.add_row(*row, *(["" if it.brier is None else f"{it.brier:.2f}"] if forecasts else []))
    return table


def _within(value: float, interval: tuple[float, float], digits: int) -> str:
    return f"{value:+.{digits}f} ({interval[0]:+.{digits}f} {interval[1]:+.{digits}f})"
