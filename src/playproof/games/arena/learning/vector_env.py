"""Many markets at once, one agent in each among scripted others: the lanes that policies train and play on.

Window k of a seed is a fresh market whose future depends on seed and k alone, whatever is done in it.
Plain Python: the measured cost of a window is that of its news, quotes and other agents, which a
compiled loop would have to carry as well. A window's state is its number and the actions taken in it;
`arrays` gives those, and a lane whose arrays were written is played up to there again.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.game import Choice, Fact, Reward, lookup
from playproof.game.vector_env import Actions, Chosen, FinishedEpisodes, Ints, Rows, StepResult, VectorTerms
from playproof.games.arena.agents.archetypes import ARCHETYPES, Archetype
from playproof.games.arena.agents.decisions import AMOUNTS, NAMES, order_choice
from playproof.games.arena.learning.observation import values
from playproof.games.arena.learning.outcomes import hold_return
from playproof.games.arena.learning.table import FEATURES
from playproof.games.arena.market.news import slot_of
from playproof.games.arena.market.rng import draw, shuffled
from playproof.games.arena.market.rules import PERPS, MarketRules
from playproof.games.arena.market.world import BEGINNING, MarketWorld, WorldSettings

PLAYER = "player"
OTHERS = ("informed", "momentum", "contrarian", "balanced", "random")
"""Who else is in the market unless told otherwise."""
HEADS = (len(NAMES), len(PERPS), len(AMOUNTS))
_ORDER = int.from_bytes(b"lane")


@dataclass(frozen=True)
class LaneSettings:
    """What a lane's windows are made from."""

    world: str = "news"
    seed: int = 1
    decisions: int = 6
    """Steps in a window; a divisor of 60."""
    others: tuple[str, ...] = OTHERS
    """Archetypes that trade in the same market, at the same ticks."""
    cash: int | None = None
    stake: int | None = None
    leverage: int = 1
    """Least leverage of the player's perps. A position loses its margin at most, so that with a higher one the same
    sizes fit into a smaller stake: this and the stake bound what a window can lose."""
    benchmark: bool = True
    """Is the return of buying and holding taken off at the end of a window? As the reward `alpha` does."""
    rules: MarketRules = field(default_factory=MarketRules)

    def __post_init__(self) -> None:
        if self.decisions < 1 or 60 % self.decisions:
            raise ConfigError(f"expected a number of decisions that divides 60, found {self.decisions}")
        if not 1 <= self.leverage <= self.rules.max_leverage:
            raise ConfigError(f"expected a leverage from 1 to {self.rules.max_leverage}, found {self.leverage}")
        for name in self.others:
            lookup(ARCHETYPES, name, "archetype")


class ArenaMarketPlayer:
    """One market with its player."""

    def __init__(self, settings: LaneSettings) -> None:
        self.settings = settings
        self.others: dict[str, Archetype] = {
            f"{name}-{at}": ARCHETYPES[name] for at, name in enumerate(settings.others)
        }
        self.row = [0.0] * len(FEATURES)
        self.missing = [True] * len(FEATURES)

    def begin(self, number: int) -> None:
        """Open window `number` and go on to the first decision."""
        config = self.settings
        start = BEGINNING + timedelta(hours=number % 8_760)
        self.world = MarketWorld(WorldSettings(config.world, draw(config.seed, number), start, 1, config.rules))
        account = self.world.enter(PLAYER, config.cash)
        account.stake = config.stake
        for name in self.others:
            self.world.enter(name)
        self.start = self.equity = account.cash
        self.staked = self.no_effect = self.trades = 0
        self.world.begin()
        self.ends: dict[str, tuple[int, int]] = {}
        self._advance(self._gap // 2 + 1)
        self._look()

    @property
    def _gap(self) -> int:
        return 60 // self.settings.decisions

    @property
    def opened(self) -> int:
        """Give how often the player opened something in this window."""
        return self.world.exchange.accounts[PLAYER].opened

    @property
    def holds(self) -> bool:
        """Tell whether the player holds anything."""
        account = self.world.exchange.accounts[PLAYER]
        return bool(account.perps or account.shares)

    def fork(self) -> ArenaMarketPlayer:
        """Give a lane of its own in the same state."""
        other = copy(self)
        other.world, other.ends = self.world.fork(), dict(self.ends)
        return other

    def step(self, action: tuple[int, ...] | Choice) -> tuple[float, bool, float]:
        """Take one action; give the return of the step, whether the window is over, and its benchmark."""
        self._turn(action)
        held = self.world.passed
        over = held + self._gap > self.world.ticks
        self._advance(min(self._gap, self.world.ticks - held))
        if over:
            self.world.finish()
        before, self.equity = self.equity, self.world.exchange.equity(PLAYER)
        self._look()
        hold = hold_return(self.ends) if over else 0.0
        return (self.equity - before) / max(1, self.start), over, hold

    def _turn(self, action: tuple[int, ...] | Choice) -> None:
        """Carry out the player's order and those of the others, in the order of this tick."""
        world = self.world
        slots = {slot_of(market): market for market in world.public.questions}
        choices = {PLAYER: self._limited(action if isinstance(action, Choice) else order_choice(action, slots))}
        for name, trader in self.others.items():
            row = [0.0 if value is None else value for value in values(world.known(name))]
            rng = np.random.default_rng([world.settings.seed, world.clock, *name.encode()]) if trader.choose else _IDLE
            orders = trader.decide(row, rng)
            if orders:
                choices[name] = order_choice(orders[0].action, slots)
        for name in shuffled(list(choices), world.settings.seed, _ORDER, world.clock):
            done = world.order(name, choices[name])
            if name == PLAYER and choices[name].kind != "WAIT":
                self.no_effect += done.fill is None
                self.trades += done.fill is not None
                opens = done.fill is not None and done.fill.order not in ("CLOSE", "SELL")
                self.staked += done.fill.amount if done.fill is not None and opens else 0
            self._note(done.facts)

    def _limited(self, choice: Choice) -> Choice:
        """Open perps with the least leverage at least."""
        least = self.settings.leverage
        if least == 1 or choice.kind not in ("OPEN_LONG", "OPEN_SHORT"):
            return choice
        asked = choice.arguments.get("leverage")
        leverage = max(least, asked if isinstance(asked, int) else 1)
        return replace(choice, arguments={**choice.arguments, "leverage": leverage})

    def _advance(self, ticks: int) -> None:
        for _ in range(ticks):
            self._note(self.world.advance())

    def _note(self, facts: list[Fact] | tuple[Fact, ...]) -> None:
        """Note the prices at the window's ends."""
        for fact in facts:
            if fact.event_name == "price":
                market, price = str(fact.columns["market"]), int(str(fact.columns["price"]))
                self.ends[market] = (self.ends.get(market, (price, price))[0], price)

    def _look(self) -> None:
        result = values(self.world.known(PLAYER))
        self.missing = [item is None for item in result]
        self.row = [0.0 if item is None else item for item in result]

    def mask(self) -> list[bool]:
        """Tell which choices can have an effect now, the heads side by side."""
        account, public = self.world.exchange.accounts[PLAYER], self.world.public
        may_open = account.cash >= self.settings.rules.least_size
        bets = may_open and bool(public.questions)
        kinds = [True, may_open, may_open, bool(account.perps), bets, bets, bool(account.shares)]
        return [*kinds, *([True] * (len(PERPS) + len(AMOUNTS)))]


_IDLE = np.random.default_rng(0)
"""For archetypes that draw nothing."""


class ArenaVectorGame:
    """Many lanes, as the stages know them; lane i of n plays windows i, i + n, i + 2 n ..."""

    heads = HEADS
    features = tuple(feature.name for feature in FEATURES)

    def __init__(self, settings: LaneSettings, count: int) -> None:
        self.settings, self.count = settings, count
        self.lanes = [ArenaMarketPlayer(settings) for _ in range(count)]
        self._state = {
            "number": np.arange(count, dtype=np.int64),
            "taken": np.zeros(count, np.int64),
            "actions": np.zeros((count, settings.decisions, len(HEADS)), np.int64),
        }
        self._played = {name: item.copy() for name, item in self._state.items()}

    def start(self) -> Rows:
        """Seat a player in the first window of every lane; give the observations."""
        self._state["number"][:] = np.arange(self.count)
        self._state["taken"][:] = 0
        for number, lane in enumerate(self.lanes):
            lane.begin(number)
        self._agree()
        return self._rows()

    def step(self, actions: Actions) -> StepResult:
        """Take an action in every lane, (n, heads)."""
        self._restore()
        rewards, held = np.zeros(self.count), np.zeros(self.count, np.bool_)
        profit, benchmark = np.zeros(self.count), np.zeros(self.count)
        ended: list[tuple[int, ArenaMarketPlayer, list[float]]] = []
        for at, lane in enumerate(self.lanes):
            self._state["actions"][at, self._state["taken"][at]] = actions[at]
            profit[at], over, hold = lane.step(tuple(int(action) for action in actions[at]))
            benchmark[at] = -hold if self.settings.benchmark else 0.0
            held[at] = lane.holds
            self._state["taken"][at] += 1
            if over:
                ended.append((at, lane, lane.row))
        rewards = profit + benchmark
        payload = self._ended(ended)
        for at, lane, _ in ended:
            self._state["number"][at] += self.count
            self._state["taken"][at] = 0
            lane.begin(int(self._state["number"][at]))
        self._agree()
        parts = {"profit": profit, "benchmark": benchmark} if self.settings.benchmark else {"profit": profit}
        return StepResult(self._rows(), rewards, held, payload, parts)

    def _ended(self, ended: list[tuple[int, ArenaMarketPlayer, list[float]]]) -> FinishedEpisodes:
        """Give the figures of the windows that are over."""

        def ints(of: Callable[[ArenaMarketPlayer], int]) -> Ints:
            return np.array([of(lane) for _, lane, _ in ended], np.int64)

        rows = np.array([row for _, _, row in ended], np.float32).reshape(len(ended), len(FEATURES))
        return FinishedEpisodes(
            np.array([at for at, _, _ in ended], np.int64),
            rows,
            np.ones(len(ended), np.bool_),
            ints(lambda lane: lane.equity - lane.start),
            ints(lambda lane: lane.opened),
            ints(lambda lane: lane.staked),
            ints(lambda lane: lane.no_effect),
        )

    def masks(self) -> Chosen:
        """Tell which choices can have an effect now, (n, sum of heads)."""
        return np.array([lane.mask() for lane in self.lanes], np.bool_)

    def settle(self, actions: Actions) -> Actions:
        """Leave actions as they are: an order's size does not make it impossible."""
        return actions

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give number, actions and their count of every lane's window; writing into them restores it."""
        return self._state

    def _agree(self) -> None:
        for name, item in self._state.items():
            self._played[name][:] = item

    def _restore(self) -> None:
        """Play a lane whose arrays were written up to where they stand."""
        for at, lane in enumerate(self.lanes):
            taken = int(self._state["taken"][at])
            same = all(self._state[name][at] == self._played[name][at] for name in ("number", "taken"))
            if same and np.array_equal(self._state["actions"][at, :taken], self._played["actions"][at, :taken]):
                continue
            lane.begin(int(self._state["number"][at]))
            for action in self._state["actions"][at, :taken]:
                lane.step(tuple(int(item) for item in action))
        self._agree()

    def _rows(self) -> Rows:
        return np.array([lane.row for lane in self.lanes], np.float32)


def make_vector_game(terms: VectorTerms, count: int) -> ArenaVectorGame:
    """Make lanes on a stage's terms."""
    if not isinstance(terms.source, str):
        raise ConfigError("expected the name of a world for the arena's lanes, found recorded windows")
    for result, known in ((terms.observation, "market"), (terms.actions, "orders")):
        if result not in (None, known):
            raise ConfigError(f"expected {known!r} for the arena's lanes, found {result!r}")
    seed = 0
    for part in terms.seed:
        seed = draw(seed, part)
    options = dict(terms.options)
    if "others" in options:
        options["others"] = tuple(options["others"])
    return ArenaVectorGame(
        LaneSettings(
            terms.source, seed, cash=terms.balance, stake=terms.stake, benchmark=_benchmark(terms.reward), **options
        ),
        count,
    )


def _benchmark(reward: str | Reward | None) -> bool:
    """Tell whether a reward takes the return of holding off; refuse one that lanes do not pay."""
    name = reward.name if isinstance(reward, Reward) else reward or "alpha"
    if name not in ("alpha", "profit"):
        raise ConfigError(f"expected the reward alpha or profit for the arena's lanes, found {name!r}")
    return name == "alpha"
