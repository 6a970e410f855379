"""Plays whose order is known by how they were made: what a game gives to try judges on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from playproof.game.types import Message


@dataclass(frozen=True)
class RankedPlay:
    """One player's way through a window, and its place among the others by construction."""

    conversations: tuple[tuple[Message, ...], ...]
    """What the player read and answered, a conversation each decision."""
    start_equity: int
    pnl: int
    rank: int
    """0 is the best."""


@dataclass(frozen=True)
class RankedGroup:
    """Plays of one window, the best first, and what the window did."""

    window_id: str
    outcomes: tuple[Mapping[str, Any], ...]
    """Rows as the table of outcomes has them."""
    plays: tuple[RankedPlay, ...]


class Golden(Protocol):
    """Makes ranked groups; the same arguments, the same groups."""

    def __call__(self, groups: int, members: int, decisions: int, seed: int) -> Sequence[RankedGroup]:
        """Make so many groups of so many plays of so many decisions."""
