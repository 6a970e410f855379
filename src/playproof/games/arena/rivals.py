"""What a policy of the arena is shown beside: doing nothing, anything, and buying and holding.

Leaves out: playing them and comparing (validate).
"""

from __future__ import annotations

from collections.abc import Mapping

from playproof.game.lanes import Habits, Rival
from playproof.games.arena.agents import hold_lanes, random_lanes, wait_lanes


def rivals(habits: Habits) -> Mapping[str, Rival]:  # noqa: ARG001
    """Make the players that a policy has to beat, whatever its habits."""
    return {
        "do nothing": Rival("holds still", wait_lanes()),
        "random": Rival("orders anything", random_lanes()),
        "buy and hold": Rival("buys a little of every company and holds it", hold_lanes()),
    }
