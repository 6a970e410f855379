"""Build data sets from the event store, list, show, check and export them.

Leaves out: what they are made of (playproof.datasets). The home is $PLAYPROOF_HOME, or playproof-home here.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note, progress
from playproof.cli.targets import choose_game, find_data
from playproof.errors import ConfigError, StoreError
from playproof.home import home
from playproof.json_types import Json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.table import Table

    from playproof.datasets import Dataset
    from playproof.datasets.check import DatasetFinding
    from playproof.events import Event
    from playproof.game import Game
    from playproof.parallel import Engine
    from playproof.store import EventStore

CUTS = 40
REASONS = 12
"""Reasons that a table shows."""

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])

Name = Annotated[str, typer.Argument(help="A data set: its name, name@hash, or its folder.")]
Observation = Annotated[
    str | None, typer.Option("--observation", help="Observation set; default: the game's first.", show_default=False)
]


@app.command()
def build(
    name: Annotated[str, typer.Argument(help="What to call it: letters, digits, - and _.")],
    *,
    game: Annotated[
        str | None, typer.Option(help="The game; default: the one whose events are stored.", show_default=False)
    ] = None,
    observation: Observation = None,
    actions: Annotated[
        str | None, typer.Option(help="Action set; default: the game's first.", show_default=False)
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(help="A reward of the game, a YAML or TOML file, or module:attribute.", show_default=False),
    ] = None,
    world: Annotated[
        str | None, typer.Option(help="Whose rules keep the money; default: the game's first.", show_default=False)
    ] = None,
    min_ticks: Annotated[int, typer.Option(help="Decision points that an episode must have.", min=0)] = 0,
    include_incomplete: Annotated[
        bool, typer.Option("--include-incomplete", help="Keep windows that were not received whole.")
    ] = False,
    split: Annotated[
        str, typer.Option(help="Splits in time order and their shares.")
    ] = "train=0.6,validation=0.2,test=0.2",
    gap: Annotated[int, typer.Option(help="Windows left out between two splits.", min=0)] = 1,
    session: Annotated[list[str] | None, typer.Option(help="Only this session; may be given again.")] = None,
    window: Annotated[
        list[str] | None,
        typer.Option(help="Only this window, as if nothing had come before it; may be given again."),
    ] = None,
    engine: Annotated[str, typer.Option(help="Where it runs: local or ray.")] = "local",
    address: Annotated[str, typer.Option(help="Of a Ray cluster; local starts one here.")] = "local",
    workers: Annotated[int | None, typer.Option(help="Workers; default: one, on Ray all.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Build a data set from what is stored: observations, actions, rewards, split by window in time.

    The same events and options give the same content hash, and a data set that is there is not built again.

    Example: playproof dataset build mine --reward minimal
    """
    from playproof.datasets import DatasetConfig, open_dataset
    from playproof.datasets import build as build_dataset
    from playproof.game import first
    from playproof.store import EventStore

    store = EventStore(home())
    chosen = stored_game(home(), game)
    config = DatasetConfig(
        name=name,
        observation=observation or first(chosen.observations),
        actions=actions or first(chosen.actions),
        reward=reward or first(chosen.rewards().presets),
        shares=read_shares(split),
        gap=gap,
        include_incomplete=include_incomplete,
        min_ticks=min_ticks,
        world=world,
    )
    source = _windows(store, session, window) if window else store
    with progress() as bar:
        task = bar.add_task("reading", total=None)
        path = build_dataset(
            chosen,
            source,
            config,
            home(),
            find_engine(engine, address, workers),
            sessions=session,
            progress=lambda what, done, total: bar.update(task, description=what, completed=done, total=total),
        )
    payload = summary(open_dataset(path))
    emit(payload, as_json, lambda: _summary_table(payload))


@app.command(name="ls")
def list_all(*, as_json: AsJson = False) -> None:
    """List the data sets of the home.

    Example: playproof dataset ls --json
    """
    from playproof.datasets.registry import list_datasets

    rows = [
        {
            "name": dataset.manifest["name"],
            "hash": dataset.manifest["hash"],
            "path": str(dataset.path),
            "game": dataset.manifest["game"]["name"],
            "episodes": dataset.manifest["episodes"],
            "steps": dataset.manifest["steps"],
            "finished": datetime.fromtimestamp(dataset.finished, UTC).isoformat(timespec="seconds"),
        }
        for dataset in list_datasets(home())
    ]
    emit({"datasets": rows}, as_json, lambda: _table(rows, "no data sets yet; run: playproof dataset build NAME"))


@app.command()
def show(
    name: Name,
    *,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the card; default: reports/ of the home.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a data set holds, and write its card: one HTML file that opens without a network.

    Example: playproof dataset show mine
    """
    from playproof.home import folder
    from playproof.reports.dataset import write_card

    dataset = _open(name)
    path = out or folder("reports", home()) / f"{dataset.path.name}.html"
    payload = summary(dataset) | {"card": str(write_card(dataset, path))}
    emit(payload, as_json, lambda: _summary_table(payload))


@app.command()
def check(
    name: Name,
    *,
    cuts: Annotated[int, typer.Option(help="Cuts of the look-ahead check.", min=1)] = CUTS,
    seed: Annotated[int, typer.Option(help="Same seed, same cuts.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Check a data set: no look-ahead, no NaN, money adds up, no round twice, splits in time. Exit code 2: it fails.

    Example: playproof dataset check mine --json
    """
    import numpy as np

    from playproof.datasets.check import check_dataset
    from playproof.store import EventStore

    findings = check_dataset(_open(name), EventStore(home()), np.random.default_rng(seed), cuts)
    passed = all(finding.passed is not False for finding in findings)
    emit({"passed": passed, "checks": list(map(asdict, findings))}, as_json, lambda: _findings_table(findings))
    for finding in findings:
        if finding.passed is None:
            note(f"{finding.check}: {finding.detail}")
    if not passed:
        raise typer.Exit(2)


@app.command()
def export(
    name: Name,
    *,
    form: Annotated[str, typer.Option("--format", help="numpy, torch, minari or huggingface.")] = "numpy",
    out: Annotated[
        Path | None, typer.Option(help="A new folder; default: NAME-FORMAT here.", show_default=False)
    ] = None,
    observation: Annotated[
        str | None, typer.Option(help="Observation set; default: the data set's own.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a data set for other tools; every format holds the same steps, and none needs pickle.

    Example: playproof dataset export mine --format huggingface --out mine-parquet
    """
    from playproof.datasets.export.formats import export as export_dataset

    dataset = _open(name)
    path = out or Path(f"{dataset.manifest['name']}-{form}")
    files = export_dataset(dataset, form, path, observation)
    payload = {"path": str(path), "format": form, "files": [str(file.relative_to(path)) for file in files]}
    emit(payload, as_json, lambda: _table([{"file": file} for file in payload["files"]], "nothing was written"))


def stored_game(root: Path, name: str | None) -> Game:
    """Give the game that is asked for, or the only one whose columns the store has."""
    from playproof.game import game_names, load_game

    if name is not None:
        game = load_game(name)
        if game.windows.market:
            game.recording()  # says that a market has no events of a feed
        return game
    stored = _stored_columns(root)
    shares = {
        item: len({column.name for column in load_game(item).columns} & stored) / max(1, len(load_game(item).columns))
        for item in game_names()
    }
    best = max(shares.values())
    return choose_game(
        None, lambda game: best > 0 and shares[game.name] == best, f"has the columns of the events in {root}"
    )


def _stored_columns(root: Path) -> set[str]:
    """Name the columns that the logs of a home declare."""
    from playproof.store import log_names
    from playproof.store.log.schema import connect_reader, log_path, read_layout

    names: set[str] = set()
    for log in log_names(root):
        with contextlib.closing(connect_reader(log_path(root, log))) as reader:
            names |= {column.name for column in read_layout(reader).columns}
    if not names:
        raise ConfigError(f"expected recorded events in {root}, found none; run: playproof record, or playproof import")
    return names


def find_engine(name: str, address: str, workers: int | None) -> Engine:
    """Give the engine of a name."""
    from playproof.parallel import LocalEngine, Ray

    if name == "local":
        return LocalEngine(workers or 1)
    if name == "ray":
        return Ray(address, workers)
    raise ConfigError(f"expected the engine local or ray, found {name!r}")


def read_shares(text: str) -> dict[str, float]:
    """Read splits and shares such as train=0.6,validation=0.2,test=0.2."""
    try:
        shares = {name.strip(): float(share) for name, share in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise ConfigError(f"expected splits such as train=0.8,test=0.2, found {text!r}") from None
    if not all(shares):
        raise ConfigError(f"expected a name for each split, found {text!r}")
    return shares


def _windows(store: EventStore, sessions: Sequence[str] | None, windows: Sequence[str]) -> Iterator[Event]:
    """Give the events of some windows, of all sessions or some; stop where the store had to pass something over."""
    for window in windows:
        for event in store.events(window_id=window):
            if not sessions or event.session_id in sessions:
                yield event
        if store.problems:
            raise StoreError(
                f"expected every stored event of window {window}, found {store.problems[0]}; nothing was built:"
                " restore what is damaged, or set it aside with: playproof store verify"
            )


def _open(name: str) -> Dataset:
    from playproof.datasets import open_dataset

    return open_dataset(find_data(name))


def summary(dataset: Dataset) -> Json:
    """Say what a data set holds; every window that was left out is there with its reason."""
    manifest = dataset.manifest
    reasons: dict[str, int] = {}
    for left in manifest["left_out"]:
        reasons[left["reason"]] = reasons.get(left["reason"], 0) + 1
    split: Mapping[str, str] = manifest["split"]
    return {
        "name": manifest["name"],
        "hash": manifest["hash"],
        "path": str(dataset.path),
        "game": manifest["game"]["name"],
        "observation": manifest["observation"],
        "features": len(manifest["features"]),
        "stored": manifest["stored"],
        "stored_features": len(manifest["stored_features"]),
        "actions": manifest["actions"]["name"],
        "reward": f"{manifest['reward']['name']} v{manifest['reward']['version']}",
        "sessions": len(manifest["sessions"]),
        "windows": len(split),
        "episodes": manifest["episodes"],
        "steps": manifest["steps"],
        "incomplete": manifest["incomplete"],
        "corrected": manifest["corrected"],
        "splits": {name: sum(1 for item in split.values() if item == name) for name in dict.fromkeys(split.values())},
        "left_out": len(manifest["left_out"]),
        "reasons": dict(sorted(reasons.items())),
        "left_out_windows": list(manifest["left_out"]),
    }


def _summary_table(payload: Mapping[str, Any]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    shown = Table("what", "value")
    for name, value in payload.items():
        if name == "left_out_windows":
            continue
        if isinstance(value, dict):
            for item, count in list(value.items())[:REASONS]:
                shown.add_row(f"{name}: {escape(str(item))}", str(count))
        else:
            shown.add_row(name, escape(str(value)))
    return shown


def _findings_table(findings: Sequence[DatasetFinding]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    words = {True: "passed", False: "FAILED", None: "not made"}
    shown = Table("check", "result", "what was found")
    for finding in findings:
        shown.add_row(finding.check, words[finding.passed], escape(finding.detail))
    return shown


def _table(rows: Sequence[Mapping[str, Any]], empty: str) -> Table | str:
    from rich.markup import escape
    from rich.table import Table

    if not rows:
        return empty
    shown = Table(*rows[0])
    for row in rows:
        shown.add_row(*(escape(str(value)) for value in row.values()))
    return shown
