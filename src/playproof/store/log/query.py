"""Ad hoc SQL: one SELECT in a DuckDB that reaches the manifest's files, the hot rows, and nothing else.

Leaves out: which files and rows those are (read).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from playproof.errors import InputError
from playproof.events import DOC_TYPES
from playproof.store.log.parts import PartFiles, fill
from playproof.store.log.rows import quoted

if TYPE_CHECKING:
    from playproof.store.log.read import LogView


QUERY_FAULTS = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.PermissionException,
    duckdb.NotImplementedException,
)
"""Errors that no damaged file can cause."""


def check_select(sql: str) -> None:
    """Refuse everything that is not one SELECT."""
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise InputError(f"expected one SELECT, found SQL that cannot be read: {error}") from error
    names = [statement.type.name for statement in statements]
    if names != ["SELECT"]:
        raise InputError(
            f"expected one SELECT, found {', '.join(names) or 'nothing'}; the store is read by queries alone"
        )


def run_select(sql: str, views: Sequence[LogView], shape: pa.Schema, files: PartFiles) -> pa.Table:
    """Run a checked SELECT over one view for each doc_type.

    Damage shows in many ways inside DuckDB: whatever is not clearly the query's own fault raises OSError.
    """
    with duckdb.connect(":memory:") as connection:
        try:
            _offer(connection, views, shape, files)
            return connection.sql(sql).to_arrow_table()
        except QUERY_FAULTS as error:
            raise query_failure(error) from error
        except duckdb.Error as error:
            raise OSError(str(error)) from error


def query_failure(error: Exception) -> InputError:
    """Say that a query over sound files failed."""
    return InputError(f"expected a query over {', '.join(DOC_TYPES)}, found: {error}")


def _offer(connection: duckdb.DuckDBPyConnection, views: Sequence[LogView], shape: pa.Schema, files: PartFiles) -> None:
    """Make the views, then lock the connection down."""
    paths = {doc_type: _paths(views, doc_type, files) for doc_type in DOC_TYPES}
    hot = pa.concat_tables([shape.empty_table(), *(fill(view.hot(), shape) for view in views if view.rows)])
    for setting in (
        "SET TimeZone = 'UTC'",
        "SET python_enable_replacements = false",
        "SET autoinstall_known_extensions = false",
        "SET autoload_known_extensions = false",
        "SET temp_directory = ''",
        f"SET allowed_paths = [{', '.join(_literal(path) for item in paths.values() for path in item)}]",
        "SET enable_external_access = false",
    ):
        connection.execute(setting)
    connection.register("hot_events", hot)
    for doc_type in DOC_TYPES:
        connection.execute(_view(doc_type, paths[doc_type], shape))
    connection.execute("SET lock_configuration = true")


def _paths(views: Sequence[LogView], doc_type: str, files: PartFiles) -> list[str]:
    root = files.local
    if root is None:
        raise InputError("expected parts on the local disk, found them elsewhere; use EventStore.scan")
    return [str(root / part.path) for view in views for part in view.parts if part.doc_type == doc_type]


def _view(doc_type: str, paths: Sequence[str], shape: pa.Schema) -> str:
    """Write the view of one doc_type: its parts and its hot rows, every column in its place."""
    names = ", ".join(quoted(name) for name in shape.names)
    hot = f"SELECT {names} FROM hot_events WHERE doc_type = '{doc_type}'"  # noqa: S608
    if paths:
        listed = ", ".join(_literal(path) for path in paths)
        files = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
        parts = f"SELECT * EXCLUDE (checksum) FROM {files}"  # noqa: S608
        empty = f"SELECT {names} FROM hot_events WHERE FALSE"  # noqa: S608
        hot = f"SELECT {names} FROM ({empty} UNION ALL BY NAME {parts} UNION ALL BY NAME {hot})"  # noqa: S608
    return f"CREATE VIEW {doc_type} AS {hot}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
