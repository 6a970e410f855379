"""Audit recordings: what does the game's own data say, and is there anything to exploit?

Leaves out: weighing (validate.audit) and what the game gathers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note, progress
from playproof.errors import ConfigError, InputError
from playproof.game import Game, game_names, load_game, resolve
from playproof.home import folder

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.game.auditing import Auditing, Material
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

    Old recordings (a file, a folder or an archive) are imported into a temporary store, and nothing else is kept.

    Example: playproof audit recordings.tar.gz --json
    """
    import numpy as np

    from playproof.validate.audit import audit as weigh
    from playproof.validate.audit_page import page, to_json

    found = find_game(game)
    assert found.auditing is not None
    auditing = resolve(found.auditing)
    report = weigh(found.name, auditing, gather(recordings, found, auditing), np.random.default_rng(seed))
    path = out or folder("reports") / f"audit-{recordings.name.partition('.')[0] or 'home'}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(report, auditing, recordings.name), encoding="utf-8")
    emit(to_json(report) | {"page": str(path)}, as_json, lambda: shown(report))
    note(f"page: {path}")


def find_game(name: str | None) -> Game:
    """Give the game that is asked for, or the only one that can be audited."""
    if name is not None:
        game = load_game(name)
        if game.auditing is None:
            raise ConfigError(f"expected a game whose recordings can be audited, found {name!r}, which has no audit")
        return game
    able = [game for game in map(load_game, game_names()) if game.auditing is not None]
    if len(able) != 1:
        names = ", ".join(game.name for game in able) or "none"
        raise ConfigError(f"expected one game that can be audited, found {names}; choose with --game")
    return able[0]


def gather(path: Path, game: Game, auditing: Auditing) -> Material:
    """Gather from a data set, a store, or old recordings."""
    from playproof.store import EventStore

    if not path.exists():
        raise InputError(f"expected recordings to audit, found nothing at {path}")
    if (path / MANIFEST).exists():
        return gather_dataset(path, game, auditing)
    if path.is_dir() and ((path / "log").is_dir() or (path / "events").is_dir()):
        return auditing.from_store(EventStore(path, game.columns))
    with imported(path, game) as root:
        return auditing.from_store(EventStore(root, game.columns))


def gather_dataset(path: Path, game: Game, auditing: Auditing) -> Material:
    """Gather from the observations of a data set."""
    import polars as pl

    from playproof.datasets import open_dataset

    dataset = open_dataset(path)
    if dataset.manifest["game"]["name"] != game.name:
        raise ConfigError(f"expected a data set of {game.name}, found one of {dataset.manifest['game']['name']}")
    return auditing.from_rows(pl.concat([tables["observations"] for tables in dataset.sessions.values()]))


@contextmanager
def imported(path: Path, game: Game) -> Iterator[Path]:
    """Import old recordings of whatever kind they are into a store that is thrown away."""
    from playproof.cli.importing import find_zone
    from playproof.game.importing import Setting
    from playproof.record.importing import Import
    from playproof.record.redaction import Redaction, load_key
    from playproof.store import EventLog

    for kind, lazy in game.importers.items():
        importer = resolve(lazy)
        with tempfile.TemporaryDirectory(prefix="playproof-audit-") as place:
            root = Path(place)
            key = load_key(root)
            setting = Setting(find_zone(importer.zone), lambda key=key: Redaction(key))  # type: ignore[misc]
            with EventLog.open(root, game.columns) as log, progress() as bar:
                task = bar.add_task("reading", total=None)
                report = Import(path, kind, importer, setting, log).run(
                    lambda what, done, total, bar=bar, task=task: bar.update(  # type: ignore[misc]
                        task, description=what, completed=done, total=total
                    )
                )
            if report.rounds:
                note(f"{report.files} {kind} files, {report.rounds} windows, {report.corrupt_lines} corrupt lines")
                yield root
                return
    kinds = ", ".join(game.importers) or "none"
    raise InputError(f"expected recordings of a known kind ({kinds}) at {path}, found none that can be read")


def shown(report: AuditReport) -> RenderableType:
    """Lay an audit out for the terminal: the answer, why, and the tables."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from playproof.validate.audit_page import PROMISE_HEAD, WAGER_HEAD, promise_rows, wager_row

    parts: list[RenderableType] = [Text(report.answer, style="bold red" if report.exploitable else "bold green")]
    parts += [Text(f"- {line}") for line in report.lines]
    for group in dict.fromkeys(it.group for it in report.compared):
        table = Table(*WAGER_HEAD, title=f"a unit staked: {group}", title_justify="left")
        for it in (it for it in report.wagers if it.group == group):
            table.add_row(*wager_row(it))
        parts.append(table)
    promises = Table(*PROMISE_HEAD, title="what was once promised; a share of hits is no edge", title_justify="left")
    for row in promise_rows(report):
        promises.add_row(*row)
    return Group(*parts, promises)
