"""Single flipped bits in the footers of parts: what every reader must do then."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from store_proofs import COLUMNS, SESSION, numbered

from playproof.datasets.source import Reader, plan
from playproof.errors import StoreError
from playproof.store import EventLog, EventStore
from playproof.store.log.parts import footer_size

SQL = "SELECT count(*) AS n, sum(cash)::BIGINT AS cash FROM game_tick"


def flip_footers(home: Path, count: int, seed: int, sql_every: int = 10) -> int:
    """Flip single bits of a footer, one after the other; want each to be named by every reader; give the flips."""
    events = [numbered(seq) for seq in range(120)]
    with EventLog.open(home, COLUMNS) as log:
        log.append(events)
        log.compact(final=True)
    victim = next(path for path in sorted((home / "events").glob("doc_type=*/date=*/*")) if "game_tick" in str(path))
    sound = victim.read_bytes()
    lost = set(pq.read_table(victim, columns=["seq"])["seq"].to_pylist())
    rest = [event for event in events if event.seq not in lost]
    ticks = [event for event in rest if event.doc_type == "game_tick"]
    answer = [{"n": len(ticks), "cash": sum(int(str(event.columns["cash"])) for event in ticks) or None}]
    (piece,) = plan(home)
    bits = range(8 * (len(sound) - footer_size(sound)), 8 * len(sound))
    chosen = random.Random(seed).choices(bits, k=count)
    for number, bit in enumerate(chosen):
        content = bytearray(sound)
        content[bit // 8] ^= 1 << bit % 8
        victim.write_bytes(content)
        store = EventStore(home)
        assert list(store.events(session_id=SESSION)) == rest, bit
        assert [victim.name in problem for problem in store.problems] == [True], bit
        assert store.arrow("game_tick").num_rows == len(ticks), bit
        assert [victim.name in problem for problem in store.problems] == [True], bit
        with pytest.raises(StoreError, match=victim.name):
            list(Reader(piece).tables(("game_tick",), ("price",)))
        with pytest.raises(StoreError, match=victim.name):
            list(Reader(piece).events())
        if number % sql_every == 0:
            assert store.query(SQL).to_pylist() == answer, bit
            assert store.scan("game_tick").collect().height == len(ticks), bit
            with EventLog.open(home, COLUMNS) as log, pytest.raises(StoreError, match=victim.name):
                log.append(events)
    victim.write_bytes(sound)
    assert list(EventStore(home).events(session_id=SESSION)) == events
    return len(chosen)
