"""What an agent of the arena is shown beside: who trades as much by chance, holds, or follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from playproof.game.vector_env import Actions, ActivityProfile, Chosen, ControlPolicy, Rng, Rows
from playproof.games.arena.agents.archetypes import BET, policies
from playproof.games.arena.agents.decisions import AMOUNTS, NAMES, ORDERS
from playproof.games.arena.market.rules import PERPS
from playproof.money import UNIT

_BETS = [NAMES.index(order.upper()) for order in ORDERS["prediction"]]


@dataclass(frozen=True)
class RandomOrders:
    """Choose by chance, each order as often as somebody else does, on any market, with an amount of that size.

    On a question the amount is at most what is sensible there, or impact alone would make it lose.
    """

    shares: tuple[float, ...]
    """Of the orders, in their order."""
    size: int
    """Place among the amounts."""

    def start(self, lanes: int, rng: Rng) -> Rng:  # noqa: ARG002
        """Give the random numbers it will draw."""
        return rng

    def begin(self, state: Rng, chosen: Chosen) -> None:
        """Forget nothing: it remembers nothing."""

    def act(self, obs: Rows, state: Rng) -> Actions:
        """Draw an order for every lane."""
        n, limits = len(obs), np.cumsum(self.shares)
        kinds = np.searchsorted(limits, state.random(n) * limits[-1], side="right")
        indices = state.integers(len(PERPS), size=n)
        sizes = np.where(np.isin(kinds, _BETS), min(self.size, BET), self.size)
        return np.stack([kinds, indices, sizes], axis=1).astype(np.int64)


def control_policies(habits: ActivityProfile) -> Mapping[str, ControlPolicy]:
    """Make the agents that one with these habits has to beat."""
    size = min(range(len(AMOUNTS)), key=lambda at: abs(AMOUNTS[at] - habits.bet / UNIT))
    shares = tuple(habits.mix.get(name, 0.0) for name in NAMES)
    return {
        "do nothing": ControlPolicy("holds still", policies("wait")[1]()),
        "random": ControlPolicy("the same orders as often, on any market, at random", RandomOrders(shares, size)),
        "buy and hold": ControlPolicy("buys a little of every company and holds it", policies("hold")[1]()),
        "momentum": ControlPolicy("goes with the move of the last 20 minutes", policies("momentum")[1]()),
    }
