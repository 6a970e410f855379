"""The table of jobs: put one in, look at them, cancel, retry; and what a worker does with them.

A job belongs to a home, named by a random id in its folder, so that two homes may share one database. A worker takes a
job with a lease that it renews; a job whose lease has run out may be taken over by another worker of the same home.
Every change of a running job names its worker and attempt: who has lost a job can no longer write to it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, insert, or_, select, tuple_, update

from playproof.errors import InputError
from playproof.home import check_id
from playproof.operate.jobs.commands import find_command
from playproof.store.db import JobRow, writing

JOBS = "jobs"
HOME_ID, BELL = "home-id", "bell"
MOST_CANDIDATES = 20


@dataclass(frozen=True)
class Job:
    """One job as it stands."""

    job_id: str
    home_id: str
    home: str
    arguments: list[str]
    status: str
    requested_by: str
    attempts: int
    worker: str | None
    lease_until: datetime | None
    cancel_asked: bool
    exit_code: int | None
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def command(self) -> str:
        """Give the command line as it is typed."""
        import shlex

        return shlex.join(["playproof", *self.arguments])

    @property
    def ended(self) -> bool:
        """Tell whether nothing more will happen to it by itself."""
        return self.status not in ("waiting", "running")


_COLUMNS = [getattr(JobRow, field.name) for field in fields(Job)]


def jobs_folder(root: Path) -> Path:
    """Give the folder of a home's jobs, made if it is missing."""
    path = root / JOBS
    path.mkdir(parents=True, exist_ok=True)
    return path


def home_id(root: Path) -> str:
    """Give the id of a home, made once; two who make it together get the same."""
    path = jobs_folder(root) / HOME_ID
    if not path.exists():
        beside = path.with_name(f".{HOME_ID}.{secrets.token_hex(8)}")
        with beside.open("w", encoding="utf-8") as file:
            file.write(secrets.token_hex(16))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)  # fails where another was first, and never leaves half an id
        except FileExistsError:
            pass
        finally:
            beside.unlink()
    return check_id(path.read_text(encoding="utf-8"), "an id of a home")


def ring(root: Path) -> None:
    """Tell the workers and pages of a home that a job has changed, without a look into the database."""
    (jobs_folder(root) / BELL).write_text(secrets.token_hex(8), encoding="utf-8")


def enqueue(
    engine: Engine, root: Path, arguments: Sequence[str], requested_by: str, now: datetime, job_id: str | None = None
) -> Job:
    """Put a job in; an id that is there already gives that job back, so that a form sent twice makes one job."""
    find_command(arguments)
    identity = check_id(job_id or secrets.token_hex(8), "an id of a job")
    with writing(engine) as connection:
        known = _read(connection, JobRow.job_id == identity)
        if known:
            return known[0]
        connection.execute(
            insert(JobRow).values(
                job_id=identity,
                home_id=home_id(root),
                home=str(root),
                arguments=list(arguments),
                status="waiting",
                requested_by=requested_by,
                attempts=0,
                cancel_asked=False,
                created_at=now,
            )
        )
        result = _read(connection, JobRow.job_id == identity)[0]
    ring(root)
    return result


def list_jobs(
    engine: Engine,
    root: Path,
    *,
    status: str | None = None,
    limit: int = 100,
    before: tuple[datetime, str] | None = None,
) -> list[Job]:
    """List the jobs of a home, the latest first; `before` is time and id of the last one of an earlier page."""
    wanted: list[ColumnElement[bool]] = [JobRow.home_id == home_id(root)]
    if status is not None:
        wanted.append(JobRow.status == status)
    if before is not None:
        wanted.append(tuple_(JobRow.created_at, JobRow.job_id) < tuple_(_bound(before[0]), _bound(before[1])))
    query = select(*_COLUMNS).where(*wanted).order_by(JobRow.created_at.desc(), JobRow.job_id.desc()).limit(limit)
    with engine.connect() as connection:
        return [Job(*row) for row in connection.execute(query)]


def read_job(engine: Engine, root: Path, job_id: str) -> Job:
    """Read one job of a home, by its id or the start of it."""
    start = check_id(job_id, "an id of a job")
    with engine.connect() as connection:
        result = _read(connection, JobRow.job_id.startswith(start, autoescape=True), JobRow.home_id == home_id(root))
    if len(result) != 1:
        raise InputError(
            f"expected one job called {start!r}, found {len(result) or 'none'}; list them with: playproof jobs ls"
        )
    return result[0]


def cancel(engine: Engine, root: Path, job_id: str, now: datetime) -> Job:
    """End a job: at once where it has not begun; a running one is interrupted by its worker, as by Ctrl-C."""
    job = read_job(engine, root, job_id)
    with writing(engine) as connection:
        ended = {"status": "cancelled", "finished_at": now, "reason": "cancelled before it began"}
        if not _change(connection, job.job_id, JobRow.status == "waiting", ended):
            _change(connection, job.job_id, JobRow.status == "running", {"cancel_asked": True})
    ring(root)
    return read_job(engine, root, job.job_id)


def retry(engine: Engine, root: Path, job_id: str) -> Job:
    """Put a job that failed or was cancelled in again; it goes on where its command can."""
    job = read_job(engine, root, job_id)
    again = {"status": "waiting", "cancel_asked": False, "reason": None, "exit_code": None, "finished_at": None}
    with writing(engine) as connection:
        if not _change(connection, job.job_id, JobRow.status.in_(("failed", "cancelled")), again):
            raise InputError(f"expected a job that failed or was cancelled, found {job.job_id} {job.status}")
    ring(root)
    return read_job(engine, root, job.job_id)


def candidates(connection: Connection, home: str, now: datetime) -> list[Job]:
    """Give the jobs of a home that a worker may take, locked: waiting ones, and those whose lease ended."""
    lost = and_(JobRow.status == "running", or_(JobRow.lease_until.is_(None), JobRow.lease_until < now))
    query = (
        select(*_COLUMNS)
        .where(JobRow.home_id == home, or_(JobRow.status == "waiting", lost))
        .order_by(JobRow.created_at, JobRow.job_id)
        .limit(MOST_CANDIDATES)
        .with_for_update(skip_locked=True)
    )
    return [Job(*row) for row in connection.execute(query)]


def take(connection: Connection, job: Job, worker: str, now: datetime, lease: timedelta, *, begin: bool) -> None:
    """Give a candidate to a worker; `begin` counts an attempt, else the one that runs goes on."""
    values: dict[str, Any] = {"status": "running", "worker": worker, "lease_until": now + lease}
    if begin:
        values |= {"attempts": job.attempts + 1, "started_at": now, "exit_code": None, "reason": None}
    _change(connection, job.job_id, JobRow.attempts == job.attempts, values)


def renew(engine: Engine, worker: str, now: datetime, lease: timedelta) -> list[Job]:
    """Renew the lease of all jobs of a worker; give them as they stand."""
    with writing(engine) as connection:
        own = and_(JobRow.worker == worker, JobRow.status == "running")
        connection.execute(update(JobRow).where(own).values(lease_until=now + lease))
        return _read(connection, own)


def settle(
    engine: Engine, job_id: str, worker: str, attempt: int, now: datetime, *, status: str, exit_code: int | None,
    reason: str | None,
) -> bool:  # fmt: skip
    """Write how an attempt ended; False where another worker has the job by now."""
    values: dict[str, Any] = {"status": status, "exit_code": exit_code, "reason": reason, "lease_until": None}
    if status != "waiting":
        values["finished_at"] = now
    own = and_(JobRow.worker == worker, JobRow.attempts == attempt, JobRow.status == "running")
    with writing(engine) as connection:
        return _change(connection, job_id, own, values)


def _bound(value: datetime | str) -> Any:
    from sqlalchemy import literal

    return literal(value, JobRow.created_at.type if isinstance(value, datetime) else JobRow.job_id.type)


def _read(connection: Connection, *wanted: ColumnElement[bool]) -> list[Job]:
    query = select(*_COLUMNS).where(*wanted).order_by(JobRow.created_at, JobRow.job_id).limit(MOST_CANDIDATES)
    return [Job(*row) for row in connection.execute(query)]


def _change(connection: Connection, job_id: str, wanted: ColumnElement[bool], values: dict[str, Any]) -> bool:
    changed = connection.execute(update(JobRow).where(JobRow.job_id == job_id, wanted).values(**values))
    return bool(changed.rowcount)
