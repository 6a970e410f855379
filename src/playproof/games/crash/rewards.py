"""Rewards of the crash game, by name.

| name | pays |
|---|---|
| minimal | the change in marked equity after all costs, in coins, and -10 once at bankruptcy |

An open sidebet counts 0 until it is settled. Bankrupt is who holds less than the smallest bet in
cash, open lots and open sidebet together. The kernel computes `minimal` itself.
"""

from __future__ import annotations

from playproof.errors import UnknownName

REWARDS = {"minimal": "1"}
"""Version by name; the first is the default."""


def check_reward(name: str) -> str:
    """Refuse a reward that there is not."""
    if name not in REWARDS:
        raise UnknownName("reward", name, REWARDS)
    return name
