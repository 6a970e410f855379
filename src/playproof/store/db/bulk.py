"""Many rows at once: COPY in PostgreSQL, executemany in SQLite, past the layers that single rows go through.

Leaves out: checks; rows come as they are to be stored, JSON written already.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError, IntegrityError

from playproof.store.db.columns import Moment, moment_text

Columns = dict[str, list[Any]]
"""Values of many rows, column by column, by the table's own names."""


def insert_columns(connection: Connection, table: Table, columns: Mapping[str, Sequence[Any]]) -> None:
    """Insert rows into a transaction; columns that are not given are NULL."""
    if not columns or not next(iter(columns.values())):
        return
    if connection.dialect.name == "postgresql":
        _copy(connection, table, columns)
    else:
        _execute_many(connection, table, columns)


def _execute_many(connection: Connection, table: Table, columns: Mapping[str, Sequence[Any]]) -> None:
    names, indices = ", ".join(_quoted(table, columns)), ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table.name} ({names}) VALUES ({indices})"  # noqa: S608
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    try:
        driver.executemany(statement, zip(*sqlite_columns(table, columns), strict=True))
    except sqlite3.IntegrityError as error:
        raise IntegrityError(statement, None, error) from error
    except sqlite3.Error as error:
        raise DBAPIError(statement, None, error) from error


def sqlite_columns(table: Table, columns: Mapping[str, Sequence[Any]]) -> list[Sequence[Any]]:
    """Give columns as SQLite's driver takes them: moments as texts."""
    return [
        [None if value is None else moment_text(value) for value in values]
        if isinstance(table.columns[name].type, Moment)
        else values
        for name, values in columns.items()
    ]


def _copy(connection: Connection, table: Table, columns: Mapping[str, Sequence[Any]]) -> None:
    import psycopg

    driver = connection.connection.driver_connection
    assert driver is not None
    statement = f"COPY {table.name} ({', '.join(_quoted(table, columns))}) FROM STDIN"
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in zip(*columns.values(), strict=True):
                copy.write_row(row)
    except psycopg.IntegrityError as error:
        raise IntegrityError(statement, None, error) from error
    except psycopg.Error as error:
        raise DBAPIError(statement, None, error) from error


def _quoted(table: Table, names: Mapping[str, Any]) -> list[str]:
    """Give the columns' names in the database, which may differ from those in Python."""
    return [f'"{table.columns[name].name}"' for name in names]
