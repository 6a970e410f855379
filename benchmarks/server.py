"""Measure how fast one crash server's ticks reach many WebSocket clients.

The real server runs in one process and all clients in another, on one machine, so that both read
the same monotonic clock. A delivery is the time from just before the server works a tick out to
the moment the client's process has read it. The clients speak just enough WebSocket to find ticks:
a full client library would measure itself.
"""

from __future__ import annotations

import asyncio
import base64
import multiprocessing
import os
import re
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.errors import PlayproofError
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import TICK_MS, get_world
from playproof.games.crash.server.app import FIXED_DAY, CrashServer, ServeConfig, listen
from playproof.games.crash.server.round_schedule import deal
from playproof.games.crash.server.table import GameTable

CLIENTS = 200
SECONDS = 20.0
CONNECT_S = 30.0
"""Longest wait for all clients to connect."""
GOAL_P99_MS = 60.0

Tick = tuple[str, int]
"""gameId and tickCount."""

_TICK = re.compile(rb'^42\["gameStateUpdate",\{"active":true,.*?"tickCount":(\d+),.*"gameId":"([^"]+)"', re.DOTALL)


def masked(opcode: int, payload: bytes) -> bytes:
    """Write a short client frame; a mask of zeros leaves the payload as it is."""
    return bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload


def frames(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take the complete frames out of a buffer as (opcode, payload)."""
    while len(buffer) >= 2:
        size, start = buffer[1] & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < max(start, start + size):
            return
        yield buffer[0] & 0x0F, bytes(buffer[start : start + size])
        del buffer[: start + size]


@dataclass
class Listener(asyncio.Protocol):
    """One client: connect, answer pings, note when each tick came."""

    host: str
    port: int
    got: dict[Tick, float]
    joined: asyncio.Future[None]
    buffer: bytearray = field(default_factory=bytearray)
    open: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        lines = (
            "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        )
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def data_received(self, data: bytes) -> None:
        """Note the time first, then look at what came."""
        now = time.monotonic()
        self.buffer += data
        if not self.open:
            head, result, rest = bytes(self.buffer).partition(b"\r\n\r\n")
            if not result:
                return
            if b" 101 " not in head.split(b"\r\n")[0]:
                self.joined.set_exception(PlayproofError(f"the server refused a client: {head[:80]!r}"))
                return
            self.open, self.buffer = True, bytearray(rest)
        for opcode, payload in frames(self.buffer):
            self._take(opcode, payload, now)

    def _take(self, opcode: int, payload: bytes, now: float) -> None:
        if opcode == 9:
            self.transport.write(masked(10, payload))
        elif payload[:1] == b"0":
            self.transport.write(masked(1, b"40"))
        elif payload == b"2":
            self.transport.write(masked(1, b"3"))
        elif payload[:2] == b"40":
            self.joined.set_result(None)
        elif tick := _TICK.match(payload[:30_000]):
            self.got[tick[2].decode(), int(tick[1])] = now


async def _listen_all(host: str, port: int, clients: int, pipe: Connection) -> list[dict[Tick, float]]:
    """Connect all clients, say so, and listen until told to stop."""
    loop = asyncio.get_running_loop()
    got: list[dict[Tick, float]] = [{} for _ in range(clients)]
    listeners = [Listener(host, port, ticks, loop.create_future()) for ticks in got]
    for listener in listeners:
        await loop.create_connection(lambda listener=listener: listener, host, port)  # type: ignore[misc]
    await asyncio.wait_for(asyncio.gather(*(listener.joined for listener in listeners)), CONNECT_S)
    pipe.send("connected")
    await loop.run_in_executor(None, pipe.recv)
    for listener in listeners:
        listener.transport.abort()
    return got


def run_clients(port: int, clients: int, pipe: Connection) -> None:
    """Be the clients' process."""
    pipe.send(asyncio.run(_listen_all("127.0.0.1", port, clients, pipe)))


def long_seed(ticks: int) -> int:
    """Find a seed whose first round lasts so many ticks."""
    world = get_world("published")
    return next(seed for seed in range(100_000) if deal(world, seed, 0, FIXED_DAY).played.rug_tick > ticks)


def run_server(seconds: float, pipe: Connection) -> None:
    """Be the server's process: stand before tick 0 until told to go, then play and report when each tick was sent."""
    sent: dict[Tick, float] = {}

    def note(table: GameTable, started: float) -> None:
        if table.phase is Phase.ACTIVE and table.tick > 0:
            sent[table.game_id, table.tick] = started

    config = ServeConfig(port=0, seed=long_seed(int(seconds * 1000 / TICK_MS) + 8))
    server, listening = CrashServer(config, observer=note), listen(config.host, 0)
    while server.table.phase is not Phase.PRESALE or server.table.timer_ms > 500:
        server.table.advance()

    async def main() -> None:
        stop, go, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
        beat = server.beat

        async def beat_when_told() -> None:
            await go.wait()
            await beat()

        server.beat = beat_when_told  # type: ignore[method-assign]
        running = asyncio.create_task(server.run(listening, stop, lambda: None))
        pipe.send(listening.getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)
        go.set()
        await loop.run_in_executor(None, pipe.recv)
        stop.set()
        await running

    asyncio.run(main())
    pipe.send((sent, resource.getrusage(resource.RUSAGE_SELF).ru_utime))


@dataclass(frozen=True)
class Deliveries:
    """What came of one run."""

    expected: int
    received: int
    milliseconds: list[float]
    """Sorted."""

    def quantile(self, share: float) -> float:
        """Give a quantile of the deliveries, NaN if there was none."""
        if not self.milliseconds:
            return float("nan")
        return self.milliseconds[min(int(share * len(self.milliseconds)), len(self.milliseconds) - 1)]


def compare(sent: dict[Tick, float], got: list[dict[Tick, float]], last: int) -> Deliveries:
    """Lay what the clients got beside the ticks up to `last` that the server sent."""
    due = {tick: at for tick, at in sent.items() if tick[1] <= last}
    delays = [1000 * (ticks[tick] - at) for ticks in got for tick, at in due.items() if tick in ticks]
    return Deliveries(len(due) * len(got), len(delays), sorted(delays))


def measure(seconds: float, clients: int) -> Deliveries:
    """Run server and clients for some seconds of ticks."""
    context = multiprocessing.get_context("spawn")
    to_server, server_end = context.Pipe()
    to_clients, clients_end = context.Pipe()
    server = context.Process(target=run_server, args=(seconds, server_end), daemon=True)
    server.start()
    port = to_server.recv()
    people = context.Process(target=run_clients, args=(port, clients, clients_end), daemon=True)
    people.start()
    to_clients.recv()
    to_server.send("go")
    time.sleep(seconds + 1.0)
    to_clients.send("stop")
    got: list[dict[Tick, float]] = to_clients.recv()
    to_server.send("stop")
    sent, _ = to_server.recv()
    server.join(5)
    people.join(5)
    return compare(sent, got, int(seconds * 1000 / TICK_MS))


def run(seconds: float = SECONDS, clients: int = CLIENTS) -> dict[str, Any]:
    """Measure, and report beside the goals."""
    result = measure(seconds, clients)
    missed = result.expected - result.received
    results = (
        Measurement("clients", clients, "clients"),
        Measurement("ticks_expected", result.expected, "deliveries"),
        Measurement("ticks_received", result.received, "deliveries"),
        Measurement("delivery_p50", result.quantile(0.50), "ms"),
        Measurement("delivery_p99", result.quantile(0.99), "ms"),
        Measurement("delivery_max", result.quantile(1.0), "ms"),
    )
    goals = (
        Goal.at_most("missed", missed, 0),
        Goal.at_most("delivery_p99_ms", result.quantile(0.99), GOAL_P99_MS),
    )
    return BenchmarkReport("server", results, goals).to_json()
