"""Compile numeric functions with numba and keep the machine code on disk, never stale.

numba's own cache watches only the file of the outermost function, not the files it calls into:
after an edit elsewhere it would go on running old code. Here the cache folder carries the digest
of every source file that the compiled code is made from, so that any edit leads to a fresh folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def cache_folder(package: Path, sources: tuple[str, ...]) -> Path:
    """Give the folder for the code compiled from these modules of a package, as they are now."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in (package / f"{name}.py" for name in sorted(sources)):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR")
    if root is None:
        root = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "playproof")
    return Path(root) / f"{package.name}-{digest.hexdigest()[:16]}"


def compiler(
    module_file: str, sources: tuple[str, ...], inline: bool = False, counted: bool = True
) -> Callable[[Function], Function]:
    """Give the decorator that compiles functions of a package: no fastmath, no GIL, cached.

    `sources` names every module of the package whose text ends up in compiled code. A function that makes no array
    need not be `counted`: then it, and what is compiled for it, counts no references to those it was given, which
    takes an atomic instruction whenever one is handed on.
    """
    options = {} if counted else {"_nrt": False}
    folder = str(cache_folder(Path(module_file).parent, sources))

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
