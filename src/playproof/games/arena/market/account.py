"""One agent's exact money: cash, perps and shares, and what orders do to them.

An order is carried out at a quote; the same functions serve the shared market (exchange) and a
seat at recorded windows (ledger), so that a recording gives the same money to the last unit.

Perps: margin = size / leverage, pnl = +-(p - e)/e x size, liquidation at e (1 -+ 0.9/leverage) losing
the margin, settlement max(0, margin + pnl - funding - fee). Positions of one agent in one perp are
one position. Since a settlement is never negative, somebody else would pay for a loss beyond the
margin, and three agents could pump a price for each other; so an order is refused unless its margin
also covers the worst that other agents' orders could do to it at the present fundamental.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from playproof.errors import RefusedOrder
from playproof.games.arena.market.impact import buy_cost, growth, sell_proceeds
from playproof.games.arena.market.pools import NO, YES, LiquidityPool
from playproof.games.arena.market.rules import FUNDING, SHARE, MarketRules, fee


@dataclass(frozen=True, slots=True)
class Quote:
    """What an order on a perp meets."""

    price: int
    """Of one share."""
    longs: int
    """Units that all agents hold long."""
    shorts: int
    kappa: float
    """Relative move of the price for each unit."""
    cap: int
    """The most units that longs, or shorts, may come to."""
    limit: int
    """The most units that one agent may hold."""

    def extreme(self, side: int) -> int:
        """Give the worst price that orders could bring a position of this side, the fundamental as it is."""
        net = self.longs - self.shorts
        return self.price + int(self.price * growth(-self.kappa * (net + side * self.cap))) + (side < 0)


@dataclass(frozen=True, slots=True)
class Perp:
    """An open position; a short has side -1."""

    side: int
    units: int
    size: int
    """What was paid for the units, or got for them: the notional at the entry price."""
    margin: int
    funding: int = 0
    """What is owed, negative if it is due to the holder."""

    @property
    def entry(self) -> int:
        """Give the entry price of a share."""
        return self.size * SHARE // self.units

    def liquidated(self, price: int) -> bool:
        """Tell whether nine tenths of the margin are lost at a price."""
        return 10 * self.side * (price * self.units - self.size * SHARE) <= -9 * self.margin * SHARE

    def part(self, units: int) -> Perp:
        """Give the part of so many units, each amount rounded against the holder."""
        if units == self.units:
            return self
        size = -(-self.size * units // self.units) if self.side > 0 else self.size * units // self.units
        return Perp(self.side, units, size, self.margin * units // self.units, -(-self.funding * units // self.units))

    def settlement(self, quote: Quote) -> int:
        """Give what closing pays at a quote, impact and fee included; never less than nothing."""
        if self.side > 0:
            pnl = sell_proceeds(quote.price, self.units, quote.kappa) - self.size
        else:
            pnl = self.size - buy_cost(quote.price, self.units, quote.kappa)
        return max(0, self.margin + pnl - self.funding - fee(self.size))


@dataclass(frozen=True, slots=True)
class Fill:
    """What an order did."""

    order: str
    market: str
    amount: int
    """Notional of the fill, or money for shares, before the fee."""
    paid: int
    """What went from the agent to the other side, its margin apart; negative if the agent got it."""
    fee: int
    units: int = 0
    """Change in net units that agents hold."""
    shares: int = 0
    pool: LiquidityPool | None = None
    """The pool after a fill on a prediction market."""


@dataclass
class Account:
    """Cash and what is held; every order either gives a Fill or raises RefusedOrder and changes nothing."""

    cash: int
    perps: dict[str, Perp] = field(default_factory=dict)
    shares: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By prediction market: YES and NO."""
    opened: int = 0
    """Orders that opened or added to something."""
    stake: int | None = None
    """What a window may lose at most, None for all."""
    reserve: int = 0
    """Money when the window began; with a stake, cash may not fall further below it."""

    @property
    def margins(self) -> int:
        """Give the money that stands behind perps."""
        return sum(perp.margin for perp in self.perps.values())

    def begin(self) -> None:
        """Note the money at the beginning of a window; what stands behind perps may be lost in it."""
        self.reserve = self.cash + self.margins

    def equity(self, quotes: Mapping[str, Quote], pools: Mapping[str, LiquidityPool]) -> int:
        """Give cash and what closing everything would pay, each by itself."""
        open_perps = sum(perp.settlement(quotes[name]) for name, perp in self.perps.items())
        return self.cash + open_perps + sum(_worth(pools[name], held) for name, held in self.shares.items())

    def open(self, market: str, side: int, size: int, leverage: int, quote: Quote, rules: MarketRules) -> Fill:
        """Open a position of a notional, or add to one."""
        held = self.perps.get(market)
        if held is not None and held.side != side:
            raise RefusedOrder(f"expected no opposite position in {market}, found one; close it first")
        if size < rules.least_size or not 1 <= leverage <= rules.max_leverage:
            raise RefusedOrder(f"expected a size of 10 USD or more and a leverage from 1 to {rules.max_leverage}")
        added = self._added(side, size, leverage, quote)
        charge = fee(added.size)
        self._afford(added.margin + charge)
        total = added if held is None else _sum(held, added)
        _check_room(total, added.units, quote)
        self.perps[market] = total
        self.cash -= added.margin + charge
        self.opened += 1
        order = "OPEN_LONG" if side > 0 else "OPEN_SHORT"
        return Fill(order, market, added.size, charge, charge, side * added.units)

    def _added(self, side: int, size: int, leverage: int, quote: Quote) -> Perp:
        """Give the position that an order adds."""
        units = size * SHARE // quote.price
        if not 0 < units <= quote.limit:
            raise RefusedOrder(f"expected 1 to {quote.limit} units in one position, found {units}")
        cost = buy_cost if side > 0 else sell_proceeds
        notional = cost(quote.price, units, quote.kappa)
        return Perp(side, units, notional, -(-notional // leverage))

    def close(self, market: str, size: int | None, quote: Quote) -> Fill:
        """Close a position, or so much of its notional at the present price."""
        held = self.perps.get(market)
        if held is None:
            raise RefusedOrder(f"expected a position in {market}, found none")
        units = held.units if size is None else min(held.units, max(1, size * SHARE // quote.price))
        closed = held.part(units)
        paid = closed.settlement(quote)
        self._keep(market, held, closed)
        self.cash += paid
        return Fill("CLOSE", market, closed.size, closed.margin - paid, fee(closed.size), -held.side * units)

    def mark(self, market: str, quote: Quote) -> Fill | None:
        """Liquidate a position if the price says so."""
        held = self.perps.get(market)
        if held is None or not held.liquidated(quote.price):
            return None
        del self.perps[market]
        return Fill("LIQUIDATED", market, held.size, held.margin, 0, -held.side * held.units)

    def fund(self, market: str, pot: int, shorts: int) -> None:
        """Take a funding: longs owe their part, shorts share what longs owe, never more than their own part."""
        held = self.perps.get(market)
        if held is None:
            return
        if held.side > 0:
            owed = -(-held.size // FUNDING)
        else:
            owed = -min(held.size * pot // max(1, shorts), held.size // FUNDING)
        self.perps[market] = replace(held, funding=held.funding + owed)

    def buy(self, market: str, side: int, amount: int, pool: LiquidityPool, rules: MarketRules) -> Fill:
        """Buy shares of a side; the fee comes on top of the amount."""
        if amount < rules.least_bet:
            raise RefusedOrder("expected an amount of 1 USD or more")
        charge = fee(amount)
        self._afford(amount + charge)
        after, shares = pool.buy(side, amount)
        held = self.shares.get(market, (0, 0))
        self.shares[market] = (held[0] + shares, held[1]) if side == YES else (held[0], held[1] + shares)
        self.cash -= amount + charge
        self.opened += 1
        order = "BUY_YES" if side == YES else "BUY_NO"
        return Fill(order, market, amount, amount + charge, charge, shares=shares, pool=after)

    def sell(self, market: str, worth: int | None, pool: LiquidityPool) -> Fill:
        """Sell the shares of the side that more are held of, all, or as many as would pay `worth` if right."""
        held = self.shares.get(market, (0, 0))
        side = YES if held[0] >= held[1] else NO
        shares = held[side] if worth is None else min(held[side], worth)
        if not shares:
            raise RefusedOrder(f"expected shares of {market}, found none")
        after, brought = pool.sell(side, shares)
        charge = min(brought, fee(brought))
        left = (held[0] - shares, held[1]) if side == YES else (held[0], held[1] - shares)
        if any(left):
            self.shares[market] = left
        else:
            del self.shares[market]
        self.cash += brought - charge
        return Fill("SELL", market, brought, charge - brought, charge, shares=-shares, pool=after)

    def resolve(self, market: str, answer: int) -> Fill | None:
        """Take what a prediction market pays."""
        held = self.shares.pop(market, None)
        if held is None:
            return None
        self.cash += held[answer]
        return Fill("RESOLVED", market, held[answer], -held[answer], 0, shares=-held[answer])

    def _afford(self, amount: int) -> None:
        """Refuse what the cash, or what is left of the stake, does not cover."""
        if amount > self.cash:
            raise RefusedOrder("expected an order within the cash, found a larger one")
        if self.stake is not None and self.reserve - self.cash + amount > self.stake:
            raise RefusedOrder("expected an order within the stake, found a larger one")

    def _keep(self, market: str, held: Perp, closed: Perp) -> None:
        """Keep what is left of a position."""
        if closed.units == held.units:
            del self.perps[market]
            return
        self.perps[market] = Perp(
            held.side,
            held.units - closed.units,
            held.size - closed.size,
            held.margin - closed.margin,
            held.funding - closed.funding,
        )

    def copy(self) -> Account:
        """Give an account of its own with the same money."""
        return replace(self, perps=dict(self.perps), shares=dict(self.shares))


def _sum(held: Perp, added: Perp) -> Perp:
    """Give two positions of one side as one."""
    return Perp(held.side, held.units + added.units, held.size + added.size, held.margin + added.margin, held.funding)


def _check_room(total: Perp, added: int, quote: Quote) -> None:
    """Refuse a position that is too large, or whose margin others' orders could wipe out."""
    if total.units > quote.limit:
        raise RefusedOrder(f"expected at most {quote.limit} units in one position, found {total.units}")
    if added + (quote.longs if total.side > 0 else quote.shorts) > quote.cap:
        raise RefusedOrder("expected room in the open interest of this side, found too little")
    worst = quote.extreme(total.side) * total.units // SHARE
    loss = total.size - worst if total.side > 0 else worst + 1 - total.size
    if total.margin < loss + fee(total.size):
        raise RefusedOrder("expected a margin that covers the market's impact, found less; use less leverage")


def _worth(pool: LiquidityPool, held: tuple[int, int]) -> int:
    """Give what selling shares would bring, each side by itself."""
    brought = (pool.sell(side, held[side])[1] for side in (YES, NO) if held[side])
    return sum(amount - min(amount, fee(amount)) for amount in brought)
