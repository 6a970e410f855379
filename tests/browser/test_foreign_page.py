"""A page built by somebody else: shadow roots, frames, a canvas, buttons that are replaced while they are pressed.

The page is in tests/browser/foreign_page. Its site relays the socket of the real crash server, so that every press has
a tick, a price and an answer. A scripted person presses a list of buttons with a real pointer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, WSMsgType, web

from playproof.cli.app import main
from playproof.cli.data.record import PickPlan, RecordPlan, pick_selectors, record_page
from playproof.events import Event
from playproof.game import load_game
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.games.crash.server.table import Entry, OrderEntry
from playproof.money import to_units
from playproof.store import EventStore

pytest.importorskip("playwright.async_api", reason="playwright is not installed; run: make setup")

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium")]

PAGES = Path(__file__).parent / "foreign_page"
SEED = 12  # its first round rugs at tick 45
HOLD_MS = 90
"""How long a person keeps the pointer down: longer than the site's buttons live."""
SELECTORS = """
extends = "playproof"
socket = "/feed"

[buttons]
BUY = { selector = 'trade-desk >>> [aria-label="Open position"]', category = "action", event = "pointerdown" }
SELL = { selector = 'trade-desk >>> [aria-label="Close position"]', category = "action", event = "pointerdown" }
SIDEBET = { selector = 'iframe.bets >>> bet-box >>> button:text("Double or nothing")', category = "action" }
CLEAR = { selector = 'trade-desk >>> amount-pad >>> button:text("X")', category = "bet_adjust" }
INC_01 = { selector = 'trade-desk >>> amount-pad >>> button:text("+0.01")', category = "bet_adjust" }
HALF = { selector = 'trade-desk >>> amount-pad >>> button:text("1/2")', category = "bet_adjust" }
DOUBLE = { selector = 'trade-desk >>> amount-pad >>> button:text("2x")', category = "bet_adjust" }
SELL_25 = { selector = 'side-rail >>> iframe >>> [role="radio"][value="25"]', category = "percentage" }
SELL_50 = { selector = 'side-rail >>> iframe >>> [role="radio"][value="50"]', category = "percentage" }

[fields]
bet_amount = { selector = "trade-desk >>> .stake" }
"""


class Site:
    """The site's own server: it serves its pages and relays the game's socket."""

    def __init__(self, game_url: str) -> None:
        self._game = game_url.rstrip("/").replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket"
        self._loop = asyncio.new_event_loop()
        self.url = ""

    async def _feed(self, request: web.Request) -> web.WebSocketResponse:
        page = web.WebSocketResponse()
        await page.prepare(request)
        async with ClientSession() as client, client.ws_connect(self._game) as game:

            async def forward(source: Any, target: Any) -> None:
                async for message in source:
                    if message.type == WSMsgType.TEXT:
                        with contextlib.suppress(ConnectionError):
                            await target.send_str(message.data)

            await asyncio.wait(
                [asyncio.ensure_future(forward(page, game)), asyncio.ensure_future(forward(game, page))],
                return_when=asyncio.FIRST_COMPLETED,
            )
        return page

    async def _start(self) -> web.AppRunner:
        async def file(request: web.Request) -> web.FileResponse:
            return web.FileResponse(PAGES / request.match_info.get("name", "index.html"))

        app = web.Application()
        app.add_routes([web.get("/feed", self._feed), web.get("/", file), web.get("/{name}", file)])
        runner = web.AppRunner(app, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        return runner

    @contextlib.contextmanager
    def running(self) -> Iterator[Site]:
        """Serve on a thread of its own."""
        runner = self._loop.run_until_complete(self._start())
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)
            self._loop.close()


@pytest.fixture
def log() -> list[Entry]:
    return []


@pytest.fixture
def server(log: list[Entry]) -> Iterator[RunningServer]:
    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True), log=log) as running:
        yield running


@pytest.fixture
def site(server: RunningServer) -> Iterator[Site]:
    with Site(server.url).running() as running:
        yield running


class Person:
    """A scripted person with a real pointer."""

    def __init__(self, page: Any) -> None:
        self.page = page
        bets, ads = page.frame_locator("iframe.bets"), page.frame_locator("iframe.ads")
        shares = page.frame_locator("side-rail iframe")
        pad = page.locator("amount-pad")
        self.buttons = {
            "BUY": page.locator('trade-desk [aria-label="Open position"]'),
            "SELL": page.locator('trade-desk [aria-label="Close position"]'),
            "SIDEBET": bets.locator("bet-box button"),
            **{name: pad.get_by_text(text, exact=True)
               for name, text in (("CLEAR", "X"), ("INC_01", "+0.01"), ("HALF", "1/2"), ("DOUBLE", "2x"))},
            "SELL_25": shares.locator("[value='25']"),
            "SELL_50": shares.locator("[value='50']"),
            "promo": page.locator("promo-card button"),
            "ads": ads.locator("bet-box button"),
            "graph": page.locator("#graph"),
            "stake": page.locator("trade-desk .stake"),
        }  # fmt: skip

    async def ready(self) -> None:
        """Wait until every part of the page is there."""
        for button in self.buttons.values():
            await button.wait_for()
        while not await self.page.evaluate("state.prices.length > 0"):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)

    async def press(self, name: str, during: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Press a button as a hand does: down, a moment, up. `during` runs while the pointer is down."""
        box = await self.buttons[name].bounding_box()
        while box is None:  # replaced between the two questions
            box = await self.buttons[name].bounding_box()
        await self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        await self.page.mouse.down()
        await asyncio.sleep(HOLD_MS / 1000)
        if during is not None:
            await during()
        await self.page.mouse.up()
        await asyncio.sleep(0.1)


def stored(home: Path, session: str = "ada") -> list[Event]:
    return list(EventStore(home, load_game("crash").columns).events(session_id=session))


def presses_of(home: Path) -> list[tuple[Any, ...]]:
    presses = [e.columns for e in stored(home) if e.doc_type == "button_event"]
    return [(p["button_id"], p["game_phase"], p["tick"], p["bet_amount"]) for p in presses]


def test_every_press_is_recorded_once_with_its_context(
    site: Site, server: RunningServer, log: list[Entry], home: Path, tmp_path: Path
) -> None:
    map_file = tmp_path / "moonshot.toml"
    map_file.write_text(SELECTORS)
    pressed: list[tuple[Any, ...]] = []

    async def play(page: Any) -> None:
        person = Person(page)
        await person.ready()

        async def press(name: str, stake: str, **more: Any) -> None:
            pressed.append((name, int(server.table.phase), max(server.table.tick, 0), to_units(stake)))
            await person.press(name, **more)

        async def advance(phase: Phase, tick: int = 0) -> None:
            await asyncio.to_thread(server.advance_to, phase, tick)
            await asyncio.sleep(0.4)

        async def replace() -> None:
            """Let the site draw its pad again, so that the browser drops the click."""
            await page.evaluate("drawAll()")

        await advance(Phase.PRESALE)
        await press("INC_01", "0.02")
        await press("DOUBLE", "0.04")
        await press("BUY", "0.04")
        await person.press("promo")
        await advance(Phase.ACTIVE, 3)
        await press("SELL_25", "0.04")
        await press("SELL", "0.04")
        await person.press("graph")
        await press("HALF", "0.02")
        await press("SIDEBET", "0.02")
        await person.press("ads")
        await advance(Phase.ACTIVE, 5)
        await press("DOUBLE", "0.02", during=replace)
        await press("DOUBLE", "0.04")
        for _ in range(12):
            await press("BUY", "0.04")
        await advance(Phase.ACTIVE, 6)
        await page.reload()
        await person.ready()
        await press("CLEAR", "0")
        await press("INC_01", "0.01")
        await press("SELL_50", "0.01")
        await press("SELL", "0.01")
        await asyncio.sleep(0.4)

    plan = RecordPlan(site.url, "cdp", str(map_file), session_id="ada", home=home)
    summary = record_page(plan, headless=True, drive=play)

    assert presses_of(home) == pressed, "the list that was pressed, press by press"
    assert (summary["presses"], summary["late"]) == (len(pressed), 0)
    actions = [name for name, *_ in pressed if name in ("BUY", "SELL", "SIDEBET")]
    kinds = {"buyOrder": "BUY", "sellOrder": "SELL", "requestSidebet": "SIDEBET"}
    orders = [kinds[entry.kind] for entry in log if isinstance(entry, OrderEntry)]
    # The advertisement's button asks for a sidebet as well: it is an order, but no press on the button of the map.
    assert orders == [*actions[:3], "SIDEBET", *actions[3:]]
    answers = [e.columns["success"] for e in stored(home) if e.event_name == "ack"]
    assert answers == [entry.success for entry in log if isinstance(entry, OrderEntry)]
    named = [(e.event_name, e.columns) for e in stored(home) if e.doc_type == "button_event" or e.event_name == "order"]
    buys = [i for i, (name, columns) in enumerate(named) if name == "order" and columns["order_kind"] == "BUY"]
    assert all(named[i - 1][1]["button_id"] == "BUY" for i in buys), "a press comes before its order"


def test_a_selector_that_css_does_not_know_is_refused(site: Site, home: Path, tmp_path: Path, capsys: Any) -> None:
    map_file = tmp_path / "broken.toml"
    map_file.write_text(SELECTORS.replace("trade-desk >>> .stake", "trade-desk >>> .stake["))
    code = main(["record", "browser", site.url, "--headless", "--selectors", str(map_file), "--session", "ada"])
    assert code == 1
    assert "expected a CSS selector for bet_amount" in capsys.readouterr().err
    assert not stored(home)


def test_a_dead_address_and_a_missing_display_are_said_so_and_leave_no_session(
    home: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    words = ["record", "browser", f"http://127.0.0.1:{port}/", "--session", "ada"]
    assert main([*words, "--headless"]) == 1
    assert "cannot connect to" in capsys.readouterr().err
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert main(words) == 1
    assert "--headless" in capsys.readouterr().err
    assert not stored(home)


NAMES = ("BUY", "SELL", "SIDEBET", "CLEAR", "INC_01", "HALF", "DOUBLE", "SELL_25", "SELL_50")


def test_a_map_made_by_pressing_the_buttons_records_them(
    site: Site, server: RunningServer, log: list[Entry], home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "made.toml"

    async def name_them(page: Any) -> None:
        person = Person(page)
        await person.ready()
        await asyncio.to_thread(server.advance_to, Phase.ACTIVE, 3)
        await asyncio.sleep(0.3)
        for name in (*NAMES, "stake"):
            await person.press(name)
        await asyncio.sleep(30)  # the command ends by itself, as everything is named

    summary = pick_selectors(PickPlan(site.url, path, NAMES, headless=True), name_them)
    assert not [entry for entry in log if isinstance(entry, OrderEntry)], "naming a button does not press it"
    assert summary["missing"] == []
    assert summary["selectors"] == {
        "BUY": 'trade-desk >>> button[aria-label="Open position"]',
        "SELL": 'trade-desk >>> button[aria-label="Close position"]',
        "SIDEBET": 'iframe[title="Side bets"] >>> bet-box >>> button:text("Double or nothing")',
        "CLEAR": 'trade-desk >>> amount-pad >>> button:text("X")',
        "INC_01": 'trade-desk >>> amount-pad >>> button:text("+0.01")',
        "HALF": 'trade-desk >>> amount-pad >>> button:text("1/2")',
        "DOUBLE": 'trade-desk >>> amount-pad >>> button:text("2x")',
        "SELL_25": 'side-rail >>> iframe[title="Shares"] >>> button[value="25"]',
        "SELL_50": 'side-rail >>> iframe[title="Shares"] >>> button[value="50"]',
        "bet_amount": "trade-desk >>> output.stake",
    }

    async def press_them(page: Any) -> None:
        person = Person(page)
        await person.ready()
        for name in NAMES:
            await person.press(name)
        await asyncio.sleep(0.4)

    record_page(RecordPlan(site.url, "cdp", str(path), session_id="ada", home=home), headless=True, drive=press_them)
    assert [name for name, *_ in presses_of(home)] == list(NAMES)


def test_naming_refuses_what_cannot_be_written(site: Site, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "made.toml"
    words = ["record", "selectors", site.url, "--headless", "--output", str(path), "--seconds", "2"]
    assert main(words) == 1
    assert "at least one button" in capsys.readouterr().err
    assert main([*words, "--names", "BUY,FLY"]) == 1
    assert "NAME:category" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.toml"))
    path.write_text("")
    assert main(words) == 1
    assert "--force" in capsys.readouterr().err
    dead = ["record", "selectors", "http://127.0.0.1:9/", "--headless", "--output", str(tmp_path / "dead.toml")]
    assert main(dead) == 1
