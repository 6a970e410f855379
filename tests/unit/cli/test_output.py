"""What commands print: no control character of strangers reaches a terminal, and every locale can show results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from playproof.cli.app import main
from playproof.cli.output import console, emit, note, printable

HOSTILE = "a\x1b]0;owned\x07b\x1b[2J\x9b31mc\x00\r\u202egnp.exe\u2066\x7f\x08"
CONTROLS = frozenset("\x1b\x07\x9b\x00\r\x7f\x08\u202e\u2066\u2028")


def assert_harmless(written: str) -> None:
    assert "owned" in written
    assert not CONTROLS & set(written), ascii(written)


def test_printable_keeps_lines_and_letters() -> None:
    assert printable("é\t中\nמ") == "é\t中\nמ"
    assert_harmless(printable(HOSTILE))


def test_tables_texts_and_json_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(HOSTILE, title=Text(HOSTILE))
    table.add_row(Text(HOSTILE))
    table.add_row(escape(HOSTILE))
    for printed in (table, Text(HOSTILE), HOSTILE):
        emit({}, False, printed)
        assert_harmless(capsys.readouterr().out)
    emit({"text": HOSTILE}, True, "")
    written = capsys.readouterr().out
    assert_harmless(written)
    assert json.loads(written) == {"text": HOSTILE}
    console(stderr=True).print(Text(HOSTILE))
    note(HOSTILE)
    assert_harmless(capsys.readouterr().err)


def test_queries_import_reports_and_errors_are_harmless(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["store", "query", "select chr(27) || ']0;owned' || chr(7) || chr(155) as x"])
    shown = capsys.readouterr()
    assert_harmless(shown.out + shown.err)
    folder = tmp_path / "recordings"
    folder.mkdir()
    (folder / "a\x1b]0;owned\x07.jsonl").write_bytes(b'{"x": "\x1b]0;owned\x07"\n\x00')
    main(["import", str(folder), "--home", str(home)])
    shown = capsys.readouterr()
    assert not CONTROLS & set(shown.out + shown.err)
    assert main(["no\x1b]0;owned\x07"]) == 1
    assert_harmless(capsys.readouterr().err)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("args", [["store", "ls"], ["doctor", "--help"], ["models", "ls"], ["--help"]])
def test_commands_print_in_every_locale(args: list[str], encoding: str, tmp_path: Path) -> None:
    environment = os.environ | {"LC_ALL": "C", "COLUMNS": "40", "PYTHONIOENCODING": f"{encoding}:strict"}
    environment |= {"PLAYPROOF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "playproof", *args], env=environment, capture_output=True, check=False, timeout=120
    )
    assert b"Traceback" not in done.stderr
    assert b"Error" not in done.stderr, done.stderr


def test_what_an_encoding_lacks_is_replaced(tmp_path: Path) -> None:
    code = (
        "from playproof.cli.output import *; print_anywhere(); emit({}, False, 'long \\u2026 \\u05d0'); note('\\u2026')"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict", "PLAYPROOF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.split()) == (0, [b"long", b"?", b"?"]), done.stderr


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("columns", [2, 5, 12, 40])
def test_a_table_that_does_not_fit_becomes_records(width: int, columns: int) -> None:
    from rich.table import Table

    from playproof.cli.output import console, fitted

    table = Table(*(f"column-{number}" for number in range(columns)), title="rows of somebody")
    for row in range(3):
        table.add_row(*(f"value-{row}-{number}" for number in range(columns)))
    on = console(width=width)
    with on.capture() as captured:
        on.print(fitted(table, on))
    text = captured.get()
    for row in range(3):
        for number in range(columns):
            assert f"value-{row}-{number}" in text, "no value is cut or left out"
    assert all(len(line) <= width for line in text.splitlines())


def test_a_table_that_only_wraps_stays_a_table() -> None:
    from rich.table import Table

    from playproof.cli.output import console, fitted

    table = Table("gate", "finding")
    table.add_row("M1", "a long sentence " * 20)
    assert fitted(table, console(width=80)) is table
