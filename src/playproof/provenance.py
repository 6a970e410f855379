"""Which code produced a result: the commit of this checkout, or the version of the installed package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import playproof


def commit() -> str:
    """Give the commit of this checkout, marked -dirty if files differ from it, or the package version."""
    package = Path(playproof.__file__).parent
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return playproof.__version__
    return _git(package, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or playproof.__version__


def _git(where: Path, *arguments: str) -> str | None:
    """Ask git, and give None where there is no git or no answer."""
    try:
        answer = subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
