"""What the market did in a window, and what is computed from it: rewards, label, ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from playproof.errors import UnknownName
from playproof.events import Event, Value
from playproof.game import Column, Outcome, Step
from playproof.games.arena.market.rules import PERPS, TICKS
from playproof.games.arena.market.worlds import WORLDS
from playproof.games.arena.recording.columns import USD

OUTCOMES = (
    *(Column(f"start_{market.lower()}", "money", USD, f"first price of {market} in the window") for market in PERPS),
    *(Column(f"end_{market.lower()}", "money", USD, f"last price of {market} in the window") for market in PERPS),
    Column("hold_return", "float", "fraction", "mean move of all perps: what buying and holding them returned"),
)


def read_outcome(events: Sequence[Event]) -> Outcome | None:
    """Give the prices at the window's own ends; None unless every minute of it was seen, to its close."""
    world = [event for event in events if event.player_id is None]
    if not world or world[0].event_name != "open" or world[-1].event_name != "close":
        return None
    hours = world[0].columns["hours"]
    ends = {market: _ends(world, market, hours if isinstance(hours, int) else 1) for market in PERPS}
    if any(end is None for end in ends.values()):
        return None
    known = {market: end for market, end in ends.items() if end is not None}
    values: dict[str, Value] = {f"start_{market.lower()}": item[0] for market, item in known.items()}
    values |= {f"end_{market.lower()}": item[1] for market, item in known.items()}
    return Outcome(world[0].window_id or "", values | {"hold_return": hold_return(known)})


def _ends(world: Sequence[Event], market: str, hours: int) -> tuple[int, int] | None:
    """Give a perp's first and last price, None if a minute is missing."""
    prices = [item.columns for item in world if item.event_name == "price" and item.columns["market"] == market]
    if {price["tick"] for price in prices} != set(range(TICKS * hours)):
        return None
    first, last = prices[0]["price"], prices[-1]["price"]
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def hold_return(ends: Mapping[str, tuple[int, int]]) -> float:
    """Give the mean move of the perps, the return of holding as much of each."""
    return sum(end / start - 1 for start, end in ends.values()) / len(ends)


def profit(steps: Sequence[Step], outcome: Outcome) -> list[float]:  # noqa: ARG001
    """Give each step's change in equity, after fees and at closing value, over the equity at the beginning."""
    if not steps:
        return []
    start = max(1, steps[0].before.equity)
    return [(step.after.equity - step.before.equity) / start for step in steps]


def minus_hold(steps: Sequence[Step], outcome: Outcome) -> list[float]:
    """Give minus the return of buying and holding, once, when the window has closed."""
    held = outcome.values["hold_return"]
    return [0.0] * (len(steps) - 1) + [-held if isinstance(held, float) else 0.0] if steps else []


def ends_higher(outcome: Outcome, event: Event) -> float | None:  # noqa: ARG001
    """Give 1 if the perps together end above where they began, else 0."""
    held = outcome.values["hold_return"]
    return float(held > 0) if isinstance(held, float) else None


def ceiling(world: str) -> float | None:
    """Give the best expected profit: 0 where nothing tells of prices to come; else positive and not known."""
    if world not in WORLDS:
        raise UnknownName("world", world, WORLDS)
    return 0.0 if world == "null" else None
