"""Prices under impact: price = F exp(kappa Q), and what a fill costs, the integral of the price.

Only sums, products and quotients of IEEE numbers are used, so that every machine gives the same
bits. A fill is rounded against the trader by more than all rounding errors together: at one
fundamental no sequence of fills that ends where it began pays.
"""

from __future__ import annotations

import math

from playproof.games.arena.market.rules import SHARE

_GUARD = 2.0**-40
"""Share of a fill that is charged on top, far above the error of its floating-point computation."""
_TERMS = 16


def growth(x: float) -> float:
    """Give e^x - 1 for |x| up to 0.6, to the last bits."""
    value = 0.0
    for term in range(_TERMS, 0, -1):
        value = x / term * (1.0 + value)
    return value


def price_at(fundamental: int, exponent: float) -> int:
    """Give the price of a share, F e^exponent, rounded down."""
    return fundamental + math.floor(fundamental * growth(exponent))


def buy_cost(price: int, units: int, kappa: float) -> int:
    """Give what buying units costs, starting at a price: its integral over them, rounded up."""
    path = growth(kappa * units) / kappa if kappa else float(units)
    return math.ceil((price + 1) * path / SHARE * (1.0 + _GUARD))


def sell_proceeds(price: int, units: int, kappa: float) -> int:
    """Give what selling units brings, starting at a price: its integral over them, rounded down."""
    path = -growth(-kappa * units) / kappa if kappa else float(units)
    return max(0, math.floor(price * path / SHARE * (1.0 - _GUARD)))
