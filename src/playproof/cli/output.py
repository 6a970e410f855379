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
    from rich.table import Table
    from rich.text import Text

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
    shown = console()
    shown.print(fitted(table() if callable(table) else table, shown))


def fitted(shown: RenderableType, on: Console) -> RenderableType:
    """Give a table that is too wide for its console as records, one row under the other; anything else as it is.

    A table that only has to wrap between words stays one: rich cuts words, and at last whole columns, to make room.
    """
    from rich.console import Group
    from rich.table import Table

    if isinstance(shown, Group):
        return Group(*(fitted(part, on) for part in shown.renderables))
    if not isinstance(shown, Table) or len(shown.columns) < 2:
        return shown
    return records(shown) if least_width(shown) > on.width else shown


def least_width(table: Table) -> int:
    """Give the characters that a table needs for its longest words, and for whole cells where it may not wrap."""
    from rich.cells import cell_len

    total = 1
    for column in table.columns:
        texts = [_text(cell).plain for cell in (column.header, *column.cells)]
        parts = texts if column.no_wrap else [word for text in texts for word in text.split()]
        total += max((cell_len(part) for part in parts), default=0) + 3
    return total


def records(table: Table) -> RenderableType:
    """Write every row of a table as its values with their names; what is empty is left out."""
    from rich.console import Group
    from rich.text import Text

    heads = [_text(column.header) for column in table.columns]
    width = max((len(head.plain) for head in heads), default=0)
    lines: list[RenderableType] = [_text(table.title)] if table.title else []
    for row in zip(*(list(column.cells) for column in table.columns), strict=True):
        first = True
        for head, cell in zip(heads, row, strict=True):
            value = _text(cell)
            if not value.plain.strip():
                continue
            mark = "- " if first else "  "
            lines.append(Text.assemble(mark, (head.plain.ljust(width), "bold"), "  ", value))
            first = False
    if not table.row_count:
        lines.append(Text("no rows: " + ", ".join(head.plain for head in heads)))
    if table.caption:
        lines.append(_text(table.caption))
    return Group(*lines)


def _text(cell: object) -> Text:
    """Give a cell as text; a plain string is read as markup, as tables do."""
    from rich.text import Text

    return cell if isinstance(cell, Text) else Text.from_markup(str(cell))


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
