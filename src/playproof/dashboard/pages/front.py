"""Home: what runs now, what needs a person, the last verdicts, disk and health."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages import proof, recordings, runs
from playproof.dashboard.pages.shown import moment, money, size, state
from playproof.dashboard.shell import Block, FactList, Link, Page, Part
from playproof.operate.jobs import queue
from playproof.reports.page import PageTable

SHOWN = 8
FULL_SHARE = 0.95


def home_page(context: DashboardContext, values: Mapping[str, str]) -> Page:  # noqa: ARG001
    """Show everything that goes on."""
    going: list[tuple[object, ...]] = []
    for row in recordings.sessions(context):
        if recordings.is_live(context, row):
            going.append(
                (Link(row["session"], f"/recordings/{row['session']}"), "recording", f"{row['events']:,} events")
            )
    summaries = runs.summaries(context)
    for row in summaries:
        if row["state"] == "running":
            going.append(
                (Link(row["name"], f"/runs/{row['name']}"), f"training, {row['method']}", f"{row['steps']:,} steps")
            )
    jobs = queue.list_jobs(context.engine, context.root, limit=30)
    for job in jobs:
        if not job.ended:
            going.append((Link(" ".join(job.arguments)[:80], f"/jobs/{job.job_id}"), "job", job.status))
    needs: list[tuple[object, ...]] = []
    needs += [
        (Link(" ".join(job.arguments)[:80], f"/jobs/{job.job_id}"), job.reason or "")
        for job in jobs
        if job.status == "failed"
    ]
    needs += [
        (Link(row["name"], f"/runs/{row['name']}"), "stopped before its end; it can go on")
        for row in summaries
        if row["state"] == "stopped"
    ][:SHOWN]
    disk = shutil.disk_usage(context.root)
    if disk.used / disk.total > FULL_SHARE:
        needs.append((Link("Disk", "/settings"), f"only {size(disk.free)} are free"))
    verdicts = [row for row in proof.reports(context) if row["own"]]
    verdicts = sorted(verdicts, key=lambda row: row["written"], reverse=True)[:SHOWN]
    last: list[Part] = ["Nothing was validated yet."]
    if verdicts:
        last = [
            PageTable(
                head=("policy", "verdict", "ROI", "windows", "when (UTC)"),
                rows=[
                    (
                        Link(str(row["subject"]), f"/proof/{row['name']}"),
                        state(row["verdict"]),
                        None if row["roi"] is None else f"{row['roi']:+.2%}",
                        row["windows"],
                        moment(row["written"]),
                    )
                    for row in verdicts
                ],
                words=2,
            )
        ]
    best = sorted((row for row in summaries if row["pnl"] is not None), key=lambda row: row["updated"], reverse=True)
    return Page(
        title="Home",
        blocks=[
            Block(
                "going",
                [PageTable(head=("what", "kind", "how far"), rows=going[:30], words=3)]
                if going
                else ["Nothing runs now."],
                "Running now",
            ),
            Block(
                "needs",
                [PageTable(head=("what", "why"), rows=needs[: SHOWN * 2], words=2)]
                if needs
                else ["Nothing needs you."],
                "Needs a person",
            ),
            Block("verdicts", last, "Last verdicts"),
            Block(
                "learned",
                [
                    PageTable(
                        head=("run", "method", "coins a window"),
                        words=2,
                        rows=[
                            (
                                Link(row["name"], f"/runs/{row['name']}"),
                                row["method"],
                                money(round(row["pnl"]), digits=6),
                            )
                            for row in best[:SHOWN]
                        ],
                    )
                ]
                if best
                else ["Nothing was trained yet."],
                "Last learned",
            ),
            Block(
                "health",
                [
                    FactList(
                        pairs=[
                            ("disk free", size(disk.free)),
                            ("runs", len(summaries)),
                            ("recordings", len(recordings.sessions(context))),
                            ("reports", len(proof.reports(context))),
                        ]
                    )
                ],
                "Health",
            ),
        ],
        topics=("jobs", "runs", "log", "reports"),
    )
