"""Recorded windows of a data set, laid out to be played again, and what D1 and D3 say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from playproof.datasets.dataset import Dataset
from playproof.errors import ConfigError, ContractError, InputError
from playproof.events import Event
from playproof.game import Game, first
from playproof.game.vector_env import ReplayTape
from playproof.home import home
from playproof.stats.calibration import auc
from playproof.store import EventStore
from playproof.train.rug_predictor import lay_ticks
from playproof.validate.audit import audit, model_doubt
from playproof.validate.gates import RULES, Gate, skipped
from playproof.validate.leaks import Samples, check_permuted, check_windows
from playproof.validate.pipeline import learn_and_score

STREAM = int.from_bytes(b"labels")
STRIDE = 16
"""Every so many rows are learned from: rows close to each other say the same."""
LEAST = 20
"""Windows without which nothing can be learned."""


def recorded_tape(game: Game, dataset: Dataset, split: str) -> ReplayTape:
    """Lay the windows of a split on a tape, from the store that the data set was built from."""
    make_tape = game.simulated().tape
    if make_tape is None:
        raise ConfigError(f"expected a game whose recordings can be played again, found {game.name!r}")
    windows = dataset.windows(split)
    store = EventStore(home(), game.columns)
    return make_tape(_events(store, windows))


def _events(store: EventStore, windows: Sequence[str]) -> Iterator[tuple[str, Sequence[Event]]]:
    """Give each window's ticks as one session recorded them."""
    for window in windows:
        by_session: dict[str, list[Event]] = {}
        for event in store.events(doc_type="game_tick", window_id=window):
            by_session.setdefault(event.session_id, []).append(event)
        if not by_session:
            raise InputError(f"expected the recording of window {window} in the store, found none; set PLAYPROOF_HOME")
        yield window, max(by_session.values(), key=len)


def label_gate(game: Game, dataset: Dataset, seed: int) -> Gate:
    """D2: can anything be learned from the data set's rows once its labels are permuted by window?

    The AUC by window on the true labels stands beside what a split by rows makes of it.
    """
    try:
        samples = labelled(game, dataset)
    except (InputError, ContractError) as error:
        return skipped("D2 labels", RULES["D2"], str(error))
    rng = np.random.default_rng([STREAM, seed])
    permuted = check_permuted(lambda given: learn_and_score(given, by_row=False, scale_all=False), samples, rng)
    by_row, by_window = (_auc(samples, by_row=by_row) for by_row in (True, False))
    text = f"{permuted.finding}; on the true ones {by_window:.3f} by window (by row, not quotable, {by_row:.3f})"
    return Gate("D2 labels", permuted.passed, text, RULES["D2"])


def labelled(game: Game, dataset: Dataset) -> Samples:
    """Give some rows of every window of the data set, with the game's label."""
    if game.simulated().prediction is None:
        raise ContractError(f"game {game.name!r} names no label to predict")
    names = tuple(dataset.manifest["features"])
    parts = [lay_ticks(game, dataset.transitions(split), names) for split in dict.fromkeys(_splits(dataset))]
    offset, rows, labels, windows = 0, [], [], []
    for part in parts:
        kept = slice(None, None, STRIDE)
        rows.append(part.inputs[kept].astype(np.float64))
        labels.append(part.happened[kept])
        windows.append(part.windows[kept] + offset)
        offset += len(part.ends)
    numbers = np.concatenate(windows)
    table = np.concatenate(rows)
    if len(np.unique(numbers)) < LEAST:
        raise InputError(f"{len(np.unique(numbers))} windows are too few to learn a label from")
    own = tuple(f"input {index}" for index in range(table.shape[1]))
    return Samples(np.nan_to_num(table), np.concatenate(labels), np.char.mod("%08d", numbers), own)


def _splits(dataset: Dataset) -> list[str]:
    """Name the splits that hold windows, in time order."""
    return [name for name in dataset.manifest["split"].values() if name != "gap"]


def _auc(samples: Samples, *, by_row: bool) -> float:
    scored = learn_and_score(samples, by_row=by_row, scale_all=False)
    return auc(scored.scores, samples.labels[scored.tested], samples.windows[scored.tested]).value


def verified_ceiling(game: Game, dataset: Dataset, seed: int) -> tuple[float | None, str]:
    """Give the best expected profit in the published game if the recordings are of that game, and why or why not.

    A recorded game may have been changed: the ceiling of the published one holds only where an audit of the whole data
    set does not reject its model.
    """
    auditing = game.display().audit
    if auditing is None:
        return None, f"recordings of {game.name} cannot be audited"
    rows = pl.concat([tables["observations"] for tables in dataset.sessions.values()])
    report = audit(game.name, auditing, auditing.from_rows(rows), np.random.default_rng([STREAM, seed, 1]))
    doubt = model_doubt(report)
    if doubt is not None:
        return None, f"the recordings are not shown to be of the published game: {doubt}"
    return game.simulated().ceiling(first(game.worlds)), f"an audit of {report.windows:,} windows does not reject it"


def data_gates(game: Game, dataset: Dataset) -> tuple[Gate, ...]:
    """D1 and D3 of a data set: each window in one split, in time order, and where it came from."""
    split: dict[str, list[str]] = {}
    for window, name in dataset.manifest["split"].items():
        split.setdefault(name, []).append(window)
    windows = check_windows(split)
    order = list(dataset.manifest["split"].values())
    runs = [name for index, name in enumerate(order) if index == 0 or order[index - 1] != name]
    ordered = len([name for name in runs if name != "gap"]) == len({name for name in runs if name != "gap"})
    payload = windows.finding if ordered else "splits alternate in time"
    return (
        Gate("D1", windows.passed and ordered, payload, RULES["D1"]),
        Gate("D3", True, f"recordings of {game.name}, as the store holds them", RULES["D3"]),
    )
