"""What came of every agent in a declared market, read back to be ranked with intervals over windows.

Alpha is the market's computed reward: the final profit over the starting equity minus that of buying and holding as
much of every asset; a market that is scored by judges alone has the judges' scores instead.
Leaves out: the intervals (stats.ranking).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Engine, select

from playproof.errors import InputError
from playproof.game.markets import PNL_MINUS_HOLD, MarketDeclaration
from playproof.json_types import Json
from playproof.judge.computed import hold_return
from playproof.record.trajectories.outcomes import read_outcomes
from playproof.stats.ranking import AgentResult, RankedAgent, interval, rank_results
from playproof.store.db import Judgement, StepRow, Trajectory


@dataclass(frozen=True)
class JudgedAgent:
    """One agent's mean judge's score with its interval over windows."""

    agent: str
    windows: int
    score: float
    score_interval: tuple[float, float]


@dataclass(frozen=True)
class MarketRanking:
    """The agents of a market, best first, and what was left out."""

    windows: tuple[str, ...]
    agents: tuple[RankedAgent, ...]
    judged: tuple[JudgedAgent, ...]
    left_out: dict[str, int]
    """Ended trajectories that could not be ranked by money, by reason."""

    def to_json(self) -> Json:
        """Give the ranking as one object."""
        return {
            "windows": list(self.windows),
            "agents": [agent.to_json() for agent in self.agents],
            "judged": [{name: getattr(agent, name) for name in agent.__dataclass_fields__} for agent in self.judged],
            "left_out": self.left_out,
        }


def rank_market(engine: Engine, market: MarketDeclaration, since: str = "", seed: int = 1) -> MarketRanking:
    """Rank every agent that ended in a window whose outcomes are known, from a window on."""
    columns = (
        *(Trajectory.trajectory_id, Trajectory.window_id, Trajectory.agent_id, Trajectory.archetype),
        *(Trajectory.final_pnl, Trajectory.final_balance, Trajectory.metrics, Trajectory.trades_executed),
    )
    mine = (Trajectory.market == market.name, Trajectory.window_id >= since, Trajectory.final_status == "completed")
    with engine.connect() as connection:
        rows = connection.execute(select(*columns).where(*mine).order_by(Trajectory.window_id)).all()
        steps = select(StepRow.trajectory_id, StepRow.action_error).join(
            Trajectory, Trajectory.trajectory_id == StepRow.trajectory_id
        )
        counts: dict[str, list[int]] = {}
        for identity, error in connection.execute(steps.where(*mine, StepRow.action_type.is_not(None))):
            count = counts.setdefault(identity, [0, 0])
            count[0] += 1
            count[1] += error is not None
        scores = connection.execute(
            select(Trajectory.agent_id, Trajectory.window_id, Judgement.score)
            .join(Trajectory, Trajectory.trajectory_id == Judgement.trajectory_id)
            .where(*mine)
        ).all()
    if not rows:
        raise InputError(
            f"expected ended trajectories of market {market.name}, found none; record some with: playproof "
            f"trajectories serve --game {market.name}, or import them with: playproof import studio"
        )
    outcomes = read_outcomes(engine, {row.window_id for row in rows}, market.name)
    held = {name: float(hold_return(item)) for name, item in outcomes.items()} if market.assets else {}
    results: list[AgentResult] = []
    left_out: dict[str, int] = {}
    for row in rows:
        metrics = row.metrics or {}
        start = metrics.get("start_equity")
        if not isinstance(start, int) and None not in (row.final_balance, row.final_pnl):
            start = row.final_balance - row.final_pnl
        if row.window_id not in outcomes:
            why = "the window has no outcomes"
        elif row.final_pnl is None:
            why = "the final P&L is unknown"
        elif not isinstance(start, int) or start <= 0:
            why = "the starting equity is unknown"
        else:
            decisions, rejected = counts.get(row.trajectory_id, [0, 0])
            money = (row.final_pnl, start, held.get(row.window_id, 0.0), int(metrics.get("fees") or 0))
            counted = (row.trades_executed or 0, decisions, rejected)
            results.append(AgentResult(row.window_id, row.agent_id, row.archetype or "", *money, *counted))
            continue
        left_out[why] = left_out.get(why, 0) + 1
    ranked = tuple(rank_results(results, seed)) if results else ()
    if market.reward == PNL_MINUS_HOLD:
        ranked = tuple(sorted(ranked, key=lambda agent: -agent.alpha))
    windows = tuple(sorted({result.window for result in results} | {row.window_id for row in scores}))
    return MarketRanking(windows, ranked, _judged(scores, seed), left_out)


def _judged(scores: Sequence[Any], seed: int) -> tuple[JudgedAgent, ...]:
    """Give the mean score of every agent; several in one window count as one."""
    means: dict[str, dict[str, list[float]]] = {}
    for agent, window, score in scores:
        means.setdefault(agent, {}).setdefault(window, []).append(score)
    judged = []
    for agent, windows in means.items():
        values = np.array([sum(of) / len(of) for of in windows.values()])
        judged.append(JudgedAgent(agent, len(values), float(values.mean()), interval(values, seed)))
    return tuple(sorted(judged, key=lambda item: -item.score))
