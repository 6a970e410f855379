"""What a player hears of the crowd, tick by tick: its trades, and the figures of the leaderboard.

For the single environment, in which the server's table does not run: the same plans (bystanders),
the same exact money (gathering) and the same ranking, so that both tell the same. A tick's message
brings the leaderboard as it stands at its price before anybody trades at it; the trades of the tick
follow. Leaves out: the player, who is given to be ranked along, and sidebets as events.

Figures are read from the leaderboard, which shows the 10 best by profit, not from everybody:
that is all a player sees of the others on the real feed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from playproof.errors import InputError
from playproof.games.crash.rules.money import Sidebet, proceeds
from playproof.games.crash.server.messages import Deal
from playproof.games.crash.server.protocol import COIN_ADDRESS, LEADERS
from playproof.games.crash.server.table_crowd import Act, TableCrowd
from playproof.games.crash.sim.arrays import Records
from playproof.games.crash.sim.crowd import STRETCH, crowd
from playproof.money import UNIT

TRADE = np.dtype([("amount", "i8"), ("tick", "i4"), ("is_buy", "i1")], align=True)
"""One trade as `history.apply_trades` takes it."""


@dataclass(frozen=True, slots=True)
class LeaderboardFigures:
    """What a leaderboard tells of the crowd."""

    players_in_game: int = 0
    players_with_positions: int = 0
    total_capital: int = 0
    """What its entries hold, at the price said with it, in units rounded down."""


@dataclass(frozen=True, slots=True)
class CrowdUpdate:
    """What is heard with one message of the round and before the next."""

    figures: LeaderboardFigures
    """Said with the tick."""
    trades: tuple[Deal, ...]
    """Made at the tick, heard after it."""


@dataclass(frozen=True, slots=True)
class OwnPosition:
    """What ranks the player among the crowd, in units; for one who has staked something this round."""

    pnl: int
    """Equity less the cash at the start of the round, an open sidebet not lost yet."""
    invested: int
    qty: int
    id: str = "player"


Rank = tuple[int, int, str, int]
"""What the leaderboard is sorted by, best first: -profit, -staked, id; and beside it the quantity held."""


@dataclass(slots=True)
class CrowdMember:
    """One bystander, added up over all positions, in units."""

    id: str
    settled: int = 0
    """Paid out less paid in; the stake of an open sidebet is not lost yet."""
    invested: int = 0
    held: list[int] = field(default_factory=list)
    """Quantity of each open position."""

    def rank(self, price: float) -> Rank:
        """Rank the bystander at a price, each position rounded down by itself."""
        above, below = price.as_integer_ratio()
        value = sum([qty * above // below for qty in self.held])
        return -self.settled - value, -self.invested, self.id, sum(self.held)


def figures_of(quantities: Sequence[int], price: float) -> LeaderboardFigures:
    """Count and value what the entries of a leaderboard hold, in units."""
    held = sum(1 for qty in quantities if qty > 0)
    return LeaderboardFigures(len(quantities), held, proceeds(sum(quantities), price))


def is_coin(entry: Mapping[str, Any]) -> bool:
    """Tell whether a leaderboard entry plays with the coin itself and not with practice tokens."""
    chosen = entry.get("selectedCoin")
    return chosen is None or chosen.get("address") == COIN_ADDRESS


def read_leaderboard(entries: Iterable[Mapping[str, Any]], price: float) -> LeaderboardFigures:
    """Read the figures from the leaderboard of a gameStateUpdate and the price said with it."""
    return figures_of([round(entry["positionQty"] * UNIT) for entry in entries if is_coin(entry)], price)


def to_records(trades: Sequence[Deal]) -> Records:
    """Give trades as compiled code reads them."""
    return np.array([(made.amount, made.tick, made.side == "buy") for made in trades], TRADE)


class CrowdFeed:
    """Tell one round of the crowd: `presale`, then `at` for each tick from 0 on, then `rug`.

    Prices are handed in as they come; nothing is told before the price that it depends on.
    """

    def __init__(self, seed: int, round_number: int, payout: Fraction = Fraction(5)) -> None:
        self._seed, self._number = seed, round_number
        self._gathering = TableCrowd(crowd(seed, round_number), payout)
        self._seats: dict[str, CrowdMember] = {}
        self._holders: dict[str, CrowdMember] = {}
        self._resting: list[Rank] = []
        """Those who hold nothing, best first; no price moves them."""
        self._bets: dict[int, list[tuple[str, int]]] = defaultdict(list)
        self._next = -1

    def presale(self) -> CrowdUpdate:
        """Open the presale: the leaderboard is empty, and all presale buys follow."""
        self._pass(-1)
        return CrowdUpdate(LeaderboardFigures(), self._take(self._gathering.presale(1.0)))

    def at(self, tick: int, price: float, own: OwnPosition | None = None) -> CrowdUpdate:
        """Tell a tick that does not rug; `own` is the player as of this price, if it plays."""
        self._pass(tick)
        self._lose_bets(tick)
        figures = self._figures(price, own)
        if tick and tick % STRETCH == 0:
            self._gathering.add(crowd(self._seed, self._number, tick // STRETCH))
        return CrowdUpdate(figures, self._take(self._gathering.trade(tick, price)))

    def rug(self, tick: int, price: float, own: OwnPosition | None = None) -> CrowdUpdate:
        """Tell the rug: everything is sold at its price, and nobody on the leaderboard holds anything."""
        self._pass(tick)
        sales = []
        for position in self._gathering.positions:
            qty = position.ledger.qty
            sold, _ = position.ledger.rug(tick, price)
            if qty:
                sales.append(Deal("sell", price, qty, sold, tick))
        return CrowdUpdate(LeaderboardFigures(min(len(self._seats) + (own is not None), LEADERS)), tuple(sales))

    def _pass(self, tick: int) -> None:
        """Let the ticks come one after the other, the presale as -1."""
        if tick != self._next:
            raise InputError(f"expected tick {self._next} of the crowd (-1 is the presale), found {tick}")
        self._next += 1

    def _take(self, acts: Iterable[Act]) -> tuple[Deal, ...]:
        """Add what bystanders did to their seats; give the trades."""
        trades = []
        for (identity, _, _), act in acts:
            seat = self._rise(identity)
            if isinstance(act, Sidebet):
                seat.invested += act.stake
                self._bets[act.end_tick].append((identity, act.stake))
            else:
                trades.append(act)
                seat.settled += act.amount if act.side == "sell" else -act.amount
                if act.side == "sell":
                    seat.held.remove(act.qty)
                else:
                    seat.invested += act.amount
                    seat.held.append(act.qty)
            self._sit(seat)
        return tuple(trades)

    def _lose_bets(self, tick: int) -> None:
        """Lose the sidebets that end on this tick without a rug."""
        ended = self._bets.pop(tick, ())
        for identity, stake in ended:
            seat = self._rise(identity)
            seat.settled -= stake
            self._sit(seat)
        if ended:
            for position in self._gathering.positions:
                position.ledger.pass_tick(tick)

    def _rise(self, identity: str) -> CrowdMember:
        """Give a seat to be changed, a new one for who has none."""
        seat = self._seats.get(identity)
        if seat is None:
            seat = self._seats[identity] = CrowdMember(identity)
        elif self._holders.pop(identity, None) is None:
            del self._resting[bisect_left(self._resting, seat.rank(1.0))]
        return seat

    def _sit(self, seat: CrowdMember) -> None:
        """Put a changed seat where it is ranked from."""
        if seat.held:
            self._holders[seat.id] = seat
        else:
            insort(self._resting, seat.rank(1.0))

    def _figures(self, price: float, own: OwnPosition | None) -> LeaderboardFigures:
        """Rank everybody as `messages.ranked` does, and read the figures of the best."""
        order = [*self._resting[:LEADERS], *(seat.rank(price) for seat in self._holders.values())]
        if own is not None:
            order.append((-own.pnl, -own.invested, own.id, own.qty))
        order.sort()
        return figures_of([qty for _, _, _, qty in order[:LEADERS]], price)
