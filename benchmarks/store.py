"""Measure the event store beside plain files, a bare SQLite table and the bare scan of the same data.

All write the same events to the same disk, a round of each in turn. Durable means committed and synced before the
next batch; buffered Parquet is not, and is named so. Leaves out: the network and decoding.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.events import DocType, Event
from playproof.game import Column
from playproof.store import EventLog, EventStore, PartFiles
from playproof.store.log.compaction import draft_part, list_parts, publish
from playproof.store.log.parts import fill, schema
from playproof.store.log.schema import PRAGMAS

BATCHES = (1, 100, 1000)
ROUNDS = 9
ROUND_EVENTS = {1: 60, 100: 2_500, 1000: 8_000}
"""Events of one round, by batch."""
RATE = 400
ACK_SECONDS, ACK_TURNS = 20.0, 10
SCANNED = 10_000_000
PART = 1_000_000
BUTTONS = 200_000
REPEATS = 5
START = datetime(2026, 3, 1, tzinfo=UTC)

SQLITE_GOAL, BYTES_GOAL, SCAN_GOAL, ACK_GOAL = 0.8, 45.0, 0.9, 3.0

COLUMNS = (
    Column("tick", "int", "ticks", "number of the tick in its window"),
    Column("price", "float", "multiplier", "price said with the tick"),
    Column("game_phase", "int", "code", "phase of the window"),
    Column("connected_players", "int", "players", "players at the table"),
    Column("trade_count", "int", "trades", "trades of the window"),
    Column("rugpool_amount", "float", "coins", "a pool that is shown"),
    Column("cash", "money", "10^-9", "the player's wallet"),
    Column("position_qty", "int", "10^-9", "quantity held"),
    Column("button_id", "text", "button", "which button was pressed"),
    Column("button_category", "text", "category", "kind of the button"),
    Column("bet_amount", "money", "10^-9", "what stands in the bet field"),
    Column("sequence_id", "int", "number", "sequence of presses"),
    Column("sequence_position", "int", "number", "place in the sequence"),
    Column("client_timestamp", "float", "ms", "page time of the press"),
)


def ticks(count: int, session: str, first: int = 0) -> list[Event]:
    """Make events as a feed gives them, with raw text of about 400 bytes."""
    rng = np.random.default_rng([first, count])
    prices = np.exp(np.cumsum(rng.normal(0, 0.01, count))).tolist()
    return [_tick(session, first + index, price) for index, price in enumerate(prices)]


def _tick(session: str, seq: int, price: float) -> Event:
    columns = {
        "tick": seq % 300,
        "price": price,
        "game_phase": 2,
        "connected_players": 180 + seq % 7,
        "trade_count": seq % 300 // 3,
        "rugpool_amount": 1.2345 + seq // 300,
    }
    raw = orjson.dumps({"gameId": f"window-{seq // 300}", **columns, "leaderboard": [price] * 14}).decode()
    moment = START + timedelta(milliseconds=250 * seq)
    window = f"window-{seq // 300}"
    return Event(moment, "public_ws", "game_tick", session, seq, "tick", moment, "received", window, None, raw, columns)


class Store:
    """This store."""

    name = "event store"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = EventLog.open(folder, COLUMNS)

    def append(self, events: Sequence[Event]) -> None:
        """Store a batch."""
        self._log.append(events)

    def close(self) -> None:
        """Let go of the files."""
        self._log.close()


class BareSqlite:
    """A table with the same columns and the same pragmas, and nothing else."""

    name = "bare SQLite table"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
        for pragma in PRAGMAS:
            self._connection.execute(pragma)
        names = ("session_id", "seq", "ts", "server_ts", *_TEXTS, *(column.name for column in COLUMNS), "raw")
        self._connection.execute(f"CREATE TABLE events ({', '.join(names)})")
        self._insert = f"INSERT INTO events VALUES ({', '.join('?' * len(names))})"  # noqa: S608

    def append(self, events: Sequence[Event]) -> None:
        """Store a batch."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._insert, [_plain_row(event) for event in events])
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Let go of the files."""
        self._connection.close()


_TEXTS = ("source", "doc_type", "direction", "event_name", "window_id", "player_id")
_NAMES = tuple(column.name for column in COLUMNS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _plain_row(event: Event) -> tuple[Any, ...]:
    """Give an event's values, times as microseconds, with no check of any kind."""
    columns = event.columns
    return (
        event.session_id,
        event.seq,
        (event.ts - _EPOCH) // _MICROSECOND,
        None if event.server_ts is None else (event.server_ts - _EPOCH) // _MICROSECOND,
        event.source,
        event.doc_type,
        event.direction,
        event.event_name,
        event.window_id,
        event.player_id,
        *[columns.get(name) for name in _NAMES],
        event.raw,
    )


def _told(event: Event) -> dict[str, Any]:
    payload = {name: getattr(event, name) for name in event.__dataclass_fields__}
    return payload | {"columns": dict(event.columns)}


class Jsonl:
    """Lines of JSON, synced after each batch."""

    name = "plain JSONL + fsync"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = (folder / "events.jsonl").open("ab", buffering=0)

    def append(self, events: Sequence[Event]) -> None:
        """Store a batch."""
        self._file.write(b"".join(orjson.dumps(_told(event), option=orjson.OPT_APPEND_NEWLINE) for event in events))
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the files."""
        self._file.close()


class BufferedParquet:
    """Parquet written whenever enough rows have gathered; what is buffered is lost with the process."""

    name = "buffered Parquet (not durable)"
    rows = 10_000

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._buffer: list[dict[str, Any]] = []
        shape = schema(COLUMNS)
        self._shape = pa.schema([field for field in shape if field.name != "checksum"])
        self._writer = pq.ParquetWriter(folder / "events.parquet", self._shape, compression="zstd")

    def append(self, events: Sequence[Event]) -> None:
        """Buffer a batch."""
        self._buffer += [payload | dict(payload.pop("columns")) for payload in map(_told, events)]
        if len(self._buffer) >= self.rows:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._buffer, self._shape))
        self._buffer = []

    def close(self) -> None:
        """Write what is left."""
        if self._buffer:
            self._flush()
        self._writer.close()


Writer = Store | BareSqlite | Jsonl | BufferedParquet
WRITERS: tuple[type[Writer], ...] = (Store, BareSqlite, Jsonl, BufferedParquet)


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def write_rates(root: Path, batch: int) -> tuple[dict[str, float], dict[str, float]]:
    """Give events per second, the median of all rounds, and bytes per event of every writer."""
    opened: list[Writer] = []
    for kind in WRITERS:
        folder = root / f"{kind.__name__}-{batch}"
        folder.mkdir()
        opened.append(kind(folder))
    count = ROUND_EVENTS[batch]
    rates: dict[str, list[float]] = {writer.name: [] for writer in opened}
    for turn in range(ROUNDS):
        events = ticks(count, f"session-{batch}", turn * count)
        batches = [events[first : first + batch] for first in range(0, count, batch)]
        for writer in opened if turn % 2 else opened[::-1]:
            start = time.perf_counter()
            for item in batches:
                writer.append(item)
            rates[writer.name].append(count / (time.perf_counter() - start))
    for writer in opened:
        writer.close()
    sizes = {writer.name: _folder_bytes(writer.folder) / (ROUNDS * count) for writer in opened}
    return {name: statistics.median(rate) for name, rate in rates.items()}, sizes


def fdatasync_times(folder: Path, seconds: float) -> list[float]:
    """Write a page for every event of the feed and sync; give the time from each event to the end of its sync.

    Events that come while a sync goes on share the next one, as they do in the log, so that a disk that stands still
    for a while holds up as many here as there.
    """
    times: list[float] = []
    with (folder / "page").open("wb", buffering=0) as file:
        begin, count = time.perf_counter(), int(seconds * RATE)
        while len(times) < count:
            time.sleep(max(0.0, begin + len(times) / RATE - time.perf_counter()))
            due = min(count, 1 + int((time.perf_counter() - begin) * RATE))
            file.write(bytes(4096 * (due - len(times))))
            os.fdatasync(file.fileno())
            done = time.perf_counter()
            times += [done - begin - index / RATE for index in range(len(times), due)]
    return times


def ack_times(folder: Path, seconds: float) -> list[float]:
    """Hand over one event every 1/400 second; give the time from each to its acknowledgement."""
    events = ticks(int(seconds * RATE), "acks")
    times: list[float] = []

    def note(start: float) -> Callable[[Future[None]], None]:
        return lambda future: times.append(time.perf_counter() - start) if future.exception() is None else None

    with EventLog.open(folder, COLUMNS) as log:
        begin = time.perf_counter()
        for index, event in enumerate(events):
            time.sleep(max(0.0, begin + index / RATE - time.perf_counter()))
            start = time.perf_counter()
            log.submit([event]).add_done_callback(note(start))
    return times


def _p99(times: Sequence[float]) -> float:
    return float(np.quantile(times, 0.99))


def tick_table(part: int, count: int, doc_type: DocType = "game_tick") -> pa.Table:
    """Make compacted ticks of one day: jittered clocks, prices that never repeat, slow counters."""
    rng = np.random.default_rng([7, part])
    seq = np.arange(count) + part * PART
    tick = seq % 300
    step = rng.normal(250_000, 8_000, count).astype(np.int64) * 86_400 * 4 // max(count, 86_400 * 4)
    day = int(START.timestamp()) * 1_000_000 + part * 86_400_000_000
    server = day + np.cumsum(step) // 1000 * 1000
    price = np.exp(np.cumsum(rng.normal(0, 0.01, count)) * 0.1)
    return pa.table(
        {
            "session_id": pa.array(["scan"]).take(pa.array(np.zeros(count, np.int8))),
            "seq": seq,
            "ts": pa.array(server + rng.integers(20_000, 90_000, count)).cast(pa.timestamp("us", tz="UTC")),
            "server_ts": pa.array(server).cast(pa.timestamp("us", tz="UTC")),
            "source": _repeated("public_ws", count),
            "doc_type": _repeated(doc_type, count),
            "direction": _repeated("received", count),
            "event_name": _repeated("tick", count),
            "window_id": pa.array([f"20260301-{n:08x}" for n in range(count // 300 + 1)]).take(
                pa.array(np.arange(count) // 300)
            ),
            "tick": tick,
            "price": price,
            "game_phase": np.where(tick < 280, 2, 0),
            "connected_players": 180 + np.cumsum(rng.integers(-1, 2, count)) % 40,
            "trade_count": np.cumsum(rng.poisson(0.4, count)) % 500,
            "rugpool_amount": np.repeat(rng.random(count // 300 + 1), 300)[:count],
            "checksum": pa.array(rng.integers(0, 2**32, count, dtype=np.uint32)),
        }
    )


def button_table(count: int) -> pa.Table:
    """Make compacted presses: the tick's columns and the press's own."""
    rng = np.random.default_rng(11)
    buttons = pa.array(["BUY", "SELL", "SIDEBET", "+0.01", "+0.1", "x2", "HALF", "MAX"])
    chosen = rng.integers(0, 8, count)
    table = tick_table(0, count, "button_event")
    for name, values in {
        "cash": rng.integers(0, 10**10, count),
        "position_qty": np.where(rng.random(count) < 0.5, 0, rng.integers(1, 10**9, count)),
        "button_id": buttons.take(pa.array(chosen)),
        "button_category": pa.array(["action", "bet_adjust", "percentage"]).take(pa.array(chosen // 3)),
        "bet_amount": rng.integers(1, 500, count) * 1_000_000,
        "sequence_id": np.arange(count) // 3,
        "sequence_position": np.arange(count) % 3,
        "client_timestamp": np.round(np.cumsum(rng.exponential(900, count)), 1),
    }.items():
        table = table.append_column(name, values if isinstance(values, pa.Array) else pa.array(values))
    return table


def _repeated(text: str, count: int) -> pa.Array:
    return pa.array([text]).take(pa.array(np.zeros(count, np.int8)))


def compacted(home: Path, bare: Path) -> dict[str, float]:
    """Put ten million ticks and some presses into parts and into bare files; give bytes per event in parts."""
    files, shape = PartFiles.at(home), schema(COLUMNS)
    kept = pa.schema([field for field in shape if field.name != "checksum"])
    sizes: dict[str, list[int]] = {"tick": [], "button event": []}
    with EventLog.open(home, COLUMNS) as log:
        log.append([_tick("scan", SCANNED, 1.0)])
        for part in range(SCANNED // PART + 1):
            last = part == SCANNED // PART
            table = fill(button_table(BUTTONS) if last else tick_table(part, PART), shape)
            doc_type = "button_event" if last else "game_tick"
            draft = draft_part(log, doc_type, (date(2026, 3, 1) + timedelta(days=part)).isoformat(), table)
            publish(log, files, [draft])
            log.transact(lambda connection, draft=draft: list_parts(connection, [draft]))  # type: ignore[misc]
            sizes["button event" if last else "tick"].append(draft.part.bytes)
            if not last:
                pq.write_table(table.select(kept.names), bare / f"{part:02}.parquet", compression="zstd")
    return {"tick": sum(sizes["tick"]) / SCANNED, "button event": sum(sizes["button event"]) / BUTTONS}


def scans(home: Path, bare: Path) -> Iterator[tuple[str, float, float]]:
    """Give rows per second of each scan through the store and of the bare files, turn by turn."""
    paths = sorted(bare.glob("*.parquet"))
    asked = {"one column": pl.col("price").sum(), "all columns": pl.all().max()}
    for name, expression in asked.items():
        ours, theirs = [], []
        for _ in range(REPEATS):
            ours.append(_timed(lambda: EventStore(home).scan("game_tick"), expression))
            theirs.append(_timed(lambda: pl.scan_parquet(paths), expression))
        yield name, SCANNED / min(ours), SCANNED / min(theirs)


def _timed(scan: Callable[[], pl.LazyFrame], expression: pl.Expr) -> float:
    start = time.perf_counter()
    scan().select(expression).collect()
    return time.perf_counter() - start


def run() -> dict[str, Any]:
    """Measure everything in a folder of its own on the disk of the home."""
    results: list[Measurement] = []
    goals: list[Goal] = []
    path = Path(os.environ.get("PLAYPROOF_HOME") or ".")
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path, prefix="bench-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        for batch in BATCHES:
            rates, sizes = write_rates(root, batch)
            results += [Measurement(f"{name}, batch {batch}", rate, "events/s") for name, rate in rates.items()]
            results += [Measurement(f"{name}, batch {batch}", size, "bytes/event") for name, size in sizes.items()]
            over = rates[Store.name] / rates[BareSqlite.name]
            goals.append(Goal.at_least(f"rate over bare SQLite, batch {batch}", over, SQLITE_GOAL))
        _measure_acks(root, results, goals)
        _measure_scans(root, results, goals)
    return BenchmarkReport("store", tuple(results), tuple(goals)).to_json()


def _measure_acks(root: Path, results: list[Measurement], goals: list[Goal]) -> None:
    """Measure acknowledgements in turns with bare syncs of the same feed: a disk's slow times come in bursts."""
    syncs: list[float] = []
    acks: list[float] = []
    for turn in range(ACK_TURNS):
        syncs += fdatasync_times(root, ACK_SECONDS / ACK_TURNS)
        acks += ack_times(root / f"acks-{turn}", ACK_SECONDS / ACK_TURNS)
    results += [
        Measurement("a page and one fdatasync at 400 events/s, median", statistics.median(syncs) * 1e3, "ms"),
        Measurement("a page and one fdatasync at 400 events/s, p99", _p99(syncs) * 1e3, "ms"),
        Measurement(f"ack at {RATE} events/s, median", statistics.median(acks) * 1e3, "ms"),
        Measurement(f"ack at {RATE} events/s, p99", _p99(acks) * 1e3, "ms"),
        Measurement("ack p99 over one fdatasync's median", _p99(acks) / statistics.median(syncs), "times"),
    ]
    goals.append(Goal.at_most("ack p99 over one fdatasync's p99", _p99(acks) / _p99(syncs), ACK_GOAL))


def _measure_scans(root: Path, results: list[Measurement], goals: list[Goal]) -> None:
    home, bare = root / "scan", root / "bare"
    bare.mkdir()
    start = time.perf_counter()
    sizes = compacted(home, bare)
    results.append(Measurement("making parts and bare files of 10 million ticks", time.perf_counter() - start, "s"))
    for kind, size in sizes.items():
        results.append(Measurement(f"compacted {kind}, raw JSON apart", size, "bytes/event"))
        goals.append(Goal.at_most(f"bytes per compacted {kind}", size, BYTES_GOAL))
    results.append(Measurement("bare Parquet tick", _folder_bytes(bare) / SCANNED, "bytes/event"))
    for name, ours, theirs in scans(home, bare):
        results += [
            Measurement(f"scan of {name}, store", ours, "rows/s"),
            Measurement(f"scan of {name}, bare", theirs, "rows/s"),
        ]
        goals.append(Goal.at_least(f"scan of {name} over the bare scan", ours / theirs, SCAN_GOAL))
    start = time.perf_counter()
    EventStore(home).query("SELECT sum(price) FROM game_tick")
    results.append(Measurement("scan of one column by SQL, store", SCANNED / (time.perf_counter() - start), "rows/s"))
