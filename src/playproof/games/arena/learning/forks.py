"""Forked windows of the arena: one market up to the first decision, then K copies for a player of words.

Other agents are scripted and the same in every copy. Scripted players answer prompts that are not full ones in the
short form of a decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from playproof.errors import ConfigError
from playproof.game import lookup
from playproof.game.forks import ForkEnd, ForkTerms, Prompt
from playproof.games.arena.agents.archetypes import ARCHETYPES, Order, write_order
from playproof.games.arena.agents.decisions import HOLD, read_decision, shortened, write_trade
from playproof.games.arena.agents.prompts import FULL, PROMPTS, last_headline
from playproof.games.arena.learning.state import AgentState
from playproof.games.arena.learning.vector_env import PLAYER, ArenaMarketPlayer, LaneSettings
from playproof.games.arena.market.news import slot_of

CONTRARY = {"OPEN_LONG": "OPEN_SHORT", "OPEN_SHORT": "OPEN_LONG", "BUY_YES": "BUY_NO", "BUY_NO": "BUY_YES"}
HEADLINE = "headline"
"""The scripted player that goes by the last headline on a company alone, as brief prompts show it."""
SIZE = 500


class ArenaForks:
    """K copies of one hour."""

    def __init__(self, terms: ForkTerms, number: int, count: int) -> None:
        options = dict(terms.options)
        persona = options.pop("persona", "balanced")
        kind = lookup(ARCHETYPES, persona, "archetype") if persona else None
        self._persona = "" if kind is None else f"You are {kind.name} (risk {kind.risk}): an agent that {kind.doc}."
        self._write = lookup(PROMPTS, terms.prompt, "prompt")
        self._short = terms.prompt != FULL
        if "others" in options:
            options["others"] = tuple(options["others"])
        first = ArenaMarketPlayer(LaneSettings(terms.world, terms.seed, terms.decisions, **options))
        first.begin(number)
        self._lanes = [first, *(first.fork() for _ in range(count - 1))]
        self._ends = [ForkEnd(first.start, 0, 0.0, 0, 0, 0, 0) for _ in range(count)]
        self.over = False

    def prompts(self) -> tuple[Prompt, ...]:
        """Give what the player reads in each copy."""
        return tuple(self._write(lane.world.known(PLAYER), self._persona) for lane in self._lanes)

    def scripted(self, player: str, rng: np.random.Generator) -> tuple[str, ...]:
        """Give what a scripted player would answer in each copy; `name:0.65` does the contrary of 35 % of it."""
        name, _, share = player.partition(":")
        try:
            right = float(share) if share else 1.0
        except ValueError:
            raise ConfigError(f"expected a player as name or name:share, found {player[:40]!r}") from None
        answers = tuple(_answer(lane, name, right, rng) for lane in self._lanes)
        return tuple(map(shortened, answers)) if self._short else answers

    def act(self, answers: Sequence[str]) -> None:
        """Carry out an answer in each copy, and go on to the next decision or the end."""
        for at, (lane, answer) in enumerate(zip(self._lanes, answers, strict=True)):
            choice = read_decision(answer)
            before, idle = lane.trades, lane.no_effect
            _, self.over, hold = lane.step(choice)
            end, valid = self._ends[at], choice.rejected is None
            self._ends[at] = replace(
                end,
                pnl=lane.equity - lane.start,
                reward=(lane.equity - lane.start) / max(1, lane.start) - hold,
                decisions=end.decisions + 1,
                valid=end.valid + valid,
                refused=end.refused + (valid and lane.no_effect > idle),
                trades=end.trades + lane.trades - before,
            )

    def ends(self) -> tuple[ForkEnd, ...]:
        """Tell how the player ended, once the window has closed."""
        self._check_over()
        return tuple(self._ends)

    def outcomes(self) -> tuple[Mapping[str, Any], ...]:
        """Give each company's first and last price where the player did nothing of note: in the first copy."""
        self._check_over()
        return tuple(
            {"kind": "asset", "subject": market, "start_price": start, "end_price": end, "change": end / start - 1}
            for market, (start, end) in sorted(self._lanes[0].ends.items())
        )

    def _check_over(self) -> None:
        if not self.over:
            raise ConfigError("expected a window that has closed, found one that is still played")


def _answer(lane: ArenaMarketPlayer, name: str, right: float, rng: np.random.Generator) -> str:
    """Give a scripted player's answer in one copy."""
    if name == "wait":
        return HOLD
    contrary = rng.random() >= right
    if name == HEADLINE:
        return _follow(lane.world.known(PLAYER), contrary)
    orders = lookup(ARCHETYPES, name, "player").decide(lane.row, rng)
    if not orders:
        return HOLD
    kind = CONTRARY.get(orders[0].kind, orders[0].kind) if contrary else orders[0].kind
    order = Order(kind, orders[0].market, orders[0].size)
    return write_order(order, {slot_of(market): market for market in lane.world.public.questions})


def _follow(known: AgentState, contrary: bool) -> str:
    headline = last_headline(known)
    if headline is None or known.own.perps:
        return HOLD
    return write_trade("open_long" if (headline.mood > 0) != contrary else "open_short", headline.market, SIZE)


def make_forks(terms: ForkTerms, number: int, count: int) -> ArenaForks:
    """Open window `number` of the terms and fork it so many times."""
    return ArenaForks(terms, number, count)
