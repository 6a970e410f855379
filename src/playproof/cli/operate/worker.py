"""Run the jobs of the home, until Ctrl-C."""

from __future__ import annotations

from typing import Annotated

import typer

from playproof.cli.output import note
from playproof.home import home

app = typer.Typer(help=__doc__.partition("\n")[0])


@app.command()
def worker(
    *,
    slots: Annotated[int, typer.Option(min=1, max=64, help="Jobs at a time.")] = 2,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when nothing is left to do.")] = False,
    parent: Annotated[int, typer.Option(help="End when this process is gone.", hidden=True)] = 0,
) -> None:
    """Run jobs; `playproof dashboard` starts a worker of its own.

    Jobs outlive a worker that is killed: the next one watches them. Ctrl-C interrupts them, and those that can go on
    do so with the next worker.

    Example: playproof worker --until-idle
    """
    import os
    import signal

    from playproof.operate.jobs.worker import JobWorker
    from playproof.store.db import opened, ready

    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _: stopped.append(caught))
    with opened(home()) as engine:
        working = JobWorker(ready(engine), home(), slots=slots, say=note)
        note(f"working for {home()} (Ctrl-C ends)")
        working.run(lambda: bool(stopped) or (parent > 0 and os.getppid() != parent), until_idle=until_idle)
