"""Read a foreign event store: many small Parquet files in, the events of each session in order of arrival out.

The store is read twice. First the narrow columns of every file give the order of arrival (`seq`) in each session;
then the rows are read in that order, file by file as they are needed, so that memory holds the files that overlap
in time and not the whole store. Session ids and event numbers come from the rows alone: the same rows in other files
give the same events.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from playproof.events import Event
from playproof.game.importers import (
    ImportProblem,
    ImportReading,
    ImportSettings,
    StoreImporter,
    StoreReader,
    StoreRow,
    StoreSession,
)
from playproof.json_types import Json

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_BYTES = 8 * 2**20
"""Files up to this size are read whole; larger ones in batches."""
HELD_BYTES = 256 * 2**20
"""Decoded bytes of files that are held between the two passes."""
BATCH_ROWS = 512
KEPT_BATCHES = 8
CLOCK_JUMPS = 3
"""Steps back of the clock, by a minute or more, after which seq is not believed to be the order of arrival."""
_NARROW = ("session_id", "seq", "ts", "doc_type", "event_name", "game_id", "player_id")
_KIND = ("doc_type", "event_name", "game_id", "player_id")
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,48}")

Advance = Callable[[int, int], None]
"""Hears how much is done, and of how much."""


@dataclass(frozen=True)
class StoreFile:
    """One Parquet file of a store."""

    name: str
    """As reports show it."""
    path: Path


class StoreSurvey:
    """What the narrow columns of a store's files say: sessions, the order of their rows, and which files are bad."""

    def __init__(self, files: Iterable[StoreFile], importer: StoreImporter, advance: Advance) -> None:
        import pyarrow as pa

        self.files, self.importer = tuple(files), importer
        self.problems: list[ImportProblem] = []
        self.read_files = 0
        self.presses: dict[tuple[int, int], StoreRow] = {}
        self.held: dict[int, pa.Table] = {}
        """Files that were read whole, by number: a small store is read once."""
        self._room = HELD_BYTES
        tables = []
        for number, file in enumerate(self.files):
            table = self._read(number, file)
            if table is not None:
                tables.append(table)
            advance(number + 1, len(self.files))
        self.table = pa.concat_tables(tables) if tables else None
        self.rows = self.table.num_rows if self.table is not None else 0

    def _read(self, number: int, file: StoreFile) -> pa.Table | None:
        """Read the narrow columns of one file, with its number and the number of each row."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(file.path) as parquet:
                names = set(parquet.schema_arrow.names)
                lacking = ", ".join(sorted(self.importer.columns - names))
                if lacking:
                    self._problem(file, f"expected a table of events, found one without {lacking}; left out")
                    return None
                size = sum(parquet.metadata.row_group(i).total_byte_size for i in range(parquet.num_row_groups))
                whole = (
                    size <= self._room or self.importer.presses in parquet.read(["doc_type"])["doc_type"].to_pylist()
                )
                table = parquet.read(None if whole else [name for name in _NARROW if name in names])
                columns: Json = {name: _column(table, name) for name in _NARROW}
                if whole:
                    self._keep(number, file, table, size)
        except (pa.ArrowException, OSError, ValueError) as error:
            self._problem(file, f"expected a whole Parquet file, found: {first_line(error)}; the file was skipped")
            return None
        self.read_files += 1
        columns["file"] = pa.array(np.full(table.num_rows, number, np.int64))
        columns["row"] = pa.array(np.arange(table.num_rows, dtype=np.int64))
        return pa.table(columns)

    def _keep(self, number: int, file: StoreFile, table: pa.Table, size: int) -> None:
        """Hold a file that was read whole, while there is room, and its presses."""
        if size <= self._room:
            self.held[number] = table
            self._room -= size
        if self.importer.presses in table["doc_type"].to_pylist():
            rows = _Rows(0, table)
            for row, doc_type in enumerate(table["doc_type"].to_pylist()):
                if doc_type == self.importer.presses:
                    self.presses[number, row] = StoreRow(file.name, row + 1, rows.get(row))

    def _problem(self, file: StoreFile, text: str) -> None:
        self.problems.append(ImportProblem(file.name, 0, text))

    def sessions(self, setting: ImportSettings) -> Iterator[SessionRows]:
        """Give the sessions, in the order of their ids."""
        if self.table is None:
            return
        import pyarrow.compute as pc

        table = self.table.sort_by([(name, "ascending") for name in ("session_id", "seq", "file", "row")])
        for name in pc.unique(table["session_id"]).to_pylist():
            own = table.filter(pc.equal(table["session_id"], name))
            yield SessionRows(self, name, self._ordered(name, own), setting)

    def _ordered(self, name: str, table: pa.Table) -> pa.Table:
        """Order a session's rows by seq, or by their clock where seq begins anew inside the session."""
        minutes = [text[:16] for text in table["ts"].to_pylist()]
        if sum(later < earlier for earlier, later in pairwise(minutes)) <= CLOCK_JUMPS:
            return table
        text = f"seq of session {name[:40]!r} does not follow its clock; its rows were ordered by ts"
        self._problem(self.files[table["file"][0].as_py()], text)
        return table.sort_by([(column, "ascending") for column in ("ts", "seq", "file", "row")])


class SessionRows:
    """One session of a store: its events in their order, and then what was counted."""

    def __init__(self, survey: StoreSurvey, name: str, table: pa.Table, setting: ImportSettings) -> None:
        self.session_id = name
        self._survey = survey
        self._at = list(zip(table["file"].to_pylist(), table["row"].to_pylist(), strict=True))
        columns = [table[column].to_pylist() for column in _KIND]
        kinds = list(zip(*columns, strict=True))
        first: dict[tuple[str, str], int] = {}
        for index, kind in enumerate(kinds):
            first.setdefault((kind[0], kind[1]), index)
        rows = _RowCursor(survey)
        self._reader: StoreReader = survey.importer.reader(
            StoreSession(
                name,
                frozenset(kinds),
                {kind: rows.get(*self._at[index]) for kind, index in first.items()},
                tuple(survey.presses[at] for at in self._at if at in survey.presses),
            ),
            setting,
        )

    def __len__(self) -> int:
        return len(self._at)

    def events(self, kind: str, advance: Callable[[int], None] = lambda done: None) -> Iterator[Event]:  # noqa: ARG005
        """Give the events in their order, under the name of the kind; tells how many rows are done."""
        own = self.session_id if _SESSION.fullmatch(self.session_id) else _hash(self.session_id)
        name, rows, seq, last = f"{kind}-{own}", _RowCursor(self._survey), 0, None
        for done, (file, row) in enumerate(self._at):
            item = rows.get(file, row)
            same = (item.values.get("doc_type"), item.values.get("seq"), item.values.get("raw_json"))
            repeated, last = same == last and same[1] is not None, same
            for fact in self._reader.repeat(item) if repeated else self._reader.take(item):
                yield fact.fact.event(fact.ts, name, seq, source="import", direction=fact.direction, raw=fact.raw)
                seq += 1
            if not done % BATCH_ROWS:
                advance(done)
        for fact in self._reader.close():
            yield fact.fact.event(fact.ts, name, seq, source="import", direction=fact.direction, raw=fact.raw)
            seq += 1

    def reading(self) -> ImportReading:
        """Give what was counted, once all events were taken."""
        return self._reader.reading()


class _RowCursor:
    """Give rows of files in nearly the order of the files, holding only what is needed now."""

    def __init__(self, survey: StoreSurvey) -> None:
        self._survey = survey
        self._open: dict[int, _OpenFile] = {}

    def get(self, file: int, row: int) -> StoreRow:
        """Give one row; null columns are left out."""
        opened = self._open.get(file)
        if opened is None:
            opened = _OpenFile(self._survey.files[file].path, self._survey.held.get(file))
            self._open[file] = opened
        values = opened.get(row)
        if row == opened.count - 1:  # the last row of a file is read last, but for files that are out of order
            del self._open[file]
        return StoreRow(self._survey.files[file].name, row + 1, values)


class _OpenFile:
    """One Parquet file, whole if it is small, else as a window of batches that moves on."""

    def __init__(self, path: Path, held: pa.Table | None) -> None:
        import pyarrow.parquet as pq

        self._path, self._batches = path, list[_Rows]()
        self._stream: Iterator[pa.RecordBatch] | None = None
        if held is None and path.stat().st_size <= SMALL_BYTES:
            with pq.ParquetFile(path) as parquet:
                held = parquet.read()
        if held is not None:
            self.count = held.num_rows
            self._batches.append(_Rows(0, held))
        else:
            with pq.ParquetFile(path) as parquet:
                self.count = int(parquet.metadata.num_rows)

    def get(self, row: int) -> Json:
        """Give the columns of one row."""
        while True:
            for rows in reversed(self._batches):
                if rows.start <= row < rows.end:
                    return rows.get(row)
            self._read(row)

    def _read(self, row: int) -> None:
        """Read the next batch; begin again for a row that was let go."""
        import pyarrow.parquet as pq

        end = self._batches[-1].end if self._batches else 0
        if self._stream is None or row < end:
            self._stream, end, self._batches = pq.ParquetFile(self._path).iter_batches(BATCH_ROWS), 0, []
        self._batches.append(_Rows(end, next(self._stream)))
        del self._batches[:-KEPT_BATCHES]


class _Rows:
    """Rows of a table as Python values; columns that are null throughout are left out at once."""

    def __init__(self, start: int, table: pa.Table | pa.RecordBatch) -> None:
        self.start, self.end = start, start + table.num_rows
        full = [name for name in table.schema.names if table[name].null_count < table.num_rows]
        self._columns = [(name, table[name].to_pylist()) for name in full]

    def get(self, row: int) -> Json:
        """Give the columns of one row that are not null."""
        index = row - self.start
        return {name: values[index] for name, values in self._columns if values[index] is not None}


def _column(table: pa.Table, name: str) -> pa.Array:
    """Give a column without nulls: an empty text, or for seq a number above all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, missing = (pa.int64(), 2**62) if name == "seq" else (pa.string(), "")
    if name not in table.schema.names:
        return pa.array([missing] * table.num_rows, kind)
    try:
        column = table[name].cast(kind).combine_chunks()
    except pa.ArrowInvalid as error:
        raise ValueError(f"the column {name} as {table[name].type}, not as {kind} ({first_line(error)})") from error
    return pc.fill_null(column, pa.scalar(missing, kind))


def first_line(error: Exception) -> str:
    """Give the first line of an error's text."""
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
