"""The crowd of one round at a live table: its positions, each with a ledger of its own.

`bystanders` draws who does what before the round; here the plans meet prices, so that the figures
on the leaderboard are exact.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from playproof.games.crash.rules.money import MoneyLedger, Sidebet
from playproof.games.crash.server.messages import Deal, LeaderboardRow, bystander_id, standing
from playproof.games.crash.sim.crowd import Bystander

Identity = tuple[str, str, int]
"""Id, name and level as messages show them."""
Act = tuple[Identity, Deal | Sidebet]


@dataclass
class Position:
    """One bystander's position, with the money it was opened with."""

    who: Bystander
    ledger: MoneyLedger

    @property
    def identity(self) -> Identity:
        """Give who holds it."""
        return bystander_id(self.who.player), self.who.name, self.who.level


class TableCrowd:
    """Play the plans of one round's bystanders."""

    def __init__(self, people: Iterable[Bystander], payout: Fraction) -> None:
        self.positions: list[Position] = []
        """Positions that have been opened."""
        self._by_player: dict[int, list[Position]] = defaultdict(list)
        self._at_rest: dict[int, LeaderboardRow] = {}
        self._presale: deque[Position] = deque()
        self._entries: dict[int, list[Position]] = defaultdict(list)
        self._bets: dict[int, list[Position]] = defaultdict(list)
        self._exits: dict[int, list[Position]] = defaultdict(list)
        self._payout = payout
        self.add(people)
        self._early = len(self._presale)

    def add(self, people: Iterable[Bystander]) -> None:
        """Take in the plans of further bystanders."""
        for who in people:
            position = Position(who, MoneyLedger(who.amount + who.sidebet_amount, payout=self._payout))
            if who.entry_tick < 0:
                self._presale.append(position)
            else:
                self._entries[who.entry_tick].append(position)
            if who.sidebet_tick is not None and who.sidebet_tick >= 0:
                self._bets[who.sidebet_tick].append(position)
            self._exits[who.exit_tick].append(position)

    def presale(self, share: float) -> list[Act]:
        """Open presale positions until this share of them is open."""
        acts: list[Act] = []
        while self._presale and self._early - len(self._presale) < share * self._early:
            position = self._presale.popleft()
            acts += self._open(position, 0, 1.0)
            if position.who.sidebet_tick == -1:
                acts += self._bet(position, 0)
        return acts

    def trade(self, tick: int, price: float) -> list[Act]:
        """Close, open and bet what was planned for this tick."""
        acts: list[Act] = []
        for position in self._exits.pop(tick, ()):
            acts += self._close(position, tick, price)
        for position in self._entries.pop(tick, ()):
            acts += self._open(position, tick, price)
        for position in self._bets.pop(tick, ()):
            acts += self._bet(position, tick)
        return acts

    def standings(self, price: float) -> list[LeaderboardRow]:
        """Add up where every bystander stands; one who holds nothing stands still until the next buy."""
        return [self._at_rest.get(player) or self._standing(player, price) for player in self._by_player]

    def _standing(self, player: int, price: float) -> LeaderboardRow:
        positions = self._by_player[player]
        result = standing(positions[0].identity, (position.ledger for position in positions), price)
        if not result.qty and result.sidebet is None:
            self._at_rest[player] = result
        return result

    def _open(self, position: Position, tick: int, price: float) -> list[Act]:
        qty = position.ledger.buy(position.who.amount, price)
        self.positions.append(position)
        self._at_rest.pop(position.who.player, None)
        self._by_player[position.who.player].append(position)
        return [(position.identity, Deal("buy", price, qty, position.who.amount, tick))]

    def _bet(self, position: Position, tick: int) -> list[Act]:
        """Place the sidebet, unless the same person has one open."""
        if any(mate.ledger.sidebet for mate in self._by_player[position.who.player]):
            return []
        self._at_rest.pop(position.who.player, None)
        return [(position.identity, position.ledger.bet(position.who.sidebet_amount, tick))]

    def _close(self, position: Position, tick: int, price: float) -> list[Act]:
        if not position.ledger.lots:
            return []
        qty, amount = position.ledger.sell(100, price)
        return [(position.identity, Deal("sell", price, qty, amount, tick))]
