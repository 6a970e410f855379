"""The dashboard's server: pages, their streams, tables as CSV and JSON, and the forms that put jobs in.

Everything that reads files or tables runs in a few threads, so that no page waits for another. Leaves out: who may come
in (access), what pages show (pages) and what forms do (actions).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import anyio.to_thread
import orjson
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp

from playproof.dashboard import live
from playproof.dashboard.access import (
    COOKIE,
    REPORT_POLICY,
    ROLES,
    SCOPE_SESSION,
    SESSION_SECONDS,
    DashboardGuard,
    DashboardRole,
    DashboardSession,
    DashboardSessions,
    checks_token,
)
from playproof.dashboard.actions import ACTIONS, ActionRequest
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages import PAGES, TABLES
from playproof.dashboard.pages.recordings import replay_recorded
from playproof.dashboard.pages.store import query
from playproof.dashboard.shell import STATIC, Block, Page, TextBlock, cursor_of, render_block, render_page
from playproof.dashboard.tables import PAGE, TableQuery, cursor, rows_of_all, to_csv
from playproof.errors import InputError, PlayproofError
from playproof.home import safe_join
from playproof.reports.page import STATIC as REPORTS_STATIC

THREADS = 6
MOST_STREAMS = 200
SAID = "said"
_STATIC_NAMES = {path.name: path for path in (*REPORTS_STATIC.iterdir(), *STATIC.iterdir()) if path.is_file()}
_TYPES = {".js": "text/javascript", ".css": "text/css"}


@dataclass(frozen=True)
class PageAddress:
    """A page and what its address names."""

    build: Callable[[DashboardContext, Mapping[str, str]], Page]
    values: Mapping[str, str]
    path: str
    """With its query."""


def find_page(path: str, query: str) -> PageAddress | None:
    """Find the page of an address."""
    for pattern, build in PAGES:
        match = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern), path)
        if match:
            given = dict(parse_qsl(query, keep_blank_values=False, max_num_fields=50))
            shown = path + (f"?{query}" if query else "")
            return PageAddress(build, given | match.groupdict(), shown)
    return None


def role_needed(method: str, path: str) -> DashboardRole | None:
    """Give the role that a route needs; None for nobody."""
    if method in ("GET", "HEAD"):
        reading = path.startswith(("/static/", "/data/", "/live/", "/files/", "/replay/")) or path == "/openapi.json"
        return "viewer" if reading or find_page(path, "") else None
    if method == "POST":
        if path == "/leave":
            return "viewer"
        action = ACTIONS.get(path.removeprefix("/do/"))
        return action.role if action is not None and path.startswith("/do/") else None
    return None


def dashboard_app(context: DashboardContext, sessions: DashboardSessions, *, loopback: bool = True) -> ASGIApp:
    """Make the application behind its guard."""
    app = FastAPI(title="Playproof dashboard", docs_url=None, redoc_url=None, openapi_url=None)
    _add_entrance(app, sessions)
    _add_files(app, context)
    _add_tables(app, context)
    _add_streams(app, context, sessions)
    _add_changes(app, context, sessions)

    @app.get("/{path:path}", include_in_schema=False)
    def page(path: str, request: Request) -> HTMLResponse:  # noqa: ARG001 - the raw path says more
        said = request.query_params.get(SAID, "")[:500]
        query = "&".join(part for part in request.url.query.split("&") if not part.startswith(f"{SAID}="))
        at = request.url.path + (f"?{query}" if query else "")
        return HTMLResponse(_draw(_build(context, at), at, _session(request), said))

    return DashboardGuard(app, sessions, role_needed, loopback=loopback)


def _add_entrance(app: FastAPI, sessions: DashboardSessions) -> None:
    """Add what answers everybody, errors, and the way in."""

    @app.middleware("http")
    async def bounded_threads(request: Request, call_next: Callable[[Request], Any]) -> Any:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        return await call_next(request)

    @app.exception_handler(PlayproofError)
    async def refused(request: Request, error: PlayproofError) -> Response:
        return _problem(request, 400 if isinstance(error, InputError) else 503, str(error))

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> Response:
        return _problem(request, error.status_code, str(error.detail))

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "up"})

    @app.get("/enter", include_in_schema=False)
    async def enter(once: str = "") -> Response:
        session = sessions.enter(once)
        if session is None:
            return Response("This link was used or is too old; `playproof dashboard` shows a new one.\n", 403)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE, session.identity, httponly=True, samesite="strict", max_age=int(SESSION_SECONDS), path="/"
        )
        return answer

    @app.get("/openapi.json", include_in_schema=False)
    async def describe() -> JSONResponse:
        return JSONResponse(app.openapi())


def _add_files(app: FastAPI, context: DashboardContext) -> None:
    """Add scripts and styles, reports, and replays."""

    @app.get("/static/{stamp}/{name}", include_in_schema=False)
    async def asset(stamp: str, name: str) -> Response:  # noqa: ARG001 - it makes a changed file a new address
        if name not in _STATIC_NAMES:
            raise HTTPException(404, "There is no such file.")
        path = _STATIC_NAMES[name]
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        return FileResponse(path, headers=headers, media_type=_TYPES.get(path.suffix))

    @app.get("/replay/{dataset}/{window}", include_in_schema=False)
    def replay(dataset: str, window: str) -> HTMLResponse:
        return HTMLResponse(replay_recorded(context, dataset, window))

    @app.get("/files/{folder}/{path:path}", include_in_schema=False)
    def file(folder: str, path: str) -> Response:
        if folder not in ("reports", "runs"):
            raise HTTPException(404, "There is no such file.")
        where = safe_join(context.root / folder, path)
        if where.suffix not in (".html", ".json", ".csv") or not where.is_file():
            raise HTTPException(404, "There is no such file.")
        policy = {"content-security-policy": REPORT_POLICY} if where.suffix == ".html" else {}
        return FileResponse(where, headers=policy)


def _add_tables(app: FastAPI, context: DashboardContext) -> None:
    """Add every table as JSON and CSV."""

    @app.get("/data/{name}.json")
    def table_json(name: str, request: Request) -> Response:
        """Give a page of a table as JSON, with the cursor of the next."""
        source = _table(name)
        query = TableQuery.from_url(dict(request.query_params), source)
        rows = list(source.read(context, query))
        names = [column for column, _, _ in source.columns]
        payload = {
            "rows": [{column: row.get(column) for column in names} for row in rows],
            "next": cursor(rows[-1]["key"]) if len(rows) == PAGE else None,
        }
        return _json(payload)

    @app.get("/data/query.csv", include_in_schema=False)
    def query_csv(sql: str = "") -> Response:
        names, rows = query(context, sql)
        return StreamingResponse(
            to_csv(names, (dict(zip(names, row, strict=True)) for row in rows)),
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": 'attachment; filename="query.csv"'},
        )

    @app.get("/data/{name}.csv", include_in_schema=False)
    def table_csv(name: str, request: Request) -> Response:
        source = _table(name)
        values = dict(request.query_params)
        TableQuery.from_url(values, source)
        names = [column for column, _, _ in source.columns]
        return StreamingResponse(
            to_csv(names, rows_of_all(source, context, values)),
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": f'attachment; filename="{name}.csv"'},
        )


def _add_streams(app: FastAPI, context: DashboardContext, sessions: DashboardSessions) -> None:
    """Add what tells a page what is new."""
    watch = live.Watch(context)
    streams = [0]

    @app.get("/live/poll")
    def poll(request: Request, at: str = "/", cursor: str = "") -> Response:
        """Give the blocks of a page that differ from a cursor; 204 where none does."""
        result = _changes(context, _session(request), at, cursor)
        return Response(status_code=204) if result is None else Response(result[1], media_type="application/json")

    @app.get("/live/stream", include_in_schema=False)
    async def stream(request: Request, at: str = "/", cursor: str = "") -> Response:
        session = _session(request)
        page = await anyio.to_thread.run_sync(lambda: _build(context, at))
        if streams[0] >= MOST_STREAMS:
            raise HTTPException(503, "Too many pages are open.")

        async def messages() -> AsyncIterator[bytes]:
            streams[0] += 1
            try:
                since = request.headers.get("last-event-id") or cursor
                async for message in live.follow(
                    lambda: watch.state(page.topics), lambda seen: _changes(context, session, at, seen), since
                ):
                    if sessions.find(request.headers) is None:
                        return
                    yield message
            finally:
                streams[0] -= 1

        return StreamingResponse(messages(), media_type="text/event-stream")


def _add_changes(app: FastAPI, context: DashboardContext, sessions: DashboardSessions) -> None:
    """Add what changes something."""

    @app.post("/leave", include_in_schema=False)
    async def leave(request: Request) -> Response:
        session, _ = await _posted(request)
        sessions.leave(session)
        answer = Response("You have left; the terminal gives a new link.\n", media_type="text/plain")
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", path="/")
        return answer

    @app.post("/do/{name:path}", include_in_schema=False)
    async def act(name: str, request: Request) -> Response:
        session, values = await _posted(request)
        asked = ActionRequest(context, session, values, sessions.link, context.clock())
        done = await anyio.to_thread.run_sync(lambda: ACTIONS[name].run(asked))
        if isinstance(done, Page):  # a second page: it names what will happen
            return HTMLResponse(_draw(done, f"/do/{name}", session))
        separator = "&" if "?" in done.to else "?"
        return RedirectResponse(f"{done.to}{separator}{SAID}={quote(done.text)}" if done.text else done.to, 303)


def _build(context: DashboardContext, at: str) -> Page:
    parts = urlsplit(at)
    address = find_page(parts.path, parts.query)
    if address is None:
        raise HTTPException(404, "There is no such page.")
    return address.build(context, address.values)


def _allowed(session: DashboardSession) -> frozenset[str]:
    return frozenset(role for role in ROLES if session.may(role))


def _draw(page: Page, path: str, session: DashboardSession, said: str = "") -> str:
    return render_page(page, path=path, role=session.role, csrf=session.csrf, allowed=_allowed(session), said=said)


def _changes(context: DashboardContext, session: DashboardSession, at: str, seen: str) -> tuple[str, bytes] | None:
    """Give the blocks of a page that differ from a cursor, and the new cursor; None where none differs."""
    page = _build(context, at)
    blocks = [render_block(block, csrf=session.csrf, allowed=_allowed(session)) for block in page.blocks]
    present = cursor_of(blocks)
    if present == seen:
        return None
    before, hashes = seen.split("."), present.split(".")
    whole = len(before) != len(hashes)
    differing = {
        block.name: html
        for index, (block, html) in enumerate(zip(page.blocks, blocks, strict=True))
        if whole or before[index] != hashes[index]
    }
    return present, orjson.dumps({"cursor": present, "blocks": differing})


def _session(request: Request) -> DashboardSession:
    session: DashboardSession = request.scope[SCOPE_SESSION]
    return session


async def _posted(request: Request) -> tuple[DashboardSession, dict[str, str]]:
    """Read a form and check its token."""
    session = _session(request)
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise HTTPException(415, "A form was expected.")
    body = await request.body()
    try:
        values = dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise HTTPException(400, "A form was expected that can be read.") from None
    if not checks_token(session, values.pop("csrf", None)):
        raise HTTPException(403, "This form is of another session; load the page again.")
    return session, values


def _table(name: str) -> Any:
    if name not in TABLES:
        raise HTTPException(404, "There is no such table.")
    return TABLES[name]


def _json(payload: object) -> Response:
    return Response(
        orjson.dumps(payload, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS),
        media_type="application/json",
    )


def _problem(request: Request, status: int, text: str) -> Response:
    """Answer with an error: JSON for programs, a page for people."""
    text = text.encode("utf-8", "replace").decode()
    session = request.scope.get(SCOPE_SESSION)
    if session is None or request.url.path.startswith(("/data/", "/live/")):
        return JSONResponse({"error": {"message": text, "code": status}}, status)
    titles = {400: "This cannot be done", 403: "Not allowed", 404: "Not here", 503: "Not now"}
    page = Page(title=titles.get(status, "An error"), blocks=[Block("error", [TextBlock(text=text)])])
    return HTMLResponse(_draw(page, request.url.path, session), status)


def report_names(root: Path) -> Iterator[str]:
    """Name the HTML files of the reports folder, for tests and benches."""
    for path in sorted((root / "reports").rglob("*.html")):
        yield str(path.relative_to(root / "reports"))
