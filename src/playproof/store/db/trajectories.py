"""Reading trajectories: whole ones, with their steps and model calls, by id or by window, a few windows at a time.

Outcomes are not read here: they stand in a table of their own, and reach only those who ask for them.
Leaves out: what makes an episode usable, and groups (episodes).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, select

from playproof.errors import InputError
from playproof.json_types import Json
from playproof.store.db.records import LlmCall, StepRow, Trajectory

AT_ONCE = 500
"""Ids of one statement."""


@dataclass(frozen=True, slots=True)
class StoredStep:
    """One step as it is stored."""

    number: int
    time: datetime
    state: Json
    accesses: list[Json]
    completed_at: datetime | None
    action_type: str | None
    action_parameters: Json | None
    action_success: bool | None
    action_result: Json | None
    action_error: str | None
    action_reasoning: str | None
    reported_reward: float | None
    done: bool | None


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One model call as it is stored."""

    call_id: str
    step: int | None
    position: int
    time: datetime
    latency_ms: float | None
    model: str
    model_version: str | None
    purpose: str
    system_prompt: str | None
    user_prompt: str | None
    messages: list[Json] | None
    response: str | None
    reasoning: str | None
    temperature: float | None
    max_tokens: int | None
    top_p: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    prompt_token_ids: list[int] | None
    token_ids: list[int] | None
    logprobs: list[float | None] | None
    error: str | None

    @property
    def prompt(self) -> list[Json]:
        """Give what the model was told as messages, also where it was stored as two prompts."""
        if self.messages is not None:
            return self.messages
        payload = (("system", self.system_prompt), ("user", self.user_prompt))
        return [{"role": role, "content": text} for role, text in payload if text is not None]

    @property
    def trainable(self) -> bool:
        """Tell whether the tokens and their log-probabilities are all known."""
        if not self.token_ids or not self.logprobs or len(self.token_ids) != len(self.logprobs):
            return False
        return all(value is not None for value in self.logprobs)


@dataclass(frozen=True, slots=True)
class StoredTrajectory:
    """One trajectory as it is stored, with its steps and calls in their order."""

    trajectory_id: str
    agent_id: str
    archetype: str | None
    window_id: str
    window_hours: int
    scenario_id: str
    episode_id: str | None
    batch_id: str | None
    market: str
    start_time: datetime
    end_time: datetime | None
    duration_ms: int | None
    total_reward: float | None
    metrics: Json | None
    extra: Json | None
    """The column `metadata`."""
    final_status: str
    final_balance: int | None
    final_pnl: int | None
    trades_executed: int | None
    posts_created: int | None
    is_training_data: bool
    is_evaluation: bool
    used_in_training: bool
    steps: tuple[StoredStep, ...] = ()
    calls: tuple[StoredCall, ...] = ()

    @property
    def ended(self) -> bool:
        """Tell whether its agent ended it."""
        return self.final_status == "completed"

    @property
    def start_equity(self) -> int | None:
        """Give the equity at the beginning: from the metrics, else the final balance less the profit."""
        stated = (self.metrics or {}).get("start_equity")
        if isinstance(stated, int) and not isinstance(stated, bool):
            return stated
        if self.final_balance is None or self.final_pnl is None:
            return None
        return self.final_balance - self.final_pnl

    def calls_of(self, number: int) -> tuple[StoredCall, ...]:
        """Give the calls of one step."""
        return tuple(call for call in self.calls if call.step == number)


_STEP = [getattr(StepRow, field.name) for field in fields(StoredStep)]
_CALL = [getattr(LlmCall, field.name) for field in fields(StoredCall)]
_TRAJECTORY = [getattr(Trajectory, field.name) for field in fields(StoredTrajectory)[:-2]]
_SOME: Any = bindparam("some", expanding=True)
_STEPS = (
    select(StepRow.trajectory_id, *_STEP)
    .where(StepRow.trajectory_id.in_(_SOME))
    .order_by(StepRow.trajectory_id, StepRow.number)
)
_CALLS = (
    select(LlmCall.trajectory_id, *_CALL)
    .where(LlmCall.trajectory_id.in_(_SOME))
    .order_by(LlmCall.trajectory_id, LlmCall.position)
)
_IN_WINDOWS = (
    select(*_TRAJECTORY)
    .where(Trajectory.window_id.in_(_SOME))
    .order_by(Trajectory.window_id, Trajectory.agent_id, Trajectory.start_time, Trajectory.trajectory_id)
)
"""Built once: putting a statement together takes longer than running it."""


def read_trajectory(engine: Engine, trajectory_id: str) -> StoredTrajectory:
    """Read one whole trajectory."""
    with engine.connect() as connection:
        query = select(*_TRAJECTORY).where(Trajectory.trajectory_id == trajectory_id)
        result = _read(connection, connection.execute(query).all())
    if not result:
        raise InputError(
            f"expected a stored trajectory, found no {trajectory_id[:80]!r}; list them with: trajectories ls"
        )
    return result[0]


def read_window(engine: Engine, window_id: str) -> tuple[StoredTrajectory, ...]:
    """Read every whole trajectory of one window, in the order of agents and starts."""
    return read_windows(engine, [window_id])


def read_windows(engine: Engine, window_ids: Iterable[str], market: str | None = None) -> tuple[StoredTrajectory, ...]:
    """Read every whole trajectory of some windows from one state of the database; None: of every game and market."""
    with engine.connect() as connection:
        rows = connection.execute(_IN_WINDOWS, {"some": list(window_ids)}).all()
        return _read(connection, [row for row in rows if market is None or row.market == market])


def list_trajectories(
    engine: Engine, *, window_id: str | None = None, agent_id: str | None = None, limit: int | None = None
) -> tuple[StoredTrajectory, ...]:
    """List trajectories without steps and calls, the latest first."""
    query = select(*_TRAJECTORY).order_by(Trajectory.start_time.desc(), Trajectory.trajectory_id.desc()).limit(limit)
    if window_id is not None:
        query = query.where(Trajectory.window_id == window_id)
    if agent_id is not None:
        query = query.where(Trajectory.agent_id == agent_id)
    with engine.connect() as connection:
        return tuple(StoredTrajectory(*row) for row in connection.execute(query))


def each_window(
    engine: Engine, window_ids: Sequence[str], market: str | None = None
) -> Iterator[tuple[str, tuple[StoredTrajectory, ...]]]:
    """Read windows one after the other, so that no more than one stands in memory."""
    for window_id in window_ids:
        yield window_id, read_windows(engine, [window_id], market)


async def windows_ahead(
    engine: Engine, window_ids: Sequence[str], ahead: int = 2
) -> AsyncIterator[tuple[str, tuple[StoredTrajectory, ...]]]:
    """Read windows in threads while the caller works on earlier ones, at most `ahead` of them, in order."""
    waiting: list[asyncio.Task[tuple[StoredTrajectory, ...]]] = []
    rest = iter(window_ids)
    try:
        for window_id in window_ids:
            while len(waiting) <= ahead and (following := next(rest, None)) is not None:
                waiting.append(asyncio.create_task(asyncio.to_thread(read_window, engine, following)))
            yield window_id, await waiting.pop(0)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _read(connection: Connection, rows: Sequence[Any]) -> tuple[StoredTrajectory, ...]:
    """Read whole trajectories: to their rows all their steps and all their calls."""
    identities = [row[0] for row in rows]
    steps: dict[str, tuple[StoredStep, ...]] = {}
    calls: dict[str, tuple[StoredCall, ...]] = {}
    for start in range(0, len(identities), AT_ONCE):
        some = {"some": identities[start : start + AT_ONCE]}
        result = connection.execute(_STEPS, some).all()
        steps |= {name: tuple(StoredStep(*row[1:]) for row in item) for name, item in groupby(result, itemgetter(0))}
        made = connection.execute(_CALLS, some).all()
        calls |= {name: tuple(StoredCall(*row[1:]) for row in item) for name, item in groupby(made, itemgetter(0))}
    wholes = (StoredTrajectory(*row) for row in rows)
    return tuple(
        replace(whole, steps=steps.get(whole.trajectory_id, ()), calls=calls.get(whole.trajectory_id, ()))
        for whole in wholes
    )
