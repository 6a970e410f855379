"""A bounded spool on disk: records wait in it in their order until the server has acknowledged them.

Appending is one write to a file, with no sync: what was appended outlives its process, though not a loss of power.
The place up to which the server has acknowledged is kept beside it; after a kill it may lag, and what is sent again is
recognised by its idempotency key. One process at a time writes a spool.
Leaves out: sending (trajectory_client).
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from playproof.errors import ConfigError

MOST_BYTES = 256 << 20
SHRUNK_AT = 4 << 20
"""A file whose records are all acknowledged is emptied beyond this size."""


class Spool:
    """Lines in a file, and how many of its bytes are done."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._mark = folder / "spool.jsonl", folder / "spool.done"
        self.most = most
        self._lock = threading.Lock()
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise ConfigError(f"expected to write the spool {folder} alone, found another process at it") from None
        self._size = self._whole()
        self._done = min(self._size, self._marked())

    @property
    def waiting(self) -> int:
        """Give how many bytes are not acknowledged."""
        return self._size - self._done

    def append(self, line: bytes) -> bool:
        """Add one line, without its end; give False if the spool is full or the disk refuses."""
        written = line + b"\n"
        with self._lock:
            if self._size - self._done + len(written) > self.most:
                return False
            try:
                count = os.write(self._file, written)
            except OSError:
                count = 0
            if count != len(written):
                os.ftruncate(self._file, self._size)
                return False
            self._size += count
            return True

    def peek(self, most_lines: int, most_bytes: int) -> tuple[list[bytes], int]:
        """Give the next lines, and the place behind them; at least one line if there is any."""
        with self._lock:
            done, size = self._done, self._size
        wanted = most_bytes
        while True:
            chunk = os.pread(self._file, min(wanted, size - done), done)
            end = chunk.rfind(b"\n") + 1
            if end or done + len(chunk) >= size:
                break
            wanted *= 4
        lines = chunk[:end].split(b"\n")[:-1][:most_lines]
        return lines, done + sum(len(line) + 1 for line in lines)

    def finish(self, index: int) -> None:
        """Note that everything before a place is acknowledged."""
        with self._lock:
            self._done = index
            if index == self._size and index > SHRUNK_AT:
                os.ftruncate(self._file, 0)
                self._size = self._done = 0
            temporary = self._mark.with_suffix(".new")
            temporary.write_text(str(self._done))
            temporary.replace(self._mark)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _whole(self) -> int:
        """Cut off a last line that is not whole; give the size then."""
        size = os.fstat(self._file).st_size
        tail = os.pread(self._file, min(size, 64 << 20), max(0, size - (64 << 20)))
        whole = max(0, size - len(tail)) + tail.rfind(b"\n") + 1
        if whole < size:
            os.ftruncate(self._file, whole)
        return whole

    def _marked(self) -> int:
        try:
            return int(self._mark.read_text())
        except (OSError, ValueError):
            return 0
