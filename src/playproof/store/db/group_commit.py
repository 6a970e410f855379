"""Group commit: small writes of many threads share transactions, and each is answered once its own is synced.

A write is a function of a connection. It raises a PlayproofError before its first statement that changes anything, or
not at all; so a refused write leaves no trace in the transaction it shares. Writes that were submitted as one row are
carried out in their order: what follows one that the database did not take is not tried.
Leaves out: what is written, and retrying: after a lost connection nobody knows whether a commit was carried out, and
only a write under an idempotency key may be tried again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from playproof.errors import PlayproofError, StoreError
from playproof.store.db.engine import shown_url, writing_connection

T = TypeVar("T")
MOST = 256
"""Writes of one transaction."""
WAITING = 10_000
"""Jobs that may wait; a caller beyond them is refused."""


Write = Callable[[Connection], T]


@dataclass
class _Job:
    writes: Sequence[Write[Any]]
    is_row: bool = False
    """Is the answer a list, one for each write? Else there is one write, and its answer is the job's."""
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

    def submit(self, write: Write[T]) -> Future[T]:
        """Put a write into the next transaction; its future is done when that is committed and synced."""
        return self._submit(_Job((write,)))

    def submit_row(self, writes: Sequence[Write[T]]) -> Future[list[T | Exception]]:
        """Put writes that follow each other into the next transaction; give each one's answer or error."""
        return self._submit(_Job(tuple(writes), is_row=True))

    def _submit(self, job: _Job) -> Future[Any]:
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

    def write(self, write: Write[T]) -> T:
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
        """Wait for a job, and take those that came meanwhile; leave out what its caller gave up."""
        result = [self._jobs.get()]
        while result[-1] is not None and _count(result) < MOST and not self._jobs.empty():
            result.append(self._jobs.get_nowait())
        wanted = [job for job in result if job is not None and job.future.set_running_or_notify_cancel()]
        return wanted, result[-1] is not None

    def _carry_out(self, batch: Sequence[_Job]) -> None:
        """Write a batch in one transaction; if the database refuses it, in smaller ones."""
        try:
            with writing_connection(self.engine) as connection:
                try:
                    answers = [[_attempt(write, connection) for write in job.writes] for job in batch]
                except Exception as error:  # noqa: BLE001  a write's error belongs to its caller, whatever it is
                    connection.rollback()
                    self._apart(batch, error)
                    return
                connection.commit()
        except (SQLAlchemyError, OSError) as error:
            self._fail(batch, error)
            return
        except StoreError as refusal:  # the engine takes no more writes since an earlier one failed
            for job in batch:
                _answer(job, [refusal] * len(job.writes))
            return
        for job, answer in zip(batch, answers, strict=True):
            _answer(job, answer)

    def _apart(self, batch: Sequence[_Job], error: Exception) -> None:
        """Carry out every job of a batch in a transaction of its own, or every write of a single one."""
        if len(batch) > 1:
            for job in batch:
                self._carry_out([job])
        elif len(batch[0].writes) > 1:
            _answer(batch[0], list(self._in_turn(batch[0].writes)))
        elif isinstance(error, SQLAlchemyError | OSError):
            self._fail(batch, error)
        else:
            _answer(batch[0], [error])

    def _in_turn(self, writes: Sequence[Write[Any]]) -> Iterator[Any]:
        """Carry out writes one by one, as far as the database takes them."""
        failed: BaseException | None = None
        for write in writes:
            if failed is not None:
                yield StoreError(f"expected what comes before to be stored, found: {failed}; this was not tried")
                continue
            alone = _Job((write,))
            self._carry_out([alone])
            error = alone.future.exception()
            failed = error if isinstance(error, StoreError) else None
            yield alone.future.result() if error is None else error

    def _fail(self, batch: Sequence[_Job], error: Exception) -> None:
        orig = getattr(error, "orig", None) or error
        for job in batch:
            failure = StoreError(
                f"expected {shown_url(self.engine)} to commit, found: {orig}; it may or may not have been carried out"
            )
            failure.__cause__ = error
            _answer(job, [failure] * len(job.writes))


def _count(jobs: Sequence[_Job | None]) -> int:
    return sum(len(job.writes) for job in jobs if job is not None)


def _attempt(write: Write[Any], connection: Connection) -> Any:
    """Carry out one write; give its answer, or the error with which it refused before it changed anything."""
    try:
        return write(connection)
    except PlayproofError as refusal:
        return refusal


def _answer(job: _Job, values: list[Any]) -> None:
    """Answer a job with what each of its writes gave, an error for one that failed."""
    if job.is_row:
        job.future.set_result(values)
    elif isinstance(values[0], Exception):
        job.future.set_exception(values[0])
    else:
        job.future.set_result(values[0])
