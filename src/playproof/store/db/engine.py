"""Connections to the relational tables: SQLite in the home by default, PostgreSQL by URL.

What is committed is synced: SQLite in WAL mode with synchronous FULL, PostgreSQL with synchronous_commit on.
Leaves out: the tables (records) and their versions (versions).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from playproof.errors import ConfigError, MissingExtra, StoreError
from playproof.home import database
from playproof.json_types import Json
from playproof.store.db.columns import read_json, write_json
from playproof.store.log.schema import BUSY_SECONDS, PRAGMAS

VARIABLE, ALIAS = "PLAYPROOF_DB", "DATABASE_URL"
KINDS = ("sqlite", "postgresql")
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
_WRITES = "playproof_writes"


def database_url(home: Path | None = None, url: str | None = None) -> URL:
    """Give the URL in force: the one given, $PLAYPROOF_DB, $DATABASE_URL, or SQLite in the home."""
    result = url or os.environ.get(VARIABLE) or os.environ.get(ALIAS)
    if not result:
        return URL.create("sqlite", database=str(database(home)))
    try:
        parsed = make_url(result)
    except ArgumentError:
        raise ConfigError(
            f"expected a URL such as postgresql://user@host/name or sqlite:///path in {VARIABLE}, found one that"
            " cannot be read"
        ) from None
    if parsed.drivername in _POSTGRES:
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "sqlite" and parsed.database:
        return parsed
    raise ConfigError(f"expected a URL of {' or '.join(KINDS)} with a database, found {parsed.drivername!r}")


def connect(home: Path | None = None, url: str | None = None) -> Engine:
    """Open the relational tables; a new SQLite file is made, its tables by `upgrade`."""
    target = database_url(home, url)
    return _sqlite(target) if target.drivername == "sqlite" else _postgres(target)


@contextmanager
def opened(home: Path | None = None, url: str | None = None) -> Iterator[Engine]:
    """Give the relational tables, and close every connection on the way out."""
    engine = connect(home, url)
    try:
        yield engine
    finally:
        engine.dispose()


def shown_url(engine: Engine) -> str:
    """Give an engine's URL without its password and options."""
    return engine.url.difference_update_query(["options"]).render_as_string(hide_password=True)


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Give a connection in a transaction that may write; it is committed and synced on the way out.

    SQLite takes its write lock at the start, so that what was read stays true until the commit.
    """
    with writing_connection(engine) as connection, connection.begin():
        yield connection


def writing_connection(engine: Engine) -> Connection:
    """Give a connection that may write; its owner begins, commits and closes."""
    return engine.connect().execution_options(**{_WRITES: True})


def _sqlite(target: URL) -> Engine:
    assert target.database
    try:
        Path(target.database).absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"expected a folder for {target.database}, found: {error.strerror}") from error
    engine = create_engine(target, connect_args={"timeout": BUSY_SECONDS}, **_json())
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    for pragma in (*PRAGMAS, "PRAGMA foreign_keys = ON"):
        connection.execute(pragma)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgres(target: URL) -> Engine:
    if find_spec("psycopg") is None:
        raise MissingExtra("psycopg, which speaks to PostgreSQL", "postgres")
    options = " ".join(filter(None, (_option(target.query), "-c synchronous_commit=on", "-c timezone=UTC")))
    return create_engine(target.update_query_dict({"options": options}), pool_pre_ping=True, **_json())


def _option(query: Mapping[str, Any]) -> str:
    options = query.get("options", "")
    return options if isinstance(options, str) else " ".join(options)


def _json() -> Json:
    return {"json_serializer": write_json, "json_deserializer": read_json}
