"""Study the validator itself: how often it is wrong about policies, pipelines and rewards whose worth is known.

Leaves out: the runs (study) and the page (page).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from studies.validator.study import Share, StudyNotes, StudyTask

app = typer.Typer()
NOT_AS_WANTED = 2
KEPT = 2.0
"""Seconds of work that are written down together."""


@app.command()
def study(
    *,
    small: Annotated[bool, typer.Option(help="A study of less than two minutes.")] = False,
    part: Annotated[list[str] | None, typer.Option(help="Only these parts: null, edge, leak, mutant ...")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so long, 0 at once; run it again to go on.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all runs: same seed, same study.")] = 1,
    game: Annotated[str | None, typer.Option(help="The game to study with; default: the first that can be.")] = None,
    engine: Annotated[str, typer.Option(help="Where runs are done: local or ray.")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Processes to work with.")] = 1,
    page: Annotated[Path | None, typer.Option(help="Write the page of results here, its pictures beside it.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the runs; default: runs/studies of the home.")] = None,
    as_json: AsJson = False,
) -> None:
    """Validate the validator; exit code 2 if a figure is not as wanted. A study that was stopped goes on.

    Example: python -m studies.validator --small
    """
    from dataclasses import replace
    from datetime import UTC, datetime

    from rich.console import Group

    from playproof.home import folder
    from playproof.provenance import commit
    from studies.validator.page import write_page
    from studies.validator.study import StudyConfig, StudyNotes, commits, costs, first_studying, left, summarise

    name = game or first_studying()
    config = replace(StudyConfig.small(name) if small else StudyConfig(name), seed=seed)
    notes = StudyNotes((output or folder("runs") / "studies") / f"study-{config.hash}.jsonl")
    done = notes.read()
    tasks = list(left(config, done, tuple(part or ())))
    note(f"{len(done):,} runs done, {len(tasks):,} to do: {notes.path}")
    if seconds != 0:
        _work(tasks, notes, engine, workers, seconds, commit())
    done = notes.read()
    shares = summarise(done)
    if page is not None:
        write_page(page, config, done, datetime.now(UTC), commit())
        note(f"wrote {page}")
    whole = len(list(left(config, done, tuple(part or ())))) == 0
    payload = [
        {"part": share.part, "name": share.name, "hits": share.hits, "runs": share.runs, "rate": share.rate,
         "wanted": share.wanted.text, "met": share.met} for share in shares
    ]  # fmt: skip
    spent = [{"part": part, "runs": runs, "seconds": round(taken, 1)} for part, runs, taken in costs(done)]
    summary = {"study": config.hash, "runs": len(done), "whole": whole, "commits": commits(done), "costs": spent}
    emit(summary | {"shares": payload}, as_json, lambda: Group(shown(shares), spending(costs(done))))
    if whole and not all(share.met for share in shares):
        raise typer.Exit(NOT_AS_WANTED)


def _work(
    tasks: list[StudyTask], notes: StudyNotes, engine: str, workers: int, seconds: float | None, commit: str
) -> None:
    """Do runs and write them down, some at a time, until all are done or time is up."""
    import time

    from playproof.parallel import LocalEngine, make_engine
    from studies.validator.study import timed_unit

    start = payload = kept = time.monotonic()
    where = make_engine("ray", workers) if engine == "ray" else LocalEngine(workers, processes=True)
    waiting: list[dict[str, Any]] = []
    for number, result in enumerate(where.map(timed_unit, tasks), start=1):
        waiting.append(result | {"commit": commit})
        now = time.monotonic()
        over = seconds is not None and now - start > seconds
        if now - kept > KEPT or number == len(tasks) or over:
            notes.write(waiting)
            waiting, kept = [], now
        if now - payload > 20:
            payload = now
            note(f"{number:,} of {len(tasks):,} runs, {now - start:.0f} s")
        if over:
            return


def shown(shares: Sequence[Share]) -> RenderableType:
    """Lay the figures out for a terminal."""
    from rich.table import Table

    table = Table("part", "what", "count", "rate", "wanted", "met", title="The validator, validated")
    for share in shares:
        met = "[green]yes[/]" if share.met else "[red]no[/]"
        table.add_row(
            share.part, share.name, f"{share.hits} of {share.runs}", f"{share.rate:.1%}", share.wanted.text, met
        )
    return table


def spending(result: Sequence[tuple[str, int, float]]) -> RenderableType:
    """Lay out what the parts took."""
    from rich.table import Table

    table = Table("part", "runs", "CPU s a run", "CPU s", title="What it took")
    for part, runs, seconds in result:
        table.add_row(part, f"{runs:,}", f"{seconds / runs:.2f}", f"{seconds:,.0f}")
    table.add_row("all", f"{sum(item[1] for item in result):,}", "", f"{sum(item[2] for item in result):,.0f}")
    return table
