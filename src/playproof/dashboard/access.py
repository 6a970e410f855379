"""Who may see and do what in the dashboard: one-time links, sessions in a strict cookie, roles, tokens of forms.

A link is good once. Behind it a session begins, whose id stands in an http-only cookie. A viewer reads, an operator
puts jobs in and marks, an admin also does what cannot be taken back. Every change carries a token that only a page of
this session knows, and comes from this server's own page. What no rule names is nobody's.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Literal, get_args

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playproof.net.access import AsgiGuard, admits_host, admits_origin

DashboardRole = Literal["viewer", "operator", "admin"]
ROLES: tuple[DashboardRole, ...] = get_args(DashboardRole)
COOKIE = "playproof_dashboard"
LINK_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
MOST_SESSIONS = 1_000
MOST_BYTES = 1 << 20
"""Of a form."""
OPEN_PATHS = ("/enter", "/healthz")
SCOPE_SESSION = "playproof.session"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "sandbox allow-scripts allow-downloads; frame-ancestors 'none'"
"""A report is a file that somebody may have changed: its scripts run without this server's origin, so that they
reach neither the cookie nor any page. Which scripts may run stands in the report itself."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # a form's Origin would be null under no-referrer
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class DashboardSession:
    """Somebody who came in by a link."""

    identity: str
    role: DashboardRole
    until: float
    csrf: str
    """The token of this session's forms."""

    def may(self, role: DashboardRole) -> bool:
        """Tell whether this role is enough."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass
class DashboardSessions:
    """Links that wait and sessions that stand, in memory alone: a restart asks for a new link."""

    clock: Callable[[], float] = time.monotonic
    _links: dict[str, tuple[DashboardRole, float]] = field(default_factory=dict)
    _sessions: OrderedDict[str, DashboardSession] = field(default_factory=OrderedDict)

    def link(self, role: DashboardRole) -> str:
        """Make the token of a link that lets one person in."""
        now = self.clock()
        self._links = {key: value for key, value in self._links.items() if value[1] > now}
        token = secrets.token_urlsafe(32)
        self._links[_digest(token)] = (role, now + LINK_SECONDS)
        return token

    def enter(self, token: str) -> DashboardSession | None:
        """Begin a session by a link, which is then used up."""
        role, until = self._links.pop(_digest(token), (None, 0.0))
        if role is None or until <= self.clock():
            return None
        identity = secrets.token_urlsafe(32)
        session = DashboardSession(identity, role, self.clock() + SESSION_SECONDS, secrets.token_urlsafe(24))
        self._sessions[_digest(identity)] = session
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def find(self, headers: Mapping[str, str]) -> DashboardSession | None:
        """Give the session whose cookie a request carries."""
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return None
        session = self._sessions.get(_digest(cookie.value)) if cookie else None
        return session if session is not None and session.until > self.clock() else None

    def leave(self, session: DashboardSession) -> None:
        """End a session."""
        self._sessions.pop(_digest(session.identity), None)


class DashboardGuard(AsgiGuard):
    """Let in who has a session of the role that a route needs; `roles` gives it, None for nobody."""

    def __init__(
        self,
        app: ASGIApp,
        sessions: DashboardSessions,
        roles: Callable[[str, str], DashboardRole | None],
        *,
        loopback: bool = True,
    ) -> None:
        super().__init__(app)
        self.sessions, self._roles, self._loopback = sessions, roles, loopback

    def refusal(self, scope: Scope) -> Response | None:
        """Give the answer to who may not come in."""
        if scope["type"] != "http":
            return PlainTextResponse("There is no socket here.", 404)
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        refused = self._foreign(headers, method, path)
        if refused is None and path not in OPEN_PATHS:
            session = self.sessions.find(headers)
            refused = self._unfit(session, headers, method, path)
            scope[SCOPE_SESSION] = session
        return None if refused is None else PlainTextResponse(f"{refused[1]}\n", refused[0], HEADERS)

    def _foreign(self, headers: Headers, method: str, path: str) -> tuple[int, str] | None:
        """Refuse other hosts' names, and pages of other servers."""
        host, changes = headers.get("host", ""), method not in ("GET", "HEAD")
        if not admits_host(host, self._loopback):
            return 421, "This server has another name."
        if changes and (path in OPEN_PATHS or not admits_origin(headers.get("origin"), host)):
            return 403, "This page may not speak to this server."
        if headers.get("sec-fetch-site") == "cross-site" and path not in OPEN_PATHS:
            return 403, "Another site may not read this one."
        return None

    def _unfit(
        self, session: DashboardSession | None, headers: Headers, method: str, path: str
    ) -> tuple[int, str] | None:
        """Refuse who has no session, or one whose role is not enough."""
        if session is None:
            return 401, "A link is needed: the terminal that runs `playproof dashboard` shows one."
        needed = self._roles(method, path)
        if needed is None:
            return 404, "There is no such page."
        if not session.may(needed):
            return 403, f"This needs the role {needed}, found {session.role}."
        length = headers.get("content-length", "0")
        return None if length.isdigit() and int(length) <= MOST_BYTES else (413, "This form is too large.")

    async def admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request over, and put the headers of this server on what comes back."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                message["headers"] = headers.raw
            await send(message)

        await self._app(scope, receive, answer)


def checks_token(session: DashboardSession, shown: str | None) -> bool:
    """Tell whether a form carries the token of its session."""
    return hmac.compare_digest((shown or "").encode(), session.csrf.encode())


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
