"""Move runs, reports and other folders of the home into its trash, and back.

A folder is renamed, never copied, so nothing is half there after a kill. What it was and when it went is in the name of
its folder in the trash.
Leaves out: events, which only `store` removes.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from playproof.errors import ConfigError, UnknownName
from playproof.home import home, write_durably

TRASH = "trash"
ABOUT = "about.json"
CONTENT = "content"


@dataclass(frozen=True)
class TrashedItem:
    """Something in the trash."""

    key: str
    """Its folder in the trash."""
    kind: str
    """The folder of the home that it came from, such as runs."""
    name: str
    at: datetime

    @property
    def label(self) -> str:
        """Give how commands name it."""
        return f"{self.kind}/{self.name}"


def discard(path: Path, now: datetime, root: Path | None = None) -> TrashedItem:
    """Move a folder of the home into the trash."""
    base = root or home()
    if path.parent.parent != base or not path.is_dir():
        raise ConfigError(f"expected a folder two levels below {base}, found {path}")
    kind, name = path.parent.name, path.name
    key = f"{now:%Y%m%dT%H%M%S}-{time.time_ns() % 10**9:09d}-{kind}-{name}"
    shelf = base / TRASH / key
    shelf.mkdir(parents=True)
    about = {"kind": kind, "name": name, "at": now.astimezone(UTC).isoformat()}
    write_durably(shelf / ABOUT, json.dumps(about).encode())
    path.rename(shelf / CONTENT)
    return TrashedItem(key, kind, name, now)


def list_trash(root: Path | None = None) -> list[TrashedItem]:
    """Give what is in the trash, the newest first; a shelf whose folder did not arrive is removed."""
    items = []
    for shelf in sorted((root or home()).glob(f"{TRASH}/*"), reverse=True):
        if not (shelf / CONTENT).is_dir():
            if (shelf / ABOUT).exists() or not any(shelf.iterdir()):
                shutil.rmtree(shelf, ignore_errors=True)
            continue
        about = json.loads((shelf / ABOUT).read_text(encoding="utf-8"))
        items.append(TrashedItem(shelf.name, about["kind"], about["name"], datetime.fromisoformat(about["at"])))
    return items


def restore(label: str, root: Path | None = None) -> Path:
    """Move something back to where it was: KIND/NAME, its name alone, or its key; of several the newest."""
    base = root or home()
    items = list_trash(base)
    found_items = [item for item in items if label in (item.key, item.label, item.name)]
    if not found_items:
        raise UnknownName("thing in the trash", label, [item.label for item in items])
    kinds = {item.kind for item in found_items}
    if len(kinds) > 1:
        raise ConfigError(
            f"expected a name that stands for one thing, found {label!r}, which may be:"
            f" {', '.join(item.label for item in found_items)}"
        )
    item = found_items[0]
    target = base / item.kind / item.name
    if target.exists():
        raise ConfigError(f"expected no {item.kind}/{item.name} beside the trash, found one; rename or remove it first")
    target.parent.mkdir(parents=True, exist_ok=True)
    os.rename(base / TRASH / item.key / CONTENT, target)  # noqa: PTH104  (fails if the target came meanwhile)
    shutil.rmtree(base / TRASH / item.key)
    return target


def empty_trash(root: Path | None = None) -> int:
    """Remove everything in the trash for good; give how many things that were."""
    base = root or home()
    items = list_trash(base)
    for item in items:
        shutil.rmtree(base / TRASH / item.key)
    return len(items)
