"""Measure the trajectory tables beside the bare drivers: storing whole trajectories, and reading one window of many.

Trajectories have 20 steps with prompts of realistic length. The bare driver inserts the same rows into the same tables,
executemany in SQLite and COPY in PostgreSQL, and writes the JSON in them, which it cannot do without; ours also makes
the rows, checks them and takes secrets out.
Rounds of each take turns. PostgreSQL is left out, and said to be, where `pgserver` is not installed.
The recording proxy is measured by calls through it and past it to the same small upstream, in turns.
Leaves out: the network between machines.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import JSON, Engine

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.errors import ContractError
from playproof.game import Window, WindowRules
from playproof.net.access import AccessPolicy, ClientLimits
from playproof.net.listening import bind, listen
from playproof.record.trajectories.bulk import TrajectoryDraft, drafts_columns, store_drafts
from playproof.record.trajectories.facts import Access, ActionTaken, Call, End, Start, StepEnd, StepStart
from playproof.record.trajectories.proxy import Proxy, Upstream, proxy_role
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.record.trajectories.secrets import SecretScrubber
from playproof.record.trajectories.writes import ResolvedStart
from playproof.store.db import Trajectory, connect, metadata, upgrade, writing
from playproof.store.db.bulk import insert_columns
from playproof.store.db.trajectories import read_window

STEPS = 20
AGENTS = 10
TOGETHER = 50
ROUNDS = 7
STORED = 200_000
QUERIES = 40
CALLS = 300
PAUSE = 0.01
"""Seconds between calls; a model takes longer than that to answer."""
BULK_GOAL, QUERY_GOAL_MS, PROXY_GOAL_MS = 0.6, 20.0, 2.0
START = datetime(2025, 1, 15, tzinfo=UTC)
WORDS = (
    *("market price of the company rose after news on orders while traders expect that the court will decide soon",),
    *("sources call the merger unlikely and analysts see a weak quarter ahead with lower margins and higher costs",),
    *("insiders are buying and the mood is good so momentum may go on for some minutes before it turns again",),
)


def run() -> dict[str, Any]:
    """Measure everything."""
    return measure().to_json()


def measure(
    stored: int = STORED, rounds: int = ROUNDS, together: int = TOGETHER, calls: int = CALLS
) -> BenchmarkReport:
    """Measure with so many trajectories in the tables for the query."""
    results: list[Measurement] = []
    goals: list[Goal] = []
    for name, database in (("SQLite", _sqlite), ("PostgreSQL", _postgres)):
        with database() as url:
            if url is None:
                continue
            payload, wanted = _measure_database(name, url, stored, rounds, together)
            results += payload
            goals += wanted
    payload, wanted = _measure_proxy(calls)
    return BenchmarkReport("trajectories", (*results, *payload), (*goals, *wanted))


def _measure_database(
    name: str, url: str, stored: int, rounds: int, together: int
) -> tuple[list[Measurement], list[Goal]]:
    engine = connect(url=url)
    try:
        upgrade(engine)
        ours, bare = _bulk(engine, rounds, together)
        single = _single(engine)
        _fill(engine, stored)
        query = _query(engine)
    finally:
        engine.dispose()
    ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, bare, strict=True))
    results = [
        Measurement(f"{name}: trajectories stored in bulk", statistics.median(ours), "trajectories/s"),
        Measurement(f"{name}: the bare driver", statistics.median(bare), "trajectories/s"),
        Measurement(f"{name}: one agent, every call acknowledged", single, "steps/s"),
        Measurement(f"{name}: one window of {stored:,} trajectories", query * 1000, "ms"),
    ]
    goals = [
        Goal.at_least(f"{name}: bulk over the bare driver", ratio, BULK_GOAL),
        Goal.at_most(f"{name}: one window, ms", query * 1000, QUERY_GOAL_MS),
    ]
    return results, goals


def drafts(count: int, rng: random.Random, hour: int = 0) -> list[TrajectoryDraft]:
    """Make trajectories as agents of a market leave them."""
    return [_draft(rng, number, START + timedelta(hours=hour)) for number in range(count)]


def _draft(rng: random.Random, number: int, time: datetime) -> TrajectoryDraft:
    window = (time + timedelta(hours=number // AGENTS)).strftime("%Y-%m-%dT%H:00Z")
    agent = f"agent-{number % AGENTS}"
    draft = TrajectoryDraft(Start(agent), ResolvedStart(f"{rng.getrandbits(128):032x}", window, 1, time))
    system = "You trade in a market of companies and yes/no questions. Answer with one JSON object. " * 6
    for step in range(STEPS):
        moment = time + timedelta(minutes=3 * step)
        state = {"tick": 3 * step, "balance": 10**13 - step * 10**9, "equity": 10**13, "pnl": step, "open_positions": 2}
        draft.start_step(StepStart(state), moment)
        headlines = [rng.choice(WORDS) for _ in range(3)]
        draft.access(Access("headlines", headlines, "decide", moment))
        draft.access(
            Access("markets", {f"CO{index}": round(rng.uniform(10, 300), 3) for index in range(8)}, None, moment)
        )
        user = "\n".join(f"{index}: {rng.choice(WORDS)}" for index in range(10))
        answer = '{"action":"trade","trade":{"type":"perp","market":"CO3","action":"open_long","amount":100}}'
        draft.call(
            f"{rng.getrandbits(128):032x}", Call("m", system_prompt=system, user_prompt=user, response=answer), moment
        )
        action = ActionTaken("trade", {"market": "CO3", "amount": 10**11}, success=True, reasoning="momentum may go on")
        draft.complete_step(StepEnd(action, 0.01), moment)
    draft.finish(End(10**13, -5), time + timedelta(hours=1))
    return draft


def _bulk(engine: Engine, rounds: int, together: int) -> tuple[list[float], list[float]]:
    """Store the same number of trajectories by us and by the bare driver in turns; give trajectories a second."""
    rng = random.Random(1)  # noqa: S311
    clean = SecretScrubber()
    store_drafts(engine, drafts(together, rng), clean)
    ours: list[float] = []
    bare: list[float] = []
    for number in range(rounds):
        mine, theirs = drafts(together, rng, 2 * number), drafts(together, rng, 2 * number + 1)
        prepared = _prepared(engine, theirs, clean)
        turns = [
            (ours, lambda mine=mine: store_drafts(engine, mine, clean)),
            (bare, lambda p=prepared: _bare(engine, p)),
        ]
        for spent, work in turns if number % 2 else reversed(turns):
            spent.append(together / _seconds(work))
    return ours, bare


Prepared = list[tuple[str, list[tuple[Any, ...]]]]


def _prepared(engine: Engine, some: Sequence[TrajectoryDraft], clean: SecretScrubber) -> Prepared:
    """Give the statements and the rows of the bare driver: JSON as objects, moments as such."""
    results = []
    for table, columns in drafts_columns(some, clean).items():
        names = ", ".join(f'"{table.columns[name].name}"' for name in columns)
        payloads = [
            [None if value is None else orjson.loads(value) for value in values]
            if isinstance(table.columns[name].type, JSON)
            else values
            for name, values in columns.items()
        ]
        copy = f"COPY {table.name} ({names}) FROM STDIN"
        insert = f"INSERT INTO {table.name} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
        results.append((copy if engine.dialect.name == "postgresql" else insert, list(zip(*payloads, strict=True))))
    return results


def _bare(engine: Engine, prepared: Prepared) -> None:
    """Write rows with nothing between them and the driver but the JSON that it cannot write itself."""
    with writing(engine) as connection:
        driver: Any = connection.connection.driver_connection
        for statement, rows in prepared:
            if isinstance(driver, sqlite3.Connection):
                driver.executemany(statement, (tuple(map(_bound, row)) for row in rows))
                continue
            with driver.cursor() as cursor, cursor.copy(statement) as copy:
                for row in rows:
                    copy.write_row(tuple(map(_dumped, row)))


def _dumped(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else value


def _bound(value: Any) -> Any:
    return value.isoformat(" ") if isinstance(value, datetime) else _dumped(value)


def _single(engine: Engine, steps: int = 40) -> float:
    """Record one agent's steps, three calls each, every one acknowledged; give steps a second."""
    with TrajectoryRecorder(engine, environment={}) as recorder:
        identity = recorder.start_trajectory("single", "2025-01-15T10:00Z")

        def play() -> None:
            for number in range(steps):
                recorder.start_step(identity, {"n": number})
                recorder.log_llm_call(identity, Call("m", user_prompt="x" * 2000, response="{}"))
                recorder.complete_step(identity, ActionTaken("hold"))

        return steps / _seconds(play)


def _fill(engine: Engine, count: int) -> None:
    """Put many small trajectories into the tables; one window in twenty has whole ones."""
    rng = random.Random(2)  # noqa: S311
    table = metadata.tables[Trajectory.__tablename__]
    sample = {name: values[0] for name, values in drafts_columns(drafts(1, rng), SecretScrubber())[table].items()}
    with writing(engine) as connection:
        for start in range(0, count, 20_000):
            rows = [_small(sample, number, rng) for number in range(start, min(count, start + 20_000))]
            insert_columns(connection, table, {name: [row[name] for row in rows] for name in sample})
    store_drafts(engine, drafts(10 * AGENTS, rng, hour=24 * 365 * 3), SecretScrubber())
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")


def _small(sample: dict[str, Any], number: int, rng: random.Random) -> dict[str, Any]:
    start = START + timedelta(hours=1 + number // AGENTS)
    window = start.strftime("%Y-%m-%dT%H:00Z")
    named = {"trajectory_id": f"{rng.getrandbits(128):032x}", "agent_id": f"agent-{number % AGENTS}"}
    return sample | named | {"window_id": window, "scenario_id": window, "start_time": start, "created_at": start}


def _query(engine: Engine) -> float:
    """Read windows with ten whole trajectories each among all the others; give the median seconds of one."""
    first = START + timedelta(hours=24 * 365 * 3)
    windows = [(first + timedelta(hours=number)).strftime("%Y-%m-%dT%H:00Z") for number in range(10)]
    assert len(read_window(engine, windows[0])) >= AGENTS
    times = [_seconds(partial(read_window, engine, windows[number % 10])) for number in range(QUERIES)]
    return statistics.median(times)


def _measure_proxy(calls: int) -> tuple[list[Measurement], list[Goal]]:
    """Call an upstream through the proxy and past it in turns; give what the proxy adds at the median."""
    context = multiprocessing.get_context("spawn")
    folder = tempfile.mkdtemp(prefix="playproof-bench-")
    with bind("127.0.0.1", 0) as up, bind("127.0.0.1", 0) as through:
        ports = [taken.getsockname()[1] for taken in (up, through)]
    url = f"sqlite:///{Path(folder) / 'proxy.db'}"
    servers = [
        context.Process(target=_serve_upstream, args=(ports[0],), daemon=True),
        context.Process(target=_serve_proxy, args=(ports[1], ports[0], url), daemon=True),
    ]
    for server in servers:
        server.start()
    try:
        past, added = _call_in_turns(ports, calls)
    finally:
        for server in servers:
            server.terminate()
            server.join(10)
        shutil.rmtree(folder, ignore_errors=True)
    results = [
        Measurement("a call past the proxy", past * 1000, "ms p50"),
        Measurement("what the recording proxy adds to it", added * 1000, "ms p50"),
    ]
    return results, [Goal.at_most("the recording proxy adds, ms p50", added * 1000, PROXY_GOAL_MS)]


def _call_in_turns(ports: Sequence[int], calls: int) -> tuple[float, float]:
    body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": WORDS[0] * 20}]})
    paths = ("/v1/chat/completions", "/agents/bench/v1/chat/completions")
    connections = [_connected(port) for port in ports]
    spent: tuple[list[float], list[float]] = ([], [])
    for number in range(calls + 20):
        for times, connection, path in zip(spent, connections, paths, strict=True):
            time.sleep(PAUSE)
            seconds = _seconds(partial(_call, connection, path, body))
            if number >= 20:
                times.append(seconds)
    past, through = map(statistics.median, spent)
    return past, through - past


def _connected(port: int, seconds: float = 60.0) -> http.client.HTTPConnection:
    """Wait until a server answers."""
    end = time.monotonic() + seconds
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.connect()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return connection


def _call(connection: http.client.HTTPConnection, path: str, body: bytes) -> None:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise ContractError(f"expected an answer of the upstream, found {answer.status}: {content[:200]!r}")


def _serve_upstream(port: int) -> None:
    """Answer every call at once with the same words."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": '{"action":"hold"}'}}
    content = orjson.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            while (await receive()).get("more_body"):
                pass
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": content})

    listen(answer, bind("127.0.0.1", port))


def _serve_proxy(port: int, upstream: int, url: str) -> None:
    windows = WindowRules(
        Window, "truncated", ("2025",), timedelta(hours=1), lambda moment: f"{moment:%Y-%m-%dT%H:00Z}"
    )
    with TrajectoryRecorder(url, windows=windows, environment={}) as recorder:
        proxy = Proxy(recorder, Upstream(f"http://127.0.0.1:{upstream}/v1"))
        generous = AccessPolicy(limits=ClientLimits(rate=1e6, burst=1e6), roles=proxy_role)
        listen(proxy.app(generous), bind("127.0.0.1", port), proxy.close)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def _sqlite() -> Iterator[str | None]:
    with tempfile.TemporaryDirectory(prefix="playproof-bench-") as folder:
        yield f"sqlite:///{Path(folder) / 'tables.db'}"


@contextmanager
def _postgres() -> Iterator[str | None]:
    """Give a fresh PostgreSQL, or None where its wheel is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from pgserver.postgres_server import PostgresServer
        except ImportError:
            yield None
            return
        folder = Path(tempfile.mkdtemp(prefix="pp-bench-", dir=tempfile.gettempdir()))
        server = PostgresServer(folder, cleanup_mode=None)
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        os.kill(server.get_pid(), signal.SIGINT)
        _wait_until_gone(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_gone(folder: Path, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while (folder / "postmaster.pid").exists() and time.monotonic() < end:
        time.sleep(0.05)
