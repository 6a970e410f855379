"""Write the commands reference, docs/reference/commands.md, from the commands themselves: `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typer.core import TyperGroup

from playproof.cli.app import LazyCommand, command_line

HEAD = """# Commands

Written by `make docs` from the commands themselves; a test checks that it is current.
Every command knows `--help`. Exit codes: 0 done, 1 error, 2 a gate or goal failed.
"""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command of the tree, loaded."""

    path: tuple[str, ...]
    """The words that call it, `playproof` first."""
    command: Any
    context: Any

    @property
    def leaf(self) -> bool:
        """Tell whether it does something itself, not only holds commands."""
        return not isinstance(self.command, TyperGroup)

    @property
    def call(self) -> str:
        """Give the words that call it."""
        return " ".join(self.path)


def walk() -> Iterator[CommandEntry]:
    """Give every command, parents before children; this imports all of them."""
    yield from _walk(command_line(), ("playproof",), None)


def _walk(command: Any, path: tuple[str, ...], parent: Any) -> Iterator[CommandEntry]:
    if isinstance(command, LazyCommand):
        command = command.load()
    context = command.context_class(command, info_name=path[-1], parent=parent)
    yield CommandEntry(path, command, context)
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _walk(child, (*path, name), context)


def section(entry: CommandEntry) -> str:
    """Write one command: its words, its usage, its help and its options."""
    usage = " ".join([entry.call, *entry.command.collect_usage_pieces(entry.context)])
    lines = [f"## {entry.call}", "", "```text", usage, "```", "", _prose(entry.command.help)]
    if entry.command.epilog:
        lines += ["", _prose(entry.command.epilog)]
    if options := [line for param in entry.command.params if (line := _parameter(param))]:
        lines += ["", *options]
    return "\n".join([*lines, ""])


def _prose(text: str | None) -> str:
    """Join the lines of each paragraph, and show examples as code."""
    paragraphs = [" ".join(part.split()) for part in (text or "").replace("\b", "").split("\n\n")]
    return "\n\n".join(_code(paragraph) for paragraph in paragraphs)


def _code(paragraph: str) -> str:
    start, result, call = paragraph.partition("Example: ")
    return f"{start}Example: `{call}`" if result else paragraph


def _parameter(param: Any) -> str | None:
    """Write one option or argument as a list item; hidden ones are left out."""
    if getattr(param, "hidden", False) or "--help" in param.opts:
        return None
    name = ", ".join(param.opts) if param.param_type_name == "option" else param.metavar or param.name
    default = param.default
    if isinstance(param_text := getattr(param, "show_default", None), str):  # a setting: its dataclass has the default
        default = param_text
    shown = "" if default in (None, False, ()) or callable(default) else f" (default: {default})"
    return f"- `{name}`: {(param.help or '').strip()}{shown}"


def reference() -> str:
    """Write the whole page."""
    return "\n".join([HEAD, *(section(entry) for entry in walk())])


if __name__ == "__main__":
    sys.stdout.write(reference())
