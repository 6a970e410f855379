"""Data sets: the list, one with its distributions and lineage, two side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from playproof.dashboard.actions import once_field
from playproof.dashboard.context import DashboardContext, stat_of
from playproof.dashboard.pages.shown import moment, moment_of
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part
from playproof.dashboard.tables import Row, TableSource, matches, page_of, view
from playproof.datasets import Dataset, open_dataset
from playproof.datasets.registry import DatasetEntry, list_datasets
from playproof.errors import InputError
from playproof.reports.chart import BarSeries, Chart, ChartAxis, Series
from playproof.reports.page import PageTable
from playproof.train.run import CONFIG

MOST_FEATURES = 200
MOST_SESSIONS = 40
"""Sessions whose rows a distribution is drawn from."""
BINS = 30
SHOWN_WINDOWS = 60


def _rows(context: DashboardContext) -> list[Row]:
    return [_row(entry) for entry in list_datasets(context.root)]


def _row(entry: DatasetEntry) -> Row:
    manifest = entry.manifest
    return {
        "label": entry.label,
        "name": str(manifest.get("name")),
        "game": manifest["game"]["name"],
        "reward": manifest["reward"]["name"],
        "sessions": len(manifest["sessions"]),
        "windows": len(manifest["split"]),
        "steps": int(manifest["steps"]),
        "built": moment_of(entry.finished),
    }


DATASETS = TableSource(
    name="datasets",
    columns=(
        ("label", "data set", True),
        ("game", "game", True),
        ("reward", "reward", True),
        ("sessions", "sessions", False),
        ("windows", "windows", False),
        ("steps", "steps", False),
        ("built", "built at (UTC)", True),
    ),
    read=lambda context, query: page_of([row for row in _rows(context) if matches(row, query.filters)], query, "label"),
    sort="built",
    sortable=frozenset({"label", "game", "reward", "sessions", "windows", "steps", "built"}),
    filters=("label", "game", "reward"),
    empty="No data set is here yet. Build one from what is recorded.",
    show=lambda row: {
        **row,
        "label": Link(row["label"], f"/datasets/{row['label']}"),
        "steps": f"{row['steps']:,}",
        "built": moment(row["built"]),
    },
)


def datasets_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show all data sets, and the forms that build and compare."""
    labels = [row["label"] for row in _rows(context)]
    building = Form(
        action="/do/datasets/build",
        submit="Build",
        text="A worker builds it from all that is stored; the same events and options give the same hash.",
        fields=[
            once_field(),
            Field(name="name", label="name", required=True),
            Field(name="reward", label="reward", hint="of the game; empty: its first"),
            Field(name="split", label="split", value="train=0.6,validation=0.2,test=0.2"),
            Field(name="gap", label="gap in windows", kind="number"),
            Field(name="session", label="only this session"),
        ],
    )
    comparing = Form(
        action="/datasets/compare",
        method="get",
        title="Compare two",
        submit="Compare",
        role="viewer",
        fields=[
            Field(name="a", label="first", kind="select", options=labels),
            Field(name="b", label="second", kind="select", options=labels, value=labels[-1] if labels else ""),
        ],
    )
    fields = [Field(name="label", label="name"), Field(name="game", label="game")]
    return Page(
        title="Data sets",
        blocks=[
            Block("datasets", [view(DATASETS, context, values, "/datasets", fields)]),
            Block("compare", [comparing] if len(labels) > 1 else []),
            Block("build", [building], "Build one", folded=True),
        ],
        topics=("datasets",),
    )


def find(context: DashboardContext, label: str) -> Path:
    """Give the folder of a data set of this home."""
    for entry in list_datasets(context.root):
        if entry.label == label:
            return entry.path
    raise InputError(f"expected a data set, found none called {label[:80]!r}; the list of data sets has their names")


def dataset_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one data set: what it holds, where it comes from, what uses it, one feature's distribution."""
    label = values["label"]
    dataset = open_dataset(find(context, label))
    manifest = dataset.manifest
    split: Mapping[str, str] = manifest["split"]
    reasons: dict[str, int] = {}
    for left in manifest["left_out"]:
        reasons[left["reason"]] = reasons.get(left["reason"], 0) + 1
    facts = [
        ("game", manifest["game"]["name"]),
        ("windows", f"{len(split):,}"),
        ("episodes", f"{manifest['episodes']:,}"),
        ("steps", f"{manifest['steps']:,}"),
        ("features", f"{len(manifest['stored_features'])}"),
        ("reward", f"{manifest['reward']['name']} v{manifest['reward']['version']}"),
        ("left out", f"{len(manifest['left_out']):,}"),
        ("hash", manifest["hash"][:12]),
    ]
    counts: dict[str, int] = {}
    for name in split.values():
        counts[name] = counts.get(name, 0) + 1
    features: Sequence[str] = manifest["stored_features"]
    feature = values.get("feature") or (features[0] if features else "")
    choosing = Form(
        action=f"/datasets/{label}",
        method="get",
        submit="Show",
        inline=True,
        role="viewer",
        fields=[Field(name="feature", label="feature", kind="select", options=features[:MOST_FEATURES], value=feature)],
    )
    drawn = distribution(context, dataset, feature) if feature in features else None
    hidden = [Field(name="name", label="", kind="hidden", value=label), once_field()]
    windows = PageTable(
        head=("window", "split"),
        rows=[(Link(name, f"/replay/{label}/{name}"), part) for name, part in list(split.items())[:SHOWN_WINDOWS]],
        words=2,
    )
    return Page(
        title=label,
        trail=[Link("Data sets", "/datasets")],
        blocks=[
            Block("facts", [FactList(pairs=facts)]),
            Block(
                "splits",
                [
                    PageTable(head=("split", "windows"), rows=list(counts.items())),
                    *(
                        [PageTable(head=("left out because", "windows"), rows=sorted(reasons.items()))]
                        if reasons
                        else []
                    ),
                ],
                "Splits",
            ),
            Block("distribution", [choosing, *([drawn] if drawn else [])], "Distribution of a feature"),
            Block("lineage", lineage(context, manifest), "Where it comes from, and what uses it"),
            Block(
                "windows",
                [f"The first {min(len(split), SHOWN_WINDOWS)} of {len(split)}; each opens as a replay.", windows],
                "Windows",
                folded=True,
            ),
            Block("doing", [Form(action="/do/datasets/check", submit="Check it", fields=hidden, inline=True)]),
        ],
        topics=("runs",),
    )


def lineage(context: DashboardContext, manifest: Mapping[str, Any]) -> list[Part]:
    """Say which recordings a data set was built from, and which runs learned from it."""
    sessions = list(manifest["sessions"])
    using = []
    root = context.root / "runs"
    names = (manifest["hash"], manifest["name"])
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if not (path / CONFIG).is_file():
            continue
        text = context.cache.get(("config", path), stat_of(path / CONFIG), partial(_config_text, path))
        if any(f'"{name}' in text for name in names):
            using.append((Link(path.name, f"/runs/{path.name}"),))
    parts: list[Part] = [
        PageTable(head=("recording",), rows=[(Link(name, f"/recordings/{name}"),) for name in sessions[:MOST_SESSIONS]])
    ]
    parts.append(
        PageTable(head=("run that learned from it",), rows=using) if using else "No run has learned from it yet."
    )
    return parts


def _config_text(path: Path) -> str:
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except ValueError:
        return ""
    return json.dumps(config)


def distribution(context: DashboardContext, dataset: Dataset, feature: str) -> Chart:
    """Draw how a feature is distributed in each split."""
    values = context.cache.get(
        ("distribution", dataset.path, feature), dataset.manifest["hash"], lambda: _values(dataset, feature)
    )
    whole = np.concatenate(list(values.values())) if values else np.zeros(0)
    whole = whole[np.isfinite(whole)]
    edges = np.histogram_bin_edges(whole, bins=BINS) if len(whole) else np.array([0.0, 1.0])
    centres = ((edges[1:] + edges[:-1]) / 2).tolist()
    series = []
    for name, item in values.items():
        counts, _ = np.histogram(item[np.isfinite(item)], bins=edges)
        series.append(Series(name=name, x=centres, y=(counts / max(1, counts.sum())).tolist(), step=True))
    return Chart(
        title=feature,
        x=ChartAxis(title=feature),
        y=ChartAxis(title="share of steps", percent=True, zero=True),
        series=series,
        wide=True,
    )


def _values(dataset: Dataset, feature: str) -> dict[str, Any]:
    """Read a column of some sessions, by split."""
    split: Mapping[str, str] = dataset.manifest["split"]
    parts: dict[str, list[Any]] = {}
    for _, tables in list(dataset.sessions.items())[:MOST_SESSIONS]:
        rows = tables["observations"].filter(~pl.col("final"))
        names = rows["window_id"].replace_strict(dict(split), default=None)
        for part in names.unique().drop_nulls():
            parts.setdefault(str(part), []).append(rows.filter(names == part)[feature].to_numpy().astype(np.float64))
    return {name: np.concatenate(items) for name, items in sorted(parts.items())}


def compare_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show two data sets side by side: what differs, and one feature in both."""
    labels = (values.get("a", ""), values.get("b", ""))
    first, second = (open_dataset(find(context, label)) for label in labels)
    rows = []
    for name in sorted({*first.manifest, *second.manifest} - {"split", "sessions", "left_out", "files"}):
        one, two = (_short(item.manifest.get(name)) for item in (first, second))
        if one != two:
            rows.append((name, one, two))
    shared = set(first.manifest["split"]) & set(second.manifest["split"])
    features = [name for name in first.manifest["stored_features"] if name in second.manifest["stored_features"]]
    feature = values.get("feature") or (features[0] if features else "")
    parts: list[Part] = []
    if feature in features:
        drawn = []
        for label, item in zip(labels, (first, second), strict=True):
            column = _values(item, feature)
            drawn.append((label, np.concatenate(list(column.values())) if column else np.zeros(0)))
        finite = np.concatenate([item[np.isfinite(item)] for _, item in drawn])
        edges = np.histogram_bin_edges(finite, bins=BINS) if len(finite) else np.array([0.0, 1.0])
        series = [
            BarSeries(
                name=label,
                x=((edges[1:] + edges[:-1]) / 2).tolist(),
                y=(np.histogram(item[np.isfinite(item)], bins=edges)[0] / max(1, len(item))).tolist(),
            )
            for label, item in drawn
        ]
        parts.append(Chart(title=feature, y=ChartAxis(title="share of steps", percent=True), series=series, wide=True))
    choosing = Form(
        action="/datasets/compare",
        method="get",
        submit="Show",
        inline=True,
        role="viewer",
        fields=[
            Field(name="a", label="", kind="hidden", value=labels[0]),
            Field(name="b", label="", kind="hidden", value=labels[1]),
            Field(name="feature", label="feature", kind="select", options=features[:MOST_FEATURES], value=feature),
        ],
    )
    return Page(
        title="Two data sets",
        trail=[Link("Data sets", "/datasets")],
        blocks=[
            Block(
                "differences",
                [
                    f"{len(shared)} windows are in both.",
                    PageTable(head=("what", *labels), rows=rows, words=3) if rows else "They are the same.",
                ],
            ),
            Block("feature", [choosing, *parts], "One feature in both"),
        ],
    )


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str) if isinstance(value, dict | list) else str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
