"""Check a finished data set: nothing looks ahead, no number is missing, money adds up, no round is in it twice.

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
from numpy.typing import NDArray

from playproof.datasets.build import GAP
from playproof.datasets.dataset import Dataset, SessionTables
from playproof.datasets.segment import segment_session
from playproof.events import Event
from playproof.game import EpisodeRecord, load_game
from playproof.game.episode_columns import BuildRequest
from playproof.store import EventStore

CUTS = 40
"""Cuts that the look-ahead check makes by default."""
SHINGLE = 16
"""Price steps in a row that are compared at once; a window with fewer is too short to be told from another one."""
DISTINCT = 8
"""Different steps that a shingle must have: steady growth looks alike in every window."""
SHARED = 4
"""Shingles that two windows must share to be called the same round."""


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
        check_repeats(dataset),
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


def check_repeats(dataset: Dataset) -> DatasetFinding:
    """Want no round to stand under two ids: no two windows whose prices moved alike.

    Times and ids are not looked at, nor the absolute prices: a copy may be cut, shifted in time, scaled or rounded.
    Windows without enough price steps, such as instant rugs, are left out.
    """
    name = "same round, other id"
    card = load_game(dataset.manifest["game"]["name"]).display().card
    if card is None or card.price not in dataset.manifest["stored_features"]:
        return DatasetFinding(name, None, 0, "not made: the game names no price among the stored features")
    steps = price_steps(dataset, card.price)
    if not steps:
        return DatasetFinding(name, True, 0, f"no window has {SHINGLE} price steps")
    split: Mapping[str, str] = dataset.manifest["split"]
    wrong = [
        f"{one} ({split[one]}) and {other} ({split[other]}), {shared} runs of {SHINGLE} price steps alike"
        for (one, other), shared in repeated_paths(steps).items()
        if GAP not in (split[one], split[other])
    ]
    return _finding(name, wrong, len(steps), "windows, no two with the same price steps", "the same round twice")


def price_steps(dataset: Dataset, price: str) -> dict[str, NDArray[np.float64]]:
    """Give the changes of the price's logarithm in each window that has enough of them, by the longest recording."""
    result: dict[str, NDArray[np.float64]] = {}
    for tables in dataset.sessions.values():
        for frame in tables["observations"].select("window_id", price).partition_by("window_id", maintain_order=True):
            prices = frame[price].to_numpy().astype(np.float64)
            prices = prices[np.isfinite(prices) & (prices > 0)]
            steps = np.diff(np.log(prices)) if len(prices) else prices
            # Decision points between two ticks repeat the price; how many there are depends on the player.
            steps = steps[steps != 0]
            window = str(frame["window_id"][0])
            if len(steps) >= SHINGLE and len(steps) > len(result.get(window, ())):
                result[window] = steps
    return result


def repeated_paths(steps: Mapping[str, NDArray[np.float64]]) -> dict[tuple[str, str], int]:
    """Give the pairs of windows that share runs of price steps, and how many runs.

    Steps are rounded to an eighth of the usual step and hashed in runs of `SHINGLE`; equal hashes are put side by side
    by sorting, so that the time follows the number of steps and not the number of pairs.
    """
    names = list(steps)
    quantum = float(np.median(np.abs(np.concatenate(list(steps.values()))))) / 8
    weights = np.random.default_rng(0).integers(1, 2**63, SHINGLE, dtype=np.uint64) | np.uint64(1)
    hashes, owners = [], []
    for number, path in enumerate(steps.values()):
        runs = np.lib.stride_tricks.sliding_window_view(np.rint(path / quantum).astype(np.int64), SHINGLE)
        ordered = np.sort(runs, axis=1)
        rich = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) >= DISTINCT
        distinct = np.unique((runs[rich].astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64))
        hashes.append(distinct)
        owners.append(np.full(len(distinct), number, np.int64))
    joined, of = np.concatenate(hashes), np.concatenate(owners)
    order = np.argsort(joined, kind="stable")
    joined, of = joined[order], of[order]
    shared: dict[tuple[str, str], int] = {}
    for index in np.flatnonzero(joined[1:] == joined[:-1]).tolist():
        pair = (names[of[index]], names[of[index + 1]])
        shared[pair] = shared.get(pair, 0) + 1
    return {pair: count for pair, count in sorted(shared.items()) if count >= SHARED}


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
