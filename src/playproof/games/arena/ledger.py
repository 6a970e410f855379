"""One agent's exact money on one perp, in integers of 10^-9 USD.

Size is notional; margin = size (leverage 1); pnl = +-(p - e)/e x size, rounded against the agent;
a fee of 0.1 % of the size, at least 0.01, on open and close; a position that lost 90 % of its margin
is liquidated. The house takes the other side, so that agent + house is constant.
Leaves out: funding, leverage, impact, prediction markets, posts (which cost nothing).
"""

from __future__ import annotations

from dataclasses import dataclass

from playproof.events import Event, Value
from playproof.game import WAIT, Action, Choice, Fact, Standing, Terms
from playproof.games.arena.actions import SIZES, read_decision
from playproof.money import UNIT

MARKET = "ACME"
START = 10_000 * UNIT
MIN_SIZE = 10 * UNIT
FEE_FLOOR = UNIT // 100
_ORDERS = (WAIT, "OPEN_LONG", "OPEN_SHORT", "CLOSE")


def fee(size: int) -> int:
    """Give the fee on opening or closing a size, rounded up."""
    return max(FEE_FLOOR, -(-size // 1000))


@dataclass(frozen=True)
class Position:
    """One open position; a short has side -1."""

    side: int
    size: int
    entry: int

    def pnl(self, price: int) -> int:
        """Give profit at a price, rounded down."""
        return self.side * (price - self.entry) * self.size // self.entry

    def settlement(self, price: int) -> int:
        """Give what closing pays: margin, profit and loss, the fee; never less than nothing."""
        return max(0, self.size + self.pnl(price) - fee(self.size))

    def liquidated(self, price: int) -> bool:
        """Tell whether nine tenths of the margin are lost."""
        return 10 * self.side * (price - self.entry) <= -9 * self.entry


class PerpLedger:
    """Hold an agent's cash and position, and refuse what is not allowed."""

    def __init__(self, terms: Terms) -> None:
        self.cash = START if terms.cash is None else terms.cash
        self.stake = terms.stake
        self.house = 0
        self.opened = 0
        self.price: int | None = None
        self.position: Position | None = None
        self.window: str | None = None
        self.window_money = self.cash

    @property
    def total(self) -> int:
        """Give all money: the agent's, his margin, the house's."""
        return self.cash + self._margin + self.house

    @property
    def _margin(self) -> int:
        return self.position.size if self.position else 0

    def standing(self) -> Standing:
        """Give where the agent stands, the position at what closing it would pay."""
        open_now = self.position.settlement(self.price) if self.position and self.price else 0
        return Standing(self.cash, self.cash + open_now, self.opened)

    def see(self, event: Event) -> tuple[Fact, ...]:
        """Take the hour's opening and each price; liquidate at it if it must be."""
        if event.event_name == "open":
            self.window, self.window_money = event.window_id, self.cash + self._margin
            return (self._told("balance", None),)
        price = event.columns.get("price")
        if event.event_name != "price" or event.columns.get("market") != MARKET or not isinstance(price, int):
            return ()
        self.price = price
        if self.position is not None and self.position.liquidated(price):
            return self._settle(0, "LIQUIDATED")
        return ()

    def act(self, action: Action) -> tuple[Fact, ...]:
        """Carry out a decision in text, or an order of the set `orders`."""
        choice = read_decision(action) if isinstance(action, str) else _order(action)
        amount = choice.arguments.get("amount")
        if choice.kind in ("OPEN_LONG", "OPEN_SHORT") and choice.arguments["market"] == MARKET:
            return self._open(1 if choice.kind == "OPEN_LONG" else -1, amount if isinstance(amount, int) else 0)
        if choice.kind == "CLOSE" and choice.arguments["market"] == MARKET and self.position and self.price:
            return self._settle(self.position.settlement(self.price), "CLOSE")
        return ()

    def _open(self, side: int, size: int) -> tuple[Fact, ...]:
        """Open a position; refused without a price, above the cash or the stake, or beside another one."""
        cost = size + fee(size)
        lost = max(0, self.window_money - self.cash)
        reserved = self.stake is None or lost + cost <= self.stake
        if self.price is None or self.position or size < MIN_SIZE or cost > self.cash or not reserved:
            return ()
        self.cash -= cost
        self.house += fee(size)
        self.position = Position(side, size, self.price)
        self.opened += 1
        return (self._told("fill", "OPEN_LONG" if side > 0 else "OPEN_SHORT"),)

    def _settle(self, paid: int, order: str) -> tuple[Fact, ...]:
        """Close the position for what it pays."""
        self.house += self._margin - paid
        self.cash += paid
        self.position = None
        return (self._told("fill", order),)

    def _told(self, name: str, order: str | None) -> Fact:
        told: dict[str, Value] = {"cash": self.cash, "size": self._margin}
        if order is not None:
            told |= {"order": order, "market": MARKET, "price": self.price}
        return Fact(name, "player_action", told, self.window)


def _order(action: tuple[int, ...]) -> Choice:
    """Read an order of the set `orders`."""
    return Choice(_ORDERS[action[0]], {"market": MARKET, "amount": SIZES[action[1]]})
