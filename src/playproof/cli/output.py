"""The one way commands print: results to stdout as a table or as JSON, everything else to stderr.

What was recorded or imported was written by strangers. `printable` takes control characters out of it, so that no text
sets a title, clears the screen or turns the order of letters around; every console and remark here goes through it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.progress import Progress

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
"""The option that every command with results takes."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters but for line feed and tab: C0, C1, separators and marks of direction, lone surrogates."""
_JSON = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def to_json(data: object) -> str:
    """Write data as indented JSON; dataclasses, numpy values and times included, NaN as null."""
    written = orjson.dumps(data, option=_JSON).decode()
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", written)  # the same value, harmless in a terminal


def printable(text: str) -> str:
    """Give a text of strangers as it may be printed: a control character becomes a replacement character."""
    return _CONTROL.sub("\ufffd", text)


def print_anywhere() -> None:
    """Let results be printed in every locale: what an encoding lacks becomes a question mark, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and not (stream.encoding or "").lower().startswith("utf"):
            stream.reconfigure(errors="replace")


def emit(data: object, as_json: bool, table: RenderableType | Callable[[], RenderableType]) -> None:
    """Print a result on stdout: `data` as one JSON value, or `table`, or what `table()` makes."""
    if as_json:
        sys.stdout.write(to_json(data) + "\n")
        return
    console().print(table() if callable(table) else table)


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Give the console of results, on stdout; 120 columns wide where that is not a terminal."""
    from rich.console import Console
    from rich.segment import Segment

    class PrintableConsole(Console):
        """A console whose texts are printable, whoever wrote them; colours and cursor movements are its own."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """Draw with control characters replaced."""
            for segment in super().render(renderable, options):
                if segment.control or not _CONTROL.search(segment.text):
                    yield segment
                else:
                    # Taken out and not replaced: tables are laid out as if control characters had no width.
                    yield Segment(_CONTROL.sub("", segment.text), segment.style)

    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return PrintableConsole(stderr=stderr, width=width or (None if is_terminal else 120))


def note(message: str) -> None:
    """Print a remark on stderr, where it cannot end up in a pipe."""
    typer.secho(printable(message), err=True, dim=True)


def progress() -> Progress:
    """Give a progress bar on stderr, silent where stderr is not a terminal."""
    from rich.progress import Progress

    return Progress(console=console(stderr=True), transient=True, disable=not sys.stderr.isatty())
