"""Runs: the list with saved columns, learning curves in money, comparisons, and what can be done with a run.

A run's log is read once and then only where it has grown. Money on validation or held-out windows comes first.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from playproof.dashboard.actions import once_field
from playproof.dashboard.context import DashboardContext, stat_of
from playproof.dashboard.pages.shown import moment, moment_of, money, performing_games, state
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part
from playproof.dashboard.tables import Row, TableSource, matches, page_of, view
from playproof.errors import InputError
from playproof.home import check_id
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.reports.chart import Chart, ChartAxis, Series
from playproof.reports.page import PageTable
from playproof.reports.run import figures
from playproof.train.run import CHECKPOINTS, CONFIG, LOG, REPORT, RESULT, STATE, read_config, read_result

METHODS = ("bc", "cql", "grpo", "iql", "ppo", "sft", "sidebet", "tune")
RUNNING_SECONDS = 180.0
"""A run whose log is younger is taken to go on."""
MOST_NOTES, MOST_LOGS, MOST_CURVES = 50_000, 24, 256
MOST_COMPARED = 50
MONEY = {"evaluation": "pnl", "holdout": "holdout_pnl"}
"""Which number of a note is money, in the smallest unit."""
CURVE_POINTS = 400


@dataclass
class LogReader:
    """A run's log, read as far as it was written."""

    path: Path
    offset: int = 0
    inode: int = 0
    notes: list[Json] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> list[Json]:
        """Give the notes; only what was appended since the last time is read, unless the log was written anew."""
        with self.lock:
            try:
                stat = self.path.stat()
            except OSError:
                return []
            if stat.st_ino != self.inode or stat.st_size < self.offset:
                self.offset, self.inode, self.notes = 0, stat.st_ino, []
            if stat.st_size > self.offset:
                with self.path.open("rb") as file:
                    file.seek(self.offset)
                    data = file.read()
                whole = data.rfind(b"\n") + 1
                self.offset += whole
                for line in data[:whole].splitlines():
                    try:
                        self.notes.append(orjson.loads(line))
                    except ValueError:
                        continue  # a line that a kill cut off
                if len(self.notes) > MOST_NOTES:
                    self.notes = self.notes[:: 2 if len(self.notes) < 2 * MOST_NOTES else 4]
            return self.notes


_READERS: OrderedDict[Path, LogReader] = OrderedDict()
_LOCK = threading.Lock()


def read_notes(path: Path) -> list[Json]:
    """Give a run's notes, from memory as far as they are known."""
    with _LOCK:
        reader = _READERS.setdefault(path, LogReader(path / LOG))
        _READERS.move_to_end(path)
        while len(_READERS) > MOST_LOGS:
            _READERS.popitem(last=False)
    return reader.read()


def curve(context: DashboardContext, path: Path) -> tuple[list[int], list[float]]:
    """Give a run's money over its steps, in coins; kept as long as its log stays."""

    def make() -> tuple[list[int], list[float]]:
        points = []
        with (path / LOG).open("rb") as file:
            for line in file:
                # only lines that may hold money are parsed
                if b'"evaluation"' in line or b'"holdout"' in line:
                    try:
                        note = orjson.loads(line)
                        points.append((note["step"], note[MONEY[note["kind"]]] / UNIT))
                    except (ValueError, KeyError, TypeError):
                        continue
        return [point[0] for point in points], [point[1] for point in points]

    if not (path / LOG).exists():
        return [], []
    return context.curves.get(str(path), stat_of(path / LOG), make)


def summaries(context: DashboardContext) -> list[Row]:
    """Give a row for each run, built again only where its files have changed."""
    root = context.root / "runs"
    if not root.is_dir():
        return []
    rows = []
    for path in root.iterdir():
        if (path / CONFIG).is_file():
            states = tuple(stat_of(path / name) for name in (CONFIG, LOG, RESULT))
            summary = context.cache.get(("run", path), states, partial(_summary, path))
            rows.append(_with_state(context, summary))
    return rows


def _with_state(context: DashboardContext, row: Json) -> Row:
    young = context.clock().timestamp() - row["updated_seconds"] < RUNNING_SECONDS
    return {**row, "state": "ended" if row["has_result"] else "running" if young else "stopped"}


def _summary(path: Path) -> Json:
    try:
        config = read_config(path)
    except (InputError, ValueError):
        config = {"method": "?", "config": {}}
    result = read_result(path)
    last: Json = {}
    steps = 0
    if (path / LOG).exists():
        with (path / LOG).open("rb") as file:
            file.seek(max(0, (path / LOG).stat().st_size - 64_000))
            for line in file.read().splitlines():
                try:
                    note = orjson.loads(line)
                except ValueError:
                    continue
                steps = note.get("step", steps)
                if note.get("kind") in MONEY:
                    last = note
    flat = _flat(config.get("config", {}))
    pnl = last.get(MONEY.get(last.get("kind", ""), ""))
    updated = (path / LOG) if (path / LOG).exists() else path / CONFIG
    return {
        "name": path.name,
        "method": str(config.get("method", "?")),
        "world": flat.get("world") or flat.get("dataset"),
        "steps": steps,
        "pnl": pnl,
        "seed": flat.get("seed"),
        "learning_rate": flat.get("learning_rate"),
        "commit": config.get("commit"),
        "best": result.get("best"),
        "has_result": bool(result),
        "updated": moment_of(updated.stat().st_mtime),
        "updated_seconds": updated.stat().st_mtime,
    }


def _flat(payload: Mapping[str, Any]) -> Json:
    result: Json = {}
    for name, value in payload.items():
        if isinstance(value, Mapping):
            result = {**_flat(value), **result}
        else:
            result[name] = value
    return result


def _show(row: Row) -> Row:
    return {
        **row,
        "name": Link(row["name"], f"/runs/{row['name']}"),
        "state": state(row["state"]),
        "pnl": money(row["pnl"], digits=6) if isinstance(row["pnl"], int) else _float_money(row["pnl"]),
        "steps": f"{row['steps']:,}",
        "updated": moment(row["updated"]),
    }


def _float_money(value: float | None) -> object:
    return None if value is None else money(round(value), digits=6)


RUNS = TableSource(
    name="runs",
    columns=(
        ("name", "run", True),
        ("method", "method", True),
        ("state", "state", True),
        ("pnl", "coins a window", False),
        ("steps", "steps", False),
        ("world", "world or data", True),
        ("seed", "seed", False),
        ("updated", "last note (UTC)", True),
    ),
    read=lambda context, query: page_of(
        [row for row in summaries(context) if matches(row, query.filters)], query, "name"
    ),
    sort="updated",
    sortable=frozenset({"name", "method", "state", "pnl", "steps", "updated"}),
    filters=("name", "method", "state", "world"),
    empty="No run is here yet. Train one below.",
    show=_show,
)
EXTRA_COLUMNS = {"learning_rate": "learning rate", "commit": "commit", "best": "best checkpoint"}


def runs_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show all runs; columns beyond the usual ones stand in the URL, so that a bookmark saves them."""
    fields = [
        Field(name="name", label="name"),
        Field(name="method", label="method", kind="select", options=("", *METHODS)),
        Field(name="state", label="state", kind="select", options=("", "running", "ended", "stopped")),
    ]
    extra = [name for name in values.get("columns", "").split(",") if name in EXTRA_COLUMNS]
    source = TableSource(
        **{**vars(RUNS), "columns": (*RUNS.columns, *((name, EXTRA_COLUMNS[name], True) for name in extra))}
    )
    table = view(source, context, values, "/runs", fields)
    all_columns = ",".join(EXTRA_COLUMNS)
    more = Link("Fewer columns", "/runs") if extra else Link("More columns", f"/runs?columns={all_columns}")
    names = sorted(row["name"] for row in summaries(context))
    comparing = Form(
        action="/runs/compare",
        method="get",
        title="Compare runs",
        submit="Compare",
        fields=[Field(name="names", label="names, separated by spaces", options=names, value=" ".join(names[:3]))],
        role="viewer",
    )
    return Page(
        title="Runs",
        blocks=[
            Block("runs", [table, more]),
            Block("compare", [comparing] if len(names) > 1 else []),
            Block("train", [train_form()], "Train", folded=True),
        ],
        topics=("runs",),
    )


def train_form() -> Form:
    """Give the form that begins a training."""
    return Form(
        action="/do/train",
        submit="Train",
        text="A worker runs `playproof train`; what is left empty takes the command's default.",
        fields=[
            once_field(),
            Field(name="name", label="name of the run", required=True),
            Field(name="method", label="method", kind="select", options=METHODS[:-1], value="ppo"),
            Field(name="game", label="game", kind="select", options=performing_games()),
            Field(name="world", label="world", hint="a world, or a data set"),
            Field(name="dataset", label="data set"),
            Field(name="player", label="player", hint="for imitation in a world"),
            Field(name="steps", label="steps", kind="number"),
            Field(name="rounds", label="rounds", kind="number"),
            Field(name="seed", label="seed", kind="number"),
            Field(name="settings", label="settings", kind="textarea", hint="name=value, one a line"),
        ],
    )


def run_folder(context: DashboardContext, name: str) -> Path:
    """Give the folder of a run that is there."""
    path = context.root / "runs" / check_id(name, "a name of a run")
    if not (path / CONFIG).is_file():
        raise InputError(f"expected a run, found none called {name!r}; the list of runs has their names")
    return path


def run_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one run: money live, then what was done and learned."""
    name = values["name"]
    path = run_folder(context, name)
    row = _with_state(context, _summary(path))
    notes = read_notes(path)
    config = read_config(path)
    facts = [
        ("state", state(row["state"])),
        ("method", row["method"]),
        ("steps", f"{row['steps']:,}"),
        ("coins a window", _float_money(row["pnl"])),
        ("notes", f"{len(notes):,}"),
        ("last note (UTC)", moment(row["updated"])),
    ]
    charts: list[Part] = list(figures(notes)) if notes else ["Nothing was noted yet."]
    hidden = [Field(name="name", label="", kind="hidden", value=name), once_field()]
    doing: list[Part] = []
    if row["state"] != "running" and row["method"] in METHODS and (path / STATE).exists():
        method = Field(name="method", label="", kind="hidden", value=row["method"])
        doing.append(
            Form(action="/do/train/resume", submit="Go on from its resume point", fields=[*hidden, method], inline=True)
        )
    if row["state"] == "running":
        doing.append("Its job ends it: the page Jobs has the button.")
    kept = sorted((path / CHECKPOINTS).glob("*/checkpoint.json")) if (path / CHECKPOINTS).is_dir() else []
    doing.append(
        Form(
            action="/do/validate",
            submit="Validate",
            title="Validate its best checkpoint",
            fields=[
                *hidden[1:],
                Field(name="policy", label="", kind="hidden", value=name),
                Field(name="world", label="world", value=str(row["world"] or "")),
                Field(name="rounds", label="windows", kind="number"),
            ],
        )
    )
    settings = PageTable(
        head=("setting", "value"),
        rows=[
            (key, _short(value))
            for key, value in sorted(_flat(config["config"]).items())
            if value not in (None, "", [])
        ],
        words=2,
    )
    result = PageTable(
        head=("result", "value"),
        rows=[(key, _short(value)) for key, value in _flat(read_result(path)).items() if not isinstance(value, list)],
        words=2,
    )
    checkpoints = PageTable(
        head=("checkpoint", "kept at (UTC)"),
        rows=[(item.parent.name, moment(moment_of(item.stat().st_mtime))) for item in kept[-50:]],
        words=2,
    )
    links: list[Part] = (
        [Link("report.html, one file", f"/files/runs/{name}/{REPORT}")] if (path / REPORT).exists() else []
    )
    return Page(
        title=name,
        trail=[Link("Runs", "/runs")],
        lead="This is how it learned, not a proof of an edge: that is what validate gives.",
        blocks=[
            Block("facts", [FactList(pairs=facts)]),
            Block("curves", charts),
            Block("doing", doing, "What can be done"),
            Block("result", [result, *links] if result.rows else links, "Result"),
            Block("checkpoints", [checkpoints] if kept else ["None is kept yet."], "Checkpoints"),
            Block("settings", [settings], "Configuration", folded=True),
        ],
        topics=(f"run:{name}",),
    )


def compare_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show several runs side by side: money over steps, what differs in their configurations, the last figures."""
    names = list(dict.fromkeys(values.get("names", "").replace(",", " ").split()))
    if not 2 <= len(names) <= MOST_COMPARED:
        raise InputError(
            f"expected 2 to {MOST_COMPARED} names of runs, found {len(names)}; choose them on the page Runs"
        )
    paths = [run_folder(context, name) for name in names]
    series, rows = [], []
    for path in paths:
        steps, pnl = curve(context, path)
        rows.append((Link(path.name, f"/runs/{path.name}"), *_last(steps, pnl)))
        if steps:
            shown_steps, shown_pnl = _thin(steps, pnl)
            series.append(Series(name=path.name, x=shown_steps, y=shown_pnl))
    chart = Chart(
        title="Money: profit a window on the validation windows",
        x=ChartAxis(title="steps of training"),
        y=ChartAxis(title="coins a window"),
        series=series,
        height=440,
        wide=True,
        numbers=len(names) <= 8,
    )
    configs = [_flat(read_config(path)["config"]) for path in paths]
    keys = sorted({key for config in configs for key in config})
    differing = [
        key for key in keys if len({json.dumps(config.get(key), sort_keys=True, default=str) for config in configs}) > 1
    ]
    differences = PageTable(
        head=("setting", *names),
        rows=[(key, *(_short(config.get(key)) for config in configs)) for key in differing],
        words=1 + len(names),
    )
    weighing = Form(
        action="/do/compare",
        submit="Play them over the same windows",
        text="A paired comparison with intervals; it is written into the trial ledger.",
        fields=[
            once_field(),
            Field(name="policies", label="policies", value=" ".join(names)),
            Field(name="world", label="world"),
            Field(name="rounds", label="windows", kind="number"),
        ],
    )
    return Page(
        title=f"{len(names)} runs compared",
        trail=[Link("Runs", "/runs")],
        blocks=[
            Block("money", [chart] if series else ["None of them has noted money yet."]),
            Block(
                "figures", [PageTable(head=("run", "notes of money", "last", "best", "at step"), rows=rows)], "Figures"
            ),
            Block(
                "differences",
                [differences] if differing else ["Their configurations are the same."],
                "What differs in their configurations",
            ),
            Block("paired", [weighing], "Paired result"),
        ],
        topics=tuple(f"run:{name}" for name in names),
    )


def _last(steps: Sequence[int], pnl: Sequence[float]) -> tuple[object, ...]:
    if not steps:
        return 0, None, None, None
    best = int(np.argmax(pnl))
    return len(steps), f"{pnl[-1]:+.6f}", f"{pnl[best]:+.6f}", f"{steps[best]:,}"


def _thin(steps: Sequence[int], pnl: Sequence[float]) -> tuple[list[int], list[float]]:
    """Thin a curve on the server: lowest and highest of every column stay."""
    from playproof.reports.chart import decimate

    if len(steps) <= CURVE_POINTS:
        return list(steps), list(pnl)
    kept = decimate(np.array(steps, np.float64), np.array(pnl, np.float64), CURVE_POINTS // 4)
    return [steps[index] for index in kept], [pnl[index] for index in kept]


def _short(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    return text if len(text) < 200 else f"{text[:199]}…"
