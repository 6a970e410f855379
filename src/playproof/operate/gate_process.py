"""The gate in a process of its own: lines of JSON over a socket that only the bot holds.

The bot's death closes the socket, and the gate ends the session; the gate's death closes it too, and then nobody is
left who lets an order out. SIGUSR1 kills (latches). Between messages the gate looks at its kill file, its clocks and
the bot's heartbeat.

A request is `{"id": n, "do": ..., ...}`, its answer `{"id": n, ...}`. What the gate says unasked has no id.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import orjson
from sqlalchemy.exc import SQLAlchemyError

from playproof.errors import ConfigError, PlayproofError
from playproof.json_types import Json
from playproof.operate.account import AccountStore
from playproof.operate.gate import GateAnswer, OrderGate
from playproof.operate.limits import OrderLimits, OrderOutcome, OrderProposal
from playproof.operate.notify import notify
from playproof.operate.state import account_folder
from playproof.store.db import connect, ready

BEAT = 0.05
"""Seconds between two looks at kill file, clocks and heartbeat while nothing is asked."""
MOST_LINE = 1 << 20
LOCK_FILE = "lock"
VANISHED = "bot vanished"


@dataclass(frozen=True)
class GatePlan:
    """What a gate is for."""

    account: str
    session_id: str
    policy: str
    version: str
    mode: str
    url: str
    cash: int
    """Of the account if it is new, in units."""
    limits: OrderLimits = field(default_factory=OrderLimits)
    home: str = ""


def serve(wire: socket.socket, plan: GatePlan) -> None:
    """Answer until the bot is gone."""
    home = Path(plan.home)
    folder = account_folder(plan.account, home)
    with _held(folder):
        engine = ready(connect(home))
        store = AccountStore(engine, plan.account, plan.session_id, lambda: datetime.now(UTC))
        store.begin_session(plan.policy, plan.version, plan.mode, plan.url, plan.cash)
        gate = OrderGate(
            store,
            plan.limits,
            plan.version,
            folder,
            lambda: time.monotonic_ns() // 1_000_000,
            lambda what, payload: notify(what, payload, home),
        )
        wire_gate = WireGate(gate, wire)
        signal.signal(signal.SIGUSR1, lambda *_: setattr(gate, "pending_kill", "kill: signal"))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the bot ends first, and then this
        wire_gate.push()
        try:
            wire_gate.run()
        finally:
            if wire_gate.ended == VANISHED:
                with contextlib.suppress(SQLAlchemyError, PlayproofError):
                    store.end_session(VANISHED)
            engine.dispose()


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the account's lock: one bot a bankroll. It is let go of when the process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    file: TextIO
    with (folder / LOCK_FILE).open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"expected an account that no other bot trades, found one at work on {folder.name!r}; end it first"
            ) from None
        yield


class WireGate:
    """A gate behind its socket."""

    def __init__(self, gate: OrderGate, wire: socket.socket) -> None:
        self.gate, self.wire, self.ended = gate, wire, VANISHED
        self._pushed: tuple[str, str, bool] | None = None

    def run(self) -> None:
        """Answer requests; look around in between."""
        buffer = b""
        while True:
            with contextlib.suppress(InterruptedError):
                readable, _, _ = select.select([self.wire], [], [], BEAT)
                if readable:
                    data = self.wire.recv(1 << 16)
                    if not data:
                        return
                    *lines, buffer = (buffer + data).split(b"\n")
                    for line in lines:
                        self._answer(line)
                    if self.ended != VANISHED:
                        return
            self.gate.check()
            self.push()

    def push(self) -> None:
        """Say how the gate stands where that has changed."""
        now = (self.gate.state, self.gate.reason, self.gate.must_flatten)
        if now != self._pushed:
            self._pushed = now
            state = {"state": now[0], "reason": now[1], "flatten": now[2], "latched": self.gate.latched}
            self._send({**state, "cash": self.gate.cash})

    def _answer(self, line: bytes) -> None:
        asked: Json = orjson.loads(line)
        result = self._do(asked) or {}
        self.push()
        if "id" in asked:
            self._send({"id": asked["id"], **result})

    def _do(self, asked: Json) -> Json | None:  # noqa: PLR0912
        """Do what is asked; give the answer, where there is one."""
        gate = self.gate
        match asked["do"]:
            case "alive":
                gate.heartbeat()
            case "feed":
                gate.see_feed()
            case "tick":
                gate.see_tick(asked["window"], asked["tick"])
            case "nothing":
                gate.decide_nothing(asked["line"])
            case "propose":
                return asdict(gate.propose(OrderProposal(**asked["proposal"]), asked["line"]))
            case "report":
                gate.report(OrderOutcome(**asked["outcome"]))
            case "open":
                return asdict(gate.open(asked["cash"], asked["open"], asked.get("detail", "")))
            case "error":
                gate.count_error(str(asked["what"]))
            case "well":
                gate.forget_errors()
            case "lost":
                gate.lose_feed(str(asked["why"]))
            case "note":
                gate.note(asked["line"])
            case "drift":
                gate.note({"kind": "drift", **asked["alarm"]})
                gate.tell("drift", asked["alarm"])
            case "flat":
                return {"verdict": gate.verify_flat(asked["open"], str(asked["detail"]))}
            case "end":
                return self._end(asked)
        return None

    def _end(self, asked: Json) -> Json:
        self.ended = str(asked["why"])
        with contextlib.suppress(SQLAlchemyError, PlayproofError):
            self.gate.store.end_session(self.ended)
        return {"head": self.gate.store.chain.head, "lines": self.gate.store.chain.lines}

    def _send(self, payload: Json) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wire.sendall(orjson.dumps(payload) + b"\n")


@dataclass
class GateStatus:
    """How the gate stands, as it said last; unknown is HALTED."""

    state: str = "HALTED"
    reason: str = "no gate"
    flatten: bool = False
    latched: bool = False
    cash: int = 0
    """Of the account when this was said, in units."""


class GateClient:
    """The bot's end: starts the gate, asks it, and knows when it is gone."""

    def __init__(self, plan: GatePlan) -> None:
        self.plan, self.status = plan, GateStatus()
        self.gone = asyncio.Event()
        self.changed = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._number = 0
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the gate and wait until it has said how it stands."""
        mine, theirs = socket.socketpair()
        command = [sys.executable, "-m", "playproof.operate.gate_process", str(theirs.fileno())]
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE
        )
        theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=mine, limit=MOST_LINE)
        self._writer.write(orjson.dumps(asdict(self.plan)) + b"\n")
        self._listening = asyncio.create_task(self._listen())
        first = asyncio.create_task(self.changed.wait())
        await asyncio.wait([first, self._listening], return_when=asyncio.FIRST_COMPLETED)
        first.cancel()
        if self.gone.is_set():
            raise ConfigError(await asyncio.to_thread(self._last_words))

    def _last_words(self) -> str:
        assert self.process is not None
        assert self.process.stderr is not None
        text = self.process.stderr.read().decode(errors="replace").strip()
        self.process.wait()
        return text.splitlines()[-1].removeprefix("error: ") if text else "the gate did not start"

    def say(self, do: str, **payload: Any) -> None:
        """Tell the gate something to which there is no answer."""
        if not self.gone.is_set():
            self._writer.write(orjson.dumps({"do": do, **payload}) + b"\n")

    async def ask(self, do: str, timeout: float = 10.0, **payload: Any) -> Json | None:
        """Ask the gate; None where it did not answer in time or is gone."""
        if self.gone.is_set():
            return None
        self._number += 1
        number = self._number
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._writer.write(orjson.dumps({"id": number, "do": do, **payload}) + b"\n")
            return await asyncio.wait_for(future, timeout)
        except (TimeoutError, ConnectionError, TypeError):
            return None
        finally:
            self._waiting.pop(number, None)

    async def propose(self, proposal: OrderProposal, line: Mapping[str, Any], timeout: float = 10.0) -> GateAnswer:
        """Ask whether an order may leave; no answer is a no."""
        result = await self.ask("propose", timeout, proposal=asdict(proposal), line=line)
        if result is None:
            self.status = GateStatus(reason="the gate did not answer")
            return GateAnswer(False, "halted: the gate did not answer")
        return GateAnswer(result["allowed"], result["reason"], result["order_id"])

    async def end(self, why: str) -> Json:
        """End the session; give the audit's head and number of lines."""
        result = await self.ask("end", 30.0, why=why) or {}
        self._writer.close()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self.process.wait, 30)
            if self.process.poll() is None:
                self.process.kill()
                await asyncio.to_thread(self.process.wait)
            if self.process.stderr is not None:
                self.process.stderr.close()
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        return result

    async def _listen(self) -> None:
        try:
            while line := await self._reader.readline():
                payload = orjson.loads(line)
                if "id" not in payload:
                    self.status = GateStatus(**payload)
                    self.changed.set()
                elif (future := self._waiting.get(payload["id"])) is not None and not future.done():
                    future.set_result(payload)
        except (ConnectionError, ValueError):
            pass
        finally:
            self.status = GateStatus(reason="the gate is gone")
            self.gone.set()
            self.changed.set()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the gate is gone"))


def main() -> None:
    """Serve on the socket whose number is the argument; the first line is the plan."""
    wire = socket.socket(fileno=int(sys.argv[1]))
    first = b""
    while not first.endswith(b"\n"):
        byte = wire.recv(1)
        if not byte:
            return
        first += byte
    payload = orjson.loads(first)
    plan = GatePlan(**{**payload, "limits": OrderLimits(**payload["limits"])})
    try:
        serve(wire, plan)
    except PlayproofError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    os.setpgrp()  # Ctrl-C is for the bot; the gate ends when the bot has
    main()
