"""Read the rows of a file of JSON Lines, damaged lines included.

A line that is not one JSON object is searched for whole rows: an object counts if it names no key
twice, and if the importer knows it for a row and not for a piece of one.
Leaves out: where the stream comes from (archives) and what the rows mean.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import orjson

from playproof.game.importers import Importer, ImportProblem, ImportRow
from playproof.record.imports.archives import BLOCK, BROKEN, ArchiveLimits, reason

SALVAGE_BYTES = 2**20
"""Damaged lines that are longer are not searched for rows."""
SALVAGE_TRIES = 1000
_OPENING = re.compile(r'\{[ \t]*"')


@dataclass
class Scan:
    """What is known of one file after the first reading."""

    name: str
    digest: str = ""
    size: int = 0
    recordings: frozenset[str | None] = frozenset()
    problems: list[ImportProblem] = field(default_factory=list)
    corrupt_lines: int = 0


def salvage(text: str, is_row: Callable[[Mapping[str, Any]], bool]) -> list[tuple[str, dict[str, Any]]]:
    """Give the whole rows that stand inside a damaged line, from left to right.

    The search ends after so many failed tries and so much text read again: no line can make it long.
    """
    results: list[tuple[str, dict[str, Any]]] = []
    tries, budget, index = SALVAGE_TRIES, 16 * len(text), 0
    while tries and budget >= 0 and (start := _OPENING.search(text, index)):
        end, value = _object_at(text, start.start())
        if value is not None and is_row(value):
            results.append((text[start.start() : end], value))
            index = end
        else:
            tries, budget, index = tries - 1, budget - (end - start.start()), start.start() + 1
    return results


def _object_at(text: str, index: int) -> tuple[int, dict[str, Any] | None]:
    """Read one object that begins at a place; give where its reading ended, and None if there is none."""
    try:
        _, end = _STRICT.raw_decode(text, index)
        value = orjson.loads(text[index:end])
    except json.JSONDecodeError as error:
        return max(error.pos, index), None
    except (ValueError, RecursionError):
        return len(text), None
    return end, value if isinstance(value, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a key stands twice")
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _lines(stream: BinaryIO, limits: ArchiveLimits) -> Iterator[bytes | None]:
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


class RowReader:
    """One file on its single way through: its lines become rows, its damage is noted."""

    def __init__(self, name: str, importer: Importer, limits: ArchiveLimits) -> None:
        self.scan = Scan(name)
        self._importer, self._limits = importer, limits
        self._unlisted = 0

    def rows(self, stream: BinaryIO) -> Iterator[ImportRow]:
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
                yield ImportRow(number, line.strip().decode(), value)
            elif line.strip():
                yield from self._salvaged(number, line)
        self.scan.digest = digest.hexdigest()
        if self._unlisted:
            self.scan.problems.append(
                ImportProblem(self.scan.name, 0, f"{self._unlisted} further problems are not listed")
            )

    def _until_torn(self, stream: BinaryIO) -> Iterator[bytes | None]:
        """Give the lines of a file up to where it cannot be read."""
        try:
            yield from _lines(stream, self._limits)
        except BROKEN as error:
            self.scan.problems.append(ImportProblem(self.scan.name, 0, reason(error)))

    def _salvaged(self, number: int, line: bytes) -> Iterator[ImportRow]:
        text = line.decode("utf-8", "surrogateescape") if len(line) <= SALVAGE_BYTES else ""
        result = salvage(text, self._importer.is_row)
        whole = [(text, value) for text, value in result if _encodable(text)]
        self._corrupt(number, f"not one JSON object; whole rows found in it: {len(whole)}")
        for text, value in whole:
            yield ImportRow(number, text, value)

    def _corrupt(self, number: int, problem: str) -> None:
        self.scan.corrupt_lines += 1
        if len(self.scan.problems) < self._limits.problems:
            self.scan.problems.append(ImportProblem(self.scan.name, number, problem))
        else:
            self._unlisted += 1


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
