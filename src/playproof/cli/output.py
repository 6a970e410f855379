"""The one way commands print: results to stdout as a table or as JSON, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
"""The option that every command with results takes."""

_JSON = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def to_json(data: object) -> str:
    """Write data as indented JSON; dataclasses, numpy values and times included, NaN as null."""
    return orjson.dumps(data, option=_JSON).decode()


def emit(data: object, as_json: bool, table: RenderableType | Callable[[], RenderableType]) -> None:
    """Print a result on stdout: `data` as one JSON value, or `table`, or what `table()` makes."""
    if as_json:
        sys.stdout.write(to_json(data) + "\n")
        return
    console().print(table() if callable(table) else table)


def console() -> Console:
    """Give the console of results, on stdout; 120 columns wide where that is not a terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=120)


def note(message: str) -> None:
    """Print a remark on stderr, where it cannot end up in a pipe."""
    typer.secho(message, err=True, dim=True)


def progress() -> Progress:
    """Give a progress bar on stderr, silent where stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
