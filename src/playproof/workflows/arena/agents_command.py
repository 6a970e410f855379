"""Rank the agents that were recorded, over all windows whose outcomes are known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from playproof.cli.output import AsJson, emit
from playproof.cli.ranking import ranked_table
from playproof.errors import GateFailed

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
    from playproof.stats.ranking import rank_results
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
