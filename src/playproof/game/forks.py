"""Forked windows: copies of one moment of a world in which a player of words decides K times side by side.

A game that can be forked gives them as `Game.forks`. Window k of the same terms has the same future in every copy but
for what the player does, so that differences between copies are the player's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from playproof.game.types import Message

Prompt = tuple[Message, ...]


@dataclass(frozen=True)
class ForkTerms:
    """On which terms windows are forked; with a number they give a window."""

    world: str
    seed: int
    decisions: int
    """Of the player in a window."""
    prompt: str = "full"
    """Which of the game's ways to write a prompt."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What only this game can be asked for."""

    def window(self, number: int) -> str:
        """Name a window; the same name is the same market."""
        return f"{self.world}-{self.seed}-{self.decisions}#{number}"


@dataclass(frozen=True, slots=True)
class ForkEnd:
    """How the player ended in one copy; money in the smallest unit."""

    start_equity: int
    pnl: int
    reward: float
    """The game's own reward: return after fees, minus that of the benchmark in this copy."""
    decisions: int
    valid: int
    """Answers that could be read as a decision."""
    refused: int
    """Decisions that the market did not take."""
    trades: int


class Forks(Protocol):
    """K copies of one window, at the same decision."""

    @property
    def over(self) -> bool:
        """Tell whether the window has closed."""

    def prompts(self) -> tuple[Prompt, ...]:
        """Give what the player reads in each copy."""

    def scripted(self, player: str, rng: np.random.Generator) -> tuple[str, ...]:
        """Give what a scripted player would answer in each copy; `name:0.65` does the contrary of 35 % of it."""

    def act(self, answers: Sequence[str]) -> None:
        """Carry out an answer in each copy, and go on to the next decision or the end."""

    def ends(self) -> tuple[ForkEnd, ...]:
        """Tell how the player ended, once the window has closed."""

    def outcomes(self) -> tuple[Mapping[str, Any], ...]:
        """Tell what the world did, once the window has closed, as rows of outcomes; for rewards, never for a prompt."""


MakeForks = Callable[[ForkTerms, int, int], Forks]
"""Open window `number` of the terms and fork it so many times."""
