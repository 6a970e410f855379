"""Write the outcomes of the arena's closed windows, from the runs that were recorded in them.

A run is run again from its answers, to the last unit of money, and the prices at the ends of its windows are read off.
Leaves out: windows that no recorded run covers from its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, select

from playproof.cli.data.windows import outcomes_app
from playproof.games.arena.game import arena_game
from playproof.games.arena.recording.outcomes_writer import outcome_rows
from playproof.json_types import Json


def prices(engine: Engine, windows: Sequence[str]) -> list[Mapping[str, Any]]:
    """Give the outcome rows of windows, from every run that was recorded in them."""
    wanted = set(windows)
    rows: dict[str, list[Json]] = {}
    for run in _runs(engine, windows):
        for closed in _closed(engine, run):
            if closed.window in wanted and closed.window not in rows:
                rows[closed.window] = outcome_rows(closed)
    return [row for item in rows.values() for row in item]


def _runs(engine: Engine, windows: Sequence[str]) -> list[str]:
    from playproof.store.db import Trajectory

    query = select(Trajectory.batch_id).where(Trajectory.window_id.in_(list(windows))).distinct()
    with engine.connect() as connection:
        return sorted(run for run in connection.scalars(query) if run is not None)


def _closed(engine: Engine, run: str) -> list[Any]:
    """Run a recorded run again; give its windows if all of its money comes out the same, else none."""
    from playproof.games.arena.recording.run_recorder import differences, run_again
    from playproof.workflows.arena.collect import read_run

    recorded = [item for item in read_run(engine, run) if item.metadata and "settings" in item.metadata]
    unfinished = {item.window for item in recorded if item.final_pnl is None}
    whole = [item for item in recorded if item.window not in unfinished]
    if not whole:
        return []
    closed = run_again(whole)
    return [] if differences(whole, closed) else closed


app = outcomes_app(arena_game, prices)
