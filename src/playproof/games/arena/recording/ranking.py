"""Rank the agents of a run of the arena.

Leaves out: the ranking itself (stats.ranking).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from playproof.games.arena.agents.runner import ClosedWindow
from playproof.money import UNIT
from playproof.stats.ranking import AgentResult, RankedAgent, rank_results


def rank(closed: Sequence[ClosedWindow], seed: int) -> list[RankedAgent]:
    """Rank the agents of a run, the most profitable first."""
    return rank_results([result for item in closed for result in _results(item)], seed)


def _results(closed: ClosedWindow) -> Iterable[AgentResult]:
    held = closed.hold_return
    for tally in closed.tallies:
        counts = (tally.fees, tally.trades, tally.decisions, tally.rejected)
        yield AgentResult(tally.window, tally.agent, tally.archetype, tally.pnl, tally.start_equity, held, *counts)


def profits(closed: Sequence[ClosedWindow]) -> NDArray[np.float64]:
    """Give the profits in USD, (windows, agents)."""
    return np.array([[tally.pnl for tally in item.tallies] for item in closed]) / UNIT
