"""Who and what gets in to the crash server: addresses, origins, access tokens, frames.

The rules of net.access for a page and its socket, with a cookie beside the bearer header, and what frames may hold.
Leaves out: players' own tokens (server) and TLS.

- Host: on a loopback address only loopback names, so that no foreign name can point a browser here.
- Origin: on the socket handshake and on everything but GET and HEAD it must be this server; programs send none.
- Access token: where one is set, every path but /healthz needs it, as a cookie or a bearer header;
  opening `/?access=TOKEN` once sets the cookie.
- Frames: text, at most MAX_INPUT bytes, readable; anything else ends the connection.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playproof.errors import ConfigError, DecodeError
from playproof.games.crash.server.protocol import parse_frame
from playproof.net.access import AsgiGuard, admits_host, admits_origin, bearer, private_file

SOCKET_PATH = "/socket.io/"
MAX_INPUT = 16 * 1024
"""Bytes of the largest frame or body that is read."""
COOKIE = "playproof_access"
_SEPARATOR = "\x1e"


def read_token(path: Path) -> str:
    """Read the access token from a file that only its owner may read; make both if there is no file."""
    token = private_file(path, secrets.token_urlsafe(32).encode() + b"\n").decode().strip()
    if len(token) < 16 or not token.isascii() or any(c.isspace() for c in token):
        raise ConfigError(f"expected one token of at least 16 characters in {path}; delete the file to get a new one")
    return token


@dataclass(frozen=True)
class AccessRules:
    """What the entrance asks for."""

    loopback: bool
    token: str | None = None
    """The access token; None where none is needed."""

    def admits_token(self, headers: Mapping[str, str]) -> bool:
        """Tell whether a request carries the access token."""
        if self.token is None:
            return True
        token = bearer(headers)
        shown = [] if token is None else [token]
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        shown += [cookie.value] if cookie else []
        return any(hmac.compare_digest(text.encode(), self.token.encode()) for text in shown)


def readable(frame: str) -> bool:
    """Tell whether a frame from a client may go on to the Socket.IO server; binary ones may not."""
    if len(frame) > MAX_INPUT:
        return False
    if frame.startswith(("2", "3", "5", "6")):
        return len(frame) <= 8
    try:
        return parse_frame(frame, nan=True).kind in ("close", "connect", "disconnect", "event", "ack")
    except DecodeError:
        return False


class SocketGuard(AsgiGuard):
    """Guard the game's pages and sockets; `full` tells whether no further socket may open."""

    def __init__(self, app: ASGIApp, rules: AccessRules, full: Callable[[], bool]) -> None:
        super().__init__(app)
        self._rules, self._full = rules, full

    async def admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a connection over, its frames checked."""
        if scope["type"] == "websocket":
            await self._app(scope, _checked(receive), send)
        elif scope["method"] == "POST" and scope["path"].startswith(SOCKET_PATH):
            await self._post(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def refusal(self, scope: Scope) -> Response | None:
        """Give the answer to who may not come in."""
        headers, path, rules = Headers(scope=scope), scope["path"], self._rules
        host = headers.get("host", "")
        if not admits_host(host, rules.loopback):
            return PlainTextResponse(f"This server is not called {host[:100]!r}.", 421)
        socket = path.startswith(SOCKET_PATH)
        if scope["type"] == "websocket" and not socket:
            return PlainTextResponse(f"There is no socket here, but at {SOCKET_PATH}.", 404)
        asks = socket or scope["method"] not in ("GET", "HEAD")
        if asks and not admits_origin(headers.get("origin"), host):
            return PlainTextResponse("This page may not speak to this server.", 403)
        if path != "/healthz" and not rules.admits_token(headers):
            return self._ask_for_token(scope)
        if socket and b"sid=" not in scope["query_string"] and self._full():
            return PlainTextResponse("The table is full; try again later.", 503)
        return None

    def _ask_for_token(self, scope: Scope) -> Response:
        """Take the token from the address once, or say that one is needed."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("access", [""])[0]
        if scope["path"] == "/" and self._rules.admits_token({"authorization": f"Bearer {given}"}):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, given, httponly=True, samesite="strict", max_age=30 * 86400)
            return answer
        return PlainTextResponse("An access token is needed: open /?access=TOKEN once.", 401)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a polling client's frames through if all of them are readable."""
        body = b""
        more = True
        while more and len(body) <= MAX_INPUT:
            part = await receive()
            if part["type"] != "http.request":
                return
            body += part.get("body", b"")
            more = part.get("more_body", False)
        frames = body.decode("utf-8", "replace").split(_SEPARATOR)
        if len(body) > MAX_INPUT or not all(readable(frame) for frame in frames):
            await PlainTextResponse("Unreadable frames.", 400)(scope, receive, send)
            return

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)


def _checked(receive: Receive) -> Receive:
    """Turn an unreadable frame into the end of the connection."""

    async def checked() -> Message:
        event = await receive()
        if event["type"] == "websocket.receive" and not readable(event.get("text") or ""):
            return {"type": "websocket.disconnect", "code": 1008}
        return event

    return checked
