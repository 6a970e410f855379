"""Look at trainings: list, show, compare settings, tag, note, and move to the trash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import find_run, nearest
from playproof.errors import ConfigError, InputError
from playproof.home import write_durably
from playproof.json_types import Json
from playproof.money import UNIT

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])
NOTES = "notes.json"
RunName = Annotated[str, typer.Argument(help="A run's name, or its folder.")]


@dataclass(frozen=True)
class RunSummary:
    """A training in one row."""

    name: str
    method: str
    when: str
    source: str
    """World or data set."""
    steps: int
    coins: float | None
    """Last profit a window on validation or held-out windows."""
    result: str
    tags: tuple[str, ...] = ()


@app.callback()
def group() -> None:
    """Look at trainings: list, show, compare settings, tag, note, and move to the trash."""


@app.command("ls")
def list_runs(
    *,
    method: Annotated[str | None, typer.Option(help="Only one method, such as ppo.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None,
    as_json: AsJson = False,
) -> None:
    """List trainings: method, data, steps, last profit a window, tags.

    Example: playproof runs ls --method ppo
    """
    from playproof.home import home

    items = [item for item in read_runs(home()) if method in (None, item.method) and (tag is None or tag in item.tags)]
    emit({"runs": [asdict(item) for item in items]}, as_json, lambda: _table(items))
    if not items and not as_json:
        note("no run is here yet; next: playproof train --help")


@app.command()
def show(run: RunName, *, as_json: AsJson = False) -> None:
    """Show a run: its settings, result, checkpoints, tags and notes.

    Example: playproof runs show learner
    """
    from playproof.train.run import CHECKPOINTS, read_config, read_result

    path = find_run(run)
    checkpoints = sorted(item.name for item in (path / CHECKPOINTS).glob("*") if item.is_dir())
    data = {
        "run": path.name,
        "folder": str(path),
        "config": read_config(path),
        "result": read_result(path),
        "checkpoints": checkpoints,
        **_notes(path),
    }
    emit(data, as_json, lambda: _pairs(path.name, {**_flat(data["config"]), **_flat(data)}))


@app.command()
def diff(first: RunName, second: RunName, *, as_json: AsJson = False) -> None:
    """Show in which settings and results two runs differ.

    Example: playproof runs diff learner other
    """
    from playproof.train.run import read_config, read_result

    sides = []
    for name in (first, second):
        path = find_run(name)
        sides.append(
            {**_flat(read_config(path)), **{f"result.{key}": value for key, value in _flat(read_result(path)).items()}}
        )
    names = sorted(name for name in {*sides[0], *sides[1]} if sides[0].get(name) != sides[1].get(name))
    differences = {name: [side.get(name) for side in sides] for name in names}
    emit(
        {"first": first, "second": second, "differences": differences},
        as_json,
        lambda: _differences(first, second, differences),
    )


@app.command("rm")
def remove(run: RunName) -> None:
    """Move a run to the trash; `playproof trash restore runs/NAME` takes it back.

    Example: playproof runs rm first
    """
    from playproof.trash import discard

    item = discard(find_run(run).absolute(), datetime.now(UTC))
    note(f"{item.label} is in the trash; next: playproof trash restore {item.label}")


@app.command("tag")
def tag_run(
    run: RunName,
    tags: Annotated[list[str], typer.Argument(help="Words; -WORD takes one away.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Give a run tags, or take them away with a dash before the word.

    Example: playproof runs tag learner keep baseline
    """
    path = find_run(run)
    known = dict.fromkeys(_notes(path)["tags"])
    for word in tags:
        if word.startswith("-"):
            if word[1:] not in known:
                raise InputError(
                    f"expected a tag of {path.name}, found {word[1:]!r}; it has: {nearest(word[1:], known)}"
                )
            del known[word[1:]]
        elif not word.strip() or len(word) > 64:
            raise InputError(f"expected a tag of 1 to 64 characters, found {word[:80]!r}")
        else:
            known[word] = None
    notes = _notes(path) | {"tags": list(known)}
    write_durably(path / NOTES, json.dumps(notes, indent=1).encode())
    emit({"run": path.name, "tags": list(known)}, as_json, lambda: f"{path.name}: {', '.join(known) or 'no tags'}")


@app.command("note")
def note_run(run: RunName, text: Annotated[str, typer.Argument(help="What to remember.")]) -> None:
    """Write a note beside a run, with the time.

    Example: playproof runs note learner "stake doubled, same seed"
    """
    path = find_run(run)
    notes = _notes(path)
    notes["notes"].append({"at": datetime.now(UTC).isoformat(timespec="seconds"), "text": text})
    write_durably(path / NOTES, json.dumps(notes, indent=1).encode())
    note(f"{path.name}: {len(notes['notes'])} notes")


def read_runs(root: Path) -> list[RunSummary]:
    """Give the runs of a home, the newest last; a run whose files cannot be read is listed as such."""
    return sorted(_summaries(root), key=lambda item: (item.when, item.name))


def _summaries(root: Path) -> Iterator[RunSummary]:
    from playproof.train.run import CONFIG, LOG, read_config, read_log, read_result

    for path in (root / "runs").glob("*"):
        if not (path / CONFIG).is_file():
            continue
        newest = max(item.stat().st_mtime for item in (path / CONFIG, path / LOG) if item.exists())
        when = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M}"
        try:
            config, result = read_config(path), read_result(path)
            lines = read_log(path) if (path / LOG).exists() else []
        except (InputError, ConfigError, ValueError) as error:
            yield RunSummary(path.name, "?", when, "", 0, None, f"cannot be read: {error}")
            continue
        flat = _flat(config.get("config", {}))
        money = [
            line.get("pnl", line.get("holdout_pnl")) for line in lines if line.get("kind") in ("evaluation", "holdout")
        ]
        coins = money[-1] / UNIT if money and money[-1] is not None else None
        best = result.get("best")
        yield RunSummary(
            path.name,
            str(config.get("method", "?")),
            when,
            str(flat.get("world") or flat.get("dataset") or flat.get("worlds") or ""),
            max((int(line.get("step", 0)) for line in lines), default=0),
            coins,
            f"best {best}" if best else "ended" if result else "not ended",
            tuple(_notes(path)["tags"]),
        )


def _notes(path: Path) -> Json:
    try:
        known: Json = json.loads((path / NOTES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = {}
    return {"tags": [], "notes": [], **known}


def _flat(payload: object, before: str = "") -> Json:
    if not isinstance(payload, dict):
        return {before.rstrip("."): payload}
    result: Json = {}
    for name, value in payload.items():
        result |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return result


def _table(items: list[RunSummary]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for head, least in (
        ("run", 12),
        ("method", 6),
        ("when (UTC)", 0),
        ("from", 0),
        ("steps", 0),
        ("coins", 0),
        ("result", 0),
        ("tags", 0),
    ):
        table.add_column(
            head, overflow="fold", min_width=least or None, justify="right" if head in ("steps", "coins") else "left"
        )
    for item in items:
        coins = "" if item.coins is None else f"{item.coins:+.4f}"
        row = (
            item.name,
            item.method,
            item.when,
            item.source,
            f"{item.steps:,}",
            coins,
            item.result,
            ", ".join(item.tags),
        )
        table.add_row(*map(Text, row))
    return table


def _pairs(title: str, values: Json) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("setting or result", "value", title=title, title_justify="left")
    for name, value in values.items():
        if not name.startswith("config."):
            table.add_row(Text(name), Text(str(value)))
    return table


def _differences(first: str, second: str, differences: Json) -> Table | str:
    from rich.table import Table
    from rich.text import Text

    if not differences:
        return "no setting and no result differs"
    table = Table("setting or result")
    for name in (first, second):
        table.add_column(Text(name))
    for setting, (one, other) in differences.items():
        table.add_row(Text(setting), Text(str(one)), Text(str(other)))
    return table
