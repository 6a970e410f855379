"""Proofs about the arena's money that tests run small and torture runs large."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from playproof.errors import RefusedOrder
from playproof.games.arena.agents.runner import ArenaRun, Reply, RunPlan, WorldSettings, scripted
from playproof.games.arena.market.exchange import Exchange
from playproof.games.arena.market.rules import MarketRules
from playproof.money import UNIT


def conserve(actions: int, seed: int, agents: int = 5, every: int = 1) -> dict[str, int]:
    """Do anything at random; after every so many actions all money must be there. Give what was done."""
    rnd = random.Random(seed)
    exchange, names, done = Exchange(), [f"a{at}" for at in range(agents)], dict[str, int]()
    for name in names:
        exchange.enter(name)
    total, asked = exchange.total, 0
    exchange.open_pool("Q0")
    for number in range(actions):
        kind, question = rnd.choices(_KINDS, _WEIGHTS)[0], f"Q{asked}"
        try:
            if kind == "resolve":
                assert exchange.outstanding(question) == (exchange.collateral[question],) * 2
                list(exchange.resolve(question, rnd.randrange(2)))
                asked += 1
                exchange.open_pool(f"Q{asked}")
            else:
                _DO[kind](exchange, rnd, rnd.choice(names), rnd.choice(list(exchange.listings)), question)
            done[kind] = done.get(kind, 0) + 1
        except RefusedOrder:
            done["refused"] = done.get("refused", 0) + 1
        if number % every == 0:
            assert exchange.total == total, f"{exchange.total - total} units out of nowhere after {number} actions"
            assert all(account.cash >= 0 for account in exchange.accounts.values())
    assert exchange.total == total
    return done


def _open(exchange: Exchange, rnd: random.Random, agent: str, market: str, question: str) -> None:
    size = rnd.randrange(UNIT, 1500 * UNIT)
    exchange.open(agent, market, rnd.choice((1, -1)), size, rnd.choice((1, 1, 2, 3, 5, 100)))


def _close(exchange: Exchange, rnd: random.Random, agent: str, market: str, question: str) -> None:
    exchange.close(agent, market, None if rnd.random() < 0.5 else rnd.randrange(1, 500 * UNIT))


def _buy(exchange: Exchange, rnd: random.Random, agent: str, market: str, question: str) -> None:
    exchange.buy(agent, question, rnd.randrange(2), rnd.randrange(1, 300 * UNIT))


def _sell(exchange: Exchange, rnd: random.Random, agent: str, market: str, question: str) -> None:
    exchange.sell(agent, question, None if rnd.random() < 0.5 else rnd.randrange(1, 300 * UNIT))


def _move(exchange: Exchange, rnd: random.Random, agent: str, market: str, question: str) -> None:
    """Move a fundamental by up to 5 % and liquidate."""
    listing = exchange.listings[market]
    listing.fundamental = max(UNIT, listing.fundamental * rnd.randrange(951, 1051) // 1000)
    for name in exchange.accounts:
        exchange.mark(name, market, listing.quote())


def _fund(exchange: Exchange, rnd: random.Random, agent: str, market: str, question: str) -> None:
    exchange.fund(market)


def _refill(exchange: Exchange, rnd: random.Random, agent: str, market: str, question: str) -> None:
    """Let the maker give an agent without cash some."""
    if exchange.accounts[agent].cash < 100 * UNIT:
        exchange.accounts[agent].cash += 5_000 * UNIT
        exchange.maker -= 5_000 * UNIT


_DO: dict[str, Callable[[Exchange, random.Random, str, str, str], None]] = {
    "open": _open,
    "close": _close,
    "buy": _buy,
    "sell": _sell,
    "move": _move,
    "fund": _fund,
    "refill": _refill,
}
_KINDS = (*_DO, "resolve")
_WEIGHTS = (30, 25, 20, 12, 8, 1, 3, 1)


@dataclass(frozen=True)
class Ring:
    """Agents of one mind who trade with nobody else, at one fundamental."""

    members: int
    steps: int
    rules: MarketRules

    @property
    def choices(self) -> list[tuple[str, str, int, int]]:
        """Give everything that can be done in a step: who, what, how large, with what leverage."""
        names = [f"r{at}" for at in range(self.members)]
        perps = [
            (who, what, size, leverage)
            for who in names
            for what in ("long", "short")
            for size in (100, 1000, 2400)
            for leverage in (1, 4, 10, 100)
        ]
        others = [(who, what, size, 1) for who in names for what in ("yes", "no") for size in (50, 500)]
        return [*perps, *others, *((who, what, 0, 1) for who in names for what in ("close", "sell", "wait"))]

    def earn(self, plan: list[tuple[str, str, int, int]]) -> int:
        """Carry a plan out, close everything, and give what the ring has more than before."""
        exchange = Exchange(self.rules)
        for at in range(self.members):
            exchange.enter(f"r{at}")
        before = sum(account.cash for account in exchange.accounts.values())
        exchange.open_pool("Q0")
        for step in plan:
            self._do(exchange, *step)
        for who in exchange.accounts:
            for what in ("close", "sell", "sell"):
                self._do(exchange, who, what, 0, 1)
        return sum(account.cash for account in exchange.accounts.values()) - before

    @staticmethod
    def _do(exchange: Exchange, who: str, what: str, size: int, leverage: int) -> None:
        try:
            if what in ("long", "short"):
                exchange.open(who, "KITE", 1 if what == "long" else -1, size * UNIT, leverage)
            elif what in ("yes", "no"):
                exchange.buy(who, "Q0", 0 if what == "yes" else 1, size * UNIT)
            elif what == "close":
                exchange.close(who, "KITE")
            elif what == "sell":
                exchange.sell(who, "Q0")
        except RefusedOrder:
            return
        quote = exchange.listings["KITE"].quote()
        for name in exchange.accounts:
            exchange.mark(name, "KITE", quote)

    def search(self, rounds: int, plans: int, seed: int) -> int:
        """Search for a plan that earns by the cross-entropy method; give the most that any plan earned."""
        rng, choices = np.random.default_rng(seed), self.choices
        chances = np.full((self.steps, len(choices)), 1 / len(choices))
        best = -(10**18)
        for _ in range(rounds):
            drawn = np.array([[rng.choice(len(choices), p=row) for row in chances] for _ in range(plans)])
            earned = np.array([self.earn([choices[at] for at in plan]) for plan in drawn])
            best = max(best, int(earned.max()))
            elite = drawn[np.argsort(earned)[-max(2, plans // 10) :]]
            for step in range(self.steps):
                counts = np.bincount(elite[:, step], minlength=len(choices)) / len(elite)
                chances[step] = 0.7 * counts + 0.25 * chances[step] + 0.05 / len(choices)
                chances[step] /= chances[step].sum()
        return best


def busy_prompts(windows: int, seed: int = 2) -> list[str]:
    """Give the states that agents of a busy market read, with posts of odd characters among them."""
    run, rnd, index = (
        ArenaRun(RunPlan(WorldSettings(seed=seed), windows), scripted(8)),
        random.Random(seed),
        list[str](),
    )
    for _ in range(windows):
        run.world.begin()
        for tick in range(run.world.ticks):
            run.world.advance()
            if not run.plan.is_turn(tick):
                continue
            sights = {name: run._sight(name, run.world.public) for name in run.agents}
            for name, agent in run.agents.items():
                reply = agent.decide(sights[name])
                assert isinstance(reply, Reply)
                run.world.act(name, reply.text)
            if rnd.random() < 0.5:
                odd = "".join(
                    chr(rnd.choice((rnd.randrange(32, 127), rnd.randrange(0x4E00, 0x4FFF)))) for _ in range(60)
                )
                run.world.act("random-1", json.dumps({"action": "create_post", "post": {"text": odd}}))
            index += [sight.messages()[1].content for sight in sights.values()]
        run.world.finish()
    return index
