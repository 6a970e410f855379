"""Look at jobs, cancel them and begin them again.

A job is a command line that a page asked for and a worker runs. Leaves out: the worker (playproof worker).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit
from playproof.home import home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from playproof.operate.jobs.queue import Job

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])

JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job, or its start.")]


@app.command(name="ls")
def list_all(
    *,
    status: Annotated[
        str | None, typer.Option(help="Only jobs that are waiting, running, done, failed or cancelled.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many, the latest first.", min=1)] = 30,
    as_json: AsJson = False,
) -> None:
    """List the jobs of the home, the latest first.

    Example: playproof jobs ls --status running
    """
    from playproof.errors import UnknownName
    from playproof.operate.jobs.queue import list_jobs
    from playproof.store.db import JOB_STATUSES, opened, ready

    if status is not None and status not in JOB_STATUSES:
        raise UnknownName("status of a job", status, JOB_STATUSES)
    with opened(home()) as engine:
        jobs = list_jobs(ready(engine), home(), status=status, limit=limit)
    emit({"jobs": [asdict(job) for job in jobs]}, as_json, lambda: _table(jobs))


@app.command()
def show(job_id: JobId, *, as_json: AsJson = False) -> None:
    """Show one job, and the end of what it printed.

    Example: playproof jobs show 3f2a
    """
    from playproof.operate.jobs.queue import read_job
    from playproof.operate.jobs.worker import read_log
    from playproof.store.db import opened, ready

    with opened(home()) as engine:
        job = read_job(ready(engine), home(), job_id)
    log = read_log(home(), job.job_id)
    emit(asdict(job) | {"log": log}, as_json, lambda: _details(job, log))


@app.command()
def cancel(job_id: JobId, *, as_json: AsJson = False) -> None:
    """Cancel a job: one that runs is interrupted as by Ctrl-C.

    Example: playproof jobs cancel 3f2a
    """
    from datetime import UTC, datetime

    from playproof.operate.jobs.queue import cancel as cancel_job
    from playproof.store.db import opened, ready

    with opened(home()) as engine:
        job = cancel_job(ready(engine), home(), job_id, datetime.now(UTC))
    emit(asdict(job), as_json, lambda: _table([job]))


@app.command()
def retry(job_id: JobId, *, as_json: AsJson = False) -> None:
    """Begin a job again that failed or was cancelled; a training goes on from its resume point.

    Example: playproof jobs retry 3f2a
    """
    from playproof.operate.jobs.queue import retry as retry_job
    from playproof.store.db import opened, ready

    with opened(home()) as engine:
        job = retry_job(ready(engine), home(), job_id)
    emit(asdict(job), as_json, lambda: _table([job]))


def _table(jobs: Sequence[Job]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("job", "command", "status", "tries", "asked by", "why", title_justify="left")
    for job in jobs:
        status = f"{job.status}, to be cancelled" if job.cancel_asked and job.status == "running" else job.status
        row = (job.job_id[:8], job.command, status, str(job.attempts), job.requested_by, job.reason or "")
        table.add_row(*map(Text, row))
    return table


def _details(job: Job, log: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("what", "value", title=Text(job.command), title_justify="left")
    for name, value in asdict(job).items():
        if name not in ("arguments", "home_id"):
            table.add_row(name.replace("_", " "), Text("" if value is None else str(value)))
    table.add_row("log", Text(log[-4_000:]))
    return table
