"""A small recording of the crash game: two rounds at a real table, by a player who follows a script.

The table is the server's own (live), its messages are framed as the socket does, and the player's
presses stand between them as a browser recorder would give them. Same seed, same frames.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import orjson

from playproof.events import Direction
from playproof.game import Frame
from playproof.games.crash.rules.actions import FULL_SHARE, PERCENTAGES, adjusted
from playproof.games.crash.rules.money import MIN_BET
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import get_world
from playproof.games.crash.server.protocol import BET, BUY, COIN_ADDRESS, SELL, SESSION, event_frame
from playproof.games.crash.server.table import Entry, GameTable, TableMessage
from playproof.money import from_units

SEED = 612
"""Its first two rounds rug on ticks 51 and 18."""
DAY = date(2025, 1, 15)
START = datetime(2025, 1, 15, 12, tzinfo=UTC)
PLAYER_ID = "player-1"
JOINS_AT_MS = 10_500
"""Timer of the first cooldown when the player comes."""
PRESS_MS, ORDER_MS, ACK_MS = 30, 5, 20

Point = tuple[int, Phase, int]
"""Round number, phase and tick."""
Script = Mapping[Point, Sequence[str]]

SCRIPT: Script = {
    (0, Phase.PRESALE, 0): ("INC_01", "BUY"),
    (0, Phase.ACTIVE, 1): ("SIDEBET",),
    (0, Phase.ACTIVE, 4): ("SELL_50", "SELL"),
    (0, Phase.ACTIVE, 6): ("DOUBLE", "INC_001", "BUY"),
    (0, Phase.ACTIVE, 9): ("SELL",),
    (0, Phase.ACTIVE, 12): ("SELL_100", "SELL"),
    (0, Phase.ACTIVE, 14): ("SELL",),  # refused: nothing is held
    (0, Phase.ACTIVE, 20): ("MAX", "HALF"),
    (0, Phase.ACTIVE, 44): ("CLEAR", "INC_10", "BUY"),  # sold by the rug
    (1, Phase.PRESALE, 0): ("HALF", "SIDEBET"),  # won
    (1, Phase.ACTIVE, 3): ("BUY",),
    (1, Phase.ACTIVE, 5): ("BUY",),
    (1, Phase.ACTIVE, 7): ("SELL_25", "SELL"),
}


class SampleRecorder:
    """Sit one scripted player down at a table and keep every frame of his socket and page."""

    def __init__(self, table_seed: int, script: Script, *, world: str = "published", crowded: bool = True) -> None:
        self.now = START
        self.frames: list[Frame] = []
        self.log: list[Entry] = []
        """The table's own log of orders and fills."""
        self.table = GameTable(get_world(world), table_seed, lambda: self.now, day=DAY, crowded=crowded, log=self.log)
        self._script, self._bet, self._share, self._orders = script, MIN_BET, FULL_SHARE, 0

    def join(self) -> None:
        """Connect the player, and let the table say how it stands."""
        self.table.join(PLAYER_ID, "Sam")
        self._keep('0{"sid":"sample","upgrades":[],"pingInterval":25000,"pingTimeout":20000}')
        self._keep("40", "sent")
        self._keep('40{"sid":"sample"}')
        self._keep(event_frame(SESSION, [{"playerId": PLAYER_ID, "name": "Sam", "world": self.table.world.name}]))
        self._hear(self.table.greet(PLAYER_ID))

    def beat(self) -> None:
        """Move the table by one beat, and let the player press what the script says for it."""
        before = self._point()
        self.now += timedelta(milliseconds=self.table.wait_ms)
        self._hear(self.table.advance())
        if self._point()[0] != before[0]:
            self._share = FULL_SHARE
        if self._point() != before:
            for button in self._script.get(self._point(), ()):
                self._press(button)

    def _point(self) -> Point:
        return self.table.number, self.table.phase, self.table.tick

    def _keep(self, text: str, direction: Direction = "received", after_ms: int = 0) -> None:
        self.frames.append(Frame(self.now + timedelta(milliseconds=after_ms), text, direction))

    def _hear(self, messages: Iterable[TableMessage], after_ms: int = 0) -> None:
        for message in messages:
            if message.reaches(PLAYER_ID):
                self._keep(event_frame(message.event, message.arguments), after_ms=after_ms)

    def _press(self, button: str) -> None:
        """Press a button as the page has it."""
        cash = self.table.players[PLAYER_ID].ledger.cash
        self._bet = adjusted(self._bet, cash, button)
        self._share = PERCENTAGES.get(button, self._share)
        self.now += timedelta(milliseconds=PRESS_MS)
        payload = {"button_id": button, "client_timestamp": int(self.now.timestamp() * 1000)}
        self._keep(json.dumps(payload), "none")
        amount = from_units(self._bet)
        orders: Mapping[str, tuple[str, dict[str, object]]] = {
            "BUY": (BUY, {"amount": amount}),
            "SELL": (SELL, {"percentage": self._share}),
            "SIDEBET": (BET, {"amount": amount, "coinAddress": COIN_ADDRESS, "xPayout": 5}),
        }
        if button in orders:
            self._order(*orders[button])

    def _order(self, event: str, payload: dict[str, object]) -> None:
        number, self._orders = self._orders, self._orders + 1
        self._keep(event_frame(event, [payload], number), "sent", ORDER_MS)
        ack = self.table.order(PLAYER_ID, event, payload)
        self._hear(ack.messages, ACK_MS)
        self._keep(f"43{number}{orjson.dumps([ack.body]).decode()}", after_ms=ACK_MS)


def record(seed: int, script: Script, rounds: int, *, world: str = "published", crowded: bool = True) -> SampleRecorder:
    """Record whole rounds of a table, up to the second broadcast of the last one's rug."""
    recording = SampleRecorder(seed, script, world=world, crowded=crowded)
    while recording.table.timer_ms > JOINS_AT_MS:
        recording.table.advance()
    recording.join()
    while (recording.table.number, recording.table.phase) != (rounds - 1, Phase.RUGGED):
        recording.beat()
    recording.beat()
    return recording


def sample() -> tuple[Frame, ...]:
    """Give two rounds of the scripted player."""
    return tuple(record(SEED, SCRIPT, 2).frames)
