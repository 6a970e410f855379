"""Import a studio's own PostgreSQL tables into a declared market.

Leaves out: reading them (record.imports.studio).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, progress
from playproof.errors import ConfigError, InputError
from playproof.home import home

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.game.markets import MarketDeclaration
    from playproof.record.imports.studio import StudioImport

SHOWN = 20
"""Problems and notes that the table shows."""


def studio(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the tables, such as postgresql://host/name.")],
    *,
    market: Annotated[
        str | None, typer.Option("--market", "--game", help="The declared market; default: the only one.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only trajectories that began at this time or later, such as 2025-01-15T10:00Z.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Import trajectories, model calls and outcomes from a studio's PostgreSQL tables, which are only read.

    The next import goes on where this one stopped; --since begins there instead. What is there already is left as it
    is. Rows that cannot be read are listed by their id.

    Example: playproof import studio postgresql://reader@db.example/agents --market my-market
    """
    from playproof.record.imports.studio import import_studio
    from playproof.record.trajectories.secrets import SecretScrubber
    from playproof.store.db import opened, ready

    chosen = _market(market)
    begin = _since(since)
    with opened(home()) as engine, progress() as bar:
        task = bar.add_task("trajectories", total=None)
        report = import_studio(
            ready(engine),
            url,
            chosen,
            datetime.now(UTC),
            since=begin,
            clean=SecretScrubber.of(os.environ),
            show=lambda count: bar.update(task, completed=count, description=f"{count:,} trajectories"),
        )
    emit(report.to_json(), as_json, lambda: _report(report))
    if len(report.problems) > report.trajectories + report.known + report.outcome_windows:
        named = report.problems[0]
        raise InputError(
            f"expected most rows to be imported, found {len(report.problems)} that cannot be; the first: "
            f"{named.table} {named.row}: {named.reason}"
        )


def _market(name: str | None) -> MarketDeclaration:
    from playproof.game.markets import declared_markets, find_market

    if name is not None:
        return find_market(name)
    markets = list(declared_markets().values())
    if len(markets) != 1:
        names = ", ".join(market.name for market in markets) or "none"
        raise ConfigError(
            f"expected one declared market, found {names}; choose with --market, or declare one with: playproof market"
            " add NAME"
        )
    return markets[0]


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"expected --since as a time such as 2025-01-15T10:00Z, found {text!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _report(report: StudioImport) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("", "", title=f"{report.source} into market {report.market}", title_justify="left")
    table.show_header = False
    payload = report.to_json()
    for name, value in payload.items():
        if name in ("problems", "notes", "limits", "source", "market"):
            continue
        shown = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(name.replace("_", " "), Text(shown))
    problems = Table("table", "row", "not imported because", title_justify="left")
    for item in report.problems[:SHOWN]:
        problems.add_row(item.table, Text(item.row), Text(item.reason))
    if len(report.problems) > SHOWN:
        problems.add_row("", "", f"{len(report.problems) - SHOWN} more; see them with --json")
    notes = [Text(text) for text in (*report.notes[:SHOWN], *report.limits)]
    return Group(table, *([problems] if report.problems else []), *notes)
