"""Verify: check every part and every hot row against its checksum, set damage aside, say what was found.

Leaves out: repair. An event that was set aside can be appended again from its source.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from playproof.errors import StoreError
from playproof.store.log.compaction import set_rows_aside
from playproof.store.log.parts import PartEntry, PartFiles, check_part, live_parts
from playproof.store.log.rows import SEQ_BITS, Row, split_id
from playproof.store.log.schema import connect_reader, log_names, log_path, read_layout
from playproof.store.log.writer import EventLog

Kind = Literal["log", "row", "part", "missing", "double", "foreign"]


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is not as it was written."""

    kind: Kind
    what: str
    detail: str
    set_aside: bool
    """Was it moved out of the way? False for what is missing, foreign, or under a writer."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and what was found."""

    parts: int
    rows: int
    """Hot rows."""
    findings: tuple[Damage, ...]

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Give the findings that concern events; foreign files do not."""
        return tuple(finding for finding in self.findings if finding.kind != "foreign")


def verify(home: Path, files: PartFiles | None = None, *, give_up_missing: bool = False) -> Verification:
    """Check a whole home and set aside what is damaged, except in logs that are being written: those are told.

    Missing parts may come back and stay listed, unless they are given up: their events can then be appended again,
    and a file that comes back later is not read.
    """
    parts = files or PartFiles.at(home)
    checked = [_verify_log(home, name, parts, give_up_missing) for name in log_names(home)]
    listed = {path for home_log in log_names(home) for path in _known_paths(home, home_log)}
    foreign = [
        Damage("foreign", path, "no manifest lists it", set_aside=False) for path in parts.all() if path not in listed
    ]
    findings = [finding for item in checked for finding in item.findings]
    return Verification(sum(item.parts for item in checked), sum(item.rows for item in checked), (*findings, *foreign))


def _verify_log(home: Path, name: str, files: PartFiles, give_up_missing: bool) -> Verification:
    try:
        with contextlib.closing(connect_reader(log_path(home, name))) as reader:
            reader.execute("BEGIN")
            manifest = live_parts(reader, name)
            sessions = dict(reader.execute("SELECT number, session_id FROM sessions").fetchall())
            layout = read_layout(reader)
            rows = [row for row in reader.execute(layout.select) if not layout.intact(row)]
            hot = [identity for (identity,) in reader.execute("SELECT id FROM events")]
            structure = [text for (text,) in reader.execute("PRAGMA quick_check") if text != "ok"]
    except sqlite3.DatabaseError as error:
        return Verification(0, 0, (Damage("log", name, f"unreadable: {error}", set_aside=False),))
    parts = [(part, problem) for part in manifest if (problem := _part_problem(files, part)) is not None]
    aside = _set_aside(home, name, files, parts, rows, give_up_missing)
    findings = [Damage("log", name, text, set_aside=False) for text in structure]
    findings += [_row_finding(row, sessions, aside) for row in rows]
    findings += [
        Damage(
            "missing" if problem == "missing" else "part",
            part.path,
            problem,
            aside and (give_up_missing or problem != "missing"),
        )
        for part, problem in parts
    ]
    problems = {part.path for part, _ in parts}
    findings += _doubles(files, [part for part in manifest if part.path not in problems], hot, sessions)
    return Verification(len(manifest), len(hot), tuple(findings))


def _doubles(
    files: PartFiles, parts: Sequence[PartEntry], hot: Sequence[int], sessions: Mapping[int, str]
) -> list[Damage]:
    """Tell which events are stored more than once: in two parts, or in a part and in the log."""
    numbers = {name: number for number, name in sessions.items()}
    stored = [np.array(hot, np.int64)]
    for part in parts:
        table = files.table(part.path, ["session_id", "seq"])
        names = table["session_id"].combine_chunks().dictionary_encode()
        known = np.array([numbers[name] for name in names.dictionary.to_pylist()], np.int64)
        stored.append((known[names.indices.to_numpy()] << SEQ_BITS) | table["seq"].to_numpy())
    identities, counts = np.unique(np.concatenate(stored), return_counts=True)
    doubled = identities[counts > 1].tolist()
    return [
        Damage("double", f"{sessions[number]}/{seq}", "stored more than once", set_aside=False)
        for number, seq in map(split_id, doubled)
    ]


def _row_finding(row: Row, sessions: dict[int, str], aside: bool) -> Damage:
    number, seq = split_id(row[0])
    return Damage("row", f"{sessions.get(number, number)}/{seq}", "checksum differs", aside)


def _part_problem(files: PartFiles, part: PartEntry) -> str | None:
    """Check bytes, readability and number of rows."""
    problem = check_part(files, part)
    if problem is not None:
        return problem
    try:
        rows = files.table(part.path).num_rows
    except (OSError, pa.ArrowException) as error:
        return f"unreadable: {error}"
    return None if rows == part.rows else f"{rows} rows where {part.rows} were written"


def _set_aside(
    home: Path,
    name: str,
    files: PartFiles,
    parts: Sequence[tuple[PartEntry, str]],
    rows: Sequence[Row],
    give_up_missing: bool,
) -> bool:
    """Mark damage in the manifest, then move files; give False if the log has a writer."""
    damaged = [(problem, part.path) for part, problem in parts if give_up_missing or problem != "missing"]
    if not damaged and not rows:
        return False
    try:
        log = EventLog.open(home, (), name)
    except StoreError:
        return False
    with log:
        log.transact(lambda connection: _mark(connection, damaged, rows))
        for problem, path in damaged:
            if problem != "missing":
                files.set_aside(path)
    return True


def _mark(connection: sqlite3.Connection, damaged: Sequence[tuple[str, str]], rows: Sequence[Row]) -> None:
    connection.executemany("UPDATE parts SET state = 'quarantined', reason = ? WHERE path = ?", damaged)
    set_rows_aside(connection, rows)


def _known_paths(home: Path, name: str) -> list[str]:
    """Give every path that a log's manifest knows, replaced and unfinished ones too."""
    with contextlib.closing(connect_reader(log_path(home, name))) as reader, contextlib.suppress(sqlite3.DatabaseError):
        return [path for (path,) in reader.execute("SELECT path FROM parts UNION SELECT path FROM unfinished")]
    return []
