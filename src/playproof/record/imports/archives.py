"""Go through the files under a path as streams: folders, packed files and tar archives, none of them trusted.

Nothing is unpacked to disk and no name from an archive is used as a path. Members that lead out, links
and special files are left out, and limits end what grows too large. Leaves out: what the files hold.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Self, cast

from playproof.errors import DecodeError, InputError
from playproof.game.importers import ImportProblem

Visit = Callable[[str, BinaryIO], None]
VisitTable = Callable[[str, BinaryIO, Path | None], None]
"""Takes a Parquet file: its name, its stream, and its path where it is a file of its own."""

BROKEN = (OSError, EOFError, zlib.error, tarfile.TarError)
"""What a damaged or torn file raises when it is read."""
BLOCK = 1 << 16
_GZIP = b"\x1f\x8b"
_TAR_BLOCK = 512
_USTAR = slice(257, 262)
_END_OF_ARCHIVE = "end of file header"
"""What tarfile says at the two empty blocks with which an archive ends."""
_ARCHIVE_NAMES = (".tar", ".tar.gz", ".tgz")
_NAME_SHOWN = 200
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class ArchiveLimits:
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
    """Problems listed of one file, and of one archive; further ones are counted."""
    header_bytes: int = 64 * 2**10
    """Of a member's long name or extended header, which tar readers hold in memory."""


LIMITS = ArchiveLimits()


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


class Archive:
    """All files under a path, visited as streams, again and again in the same order."""

    def __init__(self, path: Path | Sequence[Path], limits: ArchiveLimits = LIMITS) -> None:
        """Take a file, a folder, or the files that a pattern stands for."""
        self.roots = (path,) if isinstance(path, Path) else tuple(path)
        for root in self.roots:
            if not root.exists():
                raise InputError(f"expected a file, a folder or a tar archive, found nothing at {root}")
        self.limits = limits
        self._problems: list[ImportProblem] = []
        self._files = self._bytes = self._unlisted = 0
        self._table: VisitTable | None = None

    def visit(self, take: Visit, table: VisitTable | None = None) -> list[ImportProblem]:
        """Call a function with the name and the stream of every file, another with every Parquet file.

        Gives what could not be read; without a function for them, Parquet files are among it.
        """
        self._problems, self._files, self._bytes, self._unlisted, self._table = [], 0, 0, 0, table
        for name, path in self._paths():
            try:
                self._open(name, path, take)
            except _Full as full:
                self._report(name, str(full))
                break
            except (*BROKEN, InputError) as error:
                self._report(name, reason(error))
        if self._unlisted:
            self._problems.append(ImportProblem("", 0, f"{self._unlisted} further problems are counted, not listed"))
        return self._problems

    def _paths(self) -> Iterator[tuple[str, Path]]:
        """Give the files of a folder sorted by name, or the one file; links in a folder are not followed."""
        for root in self.roots:
            if not root.is_dir():
                yield _printable(root.name), root
                continue
            for folder, folders, files in os.walk(root):
                folders.sort()
                for file in sorted(files):
                    path = Path(folder, file)
                    name = _printable(path.relative_to(root).as_posix())
                    if path.is_symlink() or not path.is_file():
                        self._report(name, "a link or special file was left out")
                    elif is_temporary(file):
                        self._report(name, UNFINISHED)
                    else:
                        yield name, path

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
                alone = len(self.roots) == 1 and not self.roots[0].is_dir()
                self._members("" if alone else f"{name}/", stream, take)
            elif name.endswith(_ARCHIVE_NAMES):
                raise DecodeError("expected a tar archive, as its name says, found something else")
            else:
                self._take(name, 0, stream, take, None if is_packed else path)

    def _members(self, prefix: str, stream: BinaryIO, take: Visit) -> None:
        """Visit the regular files of a tar archive; everything else is reported."""
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
            members = 0
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # a tar reader remembers every member
                members += 1
                if members > self.limits.files:
                    raise _Full(f"expected at most {self.limits.files} files and folders in an archive, found more")
                if member.isdir():
                    continue
                name = prefix + _printable(member.name)
                why = UNFINISHED if is_temporary(name) else _refusal(member, self.limits)
                opened = None if why else archive.extractfile(member)
                if opened is None:
                    self._report(name, why or "a member that is no regular file was left out")
                    continue
                try:
                    self._take(name, member.size, cast(BinaryIO, opened), take)
                except _TooMuch as error:
                    self._report(name, str(error))

    def _take(self, name: str, size: int, stream: BinaryIO, take: Visit, path: Path | None = None) -> None:
        """Hand one file on, held to its limit; what is plainly no text is refused."""
        self._files += 1
        self._bytes += size
        if self._files > self.limits.files or self._bytes > self.limits.total_bytes:
            raise _Full(f"expected at most {self.limits.files} files and {self.limits.total_bytes} bytes, found more")
        limited = _metered(stream, self.limits.file_bytes)
        head = limited.peek(BLOCK)
        if head.startswith(_PARQUET) and self._table is not None:
            self._table(name, limited, path)
        elif b"\0" in head and not head.startswith(_PARQUET):
            self._report(name, "expected JSON or Parquet, found bytes that are no text; the file was left out")
        elif head.startswith(_PARQUET):
            self._report(name, "expected lines of JSON, found a Parquet file; the file was left out")
        else:
            take(name, limited)

    def _report(self, name: str, problem: str) -> None:
        if len(self._problems) < self.limits.problems:
            self._problems.append(ImportProblem(name, 0, problem))
        else:
            self._unlisted += 1


UNFINISHED = "an unfinished file of a writer was skipped"


def is_temporary(name: str) -> bool:
    """Tell whether a name is that of a file which its writer has not finished."""
    last = PurePosixPath(name).name
    return last.endswith((".tmp", ".part")) or (last.startswith(".") and last.endswith((".parquet", ".jsonl")))


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
        except RecursionError as error:
            raise tarfile.ReadError(
                f"too many headers of one member at byte {archive.offset} of the archive"
            ) from error
        except tarfile.HeaderError as error:
            if str(error) == _END_OF_ARCHIVE:
                raise
            raise tarfile.ReadError(f"{error} at byte {archive.offset} of the archive") from error

    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        """Read what follows a header; refuse a long name or an extended header that would fill the memory."""
        if self.type in _HEADER_TYPES and self.size > LIMITS.header_bytes:
            raise tarfile.ReadError(
                f"expected a header of at most {LIMITS.header_bytes} bytes, found {self.size} at byte {archive.offset}"
            )
        member: Self = super()._proc_member(archive)  # type: ignore[misc]
        return member


_HEADER_TYPES = frozenset(
    (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
)


def _refusal(member: tarfile.TarInfo, limits: ArchiveLimits) -> str | None:
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
