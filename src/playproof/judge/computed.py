"""The computed reward: alpha after fees, alone.

Return on the equity at the beginning minus that of buying and holding every asset in the same window. What an agent
wrote plays no part. Leaves out: drawdown and forecasts, which are shown beside it and never mixed in.
"""

from __future__ import annotations

from playproof.errors import InputError
from playproof.judge.group import Contender, JudgedGroup, Scores
from playproof.record.trajectories.outcomes import Outcomes

NAME, VERSION = "computed", "alpha-1"


def computed(group: JudgedGroup) -> Scores:
    """Score a group by its money."""
    held = hold_return(group.outcomes)
    values = {contender.trajectory_id: _profit(contender) - held for contender in group.contenders}
    return Scores(NAME, VERSION, group.group_id, values)


def hold_return(outcomes: Outcomes) -> float:
    """Give what buying and holding as much of every asset returned."""
    changes = [row["change"] for row in outcomes.rows if row["kind"] == "asset" and row["change"] is not None]
    if not changes:
        raise InputError(
            f"expected outcomes of assets for {outcomes.window_id}, found none; run the game's command: outcomes sync"
        )
    return float(sum(changes) / len(changes))


def _profit(contender: Contender) -> float:
    if not contender.start_equity or contender.pnl is None:
        raise InputError(
            f"expected start_equity in the metrics and a final P&L of {contender.trajectory_id}, "
            f"found {contender.start_equity} and {contender.pnl}"
        )
    return contender.pnl / contender.start_equity
