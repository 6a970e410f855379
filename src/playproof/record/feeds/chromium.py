"""Find the Chromium that browser recordings and browser tests drive.

Leaves out: installing one (scripts/chromium.sh) and driving it (record, tests).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playproof.errors import ConfigError

VARIABLE = "PLAYPROOF_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PLAYWRIGHT_PATTERNS = (
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
    "chromium_headless_shell-*/*/headless_shell",
    "chromium_headless_shell-*/*/chrome-headless-shell",
)


def find_chromium() -> Path | None:
    """Give the browser's program: $PLAYPROOF_CHROMIUM, else the first on the PATH, else Playwright's newest."""
    if chosen := os.environ.get(VARIABLE):
        if not os.access(chosen, os.X_OK):
            raise ConfigError(f"expected a program at {VARIABLE}={chosen}, found none; unset it or correct it")
        return Path(chosen)
    for name in NAMES:
        if result := shutil.which(name):
            return Path(result)
    return _playwrights_own()


def _playwrights_own() -> Path | None:
    """Look into the folder that `playwright install` fills."""
    mac = sys.platform == "darwin"
    default = Path.home() / ("Library/Caches" if mac else ".cache") / "ms-playwright"
    root = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or default)
    for pattern in _PLAYWRIGHT_PATTERNS:
        if paths := sorted(path for path in root.glob(pattern) if os.access(path, os.X_OK)):
            return paths[-1]
    return None


if __name__ == "__main__":
    path = find_chromium()
    if path is None:
        sys.exit(1)
    sys.stdout.write(f"{path}\n")
