"""What the proofs of the recorder share: agents and servers to be killed, and the check that nothing is missing.

As a program it is a nursery: it has imported everything, and forks one agent or server for each line on stdin, so
that a thousand kills do not need a thousand starts of Python.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Engine, select

from playproof.errors import PlayproofError
from playproof.game import load_game
from playproof.net.listening import bind, listen
from playproof.record.trajectories.client import TrajectoryClient
from playproof.record.trajectories.facts import ActionTaken, Call
from playproof.record.trajectories.http import trajectory_api
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.store.db import StepRow, connect, opened, upgrade
from playproof.store.db.trajectories import read_trajectory

WINDOW = "2025-01-15T10:00Z"
STEPS = 20
ACTION = ActionTaken("trade", {"amount": 50}, success=True)


def tell(*words: object) -> None:
    """Say something over the pipe, in one write."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def spoken(number: int) -> Call:
    return Call("m", messages=[{"role": "user", "content": f"state {number} " + "x" * 500}], response="{}")


def direct(url: str) -> None:
    """Record through the SDK until killed; tell every step that was acknowledged."""
    with TrajectoryRecorder(connect(url=url), windows=load_game("arena").windows) as recorder:
        while True:
            identity = recorder.start_trajectory("direct", WINDOW)
            for number in range(STEPS):
                recorder.start_step(identity, {"n": number})
                recorder.log_llm_call(identity, spoken(number))
                recorder.complete_step(identity, ACTION)
                tell("ack", identity, number)
            recorder.end_trajectory(identity)


def remote(url: str, spool: str) -> None:
    """Record through the client until killed, a little at a time; tell every step that the server acknowledged."""
    counts: dict[str, int] = {}

    def acknowledged(sent: dict[str, Any]) -> None:
        if sent["kind"] == "action":
            identity = sent["trajectory_id"]
            tell("ack", identity, counts.get(identity, 0))
            counts[identity] = counts.get(identity, 0) + 1

    client = TrajectoryClient(url, Path(spool), acknowledged=acknowledged)
    while True:
        identity = client.start_trajectory("remote", WINDOW)
        for number in range(STEPS):
            client.start_step(identity, {"n": number})
            client.log_llm_call(identity, spoken(number))
            client.complete_step(identity, ACTION)
            while client.waiting > 20_000:
                time.sleep(0.002)
        client.end_trajectory(identity)


def server(url: str, port: str) -> None:
    """Serve the recorder until killed."""
    with TrajectoryRecorder(connect(url=url), windows=load_game("arena").windows) as recorder:
        listen(trajectory_api(recorder), bind("127.0.0.1", int(port)))


def warm_up() -> None:
    """Import and compile whatever a recorder and its server need at their first use, before anything is forked."""
    import psycopg  # noqa: F401
    import uvicorn  # noqa: F401

    with tempfile.TemporaryDirectory() as folder, opened(url=f"sqlite:///{folder}/warm.db") as engine:
        upgrade(engine)
        with TrajectoryRecorder(engine, windows=load_game("arena").windows) as recorder:
            trajectory_api(recorder)
            identity = recorder.start_trajectory("warm", WINDOW)
            recorder.start_step(identity, {})
            recorder.log_llm_call(identity, spoken(0))
            recorder.complete_step(identity, ACTION)
            recorder.end_trajectory(identity)


def nursery() -> None:
    """Fork what each line asks for, and tell its process."""
    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        kind, *arguments = line.split()
        child = os.fork()
        if child == 0:
            try:
                {"direct": direct, "remote": remote, "server": server}[kind](*arguments)
            except PlayproofError as error:
                tell("error", error)
            finally:
                os._exit(1)
        tell("pid", child)


class Nursery:
    """Start agents and servers, and hear what they acknowledge."""

    def __init__(self, folder: Path) -> None:
        self.heard = folder / "heard.txt"
        self._out = self.heard.open("wb")
        command = [sys.executable, __file__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self._out, text=True)
        self.pids: list[int] = []
        self._acknowledged: set[tuple[str, int]] = set()
        self._read = 0

    def begin(self) -> None:
        """Forget what was acknowledged before."""
        self._hear()
        self._acknowledged = set()

    def start(self, *words: object) -> int:
        """Start one; give its process."""
        assert self.process.stdin
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        known = len(self.pids)
        end = time.monotonic() + 60
        while len(self.pids) == known and time.monotonic() < end:
            time.sleep(0.005)
            self._hear()
        return self.pids[-1]

    def acknowledged(self) -> set[tuple[str, int]]:
        """Give every step that somebody heard to be stored."""
        self._hear()
        return set(self._acknowledged)

    def _hear(self) -> None:
        """Read the whole lines that were told since the last time."""
        with self.heard.open("rb") as file:
            file.seek(self._read)
            payload = file.read()
        payload = payload[: payload.rfind(b"\n") + 1]
        self._read += len(payload)
        for kind, *words in map(str.split, payload.decode().splitlines()):
            if kind == "pid":
                self.pids.append(int(words[0]))
            elif kind == "ack":
                self._acknowledged.add((words[0], int(words[1])))

    def wait_for(self, count: int, seconds: float = 60.0) -> int:
        """Wait until so many steps were acknowledged; give how many are."""
        end = time.monotonic() + seconds
        while len(self._acknowledged) < count and time.monotonic() < end:
            time.sleep(0.005)
            self._hear()
        return len(self._acknowledged)

    def kill(self, pid: int) -> None:
        """Kill one at once."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.002)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.pids:
            self.kill(pid)
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(30)
        self._out.close()


def wait_until_up(port: int, seconds: float = 60.0) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=1).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.02)
    raise AssertionError("the server did not come up")


def free_port() -> int:
    with bind("127.0.0.1", 0) as taken:
        return int(taken.getsockname()[1])


def check(engine: Engine, acknowledged: set[tuple[str, int]]) -> int:
    """Assert that every acknowledged step is stored, once and whole; give how many steps are stored."""
    with engine.connect() as connection:
        rows = connection.execute(
            select(StepRow.trajectory_id, StepRow.number, StepRow.state, StepRow.action_type)
        ).all()
    stored = {(identity, number): (state, action) for identity, number, state, action in rows}
    assert len(stored) == len(rows)
    missing = [step for step in acknowledged if stored.get(step, (None, None))[1] != "trade"]
    assert not missing, f"{len(missing)} acknowledged steps are not there: {missing[:3]}"
    assert all(state == {"n": number} for (_, number), (state, _) in stored.items())
    for identity in {identity for identity, _ in acknowledged}:
        trajectory = read_trajectory(engine, identity)
        assert [step.number for step in trajectory.steps] == list(range(len(trajectory.steps)))
        assert [call.step for call in trajectory.calls] == list(range(len(trajectory.calls)))
    return len(stored)


def kill_agents(nursery: Nursery, engine: Engine, url: str, kills: int, seed: int) -> int:
    """Kill SDK agents at random times; give how many steps were acknowledged."""
    rng = random.Random(seed)
    nursery.begin()
    for _ in range(kills):
        before = len(nursery.acknowledged())
        pid = nursery.start("direct", url)
        nursery.wait_for(before + rng.randint(1, 8))
        time.sleep(rng.random() * 0.02)
        nursery.kill(pid)
    acknowledged = nursery.acknowledged()
    assert check(engine, acknowledged) >= len(acknowledged) > kills
    return len(acknowledged)


def kill_servers(
    nursery: Nursery, engine: Engine, url: str, spool: Path, kills: int, seed: int, database: Any = None
) -> int:
    """Kill servers, or their database, under a client that goes on; give how many steps were acknowledged."""
    rng = random.Random(seed)
    port = free_port()
    nursery.begin()
    serving = nursery.start("server", url, port)
    wait_until_up(port)
    agent = nursery.start("remote", f"http://127.0.0.1:{port}", spool)
    for _ in range(kills):
        nursery.wait_for(len(nursery.acknowledged()) + rng.randint(1, 15))
        time.sleep(rng.random() * 0.02)
        if database is None:
            nursery.kill(serving)
            serving = nursery.start("server", url, port)
        else:
            database.kill()
            database.start_again()
    nursery.wait_for(len(nursery.acknowledged()) + 5)
    nursery.kill(agent)
    before = nursery.acknowledged()
    with TrajectoryClient(f"http://127.0.0.1:{port}", spool) as rest:
        assert rest.flush(120)
        refused = list(rest.refusals)
    nursery.kill(serving)
    assert not refused, refused[:3]
    stored = check(engine, before)
    assert stored >= len(before) > kills
    return len(before)


if __name__ == "__main__":
    nursery()
