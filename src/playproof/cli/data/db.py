"""Bring the relational tables to this version, or check how they stand.

Leaves out: the tables themselves (playproof.store.db). The database is the one of $PLAYPROOF_DB or $DATABASE_URL,
or playproof.db in the home.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit
from playproof.home import home

if TYPE_CHECKING:
    from playproof.store.db import SchemaStatus

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])

Url = Annotated[str | None, typer.Option("--url", help="Another database than $PLAYPROOF_DB.", show_default=False)]


@app.command()
def upgrade(*, url: Url = None, as_json: AsJson = False) -> None:
    """Run the migrations that the database has not seen. What is up to date stays as it is.

    Example: PLAYPROOF_DB=postgresql://me@localhost/arena playproof db upgrade
    """
    from playproof.store import db

    with db.opened(home(), url) as engine:
        done = db.upgrade(engine)
        payload = {"url": db.shown_url(engine), "migrations": done}
    emit(payload, as_json, lambda: f"{payload['url']}: {', '.join(done) or 'nothing to do'}")


@app.command()
def check(*, url: Url = None, as_json: AsJson = False) -> None:
    """Compare the database with what this version expects. Exit code 2: migrations are missing or tables differ.

    Example: playproof db check --json
    """
    from playproof.store import db

    with db.opened(home(), url) as engine:
        standing = db.check(engine)
    emit(asdict(standing) | {"sound": standing.sound}, as_json, lambda: _standing_table(standing))
    if not standing.sound:
        raise typer.Exit(2)


def _standing_table(standing: SchemaStatus) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table("migration", "state", title=f"{standing.url}", title_justify="left")
    for name in standing.applied:
        table.add_row(name, "applied")
    for name in standing.missing:
        table.add_row(name, Text("missing; run: playproof db upgrade"))
    for difference in standing.differences:
        table.add_row("", Text(f"differs: {difference}"))
    return table
