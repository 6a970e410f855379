"""Run agents through windows of one market: who decides when, in which order orders are carried out.

At a turn all agents look at the same moment; then their decisions are carried out one after the other
in an order drawn for that tick. Language agents are asked together, and the market waits for them.
With the same settings, agents and answers a run is the same to the last unit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import numpy as np

from playproof.errors import ConfigError
from playproof.game import Fact, Message
from playproof.games.arena.agents.archetypes import ARCHETYPES, Archetype, write_order
from playproof.games.arena.agents.decisions import HOLD
from playproof.games.arena.agents.prompts import FULL, PROMPTS, state
from playproof.games.arena.learning.observation import values
from playproof.games.arena.learning.outcomes import hold_return
from playproof.games.arena.learning.state import AgentState, PublicState
from playproof.games.arena.market.news import slot_of
from playproof.games.arena.market.rng import shuffled
from playproof.games.arena.market.rules import TICK_SECONDS
from playproof.games.arena.market.world import DecisionResult, MarketWorld, WorldSettings
from playproof.json_types import Json

_ORDER = int.from_bytes(b"turn")
_CHOICE = int.from_bytes(b"choose")


@dataclass(frozen=True, slots=True)
class AgentView:
    """What an agent may look at when it is its turn; nothing else reaches it."""

    agent: str
    window: str
    tick: int
    now: datetime
    known: AgentState
    seed: int

    def messages(self, persona: str = "", prompt: str = FULL) -> tuple[Message, ...]:
        """Give it as messages."""
        return PROMPTS[prompt](self.known, persona)

    def providers(self) -> Json:
        """Give it by provider."""
        shown = state(self.known)
        return {name: shown[name] for name in ("portfolio", "markets", "questions", "movers", "headlines", "posts")}

    def rng(self) -> np.random.Generator:
        """Give the agent's own random numbers for this turn."""
        return np.random.default_rng([_CHOICE, self.seed, self.tick, *self.window.encode(), *self.agent.encode()])


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a language model, as it is recorded."""

    model: str
    messages: tuple[Message, ...]
    response: str | None = None
    error: str | None = None
    latency_ms: float | None = None
    model_version: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered at its turn."""

    text: str
    call: ModelCall | None = None
    """None for a scripted agent."""


class ArenaAgent(Protocol):
    """Who takes part in a run."""

    @property
    def name(self) -> str:
        """Give its id in the run."""

    @property
    def archetype(self) -> str:
        """Give how it trades, for tables."""

    def decide(self, sight: AgentView) -> Reply | Awaitable[Reply]:
        """Answer with one decision in JSON."""


@dataclass(frozen=True)
class ScriptedAgent:
    """An archetype that takes part in a run."""

    name: str
    trader: Archetype

    @property
    def archetype(self) -> str:
        """Give the archetype's name."""
        return self.trader.name

    def decide(self, sight: AgentView) -> Reply:
        """Order what it wants most."""
        row = [0.0 if value is None else value for value in values(sight.known)]
        orders = self.trader.decide(row, sight.rng())
        questions = {slot_of(market): market for market in sight.known.public.questions}
        return Reply(write_order(orders[0], questions) if orders else HOLD)


@dataclass(frozen=True)
class TapedAgent:
    """An agent that answers what was recorded, to run a recording again."""

    name: str
    archetype: str
    answers: Mapping[tuple[str, int], str]
    """By window and tick."""

    def decide(self, sight: AgentView) -> Reply:
        """Answer what was answered then."""
        return Reply(self.answers.get((sight.window, sight.tick), HOLD))


def scripted(count: int) -> list[ArenaAgent]:
    """Give so many scripted agents, the archetypes in turn."""
    names = list(ARCHETYPES)
    return [
        ScriptedAgent(f"{name}-{at // len(names) + 1}", ARCHETYPES[name])
        for at, name in ((at, names[at % len(names)]) for at in range(count))
    ]


@dataclass(frozen=True)
class RunPlan:
    """What a run is made from beside its agents."""

    settings: WorldSettings = field(default_factory=WorldSettings)
    windows: int = 3
    decisions: int = 6
    """Turns in a window of one hour."""
    speed: float = 0.0
    """How many times faster than the market's clock; 0: as fast as it goes."""

    def __post_init__(self) -> None:
        if self.windows < 1 or not 1 <= self.decisions <= 60 or 60 % self.decisions or self.speed < 0:
            raise ConfigError(
                "expected at least 1 window, a number of decisions that divides 60 and a speed of 0 or more, "
                f"found {self.windows}, {self.decisions} and {self.speed}"
            )

    def is_turn(self, tick: int) -> bool:
        """Tell whether agents decide at a tick of the window."""
        gap = 60 // self.decisions
        return tick % gap == gap // 2


@dataclass(slots=True)
class AgentTally:
    """What an agent did in one window; money in the smallest unit."""

    window: str
    agent: str
    archetype: str
    start_equity: int
    end_equity: int = 0
    end_cash: int = 0
    decisions: int = 0
    trades: int = 0
    posts: int = 0
    rejected: int = 0
    """Answers that were no decision."""
    refused: int = 0
    """Decisions that the market did not take."""
    fees: int = 0

    @property
    def pnl(self) -> int:
        """Give the change in equity."""
        return self.end_equity - self.start_equity

    def take(self, done: DecisionResult) -> None:
        """Count one decision."""
        self.decisions += 1
        self.rejected += done.choice.rejected is not None
        self.refused += done.choice.rejected is None and done.refused is not None
        self.posts += done.choice.kind == "CREATE_POST" and done.refused is None
        if done.fill is not None:
            self.trades += 1
            self.fees += done.fill.fee


@dataclass(frozen=True)
class ClosedWindow:
    """A window that has closed."""

    window: str
    start: datetime
    end: datetime
    tallies: tuple[AgentTally, ...]
    facts: tuple[Fact, ...]
    """What the world did, in order; agents' own facts are not among them."""
    volume: Mapping[str, int]
    """By market: what was traded in the window."""

    @property
    def prices(self) -> dict[str, tuple[int, int]]:
        """Give each perp's first and last price of the window."""
        payload: dict[str, tuple[int, int]] = {}
        for fact in self.facts:
            market, price = fact.columns.get("market"), fact.columns.get("price")
            if fact.event_name == "price" and isinstance(market, str) and isinstance(price, int):
                payload[market] = (payload.get(market, (price, price))[0], price)
        return payload

    @property
    def hold_return(self) -> float:
        """Give what buying and holding every perp returned."""
        return hold_return(self.prices)


class RunSink(Protocol):
    """Writes a run down while it happens."""

    def begin(self, world: MarketWorld, agents: Sequence[ArenaAgent], plan: RunPlan) -> None:
        """Note that a window begins."""

    def turn(self, world: MarketWorld, taken: Sequence[tuple[AgentView, Reply, DecisionResult]]) -> None:
        """Note a turn: who looked, what it answered, what came of it, in the order in which it was carried out."""

    def end(self, world: MarketWorld, closed: ClosedWindow) -> None:
        """Note that a window has closed."""


class ArenaRun:
    """One run: a market, its agents, and the loop over its windows."""

    def __init__(self, plan: RunPlan, agents: Sequence[ArenaAgent], scribe: RunSink | None = None) -> None:
        names = [agent.name for agent in agents]
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"expected at least one agent and different names, found {', '.join(names) or 'none'}")
        self.plan, self.agents, self.scribe = plan, {agent.name: agent for agent in agents}, scribe
        self.world = MarketWorld(plan.settings)
        for name in names:
            self.world.enter(name)

    def windows(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[ClosedWindow]:
        """Run window after window; give each when it has closed."""
        with asyncio.Runner() as runner:
            try:
                for _ in range(self.plan.windows):
                    yield self._window(runner, sleep)
            finally:
                runner.run(_close(list(self.agents.values())))

    def _window(self, runner: asyncio.Runner, sleep: Callable[[float], None]) -> ClosedWindow:
        world, start, name = self.world, self.world.now, self.world.window
        before = dict(world.exchange.volume)
        facts = world.begin()
        tallies = {
            agent: AgentTally(name, agent, item.archetype, self._equity(agent)) for agent, item in self.agents.items()
        }
        if self.scribe is not None:
            self.scribe.begin(world, list(self.agents.values()), self.plan)
        for tick in range(world.ticks):
            facts += world.advance()
            if self.plan.speed:
                sleep(TICK_SECONDS / self.plan.speed)
            if self.plan.is_turn(tick):
                facts += self._turn(runner, tallies)
        facts += world.finish()
        for agent, tally in tallies.items():
            tally.end_equity, tally.end_cash = self._equity(agent), world.exchange.accounts[agent].cash
        volume = {market: total - before.get(market, 0) for market, total in world.exchange.volume.items()}
        public = tuple(fact for fact in facts if fact.player_id is None)
        closed = ClosedWindow(name, start, world.now, tuple(tallies.values()), public, volume)
        if self.scribe is not None:
            self.scribe.end(world, closed)
        return closed

    def _turn(self, runner: asyncio.Runner, tallies: Mapping[str, AgentTally]) -> list[Fact]:
        """Let every agent look, then carry their decisions out in the order of this tick."""
        world = self.world
        public = world.public.copy() if self.scribe is not None else world.public
        sights = {name: self._sight(name, public) for name in self.agents}
        replies = self._ask(runner, sights)
        taken: list[tuple[AgentView, Reply, DecisionResult]] = []
        facts: list[Fact] = []
        for name in shuffled(list(self.agents), self.plan.settings.seed, _ORDER, world.clock):
            done = world.act(name, replies[name].text)
            tallies[name].take(done)
            taken.append((sights[name], replies[name], done))
            facts += done.facts
        if self.scribe is not None:
            self.scribe.turn(world, taken)
        return facts

    def _sight(self, name: str, public: PublicState) -> AgentView:
        """Give what an agent sees now; only a run that is written down has to keep it."""
        world = self.world
        own = world.exchange.accounts[name]
        known = AgentState(public, own if self.scribe is None else own.copy(), has_account=True)
        return AgentView(name, world.window, world.tick, world.now, known, self.plan.settings.seed)

    def _ask(self, runner: asyncio.Runner, sights: Mapping[str, AgentView]) -> dict[str, Reply]:
        """Ask every agent, those that answer later all together."""
        said = {name: agent.decide(sights[name]) for name, agent in self.agents.items()}
        later = {name: item for name, item in said.items() if not isinstance(item, Reply)}
        answers = runner.run(_gather(list(later.values()))) if later else []
        return {name: item for name, item in said.items() if isinstance(item, Reply)} | dict(
            zip(later, answers, strict=True)
        )

    def _equity(self, agent: str) -> int:
        return self.world.exchange.equity(agent)


async def _close(agents: Sequence[ArenaAgent]) -> None:
    """Let the connections of agents go that have some."""
    for agent in agents:
        close = getattr(agent, "close", None)
        if close is not None:
            await close()
    await asyncio.sleep(0)


def _gather(waiting: Sequence[Awaitable[Reply]]) -> Coroutine[Any, Any, list[Reply]]:
    async def answers() -> list[Reply]:
        return list(await asyncio.gather(*waiting))

    return answers()
