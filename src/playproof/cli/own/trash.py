"""Look at what was moved to the trash, take something back, or remove it all for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.trash import empty_trash, list_trash
from playproof.trash import restore as take_back

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(no_args_is_help=True, help=__doc__.partition("\n")[0])


@app.callback()
def group() -> None:
    """Look at what was moved to the trash, take something back, or remove it all for good."""


@app.command("ls")
def list_items(*, as_json: AsJson = False) -> None:
    """List what is in the trash, the newest first.

    Example: playproof trash ls
    """
    items = list_trash()
    data = [{"name": item.label, "at": item.at.isoformat(), "key": item.key} for item in items]

    def table() -> Table:
        from rich.table import Table
        from rich.text import Text

        result = Table("name", "moved (UTC)", "key")
        for item in items:
            result.add_row(Text(item.label), f"{item.at:%Y-%m-%d %H:%M}", Text(item.key))
        return result

    emit({"trash": data}, as_json, table)
    if not items and not as_json:
        note("the trash is empty")


@app.command()
def restore(name: Annotated[str, typer.Argument(help="KIND/NAME, a name alone, or a key of `trash ls`.")]) -> None:
    """Move something back to where it was.

    Example: playproof trash restore runs/first
    """
    note(f"back at {take_back(name)}")


@app.command()
def empty(*, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Remove everything in the trash for good.

    Example: playproof trash empty --yes
    """
    count = len(list_trash())
    if count and not yes:
        typer.confirm(f"Remove {count} things for good?", abort=True)
    note(f"{empty_trash()} things removed")
