"""The schema's version: named migrations, run once each and in their order, the same on both databases.

Migrations are alembic revisions in `migrations/versions`. Leaves out: going back; a backup does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from playproof.errors import StoreError
from playproof.store.db.engine import shown_url, writing
from playproof.store.db.records import metadata

MIGRATIONS = Path(__file__).parent / "migrations"
TABLE = "playproof_migration"
_LOCK = 7_362_518_431
"""Key of PostgreSQL's advisory lock under which one process migrates."""


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """How a database stands to the version that this package reads and writes."""

    url: str
    """Without its password."""
    applied: tuple[str, ...]
    """Names of the migrations it has seen, oldest first."""
    missing: tuple[str, ...]
    differences: tuple[str, ...]
    """What differs from the tables as they should be, once nothing is missing."""

    @property
    def sound(self) -> bool:
        """Tell whether the database is as this package expects it."""
        return not self.missing and not self.differences


def upgrade(engine: Engine) -> tuple[str, ...]:
    """Run the migrations that a database has not seen; give their names. Processes that come together take turns."""
    config, scripts = _scripts()
    try:
        with writing(engine) as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            before = _seen(connection, scripts)
            if len(before) < len(_names(scripts)):
                _run(connection, config, scripts)
            return tuple(name for name in _seen(connection, scripts) if name not in before)
    except DBAPIError as error:
        raise StoreError(f"expected to upgrade {shown_url(engine)}, found: {error.orig}") from error


def check(engine: Engine) -> SchemaStatus:
    """Compare a database with what this package expects; change nothing."""
    _, scripts = _scripts()
    try:
        with engine.connect() as connection:
            applied = _seen(connection, scripts)
            missing = tuple(name for name in _names(scripts) if name not in applied)
            return SchemaStatus(shown_url(engine), applied, missing, () if missing else _differences(connection))
    except DBAPIError as error:
        raise StoreError(f"expected to reach {shown_url(engine)}, found: {error.orig}") from error


def ready(engine: Engine) -> Engine:
    """Give the engine back once its tables are there: a new SQLite file is migrated, anything else must be already."""
    if engine.dialect.name == "sqlite":
        upgrade(engine)
        return engine
    _, scripts = _scripts()
    with engine.connect() as connection:
        missing = [name for name in _names(scripts) if name not in _seen(connection, scripts)]
    if missing:
        raise StoreError(
            f"expected the tables of {shown_url(engine)}, found {missing[0]} missing; run: playproof db upgrade"
        )
    return engine


def _scripts() -> tuple[Config, ScriptDirectory]:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config, ScriptDirectory.from_config(config)


def _names(scripts: ScriptDirectory) -> tuple[str, ...]:
    return tuple(script.revision for script in scripts.walk_revisions())[::-1]


def _seen(connection: Connection, scripts: ScriptDirectory) -> tuple[str, ...]:
    """Give the migrations that a database has seen, and refuse one that a newer package wrote."""
    head = MigrationContext.configure(connection, opts={"version_table": TABLE}).get_current_revision()
    names = _names(scripts)
    if head is None:
        return ()
    if head not in names:
        raise StoreError(f"expected a database of version {names[-1]} or older, found {head}; update playproof")
    return names[: names.index(head) + 1]


def _run(connection: Connection, config: Config, scripts: ScriptDirectory) -> None:
    def steps(revision: Any, _context: Any) -> Any:
        return scripts._upgrade_revs("head", revision)

    with EnvironmentContext(config, scripts, fn=steps) as environment:
        environment.configure(connection=connection, version_table=TABLE, transactional_ddl=False)
        environment.run_migrations()


def _differences(connection: Connection) -> tuple[str, ...]:
    options = {"version_table": TABLE, "compare_type": True}
    result = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    return tuple(_told(item) for item in result)


def _told(difference: Any) -> str:
    """Say one difference in a line."""
    if isinstance(difference, list):
        return "; ".join(map(_told, difference))
    kind, *what = difference
    return f"{kind} {' '.join(str(getattr(item, 'name', item)) for item in what if item is not None)}"
