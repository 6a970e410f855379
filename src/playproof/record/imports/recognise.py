"""Find out what kind of recording every file under a path is, and import all of them.

A kind is known by what a file holds, never by its name: Parquet tables by their columns, JSON by its first rows or
by the shape of its document. Files of several kinds may stand in one folder or archive.
"""

from __future__ import annotations

import glob
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import orjson

from playproof.errors import InputError
from playproof.game import Game
from playproof.game.importers import Importer, ImportProblem, ImportSettings, StoreImporter
from playproof.json_types import Json
from playproof.record.imports.archives import LIMITS, Archive
from playproof.record.imports.event_store import StoreFile, StoreSurvey
from playproof.record.imports.importing import (
    Advance,
    Import,
    ImportReport,
    ImportSink,
    import_store,
    listed,
    silent,
)
from playproof.record.imports.rows import describe

ROWS_LOOKED_AT = 50
HEAD_BYTES = 2**20
"""How much of a file of JSON Lines is looked at."""
MakeSettings = Callable[[str], ImportSettings]
"""Give the settings of an import by the zone in which a kind of recorder writes times that name none."""


def expand(given: str | Path) -> list[Path]:
    """Give the files and folders that a path or a pattern such as events/**/*.parquet stands for."""
    path = Path(given).expanduser()
    if path.exists() or not glob.has_magic(str(given)):
        if not path.exists():
            raise InputError(f"expected a file, a folder, an archive or a pattern to import, found nothing at {path}")
        return [path]
    paths = [Path(match) for match in sorted(glob.glob(str(path), recursive=True, include_hidden=True))]  # noqa: PTH207
    files = [match for match in paths if match.is_file()]
    if not files:
        raise InputError(f"expected files that match {given}, found none")
    return files


@dataclass
class Recognised:
    """The files under a path, by kind."""

    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Names of JSON files, by kind."""
    tables: dict[str, list[StoreFile]] = field(default_factory=lambda: defaultdict(list))
    """Parquet files, by kind."""
    problems: list[ImportProblem] = field(default_factory=list)


def recognise(
    paths: Sequence[Path], importers: Mapping[str, Importer], stores: Mapping[str, StoreImporter], scratch: Path
) -> Recognised:
    """Look at every file under some paths; members of archives that are Parquet files are copied to `scratch`."""
    result = Recognised()

    def look(name: str, stream: BinaryIO) -> None:
        kind, shown = _json_kind(stream, importers)
        if kind is not None:
            result.names[kind].add(name)
            return
        kinds = ", ".join((*importers, *stores))
        result.problems.append(ImportProblem(name, 0, f"expected a recording ({kinds}), found {shown}; left out"))

    def look_at_table(name: str, stream: BinaryIO, path: Path | None) -> None:
        if path is None:
            path = scratch / f"{sum(map(len, result.tables.values())):06d}.parquet"
            with path.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        kind = _table_kind(path, stores)
        result.tables[kind].append(StoreFile(name, path))

    result.problems += Archive(list(paths)).visit(look, look_at_table if stores else None)
    return result


def _json_kind(stream: BinaryIO, importers: Mapping[str, Importer]) -> tuple[str | None, str]:
    """Give the kind of a file of JSON, or None and what the file holds instead."""
    head = stream.read(HEAD_BYTES)
    rows = list(islice(_objects(head), ROWS_LOOKED_AT))
    for kind, importer in importers.items():
        if any(importer.is_row(row) for row in rows):
            return kind, ""
    try:
        document = orjson.loads(head + stream.read())
    except orjson.JSONDecodeError:
        return None, f"rows with the keys {', '.join(list(rows[0])[:6])}" if rows else "no JSON"
    for kind, importer in importers.items():
        listed_rows = document if isinstance(document, list) else []
        if importer.documents(document) is not None or any(
            isinstance(row, dict) and importer.is_row(row) for row in listed_rows[:ROWS_LOOKED_AT]
        ):
            return kind, ""
    return None, describe(document)


def _objects(head: bytes) -> Iterator[Json]:
    """Give the lines of a text that are JSON objects."""
    for line in head.splitlines():
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(value, dict):
            yield value


def _table_kind(path: Path, stores: Mapping[str, StoreImporter]) -> str:
    """Give the kind of a table by its columns; a torn file is reported by the first kind's import."""
    if len(stores) == 1:  # its import says what is wrong with a table of another kind
        return next(iter(stores))
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        names = set()
    return next((kind for kind, store in stores.items() if names >= store.columns), next(iter(stores)))


def import_path(
    given: str | Path,
    game: Game,
    settings: MakeSettings,
    log: ImportSink,
    *,
    kinds: Collection[str] | None = None,
    advance: Advance = silent,
) -> ImportReport:
    """Import everything under a path or a pattern that is of a known kind; `kinds` narrows them."""
    recording = game.recording()
    importers = {kind: item for kind, item in recording.importers.items() if kinds is None or kind in kinds}
    stores = {kind: item for kind, item in recording.stores.items() if kinds is None or kind in kinds}
    paths = expand(given)
    with tempfile.TemporaryDirectory(prefix="playproof-import-") as scratch:
        known = recognise(paths, importers, stores, Path(scratch))
        report = ImportReport(problems=listed(known.problems, LIMITS.problems))
        for kind, names in sorted(known.names.items()):
            importer = importers[kind]
            report += Import(paths, kind, importer, settings(importer.zone), log, only=names).run(advance)
        for kind, files in sorted(known.tables.items()):
            store = stores[kind]
            survey = StoreSurvey(files, store, lambda done, total: advance("reading", done, total))
            report += import_store(survey, kind, settings(store.zone), log, advance)
    return report
