"""Jobs: what was asked for, how it stands, what it printed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import select

from playproof.dashboard.actions import once_field
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages.shown import moment, state
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part, TextBlock
from playproof.dashboard.tables import Row, TableQuery, TableSource, select_page, view
from playproof.operate.jobs import queue
from playproof.operate.jobs.worker import read_log
from playproof.store.db import JOB_STATUSES, JobRow


def _read(context: DashboardContext, query: TableQuery) -> Sequence[Row]:
    columns = (
        JobRow.job_id,
        JobRow.arguments,
        JobRow.status,
        JobRow.attempts,
        JobRow.requested_by,
        JobRow.created_at,
        JobRow.finished_at,
        JobRow.reason,
    )
    wanted = select(*columns).where(JobRow.home_id == queue.home_id(context.root))
    if query.filters.get("status"):
        wanted = wanted.where(JobRow.status == query.filters["status"])
    from datetime import datetime

    with context.engine.connect() as connection:
        rows = select_page(connection, wanted, JobRow.created_at.expression, JobRow.job_id.expression, query, datetime)
    return [{**row._asdict(), "command": " ".join(row.arguments), "key": (row.created_at, row.job_id)} for row in rows]


def _show(row: Row) -> Row:
    return {
        **row,
        "command": Link(row["command"], f"/jobs/{row['job_id']}"),
        "status": state(row["status"]),
        "created_at": moment(row["created_at"]),
        "finished_at": moment(row["finished_at"]),
    }


JOBS = TableSource(
    name="jobs",
    columns=(
        ("command", "command", True),
        ("status", "status", True),
        ("created_at", "asked at (UTC)", True),
        ("finished_at", "ended at", True),
        ("attempts", "tries", False),
        ("requested_by", "by", True),
        ("reason", "why", True),
    ),
    read=_read,
    sort="created_at",
    sortable=frozenset({"created_at"}),
    filters=("status",),
    empty="No job was asked for yet. Start a recording, a data set or a training from its page.",
    show=_show,
)


def jobs_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show all jobs."""
    fields = [Field(name="status", label="status", kind="select", options=("", *JOB_STATUSES))]
    return Page(
        title="Jobs",
        lead="Command lines that were asked for here. A worker runs them; a restart loses nothing.",
        blocks=[Block("jobs", [view(JOBS, context, values, "/jobs", fields)])],
        topics=("jobs",),
    )


def job_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show one job, its log as it grows, and what can be done."""
    job = queue.read_job(context.engine, context.root, values["job"])
    payload = asdict(job)
    facts = [
        ("status", state(job.status)),
        ("tries", job.attempts),
        ("asked by", job.requested_by),
        ("exit code", payload["exit_code"]),
        ("begun at (UTC)", moment(job.started_at)),
        ("ended at", moment(job.finished_at)),
    ]
    parts: list[Part] = [FactList(pairs=facts)]
    if job.reason:
        parts.append(job.reason)
    if job.cancel_asked and not job.ended:
        parts.append("It was asked to end.")
    words = job.arguments
    name = next((after for word, after in itertools.pairwise(words) if word == "--name"), None)
    if words[0] == "train" and name:
        parts.append(Link(f"the run {name}", f"/runs/{name}"))
    doing: list[Part] = []
    hidden = Field(name="job", label="", kind="hidden", value=job.job_id)
    if not job.ended and not job.cancel_asked:
        doing.append(Form(action="/do/jobs/cancel", submit="End it", fields=[hidden], inline=True, tone="danger"))
    if job.status in ("failed", "cancelled"):
        doing.append(Form(action="/do/jobs/retry", submit="Begin again", fields=[hidden, once_field()], inline=True))
    log = read_log(context.root, job.job_id)
    return Page(
        title=f"Job {job.job_id[:8]}",
        lead=job.command,
        trail=[Link("Jobs", "/jobs")],
        blocks=[
            Block("state", parts),
            Block("doing", doing),
            Block("log", [TextBlock(text=log) if log else "Nothing was printed yet."], "What it printed"),
        ],
        topics=("jobs", f"job:{job.job_id}"),
    )
