"""The scripted human as somebody to be recorded and cloned: his frames, round by round, and the limit of any clone.

Every round is a session of its own, by somebody with a new balance at a table of its own, so that rounds are alike
and none knows of another: 300 rounds of one table would show hardly three of its moods. He sells all, as the action
set `buttons` does. His frames are what a recorder would see of him at the page: the table's own messages with his
presses between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from playproof.game import Frame
from playproof.game.vector_env import Rows
from playproof.games.crash.players.baselines import Ints
from playproof.games.crash.players.clone_bound import watched_chances
from playproof.games.crash.players.human import Floats, Human, Live, ScriptedPresser
from playproof.games.crash.recording.sample import JOINS_AT_MS, PLAYER_ID, Point, SampleRecorder
from playproof.games.crash.rules.actions import FULL_SHARE
from playproof.games.crash.rules.money import MIN_BET
from playproof.games.crash.rules.windows import Phase
from playproof.money import UNIT

STREAM = int.from_bytes(b"scripted")
APART = timedelta(hours=1)
"""Time between two tables, longer than any round."""


@dataclass(frozen=True)
class SellsAll(Human):
    """The scripted human, without percentage buttons."""

    def share_table(self, obs: Rows) -> Floats:
        """Sell all, always."""
        return np.tile([0.0, 0.0, 0.0, 1.0], (len(obs), 1))


class RecordedSittings(SampleRecorder):
    """Persons who come to one table, each for one round; the script is what comes to their minds."""

    def __init__(self, world: str, seed: int, number: int) -> None:
        table_seed = int(np.random.SeedSequence([STREAM, seed, number]).generate_state(1)[0])
        super().__init__(table_seed, self, world=world, crowded=False)  # type: ignore[arg-type]
        self._rng = np.random.default_rng([STREAM, seed, number])
        self.now += number * APART
        self._presser = ScriptedPresser(SellsAll(), self._rng)

    def sit(self) -> tuple[Frame, ...]:
        """Let a new person play the next round to its end; give every frame of his."""
        self._presser = ScriptedPresser(SellsAll(), self._rng.spawn(1)[0])
        self.frames, self._bet, self._share, self._orders = [], MIN_BET, FULL_SHARE, 0
        while not self._in(Phase.COOLDOWN) or self.table.timer_ms > JOINS_AT_MS:
            self.now += timedelta(milliseconds=self.table.wait_ms)
            self.table.advance()
        self.join()
        while not self._in(Phase.RUGGED):
            self.beat()
        self.beat()
        self.table.leave(PLAYER_ID)
        return tuple(self.frames)

    def _in(self, phase: Phase) -> bool:
        return self.table.phase is phase

    def get(self, _point: Point, _default: tuple[str, ...]) -> tuple[str, ...]:
        """Give what he presses now."""
        table = self.table
        if table.phase not in (Phase.PRESALE, Phase.ACTIVE):
            return ()
        book = table.players[PLAYER_ID].ledger
        live = Live(
            phase=int(table.phase),
            tick=table.tick,
            price=table.price,
            balance=book.cash / UNIT,
            bet=self._bet / UNIT,
            position_qty=book.qty / UNIT,
            avg_entry_price=book.avg_cost / UNIT,
            cumulative_pnl=book.pnl(table.price) / UNIT,
            total_invested=book.invested / UNIT,
            count_2x=table.context.count_2x,
        )
        return tuple(press.button_id for press in self._presser.see(live))


class ScriptedHuman:
    """What cloning him takes, as the entry-point group "playproof.scripted" gives it."""

    game, player, world, actions, clock = "crash", "human", "published", "buttons", "press"
    """`player` is the baseline that plays many lanes as he does."""
    watched = ("price", "bet_amount", "position_qty")
    """What a person at the page sees move: worth remembering for some rows."""

    def sessions(self, seed: int, count: int) -> Iterator[tuple[Frame, ...]]:
        """Give the frames of sessions of one round each, every one at another table."""
        for number in range(count):
            yield RecordedSittings(self.world, seed, number).sit()

    def chances(self, rows: Rows, actions: Ints, begins: Ints) -> tuple[Floats, Floats]:
        """Give the chances of his choices by head, as well as one can know who sees rows and presses alone."""
        return watched_chances(rows, actions, begins)


SCRIPTED = ScriptedHuman()
