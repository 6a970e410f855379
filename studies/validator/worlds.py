"""What a game brings to the validator's own validation: windows without and with an edge, players, rows, rewards.

A study needs thousands of evaluations of policies whose worth is known, so a game plays simple players here much
faster than its lanes do, and to the same unit of money. Leaves out: the study itself (validate.study).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from playproof.game.vector_env import ActivityProfile, RolloutStats

if TYPE_CHECKING:
    from playproof.game.types import Reward


@dataclass(frozen=True)
class SimulatedWindows:
    """Windows of a world."""

    world: str
    windows: tuple[str, ...]
    material: Any
    """In the game's own form."""

    def __len__(self) -> int:
        return len(self.windows)


@dataclass(frozen=True)
class Learnable:
    """Rows of windows to learn from, in time order."""

    rows: NDArray[np.float64]  # (n, features)
    labels: NDArray[np.bool_]
    windows: NDArray[np.str_]
    names: tuple[str, ...]
    later: NDArray[np.float64]
    """For each row something that nobody can know yet: the second feature, some rows later."""
    ends: Mapping[str, float]
    """By window: when it ended, which nobody can know either."""


class StudyGame(Protocol):
    """A game's part in a study."""

    @property
    def nulls(self) -> tuple[str, ...]:
        """Name the worlds in which nothing can be earned."""

    @property
    def edges(self) -> tuple[str, ...]:
        """Name the worlds with an edge."""

    def deal(self, world: str, windows: int, seed: tuple[int, ...]) -> SimulatedWindows:
        """Deal windows; different seeds share none."""

    def learn(self, train: SimulatedWindows, seed: int) -> Mapping[str, Any]:
        """Give the players to choose among: fixed ones, and what a learner makes of the windows."""

    def play(self, player: Any, dealt: SimulatedWindows, *, delay: int = 0) -> RolloutStats:
        """Play windows, orders carried out so many steps late."""

    def rivals(self, habits: ActivityProfile, seed: int) -> Mapping[str, Any]:
        """Make the players that one with these habits has to beat."""

    def rows(self, dealt: SimulatedWindows) -> Learnable:
        """Give rows to learn the game's label from."""

    def rewards(self) -> tuple[Mapping[str, Reward], Mapping[str, Reward]]:
        """Give rewards that are wrong on purpose, and right ones."""
