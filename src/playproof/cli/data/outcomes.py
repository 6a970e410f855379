"""Bring in what a market did in its windows, and look at it.

Outcomes are ground truth: judges and rewards read them, agents and their training messages never do.
Leaves out: checking them (record.trajectories.posted_outcomes).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.data.trajectories import GameName, clock_game, money
from playproof.cli.output import AsJson, emit
from playproof.errors import ConfigError, InputError
from playproof.home import home
from playproof.json_types import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.record.imports.outcome_files import OutcomeImport

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])
SHOWN = 20
"""Problems that the table shows."""


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file of outcomes: .csv, .jsonl or .parquet.")],
    *,
    game: GameName = None,
    currency: Annotated[
        str | None, typer.Option(help="Currency of the prices, where the file names none; else the market's.")
    ] = None,
    correct: Annotated[
        bool, typer.Option("--correct", help="Replace outcomes that are written; the old ones are kept.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Why they are corrected; needed with --correct.")] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Write the windows without a bad line; exit code 1 names the others.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the outcomes of closed windows from a file: a line for each asset or question. All lines or none.

    Columns: window_id, asset, start_price, end_price, sentiment, news_ids, volume; or window_id, question_id, question,
    outcome, final_probability, volume. A line of JSON may hold a whole window. The same file again changes nothing.

    Example: playproof outcomes import outcomes.csv --game my-market
    """
    from playproof.game.markets import find_market
    from playproof.record.imports.outcome_files import import_outcomes
    from playproof.store.db import opened, ready

    if correct != (reason is not None):
        raise ConfigError("expected --correct and --reason together, found one of them")
    rules = clock_game(game).windows
    market = find_market(rules.market) if rules.market else None
    with opened(home()) as engine:
        report = import_outcomes(
            ready(engine),
            file,
            rules,
            datetime.now(UTC),
            market=market,
            currency=currency,
            reason=reason,
            keep_going=keep_going,
        )
    emit(report.to_json(), as_json, lambda: _report(report))
    if report.problems:
        named = report.problems[0]
        rest = f" and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
        wrote = f"{report.windows} windows were written" if keep_going else "nothing was written"
        raise InputError(f"line {named.line} of {file.name}, {named.field}: {named.reason}{rest}; {wrote}")


@app.command()
def show(
    window_id: Annotated[str, typer.Argument(metavar="WINDOW", help="A window, such as 2025-01-15T10:00Z.")],
    *,
    game: GameName = None,
    as_json: AsJson = False,
) -> None:
    """Show what a window did, and the outcomes that were corrected since.

    Example: playproof outcomes show 2025-01-15T10:00Z --game my-market
    """
    from sqlalchemy import select

    from playproof.record.trajectories.outcomes import read_outcomes
    from playproof.store.db import OutcomeRevision, opened, ready

    rules = clock_game(game).windows
    name = rules.parse(window_id).window_id
    with opened(home()) as engine:
        outcomes = read_outcomes(ready(engine), [name], rules.market).get(name)
        if outcomes is None:
            raise InputError(f"expected outcomes of {name}, found none; write them with: playproof outcomes import")
        of = (OutcomeRevision.window_id == name, OutcomeRevision.market == rules.market)
        with engine.connect() as connection:
            query = select(OutcomeRevision.__table__).where(*of).order_by(OutcomeRevision.revision)
            revisions = [dict(row) for row in connection.execute(query).mappings()]
    data = {"window_id": name, "rows": [dict(row) for row in outcomes.rows], "revisions": revisions}
    emit(data, as_json, lambda: _window(data))


def _report(report: OutcomeImport) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("", "count", title=report.file, title_justify="left")
    table.columns[1].justify = "right"
    for name in ("lines", "windows", "written", "again", "corrected"):
        table.add_row(name, str(getattr(report, name)))
    problems = Table("line", "window", "field", "reason", title="not written", title_justify="left")
    for item in report.problems[:SHOWN]:
        problems.add_row(str(item.line), Text(item.window_id or ""), Text(item.field), Text(item.reason))
    notes = [Text(note) for note in report.notes[:SHOWN]]
    return Group(table, *([problems] if report.problems else []), *notes)


def _window(data: Json) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("", "start", "end", "change", "outcome", "probability", title=data["window_id"], title_justify="left")
    for row in data["rows"]:
        change = "" if row["change"] is None else f"{row['change']:+.4%}"
        chance = "" if row["final_probability"] is None else f"{row['final_probability']:.3f}"
        cells = (
            row["subject"],
            money(row["start_price"]),
            money(row["end_price"]),
            change,
            row["outcome"] or "",
            chance,
        )
        table.add_row(*map(Text, cells))
    corrected = [
        Text(f"revision {item['revision']} was corrected on {item['replaced_at']:%Y-%m-%d %H:%M}Z: {item['reason']}")
        for item in data["revisions"]
    ]
    return Group(table, *corrected)
