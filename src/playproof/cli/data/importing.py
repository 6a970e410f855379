"""Import old recordings into the event store, and report what they hold.

Leaves out: reading them (record.importing) and what their rows mean (the game).
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from playproof.cli.data.studio import studio
from playproof.cli.output import AsJson, emit, note, progress
from playproof.cli.targets import choose_game
from playproof.errors import ConfigError, InputError
from playproof.game import Game, load_game, lookup
from playproof.home import home

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.record.imports.importing import Import, ImportReport

LOG = "import"
"""The log that imports write to, so that a recording can go on meanwhile."""
SHOWN = 20
"""Problems that the table shows."""

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])
app.command()(studio)

GameName = Annotated[
    str | None, typer.Option("--game", help="The game, where several can import this kind.", show_default=False)
]
Zone = Annotated[
    str | None,
    typer.Option("--zone", help="Zone of times that name none, such as UTC; default: the recorder's own."),
]
KeepNames = Annotated[bool, typer.Option("--keep-names", help="Keep other players' names instead of hashing them.")]


@app.command()
def legacy(
    path: Annotated[Path, typer.Argument(help="A folder, a .tar.gz or .tar archive, or one file.")],
    *,
    game: GameName = None,
    zone: Zone = None,
    as_json: AsJson = False,
) -> None:
    """Import recordings of the older recorder: JSON Lines, a file a round.

    Importing them again changes nothing. Damage is reported and never stops the import.

    Example: playproof import legacy recordings.tar.gz --json
    """
    _run("legacy", path, game, zone, False, as_json)


@app.command()
def capture(
    file: Annotated[Path, typer.Argument(help="A capture as JSON Lines, plain or packed with gzip.")],
    *,
    game: GameName = None,
    zone: Zone = None,
    keep_names: KeepNames = False,
    as_json: AsJson = False,
) -> None:
    """Import a raw capture of a socket: one JSON object with seq, ts, event and data a line.

    Secrets and other players' names are redacted as in a live recording. Importing it again changes nothing.

    Example: playproof import capture socket-capture.jsonl.gz --json
    """
    _run("capture", file, game, zone, keep_names, as_json)


def _run(kind: str, path: Path, name: str | None, zone: str | None, keep_names: bool, as_json: bool) -> None:
    """Import a path, print the report, and fail if not one file could be read."""
    from playproof.game.importers import ImportSettings
    from playproof.record.imports.importing import Import
    from playproof.record.redaction import Redaction, load_key
    from playproof.store import EventLog

    game = importing_game(kind, name)
    importer, root = game.recording().importers[kind], home()
    if not path.exists():
        raise InputError(f"expected a file or a folder to import, found nothing at {path}")
    key = load_key(root)
    setting = ImportSettings(find_zone(zone or importer.zone), lambda: Redaction(key, keep_names=keep_names))
    with EventLog.open(root, game.columns, log=LOG) as log:
        report = _shown(Import(path, kind, importer, setting, log))
    emit(asdict(report), as_json, lambda: table(report))
    note(f"times without a zone were read as {zone or importer.zone}")
    if not report.files:
        raise InputError(f"expected recordings at {path}, found none that can be read")


def importing_game(kind: str, name: str | None) -> Game:
    """Give the game that is asked for, or the only one that can import this kind."""
    if name is not None:
        lookup(load_game(name).recording().importers, kind, f"kind of recording of {name}")
    return choose_game(name, lambda game: kind in game.recording().importers, f"imports {kind!r} recordings")


def find_zone(name: str) -> ZoneInfo:
    """Give a time zone by its IANA name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"expected a time zone such as UTC or America/New_York, found {name!r}; without a zone database run: pip"
            " install tzdata"
        ) from None


def _shown(work: Import) -> ImportReport:
    """Run an import with a progress bar."""
    with progress() as bar:
        task = bar.add_task("reading", total=None)
        return work.run(lambda what, done, total: bar.update(task, description=what, completed=done, total=total))


def table(report: ImportReport) -> Table:
    """Show a report: the counts, and the first problems."""
    from rich.markup import escape
    from rich.table import Table

    shown = Table("what", "count or place", "problem")
    for name, count in asdict(report).items():
        if name != "problems":
            shown.add_row(name, str(count), "")
    for problem in report.problems[:SHOWN]:
        text = f"{problem['file']}:{problem['line']}" if problem["line"] else problem["file"]
        shown.add_row("problem", escape(text), escape(problem["problem"]))
    if len(report.problems) > SHOWN:
        shown.add_row("problem", f"{len(report.problems) - SHOWN} more", "see them with --json")
    return shown
