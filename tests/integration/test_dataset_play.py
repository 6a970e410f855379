"""Recorded human-like play as a data set: every press at its tick, with the bet and money of the game's own table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import recordings as r

from playproof.datasets import Dataset, DatasetConfig, build, open_dataset
from playproof.game import load_game
from playproof.games.crash.players.human import Human, Live, Mood, ScriptedPresser
from playproof.games.crash.recording.sample import JOINS_AT_MS, PLAYER_ID, SampleRecorder
from playproof.games.crash.rules.actions import BETS, MAIN, ORDERS, PERCENTAGES, SHARES
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.app import RunningServer, ServeConfig
from playproof.games.crash.server.protocol import BET, BUY, SELL
from playproof.games.crash.server.table import Entry, FillEntry, GameTable, OrderEntry
from playproof.money import UNIT, to_units
from playproof.record.feeds.selectors import load_map
from playproof.record.recorder import Recorder, steady_clock
from playproof.record.redaction import Redaction
from playproof.store import EventLog, EventStore

GAME = load_game("crash")
KEY = bytes(range(32))
KINDS = {BUY: "BUY", SELL: "SELL", BET: "SIDEBET"}
Pressed = tuple[str, int, int, str]
"""Round, phase, tick and button."""


def lively() -> Human:
    """Give a person who presses much, so that few rounds hold many presses."""
    moods = [Mood(bet, take_profit=0.02, stop_loss=0.02, entry=0.9, sit_out=0.0) for bet in (0.005, 0.021, 0.042)]
    return Human(
        *moods, early=0.9, patience=4, boredom=0.5, hesitation=0.9, exit_hesitation=0.9, fingers=0.95, whim=0.2,
        lost_interest=0.01, long_round=20, rest=3, due=0.3, slip_right=0.15, slip_left=0.1, fat_finger=0.01,
    )  # fmt: skip


@dataclass
class Player:
    """A scripted person in place of a script: pressing what comes to his mind at the table."""

    presser: ScriptedPresser
    table: Callable[[], GameTable]
    bet: Callable[[], int]
    pressed: list[Pressed] = field(default_factory=list)

    def get(self, point: tuple[int, Phase, int], _default: Sequence[str]) -> Sequence[str]:
        table = self.table()
        if table.phase not in (Phase.PRESALE, Phase.ACTIVE):
            return ()
        book = table.players[PLAYER_ID].ledger
        live = Live(
            int(table.phase),
            table.tick,
            table.price,
            book.cash / UNIT,
            self.bet() / UNIT,
            book.qty / UNIT,
            book.avg_cost / UNIT,
            book.pnl(table.price) / UNIT,
            book.invested / UNIT,
        )
        buttons = [press.button_id for press in self.presser.see(live)]
        self.pressed += [(table.game_id, int(table.phase), table.tick, button) for button in buttons]
        return buttons


def play(presses: int, seed: int) -> tuple[SampleRecorder, list[Pressed]]:
    """Let him play whole rounds until he has pressed so often."""
    person = Player(ScriptedPresser(lively(), np.random.default_rng(seed)), lambda: made.table, lambda: made._bet)
    made = SampleRecorder(seed, person, crowded=False)  # type: ignore[arg-type]
    while made.table.timer_ms > JOINS_AT_MS:
        made.table.advance()
    made.join()
    while len(person.pressed) < presses or made.table.phase is not Phase.RUGGED:
        made.beat()
    made.beat()
    return made, person.pressed


def kept(frames: Sequence[Any], home: Path, actions: str = "buttons-share") -> Dataset:
    """Record frames with the real recorder into the real store, and build a data set of them."""
    with EventLog.open(home, GAME.columns) as log:
        clock = steady_clock()
        reading = load_map().reading
        recorder = Recorder(
            GAME, log, "sam", "cdp", redaction=Redaction(KEY, keep_names=True), clock=clock, reading=reading
        )
        for frame in frames:
            recorder.take(frame)
        recorder.close()
    return built(home, actions)


def built(home: Path, actions: str = "buttons-share") -> Dataset:
    config = DatasetConfig("play", "recorded", actions, "minimal", {"train": 1.0}, 0, include_incomplete=True)
    return open_dataset(build(GAME, EventStore(home), config, home))


def steps(dataset: Dataset) -> pl.DataFrame:
    """Give every step with what was seen, done and paid."""
    (tables,) = dataset.sessions.values()
    seen = tables["observations"].filter(~pl.col("final"))
    seen = seen.select("window_id", "step", "tick", "game_phase", "price", "bet_amount", "balance", "position_qty")
    keys = ["window_id", "step"]
    return tables["actions"].rename({}).join(seen, on=keys, suffix="_seen").join(tables["rewards"], on=keys).sort(keys)


def named(row: dict[str, Any]) -> str:
    """Give the button of a step; an empty text for a wait."""
    main, bet, share = row["head_0"], row["head_1"], row["head_2"]
    return MAIN[main] if main else BETS[bet] if bet else SHARES[share] if share else ""


def check_play(dataset: Dataset, pressed: Sequence[Pressed], log: Sequence[Entry]) -> None:
    """Hold a data set against what was pressed and what the table did."""
    order = {window: index for index, window in enumerate(dict.fromkeys(game_id for game_id, *_ in pressed))}
    rows = [row for row in steps(dataset).iter_rows(named=True) if row["window_id"] in order]
    rows.sort(key=lambda row: (order[row["window_id"]], row["step"]))
    done = [row for row in rows if named(row)]
    result = [(row["window_id"], int(row["game_phase"]), int(row["tick"]), named(row)) for row in done]
    assert result == list(pressed), "every press is a step of its own, at the tick received last"
    _check_orders([row for row in done if named(row) in ORDERS], log)
    _check_money(rows, log)
    _check_bets(rows)


def _check_orders(done: Sequence[dict[str, Any]], log: Sequence[Entry]) -> None:
    """Every order of the data set is one that the table took or refused, with the same amount, share and effect."""
    orders = [entry for entry in log if isinstance(entry, OrderEntry) and entry.kind in KINDS]
    assert [(row["window_id"], int(row["tick"]), named(row), row["effect"]) for row in done] == [
        (entry.game_id, entry.tick, KINDS[entry.kind], entry.success) for entry in orders
    ]
    for row, entry in zip(done, orders, strict=True):
        if entry.kind == SELL:
            assert row["sell_share"] == entry.payload["percentage"]
        else:
            assert np.float32(to_units(entry.payload["amount"]) / 1e9) == np.float32(row["bet_amount_seen"])


def _check_money(rows: Sequence[dict[str, Any]], log: Sequence[Entry]) -> None:
    """Cash before and after every order is the table's, to the unit."""
    orders = {"BUY": "buy", "SELL": "sell", "SIDEBET": "bet"}
    effective = [row for row in rows if named(row) in ORDERS and row["effect"]]
    fills = [entry for entry in log if isinstance(entry, FillEntry) and entry.kind in orders.values()]
    assert [orders[named(row)] for row in effective] == [entry.kind for entry in fills]
    for row, entry in zip(effective, fills, strict=True):
        change = entry.amount if entry.kind == "sell" else -entry.amount
        assert row["cash"] == entry.cash - change
        assert entry.price == pytest.approx(row["price"], rel=1e-6)
    ends = {row["window_id"]: row["next_equity"] for row in rows}
    for window, equity in ends.items():
        last = [entry.cash for entry in log if isinstance(entry, FillEntry) and entry.game_id == window]
        assert not last or equity == last[-1]


def _check_bets(rows: Sequence[dict[str, Any]]) -> None:
    """Every tick from 0 to the rug has a step, and those without a press are waits."""
    windows: dict[str, list[int]] = {}
    for row in rows:
        if row["game_phase"] == Phase.ACTIVE and row["substep"] == 0:
            windows.setdefault(row["window_id"], []).append(int(row["tick"]))
    assert windows
    assert all(ticks == list(range(len(ticks))) for ticks in windows.values())
    assert sum(not named(row) for row in rows) > len(windows)


def test_a_thousand_presses_are_what_the_table_executed(tmp_path: Path) -> None:
    made, pressed = play(1000, seed=11)
    assert len(pressed) >= 1000
    assert {"BUY", "SELL", "SIDEBET"} | {"INC_01", "INC_001"} <= {button for *_, button in pressed}
    assert any(button in PERCENTAGES for *_, button in pressed)
    dataset = kept(made.frames, tmp_path)
    assert dataset.manifest["corrected"] == 0
    check_play(dataset, pressed, made.log)


def test_a_sequence_becomes_the_right_steps(tmp_path: Path) -> None:
    script = {(0, Phase.ACTIVE, 3): ("INC_01", "INC_01", "INC_001", "BUY")}
    made = SampleRecorder(612, script)
    while made.table.timer_ms > JOINS_AT_MS:
        made.table.advance()
    made.join()
    while made.table.phase is not Phase.RUGGED:
        made.beat()
    made.beat()
    rows = steps(kept(made.frames, tmp_path)).filter((pl.col("tick") == 3) & (pl.col("game_phase") == 2))
    heads = rows.select("head_0", "head_1", "substep").rows()
    assert heads == [
        (0, BETS.index("INC_01"), 0),
        (0, BETS.index("INC_01"), 1),
        (0, BETS.index("INC_001"), 2),
        (1, 0, 3),
    ]
    assert [round(bet, 3) for bet in rows["bet_amount_seen"]] == [0.001, 0.011, 0.021, 0.022]
    (fill,) = [entry for entry in made.log if isinstance(entry, FillEntry) and entry.kind == "buy"]
    assert (fill.amount, fill.tick) == (to_units("0.022"), 3)
    assert rows["cash"].to_list() == [UNIT] * 4
    assert rows["next_equity"].to_list()[:3] == [UNIT] * 3


class Clicker:
    """A person at the real page, who looks at what it shows before pressing."""

    def __init__(self, page: Any, server: RunningServer, person: ScriptedPresser) -> None:
        self.page, self.server, self.person = page, server, person
        self.pressed: list[Pressed] = []

    async def until(self, condition: str, argument: Any = None) -> None:
        for _ in range(1500):
            if await self.page.evaluate(condition, argument):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(condition)

    async def log_in(self) -> None:
        await self.page.fill("#login-name", "Ada")
        await self.page.click("#login-go")
        await self.until("document.getElementById('name').textContent === 'Ada'")
        await self.shown()
        await asyncio.sleep(0.3)

    async def shown(self) -> None:
        """Wait until the page shows where the table stands."""
        table = self.server.table
        await self.until(
            "([phase, tick]) => document.body.dataset.phase === phase &&"
            " document.getElementById('tick').textContent.startsWith(tick)",
            [table.phase.name.lower(), str(table.tick)],
        )

    async def press(self, buttons: Sequence[str], log: Sequence[Entry]) -> None:
        """Click one button after the other; an order is answered before the next."""
        for button in buttons:
            table = self.server.table
            self.pressed.append((table.game_id, int(table.phase), table.tick, button))
            before = sum(isinstance(entry, OrderEntry) for entry in log)
            await self.page.click(f'[data-button="{button}"]')
            if button in ORDERS:
                for _ in range(1000):
                    if sum(isinstance(entry, OrderEntry) for entry in log) > before:
                        break
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.06)  # the page has heard the answer and what followed from it

    async def rounds(self, log: Sequence[Entry], presses: int) -> None:
        """Play whole rounds, tick by tick, until so many presses are made."""
        table = self.server.table
        while len(self.pressed) < presses or table.phase is not Phase.RUGGED:
            if table.phase is Phase.RUGGED or table.phase is Phase.COOLDOWN:
                await asyncio.to_thread(self.server.advance_to, Phase.PRESALE)
            elif table.phase is Phase.PRESALE:
                await asyncio.to_thread(self.server.advance_to, Phase.ACTIVE, 0)
            else:
                await asyncio.to_thread(self.server.step)
            await self.shown()
            if table.phase in (Phase.PRESALE, Phase.ACTIVE):
                await self.press(await self.wants(), log)

    async def many(self, log: Sequence[Entry], rounds: int) -> None:
        """Play so many whole rounds."""
        for number in range(1, rounds + 1):
            await self.rounds(log, 0)
            assert len({pressed[0] for pressed in self.pressed}) <= number
            await asyncio.to_thread(self.server.advance_to, Phase.PRESALE)
            await self.shown()

    async def wants(self) -> list[str]:
        bet = float(await self.page.input_value("#bet") or 0)
        (player,) = self.server.table.players.values()
        book, table = player.ledger, self.server.table
        money = (book.qty, book.avg_cost, book.pnl(table.price), book.invested)
        live = Live(int(table.phase), table.tick, table.price, book.cash / UNIT, bet, *(item / UNIT for item in money))
        return [press.button_id for press in self.person.see(live)]


def at_the_page(
    home: Path, seed: int, play: Callable[[Clicker, list[Entry]], Any], seconds: float = 120
) -> tuple[list[Pressed], list[Entry]]:
    """Record somebody at the real page of a table that waits for him."""
    pytest.importorskip("playwright.async_api", reason="playwright is not installed; run: make setup")
    from playproof.record.feeds.browser import BrowserFeed

    log: list[Entry] = []
    clickers: list[Clicker] = []
    with RunningServer(ServeConfig(port=0, seed=seed, manual=True), log=log) as server:

        async def drive(page: Any) -> None:
            clickers.append(Clicker(page, server, ScriptedPresser(lively(), np.random.default_rng(seed))))
            await clickers[0].log_in()
            await play(clickers[0], log)
            await asyncio.to_thread(server.step, 2)
            await asyncio.sleep(0.4)

        clock, page_map = steady_clock(), load_map()
        with EventLog.open(home, GAME.columns) as events:
            redaction = Redaction(KEY, keep_names=True)
            recorder = Recorder(GAME, events, "ada", "cdp", redaction=redaction, clock=clock, reading=page_map.reading)
            feed = BrowserFeed(server.url, recorder, clock, page_map, headless=True, drive=drive)
            asyncio.run(asyncio.wait_for(feed.run(asyncio.Event()), seconds))
            recorder.close()
    return clickers[0].pressed, log


@pytest.mark.browser
def test_a_round_on_the_page_is_what_the_server_executed(tmp_path: Path, chromium: Path) -> None:
    assert chromium

    async def some(ada: Clicker, log: list[Entry]) -> None:
        await asyncio.to_thread(ada.server.advance_to, Phase.ACTIVE, 2)
        await ada.shown()
        await ada.press(["INC_01", "INC_01", "INC_001", "BUY"], log)
        await asyncio.to_thread(ada.server.advance_to, Phase.ACTIVE, 5)
        await ada.shown()
        await ada.press(["SELL_50", "SELL"], log)
        await asyncio.to_thread(ada.server.advance_to, Phase.ACTIVE, 6)
        await ada.shown()
        await ada.press(["SIDEBET"], log)
        await asyncio.to_thread(ada.server.advance_to, Phase.ACTIVE, 9)
        await ada.shown()
        await ada.press(["DOUBLE", "BUY"], log)
        await asyncio.to_thread(ada.server.advance_to, Phase.RUGGED)
        await ada.shown()

    pressed, log = at_the_page(tmp_path, 12, some)
    assert len(pressed) == 9
    check_play(built(tmp_path), pressed, log)
    assert compare_page(tmp_path, 1) == 9


@pytest.mark.browser
@pytest.mark.torture
@pytest.mark.timeout(1600)
def test_a_thousand_presses_on_the_page_are_what_the_server_executed(tmp_path: Path, chromium: Path) -> None:
    assert chromium
    pressed, log = at_the_page(tmp_path, 21, lambda ada, log: ada.rounds(log, 1000), 1500)
    assert len(pressed) >= 1000
    check_play(built(tmp_path), pressed, log)


def compare_page(home: Path, rounds: int) -> int:
    """Hold the rounds built from play at the page against an environment with the same prices and actions."""
    (tables,) = built(home).sessions.values()
    whole = [index for index, episode in enumerate(tables.episodes) if episode["lack"] is None]
    windows = [tables.episodes[index]["window_id"] for index in whole][:rounds]
    assert len(windows) == rounds
    chosen = pl.col("window_id").is_in(windows)
    seen, done, paid = (tables[name].filter(chosen) for name in ("observations", "actions", "rewards"))
    prices = r.prices_of(EventStore(home, GAME.columns).events())
    return r.compare_with_environment(
        {window: prices[window] for window in windows},
        [tables.episodes[index]["steps"] for index in whole][:rounds],
        seen.select(GAME.observations["recorded"].features).to_numpy(),  # type: ignore[union-attr]
        done.select("head_0", "head_1", "head_2").to_numpy(),
        done["substep"].to_numpy(),
        [paid[name].to_numpy() for name in ("cash", "equity")],
        paid["reward"].to_numpy(),
    )


@pytest.mark.browser
@pytest.mark.torture
@pytest.mark.timeout(3000)
def test_a_hundred_rounds_on_the_page_are_the_environments_bit_for_bit(tmp_path: Path, chromium: Path) -> None:
    assert chromium
    at_the_page(tmp_path, 33, lambda ada, log: ada.many(log, 101), 2900)
    assert compare_page(tmp_path, 100) > 500
