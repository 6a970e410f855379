"""The table of the arena's features: what an agent knows, as numbers.

Each company and each slot of prediction markets has the same block. Returns are fractions, money is
a share of the starting equity of 10,000 USD. Leaves out: how they are computed (features).
"""

from __future__ import annotations

from collections.abc import Iterator

from playproof.game import Feature
from playproof.games.arena.rules import PERPS, SLOTS

HEAD = (
    ("tick", "hours", "price, turn", "minute of the window / 60"),
    ("cash", "share", "fill, balance", "cash / 10,000 USD"),
    ("equity", "share", "fill, price, pool", "cash and what closing everything would pay / 10,000 USD"),
)
PERP = (
    ("window_return", "fraction", "price", "last price / first price of the window - 1"),
    ("return_5", "fraction", "price", "move over 5 ticks, or since the first price known"),
    ("return_20", "fraction", "price", "move over 20 ticks, or since the first price known"),
    ("mood", "-1 to 1", "headline", "sum of the moods of its headlines, each fading to 0 over 40 ticks"),
    ("position", "share", "fill, holding", "signed notional at the entry price / 10,000 USD"),
    ("position_return", "fraction", "fill, price", "move of the price since entry, in favour of the position"),
)
QUESTION = (
    ("probability", "probability", "pool", "price of YES"),
    ("mood", "-1 to 1", "headline", "sum of the moods of its headlines towards YES, each fading to 0 over 40 ticks"),
    ("yes", "share", "fill, holding", "YES shares held / 10,000"),
    ("no", "share", "fill, holding", "NO shares held / 10,000"),
    ("left", "hours", "question", "hours until it is resolved"),
)


def _table() -> Iterator[Feature]:
    yield from (Feature(name, unit, source, how, 0.0) for name, unit, source, how in HEAD)
    for market in PERPS:
        yield from (Feature(f"{market.lower()}_{n}", unit, source, how, 0.0) for n, unit, source, how in PERP)
    for slot in range(SLOTS):
        yield from (Feature(f"question{slot}_{n}", unit, source, how, 0.0) for n, unit, source, how in QUESTION)


FEATURES = tuple(_table())
