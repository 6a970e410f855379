"""Recorded windows of a data set, laid out to be played again, and what D1 and D3 say of them.

Leaves out: playing (examine).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from playproof.datasets.transitions import Dataset
from playproof.errors import ConfigError, InputError
from playproof.events import Event
from playproof.game import Game, resolve
from playproof.game.lanes import Tape
from playproof.home import home
from playproof.store import EventStore
from playproof.validate.gates import RULES, Gate
from playproof.validate.leaks import check_windows


def recorded_tape(game: Game, dataset: Dataset, split: str) -> Tape:
    """Lay the windows of a split on a tape, from the store that the data set was built from."""
    if game.tape is None:
        raise ConfigError(f"expected a game whose recordings can be played again, found {game.name!r}")
    windows = dataset.windows(split)
    store = EventStore(home(), game.columns)
    tape: Tape = resolve(game.tape)(_events(store, windows))
    return tape


def _events(store: EventStore, windows: Sequence[str]) -> Iterator[tuple[str, Sequence[Event]]]:
    """Give each window's ticks as one session recorded them."""
    for window in windows:
        by_session: dict[str, list[Event]] = {}
        for event in store.events(doc_type="game_tick", window_id=window):
            by_session.setdefault(event.session_id, []).append(event)
        if not by_session:
            raise InputError(f"expected the recording of window {window} in the store, found none; set PLAYPROOF_HOME")
        yield window, max(by_session.values(), key=len)


def data_gates(game: Game, dataset: Dataset) -> tuple[Gate, ...]:
    """D1 and D3 of a data set: each window in one split, in time order, and where it came from."""
    split: dict[str, list[str]] = {}
    for window, name in dataset.manifest["split"].items():
        split.setdefault(name, []).append(window)
    found = check_windows(split)
    order = list(dataset.manifest["split"].values())
    runs = [name for place, name in enumerate(order) if place == 0 or order[place - 1] != name]
    ordered = len([name for name in runs if name != "gap"]) == len({name for name in runs if name != "gap"})
    told = found.found if ordered else "splits alternate in time"
    return (
        Gate("D1", found.passed and ordered, told, RULES["D1"]),
        Gate("D3", True, f"recordings of {game.name}, as the store holds them", RULES["D3"]),
    )
