"""What a game tells a predictor of a window's end: which label, from which inputs, and what a bet on it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from playproof.game.vector_env import Chosen, Ints, Rows


class PredictionTask(Protocol):
    """One label that can be predicted tick by tick, and the bet on it.

    Rows are those of one observation set, whose feature names come with them.
    """

    @property
    def label(self) -> str:
        """Name the label, one of the game's."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Name the inputs beyond the row; each is a feature of the game's table."""

    @property
    def planned(self) -> Mapping[str, str]:
        """Tell of every input that was ever planned where it is, or why it is left out."""

    def start(self, lanes: int) -> Any:
        """Remember nothing yet of so many lanes."""

    def begin(self, memory: Any, chosen: Chosen) -> None:
        """Forget the chosen lanes: their next row is the first of a window."""

    def look(self, memory: Any, rows: Rows, names: tuple[str, ...]) -> Rows:
        """Take one row a lane into the memory; give the inputs beyond it, (lanes, inputs)."""

    def keep(self, memory: Any, lanes: int) -> Any:
        """Give the memory of the first lanes only."""

    def clock(self, rows: Rows, names: tuple[str, ...]) -> Ints:
        """Tell how far each row's window is; the label's horizon counts in the same ticks."""

    def asked(self, rows: Rows, names: tuple[str, ...]) -> Chosen:
        """Tell where a bet could be placed: there the label is asked for."""

    def held(self, rows: Rows, names: tuple[str, ...]) -> Chosen:
        """Tell where a position is open that `exit` would close."""

    def affords(self, rows: Rows, names: tuple[str, ...]) -> Chosen:
        """Tell where what stands in the bet field can be paid."""

    @property
    def mean_life(self) -> float:
        """Give the mean number of ticks of a window with the constant hazard of the game as it is published."""

    def payout(self, world: str | None) -> float:
        """Give what a bet that wins pays for each unit, the unit included; None: the game as it is published."""

    def chance(self, world: str, rows: Rows, names: tuple[str, ...]) -> Any:
        """Give the chance of the label by theory, as well as rows can tell it, (n,); None where it is not known."""

    @property
    def actions(self) -> str:
        """Name the action set of `bet` and `exit`."""

    @property
    def bet(self) -> tuple[int, ...]:
        """Give the action that bets on the label."""

    @property
    def exit(self) -> tuple[int, ...]:
        """Give the action that closes every open position."""
