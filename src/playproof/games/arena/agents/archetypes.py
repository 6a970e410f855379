"""Scripted agents: archetypes that choose by what everybody can see, as one table.

They look at the observation set `market` and give orders of the set `orders`; `write_order` puts an
order into the JSON that language agents write, so that their play teaches the format. They keep no
memory: what they hold and what is known tells them what to do, so that a fork of a window needs
nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from playproof.game import WAIT, Action, Observation, Policy
from playproof.games.arena.agents.decisions import AMOUNTS, HOLD, NAMES, ORDERS, write_trade
from playproof.games.arena.learning import table
from playproof.games.arena.market.rules import MAX_ACTIONS, PERPS, SLOTS

Row = Sequence[float]
"""Values of the observation set `market`, fill values where unknown."""

HEAD, PERP, QUESTION = len(table.HEAD), len(table.PERP), len(table.QUESTION)
"""Sizes of the blocks of that set."""
BET = 1
"""Largest place among the amounts that is sensible for a question: 100 USD, a fifth of a new pool."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order of the set `orders`, and why."""

    kind: str
    market: int = 0
    """Which company, or which slot of prediction markets."""
    size: int = 0
    """Place among the amounts."""
    reason: str = ""
    forecast: float | None = None

    @property
    def action(self) -> tuple[int, int, int]:
        """Give the order as an action of the set `orders`."""
        return (NAMES.index(self.kind), self.market, self.size)


@dataclass(frozen=True)
class Archetype:
    """A way to trade: what it listens to, and how much it dares."""

    name: str
    doc: str
    risk: float
    mood: float = 0.0
    """Weight of the headlines' mood on a company."""
    trend: float = 0.0
    """Weight of the move over 20 ticks, in percent."""
    enter: float = 1.0
    """Opens a position where the weighted sum is at least this."""
    leave: float = 0.0
    """Closes one where the sum in its favour is no more than this."""
    size: int = 1
    """Place among the amounts."""
    questions: bool = False
    """Does it bet on questions by their headlines?"""
    choose: Callable[[Archetype, Row, np.random.Generator], list[Order]] | None = None
    """Give the orders of one turn, the most wanted first; None: listen to mood and trend."""

    def listen(self, row: Row) -> list[Order]:
        """Open where mood and trend say so, close where they no longer do, bet on questions."""
        results: list[tuple[float, Order]] = []
        for index in range(len(PERPS)):
            base = HEAD + PERP * index
            score = self.mood * row[base + 3] + self.trend * 100 * row[base + 2]
            position = row[base + 4]
            if position and score * math.copysign(1, position) <= self.leave:
                results.append((9.0, Order("CLOSE", index, reason="what I held it for has passed")))
            elif not position and abs(score) >= self.enter:
                kind, way = ("OPEN_LONG", "up") if score > 0 else ("OPEN_SHORT", "down")
                results.append((abs(score), Order(kind, index, self.size, f"{PERPS[index]} should go {way}")))
        if self.questions:
            results += [item for slot in range(SLOTS) for item in self._bet(row, slot)]
        return [order for _, order in sorted(results, key=lambda item: -item[0])]

    def _bet(self, row: Row, slot: int) -> list[tuple[float, Order]]:
        """Bet on a question whose price is far from what its headlines tell."""
        price, mood, yes, no, left = row[(base := HEAD + PERP * len(PERPS) + QUESTION * slot) : base + QUESTION]
        if not left or not mood:
            return []
        forecast = round(1 / (1 + math.exp(-1.7 * mood)), 2)
        edge = forecast - price
        if abs(edge) < 0.12 or max(yes, no) > 0.05:
            return []
        kind = "BUY_YES" if edge > 0 else "BUY_NO"
        return [(abs(edge), Order(kind, slot, min(self.size, BET), f"the headlines say {forecast:.0%}", forecast))]

    def decide(self, row: Row, rng: np.random.Generator) -> list[Order]:
        """Give at most three orders for one turn."""
        orders = self.listen(row) if self.choose is None else self.choose(self, row, rng)
        return orders[:MAX_ACTIONS]


def _anything(archetype: Archetype, row: Row, rng: np.random.Generator) -> list[Order]:  # noqa: ARG001
    """Order anything, each kind equally often."""
    kind = NAMES[int(rng.integers(len(NAMES)))]
    indices, sizes = (len(PERPS), len(AMOUNTS)) if kind.lower() in ORDERS["perp"] else (SLOTS, BET + 1)
    order = Order(kind, int(rng.integers(indices)), int(rng.integers(sizes)), "a coin said so")
    return [] if kind == WAIT else [order]


def _hold(archetype: Archetype, row: Row, rng: np.random.Generator) -> list[Order]:  # noqa: ARG001
    """Buy as much of every company, and hold it."""
    held = [row[HEAD + PERP * index + 4] for index in range(len(PERPS))]
    return [
        Order("OPEN_LONG", index, archetype.size, "buy and hold") for index, share in enumerate(held) if share < 0.09
    ]


ARCHETYPES: Mapping[str, Archetype] = {
    item.name: item
    for item in (
        Archetype("informed", "reads the news on companies and questions", 0.6, 1.0, 0.0, 0.35, 0.08, 2, True),
        Archetype("conservative", "trades little, on strong news alone", 0.2, 1.0, 0.0, 0.75, 0.2, 0),
        Archetype("balanced", "weighs news and trend", 0.5, 0.7, 0.3, 0.6, 0.05, 1),
        Archetype("aggressive", "trades on any sign, in large sizes", 0.8, 0.6, 0.6, 0.3, 0.0, 2, True),
        Archetype("momentum", "goes with the move of the last 20 minutes", 0.7, 0.0, 1.0, 0.8, 0.1, 2),
        Archetype("contrarian", "goes against the move of the last 20 minutes", 0.4, 0.0, -1.0, 1.2, 0.2, 1),
        Archetype("hold", "buys a little of every company and holds it", 0.3, size=2, choose=_hold),
        Archetype("random", "orders anything", 0.5, choose=_anything),
    )
}
"""The table; a run of n agents takes the first n, and begins again."""


def write_order(order: Order, questions: Mapping[int, str]) -> str:
    """Write an order as agents write it; `questions` are the open prediction markets by slot."""
    if order.kind == WAIT:
        return HOLD
    perp = order.kind.lower() in ORDERS["perp"]
    market = PERPS[order.market] if perp else questions.get(order.market, "none")
    amount = None if order.kind in ("CLOSE", "SELL") else AMOUNTS[order.size]
    more: dict[str, float | str] = {"reasoning": order.reason} if order.reason else {}
    if order.forecast is not None:
        more["forecast"] = order.forecast
    return write_trade(order.kind.lower(), market, amount, **more)


@dataclass(frozen=True)
class ScriptedPolicy:
    """An archetype as a policy for one window."""

    archetype: Archetype
    rng: np.random.Generator

    def act(self, observation: Observation) -> Action:
        """Choose the order that it wants most."""
        orders = self.archetype.decide(np.asarray(observation).tolist(), self.rng)
        return orders[0].action if orders else (0, 0, 0)


@dataclass(frozen=True)
class ScriptedLanes:
    """An archetype in many lanes at once; None waits."""

    archetype: Archetype | None

    def start(self, lanes: int, rng: np.random.Generator) -> np.random.Generator:  # noqa: ARG002
        """Give the random numbers it will draw."""
        return rng

    def begin(self, state: np.random.Generator, chosen: NDArray[np.bool_]) -> None:
        """Forget nothing: it remembers nothing."""

    def act(self, obs: NDArray[np.float32], state: np.random.Generator) -> NDArray[np.int64]:
        """Choose what it wants most in every lane."""
        actions = np.zeros((len(obs), 3), np.int64)
        for at, row in enumerate(obs.tolist() if self.archetype is not None else ()):
            assert self.archetype is not None
            orders = self.archetype.decide(row, state)
            if orders:
                actions[at] = orders[0].action
        return actions


@dataclass(frozen=True)
class HoldPolicy:
    """Hold still, whatever happens."""

    def act(self, observation: Observation) -> Action:  # noqa: ARG002
        """Choose to wait."""
        return (0, 0, 0)


def policies(name: str) -> tuple[Callable[[np.random.Generator], Policy], Callable[[], ScriptedLanes]]:
    """Give what makes an archetype's policy for one window, and for many lanes at once; `wait` holds still."""
    if name == "wait":
        return lambda rng: HoldPolicy(), lambda: ScriptedLanes(None)  # noqa: ARG005
    archetype = ARCHETYPES[name]
    return lambda rng: ScriptedPolicy(archetype, rng), lambda: ScriptedLanes(archetype)
