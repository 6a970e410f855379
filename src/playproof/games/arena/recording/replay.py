"""What can be seen of an hour in the arena step by step: prices, positions and money, and what agents said.

A stored trajectory shows what its agent saw: prices as they stood in its prompt, money in exact units. Watched
lanes tell both exactly. Leaves out: pages (validate) and outcomes, which no agent could know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from playproof.game.replay import (
    LaneSnapshot,
    Line,
    Mark,
    Number,
    ReplayedEpisode,
    ReplayRules,
    Values,
    content_text,
    step_texts,
)
from playproof.game.vector_env import Actions, StepResult, VectorTerms
from playproof.games.arena.agents.decisions import AMOUNTS, NAMES, ORDERS
from playproof.games.arena.learning.vector_env import PLAYER, ArenaMarketPlayer, ArenaVectorGame, make_vector_game
from playproof.games.arena.market.rules import PERPS, SLOTS
from playproof.money import UNIT

MINUTE = Line("minute", "", "of the window", stepped=True)
MONEY = (
    Line("equity", "profit so far", "USD", UNIT, stepped=True, drawn="change"),
    Line("cash", "", "USD", UNIT, stepped=True),
)
LINES = (
    MINUTE,
    *(Line(name, "prices", "USD", UNIT, drawn="move") for name in PERPS),
    *MONEY,
    *(Line(f"in {name}", "positions", "USD", UNIT, stepped=True) for name in PERPS),
    Line("in questions", "positions", "shares", UNIT, stepped=True),
)


def _told(lane: ArenaMarketPlayer) -> dict[str, float]:
    """Tell where a lane's player stands, exactly."""
    account, public = lane.world.exchange.accounts[PLAYER], lane.world.public
    prices = {name: public.price(name) for name in PERPS}
    held = {name: account.perps.get(name) for name in PERPS}
    return (
        {"minute": 0 if public.tick is None else public.tick}
        | {name: np.nan if price is None else price for name, price in prices.items()}
        | {"equity": lane.equity, "cash": account.cash}
        | {f"in {name}": 0 if perp is None else perp.side * perp.size for name, perp in held.items()}
        | {"in questions": sum(sum(sides) for sides in account.shares.values())}
    )


class _ObservedMarket(ArenaMarketPlayer):
    """A lane that remembers how its player stood before and after the last step."""

    stood: tuple[dict[str, float], list[bool], dict[str, float], list[bool]]

    def step(self, action: Any) -> tuple[float, bool, float]:
        """Take one action."""
        before, unknown = _told(self), list(self.missing)
        result = super().step(action)
        self.stood = (before, unknown, _told(self), list(self.missing))
        return result


class ObservedArena(ArenaVectorGame):
    """Lanes of the arena that also tell where each player stood before and after a step."""

    def step(self, actions: Actions) -> StepResult:
        """Take an action in every lane."""
        moved = super().step(actions)
        stood = [lane.stood for lane in self.lanes if isinstance(lane, _ObservedMarket)]
        self._before = _standing([item[0] for item in stood], [item[1] for item in stood])
        self._after = _standing([item[2] for item in stood], [item[3] for item in stood])
        return moved

    def before(self) -> LaneSnapshot:
        """Tell how every lane stood when the last step began."""
        return self._before

    def after(self) -> LaneSnapshot:
        """Tell how every lane stood when the last step was over."""
        return self._after


def _standing(values: Sequence[Mapping[str, float]], missing: Sequence[Sequence[bool]]) -> LaneSnapshot:
    return LaneSnapshot(
        {name: np.array([value[name] for value in values]) for name in values[0]}, np.array(missing, np.bool_)
    )


def watch(terms: VectorTerms, count: int) -> ObservedArena:
    """Make lanes that can be watched."""
    plain = make_vector_game(terms, count)
    watched = ObservedArena(plain.settings, count)
    watched.lanes = [_ObservedMarket(plain.settings) for _ in range(count)]
    return watched


def say(action: Sequence[int], actions: str) -> str:  # noqa: ARG001
    """Put an order into words."""
    kind, market, amount = (int(item) for item in action)
    name = NAMES[kind]
    if name == "WAIT":
        return name
    where = PERPS[market] if name.lower() in ORDERS["perp"] else f"question {market % SLOTS}"
    return f"{name} {where}" if name in ("CLOSE", "SELL") else f"{name} {where} {AMOUNTS[amount]}"


def marks(values: Values, actions: Sequence[str]) -> tuple[Mark, ...]:
    """Find where positions were opened, added to and closed."""
    return tuple(sorted(_marks(values, actions), key=lambda mark: mark.point))


def _marks(values: Values, actions: Sequence[str]) -> Iterator[Mark]:
    for name in PERPS:
        if name not in values:
            continue
        for step, (held, then) in enumerate(pairwise(values[f"in {name}"])):
            if held is None or then is None or held == then or not _orders(actions[step], name):
                continue
            more = abs(then) > abs(held)
            yield Mark(step, name, "entry" if more else "exit", actions[step])
    yield Mark(len(actions), "equity", "end", "the window closes")


def _orders(action: str, market: str) -> bool:
    return market in action.split()


def trajectory(result: Any) -> ReplayedEpisode:
    """Show a stored trajectory: what the agent saw, thought, said and did, with its money."""
    metrics = result.metrics or {}
    end: dict[str, Number] = {"equity": metrics.get("end_equity"), "cash": result.final_balance}
    points = [*(_point(step) for step in result.steps), end]
    names = ("minute", *(line.name for line in LINES[1:]))
    values: dict[str, list[Number]] = {name: [point.get(name) for point in points] for name in names}
    values = {name: of for name, of in values.items() if any(item is not None for item in of)}
    actions = tuple(_action(step) for step in result.steps)
    equities = [point.get("equity") for point in points]
    return ReplayedEpisode(
        window=result.window_id,
        player=result.agent_id,
        pnl=result.final_pnl,
        lines=tuple(line for line in LINES if line.name in values),
        values=values,
        marks=_fills(result.steps, values, len(actions)),
        actions=actions,
        rewards=[_profit(before, after) for before, after in pairwise(equities)],
        said=tuple(tuple(step_texts(result, step, _action(step), _filled)) for step in result.steps),
        about="Prices and positions as the agent's prompt showed them; money in exact units.",
    )


def _profit(before: Number, after: Number) -> Number:
    """Give what a step earned, in USD; None where one end is not known."""
    return None if before is None or after is None else (after - before) / UNIT


def _point(step: Any) -> dict[str, Number]:
    """Read what a step's prompt showed."""
    shown = {access.get("provider"): access.get("data") for access in step.accesses}
    point: dict[str, Number] = {
        "minute": _whole(step.state.get("tick")),
        "equity": _whole(step.state.get("equity")),
        "cash": _whole(step.state.get("balance")),
    }
    markets = shown.get("markets")
    for name, quote in markets.items() if isinstance(markets, dict) else ():
        if name in PERPS and isinstance(quote, list) and quote and isinstance(quote[0], int | float):
            point[name] = round(quote[0] * UNIT)
    portfolio = shown.get("portfolio")
    if isinstance(portfolio, dict):
        point |= _open(portfolio.get("open"))
    return point


def _open(payload: Any) -> dict[str, Number]:
    """Read the open positions of a portfolio: [company, USD, move] or [question, side, shares]."""
    numbers: dict[str, Number] = dict.fromkeys([*(f"in {name}" for name in PERPS), "in questions"], 0)
    for item in payload if isinstance(payload, list) else ():
        if not (isinstance(item, list) and len(item) == 3):
            continue
        if item[0] in PERPS and isinstance(item[1], int | float):
            numbers[f"in {item[0]}"] = round(item[1] * UNIT)
        elif isinstance(item[2], int | float):
            numbers["in questions"] = (numbers["in questions"] or 0) + round(item[2] * UNIT)
    return numbers


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _action(step: Any) -> str:
    """Put what an agent did into words."""
    payload = step.action_parameters or {}
    if step.action_type is None:
        return "nothing recorded"
    if step.action_type != "trade":
        return str(step.action_type)
    words = (str(payload.get("order", "trade")), payload.get("market"), _usd(payload.get("amount")))
    return " ".join(str(word) for word in words if word)


def _usd(amount: object) -> str:
    return f"{amount / UNIT:,.8g}" if isinstance(amount, int | float) and not isinstance(amount, bool) else ""


def _fills(steps: Sequence[Any], values: Mapping[str, Sequence[Number]], end: int) -> tuple[Mark, ...]:
    """Mark what was carried out, on the line of its market."""
    results = []
    for index, step in enumerate(steps):
        order = (step.action_result or {}).get("order")
        market = (step.action_parameters or {}).get("market")
        if order is None:
            continue
        line = str(market) if market in values else "equity"
        closes = order in ("CLOSE", "SELL")
        results.append(Mark(index, line, "exit" if closes else "entry", _action(step)))
    return (*results, Mark(end, "equity", "end", "the window closes"))


def _filled(result: Mapping[str, Any]) -> str:
    """Put what came of an order into words."""
    amount, fee = (_usd(result.get(name)) for name in ("amount", "fee"))
    return f"filled for {amount} USD, fee {fee}" if amount and fee else content_text(dict(result))


REPLAY = ReplayRules(LINES, watch, say, marks, trajectory=trajectory)
