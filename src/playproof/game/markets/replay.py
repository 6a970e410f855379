"""What can be seen of a declared market step by step: the agent's own money, and what it was told, said and did.

Leaves out: pages (validate), prices, and outcomes, which no agent could know.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NoReturn

from playproof.errors import ConfigError
from playproof.game.replay import Line, Mark, Number, ReplayedEpisode, ReplayRules, content_text, step_texts
from playproof.money import UNIT


def market_replay(name: str, currency: str) -> ReplayRules:
    """Give what can be seen of a declared market: the agent's own balance and profit, and its texts."""
    lines = (
        Line("step", "", "of the trajectory", stepped=True),
        Line("profit", "profit so far", currency, UNIT, stepped=True),
        Line("balance", "balance", currency, UNIT, stepped=True),
    )

    def no_lanes(*_: object) -> NoReturn:
        raise ConfigError(f"market {name} is recorded, not simulated: playing again needs a simulation")

    def trajectory(stored: Any) -> ReplayedEpisode:
        steps = stored.steps
        values: dict[str, list[Number]] = {
            "step": list(range(len(steps) + 1)),
            "profit": [*(_whole(step.state.get("pnl")) for step in steps), stored.final_pnl],
            "balance": [*(_whole(step.state.get("balance")) for step in steps), stored.final_balance],
        }
        values = {key: of for key, of in values.items() if any(value is not None for value in of)}
        known = values.get("profit", [None] * (len(steps) + 1))
        actions = tuple(_action(step) for step in steps)
        drawn = "profit" if "profit" in values else "step"
        done = [
            Mark(index, drawn, "entry", actions[index])
            for index, step in enumerate(steps)
            if step.action_success is not False and step.action_type not in (None, "HOLD", "hold")
        ]
        return ReplayedEpisode(
            window=stored.window_id,
            player=stored.agent_id,
            pnl=stored.final_pnl,
            lines=tuple(line for line in lines if line.name in values),
            values=values,
            marks=(*done, Mark(len(steps), drawn, "end", f"the trajectory ended: {stored.final_status}")),
            actions=actions,
            rewards=[None if None in (before, after) else (after - before) / UNIT for before, after in pairwise(known)],  # type: ignore[operator]
            said=tuple(tuple(step_texts(stored, step, _action(step), content_text)) for step in steps),
            about="Money as the agent's own system reported it, in exact units.",
        )

    return ReplayRules(lines, no_lanes, no_lanes, no_lanes, trajectory=trajectory)


def _action(step: Any) -> str:
    if step.action_type is None:
        return "nothing recorded"
    given = step.action_parameters or {}
    return " ".join([str(step.action_type), *(f"{key}={value}" for key, value in given.items())])[:200]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
