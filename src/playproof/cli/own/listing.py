"""List everything in the home: sessions, data sets, runs, models, reports and experiments, with what came of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.errors import ConfigError
from playproof.json_types import Json

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer()
KINDS = ("session", "data set", "run", "model", "report", "experiment")


@dataclass(frozen=True)
class OwnThing:
    """One thing of the home."""

    kind: str
    name: str
    when: str
    """UTC, to the minute; empty where it is not known."""
    source: str
    """What it was made from."""
    result: str


@app.command()
def ls(
    *,
    kind: Annotated[str | None, typer.Option(help=f"Only one kind: {', '.join(KINDS)}.")] = None,
    as_json: AsJson = False,
) -> None:
    """List everything in the home: kind, name, when, from what, and what came of it.

    Example: playproof ls --kind run
    """
    from playproof.home import home

    if kind is not None and kind not in KINDS:
        raise ConfigError(f"expected a kind among {', '.join(KINDS)}, found {kind!r}")
    root = home()
    if not root.is_dir():
        raise ConfigError(
            f"expected a home at {root}, found nothing there; run a command that records, or set PLAYPROOF_HOME"
        )
    things = [item for item in everything(root) if kind in (None, item.kind)]
    emit({"home": str(root), "things": [asdict(item) for item in things]}, as_json, lambda: table(things))
    if not things and not as_json:
        note(f"nothing of that kind is in {root} yet; record something first: playproof record --help")


def everything(root: Path) -> Iterator[OwnThing]:
    """Give what the home holds, kind by kind, the newest last."""
    for read in (sessions, data_sets, runs, models, reports, experiments):
        yield from sorted(read(root), key=lambda item: (item.when, item.name))


def sessions(root: Path) -> Iterator[OwnThing]:
    """Give recorded sessions, with their events."""
    from playproof.store import EventStore

    counts: Counter[str] = Counter()
    logs: dict[str, str] = {}
    for view in EventStore(root).views():
        hot = Counter(view.session(row) for row in view.rows)
        for name, rows in [*hot.items(), *view.compacted().items()]:
            counts[name] += rows
            logs[name] = view.name
    for name, rows in counts.items():
        yield OwnThing("session", name, "", f"log {logs[name]}", f"{rows:,} events")


def data_sets(root: Path) -> Iterator[OwnThing]:
    """Give data sets, with their steps."""
    from playproof.datasets.registry import list_datasets

    for entry in list_datasets(root):
        manifest = entry.manifest
        game, reward = manifest.get("game", {}).get("name", ""), manifest.get("reward", {}).get("name", "")
        windows = len(manifest.get("split", {}))
        yield OwnThing("data set", entry.label, _moment(entry.path), f"{game}, reward {reward}", f"{windows:,} windows")


def runs(root: Path) -> Iterator[OwnThing]:
    """Give trainings, with their best checkpoint."""
    from playproof.cli.own.runs import read_runs

    for item in read_runs(root):
        yield OwnThing("run", item.name, item.when, f"{item.method}, {item.source}", item.result)


def models(root: Path) -> Iterator[OwnThing]:
    """Give versions of models, with the aliases that stand for them."""
    from playproof.home import database

    if not database(root).exists():
        return
    from playproof.models.registry import Registry
    from playproof.store.db import connect, ready

    engine = ready(connect(root))
    try:
        registry = Registry(engine, root)
        aliases: dict[tuple[str, int], list[str]] = {}
        for pointer in registry.pointers():
            if pointer.version is not None:
                aliases.setdefault((pointer.name, pointer.version), []).append(pointer.alias)
        for version in registry.versions():
            standing = ", ".join(aliases.get((version.name, version.version), ["no alias"]))
            result = f"{version.verdict or 'no verdict'}; {standing}"
            yield OwnThing("model", version.label, f"{version.created_at:%Y-%m-%d %H:%M}", version.source, result)
    finally:
        engine.dispose()


def reports(root: Path) -> Iterator[OwnThing]:
    """Give reports, with their verdict where they have one."""
    for path in sorted((root / "reports").glob("*")):
        payload = read_report(path)
        source = ""
        if payload:
            source = f"{payload.get('policy', {}).get('name', '')} on {payload.get('data', {}).get('name', '')}"
        yield OwnThing("report", path.name, _moment(path), source, str(payload.get("verdict", "")))


def read_report(path: Path) -> Json:
    """Read a validation's JSON; empty where there is none."""
    try:
        payload: Json = json.loads((path / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return payload if isinstance(payload, dict) else {}


def experiments(root: Path) -> Iterator[OwnThing]:
    """Give experiments between two versions, with how they stand."""
    from playproof.home import database

    if not database(root).exists():
        return
    from playproof.operate.experiments.ledger import ExperimentLedger
    from playproof.store.db import connect, ready

    engine = ready(connect(root))
    try:
        for item in ExperimentLedger(engine).all():
            plan = item.plan
            when = f"{item.registered_at:%Y-%m-%d %H:%M}"
            source = f"{plan.a.label} against {plan.b.label}, {plan.mode}"
            yield OwnThing("experiment", plan.name, when, source, item.ending or "going on")
    finally:
        engine.dispose()


def _moment(path: Path) -> str:
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d %H:%M}"


def table(things: list[OwnThing]) -> Table:
    """Draw the list; kind and name are never cut."""
    from rich.table import Table
    from rich.text import Text

    result = Table()
    for head in ("kind", "name", "when (UTC)", "from", "result"):
        # A name that is cut or folded cannot be copied into the next command.
        result.add_column(head, overflow="fold", no_wrap=head in ("kind", "name"))
    for item in things:
        result.add_row(*(Text(value) for value in (item.kind, item.name, item.when, item.source, item.result)))
    return result
