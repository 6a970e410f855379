"""Checkpoints kept by content: `<home>/models/<sha256>/`, written once, checked whenever they are opened.

A folder appears whole or not at all. Leaves out: what the files mean (facts).
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from playproof.errors import DecodeError, InputError
from playproof.home import draft_folder


class DamagedCheckpoint(DecodeError):
    """Tell which file of a kept checkpoint is not as it was added."""


def hash_files(path: Path) -> dict[str, str]:
    """Give the sha256 of every file of a checkpoint's folder, by name; links and folders inside are refused."""
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise InputError(f"expected a checkpoint's folder at {path}, found: {error.strerror}") from None
    odd = [item.name for item in entries if item.is_symlink() or not item.is_file()]
    if odd:
        raise InputError(f"expected only plain files in the checkpoint {path}, found {odd[0]}; take it out")
    return {item.name: _sha256(item) for item in entries}


def content_hash(files: Mapping[str, str]) -> str:
    """Give one sha256 over the names and hashes of all files."""
    lines = "".join(f"{name}\0{digest}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def keep_files(path: Path, root: Path) -> tuple[str, dict[str, str]]:
    """Copy a checkpoint into the folder of models under its hash; give the hash and those of its files.

    The same files again change nothing. What is copied is what is hashed: a file that changes meanwhile is noticed.
    """
    with draft_folder(root, "model") as draft:
        copied = draft / "files"
        shutil.copytree(path, copied, symlinks=True)
        files = hash_files(copied)
        checkpoint = content_hash(files)
        for name in files:
            _sync(copied / name)
        _sync(copied)
        target = root / checkpoint
        try:
            copied.rename(target)
        except OSError:  # it is there already, perhaps since a moment
            check_files(target, files)
        _sync(root)
    return checkpoint, files


def check_files(path: Path, files: Mapping[str, str]) -> Path:
    """Give a kept checkpoint's folder once every file is as it was added; refuse a changed one by its name."""
    if not path.is_dir():
        raise DamagedCheckpoint(
            f"expected the files of a model version at {path}, found none; add the checkpoint again"
        )
    present = hash_files(path)
    for name, digest in sorted(files.items()):
        if name not in present:
            raise DamagedCheckpoint(
                f"expected {path / name}, found it missing; restore it, or add the checkpoint again"
            )
        if present[name] != digest:
            raise DamagedCheckpoint(
                f"expected {path / name} with sha256 {digest[:12]}..., found {present[name][:12]}...: it was changed"
                " after it was added, and is not loaded; restore it, or promote another version"
            )
    extra = sorted(set(present) - set(files))
    if extra:
        raise DamagedCheckpoint(f"expected only the files that were added in {path}, found {extra[0]}; take it out")
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
