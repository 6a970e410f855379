"""Ad hoc SQL: one SELECT in a DuckDB that reaches the manifest's files, the hot rows, and nothing else.

Leaves out: which files and rows those are (read).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from playproof.errors import InputError
from playproof.events import DOC_TYPES
from playproof.store.log.parts import PartFiles, fill
from playproof.store.log.rows import quoted

if TYPE_CHECKING:
    from playproof.store.log.read import LogView


THREADS = 4
"""Each thread takes memory of its own."""
RESULT_BATCH = 10_000
"""Rows of a result that are read at once."""
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


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may take; a query that needs more is stopped and refused, never cut short in silence."""

    seconds: float = 60.0
    memory_mb: int = 1024
    """Of DuckDB's working memory, and again of the result."""
    rows: int = 1_000_000
    """Of the result."""

    def __post_init__(self) -> None:
        for name in ("seconds", "memory_mb", "rows"):
            if not getattr(self, name) > 0:
                raise InputError(f"expected a positive limit, found {name} = {getattr(self, name)}")


def run_select(sql: str, views: Sequence[LogView], shape: pa.Schema, files: PartFiles, limits: QueryLimits) -> pa.Table:
    """Run a checked SELECT over one view for each doc_type, within limits.

    Damage shows in many ways inside DuckDB: whatever is not clearly the query's own fault raises OSError.
    """
    with duckdb.connect(":memory:") as connection:
        watchdog = threading.Timer(limits.seconds, connection.interrupt)
        watchdog.daemon = True
        try:
            _offer(connection, views, shape, files, limits)
            watchdog.start()
            return _result(connection, sql, limits)
        except duckdb.InterruptException as error:
            raise InputError(
                f"expected a query of at most {limits.seconds:g} seconds, found one that took longer; ask for less, or"
                " raise the limit with --max-seconds"
            ) from error
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise InputError(
                f"expected a query that needs at most {limits.memory_mb} MB of memory, found one that needs more; ask"
                " for less, or raise the limit with --max-memory"
            ) from error
        except QUERY_FAULTS as error:
            raise query_failure(error) from error
        except duckdb.Error as error:
            raise OSError(str(error)) from error
        finally:
            watchdog.cancel()


def _result(connection: duckdb.DuckDBPyConnection, sql: str, limits: QueryLimits) -> pa.Table:
    """Read a result piece by piece, so that one that is too large is refused before it fills the memory."""
    reader = connection.sql(sql).to_arrow_reader(RESULT_BATCH)
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return pa.Table.from_batches(batches, reader.schema)
        except (OSError, pa.ArrowException) as error:
            # Arrow's stream gives DuckDB's error as text alone.
            if "INTERRUPT" in str(error).upper():
                raise duckdb.InterruptException(str(error)) from error
            if "out of memory" in str(error).lower():
                raise duckdb.OutOfMemoryException(str(error)) from error
            raise
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows > limits.rows:
            raise InputError(
                f"expected a result of at most {limits.rows} rows, found more; add a LIMIT or a GROUP BY, or raise the"
                " limit with --max-rows"
            )
        if size > limits.memory_mb << 20:
            raise InputError(
                f"expected a result of at most {limits.memory_mb} MB, found more; ask for fewer rows or columns, or"
                " raise the limit with --max-memory"
            )


def query_failure(error: Exception) -> InputError:
    """Say that a query over sound files failed."""
    return InputError(f"expected a query over {', '.join(DOC_TYPES)}, found: {error}")


def _offer(
    connection: duckdb.DuckDBPyConnection,
    views: Sequence[LogView],
    shape: pa.Schema,
    files: PartFiles,
    limits: QueryLimits,
) -> None:
    """Make the views, then lock the connection down."""
    paths = {doc_type: _paths(views, doc_type, files) for doc_type in DOC_TYPES}
    hot = pa.concat_tables([shape.empty_table(), *(fill(view.hot(), shape) for view in views if view.rows)])
    for setting in (
        "SET TimeZone = 'UTC'",
        "SET python_enable_replacements = false",
        "SET autoinstall_known_extensions = false",
        "SET autoload_known_extensions = false",
        "SET temp_directory = ''",
        f"SET memory_limit = '{limits.memory_mb}MiB'",
        f"SET threads = {min(THREADS, os.cpu_count() or 1)}",
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
