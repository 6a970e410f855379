"""What an agent decides: one JSON object, read without ever raising.

{"action": "trade" | "hold" | "create_post",
 "trade": {"type": "prediction" | "perp", "market": id, "action": ..., "amount": n, "leverage": l?, "forecast": p?},
 "post": {"text": s}, "reasoning": s}

A model may wrap the object in a code fence or in prose; the first object in the text is read. What follows from the
rest may be left out, `"action": "trade"` beside a trade and the trade's type, so that a decision takes fewer tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from playproof.errors import DecodeError
from playproof.events import Event, Value, check_id
from playproof.game import WAIT, Action, Choice
from playproof.games.arena.market.news import slot_of
from playproof.games.arena.market.rules import PERPS, SLOTS
from playproof.money import UNIT, to_units

ORDERS = {
    "perp": ("open_long", "open_short", "close"),
    "prediction": ("buy_yes", "buy_no", "sell"),
}
NAMES = (WAIT, *(order.upper() for kind in ORDERS.values() for order in kind))
"""First head of the action set `orders`."""
AMOUNTS = (50, 100, 500)
"""USD; third head of the action set `orders`."""
MAX_TEXT = 20_000
MAX_POST = 1_000
MAX_AMOUNT = 2**53
MAX_LEVERAGE = 100
HOLD = '{"action":"hold"}'
EXAMPLES = (
    HOLD,
    '{"action":"trade","trade":{"type":"perp","market":"KITE","action":"open_long","amount":100},"reasoning":"news"}',
    '{"action":"trade","trade":{"type":"perp","market":"VOLT","action":"open_short","amount":50.5,"leverage":2}}',
    '{"action":"trade","trade":{"type":"perp","market":"KITE","action":"close"}}',
    '{"action":"trade","trade":{"type":"prediction","market":"Q1","action":"buy_yes","amount":20,"forecast":0.7}}',
    '{"action":"trade","trade":{"type":"prediction","market":"Q1","action":"sell"}}',
    '{"action":"create_post","post":{"text":"KITE looks strong"}}',
)


def read_decision(text: str) -> Choice:
    """Read a decision; what does not parse is rejected, with the reason."""
    if len(text) > MAX_TEXT:
        return Choice(WAIT, rejected=f"expected at most {MAX_TEXT} characters, found {len(text)}")
    try:
        payload = _object(text)
        short = isinstance(payload, dict) and "action" not in payload and "trade" in payload
        return _choice("trade" if short else _field(payload, "action", str), payload)
    except DecodeError as error:
        return Choice(WAIT, rejected=str(error))
    except (ValueError, RecursionError):
        return Choice(WAIT, rejected=f"expected a JSON object, found {text[:40]!r}")


def _object(text: str) -> Any:
    """Read the text, or the first JSON object in it."""
    if text.startswith("{"):
        return json.JSONDecoder().raw_decode(text)[0]
    start = text.find("{")
    return json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else json.loads(text)


def _choice(action: str, payload: Mapping[str, object]) -> Choice:
    """Read the decision by its action."""
    if action == "hold":
        return Choice(WAIT)
    if action == "create_post":
        text = _field(_field(payload, "post", dict), "text", str)
        if not 0 < len(text) <= MAX_POST:
            raise DecodeError(f"expected a post of 1 to {MAX_POST} characters, found {len(text)}")
        return Choice("CREATE_POST", {"text": text.encode("utf-8", "replace").decode()})
    if action == "trade":
        return _trade(_field(payload, "trade", dict))
    raise DecodeError(f"expected action trade, hold or create_post, found {action[:40]!r}")


def _trade(trade: Mapping[str, object]) -> Choice:
    """Read a trade."""
    action = _field(trade, "action", str)
    kind = _field(trade, "type", str) if "type" in trade else _kind(action)
    if action not in ORDERS.get(kind, ()):
        raise DecodeError(f"expected a known order on a perp or a prediction, found {action[:40]!r} on {kind[:40]!r}")
    arguments: dict[str, Value] = {"type": kind, "market": check_id(_field(trade, "market", str), "market")}
    if trade.get("amount") is not None or action not in ("close", "sell"):
        arguments["amount"] = _amount(trade.get("amount"))
    if trade.get("leverage") is not None and kind == "perp":
        arguments["leverage"] = _leverage(trade["leverage"])
    if trade.get("forecast") is not None:
        arguments["forecast"] = _probability(trade["forecast"])
    return Choice(action.upper(), arguments)


def _field(value: object, name: str, kind: type) -> Any:
    """Give a field of an object, or say what was expected."""
    if not isinstance(value, dict) or not isinstance(value.get(name), kind):
        raise DecodeError(f"expected an object with {name!r} as {kind.__name__}")
    return value[name]


def _amount(value: object) -> int:
    """Read an amount of money above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DecodeError(f"expected an amount, found {value!r:.40}")
    amount = to_units(value)
    if not 0 < amount <= MAX_AMOUNT:
        raise DecodeError(f"expected an amount above 0, found {value!r:.40}")
    return amount


def _leverage(value: object) -> int:
    """Read a leverage, a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= MAX_LEVERAGE or value % 1:
        raise DecodeError(f"expected a leverage from 1 to {MAX_LEVERAGE}, found {value!r:.40}")
    return int(value)


def _probability(value: object) -> float:
    """Read a probability."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DecodeError(f"expected a forecast from 0 to 1, found {value!r:.40}")
    return float(value)


def _kind(order: str) -> str:
    """Give the kind of market that an order is for."""
    return "perp" if order in ORDERS["perp"] else "prediction"


def write_trade(order: str, market: str, amount: float | None = None, **more: float | str) -> str:
    """Write a trade as agents write it; `reasoning` stands beside it, everything else inside."""
    kind = _kind(order)
    reasoning = {"reasoning": more.pop("reasoning")} if "reasoning" in more else {}
    trade: dict[str, object] = {"type": kind, "market": market, "action": order}
    if amount is not None:
        trade["amount"] = amount
    return json.dumps({"action": "trade", "trade": trade | more} | reasoning, separators=(",", ":"))


def shortened(decision: str) -> str:
    """Give a decision without its reasoning and what follows from the rest of it, which takes fewer tokens."""
    payload = json.loads(decision)
    trade = payload.get("trade")
    kept = payload if trade is None else {"trade": {name: item for name, item in trade.items() if name != "type"}}
    return json.dumps(kept, separators=(",", ":"))


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
    market = choice.arguments.get("market")
    position = _place(choice.kind, market if isinstance(market, str) else "")
    if choice.kind not in NAMES or position is None:
        return (0, 0, 0)
    amount = choice.arguments.get("amount")
    usd = amount / UNIT if isinstance(amount, int) else 0.0
    return (NAMES.index(choice.kind), position, min(range(len(AMOUNTS)), key=lambda at: abs(AMOUNTS[at] - usd)))


def _place(kind: str, market: str) -> int | None:
    """Give a market's place in the second head; None if it has none."""
    if kind in ("BUY_YES", "BUY_NO", "SELL"):
        return slot if (slot := slot_of(market)) >= 0 else None
    return PERPS.index(market) if market in PERPS else None


def order_choice(action: tuple[int, ...], questions: Mapping[int, str]) -> Choice:
    """Read an order of the set `orders`; `questions` are the open prediction markets by slot."""
    kind, amount = NAMES[action[0]], AMOUNTS[action[2]] * UNIT
    if kind == WAIT:
        return Choice(WAIT)
    if kind.lower() in ORDERS["perp"]:
        payload: dict[str, Value] = {"type": "perp", "market": PERPS[action[1]]}
        return Choice(kind, payload if kind == "CLOSE" else payload | {"amount": amount})
    market = questions.get(action[1] % SLOTS, "none")
    payload = {"type": "prediction", "market": market}
    return Choice(kind, payload if kind == "SELL" else payload | {"amount": amount})
