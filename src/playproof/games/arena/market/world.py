"""The running arena: one market, many agents, window after window, tick by tick.

A deterministic function of settings, seed and the agents' actions in their order. Everything that
happens comes out as facts: those of the world for everybody, those of an agent for it alone. `fork`
gives a world of its own in the same state, with the same future but for what agents do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from playproof.errors import ConfigError, RefusedOrder
from playproof.events import Value
from playproof.game import Choice, Fact
from playproof.games.arena.agents.decisions import read_decision
from playproof.games.arena.learning.state import AgentState, PublicState, apply_public
from playproof.games.arena.market.account import Account, Fill
from playproof.games.arena.market.exchange import Exchange
from playproof.games.arena.market.news import NewsItem, NewsProcess
from playproof.games.arena.market.pools import NO, YES
from playproof.games.arena.market.rules import FUNDING_HOURS, MAX_ACTIONS, TICK_SECONDS, TICKS, MarketRules
from playproof.games.arena.market.windows import window_id, window_start
from playproof.games.arena.market.worlds import Scenario, get_world
from playproof.games.arena.recording.columns import balance_facts, fact, fill_fact, pool_columns, price_columns

BEGINNING = datetime(2025, 1, 15, tzinfo=UTC)
"""When a world begins unless told otherwise."""


@dataclass(frozen=True)
class WorldSettings:
    """What a world is made from; with the actions it gives everything."""

    world: str = "news"
    """Name of the scenario."""
    seed: int = 1
    start: datetime = BEGINNING
    hours: int = 1
    """Length of a window."""
    rules: MarketRules = field(default_factory=MarketRules)

    def __post_init__(self) -> None:
        if self.start != window_start(self.start, self.hours):
            raise ConfigError(f"expected a start at the beginning of a window, found {self.start.isoformat()}")

    def to_json(self) -> dict[str, Value]:
        """Give the settings as JSON, to be kept with a recording."""
        rules = self.rules
        return {
            "world": self.world,
            "seed": self.seed,
            "start": self.start.isoformat(),
            "hours": self.hours,
            "kappa": rules.kappa,
            "open_interest": rules.open_interest,
            "position": rules.position,
            "cash": rules.cash,
        }

    @classmethod
    def from_json(cls, payload: dict[str, Value]) -> WorldSettings:
        """Read what `to_json` gave."""
        try:
            names = ("kappa", "open_interest", "position", "cash")
            rules = MarketRules(**{name: payload[name] for name in names})  # type: ignore[arg-type]
            start = datetime.fromisoformat(str(payload["start"]))
            return cls(str(payload["world"]), int(str(payload["seed"])), start, int(str(payload["hours"])), rules)
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigError(f"expected the settings of a world, found {payload!r:.80}: {error}") from None


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What became of one decision."""

    choice: Choice
    fill: Fill | None
    refused: str | None
    """Why nothing was carried out, None if something was or nothing was asked."""
    facts: tuple[Fact, ...]
    """What was told, to the agent and to everybody, in order."""


class MarketWorld:
    """One running market."""

    def __init__(self, settings: WorldSettings) -> None:
        self.settings = settings
        self.exchange = Exchange(settings.rules)
        self.nature = NewsProcess(get_world(settings.world), settings.seed)
        self.public = PublicState()
        self.clock = 0
        """Ticks since the beginning."""
        self.passed = 0
        """Ticks of the window that have begun."""
        self.window = window_id(settings.start, settings.hours)
        """The window that the market is in, or comes to next."""
        self.acted: dict[str, int] = {}

    @property
    def scenario(self) -> Scenario:
        """Give the scenario that nature follows."""
        return self.nature.scenario

    @property
    def ticks(self) -> int:
        """Give the ticks of a window."""
        return TICKS * self.settings.hours

    @property
    def now(self) -> datetime:
        """Give the market's time."""
        return self.settings.start + timedelta(seconds=TICK_SECONDS * self.clock)

    @property
    def tick(self) -> int:
        """Give the tick of the window that the market is in."""
        return max(0, self.passed - 1)

    def fork(self) -> MarketWorld:
        """Give a world of its own in the same state."""
        other = MarketWorld.__new__(MarketWorld)
        other.settings, other.clock, other.passed, other.window = self.settings, self.clock, self.passed, self.window
        other.exchange, other.nature, other.public = self.exchange.copy(), self.nature.copy(), self.public.copy()
        other.acted = dict(self.acted)
        return other

    def enter(self, agent: str, cash: int | None = None) -> Account:
        """Let an agent in."""
        return self.exchange.enter(agent, cash)

    def known(self, agent: str) -> AgentState:
        """Give what an agent knows now; the parts are the world's own, to be read and not kept."""
        return AgentState(self.public, self.exchange.accounts[agent], has_account=True)

    def begin(self) -> list[Fact]:
        """Open a window: its rules, what every agent has, the questions."""
        window, rules = self.window, self.settings.rules
        payload: dict[str, Value] = {
            "hours": self.settings.hours,
            "kappa": rules.kappa,
            "open_interest": rules.open_interest,
            "position": rules.position,
        }
        facts = [self._say("open", payload)]
        for agent, account in self.exchange.accounts.items():
            account.begin()
            facts += balance_facts(account, window, agent)
        for question in self.nature.ask(self.clock, self.ticks):
            self.exchange.open_pool(question.market)
        for market, question in self.nature.questions.items():
            left = question.closes - self.clock + 1
            facts.append(self._say("question", {"market": market, "text": question.text, "left": left}))
            facts.append(self._say("pool", pool_columns(0, market, self.exchange.pools[market])))
        return facts

    def advance(self) -> list[Fact]:
        """Let one tick pass: fundamentals move, news arrive, prices are told, positions are marked."""
        self.acted.clear()
        self.passed += 1
        facts = list(self._fund()) if self.clock % (FUNDING_HOURS * TICKS) == self._funding_phase() else []
        facts += [self._tell(payload) for payload in self.nature.move(self.clock, self.exchange)]
        for market in self.exchange.listings:
            facts += self._announce(market)
        self.clock += 1
        return facts

    def finish(self) -> list[Fact]:
        """Close the window: resolve the questions that are due."""
        facts: list[Fact] = []
        window = self.window
        for question in self.nature.due(self.clock - 1):
            facts.append(self._say("resolved", {"market": question.market, "answer": question.answer}))
            paid = list(self.exchange.resolve(question.market, question.answer))
            facts += [fill_fact(fill, self.exchange.accounts[agent], window, agent) for agent, fill in paid]
        facts.append(self._say("close", {}))
        self.passed = 0
        self.window = window_id(self.now, self.settings.hours)
        return facts

    def turn(self) -> Fact:
        """Give the fact that it is an agent's turn."""
        return fact("turn", self.window, {"tick": self.tick})

    def act(self, agent: str, text: str) -> DecisionResult:
        """Carry one decision out; whatever is wrong with it is told and changes nothing."""
        return self.order(agent, read_decision(text), fact("decision", self.window, {"text": text}, agent))

    def order(self, agent: str, choice: Choice, *decision: Fact) -> DecisionResult:
        """Carry a choice out; `decision` is the fact that stands before what comes of it."""
        self.acted[agent] = self.acted.get(agent, 0) + 1
        if choice.rejected is not None:
            return DecisionResult(choice, None, choice.rejected, decision)
        if self.acted[agent] > MAX_ACTIONS:
            return DecisionResult(choice, None, f"expected at most {MAX_ACTIONS} actions in a tick", decision)
        if choice.kind == "CREATE_POST":
            text = str(choice.arguments["text"])
            post = self._say("post", {"tick": self.tick, "author": agent, "text": text})
            return DecisionResult(choice, None, None, (*decision, post))
        try:
            fill = self._carry_out(agent, choice)
        except RefusedOrder as error:
            return DecisionResult(choice, None, str(error), decision)
        if fill is None:
            return DecisionResult(choice, None, None, decision)
        return DecisionResult(choice, fill, None, (*decision, *self._after(agent, fill)))

    def _carry_out(self, agent: str, choice: Choice) -> Fill | None:
        """Give the order to the exchange; None where nothing is ordered."""
        amount, market = choice.arguments.get("amount"), str(choice.arguments.get("market"))
        size = amount if isinstance(amount, int) else None
        leverage = choice.arguments.get("leverage")
        match choice.kind:
            case "OPEN_LONG" | "OPEN_SHORT":
                side = 1 if choice.kind == "OPEN_LONG" else -1
                return self.exchange.open(agent, market, side, size or 0, leverage if isinstance(leverage, int) else 1)
            case "CLOSE":
                return self.exchange.close(agent, market, size)
            case "BUY_YES" | "BUY_NO":
                return self.exchange.buy(agent, market, YES if choice.kind == "BUY_YES" else NO, size or 0)
            case "SELL":
                return self.exchange.sell(agent, market, size)
        return None

    def _after(self, agent: str, fill: Fill) -> Iterator[Fact]:
        """Tell of a fill: the agent what it holds, everybody what the market has become."""
        yield fill_fact(fill, self.exchange.accounts[agent], self.window, agent)
        if fill.pool is None:
            yield from self._announce(fill.market)
        else:
            yield self._say("pool", pool_columns(self.tick, fill.market, fill.pool))

    def _announce(self, market: str) -> Iterator[Fact]:
        """Tell the price of a perp and mark every position at it, as often as a liquidation moves it."""
        while True:
            quote = self.exchange.listings[market].quote()
            yield self._say("price", price_columns(self.tick, market, quote))
            fills = [(agent, self.exchange.mark(agent, market, quote)) for agent in self.exchange.accounts]
            done = [(agent, fill) for agent, fill in fills if fill is not None]
            for agent, fill in done:
                yield fill_fact(fill, self.exchange.accounts[agent], self.window, agent)
            if not done:
                return

    def _fund(self) -> Iterator[Fact]:
        for market in self.exchange.listings:
            pot, shorts = self.exchange.fund(market)
            yield self._say("funding", {"market": market, "amount": pot, "size": shorts})

    def _funding_phase(self) -> int:
        """Give where in eight hours of ticks a funding falls: at 0, 8 and 16 o'clock UTC."""
        return -(self.settings.start.astimezone(UTC).hour * TICKS) % (FUNDING_HOURS * TICKS)

    def _tell(self, news_item: NewsItem) -> Fact:
        """Tell a headline or a post of the crowd."""
        if news_item.author is not None:
            return self._say("post", {"tick": self.tick, "author": news_item.author, "text": news_item.text})
        return self._say(
            "headline", {"tick": self.tick, "market": news_item.market, "mood": news_item.mood, "text": news_item.text}
        )

    def _say(self, kind: str, columns: dict[str, Value]) -> Fact:
        """Make a fact of the world and let everybody know it."""
        payload = fact(kind, self.window, columns)
        apply_public(self.public, payload)
        return payload
