"""Import old recordings: files, folders and archives in, acknowledged events and a report out.

Everything is read twice: once to find the rows, the damage and which files share a recording, once
to make events. Nothing is unpacked to disk, and the events of files that belong together are
committed in one group after all of them were read. Session ids and seqs come from content alone:
the same files under other names and in another order give the same rows, and a second import
changes nothing. Leaves out: what rows mean (the game's importers) and where events are kept.

A file that cannot be read is reported and the others go on. A line that is not one JSON object is
searched for whole rows: an object counts if it names no key twice, and if the importer knows it for
a row and not for a piece of one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol, Self, cast

import orjson

from playproof.errors import DecodeError, InputError, StoreError
from playproof.events import Event, check_id
from playproof.game.importing import Importer, Part, Problem, Reading, Row, Seen, Setting

Key = tuple[str, int]
"""A file: its name, and the how-manieth it is of that name."""
Parts = Mapping[str | None, Part]
"""What one file holds, by recording."""
Advance = Callable[[str, int, int | None], None]
"""Hears what is being done, how many files are done, and of how many if that is known."""

Visit = Callable[[str, BinaryIO], None]

BROKEN = (OSError, EOFError, zlib.error, tarfile.TarError)
"""What a damaged or torn file raises when it is read."""
BLOCK = 1 << 16
SALVAGE_BYTES = 2**20
"""Damaged lines that are longer are not searched for rows."""
SALVAGE_TRIES = 1000
_OPENING = re.compile(r'\{[ \t]*"')
MOST_ON_THE_WAY = 20_000
"""Events that may wait for their commit."""
_GZIP = b"\x1f\x8b"
_TAR_BLOCK = 512
_USTAR = slice(257, 262)
_END_OF_ARCHIVE = "end of file header"
"""What tarfile says at the two empty blocks with which an archive ends."""
_ARCHIVE_NAMES = (".tar", ".tar.gz", ".tgz")
_NAME_SHOWN = 200
_DIGEST_SHOWN = 16


@dataclass(frozen=True)
class Limits:
    """How much is read before it is taken for an attack or a mistake."""

    files: int = 100_000
    file_bytes: int = 256 * 2**20
    """Of one file, unpacked; also of all files that share a recording."""
    total_bytes: int = 16 * 2**30
    ratio: int = 200
    """Unpacked bytes for each packed one."""
    spared_bytes: int = 2**20
    """Unpacked bytes that the ratio does not count."""
    line_bytes: int = 16 * 2**20
    problems: int = 1000
    """Problems listed of one file; further ones are summed up."""


LIMITS = Limits()


@dataclass
class Report:
    """What an import found; the counts are defined in docs/importing.md."""

    files: int = 0
    rounds: int = 0
    rugged: int = 0
    ticks: int = 0
    duplicates: int = 0
    gaps: int = 0
    incomplete: int = 0
    corrupt_lines: int = 0
    problems: list[dict[str, Any]] = field(default_factory=list)
    """Each with file, line (None if it is about the whole file) and problem."""


class Log(Protocol):
    """Where events become durable."""

    @property
    def failure(self) -> str | None:
        """Tell why the log takes nothing more; None while it does."""

    def submit(self, events: Sequence[Event]) -> Future[None]:
        """Take events as one group; the future resolves when they are durable, or says why they were refused."""


class _TooMuch(InputError):
    """Tell that a file is larger than the limits allow."""


class _Metered(io.RawIOBase):
    """Count what is read from a stream, and stop where the limit is."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        super().__init__()
        self._stream, self._most, self.count = stream, most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; raise once there are more than allowed."""
        piece = self._stream.read(min(len(buffer), BLOCK))
        self.count += len(piece)
        if self.count > self._most:
            raise _TooMuch(f"expected at most {self._most} bytes unpacked, found more; nothing of it was imported")
        buffer[: len(piece)] = piece
        return len(piece)


@dataclass
class _Scan:
    """What is known of one file after the first reading."""

    name: str
    digest: str = ""
    size: int = 0
    recordings: frozenset[str | None] = frozenset()
    problems: list[Problem] = field(default_factory=list)
    corrupt_lines: int = 0


def salvage(text: str, is_row: Callable[[Mapping[str, Any]], bool]) -> list[tuple[str, dict[str, Any]]]:
    """Give the whole rows that stand inside a damaged line, from left to right.

    The search ends after so many failed tries and so much text read again: no line can make it long.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    tries, budget, place = SALVAGE_TRIES, 16 * len(text), 0
    while tries and budget >= 0 and (start := _OPENING.search(text, place)):
        end, value = _object_at(text, start.start())
        if value is not None and is_row(value):
            found.append((text[start.start() : end], value))
            place = end
        else:
            tries, budget, place = tries - 1, budget - (end - start.start()), start.start() + 1
    return found


def _object_at(text: str, place: int) -> tuple[int, dict[str, Any] | None]:
    """Read one object that begins at a place; give where its reading ended, and None if there is none."""
    try:
        _, end = _STRICT.raw_decode(text, place)
        value = orjson.loads(text[place:end])
    except json.JSONDecodeError as error:
        return max(error.pos, place), None
    except (ValueError, RecursionError):
        return len(text), None
    return end, value if isinstance(value, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _lines(stream: BinaryIO, limits: Limits) -> Iterator[bytes | None]:
    """Give the lines of a stream; None for one that is too long to be held."""
    while line := stream.readline(limits.line_bytes + 1):
        if len(line) <= limits.line_bytes:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(BLOCK)
        yield None


def _parse(line: bytes) -> dict[str, Any] | None:
    """Read a line that is one JSON object; None if it is not."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


class _File:
    """One file on its single way through: its lines become rows, its damage is noted."""

    def __init__(self, name: str, importer: Importer, limits: Limits) -> None:
        self.scan = _Scan(name)
        self._importer, self._limits = importer, limits
        self._unlisted = 0

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Give the rows; the scan is complete when they have all been taken."""
        digest = hashlib.sha256()
        for number, line in enumerate(self._until_torn(stream), 1):
            if line is None:
                digest.update(b"\0")
                self._corrupt(number, "a line that is too long was left out")
                continue
            digest.update(line)
            self.scan.size += len(line)
            value = _parse(line)
            if value is not None:
                yield Row(number, line.strip().decode(), value)
            elif line.strip():
                yield from self._salvaged(number, line)
        self.scan.digest = digest.hexdigest()
        if self._unlisted:
            self.scan.problems.append(Problem(self.scan.name, 0, f"{self._unlisted} further problems are not listed"))

    def _until_torn(self, stream: BinaryIO) -> Iterator[bytes | None]:
        """Give the lines of a file up to where it cannot be read."""
        try:
            yield from _lines(stream, self._limits)
        except BROKEN as error:
            self.scan.problems.append(Problem(self.scan.name, 0, reason(error)))

    def _salvaged(self, number: int, line: bytes) -> Iterator[Row]:
        text = line.decode("utf-8", "surrogateescape") if len(line) <= SALVAGE_BYTES else ""
        found = salvage(text, self._importer.is_row)
        whole = [(text, value) for text, value in found if _encodable(text)]
        self._corrupt(number, f"not one JSON object; whole rows found in it: {len(whole)}")
        for text, value in whole:
            yield Row(number, text, value)

    def _corrupt(self, number: int, problem: str) -> None:
        self.scan.corrupt_lines += 1
        if len(self.scan.problems) < self._limits.problems:
            self.scan.problems.append(Problem(self.scan.name, number, problem))
        else:
            self._unlisted += 1


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Archive:
    """All files under a path, visited as streams, again and again in the same order."""

    def __init__(self, path: Path, limits: Limits = LIMITS) -> None:
        if not path.exists():
            raise InputError(f"expected a file, a folder or a tar archive, found nothing at {path}")
        self.path, self.limits = path, limits
        self._problems: list[Problem] = []
        self._files = self._bytes = 0

    def visit(self, take: Visit) -> list[Problem]:
        """Call a function with the name and the stream of every file; give what could not be read."""
        self._problems, self._files, self._bytes = [], 0, 0
        for name, path in self._paths():
            try:
                self._open(name, path, take)
            except _Full as full:
                self._report(name, str(full))
                break
            except (*BROKEN, InputError) as error:
                self._report(name, reason(error))
        return self._problems

    def _paths(self) -> Iterator[tuple[str, Path]]:
        """Give the files of a folder sorted by name, or the one file; links in a folder are not followed."""
        if not self.path.is_dir():
            yield self.path.name, self.path
            return
        for folder, folders, files in os.walk(self.path):
            folders.sort()
            for file in sorted(files):
                path = Path(folder, file)
                name = path.relative_to(self.path).as_posix()
                if path.is_symlink() or not path.is_file():
                    self._report(name, "a link or special file was left out")
                else:
                    yield _printable(name), path

    def _open(self, name: str, path: Path, take: Visit) -> None:
        """Open one file by what it holds, not by its name: an archive, something packed, or plain."""
        packed = path.stat().st_size
        with path.open("rb") as raw:
            is_packed = raw.read(2) == _GZIP
            raw.seek(0)
            plain = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if is_packed else cast(BinaryIO, raw)
            most = min(self.limits.total_bytes, packed * self.limits.ratio + self.limits.spared_bytes)
            stream = _metered(plain, most)
            if stream.peek(_TAR_BLOCK)[_USTAR] == b"ustar":
                self._members(f"{name}/" if self.path.is_dir() else "", stream, take)
            elif name.endswith(_ARCHIVE_NAMES):
                raise DecodeError("expected a tar archive, as its name says, found something else")
            else:
                self._take(name, 0, stream, take)

    def _members(self, prefix: str, stream: BinaryIO, take: Visit) -> None:
        """Visit the regular files of a tar archive; everything else is reported."""
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                if member.isdir():
                    continue
                name = prefix + _printable(member.name)
                why = _refusal(member, self.limits)
                opened = None if why else archive.extractfile(member)
                if opened is None:
                    self._report(name, why or "a member that is no regular file was left out")
                    continue
                try:
                    self._take(name, member.size, cast(BinaryIO, opened), take)
                except _TooMuch as error:
                    self._report(name, str(error))

    def _take(self, name: str, size: int, stream: BinaryIO, take: Visit) -> None:
        """Hand one file on, held to its limit; what is plainly no text is refused."""
        self._files += 1
        self._bytes += size
        if self._files > self.limits.files or self._bytes > self.limits.total_bytes:
            raise _Full(f"expected at most {self.limits.files} files and {self.limits.total_bytes} bytes, found more")
        limited = _metered(stream, self.limits.file_bytes)
        if b"\0" in limited.peek(BLOCK):
            self._report(name, "expected lines of JSON, found bytes that are no text; the file was left out")
        else:
            take(name, limited)

    def _report(self, name: str, problem: str) -> None:
        self._problems.append(Problem(name, 0, problem))


def _metered(stream: BinaryIO, most: int) -> io.BufferedReader:
    return io.BufferedReader(_Metered(stream, most), BLOCK)


def _printable(name: str) -> str:
    """Give a file's name as it may be shown."""
    return name[:_NAME_SHOWN].encode("utf-8", "backslashreplace").decode()


class _Full(InputError):
    """Tell that a limit on all files together is reached."""


class _Member(tarfile.TarInfo):
    """A member of an archive; one whose header is damaged is an error and not, as in tarfile, the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Read the next header."""
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            if str(error) == _END_OF_ARCHIVE:
                raise
            raise tarfile.ReadError(f"{error} at byte {archive.offset} of the archive") from error


def _refusal(member: tarfile.TarInfo, limits: Limits) -> str | None:
    """Say why a member of an archive is not read; its name is never used as a path."""
    pure = PurePosixPath(member.name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in member.name:
        return "a member whose name leads out of the archive was left out"
    if not member.isreg():
        return "a link or special member was left out"
    if member.size > limits.file_bytes:
        return f"expected at most {limits.file_bytes} bytes, found {member.size}; the file was left out"
    return None


def reason(error: Exception) -> str:
    """Say what was wrong with a file."""
    if isinstance(error, InputError):
        return str(error)
    return f"expected a file that can be read to its end, found: {error}; what was read before is kept"


def _groups(scans: Sequence[_Scan]) -> list[int]:
    """Give for each file the number of its group: files that share a recording are in one."""
    groups, first = list(range(len(scans))), dict[str, int]()

    def root(place: int) -> int:
        while groups[place] != place:
            groups[place] = place = groups[groups[place]]
        return place

    for place, scan in enumerate(scans):
        for recording in scan.recordings - {None}:
            assert recording is not None
            groups[root(place)] = root(first.setdefault(recording, place))
    return [root(place) for place in range(len(scans))]


def _silent(what: str, done: int, total: int | None) -> None:
    """Hear of progress, and do nothing."""


class Import:
    """One import of everything under a path into one log."""

    def __init__(
        self, path: Path, kind: str, importer: Importer, setting: Setting, log: Log, *, limits: Limits = LIMITS
    ) -> None:
        self.kind, self.importer, self.setting = check_id(kind, "a kind of recording"), importer, setting
        self.log, self.limits = log, limits
        self._archive = Archive(path, limits)
        self._scans: dict[Key, _Scan] = {}
        self._problems: list[Problem] = []
        self._tally = _Tally()
        self._on_the_way: deque[tuple[Future[None], int, Sequence[str]]] = deque()

    def run(self, advance: Advance = _silent) -> Report:
        """Read everything, commit the events group by group, and report."""
        self._problems += self._archive.visit(self._each(lambda key, stream: self._look(key, stream, advance)))
        scans = list(self._scans.values())
        gathered = _Gathered(dict(zip(self._scans, _groups(scans), strict=True)))
        gathered.forget(key for key, scan in self._scans.items() if not scan.recordings)
        self._leave_out_large(gathered)
        done = 0

        def read(key: Key, stream: BinaryIO) -> None:
            nonlocal done
            self._read(key, stream, gathered)
            done += 1
            advance("importing", done, len(scans))

        self._archive.visit(self._each(read))
        for name, _ in sorted(gathered.waiting):
            self._problems.append(Problem(name, 0, "the file could not be read a second time; import it again"))
        for parts in gathered.rest():
            self._settle(parts)
        while self._on_the_way:
            self._await_oldest()
        return self._report(scans)

    @staticmethod
    def _each(take: Callable[[Key, BinaryIO], None]) -> Visit:
        """Tell files apart that have the same name."""
        times = Counter[str]()

        def visit(name: str, stream: BinaryIO) -> None:
            times[name] += 1
            take((name, times[name]), stream)

        return visit

    def _look(self, key: Key, stream: BinaryIO, advance: Advance) -> None:
        """Read a file for the first time: its damage, and what it holds rows of."""
        file = _File(key[0], self.importer, self.limits)
        recordings, known = set[str | None](), False
        for row in file.rows(stream):
            recordings.add(self.importer.recording(row.value))
            known = known or self.importer.is_row(row.value)
        if known:
            file.scan.recordings = frozenset(recordings)
        else:
            text = f"expected rows of a recording of the kind {self.kind!r}, found none; the file was left out"
            file.scan.problems.append(Problem(key[0], 0, text))
        self._scans[key] = file.scan
        advance("reading", len(self._scans), None)

    def _leave_out_large(self, gathered: _Gathered) -> None:
        """Take groups out that are too large to be held together."""
        for keys in gathered.members().values():
            size = sum(self._scans[key].size for key in keys)
            if size > self.limits.file_bytes:
                for name, _ in keys:
                    text = f"expected at most {self.limits.file_bytes} bytes that share a recording, found {size}"
                    self._problems.append(Problem(name, 0, f"{text}; the file was left out"))
                gathered.forget(keys)

    def _read(self, key: Key, stream: BinaryIO, gathered: _Gathered) -> None:
        """Read a file for the second time, and settle its group when it is the last one of it."""
        if key not in gathered.waiting:
            return
        file = _File(key[0], self.importer, self.limits)
        rows: dict[str | None, list[Row]] = defaultdict(list)
        for row in file.rows(stream):
            rows[self.importer.recording(row.value)].append(row)
        if file.scan.digest != self._scans[key].digest:
            self._problems.append(Problem(key[0], 0, "the file changed while it was read; import it again"))
            rows.clear()
        parts = gathered.add(key, {name: Part(key[0], file.scan.digest, tuple(some)) for name, some in rows.items()})
        if parts is not None:
            self._settle(parts)

    def _settle(self, parts: Sequence[Parts]) -> None:
        """Make events of files that belong together, and commit them as one group."""
        recordings: dict[str, list[Part]] = defaultdict(list)
        for found in parts:
            for recording, part in found.items():
                own = f"{self.kind}-{recording or part.digest[:_DIGEST_SHOWN]}"
                recordings[own].append(part)
        events: list[Event] = []
        for session_id in sorted(recordings):
            events += self._events(session_id, recordings[session_id])
        if events:
            self._commit(events, sorted({part.file for found in parts for part in found.values()}))

    def _events(self, session_id: str, parts: Sequence[Part]) -> list[Event]:
        unique = {part.digest: part for part in sorted(parts, key=lambda part: part.file, reverse=True)}
        reading = self.importer.read(tuple(unique.values()), self.setting)
        again = len(parts) - len(unique)
        self._tally.add(
            reading, sum(len(part.rows) for part in parts) - sum(len(part.rows) for part in unique.values())
        )
        self._problems += reading.problems
        if again:
            self._problems += (
                Problem(part.file, 0, f"the same bytes as {unique[part.digest].file}; counted as duplicates")
                for part in parts
                if unique[part.digest] is not part
            )
        return [
            found.fact.event(found.ts, session_id, seq, source="import", direction=found.direction, raw=found.raw)
            for seq, found in enumerate(reading.found)
        ]

    def _commit(self, events: Sequence[Event], files: Sequence[str]) -> None:
        """Hand a group to the log, and wait for earlier ones where too many events are on their way."""
        self._on_the_way.append((self.log.submit(events), len(events), files))
        while sum(count for _, count, _ in self._on_the_way) > MOST_ON_THE_WAY:
            self._await_oldest()

    def _await_oldest(self) -> None:
        """Wait for a group; one that the log refuses is reported, a log that has failed is an error."""
        future, _, files = self._on_the_way.popleft()
        try:
            future.result()
        except StoreError as error:
            if self.log.failure is not None:
                raise
            self._problems += (Problem(file, 0, f"the store refused it: {error}") for file in files)

    def _report(self, scans: Sequence[_Scan]) -> Report:
        problems = {*self._problems, *(problem for scan in scans for problem in scan.problems)}
        seen = self._tally.seen.values()
        return Report(
            files=sum(bool(scan.recordings) for scan in scans),
            rounds=len(seen),
            rugged=sum(one.ended for one in seen),
            ticks=self._tally.docs["game_tick"],
            duplicates=self._tally.duplicates,
            gaps=self._tally.docs["gap"],
            incomplete=sum(not one.whole for one in seen),
            corrupt_lines=sum(scan.corrupt_lines for scan in scans),
            problems=[asdict(one) | {"line": one.line or None} for one in self._listed(sorted(problems))],
        )

    def _listed(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Give the problems to be listed, and where a file has too many the number of the others."""
        for file, some in groupby(problems, key=lambda problem: problem.file):
            own = list(some)
            yield from own[: self.limits.problems]
            if len(own) > self.limits.problems:
                yield Problem(file, 0, f"{len(own) - self.limits.problems} further problems are not listed")


class _Gathered:
    """Files of which others of the same group are still to be read."""

    def __init__(self, groups: Mapping[Key, int]) -> None:
        self._group = dict(groups)
        self._held: dict[int, list[Parts]] = defaultdict(list)
        self.waiting = set(groups)
        self._open = Counter(groups.values())

    def members(self) -> dict[int, list[Key]]:
        """Give the files of each group."""
        found: dict[int, list[Key]] = defaultdict(list)
        for key, group in self._group.items():
            found[group].append(key)
        return found

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
    seen: dict[str, Seen] = field(default_factory=dict)

    def add(self, reading: Reading, again: int) -> None:
        """Count a reading, and rows of files that came again byte for byte."""
        self.docs.update(found.fact.doc_type for found in reading.found)
        self.duplicates += reading.duplicates + again
        for one in reading.seen:
            before = self.seen.get(one.window_id, one)
            self.seen[one.window_id] = Seen(one.window_id, one.ended or before.ended, one.whole or before.whole)
