"""Store whole trajectories at once: what a simulation or an import has in hand, as fast as the driver takes it.

`BulkRecorder` has the methods of TrajectoryRecorder and keeps facts in memory; ended trajectories are stored
many in a transaction, by COPY in PostgreSQL and by executemany in SQLite. Nothing is durable before `flush` returns.
Leaves out: agents that may be killed in mid-run; they use TrajectoryRecorder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson
from sqlalchemy import JSON, Connection, Engine, Table, Text
from sqlalchemy.exc import IntegrityError

from playproof.errors import RefusedRecord
from playproof.json_types import Json
from playproof.record.trajectories.facts import Access, Call, End, Start, StepEnd, StepStart
from playproof.record.trajectories.recorder import Clock, DatabaseRecorder, new_id, utc_now
from playproof.record.trajectories.secrets import SecretScrubber
from playproof.record.trajectories.writes import (
    RUNNING,
    ResolvedStart,
    access_fields,
    check_between_steps,
    check_in_step,
    check_running,
    end_row,
    insert_unless_there,
    summed,
)
from playproof.store.db import AgentRow, LlmCall, StepRow, Trajectory, metadata, writing
from playproof.store.db.bulk import Columns, insert_columns
from playproof.store.db.columns import storable, write_json

TOGETHER = 200
"""Trajectories that are stored in one transaction."""


_Step = tuple[StepStart, list[Access], StepEnd | None, datetime, datetime | None]
"""How a step began, what was looked at, how it ended, and when."""


@dataclass
class TrajectoryDraft:
    """One trajectory in memory, with the checks of the recorder."""

    start: Start
    named: ResolvedStart
    status: str = RUNNING
    steps: list[_Step] = field(default_factory=list)
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


class BulkRecorder(DatabaseRecorder):
    """Record trajectories in memory and store them together."""

    def __init__(
        self, database: Engine | str | None = None, clock: Clock = utc_now, *, together: int = TOGETHER, **more: Any
    ) -> None:
        """Open the recorder; `more` as DatabaseRecorder takes it."""
        super().__init__(database, clock, **more)
        self.together = together
        self._open: dict[str, TrajectoryDraft] = {}
        self._ended: list[TrajectoryDraft] = []

    def __enter__(self) -> BulkRecorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()
        if self._owns:
            self.engine.dispose()

    def fact_time(self) -> datetime:
        """Read the clock: what is kept for later happened now."""
        return self.clock()

    def put_start(self, start: Start) -> str:
        """Open a draft."""
        named = self.name(start)
        if named.trajectory_id in self._open:
            raise RefusedRecord("known", f"expected a new trajectory_id, found {named.trajectory_id}, which is taken")
        self._open[named.trajectory_id] = TrajectoryDraft(start, named)
        return named.trajectory_id

    def put_step(self, trajectory_id: str, step: StepStart) -> int:
        """Begin a step of a draft."""
        return self._draft(trajectory_id).start_step(step, self.clock())

    def put_access(self, trajectory_id: str, access: Access) -> None:
        """Keep what the agent looked at."""
        self._draft(trajectory_id).access(access)

    def put_call(self, trajectory_id: str, call: Call) -> str:
        """Keep a model call."""
        now = self.clock()
        identity = call.call_id or new_id(now, self._rng)
        self._draft(trajectory_id).call(identity, call, now)
        return identity

    def put_action(self, trajectory_id: str, end: StepEnd) -> int:
        """End a step of a draft."""
        return self._draft(trajectory_id).complete_step(end, self.clock())

    def put_end(self, trajectory_id: str, end: End) -> None:
        """End a draft; it is stored with the next transaction."""
        draft = self._draft(trajectory_id)
        draft.finish(end, self.clock())
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

    def _draft(self, trajectory_id: str) -> TrajectoryDraft:
        if trajectory_id not in self._open:
            raise RefusedRecord(
                "unknown", f"expected an open trajectory, found {trajectory_id[:80]!r}; start it with start_trajectory"
            )
        return self._open[trajectory_id]


def store_drafts(engine: Engine, drafts: Sequence[TrajectoryDraft], clean: SecretScrubber) -> None:
    """Store trajectories in one transaction: all of them, or none."""
    tables = drafts_columns(drafts, clean)
    try:
        with writing(engine) as connection:
            insert_agents(connection, drafts)
            for table, columns in tables.items():
                insert_columns(connection, table, columns)
    except IntegrityError as error:
        raise RefusedRecord("known", f"expected new trajectories and calls, found: {error.orig}") from error


def drafts_columns(drafts: Sequence[TrajectoryDraft], clean: SecretScrubber) -> dict[Table, Columns]:
    """Give the columns of trajectories for each table, as they are stored."""
    steps = [(draft, number, *step) for draft in drafts for number, step in enumerate(draft.steps)]
    calls = [(draft, index, *call) for draft in drafts for index, call in enumerate(draft.calls)]
    tables = {
        metadata.tables[Trajectory.__tablename__]: _trajectories(drafts),
        metadata.tables[StepRow.__tablename__]: _steps(steps),
        metadata.tables[LlmCall.__tablename__]: _calls(calls),
    }
    settle(tables, clean)
    return tables


def settle(tables: Mapping[Table, Columns], clean: SecretScrubber) -> None:
    """Write JSON values, and take secrets out of them and of texts, in place; what is empty is left out.

    Texts that come again and again, such as system prompts, are searched once.
    """
    results: list[tuple[list[Any], bool]] = []
    for table, columns in tables.items():
        for name in [name for name, values in columns.items() if values.count(None) == len(values)]:
            del columns[name]
        for name, values in columns.items():
            kind = table.columns[name].type
            if isinstance(kind, JSON):
                results.append((values, True))
            elif isinstance(kind, Text) and name not in _CHECKED:
                results.append((values, False))
    _settle(results, clean)


_CHECKED = frozenset({"trajectory_id", "agent_id", "market", "window_id", "call_id", "purpose", "final_status"})
"""Columns whose values were checked at birth."""


def _settle(result: Sequence[tuple[list[Any], bool]], clean: SecretScrubber) -> None:
    payload = [list(values) if is_json else values for values, is_json in result]
    for values, is_json in result:
        values[:] = _written(values) if is_json else _storable(values)
    texts = list(dict.fromkeys(text for values, _ in result for text in values if text is not None))
    suspects = {text for text, suspect in zip(texts, clean.suspects(texts), strict=True) if suspect}
    if not suspects:
        return
    for (values, is_json), before in zip(result, payload, strict=True):
        for index, text in enumerate(values):
            if text in suspects:
                values[index] = str(clean.rewrite(before[index])) if is_json else clean.read_closely(text)


def _storable(values: list[str | None]) -> list[str | None]:
    """Give texts that both databases can hold; most of them are already."""
    safe = {text: storable(text) for text in dict.fromkeys(values) if text is not None}
    return values if all(text is kept for text, kept in safe.items()) else [safe.get(text) for text in values]  # type: ignore[arg-type]


def _written(values: list[Any]) -> list[str | None]:
    """Write JSON values; as `write_json` does one by one."""
    try:
        raw = [None if value is None else orjson.dumps(value) for value in values]
    except TypeError:
        return [None if value is None else write_json(value) for value in values]
    return [
        None if text is None else text.decode() if b"\\u0000" not in text else write_json(value)
        for text, value in zip(raw, values, strict=True)
    ]


def _trajectories(drafts: Sequence[TrajectoryDraft]) -> Columns:
    """Give the columns of trajectories; texts and JSON as they were given."""
    rows = [_trajectory(draft) for draft in drafts]
    return {name: [row.get(name) for row in rows] for name in rows[0]} if rows else {}


def _trajectory(draft: TrajectoryDraft) -> Json:
    start, named = draft.start, draft.named
    row: Json = {
        "trajectory_id": named.trajectory_id,
        "agent_id": start.agent_id,
        "archetype": start.archetype,
        "window_id": named.window_id,
        "window_hours": named.window_hours,
        "scenario_id": start.scenario_id or named.window_id,
        "episode_id": start.episode_id,
        "batch_id": start.batch_id,
        "market": named.market,
        "start_time": named.time,
        "metadata": start.metadata,
        "episode_length": len(draft.steps),
        "final_status": draft.status,
        "is_training_data": start.is_training_data,
        "is_evaluation": start.is_evaluation,
        "used_in_training": False,
        "created_at": named.time,
    }
    end, now = draft.end or (End(), None)
    ends = [step[2] for step in draft.steps if step[2] is not None]
    actions = [(item.action.type, item.action.success) for item in ends]
    payload = end_row(end, named.time, now) if now is not None else dict.fromkeys(_END)
    sums = summed(actions, [item.reward for item in ends]) if now is not None else dict.fromkeys(_SUMS)
    return row | payload | sums | {"final_status": draft.status, "metrics": end.metrics}


_END = ("end_time", "duration_ms", "final_status", "final_balance", "final_pnl")
_SUMS = ("total_reward", "trades_executed", "posts_created")


def _steps(
    steps: Sequence[tuple[TrajectoryDraft, int, StepStart, list[Access], StepEnd | None, datetime, datetime | None]],
) -> Columns:
    """Give the columns of steps."""
    ends = [step[4] for step in steps]
    actions = [None if end is None else end.action for end in ends]
    named = {f"action_{name}": name for name in ("type", "parameters", "success", "result", "error", "reasoning")}
    columns: Columns = {
        "trajectory_id": [step[0].named.trajectory_id for step in steps],
        "number": [step[1] for step in steps],
        "time": [step[5] for step in steps],
        "state": [step[2].state for step in steps],
        "accesses": [[access_fields(access, step[5]) for access in step[3]] for step in steps],
        "completed_at": [step[6] for step in steps],
        "reported_reward": [None if end is None else end.reward for end in ends],
        "done": [None if end is None else end.done for end in ends],
    }
    return columns | {column: [getattr(action, name, None) for action in actions] for column, name in named.items()}


def _calls(calls: Sequence[tuple[TrajectoryDraft, int, str, int | None, Call, datetime]]) -> Columns:
    """Give the columns of model calls."""
    said = [call[4] for call in calls]
    columns: Columns = {
        "call_id": [call[2] for call in calls],
        "trajectory_id": [call[0].named.trajectory_id for call in calls],
        "step": [call[3] for call in calls],
        "position": [call[1] for call in calls],
        "time": [call[5] for call in calls],
    }
    return columns | {name: list(map(attrgetter(name), said)) for name in _CALL_FIELDS}


_CALL_FIELDS = tuple(name for name in Call.__dataclass_fields__ if name not in ("call_id", "time"))


def insert_agents(connection: Connection, drafts: Sequence[TrajectoryDraft]) -> None:
    """Write the rows of agents that are new."""
    new = {draft.start.agent_id: draft for draft in reversed(drafts)}
    rows = [
        {"agent_id": name, "archetype": draft.start.archetype, "created_at": draft.named.time}
        for name, draft in sorted(new.items())
    ]
    if rows:
        connection.execute(insert_unless_there(connection, AgentRow), rows)
