"""Read the rows of a file of JSON: a row a line, damaged lines included, or one document that holds them all.

A line that is not one JSON object is searched for whole rows: an object counts if it names no key
twice, and if the importer knows it for a row and not for a piece of one.
Leaves out: where the stream comes from (archives) and what the rows mean.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, BinaryIO

import orjson

from playproof.game.importers import Importer, ImportProblem, ImportRow
from playproof.json_types import Json
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
    rows: int = 0
    document: str = ""
    """What the file holds if it is one JSON document that the importer does not know."""


def salvage(text: str, is_row: Callable[[Mapping[str, Any]], bool]) -> list[tuple[str, Json]]:
    """Give the whole rows that stand inside a damaged line, from left to right.

    The search ends after so many failed tries and so much text read again: no line can make it long.
    """
    results: list[tuple[str, Json]] = []
    tries, budget, index = SALVAGE_TRIES, 16 * len(text), 0
    while tries and budget >= 0 and (start := _OPENING.search(text, index)):
        end, value = _object_at(text, start.start())
        if value is not None and is_row(value):
            results.append((text[start.start() : end], value))
            index = end
        else:
            tries, budget, index = tries - 1, budget - (end - start.start()), start.start() + 1
    return results


def _object_at(text: str, index: int) -> tuple[int, Json | None]:
    """Read one object that begins at a place; give where its reading ended, and None if there is none."""
    try:
        _, end = _STRICT.raw_decode(text, index)
        value = orjson.loads(text[index:end])
    except json.JSONDecodeError as error:
        return max(error.pos, index), None
    except (ValueError, RecursionError):
        return len(text), None
    return end, value if isinstance(value, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> Json:
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


def _parse(line: bytes) -> Json | None:
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
        lines = self._until_torn(stream)
        held = list(islice(lines, 1))
        if held and held[0] is not None and not self._is_line(held[0]):
            held += lines
            document = _document(held)
            if document is not None:
                yield from self._from_document(document[0], b"".join(line or b"" for line in held))
                return
        for number, line in enumerate(chain(held, lines), 1):
            if line is None:
                digest.update(b"\0")
                self._corrupt(number, "a line that is too long was left out")
                continue
            digest.update(line)
            self.scan.size += len(line)
            value = _parse(line)
            if value is not None:
                self.scan.rows += 1
                yield ImportRow(number, line.strip().decode(), value)
            elif line.strip():
                yield from self._salvaged(number, line)
        self.scan.digest = digest.hexdigest()
        if self._unlisted:
            self.scan.problems.append(
                ImportProblem(self.scan.name, 0, f"{self._unlisted} further problems are not listed")
            )

    def _is_line(self, line: bytes) -> bool:
        """Tell whether a first line is a row, and not a part of a document or a whole one."""
        value = _parse(line)
        return value is not None and (self._importer.is_row(value) or self._importer.documents(value) is None)

    def _from_document(self, document: object, content: bytes) -> Iterator[ImportRow]:
        """Give the rows of a document, if the importer knows its shape."""
        self.scan.digest, self.scan.size = hashlib.sha256(content).hexdigest(), len(content)
        rows = self._importer.documents(document)
        if rows is None and isinstance(document, list) and all(isinstance(item, dict) for item in document):
            rows = document
        if rows is None:
            self.scan.document = describe(document)
            return
        for number, value in enumerate(rows, 1):
            self.scan.rows += 1
            yield ImportRow(number, orjson.dumps(value).decode(), value)

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


def _document(lines: Sequence[bytes | None]) -> tuple[object] | None:
    """Read lines as one JSON document; None if they are none, or hold one object a line."""
    if None in lines:
        return None
    try:
        value = orjson.loads(b"".join(line or b"" for line in lines))
    except orjson.JSONDecodeError:
        return None
    return (value,)


def describe(value: object) -> str:
    """Say in a few words what a JSON document holds."""
    if isinstance(value, dict):
        return f"an object with the keys {', '.join(list(value)[:6])}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}, the first is {describe(value[0])}" if value else "an empty list"
    return type(value).__name__


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
