"""A studio's PostgreSQL tables in both spellings, as its TypeScript system and its ORM write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

START = datetime(2025, 1, 15, 10, 5, tzinfo=UTC)
TRAJECTORY = {
    "id": "text primary key",
    "trajectory_id": "text unique not null",
    "agent_id": "text not null",
    "start_time": "timestamp not null",
    "end_time": "timestamp not null",
    "duration_ms": "integer",
    "window_id": "text",
    "window_hours": "integer default 1",
    "episode_id": "text",
    "scenario_id": "text",
    "batch_id": "text",
    "steps_json": "text not null",
    "reward_components_json": "text not null default '{}'",
    "metrics_json": "text not null default '{}'",
    "metadata_json": "text not null default '{}'",
    "total_reward": "double precision not null default 0",
    "episode_length": "integer not null default 0",
    "final_status": "text not null",
    "final_balance": "double precision",
    "final_pnl": "double precision",
    "trades_executed": "integer",
    "posts_created": "integer",
    "ai_judge_reward": "double precision",
    "ai_judge_reasoning": "text",
    "judged_at": "timestamp",
    "is_training_data": "boolean not null default true",
    "is_evaluation": "boolean not null default false",
    "used_in_training": "boolean not null default false",
    "trained_in_batch": "text",
    "created_at": "timestamp not null default now()",
    "updated_at": "timestamp not null",
}
CALL = {
    "id": "text primary key",
    "trajectory_id": "text not null",
    "step_id": "text not null",
    "call_id": "text unique not null",
    "timestamp": "timestamp not null",
    "latency_ms": "integer",
    "model": "text not null",
    "purpose": "text not null",
    "action_type": "text",
    "system_prompt": "text not null",
    "user_prompt": "text not null",
    "messages_json": "text",
    "response": "text not null",
    "reasoning": "text",
    "temperature": "double precision not null",
    "max_tokens": "integer not null",
    "top_p": "double precision",
    "prompt_tokens": "integer",
    "completion_tokens": "integer",
    "total_tokens": "integer",
    "metadata": "text",
}
OUTCOME = {
    "id": "text primary key",
    "window_id": "text not null",
    "stock_ticker": "text",
    "start_price": "numeric(10,2)",
    "end_price": "numeric(10,2)",
    "change_percent": "numeric(10,2)",
    "volume": "numeric(10,2)",
    "sentiment": "numeric(10,2)",
    "news_events": "jsonb",
    "prediction_market_id": "text",
    "question": "text",
    "outcome": "text",
    "final_probability": "numeric(10,2)",
}
TABLES = {"trajectories": TRAJECTORY, "llm_call_logs": CALL, "market_outcomes": OUTCOME}


def camel(name: str) -> str:
    """Write a name as an ORM does; P&L has letters of its own."""
    first, *rest = name.split("_")
    return (first + "".join(word.capitalize() for word in rest)).replace("Pnl", "PnL")


class StudioTables:
    """The tables of one schema, in one spelling."""

    def __init__(self, url: str, spelling: str, *, windows: bool = True) -> None:
        self.url, self.spelling = url, spelling
        self.connection = psycopg.connect(url, autocommit=True)
        for table, columns in TABLES.items():
            kept = {name: kind for name, kind in columns.items() if windows or not self._of_windows(table, name)}
            written = ", ".join(f"{self.name(name)} {kind}" for name, kind in kept.items())
            self.connection.execute(f"CREATE TABLE {table} ({written})".encode())

    @staticmethod
    def _of_windows(table: str, name: str) -> bool:
        return table == "trajectories" and name in ("window_id", "window_hours")

    def name(self, name: str) -> str:
        return f'"{camel(name)}"' if self.spelling == "camelCase" else name

    def insert(self, table: str, **row: Any) -> None:
        names = ", ".join(map(self.name, row))
        marks = ", ".join(["%s"] * len(row))
        self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})".encode(), list(row.values()))

    def update(self, trajectory_id: str, **row: Any) -> None:
        sets = ", ".join(f"{self.name(name)} = %s" for name in row)
        where = f"{self.name('trajectory_id')} = %s"
        statement = f"UPDATE trajectories SET {sets} WHERE {where}".encode()
        self.connection.execute(statement, [*row.values(), trajectory_id])

    def trajectory(self, number: int, agent: str, *, hour: int = 0, pnl: float = 12.34, **more: Any) -> str:
        """Write a whole trajectory of five steps; give its id."""
        identity = f"traj-{number}"
        start = (START + timedelta(hours=hour)).replace(tzinfo=None)
        row = {
            "id": f"row-{number}",
            "trajectory_id": identity,
            "agent_id": agent,
            "start_time": start,
            "end_time": start + timedelta(minutes=10),
            "window_id": f"2025-01-15T{10 + hour}:00",
            "window_hours": 1,
            "scenario_id": f"2025-01-15T{10 + hour}:00",
            "steps_json": json.dumps([step(number, index, start) for index in range(5)]),
            "metadata_json": json.dumps({"archetype": "momentum"}),
            "metrics_json": json.dumps({"note": 1}),
            "total_reward": 2.5,
            "episode_length": 5,
            "final_status": "completed",
            "final_balance": 10_000 + pnl,
            "final_pnl": pnl,
            "trades_executed": 3,
            "updated_at": start + timedelta(minutes=11),
        }
        self.insert("trajectories", **{name: value for name, value in (row | more).items() if value is not ...})
        return identity

    def call(self, number: int, index: int, **more: Any) -> None:
        """Log the call of one step, as it also stands in steps_json."""
        said = spoken(number, index)
        row = {
            "id": f"log-{number}-{index}",
            "trajectory_id": f"traj-{number}",
            "step_id": f"traj-{number}-step-{index}",
            "call_id": f"call-{number}-{index}",
            "timestamp": (START + timedelta(minutes=index)).replace(tzinfo=None),
            "latency_ms": 120,
            "model": said["model"],
            "purpose": "action",
            "system_prompt": said["systemPrompt"],
            "user_prompt": said["userPrompt"],
            "response": said["response"],
            "temperature": 0.7,
            "max_tokens": 256,
            "prompt_tokens": 50,
            "completion_tokens": 9,
        }
        self.insert("llm_call_logs", **(row | more))

    def outcome(self, number: int, window: str = "2025-01-15T10:00", **more: Any) -> None:
        row = {"id": f"outcome-{number}", "window_id": window}
        self.insert("market_outcomes", **(row | more))

    def outcomes(self, window: str = "2025-01-15T10:00", number: int = 0) -> None:
        """Write the outcomes of a window: two stocks and a question."""
        prices = {"start_price": 100, "end_price": 110, "change_percent": 10, "volume": 5, "sentiment": 0.5}
        news = json.dumps([{"id": "n1"}, "n2"])
        self.outcome(number, window, stock_ticker="BTC", news_events=news, **prices)
        self.outcome(number + 1, window, stock_ticker="ETH", start_price=3, end_price=2, change_percent=-33.33)
        asked = {"question": "Will it?", "outcome": "YES", "final_probability": 0.8}
        self.outcome(number + 2, window, prediction_market_id="q1", **asked)

    def close(self) -> None:
        self.connection.close()


def spoken(number: int, index: int) -> dict[str, Any]:
    return {
        "model": "gpt-5-mini",
        "systemPrompt": "You trade.",
        "userPrompt": f"state {index} of {number}",
        "response": json.dumps({"action": "BUY", "amount": index}),
        "temperature": 0.7,
        "maxTokens": 256,
        "latencyMs": 120,
        "purpose": "action",
    }


def step(number: int, index: int, start: datetime) -> dict[str, Any]:
    moment = start.replace(tzinfo=UTC) + timedelta(minutes=index)
    return {
        "stepNumber": index,
        "timestamp": int(moment.timestamp() * 1000),
        "environmentState": {"agentBalance": 10_000.1 + index, "agentPnL": 0.1 + 0.2, "openPositions": index},
        "providerAccesses": [{"providerName": "markets", "data": {"BTC": 100 + index}, "purpose": "decide"}],
        "llmCalls": [spoken(number, index)],
        "action": {"actionType": "BUY", "parameters": {"asset": "BTC"}, "success": True, "reasoning": "up"},
        "reward": 0.5,
    }
