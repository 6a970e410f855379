"""The columns of the arena's events and the facts that are made of them."""

from __future__ import annotations

from collections.abc import Mapping

from playproof.events import DocType, Value
from playproof.game import Column, Fact
from playproof.games.arena.market.account import Account, Fill, Perp, Quote
from playproof.games.arena.market.pools import LiquidityPool

USD = "10^-9 USD"

COLUMNS = (
    Column("tick", "int", "minutes", "minute of the window, from 0"),
    Column("market", "text", "id", "company of a perp, or prediction market"),
    Column("price", "money", USD, "price of a share of the company"),
    Column("longs", "int", "10^-6 shares", "what all agents hold long"),
    Column("shorts", "int", "10^-6 shares", "what all agents hold short"),
    Column("yes", "int", "10^-9 shares", "YES shares: of the pool, or held"),
    Column("no", "int", "10^-9 shares", "NO shares: of the pool, or held"),
    Column("left", "int", "minutes", "time until a question is resolved"),
    Column("answer", "int", "side", "how a question was resolved: 0 yes, 1 no"),
    Column("mood", "float", "-1 to 1", "how a headline sounds; for a question, towards YES"),
    Column("author", "text", "id", "who wrote a post"),
    Column("text", "text", "text", "headline, question, post or decision, as it was written"),
    Column("order", "text", "action", "what was carried out"),
    Column("amount", "money", USD, "notional or money of the fill; what longs paid at a funding"),
    Column("fee", "money", USD, "fee of the fill"),
    Column("cash", "money", USD, "what the agent has, margins apart"),
    Column("side", "int", "side", "1 long, -1 short, 0 nothing held"),
    Column("units", "int", "10^-6 shares", "size of the position"),
    Column("size", "money", USD, "notional of the position at its entry price; of all shorts at a funding"),
    Column("margin", "money", USD, "margin of the position"),
    Column("funding", "money", USD, "funding that the position owes"),
    Column("hours", "int", "hours", "length of the window"),
    Column("kappa", "float", "per USD", "relative move of a price for each USD of notional that agents hold"),
    Column("open_interest", "int", "USD", "the most that the longs, or the shorts, of a perp may come to"),
    Column("position", "int", "USD", "the most that one agent may hold of a perp"),
)

_DOC_TYPES: Mapping[str, DocType] = {
    "price": "game_tick",
    "pool": "game_tick",
    "turn": "game_tick",
    "decision": "player_action",
    "balance": "player_action",
    "holding": "player_action",
    "fill": "player_action",
    "posted": "player_action",
}
OWN = ("decision", "balance", "holding", "fill")
"""Events that are an agent's own."""

_NO_PERP = Perp(0, 0, 0, 0)


def fact(kind: str, window: str | None, columns: Mapping[str, Value], agent: str | None = None) -> Fact:
    """Make a fact of a kind."""
    return Fact(kind, _DOC_TYPES.get(kind, "server_state"), columns, window, agent)


def price_columns(tick: int, market: str, quote: Quote) -> dict[str, Value]:
    """Give the columns of a price."""
    return {"tick": tick, "market": market, "price": quote.price, "longs": quote.longs, "shorts": quote.shorts}


def pool_columns(tick: int, market: str, pool: LiquidityPool) -> dict[str, Value]:
    """Give the columns of a pool."""
    return {"tick": tick, "market": market, "yes": pool.yes, "no": pool.no}


def holding_columns(account: Account, market: str) -> dict[str, Value]:
    """Give what an agent has and holds in one market."""
    perp, held = account.perps.get(market, _NO_PERP), account.shares.get(market, (0, 0))
    return {
        "market": market,
        "cash": account.cash,
        "side": perp.side,
        "units": perp.units,
        "size": perp.size,
        "margin": perp.margin,
        "funding": perp.funding,
        "yes": held[0],
        "no": held[1],
    }


def fill_fact(fill: Fill, account: Account, window: str | None, agent: str | None = None) -> Fact:
    """Tell an agent what was carried out, and what it has and holds after it."""
    payload: dict[str, Value] = {"order": fill.order, "amount": fill.amount, "fee": fill.fee}
    return fact("fill", window, payload | holding_columns(account, fill.market), agent)


def balance_facts(account: Account, window: str | None, agent: str | None = None) -> tuple[Fact, ...]:
    """Tell an agent what it has and holds."""
    markets = (*account.perps, *account.shares)
    return (
        fact("balance", window, {"cash": account.cash}, agent),
        *(fact("holding", window, holding_columns(account, market), agent) for market in markets),
    )
