"""A session's episodes as columns: every step laid end to end, as data sets are made of them.

Both ways to read a recording end here: event by event (`lay` takes the episodes of `segment`) and a whole session
at once (a game's own `Batch`, compiled). Leaves out: how either comes about, and files.

Rows and steps are two axes. An episode of n steps has n + 1 rows: what was seen and held at each step, and after the
last. So row r of an episode is what stood before its step r, and row r + 1 what stood after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ContractError
from playproof.events import Value
from playproof.game.game import Game
from playproof.game.types import AccountSnapshot, EpisodeRecord, NumericObservation, Outcome, RecordingGap, Reward, Step

if TYPE_CHECKING:
    import pyarrow as pa

NEVER = -1
"""The age of a state that was never told."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EpisodeEntry:
    """What is known of one episode beside its steps."""

    window_id: str
    player_id: str | None
    start_us: int
    """When its first event could be known, in microseconds since 1970 UTC."""
    steps: int
    end: str
    """terminated or truncated."""
    lack: RecordingGap | None
    corrected: int
    late: int
    outcome: Mapping[str, Value] | None


@dataclass(frozen=True, slots=True)
class SkippedWindow:
    """A window of a session that gave no episode, and why."""

    session_id: str
    window_id: str
    reason: str


@dataclass(frozen=True)
class EpisodeColumns:
    """One session's episodes, in the order of its recording."""

    session_id: str
    features: tuple[str, ...]
    entries: tuple[EpisodeEntry, ...]
    observations: NDArray[np.float32]  # (features, rows)
    missing: tuple[NDArray[np.bool_], ...]  # each (rows,), for every feature
    standings: Mapping[str, NDArray[Any]]  # each (rows,): cash, equity, opened, then the ledger's further facts
    actions: NDArray[np.int16]  # (heads, steps)
    substeps: NDArray[np.int16]  # (steps,)
    effects: NDArray[np.bool_]  # (steps,)
    age_ticks: NDArray[np.int32]  # (steps,), NEVER where the player's state was not told yet
    age_us: NDArray[np.int64]  # (steps,)
    labels: Mapping[str, NDArray[np.float64]]  # each (steps,), NaN where it is not defined
    left_out: tuple[SkippedWindow, ...]

    def __post_init__(self) -> None:
        steps = sum(entry.steps for entry in self.entries)
        rows = steps + len(self.entries)
        for result, what, expected in (
            (self.observations.shape, "observations", (len(self.features), rows)),
            ({column.shape for column in self.missing}, "masks", {(rows,)}),
            (len(self.missing), "masks", len(self.features)),
            (self.actions.shape[1:], "actions", (steps,)),
            (self.substeps.shape, "substeps", (steps,)),
            (self.effects.shape, "effects", (steps,)),
        ):
            if result != expected:
                raise ContractError(f"expected {what} of shape {expected}, found {result}")

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Give the number of steps of each episode."""
        return np.array([entry.steps for entry in self.entries], np.int64)

    @property
    def rows(self) -> int:
        """Give the number of rows."""
        return int(self.observations.shape[1])

    @cached_property
    def is_final(self) -> NDArray[np.bool_]:
        """Tell which rows stand after the last step of their episode."""
        final = np.zeros(self.rows, np.bool_)
        final[np.cumsum(self.lengths + 1) - 1] = True
        return final

    @cached_property
    def _is_before(self) -> NDArray[np.bool_]:
        return ~self.is_final

    @cached_property
    def _is_after(self) -> NDArray[np.bool_]:
        after = np.ones(self.rows, np.bool_)
        after[np.cumsum(self.lengths + 1) - self.lengths - 1] = False
        return after

    def before(self, name: str) -> NDArray[Any]:
        """Give what stood before each step."""
        return self._among(name, self._is_before)

    def after(self, name: str) -> NDArray[Any]:
        """Give what stood after each step."""
        return self._among(name, self._is_after)

    def _among(self, name: str, chosen: NDArray[np.bool_]) -> NDArray[Any]:
        """Give what stood in the chosen rows, one a step; one value for all rows stays that."""
        column = self.standings[name]
        return column[: len(self.substeps)] if column.strides == (0,) else column[chosen]

    def steps(self) -> Iterator[tuple[EpisodeEntry, tuple[Step, ...]]]:
        """Give each episode's steps as records, for what takes no columns."""
        step = row = 0
        for entry in self.entries:
            yield entry, self._steps(entry, step, row)
            step, row = step + entry.steps, row + entry.steps + 1

    def _steps(self, entry: EpisodeEntry, step: int, row: int) -> tuple[Step, ...]:
        known = {name: column[row : row + entry.steps + 1].tolist() for name, column in self.standings.items()}
        cash, equity, opened = (known.pop(name) for name in ("cash", "equity", "opened"))
        held = [
            AccountSnapshot(cash[index], equity[index], opened[index], {name: of[index] for name, of in known.items()})
            for index in range(entry.steps + 1)
        ]
        last = entry.steps - 1
        return tuple(
            Step(
                index,
                int(self.substeps[step + index]),
                tuple(self.actions[:, step + index].tolist()),
                bool(self.effects[step + index]),
                held[index],
                held[index + 1],
                entry.end if index == last else None,  # type: ignore[arg-type]
            )
            for index in range(entry.steps)
        )


@dataclass(frozen=True)
class BuildRequest:
    """What is to be made of a session's events."""

    observation: str
    actions: str
    world: str | None = None
    """Whose rules the ledger keeps; None: the game's first world."""
    include_incomplete: bool = False
    min_ticks: int = 0
    """Decision points that an episode must at least have."""


@dataclass(frozen=True)
class ColumnarSession:
    """A game's own way to lay a whole session out at once; the same values as event by event."""

    columns: tuple[str, ...]
    """Columns of stored events that it reads, beside the envelope."""
    doc_types: Callable[[str], tuple[str, ...]]
    """Give the types of events that an observation set needs."""
    lay: Callable[[Mapping[str, pa.Table], BuildRequest], EpisodeColumns]
    """Lay one session out: its events by type, each in their order."""
    pay: Callable[[EpisodeColumns, Reward], dict[str, NDArray[Any]] | None]
    """Give what a reward's components pay for all steps at once; None if it takes only records of steps."""
    deal: Callable[[str, int, int, int], Mapping[str, pa.Table]] | None = None
    """For benches: deal one session of simulated windows as stored columns, from its id, a seed, the number of its
    first window, and how many."""


def lay(
    game: Game, session_id: str, episodes: Sequence[EpisodeRecord], left_out: Sequence[SkippedWindow], ask: BuildRequest
) -> EpisodeColumns:
    """Lay a session's episodes out as columns."""
    kind = game.observations[ask.observation]
    assert isinstance(kind, NumericObservation)
    heads = len(game.actions[ask.actions].heads)
    steps = [step for episode in episodes for step in episode.steps]
    standings = [standing for episode in episodes for standing in _standings(episode)]
    ages = [age for episode in episodes for age in episode.ages or [(NEVER, NEVER)] * len(episode.steps)]
    return EpisodeColumns(
        session_id=session_id,
        features=kind.features,
        entries=tuple(map(_entry, episodes)),
        observations=_columns(
            [row for episode in episodes for row in episode.observations], len(kind.features), np.float32
        ),
        missing=tuple(
            _columns([mask for episode in episodes for mask in episode.missing], len(kind.features), np.bool_)
        ),
        standings={name: np.array(of) for name, of in _money(standings).items()},
        actions=_columns([step.action for step in steps], heads, np.int16),
        substeps=np.array([step.substep for step in steps], np.int16),
        effects=np.array([step.effect for step in steps], np.bool_),
        age_ticks=np.array([ticks for ticks, _ in ages], np.int32),
        age_us=np.array([us for _, us in ages], np.int64),
        labels={name: np.array(of, np.float64) for name, of in _labels(game, episodes).items()},
        left_out=tuple(left_out),
    )


def _columns(rows: Sequence[Any], width: int, dtype: Any) -> NDArray[Any]:
    if not rows:
        return np.zeros((width, 0), dtype)
    return np.ascontiguousarray(np.asarray(rows, dtype).T)


def _entry(episode: EpisodeRecord) -> EpisodeEntry:
    return EpisodeEntry(
        window_id=episode.window_id,
        player_id=episode.player_id,
        start_us=(episode.start - _EPOCH) // timedelta(microseconds=1),
        steps=len(episode.steps),
        end=episode.steps[-1].end or "truncated",
        lack=episode.lack,
        corrected=episode.corrected,
        late=episode.late,
        outcome=None if episode.outcome is None else dict(episode.outcome.values),
    )


def _standings(episode: EpisodeRecord) -> list[AccountSnapshot]:
    return [*(step.before for step in episode.steps), episode.steps[-1].after]


def _money(standings: Sequence[AccountSnapshot]) -> dict[str, list[Any]]:
    """Give a ledger's columns: where the money stands, and the further facts that are numbers."""
    payload: dict[str, list[Any]] = {
        "cash": [standing.cash for standing in standings],
        "equity": [standing.equity for standing in standings],
        "opened": [standing.opened for standing in standings],
    }
    names = standings[0].facts if standings else ()
    columns = {name: [standing.facts[name] for standing in standings] for name in names}
    return payload | {
        name: [int(item) if isinstance(item, bool) else item for item in column]
        for name, column in columns.items()
        if all(isinstance(item, int | float) for item in column)
    }


def _labels(game: Game, episodes: Sequence[EpisodeRecord]) -> dict[str, list[float]]:
    return {name: [item for of in episodes for item in _label(of, label.value)] for name, label in game.labels.items()}


def _label(episode: EpisodeRecord, value: Callable[[Outcome, Any], float | None]) -> Iterator[float]:
    for decision in episode.decisions:
        result = None if episode.outcome is None else value(episode.outcome, decision)
        yield float("nan") if result is None else result
