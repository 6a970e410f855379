"""Compaction: whole windows move from the hot log into Parquet parts.

Parts are written and synced first; then one transaction lists them in the manifest and deletes their rows. Killed
anywhere before it, the rows are still hot; killed after it, they are in the parts. Small parts of the same
partition are taken into the new one, and their files stay for readers until the grace time is over.
Leaves out: when to compact, and the files themselves (parts).
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from playproof.errors import StoreError
from playproof.store.log.parts import (
    SORTED,
    PartEntry,
    PartFiles,
    check_part,
    date_of,
    encode,
    fill,
    footer_size,
    live_parts,
    part_path,
    schema,
    to_table,
)
from playproof.store.log.rows import SEQ_BITS, Row
from playproof.store.log.schema import connect_reader, log_names, log_path
from playproof.store.log.writer import EventLog

BATCH_ROWS = 20_000
"""Rows that are moved in one transaction, unless one window has more."""
MERGED_ROWS = 2_000_000
MERGED_BYTES = 1 << 26
"""A part as large as this is left as it is."""
GRACE_SECONDS = 3600.0
"""How long the file of a part that was taken into another stays for readers that still hold an older manifest."""


class Range(NamedTuple):
    """Neighbouring rows of one session."""

    first: int
    last: int
    rows: int


@dataclass
class PartDraft:
    """A new part before it is in the manifest."""

    part: PartEntry
    sessions: list[tuple[int, int, int, int]]
    """Number, first seq, last seq and rows of each session."""
    content: pa.Buffer
    absorbed: list[PartEntry] = field(default_factory=list)


def compact(
    home: Path,
    logs: Sequence[str] | None = None,
    *,
    final: bool = False,
    files: PartFiles | None = None,
    grace: float = GRACE_SECONDS,
    clock: Callable[[], float] = time.time,
) -> dict[str, dict[str, int]]:
    """Compact logs that nobody is writing, all of them if none is named; give rows and parts of each.

    A session's last window stays hot, since more of it may come; with `final` it moves too.
    """
    answers = {}
    for name in log_names(home) if logs is None else logs:
        if not log_path(home, name).exists():
            raise StoreError(f"expected a log of {home}, found no {name!r}; use one of: {', '.join(log_names(home))}")
        with EventLog.open(home, (), name) as log:
            answers[name] = compact_log(log, final=final, files=files, grace=grace, clock=clock)
    return answers


def compact_log(
    log: EventLog,
    *,
    final: bool = False,
    files: PartFiles | None = None,
    grace: float = GRACE_SECONDS,
    clock: Callable[[], float] = time.time,
) -> dict[str, int]:
    """Compact one log through its writer, which may go on writing."""
    counts = Counter(rows=0, parts=0, damaged=0, removed=0)
    with log.compacting:
        try:
            for _ in compaction_steps(log, files or PartFiles.at(log.home), counts, final, clock() - grace, clock):
                pass
        except (OSError, sqlite3.Error, pa.ArrowException) as error:
            raise StoreError(
                f"expected to write parts of log {log.name!r}, found: {error}; all events are kept: see to the"
                " disk, then compact again"
            ) from error
    return dict(counts)


def compaction_steps(
    log: EventLog,
    files: PartFiles,
    counts: Counter[str],
    final: bool,
    before: float,
    clock: Callable[[], float],
) -> Iterator[str]:
    """Compact step by step, naming each step when it is done; others may append and read between any two.

    The rows of a batch are read once. Those rows, by their ids, go into parts and are deleted: an event that arrives
    in the middle of a planned range after that stays hot.
    """
    counts["removed"] = _sweep(log, files, before)
    yield "swept"
    plan = _plan(log, final)
    yield "planned"
    for batch in _batches(plan):
        with contextlib.closing(connect_reader(log_path(log.home, log.name))) as reader:
            rows = [
                row
                for item in batch
                for row in reader.execute(f"{log.layout.select} WHERE id BETWEEN ? AND ? ORDER BY id", item[:2])
            ]
            live = live_parts(reader, log.name)
        yield "read"
        good = [row for row in rows if log.layout.intact(row)]
        damaged = [row for row in rows if not log.layout.intact(row)]
        drafts = [
            _draft(log, files, doc_type, date, part, live) for (doc_type, date), part in _partitions(good).items()
        ]
        yield from publishing_steps(log, files, drafts)
        log.transact(lambda connection: _commit(connection, drafts, rows, damaged, clock()))  # noqa: B023
        counts.update(rows=len(good), parts=len(drafts), damaged=len(damaged))
        yield "committed"


def _plan(log: EventLog, final: bool) -> list[Range]:
    with contextlib.closing(connect_reader(log_path(log.home, log.name))) as reader:
        result = reader.execute("SELECT id, window_id FROM events ORDER BY id")
        sessions = groupby(result, key=lambda row: row[0] >> SEQ_BITS)
        return [whole_window for _, rows in sessions for whole_window in whole_windows(list(rows), final)]


def whole_windows(rows: Sequence[tuple[int, str | None]], final: bool) -> Iterator[Range]:
    """Cut one session's (key, window id) rows where no window is cut; leave out the last window unless final.

    Rows without a window go with what stands before them.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, (_, window) in enumerate(rows):
        if window is not None:
            first.setdefault(window, index)
            last[window] = index
    end = len(rows)
    if not final:
        end = first[max(last, key=last.__getitem__)] if last else 0
    start, reach = 0, -1
    good = 0
    for index, (_, window) in enumerate(rows[:end]):
        reach = max(reach, last[window]) if window is not None else reach
        if reach > index:
            continue
        good = index + 1
        if good - start >= BATCH_ROWS:
            yield Range(rows[start][0], rows[index][0], good - start)
            start = good
    if good > start:
        yield Range(rows[start][0], rows[good - 1][0], good - start)


def _batches(ranges: Iterable[Range]) -> Iterator[list[Range]]:
    """Put small ranges together."""
    batch: list[Range] = []
    for item in ranges:
        if batch and sum(known.rows for known in batch) + item.rows > BATCH_ROWS:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def _partitions(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Sort rows by doc_type and UTC date."""
    result: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        result.setdefault((row[4], date_of(row[1])), []).append(row)
    return result


def _draft(
    log: EventLog, files: PartFiles, doc_type: str, date: str, rows: Sequence[Row], live: Sequence[PartEntry]
) -> PartDraft:
    """Make a part of rows, and of the smaller parts of its partition."""
    names = log.session_names()
    tables = [to_table(rows, log.layout, names)]
    absorbed = []
    total = len(rows)
    for part in sorted((item for item in live if (item.doc_type, item.date) == (doc_type, date)), key=lambda p: p.rows):
        if part.rows > 2 * total or total + part.rows > MERGED_ROWS or part.bytes > MERGED_BYTES:
            break
        if check_part(files, part) is None:
            tables.append(files.table(part.path))
            absorbed.append(part)
            total += part.rows
    shape = schema(log.layout.columns)
    table = pa.concat_tables([fill(item, shape) for item in tables]).sort_by(SORTED)
    return draft_part(log, doc_type, date, table, absorbed)


def draft_part(
    log: EventLog, doc_type: str, date: str, table: pa.Table, absorbed: Sequence[PartEntry] = ()
) -> PartDraft:
    """Make the bytes and the manifest's entries of a part of sorted rows."""
    content = encode(table)
    path, sha256 = part_path(log.name, doc_type, date, content)
    numbers = {name: number for number, name in log.session_names().items()}
    spans = table.group_by("session_id").aggregate([("seq", "min"), ("seq", "max"), ("seq", "count")])
    sessions = [
        (numbers[item["session_id"]], item["seq_min"], item["seq_max"], item["seq_count"]) for item in spans.to_pylist()
    ]
    footer = hashlib.sha256(memoryview(content)[-footer_size(memoryview(content)) :]).hexdigest()
    part = PartEntry(log.name, path, doc_type, date, table.num_rows, content.size, sha256, footer)
    return PartDraft(part, sessions, content, list(absorbed))


def publish(log: EventLog, files: PartFiles, drafts: Sequence[PartDraft]) -> None:
    """Write drafts to their places, after noting there that they may be left over."""
    for _ in publishing_steps(log, files, drafts):
        pass


def publishing_steps(log: EventLog, files: PartFiles, drafts: Sequence[PartDraft]) -> Iterator[str]:
    """Publish drafts step by step, naming each step when it is done."""
    staged = [files.stage(log.name, Path(draft.part.path).name, draft.content) for draft in drafts]
    yield "staged"
    paths = [(draft.part.path,) for draft in drafts]
    log.transact(lambda connection: _note(connection, paths))
    yield "noted"
    for draft, index in zip(drafts, staged, strict=True):
        files.publish(index, draft.part.path)
        yield "published"


def _note(connection: sqlite3.Connection, paths: Sequence[tuple[str]]) -> None:
    connection.executemany("INSERT OR IGNORE INTO unfinished VALUES (?)", paths)


def list_parts(connection: sqlite3.Connection, drafts: Sequence[PartDraft]) -> None:
    """Put drafts into the manifest."""
    for draft in drafts:
        part = draft.part
        connection.execute(
            "INSERT OR REPLACE INTO parts (path, doc_type, date, rows, bytes, sha256, footer)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (part.path, part.doc_type, part.date, part.rows, part.bytes, part.sha256, part.footer),
        )
        connection.executemany(
            "INSERT OR REPLACE INTO part_sessions (path, number, first, last, rows) VALUES (?, ?, ?, ?, ?)",
            [(part.path, *session) for session in draft.sessions],
        )
        connection.execute("DELETE FROM unfinished WHERE path = ?", (part.path,))


def _commit(
    connection: sqlite3.Connection,
    drafts: Sequence[PartDraft],
    rows: Sequence[Row],
    damaged: Sequence[Row],
    now: float,
) -> None:
    """List the parts and delete the rows they hold, and no others, in the writer's transaction."""
    list_parts(connection, drafts)
    replaced = [(now, part.path) for draft in drafts for part in draft.absorbed]
    connection.executemany("UPDATE parts SET state = 'replaced', replaced_at = ? WHERE path = ?", replaced)
    set_rows_aside(connection, damaged)
    runs = consecutive_runs([row[0] for row in rows])
    connection.executemany("DELETE FROM events WHERE id BETWEEN ? AND ?", runs)


def consecutive_runs(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Give ascending ids as runs without a gap: nothing else can lie between two ids that follow each other."""
    starts = [index for index, identity in enumerate(ids) if not index or ids[index - 1] + 1 != identity]
    return [(ids[start], ids[end - 1]) for start, end in pairwise([*starts, len(ids)])]


def set_rows_aside(connection: sqlite3.Connection, damaged: Sequence[Row]) -> None:
    """Move damaged rows out of the way of readers, in the writer's transaction."""
    reason = "checksum differs"
    connection.executemany("INSERT INTO quarantine VALUES (?, ?, ?)", [(row[0], ascii(row), reason) for row in damaged])
    connection.executemany("DELETE FROM events WHERE id = ?", [(row[0],) for row in damaged])


def _sweep(log: EventLog, files: PartFiles, before: float) -> int:
    """Delete what a killed compaction left, and the files of parts that were replaced long enough ago."""
    with contextlib.closing(connect_reader(log_path(log.home, log.name))) as reader:
        listed = {path for (path,) in reader.execute("SELECT path FROM parts WHERE state = 'live'")}
        left = [path for (path,) in reader.execute("SELECT path FROM unfinished") if path not in listed]
        unknown = [part for part in live_parts(reader, log.name) if part.footer is None]
        old = [
            path
            for (path,) in reader.execute(
                "SELECT path FROM parts WHERE state = 'replaced' AND replaced_at <= ?", (before,)
            )
        ]
    cleared = files.clear_staging(log.name)
    for path in (*left, *old):
        files.remove(path)
    if left or old:
        log.transact(lambda connection: _forget(connection, old))
    # Parts of earlier versions: their footers are noted once, and readers need not read the whole files any more.
    footers = [(files.footer_sha256(part.path), part.path) for part in unknown if check_part(files, part) is None]
    if footers:
        log.transact(lambda connection: _note_footers(connection, footers))
    return cleared + len(left) + len(old)


def _note_footers(connection: sqlite3.Connection, footers: Sequence[tuple[str | None, str]]) -> None:
    connection.executemany("UPDATE parts SET footer = ? WHERE path = ?", footers)


def _forget(connection: sqlite3.Connection, replaced: Sequence[str]) -> None:
    connection.execute("DELETE FROM unfinished")
    for table in ("parts", "part_sessions"):
        connection.executemany(f"DELETE FROM {table} WHERE path = ?", [(path,) for path in replaced])  # noqa: S608
