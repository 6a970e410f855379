"""One player's exact money in the crash game, in integers of 10^-9.

The obvious implementation, in Python integers: the server keeps its players with it, and the
compiled kernel is tested against it. Leaves out: prices and phases, which the caller knows.

Rounding, once and for all. A price is the exact real number that its double stands for.
- buy: qty = amount / price, rounded down; the amount is paid in full.
- sell a share of s %: qty = position x s / 100, rounded down; proceeds = qty x price, rounded down.
- lots are sold first in, first out; a lot cut in two gives away cost x sold / qty, rounded down.
- a sidebet pays stake x payout, rounded down.
What rounding leaves over stays with the house, so player + house is constant to the last unit.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

from playproof.errors import RefusedOrder
from playproof.money import UNIT, show

MIN_BET = 1_000_000
"""The smallest order, 0.001."""
MAX_LOTS = 1024
"""Open lots a player may hold; a further buy is refused."""
MAX_MONEY = 10**13
"""No order, open cost or position may pass 10,000 coins, so that amounts stay exact in every client."""
MAX_PROCEEDS = 2**62
SIDEBET_TICKS = 40
SHARES = (10, 25, 50, 100)
"""Shares of a position that the page offers to sell, in percent."""


def bought(amount: int, price: float) -> int:
    """Give the quantity that an amount buys, rounded down."""
    return int(amount / Fraction(price))


def proceeds(qty: int, price: float) -> int:
    """Give what a quantity sells for, rounded down."""
    return min(int(qty * Fraction(price)), MAX_PROCEEDS)


def average_cost(cost: int, qty: int) -> int:
    """Give avgCost as it is shown: cost per quantity to nine decimals, 0 when flat."""
    return int(cost / qty * UNIT + 0.5) if qty else 0


@dataclass
class Lot:
    """One buy that is still held, or what is left of it."""

    qty: int
    cost: int


@dataclass(frozen=True)
class Sidebet:
    """One open bet that the rug comes no later than `end_tick`."""

    stake: int
    start_tick: int
    end_tick: int


@dataclass(frozen=True)
class LedgerLimits:
    """What the ledger refuses besides the game's own rules; None is no limit."""

    open_cost: int | None = None
    """Largest cost of all open lots (world `drift`)."""
    stake: int | None = None
    """Reserved stake of a round: open cost + open sidebet + realised loss may not pass it."""


@dataclass
class MoneyLedger:
    """Hold cash, lots and sidebet of one player, and refuse what is not allowed."""

    cash: int = UNIT
    payout: Fraction = Fraction(5)
    """What a winning sidebet pays for each unit staked, stake included."""
    limits: LedgerLimits = LedgerLimits()
    house: int = 0
    lots: deque[Lot] = field(default_factory=deque)
    sidebet: Sidebet | None = None
    invested: int = 0
    """Everything staked in this round; never falls inside it."""
    sidebet_pnl: int = 0
    round_cash: int = -1
    """Cash at the start of the round."""

    def __post_init__(self) -> None:
        if self.round_cash < 0:
            self.round_cash = self.cash

    @property
    def qty(self) -> int:
        """Give the position."""
        return sum(lot.qty for lot in self.lots)

    @property
    def cost(self) -> int:
        """Give what the held lots cost."""
        return sum(lot.cost for lot in self.lots)

    @property
    def open_stake(self) -> int:
        """Give the stake of the open sidebet, 0 if there is none."""
        return self.sidebet.stake if self.sidebet else 0

    @property
    def avg_cost(self) -> int:
        """Give the volume-weighted entry of the held lots, 0 when flat."""
        return average_cost(self.cost, self.qty)

    def equity(self, price: float) -> int:
        """Mark the position at the price and the open sidebet at 0."""
        return self.cash + proceeds(self.qty, price)

    def pnl(self, price: float) -> int:
        """Give realised and unrealised profit of this round."""
        return self.equity(price) - self.round_cash

    def _move(self, amount: int) -> None:
        """Move money from the player to the house (or back, if negative)."""
        self.cash -= amount
        self.house += amount

    def check_order(self, amount: int) -> None:
        """Refuse an order that breaks a limit on amounts."""
        if amount < MIN_BET:
            raise RefusedOrder(f"expected at least {show(MIN_BET)}, found {show(amount)}")
        if amount > min(self.cash, MAX_MONEY):
            raise RefusedOrder(f"expected at most the balance {show(self.cash)}, found {show(amount)}")
        if self.limits.stake is not None:
            loss = max(0, self.round_cash - self.cash - self.cost - self.open_stake)
            if self.cost + self.open_stake + loss + amount > self.limits.stake:
                raise RefusedOrder(f"the round's reserved stake is {show(self.limits.stake)}")

    def buy(self, amount: int, price: float) -> int:
        """Buy for an amount; give the quantity."""
        self.check_order(amount)
        most = MAX_MONEY if self.limits.open_cost is None else self.limits.open_cost
        if self.cost + amount > most:
            raise RefusedOrder(f"open cost may not pass {show(most)}")
        if len(self.lots) >= MAX_LOTS:
            raise RefusedOrder(f"at most {MAX_LOTS} lots can be open")
        qty = bought(amount, price) if price > 0 else 0
        if not 0 < qty <= MAX_MONEY - self.qty:
            raise RefusedOrder(f"{show(amount)} cannot be bought at a price of {price}")
        self._move(amount)
        self.invested += amount
        self.lots.append(Lot(qty, amount))
        return qty

    def sell(self, percent: int, price: float) -> tuple[int, int]:
        """Sell a share of the position, oldest lots first; give quantity and proceeds."""
        if not 0 < percent <= 100:
            raise RefusedOrder(f"expected a share of 1 to 100 percent, found {percent}")
        qty = self.qty * percent // 100
        if qty == 0:
            raise RefusedOrder("there is nothing to sell")
        left = qty
        while left:
            lot = self.lots[0]
            if lot.qty <= left:
                left -= lot.qty
                self.lots.popleft()
            else:
                lot.cost -= lot.cost * left // lot.qty
                lot.qty -= left
                left = 0
        amount = proceeds(qty, price)
        self._move(-amount)
        return qty, amount

    def bet(self, amount: int, tick: int) -> Sidebet:
        """Place a sidebet on a rug within the next 40 ticks."""
        if self.sidebet is not None:
            raise RefusedOrder(f"a sidebet is open until tick {self.sidebet.end_tick}")
        self.check_order(amount)
        self._move(amount)
        self.invested += amount
        self.sidebet_pnl -= amount
        self.sidebet = Sidebet(amount, tick, tick + SIDEBET_TICKS)
        return self.sidebet

    def pass_tick(self, tick: int) -> Sidebet | None:
        """Lose the sidebet that ends on this tick without a rug; give it."""
        ended = self.sidebet
        if ended is None or tick < ended.end_tick:
            return None
        self.sidebet = None
        return ended

    def rug(self, tick: int, price: float) -> tuple[int, int]:
        """Settle the round: sell everything, pay or lose the sidebet; give both amounts."""
        sold = self.sell(100, price)[1] if self.lots else 0
        paid = 0
        if self.sidebet is not None and tick <= self.sidebet.end_tick:
            paid = int(self.sidebet.stake * self.payout)
            self._move(-paid)
            self.sidebet_pnl += paid
        self.sidebet = None
        return sold, paid

    def start_round(self) -> None:
        """Begin a new round with the cash that is there."""
        if self.lots or self.sidebet:
            raise RefusedOrder("a round cannot start before the last one is settled")
        self.invested = self.sidebet_pnl = 0
        self.round_cash = self.cash
