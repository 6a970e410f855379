"""The files of a data set: runs are found, hashed and written so that every Parquet reader gives the same bits back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import recordings as r
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.dataset_peers import PEERS
from playproof.datasets import DatasetConfig, build, open_dataset, tables
from playproof.datasets.tables import Column, EncodedColumn, TextColumn, code, code_table, digest_columns, from_arrow
from playproof.errors import DecodeError
from playproof.store import EventStore

KINDS = ("bool", "int16", "int32", "int64", "float32", "float64")


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Column]:
    """Give a table of every type, of long and of short runs, with the numbers that are easily lost."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.sampled_from([1, 2, 9, 63, 64, 65, 300, 1000]))
    table: dict[str, Column] = {}
    for kind in KINDS:
        for name, most in (("same", 1), ("long", max(1, rows // 40)), ("short", rows)):
            bounds = np.sort(rng.integers(0, rows, most - 1)) if most > 1 else np.zeros(0, np.int64)
            drawn = rng.integers(-3, 3, most).astype(kind)
            if kind.startswith("float"):
                drawn = drawn + rng.choice([0.0, -0.0, np.nan, np.inf, 1e-40, 1 / 3], most).astype(kind)
            table[f"{kind}_{name}"] = np.repeat(drawn, np.diff([0, *bounds, rows]))
    table["held"] = np.broadcast_to(np.int64(2**62), rows)
    ends = np.sort(rng.integers(0, rows, 5))
    words = [draw(st.text(max_size=8)) for _ in range(3)]
    table["words"] = TextColumn([words[at] for at in rng.integers(0, 3, 6)], np.diff([0, *ends, rows]))
    return table


def spelled(column: Column) -> list[Any]:
    """Give every row of a column: its text, or its bits."""
    if isinstance(column, TextColumn):
        return [text for text, length in zip(column.texts, column.lengths.tolist(), strict=True) for _ in range(length)]
    return [value.tobytes() for value in column]


def expanded(column: EncodedColumn) -> list[Any]:
    values = list(column.values) if column.is_text else [value.tobytes() for value in column.values]  # type: ignore[union-attr]
    if column.starts is None:
        return values
    return [value for value, length in zip(values, column.lengths.tolist(), strict=True) for _ in range(length)]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=columns(), group=st.sampled_from([7, 100, 1 << 20]))
def test_every_reader_gives_the_same_bits_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, Column], group: int
) -> None:
    monkeypatch.setattr(tables, "GROUP_ROWS", group)
    coded = code_table(table)
    tables.write_tables(tmp_path, {"it": coded})
    path = tmp_path / "it.parquet"
    arrow = pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=["words"]).read()
    arrow.validate(full=True)
    duck = duckdb.sql(f"SELECT * FROM read_parquet('{path}')").arrow()
    for read in (arrow, pl.read_parquet(path).to_arrow(), duck.read_all() if hasattr(duck, "read_all") else duck):
        result = from_arrow(read)
        assert {name: spelled(column) for name, column in result.items()} == {
            name: spelled(column) for name, column in table.items()
        }
        assert digest_columns(code_table(result)) == digest_columns(coded)


@given(table=columns(), first=st.integers(0, 999), rows=st.integers(1, 999))
@settings(max_examples=25)
def test_runs_are_the_column(table: dict[str, Column], first: int, rows: int) -> None:
    for column in table.values():
        coded = code(column)
        assert expanded(coded) == spelled(column)
        if coded.starts is not None and not coded.is_text:
            assert len(coded.starts) <= coded.rows // 8 + 1
            assert (coded.lengths > 0).all()
        begin = first % coded.rows
        end = min(coded.rows, begin + rows)
        assert expanded(coded.between(begin, end)) == spelled(column)[begin:end]


def test_the_hash_knows_every_bit_name_and_type() -> None:
    def digest(**columns: Column) -> str:
        return digest_columns(code_table(columns))

    zeros = np.zeros(100)
    known = [digest(a=zeros), digest(b=zeros), digest(a=zeros[:99]), digest(a=-zeros), digest(a=zeros.astype("i8"))]
    other = zeros.copy()
    other[57] = np.nan
    known += [digest(a=other), digest(a=zeros, b=zeros), digest(a=np.broadcast_to(np.float64(1), 100))]
    assert len(set(known)) == len(known)
    assert digest(a=zeros) == digest(a=np.broadcast_to(np.float64(0), 100))
    words = TextColumn(["x", "x", "y"], np.array([1, 2, 3]))
    assert digest(w=words) == digest(w=TextColumn(["x", "", "y"], np.array([3, 0, 3])))
    assert digest(w=words) != digest(w=TextColumn(["x", "y"], np.array([2, 4])))
    with pytest.raises(DecodeError, match="as many rows"):
        digest(a=zeros, b=zeros[:5])


def test_a_changed_byte_of_a_page_is_noticed(tmp_path: Path) -> None:
    """Every page has a checksum."""
    values = np.random.default_rng(3).normal(size=500)
    tables.write_tables(tmp_path, {"it": code_table({"a": values})})
    path = tmp_path / "it.parquet"
    raw = bytearray(path.read_bytes())
    raw[1000] ^= 1
    path.write_bytes(raw)
    with pytest.raises(OSError, match=r"(?i)crc"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def test_the_peers_of_the_bench_make_the_same_values(tmp_path: Path) -> None:
    """All of them write the four tables of a spectator's session, bit for bit as a data set holds them."""
    tables = r.dealt("watch", 5, 8)
    r.store(tmp_path, r.dealt_events(tables))
    config = DatasetConfig("it", "policy", "buttons", "minimal")
    game = r.crash()
    (ours,) = open_dataset(build(game, EventStore(tmp_path, game.columns), config, tmp_path)).sessions.values()
    pq.write_table(tables["game_tick"], tmp_path / "ticks.parquet")
    for name, peer in PEERS.items():
        target = tmp_path / f"{name}.parquet"
        assert peer(tmp_path / "ticks.parquet", target) == len(ours["observations"])
        for table in ours:
            theirs = pl.read_parquet(target if table == "observations" else target.with_suffix(f".{table}"))
            mine = ours[table]
            assert set(theirs.columns) == set(mine.columns), (name, table)
            assert theirs.select(mine.columns).cast(mine.schema).equals(mine), (name, table)
