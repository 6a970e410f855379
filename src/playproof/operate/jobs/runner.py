"""Stand between a worker and a job's command: run it, wait, and write how it ended, also if the worker is gone.

Run as a file, by `python -I -S runner.py FOLDER ATTEMPT LOCK COMMAND...`; it imports nothing of the package and
no pathlib, so that it starts at once. LOCK is an open descriptor of the job's lock file. The command inherits it, and
so it is held as long as either lives: nobody else can begin the job then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys


def main(folder: str, attempt: str, lock: str, command: list[str]) -> int:
    """Run the command; its signals come from the group that both are in."""
    with open(os.path.join(folder, f"pid-{attempt}"), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
        file.write(str(os.getpid()))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # a function and not SIG_IGN, which the command would inherit
    with open(os.path.join(folder, "log.txt"), "ab", buffering=0) as log:  # noqa: PTH118, PTH123
        process = subprocess.Popen(  # noqa: S603 - an allow-listed command line
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(int(lock),)
        )
        code = process.wait()
    write(os.path.join(folder, f"exit-{attempt}.json"), {"exit_code": code})  # noqa: PTH118
    return 0


def write(path: str, payload: dict[str, int]) -> None:
    """Write a file that is there whole or not at all."""
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(payload, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)  # noqa: PTH105


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
