"""The command line: light, documented, with one line and one exit code for every error."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from playproof import __version__
from playproof.cli import app as cli
from playproof.cli.app import LazyCommand, command_line, first_line, main
from playproof.cli.output import emit, note, to_json
from playproof.cli.reference import CommandEntry, reference, walk
from playproof.errors import ContractError, GateFailed, InputError, PlayproofError

HEAVY = {"numba", "gymnasium", "torch", "fastapi", "numpy", "polars", "duckdb", "pyarrow", "socketio", "jinja2"}


def playproof(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "playproof", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def imported(*args: str) -> set[str]:
    """Give the modules that a call imports."""
    program = (
        f"import sys; from playproof.cli.app import main; main({list(args)!r}); print(*sys.modules, file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return set(answer.stderr.split())


@pytest.fixture
def lend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Lend the group one command, `playproof lent`, that runs the given function."""

    def install(function: Callable[[], None]) -> None:
        app = typer.Typer()
        app.command()(function)
        monkeypatch.setattr(cli, "command_line", lambda: _with_command(app))

    return install


def _with_command(app: typer.Typer) -> typer.core.TyperGroup:
    group = command_line()
    lent = typer.main.get_command(app)
    group.add_command(lent, "lent")
    return group


@pytest.fixture(scope="module")
def entries() -> list[CommandEntry]:
    return list(walk())


def test_help_lists_every_command_with_a_line_and_imports_nothing_heavy() -> None:
    tops = {name.partition(".")[0] for name in imported("--help")}
    assert not tops & HEAVY
    text = playproof("--help").stdout
    for name, command in command_line().commands.items():
        assert re.search(rf"\b{name}\b", text)
        assert command.help, f"the module of command {name!r} has no docstring"


def test_a_command_imports_only_its_own_module() -> None:
    modules = imported("trials", "--help")
    assert "playproof.cli.proof.trials" in modules
    others = {command.target.partition(":")[0] for command in command_line().commands.values()} - {
        "playproof.cli.proof.trials"
    }
    assert not modules & others
    assert not {name.partition(".")[0] for name in modules} & HEAVY


def test_every_command_says_what_it_does_and_shows_an_example(entries: list[CommandEntry]) -> None:
    for entry in entries:
        text = f"{entry.command.help or ''}\n{entry.command.epilog or ''}"
        assert text.strip(), f"{entry.call} has no help"
        if entry.leaf:
            assert re.search(rf"{entry.call}( |$)", text, re.MULTILINE), f"{entry.call} shows no example of itself"


def test_every_option_is_explained(entries: list[CommandEntry]) -> None:
    for entry in entries:
        for param in entry.command.params:
            assert param.help, f"{entry.call}: {param.name} has no help"


def test_the_reference_is_current(project: Path) -> None:
    assert (project / "docs" / "reference" / "commands.md").read_text() == reference(), "run: make docs"


def test_no_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"playproof {__version__}\n"


@pytest.mark.parametrize("args", [["bogus"], ["--bogus"], ["trials", "--bogus"], ["doctor", "a", "b"]])
def test_wrong_usage_is_an_error_and_not_a_failed_gate(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "--help" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [(PlayproofError("it broke"), 1), (InputError("it broke"), 1), (GateFailed("it broke"), 2), (typer.Exit(2), 2)],
)
def test_errors_become_exit_codes(
    error: Exception, code: int, lend: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    lend(fail)
    assert main(["lent"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == ("" if isinstance(error, typer.Exit) else "error: it broke\n")


def test_an_error_is_one_line_whatever_its_message(
    lend: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ContractError("two clauses:\n  [one]\n  two")

    lend(fail)
    assert main(["lent"]) == 1
    assert capsys.readouterr().err == "error: two clauses: [one] two\n"


def test_debug_shows_a_traceback(
    lend: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise InputError("it broke")

    lend(fail)
    monkeypatch.setenv("PLAYPROOF_DEBUG", "0")
    assert main(["lent"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert main(["--debug", "lent"]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("PLAYPROOF_DEBUG", "1")
    assert main(["lent"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_bug_is_not_hidden(lend: Callable[..., None]) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    lend(fail)
    with pytest.raises(ZeroDivisionError):
        main(["lent"])


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), typer.Abort()])
def test_an_interrupt_is_130(
    interrupt: BaseException, lend: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise interrupt

    lend(fail)
    assert main(["lent"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("args", [["--help"], ["trials", "--help"], ["--version"]])
def test_a_closed_pipe_is_quiet(args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "playproof", *args]
    answer = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (answer.returncode, answer.stderr) == (1, "")


def test_a_command_that_cannot_be_imported_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PlayproofError, match="run: playproof doctor"):
        LazyCommand("gone", "playproof.no_such_module:app").load()
    with pytest.raises(ContractError, match="expected a Typer app"):
        LazyCommand("wrong", "playproof.errors:PlayproofError").load()


def test_the_first_line_is_read_without_importing() -> None:
    assert first_line("playproof.errors") == "The exception tree. Catch PlayproofError to catch them all."
    assert first_line("playproof") == str(sys.modules["playproof"].__doc__).partition("\n")[0]
    assert first_line("playproof.no_such_module") == ""
    assert first_line("no_such_package.module") == ""


def test_json_goes_to_stdout_and_notes_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": [1.5, None]}, True, "not shown")
    note("a remark")
    out, err = capsys.readouterr()
    assert json.loads(out) == {"a": [1.5, None]}
    assert err == "a remark\n"


def test_a_table_may_be_made_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    emit({}, False, lambda: "made")
    emit({}, False, "given")
    assert capsys.readouterr().out == "made\ngiven\n"


def test_json_writes_the_unknown_as_null() -> None:
    assert json.loads(to_json({"x": float("nan"), 3: "three"})) == {"x": None, "3": "three"}


def test_games_lists_every_game(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["games", "--json"]) == 0
    games = json.loads(capsys.readouterr().out)["games"]
    assert games
    assert all(set(game) == {"name", "version", "worlds", "market"} and game["worlds"] for game in games)
    assert main(["games"]) == 0
    table = capsys.readouterr().out
    assert all(game["name"] in table for game in games)
