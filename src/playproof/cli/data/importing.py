"""Import recordings of other programs into the event store, and report what they hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from typer.core import TyperGroup

from playproof.cli.data.studio import studio
from playproof.cli.output import AsJson, emit, note, progress
from playproof.cli.targets import choose_game
from playproof.errors import ConfigError, InputError
from playproof.game import Game, load_game, lookup
from playproof.home import home
from playproof.json_types import Json

if TYPE_CHECKING:
    from rich.table import Table

    from playproof.record.imports.importing import ImportReport

LOG = "import"
"""The log that imports write to, so that a recording can go on meanwhile."""
SHOWN = 20
"""Problems that the table shows."""


class ImportGroup(TyperGroup):
    """Let `playproof import PATH` stand for `playproof import auto PATH`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take a first word that names no kind of recording as a path."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["auto", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=ImportGroup,
    no_args_is_help=True,
    help=f"""{__doc__.partition(chr(10))[0]}

    `playproof import PATH` finds out by itself what the files under PATH are.

    Example: playproof import recordings/ --json
    """,
)
app.command()(studio)

GameName = Annotated[
    str | None, typer.Option("--game", help="The game, where several can import this kind.", show_default=False)
]
Zone = Annotated[
    str | None,
    typer.Option("--zone", help="Zone of times that name none, such as UTC; default: the recorder's own."),
]
KeepNames = Annotated[bool, typer.Option("--keep-names", help="Keep other players' names instead of hashing them.")]
Given = Annotated[
    str, typer.Argument(metavar="PATH", help="A folder, a file, a .tar or .tar.gz archive, or a pattern in quotes.")
]


@app.command()
def auto(
    path: Given, *, game: GameName = None, zone: Zone = None, keep_names: KeepNames = False, as_json: AsJson = False
) -> None:
    """Import whatever recordings stand under a path: every kind below, mixed.

    `playproof import PATH` does the same. Importing them again changes nothing. Damage is reported and never stops
    the import.

    Example: playproof import auto recordings/
    """
    _run(None, path, game, zone, keep_names, as_json)


@app.command()
def events(
    path: Given, *, game: GameName = None, zone: Zone = None, keep_names: KeepNames = False, as_json: AsJson = False
) -> None:
    """Import an event store in Parquet: feed messages, presses, orders and finished rounds.

    Times without a zone are UTC. Rows are read in the order of `seq`; files that are torn or unfinished are skipped
    by name. A round that was joined late is completed from its published prices. Importing it again changes nothing.

    Example: playproof import events events_parquet/ --json
    """
    _run("events", path, game, zone, keep_names, as_json)


@app.command()
def legacy(path: Given, *, game: GameName = None, zone: Zone = None, as_json: AsJson = False) -> None:
    """Import recordings of the older recorder: JSON Lines, a file a round.

    Importing them again changes nothing. Damage is reported and never stops the import.

    Example: playproof import legacy recordings.tar.gz --json
    """
    _run("legacy", path, game, zone, False, as_json)


@app.command()
def capture(
    path: Given, *, game: GameName = None, zone: Zone = None, keep_names: KeepNames = False, as_json: AsJson = False
) -> None:
    """Import a raw capture of a socket: one JSON object with seq, ts, event and data a line.

    Secrets and other players' names are redacted as in a live recording. Importing it again changes nothing.

    Example: playproof import capture socket-capture.jsonl.gz --json
    """
    _run("capture", path, game, zone, keep_names, as_json)


@app.command()
def prices(path: Given, *, game: GameName = None, as_json: AsJson = False) -> None:
    """Import rounds that are lists of prices in JSON: the place in the list is the tick, the last price is the rug's.

    Such rounds hold no play: audit them, validate policies on them, train a predictor on them.

    Example: playproof import prices rounds.json --json
    """
    _run("prices", path, game, None, False, as_json)


def _run(kind: str | None, path: str, name: str | None, zone: str | None, keep_names: bool, as_json: bool) -> None:
    """Import a path, print the report, and fail if nothing came in or more was dropped than kept."""
    from playproof.game.importers import ImportSettings
    from playproof.record.imports.recognise import import_path
    from playproof.record.redaction import Redaction, load_key
    from playproof.store import EventLog

    game, root = importing_game(kind, name), home()
    key = load_key(root)
    zones: list[str] = []

    def settings(own: str) -> ImportSettings:
        zones.append(zone or own)
        return ImportSettings(find_zone(zone or own), lambda: Redaction(key, keep_names=keep_names))

    with EventLog.open(root, game.columns, log=LOG) as log, progress() as bar:
        task = bar.add_task("reading", total=None)
        report = import_path(
            path,
            game,
            settings,
            log,
            kinds=None if kind is None else [kind],
            advance=lambda what, done, total: bar.update(task, description=what, completed=done, total=total),
        )
    emit(counts(report, kind), as_json, lambda: table(report, kind))
    if zones:
        note(f"times without a zone were read as {', '.join(dict.fromkeys(zones))}")
    refuse_empty(report, path)


def refuse_empty(report: ImportReport, path: str) -> None:
    """Fail with the reasons if an import brought nothing, or dropped more than it kept."""
    reasons = Counter(problem["problem"].partition(";")[0][:100] for problem in report.problems)
    shown = "; ".join(f"{text} ({count} times)" if count > 1 else text for text, count in reasons.most_common(3))
    if not report.files:
        raise InputError(f"expected recordings at {path}, found none that can be read: {shown or 'no files'}")
    if not report.rounds and not report.presses and not report.refused_sessions:
        raise InputError(
            f"expected rounds or presses in the {report.files} files at {path}, found none: "
            f"{shown or 'their rows hold no round of this game'}; see every problem with --json"
        )
    if report.refused_sessions:
        raise InputError(
            f"expected sessions that are new or unchanged, found {report.refused_sessions} changed: {shown}"
        )
    dropped = report.corrupt_lines + sum("left out" in problem["problem"] for problem in report.problems)
    if dropped > report.rows:
        raise InputError(
            f"expected most of the rows at {path} to be readable, dropped {dropped} and kept {report.rows}: {shown}"
        )


def importing_game(kind: str | None, name: str | None) -> Game:
    """Give the game that is asked for, or the only one that can import this kind, or anything at all."""
    if name is not None and kind is not None:
        lookup(known_kinds(load_game(name)), kind, f"kind of recording of {name}")
    what = f"imports {kind!r} recordings" if kind else "imports recordings"
    return choose_game(name, lambda game: kind in kinds if (kinds := known_kinds(game)) and kind else bool(kinds), what)


def known_kinds(game: Game) -> dict[str, str]:
    """Give the kinds of recordings that a game imports, with what they are."""
    recording = game.recording()
    kinds = {kind: importer.doc for kind, importer in recording.importers.items()}
    return kinds | {kind: store.doc for kind, store in recording.stores.items()}


def find_zone(name: str) -> ZoneInfo:
    """Give a time zone by its IANA name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"expected a time zone such as UTC or America/New_York, found {name!r}; without a zone database run: pip"
            " install tzdata"
        ) from None


PLAY = (
    "completed",
    "presses",
    "sequences",
    "orders",
    "matched",
    "refused",
    "rows",
    "events",
    "refused_sessions",
    "kinds",
)
"""What is reported beside the counts of the two oldest kinds, which hold no play."""


def counts(report: ImportReport, kind: str | None) -> Json:
    """Give a report as it is printed."""
    oldest = kind in ("legacy", "capture")
    return {name: value for name, value in asdict(report).items() if not oldest or name not in PLAY}


def table(report: ImportReport, kind: str | None = None) -> Table:
    """Show a report: the counts, and the first problems."""
    from rich.markup import escape
    from rich.table import Table

    shown = Table("what", "count or file", "problem")
    for name, count in counts(report, kind).items():
        if name == "kinds":
            for one, files in report.kinds.items():
                shown.add_row(f"{one} files", str(files), "")
        elif name != "problems":
            shown.add_row(name, str(count), "")
    for problem in report.problems[:SHOWN]:
        text = f"{problem['file']}:{problem['line']}" if problem["line"] else problem["file"]
        shown.add_row("problem", escape(text), escape(problem["problem"]))
    if len(report.problems) > SHOWN:
        shown.add_row("problem", f"{len(report.problems) - SHOWN} more", "see them with --json")
    return shown
