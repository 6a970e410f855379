"""Make the games' environments known to Gymnasium as soon as both are imported, in either order.

Gymnasium looks for no plug-ins of itself, and importing it here would slow every command down. So
`import playproof` registers at once if Gymnasium is there, and else right after it has been imported.
Games name their function in the entry-point group "playproof.environments".
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def register_all() -> None:
    """Call what every installed game registers its environments with."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="playproof.environments"):
        entry.load()()


class _After(Loader):
    """Load Gymnasium as its own loader does, then register."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to Gymnasium's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run Gymnasium's own code, then register."""
        self._loader.exec_module(module)
        register_all()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Waiting(MetaPathFinder):
    """Wait for the import of Gymnasium."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """Give Gymnasium's own spec with the loader that registers; step aside for everything else."""
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _After(spec.loader)
        return spec


def register_when_imported() -> None:
    """Register now if Gymnasium has been imported, else when it is."""
    if "gymnasium" in sys.modules:
        register_all()
    else:
        sys.meta_path.insert(0, _Waiting())
