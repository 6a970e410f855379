"""Check a finished data set: nothing looks ahead, no number is missing, money adds up, no round stands in it twice.

The look-ahead check goes back to the recording: it cuts a session's events at a random place, reads what is left event
by event, and wants every step up to the cut to be, byte for byte, what the data set says. Since a data set is built
by whole sessions, this holds the quick way against the slow one as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from playproof.datasets.build import GAP
from playproof.datasets.dataset import Dataset, SessionTables
from playproof.datasets.segment import segment_session
from playproof.events import Event
from playproof.game import EpisodeRecord, load_game
from playproof.game.episode_columns import BuildRequest
from playproof.store import EventStore

CUTS = 40
"""Cuts that the look-ahead check makes by default."""


@dataclass(frozen=True)
class DatasetFinding:
    """What one check found."""

    check: str
    passed: bool | None
    """None where it could not be made."""
    counted: int
    """How many things were looked at."""
    detail: str


def check_dataset(
    dataset: Dataset, store: EventStore, rng: np.random.Generator, cuts: int = CUTS
) -> list[DatasetFinding]:
    """Make every check."""
    return [
        check_numbers(dataset),
        check_balance(dataset),
        check_duplicates(dataset),
        check_splits(dataset),
        check_lookahead(dataset, store, rng, cuts),
    ]


def check_numbers(dataset: Dataset) -> DatasetFinding:
    """Want every number of every table to be finite; labels may be undefined."""
    looked, wrong = 0, list[str]()
    for session, tables in dataset.sessions.items():
        for name in ("observations", "rewards"):
            for column in tables[name].select(pl.col(pl.Float32, pl.Float64)):
                looked += len(column)
                if not column.is_finite().all():
                    wrong.append(f"{column.name} in {name} of {session}")
    return _finding("NaN", wrong, looked, "numbers, all finite", "not finite")


def check_balance(dataset: Dataset) -> DatasetFinding:
    """Want each step to begin with the equity that the one before it left, and rewards to be their components' sum."""
    looked, wrong = 0, list[str]()
    for session, tables in dataset.sessions.items():
        paid = tables["rewards"]
        looked += paid.height
        follows = paid["window_id"] == paid["window_id"].shift(1)
        kept = paid["equity"] == paid["next_equity"].shift(1)
        wrong += [f"equity in {window} of {session}" for window in paid.filter(follows & ~kept)["window_id"].unique()]
        parts = [paid[name].to_numpy() for name in paid.columns if name.startswith("reward__")]
        if parts and not np.array_equal(_total(parts), paid["reward"].to_numpy()):
            wrong.append(f"reward of {session}")
    return _finding("balance", wrong, looked, "steps, every unit of money accounted for", "does not add up")


def _total(parts: list[Any]) -> Any:
    total = parts[0].copy()
    for part in parts[1:]:
        total = total + part
    return total


def check_duplicates(dataset: Dataset) -> DatasetFinding:
    """Want each player to go through a window once."""
    seen: dict[tuple[str, str | None], str] = {}
    wrong: list[str] = []
    for session, tables in dataset.sessions.items():
        for episode in tables.episodes:
            key = (episode["window_id"], episode["player_id"])
            if key in seen:
                wrong.append(f"{episode['window_id']} in {seen[key]} and in {session}")
            seen[key] = session
    return _finding("duplicate rounds", wrong, len(seen), "episodes, each round once a player", "stands twice")


def check_splits(dataset: Dataset) -> DatasetFinding:
    """Want whole windows in consecutive splits, each split later than the one before it."""
    starts: dict[str, int] = {}
    for tables in dataset.sessions.values():
        for episode in tables.episodes:
            window, start = episode["window_id"], int(episode["start_us"])
            starts[window] = min(start, starts.get(window, start))
    of: Mapping[str, str] = dataset.manifest["split"]
    wrong = [f"{window} has no split" for window in starts if window not in of]
    ordered = [of[window] for window in sorted(starts, key=lambda item: (starts[item], item)) if window in of]
    runs = [split for index, split in enumerate(ordered) if split != GAP and (not index or ordered[index - 1] != split)]
    wrong += [f"{split} is not one stretch of time" for split in sorted({run for run in runs if runs.count(run) > 1})]
    return _finding("splits", wrong, len(of), "windows, splits consecutive in time", "wrong")


def check_lookahead(dataset: Dataset, store: EventStore, rng: np.random.Generator, cuts: int = CUTS) -> DatasetFinding:
    """Cut recordings at random places, and want every step up to the cut to stay as it is."""
    name = "look-ahead"
    recorded: dict[str, tuple[Event, ...]] = {}
    sessions = list(dataset.sessions)
    looked, wrong, missing = 0, list[str](), set[str]()
    for _ in range(cuts):
        session = sessions[int(rng.integers(len(sessions)))]
        if session not in recorded:
            recorded[session] = tuple(store.events(session_id=session))
        events = recorded[session]
        if not events:
            missing.add(session)
            continue
        cut = int(rng.integers(1, len(events) + 1))
        for same, index in _compared(dataset, dataset.sessions[session], events[:cut]):
            looked += 1
            if not same:
                wrong.append(f"{index} of {session}, cut after event {cut - 1}")
    if missing and not looked:
        return DatasetFinding(name, None, 0, f"not made: the store no longer holds {min(missing)}")
    return _finding(name, wrong, looked, f"steps before {cuts} cuts, the same bytes without their future", "changed")


def _compared(dataset: Dataset, tables: SessionTables, events: tuple[Event, ...]) -> Iterator[tuple[bool, str]]:
    """Tell of each step before a cut whether it is as the data set says."""
    manifest = dataset.manifest
    ask = BuildRequest(manifest["stored"], manifest["actions"]["name"], manifest["world"], True, 0)
    game = load_game(manifest["game"]["name"])
    features = list(manifest["stored_features"])
    rows, taken = tables["observations"], tables["actions"]
    heads = [name for name in taken.columns if name.startswith("head_")]
    for episode in segment_session(game, events, ask).episodes:
        seen = rows.filter(pl.col("window_id") == episode.window_id)
        if not seen.height:
            continue
        stored = seen.select(features).to_numpy()
        chosen = taken.filter(pl.col("window_id") == episode.window_id).select(heads).to_numpy()
        yield from _steps(episode, stored, chosen)


def _steps(episode: EpisodeRecord, stored: Any, chosen: Any) -> Iterator[tuple[bool, str]]:
    """Compare what was seen at each step, and what was chosen at each but the one that the cut left undecided."""
    for index, step in enumerate(episode.steps):
        same = index < len(chosen) and np.asarray(episode.observations[index]).tobytes() == stored[index].tobytes()
        if same and index < len(episode.steps) - 1:
            same = tuple(chosen[index]) == tuple(step.action)
        yield same, f"step {index} in {episode.window_id}"


def _finding(check: str, wrong: list[str], looked: int, fine: str, bad: str) -> DatasetFinding:
    if not wrong:
        return DatasetFinding(check, True, looked, f"{looked} {fine}")
    return DatasetFinding(
        check, False, looked, f"{bad}: {wrong[0]}" + (f", and {len(wrong) - 1} more" if wrong[1:] else "")
    )
