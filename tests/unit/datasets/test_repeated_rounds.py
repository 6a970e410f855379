"""The same round under another id: exact and near copies are found, honest rounds are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from old_recordings import START, rows, write_recordings

from playproof.cli.app import main
from playproof.datasets.check import check_repeats
from playproof.games.crash.rules import prices as fair

Prices = NDArray[np.float64]
ROUNDS = 300


def honest(count: int = ROUNDS) -> dict[str, Prices]:
    """Give simulated rounds in time order, short ones too."""
    return {f"w{n:03d}": np.array(fair.play_round(f"honest-{n}", f"w{n:03d}").prices) for n in range(count)}


def dataset_of(paths: dict[str, Prices]) -> Any:
    """Give what the check reads of a data set: one session, the first two thirds in train, the rest in test."""
    frame = pl.concat(
        [
            pl.DataFrame({"window_id": [window] * len(prices), "price": np.asarray(prices, np.float32)})
            for window, prices in paths.items()
        ]
    )
    split = {window: "train" if n < 2 * len(paths) / 3 else "test" for n, window in enumerate(paths)}
    manifest = {"game": {"name": "crash"}, "stored_features": ["price"], "split": split}
    return SimpleNamespace(manifest=manifest, sessions={"s": {"observations": frame}})


def test_honest_rounds_pass() -> None:
    paths = honest()
    assert min(map(len, paths.values())) < 10  # instant rugs, which all look alike
    finding = check_repeats(dataset_of(paths))
    assert finding.passed, finding.detail
    assert ROUNDS / 2 < finding.counted < ROUNDS


def test_rounds_that_are_too_short_or_grow_steadily_say_nothing() -> None:
    steady = {f"w{n}": 1.01 ** np.arange(100.0) for n in range(4)}
    assert check_repeats(dataset_of(steady)).passed
    short = {f"w{n}": np.array([1.0, 1.01, 0.5]) for n in range(4)}
    assert (check_repeats(dataset_of(short)).passed, check_repeats(dataset_of(short)).counted) == (True, 0)


COPIES: dict[str, Callable[[Prices], Prices]] = {
    "exact": lambda prices: prices,
    "pauses between ticks": lambda prices: np.repeat(prices, np.arange(len(prices)) % 3 + 1),
    "scaled": lambda prices: prices * 1.7,
    "joined late": lambda prices: prices[len(prices) // 3 :],
    "rounded": lambda prices: np.round(prices, 4),
    "ticks lost": lambda prices: np.delete(prices, slice(30, None, 40)),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_in_another_split_is_named(how: str) -> None:
    paths = honest(60)
    victim = next(window for window in list(paths)[5:] if len(paths[window]) > 150)
    assert list(paths).index(victim) < 40
    paths["copy"] = COPIES[how](paths[victim])
    finding = check_repeats(dataset_of(paths))
    assert finding.passed is False
    assert f"{victim} (train)" in finding.detail
    assert "copy (test)" in finding.detail
    assert "more" not in finding.detail  # nothing else is accused


def test_the_command_fails_on_a_round_that_was_imported_under_two_ids(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recordings"
    lengths = write_recordings(folder, 12)
    longest = max(range(5), key=lengths.__getitem__)
    prices = list(fair.play_round(f"seed-{longest}", f"20251029-{longest:016x}").prices)
    assert len(prices) > 40
    copied = rows("20251030-00000000000000aa", prices, START + timedelta(days=1))
    (folder / "game_copy.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in copied))
    assert main(["import", "legacy", str(folder), "--zone", "UTC"]) == 0
    assert main(["dataset", "build", "mine"]) == 0
    capsys.readouterr()
    assert main(["dataset", "check", "mine", "--cuts", "1", "--json"]) == 2
    checks = {item["check"]: item for item in json.loads(capsys.readouterr().out)["checks"]}
    finding = checks.pop("same round, other id")
    assert finding["passed"] is False
    assert f"20251029-{longest:016x} (train)" in finding["detail"]
    assert "20251030-00000000000000aa (test)" in finding["detail"]
    assert all(item["passed"] for item in checks.values())
