"""Recording a person in a real Chromium: presses, frames and money, on our page and on one that is not ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from playproof.errors import ConfigError
from playproof.events import Event
from playproof.game import load_game
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.games.crash.server.protocol import BET, BUY, SELL, SESSION
from playproof.games.crash.server.table import Entry, FillEntry, OrderEntry
from playproof.money import to_units
from playproof.record.feeds.browser import BrowserFeed
from playproof.record.feeds.selectors import SelectorMap, load_map
from playproof.record.presses import INCOMPLETE, action_sequences
from playproof.record.recorder import GAP, Recorder, steady_clock
from playproof.record.redaction import Redaction
from playproof.record.session import NOTE, recorded_frames
from playproof.store import EventLog, EventStore

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed; run: make setup")

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium")]

GAME = load_game("crash")
MAP = load_map()
SEED = 12  # its first round rugs at tick 45
KEY = bytes(range(32))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 240))


def record(
    home: Path, url: str, page_map: SelectorMap, drive: Callable[[Any], Coroutine[Any, Any, None]], **more: Any
) -> Recorder:
    """Record a page while `drive` plays on it, into the real store."""
    clock = steady_clock()
    with EventLog.open(home, GAME.columns) as log:
        redaction = Redaction(KEY, keep_names=True)
        recorder = Recorder(GAME, log, "ada", "cdp", redaction=redaction, clock=clock, reading=page_map.reading)
        feed = BrowserFeed(url, recorder, clock, page_map, headless=True, drive=drive, **more)
        run(feed.run(asyncio.Event()))
        recorder.close()
    return recorder


def stored(home: Path) -> list[Event]:
    return list(EventStore(home, GAME.columns).events(session_id="ada"))


class Player:
    """A scripted person at our page, who looks before pressing."""

    def __init__(self, page: Any, server: RunningServer) -> None:
        self.page, self.server = page, server

    async def until(self, condition: str, argument: Any = None) -> None:
        """Ask again and again from outside: a function that waits inside the page is refused by its CSP."""
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(playwright.Error):  # the page is just being loaded anew
                if await self.page.evaluate(condition, argument):
                    return
            assert time.monotonic() < deadline, condition
            await asyncio.sleep(0.02)

    async def log_in(self) -> None:
        await self.page.fill("#login-name", "Ada")
        await self.page.click("#login-go")
        await self.until("document.getElementById('name').textContent === 'Ada'")
        await self.see()
        await asyncio.sleep(0.3)  # what greets the connection comes before anything else is said

    async def see(self) -> None:
        """Wait until the page shows where the table stands."""
        phase, tick = self.server.table.phase.name.lower(), str(self.server.table.tick)
        await self.until(
            "([phase, tick]) => document.body.dataset.phase === phase &&"
            " document.getElementById('tick').textContent.startsWith(tick)",
            [phase, tick],
        )

    async def advance(self, phase: Phase, tick: int = 0) -> None:
        await asyncio.to_thread(self.server.advance_to, phase, tick)
        await self.see()

    async def click(self, *buttons: str) -> None:
        for button in buttons:
            await self.page.click(f'[data-button="{button}"]')

    async def act(self, press: Callable[[], Coroutine[Any, Any, None]], orders: int, log: list[Entry]) -> None:
        """Press an action and wait until the server has taken the order and the page knows."""
        await press()
        deadline = time.monotonic() + 60
        while sum(isinstance(entry, OrderEntry) for entry in log) < orders:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.15)


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory, chromium: Path) -> Iterator[dict[str, Any]]:
    """Record one scripted evening, on which the tests below look from several sides."""
    home = tmp_path_factory.mktemp("evening")
    log: list[Entry] = []
    given: dict[str, list[Any]] = {}
    until_reload: dict[str, list[Any]] = {}
    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True), log=log) as server:
        original = server.server._give

        def noting(sid: str, client: Any, packets: list[Any], framed: bytes) -> None:
            given.setdefault(sid, []).extend(json.loads(packet.data[1:]) for packet in packets)
            original(sid, client, packets, framed)

        server.server._give = noting  # type: ignore[method-assign]

        async def play(page: Any) -> None:
            ada = Player(page, server)
            await ada.log_in()
            await ada.advance(Phase.PRESALE)
            await ada.act(lambda: ada.click("INC_01", "INC_01", "BUY"), 1, log)
            await ada.advance(Phase.ACTIVE, 3)
            await page.keyboard.press("q")
            await ada.act(lambda: ada.click("SELL_50", "SELL"), 2, log)
            await ada.click("CLEAR", "INC_01")
            await ada.act(lambda: page.keyboard.press("d"), 3, log)
            await ada.act(lambda: page.keyboard.press("d"), 4, log)
            await ada.advance(Phase.ACTIVE, 10)
            await ada.act(lambda: ada.click("BUY"), 5, log)
            await page.click("#bet")
            await page.keyboard.press("b")
            await ada.click("HALF")
            await ada.advance(Phase.RUGGED)
            await asyncio.to_thread(server.step, 3)
            await ada.see()
            await asyncio.sleep(0.3)  # all that was given is received before the connection ends
            until_reload.update({sid: list(payload) for sid, payload in given.items()})
            await page.reload()
            await ada.until("document.getElementById('name').textContent === 'Ada'")
            await ada.see()
            await asyncio.sleep(0.3)  # what greets the new connection comes before anything else is said
            await ada.advance(Phase.PRESALE)
            await ada.act(lambda: ada.click("DOUBLE", "BUY"), 6, log)
            await page.evaluate("document.querySelector('[data-button=\"MAX\"]').click()")
            await asyncio.sleep(0.4)

        recorder = record(home, server.url, MAP, play)
        said = [until_reload.get(sid, payload) for sid, payload in given.items()]
        yield {"home": home, "log": log, "said": said, "recorder": recorder, "events": stored(home)}


def test_presses_have_their_tick_price_bet_and_sequence(evening: dict[str, Any]) -> None:
    events = evening["events"]
    result = action_sequences(events, MAP.reading)
    shape = [(s.final_action, [p.button_id for p in s.presses]) for s in result]
    assert shape == [
        ("BUY", ["INC_01", "INC_01", "BUY"]),
        ("SELL", ["INC_001", "SELL_50", "SELL"]),
        ("SIDEBET", ["CLEAR", "INC_01", "SIDEBET"]),
        ("SIDEBET", ["SIDEBET"]),
        ("BUY", ["BUY"]),
        (INCOMPLETE, ["HALF"]),
        ("BUY", ["DOUBLE", "BUY"]),
    ], "what a script of the page clicks, and what is typed into the bet field, is no press"
    presses = [p for s in result for p in s.presses]
    ticks = [e for e in events if e.event_name == "tick"]
    price = {(e.window_id, e.columns["game_phase"], e.columns["tick"]): e.columns["price"] for e in ticks}
    assert [(p.game_phase, p.tick) for p in presses[:3]] == [(1, 0)] * 3
    assert [(p.game_phase, p.tick) for p in presses[3:10]] == [(2, 3)] * 7
    assert all(p.price == price[p.game_id, p.game_phase, p.tick] for p in presses)
    coins = ["0.011", "0.021", "0.021", "0.022", "0.022", "0.022", "0", "0.01", "0.01", "0.01", "0.01", "0.005"]
    assert [p.bet_amount for p in presses[:12]] == [to_units(c) for c in coins]
    assert [p.sequence_position for p in presses] == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 0, 0, 1]
    assert [s.sequence_id for s in result] == list(range(7))
    sell = result[1].presses[2]
    assert (sell.ticks_since_last_action, sell.time_in_position) == (3, 3)
    assert sell.balance == to_units("0.979")
    assert all(p.client_timestamp for p in presses)


def test_executions_and_outcomes_are_the_tables_own(evening: dict[str, Any]) -> None:
    result = action_sequences(evening["events"], MAP.reading)
    fills = [entry for entry in evening["log"] if isinstance(entry, FillEntry)]
    first, sale, bet, again = fills[0], fills[1], fills[2], fills[3]
    assert [entry.kind for entry in fills[:4]] == ["buy", "sell", "bet", "buy"]
    buy, sell, sidebet, refused, second, _, last = result
    assert (buy.presses[-1].execution_tick, buy.presses[-1].execution_price) == (0, 1.0)
    assert (sell.presses[-1].execution_tick, sell.presses[-1].execution_price) == (3, sale.price)
    assert all(s.presses[-1].trade_id and s.presses[-1].latency_ms for s in (buy, sell, sidebet, second))
    rug = next(entry for entry in fills if entry.kind == "rug_sale")
    half = first.qty // 2
    assert buy.outcome == second.outcome == "rugged"
    assert buy.pnl is not None
    assert second.pnl is not None
    assert buy.pnl + second.pnl == sale.amount + rug.amount - first.amount - again.amount
    assert sell.outcome in ("profit", "loss")
    assert sell.pnl == sale.amount - (first.amount - first.amount * (first.qty - sale.qty) // first.qty)
    assert sale.qty == half
    assert (sidebet.outcome, sidebet.pnl) == ("lost", -bet.amount)
    assert refused.outcome == "refused"
    assert [s.rug_tick for s in (buy, sell, sidebet, second)] == [45] * 4
    assert (last.outcome, last.rug_tick) == ("pending", None)


def test_the_stores_frames_are_the_servers_own(evening: dict[str, Any]) -> None:
    events, recorder = evening["events"], evening["recorder"]
    raws = [e.raw for e in events if e.raw and e.direction == "received" and e.raw.startswith("42[")]
    heard = [json.loads(raw[2:]) for raw in raws]
    connections = [name for name, *_ in heard].count(SESSION)
    assert connections == len(evening["said"]) >= 2
    said = [frame for connection in evening["said"] for frame in connection]
    for frame in (frame for frames in (said, heard) for frame in frames if frame[0] == SESSION):
        frame[1].pop("token")  # the store never holds it
    assert [name for name, *_ in heard] == [name for name, *_ in said]
    assert heard == said
    out = [e.raw for e in events if e.raw and e.direction == "sent" and e.raw.startswith("42")]
    sent = [json.loads(raw[raw.index("[") :]) for raw in out]
    orders = [entry for entry in evening["log"] if isinstance(entry, OrderEntry)]
    assert sent == [[entry.kind, entry.payload] for entry in orders]
    assert recorder.counts.late == 0
    times = [e.ts for e in events if not e.event_name.startswith(NOTE)]
    assert times == sorted(times), "in the order of the page's own clock"


def test_a_recorded_session_decodes_to_the_servers_orders_fills_and_balances(evening: dict[str, Any]) -> None:
    decoder = GAME.recording().decoder()
    facts = [fact for frame in recorded_frames(evening["events"]) for fact in decoder(frame)]
    stored_facts = [
        (e.event_name, dict(e.columns), e.window_id, e.player_id)
        for e in evening["events"]
        if not e.event_name.startswith(NOTE) and e.event_name in {f.event_name for f in facts}
    ]
    assert [(f.event_name, dict(f.columns), f.window_id, f.player_id) for f in facts] == stored_facts
    log = evening["log"]
    orders = [entry for entry in log if isinstance(entry, OrderEntry)]
    kinds = {BUY: "BUY", SELL: "SELL", BET: "SIDEBET"}
    fields = [f.columns for f in facts if f.event_name == "order"]
    assert [(o["order_kind"], o.get("order_amount"), o.get("order_share"), o["tick"]) for o in fields] == [
        (
            kinds[o.kind],
            to_units(o.payload["amount"]) if "amount" in o.payload else None,
            o.payload.get("percentage"),
            o.tick,
        )
        for o in orders
    ]
    answers = [f.columns["success"] for f in facts if f.event_name == "ack"]
    assert answers == [o.success for o in orders]
    fills = [entry for entry in log if isinstance(entry, FillEntry)]
    traded = [f.columns for f in facts if f.event_name == "fill"]
    wanted = ("trade_type", "forced", "tick", "trade_price", "trade_qty", "trade_amount")
    assert [tuple(t[name] for name in wanted) for t in traded] == [
        ("buy" if f.kind == "buy" else "sell", f.kind == "rug_sale", f.tick, f.price, f.qty, f.amount)
        for f in fills
        if f.kind in ("buy", "sell", "rug_sale")
    ]
    bets = [(f.columns["sidebet_type"], f.columns["sidebet_stake"]) for f in facts if f.event_name == "bet"]
    assert bets == [("placed", to_units("0.01")), ("payout", to_units("0.01"))]
    balances = [f.columns["cash"] for f in facts if f.event_name == "player"]
    known = [to_units(1), *(f.cash for f in fills)]
    assert [cash for cash, _ in groupby(balances)] == [cash for cash, _ in groupby(known)]


def test_a_reload_is_a_gap_and_the_same_player(evening: dict[str, Any]) -> None:
    gaps = [json.loads(e.raw or "") for e in evening["events"] if e.event_name == GAP]
    assert len(gaps) == 1
    assert gaps[0]["before"]["columns"]["tick"] == gaps[0]["after"]["columns"]["tick"] == 0
    players = {e.player_id for e in evening["events"]} - {None}
    assert players == {entry.player for entry in evening["log"]}
    sources = {(e.doc_type, e.source) for e in evening["events"] if e.doc_type in ("button_event", "game_tick")}
    assert sources == {("button_event", "ui"), ("game_tick", "cdp")}


# a page that is not ours

PAGE = """<!doctype html><title>Another site</title>
<div id=panel><input id=amount inputmode=decimal value="0.25 SOL"><button class=go><b>Buy now</b></button></div>
<div id=host></div><script src=/site.js></script>"""
SCRIPT = """
for (const kind of ["click", "keydown", "pointerdown"]) {
  document.addEventListener(kind, (event) => event.stopImmediatePropagation(), true);
}
const root = document.getElementById("host").attachShadow({ mode: "open" });
root.innerHTML = "<button id=out>Out</button>";
const socket = new WebSocket(`ws://${location.host}/live/`);
const noise = new WebSocket(`ws://${location.host}/noise/`);
socket.onmessage = ({ data }) => { document.title = data.slice(0, 60); };
"""
ROUND = "20250101-0123456789abcdef"


class Site:
    """A small site of somebody else, strict about scripts and deaf to bubbling events."""

    def __init__(self) -> None:
        self.sockets: list[web.WebSocketResponse] = []
        self.runner = web.AppRunner(self.app())
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        policy = {"content-security-policy": "default-src 'none'; script-src 'self'; connect-src 'self'"}

        async def page(_: web.Request) -> web.Response:
            return web.Response(text=PAGE, content_type="text/html", headers=policy)

        async def script(_: web.Request) -> web.Response:
            return web.Response(text=SCRIPT, content_type="text/javascript")

        app.add_routes([web.get("/", page), web.get("/site.js", script)])
        app.add_routes([web.get("/live/", self.live), web.get("/noise/", self.live)])
        return app

    async def live(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if request.path == "/noise/":
            await socket.send_str('42["gameStateUpdate",{"tickCount":"noise"}]')
        else:
            self.sockets.append(socket)
        async for message in socket:
            if message.type == WSMsgType.ERROR:
                break
        return socket

    async def start(self) -> None:
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}/"

    async def tick(self, tick: int, price: float) -> None:
        payload = {"gameId": ROUND, "active": True, "rugged": False, "tickCount": tick, "price": price}
        for socket in self.sockets:
            await socket.send_str("42" + json.dumps(["gameStateUpdate", payload]))
        await asyncio.sleep(0.15)


FOREIGN = """
extends = "playproof"
socket = "/live/"
[buttons]
BUY = { selector = "#panel button.go", category = "action" }
SELL = { selector = "#out", category = "action" }
MAX = { key = "m", category = "bet_adjust" }
[fields]
bet_amount = { selector = "#amount" }
"""


def test_attaching_to_a_page_that_is_not_ours(chromium: Path, tmp_path: Path, home: Path) -> None:
    map_file = tmp_path / "site.toml"
    map_file.write_text(FOREIGN)
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
    site = Site()

    async def work() -> None:
        await site.start()
        profile = tmp_path / "profile"
        started = subprocess.Popen(
            [str(chromium), *flags, f"--user-data-dir={profile}", site.url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = await asyncio.to_thread(_port, profile / "DevToolsActivePort")
            while not site.sockets:
                await asyncio.sleep(0.05)
            clock, page_map = steady_clock(), load_map(str(map_file))
            with EventLog.open(home, GAME.columns) as log:
                recorder = Recorder(GAME, log, "ada", "cdp", redaction=Redaction(KEY), clock=clock)
                feed = BrowserFeed(site.url, recorder, clock, page_map, drive=play, attach=f"http://127.0.0.1:{port}")
                await feed.run(asyncio.Event())
                recorder.close()
            assert started.poll() is None, "the browser that was there before stays"
        finally:
            started.terminate()
            await asyncio.to_thread(started.wait, 10)
            await site.runner.cleanup()

    async def play(page: Any) -> None:
        await site.tick(7, 1.75)
        await page.click("button.go")
        await site.tick(8, 2.0)
        await page.keyboard.press("m")
        await page.locator("#out").click()
        await site.tick(9, 2.25)

    run(work())
    events = stored(home)
    presses = [e.columns for e in events if e.doc_type == "button_event"]
    assert [(p["button_id"], p["tick"], p["price"], p["bet_amount"]) for p in presses] == [
        ("BUY", 7, 1.75, to_units("0.25")),
        ("MAX", 8, 2.0, to_units("0.25")),
        ("SELL", 8, 2.0, to_units("0.25")),
    ]
    assert [e.columns["tick"] for e in events if e.event_name == "tick"] == [7, 8, 9]
    assert not [e for e in events if "noise" in (e.raw or "")], "only the socket of the map is recorded"


def _port(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not path.exists() or not path.read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return path.read_text().splitlines()[0]


def test_a_browser_that_is_not_there_is_said_so(home: Path) -> None:
    async def nothing(_: Any) -> None: ...

    with pytest.raises(ConfigError, match="expected a Chromium at"):
        record(home, "http://127.0.0.1:1/", MAP, nothing, attach="http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="expected to open"):
        record(home, "http://127.0.0.1:1/", MAP, nothing)


def test_a_page_that_dies_ends_the_recording(home: Path) -> None:
    async def die(page: Any) -> None:
        with contextlib.suppress(Exception):
            await page.goto("chrome://crash", timeout=3000)
        await asyncio.sleep(30)

    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True)) as server:
        started = time.monotonic()
        record(home, server.url, MAP, die)
        assert time.monotonic() - started < 20
    assert stored(home)[-1].event_name == "record.stop"


def test_ctrl_c_ends_the_command_cleanly(home: Path) -> None:
    opened = threading.Event()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            opened.set()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{site.server_port}/"
        command = [sys.executable, "-m", "playproof", "record", "browser", url, "--headless", "--json"]
        running = subprocess.Popen(
            [*command, "--session", "ada"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            assert opened.wait(30)
            time.sleep(0.5)
            os.killpg(running.pid, signal.SIGINT)
            output, errors = running.communicate(timeout=30)
        finally:
            running.kill()
        site.shutdown()
    assert running.returncode == 0, errors
    assert json.loads(output)["ended"] == "interrupted"
    assert [e.event_name for e in stored(home)][-1] == "record.stop"
