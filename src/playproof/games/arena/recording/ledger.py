"""One agent's exact money at recorded windows, in integers of 10^-9 USD.

Orders are carried out at the last quotes seen, by the same functions as in the shared market, and
do not move what was recorded: an agent's own recording gives its money to the last unit, and another
policy in its seat pays the impact of its orders each time.
"""

from __future__ import annotations

from typing import Any

from playproof.errors import RefusedOrder
from playproof.events import Event
from playproof.game import WAIT, AccountSnapshot, Action, Choice, Fact, Terms
from playproof.games.arena.agents.decisions import order_choice, read_decision
from playproof.games.arena.learning.state import PublicState, apply_public
from playproof.games.arena.market.account import Account, Fill
from playproof.games.arena.market.news import slot_of
from playproof.games.arena.market.pools import NO, YES
from playproof.games.arena.market.rules import MarketRules
from playproof.games.arena.recording.columns import balance_facts, fact, fill_fact

RULES = MarketRules()
"""Only what windows do not tell is read from it: the smallest orders."""


class ArenaLedger:
    """Hold an agent's money, and refuse what is not allowed."""

    def __init__(self, terms: Terms) -> None:
        cash = RULES.cash if terms.cash is None else terms.cash
        self.account = Account(cash, stake=terms.stake, reserve=cash)
        self.house = 0
        self.public = PublicState()
        self.window: str | None = None

    @property
    def total(self) -> int:
        """Give all money: the agent's, its margins, the house's."""
        return self.account.cash + self.account.margins + self.house

    def standing(self) -> AccountSnapshot:
        """Give where the agent stands, what it holds at what closing it would pay."""
        equity = self.account.equity(self.public.quotes, self.public.pools)
        return AccountSnapshot(self.account.cash, equity, self.account.opened)

    def apply_world(self, event: Event) -> tuple[Fact, ...]:
        """Take what the world did: opening, prices, fundings, resolutions."""
        payload: Any = event.columns
        if event.event_name == "open":
            self.window = event.window_id
            self.account.begin()
        if event.event_name == "resolved":
            return self._resolve(event, payload["market"], payload["answer"])
        apply_public(self.public, event)
        if event.event_name == "open":
            return balance_facts(self.account, self.window)
        if event.event_name == "funding":
            self.account.fund(payload["market"], payload["amount"], payload["size"])
        if event.event_name == "price" and payload["market"] in self.public.quotes:
            return self._told(self.account.mark(payload["market"], self.public.quotes[payload["market"]]))
        return ()

    def act(self, action: Action) -> tuple[Fact, ...]:
        """Carry out a decision in text, or an order of the set `orders`."""
        choice = read_decision(action) if isinstance(action, str) else order_choice(action, self._questions())
        if choice.kind == WAIT:
            return ()
        if choice.kind == "CREATE_POST":
            return (fact("posted", self.window, {"text": choice.arguments["text"]}),)
        try:
            return self._told(self._carry_out(choice))
        except RefusedOrder:
            return ()

    def _carry_out(self, choice: Choice) -> Fill | None:
        """Carry an order out at the last quote; None where its market is unknown."""
        amount, market = choice.arguments.get("amount"), str(choice.arguments["market"])
        size = amount if isinstance(amount, int) else None
        quote, pool = self.public.quotes.get(market), self.public.pools.get(market)
        leverage = choice.arguments.get("leverage")
        match choice.kind:
            case "OPEN_LONG" | "OPEN_SHORT" if quote is not None:
                side = 1 if choice.kind == "OPEN_LONG" else -1
                times = leverage if isinstance(leverage, int) else 1
                return self.account.open(market, side, size or 0, times, quote, RULES)
            case "CLOSE" if quote is not None:
                return self.account.close(market, size, quote)
            case "BUY_YES" | "BUY_NO" if pool is not None:
                return self.account.buy(market, YES if choice.kind == "BUY_YES" else NO, size or 0, pool, RULES)
            case "SELL" if pool is not None:
                return self.account.sell(market, size, pool)
        return None

    def _resolve(self, event: Event, market: str, answer: int) -> tuple[Fact, ...]:
        fill = self.account.resolve(market, answer)
        apply_public(self.public, event)
        return self._told(fill)

    def _told(self, fill: Fill | None) -> tuple[Fact, ...]:
        """Book the other side of a fill and tell the agent of it."""
        if fill is None:
            return ()
        self.house += fill.paid
        return (fill_fact(fill, self.account, self.window),)

    def _questions(self) -> dict[int, str]:
        return {slot_of(market): market for market in self.public.questions}
