"""The arena's side of the relational tables: free windows, outcomes of closed ones, runs read back.

The tables belong to a layer below the games, so they are reached by name when a command needs them.
Leaves out: recording (scribe) and what the rows hold (closing).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from playproof.errors import InputError
from playproof.game import resolve
from playproof.games.arena.closing import outcome_rows
from playproof.games.arena.running import Closed
from playproof.games.arena.scribe import Recorded
from playproof.games.arena.windows import parse_window, window_id, window_start


def _table(name: str) -> Any:
    return resolve(f"playproof.store.tables:{name}")


def free_stretch(engine: Any, now: datetime, windows: int, hours: int) -> datetime:
    """Give the start of the latest windows in a row that have ended and that nobody has recorded."""
    from sqlalchemy import select

    trajectory = _table("Trajectory")
    length = timedelta(hours=hours)
    end = window_start(now, hours)
    with engine.connect() as connection:
        while True:
            start = end - windows * length
            query = select(trajectory.window_id).where(
                trajectory.window_id >= window_id(start), trajectory.window_id < window_id(end)
            )
            taken = [parse_window(found).start for found in connection.scalars(query.distinct())]
            if not taken:
                return start
            end = window_start(min(it for it in taken if it is not None), hours)


def write_outcomes(engine: Any, recorder: Any, closed: Closed) -> bool:
    """Store what has been recorded of a closed window, then its outcomes, once; tell whether they are new."""
    getattr(recorder, "flush", lambda: None)()
    write: Callable[..., bool] = resolve("playproof.episodes.trajectories.outcomes:write_outcomes")
    return write(engine, closed.window, outcome_rows(closed), closed.end)


def read_run(engine: Any, run: str) -> list[Recorded]:
    """Read a run's trajectories back."""
    from sqlalchemy import select

    trajectory, step = _table("Trajectory"), _table("Step")
    with engine.connect() as connection:
        rows = connection.execute(
            select(
                trajectory.trajectory_id,
                trajectory.agent_id,
                trajectory.archetype,
                trajectory.window_id,
                trajectory.extra,
                trajectory.final_balance,
                trajectory.final_pnl,
            ).where(trajectory.batch_id == run)
        ).all()
        if not rows:
            raise InputError(f"expected a recorded run, found none called {run[:80]!r}")
        return [
            Recorded(agent, archetype or "", window, extra, _answers(connection, step, identity), balance, pnl)
            for identity, agent, archetype, window, extra, balance, pnl in rows
        ]


def _answers(connection: Any, step: Any, identity: str) -> dict[int, str]:
    from sqlalchemy import select

    query = select(step.state, step.action_parameters).where(step.trajectory_id == identity).order_by(step.number)
    return {state["tick"]: parameters["text"] for state, parameters in connection.execute(query) if parameters}
