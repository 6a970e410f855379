"""An HTTP connection with limits: the size of its headers, the time for headers and body, connections of one client.

uvicorn's own protocol waits for ever for headers and keeps whatever comes. Leaves out: who may come in (access).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

RESERVED_DESCRIPTORS = 64
"""File descriptors that are left to the database and files, whoever connects."""


@dataclass(frozen=True)
class ConnectionLimits:
    """What connections may take."""

    header_bytes: int = 64 << 10
    header_seconds: float = 20.0
    body_seconds: float = 120.0
    per_client: int = 256
    connections: int = 1_000

    def most(self) -> int:
        """Give how many connections there may be, with descriptors left over."""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return max(1, min(self.connections, descriptors - RESERVED_DESCRIPTORS))


def bounded_protocol(limits: ConnectionLimits | None = None) -> type[HttpToolsProtocol]:
    """Make the protocol of one server, which counts its connections."""
    bounds = limits or ConnectionLimits()
    clients: Counter[str] = Counter()

    class BoundedHttp(HttpToolsProtocol):
        """One connection within its limits."""

        _timer: asyncio.TimerHandle | None = None
        _client: str | None = None
        _in_headers = True
        _header_bytes = 0

        def connection_made(self, transport: Any) -> None:
            """Take a connection, or refuse it if there are too many."""
            client = str((transport.get_extra_info("peername") or ("",))[0])
            if clients[client] >= bounds.per_client or clients.total() >= bounds.most():
                transport.write(_answer(503, "expected fewer connections; try again later"))
                transport.close()
                return
            self._client = client
            clients[client] += 1
            super().connection_made(transport)
            self._wait(bounds.header_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            """Let a connection go."""
            self._stop_waiting()
            if self._client is not None:
                clients[self._client] -= 1
                if clients[self._client] <= 0:
                    del clients[self._client]
                self._client = None
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Read some bytes; end a connection whose headers are too long."""
            if self._client is None or self.transport.is_closing():
                return
            super().data_received(data)
            if self._in_headers:
                self._header_bytes += len(data)
                if self._header_bytes > bounds.header_bytes:
                    self._refuse(431, f"expected headers of at most {bounds.header_bytes} bytes")

        def on_message_begin(self) -> None:
            """Begin a request."""
            super().on_message_begin()
            self._in_headers, self._header_bytes = True, 0
            self._wait(bounds.header_seconds)

        def on_headers_complete(self) -> None:
            """Go on from headers to the body."""
            self._in_headers = False
            self._wait(bounds.body_seconds)
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            """End a request; its answer has all the time that it needs."""
            self._stop_waiting()
            super().on_message_complete()

        def handle_websocket_upgrade(self) -> None:
            """Hand the connection over to a socket."""
            self._stop_waiting()
            super().handle_websocket_upgrade()

        def _wait(self, seconds: float) -> None:
            self._stop_waiting()
            self._timer = self.loop.call_later(seconds, self._refuse, 408, "expected a whole request sooner")

        def _stop_waiting(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _refuse(self, status: int, message: str) -> None:
            if not self.transport.is_closing():
                self.transport.write(_answer(status, message))
                self.transport.close()

    return BoundedHttp


def _answer(status: int, message: str) -> bytes:
    head = f"HTTP/1.1 {status} Refused\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    return f"{head}content-length: {len(message)}\r\n\r\n{message}".encode()


def log_rarely(loop: asyncio.AbstractEventLoop, seconds: float = 60.0) -> None:
    """Log an error of the loop once, then at most once in some seconds with a count: no traceback fills the disk."""
    logger = logging.getLogger("playproof.net")
    logged: dict[str, tuple[float, int]] = {}

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        what = f"{context.get('message')}: {context.get('exception')}"[:300]
        if len(logged) > 100:
            logged.clear()
        last, count = logged.get(what, (float("-inf"), 0))
        if time.monotonic() - last < seconds:
            logged[what] = (last, count + 1)
            return
        logged[what] = (time.monotonic(), 0)
        logger.error("%s%s", what, f" ({count} more like it)" if count else "")

    loop.set_exception_handler(handle)
