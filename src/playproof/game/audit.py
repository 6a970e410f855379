"""What a game's own data are asked: how long windows live, what staking a unit would have come to, what is promised.

The game gathers these from recordings; the stage `validate` weighs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]
    Flags: TypeAlias = NDArray[np.bool_]
else:
    Floats = Ints = Flags = Any


class RecordedTables(Protocol):
    """Stored events, by table."""

    def arrow(self, doc_type: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Give the events of a doc_type as a table."""


@dataclass(frozen=True)
class WindowAges:
    """How long windows were seen to live, in decision points; one entry for each."""

    windows: tuple[str, ...]
    entered: Ints
    """How old a window was when it was first seen."""
    end: Ints
    """When it ended, or was last seen alive."""
    ended: Flags


@dataclass(frozen=True)
class Wager:
    """One unit staked in one way at every place that allowed it, by window."""

    group: str
    """Wagers of one group are alternatives: the same thing done in other places."""
    name: str
    windows: tuple[str, ...]
    count: Floats
    """How often it could have been staked in each window."""
    profit: Floats
    """The sum of what a unit staked earned."""
    hits: Floats
    """How often it ended with a profit."""
    theory: float | None = None
    """Mean profit of a unit by the published rules."""
    remark: str | None = None
    """Why it is looked at on its own."""


@dataclass(frozen=True)
class SettledBet:
    """A bet that was settled in the recording."""

    window_id: str
    stake: int
    """In the smallest unit."""
    paid: int
    """What was paid out, the stake included; 0 for a loss."""
    moved: int | None = None
    """By how much the player's own money was seen to grow at the payout; None if it was not seen."""


@dataclass(frozen=True)
class VerifiedWindow:
    """A window that was replayed from what the world revealed."""

    window_id: str
    difference: str | None
    """The first difference; None: it is as it was said to be."""


@dataclass(frozen=True)
class Promise:
    """Something that was once said about the game, and how to look it up in the data."""

    what: str
    claimed: float
    group: str | None = None
    """Wager to hold it against, by its share of hits; None: the share of windows that ended by `age`."""
    name: str | None = None
    age: int | None = None


@dataclass(frozen=True)
class Material:
    """What a game gathered from recordings."""

    ages: WindowAges
    whole: int
    """Windows of which everything was received."""
    wagers: tuple[Wager, ...]
    settled: tuple[SettledBet, ...] = ()
    verified: tuple[VerifiedWindow, ...] = ()


@dataclass(frozen=True)
class AuditRules:
    """How a game's recordings are audited."""

    from_store: Callable[[RecordedTables], Material]
    from_rows: Callable[[pl.DataFrame], Material]
    """Gather from the stored observations of a data set: window_id, step, final and the recorded features."""
    hazard: float
    """The published chance that a decision point is a window's last."""
    hit_rates: Mapping[str, float]
    """By group: the published share of hits, for groups in which it is the same everywhere."""
    break_even: Mapping[str, float]
    """By group: the share of hits at which a wager earns nothing."""
    promised: tuple[Promise, ...]
    unit: str
    """What a decision point is called."""
    end: str
    """What a window's end is called."""
