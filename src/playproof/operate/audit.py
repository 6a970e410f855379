"""The audit log: one line a decision, append-only, each line hashed with the one before it.

A line is canonical JSON; its hash is sha256 of the last line's hash and its own text. The session's row holds the
number of lines and the hash of the last one, written in the same transaction, so that a line that is changed, removed,
moved or added is found, at the end too. The head stands in every report: who keeps a report keeps a witness.
Leaves out: who writes (account) and what is decided (limits).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, insert, select, update

from playproof.errors import InputError
from playproof.json_types import Json
from playproof.store.db.bots import BotAudit, BotSession
from playproof.store.db.columns import plain


def first_hash(session_id: str) -> str:
    """Give the hash that a session's chain begins with."""
    return hashlib.sha256(f"playproof audit {session_id}".encode()).hexdigest()


def line_hash(before: str, line: str) -> str:
    """Give the hash of a line after the line with hash `before`."""
    return hashlib.sha256(f"{before}\n{line}".encode()).hexdigest()


@dataclass
class AuditChain:
    """The end of one session's chain, and the lines that wait to be written with the next transaction."""

    session_id: str
    lines: int = 0
    head: str = ""
    waiting: list[tuple[int, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.head = self.head or first_hash(self.session_id)

    def add(self, payload: Mapping[str, Any]) -> str:
        """Put a line at the end; give its hash. It is durable after the next `write` has been committed."""
        text = orjson.dumps(plain({"line": self.lines, **payload}), option=orjson.OPT_SORT_KEYS).decode()
        self.head = line_hash(self.head, text)
        self.waiting.append((self.lines, text, self.head))
        self.lines += 1
        return self.head

    def write(self, connection: Connection) -> None:
        """Write what waits; the caller commits, and then calls `written`."""
        if not self.waiting:
            return
        rows = [
            {"session_id": self.session_id, "line": number, "payload": text, "hash": digest}
            for number, text, digest in self.waiting
        ]
        connection.execute(insert(BotAudit), rows)
        connection.execute(
            update(BotSession).where(BotSession.session_id == self.session_id).values(lines=self.lines, head=self.head)
        )

    def mark(self) -> tuple[int, str, int]:
        """Give where the chain ends now."""
        return self.lines, self.head, len(self.waiting)

    def go_back(self, mark: tuple[int, str, int]) -> None:
        """Forget the lines since a mark: their transaction was not committed."""
        self.lines, self.head, count = mark
        del self.waiting[count:]

    def written(self) -> None:
        """Forget what was committed."""
        self.waiting.clear()


@dataclass(frozen=True)
class AuditResult:
    """What the verification of a session's audit log says."""

    session_id: str
    lines: int
    head: str
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Tell whether nothing was changed."""
        return not self.problems


def read_audit(engine: Engine, session_id: str) -> list[Json]:
    """Give a session's lines in their order."""
    with engine.connect() as connection:
        rows = connection.execute(
            select(BotAudit.payload).where(BotAudit.session_id == session_id).order_by(BotAudit.line)
        )
        return [orjson.loads(row.payload) for row in rows]


def verify_audit(engine: Engine, session_id: str, witness: str | None = None) -> AuditResult:
    """Walk the chain; `witness` is the head as a report or a notification gave it."""
    with engine.connect() as connection:
        session = connection.execute(
            select(BotSession.lines, BotSession.head).where(BotSession.session_id == session_id)
        ).one_or_none()
        if session is None:
            raise InputError(f"expected a bot's session, found none called {session_id!r}; see playproof bot ls")
        rows = connection.execute(
            select(BotAudit.line, BotAudit.payload, BotAudit.hash)
            .where(BotAudit.session_id == session_id)
            .order_by(BotAudit.line)
        ).all()
    problems = _walk(session_id, rows)
    head = rows[-1].hash if rows else first_hash(session_id)
    if (len(rows), head) != (session.lines, session.head):
        problems.append(
            f"expected {session.lines} lines that end in {session.head[:12]}, found {len(rows)}: {head[:12]}"
        )
    if witness is not None and not any(row.hash == witness for row in rows) and witness != first_hash(session_id):
        problems.append(f"expected a line with the hash {witness[:12]} that was reported, found none")
    return AuditResult(session_id, len(rows), head, tuple(problems))


def _walk(session_id: str, rows: Sequence[Any]) -> list[str]:
    problems: list[str] = []
    before = first_hash(session_id)
    for number, row in enumerate(rows):
        if row.line != number:
            problems.append(f"expected line {number}, found line {row.line}: one was removed or added")
            break
        if orjson.loads(row.payload).get("line") != number:
            problems.append(f"line {number} says that it is another one: it was moved")
            break
        if row.hash != line_hash(before, row.payload):
            problems.append(f"line {number} does not hash to what was written: it or its hash was changed")
            break
        before = row.hash
    return problems
