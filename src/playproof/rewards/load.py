"""Find a reward: by the game's name for it, in a file, or in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playproof.game import Game, Reward, first
from playproof.game.rewards import find_reward


def load_reward(game: Game, what: str | Path | Mapping[str, object] | Reward | None = None) -> Reward:
    """Give the reward that a name, a configuration, a YAML or TOML file or "module:attribute" stands for.

    None stands for the game's default. A Python file may stand in for the module ("rewards.py:mine"); what it
    holds is a Reward, a configuration, or a function of facts.
    """
    rewards = game.rewards()
    return find_reward(rewards.presets, rewards.components, first(rewards.presets) if what is None else what)
