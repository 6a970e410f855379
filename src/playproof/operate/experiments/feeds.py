"""Where the units of an experiment come from: simulated or recorded windows played by both, and recorded agents.

Both play the same windows with the same reserved stake, each settled by the exact ledger; nothing is sent. In a split
a window counts for the arm that its hash gives it. Leaves out: a live feed and the arena's forks (workflows).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import Engine, select

from playproof.evaluate.rollout import rollout
from playproof.game import Game
from playproof.game.vector_env import ReplayTape
from playproof.operate.experiments.plan import ExperimentPlan, ExperimentUnit
from playproof.stats.assignment import assign_arm
from playproof.store.db import Trajectory
from playproof.validate.examine import Subject

CHUNK = 256
"""Windows that are played at a time."""


def simulated_units(
    plan: ExperimentPlan, game: Game, a: Subject, b: Subject, known: int = 0
) -> Iterator[list[ExperimentUnit]]:
    """Give windows of the plan's world, chunk after chunk; those of the first `known` windows are left out."""
    for chunk in range(known // CHUNK, plan.budget // CHUNK + 1):
        yield _played(plan, game, a, b, plan.on, CHUNK, plan.seed + 7_919 * chunk)


def recorded_units(
    plan: ExperimentPlan, game: Game, a: Subject, b: Subject, tape: ReplayTape
) -> Iterator[list[ExperimentUnit]]:
    """Give the recorded windows of a data set, in one piece."""
    yield _played(plan, game, a, b, tape, min(len(tape), plan.budget), plan.seed)


def _played(
    plan: ExperimentPlan, game: Game, a: Subject, b: Subject, source: str | ReplayTape, windows: int, seed: int
) -> list[ExperimentUnit]:
    """Let both play the same windows."""
    first, second = (
        rollout(game, who.player, source, windows, seed, stake=plan.loss_limit, name=who.name, options=who.options)
        for who in (a, b)
    )
    return [
        arm_unit(plan, unit, int(pnl_a), int(pnl_b))
        for unit, pnl_a, pnl_b in zip(first.windows, first.pnl, second.pnl, strict=True)
    ]


def arm_unit(plan: ExperimentPlan, unit: str, pnl_a: int, pnl_b: int) -> ExperimentUnit:
    """Give what an experiment may know of a window: both profits, or in a split that of the window's arm."""
    if plan.mode != "split":
        return ExperimentUnit(unit, pnl_a, pnl_b)
    is_b = assign_arm(plan.name, unit, plan.share) == "b"
    return ExperimentUnit(unit, None if is_b else pnl_a, pnl_b if is_b else None)


def agent_units(plan: ExperimentPlan, engine: Engine, since: datetime, windows: int = 1) -> list[ExperimentUnit]:
    """Give the agents whose first windows since a moment have closed, each by the profit over its first so many.

    An agent counts once: its arm was drawn once, and its later windows would not be independent of the first.
    """
    query = (
        select(Trajectory.agent_id, Trajectory.final_pnl)
        .where(
            Trajectory.start_time >= since, Trajectory.final_pnl.is_not(None), Trajectory.final_status == "completed"
        )
        .order_by(Trajectory.end_time, Trajectory.trajectory_id)
    )
    profits: dict[str, list[int]] = {}
    finished: list[ExperimentUnit] = []
    with engine.connect() as connection:
        for agent, pnl in connection.execute(query):
            earned = profits.setdefault(agent, [])
            earned.append(int(pnl))
            if len(earned) == windows:
                is_b = assign_arm(plan.name, agent, plan.share) == "b"
                total = sum(earned)
                finished.append(ExperimentUnit(agent, None if is_b else total, total if is_b else None))
    return finished
