"""Three scripted agents to compare with: one that holds, one that orders anything, one that follows the move.

Leaves out: the archetypes, and agents that read the news.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from playproof.game import Action, Observation, Policy
from playproof.games.arena import HOLD


@dataclass(frozen=True)
class Holds:
    """Hold, whatever happens."""

    def act(self, observation: Observation) -> Action:  # noqa: ARG002
        """Choose to hold."""
        return HOLD


@dataclass(frozen=True)
class OrdersAnything:
    """Choose each order and size equally often."""

    rng: np.random.Generator

    def act(self, observation: Observation) -> Action:  # noqa: ARG002
        """Choose one."""
        return (int(self.rng.integers(4)), int(self.rng.integers(3)))


@dataclass(frozen=True)
class FollowsTheMove:
    """Hold a position in the direction of the hour's move, and close it when the move turns."""

    def act(self, observation: Observation) -> Action:
        """Choose by the features window_return and position."""
        row = np.asarray(observation)
        move, position = float(row[2]), float(row[3])
        if position * move < 0:
            return (3, 0)
        if position or not move:
            return (0, 0)
        return (1 if move > 0 else 2, 1)


def wait(rng: np.random.Generator) -> Policy:  # noqa: ARG001
    """Make the agent that holds."""
    return Holds()


def random(rng: np.random.Generator) -> Policy:
    """Make the agent that orders anything."""
    return OrdersAnything(rng)


def momentum(rng: np.random.Generator) -> Policy:  # noqa: ARG001
    """Make the agent that follows the move."""
    return FollowsTheMove()
