"""The SQLite file of one log: how it is opened, its tables, and the named migrations that lead to them.

One file holds the hot rows, the manifest of the parts made of earlier ones, and what was quarantined, so that one
transaction can move events from the first to the second. Leaves out: what is written and read (log, read).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from playproof.errors import StoreError
from playproof.events import check_id
from playproof.game import Column
from playproof.home import folder
from playproof.store.log.rows import SQL_TYPES, Layout, quoted

BUSY_SECONDS = 30.0
CHECKPOINT_PAGES = 4000
"""Pages of 4 KiB in the write-ahead log after which they are moved into the database file."""
PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new log."""
    for statement in (
        "CREATE TABLE columns (name TEXT PRIMARY KEY, kind TEXT NOT NULL, unit TEXT NOT NULL, doc TEXT NOT NULL)",
        "CREATE TABLE sessions (number INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE)",
        """CREATE TABLE events (id INTEGER PRIMARY KEY, ts INTEGER NOT NULL, server_ts INTEGER, source TEXT NOT NULL,
           doc_type TEXT NOT NULL, direction TEXT NOT NULL, event_name TEXT NOT NULL, window_id TEXT, player_id TEXT,
           raw TEXT, checksum INTEGER NOT NULL)""",
        """CREATE TABLE parts (path TEXT PRIMARY KEY, doc_type TEXT NOT NULL, date TEXT NOT NULL,
           rows INTEGER NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'live',
           reason TEXT, replaced_at REAL)""",
        """CREATE TABLE part_sessions (path TEXT NOT NULL, number INTEGER NOT NULL, first INTEGER NOT NULL,
           last INTEGER NOT NULL, rows INTEGER NOT NULL, PRIMARY KEY (number, path)) WITHOUT ROWID""",
        "CREATE TABLE unfinished (path TEXT PRIMARY KEY)",
        "CREATE TABLE quarantine (id INTEGER, found TEXT NOT NULL, reason TEXT NOT NULL)",
    ):
        connection.execute(statement)


def add_footers(connection: sqlite3.Connection) -> None:
    """Keep the SHA-256 of each part's footer: readers check it before a library parses it."""
    connection.execute("ALTER TABLE parts ADD COLUMN footer TEXT")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (create_tables, add_footers)
"""In their order, each run once; a log's schema version is how many it has seen."""


def create(path: Path) -> None:
    """Make a new log's file with its tables, beside its place, so that no reader meets a half-made one.

    It is in WAL mode before it takes its place: turned to it later, a kill could leave a rollback journal, which
    readers may not undo. It is one whole file before it takes its place: closing moves the write-ahead log into it
    too, but tells nobody when that fails, and a log left behind does not follow a renamed file.
    """
    unfinished = path.with_suffix(".new")
    for ending in ("", "-journal", "-wal", "-shm"):
        unfinished.with_name(unfinished.name + ending).unlink(missing_ok=True)
    connection = connect(unfinished)
    try:
        migrate(connection)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    unfinished.rename(path)


def connect(path: Path) -> sqlite3.Connection:
    """Open a log's file for its writer."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a log's file for reading alone."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a log to the schema version that this package writes."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    version = check_version(connection)
    for number, migration in enumerate(MIGRATIONS[version:], version + 1):
        migration(connection)
        connection.execute("INSERT INTO migrations VALUES (?, ?)", (number, migration.__name__))
    connection.execute("COMMIT")


def check_version(connection: sqlite3.Connection) -> int:
    """Give a log's schema version, and refuse one that a newer package wrote."""
    (version,) = connection.execute("SELECT count(*) FROM migrations").fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(
            f"expected a log of schema version {len(MIGRATIONS)} or older, found {version}; install a newer playproof"
        )
    return int(version)


def read_layout(connection: sqlite3.Connection) -> Layout:
    """Give the columns of a log's table."""
    rows = connection.execute("SELECT name, kind, unit, doc FROM columns ORDER BY rowid").fetchall()
    return Layout(tuple(Column(*item) for item in rows))


def declare(connection: sqlite3.Connection, columns: Sequence[Column]) -> Layout:
    """Add the columns that a log does not have yet; give its layout then."""
    layout = read_layout(connection)
    new = layout.extended(columns)
    if not new:
        return layout
    extended = Layout((*layout.columns, *new))
    connection.execute("BEGIN IMMEDIATE")
    for column in new:
        connection.execute(f"ALTER TABLE events ADD COLUMN {quoted(column.name)} {SQL_TYPES[column.kind]}")
        connection.execute(
            "INSERT INTO columns VALUES (?, ?, ?, ?)", (column.name, column.kind, column.unit, column.doc)
        )
    connection.execute("COMMIT")
    return extended


def log_path(home: Path, log: str) -> Path:
    """Give the file of a log."""
    return folder("log", home) / f"{check_id(log, 'log')}.db"


def log_names(home: Path) -> tuple[str, ...]:
    """Give the logs of a home, sorted."""
    try:
        return tuple(sorted(path.stem for path in (home / "log").glob("*.db")))
    except OSError as error:
        raise StoreError(f"expected a folder of logs that can be read, found: {error}; see to the disk") from error
