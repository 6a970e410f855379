"""A table that waits for the bot: it moves by a beat only when everything that it said has been played."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.games.crash.server.table import Entry
from playproof.json_types import Json
from playproof.operate.limits import OrderLimits
from playproof.workflows.crash.bot import BotTiming
from playproof.workflows.crash.bot_run import BotPlan, RunningBot, play_bot

PATIENT = BotTiming(oldest=600.0, pause=600.0)
"""A machine that is busy must not look like a tick that is old."""
CALM = OrderLimits(stale_ms=600_000, heartbeat_ms=600_000, clock_jump_ms=600_000, bets_an_hour=100_000)


@dataclass
class Table:
    """A server, its log of orders and fills, and the bot at it."""

    server: RunningServer
    log: list[Entry]
    running: RunningBot | None = None

    async def caught_up(self) -> None:
        """Wait until the bot has played all that the table has said."""
        assert self.running is not None
        bot, table = self.running.bot, self.server.table
        while True:
            here = bot.newest == (table.game_id, int(table.phase), table.tick)
            if (here and bot.handled == bot.came and not bot.events) or self.running.gate.gone.is_set():
                return
            await asyncio.sleep(0.001)

    async def step(self) -> None:
        """Move by one beat and wait for the bot; countdowns are passed in one go."""
        table = self.server.table
        if table.phase in (Phase.COOLDOWN, Phase.PRESALE) and table.timer_ms > 200:
            await asyncio.to_thread(self.server.step, min(20, table.timer_ms // 100 - 1))
        else:
            await asyncio.to_thread(self.server.step)
        await self.caught_up()


@contextmanager
def new_table(seed: int = 12, world: str = "published") -> Iterator[Table]:
    log: list[Entry] = []
    config = ServeConfig(port=0, seed=seed, world=world, manual=True, crowded=False)
    with RunningServer(config, log=log) as server:
        yield Table(server, log)


def play(table: Table, plan: BotPlan, during: Callable[[Table], Awaitable[bool]] | None = None, **changes: Any) -> Json:
    """Run a bot to its end while the table moves; `during` is asked before every beat whether to move on."""
    most = changes.pop("seconds_most", 240)
    plan = replace(plan, url=table.server.url, **({"timing": PATIENT, "limits": CALM} | changes))

    async def drive() -> None:
        while table.running is None or not table.running.bot.newest:
            await asyncio.sleep(0.005)
        await table.caught_up()
        while True:
            if during is None or await during(table):
                await table.step()
            else:
                await asyncio.sleep(0.005)

    async def both() -> Json:
        def ready(running: RunningBot) -> None:
            table.running = running

        driving = asyncio.create_task(drive())
        try:
            return await asyncio.wait_for(play_bot(plan, ready), most)
        finally:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)

    return asyncio.run(both())
