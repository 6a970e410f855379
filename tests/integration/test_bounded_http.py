"""Slow, large and many connections are refused, and those beside them are served."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from playproof.net.bounded_http import ConnectionLimits, bounded_protocol, log_rarely
from playproof.net.listening import bind

LIMITS = ConnectionLimits(header_bytes=20_000, header_seconds=1.0, body_seconds=1.5, per_client=20)


async def app(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await PlainTextResponse("ok")(scope, receive, send)


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    taken = bind("127.0.0.1", 0)
    config = uvicorn.Config(app, http=bounded_protocol(LIMITS), log_level="error", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield taken.getsockname()
    server.should_exit = server.force_exit = True
    thread.join(20)


def answer(address: tuple[str, int], data: bytes) -> bytes:
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(data)
        return client.recv(1_000)


def test_slow_and_long_requests_are_ended(address: tuple[str, int]) -> None:
    assert b" 408 " in answer(address, b"")
    assert b" 408 " in answer(address, b"GET / HTTP/1.1\r\nHost: x\r\n")
    assert b" 408 " in answer(address, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
    assert b" 431 " in answer(address, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 21_000)
    with httpx.Client(base_url=f"http://{address[0]}:{address[1]}") as client:
        for size in (0, 100_000, 0):
            assert client.post("/", content=b"x" * size).text == "ok"
        time.sleep(1.2)  # an idle connection is no slow one
        assert client.get("/").text == "ok"


def test_connections_are_counted_and_freed(address: tuple[str, int]) -> None:
    held = [socket.create_connection(address, timeout=10) for _ in range(20)]
    time.sleep(0.2)
    assert b" 503 " in answer(address, b"")
    for client in held:
        client.close()
    time.sleep(0.2)
    assert httpx.get(f"http://{address[0]}:{address[1]}/").text == "ok"


def test_the_same_error_is_logged_rarely(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    log_rarely(loop)
    with caplog.at_level(logging.ERROR):
        for _ in range(1_000):
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": OSError(24)})
    loop.close()
    assert len(caplog.records) == 1
