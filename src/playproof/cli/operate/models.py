"""Keep versions of models, and choose which one an alias stands for."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import find_model, open_registry
from playproof.errors import ConfigError, InputError
from playproof.json_types import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from playproof.models.changing import ChangeReport
    from playproof.models.registry import ModelPointer, ModelVersion, PointerChange, Registry

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])
VERSION = "NAME:VERSION or NAME@ALIAS; NAME alone is its newest version."
ALIAS_HELP = "Any name; live is for real money; practice, paper and try-... ask for no verdict."


@app.callback()
def group() -> None:
    """Keep versions of models, and choose which one an alias stands for."""


@app.command()
def add(
    what: Annotated[str, typer.Argument(metavar="RUN|CHECKPOINT", help="A run, or a checkpoint's folder.")],
    *,
    name: Annotated[str, typer.Option(help="Name of the model; default: that of the run.")] = "",
    as_json: AsJson = False,
) -> None:
    """Keep a checkpoint as the next version of a model; the same files again are the version that they are.

    Example: playproof models add runs/my-ppo --name trader
    """
    from playproof.models.facts import read_facts
    from playproof.models.gates import newest_report

    path = Path(find_model(what))
    name = name or _name_of(what, path)
    with open_registry() as registry:
        report = newest_report(registry.engine, read_facts(path).policy_hash)
        known = None if report is None else (str(report["report_hash"]), str(report["verdict"]))
        version, new = registry.add(path, name, known)
    said = "added as" if new else "is already"
    emit(version_json(version) | {"new": new}, as_json, f"{what} {said} {version.label}  {version.checkpoint[:12]}")


def _name_of(what: str, path: Path) -> str:
    """Give a run's name for its checkpoint; a checkpoint elsewhere needs a name of its own."""
    from playproof.train.run import CHECKPOINTS

    if path.parent.name == CHECKPOINTS:
        return path.parent.parent.name
    if path.name == "checkpoint":
        return path.parent.name
    raise ConfigError(f"expected --name for a checkpoint that is in no run, found none for {what}")


@app.command("ls")
def ls(
    name: Annotated[str, typer.Argument(help="Only this model.")] = "",
    *,
    archived: Annotated[bool, typer.Option("--archived", help="Archived versions too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List versions, and the aliases that stand for them.

    Example: playproof models ls --json
    """
    with open_registry() as registry:
        versions = registry.versions(name or None, archived=archived)
        if name and not versions:
            registry.find(name)  # says which names there are
        pointers = registry.pointers(name or None)
    data = {"versions": [version_json(item) for item in versions], "pointers": [asdict(item) for item in pointers]}
    emit(data, as_json, lambda: _versions_table(versions, pointers))


@app.command()
def show(version: Annotated[str, typer.Argument(help=VERSION)], *, as_json: AsJson = False) -> None:
    """Show one version: its files, from what it was made, its verdict, where it serves.

    Example: playproof models show trader@practice
    """
    from playproof.models.deployments import list_deployments

    with open_registry() as registry:
        target = registry.find(version)
        shown = target.version
        aliases = [item for item in registry.pointers(shown.name) if item.version == shown.version]
        serving = list_deployments(registry.engine, shown.name, shown.version)
        try:
            registry.open(shown)
            files = "as they were added"
        except InputError as error:
            files = str(error)
    data = version_json(shown, full=True) | {
        "aliases": [item.alias for item in aliases],
        "files_checked": files,
        "deployments": [asdict(item) for item in serving],
    }
    emit(data, as_json, lambda: _facts_table(data))


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=VERSION)],
    b: Annotated[str, typer.Argument(metavar="B", help=VERSION)],
    *,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two versions: hashes, settings, metrics, files.

    Example: playproof models diff trader:1 trader@practice
    """
    with open_registry() as registry:
        first, second = registry.find(a).version, registry.find(b).version
    rows = differences(version_json(first, full=True), version_json(second, full=True))
    data = {"a": first.label, "b": second.label, "differences": rows}
    emit(data, as_json, lambda: _diff_table(first.label, second.label, rows))


@app.command()
def promote(
    name: Annotated[str, typer.Argument(help="Name of the model.")],
    version: Annotated[int, typer.Argument(help="Number of the version.")],
    *,
    to: Annotated[str, typer.Option("--to", metavar="ALIAS", help=ALIAS_HELP)],
    why: Annotated[str, typer.Option(help="Reason, kept in the history.")],
    report: Annotated[
        Path | None,
        typer.Option(help="Report of validate, or leaderboard.json of arena bench; default: the newest on the policy."),
    ] = None,
    who: Annotated[str, typer.Option(help="Who promotes; default: the user.")] = "",
    as_json: AsJson = False,
) -> None:
    """Let an alias stand for a version, if its gate opens (exit code 2 if not) and nobody else moved it meanwhile.

    Example: playproof models promote trader 2 --to practice --why "plays longer"
    """
    from playproof.models.changing import promote as change

    with open_registry() as registry:
        done = change(registry, registry.version(name, version), to, who=who or _user(), why=why, report=report)
    _emit_change(done, as_json)


@app.command()
def rollback(
    name: Annotated[str, typer.Argument(help="Name of the model.")],
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="ALIAS", help="Alias that goes back; needed where there are several.")
    ] = "",
    why: Annotated[str, typer.Option(help="Reason, kept in the history.")] = "rolled back",
    who: Annotated[str, typer.Option(help="Who does; default: the user.")] = "",
    as_json: AsJson = False,
) -> None:
    """Go back to what stood before the last promotion; no gate can block it. Once more goes back once more.

    Example: playproof models rollback trader --to practice
    """
    from playproof.models.changing import rollback as change

    with open_registry() as registry:
        done = change(registry, name, to or _only_alias(registry, name), who=who or _user(), why=why)
    _emit_change(done, as_json)


def _only_alias(registry: Registry, name: str) -> str:
    aliases = [item.alias for item in registry.pointers(name)]
    if not aliases:
        registry.find(name)  # says which names there are
        raise ConfigError(f"expected an alias of {name} to roll back, found that none was ever promoted")
    if len(aliases) > 1:
        raise ConfigError(f"expected one alias of {name}, found {', '.join(aliases)}; choose with --to")
    return aliases[0]


@app.command()
def history(
    name: Annotated[str, typer.Argument(help="Name of the model; default: all.")] = "",
    *,
    alias: Annotated[str, typer.Option(help="Only this alias.")] = "",
    as_json: AsJson = False,
) -> None:
    """List every promotion and rollback: what stood for what since when, by whom and why.

    Example: playproof models history trader --json
    """
    with open_registry() as registry:
        if name:
            registry.find(name)
        changes = registry.history(name or None, alias or None)
    emit({"changes": [asdict(item) for item in changes]}, as_json, lambda: _history_table(changes))


@app.command()
def archive(version: Annotated[str, typer.Argument(help="NAME:VERSION.")], *, as_json: AsJson = False) -> None:
    """Take a version out of lists; files and history stay. One that an alias stands for is refused.

    Example: playproof models archive trader:1
    """
    with open_registry() as registry:
        target = registry.find(version)
        if ":" not in version:
            raise ConfigError(
                f"expected NAME:VERSION, found {version!r}; say which version with {target.version.label}"
            )
        done = registry.archive(target.version)
    emit(version_json(done), as_json, f"{done.label} is archived")


@app.command()
def export(
    version: Annotated[str, typer.Argument(help=VERSION)],
    *,
    output: Annotated[Path, typer.Option(help="New folder for the files.")],
    as_json: AsJson = False,
) -> None:
    """Copy the checked files of a version into a new folder, ready for another machine.

    Example: playproof models export trader@practice --output shipped
    """
    with open_registry() as registry:
        shown = registry.find(version).version
        path = registry.export(shown, output)
    data = {"version": shown.label, "checkpoint": shown.checkpoint, "path": str(path), "files": sorted(shown.files)}
    emit(data, as_json, f"{shown.label} is in {path}")


def version_json(version: ModelVersion, *, full: bool = False) -> Json:
    """Give a version as JSON; the card only where all of it is wanted."""
    payload = {"label": version.label, **asdict(version)}
    return payload if full else {key: value for key, value in payload.items() if key not in ("card", "files")}


def differences(a: Json, b: Json) -> list[Json]:
    """Give the fields in which two versions differ, settings and metrics one by one."""
    skip = ("label", "name", "version", "created_at", "source")
    first, second = (dict(_flat({key: value for key, value in item.items() if key not in skip})) for item in (a, b))
    names = sorted(set(first) | set(second))
    return [
        {"field": key, "a": first.get(key), "b": second.get(key)} for key in names if first.get(key) != second.get(key)
    ]


def _flat(payload: Json, above: str = "") -> Sequence[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for key, value in payload.items():
        label = f"{above}{key}"
        rows += _flat(value, f"{label}.") if isinstance(value, dict) and value else [(label, value)]
    return rows


def _emit_change(done: ChangeReport, as_json: bool) -> None:
    change = done.change
    for problem in done.problems:
        note(f"a hook failed; the change stands: {problem}")
    stands = "nothing" if change.to_version is None else f"{change.name}:{change.to_version}"
    before = "nothing" if change.from_version is None else f"{change.name}:{change.from_version}"
    text = f"{change.name}@{change.alias} stands for {stands}, before for {before}; generation {change.generation}"
    hooks = [asdict(item) for item in done.hooks]
    emit({"change": asdict(change), "hooks": hooks}, as_json, f"{text}\n{change.gate}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _versions_table(versions: Sequence[ModelVersion], pointers: Sequence[ModelPointer]) -> Table:
    from rich.table import Table

    table = Table("version", "aliases", "game", "method", "verdict", "policy", "added", title_justify="left")
    table.title = f"{len(versions)} versions"
    for item in versions:
        aliases = [at.alias for at in pointers if (at.name, at.version) == (item.name, item.version)]
        if item.archived_at is not None:
            aliases.append("(archived)")
        table.add_row(
            item.label,
            ", ".join(aliases),
            item.game,
            item.method,
            item.verdict or "-",
            item.policy_hash[:12],
            f"{item.created_at:%Y-%m-%d %H:%M}",
        )
    return table


def _facts_table(data: Json) -> Table:
    from rich.table import Table

    table = Table(show_header=False, title=str(data["label"]), title_justify="left")
    hidden = ("label", "name", "version", "card", "deployments")
    for key, value in data.items():
        if key in hidden or value in (None, {}, []):
            continue
        text = json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
        table.add_row(key.replace("_", " "), text)
    for item in data["deployments"]:
        until = "now" if item["ended_at"] is None else f"{item['ended_at']:%Y-%m-%d %H:%M}"
        table.add_row("served", f"{item['began_at']:%Y-%m-%d %H:%M} to {until}, {item['answers']} answers")
    return table


def _diff_table(a: str, b: str, rows: Sequence[Json]) -> Table:
    from rich.table import Table

    table = Table("field", a, b, title=f"{len(rows)} differences", title_justify="left")
    for row in rows:
        table.add_row(str(row["field"]), _short(row["a"]), _short(row["b"]))
    return table


def _short(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _history_table(changes: Sequence[PointerChange]) -> Table:
    from rich.table import Table

    table = Table("when", "alias", "", "from", "to", "who", "why", "gate", title_justify="left")
    table.title = f"{len(changes)} changes"
    for item in changes:
        table.add_row(
            f"{item.changed_at:%Y-%m-%d %H:%M:%S}",
            f"{item.name}@{item.alias}",
            item.kind,
            "-" if item.from_version is None else str(item.from_version),
            "-" if item.to_version is None else str(item.to_version),
            item.who,
            item.why,
            item.gate,
        )
    return table
