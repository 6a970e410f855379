"""The trajectory recorder: agents tell what they see, think and do, and it is durable when the call returns.

    recorder = TrajectoryRecorder(connect(), windows=load_game(name).windows)
    identity = recorder.start_trajectory("agent-1")
    recorder.start_step(identity, {"balance": 10_000_000_000_000})
    recorder.log_llm_call(identity, Call("some-model", messages=[...], response="..."))
    recorder.complete_step(identity, ActionTaken("trade", {...}, success=True), reward=0.1)
    recorder.end_trajectory(identity, final_pnl=-2_000_000_000)

Threads may share one; their calls share transactions. An unknown id, a step after the end and a second end raise
RefusedRecord, and nothing has changed then.
Leaves out: agents in other processes (trajectory_http), and storing whole trajectories at once (bulk).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, insert, select, update

from playproof.errors import InputError
from playproof.events import check_id
from playproof.game import WindowRules
from playproof.game.markets import MarketDeclaration
from playproof.record.trajectories import writes
from playproof.record.trajectories.calls import TrajectoryCalls
from playproof.record.trajectories.facts import Access, Call, End, Json, Start, StepEnd, StepStart
from playproof.record.trajectories.posted_outcomes import read_posted, write_posted
from playproof.record.trajectories.secrets import SecretScrubber
from playproof.store.db import AgentRow, GroupWriter, Trajectory, connect, ready

T = TypeVar("T")
Clock = Callable[[], datetime]
HOUR = timedelta(hours=1)


def utc_now() -> datetime:
    """Give the wall clock's time."""
    return datetime.now(UTC)


class DatabaseRecorder(TrajectoryCalls[int, str]):
    """What recorders into the relational tables share."""

    def __init__(
        self,
        database: Engine | str | None = None,
        clock: Clock = utc_now,
        *,
        windows: WindowRules | None = None,
        rng: random.Random | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Open the recorder.

        Args:
            database: an engine, a URL, or None for $PLAYPROOF_DB and the home.
            clock: tells the time of what comes without one.
            windows: names the window of a start that names none.
            rng: makes ids; the system's own unless given.
            environment: whose secrets are taken out of records; this process's unless given.
        """
        self._owns = not isinstance(database, Engine)
        self.engine = ready(database if isinstance(database, Engine) else connect(url=database))
        self.clock = clock
        self.windows = windows
        self._rng = rng or random.SystemRandom()
        self.clean = SecretScrubber.of(os.environ if environment is None else environment)

    def name(self, start: Start) -> writes.ResolvedStart:
        """Settle what a start leaves open: its id, its time, its window."""
        return name_start(start, self.clock(), self.windows, self._rng)


class TrajectoryRecorder(DatabaseRecorder):
    """Record trajectories into the relational tables, each call durable when it returns."""

    def __init__(self, database: Engine | str | None = None, clock: Clock = utc_now, **more: Any) -> None:
        """Open the recorder; `more` as DatabaseRecorder takes it."""
        super().__init__(database, clock, **more)
        self.writer = GroupWriter(self.engine)

    def __enter__(self) -> TrajectoryRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Carry out what waits, and let go of the database if this recorder opened it."""
        self.writer.close()
        if self._owns:
            self.engine.dispose()

    def register_agent(
        self,
        agent_id: str,
        *,
        kind: str | None = None,
        archetype: str | None = None,
        name: str | None = None,
        model: str | None = None,
        model_version: str | None = None,
        settings: Json | None = None,
    ) -> None:
        """Write what is known of an agent, in place of what was."""
        payload = {"kind": kind, "archetype": archetype, "name": name, "model": model, "model_version": model_version}
        row = {"agent_id": check_id(agent_id, "agent_id"), **payload, "settings": self.clean.json(settings)}
        self.writer.write(lambda connection: _register(connection, row, self.clock()))

    def fact_time(self) -> datetime | None:
        """Leave times open: a write reads the clock."""
        return None

    def put_start(self, start: Start) -> str:
        """Store a start."""
        return self.record_start(start).trajectory_id

    def put_step(self, trajectory_id: str, step: StepStart) -> int:
        """Store a step's beginning."""
        return self.writer.write(self.step_started(trajectory_id, step))

    def put_access(self, trajectory_id: str, access: Access) -> None:
        """Store what the agent looked at."""
        self.writer.write(self.accessed(trajectory_id, access))

    def put_call(self, trajectory_id: str, call: Call) -> str:
        """Store a model call."""
        return self.writer.write(self.called(trajectory_id, call))

    def put_action(self, trajectory_id: str, end: StepEnd) -> int:
        """Store a step's end."""
        return self.writer.write(self.step_ended(trajectory_id, end))

    def put_end(self, trajectory_id: str, end: End) -> None:
        """Store a trajectory's end."""
        self.writer.write(self.ended(trajectory_id, end))

    def new_key(self) -> str:
        """Make an idempotency key for a request that came without one."""
        return new_id(self.clock(), self._rng)

    def record_start(self, start: Start) -> writes.ResolvedStart:
        """Begin a trajectory and give its id and window."""
        named = self.name(start)
        self.writer.write(self.started(start, named))
        return named

    def started(self, start: Start, named: writes.ResolvedStart) -> Callable[[Connection], None]:
        """Give the write of a start."""
        return lambda connection: writes.start_trajectory(connection, start, named, self.clean)

    def step_started(self, trajectory_id: str, step: StepStart) -> Callable[[Connection], int]:
        """Give the write of a step's beginning."""
        now = self.clock()
        return lambda connection: writes.start_step(connection, trajectory_id, step, now, self.clean)

    def accessed(self, trajectory_id: str, access: Access) -> Callable[[Connection], int]:
        """Give the write of an access."""
        now = self.clock()
        return lambda connection: writes.log_access(connection, trajectory_id, access, now, self.clean)

    def called(self, trajectory_id: str, call: Call) -> Callable[[Connection], str]:
        """Give the write of a model call."""
        now = self.clock()
        identity = call.call_id or new_id(now, self._rng)
        return lambda connection: writes.log_call(connection, trajectory_id, identity, call, now, self.clean)

    def step_ended(self, trajectory_id: str, end: StepEnd) -> Callable[[Connection], int]:
        """Give the write of a step's end."""
        now = self.clock()
        return lambda connection: writes.complete_step(connection, trajectory_id, end, now, self.clean)

    def ended(self, trajectory_id: str, end: End) -> Callable[[Connection], None]:
        """Give the write of a trajectory's end."""
        now = self.clock()
        return lambda connection: writes.end_trajectory(connection, trajectory_id, end, now, self.clean)

    def post_outcomes(self, outcomes: Json, market: MarketDeclaration | None = None) -> Json:
        """Write what a closed window did, or correct it where a `reason` is given; the body of POST /v1/outcomes."""
        if self.windows is None:
            raise InputError("expected a recorder with windows, found one without; make it with windows")
        now = self.clock()
        posted = read_posted(outcomes, self.windows, now, market)
        return self.writer.write(lambda connection: write_posted(connection, posted, now))

    def cut_off(self, before: datetime) -> tuple[str, ...]:
        """End as cut every trajectory that still runs and began before a time; give their ids.

        Their agents vanished. What they recorded stays as it is.
        """
        now = self.clock()
        return self.writer.write(lambda connection: _cut_off(connection, before, now, self.clean))


def name_start(start: Start, now: datetime, windows: WindowRules | None, rng: random.Random) -> writes.ResolvedStart:
    """Settle what a start leaves open: its id, its time, and the window that holds that time."""
    time = start.time or now
    hours = round((windows.length or HOUR) / HOUR) if windows else 1
    window = _window(start.window_id, time, windows)
    market = windows.market if windows else ""
    return writes.ResolvedStart(start.trajectory_id or new_id(time, rng), window, hours, time, market)


def _window(given: str | None, time: datetime, windows: WindowRules | None) -> str:
    if given is not None:
        return given if windows is None else windows.parse(given).window_id
    if windows is None or windows.at is None:
        raise InputError("expected a window_id, found none; give one, or make the recorder with windows")
    return windows.at(time)


def new_id(time: datetime, rng: random.Random) -> str:
    """Make an id of 32 hex digits that sorts by time."""
    return f"{int(time.timestamp() * 1000):012x}{rng.getrandbits(80):020x}"


def _register(connection: Connection, row: Json, now: datetime) -> None:
    changed = connection.execute(update(AgentRow).where(AgentRow.agent_id == row["agent_id"]).values(**row))
    if not changed.rowcount:
        connection.execute(insert(AgentRow).values(**row, created_at=now))


def _cut_off(connection: Connection, before: datetime, now: datetime, clean: SecretScrubber) -> tuple[str, ...]:
    running = select(Trajectory.trajectory_id).where(
        Trajectory.final_status == writes.RUNNING, Trajectory.start_time < before
    )
    result = tuple(connection.scalars(running.order_by(Trajectory.trajectory_id).with_for_update()))
    for identity in result:
        writes.end_trajectory(connection, identity, replace(End(), status="cut"), now, clean)
    return result
