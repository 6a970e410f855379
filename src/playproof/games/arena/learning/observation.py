"""The arena's fold: what an agent knows, as numbers and as messages.

The features are those of the table; every fill value is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.game import ObservationFold
from playproof.games.arena.agents.prompts import observe_messages
from playproof.games.arena.learning.state import AgentState, apply
from playproof.games.arena.learning.table import PERP, QUESTION
from playproof.games.arena.market.news import slot_of
from playproof.games.arena.market.rules import PERPS, SHARE, SLOTS, TICKS, MarketRules

_CASH = MarketRules().cash


def values(known: AgentState) -> list[float | None]:
    """Give every feature, None where it is unknown."""
    public, own, equity = known.public, known.own, known.equity()
    row: list[float | None] = [
        None if public.tick is None else public.tick / TICKS,
        own.cash / _CASH if known.has_account else None,
        None if equity is None else equity / _CASH,
    ]
    for market in PERPS:
        row += _perp(known, market)
    slots = {slot_of(market): market for market in public.questions}
    for slot in range(SLOTS):
        row += _question(known, slots.get(slot))
    return row


def _perp(known: AgentState, market: str) -> list[float | None]:
    public, held = known.public, known.own.perps.get(market)
    quote, first = public.quotes.get(market), public.first.get(market)
    if quote is None:
        return [None] * len(PERP)
    return [
        None if first is None else quote.price / first - 1,
        public.change(market, 5),
        public.change(market, 20),
        public.mood(market),
        None if not known.has_account else held.side * held.size / _CASH if held else 0.0,
        held.side * (quote.price * held.units / (held.size * SHARE) - 1) if held and held.size else 0.0,
    ]


def _question(known: AgentState, market: str | None) -> list[float | None]:
    asked = known.public.questions.get(market) if market is not None else None
    if market is None or asked is None or asked.pool is None:
        return [None] * len(QUESTION)
    held = known.own.shares.get(market, (0, 0))
    left = asked.left - (known.public.clock - asked.at)
    return [asked.pool.probability, known.public.mood(market), held[0] / _CASH, held[1] / _CASH, left / TICKS]


def observe_market(known: AgentState, out: NDArray[np.float32]) -> None:
    """Write the set `market`; every fill value is 0."""
    out[:] = [0.0 if value is None else value for value in values(known)]


def missing_market(known: AgentState, out: NDArray[np.bool_]) -> None:
    """Write what of the set `market` is unknown."""
    out[:] = [value is None for value in values(known)]


_OBSERVERS: dict[str, Callable[[Any, Any], None]] = {"messages": observe_messages, "market": observe_market}
FOLD = ObservationFold(AgentState, apply, _OBSERVERS, {"market": missing_market})
