"""The relational tables: one schema on SQLite and PostgreSQL, reached by migrations, and what its columns hold."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError, StatementError

from playproof.cli.app import main
from playproof.errors import ConfigError, InputError, StoreError
from playproof.store.db import (
    AgentRow,
    MarketOutcome,
    TrialRow,
    check,
    connect,
    database_url,
    metadata,
    opened,
    ready,
    shown_url,
    upgrade,
    writing,
)
from playproof.store.db.columns import moment_text, plain, storable, write_json

NOW = datetime(2025, 1, 15, 10, 30, 0, 123456, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tables.db'}"
    return str(request.getfixturevalue("postgres").new())


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = connect(url=url)
    upgrade(engine)
    yield engine
    engine.dispose()


def trial(**changed: Any) -> dict[str, Any]:
    return {
        "trial_id": "t1",
        "family": "bc",
        "policy_hash": "p",
        "data_hash": "d",
        "split": "validation",
        "kind": "validation",
        "created_at": NOW,
        "windows": ["w1", "w2"],
        "pnl": [2**60, -3],
        "stake": 10**13,
        "metric": 0.25,
        "result": {"a": None, "b": [1.5]},
        "origin": None,
    } | changed


def test_migrations_lead_to_the_tables_and_run_once(url: str) -> None:
    engine = connect(url=url)
    missing = check(engine).missing
    assert missing[0] == "0001_first_tables"
    assert upgrade(engine) == missing
    assert upgrade(engine) == ()
    standing = check(engine)
    assert standing.sound
    assert not standing.differences
    assert set(metadata.tables) < set(inspect(engine).get_table_names())
    engine.dispose()


def test_a_changed_table_is_told(engine: Engine) -> None:
    with writing(engine) as connection:
        connection.execute(text("ALTER TABLE trial DROP COLUMN origin"))
        connection.execute(text("DROP INDEX ix_trajectory_window_agent"))
    differences = " ".join(check(engine).differences)
    assert "trial" in differences
    assert "origin" in differences
    assert "ix_trajectory_window_agent" in differences
    assert not check(engine).sound


def test_many_processes_may_upgrade_at_once(url: str) -> None:
    results: list[tuple[str, ...]] = []
    engines = [connect(url=url) for _ in range(4)]
    threads = [threading.Thread(target=lambda item=entry: results.append(upgrade(item))) for entry in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.sort()
    assert results[:-1] == [(), (), ()]
    assert results[-1] == check(engines[0]).applied
    for item in engines:
        item.dispose()


def test_a_newer_database_is_refused(engine: Engine) -> None:
    with writing(engine) as connection:
        connection.execute(text("UPDATE playproof_migration SET version_num = '9999_later'"))
    with pytest.raises(StoreError, match="9999_later"):
        upgrade(engine)
    with pytest.raises(StoreError, match="9999_later"):
        ready(engine)


def test_postgres_is_not_migrated_unasked(postgres: Any, tmp_path: Path) -> None:
    with opened(url=postgres.new()) as engine, pytest.raises(StoreError, match="playproof db upgrade"):
        ready(engine)
    with opened(tmp_path) as engine:
        assert check(ready(engine)).sound


def test_rows_come_back_as_they_were(engine: Engine) -> None:
    row = trial(created_at=NOW.astimezone(timezone(timedelta(hours=5, minutes=30))))
    with writing(engine) as connection:
        connection.execute(insert(TrialRow).values(**row))
    with engine.connect() as connection:
        result = connection.execute(select(TrialRow.__table__)).mappings().one()
    assert dict(result) == trial()
    assert result["created_at"].utcoffset() == timedelta(0)


def test_times_compare_alike_in_both(engine: Engine) -> None:
    moments = [NOW + timedelta(microseconds=item) for item in (0, 1, 999_999, 3_600_000_000)]
    with writing(engine) as connection:
        connection.execute(
            insert(AgentRow), [{"agent_id": f"a{n}", "created_at": moment} for n, moment in enumerate(moments)]
        )
    with engine.connect() as connection:
        late = select(AgentRow.agent_id).where(AgentRow.created_at > moments[1]).order_by(AgentRow.created_at)
        assert connection.scalars(late).all() == ["a2", "a3"]
        if engine.dialect.name == "sqlite":
            raw = connection.exec_driver_sql("SELECT created_at FROM agent ORDER BY 1").scalars().all()
            assert raw == [moment_text(moment) for moment in moments]


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "guess"}, {"trial_id": "t0"}, {"family": None}],
    ids=["unknown kind", "same id", "missing value"],
)
def test_constraints_hold_in_both(engine: Engine, wrong: dict[str, Any]) -> None:
    with writing(engine) as connection:
        connection.execute(insert(TrialRow).values(**trial(trial_id="t0")))
    with pytest.raises(IntegrityError), writing(engine) as connection:
        connection.execute(insert(TrialRow).values(**(trial() | wrong)))


def test_an_outcome_is_written_once(engine: Engine) -> None:
    row = {"window_id": "2025-01-15T10:00Z", "kind": "asset", "subject": "ACME", "start_price": 1, "created_at": NOW}
    with writing(engine) as connection:
        connection.execute(insert(MarketOutcome).values(**row))
    with pytest.raises(IntegrityError), writing(engine) as connection:
        connection.execute(insert(MarketOutcome).values(**(row | {"start_price": 2})))


def test_a_time_without_a_zone_is_refused(engine: Engine) -> None:
    with pytest.raises(StatementError, match="without a zone"), writing(engine) as connection:
        connection.execute(insert(AgentRow).values(agent_id="a", created_at=datetime(2025, 1, 1)))  # noqa: DTZ001


def test_what_is_written_is_synced(engine: Engine) -> None:
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        else:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
            assert connection.exec_driver_sql("SHOW fsync").scalar() == "on"
            assert connection.exec_driver_sql("SHOW timezone").scalar() == "UTC"


def test_the_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.delenv("PLAYPROOF_DB", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert database_url().database == str(home / "playproof.db")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:secret@db.example/arena")
    assert database_url().drivername == "postgresql+psycopg"
    monkeypatch.setenv("PLAYPROOF_DB", "sqlite:////tmp/x.db")
    assert database_url().database == "/tmp/x.db"
    assert database_url(url="postgresql:///other").database == "other"


@pytest.mark.parametrize("wrong", ["mysql://me@host/x", "sqlite://", "no url", "://"])
def test_other_urls_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="postgresql"):
        database_url(url=wrong)


def test_passwords_are_not_shown() -> None:
    engine = connect(url="postgresql://me:hunter2@host/arena?sslmode=require")
    assert "hunter2" not in shown_url(engine)
    assert "synchronous_commit" not in shown_url(engine)


@given(st.text(st.characters()))
def test_texts_become_what_databases_can_hold(words: str) -> None:
    result = storable(words)
    assert "\0" not in result
    assert result.encode() == storable(result).encode()
    if "\0" not in words and not any(0xD800 <= ord(word) < 0xE000 for word in words):
        assert result == words


HOSTILE = ("\0", "a\ud800b", "\ud83d\ude00", 'quote " and \\u0000', "</script>", "𝔘𝔫𝔦")


def test_hostile_texts_and_json_are_stored_alike(engine: Engine) -> None:
    with writing(engine) as connection:
        row = trial(result={item: [item] for item in HOSTILE} | {"nan": float("nan")}, origin="x")
        connection.execute(insert(TrialRow).values(**row))
    with engine.connect() as connection:
        (value,) = connection.scalars(select(TrialRow.result))
    assert value == {storable(item): [storable(item)] for item in HOSTILE} | {"nan": None}


def test_json_that_cannot_be_said_is_refused() -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    for wrong in (deep, {"a": 2**64}, {"a": -(2**63) - 1}, {"a": object()}, {1, 2}, b"bytes"):
        with pytest.raises(InputError):
            write_json(wrong)


@settings(max_examples=50)
@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(), st.lists))
def test_fast_and_slow_json_agree(value: Any) -> None:
    import orjson

    assert write_json(value) == orjson.dumps(plain(value)).decode()


def test_commands_upgrade_and_check(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "check", "--url", url]) == 2
    assert "missing" in capsys.readouterr().out
    assert main(["db", "upgrade", "--url", url]) == 0
    assert "0001_first_tables" in capsys.readouterr().out
    assert main(["db", "check", "--url", url, "--json"]) == 0
    assert '"sound": true' in capsys.readouterr().out


def test_a_file_that_is_no_database_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes(b"not a database" * 100)
    assert main(["db", "upgrade", "--url", f"sqlite:///{path}"]) == 1
    assert "not a database" in capsys.readouterr().err
    assert path.read_bytes() == b"not a database" * 100
