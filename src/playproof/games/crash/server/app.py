"""Serve a crash table over Socket.IO (Engine.IO 4), with the page on which a person plays.

Leaves out: the game itself (live) and who gets in (entrance). One process, one table, one event
loop; state lives in memory and ends with the process.

A message is encoded once, however many clients get it (fanout). Beats follow deadlines, not
pauses, so that the schedule does not drift.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import secrets
import signal
import socket
import threading
import time
import unicodedata
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
import socketio
import uvicorn
from engineio.packet import Packet
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from playproof.errors import ConfigError, PlayproofError
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import PUBLISHED, TICK_MS, get_world
from playproof.games.crash.server.access import MAX_INPUT, AccessRules, SocketGuard, read_token
from playproof.games.crash.server.broadcast import WRITE, FrameWriter, Outbox, frames, packet
from playproof.games.crash.server.protocol import ORDERS, SESSION, payload_of
from playproof.games.crash.server.table import Ack, Entry, GameTable, TableMessage
from playproof.net.access import is_loopback
from playproof.reports.page import STATIC

PAGE = Path(__file__).parent / "page"
DEFAULT_PORT = 8777
MAX_SPEED = 1000.0
MAX_NAME = 24
MAX_PLAYERS = 10_000
MAX_BACKLOG = 20_000
"""Messages that may wait for a slow client before it is cut off."""
LATE_S = 2.0
"""A beat later than this shifts the schedule instead of being caught up."""
FIXED_DAY = date(2025, 1, 1)
"""The day in the game ids of a fixed seed, so that its rounds are the same on every run."""

T = TypeVar("T")
Observer = Callable[[GameTable, float], None]
"""Called after every beat with the table and the monotonic time just before the beat."""


@dataclass(frozen=True)
class ServeConfig:
    """How to serve a table."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 takes any free port."""
    speed: float = 1.0
    """Divides every interval."""
    world: str = "published"
    seed: int | None = None
    """Fixes all rounds; None draws one that nobody knows."""
    token_file: Path | None = None
    """Where the access token lies; needed for an address that others can reach."""
    manual: bool = False
    """Beat only when told to (`CrashServer.step`), and do not limit the rate of orders."""
    crowded: bool = True
    """Let bystanders trade."""
    max_connections: int = 1000
    orders_per_second: float = 50.0
    """For each player; times the speed if that is above 1."""

    def __post_init__(self) -> None:
        get_world(self.world)
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"expected a port of 0 to 65535, found {self.port}")
        if not (math.isfinite(self.speed) and 0 < self.speed <= MAX_SPEED):
            raise ConfigError(f"expected a speed above 0 and at most {MAX_SPEED:g}, found {self.speed}")
        if self.token_file is None and not is_loopback(self.host):
            raise ConfigError(
                f"expected a token file for {self.host}, which others can reach;"
                " give --token-file PATH (it is made if it is not there) or bind 127.0.0.1"
            )


@dataclass
class _Client:
    """One connection of a player; a player may have several."""

    player_id: str
    eio_sid: str
    outbox: Outbox


@dataclass
class Bucket:
    """Let through a number of orders a second, with a burst of as many."""

    rate: float
    now: Callable[[], float]
    level: float = field(init=False)
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.level, self.last = self.rate, self.now()

    def take(self) -> bool:
        """Take one, if there is one."""
        now = self.now()
        self.level = min(self.rate, self.level + (now - self.last) * self.rate)
        self.last = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True


def clean_name(name: object) -> str:
    """Give a player's name as it is shown; empty when none was given, ConfigError when it cannot be shown."""
    if name is None:
        return ""
    text = unicodedata.normalize("NFC", name).strip() if isinstance(name, str) else "\n"
    if len(text) > MAX_NAME or not text.isprintable():
        raise ConfigError(f"expected a name of at most {MAX_NAME} printable characters")
    return text


class CrashServer:
    """Connect a table to its players."""

    def __init__(
        self, config: ServeConfig, *, log: list[Entry] | None = None, observer: Observer | None = None
    ) -> None:
        self.config = config
        self.access_token = read_token(config.token_file) if config.token_file else None
        seed = secrets.randbits(256) if config.seed is None else config.seed
        day = None if config.seed is None else FIXED_DAY
        self.table = GameTable(
            get_world(config.world), seed, lambda: datetime.now(UTC), day=day, crowded=config.crowded, log=log
        )
        self._observer = observer
        self._clients: dict[str, _Client] = {}
        self._players: dict[str, str] = {}
        """Player id by the hash of the player's token."""
        self._buckets: dict[str, Bucket] = {}
        self._sio = socketio.AsyncServer(
            async_mode="asgi",
            cors_allowed_origins=[],
            max_http_buffer_size=MAX_INPUT,
            async_handlers=False,
            http_compression=False,
        )
        self._sio.eio.create_queue = Outbox
        self._sio.on("connect", self._connect)
        self._sio.on("disconnect", self._disconnect)
        for kind in ORDERS:
            self._sio.on(kind, self._taker(kind))
        self.app = self._build_app()

    def _build_app(self) -> ASGIApp:
        routes = [
            Route("/healthz", self._health),
            Route("/api/rounds/{game_id}", self._round),
            Mount("/static", StaticFiles(directory=STATIC)),
            Mount("/", StaticFiles(directory=PAGE, html=True)),
        ]
        rules = AccessRules(is_loopback(self.config.host), self.access_token)
        inner = socketio.ASGIApp(self._sio, _page_headers(Starlette(routes=routes)))
        return SocketGuard(inner, rules, lambda: len(self._sio.eio.sockets) >= self.config.max_connections)

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _round(self, request: Request) -> Response:
        """Give a finished round with its seed."""
        result = self.table.revealed(request.path_params["game_id"])
        if result is None:
            return JSONResponse({"error": "this round is not known, or not over"}, 404)
        return Response(orjson.dumps(result), media_type="application/json")

    async def _connect(self, sid: str, environ: Any, auth: Any = None) -> None:
        """Log a client in: with a known token as that player, else as a new one."""
        auth = auth if isinstance(auth, dict) else {}
        try:
            name = clean_name(auth.get("name"))
        except ConfigError as error:
            raise socketio.exceptions.ConnectionRefusedError(str(error)) from None
        token = auth.get("token")
        player_id = self._players.get(_hashed(token)) if isinstance(token, str) else None
        if player_id is None:
            player_id, token = self._new_player(name)
        elif name:
            self.table.join(player_id, name)
        eio_sid = self._sio.manager.eio_sid_from_sid(sid, "/")
        client = _Client(player_id, eio_sid, self._sio.eio.sockets[eio_sid].queue)
        client.outbox.write = environ["asgi.scope"].get("extensions", {}).get(WRITE, {}).get("frames")
        asyncio.get_running_loop().call_soon(self._welcome, sid, client, token)

    def _new_player(self, name: str) -> tuple[str, str]:
        if len(self.table.players) >= MAX_PLAYERS and not self._forget_somebody():
            raise socketio.exceptions.ConnectionRefusedError("the table has no place left")
        token, player_id = secrets.token_urlsafe(24), f"player-{secrets.token_hex(8)}"
        self._players[_hashed(token)] = player_id
        self.table.join(player_id, name or f"guest-{player_id[-4:]}")
        return player_id, token

    def _forget_somebody(self) -> bool:
        """Free the place of somebody who is not here and never played."""
        here = {client.player_id for client in self._clients.values()}
        for hashed, player_id in self._players.items():
            if player_id not in here and not self.table.players[player_id].interacted:
                del self._players[hashed]
                self._buckets.pop(player_id, None)
                self.table.leave(player_id)
                return True
        return False

    def _welcome(self, sid: str, client: _Client, token: str) -> None:
        """Tell a client who it is and how the game stands; it hears everything from here on."""
        player, table = self.table.players[client.player_id], self.table
        session = {
            "playerId": player.id,
            "token": token,
            "name": player.name,
            "world": table.world.name,
            "summary": table.world.summary,
            "verifiable": table.world.code == PUBLISHED,
            "payout": table.payout,
            "speed": self.config.speed,
            "tickMs": TICK_MS,
        }
        self._clients[sid] = client
        greeting = [packet(message) for message in (TableMessage(SESSION, (session,)), *table.greet(player.id))]
        self._give(sid, client, greeting, frames(greeting))

    async def _disconnect(self, sid: str, _reason: object = None) -> None:
        self._clients.pop(sid, None)

    def _taker(self, kind: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def take(sid: str, *arguments: object) -> Any:
            ack = self._order(sid, kind, payload_of(arguments))
            self.send(ack.messages)
            return ack.body

        return take

    def _order(self, sid: str, kind: str, payload: object) -> Ack:
        client = self._clients.get(sid)
        if client is None:
            return Ack({"success": False, "reason": "expected a player who is logged in"})
        if not self._within_rate(client.player_id):
            return Ack({"success": False, "reason": "too many orders; slow down"})
        return self.table.order(client.player_id, kind, payload)

    def _within_rate(self, player_id: str) -> bool:
        if self.config.manual:
            return True
        rate = self.config.orders_per_second * max(1.0, self.config.speed)
        return self._buckets.setdefault(player_id, Bucket(rate, time.monotonic)).take()

    def send(self, messages: Iterable[TableMessage]) -> None:
        """Give messages to the clients they are meant for."""
        ready = [(message, packet(message)) for message in messages]
        special = {player for message, _ in ready for player in (message.to, *message.without) if player}
        everybody = [sent for message, sent in ready if message.to is None]
        framed = frames(everybody)
        for sid, client in list(self._clients.items()):
            if client.player_id not in special:
                self._give(sid, client, everybody, framed)
            else:
                own = [sent for message, sent in ready if message.reaches(client.player_id)]
                self._give(sid, client, own, frames(own))

    def _give(self, sid: str, client: _Client, packets: list[Packet], framed: bytes) -> None:
        if client.outbox.qsize() + len(packets) > MAX_BACKLOG:
            self._clients.pop(sid, None)
            self._sio.start_background_task(self._sio.eio.disconnect, client.eio_sid)
        elif packets:
            client.outbox.deliver(packets, framed)

    def step(self) -> None:
        """Move the table by one beat and tell everybody; from the event loop's thread."""
        started = time.monotonic()
        self.send(self.table.advance())
        if self._observer is not None:
            self._observer(self.table, started)

    async def beat(self) -> None:
        """Move the table on time, for ever."""
        deadline = time.monotonic()
        while True:
            deadline += self.table.wait_ms / 1000 / self.config.speed
            pause = deadline - time.monotonic()
            if pause < -LATE_S:
                deadline = time.monotonic()
            await asyncio.sleep(max(0.0, pause))
            self.step()

    async def run(self, listening: socket.socket, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Serve on a bound socket until told to stop."""
        server = _Uvicorn(
            uvicorn.Config(
                self.app,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws=FrameWriter,
                ws_per_message_deflate=False,
                ws_max_size=MAX_INPUT,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        tasks = [asyncio.create_task(server.serve(sockets=[listening])), asyncio.create_task(stop.wait())]
        if not self.config.manual:
            tasks.append(asyncio.create_task(self.beat()))
        ready()
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        for task in tasks[1:]:
            task.cancel()
        await asyncio.wait(tasks[:1], timeout=0.6)
        server.force_exit = True
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sio.shutdown()
        for task in done:
            task.result()


class _Uvicorn(uvicorn.Server):
    """Leave signals to whoever runs this."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal."""
        yield


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _page_headers(app: ASGIApp) -> ASGIApp:
    """Add the headers that keep the page to itself."""
    policy = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    extra = [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
    ]

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        async def with_headers(event: Any) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], *extra]}
            await send(event)

        await app(scope, receive, with_headers)

    return wrapped


def listen(host: str, port: int) -> socket.socket:
    """Bind the address, or say why not."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # connections inherit it; without it an answer that follows another message waits 40 ms
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise ConfigError(
            f"expected a free address, found {host}:{port}: {error.strerror}; give another port"
        ) from None


def address(listening: socket.socket, host: str) -> str:
    """Give the address at which a browser finds the page."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


def serve(config: ServeConfig, announce: Callable[[str], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM; `announce` gets the page's address once it can be opened."""
    server, listening = CrashServer(config), listen(config.host, config.port)
    url = address(listening, config.host)
    access = f"/?access={server.access_token}" if server.access_token else ""

    def ready() -> None:
        if announce is not None:
            announce(url + access)

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await server.run(listening, stop, ready)

    asyncio.run(main())


class RunningServer:
    """Run a server in a thread of its own, for tests, demos and benches.

    A context manager. `call` runs a function where the table may be touched.
    """

    def __init__(
        self, config: ServeConfig, *, log: list[Entry] | None = None, observer: Observer | None = None
    ) -> None:
        self.server = CrashServer(config, log=log, observer=observer)
        self._listening = listen(config.host, config.port)
        self.url = address(self._listening, config.host)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crash-server", daemon=True)
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    @property
    def table(self) -> GameTable:
        """Give the table; read and move it through `call` only."""
        return self.server.table

    def __enter__(self) -> RunningServer:
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise PlayproofError("the server did not start") from self._error
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=5)
        if self._error is not None:
            raise PlayproofError("the server failed") from self._error

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the server's event loop and give what it gives."""

        async def within() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(within(), self._loop).result(timeout=30)

    def step(self, beats: int = 1) -> None:
        """Move the table by so many beats."""
        for _ in range(beats):
            self.call(self.server.step)

    def advance_to(self, phase: Phase, tick: int = 0) -> None:
        """Move the table beat by beat until it stands in a phase and on a tick or after it."""

        def advance() -> None:
            while not (self.table.phase is phase and self.table.tick >= tick):
                self.server.step()

        self.call(advance)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:  # noqa: BLE001  # the thread's edge: the error is raised again by __exit__
            self._error = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self.server.run(self._listening, self._stop, self._ready.set)
