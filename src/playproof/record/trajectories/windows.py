"""Windows of recorded trajectories: which have closed, how many agents played them, and what can be trained on them.

A step is usable if it has an action, and the prompt and the answer that it came from; a declared market may ask for
other parts and for its own types of actions. An agent counts in a window with
enough usable steps. A window is ready when it has closed, its outcomes are written and enough agents count. What SFT
needs and what GRPO needs are told apart: GRPO needs the policy's own tokens and log-probabilities, in groups that share
a scenario, be they agents of an hour or forks of it.
Leaves out: reading whole trajectories (store.tables.trajectories) and choosing windows to hold out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Engine, and_, case, exists, false, func, or_, select

from playproof.game import WindowRules
from playproof.json_types import Json
from playproof.store.db import LlmCall, MarketOutcome, StepRow, Trajectory

GRACE = timedelta(minutes=5)
"""How long after its end a window may still receive records."""
LEVELS = (2, 3, 5, 8)
MIN_AGENTS, MIN_ACTIONS = 5, 5
ENOUGH = 3
"""Windows that make data enough to train on."""
READY, LIMITED, NONE = "READY FOR TRAINING", "LIMITED DATA", "NO DATA"


@dataclass(frozen=True, slots=True)
class TrajectorySummary:
    """What is known of one trajectory without reading it."""

    trajectory_id: str
    agent_id: str
    window_id: str
    window_hours: int
    scenario_id: str
    status: str
    pnl: int | None
    actions: int
    """Usable steps."""
    trainable: int
    """Usable steps whose tokens and log-probabilities are known."""


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """How one window stands."""

    window_id: str
    closed: bool
    has_outcomes: bool
    trajectories: int
    agents: int
    """Distinct agents with enough usable steps."""
    actions: int
    pnl: int | None
    """Of all agents together, in the smallest unit; None if nobody told."""
    groups: tuple[int, ...]
    """For each scenario: trajectories of which every usable step can be trained on."""

    @property
    def usable(self) -> bool:
        """Tell whether what was played here may be compared with what came of it."""
        return self.closed and self.has_outcomes

    def ready(self, min_agents: int) -> bool:
        """Tell whether enough agents played here to train on."""
        return self.usable and self.agents >= min_agents


@dataclass(frozen=True, slots=True)
class Survey:
    """All windows of a stretch of time."""

    windows: tuple[WindowStatus, ...]
    min_agents: int
    min_actions: int

    def with_agents(self, least: int) -> int:
        """Count usable windows with at least so many agents."""
        return sum(1 for window in self.windows if window.usable and window.agents >= least)

    @property
    def groups(self) -> int:
        """Count groups of usable windows that GRPO could learn from."""
        return sum(1 for window in self.windows if window.usable for size in window.groups if size >= self.min_agents)

    @property
    def sft(self) -> str:
        """Tell how ready the data is for learning from what was played."""
        return verdict(self.with_agents(self.min_agents))

    @property
    def grpo(self) -> str:
        """Tell how ready the data is for learning on policy."""
        return verdict(self.groups)

    def to_json(self) -> Json:
        """Give the survey as one object."""
        counts = {f"{level}+": self.with_agents(level) for level in LEVELS}
        names = ("window_id", "closed", "has_outcomes", "trajectories", "agents", "actions", "pnl")
        payload = [
            {name: getattr(window, name) for name in names} | {"groups": list(window.groups)} for window in self.windows
        ]
        return {"agents": counts, "sft": self.sft, "grpo": self.grpo, "grpo_groups": self.groups, "windows": payload}


def verdict(count: int) -> str:
    """Say in words whether some windows are enough."""
    if count >= ENOUGH:
        return READY
    return LIMITED if count else NONE


def is_closed(window_id: str, hours: int, windows: WindowRules, now: datetime, grace: timedelta = GRACE) -> bool:
    """Tell whether a window, and the time for late records, is over. A window that no clock names counts as closed."""
    start = windows.parse(window_id).start
    return start is None or start + timedelta(hours=hours) + grace <= now


def survey(
    engine: Engine,
    windows: WindowRules,
    now: datetime,
    *,
    hours: float | None = None,
    min_agents: int = MIN_AGENTS,
    min_actions: int = MIN_ACTIONS,
    grace: timedelta = GRACE,
) -> Survey:
    """Look at every window that began in the last hours, all of them if None."""
    since = None if hours is None else now - timedelta(hours=hours)
    played = read_played(engine, since, windows)
    outcomes = windows_with_outcomes(engine, windows.market)
    result: dict[str, list[TrajectorySummary]] = {}
    for item in played:
        result.setdefault(item.window_id, []).append(item)
    standings = [
        _standing(
            name, group, name in outcomes, is_closed(name, group[0].window_hours, windows, now, grace), min_actions
        )
        for name, group in sorted(result.items())
    ]
    return Survey(tuple(standings), min_agents, min_actions)


def _standing(
    name: str, group: Sequence[TrajectorySummary], flag: bool, closed: bool, min_actions: int
) -> WindowStatus:
    counted = [entry for entry in group if entry.status == "completed" and entry.actions >= min_actions]
    forks: dict[str, int] = {}
    for item in counted:
        forks[item.scenario_id] = forks.get(item.scenario_id, 0) + (item.trainable == item.actions)
    pnls = [entry.pnl for entry in group if entry.pnl is not None]
    return WindowStatus(
        name,
        closed,
        flag,
        len(group),
        len({entry.agent_id for entry in counted}),
        sum(entry.actions for entry in group),
        sum(pnls) if pnls else None,
        tuple(size for _, size in sorted(forks.items()) if size),
    )


def read_played(engine: Engine, since: datetime | None, windows: WindowRules) -> list[TrajectorySummary]:
    """Count the usable steps of every trajectory of a game or market that began since a time, in the database."""
    mine = and_(LlmCall.trajectory_id == StepRow.trajectory_id, LlmCall.step == StepRow.number)
    sampled = exists().where(mine, LlmCall.token_ids.is_not(None), LlmCall.logprobs.is_not(None))
    needed = []
    if "prompt" in windows.usable_step:
        needed.append(or_(LlmCall.messages.is_not(None), LlmCall.user_prompt.is_not(None)))
    if "answer" in windows.usable_step:
        needed.append(LlmCall.response.is_not(None))
    parts: list[ColumnElement[bool]] = [StepRow.action_type.is_not(None)]
    if needed:
        parts.append(exists().where(mine, *needed))
    if "logprobs" in windows.usable_step:
        parts.append(sampled)
    if windows.action_types:
        parts.append(func.upper(StepRow.action_type).in_([name.upper() for name in windows.action_types]))
    usable = and_(*parts)
    counts = (
        select(
            StepRow.trajectory_id,
            func.sum(case((usable, 1), else_=0)).label("actions"),
            func.sum(case((and_(usable, sampled), 1), else_=0)).label("trainable"),
        )
        .group_by(StepRow.trajectory_id)
        .subquery()
    )
    query = select(
        Trajectory.trajectory_id,
        Trajectory.agent_id,
        Trajectory.window_id,
        Trajectory.window_hours,
        Trajectory.scenario_id,
        Trajectory.final_status,
        Trajectory.final_pnl,
        func.coalesce(counts.c.actions, 0),
        func.coalesce(counts.c.trainable, 0),
    ).outerjoin(counts, counts.c.trajectory_id == Trajectory.trajectory_id)
    query = query.where(Trajectory.market == windows.market)
    if since is not None:
        query = query.where(Trajectory.start_time >= since)
    with engine.connect() as connection:
        return [
            TrajectorySummary(*row)
            for row in connection.execute(query.order_by(Trajectory.window_id, Trajectory.agent_id))
        ]


def windows_with_outcomes(engine: Engine, market: str = "") -> frozenset[str]:
    """Give the windows whose outcomes are written; nothing of the outcomes themselves."""
    query = select(MarketOutcome.window_id).where(MarketOutcome.market == market).distinct()
    with engine.connect() as connection:
        return frozenset(connection.scalars(query))


def undeclared_actions(engine: Engine, windows: WindowRules) -> dict[str, int]:
    """Count the steps of a market by types of actions that it does not declare; none where it declares no types."""
    declared = [name.upper() for name in windows.action_types]
    known = func.upper(StepRow.action_type).in_(declared) if declared else ~false()
    query = (
        select(StepRow.action_type, func.count())
        .join(Trajectory, Trajectory.trajectory_id == StepRow.trajectory_id)
        .where(Trajectory.market == windows.market, StepRow.action_type.is_not(None), ~known)
        .group_by(StepRow.action_type)
        .order_by(StepRow.action_type)
    )
    with engine.connect() as connection:
        return {str(name): int(count) for name, count in connection.execute(query)}


def by_window(played: Sequence[TrajectorySummary]) -> Mapping[str, list[TrajectorySummary]]:
    """Sort trajectories by their windows."""
    result: dict[str, list[TrajectorySummary]] = {}
    for item in played:
        result.setdefault(item.window_id, []).append(item)
    return result
