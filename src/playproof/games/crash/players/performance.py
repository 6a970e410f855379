"""A scripted person at a table of our own: on the real page, or over its socket where there is no browser.

For demonstrations and for recordings without a human.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import socketio

from playproof.games.crash.players.human import Human, Live, ScriptedPresser
from playproof.games.crash.rules.actions import BETS, adjusted
from playproof.games.crash.rules.money import MIN_BET
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import TICK_MS
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.games.crash.server.protocol import BET, BUY, SELL, SESSION
from playproof.games.crash.server.table import GameTable, TablePlayer
from playproof.money import UNIT

PATIENCE_MS = 10_000
"""How long a button may take to be pressed before the person gives up on it."""


class Presser(Protocol):
    """What a scripted person presses with."""

    async def bet(self) -> float:
        """Read the bet field, in coins."""

    async def press(self, button_id: str) -> None:
        """Press a button."""


class PagePresser:
    """Press the buttons of the page in a browser."""

    def __init__(self, page: Any) -> None:
        self._page = page

    async def bet(self) -> float:
        """Read the bet field."""
        return float(await self._page.input_value("#bet") or 0)

    async def press(self, button_id: str) -> None:
        """Click."""
        await self._page.click(f'[data-button="{button_id}"]', timeout=PATIENCE_MS)


class SocketPresser:
    """Keep the bet field, and send what the page would send."""

    def __init__(self, client: socketio.AsyncClient, table: GameTable) -> None:
        self._client, self._table = client, table
        self._bet, self._share, self._round = MIN_BET, 100, table.number

    async def bet(self) -> float:
        """Tell the bet field."""
        return self._bet / UNIT

    async def press(self, button_id: str) -> None:
        """Adjust the bet field or the share, or send the order."""
        if self._round != self._table.number:
            self._share, self._round = 100, self._table.number
        if button_id in BETS:
            (player,) = self._table.players.values()
            self._bet = adjusted(self._bet, player.ledger.cash, button_id)
        elif button_id == "SELL":
            await self._client.call(SELL, {"percentage": self._share})
        elif button_id in ("BUY", "SIDEBET"):
            await self._client.call(BUY if button_id == "BUY" else BET, {"amount": self._bet / UNIT, "xPayout": 5})
        else:
            self._share = int(button_id.removeprefix("SELL_"))


class Performance:
    """A served table and the scripted person who plays some rounds at it."""

    def __init__(self, server: RunningServer, rounds: int, speed: float, rng: np.random.Generator, name: str) -> None:
        self._server, self._rounds, self._speed, self._name = server, rounds, speed, name
        self._presser = ScriptedPresser(Human(), rng, tick_ms=int(TICK_MS / speed))

    @property
    def url(self) -> str:
        """Give the address of the page and of its socket."""
        return self._server.url

    async def drive(self, page: Any) -> None:
        """Log in on a Playwright page and play there until the rounds are over."""
        await page.fill("#login-name", self._name)
        await page.click("#login-go")
        await self._play(PagePresser(page))

    async def join(self) -> tuple[dict[str, str], Callable[[], Awaitable[None]]]:
        """Sit down over the socket; give what lets a second connection be the same player, and the playing."""
        client = socketio.AsyncClient()
        future: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

        def take_session(*arguments: Any) -> None:
            if not future.done():  # a reconnect says it again
                future.set_result({"token": arguments[-1]["token"]})

        client.on(SESSION, take_session)
        await client.connect(self.url, transports=["websocket"], auth={"name": self._name})

        async def play() -> None:
            await self._play(SocketPresser(client, self._server.table))
            await client.disconnect()

        return await future, play

    async def _play(self, fingers: Presser) -> None:
        table = self._server.table
        begun = table.phase is not Phase.COOLDOWN  # a round that was under way counts as none
        last = table.number + self._rounds + begun
        while table.number < last:
            live = self._see(await fingers.bet())
            for press in self._presser.see(live) if live else ():
                await asyncio.sleep(press.delay_ms / 1000)
                await fingers.press(press.button_id)
            await asyncio.sleep(TICK_MS / 1000 / self._speed / 5)

    def _see(self, bet: float) -> Live | None:
        """Read what a person sees from the table; None while there is nothing to decide."""
        table = self._server.table

        def look() -> Live | None:
            seated: list[TablePlayer] = list(table.players.values())
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


@contextmanager
def perform(rounds: int, speed: float, seed: int, name: str = "scripted") -> Iterator[Performance]:
    """Serve a table and lend it a scripted person for some rounds."""
    with RunningServer(ServeConfig(port=0, speed=speed, seed=seed)) as server:
        yield Performance(server, rounds, speed, np.random.default_rng(seed), name)
