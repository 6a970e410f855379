"""A scripted person at the real page: a table of our own, and hands that press its buttons.

For demonstrations and for recordings without a human. Leaves out: recording (a recorder that is
given the page sees what it would see of a person), and how the scripted human decides (human).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from playproof.games.crash.human import Human, Live, Presser
from playproof.games.crash.live import Player
from playproof.games.crash.protocol import Phase
from playproof.games.crash.server import RunningServer, ServeConfig
from playproof.games.crash.worlds import TICK_MS
from playproof.money import UNIT

PATIENCE_MS = 2000
"""How long a button may take to be pressed before the person gives up on it."""


@dataclass(frozen=True)
class Performance:
    """An address, and what plays there on a Playwright page until the rounds are over."""

    url: str
    drive: Callable[[Any], Awaitable[None]]


@contextmanager
def perform(rounds: int, speed: float, seed: int, name: str = "scripted") -> Iterator[Performance]:
    """Serve a table and lend it a scripted person for some rounds."""
    with RunningServer(ServeConfig(port=0, speed=speed, seed=seed)) as server:
        hands = Hands(server, rounds, speed, np.random.default_rng(seed), name)
        yield Performance(server.url, hands.play)


class Hands:
    """Look at the table, decide, and press the page's buttons."""

    def __init__(self, server: RunningServer, rounds: int, speed: float, rng: np.random.Generator, name: str) -> None:
        self._server, self._rounds, self._speed, self._name = server, rounds, speed, name
        self._presser = Presser(Human(), rng, tick_ms=int(TICK_MS / speed))

    async def play(self, page: Any) -> None:
        """Log in and play until so many rounds have ended."""
        await page.fill("#login-name", self._name)
        await page.click("#login-go")
        first = self._server.table.number
        while self._server.table.number < first + self._rounds:
            live = self._see(float(await page.input_value("#bet") or 0))
            for press in self._presser.see(live) if live else ():
                await asyncio.sleep(press.delay_ms / 1000)
                await page.click(f'[data-button="{press.button_id}"]', timeout=PATIENCE_MS)
            await asyncio.sleep(TICK_MS / 1000 / self._speed / 5)

    def _see(self, bet: float) -> Live | None:
        """Read what the page shows from the table behind it; None before the player is seated."""
        table = self._server.table

        def look() -> Live | None:
            seated: list[Player] = list(table.players.values())
            if not seated or table.phase not in (Phase.PRESALE, Phase.ACTIVE):
                return None
            book = seated[0].ledger
            return Live(
                phase=int(table.phase),
                tick=table.tick,
                price=table.price,
                balance=book.cash / UNIT,
                bet=bet,
                position_qty=book.qty / UNIT,
                avg_entry_price=book.avg_cost / UNIT,
                cumulative_pnl=book.pnl(table.price) / UNIT,
                total_invested=book.invested / UNIT,
            )

        return self._server.call(look)
