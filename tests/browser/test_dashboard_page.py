"""The dashboard in Chromium: every page as every role, without scripts, live, cut off and back, odd texts, keys."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from dashboard_home import HOSTILE, NOW, fill_tables, make_report, make_run, note_line
from starlette.types import ASGIApp

from playproof.dashboard.access import DashboardSessions
from playproof.dashboard.app import dashboard_app
from playproof.dashboard.context import DashboardContext
from playproof.net.listening import bind
from playproof.operate.jobs.queue import enqueue
from playproof.store.db import connect, upgrade

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.browser
PATIENT = 60_000
PAGES = (
    "/",
    "/recordings",
    "/store",
    "/store/query?sql=SELECT+1+AS+a",
    "/datasets",
    "/runs",
    "/runs/learner",
    "/runs/compare?names=learner+other",
    "/proof",
    "/proof/validate-aa-bb",
    "/proof/trials",
    "/agents",
    "/agents/trajectories",
    "/agents/review",
    "/agents/search?q=script",
    "/models",
    "/experiments",
    "/bots",
    "/jobs",
    "/settings",
)


class Wire:
    """A line between the browser and the server that can be cut and mended."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open: list[socket.socket] = []
        self._listening: socket.socket | None = None
        self.port = 0
        self.mend()

    def mend(self) -> None:
        """Let connections through."""
        self._listening = bind("127.0.0.1", self.port)
        self._listening.listen(64)
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def cut(self) -> None:
        """End every connection, and take no new one."""
        assert self._listening is not None
        for item in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._open.clear()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with source:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(app: ASGIApp) -> Iterator[int]:
    """Serve an application in a thread; give its port."""
    taken = bind("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    try:
        yield taken.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        taken.close()


class Site:
    """A served home, and a browser."""

    def __init__(self, root: Path, sessions: DashboardSessions, wire: Wire, browser: Any) -> None:
        self.root, self.sessions, self.wire, self.browser = root, sessions, wire, browser
        self.base = f"http://127.0.0.1:{wire.port}"

    @contextmanager
    def page(self, role: str | None, **settings: Any) -> Iterator[Any]:
        """Give a page, signed in, which notes what went wrong in it."""
        context = self.browser.new_context(**settings)
        context.set_default_timeout(PATIENT)
        page = context.new_page()
        page.wrong = []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("console", lambda line: page.wrong.append(line.text) if line.type == "error" else None)
        try:
            if role is not None:
                page.goto(f"{self.base}/enter?once={self.sessions.link(role)}")  # type: ignore[arg-type]
            yield page
        finally:
            context.close()


@pytest.fixture(scope="module")
def site(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("dashboard") / "home"
    root.mkdir()
    engine = connect(url=f"sqlite:///{root / 'playproof.db'}")
    upgrade(engine)
    fill_tables(engine)
    for number, name in enumerate(("learner", "other")):
        make_run(root, name, points=4, seed=number + 2, note=HOSTILE[number])
    make_report(root, text=HOSTILE[0])
    enqueue(engine, root, ["audit", "mine"], "test", NOW)
    sessions = DashboardSessions()
    with serving(dashboard_app(DashboardContext(root, engine), sessions)) as port:
        wire = Wire(port)
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
            yield Site(root, sessions, wire, browser)
            browser.close()
        wire.cut()
    engine.dispose()


@pytest.mark.parametrize(
    ("role", "settings"),
    [
        ("viewer", {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "java_script_enabled": False}),
        ("operator", {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}),
        ("admin", {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}),
    ],
    ids=["viewer-phone-dark-without-scripts", "operator-phone-dark", "admin-desktop-light"],
)
def test_every_page(site: Site, role: str, settings: dict[str, Any]) -> None:
    with site.page(role, **settings) as page:
        for address in PAGES:
            answer = page.goto(site.base + address, wait_until="domcontentloaded")
            assert answer.status == 200, address
            assert page.locator("h1").count() == 1
            assert page.locator("nav[aria-label=pages] a").count() == 12
            if address in ("/", "/runs", "/bots"):
                # what a role may not do is not offered
                kill = page.get_by_role("button", name="Kill all bots")
                assert kill.count() == (role != "viewer")
            if settings.get("java_script_enabled", True):
                width = page.evaluate("document.documentElement.scrollWidth")
                assert width <= settings["viewport"]["width"], (address, width)
                assert page.evaluate("window.hit") is None, "no text of a stranger ran"
                assert page.evaluate(UNNAMED) == [], address
        assert page.wrong == []


def test_nobody_without_a_link(site: Site) -> None:
    with site.page(None) as page:
        for address in ("/", "/runs", "/data/runs.json"):
            assert page.goto(site.base + address).status == 401
            assert "playproof dashboard" in page.locator("body").inner_text()


def test_a_curve_moves_and_a_cut_line_heals(site: Site) -> None:
    log = site.root / "runs" / "learner" / "log.jsonl"
    with site.page("viewer", viewport={"width": 1280, "height": 900}) as page:
        page.goto(f"{site.base}/runs/learner", wait_until="domcontentloaded")
        page.wait_for_selector("#curves figure canvas")
        playwright.expect(page.locator("body")).to_have_attribute("data-stream", "open", timeout=PATIENT)
        steps = page.locator("#facts dd").nth(2)
        with log.open("a") as file:
            file.write(note_line(500, 3))
        playwright.expect(steps).to_have_text("50,000", timeout=PATIENT)
        assert page.locator("#curves figure.chart canvas").count(), "the chart is the same one, with a point more"
        page.locator("summary", has_text="Numbers").first.click()
        playwright.expect(page.locator("#curves").get_by_text("50,000").first).to_be_visible(timeout=PATIENT)
        site.wire.cut()
        playwright.expect(page.locator("body")).to_have_attribute("data-stream", "broken", timeout=PATIENT)
        with log.open("a") as file:
            file.write(note_line(600, 3))
        site.wire.mend()
        playwright.expect(steps).to_have_text("60,000", timeout=PATIENT)
        playwright.expect(page.locator("body")).to_have_attribute("data-stream", "open", timeout=PATIENT)


def test_the_review_queue_by_keys(site: Site) -> None:
    with site.page("operator") as page:
        page.goto(f"{site.base}/agents/review", wait_until="domcontentloaded")
        playwright.expect(page.locator("body")).to_have_attribute("data-ready", "yes", timeout=PATIENT)
        first = page.locator("h1").inner_text()
        page.keyboard.press("a")
        playwright.expect(page.locator("h1")).not_to_have_text(first, timeout=PATIENT)
        playwright.expect(page.locator("body")).to_have_attribute("data-ready", "yes", timeout=PATIENT)
        second = page.locator("h1").inner_text()
        page.keyboard.press("j")
        playwright.expect(page.locator("h1")).not_to_have_text(second, timeout=PATIENT)
        page.goto(f"{site.base}/agents/trajectories?verdict=accepted")
        assert page.locator("#trajectories tbody tr").count() == 1


def test_by_keyboard_alone(site: Site) -> None:
    with site.page("admin") as page:
        page.goto(f"{site.base}/runs", wait_until="domcontentloaded")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#main"
        page.locator("#runs input[name=name]").focus()
        page.keyboard.type("learner")
        page.keyboard.press("Enter")
        page.wait_for_url("**name=learner**")
        assert page.locator("#runs tbody tr").count() == 1


def test_colours_are_told_apart(site: Site) -> None:
    for scheme in ("light", "dark"):
        with site.page("admin", color_scheme=scheme) as page:
            page.goto(f"{site.base}/agents/trajectories", wait_until="domcontentloaded")
            for selector in ("tbody a", ".bar-top li a", "th a", ".form button", ".kill button", ".pager a", "h1"):
                ratio = page.locator(selector).first.evaluate(CONTRAST)
                assert ratio >= 4.5, (scheme, selector, ratio)


UNNAMED = """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a, nav, form")]
  .filter(node => !(node.labels?.length || node.textContent.trim() || node.ariaLabel)).map(node => node.outerHTML)"""
"""What a screen reader would have no name for."""
CONTRAST = """node => {
  const read = text => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ink = light(read(getComputedStyle(node).color));
  let behind = node;
  while (behind && read(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const paper = light(read(getComputedStyle(behind ?? document.body).backgroundColor));
  return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
}"""
