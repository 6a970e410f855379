"""The arena's side of the relational tables: free windows, outcomes of closed ones, runs and results read back.

Leaves out: recording (run_recorder) and what the rows hold (outcomes_writer).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, select

from playproof.errors import InputError
from playproof.games.arena.agents.runner import ClosedWindow
from playproof.games.arena.market.pools import SIDES, YES
from playproof.games.arena.market.windows import parse_window, window_id, window_start
from playproof.games.arena.recording.outcomes_writer import outcome_rows
from playproof.games.arena.recording.run_recorder import RecordedTrajectory
from playproof.record.trajectories import outcomes
from playproof.record.trajectories.windows import GRACE
from playproof.stats.ranking import AgentResult
from playproof.store.db import MarketOutcome, StepRow, Trajectory

QUESTION_WINDOWS = 3
"""Hours within which a question is resolved."""


def free_stretch(engine: Engine, now: datetime, windows: int, hours: int) -> datetime:
    """Give the start of the latest windows in a row that are closed, also to late records, and that nobody recorded."""
    length = timedelta(hours=hours)
    end = window_start(now - GRACE, hours)
    with engine.connect() as connection:
        while True:
            start = end - windows * length
            query = select(Trajectory.window_id).where(
                Trajectory.window_id >= window_id(start), Trajectory.window_id < window_id(end)
            )
            taken = [parse_window(scalar).start for scalar in connection.scalars(query.distinct())]
            if not taken:
                return start
            end = window_start(min(item for item in taken if item is not None), hours)


def write_outcomes(engine: Engine, recorder: Any, closed: ClosedWindow) -> bool:
    """Store what has been recorded of a closed window, then its outcomes, once; tell whether they are new."""
    getattr(recorder, "flush", lambda: None)()
    return outcomes.write_outcomes(engine, closed.window, outcome_rows(closed), closed.end)


def read_run(engine: Engine, run: str) -> list[RecordedTrajectory]:
    """Read a run's trajectories back."""
    with engine.connect() as connection:
        rows = connection.execute(
            select(
                Trajectory.trajectory_id,
                Trajectory.agent_id,
                Trajectory.archetype,
                Trajectory.window_id,
                Trajectory.extra,
                Trajectory.final_balance,
                Trajectory.final_pnl,
            ).where(Trajectory.batch_id == run)
        ).all()
        if not rows:
            raise InputError(f"expected a recorded run, found none called {run[:80]!r}")
        return [
            RecordedTrajectory(agent, archetype or "", window, extra, _answers(connection, identity), balance, pnl)
            for identity, agent, archetype, window, extra, balance, pnl in rows
        ]


def _answers(connection: Connection, identity: str) -> dict[int, str]:
    query = (
        select(StepRow.state, StepRow.action_parameters)
        .where(StepRow.trajectory_id == identity)
        .order_by(StepRow.number)
    )
    return {state["tick"]: parameters["text"] for state, parameters in connection.execute(query) if parameters}


def read_results(engine: Engine, since: str = "") -> list[AgentResult]:
    """Read what came of every agent that ended in a window whose outcomes are known, from a window on."""
    with engine.connect() as connection:
        known = select(MarketOutcome.window_id, MarketOutcome.subject, MarketOutcome.change, MarketOutcome.outcome)
        rows = connection.execute(known.where(MarketOutcome.window_id >= since, MarketOutcome.market == "")).all()
        ended = select(
            Trajectory.trajectory_id,
            Trajectory.window_id,
            Trajectory.agent_id,
            Trajectory.archetype,
            Trajectory.final_pnl,
            Trajectory.trades_executed,
            Trajectory.metrics,
        ).where(Trajectory.window_id >= since, Trajectory.market == "", Trajectory.final_pnl.is_not(None))
        result = connection.execute(ended.order_by(Trajectory.window_id, Trajectory.agent_id)).all()
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


def _forecasts(connection: Connection, since: str) -> dict[str, list[tuple[str, float]]]:
    """Give by trajectory the forecasts of its orders: market and probability of YES."""
    query = (
        select(StepRow.trajectory_id, StepRow.action_parameters)
        .join(Trajectory, Trajectory.trajectory_id == StepRow.trajectory_id)
        .where(Trajectory.window_id >= since, StepRow.action_type == "trade")
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
