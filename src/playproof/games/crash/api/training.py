"""Turn a user's events and presses into (observation, action, reward, next_observation, done).

Steps, money and rewards are the product's own (episodes, the game's ledger and rewards); this joins presses to
ticks and gives arrays. A press belongs to the last tick received before it, never to a later one.
Leaves out: data sets on disk, splits and checks (`playproof dataset build`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from playproof import game
from playproof.datasets import segment
from playproof.errors import ConfigError, InputError
from playproof.events import Event
from playproof.game import Outcome, load_game, lookup
from playproof.games.crash.api.episodes import Episode, EpisodeSegmenter
from playproof.games.crash.api.files import Sources, read_events
from playproof.games.crash.api.merging import merged
from playproof.games.crash.api.observation import FEATURE_COUNT, FEATURE_NAMES
from playproof.games.crash.api.reading import EventReader, UserEvent
from playproof.games.crash.api.sequences import Action, BetAdjustment

MAIN = "main"
ACTION_SETS = (MAIN, "buttons", "buttons-share")
"""`main` is one number a step, WAIT BUY SELL SIDEBET; the others have a head for the bet field, and one for shares."""
_BET = FEATURE_NAMES.index("bet_amount")


class _ByName:
    """Let a named tuple be read like a dict as well."""

    _fields: ClassVar[Any]

    def __getitem__(self, key: Any) -> Any:
        return getattr(self, key) if isinstance(key, str) else tuple.__getitem__(self, key)  # type: ignore[call-overload]

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> tuple[str, ...]:
        """Give the names."""
        return tuple(self._fields)


class _SampleFields(NamedTuple):
    observation: NDArray[np.float32]  # (FEATURE_COUNT,)
    action: NDArray[np.int64]  # () or (heads,)
    reward: np.float32
    next_observation: NDArray[np.float32]  # (FEATURE_COUNT,)
    done: bool


class Sample(_ByName, _SampleFields):
    """One step; a tuple of five that also goes by names."""


class _BatchFields(NamedTuple):
    observations: NDArray[np.float32]  # (N, FEATURE_COUNT)
    actions: NDArray[np.int64]  # (N,) or (N, heads)
    rewards: NDArray[np.float32]  # (N,)
    next_observations: NDArray[np.float32]  # (N, FEATURE_COUNT)
    dones: NDArray[np.bool_]  # (N,)


class Batch(_ByName, _BatchFields):
    """Many steps; a tuple of five arrays that also goes by names."""


def _rows(batch: Batch, rows: Any) -> Batch:
    """Give some steps of a batch."""
    seen, taken, earned, then, ended = batch
    return Batch(seen[rows], taken[rows], earned[rows], then[rows], ended[rows])


@dataclass(frozen=True)
class AlignedSample:
    """One step, with where it was taken."""

    game_id: str
    tick: int
    price: float
    substep: int
    """0, or the place among several presses at the same tick."""
    action: Action
    bet_adjustment: BetAdjustment
    bet_amount: float
    """In the bet field before the step, in coins."""
    sample: Sample

    @property
    def observation(self) -> NDArray[np.float32]:
        """Give what was known."""
        return self.sample.observation

    @property
    def next_observation(self) -> NDArray[np.float32]:
        """Give what was known at the next step."""
        return self.sample.next_observation

    @property
    def reward(self) -> float:
        """Give the reward."""
        return float(self.sample.reward)

    @property
    def done(self) -> bool:
        """Tell whether the round ended with this step."""
        return self.sample.done

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


class TrainingData(Sequence[Sample]):
    """Steps in their order; a map-style data set that a PyTorch DataLoader takes as it is."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        """All steps as arrays."""

    @classmethod
    def of(cls, samples: Iterable[Sequence[Any]], heads: int | None = None) -> TrainingData:
        """Gather items of (observation, action, reward, next_observation, done); `heads` is for none at all."""
        rows = [tuple(sample) for sample in samples]
        columns: Sequence[Any] = list(zip(*rows, strict=True)) if rows else [[], [], [], [], []]
        count = len(rows)
        return cls(
            Batch(
                np.array(columns[0], np.float32).reshape(count, FEATURE_COUNT),
                np.array(columns[1], np.int64) if count else np.zeros((0,) if heads is None else (0, heads), np.int64),
                np.array(columns[2], np.float32),
                np.array(columns[3], np.float32).reshape(count, FEATURE_COUNT),
                np.array(columns[4], np.bool_),
            )
        )

    def __len__(self) -> int:
        return len(self.batch.dones)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> TrainingData: ...
    def __getitem__(self, index: int | slice) -> Sample | TrainingData:
        """Give one step, or some of them."""
        if isinstance(index, slice):
            return TrainingData(_rows(self.batch, index))
        seen, taken, earned, then, ended = self.batch
        return Sample(seen[index], taken[index], earned[index], then[index], bool(ended[index]))


class TrainingDataGenerator:
    """Make training data of events and presses.

    An action is one number: 0 WAIT, 1 BUY, 2 SELL, 3 SIDEBET; a press that adjusts the bet is a WAIT. With
    `actions="buttons"` it is a pair that keeps the adjustment, (WAIT BUY SELL SIDEBET, NONE CLEAR INC_001 INC_01 INC_10
    INC_1 HALF DOUBLE MAX). Every tick at which the player could act is a step, WAIT included; several presses at one
    tick are several steps. The last tick of a round that was not seen to rug has no next one and gives no step.

    Example:
        >>> ticks = [{"game_id": "g1", "tick": tick, "price": 1.0 + tick / 10} for tick in (100, 101)]
        >>> sample, = TrainingDataGenerator().align_events(ticks, [{"game_id": "g1", "tick": 100, "button_id": "BUY"}])
        >>> sample.tick, str(sample.action), sample.done
        (100, 'BUY', False)
    """

    def __init__(
        self,
        min_ticks: int = 0,
        *,
        actions: str = MAIN,
        reward: str = "minimal",
        include_incomplete: bool = True,
        seed: int = 0,
    ) -> None:
        known = load_game("crash")
        if actions not in ACTION_SETS:
            raise ConfigError(f"expected actions to be one of {', '.join(ACTION_SETS)}, found {actions!r}")
        self.min_ticks, self.actions, self.include_incomplete = min_ticks, actions, include_incomplete
        self._heads = None if actions == MAIN else len(lookup(known.actions, actions, "action set").heads)
        self._reward = lookup(known.rewards().presets, reward, "reward")
        self._game = known
        self._rng = np.random.default_rng(seed)

    def from_parquet(
        self, ws_events_path: Any, button_events_path: Any = None, limit: int | None = None
    ) -> TrainingData:
        """Make training data of at most `limit` rounds.

        Each source is a home, an event store, a folder or a file of Parquet, a pattern such as
        events/doc_type=ws_event/**/*.parquet, an open store, a frame, or the events themselves; a home and a whole
        event store hold the presses too. Nothing comes out empty in silence: without a step the reasons are an error.
        """
        sources = Sources(ws_events_path, button_events_path)
        if all(isinstance(event, Event) for event in sources.events):
            events, presses = sources.events, list[UserEvent]()
        else:
            events, presses = read_events(ws_events_path), read_events(button_events_path or ())
        kept = EpisodeSegmenter(self.min_ticks).segment(events)
        if not self.include_incomplete:
            kept = [episode for episode in kept if episode.is_terminal]
        windows = {episode.game_id for episode in kept[:limit]}
        samples = [aligned.sample for aligned in self._aligned(events, presses) if aligned.game_id in windows]
        if not samples:
            made = Counter(event.event_name if isinstance(event, Event) else "row" for event in events)
            counts = ", ".join(f"{count} {name}" for name, count in made.most_common(6)) or "no events"
            why = "; ".join([f"{counts} were read, {len(kept)} rounds with enough ticks", *sources.problems[:5]])
            raise InputError(f"expected at least one step from {ws_events_path}, found none: {why}")
        return TrainingData.of(samples, self._heads)

    def process_episode(self, episode: Episode | Iterable[UserEvent], button_events: Any = ()) -> TrainingData:
        """Make training data of one round; presses among its events count as well."""
        return TrainingData.of(
            (align_event.sample for align_event in self.align_events(episode, button_events)), self._heads
        )

    def align_events(self, ws_events: Any, button_events: Any = ()) -> list[AlignedSample]:
        """Join presses to ticks; give one sample for each step that was followed by another or by the rug."""
        events = ws_events.events if isinstance(ws_events, Episode) else read_events(ws_events)
        return list(self._aligned(list(events), read_events(() if button_events is None else button_events)))

    def get_batch(self, dataset: Any, batch_size: int = 32, rng: np.random.Generator | None = None) -> Batch:
        """Draw exactly so many steps at random, each at most once if there are enough."""
        data = dataset if isinstance(dataset, TrainingData) else TrainingData.of(dataset)
        if not len(data) or batch_size < 1:
            raise ConfigError(
                f"expected a data set with steps and a batch of at least one, found {len(data)} steps and {batch_size}"
            )
        chosen = (rng or self._rng).choice(len(data), batch_size, replace=len(data) < batch_size)
        return _rows(data.batch, chosen)

    def _aligned(self, events: Sequence[UserEvent], presses: Sequence[UserEvent]) -> Iterator[AlignedSample]:
        reader = EventReader()
        made = [item for event in merged(events, presses) for item in reader.take(event)]
        actions = "buttons" if self.actions == MAIN else self.actions
        result = segment.segment(self._game, made, "recorded", actions, include_incomplete=self.include_incomplete)
        for episode in result.episodes:
            yield from self._samples(episode)

    def _samples(self, episode: game.EpisodeRecord) -> Iterator[AlignedSample]:
        parts = self._reward.compute(episode.steps, episode.outcome or Outcome(episode.window_id, {}))
        rewards = np.sum([np.asarray(part, np.float64) for part in parts.values()], axis=0)
        for index, step in enumerate(episode.steps):
            if step.end == "truncated":
                return
            payload = episode.decisions[index].columns
            seen, then = np.asarray(episode.observations[index]), np.asarray(episode.observations[index + 1])
            action = np.asarray(step.action, np.int64)
            kept = action[0] if self.actions == MAIN else action
            sample = Sample(seen, kept, np.float32(rewards[index]), then, step.end is not None)
            yield AlignedSample(
                episode.window_id,
                int(payload["tick"] or 0),
                float(payload["price"] or 0.0),
                step.substep,
                Action(int(action[0])),
                BetAdjustment(int(action[1])),
                float(str(seen[_BET])),
                sample,
            )
