"""Open a data set and read transitions from it: observation, action, reward, next observation, done.

Opening checks the manifest; a session's table is read when it is first asked for, and then every value of it is
checked. A changed value or a missing manifest is refused. The hash of a table is over its columns' names, types and
values, whatever file, compression or chunks hold them; that of a data set is over its sessions in the order of their
ids. So it does not depend on the order of files, on threads, locale, time zone, or where it was built.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from playproof.datasets.tables import code_table, digest_columns, from_arrow
from playproof.errors import DecodeError, UnknownName
from playproof.game import NumericObservation, load_game
from playproof.json_types import Json
from playproof.notebook import facts_table

MANIFEST = "manifest.json"
METADATA = "metadata.json"
TABLES = ("observations", "actions", "rewards")
"""Tables of every session; `labels` is there too if the game has labels."""
LABELS = "labels"
FORMAT = 3
"""Of the folder; one of another format is built again."""


def digest_json(value: object) -> str:
    """Hash a JSON value in its one canonical text."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def digest_table(table: pa.Table) -> str:
    """Hash a table's values, column by column."""
    return digest_columns(code_table(from_arrow(table)))


def digest_sessions(sessions: Mapping[str, Mapping[str, str]]) -> str:
    """Hash all rows: the digest of each table of each session, in the order of the sessions' ids."""
    return digest_json([[name, sorted(sessions[name].items())] for name in sorted(sessions)])


def content_hash(sessions: Mapping[str, Mapping[str, pl.DataFrame]]) -> str:
    """Hash the values of sessions' tables, column by column, whatever files they will stand in."""
    return digest_sessions(
        {
            session: {name: digest_table(table.to_arrow()) for name, table in tables.items()}
            for session, tables in sessions.items()
        }
    )


def read_manifest(path: Path) -> Json:
    """Read a data set's manifest; refuse a folder without one, and one whose hash is not that of what it says."""
    if not (path / MANIFEST).exists():
        raise DecodeError(f"expected {MANIFEST} in {path}, found none; the data set was not finished: build it again")
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        core, format_ = manifest["core"], manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise DecodeError(f"expected the manifest of a data set in {path}, found: {error}; build it again") from error
    if format_ != FORMAT:
        raise DecodeError(f"expected a data set of format {FORMAT} in {path}, found {format_}; build it again")
    if digest_json({key: manifest[key] for key in core}) != manifest["hash"]:
        raise DecodeError(f"expected the manifest of {path} as it was written, found another; build it again")
    return dict(manifest)


def write_json(path: Path, payload: Mapping[str, object]) -> None:
    """Write a JSON file, whole or not at all."""
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(orjson.dumps(payload, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    sync(draft)
    draft.replace(path)


def sync(path: Path) -> None:
    """Bring a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SessionTables(Mapping[str, pl.DataFrame]):
    """One session's tables, each read and checked when it is asked for."""

    def __init__(self, path: Path, digests: Mapping[str, str]) -> None:
        self.path, self._digests = path, digests
        self._frames: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._frames:
            frame = pl.from_arrow(self.read(name))
            assert isinstance(frame, pl.DataFrame)
            self._frames[name] = frame.with_columns(pl.col("window_id").cast(pl.String))
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._digests if name != "episodes")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def read(self, name: str) -> pa.Table:
        """Read a table as it stands on disk; refuse one whose values are not those that were built."""
        if name not in self._digests or name == "episodes":
            raise KeyError(name)
        path = self.path / f"{name}.parquet"
        try:
            table = pq.ParquetFile(path, read_dictionary=["window_id"]).read()
        except (OSError, pa.ArrowException) as error:
            raise DecodeError(f"expected a table at {path}, found: {error}; build the data set again") from error
        if digest_table(table) != self._digests[name]:
            raise DecodeError(f"expected the rows of {path} as they were built, found others; build it again")
        return table

    @cached_property
    def episodes(self) -> list[Json]:
        """Give what is known of each episode: window, player, start, steps, end, lack, corrections, outcome."""
        path = self.path / METADATA
        try:
            payload = json.loads(path.read_text(encoding="utf-8"))
            result = {"episodes": payload["episodes"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DecodeError(f"expected {path}, found: {error}; build the data set again") from error
        if digest_json(result) != self._digests["episodes"]:
            raise DecodeError(f"expected the episodes of {path} as they were built, found others; build it again")
        return list(result["episodes"])


class Sessions(Mapping[str, SessionTables]):
    """A data set's sessions, by id."""

    def __init__(self, path: Path, payload: Mapping[str, Any]) -> None:
        self._tables = {
            name: SessionTables(path / "sessions" / name, session["digests"]) for name, session in payload.items()
        }

    def __getitem__(self, name: str) -> SessionTables:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


@dataclass(frozen=True)
class Dataset:
    """A data set whose manifest was checked; its rows are read when they are asked for."""

    path: Path
    manifest: Mapping[str, Any]
    sessions: Sessions

    def _repr_html_(self) -> str:
        splits = list(self.manifest["split"].values())
        counts = ", ".join(f"{name} {splits.count(name)}" for name in dict.fromkeys(splits))
        facts = {"game": self.manifest["game"]["name"], "windows": counts, "observation": self.manifest["observation"]}
        facts |= {"actions": self.manifest["actions"], "reward": self.manifest["reward"]["name"]}
        return facts_table(f"Data set {self.path.name}", facts | {"hash": self.manifest["hash"], "folder": self.path})

    def windows(self, split: str) -> tuple[str, ...]:
        """Give the windows of a split, in time order."""
        of: Mapping[str, str] = self.manifest["split"]
        if split not in of.values():
            raise UnknownName("split", split, set(of.values()))
        return tuple(window for window, its in of.items() if its == split)

    def features(self, observation: str | None = None) -> tuple[str, ...]:
        """Give the features of an observation set, which must be among those stored; None: the data set's own."""
        if observation in (None, self.manifest["observation"]):
            return tuple(self.manifest["features"])
        if observation == self.manifest["stored"]:
            return tuple(self.manifest["stored_features"])
        kind = load_game(self.manifest["game"]["name"]).observations.get(observation or "")
        stored = set(self.manifest["stored_features"])
        if not isinstance(kind, NumericObservation) or not set(kind.features) <= stored:
            raise UnknownName(
                f"observation set within {self.manifest['stored']!r}",
                str(observation),
                {self.manifest["observation"], self.manifest["stored"]},
            )
        return kind.features

    def transitions(self, split: str, observation: str | None = None) -> Transitions:
        """Give every step of a split, session by session, with the features of an observation set."""
        chosen, features = frozenset(self.windows(split)), self.features(observation)
        result = [self._steps(tables, chosen, features) for tables in self.sessions.values()]
        return join([steps for steps in result if len(steps.rewards)] or result[:1])

    def _steps(self, tables: SessionTables, chosen: frozenset[str], features: Sequence[str]) -> Transitions:
        """Give a session's steps in some windows."""
        seen, taken, earned = (tables.read(name) for name in ("observations", "actions", "rewards"))
        rows, windows = _inside(seen, chosen)
        steps, of_steps = _inside(taken, chosen)
        final, first = seen["final"].to_numpy(), seen["step"].to_numpy() == 0
        before, after = rows & ~final, rows & ~first
        heads = [name for name in taken.schema.names if name.startswith("head_")]
        del windows
        return Transitions(
            observations=_stack([seen[name] for name in features], before, np.float32),
            actions=_stack([taken[name] for name in heads], steps, np.int16),
            rewards=earned["reward"].to_numpy()[steps],
            next_observations=_stack([seen[name] for name in features], after, np.float32),
            terminated=earned["terminated"].to_numpy()[steps],
            truncated=earned["truncated"].to_numpy()[steps],
            windows=tuple(of_steps[steps].tolist()),
            substep=taken["substep"].to_numpy()[steps],
            missing=_stack([seen[f"{name}__missing"] for name in features], before, np.bool_),
        )


def _inside(table: pa.Table, chosen: frozenset[str]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Tell which rows are in some windows, and give each row's window."""
    column = table["window_id"].unify_dictionaries().combine_chunks()
    column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    texts = column.dictionary.to_pylist()
    inside = np.array([text in chosen for text in texts], np.bool_)
    codes = column.indices.to_numpy(zero_copy_only=False)
    return inside[codes], np.array(texts, object)[codes]


def _stack(columns: Sequence[pa.ChunkedArray], rows: NDArray[np.bool_], dtype: Any) -> NDArray[Any]:
    """Give columns as an array, a row each (rows, columns)."""
    out = np.empty((int(rows.sum()), len(columns)), dtype)
    for index, column in enumerate(columns):
        out[:, index] = column.to_numpy()[rows]
    return out


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
    substep: NDArray[np.int16]  # (steps,)
    missing: NDArray[np.bool_]  # (steps, features)

    def __post_init__(self) -> None:
        sizes = {len(var) for var in vars(self).values()}
        if len(sizes) != 1:
            raise DecodeError(f"expected as many rows in every array, found {sorted(sizes)}")

    @property
    def done(self) -> NDArray[np.bool_]:
        """Tell which steps were the last of their episode."""
        return self.terminated | self.truncated


def join(parts: Sequence[Transitions]) -> Transitions:
    """Put transitions one after the other."""
    if len(parts) == 1:
        return parts[0]
    arrays: Json = {
        name: np.concatenate([getattr(item, name) for item in parts])
        for name in Transitions.__dataclass_fields__
        if name != "windows"
    }
    return Transitions(**arrays, windows=tuple(window for item in parts for window in item.windows))


def open_dataset(path: Path) -> Dataset:
    """Open a data set: check its manifest; rows are read and checked when they are asked for."""
    manifest = read_manifest(path)
    return Dataset(path, manifest, Sessions(path, manifest["sessions"]))


def take(steps: Transitions, chosen: NDArray[Any]) -> Transitions:
    """Give some steps, by places or by marks."""
    indices = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
    arrays: Json = {
        name: getattr(steps, name)[indices] for name in Transitions.__dataclass_fields__ if name != "windows"
    }
    return Transitions(**arrays, windows=tuple(steps.windows[index] for index in indices.tolist()))


def starts(steps: Transitions) -> NDArray[np.int64]:
    """Give the places at which windows begin; the steps of one must stand together."""
    names = np.asarray(steps.windows)
    first = np.r_[True, names[1:] != names[:-1]] if len(names) else np.zeros(0, np.bool_)
    return np.flatnonzero(first)


def first_windows(steps: Transitions, count: int) -> Transitions:
    """Give the steps of the first windows."""
    begins = starts(steps)
    return steps if count >= len(begins) else take(steps, np.arange(begins[count]))


def stacked(steps: Transitions, frames: int) -> NDArray[np.float32]:
    """Lay each step's last observations side by side, the newest last, as policies see frames, (n, frames x features).

    A window's first row stands for those before it.
    """
    if frames == 1:
        return steps.observations
    begins = starts(steps)
    first = np.repeat(begins, np.diff(np.r_[begins, len(steps.windows)]))
    indices = np.arange(len(first))
    return np.concatenate(
        [steps.observations[np.maximum(indices - back, first)] for back in range(frames - 1, -1, -1)], axis=1
    )


def prior_of(actions: NDArray[np.int16], sizes: Sequence[int]) -> tuple[NDArray[np.float64], ...]:
    """Give how often each choice of each head was demonstrated."""
    return tuple(np.bincount(actions[:, head], minlength=size) / len(actions) for head, size in enumerate(sizes))
