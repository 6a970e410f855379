"""Run an application of the recorder on a socket until it is told to stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.types import ASGIApp

from playproof.errors import ConfigError
from playproof.net.bounded_http import bounded_protocol, log_rarely


def bind(host: str, port: int) -> socket.socket:
    """Take an address; port 0 takes a free one.

    It names TCP, since asyncio turns off the wait for larger packets only for sockets that do.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        raise ConfigError(f"expected a free address, found {host}:{port}: {error.strerror}; use --port") from error
    return taken


def listen(
    app: ASGIApp,
    taken: socket.socket,
    stopped: Callable[[], Awaitable[None]] | None = None,
    seconds: float | None = None,
) -> None:
    """Serve until Ctrl-C, SIGTERM or some seconds; nothing of requests is logged, since they hold keys."""
    config = uvicorn.Config(
        app, http=bounded_protocol(), log_level="error", access_log=False, lifespan="off", timeout_keep_alive=120
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        log_rarely(loop)
        if seconds is not None:
            loop.call_later(seconds, _stop, server)
        await server.serve(sockets=[taken])
        if stopped is not None:
            await stopped()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        return


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True
