"""Which events a log already holds, hot or compacted, by identity and checksum.

Two bodies under one identity are told apart by their CRC-32. Leaves out: deciding what to do about it (log).
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from playproof.errors import StoreError
from playproof.store.log.rows import SEQ_BITS, SEQ_END, Row, split_id

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Checksums = tuple[NDArray[np.int64], NDArray[np.uint32]]
    """Keys, sorted, and the checksum of each."""

PARTS_KEPT = 64
_SEQ = SEQ_END - 1


class EventIndex:
    """Answers for one log's writer; parts are read only when an old seq comes again."""

    def __init__(self, home: Path, connection: sqlite3.Connection, sessions: Mapping[str, int]) -> None:
        self._home, self._connection, self._sessions = home, connection, sessions
        self._last: dict[int, int] = {}
        self._parts: OrderedDict[str, Checksums] = OrderedDict()

    def forget(self) -> None:
        """Look at the manifest anew."""
        self._parts.clear()
        result = self._connection.execute("SELECT number, max(last) FROM part_sessions GROUP BY number")
        self._last = dict(result.fetchall())

    def may_hold(self, rows: Sequence[tuple[object, Row]]) -> bool:
        """Tell whether a row is old enough that it could be in a part."""
        last = self._last
        if not last:
            return False
        return any(row[0] & _SEQ <= last.get(row[0] >> SEQ_BITS, -1) for _, row in rows)

    def checksum(self, identity: int) -> int | None:
        """Give the checksum of the event stored under a key; None if there is none.

        Where a part that may hold it cannot be read, raise StoreError.
        """
        row = self._connection.execute("SELECT checksum FROM events WHERE id = ?", (identity,)).fetchone()
        if row is not None:
            return int(row[0])
        number, seq = split_id(identity)
        if seq > self._last.get(number, -1):
            return None
        paths = self._connection.execute(
            "SELECT path FROM part_sessions JOIN parts USING (path)"
            " WHERE state = 'live' AND number = ? AND ? BETWEEN first AND last",
            (number, seq),
        )
        away: StoreError | None = None
        for (path,) in paths.fetchall():
            try:
                answer = self._in_part(path, identity)
            except StoreError as error:
                away = error
            else:
                if answer is not None:
                    return answer
        if away is not None:
            raise away
        return None

    def _in_part(self, path: str, identity: int) -> int | None:
        if path not in self._parts:
            self._parts[path] = self._read(path)
            while len(self._parts) > PARTS_KEPT:
                self._parts.popitem(last=False)
        self._parts.move_to_end(path)
        keys, checksums = self._parts[path]
        index = int(keys.searchsorted(identity))
        return int(checksums[index]) if index < len(keys) and keys[index] == identity else None

    def _read(self, path: str) -> Checksums:
        """Read keys and checksums of a part.

        A part that cannot be read may still hold the event, and may come back: taking the event would double it.
        """
        import numpy as np
        import pyarrow as pa

        from playproof.store.log.parts import PartFiles, check_footer, live_parts

        files = PartFiles.at(self._home)
        part = next(part for part in live_parts(self._connection, "") if part.path == path)
        problem = check_footer(files, part)
        if problem is None:
            try:
                table = files.table(path, ["session_id", "seq", "checksum"])
            except (OSError, pa.ArrowException) as error:
                problem = f"unreadable: {error}"
        if problem is not None:
            raise StoreError(
                f"expected to look into part {path}, which may hold an event that was sent again, found: {problem};"
                " nothing of this call was stored: bring the file back and append again, or give it up with: playproof"
                " store verify --give-up-missing"
            )
        sessions = table["session_id"].combine_chunks().dictionary_encode()
        numbers = np.array([self._sessions[name] for name in sessions.dictionary.to_pylist()], np.int64)
        keys = (numbers[sessions.indices.to_numpy()] << SEQ_BITS) | table["seq"].to_numpy()
        order = np.argsort(keys)
        return keys[order], table["checksum"].to_numpy()[order]
