"""Record a Socket.IO feed: every frame as it came, in the order of arrival.

python-socketio keeps the connection; the frames are taken one layer below it, as Engine.IO texts of
the WebSocket, so that what is stored is what came: both arguments, acks, pings, and frames that no
library could read. The library sees only the frames that keep a connection alive, and nothing that
a feed sends can stop the recording.
Leaves out: decoding, redaction and the store (recorder); polling, which no live feed needs.

A lost connection is made again with growing pauses, for ever, as the same player where the server
told a token; the recorder then notes a gap with the last tick before and the first one after.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
import socketio
from aiohttp import WSMessage, WSMsgType

from playproof.errors import ConfigError, PlayproofError
from playproof.events import Direction, Event
from playproof.game import Frame
from playproof.json_types import Json
from playproof.record.recorder import Clock, Recorder

SESSION_EVENT = "playproof/session"
"""With it the product's own servers tell a player the token that brings him back."""
MAX_MESSAGE = 64 * 2**20
"""Bytes above which the connection is given up; the recorder itself refuses frames far smaller."""
_KEEPS_ALIVE = ("0", "1", "2", "3", "40", "41", "44")
"""How the frames begin that the library has to see."""


@dataclass(frozen=True)
class Backoff:
    """How long to wait before the connection is made again."""

    first: float = 0.5
    """Seconds; doubled each time that it fails."""
    longest: float = 30.0
    jitter: float = 0.3
    """Share of the pause by which it is drawn longer or shorter."""

    def pause(self, failures: int, rng: random.Random) -> float:
        """Give the seconds to wait after so many failures in a row."""
        return min(self.longest, self.first * 2.0 ** min(failures, 30)) * (1 + self.jitter * rng.uniform(-1, 1))


Tap = Callable[[str | bytes, Direction], None]


def tapped(tap: Tap) -> type[aiohttp.ClientWebSocketResponse]:
    """Make a WebSocket that shows every message to `tap` and hands on what keeps the connection alive."""

    class Tapped(aiohttp.ClientWebSocketResponse):
        async def receive(self, timeout: float | None = None) -> WSMessage:
            while True:
                message = await super().receive(timeout)
                if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    return message
                tap(message.data, "received")
                if message.type == WSMsgType.TEXT and message.data[:2].startswith(_KEEPS_ALIVE):
                    return message
                await asyncio.sleep(0)  # messages that lie ready do not suspend, and pings must be answered

        async def send_str(self, data: str, compress: int | None = None) -> None:
            tap(data, "sent")
            await super().send_str(data, compress)

        async def send_bytes(self, data: Any, compress: int | None = None) -> None:
            tap(bytes(data), "sent")
            await super().send_bytes(data, compress)

    return Tapped


@dataclass
class SocketFeed:
    """One feed that is recorded until told to stop."""

    url: str
    recorder: Recorder
    clock: Clock
    auth: Mapping[str, Any] = field(default_factory=dict)
    """What the connect frame carries; never stored."""
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = "socket.io"
    backoff: Backoff = Backoff()
    rng: random.Random = field(default_factory=random.Random)
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    on_events: Callable[[tuple[Event, ...]], None] | None = None
    """Gets the events of each frame as soon as they are recorded, on the connection's own loop; must be quick."""
    connected: bool = field(default=False, init=False)
    token: str | None = None
    """What the server knows this player by; a player who comes again with it is the same."""
    _failed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _client: socketio.AsyncClient | None = field(default=None, init=False)
    _failure: PlayproofError | None = field(default=None, init=False)

    async def run(self, stop: asyncio.Event) -> None:
        """Record until `stop` is set."""
        failures, self._failed = 0, asyncio.Event()
        stopping = asyncio.ensure_future(_first(stop, self._failed))
        try:
            while not stop.is_set():
                reason = await self._connection(stopping)
                if self._failure is not None:
                    raise self._failure
                if stop.is_set():
                    return
                failures = 0 if self.connected else failures + 1
                self.connected = False
                self.recorder.interrupt(reason)
                pause = asyncio.ensure_future(self.sleep(self.backoff.pause(failures, self.rng)))
                await asyncio.wait([pause, stopping], return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                self.recorder.counts.reconnects += 1
        finally:
            stopping.cancel()

    async def _connection(self, stopping: asyncio.Future[Any]) -> str:
        """Keep one connection until it is lost, and say why it was."""
        lost = asyncio.Event()
        reasons: list[str] = []
        async with aiohttp.ClientSession(ws_response_class=tapped(self._take)) as http:
            client = socketio.AsyncClient(
                reconnection=False,
                handle_sigint=False,
                http_session=http,
                websocket_extra_options={"max_msg_size": MAX_MESSAGE},
            )

            def note_loss(reason: object = None) -> None:
                reasons.append(str(reason))
                lost.set()

            client.on("disconnect", note_loss)
            self._client = client
            try:
                await client.connect(
                    self.url,
                    headers=dict(self.headers),
                    auth=self._auth(),
                    transports=["websocket"],
                    socketio_path=self.path,
                    wait_timeout=10,
                )
            except (socketio.exceptions.ConnectionError, aiohttp.ClientError, OSError, ValueError, KeyError) as error:
                return f"no connection: {error}"
            self.connected = True
            losing = asyncio.create_task(lost.wait())
            await asyncio.wait([losing, stopping], return_when=asyncio.FIRST_COMPLETED)
            losing.cancel()
            await client.disconnect()
        return reasons[0] if reasons else "stopped"

    async def send(self, text: str) -> None:
        """Send one frame; it is recorded as every other. Raises OSError where there is no connection."""
        websocket = self._client.eio.ws if self._client is not None and self.connected else None
        if websocket is None or websocket.closed:
            raise ConnectionError("expected a connection to send on, found none")
        await websocket.send_str(text)

    @property
    def unread(self) -> int:
        """Give the bytes that lie ready and were not read yet: with any, the last tick seen may not be the newest."""
        import array
        import fcntl
        import termios

        websocket = self._client.eio.ws if self._client is not None and self.connected else None
        raw = websocket.get_extra_info("socket") if websocket is not None else None
        if raw is None:
            return 0
        size = array.array("i", [0])
        fcntl.ioctl(raw.fileno(), termios.FIONREAD, size)
        return int(size[0])

    def _auth(self) -> Json | None:
        known = {**self.auth, **({"token": self.token} if self.token else {})}
        return known or None

    def _take(self, payload: str | bytes, direction: Direction) -> None:
        """Record a message, and remember who the server says we are."""
        if direction == "received" and isinstance(payload, str) and payload.startswith(f'42["{SESSION_EVENT}"'):
            self.token = _token_of(payload) or self.token
        if self._failure is None:
            try:
                events = self.recorder.take(Frame(self.clock(), payload, direction))
                if self.on_events is not None:
                    self.on_events(events)
            except PlayproofError as error:
                self._failure = error  # the library would swallow it: `run` raises it
                self._failed.set()


async def _first(*events: asyncio.Event) -> None:
    """Wait for the first of some events."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _token_of(frame: str) -> str | None:
    try:
        payload = orjson.loads(frame[2:])
    except orjson.JSONDecodeError:
        return None
    body = payload[-1] if isinstance(payload, list) else None
    token = body.get("token") if isinstance(body, dict) else None
    return token if isinstance(token, str) else None


def read_auth(text: str) -> Json:
    """Read what the connect frame shall carry, a JSON object."""
    try:
        payload = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        payload = None
    if not isinstance(payload, dict):
        raise ConfigError('expected --auth as a JSON object, such as \'{"name": "Ada"}\'')
    return payload
