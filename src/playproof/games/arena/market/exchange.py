"""The shared market: fundamentals, open interest, pools, every agent's account, and the maker.

The maker takes the other side of everything. Money moves between agents, margins, pools and maker
and is never made: `total` is constant to the last unit. Orders are carried out one after the other,
each at the quote of its moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from playproof.errors import RefusedOrder
from playproof.games.arena.market.account import Account, Fill, Quote
from playproof.games.arena.market.impact import price_at
from playproof.games.arena.market.pools import NO, YES, LiquidityPool
from playproof.games.arena.market.rules import FUNDING, MarketRules

LEAST_FUNDAMENTAL = 10_000_000
"""A share is never worth less than 0.01 USD."""


@dataclass
class Listing:
    """One perp: its fundamental and what agents hold of it."""

    fundamental: int
    kappa: float
    cap: int
    limit: int
    longs: int = 0
    shorts: int = 0

    def quote(self) -> Quote:
        """Give what an order would meet now."""
        price = price_at(self.fundamental, self.kappa * (self.longs - self.shorts))
        return Quote(price, self.longs, self.shorts, self.kappa, self.cap, self.limit)


@dataclass
class Exchange:
    """All money of the arena, and the only place in which it moves."""

    rules: MarketRules = field(default_factory=MarketRules)
    maker: int = 0
    accounts: dict[str, Account] = field(default_factory=dict)
    listings: dict[str, Listing] = field(default_factory=dict)
    pools: dict[str, LiquidityPool] = field(default_factory=dict)
    collateral: dict[str, int] = field(default_factory=dict)
    """By prediction market: the money behind its pairs of shares."""
    volume: dict[str, int] = field(default_factory=dict)
    """By market: what was traded since it was opened."""

    def __post_init__(self) -> None:
        for company in () if self.listings else self.rules.companies:
            self.listings[company.name] = Listing(
                company.listing,
                self.rules.impact(company),
                self.rules.units(company, self.rules.open_interest),
                self.rules.units(company, self.rules.position),
            )

    @property
    def total(self) -> int:
        """Give all money there is."""
        agents = sum(account.cash + account.margins for account in self.accounts.values())
        return agents + sum(self.collateral.values()) + self.maker

    def enter(self, agent: str, cash: int | None = None) -> Account:
        """Let an agent in, with money that the maker gives."""
        account = Account(self.rules.cash if cash is None else cash)
        account.begin()
        self.maker -= account.cash
        self.accounts[agent] = account
        return account

    def quotes(self) -> dict[str, Quote]:
        """Give the quote of every perp."""
        return {name: listing.quote() for name, listing in self.listings.items()}

    def equity(self, agent: str, quotes: dict[str, Quote] | None = None) -> int:
        """Give an agent's cash and what closing everything would pay."""
        return self.accounts[agent].equity(self.quotes() if quotes is None else quotes, self.pools)

    def open(self, agent: str, market: str, side: int, size: int, leverage: int = 1) -> Fill:
        """Open a position, or add to one."""
        quote = self._listing(market).quote()
        return self._book(self.accounts[agent].open(market, side, size, leverage, quote, self.rules), side)

    def close(self, agent: str, market: str, size: int | None = None) -> Fill:
        """Close a position or a part of it."""
        account, quote = self.accounts[agent], self._listing(market).quote()
        side = account.perps[market].side if market in account.perps else 0
        return self._book(account.close(market, size, quote), side)

    def mark(self, agent: str, market: str, quote: Quote) -> Fill | None:
        """Liquidate an agent's position if the quote says so."""
        account = self.accounts[agent]
        held = account.perps.get(market)
        fill = account.mark(market, quote) if held is not None else None
        return None if fill is None or held is None else self._book(fill, held.side)

    def _book(self, fill: Fill, side: int) -> Fill:
        """Let the other side of a perp's fill have its money, and count the open interest."""
        listing = self.listings[fill.market]
        self.maker += fill.paid
        self.volume[fill.market] = self.volume.get(fill.market, 0) + fill.amount
        if side > 0:
            listing.longs += fill.units
        else:
            listing.shorts -= fill.units
        return fill

    def fund(self, market: str) -> tuple[int, int]:
        """Charge longs their funding and share it among shorts; give what longs owe and the size of shorts."""
        held = [account.perps[market] for account in self.accounts.values() if market in account.perps]
        pot = sum(-(-perp.size // FUNDING) for perp in held if perp.side > 0)
        shorts = sum(perp.size for perp in held if perp.side < 0)
        for account in self.accounts.values():
            account.fund(market, pot, shorts)
        return pot, shorts

    def open_pool(self, market: str) -> LiquidityPool:
        """Open a prediction market with the maker's money behind it."""
        self.maker -= self.rules.liquidity
        self.collateral[market] = self.rules.liquidity
        self.pools[market] = LiquidityPool(self.rules.liquidity, self.rules.liquidity)
        return self.pools[market]

    def buy(self, agent: str, market: str, side: int, amount: int) -> Fill:
        """Buy shares of a prediction market."""
        fill = self.accounts[agent].buy(market, side, amount, self._pool(market), self.rules)
        return self._swap(fill)

    def sell(self, agent: str, market: str, worth: int | None = None) -> Fill:
        """Sell shares of a prediction market."""
        return self._swap(self.accounts[agent].sell(market, worth, self._pool(market)))

    def _swap(self, fill: Fill) -> Fill:
        """Move the money of a fill on a prediction market: the amount to its collateral, the fee to the maker."""
        assert fill.pool is not None
        self.maker += fill.fee
        self.collateral[fill.market] += fill.paid - fill.fee
        self.pools[fill.market] = fill.pool
        self.volume[fill.market] = self.volume.get(fill.market, 0) + fill.amount
        return fill

    def resolve(self, market: str, answer: int) -> Iterator[tuple[str, Fill]]:
        """Pay the winning shares; what the pool itself held of them goes back to the maker."""
        pool = self.pools.pop(market)
        for name, account in self.accounts.items():
            fill = account.resolve(market, answer)
            if fill is not None:
                self.collateral[market] += fill.paid
                yield name, fill
        self.maker += self.collateral.pop(market)
        left = pool.yes if answer == YES else pool.no
        assert left >= 0

    def outstanding(self, market: str) -> tuple[int, int]:
        """Give all YES and all NO shares of a prediction market, the pool's included."""
        held = [account.shares.get(market, (0, 0)) for account in self.accounts.values()]
        pool = self.pools[market]
        return pool.yes + sum(item[YES] for item in held), pool.no + sum(item[NO] for item in held)

    def copy(self) -> Exchange:
        """Give a market of its own in the same state."""
        return replace(
            self,
            accounts={name: account.copy() for name, account in self.accounts.items()},
            listings={name: replace(listing) for name, listing in self.listings.items()},
            pools=dict(self.pools),
            collateral=dict(self.collateral),
            volume=dict(self.volume),
        )

    def _listing(self, market: str) -> Listing:
        if market not in self.listings:
            raise RefusedOrder(f"expected a perp among {', '.join(self.listings)}, found {market!r:.40}")
        return self.listings[market]

    def _pool(self, market: str) -> LiquidityPool:
        if market not in self.pools:
            raise RefusedOrder(f"expected an open prediction market, found {market!r:.40}")
        return self.pools[market]
