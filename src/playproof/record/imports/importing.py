"""Import old recordings: files, folders and archives in, acknowledged events and a report out.

Everything is read twice: once to find the rows, the damage and which files share a recording, once
to make events. Nothing is unpacked to disk, and the events of files that belong together are
committed in one group after all of them were read. Session ids and seqs come from content alone:
the same files under other names and in another order give the same rows, and a second import
changes nothing. Leaves out: what rows mean (the game's importers) and where events are kept.

A file that cannot be read is reported, and the others go on.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Protocol

from playproof.errors import StoreError
from playproof.events import Event, check_id
from playproof.game.importers import (
    Importer,
    ImportPart,
    ImportProblem,
    ImportReading,
    ImportRow,
    ImportSettings,
    PlayCounts,
    WindowCoverage,
)
from playproof.json_types import Json
from playproof.record.imports.archives import LIMITS, Archive, ArchiveLimits, Visit
from playproof.record.imports.event_store import StoreSurvey
from playproof.record.imports.rows import RowReader, Scan

Key = tuple[str, int]
"""A file: its name, and the how-manieth it is of that name."""
Parts = Mapping[str | None, ImportPart]
"""What one file holds, by recording."""
Advance = Callable[[str, int, int | None], None]
"""Hears what is being done, how many files are done, and of how many if that is known."""

MOST_ON_THE_WAY = 20_000
"""Events that may wait for their commit."""
REFUSED = "Import a session once it has ended, or the whole store into a new home (PLAYPROOF_HOME)"
STORE_GROUP = 2_000
"""Events of a foreign store that are committed together."""
_DIGEST_SHOWN = 16


@dataclass
class ImportReport:
    """What an import found; the counts are defined in docs/guides/importing.md."""

    files: int = 0
    rounds: int = 0
    rugged: int = 0
    ticks: int = 0
    duplicates: int = 0
    gaps: int = 0
    incomplete: int = 0
    corrupt_lines: int = 0
    completed: int = 0
    """Rounds of which the prices before the recording began came from what the feed published afterwards."""
    presses: int = 0
    sequences: int = 0
    orders: int = 0
    matched: int = 0
    """Orders whose fill was recorded."""
    refused: int = 0
    """Orders without a fill."""
    rows: int = 0
    """Rows that could be read."""
    events: int = 0
    """Events in the store after it, those of an earlier import included."""
    refused_sessions: int = 0
    """Sessions that are stored already, from other rows of them, and were left as they are."""
    kinds: dict[str, int] = field(default_factory=dict)
    """Files by the kind of recording that they hold."""
    problems: list[Json] = field(default_factory=list)
    """Each with file, line (None if it is about the whole file) and problem."""

    def __add__(self, other: ImportReport) -> ImportReport:
        """Join the reports of two kinds of files under one path."""
        mine, theirs = asdict(self), asdict(other)
        joined: Json = {name: value + theirs[name] for name, value in mine.items() if name != "kinds"}
        kinds = dict(Counter(self.kinds) + Counter(other.kinds))
        return ImportReport(**joined | {"kinds": kinds})


class ImportSink(Protocol):
    """Where events become durable."""

    @property
    def failure(self) -> str | None:
        """Tell why the log takes nothing more; None while it does."""

    def submit(self, events: Sequence[Event]) -> Future[None]:
        """Take events as one group; the future resolves when they are durable, or says why they were refused."""


def _groups(scans: Sequence[Scan]) -> list[int]:
    """Give for each file the number of its group: files that share a recording are in one."""
    groups, first = list(range(len(scans))), dict[str, int]()

    def root(index: int) -> int:
        while groups[index] != index:
            groups[index] = index = groups[groups[index]]
        return index

    for position, scan in enumerate(scans):
        for recording in scan.recordings - {None}:
            assert recording is not None
            groups[root(position)] = root(first.setdefault(recording, position))
    return [root(index) for index in range(len(scans))]


def silent(what: str, done: int, total: int | None) -> None:
    """Hear of progress, and do nothing."""


class Import:
    """One import of everything under a path into one log."""

    def __init__(
        self,
        path: Path | Sequence[Path],
        kind: str,
        importer: Importer,
        setting: ImportSettings,
        log: ImportSink,
        *,
        limits: ArchiveLimits = LIMITS,
        only: Set[str] | None = None,
    ) -> None:
        """Import files of one kind; `only` names the files to read, where others stand beside them."""
        self.kind, self.importer, self.setting = check_id(kind, "a kind of recording"), importer, setting
        self.log, self.limits = log, limits
        self._archive, self._only = Archive(path, limits), only
        self._scans: dict[Key, Scan] = {}
        self._problems: list[ImportProblem] = []
        self._tally = _Tally()
        self._on_the_way: deque[tuple[Future[None], int, Sequence[str]]] = deque()

    def run(self, advance: Advance = silent) -> ImportReport:
        """Read everything, commit the events group by group, and report."""
        problems = self._archive.visit(self._numbered_visit(lambda key, stream: self._look(key, stream, advance)))
        self._problems += problems if self._only is None else ()
        scans = list(self._scans.values())
        gathered = _PendingGroup(dict(zip(self._scans, _groups(scans), strict=True)))
        gathered.forget(key for key, scan in self._scans.items() if not scan.recordings)
        self._leave_out_large(gathered)
        done = 0

        def read(key: Key, stream: BinaryIO) -> None:
            nonlocal done
            self._read(key, stream, gathered)
            done += 1
            advance("importing", done, len(scans))

        self._archive.visit(self._numbered_visit(read))
        for name, _ in sorted(gathered.waiting):
            self._problems.append(ImportProblem(name, 0, "the file could not be read a second time; import it again"))
        for parts in gathered.rest():
            self._settle(parts)
        while self._on_the_way:
            self._await_oldest()
        return self._report(scans)

    def _numbered_visit(self, take: Callable[[Key, BinaryIO], None]) -> Visit:
        """Tell files apart that have the same name."""
        times = Counter[str]()

        def visit(name: str, stream: BinaryIO) -> None:
            times[name] += 1
            if self._only is None or name in self._only:
                take((name, times[name]), stream)

        return visit

    def _look(self, key: Key, stream: BinaryIO, advance: Advance) -> None:
        """Read a file for the first time: its damage, and what it holds rows of."""
        file = RowReader(key[0], self.importer, self.limits)
        recordings, known = set[str | None](), False
        for row in file.rows(stream):
            recordings.add(self.importer.recording(row.value))
            known = known or self.importer.is_row(row.value)
        if known:
            file.scan.recordings = frozenset(recordings)
        else:
            shown = file.scan.document or "none"
            text = f"expected rows of a recording of the kind {self.kind!r}, found {shown}; the file was left out"
            file.scan.problems.append(ImportProblem(key[0], 0, text))
        self._scans[key] = file.scan
        advance("reading", len(self._scans), None)

    def _leave_out_large(self, gathered: _PendingGroup) -> None:
        """Take groups out that are too large to be held together."""
        for keys in gathered.members().values():
            size = sum(self._scans[key].size for key in keys)
            if size > self.limits.file_bytes:
                for name, _ in keys:
                    text = f"expected at most {self.limits.file_bytes} bytes that share a recording, found {size}"
                    self._problems.append(ImportProblem(name, 0, f"{text}; the file was left out"))
                gathered.forget(keys)

    def _read(self, key: Key, stream: BinaryIO, gathered: _PendingGroup) -> None:
        """Read a file for the second time, and settle its group when it is the last one of it."""
        if key not in gathered.waiting:
            return
        file = RowReader(key[0], self.importer, self.limits)
        rows: dict[str | None, list[ImportRow]] = defaultdict(list)
        for row in file.rows(stream):
            rows[self.importer.recording(row.value)].append(row)
        if file.scan.digest != self._scans[key].digest:
            self._problems.append(ImportProblem(key[0], 0, "the file changed while it was read; import it again"))
            rows.clear()
        parts = gathered.add(
            key, {name: ImportPart(key[0], file.scan.digest, tuple(some)) for name, some in rows.items()}
        )
        if parts is not None:
            self._settle(parts)

    def _settle(self, parts: Sequence[Parts]) -> None:
        """Make events of files that belong together, and commit them as one group."""
        recordings: dict[str, list[ImportPart]] = defaultdict(list)
        for result in parts:
            for recording, part in result.items():
                own = f"{self.kind}-{recording or part.digest[:_DIGEST_SHOWN]}"
                recordings[own].append(part)
        events: list[Event] = []
        for session_id in sorted(recordings):
            events += self._events(session_id, recordings[session_id])
        if events:
            self._commit(events, sorted({part.file for value in parts for part in value.values()}))

    def _events(self, session_id: str, parts: Sequence[ImportPart]) -> list[Event]:
        unique = {part.digest: part for part in sorted(parts, key=lambda part: part.file, reverse=True)}
        reading = self.importer.read(tuple(unique.values()), self.setting)
        again = len(parts) - len(unique)
        self._tally.add(
            reading, sum(len(part.rows) for part in parts) - sum(len(part.rows) for part in unique.values())
        )
        self._problems += reading.problems
        if again:
            self._problems += (
                ImportProblem(part.file, 0, f"the same bytes as {unique[part.digest].file}; counted as duplicates")
                for part in parts
                if unique[part.digest] is not part
            )
        return [
            result.fact.event(result.ts, session_id, seq, source="import", direction=result.direction, raw=result.raw)
            for seq, result in enumerate(reading.facts)
        ]

    def _commit(self, events: Sequence[Event], files: Sequence[str]) -> None:
        """Hand a group to the log, and wait for earlier ones where too many events are on their way."""
        try:
            self._on_the_way.append((self.log.submit(events), len(events), files))
        except StoreError as error:
            self._refused(error, files)
        while sum(count for _, count, _ in self._on_the_way) > MOST_ON_THE_WAY:
            self._await_oldest()

    def _await_oldest(self) -> None:
        """Wait until a group is durable or refused."""
        future, _, files = self._on_the_way.popleft()
        try:
            future.result()
        except StoreError as error:
            self._refused(error, files)

    def _refused(self, error: StoreError, files: Sequence[str]) -> None:
        """Report a group that the log refuses; a log that has failed is an error."""
        if self.log.failure is not None:
            raise error
        self._problems += (ImportProblem(file, 0, f"the store refused it: {error}") for file in files)

    def _report(self, scans: Sequence[Scan]) -> ImportReport:
        problems = {*self._problems, *(problem for scan in scans for problem in scan.problems)}
        seen = self._tally.seen.values()
        return ImportReport(
            files=sum(bool(scan.recordings) for scan in scans),
            rounds=len(seen),
            rugged=sum(one.ended for one in seen),
            ticks=self._tally.docs["game_tick"],
            duplicates=self._tally.duplicates,
            gaps=self._tally.docs["gap"],
            incomplete=sum(not one.whole for one in seen),
            corrupt_lines=sum(scan.corrupt_lines for scan in scans),
            completed=sum(one.completed for one in seen),
            **asdict(self._tally.play),
            rows=sum(scan.rows for scan in scans if scan.recordings),
            events=self._tally.docs.total(),
            kinds={self.kind: count} if (count := sum(bool(scan.recordings) for scan in scans)) else {},
            problems=listed(problems, self.limits.problems),
        )


def listed(problems: Iterable[ImportProblem], most: int) -> list[Json]:
    """Give problems as the report lists them, and where a file has too many the number of the others."""
    result: list[ImportProblem] = []
    for file, some in groupby(sorted(problems), key=lambda problem: problem.file):
        own = list(some)
        result += own[:most]
        if len(own) > most:
            result.append(ImportProblem(file, 0, f"{len(own) - most} further problems are not listed"))
    return [asdict(problem) | {"line": problem.line or None} for problem in result]


def import_store(
    survey: StoreSurvey, kind: str, setting: ImportSettings, log: ImportSink, advance: Advance = silent
) -> ImportReport:
    """Commit the events of a foreign event store, session by session, and report."""
    tally, problems, done, refused = _Tally(), list[ImportProblem](), 0, 0
    for session in survey.sessions(setting):
        group: list[Event] = []
        waiting: deque[Future[None]] = deque()
        before = done

        def progress(rows: int, before: int = before) -> None:
            advance("importing", before + rows, survey.rows)

        try:
            for event in session.events(check_id(kind, "a kind of recording"), progress):
                group.append(event)
                tally.docs[event.doc_type] += 1
                if len(group) >= STORE_GROUP:
                    waiting.append(log.submit(group))
                    group = []
                while len(waiting) * STORE_GROUP > MOST_ON_THE_WAY:
                    waiting.popleft().result()
            if group:
                waiting.append(log.submit(group))
            for future in waiting:
                future.result()
        except StoreError as error:
            if log.failure is not None:
                raise
            text = f"session {session.session_id!r} is stored already, from other rows of it; nothing was changed"
            problems.append(ImportProblem(survey.files[0].name, 0, f"{text}. {REFUSED}. ({error})"))
            refused += 1
            continue
        reading = session.reading()
        tally.add(reading, 0)
        problems += reading.problems
        done += len(session)
    seen = tally.seen.values()
    return ImportReport(
        files=survey.read_files,
        rounds=len(seen),
        rugged=sum(one.ended for one in seen),
        ticks=tally.docs["game_tick"],
        duplicates=tally.duplicates,
        gaps=tally.docs["gap"],
        incomplete=sum(not one.whole for one in seen),
        completed=sum(one.completed for one in seen),
        **asdict(tally.play),
        rows=survey.rows,
        events=tally.docs.total(),
        refused_sessions=refused,
        kinds={kind: survey.read_files} if survey.read_files else {},
        problems=listed([*problems, *survey.problems], LIMITS.problems),
    )


class _PendingGroup:
    """Files of which others of the same group are still to be read."""

    def __init__(self, groups: Mapping[Key, int]) -> None:
        self._group = dict(groups)
        self._held: dict[int, list[Parts]] = defaultdict(list)
        self.waiting = set(groups)
        self._open = Counter(groups.values())

    def members(self) -> dict[int, list[Key]]:
        """Give the files of each group."""
        result: dict[int, list[Key]] = defaultdict(list)
        for key, group in self._group.items():
            result[group].append(key)
        return result

    def forget(self, keys: Iterable[Key]) -> None:
        """Leave files out."""
        self.waiting -= set(keys)

    def add(self, key: Key, parts: Parts) -> list[Parts] | None:
        """Take a file; give its whole group if it was the last one."""
        group = self._group[key]
        self.waiting.discard(key)
        self._held[group].append(parts)
        self._open[group] -= 1
        return self._held.pop(group) if not self._open[group] else None

    def rest(self) -> list[list[Parts]]:
        """Give the groups that never became whole."""
        return list(self._held.values())


@dataclass
class _Tally:
    """What has been read so far."""

    docs: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    seen: dict[str, WindowCoverage] = field(default_factory=dict)
    play: PlayCounts = field(default_factory=PlayCounts)

    def add(self, reading: ImportReading, again: int) -> None:
        """Count a reading, and rows of files that came again byte for byte."""
        self.docs.update(result.fact.doc_type for result in reading.facts)
        self.duplicates += reading.duplicates + again
        self.play += reading.play
        for one in reading.seen:
            before = self.seen.get(one.window_id, one)
            self.seen[one.window_id] = WindowCoverage(
                one.window_id,
                one.ended or before.ended,
                one.whole or before.whole,
                one.completed and (before.completed or not before.whole or before is one),
            )
