"""Measure the import of a studio's PostgreSQL tables beside a bare COPY of the same rows, in both spellings.

100,000 trajectories of three steps, their calls logged in a table of their own and standing in steps_json as well. The
bare COPY reads the same rows out of the tables and writes them into tables of the same shape; it parses no JSON, checks
nothing and stores no steps. Each row of `trajectories` and of `llm_call_logs` counts once for both.
Leaves out: the network, and SQLite as a target.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import psycopg

from benchmarks.report import BenchmarkReport, Goal, Measurement
from benchmarks.trajectories import _postgres
from playproof.errors import MissingExtra
from playproof.game.markets import MarketDeclaration
from playproof.record.imports.studio import import_studio
from playproof.store.db import opened, upgrade

COUNT, STEPS, AGENTS = 100_000, 3, 10
GOAL_SECONDS = 300.0
"""Within which a hundred thousand trajectories should be there."""
MARKET = MarketDeclaration(name="bench", assets=("BTC",))
NOW = datetime(2100, 1, 1, tzinfo=UTC)

STEP = """{"stepNumber":%s,"timestamp":' || (extract(epoch from t) * 1000)::bigint + %s * 60000 || ',"environmentState":
{"agentBalance":10000.25,"agentPnL":0.3,"openPositions":2},"providerAccesses":[{"providerName":"markets","data":
{"BTC":100.5},"purpose":"decide"}],"llmCalls":[{"model":"m","systemPrompt":"You trade in a market.","userPrompt":
"state %s of ' || n || '","response":"{}","temperature":0.7,"maxTokens":256,"purpose":"action"}],"action":
{"actionType":"BUY","parameters":{"amount":5},"success":true},"reward":0.5}"""


def run() -> dict[str, Any]:
    """Measure everything."""
    return measure().to_json()


def measure(count: int = COUNT) -> BenchmarkReport:
    """Measure with so many trajectories in each spelling."""
    results: list[Measurement] = []
    goals: list[Goal] = []
    with _postgres() as url:
        if url is None:
            raise MissingExtra("pgserver, which brings a PostgreSQL to measure with", "dev")
        for spelling in ("snake_case", "camelCase"):
            source = _schema(url, f"source_{spelling.lower()}")
            _fill(source, spelling, count)
            rows = count * (1 + STEPS)
            bare = rows / _bare(source)
            target = _schema(url, f"target_{spelling.lower()}")
            with opened(url=target) as engine:
                upgrade(engine)
                began = time.perf_counter()
                report = import_studio(engine, source, MARKET, NOW)
                seconds = time.perf_counter() - began
                began = time.perf_counter()
                again = import_studio(engine, source, MARKET, NOW, since=datetime(2000, 1, 1, tzinfo=UTC))
                known = rows / (time.perf_counter() - began)
            assert (report.trajectories, report.calls, report.problems) == (count, count * STEPS, [])
            assert (again.trajectories, again.known) == (0, count)
            results += [
                Measurement(f"{spelling}: import of {count:,} trajectories", rows / seconds, "rows/s"),
                Measurement(f"{spelling}: bare COPY of the same rows", bare, "rows/s"),
                Measurement(f"{spelling}: import again, everything known", known, "rows/s"),
            ]
            goals.append(Goal.at_most(f"{spelling}: {count:,} trajectories, s", seconds, GOAL_SECONDS))
    return BenchmarkReport("imports.studio", tuple(results), tuple(goals))


def _schema(url: str, name: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{url}&options=-csearch_path%3D{name}"


def _fill(url: str, spelling: str, count: int) -> None:
    """Write the studio's tables on the server itself."""
    steps = ",".join(STEP.replace("\n", "") % (number, number, number) for number in range(STEPS))
    columns = "trajectory_id, agent_id, start_time, end_time, window_id, window_hours, steps_json, total_reward,"
    columns += " final_status, final_balance, final_pnl, updated_at"
    calls = "trajectory_id, step_id, call_id, timestamp, model, purpose, system_prompt, user_prompt, response,"
    calls += " temperature, max_tokens"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"CREATE TABLE trajectories AS SELECT 't-' || n AS trajectory_id, 'agent-' || n % {AGENTS} AS agent_id,"  # noqa: S608
            " t AS start_time, t + interval '5 minutes' AS end_time, to_char(t, 'YYYY-MM-DD\"T\"HH24:00') AS window_id,"
            f" 1 AS window_hours, '[{steps}]' AS steps_json, 1.5::float AS total_reward,"
            " 'completed' AS final_status, 10012.34::float AS final_balance, 12.34::float AS final_pnl,"
            f" t + interval '6 minutes' AS updated_at FROM (SELECT n, timestamp '2025-01-01' + n / {AGENTS} *"
            f" interval '1 minute' AS t FROM generate_series(1, {count}) n) s".encode()
        )
        connection.execute(
            f"CREATE TABLE llm_call_logs AS SELECT trajectory_id, trajectory_id || '-step-' || k AS step_id,"  # noqa: S608
            f" trajectory_id || '-call-' || k AS call_id, start_time + k * interval '1 minute' AS timestamp,"
            f" 'm' AS model, 'action' AS purpose, 'You trade in a market.' AS system_prompt,"
            f" 'state ' || k || ' of ' || substr(trajectory_id, 3) AS user_prompt, '{{}}' AS response,"
            f" 0.7::float AS temperature, 256 AS max_tokens"
            f" FROM trajectories, generate_series(0, {STEPS - 1}) k".encode()
        )
        connection.execute("CREATE UNIQUE INDEX ON trajectories (trajectory_id)")
        connection.execute("CREATE INDEX ON llm_call_logs (trajectory_id)")
        if spelling == "camelCase":
            for table, names in (("trajectories", columns), ("llm_call_logs", calls)):
                for name in names.split(", "):
                    first, *rest = name.strip().split("_")
                    camel = (first + "".join(word.capitalize() for word in rest)).replace("Pnl", "PnL")
                    if camel != name.strip():
                        connection.execute(f'ALTER TABLE {table} RENAME COLUMN {name} TO "{camel}"'.encode())
        connection.execute("ANALYZE")


def _bare(url: str) -> float:
    """Copy the rows out of the tables and into new ones of the same shape; give the seconds."""
    with psycopg.connect(url) as reader, psycopg.connect(url) as writer:
        for table in ("trajectories", "llm_call_logs"):
            writer.execute(f"CREATE TABLE copied_{table} (LIKE {table} INCLUDING ALL)".encode())
        writer.commit()
        began = time.perf_counter()
        for table in ("trajectories", "llm_call_logs"):
            out = reader.cursor().copy(f"COPY {table} TO STDOUT".encode())
            into = writer.cursor().copy(f"COPY copied_{table} FROM STDIN".encode())
            with out as rows, into as copy:
                for block in rows:
                    copy.write(block)
        writer.commit()
        return time.perf_counter() - began
