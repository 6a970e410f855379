"""The tables of the dashboard: jobs that a worker runs, and the marks that people give trajectories.

Leaves out: how jobs are claimed and run (playproof.operate.jobs).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from playproof.store.db.columns import Moment
from playproof.store.db.records import TableRow, _one_of

JOB_STATUSES = ("waiting", "running", "done", "failed", "cancelled")
"""How a job stands: not begun, with a worker, exit code 0, any other end, ended by a person."""
VERDICTS = ("accepted", "rejected")


class JobRow(TableRow):
    """One command line that a worker of its home runs."""

    __tablename__ = "job"
    __table_args__ = (
        Index("ix_job_home_status_created", "home_id", "status", "created_at"),
        Index("ix_job_created", "created_at"),
        _one_of("status", JOB_STATUSES, "status"),
    )

    job_id: Mapped[str] = mapped_column(primary_key=True)
    home_id: Mapped[str]
    """The home whose workers may run it: several homes may share one database."""
    home: Mapped[str]
    """Its folder, to be shown."""
    arguments: Mapped[list[Any]]
    """What follows `playproof` on the command line."""
    status: Mapped[str]
    requested_by: Mapped[str]
    attempts: Mapped[int]
    worker: Mapped[str | None]
    """Who runs it, or ran it last."""
    lease_until: Mapped[datetime | None]
    """Until when its worker is taken to live; renewed by a heartbeat."""
    cancel_asked: Mapped[bool]
    exit_code: Mapped[int | None]
    reason: Mapped[str | None]
    """Why it ended as it did, where the exit code does not say it."""
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class ReviewMark(TableRow):
    """What a person says of a trajectory: accepted or rejected as training data, tags, a note."""

    __tablename__ = "review_mark"
    __table_args__ = (
        Index("ix_review_mark_verdict", "verdict"),
        _one_of("verdict", VERDICTS, "verdict"),
    )

    trajectory_id: Mapped[str] = mapped_column(primary_key=True)
    verdict: Mapped[str | None]
    tags: Mapped[list[Any]]
    note: Mapped[str]
    marked_by: Mapped[str]
    marked_at: Mapped[datetime] = mapped_column(Moment())
