"""The command `playproof`: a group whose commands are imported only when they are called.

A command is an entry point of the group "playproof.commands": its name, and "module:app" with a Typer app. The
line that `--help` shows for it is the first line of that module's docstring, read without importing it.
"""

from __future__ import annotations

import ast
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from playproof import __version__
from playproof.cli.output import print_anywhere, printable
from playproof.errors import ConfigError, ContractError, PlayproofError, missing_extra

GROUP = "playproof.commands"
DEBUG = "PLAYPROOF_DEBUG"
COMPLETING = "_PLAYPROOF_COMPLETE"
INTERRUPTED = 130
BROKEN_PIPE = 1

_COMPLETION = ("install_completion", "show_completion")
"""Options that Typer gives every app, and that make no sense below the top."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"playproof {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show a traceback with every error; {DEBUG}=1 does the same.")
    ] = False,
) -> None:
    """Record play of market games, train agents on it, and prove, or refuse to claim, that they have an edge.

    Exit codes: 0 done, 1 error, 2 a gate or goal failed.

    Example: playproof doctor
    """
    if debug:
        os.environ[DEBUG] = "1"
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


class LazyCommand(TyperCommand):
    """Stand for a command in listings, and become the real one when it is called."""

    def __init__(self, name: str, target: str) -> None:
        self.target = target
        super().__init__(name=name, help=first_line(target.partition(":")[0]))

    def load(self) -> Any:
        """Import the command that this one stands for."""
        module, _, attribute = self.target.partition(":")
        try:
            app = getattr(import_module(module), attribute, None)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"command {self.name!r} needs the module {error.name!r}, which is not installed; run: playproof doctor"
            ) from error
        if not isinstance(app, typer.Typer):
            raise ContractError(f"expected a Typer app at {self.target} for command {self.name!r}, found {app!r}")
        command = get_command(plain_help(app))
        command.name = self.name
        command.params = [param for param in command.params if param.name not in _COMPLETION]
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: object = None, **extra: object) -> Any:
        """Hand the call over to the real command."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


def plain_help(app: typer.Typer) -> typer.Typer:
    """Print help as it is written: rich would read brackets as styles and `choice:A:B` as an emoji."""
    app.rich_markup_mode = None
    for group in app.registered_groups:
        if group.typer_instance is not None:
            plain_help(group.typer_instance)
    return app


def first_line(module: str) -> str:
    """Read the first line of a module's docstring without importing anything; empty if there is none."""
    top, *rest = module.split(".")
    spec = find_spec(top)
    for folder in (spec and spec.submodule_search_locations) or []:
        stem = Path(folder, *rest)
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.exists():
                return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return ""


def command_line() -> TyperGroup:
    """Build the group with every command that is installed."""
    app = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
    app.callback(invoke_without_command=True)(_root)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    targets = {point.name: point.value for point in entry_points(group=GROUP)}
    for name in sorted(targets):
        group.add_command(LazyCommand(name, targets[name]))
    return group


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    if COMPLETING in os.environ:
        command_line()(prog_name="playproof")  # a shell asks for completions; this exits
    return run_command(command_line(), "playproof", args)


def run_app(app: typer.Typer, name: str, args: Sequence[str] | None = None) -> int:
    """Run a Typer app outside the group, such as the benchmarks, with the same exit codes and errors."""
    return run_command(get_command(plain_help(app)), name, args)


def run_command(command: Any, name: str, args: Sequence[str] | None) -> int:
    """Run a command and turn every expected way out of it into an exit code."""
    print_anywhere()
    words = list(sys.argv[1:] if args is None else args)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    try:
        with command.make_context(name, words) as context:
            context.command.invoke(context)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe such as `| head` has gone: later writes must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except typer.Exit as done:
        return done.exit_code
    except typer.TyperException as error:
        return _usage(error)
    except (PlayproofError, ModuleNotFoundError) as error:
        known = missing_extra(error) if isinstance(error, ModuleNotFoundError) else error
        if known is None:
            raise
        return _fail(known)
    return 0


def _usage(error: typer.TyperException) -> int:
    """Say how a call was wrong; a group called without a command has already printed its help."""
    if message := error.format_message():
        context = getattr(error, "ctx", None)
        hint = f" Try: {context.command_path} --help" if context else ""
        _red(f"{message}{hint}")
    return 1


def _fail(error: PlayproofError) -> int:
    """Say what went wrong in one line, after the traceback where one is wanted."""
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        traceback.print_exception(error)
    _red(str(error))
    return error.exit_code


def _red(message: str) -> None:
    typer.secho(f"error: {printable(' '.join(message.split()))}", err=True, fg="red")
