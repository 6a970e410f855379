"""What an agent knows: the market that everybody sees, and its own account.

`apply` takes one event or fact; the shared market of a run takes public ones once for all agents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from playproof.errors import ConfigError
from playproof.events import Event
from playproof.game import Fact
from playproof.games.arena.market.account import Account, Perp, Quote
from playproof.games.arena.market.pools import LiquidityPool
from playproof.games.arena.market.rules import MarketRules

KEPT = 4
"""How many headlines and posts are kept, the latest ones."""
MEMORY = 61
"""How many ticks of prices are kept."""
FADE = 40
"""Ticks in which a headline's mood fades out."""

Terms = Mapping[str, tuple[float, int, int]]
"""By perp: impact of a unit, the most units of one side, the most units of one agent."""


def terms(rules: MarketRules) -> Terms:
    """Give what quotes need to know of the rules."""
    return {
        company.name: (
            rules.impact(company),
            rules.units(company, rules.open_interest),
            rules.units(company, rules.position),
        )
        for company in rules.companies
    }


_DEFAULT = terms(MarketRules())


@dataclass(slots=True)
class OpenQuestion:
    """An open question as agents see it."""

    text: str
    left: int
    """Minutes until it is resolved, at the tick `at`."""
    at: int
    pool: LiquidityPool | None = None


@dataclass(slots=True)
class Headline:
    """One headline."""

    age: int
    market: str
    mood: float
    text: str


@dataclass
class PublicState:
    """What everybody knows; None is unknown."""

    tick: int | None = None
    clock: int = 0
    """Ticks seen so far."""
    quotes: dict[str, Quote] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    """By perp: the first price of the window."""
    prices: dict[str, deque[int]] = field(default_factory=dict)
    """By perp: the last price of each of the latest ticks."""
    stamps: dict[str, int] = field(default_factory=dict)
    questions: dict[str, OpenQuestion] = field(default_factory=dict)
    headlines: deque[Headline] = field(default_factory=lambda: deque(maxlen=12))
    posts: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=KEPT))
    terms: Terms = field(default_factory=lambda: _DEFAULT)

    def price(self, market: str) -> int | None:
        """Give the last price of a perp."""
        quote = self.quotes.get(market)
        return None if quote is None else quote.price

    def change(self, market: str, ticks: int) -> float:
        """Give the relative move of a perp over so many ticks, or over what is known; 0 while nothing is."""
        past = self.prices.get(market)
        return past[-1] / past[-1 - min(ticks, len(past) - 1)] - 1 if past else 0.0

    def mood(self, market: str) -> float:
        """Give how the headlines on a market sound together, the older ones fading."""
        payload = (headline for headline in self.headlines if headline.market == market)
        return sum(item.mood * max(0.0, 1 - (self.clock - item.age) / FADE) for item in payload)

    @property
    def pools(self) -> dict[str, LiquidityPool]:
        """Give the pools of open questions."""
        return {market: question.pool for market, question in self.questions.items() if question.pool is not None}

    def copy(self) -> PublicState:
        """Give the same knowledge as an object of its own."""
        return PublicState(
            self.tick,
            self.clock,
            dict(self.quotes),
            dict(self.first),
            {market: deque(past, MEMORY) for market, past in self.prices.items()},
            dict(self.stamps),
            {
                market: OpenQuestion(question.text, question.left, question.at, question.pool)
                for market, question in self.questions.items()
            },
            deque(self.headlines, 12),
            deque(self.posts, KEPT),
            self.terms,
        )


@dataclass
class AgentState:
    """What one agent knows."""

    public: PublicState = field(default_factory=PublicState)
    own: Account = field(default_factory=lambda: Account(0))
    has_account: bool = False
    """Has the agent been told its money?"""

    def equity(self) -> int | None:
        """Give cash and what closing everything would pay; None while a price is unknown."""
        public, own, pools = self.public, self.own, self.public.pools
        if not self.has_account or own.perps.keys() - public.quotes.keys() or own.shares.keys() - pools.keys():
            return None
        return own.equity(public.quotes, pools)


def apply(known: AgentState, event: Event | Fact) -> None:
    """Take one event into what is known."""
    payload: Any = event.columns
    own = _OWN.get(event.event_name)
    if own is not None:
        own(known, payload)
    else:
        apply_public(known.public, event)
        if event.event_name == "funding":
            known.own.fund(payload["market"], payload["amount"], payload["size"])


def apply_public(public: PublicState, event: Event | Fact) -> None:
    """Take one event that everybody sees."""
    take = _PUBLIC.get(event.event_name)
    if take is not None:
        take(public, event.columns)


def _open(public: PublicState, payload: Any) -> None:
    public.tick = None
    public.first = {}
    public.terms = read_terms(payload)


def read_terms(payload: Mapping[str, Any]) -> Terms:
    """Read the rules that the opening of a window tells; those that no market can have are the default ones."""
    try:
        return terms(MarketRules(payload["kappa"], payload["open_interest"], payload["position"]))
    except ConfigError:
        return _DEFAULT


def _tick(public: PublicState, tick: int) -> None:
    """Go on to a tick."""
    if tick != public.tick:
        public.clock += 1
        public.tick = tick


def _price(public: PublicState, payload: Any) -> None:
    market, price = payload["market"], payload["price"]
    if market not in public.terms:
        return
    _tick(public, payload["tick"])
    public.quotes[market] = Quote(price, payload["longs"], payload["shorts"], *public.terms[market])
    public.first.setdefault(market, price)
    past = public.prices.setdefault(market, deque(maxlen=MEMORY))
    if public.stamps.get(market) == public.clock:
        past[-1] = price
    else:
        past.append(price)
        public.stamps[market] = public.clock


def _pool(public: PublicState, payload: Any) -> None:
    asked = public.questions.get(payload["market"])
    if asked is not None:
        asked.pool = LiquidityPool(payload["yes"], payload["no"])


def _question(public: PublicState, payload: Any) -> None:
    held = public.questions.get(payload["market"])
    pool = held.pool if held is not None else None
    public.questions[payload["market"]] = OpenQuestion(payload["text"], payload["left"], public.clock, pool)


def _resolved(public: PublicState, payload: Any) -> None:
    public.questions.pop(payload["market"], None)


def _headline(public: PublicState, payload: Any) -> None:
    _tick(public, payload["tick"])
    public.headlines.append(Headline(public.clock, payload["market"], payload["mood"], payload["text"]))


def _post(public: PublicState, payload: Any) -> None:
    _tick(public, payload["tick"])
    public.posts.append((payload["author"], payload["text"]))


def _turn(public: PublicState, payload: Any) -> None:
    _tick(public, payload["tick"])


def _balance(known: AgentState, payload: Any) -> None:
    known.has_account = True
    known.own = Account(payload["cash"])


def _holding(known: AgentState, payload: Any) -> None:
    """Take what is held of one market, after a fill or at the beginning."""
    known.has_account = True
    own, market = known.own, payload["market"]
    own.cash = payload["cash"]
    own.perps.pop(market, None)
    own.shares.pop(market, None)
    if payload["units"]:
        own.perps[market] = Perp(
            payload["side"], payload["units"], payload["size"], payload["margin"], payload["funding"]
        )
    if payload["yes"] or payload["no"]:
        own.shares[market] = (payload["yes"], payload["no"])


_PUBLIC: Mapping[str, Any] = {
    "open": _open,
    "price": _price,
    "pool": _pool,
    "question": _question,
    "resolved": _resolved,
    "headline": _headline,
    "post": _post,
    "turn": _turn,
}
_OWN: Mapping[str, Any] = {"balance": _balance, "holding": _holding, "fill": _holding}
