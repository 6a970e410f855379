"""Measure the dashboard: what each page weighs and takes, large tables by key, comparisons, streams, and idle cost.

A home is filled with runs and trajectories, and `playproof dashboard` serves it in a process of its own. Pages are
timed on the wire, from the request to the last byte, and their first paint in Chromium where there is one.
Leaves out: other trackers' interfaces.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Engine, insert

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages.agents import TRAJECTORIES
from playproof.dashboard.tables import TableQuery, cursor
from playproof.record.feeds.chromium import find_chromium
from playproof.store.db import AgentRow, Trajectory, connect, upgrade, writing

ROWS, RUNS, POINTS, OPEN_PAGES = 1_000_000, 50, 2_000, 20
IDLE_SECONDS = 20.0
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
AGENTS, AT_ONCE = 50, 20_000
PAGES = (
    "/",
    "/recordings",
    "/store",
    "/datasets",
    "/runs",
    "/runs/run-00",
    "/proof",
    "/agents",
    "/agents/trajectories",
    "/models",
    "/experiments",
    "/bots",
    "/jobs",
    "/settings",
)
PAINT_GOAL_MS, BYTES_GOAL, QUERY_GOAL_MS, COMPARE_GOAL_MS, POINT_GOAL_MS, IDLE_GOAL = (
    300,
    300_000,
    100,
    1_000,
    1_000,
    5.0,
)


def fill(engine: Engine, rows: int) -> None:
    """Write so many trajectories."""
    with writing(engine) as connection:
        agents = [{"agent_id": f"agent-{number}", "kind": "llm", "created_at": MOMENT} for number in range(AGENTS)]
        connection.execute(insert(AgentRow), agents)
    for start in range(0, rows, AT_ONCE):
        with writing(engine) as connection:
            connection.execute(
                insert(Trajectory), [_row(number) for number in range(start, min(rows, start + AT_ONCE))]
            )


def _row(number: int) -> dict[str, Any]:
    start = MOMENT + timedelta(seconds=number)
    window = f"{start:%Y-%m-%dT%H}:00Z"
    return {
        "trajectory_id": f"{number:032x}",
        "agent_id": f"agent-{number % AGENTS}",
        "window_id": window,
        "window_hours": 1,
        "scenario_id": window,
        "market": "",
        "start_time": start,
        "end_time": start,
        "episode_length": 1,
        "final_status": "completed",
        "final_balance": 10**13,
        "final_pnl": (number * 7919) % 10**9,
        "is_training_data": True,
        "is_evaluation": False,
        "used_in_training": False,
        "created_at": start,
    }


def make_runs(root: Path) -> None:
    """Write runs with learning curves."""
    for number in range(RUNS):
        path = root / "runs" / f"run-{number:02d}"
        path.mkdir(parents=True)
        config = {"method": "ppo", "config": {"world": "drift", "seed": number}, "commit": "0" * 40}
        (path / "config.json").write_text(json.dumps(config))
        (path / "log.jsonl").write_text("".join(_note(step, number) for step in range(POINTS)))


def _note(step: int, seed: int) -> str:
    note = {
        "kind": "evaluation",
        "step": step * 1000,
        "pnl": (step * 37 + seed) % 10**6,
        "pnl_se": 1e4,
        "reward": 0.5,
        "mix": {"WAIT": 0.9, "BUY": 0.1},
        "components": {"money": 0.5},
    }
    return json.dumps(note) + "\n"


def table_times(engine: Engine, root: Path) -> list[float]:
    """Give the milliseconds of pages of 100 at the beginning, deep inside, and filtered by an agent."""
    context = DashboardContext(root, engine)
    after = ""
    for _ in range(20):
        rows = TRAJECTORIES.read(context, TableQuery("start_time", True, after))
        after = cursor(rows[-1]["key"])
    deep = cursor((MOMENT + timedelta(seconds=len(rows) * 1000), f"{0:032x}"))
    queries = [
        TableQuery("start_time", True, at, filters)
        for at in ("", after, deep)
        for filters in ({}, {"agent": "agent-7"})
    ]
    times = []
    for query in queries * 3:
        began = time.perf_counter()
        TRAJECTORIES.read(context, query)
        times.append(1000 * (time.perf_counter() - began))
    return times


@contextmanager
def served(root: Path) -> Iterator[tuple[str, list[str], subprocess.Popen[str]]]:
    """Serve a home; give the address, links that let in, and the process."""
    words = [sys.executable, "-m", "playproof", "dashboard", "--port", "0", "--links", "3", "--no-worker"]
    environment = {"PLAYPROOF_HOME": str(root), "PATH": "/usr/bin:/bin", "HOME": str(root)}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)  # noqa: S603
    try:
        assert process.stderr is not None
        links = [match[0] for _ in range(3) if (match := re.search(r"http://\S+", process.stderr.readline()))]
        base = links[0].partition("/enter")[0]
        for _ in range(200):  # the links are printed before the first request is taken
            try:
                httpx.get(f"{base}/healthz")
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        yield base, links, process
    finally:
        process.terminate()
        process.wait()


def first_paints(base: str, link: str) -> dict[str, float]:
    """Give the first paint of every page in Chromium, in ms; empty without one."""
    chromium = find_chromium()
    if chromium is None:
        return {}
    from playwright.sync_api import sync_playwright

    result = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(link)
        for address in PAGES:
            page.goto(base + address, wait_until="load")
            page.wait_for_timeout(100)
            page.goto(base + address, wait_until="load")
            paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
            page.wait_for_timeout(200)
            result[address] = float(page.evaluate(paint))
        browser.close()
    return result


def point_delay(client: httpx.Client, root: Path) -> float:
    """Give the milliseconds from a line in a run's log to its message on the stream."""
    arrived: list[float] = []
    ready = threading.Event()
    with client.stream("GET", "/live/stream?at=/runs/run-01") as answer:

        def read() -> None:
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    arrived.append(time.perf_counter())
                    ready.set()
                    if len(arrived) == 2:
                        return

        reading = threading.Thread(target=read)
        reading.start()
        ready.wait(30)
        time.sleep(1.0)
        with (root / "runs" / "run-01" / "log.jsonl").open("a") as file:
            file.write(_note(POINTS + 1, 1))
        written = time.perf_counter()
        reading.join(30)
    return 1000 * (arrived[1] - written)


def idle_share(client: httpx.Client, process: subprocess.Popen[str]) -> float:
    """Give the share of a core that open pages cost while nothing happens, in percent."""
    stopped = threading.Event()

    def hold(address: str) -> None:
        with client.stream("GET", f"/live/stream?at={address}") as answer:
            for _ in answer.iter_lines():
                if stopped.is_set():
                    return

    addresses = [f"/runs/run-{number:02d}" for number in range(OPEN_PAGES - 4)] + ["/", "/runs", "/agents", "/jobs"]
    for address in addresses:
        threading.Thread(target=hold, args=(address,), daemon=True).start()
    time.sleep(8.0)
    before = _processor_seconds(process.pid)
    time.sleep(IDLE_SECONDS)
    share = 100 * (_processor_seconds(process.pid) - before) / IDLE_SECONDS
    stopped.set()
    return share


def _processor_seconds(pid: int) -> float:
    """Give the processor time that a process has used, from Linux's own count."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(rows: int = ROWS) -> dict[str, Any]:
    """Measure, and report beside the goals."""
    results: list[Measurement] = []
    goals: list[Goal] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "home"
        root.mkdir()
        engine = connect(root)
        upgrade(engine)
        fill(engine, rows)
        make_runs(root)
        slowest = max(table_times(engine, root))
        results.append(Measurement("trajectories", rows, "rows"))
        goals.append(Goal.at_most("table_sqlite_ms", slowest, QUERY_GOAL_MS))
        engine.dispose()
        if (postgres := _postgres_time(rows, root)) is not None:
            goals.append(Goal.at_most("table_postgresql_ms", postgres, QUERY_GOAL_MS))
        with served(root) as (base, links, process):
            client = httpx.Client(base_url=base, timeout=60, limits=httpx.Limits(max_connections=100))
            client.get(links[0])
            weights, times = [], []
            for address in PAGES:
                client.get(address)
                began = time.perf_counter()
                answer = client.get(address)
                times.append(1000 * (time.perf_counter() - began))
                weights.append(len(answer.content))
                results.append(Measurement(f"bytes {address}", weights[-1], "B"))
                results.append(Measurement(f"answer {address}", times[-1], "ms"))
            paints = first_paints(base, links[1])
            results += [Measurement(f"first paint {address}", paint, "ms") for address, paint in paints.items()]
            if paints:
                goals.append(Goal.at_most("first_paint_median_ms", statistics.median(paints.values()), PAINT_GOAL_MS))
            goals.append(Goal.at_most("page_bytes", max(weights), BYTES_GOAL))
            names = "+".join(f"run-{number:02d}" for number in range(RUNS))
            began = time.perf_counter()
            client.get(f"/runs/compare?names={names}").raise_for_status()
            goals.append(Goal.at_most("compare_50_runs_ms", 1000 * (time.perf_counter() - began), COMPARE_GOAL_MS))
            goals.append(Goal.at_most("new_point_ms", point_delay(client, root), POINT_GOAL_MS))
            goals.append(Goal.at_most("idle_20_pages_percent", idle_share(client, process), IDLE_GOAL))
    return BenchmarkReport("dashboard", tuple(results), tuple(goals)).to_json()


def _postgres_time(rows: int, root: Path) -> float | None:
    """Give the slowest page of the table on PostgreSQL; None where there is no server to start."""
    try:
        from pgserver import get_server
    except ImportError:
        return None
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        server = get_server(folder, cleanup_mode="stop")
        try:
            engine = connect(url=server.get_uri())
            upgrade(engine)
            fill(engine, rows)
            with engine.connect() as connection:
                connection.exec_driver_sql("ANALYZE")
            slowest = max(table_times(engine, root))
            engine.dispose()
        finally:
            server.cleanup()
    return slowest
