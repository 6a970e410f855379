"""Audit recordings: what does the game's own data say, and is there anything to exploit?"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note, progress
from playproof.cli.targets import choose_game
from playproof.errors import ConfigError, InputError
from playproof.events import Event
from playproof.game import Column, Game
from playproof.home import folder

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

    from playproof.game.audit import AuditRules, Material
    from playproof.validate.audit import AuditReport

app = typer.Typer()
MANIFEST = "manifest.json"


@app.command()
def audit(
    recordings: Annotated[Path, typer.Argument(help="A store's home, a data set, or old recordings to import.")],
    *,
    game: Annotated[str | None, typer.Option(help="The game, where several can be audited.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the page goes; default: reports/ of the home.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same intervals.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Audit recordings: hazard, holds by entry zone, bets, promises; one page says whether anything can be exploited.

    Old recordings (a file, a folder or an archive) are read into memory; nothing of them is stored.

    Example: playproof audit recordings.tar.gz --json
    """
    import numpy as np

    from playproof.reports.audit import page, to_json
    from playproof.validate.audit import audit as weigh

    result = choose_game(game, lambda item: item.display().audit is not None, "can be audited")
    auditing = result.display().audit
    assert auditing is not None
    report = weigh(result.name, auditing, gather(recordings, result, auditing), np.random.default_rng(seed))
    path = out or folder("reports") / f"audit-{recordings.name.partition('.')[0] or 'home'}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(report, auditing, recordings.name), encoding="utf-8")
    emit(to_json(report) | {"page": str(path)}, as_json, lambda: shown(report))
    note(f"page: {path}")


def gather(path: Path, game: Game, auditing: AuditRules) -> Material:
    """Gather from a data set, a store, or old recordings."""
    from playproof.store import EventStore

    if not path.exists():
        raise InputError(f"expected recordings to audit, found nothing at {path}")
    if (path / MANIFEST).exists():
        return gather_dataset(path, game, auditing)
    if path.is_dir() and ((path / "log").is_dir() or (path / "events").is_dir()):
        return auditing.from_store(EventStore(path, game.columns))
    return auditing.from_store(imported(str(path), game))


def gather_dataset(path: Path, game: Game, auditing: AuditRules) -> Material:
    """Gather from the observations of a data set."""
    import polars as pl

    from playproof.datasets import open_dataset

    dataset = open_dataset(path)
    if dataset.manifest["game"]["name"] != game.name:
        raise ConfigError(f"expected a data set of {game.name}, found one of {dataset.manifest['game']['name']}")
    return auditing.from_rows(pl.concat([tables["observations"] for tables in dataset.sessions.values()]))


class InMemoryLog:
    """Imported events in memory: a log to write to, and tables to read from. Nothing of it is durable."""

    failure: str | None = None

    def __init__(self, columns: Sequence[Column]) -> None:
        self._kinds = {column.name: column.kind for column in columns}
        self._events: dict[str, list[Event]] = defaultdict(list)

    def submit(self, events: Sequence[Event]) -> Future[None]:
        """Take events."""
        for event in events:
            self._events[event.doc_type].append(event)
        done = Future[None]()
        done.set_result(None)
        return done

    def arrow(self, doc_type: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Give the named columns of a doc_type's events."""
        import pyarrow as pa

        kinds = {"int": pa.int64(), "money": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
        types = {name: kinds.get(kind, pa.string()) for name, kind in self._kinds.items()} | {"seq": pa.int64()}
        result = self._events[doc_type]
        data = {
            name: pa.array(
                [event.columns.get(name) if name in self._kinds else getattr(event, name) for event in result],
                types.get(name, pa.string()),
            )
            for name in columns or ()
        }
        return pa.table(data)


def imported(path: str, game: Game) -> InMemoryLog:
    """Read recordings of other programs, of whatever kind they are."""
    from playproof.cli.data.importing import find_zone, refuse_empty
    from playproof.game.importers import ImportSettings
    from playproof.record.imports.recognise import import_path
    from playproof.record.redaction import KEY_BYTES, Redaction

    key, log = secrets.token_bytes(KEY_BYTES), InMemoryLog(game.columns)

    def settings(zone: str) -> ImportSettings:
        return ImportSettings(find_zone(zone), lambda: Redaction(key))

    with progress() as bar:
        task = bar.add_task("reading", total=None)
        report = import_path(path, game, settings, log, advance=partial(_advance, bar, task))
    refuse_empty(report, path)
    kinds = ", ".join(f"{files} {kind}" for kind, files in report.kinds.items())
    note(f"{kinds} files, {report.rounds} windows, {report.corrupt_lines} corrupt lines")
    return log


def _advance(bar: Progress, task: TaskID, what: str, done: int, total: int | None) -> None:
    bar.update(task, description=what, completed=done, total=total)


def shown(report: AuditReport) -> RenderableType:
    """Lay an audit out for the terminal: the answer, why, and the tables."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from playproof.reports.audit import PROMISE_HEAD, WAGER_HEAD, promise_rows, wager_row

    parts: list[RenderableType] = [Text(report.answer, style="bold red" if report.exploitable else "bold green")]
    parts += [Text(f"- {line}") for line in report.lines]
    for group in dict.fromkeys(entry.group for entry in report.compared):
        table = Table(*WAGER_HEAD, title=f"a unit staked: {group}", title_justify="left")
        for item in (wager for wager in report.wagers if wager.group == group):
            table.add_row(*wager_row(item))
        parts.append(table)
    promises = Table(*PROMISE_HEAD, title="what was once promised; a share of hits is no edge", title_justify="left")
    for row in promise_rows(report):
        promises.add_row(*row)
    return Group(*parts, promises)
