"""Store whole trajectories at once: what a simulation or an import has in hand, as fast as the driver takes it.

`BulkRecorder` has the methods of TrajectoryRecorder and keeps what it is told in memory; ended trajectories are stored
many in a transaction, by COPY in PostgreSQL and by executemany in SQLite. Nothing is durable before `flush` returns.
Leaves out: agents that may be killed in mid-run; they use TrajectoryRecorder.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Connection, Engine, Table, Text
from sqlalchemy.exc import IntegrityError

from playproof.errors import RefusedRecord
from playproof.game import Windows
from playproof.record.confidential import Confidential
from playproof.record.trajectories import Clock, name_start, new_id, utc_now
from playproof.record.trajectory_facts import Access, ActionTaken, Call, End, Json, Start, StepEnd, StepStart
from playproof.record.trajectory_writes import (
    RUNNING,
    Named,
    access_told,
    check_between_steps,
    check_in_step,
    check_running,
    end_row,
    insert_unless_there,
    summed,
)
from playproof.store.tables import Agent, LlmCall, Step, Trajectory, connect, ready, writing
from playproof.store.tables.bulk import insert_rows
from playproof.store.tables.columns import storable, write_json

TOGETHER = 200
"""Trajectories that are stored in one transaction."""

Row = dict[str, Any]


@dataclass
class Draft:
    """One trajectory in memory, with the checks of the recorder."""

    start: Start
    named: Named
    status: str = RUNNING
    steps: list[tuple[StepStart, list[Access], StepEnd | None, datetime, datetime | None]] = field(default_factory=list)
    calls: list[tuple[str, int | None, Call, datetime]] = field(default_factory=list)
    end: tuple[End, datetime] | None = None

    @property
    def trajectory_id(self) -> str:
        """Give the trajectory's id."""
        return self.named.trajectory_id

    @property
    def step_is_open(self) -> bool:
        """Tell whether the last step has no action yet."""
        return bool(self.steps) and self.steps[-1][2] is None

    def start_step(self, step: StepStart, now: datetime) -> int:
        """Begin a step and give its number."""
        check_running(self.trajectory_id, self.status)
        check_between_steps(self.trajectory_id, self.step_is_open)
        self.steps.append((step, [], None, step.time or now, None))
        return len(self.steps) - 1

    def access(self, access: Access) -> None:
        """Note what the agent looked at."""
        check_running(self.trajectory_id, self.status)
        check_in_step(self.trajectory_id, self.step_is_open)
        self.steps[-1][1].append(access)

    def call(self, call_id: str, call: Call, now: datetime) -> None:
        """Note a model call."""
        check_running(self.trajectory_id, self.status)
        self.calls.append((call_id, len(self.steps) - 1 if self.steps else None, call, call.time or now))

    def complete_step(self, end: StepEnd, now: datetime) -> int:
        """End the open step and give its number."""
        check_running(self.trajectory_id, self.status)
        check_in_step(self.trajectory_id, self.step_is_open)
        step, accesses, _, began, _ = self.steps[-1]
        self.steps[-1] = (step, accesses, end, began, end.time or now)
        return len(self.steps) - 1

    def finish(self, end: End, now: datetime) -> None:
        """End the trajectory."""
        check_running(self.trajectory_id, self.status)
        self.status = end.status
        self.end = (end, now)


class BulkRecorder:
    """Record trajectories in memory and store them together."""

    def __init__(
        self,
        database: Engine | str | None = None,
        clock: Clock = utc_now,
        *,
        windows: Windows | None = None,
        rng: random.Random | None = None,
        environment: Mapping[str, str] | None = None,
        together: int = TOGETHER,
    ) -> None:
        self._owns = not isinstance(database, Engine)
        self.engine = ready(database if isinstance(database, Engine) else connect(url=database))
        self.clock, self.windows, self.together = clock, windows, together
        self._rng = rng or random.SystemRandom()
        self.clean = Confidential.of(os.environ if environment is None else environment)
        self._open: dict[str, Draft] = {}
        self._ended: list[Draft] = []

    def __enter__(self) -> BulkRecorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()
        if self._owns:
            self.engine.dispose()

    def start_trajectory(
        self,
        agent_id: str,
        window_id: str | None = None,
        scenario_id: str | None = None,
        metadata: Json | None = None,
        **more: Any,
    ) -> str:
        """Begin a trajectory and give its id; `more` are further fields of `Start`."""
        start = Start(agent_id, window_id, scenario_id, metadata, **more)
        named = name_start(start, self.clock(), self.windows, self._rng)
        if named.trajectory_id in self._open:
            raise RefusedRecord("known", f"expected a new trajectory_id, found {named.trajectory_id}, which is taken")
        self._open[named.trajectory_id] = Draft(start, named)
        return named.trajectory_id

    def start_step(self, trajectory_id: str, state: Json) -> int:
        """Begin a step and give its number."""
        return self._draft(trajectory_id).start_step(StepStart(state), self.clock())

    def log_provider_access(
        self, trajectory_id: str, provider: str, data: Any = None, purpose: str | None = None
    ) -> None:
        """Note what the agent looked at in the open step."""
        self._draft(trajectory_id).access(Access(provider, data, purpose, self.clock()))

    def log_llm_call(self, trajectory_id: str, call: Call) -> str:
        """Note a call of a language model and give its id."""
        now = self.clock()
        identity = call.call_id or new_id(now, self._rng)
        self._draft(trajectory_id).call(identity, call, now)
        return identity

    def complete_step(
        self, trajectory_id: str, action: ActionTaken, reward: float | None = None, *, done: bool = False
    ) -> int:
        """End the open step with what the agent did, and give its number."""
        return self._draft(trajectory_id).complete_step(StepEnd(action, reward, done), self.clock())

    def end_trajectory(
        self, trajectory_id: str, final_balance: int | None = None, final_pnl: int | None = None, **more: Any
    ) -> None:
        """End a trajectory; it is stored with the next transaction."""
        draft = self._draft(trajectory_id)
        draft.finish(End(final_balance, final_pnl, **more), self.clock())
        del self._open[trajectory_id]
        self._ended.append(draft)
        if len(self._ended) >= self.together:
            self._store()

    def flush(self) -> None:
        """Store everything that has ended."""
        if self._ended:
            self._store()

    def _store(self) -> None:
        drafts, self._ended = self._ended, []
        store_drafts(self.engine, drafts, self.clean)

    def _draft(self, trajectory_id: str) -> Draft:
        if trajectory_id not in self._open:
            raise RefusedRecord(
                "unknown", f"expected an open trajectory, found {trajectory_id[:80]!r}; start it with start_trajectory"
            )
        return self._open[trajectory_id]


def store_drafts(engine: Engine, drafts: Sequence[Draft], clean: Confidential) -> None:
    """Store trajectories in one transaction: all of them, or none."""
    rows: dict[type[Any], list[Row]] = {
        Trajectory: [_trajectory(draft) for draft in drafts],
        Step: [row for draft in drafts for row in _steps(draft)],
        LlmCall: [row for draft in drafts for row in _calls(draft)],
    }
    for table, each in rows.items():
        settle(table.__table__, each, clean)
    try:
        with writing(engine) as connection:
            _agents(connection, drafts)
            for table, each in rows.items():
                insert_rows(connection, table.__table__, each)
    except IntegrityError as error:
        raise RefusedRecord("known", f"expected new trajectories and calls, found: {error.orig}") from error


def settle(table: Table, rows: Sequence[Row], clean: Confidential) -> None:
    """Write the JSON values of rows, and take secrets out of them and of texts, in place."""
    for column in table.columns:
        if isinstance(column.type, JSON):
            _settle_json(rows, column.name, clean)
        elif isinstance(column.type, Text) and column.name not in _NOT_TEXT:
            _settle_texts(rows, column.name, clean)


_NOT_TEXT = frozenset({"trajectory_id", "agent_id", "window_id", "call_id"})
"""Columns whose values were checked at birth."""


def _settle_texts(rows: Sequence[Row], name: str, clean: Confidential) -> None:
    there = [row for row in rows if row.get(name) is not None]
    for row in there:
        row[name] = storable(row[name])
    for row, suspect in zip(there, clean.suspects([row[name] for row in there]), strict=True):
        if suspect:
            row[name] = clean.read_closely(row[name])


def _settle_json(rows: Sequence[Row], name: str, clean: Confidential) -> None:
    there = [row for row in rows if row.get(name) is not None]
    written = [write_json(row[name]) for row in there]
    for row, text, suspect in zip(there, written, clean.suspects(written), strict=True):
        row[name] = str(clean.rewrite(row[name])) if suspect else text


def _trajectory(draft: Draft) -> Row:
    """Give a trajectory's row; texts and JSON as they were told."""
    start, named = draft.start, draft.named
    row: Row = {
        "trajectory_id": named.trajectory_id,
        "agent_id": start.agent_id,
        "archetype": start.archetype,
        "window_id": named.window_id,
        "window_hours": named.window_hours,
        "scenario_id": start.scenario_id or named.window_id,
        "episode_id": start.episode_id,
        "batch_id": start.batch_id,
        "start_time": named.time,
        "metadata": start.metadata,
        "episode_length": len(draft.steps),
        "final_status": draft.status,
        "is_training_data": start.is_training_data,
        "is_evaluation": start.is_evaluation,
        "used_in_training": False,
        "created_at": named.time,
    }
    if draft.end is not None:
        end, now = draft.end
        ends = [step[2] for step in draft.steps if step[2] is not None]
        actions = [(each.action.type, each.action.success) for each in ends]
        row |= end_row(end, named.time, now) | {"metrics": end.metrics}
        row |= summed(actions, [each.reward for each in ends])
    return row


def _steps(draft: Draft) -> Iterator[Row]:
    """Give the rows of a trajectory's steps."""
    for number, (step, accesses, end, began, ended) in enumerate(draft.steps):
        row: Row = {
            "trajectory_id": draft.trajectory_id,
            "number": number,
            "time": began,
            "state": step.state,
            "accesses": [access_told(access, began) for access in accesses],
        }
        if end is not None:
            action = end.action
            row |= {
                "completed_at": ended,
                "action_type": action.type,
                "action_parameters": action.parameters,
                "action_success": action.success,
                "action_result": action.result,
                "action_error": action.error,
                "action_reasoning": action.reasoning,
                "reported_reward": end.reward,
                "done": end.done,
            }
        yield row


def _calls(draft: Draft) -> Iterator[Row]:
    """Give the rows of a trajectory's model calls."""
    for place, (call_id, step, call, time) in enumerate(draft.calls):
        row = {name: getattr(call, name) for name in _CALL_FIELDS}
        yield row | {
            "call_id": call_id,
            "trajectory_id": draft.trajectory_id,
            "step": step,
            "place": place,
            "time": time,
        }


_CALL_FIELDS = tuple(name for name in Call.__dataclass_fields__ if name not in ("call_id", "time"))


def _agents(connection: Connection, drafts: Sequence[Draft]) -> None:
    new = {draft.start.agent_id: draft for draft in reversed(drafts)}
    rows = [
        {"agent_id": name, "archetype": draft.start.archetype, "created_at": draft.named.time}
        for name, draft in sorted(new.items())
    ]
    connection.execute(insert_unless_there(connection, Agent), rows)
