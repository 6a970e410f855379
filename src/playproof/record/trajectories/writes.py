"""The writes behind the trajectory recorder, each a function of a connection inside somebody's transaction.

Every write first reads how its trajectory stands, under a lock, and refuses before it changes anything; then it writes
rows that are never read back to be changed, but for an open step's list of accesses, a step's action and a
trajectory's end.
Leaves out: transactions (group), clocks and ids (trajectories).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from playproof.errors import RefusedRecord
from playproof.json_types import Json
from playproof.record.trajectories.facts import POST, TRADE, Access, Call, End, Start, StepEnd, StepStart, count_actions
from playproof.record.trajectories.secrets import SecretScrubber
from playproof.store.db import AgentRow, LlmCall, Request, StepRow, Trajectory
from playproof.store.db.columns import JsonText, plain, read_json, storable

RUNNING = "running"


@dataclass(frozen=True, slots=True)
class TrajectoryStatus:
    """How a trajectory stands."""

    trajectory_id: str
    agent_id: str
    window_id: str
    steps: int
    status: str
    start_time: datetime
    step_is_open: bool
    calls: int

    @property
    def last_step(self) -> int | None:
        """Give the number of the last step; None before the first."""
        return self.steps - 1 if self.steps else None


@dataclass(frozen=True, slots=True)
class ResolvedStart:
    """A start with everything settled that the caller may leave open."""

    trajectory_id: str
    window_id: str
    window_hours: int
    time: datetime
    market: str = ""


def read_standing(connection: Connection, trajectory_id: str) -> TrajectoryStatus:
    """Lock a trajectory until the transaction ends, and read how it stands."""
    lock = select(Trajectory.trajectory_id).where(Trajectory.trajectory_id == trajectory_id).with_for_update()
    if connection.dialect.name == "postgresql":
        connection.execute(lock)
    open_step = (
        select(StepRow.number)
        .where(StepRow.trajectory_id == Trajectory.trajectory_id, StepRow.number == Trajectory.episode_length - 1)
        .where(StepRow.completed_at.is_(None))
        .scalar_subquery()
    )
    calls = (
        select(func.count()).where(LlmCall.trajectory_id == Trajectory.trajectory_id).select_from(LlmCall)
    ).scalar_subquery()
    query = select(
        Trajectory.trajectory_id,
        Trajectory.agent_id,
        Trajectory.window_id,
        Trajectory.episode_length,
        Trajectory.final_status,
        Trajectory.start_time,
        open_step.is_not(None),
        calls,
    ).where(Trajectory.trajectory_id == trajectory_id)
    one = connection.execute(query).one_or_none()
    if one is None:
        raise RefusedRecord(
            "unknown", f"expected a known trajectory, found {trajectory_id[:80]!r}; start it with start_trajectory"
        )
    return TrajectoryStatus(*one)


def check_running(trajectory_id: str, status: str) -> None:
    """Refuse a record for a trajectory that has ended."""
    if status != RUNNING:
        raise RefusedRecord("ended", f"expected trajectory {trajectory_id} to run, found it {status}; start another")


def check_in_step(trajectory_id: str, is_open: bool) -> None:
    """Refuse a record that belongs to an open step where there is none."""
    if not is_open:
        raise RefusedRecord(
            "no_step", f"expected an open step of trajectory {trajectory_id}, found none; start it with start_step"
        )


def check_between_steps(trajectory_id: str, is_open: bool) -> None:
    """Refuse a step while another is open."""
    if is_open:
        raise RefusedRecord(
            "open_step",
            f"expected the last step of trajectory {trajectory_id} to be complete, found it open; call complete_step",
        )


def _running(connection: Connection, trajectory_id: str) -> TrajectoryStatus:
    standing = read_standing(connection, trajectory_id)
    check_running(trajectory_id, standing.status)
    return standing


def _in_step(connection: Connection, trajectory_id: str) -> TrajectoryStatus:
    standing = _running(connection, trajectory_id)
    check_in_step(trajectory_id, standing.step_is_open)
    return standing


def start_trajectory(connection: Connection, start: Start, named: ResolvedStart, clean: SecretScrubber) -> None:
    """Write the row of a new trajectory, and its agent's where that is new."""
    known = connection.execute(
        select(Trajectory.trajectory_id).where(Trajectory.trajectory_id == named.trajectory_id)
    ).first()
    if known:
        raise RefusedRecord("known", f"expected a new trajectory_id, found {named.trajectory_id}, which is taken")
    connection.execute(
        insert_unless_there(connection, AgentRow).values(
            agent_id=start.agent_id, archetype=start.archetype, created_at=named.time
        )
    )
    connection.execute(insert(Trajectory).values(trajectory_row(start, named, clean)))


def trajectory_row(start: Start, named: ResolvedStart, clean: SecretScrubber) -> Json:
    """Give the row of a trajectory that has just begun."""
    return {
        "trajectory_id": named.trajectory_id,
        "agent_id": start.agent_id,
        "archetype": _text(start.archetype, clean),
        "window_id": named.window_id,
        "window_hours": named.window_hours,
        "scenario_id": _text(start.scenario_id, clean) or named.window_id,
        "episode_id": _text(start.episode_id, clean),
        "batch_id": _text(start.batch_id, clean),
        "market": named.market,
        "start_time": named.time,
        "extra": clean.json(start.metadata),
        "episode_length": 0,
        "final_status": RUNNING,
        "is_training_data": start.is_training_data,
        "is_evaluation": start.is_evaluation,
        "used_in_training": False,
        "created_at": named.time,
    }


def start_step(
    connection: Connection, trajectory_id: str, step: StepStart, now: datetime, clean: SecretScrubber
) -> int:
    """Write the row of a new step; give its number."""
    state = clean.json(step.state)
    standing = _running(connection, trajectory_id)
    check_between_steps(trajectory_id, standing.step_is_open)
    row = {"trajectory_id": trajectory_id, "number": standing.steps, "time": step.time or now, "state": state}
    connection.execute(insert(StepRow).values(**row, accesses=[]))
    _change(connection, trajectory_id, {"episode_length": standing.steps + 1})
    return standing.steps


def log_access(connection: Connection, trajectory_id: str, access: Access, now: datetime, clean: SecretScrubber) -> int:
    """Add to the open step what the agent looked at; give its number."""
    row = access_row(access, now, clean)
    number = _in_step(connection, trajectory_id).last_step
    here = (StepRow.trajectory_id == trajectory_id, StepRow.number == number)
    accesses = connection.execute(select(StepRow.accesses).where(*here)).scalar_one()
    connection.execute(update(StepRow).where(*here).values(accesses=[*accesses, read_json(row)]))
    assert number is not None
    return number


def access_row(access: Access, now: datetime, clean: SecretScrubber) -> JsonText:
    """Write an access as it stands in a step's list."""
    written = clean.json(access_fields(access, now))
    assert written is not None
    return written


def access_fields(access: Access, now: datetime) -> Json:
    """Give an access as it stands in a step's list, secrets included."""
    time = access.time or now
    payload = time if time.tzinfo is UTC else time.astimezone(UTC)
    return {"provider": access.provider, "purpose": access.purpose, "data": access.data, "time": payload}


def log_call(
    connection: Connection, trajectory_id: str, call_id: str, call: Call, now: datetime, clean: SecretScrubber
) -> str:
    """Write a model call; it belongs to the last step. Give its id."""
    content = call_row(call, clean)
    standing = _running(connection, trajectory_id)
    if connection.execute(select(LlmCall.call_id).where(LlmCall.call_id == call_id)).first():
        raise RefusedRecord("known", f"expected a new call_id, found {call_id}, which is taken")
    connection.execute(
        insert(LlmCall).values(
            call_id=call_id,
            trajectory_id=trajectory_id,
            step=standing.last_step,
            position=standing.calls,
            time=call.time or now,
            **content,
        )
    )
    return call_id


def call_row(call: Call, clean: SecretScrubber) -> Json:
    """Give a call's own columns."""
    texts = ("model", "model_version", "purpose", "system_prompt", "user_prompt", "response", "reasoning", "error")
    numbers = ("latency_ms", "temperature", "max_tokens", "top_p", "prompt_tokens", "completion_tokens")
    lists = ("prompt_token_ids", "token_ids", "logprobs")
    row: Json = {name: _text(getattr(call, name), clean) for name in texts}
    row |= {name: getattr(call, name) for name in numbers}
    row |= {name: plain(getattr(call, name)) for name in lists}
    return row | {"messages": clean.json(call.messages)}


def complete_step(
    connection: Connection, trajectory_id: str, end: StepEnd, now: datetime, clean: SecretScrubber
) -> int:
    """Write the action of the open step; give its number."""
    row = step_end_row(end, now, clean)
    number = _in_step(connection, trajectory_id).last_step
    assert number is not None
    connection.execute(
        update(StepRow).where(StepRow.trajectory_id == trajectory_id, StepRow.number == number).values(**row)
    )
    return number


def step_end_row(end: StepEnd, now: datetime, clean: SecretScrubber) -> Json:
    """Give the columns that a step gains when it ends."""
    action = end.action
    return {
        "completed_at": end.time or now,
        "action_type": _text(action.type, clean),
        "action_parameters": clean.json(action.parameters),
        "action_success": action.success,
        "action_result": clean.json(action.result),
        "action_error": _text(action.error, clean),
        "action_reasoning": _text(action.reasoning, clean),
        "reported_reward": end.reward,
        "done": end.done,
    }


def end_trajectory(connection: Connection, trajectory_id: str, end: End, now: datetime, clean: SecretScrubber) -> None:
    """Write the end of a trajectory, and what its steps add up to."""
    metrics = clean.json(end.metrics)
    standing = _running(connection, trajectory_id)
    steps = connection.execute(
        select(StepRow.action_type, StepRow.action_success, StepRow.reported_reward)
        .where(StepRow.trajectory_id == trajectory_id)
        .order_by(StepRow.number)
    ).all()
    sums = summed([(kind, success) for kind, success, _ in steps], [reward for _, _, reward in steps])
    row = end_row(end, standing.start_time, now) | sums | {"metrics": metrics}
    _change(connection, trajectory_id, row)


def end_row(end: End, start: datetime, now: datetime) -> Json:
    """Give the columns that a trajectory gains when it ends."""
    time = end.time or now
    return {
        "end_time": time,
        "duration_ms": max(0, round((time - start).total_seconds() * 1000)),
        "final_status": end.status,
        "final_balance": end.final_balance,
        "final_pnl": end.final_pnl,
    }


def summed(actions: Sequence[tuple[str | None, bool | None]], rewards: Sequence[float | None]) -> Json:
    """Add up the steps of a trajectory; a reward that nobody reported stays unknown."""
    reported = [reward for reward in rewards if reward is not None]
    return {
        "total_reward": sum(reported) if reported else None,
        "trades_executed": count_actions(actions, TRADE),
        "posts_created": count_actions(actions, POST),
    }


def _change(connection: Connection, trajectory_id: str, row: Mapping[str, Any]) -> None:
    connection.execute(update(Trajectory).where(Trajectory.trajectory_id == trajectory_id).values(**row))


def once(
    connection: Connection, key: str, body: object, now: datetime, write: Callable[[Connection], Json]
) -> tuple[Json, bool]:
    """Carry a write out once under a key; give its answer, and whether it is one from before.

    The same key with another body is refused. Key and answer are committed with the write.
    """
    body_hash = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    known = connection.execute(select(Request.body_hash, Request.answer).where(Request.key == key)).one_or_none()
    if known is not None:
        if known.body_hash != body_hash:
            raise RefusedRecord(
                "other_body", "expected the same body under a known idempotency key, found another; use a new key"
            )
        return known.answer, True
    answer = write(connection)
    connection.execute(insert(Request).values(key=key, body_hash=body_hash, answer=answer, created_at=now))
    return answer, False


def insert_unless_there(connection: Connection, table: type[Any]) -> Any:
    """Give an insert that leaves a row with the same key as it is."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table).on_conflict_do_nothing()


def _text(text: str | None, clean: SecretScrubber) -> str | None:
    return None if text is None else clean.text(storable(text))
