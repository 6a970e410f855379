"""Measure how long a bot takes from a tick to its order on the wire, gate and audit included, beside a bare client.

The real server runs in a process of its own; both times are taken there, by one clock: just before a tick is worked
out, and when the order that answers it has been read. The bare client answers each tick at once from the text of the
frame: no recording, no observation, no policy, no gate. The bot buys and sells in turn, so that every tick has an
order, and each is reserved in the account and written to the audit log, synced, before it leaves.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import connect

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.evaluate.rollout import RolloutOptions
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import CrashServer, ServeConfig, address, listen
from playproof.games.crash.server.table import Ack, GameTable
from playproof.money import UNIT
from playproof.operate.limits import SHARE, OrderLimits
from playproof.validate.examine import Subject
from playproof.workflows.crash.bot import BotTiming
from playproof.workflows.crash.bot_run import BotPlan, play_bot

SECONDS = 45.0
SPEED = 4.0
GOAL_MS = 5.0
QTY, PHASE, ACTIVE = 9, 2, 2
_TICK = re.compile(r'^42\["gameStateUpdate",\{"active":true.*?"rugged":false.*?"tickCount":(\d+)', re.DOTALL)
OPEN = OrderLimits(
    stake_share=SHARE,
    open_positions=10**6,
    daily_loss=SHARE,
    total_loss=SHARE,
    bets_an_hour=10**6,
    raise_after_loss=True,
)
"""So that every tick has an order: limits are looked at, and none refuses."""


class InTurn:
    """Buy, then sell, then buy: an order at every tick."""

    def start(self, lanes: int, rng: np.random.Generator) -> None:
        """Remember nothing."""

    def begin(self, state: None, chosen: Any) -> None:
        """Begin a round."""

    def act(self, obs: Any, state: None) -> Any:  # noqa: ARG002
        """Choose."""
        active = obs[:, PHASE] == ACTIVE
        main = np.where(active, np.where(obs[:, QTY] > 0, 2, 1), 0)
        return np.stack([main, np.zeros(len(obs), np.int64)], axis=1)


def serve(pipe: Connection) -> None:
    """Serve a table until told to stop; give (tick to order) in seconds."""
    delays: list[float] = []
    last = [0.0]

    def note(table: GameTable, started: float) -> None:
        last[0] = started if table.phase is Phase.ACTIVE else 0.0

    server = CrashServer(ServeConfig(port=0, seed=5, speed=SPEED, crowded=False), observer=note)
    take = server._order

    def order(sid: str, kind: str, payload: object) -> Ack:
        now = time.monotonic()
        if last[0]:
            delays.append(now - last[0])
            last[0] = 0.0  # one order a tick is measured
        return take(sid, kind, payload)

    server._order = order  # type: ignore[method-assign]
    listening = listen("127.0.0.1", 0)
    pipe.send(address(listening, "127.0.0.1"))

    async def main() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), stop.set)
        await server.run(listening, stop, lambda: None)

    asyncio.run(main())
    pipe.send(delays)


async def answer_at_once(url: str) -> None:
    """Be the bare client."""
    async with connect(url.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket", max_size=None) as wire:
        await wire.recv()
        await wire.send("40")
        number = 0
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            text = str(await wire.recv())
            if text == "2":
                await wire.send("3")
            elif _TICK.match(text):
                sells = number % 2
                payload = '["sellOrder",{"percentage":100}]' if sells else '["buyOrder",{"amount":0.001}]'
                await wire.send(f"42{number}{payload}")
                number += 1


async def be_a_bot(url: str) -> None:
    """Be the bot, with everything."""
    subject = Subject("in turn", InTurn(), "0" * 64, "bench", UNIT, RolloutOptions("policy", "buttons"))
    with tempfile.TemporaryDirectory() as home:
        plan = BotPlan(
            subject, url, mode="practice", seconds=SECONDS, limits=OPEN, timing=BotTiming(5.0, 5.0), path=Path(home)
        )
        await play_bot(plan)


def measure(play: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Give the delays of one player in milliseconds."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,))
    process.start()
    asyncio.run(play(mine.recv()))
    mine.send("stop")
    delays: list[float] = mine.recv()
    process.join()
    return np.array(delays) * 1000


def run() -> dict[str, Any]:
    """Measure both."""
    bare, bot = measure(answer_at_once), measure(be_a_bot)
    figures = {
        f"{name}, p{share}": float(np.percentile(of, share))
        for name, of in (("bare client", bare), ("bot behind the gate", bot))
        for share in (50, 99)
    }
    more = figures["bot behind the gate, p99"] - figures["bare client, p99"]
    return BenchmarkReport(
        "bot",
        (
            *(Measurement(name, value, "ms") for name, value in figures.items()),
            Measurement("orders of the bare client", len(bare), "orders"),
            Measurement("orders of the bot", len(bot), "orders"),
        ),
        (Goal.at_most("p99 of the bot above the bare client, ms", more, GOAL_MS),),
    ).to_json()
