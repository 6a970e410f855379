"""Many rows at once: COPY in PostgreSQL, executemany in SQLite, past the layers that single rows go through.

Leaves out: checks; rows come as they are to be stored, JSON written already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError, IntegrityError

from playproof.store.tables.columns import Moment, moment_text


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, named by the table's own column names, into a transaction; columns that a row lacks are NULL."""
    if not rows:
        return
    names = tuple(column.name for column in table.columns if any(column.name in row for row in rows))
    if connection.dialect.name == "postgresql":
        _copy(connection, table, names, rows)
    else:
        _execute_many(connection, table, names, rows)


def _execute_many(
    connection: Connection, table: Table, names: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    moments = {name for name in names if isinstance(table.columns[name].type, Moment)}
    statement = f"INSERT INTO {table.name} ({', '.join(_quoted(names))}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608
    columns = [_column(rows, name, moment_text if name in moments else None) for name in names]
    connection.exec_driver_sql(statement, list(zip(*columns, strict=True)))


def _column(rows: Sequence[Mapping[str, Any]], name: str, read: Callable[[Any], Any] | None) -> list[Any]:
    """Give one column of rows, as the driver takes it."""
    try:
        values = list(map(itemgetter(name), rows))
    except KeyError:
        values = [row.get(name) for row in rows]
    return values if read is None else [None if value is None else read(value) for value in values]


def _copy(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    import psycopg

    driver = connection.connection.driver_connection
    assert driver is not None
    columns = [_column(rows, name, None) for name in names]
    statement = f"COPY {table.name} ({', '.join(_quoted(names))}) FROM STDIN"
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in zip(*columns, strict=True):
                copy.write_row(row)
    except psycopg.IntegrityError as error:
        raise IntegrityError(statement, None, error) from error
    except psycopg.Error as error:
        raise DBAPIError(statement, None, error) from error


def _quoted(names: Sequence[str]) -> list[str]:
    return [f'"{name}"' for name in names]
