"""Kill a gate with -9 at random, again and again: no order id twice, none that was not reserved, none after a kill."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select

from playproof.operate.account import AccountStore, read_account
from playproof.operate.audit import verify_audit
from playproof.operate.gate import OrderGate
from playproof.operate.limits import OrderLimits, OrderOutcome, OrderProposal
from playproof.operate.state import account_folder, kill, reset
from playproof.store.db import BotOrder, connect, ready

COIN, BET = 10**9, 10**6
FREE = OrderLimits(
    bets_an_hour=10**9, daily_loss=10**6, total_loss=10**6, heartbeat_ms=10**9, stale_ms=10**9, clock_jump_ms=10**9
)


def trade(home: Path, session: str, wire: int, told: int) -> None:
    """Be a gate and its bot: order, tell the venue through the pipe, enter the outcome, until killed."""
    engine = connect(home)
    store = AccountStore(engine, "acc", session, lambda: datetime.now(UTC))
    store.begin_session("p", "v", "paper", "", COIN)
    gate = OrderGate(
        store, FREE, "v", account_folder("acc", home), lambda: time.monotonic_ns() // 10**6, lambda what, payload: None
    )
    os.write(wire, b"up\n")
    gate.open(told, 0)
    number = 0
    while True:
        number += 1
        gate.see_tick("w", number)
        answer = gate.propose(OrderProposal(f"{session}-{number}", "w", number, "enter", BET, "v"), {})
        if not answer.allowed:
            os.write(wire, b"no\n")
            continue
        os.write(wire, f"{answer.order_id}\n".encode())
        gate.report(OrderOutcome("filled", gate.cash, BET, 1, answer.order_id))
        gate.report(OrderOutcome("settled", gate.cash + BET))


def kill_gates(home: Path, times: int, seed: int) -> tuple[int, int]:
    """Kill so often; give the orders that reached the venue and the kills of the account."""
    rng, context = random.Random(seed), multiprocessing.get_context("fork")
    engine = ready(connect(home))
    seen: set[str] = set()
    kills = 0
    for number in range(times):
        engine.dispose()  # a connection does not live through a fork
        read, write = os.pipe()
        child = context.Process(target=trade, args=(home, f"s{number}", write, COIN))
        child.start()
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            assert pipe.readline() == b"up\n"
            wanted = rng.randrange(1, 6)
            lines = [pipe.readline().decode().strip() for _ in range(wanted)]
            is_killed = rng.random() < 0.2
            if is_killed:
                kill(home, "acc", "torture")
                kills += 1
                while (line := pipe.readline().decode().strip()) != "no":
                    lines.append(line)  # what was under way when the file was written
                assert [pipe.readline() for _ in range(5)] == [b"no\n"] * 5
            time.sleep(rng.random() * 0.01)
            os.kill(child.pid or 0, signal.SIGKILL)
            lines += [line.decode().strip() for line in pipe if line.endswith(b"\n")]
        child.join()
        sent = [line for line in lines if line != "no"]
        assert len(sent) <= wanted + 2 if is_killed else len(sent) >= 1
        assert not seen & set(sent)
        assert len(set(sent)) == len(sent)
        seen |= set(sent)
        check(home, seen, f"s{number}")
        if is_killed:
            reset(engine, home, "acc", "torture goes on", datetime.now(UTC))
    return len(seen), kills


def check(home: Path, seen: set[str], session: str) -> None:
    """Every order that reached the venue was reserved before; money is whole; the log is sound."""
    engine = connect(home)
    with engine.connect() as connection:
        orders = set(connection.execute(select(BotOrder.order_id)).scalars())
    assert seen <= orders
    state = read_account(engine, "acc")
    assert state is not None
    assert state.cash + state.open_cost == COIN
    assert state.open_cost in (0, BET)
    assert verify_audit(engine, session).sound
    engine.dispose()
