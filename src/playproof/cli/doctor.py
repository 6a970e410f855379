"""Tell what is installed, what is missing and how to get it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import playproof
from playproof.cli.output import AsJson, emit
from playproof.home import home
from playproof.json_types import Json
from playproof.provenance import commit
from playproof.record.feeds.chromium import find_chromium

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer()

TORCH = "torch"
"""Installed first and alone, so that its pin decides."""

_REQUIREMENT = re.compile(
    r"""(?P<name>[\w.-]+)(\[[\w,]+\])?(?P<wanted>[^;]*)(;.*extra\s*==\s*["'](?P<extra>\w+)["'])?"""
)
_MODULES = {"python-socketio": "socketio", "pyyaml": "yaml"}
"""Import names of base packages that are not the package's own name."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package that Playproof asks for."""

    name: str
    wanted: str
    installed: str | None
    """The version that is installed, or None."""
    problem: str | None = None
    """Why it does not work, where it is installed and does not."""
    get: str | None = None
    """The command that installs it, where it is missing or does not work."""

    @property
    def ok(self) -> bool:
        """Tell whether the package is there and works."""
        return self.installed is not None and self.problem is None


@dataclass(frozen=True, slots=True)
class WritableFolder:
    """A folder that Playproof writes to."""

    path: str
    exists: bool
    writable: bool


def diagnose() -> Json:
    """Look at everything; `ok` is false where the base install is broken."""
    base = [_package(name, wanted, None) for name, wanted, extra in _requirements() if extra is None]
    chromium = find_chromium()
    return {
        "ok": all(package.ok for package in base),
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "playproof": {"version": playproof.__version__, "commit": commit(), "path": str(_package_folder())},
        "home": asdict(writable_folder(home())),
        "numba_cache": asdict(writable_folder(numba_cache())),
        "leftovers": [str(path) for path in leftovers(home())],
        "chromium": {"path": str(chromium) if chromium else None, "get": None if chromium else _chromium_command()},
        "machine": {"cores": _cores(), "memory_gib": _memory_gib(), "torch_threads": _torch_threads()},
        "base": [asdict(package) for package in base],
        "extras": {extra: [asdict(package) for package in packages] for extra, packages in _extras().items()},
    }


def leftovers(path: Path) -> list[Path]:
    """Give what killed commands left in a home: drafts of data sets, and parts that no compaction finished."""
    from playproof.home import leftover_drafts
    from playproof.store.log.writer import unfinished_files

    return [*leftover_drafts(path / "datasets"), *unfinished_files(path)]


def clean(path: Path) -> list[Path]:
    """Remove what killed commands left; give what was removed."""
    left = leftovers(path)
    for item in left:
        shutil.rmtree(item) if item.is_dir() else item.unlink(missing_ok=True)
    return left


def _requirements() -> list[tuple[str, str, str | None]]:
    """Give (name, wanted version, extra or None) of everything the package asks for."""
    matches = (_REQUIREMENT.match(line) for line in requires("playproof") or [])
    return [(match["name"], match["wanted"].strip(), match["extra"]) for match in matches if match]


def _extras() -> dict[str, list[Package]]:
    """Give the packages of every extra, in the order of the metadata."""
    extras: dict[str, list[Package]] = {name: [] for name in metadata("playproof").get_all("Provides-Extra") or []}
    for name, wanted, extra in _requirements():
        if extra is not None:
            extras[extra].append(_package(name, wanted, extra))
    return extras


def _package(name: str, wanted: str, extra: str | None) -> Package:
    """Look one package up; base packages are imported too, since the product does not run without them."""
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Package(name, wanted, None, get=install_command(name, wanted, extra))
    problem = None if extra else _import_problem(_MODULES.get(name, name.replace("-", "_")))
    get = install_command(name, wanted, extra) if problem else None
    return Package(name, wanted, installed, problem, get)


def _import_problem(module: str) -> str | None:
    """Import a module and give the reason why it cannot be."""
    try:
        import_module(module)
    except ImportError as error:
        return str(error)
    return None


def install_command(name: str, wanted: str, extra: str | None) -> str:
    """Write the command that brings a package, for this Python and this checkout."""
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    if name == TORCH:
        return f"{pip} {shlex.quote(name + wanted)}"
    chosen = f"[{extra}]" if extra else ""
    root = _checkout()
    if root is None:
        return f"{pip} {shlex.quote('playproof' + chosen)}"
    return f"{pip} -c {shlex.quote(str(root / 'constraints.txt'))} -e {shlex.quote(str(root) + chosen)}"


def _package_folder() -> Path:
    return Path(playproof.__file__).parent


def _checkout() -> Path | None:
    """Give the folder of the checkout that this package runs from, if it does."""
    root = _package_folder().parents[1]
    return root if (root / "constraints.txt").exists() else None


def _chromium_command() -> str:
    root = _checkout()
    if root is not None:
        return f"{shlex.quote(str(root / 'scripts/chromium.sh'))} {shlex.quote(sys.executable)}"
    return f"{shlex.quote(sys.executable)} -m playwright install chromium"


def writable_folder(path: Path) -> WritableFolder:
    """Tell whether a folder is there, and whether it or the folder it would be made in can be written."""
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    return WritableFolder(str(path), path.exists(), nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK))


def numba_cache() -> Path:
    """Give the folder that compiled code is kept in."""
    from playproof._numba import cache_root

    return cache_root()


def _cores() -> int:
    """Count the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gib() -> float:
    """Give the machine's memory in GiB."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _torch_threads() -> int | None:
    """Ask torch in a process of its own, since it takes seconds to import; None where it is not installed."""
    question = "import torch; print(torch.get_num_threads())"
    answer = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=False)  # noqa: S603
    return int(answer.stdout) if answer.returncode == 0 else None


def _report(result: Json) -> RenderableType:
    """Lay the findings out for a terminal."""
    from rich.console import Group

    return Group(_facts(result), *(_packages(name, rows) for name, rows in _sections(result)))


def _sections(result: Json) -> list[tuple[str, list[Json]]]:
    return [("base", result["base"]), *result["extras"].items()]


def _facts(result: Json) -> RenderableType:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    chromium, machine = result["chromium"], result["machine"]
    torch = machine["torch_threads"]
    facts = [
        ("playproof", "{version} ({commit}) at {path}".format(**result["playproof"])),
        ("python", "{version} at {executable}".format(**result["python"])),
        ("home", _where(result["home"])),
        ("leftovers", _left(result)),
        ("numba cache", _where(result["numba_cache"])),
        ("chromium", chromium["path"] or f"[red]missing[/]; run: {chromium['get']}"),
        ("machine", f"{machine['cores']} cores, {machine['memory_gib']} GiB, torch threads: {torch or 'no torch'}"),
    ]
    for name, fact in facts:
        table.add_row(f"[bold]{name}[/]", fact)
    return table


def _left(result: Json) -> str:
    from rich.markup import escape

    removed, left = result.get("removed"), result["leftovers"]
    if removed:
        return f"{len(removed)} removed"
    return escape("\n".join([*left, "remove them with: playproof doctor --clean"])) if left else "none"


def _where(result: Json) -> str:
    state = "" if result["exists"] else " (not there yet)"
    return f"{result['path']}{state}" + ("" if result["writable"] else " [red]cannot be written[/]")


def _packages(section: str, rows: list[Json]) -> RenderableType:
    """Lay one section out: what is there in one line, then each missing package with its command."""
    from rich.markup import escape
    from rich.text import Text

    text = Text.from_markup(f"\n[bold]{section}[/] ")
    text.append(", ".join(f"{row['name']} {row['installed']}" for row in rows if not row["get"]) or "-")
    for row in rows:
        if row["get"]:
            state = row["problem"] or "missing"
            text.append_text(Text.from_markup(f"\n  [red]{row['name']} {escape(state)}[/]: {escape(row['get'])}"))
    return text


@app.command()
def doctor(
    *,
    remove: Annotated[
        bool,
        typer.Option("--clean", help="Remove what killed commands left in the home; running ones are not touched."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Tell what is installed, what is missing and how to get it, and what killed commands left in the home.

    Exit code 1: the base install is broken.

    Example: playproof doctor --json
    """
    removed = [str(path) for path in clean(home())] if remove else []
    result = diagnose() | {"removed": removed}
    emit(result, as_json, lambda: _report(result))
    if not result["ok"]:
        raise typer.Exit(1)
