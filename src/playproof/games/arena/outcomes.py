"""What the market did in an hour, and what is computed from it: reward, label, ceiling.

Leaves out: resolutions of prediction markets, and alpha against buy-and-hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from playproof.errors import UnknownName
from playproof.events import Event
from playproof.game import Outcome, Step
from playproof.games.arena.feed import TICKS
from playproof.money import from_units


def read_outcome(events: Sequence[Event]) -> Outcome | None:
    """Give the first and the last price of an hour; None unless every minute of it was seen, to its close."""
    world = [event for event in events if event.player_id is None]
    names = [event.event_name for event in world]
    prices = [event.columns for event in world if event.event_name == "price"]
    if names[:1] != ["open"] or names[-1:] != ["close"] or [it["tick"] for it in prices] != list(range(TICKS)):
        return None
    ends = {"start_price": prices[0]["price"], "end_price": prices[-1]["price"]}
    return Outcome(world[0].window_id or "", ends)


def equity_change(steps: Sequence[Step], outcome: Outcome) -> list[float]:  # noqa: ARG001
    """Give the change in marked equity of each step, in USD."""
    return [from_units(step.after.equity - step.before.equity) for step in steps]


def ends_higher(outcome: Outcome, event: Event) -> float | None:  # noqa: ARG001
    """Give 1 if the hour ended above its first price, else 0."""
    start, end = outcome.values["start_price"], outcome.values["end_price"]
    return float(end > start) if isinstance(start, int) and isinstance(end, int) else None


def ceiling(world: str) -> float:
    """Give the best expected profit: 0 where prices move by chance and trades cost fees."""
    if world != "walk":
        raise UnknownName("world", world, ("walk",))
    return 0.0
