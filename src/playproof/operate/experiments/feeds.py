"""Where the units of an experiment come from: windows that both play, and recorded agents.

Simulated and recorded windows are played by both with the same reserved stake, each settled by the exact ledger;
nothing is sent. In forks each plays copies of its own of the same market, which refuses orders beyond the loss limit.
In a split a window counts for the arm that its hash gives it. Leaves out: a live feed (workflows).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine, select

from playproof.errors import ConfigError
from playproof.evaluate.rollout import rollout
from playproof.game import Game
from playproof.game.forks import ForkTerms
from playproof.game.vector_env import ReplayTape
from playproof.operate.experiments.plan import ExperimentArm, ExperimentPlan, ExperimentUnit
from playproof.policies.checkpoint import CARD
from playproof.stats.assignment import assign_arm
from playproof.store.db import Trajectory
from playproof.validate.examine import Subject

if TYPE_CHECKING:
    from playproof.train.language.rollout import Answering

CHUNK = 256
"""Windows that are played at a time."""
FORKED = 8
"""Forked windows that are played side by side."""


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


def forked_units(plan: ExperimentPlan, game: Game, known: int = 0) -> Iterator[list[ExperimentUnit]]:
    """Give windows played by both in copies of their own, some at a time; the first `known` are left out.

    Their seed is one that no training has: it comes from the plan's by a hash.
    """
    from playproof.train.language.rollout import play

    options = {**plan.options, "stake": plan.loss_limit}
    decisions, prompt, tokens = options.pop("decisions"), options.pop("prompt"), int(options.pop("max_tokens"))
    seed = int.from_bytes(hashlib.sha256(f"experiment {plan.seed}".encode()).digest()[:4]) >> 1
    terms = ForkTerms(plan.on, seed, int(decisions), str(prompt), options)
    players = [_player(arm, tokens, seed) for arm in (plan.a, plan.b)]
    for start in range(known, plan.budget, FORKED):
        numbers = range(start, min(start + FORKED, plan.budget))
        first, second = (play(game, terms, numbers, 1, player, None) for player in players)
        yield [
            ExperimentUnit(one.group.window, one.ends[0].pnl, other.ends[0].pnl)
            for one, other in zip(first, second, strict=True)
        ]


def _player(arm: ExperimentArm, tokens: int, seed: int) -> Answering:
    """Load a model from its checkpoint, checked against what was registered; another name is a scripted player's."""
    from playproof.train.language.rollout import model_player, scripted_player

    card = Path(arm.load) / CARD
    if not card.exists():
        return scripted_player(arm.load, (seed, *arm.load.encode()))
    from playproof.train.language.model import load_language_model

    if hashlib.sha256(card.read_bytes()).hexdigest() != arm.policy_hash:
        raise ConfigError(f"expected {arm.label} as it was registered, found another model at {arm.load}")
    return model_player(load_language_model(arm.load), tokens, (seed,), 0.0)


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
            assert pnl is not None  # asked for above
            earned = profits.setdefault(agent, [])
            earned.append(pnl)
            if len(earned) == windows:
                is_b = assign_arm(plan.name, agent, plan.share) == "b"
                total = sum(earned)
                finished.append(ExperimentUnit(agent, None if is_b else total, total if is_b else None))
    return finished
