"""What an agent decides: one JSON object, read without ever raising.

{"action": "trade" | "hold" | "create_post",
 "trade": {"type": "prediction" | "perp", "market": id, "action": ..., "amount": n, "forecast": p?},
 "post": {"text": s}, "reasoning": s}

Leaves out: several decisions a tick, and decisions wrapped in other text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from playproof.errors import DecodeError
from playproof.events import Event, Value, check_id
from playproof.game import WAIT, Action, Choice
from playproof.money import UNIT, to_units

ORDERS = {
    "perp": ("open_long", "open_short", "close"),
    "prediction": ("buy_yes", "buy_no", "sell"),
}
SIZES = (50 * UNIT, 100 * UNIT, 500 * UNIT)
"""Notionals of the action set `orders`."""
MAX_TEXT = 20_000
MAX_POST = 1_000
MAX_AMOUNT = 2**53


def read_decision(text: str) -> Choice:
    """Read a decision; what does not parse is rejected, with the reason."""
    if len(text) > MAX_TEXT:
        return Choice(WAIT, rejected=f"expected at most {MAX_TEXT} characters, found {len(text)}")
    try:
        told = json.loads(text)
        return _choice(_field(told, "action", str), told)
    except DecodeError as error:
        return Choice(WAIT, rejected=str(error))
    except (ValueError, RecursionError):
        return Choice(WAIT, rejected=f"expected a JSON object, found {text[:40]!r}")


def _choice(action: str, told: Mapping[str, Any]) -> Choice:
    """Read the decision by its action."""
    if action == "hold":
        return Choice(WAIT)
    if action == "create_post":
        text = _field(_field(told, "post", dict), "text", str)
        if not 0 < len(text) <= MAX_POST:
            raise DecodeError(f"expected a post of 1 to {MAX_POST} characters, found {len(text)}")
        return Choice("CREATE_POST", {"text": text})
    if action == "trade":
        return _trade(_field(told, "trade", dict))
    raise DecodeError(f"expected action trade, hold or create_post, found {action[:40]!r}")


def _trade(trade: Mapping[str, Any]) -> Choice:
    """Read a trade."""
    kind, action = _field(trade, "type", str), _field(trade, "action", str)
    if action not in ORDERS.get(kind, ()):
        raise DecodeError(f"expected a known order on a perp or a prediction, found {action[:40]!r} on {kind[:40]!r}")
    arguments: dict[str, Value] = {"type": kind, "market": check_id(_field(trade, "market", str), "market")}
    if "amount" in trade or action != "close":
        arguments["amount"] = _amount(trade.get("amount"))
    if trade.get("forecast") is not None:
        arguments["forecast"] = _probability(trade["forecast"])
    return Choice(action.upper(), arguments)


def _field(told: object, name: str, kind: type) -> Any:
    """Give a field of an object, or say what was expected."""
    if not isinstance(told, dict) or not isinstance(told.get(name), kind):
        raise DecodeError(f"expected an object with {name!r} as {kind.__name__}")
    return told[name]


def _amount(found: object) -> int:
    """Read an amount of money above 0."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise DecodeError(f"expected an amount, found {found!r:.40}")
    amount = to_units(found)
    if not 0 < amount <= MAX_AMOUNT:
        raise DecodeError(f"expected an amount above 0, found {found!r:.40}")
    return amount


def _probability(found: object) -> float:
    """Read a probability."""
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
        raise DecodeError(f"expected a forecast from 0 to 1, found {found!r:.40}")
    return float(found)


def recorded_decision(event: Event) -> Action | None:
    """Read the text of a recorded decision."""
    text = event.columns.get("text")
    return text if event.event_name == "decision" and isinstance(text, str) else None


def recorded_order(event: Event) -> Action | None:
    """Read a recorded decision as the nearest order of the set `orders`."""
    text = recorded_decision(event)
    if not isinstance(text, str):
        return None
    choice = read_decision(text)
    orders = (WAIT, *(order.upper() for order in ORDERS["perp"]))
    if choice.kind not in orders:
        return (0, 0)
    amount = choice.arguments.get("amount")
    size = min(range(len(SIZES)), key=lambda place: abs(SIZES[place] - (amount if isinstance(amount, int) else 0)))
    return (orders.index(choice.kind), size)
