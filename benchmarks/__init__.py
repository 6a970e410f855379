"""Measure speed and latency against goals and peers, and write docs/results/benchmarks.md.

A benchmark is a module of this package with a function `run() -> dict` that gives the object of
`benchmarks.report.Report`. Run one with `python -m benchmarks NAME --json` from the project's root.
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
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.report import BenchmarkReport, markdown, tables
from playproof.cli.output import AsJson, emit, note
from playproof.errors import PlayproofError, UnknownName

app = typer.Typer(add_completion=False)
NAMES = (
    "bot",
    "dataset",
    "env",
    "grpo",
    "imports",
    "imports.studio",
    "server",
    "store",
    "train",
    "trajectories",
    "validate",
)
"""Every benchmark: a module of this package with a function `run`."""


def load(name: str) -> Callable[[], dict[str, Any]]:
    """Import a benchmark by its name; its imports are heavy, so that only the one asked for is loaded."""
    if name not in NAMES:
        raise UnknownName("benchmark", name, NAMES)
    run: Callable[[], dict[str, Any]] = import_module(f"benchmarks.{name}").run
    return run


def run_apart(name: str) -> BenchmarkReport:
    """Run one bench in a process of its own, so that it measures what it measures alone."""
    command = [sys.executable, "-m", "benchmarks", name, "--json"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if answer.returncode not in (0, 2):
        raise PlayproofError(
            f"bench {name!r} ended with exit code {answer.returncode}; run: python -m benchmarks {name}"
        )
    return BenchmarkReport.from_json(json.loads(answer.stdout))


def machine() -> str:
    """Describe the machine that measured: processor, cores, Python, system."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


def page(reports: list[BenchmarkReport], measured: datetime) -> str:
    """Write the benchmarks page."""
    commits = ", ".join(sorted({report.commit for report in reports}))
    head = f"# Benchmarks\n\nWritten by `make bench` on {measured:%Y-%m-%d}, commit {commits}.\n{machine()}.\n"
    return "\n".join([head, *(markdown(report) for report in reports)])


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="The bench to run; all of them if left out.")] = None,
    *,
    as_json: AsJson = False,
    output: Annotated[Path, typer.Option(help="The page that a run of all benches writes.")] = Path(
        "docs/results/benchmarks.md"
    ),
) -> None:
    """Run one bench, or all of them and write the page of benchmarks. Exit code 2: a goal is not met.

    Example: python -m benchmarks env --json
    """
    if name is not None:
        reports = [BenchmarkReport.from_json(load(name)())]
        emit(reports[0].to_json(), as_json, lambda: tables(reports[0]))
    else:
        reports = _run_all(output)
        emit({"benches": [report.to_json() for report in reports]}, as_json, lambda: _all_tables(reports))
    if not all(report.met for report in reports):
        raise typer.Exit(2)


def _run_all(output: Path) -> list[BenchmarkReport]:
    """Run every bench, one after the other, and write the page last."""
    reports = []
    for name in NAMES:
        note(f"bench {name} ...")
        reports.append(run_apart(name))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(reports, datetime.now(UTC)))
    note(f"wrote {output}")
    return reports


def _all_tables(reports: list[BenchmarkReport]) -> Any:
    from rich.console import Group

    return Group(*(tables(report) for report in reports))
