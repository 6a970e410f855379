"""The study of experiments: its table is made of what it says, on pools whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies.experiments.study import BEGIN, END, Mode, PairPool, crash_pool, run_mode, to_markdown, write_table


@pytest.fixture(scope="module")
def pool() -> PairPool:
    """Two players with shared luck, the first better by 10 a window, limits of 100."""
    rng = np.random.default_rng(1)
    luck, own = rng.normal(0, 20, 4_000), rng.normal(0, 5, (2, 4_000))
    return PairPool(
        "first and second", np.clip(10 + luck + own[0], -100, 100), np.clip(luck + own[1], -100, 100), 100, 100
    )


@pytest.mark.parametrize("mode", ["shadow", "split", "forks"])
def test_nulls_end_rarely_and_naive_tests_often(pool: PairPool, mode: Mode) -> None:
    row = run_mode(pool, mode, True, 500, 150, 1)
    assert row.ended_a + row.ended_b <= 0.05
    assert row.naive > 0.15
    assert (row.median, row.ninety) == (None, None)


def test_pairs_see_the_difference_sooner_than_a_split(pool: PairPool) -> None:
    paired, split = (run_mode(pool, mode, False, 100, 1_500, 1) for mode in ("shadow", "split"))
    assert paired.ended_a > 0.98
    assert paired.ended_b == split.ended_b == 0
    assert paired.median is not None
    assert split.median is not None
    assert split.median > paired.median
    assert run_mode(pool, "shadow", False, 100, 1_500, 1).median == paired.median


def test_pools_are_real_play() -> None:
    made = crash_pool("drift", "wait", "hold-40", 64, 0.002, 1)
    assert not made.a.any()
    assert made.b.min() >= -0.002
    assert made.b.any()


def test_the_table_is_put_between_its_marks(pool: PairPool, tmp_path: Path) -> None:
    rows = [run_mode(pool, "shadow", null, 20, 30, 1) for null in (True, False)]
    text = to_markdown([pool], rows, 1)
    assert "20 null" in text
    assert "20 planted" in text
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{BEGIN}\nold\n{END}\nrest\n")
    write_table(page, text)
    assert page.read_text() == f"# Title\n{BEGIN}\n{text}\n{END}\nrest\n"
