"""Rewards of the crash game, by name.

| name | pays |
|---|---|
| minimal | the change in marked equity after all costs, in coins, and -10 once at bankruptcy |

An open sidebet counts 0 until it is settled. Bankrupt is who holds less than the smallest bet in
cash, open lots and open sidebet together. The kernel computes `minimal` itself, bit for bit the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playproof.errors import ConfigError
from playproof.game import Reward
from playproof.game.rewards import ComposedReward, compose, find_reward
from playproof.games.crash.rewards.terms import COMPONENTS

MINIMAL = compose(
    COMPONENTS,
    {
        "global": {
            "enabled_components": ["financial", "bankruptcy"],
            "doc": "change in marked equity after all costs, in coins, and -10 once at bankruptcy",
        },
        "financial": {"weight": 1.0},
        "bankruptcy": {"penalty": -10.0, "threshold": 0.001},
    },
    "minimal",
)

REWARDS: Mapping[str, Reward] = {"minimal": MINIMAL}
"""The rewards that the game lists; the first is the default."""


def to_reward(what: str | Path | Mapping[str, object] | Reward) -> ComposedReward:
    """Give the reward that a name, a configuration, a file or a "module:attribute" stands for, as lanes pay it."""
    preset = REWARDS.get(what) if isinstance(what, str) else what
    reward = preset if isinstance(preset, ComposedReward) else find_reward(REWARDS, COMPONENTS, what)
    if not isinstance(reward, ComposedReward):
        raise ConfigError(
            f"expected a reward made of components or of a function of facts, found {reward.name!r}, "
            "which can be computed for recorded steps alone"
        )
    return reward


def is_minimal(reward: ComposedReward) -> bool:
    """Tell whether the kernel's own reward is this one, a clip apart."""
    return reward.parts == MINIMAL.parts
