"""Find data sets in a home by their names.

A folder is called `<name>@<start of its hash>`; the same name may stand for several, and then the one finished last
is meant unless the hash is given too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playproof.datasets.dataset import MANIFEST
from playproof.errors import DecodeError, InputError
from playproof.home import home as default_home


@dataclass(frozen=True)
class DatasetEntry:
    """A finished data set of a home."""

    path: Path
    manifest: Mapping[str, Any]
    finished: float
    """When its manifest was written, in seconds since 1970."""

    @property
    def label(self) -> str:
        """Give the name with the start of the hash."""
        return self.path.name


def list_datasets(home: Path | None = None) -> list[DatasetEntry]:
    """Give the finished data sets of a home, by name and then in the order in which they were finished."""
    root = (home or default_home()) / "datasets"
    paths = [path for path in root.iterdir() if (path / MANIFEST).is_file()] if root.is_dir() else []
    entries = [_entry(path) for path in paths]
    return sorted(entries, key=lambda item: (str(item.manifest.get("name")), item.finished, item.label))


def find_dataset(name: str | Path, home: Path | None = None) -> Path:
    """Give the folder of a data set: a path to one, a name, or a name with the start of its hash."""
    path = Path(name)
    if (path / MANIFEST).is_file():
        return path
    wanted, _, start = str(name).partition("@")
    known = list_datasets(home)
    fitting = [
        item for item in known if item.manifest.get("name") == wanted and item.manifest["hash"].startswith(start)
    ]
    if not fitting:
        labels = ", ".join(item.label for item in known) or "none"
        raise InputError(f"expected a data set, found none called {str(name)!r}; there are: {labels}")
    return max(fitting, key=lambda item: (item.finished, item.label)).path


def _entry(path: Path) -> DatasetEntry:
    manifest = path / MANIFEST
    try:
        payload = json.loads(manifest.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DecodeError(f"expected JSON in {manifest}, found: {error}; build the data set again") from error
    return DatasetEntry(path, payload, manifest.stat().st_mtime)
