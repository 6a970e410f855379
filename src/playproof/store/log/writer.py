"""The hot log: one writer, group commit, and an acknowledgement only for what is committed and synced.

Whoever appends while another commit is under way waits for it, and then commits everything that has gathered.
After a failed write or sync the log takes nothing more: what reached the disk is not known then, and the file is
read anew when it is opened again. Leaves out: reading (read) and the making of parts (compaction).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from playproof.errors import StoreError
from playproof.events import Event
from playproof.game import Column
from playproof.store.log.event_index import EventIndex
from playproof.store.log.rows import SESSIONS_END, Layout, Row, RowShape, split_id
from playproof.store.log.schema import connect, connect_reader, create, declare, log_names, log_path, migrate

if TYPE_CHECKING:
    from playproof.store.log.parts import PartFiles

DEFAULT_LOG = "main"


@dataclass
class EventGroup:
    """Events that are stored together or not at all."""

    rows: list[tuple[RowShape, Row]]
    future: Future[None] = field(default_factory=Future)
    refusal: StoreError | None = None


class EventLog:
    """The one writer of one hot log; its methods may be called from any thread."""

    def __init__(self, home: Path, name: str, connection: sqlite3.Connection, layout: Layout, lock: IO[str]) -> None:
        self.home, self.name, self.layout = home, name, layout
        self._connection, self._lock = connection, lock
        self._sessions: dict[str, int] = {}
        self._unsaved: list[tuple[int, str]] = []
        self._known = EventIndex(home, connection, self._sessions)
        self._pending: list[EventGroup] = []
        self._failure: str | None = None
        self._closed = False
        self._gathering = threading.Lock()
        self._turn = threading.Lock()
        self.compacting = threading.Lock()
        """Held by the one compaction that may run at a time."""
        self._wake = threading.Semaphore(0)
        self._sessions.update(
            (name, number) for number, name in connection.execute("SELECT number, session_id FROM sessions")
        )
        self._next_number = max(self._sessions.values(), default=0) + 1
        self._known.forget()
        self._writer = threading.Thread(target=self._write_submitted, name=f"log {name}", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, home: Path, columns: Sequence[Column], log: str = DEFAULT_LOG) -> EventLog:
        """Open a log for writing, made if it is missing; a second writer is refused."""
        path = log_path(home, log)
        lock = take_lock(path.with_suffix(".lock"), log)
        try:
            return cls._open_locked(home, path, columns, lock)
        except (sqlite3.Error, OSError) as error:
            lock.close()
            raise StoreError(
                f"expected to open {path}, found: {error}; free space or repair it, then open it again"
            ) from error
        except BaseException:
            lock.close()
            raise

    @classmethod
    def _open_locked(cls, home: Path, path: Path, columns: Sequence[Column], lock: IO[str]) -> EventLog:
        if not path.exists():
            create(path)
        connection = connect(path)
        try:
            migrate(connection)
            layout = declare(connection, columns)
            _settle(connection)
            _sync_folders(path)
            return cls(home, path.stem, connection, layout, lock)
        except BaseException:
            connection.close()
            raise

    def append(self, events: Sequence[Event]) -> None:
        """Store events; they are committed and synced when this returns.

        An event that is already there is passed over; another body under a known (session_id, seq) is refused,
        and with it all events of the call. So is an event that a part may hold whose file is away or damaged.
        """
        group = self._gather(events)
        with self._turn:
            if not group.future.done():
                self._commit_pending()
        group.future.result()

    def submit(self, events: Sequence[Event]) -> Future[None]:
        """Hand events over to be stored; the future resolves when they are committed and synced, or raises."""
        group = self._gather(events)
        self._wake.release()
        return group.future

    @property
    def failure(self) -> str | None:
        """Tell why the log takes nothing more; None while it does."""
        return self._failure

    def close(self) -> None:
        """Store what was handed over, and let the log go."""
        with self._gathering:
            if self._closed:
                return
            self._closed = True
        self._wake.release()
        self._writer.join()
        with self._turn:
            self._commit_pending()
            self._connection.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def compact(self, *, final: bool = False, files: PartFiles | None = None) -> dict[str, int]:
        """Move whole windows into Parquet parts while events go on arriving; see playproof.store.log.compaction."""
        from playproof.store.log.compaction import compact_log

        return compact_log(self, final=final, files=files)

    def session_names(self) -> dict[int, str]:
        """Give the sessions of this log by their numbers."""
        with self._gathering:
            return {number: name for name, number in self._sessions.items()}

    def transact(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Run work in one transaction of the writer; a failed write or sync ends the log's writing."""
        with self._turn:
            self._refuse_if_unable()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                work(self._connection)
                self._connection.execute("COMMIT")
                self._known.forget()
            except sqlite3.Error as error:
                raise self._fail(error) from error
            except BaseException:
                # The work itself failed: nothing of it may be committed together with what comes next.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _gather(self, events: Sequence[Event]) -> EventGroup:
        """Make rows of events and put them with those that wait for the next commit."""
        with self._gathering:
            self._refuse_if_unable()
            if self._closed:
                raise StoreError(f"expected an open log, found {self.name!r} closed; open it again")
            sessions, row = self._sessions, self.layout.row
            rows = [row(event, sessions.get(event.session_id) or self._number(event)) for event in events]
            group = EventGroup(rows)
            group.future.set_running_or_notify_cancel()
            self._pending.append(group)
        return group

    def _number(self, event: Event) -> int:
        """Give a session that is new here the next number."""
        try:
            names = log_names(self.home)
        except StoreError as error:
            raise self._stop(error) from error
        for other in names:
            if other != self.name and _has_session(log_path(self.home, other), event.session_id):
                raise StoreError(
                    f"expected session {event.session_id!r} in one log alone, found it in {other!r}; append it there"
                )
        number = self._next_number
        if number >= SESSIONS_END:
            raise StoreError(f"expected fewer than {SESSIONS_END} sessions in one log; record into another log")
        self._next_number += 1
        self._sessions[event.session_id] = number
        self._unsaved.append((number, event.session_id))
        return number

    def _write_submitted(self) -> None:
        """Commit what was submitted, until the log is closed."""
        while True:
            self._wake.acquire()
            with self._turn:
                self._commit_pending()
            if self._closed:
                return

    def _commit_pending(self) -> None:
        """Commit everything that has gathered, in one transaction, and resolve its futures."""
        with self._gathering:
            groups, self._pending = self._pending, []
            sessions = list(self._unsaved)
        if not groups:
            return
        try:
            self._refuse_if_unable()
            self._commit(groups, sessions)
        except StoreError as error:
            for group in groups:
                group.future.set_exception(error)
            return
        for group in groups:
            if group.refusal is None:
                group.future.set_result(None)
            else:
                group.future.set_exception(group.refusal)

    def _commit(self, groups: Sequence[EventGroup], sessions: Sequence[tuple[int, str]]) -> None:
        try:
            rows = [row for group in groups for row in group.rows]
            if self._known.may_hold(rows) or not self._insert(rows, sessions):
                self._insert_new(groups, sessions)
        except sqlite3.Error as error:
            raise self._fail(error) from error
        with self._gathering:
            del self._unsaved[: len(sessions)]

    def _insert_new(self, groups: Sequence[EventGroup], sessions: Sequence[tuple[int, str]]) -> None:
        """Write the rows that are not stored yet."""
        if not self._insert(self._unknown(groups), sessions):
            raise self._fail(
                sqlite3.IntegrityError("rows that are there and cannot be found; run: playproof store verify")
            )

    def _insert(self, rows: Sequence[tuple[RowShape, Row]], sessions: Sequence[tuple[int, str]]) -> bool:
        """Write rows in one transaction; give False, and write nothing, if one is already there."""
        by_shape: dict[RowShape, list[Row]] = {}
        for shape, row in rows:
            by_shape.setdefault(shape, []).append(row)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        if sessions:
            connection.executemany("INSERT INTO sessions VALUES (?, ?)", sessions)
        try:
            for shape, item in by_shape.items():
                connection.executemany(shape.insert, item)
        except sqlite3.IntegrityError:
            connection.execute("ROLLBACK")
            return False
        connection.execute("COMMIT")
        return True

    def _unknown(self, groups: Sequence[EventGroup]) -> list[tuple[RowShape, Row]]:
        """Give the rows that are not stored yet; mark groups that contradict what is stored."""
        taken: dict[int, tuple[RowShape, Row]] = {}
        for group in groups:
            new: dict[int, tuple[RowShape, Row]] = {}
            for shape, row in group.rows:
                known = new.get(row[0]) or taken.get(row[0])
                try:
                    stored = self._known.checksum(row[0]) if known is None else known[1][-1]
                except StoreError as error:
                    group.refusal = error
                    break
                if stored is None:
                    new[row[0]] = (shape, row)
                elif stored != row[-1]:
                    group.refusal = self._contradiction(row[0])
                    break
            else:
                taken |= new
        return list(taken.values())

    def _contradiction(self, identity: int) -> StoreError:
        number, seq = split_id(identity)
        event_id = f"{self.session_names()[number]}/{seq}"
        return StoreError(f"expected event {event_id} as it is stored, found another body; give a new fact a new seq")

    def _refuse_if_unable(self) -> None:
        if self._failure is not None:
            raise StoreError(self._failure)

    def _fail(self, error: sqlite3.Error) -> StoreError:
        """Undo what was begun and take nothing more."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")
        return self._stop(error)

    def _stop(self, error: sqlite3.Error | StoreError) -> StoreError:
        """Take nothing more: after a failed call nobody knows what the disk holds."""
        self._failure = (
            f"expected log {self.name!r} to write, found: {error}; nothing of this commit was acknowledged and"
            " the log is read-only now: what was acknowledged is kept; see to the disk, then open the log again"
        )
        return StoreError(self._failure)


def take_lock(path: Path, log: str) -> IO[str]:
    """Become the log's one writer, until the file given back is closed or this process ends."""
    try:
        lock = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"expected to open {path}, found: {error.strerror}; free space or change its rights"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise StoreError(
            f"expected to be the one writer of log {log!r}, found process {holder} writing it; stop that one, or record"
            " into another log"
        ) from error
    with contextlib.suppress(OSError):  # the number is a courtesy; a full disk has no room for it
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
    return lock


def unfinished_files(home: Path) -> list[Path]:
    """Give the files that killed compactions left unfinished, in logs that nobody is writing."""
    left = []
    for folder in sorted((home / "events" / "_staging").glob("*")):
        try:
            with (home / "log" / f"{folder.name}.lock").open("r+", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left += [path for path in sorted(folder.iterdir()) if path.is_file()]
        except OSError:
            continue
    return left


def _settle(connection: sqlite3.Connection) -> None:
    """Move what an earlier writer left in the write-ahead log into the database file, synced.

    If that writer died of a failed sync, the end of its write-ahead log may be in memory only: nothing may be
    acknowledged on top of it.
    """
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise StoreError(
            "expected to settle the write-ahead log, found readers that do not end; end them, then open again"
        )


def _sync_folders(path: Path) -> None:
    """Make the names of a new log's file and folders durable."""
    for parent in (path.parent, path.parent.parent, path.parent.parent.parent):
        sync_folder(parent)


def sync_folder(path: Path) -> None:
    """Make new names in a folder durable."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return  # a folder above the home that others own
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _has_session(path: Path, session_id: str) -> bool:
    """Tell whether another log holds a session; one that cannot be read holds none."""
    with contextlib.closing(connect_reader(path)) as reader, contextlib.suppress(sqlite3.Error):
        row = reader.execute("SELECT 1 FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
        return row is not None
    return False
