"""Seal windows: write their trajectories into the event store, in its envelope and its manifest, as Parquet.

Each trajectory is a session of a log of its own name; its start, steps, model calls and end are events in their order,
with the record itself as raw text. Sealing again changes nothing: events that are there are passed over.
Leaves out: which windows may be sealed; a window that is still played must not be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import orjson
from sqlalchemy import Engine

from playproof.events import DocType, Event, Value
from playproof.game import Column
from playproof.json_types import Json
from playproof.store.db.trajectories import StoredTrajectory, each_window
from playproof.store.log.compaction import compact
from playproof.store.log.writer import EventLog

LOG = "trajectories"
COLUMNS = (
    Column("trajectory_step", "int", "number", "number of the step that an event belongs to"),
    Column("action_type", "text", "action", "what the agent did"),
    Column("action_success", "bool", "flag", "whether it was carried out"),
    Column("state_balance", "money", "smallest unit", "the agent's balance when the step began"),
    Column("state_pnl", "money", "smallest unit", "the agent's profit when the step began"),
    Column("reported_reward", "float", "reward", "the reward that the agent reported"),
    Column("model", "text", "model", "the language model that was called"),
    Column("trajectory_status", "text", "status", "how the trajectory ended"),
    Column("trajectory_pnl", "money", "smallest unit", "the trajectory's final profit"),
)


def seal_windows(engine: Engine, home: Path, window_ids: Sequence[str], market: str | None = None) -> int:
    """Write the trajectories of windows into the event store's Parquet; give how many trajectories."""
    count = 0
    with EventLog.open(home, COLUMNS, LOG) as log:
        for _, trajectories in each_window(engine, window_ids, market):
            for trajectory in trajectories:
                log.append(list(trajectory_events(trajectory)))
                count += 1
    compact(home, [LOG], final=True)
    return count


def trajectory_events(trajectory: StoredTrajectory) -> Iterator[Event]:
    """Give a trajectory as events: start, then each step behind its calls, then the end."""
    for seq, (name, doc_type, time, columns, payload) in enumerate(_facts(trajectory)):
        yield Event(
            ts=time,
            source="import",
            doc_type=doc_type,
            session_id=trajectory.trajectory_id,
            seq=seq,
            event_name=name,
            direction="none",
            window_id=trajectory.window_id,
            player_id=trajectory.agent_id,
            raw=orjson.dumps(payload).decode(),
            columns={key: value for key, value in columns.items() if value is not None},
        )


Told = tuple[str, DocType, datetime, dict[str, Value], Json]


def _facts(trajectory: StoredTrajectory) -> Iterable[Told]:
    whole = {name: value for name, value in _shallow(trajectory).items() if name not in ("steps", "calls")}
    yield "trajectory.start", "system_event", trajectory.start_time, {}, whole
    for call in (item for item in trajectory.calls if item.step is None):
        yield "trajectory.call", "ml_episode", call.time, {"model": call.model}, asdict(call)
    for step in trajectory.steps:
        for call in trajectory.calls_of(step.number):
            yield (
                "trajectory.call",
                "ml_episode",
                call.time,
                {"model": call.model, "trajectory_step": step.number},
                asdict(call),
            )
        columns: dict[str, Value] = {
            "trajectory_step": step.number,
            "action_type": step.action_type,
            "action_success": step.action_success,
            "state_balance": _whole(step.state.get("balance")),
            "state_pnl": _whole(step.state.get("pnl")),
            "reported_reward": step.reported_reward,
        }
        yield "trajectory.step", "player_action", step.completed_at or step.time, columns, asdict(step)
    if trajectory.end_time is not None:
        ended: dict[str, Value] = {"trajectory_status": trajectory.final_status, "trajectory_pnl": trajectory.final_pnl}
        yield "trajectory.end", "system_event", trajectory.end_time, ended, {"metrics": trajectory.metrics}


def _shallow(trajectory: StoredTrajectory) -> Json:
    return {name: getattr(trajectory, name) for name in StoredTrajectory.__dataclass_fields__}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
