"""Yes/no prediction markets as constant-product pools of integer shares.

A share is worth 1 USD if its side comes true, so one YES and one NO are always worth 1 together:
a buyer's money becomes pairs, and the pool keeps the product of its two reserves. Every division
rounds in favour of the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

YES, NO = 0, 1
SIDES = ("yes", "no")


@dataclass(frozen=True, slots=True)
class LiquidityPool:
    """The reserves of a pool, in 10^-9 shares."""

    yes: int
    no: int

    @property
    def probability(self) -> float:
        """Give the price of YES."""
        return self.no / (self.yes + self.no)

    def buy(self, side: int, amount: int) -> tuple[LiquidityPool, int]:
        """Give the pool after an amount bought shares of a side, and how many: a + yes - k / (no + a)."""
        mine, other = (self.yes, self.no) if side == YES else (self.no, self.yes)
        left = -(-mine * other // (other + amount))
        return _pool(side, left, other + amount), mine + amount - left

    def sell(self, side: int, shares: int) -> tuple[LiquidityPool, int]:
        """Give the pool after shares of a side were sold, and what they brought: the inverse of buying."""
        mine, other = (self.yes, self.no) if side == YES else (self.no, self.yes)
        total = mine + other + shares
        paid = (total - _sqrt_up(total * total - 4 * shares * other)) // 2
        return _pool(side, mine + shares - paid, other - paid), paid


def _pool(side: int, mine: int, other: int) -> LiquidityPool:
    return LiquidityPool(mine, other) if side == YES else LiquidityPool(other, mine)


def _sqrt_up(square: int) -> int:
    """Give the square root, rounded up."""
    root = isqrt(square)
    return root if root * root == square else root + 1
