"""The npm package: packed, installed into a clean project, strictly typed, and stored exactly by the real server."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from node_projects import clean_project, compile_strictly, find_node, recorder_package, run

import playproof
from playproof.store.db import connect, upgrade
from playproof.store.db.trajectories import StoredTrajectory, list_trajectories, read_trajectory

__all__ = ["recorder_package"]

SOURCES = Path(__file__).resolve().parents[1] / "data" / "typescript"
TOKEN, READER = "t" * 32, "v" * 32


@pytest.fixture(scope="module")
def project(recorder_package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = clean_project(tmp_path_factory.mktemp("studio") / "project", recorder_package)
    compile_strictly(folder, SOURCES / "sample.ts", SOURCES / "steady.ts")
    return folder


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class RecorderProcess:
    """The recorder's server as a process of its own, on a fixed port, so that it can be killed and come back."""

    def __init__(self, database: str, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "playproof", "arena", "trajectories", "serve"]
        self._command = [*command, "--port", str(self.port), *options]
        self._environment = os.environ | {"PLAYPROOF_DB": database}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = subprocess.Popen(self._command, env=self._environment, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                httpx.get(self.url + "/healthz", timeout=5).raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError("the recorder's server does not answer")

    def kill(self) -> None:
        """Kill it at once."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)
            self.process = None


@contextmanager
def recorder_process(database: str, *options: str) -> Iterator[RecorderProcess]:
    server = RecorderProcess(database, *options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def database(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'recorded.db'}"
    engine = connect(url=url)
    upgrade(engine)
    engine.dispose()
    return url


def test_unit_tests_of_the_package_pass(recorder_package: Path) -> None:
    printed = run(["node", "--test", "--test-reporter=tap", "test/"], recorder_package)
    assert "# fail 0" in printed
    assert int(printed.partition("# pass ")[2].split()[0]) >= 16


def test_the_tarball_holds_types_and_no_dependencies(recorder_package: Path, project: Path) -> None:
    installed = project / "node_modules" / "playproof-recorder"
    manifest = json.loads((installed / "package.json").read_text())
    assert manifest["version"] == playproof.__version__
    assert not manifest.get("dependencies")
    names = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert {"dist/index.js", "dist/index.d.ts", "dist/node.js", "dist/node.d.ts", "README.md"} <= names
    assert not [name for name in names if name.startswith(("src", "test"))]


def test_every_call_is_read_back_value_by_value(project: Path, database: str, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.touch(0o600)
    tokens.write_text(json.dumps({"record": TOKEN, "read": READER}))
    with recorder_process(database, "--tokens", str(tokens)) as server:
        printed = json.loads(run([find_node(), "out/sample.js", server.url, TOKEN], project))
        over_http = httpx.get(
            f"{server.url}/v1/trajectories/{printed['id']}", headers={"Authorization": f"Bearer {READER}"}
        )
    trajectory = read_whole(database, printed["id"])
    assert (printed["sent"], printed["rounded"]) == (10, 1)
    assert (trajectory.agent_id, trajectory.scenario_id) == ("typescript-agent", "s-1")
    assert (printed["windowId"], trajectory.window_id) == ("2025-01-15T10:00", "2025-01-15T10:00Z")
    assert (trajectory.final_status, trajectory.final_pnl) == ("completed", 300_000_000)
    assert trajectory.final_balance == int(printed["units"]["finalBalance"]) == 9_007_199_254_740_993_000
    assert over_http.json()["final_balance"] == trajectory.final_balance

    first, second = (step.state for step in trajectory.steps)
    kept = [without(state, "agentBalance", "agentPnL") for state in printed["states"]]
    assert first == kept[0] | {"balance": 10_000_010_000_000, "pnl": 0}
    exact = {"balance": int(printed["units"]["balance"]), "pnl": -100_000_000}
    assert second == kept[1] | exact
    for step, access, action, reward in zip(
        trajectory.steps, printed["accesses"], printed["actions"], printed["rewards"], strict=True
    ):
        (stored,) = step.accesses
        assert (stored["provider"], stored["data"], stored["purpose"]) == (
            access["providerName"],
            access["data"],
            access.get("purpose"),
        )
        assert step.action_type == action["actionType"]
        for name in ("parameters", "success", "result", "error", "reasoning"):
            assert getattr(step, f"action_{name}") == action.get(name), name
        assert step.reported_reward == reward
    assert [step.done for step in trajectory.steps] == [False, True]

    for call, sent in zip(trajectory.calls, printed["calls"], strict=True):
        for name, value in sent.items():
            if name != "actionType":
                assert getattr(call, to_snake(name)) == value, name
    assert [call.step for call in trajectory.calls] == [0, 1]
    assert trajectory.calls[0].trainable
    assert not trajectory.calls[1].trainable


def test_a_killed_server_loses_and_doubles_nothing(project: Path, database: str, tmp_path: Path) -> None:
    trajectories, steps = 12, 25
    rng = random.Random(18)
    with recorder_process(database) as server:
        command = [find_node(), "out/steady.js", server.url, tmp_path / "spool", str(trajectories), str(steps)]
        agent = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True)
        assert agent.stdout is not None
        assert agent.stdout.readline()
        for _ in range(3):
            time.sleep(rng.uniform(0.01, 0.2))
            server.kill()
            time.sleep(rng.uniform(0.0, 0.2))
            server.start()
        printed = agent.stdout.read().split("\n")
        agent.stdout.close()
        assert agent.wait(60) == 0
    assert printed[-2] == "done 0"
    check_whole(database, trajectories, steps)


def test_a_killed_agent_is_finished_by_the_next(project: Path, database: str, tmp_path: Path) -> None:
    with recorder_process(database) as server:
        command: list[Any] = [find_node(), "out/steady.js", server.url, tmp_path / "spool"]
        agent = subprocess.Popen([*command, "1000", "25"], cwd=project, stdout=subprocess.PIPE, text=True)
        assert agent.stdout is not None
        complete = [agent.stdout.readline().strip() for _ in range(3)]
        server.kill()
        complete.append(agent.stdout.readline().strip())
        time.sleep(0.05)
        agent.kill()
        agent.wait(30)
        agent.stdout.close()
        server.start()
        assert run([*command, "0", "0"], project).strip() == "done 0"
    assert all(complete)
    for identity in complete:
        check_steps(read_whole(database, identity), 25)


def check_whole(database: str, trajectories: int, steps: int) -> None:
    """Check that every trajectory is there once, and whole."""
    engine = connect(url=database)
    stored = [read_trajectory(engine, row.trajectory_id) for row in list_trajectories(engine, limit=1000)]
    engine.dispose()
    assert sorted(item.agent_id for item in stored) == sorted(f"agent-{number}" for number in range(trajectories))
    for item in stored:
        check_steps(item, steps)
        assert item.final_pnl == int(item.agent_id.removeprefix("agent-")) * 10**9


def check_steps(trajectory: StoredTrajectory, steps: int) -> None:
    numbers = list(range(steps))
    assert trajectory.final_status == "completed"
    assert [step.state["step"] for step in trajectory.steps] == numbers
    assert [step.state["balance"] for step in trajectory.steps] == [(400 + number) * 10**9 // 4 for number in numbers]
    assert [step.reported_reward for step in trajectory.steps] == numbers
    assert [(call.step, call.user_prompt) for call in trajectory.calls] == [(n, f"step {n}") for n in numbers]


def read_whole(database: str, identity: str) -> StoredTrajectory:
    engine = connect(url=database)
    try:
        return read_trajectory(engine, identity)
    finally:
        engine.dispose()


def without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def to_snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
