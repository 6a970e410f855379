"""Record a person at a page: its WebSocket frames in both directions, and the presses on its buttons.

Drives Chromium, or attaches to one that runs, over the DevTools protocol. Works on a page that it
does not control: frames come from the browser, presses from a script (watch.js) that lives in a
world of its own in every document, reads, and changes nothing; both outlive reloads.
Leaves out: sockets of workers; installing the script (documents); what presses mean (the game's decoder, presses).

Order follows the page's own clock: the browser stamps frames by its monotonic clock, the page
stamps input by the same one, and both are held for a moment and put into that order before they
are recorded. What comes later than the moment is recorded behind and counted as late.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import heapq
import itertools
import re
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

from playproof.errors import ConfigError
from playproof.events import Direction
from playproof.game import Frame
from playproof.json_types import Json
from playproof.record.feeds.documents import (
    BINDING,
    Drive,
    Listeners,
    PageDocuments,
    find_page,
    go_to,
    import_playwright,
    open_browser,
)
from playproof.record.feeds.selectors import SelectorMap, split_selector
from playproof.record.recorder import Clock, Recorder, write_json

HOLD = 0.3
"""Seconds for which frames and presses are held to be put into order."""
BEAT = 0.05
_AMOUNT = re.compile(r"\d[\d,'\u202f\u00a0]*(?:\.\d+)?")
_BINARY = 2
_MATCH_OWNER = "function (steps) { return globalThis.playproofRest(this, steps); }"


def read_amount(text: str) -> str | None:
    """Find the amount in a field's text, such as 1,250.5 in "1,250.5 SOL", as plain decimal digits."""
    match = _AMOUNT.search(text)
    return re.sub(r"[^\d.]", "", match[0]) if match else None


def watching_script(page_map: SelectorMap) -> str:
    """Give the script that watches a page, with the map's buttons and fields."""
    config = {
        "binding": BINDING,
        "buttons": [
            {
                "id": one.button_id,
                "steps": split_selector(one.selector) if one.selector else None,
                "key": one.key,
                "category": one.category,
                "event": one.event,
            }
            for one in page_map.buttons
        ],
        "fields": [(name, split_selector(selector)) for name, selector in page_map.fields.items()],
    }
    source = (files("playproof.record.feeds") / "watch.js").read_text(encoding="utf-8")
    return source.replace("(CONFIG);", f"({write_json(config)});")


@dataclass
class PageClock:
    """Tell what the page's and the browser's clocks say as seconds of the one and as UTC."""

    zero: float = 0.0
    """Monotonic second at which `start` was read."""
    start: datetime | None = None
    offset_ms: float | None = None
    """From the browser's monotonic clock to the clock by which pages count."""

    def utc(self, moment: float) -> datetime:
        """Give a monotonic second as UTC."""
        assert self.start is not None
        return self.start + timedelta(seconds=moment - self.zero)

    def of_page(self, origin: float, time: float) -> float | None:
        """Give a page's time as a monotonic second; None before the clocks were compared."""
        return None if self.offset_ms is None else (origin + time - self.offset_ms) / 1000


class InOrder:
    """Hold items for a moment and give them in the order of their own times."""

    def __init__(self, hold: float = HOLD) -> None:
        self._hold, self._counter = hold, itertools.count()
        self._heap: list[tuple[float, int, Any]] = []
        self._arrivals: deque[tuple[float, float]] = deque()
        self._ready = self._given = float("-inf")
        self.late = 0

    def put(self, moment: float, item: object, now: float) -> None:
        """Take an item with its own time; `now` is when it arrived."""
        heapq.heappush(self._heap, (moment, next(self._counter), item))
        self._arrivals.append((now, moment))
        self.late += moment < self._given

    def get(self, now: float) -> list[tuple[float, Any]]:
        """Give what has been held long enough, and what belongs before it."""
        while self._arrivals and self._arrivals[0][0] + self._hold <= now:
            self._ready = max(self._ready, self._arrivals.popleft()[1])
        given = []
        while self._heap and self._heap[0][0] <= self._ready:
            moment, _, item = heapq.heappop(self._heap)
            self._given = max(self._given, moment)
            given.append((moment, item))
        return given

    def rest(self) -> list[tuple[float, Any]]:
        """Give everything that is held."""
        return self.get(float("inf"))


@dataclass(frozen=True)
class _SocketClosed:
    """Stands among the frames where a socket of the page ended."""

    socket: str | None
    """None for all of them: the page went elsewhere."""
    reason: str


@dataclass(frozen=True)
class _BufferedFrame:
    socket: str
    payload: str | bytes
    direction: Direction


@dataclass
class BrowserFeed:
    """One page that is recorded until told to stop, until it is closed, or until its driver is done."""

    url: str
    recorder: Recorder
    clock: Clock
    page_map: SelectorMap
    headless: bool = False
    attach: str | None = None
    """Address of a Chromium that runs with --remote-debugging-port."""
    drive: Drive | None = None
    on_open: Callable[[], None] | None = None
    """Called once, when the page is there and before anything is recorded."""
    on_frame: Callable[[Frame], None] | None = None
    """Gets each frame of the page's socket at once, before it is held and put into order; must be quick."""
    connected: bool = field(default=False, init=False)
    _page_clock: PageClock = field(default_factory=PageClock, init=False)
    _held: InOrder = field(default_factory=InOrder, init=False)
    _addresses: dict[str, str] = field(default_factory=dict, init=False)
    _ticking: set[str] = field(default_factory=set, init=False)
    """Sockets from which ticks came."""
    _early: list[tuple[Json, str]] = field(default_factory=list, init=False)
    """Presses that came before the clocks were compared."""
    _broken: dict[str, str] = field(default_factory=dict, init=False)
    """Reasons why selectors are not understood, by the name of their button or field."""
    _documents: PageDocuments | None = field(default=None, init=False)
    _session: Any = field(default=None, init=False)
    """The page's own DevTools session, whose clock counts."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def run(self, stop: asyncio.Event) -> None:
        """Record until `stop` is set."""
        playwright = import_playwright()
        from playwright.async_api import Error

        async with playwright() as driver:
            browser = await open_browser(driver, headless=self.headless, attach=self.attach)
            try:
                page = await find_page(browser, self.url, headless=self.headless, attach=self.attach)
                await self._record(page, stop)
            finally:
                with contextlib.suppress(Error):
                    await browser.close()

    async def _record(self, page: Any, stop: asyncio.Event) -> None:
        """Listen before the page is opened, so that its first frame is heard; record until the end."""
        from playwright.async_api import Error

        script = watching_script(self.page_map)
        documents = self._documents = PageDocuments(page, script, self._said, self._listeners())
        self._session = session = await documents.start(before=self._set_clock)
        await session.send("Inspector.enable")
        tasks: list[asyncio.Future[Any]] = [asyncio.create_task(stop.wait())]
        page.on("close", lambda _: stop.set())
        session.on("Inspector.targetCrashed", lambda _: stop.set())
        page.context.browser.on("disconnected", lambda _: stop.set())
        try:
            await go_to(page, self.url)
            self._refuse_broken()
            if self.on_open is not None:
                self.on_open()
            self.connected = True
            tasks.append(asyncio.create_task(self._pump()))
            if self.drive is not None:
                tasks.append(asyncio.ensure_future(self.drive(page)))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await asyncio.sleep(0 if stop.is_set() else HOLD)
            if self._tasks:  # presses whose frames are being asked for
                await asyncio.wait(self._tasks, timeout=HOLD)
            self._refuse_broken()
        except Error as error:
            raise ConfigError(f"expected to record {self.url}, found: {str(error).splitlines()[0]}") from None
        finally:
            await documents.close()
            for task in (*tasks, *self._tasks):
                task.cancel()
            await asyncio.gather(*tasks, *self._tasks, return_exceptions=True)
            if self.connected:
                self._give(self._held.rest())

    def _listeners(self) -> Listeners:
        return {
            "Network.webSocketCreated": self._created,
            "Network.webSocketFrameReceived": lambda payload: self._heard(payload, "received"),
            "Network.webSocketFrameSent": lambda payload: self._heard(payload, "sent"),
            "Network.webSocketClosed": self._closed,
        }

    def _refuse_broken(self) -> None:
        """Refuse selectors that the browser does not understand: their buttons would be missing in silence."""
        if self._broken:
            name, reason = next(iter(self._broken.items()))
            raise ConfigError(
                f"expected a CSS selector for {name} in the selector map, found: {reason}; correct the map"
            )

    async def _pump(self) -> None:
        """Record what has been held long enough, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(BEAT)
            self._give(self._held.get(loop.time()))

    def _give(self, items: list[tuple[float, Any]]) -> None:
        for moment, item in items:
            self._give_one(self._page_clock.utc(moment), item)
        self.recorder.counts.late = self._held.late

    def _give_one(self, ts: datetime, item: _BufferedFrame | _SocketClosed | Json) -> None:
        if isinstance(item, _SocketClosed):
            if item.socket is None or item.socket in self._ticking:
                if self._ticking:
                    self.recorder.interrupt(item.reason)
                    self.recorder.counts.reconnects += 1
                self._ticking.clear()
        elif isinstance(item, _BufferedFrame):
            events = self.recorder.take(Frame(ts, item.payload, item.direction))
            if any(event.doc_type == "game_tick" for event in events):
                self._ticking.add(item.socket)
        else:
            self.recorder.take(Frame(ts, write_json(item), "none"))

    def _put(self, moment: float, item: object) -> None:
        self._held.put(moment, item, asyncio.get_running_loop().time())

    def _created(self, payload: Json) -> None:
        self._addresses[payload["requestId"]] = payload.get("url", "")

    def _heard(self, fields: Json, direction: Direction) -> None:
        socket, response = fields["requestId"], fields["response"]
        if self.page_map.socket not in self._addresses.get(socket, self.page_map.socket):
            return
        payload: str | bytes = response["payloadData"]
        if response["opcode"] == _BINARY:
            payload = _bytes(response["payloadData"])
        if self.on_frame is not None:
            self.on_frame(Frame(self.clock(), payload, direction))
        self._put(fields["timestamp"], _BufferedFrame(socket, payload, direction))

    def _closed(self, payload: Json) -> None:
        self._addresses.pop(payload["requestId"], None)
        self._put(payload["timestamp"], _SocketClosed(payload["requestId"], "the page's socket was closed"))

    def _said(self, message: Json, frame_id: str) -> None:
        """Take a message of the watching script."""
        if not message.get("hello"):
            self._pressed(message, frame_id)
            return
        self._broken |= dict(message["broken"])
        if message.get("top"):
            self._later(self._compare(message["origin"], message["now"]))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _pressed(self, message: Json, frame_id: str) -> None:
        """Take a press: at once, or when the elements that hold its frame have been compared with the selector."""
        first = message["buttons"][0]
        if not first["outer"]:
            self._put_press(message, first["id"])
        else:
            self._later(self._compare_frames(message, frame_id))

    async def _compare_frames(self, message: Json, frame_id: str) -> None:
        assert self._documents is not None
        for button in message["buttons"]:
            steps, inner = button["outer"], frame_id
            while steps:
                answer = await self._documents.call_on_owner(inner, _MATCH_OWNER, steps)
                steps, inner = answer if answer is not None else (None, inner)
            if steps is not None:
                self._put_press(message, button["id"])
                return

    def _put_press(self, message: Json, button_id: str) -> None:
        moment = self._page_clock.of_page(message["origin"], message["time"])
        if moment is None:
            self._early.append((message, button_id))
            return
        amounts = {name: read_amount(text) for name, text in message["fields"].items()}
        press = {
            "button_id": button_id,
            "client_timestamp": round(message["origin"] + message["time"], 3),
            "input": message["input"],
            **{name: amount for name, amount in amounts.items() if amount is not None},
        }
        self._put(moment, press)

    async def _set_clock(self, session: Any) -> None:
        """Anchor the browser's monotonic clock in UTC."""
        self._session = session
        await session.send("Performance.enable")
        before = self.clock()
        metrics = await _metrics(session)
        self._page_clock.zero = metrics["Timestamp"]
        self._page_clock.start = before + (self.clock() - before) / 2

    async def _compare(self, origin: float, now: float) -> None:
        """Compare the clock by which a new document counts with the browser's; what was heard before is over."""
        metrics = await _metrics(self._session)
        if not metrics.get("NavigationStart"):
            return
        self._page_clock.offset_ms = origin - metrics["NavigationStart"] * 1000
        self._put((origin + now - self._page_clock.offset_ms) / 1000, _SocketClosed(None, "the page was loaded again"))
        early, self._early = self._early, []
        for message, button_id in early:
            self._put_press(message, button_id)


async def _metrics(session: Any) -> dict[str, float]:
    payload = await session.send("Performance.getMetrics")
    return {one["name"]: one["value"] for one in payload["metrics"]}


def _bytes(payload: str) -> bytes:
    try:
        return base64.b64decode(payload, validate=True)
    except binascii.Error:
        return payload.encode("utf-8", "backslashreplace")
