"""The documents keep their word: their blocks are run, and what they show is what comes out.

Of README.md and docs/**/*.md are run, in a folder of their own per document:
- every python block; the blocks of one document are one program;
- every console or bash block with `$ ` lines, and every bash block after `<!-- run -->`. A block must end
  with exit code 0, or with N after `<!-- exit: N -->`. Lines that a `$ ` line shows below it must appear in what
  it prints, in order; `...` stands for anything.
A block after `<!-- not run: reason -->` is left out. `make` lines are checked for being targets of the Makefile.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from old_recordings import write_recordings
from own_store import write_own_store

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN_RECORDINGS = "my-recordings"
"""A reader's own folder, which the documents speak of; here it holds simulated rounds."""
OWN_STORE = "my-event-store"
"""A reader's own event store; here it holds a scripted player's rounds."""
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- *(not run|run|exit)(?:: *([^>]*?))? *-->\s*\Z")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def name_of(document: Path) -> str:
    """Name a document by its path in the project; folders share file names."""
    return str(document.relative_to(ROOT)) if document.is_relative_to(ROOT) else document.name


@dataclass(frozen=True)
class Block:
    """One fenced block of a document."""

    document: Path
    line: int
    """Of its first line of text, from 1."""
    language: str
    text: str
    mark: str | None = None
    said: str = ""
    """What the mark says: the reason, or the exit code."""

    def __str__(self) -> str:
        return f"{name_of(self.document)}:{self.line}"

    @property
    def runs(self) -> bool:
        if self.mark == "not run":
            return False
        if self.language == "python":
            return True
        return self.language in ("console", "bash") and (self.mark == "run" or "$ " in self.text)

    @property
    def exit_code(self) -> int:
        return int(self.said) if self.mark == "exit" else 0


@dataclass(frozen=True)
class Call:
    """One command line, with what is shown below it."""

    command: str
    shown: tuple[str, ...]


def blocks(document: Path, text: str) -> list[Block]:
    """Cut a document into its fenced blocks."""
    results = []
    for match in FENCE.finditer(text):
        mark = MARK.search(text[: match.start()])
        kind, said = (mark[1], mark[2] or "") if mark else (None, "")
        line = text.count("\n", 0, match.start(3)) + 1
        results.append(Block(document, line, match[2], match[3], kind, said))
    return results


def calls(block: Block) -> Iterator[Call]:
    """Cut a block into calls; a backslash continues a line, and a marked block without `$ ` is one call."""
    if "$ " not in block.text:
        yield Call(block.text, ())
        return
    text = block.text.replace("\\\n", "")
    for part in re.split(r"^ *\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield Call(command, tuple(line.strip() for line in shown if line.strip()))


def shows(printed: str, shown: tuple[str, ...]) -> bool:
    """Tell whether the shown lines are in what was printed, in order."""
    pattern = r".*?".join(".*?".join(re.escape(piece) for piece in re.split(r"\.\.\.", line)) for line in shown)
    return re.search(pattern.replace(r"\ ", r"\s+"), printed, re.DOTALL) is not None


def make_targets(text: str) -> set[str]:
    return set(re.findall(r"^([\w-]+):", text, re.MULTILINE))


def run(call: Call, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a call as a reader would, with the programs of this environment first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PLAYPROOF_HOME": str(folder / "playproof-home"), "COLUMNS": "120"}
    command = ["bash", "-euo", "pipefail", "-c", call.command]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)


def check_make(call: Call) -> None:
    targets = [word for word in shlex.split(call.command)[1:] if "=" not in word]
    assert set(targets) <= make_targets((ROOT / "Makefile").read_text()), call.command


def keeps_its_word(block: Block, folder: Path) -> None:
    """Run one block of commands."""
    every = list(calls(block))
    for call in every:
        if call.command.startswith("make "):
            check_make(call)
            continue
        answer = run(call, folder)
        wanted = block.exit_code if call is every[-1] else 0
        assert answer.returncode == wanted, f"{block}: {call.command}\n{answer.stdout}\n{answer.stderr}"
        assert shows(answer.stdout + answer.stderr, call.shown), f"{block}: {call.command}\n{answer.stdout}"


def program(result: list[Block]) -> str:
    """Join the python blocks of one document, each at its own line, so that tracebacks fit the document."""
    lines: list[str] = []
    for block in result:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_the_blocks_of_a_document_run(document: Path, tmp_path: Path) -> None:
    result = blocks(document, document.read_text(encoding="utf-8"))
    if OWN_RECORDINGS in document.read_text(encoding="utf-8"):
        write_recordings(tmp_path / OWN_RECORDINGS, 12)
    if OWN_STORE in document.read_text(encoding="utf-8"):
        write_own_store(tmp_path / OWN_STORE, 12)
    python = [block for block in result if block.runs and block.language == "python"]
    if python:
        script = tmp_path / document.name
        script.write_text(program(python), encoding="utf-8")
        answer = run(Call(f"python {document.name}", ()), tmp_path)
        assert answer.returncode == 0, answer.stderr
    for block in result:
        if block.runs and block.language != "python":
            keeps_its_word(block, tmp_path)


def test_blocks_that_are_not_run_are_few_and_say_why() -> None:
    skipped = [
        block
        for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]
        for block in blocks(document, document.read_text(encoding="utf-8"))
        if block.mark == "not run"
    ]
    assert all(block.said for block in skipped), [str(block) for block in skipped if not block.said]
    assert len(skipped) <= 6, [f"{block}: {block.said}" for block in skipped]


@pytest.mark.parametrize(
    "document",
    [*DOCUMENTS, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))],
    ids=name_of,
)
def test_links_inside_the_project_lead_somewhere(document: Path) -> None:
    prose = re.sub(r"^```.*?^```|`[^`\n]+`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = LINK.findall(prose)
    assert not [target for target in targets if not (document.parent / target).exists()]


SAMPLE = """
```console
$ echo one \\
  two
one two
$ printf 'a\\nb\\nc\\n'
a
...
c
```

<!-- not run: it never ends -->
```console
$ sleep 1000
```

<!-- exit: 3 -->
```bash
$ exit 3
```

```python
x = 1
```

```text
$ not a command
```

<!-- run -->
```bash
test -n "$PLAYPROOF_HOME"
```
"""


def test_the_reader_of_blocks(tmp_path: Path) -> None:
    result = blocks(tmp_path, SAMPLE)
    assert [block.runs for block in result] == [True, False, True, True, False, True]
    assert result[1].said == "it never ends"
    assert [call.command for call in calls(result[0])] == ["echo one   two", "printf 'a\\nb\\nc\\n'"]
    for block in (result[0], result[2], result[5]):
        keeps_its_word(block, tmp_path)
    assert program([result[3]]).splitlines()[result[3].line - 1] == "x = 1"
    assert SAMPLE.splitlines()[result[3].line - 1] == "x = 1"


@pytest.mark.parametrize(
    "text",
    [
        "$ false",
        "$ echo one\ntwo",
        "$ printf 'c\\na\\n'\na\nc",
        "$ make no-such-target",
        "$ false | true",
        "$ no-such-program",
    ],
)
def test_a_broken_promise_is_noticed(text: str, tmp_path: Path) -> None:
    (block,) = blocks(tmp_path, f"```console\n{text}\n```\n")
    with pytest.raises(AssertionError):
        keeps_its_word(block, tmp_path)


def test_the_map_of_the_code_is_right() -> None:
    text = (ROOT / "docs" / "dev" / "map.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+\? \| `([^`]+)` \| `([^`]+)` \|$", text, re.MULTILINE)
    assert len(rows) >= 12
    for path, name in rows:
        source = (ROOT / "src" / "playproof" / path).read_text(encoding="utf-8")
        assert re.search(rf"^(?:class|def) {name}\b", source, re.MULTILINE), f"{path} defines no {name}"
    folders = re.findall(r"^\| ((?:`[\w/]+/`(?:, )?)+) \|", text, re.MULTILINE)
    assert len(folders) >= 10
    for folder in re.findall(r"`([^`]+)`", " ".join(folders)):
        assert (ROOT / "src" / "playproof" / folder).is_dir(), folder


def test_tests_that_the_documents_name_exist() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    defined = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        paths = re.findall(r"tests/[\w/]+\.\w+", text)
        assert not [path for path in paths if not (ROOT / path).exists()], name_of(document)
        named = re.findall(r"`(test_\w+?)(?:\[\w+\])?`", text)
        assert not set(named) - defined, name_of(document)


def test_the_site_is_built_without_a_warning_and_without_other_hosts(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    site = tmp_path / "site"
    for command in ("mkdocs build --strict --site-dir", "python scripts/docs_site.py"):
        answer = run(Call(f"cd {ROOT} && NO_MKDOCS_2_WARNING=1 {command} {site}", ()), tmp_path)
        assert answer.returncode == 0, answer.stdout + answer.stderr
