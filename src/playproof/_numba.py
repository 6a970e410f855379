"""Compile numeric functions with numba and keep the machine code on disk, never stale.

numba's own cache watches only the file of the outermost function, not the files it calls into:
after an edit elsewhere it would go on running old code. Here the cache folder carries the digest of
the module's source and of everything it imports from the games, so that any edit leads to a fresh folder.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
_ROOT = Path(__file__).resolve().parent.parent
_IMPORT = re.compile(r"^from (playproof\.games\.[\w.]+) import (\([^)]*\)|[^\n]+)", re.MULTILINE)


@cache
def _imports(source: Path) -> tuple[Path, ...]:
    """Give the modules of games that a module imports at its top level."""
    files = []
    for module, names in _IMPORT.findall(source.read_text(encoding="utf-8")):
        base = _ROOT.joinpath(*module.split("."))
        submodules = [base / f"{name}.py" for name in re.findall(r"\w+", names)]
        files += [path for path in (base.with_suffix(".py"), *submodules) if path.exists()]
    return tuple(files)


def sources_of(module_file: str) -> tuple[Path, ...]:
    """Give a module's file and, transitively, every module of the games that it imports, sorted."""
    seen: set[Path] = set()
    waiting = [Path(module_file).resolve()]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += _imports(path)
    return tuple(sorted(seen))


def cache_root() -> Path:
    """Give the folder below which machine code is kept."""
    root = os.environ.get("NUMBA_CACHE_DIR")
    return Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "playproof"


def cache_folder(module_file: str) -> Path:
    """Give the folder for the code compiled from a module and its imports, as they are now."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sources_of(module_file):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return cache_root() / f"{Path(module_file).stem}-{digest.hexdigest()[:16]}"


def compiler(module_file: str, inline: bool = False, counted: bool = True) -> Callable[[Function], Function]:
    """Give the decorator that compiles functions of a module: no fastmath, no GIL, cached.

    A function that makes no array need not be `counted`: then it, and what is compiled for it, counts no references
    to those it was given, which takes an atomic instruction whenever one is handed on.
    """
    options = {} if counted else {"_nrt": False}
    folder = str(cache_folder(module_file))

    def compiled(function: Function) -> Function:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = folder
        try:
            result: Function = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=inline, **options)(
                function
            )
        finally:
            numba.config.CACHE_DIR = before
        return result

    return compiled
