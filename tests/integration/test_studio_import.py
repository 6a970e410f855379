"""A studio's tables become a market's trajectories: both spellings, real PostgreSQL, nothing lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres import Postgres
from sqlalchemy import Engine, func, select
from studio_tables import START, StudioTables

from playproof.cli.app import main
from playproof.datasets.conversations.groups import read_groups
from playproof.errors import ConfigError, InputError
from playproof.game.markets import MarketDeclaration, add_market
from playproof.judge import group as judged
from playproof.judge.computed import computed
from playproof.record.imports import studio
from playproof.record.imports.studio import import_studio
from playproof.record.trajectories.outcomes import read_outcomes
from playproof.record.trajectories.windows import survey
from playproof.store.db import LlmCall, StepRow, Trajectory, connect, upgrade
from playproof.store.db.trajectories import read_trajectory

NOW = datetime(2025, 1, 16, tzinfo=UTC)
MARKET = MarketDeclaration(name="mine", assets=("BTC", "ETH"), actions=("BUY", "SELL", "HOLD"))
WINDOW = "2025-01-15T10:00Z"


@pytest.fixture(params=["snake_case", "camelCase"])
def tables(request: pytest.FixtureRequest, postgres: Postgres) -> Iterator[StudioTables]:
    made = StudioTables(postgres.new(), request.param)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path / 's.db'}" if request.param == "sqlite" else postgres.new()
    engine = connect(url=url)
    upgrade(engine)
    yield engine
    engine.dispose()


def counted(engine: Engine) -> tuple[int, int, int]:
    with engine.connect() as connection:
        trajectories, steps, calls = (
            int(connection.execute(select(func.count()).select_from(table)).scalar_one())
            for table in (Trajectory, StepRow, LlmCall)
        )
        return trajectories, steps, calls


def test_everything_comes_in_once_and_exact(tables: StudioTables, engine: Engine) -> None:
    for number, agent in enumerate(("a", "b")):
        tables.trajectory(number, agent, pnl=12.34 - number * 100)
        for index in range(5):
            tables.call(number, index)
    tables.call(0, 9, step_id="unknown", timestamp=(START + timedelta(minutes=3, seconds=5)).replace(tzinfo=None))
    tables.outcomes()
    report = import_studio(engine, tables.url, MARKET, NOW)
    assert report.spelling == tables.spelling
    assert (report.read, report.trajectories, report.known, report.steps, report.calls) == (2, 2, 0, 10, 11)
    assert (report.calls_in_both, report.calls_by_time, report.models) == (10, 1, {"gpt-5-mini": 11})
    assert (report.outcome_windows, report.outcome_rows, report.problems) == (1, 3, [])
    assert counted(engine) == (2, 10, 11)
    assert report.money_rounded == 10, "0.1 + 0.2 is not 0.3"
    assert 0 < report.money_largest_rounding < 1e-15
    assert report.money_values == 24
    assert "GRPO" in report.limits[0]
    assert "proxy" in report.limits[0]
    whole = read_trajectory(engine, "traj-0")
    assert (whole.window_id, whole.scenario_id, whole.market, whole.archetype) == (WINDOW, WINDOW, "mine", "momentum")
    assert (whole.final_pnl, whole.final_balance, whole.start_equity) == (12_340_000_000, 10_012_340_000_000, 10**13)
    assert (whole.total_reward, whole.trades_executed, whole.final_status) == (2.5, 3, "completed")
    assert whole.start_time == START
    third = whole.steps[2]
    assert third.state == {"balance": 10_002_100_000_000, "pnl": 300_000_000, "open_positions": 2}
    assert (third.action_type, third.action_success, third.reported_reward) == ("BUY", True, 0.5)
    assert third.accesses[0]["provider"] == "markets"
    assert [call.call_id for call in whole.calls_of(2)] == ["call-0-2"]
    assert [call.call_id for call in whole.calls_of(3)] == ["call-0-3", "call-0-9"]
    assert whole.calls_of(2)[0].completion_tokens == 9
    rows = {row["subject"]: row for row in read_outcomes(engine, [WINDOW], "mine")[WINDOW].rows}
    assert rows["ETH"]["change"] == pytest.approx(-1 / 3, rel=1e-15), "the stated -33.33 % is rounded"
    assert (rows["BTC"]["news_ids"], rows["q1"]["outcome"]) == (["n1", "n2"], "yes")
    (group,) = judged.read_groups(engine, [WINDOW], "mine")
    assert computed(group).values["traj-0"] == pytest.approx(12.34 / 10_000 - (0.1 - 1 / 3) / 2, abs=1e-15)
    assert len(read_groups(engine, [WINDOW], 2, 5, "mine")[0].episodes) == 2
    assert survey(engine, MARKET.windows, NOW, min_agents=2).windows[0].ready(2)


def test_an_import_again_changes_nothing_and_goes_on(tables: StudioTables, engine: Engine) -> None:
    tables.trajectory(0, "a")
    tables.outcomes()
    import_studio(engine, tables.url, MARKET, NOW)
    before = counted(engine)
    again = import_studio(engine, tables.url, MARKET, NOW)
    assert (again.read, again.known, again.trajectories, again.outcome_windows_known) == (1, 1, 0, 1)
    assert again.resumed_from is not None
    assert counted(engine) == before
    tables.trajectory(1, "b", hour=2)
    more = import_studio(engine, tables.url, MARKET, NOW)
    assert (more.read, more.trajectories, more.known) == (2, 1, 1), "the last minutes are read again"
    assert import_studio(engine, tables.url, MARKET, NOW).read == 1, "the first one lies before the position"
    since = import_studio(engine, tables.url, MARKET, NOW, since=START + timedelta(hours=1))
    assert (since.read, since.known, since.resumed_from) == (1, 1, None)
    assert counted(engine)[0] == 2


def test_a_killed_import_goes_on(tables: StudioTables, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        tables.trajectory(number, f"a{number}", hour=0, updated_at=START.replace(tzinfo=None) + timedelta(hours=number))
    monkeypatch.setattr(studio, "TOGETHER", 2)

    def show(count: int) -> None:
        if count == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_studio(engine, tables.url, MARKET, NOW, show=show)
    assert counted(engine)[0] == 4
    report = import_studio(engine, tables.url, MARKET, NOW)
    assert (report.trajectories, report.known, report.read) == (3, 1, 4)
    assert counted(engine) == (7, 35, 35)


@pytest.mark.parametrize("spelling", ["snake_case", "camelCase"])
def test_without_windows_the_start_names_the_hour(spelling: str, postgres: Postgres, tmp_path: Path) -> None:
    tables = StudioTables(postgres.new(), spelling, windows=False)
    tables.trajectory(0, "a", hour=3, window_id=..., window_hours=...)
    engine = connect(url=f"sqlite:///{tmp_path / 'w.db'}")
    upgrade(engine)
    report = import_studio(engine, tables.url, MARKET, NOW)
    assert report.windows_from_start == 1
    assert read_trajectory(engine, "traj-0").window_id == "2025-01-15T13:00Z"
    engine.dispose()
    tables.close()


BROKEN: dict[str, dict[str, Any]] = {
    "half a JSON": {"steps_json": '[{"stepNumber": 0, '},
    "no list": {"steps_json": '{"stepNumber": 0}'},
    "a text for a step": {"steps_json": '["x"]'},
    "a wrong status": {"final_status": "finished"},
    "NaN of money": {"final_pnl": float("nan")},
    "infinite money": {"final_balance": float("inf")},
    "money beyond 64 bits": {"final_balance": 1e15},
    "another length of window": {"window_hours": 4},
    "no window": {"window_id": "yesterday"},
    "a window of another zone": {"window_id": "2025-01-15T10:00+02:00"},
    "an action without a type": {"steps_json": json.dumps([{"stepNumber": 0, "action": {"success": True}}])},
    "a text for a reward": {"steps_json": json.dumps([{"action": {"actionType": "BUY"}, "reward": "high"}])},
    "a text for calls": {"steps_json": json.dumps([{"llmCalls": "none", "action": {"actionType": "BUY"}}])},
    "a number for a response": {
        "steps_json": json.dumps([{"llmCalls": [{"model": "m", "response": 5}], "action": {"actionType": "BUY"}}])
    },
    "a time that is none": {"steps_json": json.dumps([{"timestamp": 1e30, "action": {"actionType": "BUY"}}])},
    "money as an object": {"steps_json": json.dumps([{"environmentState": {"agentBalance": {"usd": 1}}}])},
    "a list of metadata": {"metadata_json": "[1, 2]"},
    "half of metrics": {"metrics_json": "{"},
    "an open step in the middle": {"steps_json": json.dumps([{}, {"action": {"actionType": "BUY"}}])},
    "NaN in JSON": {"steps_json": '[{"reward": NaN, "action": {"actionType": "BUY"}}]'},
    "a million steps": {"steps_json": "[" + ",".join(["{}"] * 1_000_000) + "]"},
}


@pytest.fixture(scope="module")
def broken(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Engine]]:
    tables = StudioTables(postgres.new(), "snake_case")
    tables.trajectory(0, "a")
    for number, row in enumerate(BROKEN.values(), 1):
        tables.trajectory(number, "b", **row)
    engine = connect(url=f"sqlite:///{tmp_path_factory.mktemp('broken') / 'b.db'}")
    upgrade(engine)
    yield import_studio(engine, tables.url, MARKET, NOW), engine
    engine.dispose()
    tables.close()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_row_is_named_and_the_others_come_in(name: str, broken: tuple[Any, Engine]) -> None:
    report, engine = broken
    number = list(BROKEN).index(name) + 1
    (problem,) = [item for item in report.problems if item.row == f"traj-{number}"]
    assert "expected" in problem.reason
    assert "found" in problem.reason
    assert (report.read, report.trajectories, len(report.problems)) == (len(BROKEN) + 1, 1, len(BROKEN))
    assert counted(engine) == (1, 5, 5)
    assert report.money_values == 12, "money of rows that were refused is not counted"


def test_broken_outcomes_are_named_and_the_others_come_in(tables: StudioTables, engine: Engine) -> None:
    tables.trajectory(0, "a")
    tables.outcomes()
    prices = {"stock_ticker": "BTC", "end_price": 1}
    tables.outcome(10, "2025-01-15T11:00", start_price=-1, **prices)
    tables.outcome(11, "2025-01-15T12:00", start_price=1, **prices)
    tables.outcome(12, "2099-01-15T12:00", start_price=1, **prices)
    tables.outcome(13, "noon", start_price=1, **prices)
    tables.outcome(14, "2025-01-15T13:00")
    for number, ticker in enumerate(("BTC", "BTC", "ETH")):
        tables.outcome(20 + number, "2025-01-15T14:00", stock_ticker=ticker, start_price=1, end_price=2)
    report = import_studio(engine, tables.url, MARKET, NOW)
    assert report.outcome_windows == 1
    reasons = {item.row: item.reason for item in report.problems}
    assert "price above 0" in reasons["2025-01-15T11:00Z"]
    assert "found none of ETH" in reasons["2025-01-15T12:00Z"]
    assert "ETH" in reasons["2099-01-15T12:00Z"]
    assert "window id" in reasons["noon"]
    assert "neither" in reasons["2025-01-15T13:00Z"]
    assert "twice" in reasons["2025-01-15T14:00Z"]
    tables.connection.execute("UPDATE market_outcomes SET question = 'Another?' WHERE question = 'Will it?'")
    other = import_studio(engine, tables.url, MARKET, NOW)
    assert "correct" in {item.row: item.reason for item in other.problems}[WINDOW]
    assert len(read_outcomes(engine, [WINDOW], "mine")[WINDOW].rows) == 3


def test_the_tables_are_only_read(tables: StudioTables, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.trajectory(0, "a")

    def write(connection: Any) -> Any:
        connection.execute("DELETE FROM trajectories")

    monkeypatch.setattr(studio, "find_tables", write)
    with pytest.raises(InputError, match="read-only transaction"):
        import_studio(engine, tables.url, MARKET, NOW)
    assert tables.connection.execute("SELECT count(*) FROM trajectories").fetchone() == (1,)


def test_odd_ids_and_words_are_kept_apart(tables: StudioTables, engine: Engine) -> None:
    tables.trajectory(0, "did:privy:alice")
    tables.trajectory(1, "did privy alice", final_status="timeout")
    tables.call(0, 1, call_id="call one!", purpose="chatter")
    report = import_studio(engine, tables.url, MARKET, NOW)
    assert (report.trajectories, report.ids_rewritten, report.purposes_unknown) == (2, 3, 1)
    first, second = read_trajectory(engine, "traj-0"), read_trajectory(engine, "traj-1")
    assert first.agent_id != second.agent_id
    assert first.extra is not None
    assert first.extra["studio_agent_id"] == "did:privy:alice"
    assert (second.final_status, second.extra["studio_status"]) == ("cut", "timeout")  # type: ignore[index]


def test_wrong_addresses_and_empty_tables_are_refused(postgres: Postgres, engine: Engine) -> None:
    with pytest.raises(ConfigError, match="postgresql://"):
        import_studio(engine, "mysql://x", MARKET, NOW)
    with pytest.raises(InputError, match="expected to read"):
        import_studio(engine, "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2", MARKET, NOW)
    url = postgres.new()
    with pytest.raises(InputError, match="table called trajectories"):
        import_studio(engine, url, MARKET, NOW)
    tables = StudioTables(url, "snake_case")
    with pytest.raises(InputError, match="found none"):
        import_studio(engine, url, MARKET, NOW)
    tables.connection.execute("ALTER TABLE trajectories DROP COLUMN steps_json")
    with pytest.raises(InputError, match="steps_json"):
        import_studio(engine, url, MARKET, NOW)
    tables.close()


def test_the_command_reports_and_fails_where_most_is_lost(
    tables: StudioTables, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.trajectory(0, "a")
    tables.outcomes()
    assert main(["import", "studio", tables.url]) == 1
    assert "market add" in capsys.readouterr().err
    add_market(MARKET)
    assert main(["import", "studio", tables.url, "--since", "2025-01-15T00:00", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["trajectories"], report["outcome_windows"], report["spelling"]) == (1, 1, tables.spelling)
    assert "password" not in report["source"]
    for number in range(1, 5):
        tables.trajectory(number, "b", final_status="lost")
    assert main(["import", "studio", tables.url, "--market", "mine"]) == 1
    printed = capsys.readouterr()
    assert "traj-1" in printed.out
    assert "most rows" in printed.err
    assert main(["import", "studio", tables.url, "--since", "soon"]) == 1


def test_psycopg_reads_both(tables: StudioTables) -> None:
    """The helper's own tables are what they say."""
    tables.trajectory(0, "a")
    with psycopg.connect(tables.url) as connection:
        quoted = '"trajectoryId"' if tables.spelling == "camelCase" else "trajectory_id"
        assert connection.execute(f"SELECT {quoted} FROM trajectories".encode()).fetchone() == ("traj-0",)
