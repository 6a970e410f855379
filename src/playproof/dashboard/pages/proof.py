"""Proof: reports with their gates and verdicts, other reports, the trial ledger; start a validation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy import func, select

from playproof.dashboard.actions import once_field
from playproof.dashboard.context import DashboardContext, stat_of
from playproof.dashboard.pages.shown import moment, moment_of, state
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part
from playproof.dashboard.tables import Row, TableQuery, TableSource, matches, page_of, select_page, view
from playproof.errors import InputError
from playproof.json_types import Json
from playproof.reports.page import PageTable, Toned
from playproof.store.db import TrialRow

KINDS = {
    "validate": "verdict",
    "compare": "comparison",
    "audit": "audit",
    "replay": "replay",
    "review": "review",
}


def reports(context: DashboardContext) -> list[Row]:
    """Give a row for each report of the home."""
    root = context.root / "reports"
    rows: list[Row] = []
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.suffix == ".html":
            rows.append(_other(path.stem, path, path.name))
        elif (path / "report.json").is_file():
            written = stat_of(path / "report.json")
            rows.append(context.cache.get(("report", path), written, partial(_verdict, path)))
        elif path.is_dir():
            pages = sorted(path.glob("*.html"))
            rows += [_other(path.name, page, f"{path.name}/{page.name}") for page in pages]
    return rows


def _other(name: str, path: Path, file: str) -> Row:
    return {
        "name": name,
        "kind": KINDS.get(name.partition("-")[0], "report"),
        "subject": None,
        "verdict": None,
        "roi": None,
        "windows": None,
        "written": moment_of(path.stat().st_mtime),
        "file": file,
        "own": False,
    }


def _verdict(path: Path) -> Row:
    try:
        payload: Json = json.loads((path / "report.json").read_text(encoding="utf-8"))
        return {
            "name": path.name,
            "kind": "verdict",
            "subject": str(payload["policy"]["name"]),
            "verdict": str(payload["verdict"]),
            "roi": payload["roi"],
            "windows": payload["data"]["windows"],
            "written": moment_of((path / "report.json").stat().st_mtime),
            "file": f"{path.name}/report.html",
            "own": True,
        }
    except (ValueError, KeyError, TypeError):
        return {**_other(path.name, path / "report.json", f"{path.name}/report.html"), "verdict": "cannot be read"}


def _show(row: Row) -> Row:
    href = f"/proof/{row['name']}" if row["own"] else f"/files/reports/{row['file']}"
    return {
        **row,
        "name": Link(row["name"], href),
        "verdict": state(row["verdict"]),
        "roi": None if row["roi"] is None else f"{row['roi']:+.2%}",
        "written": moment(row["written"]),
    }


REPORTS = TableSource(
    name="reports",
    columns=(
        ("name", "report", True),
        ("kind", "kind", True),
        ("subject", "policy", True),
        ("verdict", "verdict", True),
        ("roi", "ROI", False),
        ("windows", "windows", False),
        ("written", "written at (UTC)", True),
    ),
    read=lambda context, query: page_of(
        [row for row in reports(context) if matches(row, query.filters)], query, "name"
    ),
    sort="written",
    sortable=frozenset({"name", "kind", "verdict", "roi", "windows", "written"}),
    filters=("name", "kind", "verdict"),
    empty="No report is here yet. Validate a run or a baseline below.",
    show=_show,
)


def proof_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show all reports, and start a validation."""
    fields = [
        Field(name="name", label="name"),
        Field(name="kind", label="kind", kind="select", options=("", *sorted(set(KINDS.values())))),
    ]
    validating = Form(
        action="/do/validate",
        submit="Validate",
        text="The policy is frozen and played beside its rivals; every gate is asked, and the look is written into the"
        " trial ledger.",
        fields=[
            once_field(),
            Field(name="policy", label="run, checkpoint or baseline", required=True),
            Field(name="world", label="world"),
            Field(name="data", label="or a data set"),
            Field(name="rounds", label="windows", kind="number"),
            Field(name="seed", label="seed", kind="number"),
        ],
    )
    return Page(
        title="Proof",
        lead="NO EDGE SHOWN unless proven otherwise.",
        blocks=[
            Block("reports", [view(REPORTS, context, values, "/proof", fields)]),
            Block("trials", [Link("The trial ledger: every look at data", "/proof/trials")]),
            Block("validate", [validating], "Start a validation", folded=True),
        ],
        topics=("reports",),
    )


def report_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one verdict with its gates and rivals."""
    row = next((row for row in reports(context) if row["name"] == values["report"] and row["own"]), None)
    if row is None:
        raise InputError(f"expected a report, found none called {values['report'][:80]!r}; the page Proof lists them")
    payload: Json = json.loads((context.root / "reports" / row["name"] / "report.json").read_text(encoding="utf-8"))
    facts = [
        ("ROI", f"{payload['roi']:+.2%}"),
        ("95 % interval", f"{payload['interval'][0]:+.2%} to {payload['interval'][1]:+.2%}"),
        ("e-value", f"{payload['e_value']:.3g}"),
        ("windows", f"{payload['data']['windows']:,}"),
        ("data", payload["data"]["name"]),
        ("policy", payload["policy"]["name"]),
        ("family", payload["policy"]["family"]),
        ("seed", payload["seed"]),
    ]
    tones = {"passed": "good", "failed": "bad", "skipped": "dim"}
    gates = PageTable(
        head=("gate", "result", "what was seen", "rule"),
        rows=[
            (item["gate"], Toned(item["status"], tones.get(item["status"], "")), item["found"], item["rule"])
            for item in payload["gates"]
        ],
        words=4,
    )
    rivals = PageTable(
        head=("who", "ROI", "95 % interval", "e-value"),
        rows=[
            (
                name,
                f"{item['roi']:+.2%}",
                f"{item['interval'][0]:+.2%} to {item['interval'][1]:+.2%}",
                f"{item['e_value']:.3g}",
            )
            for name, item in payload["metrics"].items()
        ],
    )
    parts: list[Part] = [Link("the whole report, one file", f"/files/reports/{row['file']}")]
    return Page(
        title=f"{payload['verdict']}: {payload['policy']['name']}",
        lead=payload["sentence"],
        trail=[Link("Proof", "/proof")],
        blocks=[
            Block("facts", [FactList(pairs=facts)]),
            Block("gates", [gates], "Gates"),
            Block("rivals", [rivals], "On the same windows"),
            Block("whole", parts),
        ],
    )


def _trials(context: DashboardContext, query: TableQuery) -> Sequence[Row]:
    columns = (
        TrialRow.trial_id,
        TrialRow.family,
        TrialRow.policy_hash,
        TrialRow.data_hash,
        TrialRow.split,
        TrialRow.kind,
        TrialRow.created_at,
        TrialRow.metric,
        TrialRow.origin,
    )
    wanted = select(*columns)
    for name in ("family", "kind"):
        if query.filters.get(name):
            wanted = wanted.where(getattr(TrialRow, name) == query.filters[name])
    with context.engine.connect() as connection:
        rows = select_page(
            connection, wanted, TrialRow.created_at.expression, TrialRow.trial_id.expression, query, datetime
        )
    return [{**row._asdict(), "key": (row.created_at, row.trial_id)} for row in rows]


TRIALS = TableSource(
    name="trials",
    columns=(
        ("created_at", "when (UTC)", True),
        ("family", "family", True),
        ("policy_hash", "policy", True),
        ("data_hash", "data", True),
        ("split", "split", True),
        ("kind", "kind", True),
        ("metric", "ROI", False),
        ("origin", "from", True),
    ),
    read=_trials,
    sort="created_at",
    sortable=frozenset({"created_at"}),
    filters=("family", "kind"),
    empty="No policy has looked at data yet.",
    show=lambda row: {
        **row,
        "created_at": moment(row["created_at"]),
        "policy_hash": row["policy_hash"][:12],
        "data_hash": row["data_hash"][:12],
        "metric": None if row["metric"] is None else f"{row['metric']:+.2%}",
    },
)


def trials_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show the trial ledger."""
    with context.engine.connect() as connection:
        counts = connection.execute(select(TrialRow.kind, func.count()).group_by(TrialRow.kind)).all()
    fields = [
        Field(name="family", label="family"),
        Field(name="kind", label="kind", kind="select", options=("", "validation", "test")),
    ]
    return Page(
        title="Trial ledger",
        trail=[Link("Proof", "/proof")],
        lead="Every look of a policy at data; corrections for multiple testing count them.",
        blocks=[
            Block("counts", [FactList(pairs=[(f"looks, {kind}", count) for kind, count in counts])] if counts else []),
            Block("trials", [view(TRIALS, context, values, "/proof/trials", fields)]),
        ],
        topics=("db",),
    )
