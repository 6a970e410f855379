"""The table of the arena's features: what an agent knows, as numbers.

Each company and each slot of prediction markets has the same block. Returns are fractions, money is
a share of the starting equity of 10,000 USD. The last word of a row is the scale that networks see.
"""

from __future__ import annotations

from collections.abc import Iterator

from playproof.game import Feature
from playproof.games.arena.market.rules import PERPS, SLOTS

HEAD = (
    ("tick", "hours", "price, turn", "minute of the window / 60", "linear:0.5:0.5"),
    ("cash", "share", "fill, balance", "cash / 10,000 USD", "linear:0.1:1"),
    (
        "equity",
        "share",
        "fill, price, pool",
        "cash and what closing everything would pay / 10,000 USD",
        "linear:0.01:1",
    ),
)
PERP = (
    ("window_return", "fraction", "price", "last price / first price of the window - 1", "linear:0.01"),
    ("return_5", "fraction", "price", "move over 5 ticks, or since the first price known", "linear:0.005"),
    ("return_20", "fraction", "price", "move over 20 ticks, or since the first price known", "linear:0.01"),
    ("mood", "-1 to 1", "headline", "sum of the moods of its headlines, each fading to 0 over 40 ticks", "linear:0.5"),
    ("position", "share", "fill, holding", "signed notional at the entry price / 10,000 USD", "linear:0.05"),
    (
        "position_return",
        "fraction",
        "fill, price",
        "move of the price since entry, in favour of the position",
        "linear:0.01",
    ),
)
QUESTION = (
    ("probability", "probability", "pool", "price of YES", "linear:0.25:0.5"),
    (
        "mood",
        "-1 to 1",
        "headline",
        "sum of the moods of its headlines towards YES, each fading to 0 over 40 ticks",
        "linear:0.5",
    ),
    ("yes", "share", "fill, holding", "YES shares held / 10,000", "linear:0.02"),
    ("no", "share", "fill, holding", "NO shares held / 10,000", "linear:0.02"),
    ("left", "hours", "question", "hours until it is resolved"),
)


def _table() -> Iterator[Feature]:
    yield from _block("", HEAD)
    for market in PERPS:
        yield from _block(f"{market.lower()}_", PERP)
    for slot in range(SLOTS):
        yield from _block(f"question{slot}_", QUESTION)


def _block(prefix: str, rows: tuple[tuple[str, ...], ...]) -> Iterator[Feature]:
    """Make the features of one block."""
    for name, unit, source, how, *scale in rows:
        yield Feature(f"{prefix}{name}", unit, source, how, 0.0, *scale)


FEATURES = tuple(_table())
