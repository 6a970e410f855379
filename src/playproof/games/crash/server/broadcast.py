"""Send one message to hundreds of WebSocket clients as one ready-made piece of bytes.

Without compression a WebSocket frame from the server is the same for everybody. So a message is
encoded and framed once, and a client that keeps up gets all frames of a beat in a single write.
A client that does not, or that polls, gets packets through its Engine.IO queue as always; no
message ever overtakes another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from engineio.packet import MESSAGE, Packet
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from playproof.games.crash.server.table import TableMessage

WRITE = "playproof.write"
"""The ASGI extension by which a connection takes ready frames."""

MAX_BATCH = 16
"""Packets that one poll answers with; some clients refuse more."""


def frame(payload: bytes) -> bytes:
    """Wrap a text in an unmasked WebSocket frame."""
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    if size < 2**16:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


def packet(message: TableMessage) -> Packet:
    """Encode a message once for all who get it."""
    return Packet(MESSAGE, data=f"2{orjson.dumps([message.event, *message.arguments]).decode()}")


def frames(packets: Sequence[Packet]) -> bytes:
    """Frame packets, one after the other."""
    return b"".join(frame(item.encode().encode()) for item in packets)


class FrameWriter(WebSocketsSansIOProtocol):
    """Uvicorn's WebSocket connection, offering the application to write ready frames."""

    def handle_connect(self, event: Request) -> None:
        """Offer the extension along with the handshake."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["extensions"][WRITE] = {"frames": self.write_frames}

    def write_frames(self, data: bytes) -> bool:
        """Write whole frames now; False if the connection is not open or its buffer is full."""
        if not self.handshake_complete or self.close_sent or self.disconnected or not self.writable.is_set():
            return False
        self.transport.write(data)
        return True


class Outbox(asyncio.Queue[Any]):
    """An Engine.IO send queue that writes messages at once while nothing waits before them.

    Its one reader takes a packet, sends it and comes back for the next: while it waits here and the
    queue is empty, everything before has been sent.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.write: Callable[[bytes], bool] | None = None
        self._reader_waits = False
        self._taken = 0

    async def get(self) -> Any:
        """Wait for a packet, the first of a batch."""
        self._reader_waits, self._taken = True, 0
        try:
            return await super().get()
        finally:
            self._reader_waits = False

    def get_nowait(self) -> Any:
        """Take a further packet, as long as polling clients read as many in one answer."""
        if self._taken == MAX_BATCH:
            raise asyncio.QueueEmpty
        self._taken += 1
        return super().get_nowait()

    def put_nowait(self, item: Any) -> None:
        """Send a message at once if possible; pings and the end always go to the reader, which lives on them."""
        if item is None or item.packet_type != MESSAGE or item.binary or not self._write(frames([item])):
            super().put_nowait(item)

    def deliver(self, packets: Sequence[Packet], framed: bytes) -> None:
        """Send packets whose frames are already made."""
        if not self._write(framed):
            for item in packets:
                super().put_nowait(item)

    def _write(self, framed: bytes) -> bool:
        return self.write is not None and self._reader_waits and self.empty() and self.write(framed)
