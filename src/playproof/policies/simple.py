"""The two policies that look at nothing: the same action for ever, and any action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from playproof.game import Action, Observation

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Constant:
    """Choose the same action for ever."""

    action: Action

    def act(self, observation: Observation) -> Action:  # noqa: ARG002
        """Choose it."""
        return self.action


@dataclass(frozen=True)
class Uniform:
    """Choose each action equally often."""

    sizes: tuple[int, ...]
    """How many actions each head has."""
    rng: np.random.Generator

    def act(self, observation: Observation) -> Action:  # noqa: ARG002
        """Choose one."""
        return tuple(int(self.rng.integers(size)) for size in self.sizes)
