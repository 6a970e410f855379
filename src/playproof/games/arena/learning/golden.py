"""Plays whose order is known by how they were made, to try judges on.

Every player of a group bets on the company that will move most, at the same moments of the same window, alone in a fork
of it: the first the right way and large, the next the right way and smaller, the last the wrong way and large. Windows
are those in which the move pays for its fees, so that the order is also that of the money.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from playproof.errors import ConfigError
from playproof.game import Message
from playproof.game.golden import RankedGroup, RankedPlay
from playproof.games.arena.agents.decisions import HOLD, write_trade
from playproof.games.arena.agents.runner import AgentView, ArenaRun, ClosedWindow, Reply, RunPlan
from playproof.games.arena.market.rng import draw
from playproof.games.arena.market.world import WorldSettings
from playproof.games.arena.recording.outcomes_writer import outcome_rows

LEAST_MOVE = 0.015
"""A company moves at least so much after a bet, well beyond the fees; else all players hold."""
MOST_MEMBERS = 8
BETS = (500, 350, 250, 150, 80, 40, -200, -500)
"""USD; below 0 the wrong way. Most are right, so that doing nothing is worse than the median."""


@dataclass
class _Bettor:
    """Bets one amount on what will move most."""

    bet: int
    moves: dict[int, tuple[str, float]]
    """By tick: the company, and its move to the window's end."""
    name: str = "bettor"
    archetype: str = "golden"
    said: list[tuple[Message, ...]] = field(default_factory=list)

    def decide(self, sight: AgentView) -> Reply:
        """Bet, and remember what was read and answered."""
        market, move = self.moves[sight.tick]
        if abs(move) < LEAST_MOVE:
            self.said.append((*sight.messages(), Message("assistant", HOLD)))
            return Reply(HOLD)
        long = (move > 0) == (self.bet > 0)
        order, way = ("open_long", "rise") if long else ("open_short", "fall")
        text = write_trade(order, market, abs(self.bet), reasoning=f"{market} should {way}")
        self.said.append((*sight.messages(), Message("assistant", text)))
        return Reply(text)


def golden(groups: int, members: int, decisions: int, seed: int) -> Sequence[RankedGroup]:
    """Make ranked groups."""
    if not 3 <= members <= MOST_MEMBERS:
        raise ConfigError(f"expected groups of 3 to {MOST_MEMBERS} members, found {members}")
    result = _groups(members, decisions, seed)
    return [next(result) for _ in range(groups)]


def _groups(members: int, decisions: int, seed: int) -> Iterator[RankedGroup]:
    for number in count():
        plan = RunPlan(WorldSettings(seed=draw(seed, number)), 1, decisions)
        quiet = _played(plan, _Bettor(0, {}))
        moves = _moves(quiet, plan)
        if abs(next(iter(moves.values()))[1]) >= LEAST_MOVE:
            yield _group(plan, quiet, moves, members)


def _group(plan: RunPlan, quiet: ClosedWindow, moves: dict[int, tuple[str, float]], members: int) -> RankedGroup:
    bets = (*BETS[: members - 1 - (members > 5)], *BETS[-1 - (members > 5) :])
    plays = []
    for rank, bet in enumerate(bets):
        bettor = _Bettor(bet, moves)
        tally = _played(plan, bettor).tallies[0]
        plays.append(RankedPlay(tuple(bettor.said), tally.start_equity, tally.pnl, rank))
    return RankedGroup(quiet.window, tuple(outcome_rows(quiet)), tuple(plays))


def _played(plan: RunPlan, bettor: _Bettor) -> ClosedWindow:
    """Play the window with one bettor; without moves nobody decides."""
    run = ArenaRun(plan, [bettor])
    if not bettor.moves:
        run.agents = {}
    return next(iter(run.windows()))


def _moves(quiet: ClosedWindow, plan: RunPlan) -> dict[int, tuple[str, float]]:
    """Give at each turn the company that moves most from then to the end, in a market that nobody trades in."""
    prices: dict[int, dict[str, int]] = {}
    for fact in quiet.facts:
        if fact.event_name == "price":
            tick, price = int(str(fact.columns["tick"])), int(str(fact.columns["price"]))
            prices.setdefault(tick, {})[str(fact.columns["market"])] = price
    last = prices[max(prices)]
    moves = {}
    for tick in filter(plan.is_turn, sorted(prices)):
        change = {market: last[market] / price - 1 for market, price in prices[tick].items()}
        moves[tick] = max(change.items(), key=lambda item: abs(item[1]))
    return moves
