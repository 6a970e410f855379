"""Open a data set and read transitions from it: observation, action, reward, next observation, done.

A changed value or a missing manifest is refused. Leaves out: batches, scalers, exports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from playproof.datasets.build import MANIFEST, TABLES, Tables, content_hash
from playproof.errors import DecodeError, UnknownName


@dataclass(frozen=True)
class Dataset:
    """A data set that was read and checked."""

    path: Path
    manifest: Mapping[str, Any]
    sessions: Mapping[str, Tables]

    def windows(self, split: str) -> tuple[str, ...]:
        """Give the windows of a split, in time order."""
        of: Mapping[str, str] = self.manifest["split"]
        if split not in of.values():
            raise UnknownName("split", split, set(of.values()))
        return tuple(window for window, its in of.items() if its == split)

    def transitions(self, split: str) -> Transitions:
        """Give every step of a split."""
        windows = self.windows(split)
        tables = {
            name: pl.concat([of[name].filter(pl.col("window_id").is_in(windows)) for of in self.sessions.values()])
            for name in TABLES
        }
        seen, taken, earned = (tables[name] for name in TABLES)
        heads = [name for name in taken.columns if name.startswith("head_")]
        return Transitions(
            observations=seen.filter(~pl.col("final")).select(self.manifest["features"]).to_numpy(),
            actions=taken.select(heads).to_numpy(),
            rewards=earned["reward"].to_numpy(),
            next_observations=seen.filter(pl.col("step") > 0).select(self.manifest["features"]).to_numpy(),
            terminated=earned["terminated"].to_numpy(),
            truncated=earned["truncated"].to_numpy(),
            windows=tuple(taken["window_id"]),
        )


@dataclass(frozen=True)
class Transitions:
    """Steps as arrays, one row each."""

    observations: NDArray[np.float32]  # (steps, features)
    actions: NDArray[np.int16]  # (steps, heads)
    rewards: NDArray[np.float64]  # (steps,)
    next_observations: NDArray[np.float32]  # (steps, features)
    terminated: NDArray[np.bool_]  # (steps,)
    truncated: NDArray[np.bool_]  # (steps,)
    windows: tuple[str, ...]

    def __post_init__(self) -> None:
        sizes = {len(it) for it in vars(self).values()}
        if len(sizes) != 1:
            raise DecodeError(f"expected as many rows in every array, found {sorted(sizes)}")

    @property
    def done(self) -> NDArray[np.bool_]:
        """Tell which steps were the last of their episode."""
        return self.terminated | self.truncated


def open_dataset(path: Path) -> Dataset:
    """Read a data set and check that its rows are those that were built."""
    if not (path / MANIFEST).exists():
        raise DecodeError(f"expected {MANIFEST} in {path}, found none; the data set was not finished: build it again")
    manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    sessions = {
        place.name: {name: pl.read_parquet(place / f"{name}.parquet") for name in TABLES}
        for place in sorted((path / "sessions").iterdir())
    }
    if content_hash(sessions) != manifest["rows_hash"]:
        raise DecodeError(f"expected the rows of {path} as they were built, found others; build it again")
    return Dataset(path, manifest, sessions)
