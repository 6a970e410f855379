"""The arena's frames: JSON objects with `type` and `window`, and how to read them.

The world's: open (rules), price, pool, question, headline, post, funding, turn, resolved, close.
An agent's own: decision, balance, holding, fill. Money is decimal text; shares and units are whole
numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping

from playproof.errors import DecodeError
from playproof.events import Event, Value, check_id
from playproof.game import Decoder, Fact, Frame
from playproof.games.arena.market.windows import parse_window
from playproof.games.arena.recording.columns import COLUMNS, OWN, fact
from playproof.money import show, to_units

MAX_TEXT = 20_000
_HELD = ("market", "cash", "side", "units", "size", "margin", "funding", "yes", "no")
SHAPES: Mapping[str, tuple[str, ...]] = {
    "open": ("hours", "kappa", "open_interest", "position"),
    "price": ("tick", "market", "price", "longs", "shorts"),
    "pool": ("tick", "market", "yes", "no"),
    "question": ("market", "text", "left"),
    "headline": ("tick", "market", "mood", "text"),
    "post": ("tick", "author", "text"),
    "funding": ("market", "amount", "size"),
    "turn": ("tick",),
    "resolved": ("market", "answer"),
    "close": (),
    "decision": ("text",),
    "balance": ("cash",),
    "holding": _HELD,
    "fill": ("order", "amount", "fee", *_HELD),
}
"""What each kind of frame tells."""
_MONEY = frozenset(column.name for column in COLUMNS if column.kind == "money")


def decoder() -> Decoder:
    """Make a decoder; it needs no memory."""
    return decode


def decode(frame: Frame) -> tuple[Fact, ...]:
    """Read one frame."""
    try:
        fields = json.loads(frame.payload)
        kind, window = fields["type"], parse_window(fields["window"]).window_id
        agent = check_id(fields["agent"], "agent") if kind in OWN else None
        columns = {name: _READERS[name](fields[name]) for name in SHAPES[kind]}
    except (ValueError, TypeError, KeyError, RecursionError, DecodeError):
        return ()
    return (fact(kind, window, columns, agent),)


def write(payload: Fact, agent: str | None = None) -> str:
    """Write a fact as a frame; an agent's own facts carry its id."""
    named: dict[str, Value] = {"type": payload.event_name, "window": payload.window_id}
    if payload.event_name in OWN:
        named["agent"] = payload.player_id or agent
    columns = {
        name: show(column) if name in _MONEY and isinstance(column, int) else column
        for name, column in payload.columns.items()
    }
    return json.dumps(named | columns)


def decides(event: Event) -> bool:
    """Tell whether it is the agent's turn."""
    return event.event_name == "turn"


def _whole(low: int, high: int) -> Callable[[object], int]:
    """Make a reader of whole numbers in a range."""

    def read(value: object) -> int:
        if type(value) is int and low <= value <= high:
            return value
        raise DecodeError(f"expected a whole number from {low} to {high}, found {value!r:.40}")

    return read


def _id(value: object) -> str:
    if isinstance(value, str):
        return check_id(value, "an id")
    raise DecodeError(f"expected an id, found {value!r:.40}")


def _amount(value: object) -> int:
    if isinstance(value, str) and abs(amount := to_units(value)) < 2**62:
        return amount
    raise DecodeError(f"expected an amount as decimal text, found {value!r:.40}")


def _money(value: object) -> int:
    if (amount := _amount(value)) >= 0:
        return amount
    raise DecodeError(f"expected an amount of at least 0, found {value!r:.40}")


def _price(value: object) -> int:
    if (price := _money(value)) > 0:
        return price
    raise DecodeError(f"expected a price above 0, found {value!r:.40}")


def _number(low: float, high: float) -> Callable[[object], float]:
    """Make a reader of numbers in a range."""

    def read(result: object) -> float:
        if type(result) in (int, float) and math.isfinite(value := float(str(result))) and low <= value <= high:
            return value
        raise DecodeError(f"expected a number from {low} to {high}, found {result!r:.40}")

    return read


def _text(value: object) -> str:
    """Take a text; halves of surrogate pairs, which no file holds, become question marks."""
    if isinstance(value, str) and len(value) <= MAX_TEXT:
        return value.encode("utf-8", "replace").decode()
    raise DecodeError(f"expected a text of at most {MAX_TEXT} characters, found {value!r:.40}")


_count = _whole(0, 2**62)
_READERS: Mapping[str, Callable[[object], Value]] = {
    "tick": _whole(0, 24 * 60 - 1),
    "market": _id,
    "price": _price,
    "longs": _count,
    "shorts": _count,
    "yes": _count,
    "no": _count,
    "left": _whole(0, 7 * 24 * 60),
    "answer": _whole(0, 1),
    "mood": _number(-1.0, 1.0),
    "author": _id,
    "text": _text,
    "order": _id,
    "amount": _money,
    "fee": _money,
    "cash": _money,
    "side": _whole(-1, 1),
    "units": _count,
    "size": _money,
    "margin": _money,
    "funding": _amount,
    "hours": _whole(1, 24),
    "kappa": _number(0.0, 1.0),
    "open_interest": _count,
    "position": _count,
}
