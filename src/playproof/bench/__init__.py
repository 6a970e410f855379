"""Measure speed and latency against goals and peers, and write docs/benchmarks.md.

A bench is a function `run() -> dict` that gives the object of `playproof.bench.report.Report`. It is found by
name: in BENCHES here, or under the entry-point group "playproof.benches", by which games bring theirs.
Leaves out: the benches themselves.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from playproof.bench.report import Report, markdown, tables
from playproof.cli.output import AsJson, emit, note
from playproof.errors import ContractError, PlayproofError, UnknownName

GROUP = "playproof.benches"
BENCHES: dict[str, str] = {"dataset": "playproof.bench.dataset:run", "store": "playproof.bench.store:run"}
"""Benches that belong to no game: name to "module:function"."""

app = typer.Typer()


def benches() -> dict[str, str]:
    """Give every known bench by name, sorted, as "module:function"."""
    found = {point.name: point.value for point in entry_points(group=GROUP)}
    return dict(sorted({**found, **BENCHES}.items()))


def load(name: str) -> Callable[[], dict[str, Any]]:
    """Import a bench by its name."""
    known = benches()
    if name not in known:
        raise UnknownName("bench", name, known)
    module, _, attribute = known[name].partition(":")
    run: Callable[[], dict[str, Any]] | None = getattr(import_module(module), attribute, None)
    if run is None:
        raise ContractError(f"expected bench {name!r} at {known[name]}, found no {attribute!r} in that module")
    return run


def run_apart(name: str) -> Report:
    """Run one bench in a process of its own, so that it measures what it measures alone."""
    command = [sys.executable, "-m", "playproof", "bench", name, "--json"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if answer.returncode not in (0, 2):
        raise PlayproofError(f"bench {name!r} ended with exit code {answer.returncode}; run: playproof bench {name}")
    return Report.from_json(json.loads(answer.stdout))


def machine() -> str:
    """Describe the machine that measured: processor, cores, Python, system."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


def page(reports: list[Report], measured: datetime) -> str:
    """Write the benchmarks page."""
    commits = ", ".join(sorted({report.commit for report in reports}))
    head = f"# Benchmarks\n\nWritten by `playproof bench` on {measured:%Y-%m-%d}, commit {commits}.\n{machine()}.\n"
    return "\n".join([head, *(markdown(report) for report in reports)])


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="The bench to run; all of them if left out.")] = None,
    *,
    as_json: AsJson = False,
    output: Annotated[Path, typer.Option(help="The page that a run of all benches writes.")] = Path(
        "docs/benchmarks.md"
    ),
) -> None:
    """Run one bench, or all of them and write the page of benchmarks. Exit code 2: a goal is not met.

    Example: playproof bench env --json
    """
    if name is not None:
        reports = [Report.from_json(load(name)())]
        emit(reports[0].to_json(), as_json, lambda: tables(reports[0]))
    else:
        reports = _run_all(output)
        emit({"benches": [report.to_json() for report in reports]}, as_json, lambda: _all_tables(reports))
    if not all(report.met for report in reports):
        raise typer.Exit(2)


def _run_all(output: Path) -> list[Report]:
    """Run every bench, one after the other, and write the page last."""
    reports = []
    for name in benches():
        note(f"bench {name} ...")
        reports.append(run_apart(name))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(reports, datetime.now(UTC)))
    note(f"wrote {output}")
    return reports


def _all_tables(reports: list[Report]) -> Any:
    from rich.console import Group

    return Group(*(tables(report) for report in reports))
