"""Review a folder of recordings: one page about the person who played, and what can be claimed of that play."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note, progress
from playproof.home import folder, home

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.json_types import Json

app = typer.Typer()


@app.command()
def review(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder, file, archive or pattern of recordings of any known kind.")
    ],
    *,
    game: Annotated[str | None, typer.Option(help="The game, where several can be imported.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the data set; default: one made from the sessions.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Folder of the pages; default: reports/ of the home.")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Zone of times that name none; default: the recorder's own.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same intervals.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Review recorded play: import, data set, audit, exact money, return with interval and e-value, habits, clone.

    Writes review.html and replay.html. Running it again on the same recordings changes nothing in the store.

    Example: playproof review events_parquet/
    """
    from playproof.cli.data.importing import find_zone, importing_game, refuse_empty
    from playproof.game.importers import ImportSettings
    from playproof.record.redaction import Redaction, load_key
    from playproof.workflows.review import review_recordings

    chosen, root = importing_game(None, game), home()
    key = load_key(root)
    label = Path(path.rstrip("/*.")).name.partition(".")[0] or "recordings"
    with progress() as bar:
        task = bar.add_task("review", total=7)

        def say(text: str) -> None:
            bar.update(task, description=text, advance=1)

        result = review_recordings(
            path,
            chosen,
            root,
            output or folder("reports") / f"review-{label}",
            zone=lambda own: ImportSettings(find_zone(zone or own), lambda: Redaction(key)),
            refuse=lambda report: refuse_empty(report, path),
            name=name,
            seed=seed,
            say=say,
        )
    emit(result.payload, as_json, lambda: table(result.payload))
    note(f"page: {result.page}")
    if not as_json:
        made = result.dataset.name.partition("@")[0]
        note(f"next: playproof replay {made}, or train a clone: playproof train bc --help")


def table(payload: Json) -> Table:
    """Show the review's figures."""
    from rich.table import Table

    from playproof.money import UNIT

    shown = Table("what", "value", title=str(payload["answer"]), title_justify="left")
    for name in ("rounds", "played", "sequences"):
        shown.add_row(name, str(payload[name]))
    for name in ("pnl", "staked", "max_drawdown"):
        shown.add_row(f"{name.replace('_', ' ')} (coins)", f"{float(payload[name]) / UNIT:+.6f}")
    shown.add_row("return on stakes", "-" if payload["roi"] is None else f"{payload['roi']:+.2%}")
    interval = payload["roi_interval"]
    shown.add_row("  95 % interval", "-" if interval is None else f"{interval[0]:+.2%} to {interval[1]:+.2%}")
    shown.add_row("e-value", f"{payload['e_value']:.3g} (20 shows an edge)")
    for item in payload["settled"]:
        difference = item["difference"]
        text = "the feed told no cash" if difference is None else f"{difference / UNIT:+.9f} coins"
        shown.add_row(f"ledger minus feed, {item['session_id'][:24]}", text)
    for name in ("mix", "outcomes"):
        shown.add_row(name, ", ".join(f"{key} {count}" for key, count in payload[name].items()))
    for check, passed in payload["checks"].items():
        shown.add_row(f"check: {check}", "passed" if passed else "FAILED")
    shown.add_row("clone", str(payload["clone"]["text"]))
    return shown
