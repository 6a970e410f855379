"""Run the tests on two workers, and what failed beside others once more, alone.

Some tests drive real servers, browsers, databases and language models. On a loaded machine one of them can miss a time
limit that it meets alone. What fails both times fails the run. What passes alone is listed, so that nobody overlooks
it.

Usage: python scripts/run_tests.py [options of pytest]
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 12
"""Failures above which nothing is run again: then it is not the machine."""
FAILED = 1
LAST = Path(".pytest_cache/v/cache/lastfailed")


def main(options: list[str]) -> int:
    """Run, and run failures again; give the exit code."""
    LAST.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest"]
    code = subprocess.call([*pytest, "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *options])
    if code != FAILED or not LAST.exists():
        return code
    failed = sorted(json.loads(LAST.read_text(encoding="utf-8")))
    if len(failed) > MOST:
        return code
    print(f"\n{len(failed)} failed beside others; running them once more, alone:", *failed, sep="\n  ", flush=True)
    again = subprocess.call([*pytest, "--last-failed", "--last-failed-no-failures", "none", *options])
    if again == 0:
        print("\nThese failed beside others and passed alone:", *failed, sep="\n  ", flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
