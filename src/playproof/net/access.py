"""Who may speak to a server of ours: addresses, hosts, origins, tokens, sizes and rates.

`AsgiGuard` wraps an application and refuses before the application sees anything; `AccessGuard` is the guard of the
trajectory server, the proxy and served models, and the crash server has one of its own for sockets. Roles are deny by
default: a route that no role names is nobody's. Starlette's TrustedHostMiddleware is not used: it answers 400 in other
words and cannot read [::1].
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import orjson
from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playproof.errors import ConfigError

Role = Literal["record", "read", "outcomes", "windows"]
"""What a token may do: write trajectories, read them, write outcomes, see which windows have closed."""
OPEN_PATHS = ("/healthz",)
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
MOST_BYTES = 8 << 20
CLIENTS = 10_000
"""Clients whose rates are remembered."""


@dataclass(frozen=True)
class ClientLimits:
    """What one client may ask for."""

    bytes: int = MOST_BYTES
    """Of one request's body."""
    rate: float = 2_000.0
    """Requests a second, in the long run."""
    burst: float = 4_000.0
    """Requests at once."""


@dataclass(frozen=True)
class RoleTokens:
    """The tokens of each role; without any, everybody who reaches the address may do everything."""

    record: str | None = None
    """Of agents: they record and read trajectories, and never see an outcome."""
    read: str | None = None
    outcomes: str | None = None
    """Of whoever knows what the market did: it writes outcomes, and neither records nor reads trajectories."""

    def roles(self, shown: str | None) -> frozenset[Role]:
        """Give the roles of who shows a token."""
        if self.record is None and self.read is None and self.outcomes is None:
            return frozenset(("record", "read", "outcomes", "windows"))
        given = (shown or "").encode()
        if self.record is not None and hmac.compare_digest(given, self.record.encode()):
            return frozenset(("record", "read", "windows"))
        if self.read is not None and hmac.compare_digest(given, self.read.encode()):
            return frozenset(("read", "windows"))
        if self.outcomes is not None and hmac.compare_digest(given, self.outcomes.encode()):
            return frozenset(("outcomes", "windows"))
        return frozenset()


def private_file(path: Path, made: bytes) -> bytes:
    """Read a file that only its owner may read; write `made` into a new one if there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(made)
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise ConfigError(f"expected token file {path} with mode 600, found {mode:o}; run: chmod 600 {path}")
    return path.read_bytes()


def read_tokens(path: Path) -> RoleTokens:
    """Read the tokens from a file that only its owner may read; make all three if there is no file.

    A file without a token for outcomes lets nobody write outcomes.
    """
    made = orjson.dumps({name: secrets.token_urlsafe(32) for name in ("record", "read", "outcomes")})
    try:
        payload = orjson.loads(private_file(path, made))
        given = payload.get("outcomes")
        tokens = RoleTokens(str(payload["record"]), str(payload["read"]), None if given is None else str(given))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"expected an object with record, read and outcomes in {path}; delete it to get new tokens"
        ) from error
    held = [token for token in (tokens.record, tokens.read, tokens.outcomes) if token is not None]
    if min(map(len, held)) < 16:
        raise ConfigError(f"expected tokens of at least 16 characters in {path}; delete it to get new ones")
    if len(set(held)) < len(held):
        raise ConfigError(f"expected a token of its own for each role in {path}, found one twice; delete it to get new")
    return tokens


def is_loopback(host: str) -> bool:
    """Tell whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, tokens: RoleTokens) -> None:
    """Refuse to listen beyond this machine without tokens."""
    if not is_loopback(host) and tokens.record is None:
        raise ConfigError(f"expected tokens for an address that others can reach, found none for {host}; use --tokens")


def role_of(method: str, path: str) -> Role | None:
    """Give the role that a request below /v1/ needs."""
    if path == "/v1/outcomes" or path.startswith("/v1/outcomes/"):
        return "outcomes" if method in ("POST", "PUT") else None
    if path == "/v1/windows":
        return "windows" if method in ("GET", "HEAD") else None
    if method in ("GET", "HEAD") and (path.startswith("/v1/") or path == "/openapi.json"):
        return "read"
    return "record" if method == "POST" and path.startswith("/v1/") else None


@dataclass
class _Bucket:
    left: float
    at: float


@dataclass
class AccessPolicy:
    """What the entrance knows: who may come in, how often, how much."""

    tokens: RoleTokens = field(default_factory=RoleTokens)
    limits: ClientLimits = field(default_factory=ClientLimits)
    loopback: bool = True
    roles: Callable[[str, str], Role | None] = role_of
    """Give the role that a method on a path needs; None for nobody."""
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def refusal(self, method: str, path: str, headers: Mapping[str, str], client: str) -> tuple[int, str] | None:
        """Give the status and the words of a refusal; None for who may come in."""
        refused = self._foreign(method, headers)
        if refused is not None or path in OPEN_PATHS:
            return refused
        shown = bearer(headers)
        held = self.tokens.roles(shown)
        if not held:
            return 401, "expected a token as: Authorization: Bearer TOKEN"
        needed = self.roles(method, path)
        if needed not in held:
            return 403, f"expected a token that may do this{f', of the role {needed}' if needed else ''}"
        return None if self._admits(shown or client) else (429, "expected fewer requests; wait a second")

    def _foreign(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Refuse other hosts' names, and pages of other servers."""
        host = headers.get("host", "")
        if not admits_host(host, self.loopback):
            return 421, "expected a host name of this server"
        if method not in ("GET", "HEAD") and not admits_origin(headers.get("origin"), host):
            return 403, "expected no page, or one of this server"
        return None

    def _admits(self, client: str) -> bool:
        """Take one request from a client's bucket, which fills at the rate."""
        now, limits = self.clock(), self.limits
        bucket = self._buckets.setdefault(client, _Bucket(limits.burst, now))
        self._buckets.move_to_end(client)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        bucket.left = min(limits.burst, bucket.left + (now - bucket.at) * limits.rate)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True


def bearer(headers: Mapping[str, str]) -> str | None:
    """Give the token that a request shows."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def scope_of(headers: Mapping[str, str]) -> str:
    """Name whose idempotency keys these are, without telling the token."""
    return hashlib.sha256((bearer(headers) or "").encode()).hexdigest()[:16]


def admits_host(host: str, loopback: bool) -> bool:
    """Tell whether a Host header names this server; on a loopback address only loopback names do.

    So no foreign name can point a browser here.
    """
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return bool(name) and (not loopback or name in LOOPBACK_NAMES)


def admits_origin(origin: str | None, host: str) -> bool:
    """Tell whether a request comes from this server's own page, or from no page at all."""
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


class AsgiGuard(ABC):
    """Wrap an ASGI application: a request or a socket is refused before the application sees it, or let in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    @abstractmethod
    def refusal(self, scope: Scope) -> Response | None:
        """Give the answer to who may not come in; None for who may."""

    async def admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand over who was let in."""
        await self._app(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a connection in or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self.refusal(scope)
        if refusal is None:
            await self.admit(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.http.response.start", "status": refusal.status_code, "headers": []})
            await send({"type": "websocket.http.response.body", "body": bytes(refusal.body)})


class AccessGuard(AsgiGuard):
    """Guard an application by a policy of tokens, sizes and rates."""

    def __init__(self, app: ASGIApp, door: AccessPolicy) -> None:
        super().__init__(app)
        self.door = door

    def refusal(self, scope: Scope) -> Response | None:
        """Give the answer to who may not come in."""
        if scope["type"] != "http":
            return problem(404, "expected a request, found a socket")
        headers = Headers(scope=scope)
        client = (scope.get("client") or ("",))[0]
        refused = self.door.refusal(scope["method"], scope["path"], headers, client)
        length = headers.get("content-length", "0")
        if refused is None and (not length.isdigit() or int(length) > self.door.limits.bytes):
            refused = (413, f"expected a body of at most {self.door.limits.bytes} bytes")
        return None if refused is None else problem(*refused)

    async def admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request over, its body counted."""
        await self._app(scope, _bounded(receive, self.door.limits.bytes), send)


class TooLarge(HTTPException):
    """Tell that a body without a length went beyond the limit."""

    def __init__(self) -> None:
        super().__init__(413, "expected a smaller body")


def _bounded(receive: Receive, most: int) -> Receive:
    """Count a body that tells no length, and end it beyond the limit."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > most:
                raise TooLarge
        return message

    return bounded


def problem(status: int, message: str, reason: str | None = None, field: str | None = None) -> Response:
    """Answer with an error, in words and in one word, and with the field that is wrong where there is one."""
    message = message.encode("utf-8", "replace").decode()  # what is refused may be a lone surrogate, and is quoted
    error = {"message": message, "reason": reason or str(status), "type": "refused", "code": status}
    body = {"error": error if field is None else error | {"field": field}}
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return Response(orjson.dumps(body), status, headers, "application/json")
