"""Connections to the relational tables: SQLite in the home by default, PostgreSQL by URL.

What is committed is synced: SQLite in WAL mode with synchronous FULL, PostgreSQL with synchronous_commit on. After a
failed write or sync an engine on SQLite takes no more writes; PostgreSQL's server sees to that itself.
Leaves out: the tables (records) and their versions (versions).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event, make_url
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
_FAILURES: WeakKeyDictionary[Engine, str] = WeakKeyDictionary()
"""Why an engine takes no more writes."""


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
    """Give a connection that may write; its owner begins, commits and closes.

    After a failed write or sync of SQLite's file the engine takes nothing more, as the event log does: nobody knows
    then what the disk holds, and a later commit must not be acknowledged on top of it.
    """
    failure = _FAILURES.get(engine)
    if failure is not None:
        raise StoreError(
            f"expected {shown_url(engine)} to take writes, found that an earlier one failed: {failure}; what was"
            " acknowledged is kept: see to the disk, then open the tables again"
        )
    return engine.connect().execution_options(**{_WRITES: True})


def _sqlite(target: URL) -> Engine:
    assert target.database
    try:
        Path(target.database).absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"expected a folder for {target.database}, found: {error.strerror}") from error
    _settle(target.database)
    engine = create_engine(target, connect_args={"timeout": BUSY_SECONDS}, **_json())
    event.listen(engine, "handle_error", _note_failure)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _settle(path: str) -> None:
    """Sync what an earlier process left in the write-ahead log: after its failed sync it may be in memory only."""
    wal = Path(f"{path}-wal")
    if not wal.exists() or not wal.stat().st_size:
        return
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            for pragma in (*PRAGMAS, "PRAGMA wal_checkpoint(PASSIVE)"):
                connection.execute(pragma)
    except sqlite3.OperationalError as error:
        raise StoreError(f"expected to settle {path}, found: {error}; see to the disk, then open it again") from error
    except sqlite3.DatabaseError:
        return  # no database: whoever reads it says so


def _note_failure(context: ExceptionContext) -> None:
    """Remember that a write of SQLite's file failed."""
    code = getattr(context.original_exception, "sqlite_errorcode", 0)
    connection, engine = context.connection, context.engine
    if engine is None or connection is None or code & 0xFF != sqlite3.SQLITE_IOERR:
        return
    if connection.get_execution_options().get(_WRITES, False):
        _FAILURES[engine] = str(context.original_exception)


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
