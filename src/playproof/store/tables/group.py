"""Group commit: small writes of many threads share transactions, and each is answered once its own is synced.

A write is a function of a connection. It raises a PlayproofError before its first statement that changes anything, or
not at all; so a refused write leaves no trace in the transaction it shares.
Leaves out: what is written, and retrying: after a lost connection nobody knows whether a commit was carried out, and
only a write under an idempotency key may be tried again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from playproof.errors import PlayproofError, StoreError
from playproof.store.tables.engine import shown_url, writing_connection

T = TypeVar("T")
MOST = 256
"""Writes of one transaction."""
WAITING = 10_000
"""Writes that may wait; a caller beyond them is refused."""


@dataclass
class _Job:
    write: Callable[[Connection], Any]
    future: Future[Any] = field(default_factory=Future)


class GroupWriter:
    """Write through one thread, many writes in a transaction."""

    def __init__(self, engine: Engine, waiting: int = WAITING) -> None:
        self.engine = engine
        self._jobs: queue.Queue[_Job | None] = queue.Queue(waiting)
        self._closed = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="tables", daemon=True)
        self._thread.start()

    def submit(self, write: Callable[[Connection], T]) -> Future[T]:
        """Put a write into the next transaction; its future is done when that is committed and synced."""
        job = _Job(write)
        with self._closed:
            if self._is_closed:
                raise StoreError("expected an open writer, found one that was closed")
            try:
                self._jobs.put_nowait(job)
            except queue.Full:
                raise StoreError(
                    f"expected at most {self._jobs.maxsize} writes to wait, found more; the database is too slow"
                ) from None
        return job.future

    def write(self, write: Callable[[Connection], T]) -> T:
        """Write and wait until it is durable."""
        return self.submit(write).result()

    def close(self) -> None:
        """Carry out what waits, then stop."""
        with self._closed:
            if not self._is_closed:
                self._is_closed = True
                self._jobs.put(None)
        self._thread.join()

    def __enter__(self) -> GroupWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        more = True
        while more:
            batch, more = self._take()
            if batch:
                self._carry_out(batch)

    def _take(self) -> tuple[list[_Job], bool]:
        """Wait for a write, and take those that came meanwhile."""
        found = [self._jobs.get()]
        while found[-1] is not None and len(found) < MOST and not self._jobs.empty():
            found.append(self._jobs.get_nowait())
        return [job for job in found if job is not None], found[-1] is not None

    def _carry_out(self, batch: Sequence[_Job]) -> None:
        """Write a batch in one transaction; if the database refuses it, each write in one of its own."""
        try:
            with writing_connection(self.engine) as connection:
                try:
                    answers = [_attempt(job, connection) for job in batch]
                except Exception as error:  # noqa: BLE001  a write's error belongs to its caller, whatever it is
                    connection.rollback()
                    self._one_by_one(batch, error)
                    return
                connection.commit()
        except (SQLAlchemyError, OSError) as error:
            self._fail(batch, error)
            return
        for job, answer in zip(batch, answers, strict=True):
            _answer(job, answer)

    def _one_by_one(self, batch: Sequence[_Job], error: Exception) -> None:
        if len(batch) == 1:
            if isinstance(error, SQLAlchemyError | OSError):
                self._fail(batch, error)
            else:
                batch[0].future.set_exception(error)
            return
        for job in batch:
            self._carry_out([job])

    def _fail(self, batch: Sequence[_Job], error: Exception) -> None:
        found = getattr(error, "orig", None) or error
        for job in batch:
            failure = StoreError(
                f"expected {shown_url(self.engine)} to commit, found: {found}; it may or may not have been carried out"
            )
            failure.__cause__ = error
            job.future.set_exception(failure)


def _attempt(job: _Job, connection: Connection) -> Any:
    """Carry out one write; give its answer, or the error with which it refused before it changed anything."""
    try:
        return job.write(connection)
    except PlayproofError as refusal:
        return refusal


def _answer(job: _Job, answer: Any) -> None:
    if isinstance(answer, PlayproofError):
        job.future.set_exception(answer)
    else:
        job.future.set_result(answer)
