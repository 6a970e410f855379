"""The page in a real Chromium: everything a person does, asserted against what the server's table says.

Screenshots go to $PLAYPROOF_SCREENSHOTS, else to the test's own folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from playproof.games.crash.rules.money import MoneyLedger
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.games.crash.server.table import TablePlayer
from playproof.money import UNIT, show

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install -e '.[browser]'"
)

pytestmark = pytest.mark.browser

SEED = 14
BUTTONS = {
    "BUY", "SELL", "SIDEBET",
    "CLEAR", "INC_001", "INC_01", "INC_10", "INC_1", "HALF", "DOUBLE", "MAX",
    "SELL_10", "SELL_25", "SELL_50", "SELL_100",
}  # fmt: skip
VECTORS = """
787ca98847edfd5a2b495ffb6356a40eec1ce20d0668865eaffbbc2088c389e0 20251215-ece018bd34bb4acc 13 1.291133344055508
43f168487d9d3191630322880c1b3eab03120dec0546985b0ed6b834535040bb 20251207-60eadfaad3934e72 86 1.7116540575489452
42ab78482924971e44db8b15d511786e6f7a8952c05ee290a5a8980eae64d676 20251212-0f8cc5fc8e864519 126 1.6117655596141522
1863902da72537808441650745c94dacf11653dd39ebad534a40ea716f6ffa17 20251215-09af2a6fc8af4acb 252 29.7175705842902
b3a13fe6c9b47a060247edb3beeb814e52c9f9239659288847090b39af7201ce 20251207-591d94f81da4432d 1137 7.384555885937261
"""
"""Server seed, game id, rug tick, peak."""


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Any]:
    arguments = [
        "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--no-first-run",
    ]  # fmt: skip
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=str(chromium), args=arguments)
        yield launched
        launched.close()


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True)) as running:
        yield running


class Visitor:
    """A person at the page, and the table beside it."""

    def __init__(self, page: Any, server: RunningServer, shots: Path) -> None:
        self.page, self.server, self.shots = page, server, shots
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    def log_in(self, name: str = "Ada") -> None:
        self.page.goto(self.server.url)
        self.page.fill("#login-name", name)
        self.page.click("#login-go")
        self.until(lambda: self.text("name") == name)

    def text(self, id_: str) -> str:
        return str(self.page.text_content(f"#{id_}")).strip()

    def press(self, button: str) -> None:
        self.page.click(f'[data-button="{button}"]')

    @property
    def bet(self) -> str:
        return str(self.page.input_value("#bet"))

    @property
    def player(self) -> TablePlayer:
        (player,) = self.server.table.players.values()
        return player

    @property
    def ledger(self) -> MoneyLedger:
        return self.player.ledger

    def until(self, condition: Callable[[], bool], timeout_ms: int = 5000) -> None:
        """Wait until the page and the table agree on something."""
        for _ in range(timeout_ms // 20):
            if condition():
                return
            self.page.wait_for_timeout(20)
        raise AssertionError("it never came to that")

    def advance_to(self, phase: Phase, tick: int = 0) -> None:
        self.server.advance_to(phase, tick)
        names = {Phase.COOLDOWN: "Cooldown", Phase.PRESALE: "Presale", Phase.ACTIVE: "Live", Phase.RUGGED: "Rugged"}
        self.until(lambda: self.text("phase") == names[phase] and self.text("tick") == str(self.server.table.tick))

    def shoot(self, name: str) -> None:
        self.page.wait_for_timeout(250)
        self.page.screenshot(path=self.shots / f"{name}.png")


@pytest.fixture
def visit(browser: Any, server: RunningServer, tmp_path: Path) -> Iterator[Callable[..., Visitor]]:
    shots = Path(os.environ.get("PLAYPROOF_SCREENSHOTS") or tmp_path)
    shots.mkdir(parents=True, exist_ok=True)
    visitors: list[Visitor] = []

    def enter(width: int = 1280, height: int = 800) -> Visitor:
        context = browser.new_context(viewport={"width": width, "height": height})
        visitors.append(Visitor(context.new_page(), server, shots))
        return visitors[-1]

    yield enter
    for visitor in visitors:
        visitor.page.context.close()
        assert not visitor.errors


def shortest(units: int, index: int = 3) -> str:
    """Write units as the page does."""
    whole, _, rest = show(units).partition(".")
    rest = rest.rstrip("0").ljust(index, "0")
    return f"{whole}.{rest}" if rest else whole


def test_a_person_plays_a_round_and_verifies_it(visit: Callable[..., Visitor]) -> None:
    ada = visit()
    ada.log_in()
    assert ada.player.name == "Ada"
    assert (ada.text("balance"), ada.bet) == ("1.000", "0.001")
    ada.shoot("1-cooldown")

    for button, shown in (("INC_10", "0.101"), ("DOUBLE", "0.202"), ("INC_001", "0.203"), ("HALF", "0.1015")):
        ada.press(button)
        assert ada.bet == shown
    ada.advance_to(Phase.PRESALE, 0)
    ada.shoot("2-presale")

    ada.advance_to(Phase.ACTIVE, 12)
    ada.press("BUY")
    ada.until(lambda: ada.ledger.qty > 0)
    assert ada.ledger.cash == UNIT - 101_500_000
    qty = ada.ledger.qty
    ada.until(lambda: ada.text("qty") == shortest(qty, 0) and ada.text("balance") == shortest(ada.ledger.cash))
    ada.server.step(8)
    ada.shoot("3-holding")

    ada.press("SELL_50")
    assert ada.page.get_attribute('[data-button="SELL_50"]', "aria-pressed") == "true"
    ada.press("SELL")
    ada.until(lambda: ada.ledger.qty == qty - qty * 50 // 100)
    ada.until(
        lambda: ada.text("qty") == shortest(ada.ledger.qty, 0) and ada.text("balance") == shortest(ada.ledger.cash)
    )

    ada.press("CLEAR")
    ada.press("INC_01")
    assert ada.bet == "0.010"
    ada.press("SIDEBET")
    ada.until(lambda: ada.ledger.sidebet is not None)
    assert ada.ledger.sidebet is not None
    assert (ada.ledger.sidebet.stake, ada.ledger.sidebet.end_tick) == (10_000_000, ada.server.table.tick + 40)
    ada.until(lambda: ada.text("sidebet-state") == "40 ticks left")
    ada.server.step(5)
    ada.until(lambda: ada.text("sidebet-state") == "35 ticks left")
    ada.shoot("4-sidebet")

    identity, prices = ada.server.table.game_id, ada.server.table.round.prices
    ada.advance_to(Phase.RUGGED)
    assert ada.ledger.qty == 0
    ada.until(lambda: ada.text("balance") == shortest(ada.ledger.cash) and ada.text("qty") == "0")
    ada.until(lambda: ada.text("price-note") == f"Rugged on tick {len(prices) - 1}")
    ada.shoot("5-rugged")

    ada.server.step(2)
    ada.until(lambda: ada.page.get_attribute("#history button", "data-round") == identity)
    assert ada.page.get_attribute('[data-button="SELL_100"]', "aria-pressed") == "true", "a new round starts at 100 %"
    ada.page.click("#history button")
    ada.page.click("#verify")
    ada.until(lambda: ada.page.locator("#proof li").count() == 2)
    assert ada.page.get_attribute("#proof", "data-hash") == "true"
    assert ada.page.get_attribute("#proof", "data-equal") == f"{len(prices)}/{len(prices)}"
    assert ada.page.locator("#proof li.good").count() == 2
    assert "saw before the round" in ada.text("proof")
    ada.shoot("6-verified")


def test_every_button_of_the_table_is_there(visit: Callable[..., Visitor]) -> None:
    ada = visit()
    ada.log_in()
    result = ada.page.eval_on_selector_all("[data-button]", "all => all.map(each => each.dataset.button)")
    assert sorted(result) == sorted(BUTTONS)
    nameless = "all => all.filter((each) => !(each.ariaLabel || each.textContent.trim() || each.labels?.length)).length"
    unnamed = ada.page.eval_on_selector_all("button, input", nameless)
    assert unnamed == 0


def test_the_bet_field_counts_in_whole_units(visit: Callable[..., Visitor]) -> None:
    ada = visit()
    ada.log_in()
    ada.press("CLEAR")
    for _ in range(3):
        ada.press("INC_10")
    assert ada.bet == "0.300"
    for start, button, shown in (
        ("0.000000003", "HALF", "0.000000001"), ("0.7", "INC_001", "0.701"), ("999999.5", "INC_1", "1000000.000"),
        ("600000", "DOUBLE", "1000000.000"), ("5", "CLEAR", "0.000"), ("0.333333333", "DOUBLE", "0.666666666"),
        ("3", "MAX", "1.000"), ("0,25", "DOUBLE", "0.500"),
    ):  # fmt: skip
        ada.page.fill("#bet", start)
        ada.press(button)
        assert ada.bet == shown
    ada.page.fill("#bet", "12e3")
    assert ada.page.get_attribute("#bet", "aria-invalid") == "true"
    ada.page.press("#bet", "Tab")
    assert ada.bet == "0.500", "what cannot be read falls back to the last bet"


def test_keys_press_the_buttons(visit: Callable[..., Visitor]) -> None:
    ada = visit()
    ada.log_in()
    ada.advance_to(Phase.ACTIVE, 3)
    for key in "xew":
        ada.page.keyboard.press(key)
    assert ada.bet == "0.110"
    ada.page.keyboard.press("b")
    ada.until(lambda: ada.ledger.qty > 0)
    qty = ada.ledger.qty
    ada.until(lambda: ada.text("qty") == shortest(qty, 0))
    ada.page.keyboard.press("2")
    ada.page.keyboard.press("s")
    ada.until(lambda: ada.ledger.qty == qty - qty * 25 // 100)
    ada.page.keyboard.press("h")
    ada.page.keyboard.press("d")
    ada.until(lambda: ada.ledger.open_stake == 55_000_000)
    ada.page.focus("#bet")
    ada.page.keyboard.type("b")
    ada.page.keyboard.press("?")
    assert not ada.page.evaluate("document.querySelector('#help').open"), "typing is not a shortcut"
    ada.page.press("#bet", "Tab")
    ada.page.keyboard.press("?")
    ada.until(lambda: bool(ada.page.evaluate("document.querySelector('#help').open")))
    ada.shoot("7-help")


def test_a_refusal_is_shown_and_changes_nothing(visit: Callable[..., Visitor]) -> None:
    ada = visit()
    ada.log_in()
    ada.press("BUY")
    ada.until(lambda: "presale opens" in ada.text("toasts"))
    ada.advance_to(Phase.ACTIVE, 2)
    ada.press("SELL")
    ada.until(lambda: "nothing to sell" in ada.text("toasts"))
    assert ada.ledger.cash == UNIT
    ada.shoot("8-refused")


def test_a_lost_connection_is_said_and_mended(visit: Callable[..., Visitor]) -> None:
    ada = visit()
    ada.log_in()
    ada.advance_to(Phase.ACTIVE, 5)
    ada.press("BUY")
    ada.until(lambda: ada.ledger.qty > 0)

    def cut() -> None:
        for client in ada.server.server._clients.values():
            client.outbox.write.__self__.transport.abort()  # type: ignore[union-attr]

    ada.server.call(cut)
    ada.until(lambda: bool(ada.page.is_visible("#lost")))
    ada.server.step(3)
    ada.until(lambda: not ada.page.is_visible("#lost"))
    ada.until(lambda: ada.text("tick") == str(ada.server.table.tick))
    assert ada.text("qty") == shortest(ada.ledger.qty, 0)
    assert len(ada.server.table.players) == 1
    ada.page.reload()
    ada.until(lambda: ada.text("qty") == shortest(ada.ledger.qty, 0))
    assert len(ada.server.table.players) == 1


def test_names_of_others_are_only_text(visit: Callable[..., Visitor], server: RunningServer) -> None:
    name = "<img src=x onerror=a()>"
    server.call(lambda: server.table.join("eve", name))
    ada = visit()
    ada.page.goto(server.url)
    ada.page.fill("#login-name", "Ada")
    ada.page.click("#login-go")
    ada.until(lambda: ada.text("name") == "Ada")
    ada.advance_to(Phase.PRESALE)
    server.call(lambda: server.server.send(server.table.order("eve", "buyOrder", {"amount": 1}).messages))
    server.step(3)
    ada.until(lambda: name in ada.text("feed") and name in ada.text("board"))
    assert ada.page.locator("img").count() == 0


def test_the_page_fits_a_phone(visit: Callable[..., Visitor]) -> None:
    ada = visit(390, 844)
    ada.log_in()
    ada.advance_to(Phase.ACTIVE, 20)
    ada.press("INC_10")
    ada.press("BUY")
    ada.until(lambda: ada.ledger.qty > 0)
    ada.server.step(10)
    assert ada.page.evaluate("document.scrollingElement.scrollWidth") <= 390
    for button in BUTTONS:
        box = ada.page.locator(f'[data-button="{button}"]').bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["y"] + box["height"] <= 844, f"{button} is not on the first screen"
        assert box["height"] >= 28
    ada.shoot("9-phone")
    ada.advance_to(Phase.RUGGED)
    ada.server.step(2)
    ada.until(lambda: ada.text("phase") == "Cooldown")
    ada.page.click("#history button")
    ada.page.click("#verify")
    ada.until(lambda: ada.page.locator("#proof li.good").count() == 2)
    ada.shoot("10-phone-verified")


def test_an_own_world_is_verified_by_its_hash_only(browser: Any, tmp_path: Path) -> None:
    with RunningServer(ServeConfig(port=0, seed=SEED, manual=True, world="drift")) as server:
        context = browser.new_context()
        ada = Visitor(context.new_page(), server, tmp_path)
        ada.log_in()
        ada.until(lambda: ada.page.locator("#history button").count() == 10)
        ada.page.click("#history button")
        assert ada.text("verify") == "Verify this round (hash only)"
        ada.page.click("#verify")
        ada.until(lambda: ada.page.locator("#proof li").count() == 2)
        assert ada.page.get_attribute("#proof", "data-hash") == "true"
        assert ada.page.get_attribute("#proof", "data-equal") == ""
        assert "adds draws of its own" in ada.text("proof")
        context.close()


def test_a_doctored_round_is_found_out(visit: Callable[..., Visitor]) -> None:
    ada = visit()
    ada.log_in()
    seed, game, *_ = VECTORS.split()
    result = ada.page.evaluate(
        """async ([seed, game]) => {
          const { verifyRound, playRound } = await import("/verify.js");
          const prices = playRound(seed, game);
          prices[5] += 1e-9;
          return verifyRound({ id: game, gameVersion: "v3", prices,
            provablyFair: { serverSeed: seed, serverSeedHash: "0".repeat(64) } }, undefined);
        }""",
        [seed, game],
    )
    assert (result["hashMatches"], result["equal"], result["total"]) == (False, 13, 14)


def test_the_browser_replays_the_known_rounds(visit: Callable[..., Visitor]) -> None:
    ada = visit()
    ada.log_in()
    rounds = [line.split() for line in VECTORS.split("\n")[1:-1]]
    assert len(rounds) == 5
    for seed, game, rug_tick, peak in rounds:
        prices = ada.page.evaluate(
            'async ([seed, game]) => (await import("/verify.js")).playRound(seed, game)', [seed, game]
        )
        assert (len(prices) - 1, max(prices)) == (int(rug_tick), float(peak))
    draws = ada.page.evaluate(
        'async () => { const next = (await import("/verify.js")).seedRandom("hello."); return [next(), next()]; }'
    )
    assert draws == [0.9282578795792454, 0.3752569768646784]
    hashes = ada.page.evaluate(
        """async () => {
          const { sha256, sha256ByHand } = await import("/verify.js");
          const texts = ["", "abc", "x".repeat(55), "x".repeat(56), "x".repeat(64), "é".repeat(300)];
          return Promise.all(texts.map(async (t) => [await sha256(t), sha256ByHand(new TextEncoder().encode(t))]));
        }"""
    )
    assert all(one == two for one, two in hashes)
