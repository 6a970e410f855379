"""What goes wrong around a bot: late and refused orders, answers that never come, cuts, kills, standing still."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bot_table import Table, new_table, play

from playproof.cli.app import main
from playproof.cli.train.data_options import DataConfig, load_split, only_interventions
from playproof.game import load_game
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.table import Ack, OrderEntry
from playproof.json_types import Json
from playproof.money import to_units
from playproof.operate.account import read_account
from playproof.operate.audit import read_audit, verify_audit
from playproof.operate.limits import HALTED
from playproof.operate.state import account_folder, kill, take_over
from playproof.store.db import connect, ready
from playproof.validate.examine import load_subject
from playproof.workflows.crash.bot_report import SessionComparison, compare_session
from playproof.workflows.crash.bot_run import BotPlan

GAME = load_game("crash")
TakeOrder = Callable[[str, str, object], Ack]


def orders(table: Table) -> list[OrderEntry]:
    return [entry for entry in table.log if isinstance(entry, OrderEntry)]


def cash(table: Table) -> int:
    (player,) = table.server.table.players.values()
    return player.ledger.cash


def practice(table: Table, name: str = "take-profit", rounds: int = 1, **changes: Any) -> Json:
    account = changes.pop("account", "acc")
    return play(
        table, BotPlan(load_subject(GAME, name), "", mode="practice", rounds=rounds, account=account), **changes
    )


def comparison(home: Path, summary: Json, name: str = "take-profit") -> SessionComparison:
    return compare_session(home, summary["session"], load_subject(GAME, name))


def once(at: tuple[Phase, int], what: Callable[[Table], Awaitable[None] | None]) -> Callable[[Table], Awaitable[bool]]:
    """Do something once, before the table leaves a tick."""
    pending = [True]

    async def during(table: Table) -> bool:
        now = table.server.table
        if pending and now.phase is at[0] and now.tick >= at[1]:
            pending.clear()
            result = what(table)
            if result is not None:
                await result
        return True

    return during


def test_late_fills_are_named_by_price_and_tick(home: Path) -> None:
    with new_table() as table:
        take: TakeOrder = table.server.server._order

        def late(sid: str, kind: str, payload: object) -> Ack:
            table.server.server.step()  # the order is carried out a tick after it was sent
            return take(sid, kind, payload)

        table.server.server._order = late  # type: ignore[method-assign]
        summary = practice(table)
        assert to_units(summary["cash"]) == cash(table)
    causes = comparison(home, summary).causes
    assert causes.keys() <= {"price", "tick", "late"}
    assert causes["tick"] == summary["orders"]
    assert causes["price"] >= 1


def test_refusals_of_the_venue_are_named(home: Path) -> None:
    with new_table() as table:

        def refuse(sid: str, kind: str, payload: object) -> Ack:
            return Ack({"success": False, "reason": "the table is full"})

        table.server.server._order = refuse  # type: ignore[method-assign]
        summary = practice(table)
        assert to_units(summary["cash"]) == cash(table)
    result = comparison(home, summary)
    assert {item.cause for item in result.differences} == {"venue"}
    assert all("the table is full" in item.detail for item in result.differences)
    assert all(item.live == item.environment == 0 for item in result.rounds)


def test_an_answer_that_never_comes_is_unknown_and_not_sent_again(home: Path) -> None:
    with new_table() as table:
        take: TakeOrder = table.server.server._order

        def swallow(sid: str, kind: str, payload: object) -> Ack:
            take(sid, kind, payload)
            raise RuntimeError("the answer is lost")  # socketio sends no answer then, and nothing was told

        table.server.server._order = swallow  # type: ignore[method-assign]
        summary = practice(table, answer_s=1.0)
        assert len(orders(table)) == 1
        assert orders(table)[0].success
        assert cash(table) != 10**9
        lines = read_audit(ready(connect(home)), summary["session"])
        assert [line["outcome"] for line in lines if "outcome" in line] == ["unknown", "settled"]
        account = read_account(ready(connect(home)), "acc")
        assert account is not None
        assert account.cash == cash(table)
    causes = Counter(item.cause for item in comparison(home, summary).differences)
    assert causes["unknown"] == 1
    assert causes["money"] == 1


def test_a_killed_gate_lets_nothing_out(home: Path) -> None:
    sent: list[int] = []

    async def shoot(table: Table) -> None:
        assert table.running is not None
        assert table.running.gate.process is not None
        os.kill(table.running.gate.process.pid, signal.SIGKILL)
        await table.running.gate.gone.wait()
        sent.append(len(orders(table)))

    with new_table() as table:
        summary = practice(table, "sidebet", 3, during=once((Phase.ACTIVE, 3), shoot))
        assert summary["ended"] == "the gate is gone"
        assert sent == [len(orders(table))]
    again = ready(connect(home))
    assert verify_audit(again, summary["session"]).sound
    account = read_account(again, "acc")
    assert account is not None
    assert account.open_positions == 1  # it does not believe that it is flat


@pytest.mark.parametrize("how", ["file", "signal"])
def test_a_kill_holds_within_one_tick_and_says_what_is_open(how: str, home: Path) -> None:
    before: list[int] = []

    async def shoot(table: Table) -> None:
        assert table.running is not None
        if how == "file":
            kill(home, "acc", "by test")
        else:
            assert table.running.gate.process is not None
            os.kill(table.running.gate.process.pid, signal.SIGUSR1)
        before.append(len(orders(table)))
        while not table.running.gate.status.latched:
            await asyncio.sleep(0.005)

    with new_table() as table:
        summary = practice(table, "take-profit", 3, during=once((Phase.ACTIVE, 2), shoot))
        after = orders(table)[before[0] :]
        assert summary["ended"].startswith("halted: kill")
        assert [entry.kind for entry in after] == ["sellOrder"]  # what was open is closed, and nothing else is sent
        assert summary["flat"] == ["verified flat"]
        assert cash(table) == to_units(summary["cash"])


def test_a_cut_connection_closes_the_gate_and_it_opens_after_reconciling(home: Path) -> None:
    async def cut(table: Table) -> None:
        assert table.running is not None
        running = table.running

        def drop() -> None:
            server = table.server.server
            for client in list(server._clients.values()):
                server._sio.start_background_task(server._sio.eio.disconnect, client.eio_sid)

        await asyncio.to_thread(table.server.call, drop)
        # On a slow machine the connection may be back, and the gate open again, between two looks.
        while running.gate.status.state != HALTED and not running.recorder.counts.reconnects:
            await asyncio.sleep(0.005)
        if running.gate.status.state == HALTED:
            assert running.gate.status.reason.startswith("feed lost")
        assert not running.gate.status.latched
        while not (running.recorder.counts.reconnects and table.server.server._clients):
            await asyncio.sleep(0.005)  # it comes back as the same player

    with new_table() as table:
        summary = practice(table, "take-profit", 2, during=once((Phase.COOLDOWN, 0), cut))
        assert summary["orders"] > 0
        assert len(table.server.table.players) == 1
        assert to_units(summary["cash"]) == cash(table)


def test_a_person_takes_over_until_the_round_ends_and_a_clone_learns_from_it(home: Path) -> None:
    def take(table: Table) -> None:
        assert table.running is not None
        take_over(home, "acc")
        table.running.bot.person += ["BUY", "", "", "SELL"]

    with new_table() as table:
        summary = practice(table, "wait", 2, during=once((Phase.ACTIVE, 3), take))
        assert not (account_folder("acc", home) / "takeover").exists()
        sent = [(entry.kind, entry.tick, entry.success) for entry in orders(table)]
        assert sent == [("buyOrder", 4, True), ("sellOrder", 7, True)]
        assert to_units(summary["cash"]) == cash(table)
    result = comparison(home, summary, "wait")
    assert Counter(item.cause for item in result.differences)["person"] == 1
    lines = read_audit(ready(connect(home)), summary["session"])
    assert [line["kind"] for line in lines].count("take-over") == 1
    build = ["dataset", "build", "practice", "--split", "train=0.5,validation=0.5", "--gap", "0"]
    assert main(build) == 0
    split = load_split(DataConfig("practice", None, None, (), 0, 0, "tick", 10**8))
    learned = only_interventions(split)
    assert set(learned.train.windows) == {result.rounds[0].window}
    assert 0 < len(learned.train.windows) < len(split.train.windows)
    assert learned.train.observations[0, 0] == 4
    assert sorted(np.flatnonzero(learned.train.actions[:, 0]).tolist()) == [0, 3]


def test_a_policy_that_fails_waits_and_then_halts(home: Path) -> None:
    subject = load_subject(GAME, "wait")

    class Broken:
        def start(self, lanes: int, rng: Any) -> None:
            return None

        def begin(self, state: Any, chosen: Any) -> None:
            pass

        def act(self, obs: Any, state: Any) -> Any:
            return [[float("nan"), 99]]

    from dataclasses import replace

    with new_table() as table:
        plan = BotPlan(replace(subject, player=Broken(), name="broken"), "", mode="practice", rounds=2, account="acc")
        summary = play(table, plan)
        assert summary["ended"].startswith("halted: errors in a row: 3")
        assert not orders(table)


class StillProcess:
    """`playproof bot run` in a process of its own, which can be stopped."""

    def __init__(self, table: Table, home: Path, heartbeat_ms: int) -> None:
        home.mkdir(parents=True, exist_ok=True)
        limits = f"[bot.limits]\nheartbeat_ms = {heartbeat_ms}\nstale_ms = 600000\nclock_jump_ms = 600000\n"
        (home / "playproof.toml").write_text(limits)
        command = [sys.executable, "-m", "playproof", "bot", "run", "hold-40", table.server.url, "--practice"]
        self.process = subprocess.Popen([*command, "--account", "acc"], env={**os.environ, "PLAYPROOF_HOME": str(home)})
        self.home = home

    def wait_until(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it never came to that"
            assert self.process.poll() is None, "the bot ended"
            time.sleep(0.02)

    def state(self) -> str:
        account = read_account(ready(connect(self.home)), "acc")
        return "" if account is None else f"{account.state} {account.reason}"


def test_a_process_that_stood_still_orders_nothing_on_old_ticks(home: Path) -> None:
    with new_table() as table:
        table.server.advance_to(Phase.COOLDOWN)
        bot = StillProcess(table, home, 10_000)
        try:
            bot.wait_until(lambda: len(table.server.table.players) == 1 and bot.state().startswith("ACTIVE"))
            table.server.advance_to(Phase.PRESALE)
            os.kill(bot.process.pid, signal.SIGSTOP)
            table.server.advance_to(Phase.ACTIVE, 10)
            bot.wait_until(lambda: "heartbeat lost" in bot.state())  # the gate lives on and misses the bot
            os.kill(bot.process.pid, signal.SIGCONT)
            assert bot.process.wait(120) == 2
        finally:
            bot.process.kill()
            bot.process.wait()
        assert not orders(table)


def test_a_bot_that_was_killed_reconciles_before_it_plays_on(home: Path) -> None:
    with new_table() as table:
        table.server.advance_to(Phase.COOLDOWN)
        bot = StillProcess(table, home, 600_000)
        try:
            bot.wait_until(lambda: bot.state().startswith("ACTIVE"))
            while not orders(table):  # on a busy machine the bot may come too late, and lets a round pass
                table.server.advance_to(Phase.COOLDOWN)
                table.server.advance_to(Phase.ACTIVE, 0)
                with contextlib.suppress(AssertionError):
                    bot.wait_until(lambda: len(orders(table)) == 1, 5)
                assert bot.process.poll() is None
        finally:
            bot.process.kill()  # between the order and its sale
            bot.process.wait()
        engine = ready(connect(home))
        token = account_folder("acc", home) / "player"
        assert token.exists()
        table.server.advance_to(Phase.COOLDOWN)
        summary = practice(table, "hold-40", 1)
        assert len(table.server.table.players) == 1
        assert to_units(summary["cash"]) == cash(table)
        account = read_account(engine, "acc")
        assert account is not None
        assert (account.cash, account.open_positions) == (cash(table), 0)
        sent = [entry for entry in orders(table) if entry.kind == "buyOrder"]
        assert len(sent) == 2  # one in each round
