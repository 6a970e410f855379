"""Run a script in every document of a page, in a world of its own, and hear what it says.

A page's documents are its own, those of its frames, and those of frames of other sites, which Chromium keeps in
processes of their own with DevTools sessions of their own. The page can neither see nor call the script.
Leaves out: what the scripts do (watch.js, pick.js) and what their messages mean (browser, picking).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from playproof.errors import ConfigError, MissingExtra
from playproof.json_types import Json
from playproof.record.feeds.chromium import find_chromium

WORLD = BINDING = "playproof"
FLAGS = (
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_UNREACHABLE = (
    *("ERR_CONNECTION", "ERR_NAME", "ERR_ADDRESS", "ERR_INTERNET", "ERR_NETWORK", "ERR_PROXY", "ERR_SOCKET"),
    *("ERR_TIMED_OUT", "ERR_EMPTY_RESPONSE", "Timeout"),
)

Drive = Callable[[Any], Awaitable[None]]
"""Plays on the page, given as Playwright's Page."""
OnMessage = Callable[[Json, str], None]
"""Takes a message of the script and the id of the frame from which it comes."""
Listeners = Mapping[str, Callable[[Json], None]]


def import_playwright() -> Callable[[], Any]:
    """Give Playwright's entry, or say which extra brings it."""
    try:
        from playwright.async_api import async_playwright
    except ModuleNotFoundError:
        raise MissingExtra("Playwright", "browser") from None
    return async_playwright


async def open_browser(driver: Any, *, headless: bool, attach: str | None) -> Any:
    """Start a Chromium, or connect to the one that runs at `attach`."""
    from playwright.async_api import Error

    no_display = ConfigError(
        "expected a display for Chromium's window, found none in DISPLAY or WAYLAND_DISPLAY; "
        "run with --headless, or set DISPLAY"
    )
    if not attach and not headless and sys.platform.startswith("linux"):
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise no_display
    try:
        if attach:
            return await driver.chromium.connect_over_cdp(attach)
        program = find_chromium()
        if program is None:
            raise ConfigError("expected a Chromium, found none; run: playproof doctor")
        return await driver.chromium.launch(
            executable_path=str(program),
            headless=headless,
            args=[*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])],
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except Error as error:
        if "Missing X server" in str(error):
            raise no_display from None
        where = f"a Chromium at {attach}" if attach else "to start Chromium"
        raise ConfigError(f"expected {where}, found: {str(error).splitlines()[0]}") from None


async def find_page(browser: Any, url: str, *, headless: bool, attach: str | None) -> Any:
    """Give the page to work on: one that is open at the address, else a new one."""
    if attach and browser.contexts:
        for page in browser.contexts[0].pages:
            if page.url.startswith(url):
                return page
        return await browser.contexts[0].new_page()
    context = await browser.new_context(**({} if headless else {"no_viewport": True}))
    return await context.new_page()


async def go_to(page: Any, url: str) -> None:
    """Open an address on the page, unless it is there already."""
    from playwright.async_api import Error

    if page.url.startswith(url):
        return
    try:
        await page.goto(url, wait_until="domcontentloaded")
    except Error as error:
        reason = str(error).splitlines()[0].removeprefix("Page.goto: ")
        if any(name in reason for name in _UNREACHABLE):
            raise ConfigError(
                f"cannot connect to {url}: expected a page there, found: {reason}; check the address and that the "
                "server runs"
            ) from None
        raise ConfigError(f"expected to open {url}, found: {reason}") from None


class PageDocuments:
    """All documents of one page, now and after every load, each with the script in it."""

    def __init__(self, page: Any, script: str, on_message: OnMessage, listeners: Listeners | None = None) -> None:
        self._page, self._script, self._on_message = page, script, on_message
        self._listeners = listeners or {}
        self._sessions: list[Any] = []
        self._worlds: dict[str, tuple[Any, int]] = {}
        """Session and execution context of the script, by frame."""
        self._frames: dict[tuple[int, int], str] = {}
        """Frame of an execution context, by the session's number and the context's."""
        self._parents: dict[str, str] = {}
        self._own_sessions: dict[Any, Any] = {}
        """DevTools session of a frame that has a process of its own."""
        self._main = ""
        self._attaching = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, *, before: Callable[[Any], Awaitable[None]] | None = None) -> Any:
        """Begin to listen; give the page's own DevTools session. `before` gets it before anything is enabled."""
        session = await self._page.context.new_cdp_session(self._page)
        if before is not None:
            await before(session)
        await self._install(session)
        tree = (await session.send("Page.getFrameTree"))["frameTree"]
        self._main = tree["frame"]["id"]
        trees = [tree]
        while trees:
            for child in trees.pop().get("childFrames", []):
                self._parents[child["frame"]["id"]] = child["frame"]["parentId"]
                trees.append(child)
        self._page.on("framenavigated", self._later)
        for frame in self._page.frames:
            self._later(frame)
        return session

    async def close(self) -> None:
        """End what is still being attached."""
        self._page.remove_listener("framenavigated", self._later)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def frame_ids(self) -> list[str]:
        """Name the frames that hold the script now."""
        return list(self._worlds)

    @property
    def main_frame(self) -> str:
        """Name the page's own frame."""
        return self._main

    async def call(self, frame_id: str, expression: str) -> Any:
        """Evaluate an expression in the script's world of a frame; None where the frame is gone."""
        from playwright.async_api import Error

        if frame_id not in self._worlds:
            return None
        session, context = self._worlds[frame_id]
        payload = {"expression": expression, "contextId": context, "returnByValue": True, "awaitPromise": True}
        try:
            return (await session.send("Runtime.evaluate", payload))["result"].get("value")
        except Error:
            return None

    async def call_on_owner(self, frame_id: str, function: str, argument: object = None) -> tuple[Any, str] | None:
        """Call a function on the element that holds a frame; give its answer and the frame of that element.

        The function runs in the script's world of the outer document. None for the page's own frame, which no
        element holds, and for a frame that is gone.
        """
        from playwright.async_api import Error

        outer = self._parents.get(frame_id, self._main)
        if frame_id == self._main or outer not in self._worlds:
            return None
        session, context = self._worlds[outer]
        try:
            owner = await session.send("DOM.getFrameOwner", {"frameId": frame_id})
            node = {"backendNodeId": owner["backendNodeId"], "executionContextId": context}
            payload = {
                "objectId": (await session.send("DOM.resolveNode", node))["object"]["objectId"],
                "functionDeclaration": function,
                "arguments": [{"value": argument}],
                "returnByValue": True,
            }
            return (await session.send("Runtime.callFunctionOn", payload))["result"].get("value"), outer
        except Error:
            return None

    async def _install(self, session: Any) -> None:
        number = len(self._sessions)
        self._sessions.append(session)
        for name, listener in self._listeners.items():
            session.on(name, listener)
        session.on("Page.frameAttached", self._attached)
        session.on("Runtime.executionContextCreated", lambda payload: self._created(session, number, payload))
        session.on("Runtime.bindingCalled", lambda payload: self._called(number, payload))
        for name in ("Network.enable", "Page.enable", "DOM.enable", "Runtime.enable"):
            await session.send(name)
        await session.send("Runtime.addBinding", {"name": BINDING, "executionContextName": WORLD})
        script = {"source": self._script, "worldName": WORLD, "runImmediately": True}
        await session.send("Page.addScriptToEvaluateOnNewDocument", script)

    def _attached(self, payload: Json) -> None:
        self._parents[payload["frameId"]] = payload["parentFrameId"]

    def _created(self, session: Any, number: int, payload: Json) -> None:
        context = payload["context"]
        if context["name"] == WORLD:
            frame_id = context["auxData"]["frameId"]
            self._frames[number, context["id"]] = frame_id
            self._worlds[frame_id] = (session, context["id"])

    def _called(self, number: int, payload: Json) -> None:
        """Take a message of the script; a page cannot call it, but what it says is checked all the same."""
        if payload["name"] != BINDING:
            return
        try:
            message = orjson.loads(payload["payload"])
        except orjson.JSONDecodeError:
            return
        if isinstance(message, dict):
            self._on_message(message, self._frames.get((number, payload["executionContextId"]), self._main))

    def _later(self, frame: Any) -> None:
        if frame != self._page.main_frame:
            task = asyncio.ensure_future(self._attach(frame))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _attach(self, frame: Any) -> None:
        """Listen to a frame that has a process of its own; all others are heard by the session around them."""
        from playwright.async_api import Error

        async with self._attaching:
            # A session outlives the loads of its frame; a second one beside it would count every press twice.
            known = self._own_sessions.get(frame)
            try:
                if known is not None:
                    await known.send("Page.getFrameTree")
                    return
            except Error:
                del self._own_sessions[frame]
            try:
                session = await self._page.context.new_cdp_session(frame)
                self._own_sessions[frame] = session
                await self._install(session)
            except Error:
                return  # it has no process of its own, or is gone already
