"""A ranking of agents as a table; every figure that luck moves stands with its interval.

Leaves out: the ranking (stats.ranking).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from playproof.stats.evidence import FEWEST, SMALL
from playproof.stats.ranking import RankedAgent

if TYPE_CHECKING:
    from rich.table import Table


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
    if any(item.windows < FEWEST for item in ranked):
        table.caption = f"No intervals below {FEWEST} windows: run at least so many; {SMALL} or more tell something."
        table.caption_justify = "left"
    return table


def _within(value: float, interval: tuple[float, float], digits: int) -> str:
    if not all(map(isfinite, interval)):
        return f"{value:+.{digits}f}"
    return f"{value:+.{digits}f} ({interval[0]:+.{digits}f} {interval[1]:+.{digits}f})"
