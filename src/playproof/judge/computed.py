"""The computed reward: alpha after fees, alone.

Return on the equity at the beginning minus that of buying and holding as much of every asset in the same window,
computed from whole numbers and rounded once. What an agent wrote plays no part.
Leaves out: drawdown and forecasts, which are shown beside it and never mixed in.
"""

from __future__ import annotations

from fractions import Fraction

from playproof.errors import InputError
from playproof.judge.group import Contender, JudgedGroup, Scores
from playproof.record.trajectories.outcomes import Outcomes

NAME, VERSION = "computed", "alpha-1"


def computed(group: JudgedGroup) -> Scores:
    """Score a group by its money."""
    held = hold_return(group.outcomes)
    values = {contender.trajectory_id: float(_profit(contender) - held) for contender in group.contenders}
    return Scores(NAME, VERSION, group.group_id, values)


def hold_return(outcomes: Outcomes) -> Fraction:
    """Give what buying and holding as much of every asset returned, exactly where both prices are known."""
    changes = [
        Fraction(row["end_price"]) / Fraction(row["start_price"]) - 1
        if row.get("start_price") and row.get("end_price") is not None
        else Fraction(row["change"])
        for row in outcomes.rows
        if row["kind"] == "asset" and row["change"] is not None
    ]
    if not changes:
        raise InputError(
            f"expected outcomes of assets for {outcomes.window_id}, found none; run the game's command: outcomes sync, "
            "or outcomes import"
        )
    return sum(changes, Fraction(0)) / len(changes)


def _profit(contender: Contender) -> Fraction:
    if not contender.start_equity or contender.start_equity < 0 or contender.pnl is None:
        raise InputError(
            f"expected a starting equity above 0 (start_equity in the metrics, or a final balance) and a final P&L of "
            f"{contender.trajectory_id}, "
            f"found {contender.start_equity} and {contender.pnl}"
        )
    return Fraction(contender.pnl, contender.start_equity)
