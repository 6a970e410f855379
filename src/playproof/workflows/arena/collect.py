"""The arena's side of the relational tables: free windows, outcomes of closed ones, runs and results read back.

The tables belong to a layer below the games, so they are reached by name when a command needs them.
Leaves out: recording (scribe) and what the rows hold (closing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from playproof.errors import InputError
from playproof.game import resolve
from playproof.games.arena.agents.runner import ClosedWindow
from playproof.games.arena.market.pools import SIDES, YES
from playproof.games.arena.market.windows import parse_window, window_id, window_start
from playproof.games.arena.recording.outcomes_writer import outcome_rows
from playproof.games.arena.recording.ranking import AgentResult
from playproof.games.arena.recording.run_recorder import RecordedTrajectory

QUESTION_WINDOWS = 3
"""Hours within which a question is resolved."""


def _table(name: str) -> Any:
    return resolve(f"playproof.store.db:{name}")


def free_stretch(engine: Any, now: datetime, windows: int, hours: int) -> datetime:
    """Give the start of the latest windows in a row that are closed, also to late records, and that nobody recorded."""
    from sqlalchemy import select

    grace: timedelta = resolve("playproof.record.trajectories.windows:GRACE")
    trajectory = _table("Trajectory")
    length = timedelta(hours=hours)
    end = window_start(now - grace, hours)
    with engine.connect() as connection:
        while True:
            start = end - windows * length
            query = select(trajectory.window_id).where(
                trajectory.window_id >= window_id(start), trajectory.window_id < window_id(end)
            )
            taken = [parse_window(scalar).start for scalar in connection.scalars(query.distinct())]
            if not taken:
                return start
            end = window_start(min(item for item in taken if item is not None), hours)


def write_outcomes(engine: Any, recorder: Any, closed: ClosedWindow) -> bool:
    """Store what has been recorded of a closed window, then its outcomes, once; tell whether they are new."""
    getattr(recorder, "flush", lambda: None)()
    write: Callable[..., bool] = resolve("playproof.record.trajectories.outcomes:write_outcomes")
    return write(engine, closed.window, outcome_rows(closed), closed.end)


def read_run(engine: Any, run: str) -> list[RecordedTrajectory]:
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
            RecordedTrajectory(
                agent, archetype or "", window, extra, _answers(connection, step, identity), balance, pnl
            )
            for identity, agent, archetype, window, extra, balance, pnl in rows
        ]


def _answers(connection: Any, step: Any, identity: str) -> dict[int, str]:
    from sqlalchemy import select

    query = select(step.state, step.action_parameters).where(step.trajectory_id == identity).order_by(step.number)
    return {state["tick"]: parameters["text"] for state, parameters in connection.execute(query) if parameters}


def read_results(engine: Any, since: str = "") -> list[AgentResult]:
    """Read what came of every agent that ended in a window whose outcomes are known, from a window on."""
    from sqlalchemy import select

    trajectory, outcome = _table("Trajectory"), _table("MarketOutcome")
    with engine.connect() as connection:
        known = select(outcome.window_id, outcome.subject, outcome.change, outcome.outcome)
        rows = connection.execute(known.where(outcome.window_id >= since)).all()
        ended = select(
            trajectory.trajectory_id,
            trajectory.window_id,
            trajectory.agent_id,
            trajectory.archetype,
            trajectory.final_pnl,
            trajectory.trades_executed,
            trajectory.metrics,
        ).where(trajectory.window_id >= since, trajectory.final_pnl.is_not(None))
        result = connection.execute(ended.order_by(trajectory.window_id, trajectory.agent_id)).all()
        forecasts = _forecasts(connection, since)
    changes: dict[str, list[float]] = {}
    for window, _, change, _ in rows:
        if change is not None:
            changes.setdefault(window, []).append(change)
    answers = {(window, market): answer for window, market, _, answer in rows if answer is not None}
    return [
        AgentResult(
            window,
            agent,
            archetype or "",
            pnl,
            metrics["start_equity"],
            sum(changes[window]) / len(changes[window]),
            metrics.get("fees", 0),
            trades or 0,
            metrics.get("decisions", 0),
            metrics.get("rejected", 0),
            tuple(_squares(window, forecasts.get(identity, ()), answers)),
        )
        for identity, window, agent, archetype, pnl, trades, metrics in result
        if window in changes and metrics and "start_equity" in metrics
    ]


def _forecasts(connection: Any, since: str) -> dict[str, list[tuple[str, float]]]:
    """Give by trajectory the forecasts of its orders: market and probability of YES."""
    from sqlalchemy import select

    trajectory, step = _table("Trajectory"), _table("Step")
    query = (
        select(step.trajectory_id, step.action_parameters)
        .join(trajectory, trajectory.trajectory_id == step.trajectory_id)
        .where(trajectory.window_id >= since, step.action_type == "trade")
    )
    payload: dict[str, list[tuple[str, float]]] = {}
    for identity, parameters in connection.execute(query):
        if parameters and isinstance(forecast := parameters.get("forecast"), int | float):
            payload.setdefault(identity, []).append((str(parameters.get("market")), float(forecast)))
    return payload


def _squares(
    window: str, forecasts: Iterable[tuple[str, float]], answers: Mapping[tuple[str, str], str]
) -> Iterable[float]:
    """Hold forecasts against answers; a question is resolved within the windows that it may be open for."""
    start = parse_window(window).start
    assert start is not None
    near = [window_id(start + timedelta(hours=hours)) for hours in range(QUESTION_WINDOWS)]
    for market, forecast in forecasts:
        answer = next((answers[item, market] for item in near if (item, market) in answers), None)
        if answer is not None:
            yield (forecast - (answer == SIDES[YES])) ** 2
