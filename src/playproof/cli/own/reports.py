"""Look at reports: list them with their verdicts, open one, and move them to the trash."""

from __future__ import annotations

import webbrowser
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import nearest
from playproof.errors import UnknownName

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])
ReportName = Annotated[str, typer.Argument(help="A report's name, or the policy's that it is about (the newest).")]


@app.callback()
def group() -> None:
    """Look at reports: list them with their verdicts, open one, and move them to the trash."""


@app.command("ls")
def list_reports(*, as_json: AsJson = False) -> None:
    """List reports: what each is about, its verdict and when it was written.

    Example: playproof reports ls
    """
    from playproof.cli.own.listing import reports, table
    from playproof.home import home

    items = sorted(reports(home()), key=lambda item: (item.when, item.name))
    emit({"reports": [asdict(item) for item in items]}, as_json, lambda: table(items))
    if not items and not as_json:
        note("no report is here yet; next: playproof validate hold-40 --world published --rounds 500")


@app.command("open")
def open_report(
    report: ReportName, *, browser: Annotated[bool, typer.Option(help="Open it in a browser.")] = True
) -> None:
    """Open a report's page in a browser, and print its path.

    Example: playproof reports open hold-40 --no-browser
    """
    path = find_report(report)
    page = path if path.is_file() else path / "report.html"
    typer.echo(str(page))
    if browser and not webbrowser.open(page.as_uri()):
        note("no browser could be opened; open the path above in one")


@app.command("rm")
def remove(report: ReportName) -> None:
    """Move a report to the trash; `playproof trash restore reports/NAME` takes it back.

    Example: playproof reports rm validate-d2fa1c643417-dc00ea5e8b3d
    """
    from playproof.trash import discard

    path = find_report(report)
    if path.is_file():
        raise UnknownName("report that is a folder", report, [])
    item = discard(path, datetime.now(UTC))
    note(f"{item.label} is in the trash; next: playproof trash restore {item.label}")


def find_report(name: str) -> Path:
    """Find a report by its name, or the newest about a policy."""
    from playproof.cli.own.listing import read_report
    from playproof.home import home

    every = sorted((home() / "reports").glob("*"), key=lambda path: path.stat().st_mtime)
    named = [path for path in every if path.name == name]
    about = [path for path in every if read_report(path).get("policy", {}).get("name") == name]
    if not named and not about:
        policies = {str(read_report(path).get("policy", {}).get("name", "")) for path in every} - {""}
        raise UnknownName(
            "report, or policy that one is about", name, nearest(name, [path.name for path in every] + sorted(policies))
        )
    return (named or about)[-1]
