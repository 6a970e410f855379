"""Look for leaks: what a model was shown that it could not have known.

D1 checks how data were split and scaled. D2 probes what was built and learned: the future is cut, altered and
extended; labels are permuted by window; test windows are altered beside others; and single features are looked
at for what gives a window away (its name, its outcome, its later rows).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.events import Event, Value
from playproof.game import Column, Game, NumericObservation, lookup
from playproof.stats.calibration import Auc, auc

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
T = TypeVar("T")
LEVEL = 0.999
"""Level of the interval that must hold 0.5 when labels are permuted: one false alarm in a thousand."""
TOLERANCE = 1e-6
MOVED = 30
"""Rows in which a feature must change before its later values can be recognised."""
MATCHED = 0.99
PROBED = 300
"""Rows that are looked at for every pair of features."""
FORESIGHT = 80
"""Decision points ahead that a feature's values are searched for."""


@dataclass(frozen=True)
class LeakFinding:
    """One check, and what it found."""

    check: str
    """Gate and name, such as "D1 windows"."""
    passed: bool
    finding: str
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Samples:
    """Rows to learn from, in time order."""

    rows: Floats  # (n, features)
    labels: Flags  # (n,)
    windows: NDArray[np.str_]  # (n,)
    names: tuple[str, ...]
    """Of the features."""

    def __post_init__(self) -> None:
        if not len(self.rows) == len(self.labels) == len(self.windows) or self.rows.shape[1:] != (len(self.names),):
            raise InputError(
                f"expected a label and a window for each row and a name for each feature, found {self.rows.shape},"
                f" {len(self.labels)}, {len(self.windows)} and {len(self.names)}"
            )

    @property
    def starts(self) -> NDArray[np.intp]:
        """Give the place of each window's first row, in time order; rows of a window stand together."""
        first = np.flatnonzero(np.concatenate([[True], self.windows[1:] != self.windows[:-1]]))
        if len(first) != len(np.unique(self.windows)):
            raise InputError("expected the rows of each window together, found a window in two places")
        return first if len(self.windows) else first[:0]


@dataclass(frozen=True)
class HoldoutScores:
    """What a pipeline says of the rows that it tested."""

    tested: NDArray[np.intp]
    """Places of rows in the samples it was given."""
    scores: Floats
    """One for each of them; decisions as 0 and 1 where thresholds are part of the pipeline."""


Pipeline = Callable[[Samples], HoldoutScores]
"""Split, scale, learn and score; the same samples give the same scores."""
Learner = Callable[[Floats, Flags, Floats], Floats]
"""Learn from rows and labels, and score other rows."""


def check_windows(split: Mapping[str, Sequence[str]]) -> LeakFinding:
    """Check that no window stands in two splits; `split` names the windows of each, rows may repeat them."""
    seen: dict[str, str] = {}
    shared: set[str] = set()
    for name, windows in split.items():
        for window in set(windows):
            if seen.setdefault(window, name) != name:
                shared.add(window)
    total = len(seen)
    text = (
        f"{len(shared)} of {total} windows stand in more than one split"
        if shared
        else f"{total} windows, each in one split"
    )
    return LeakFinding("D1 windows", not shared, text, {"shared": len(shared), "windows": total})


def check_order(split: Mapping[str, Sequence[str]], starts: Mapping[str, object], gap: int = 0) -> LeakFinding:
    """Check that every split, in the order given, begins after the one before it ended; `gap` windows between."""
    order = {window: index for index, window in enumerate(sorted(starts, key=lambda window: (starts[window], window)))}
    latest, before = -1, ""
    for name, windows in split.items():
        indices = [order[window] for window in set(windows)]
        if indices and min(indices) <= latest + (gap if before else 0):
            return LeakFinding("D1 order", False, f"{name} begins before {before} has ended by {gap} windows")
        latest, before = max([latest, *indices]), name
    return LeakFinding("D1 order", True, f"{' before '.join(split)}, at least {gap} windows apart")


def check_scaler(center: Floats, scale: Floats, train: Floats, everything: Floats) -> LeakFinding:
    """Check that a scaler's means and standard deviations are those of the training rows alone."""

    def distance(rows: Floats) -> float:
        spread = np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1.0)
        off = np.abs(center - rows.mean(axis=0)) / spread + np.abs(np.where(scale > 0, scale, 1.0) / spread - 1)
        return float(off.max(initial=0.0))

    own, other = distance(train), distance(everything)
    figures = {"train": own, "everything": other}
    if own <= TOLERANCE:
        return LeakFinding("D1 scaler", True, "fitted on the training rows", figures)
    where = "on all rows, test included" if other <= TOLERANCE else "on other rows than those of train"
    return LeakFinding("D1 scaler", False, f"fitted {where}", figures)


def check_future(
    build: Callable[[Sequence[T]], tuple[NDArray[np.intp], NDArray[Any]]],
    items: Sequence[T],
    alter: Callable[[Sequence[T]], Sequence[T]],
    cuts: Sequence[int],
) -> LeakFinding:
    """Check that features do not change when everything after a moment is deleted, altered or added to.

    `build` gives for each row the place of the item at which it was observed, and the rows. `alter` gives
    other items in the place of the later ones.
    """
    indices, rows = build(items)
    for cut in cuts:
        past, later = list(items[: cut + 1]), items[cut + 1 :]
        kept = indices <= cut
        changed = list(alter(later))
        versions = {"deleted": past, "altered": past + changed, "added to": [*items, *changed]}
        for what, version in versions.items():
            again, built = build(version)
            known = again <= cut
            if not np.array_equal(again[known], indices[kept]):
                return LeakFinding("D2 future", False, f"rows appear or vanish when what follows item {cut} is {what}")
            differs = ~_same(built[known], rows[kept])
            if differs.any():
                columns = np.flatnonzero(differs.any(axis=0)).tolist()
                text = f"features {columns} change when what follows item {cut} is {what}"
                return LeakFinding("D2 future", False, text, {"rows": float(differs.any(axis=1).sum())})
    return LeakFinding("D2 future", True, f"{len(rows)} rows stay the same at {len(cuts)} cuts")


def _same(first: NDArray[Any], second: NDArray[Any]) -> Flags:
    same: Flags = (first == second) | ((first != first) & (second != second))  # noqa: PLR0124 NaN is not itself
    return same


def fold_rows(
    game: Game, observation: str
) -> Callable[[Sequence[Event]], tuple[NDArray[np.intp], NDArray[np.float32]]]:
    """Give the builder of a game's own rows: one at every decision point, by the fold that everything uses."""
    fold, decides = game.recording().fold, game.recording().decides
    kind = lookup(game.observations, observation, "observation set")
    if not isinstance(kind, NumericObservation):
        raise InputError(f"expected an observation set of numbers, found {observation!r}, which is messages")

    encoded: dict[int, tuple[Event, Any]] = {}

    def encode(event: Event) -> Any:
        """Encode an event by itself, and once: most of those of one version are those of the next."""
        if id(event) not in encoded:
            encoded[id(event)] = (event, fold.encode(event))
        return encoded[id(event)][1]

    def build(events: Sequence[Event]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        state, indices, rows = fold.start(), list[int](), list[NDArray[np.float32]]()
        for index, event in enumerate(events):
            fold.apply(state, encode(event))
            if decides(event):
                row = np.zeros(len(kind.features), np.float32)
                fold.observe[observation](state, row)
                indices.append(index)
                rows.append(row)
        return np.asarray(indices, np.intp), np.asarray(rows, np.float32).reshape(-1, len(kind.features))

    return build


def altered_events(events: Sequence[Event], columns: Sequence[Column], rng: np.random.Generator) -> tuple[Event, ...]:
    """Give events with other numbers: floats are scaled, and so is whatever only a closed window tells."""
    names = {column.name for column in columns if column.outcome}

    def other(name: str, value: Value) -> Value:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if isinstance(value, float):
            return value * float(rng.uniform(0.5, 2.0))
        return value + int(rng.integers(1, 50)) if name in names else value

    return tuple(
        replace(event, columns={name: other(name, value) for name, value in event.columns.items()}) for event in events
    )


def permuted_labels(samples: Samples, rng: np.random.Generator) -> Flags:
    """Give every window the labels of another one, read from a random place and around.

    Labels of a window stay alike as they were; what they have to do with features, and with how far
    a window has come, is gone.
    """
    first = samples.starts
    lengths = np.diff(np.concatenate([first, [len(samples.labels)]]))
    donors = rng.permutation(len(first))
    shifts = rng.integers(lengths[donors])
    window = np.repeat(np.arange(len(first)), lengths)
    step = np.arange(len(window)) - first[window]
    donor = donors[window]
    taken: Flags = samples.labels[first[donor] + (step + shifts[window]) % lengths[donor]]
    return taken


def check_permuted(pipeline: Pipeline, samples: Samples, rng: np.random.Generator) -> LeakFinding:
    """Check that nothing can be learned where there is nothing: labels permuted by window must give chance."""
    labels = permuted_labels(samples, rng)
    scored = pipeline(replace(samples, labels=labels))
    result = auc(scored.scores, labels[scored.tested], samples.windows[scored.tested], LEVEL)
    text = f"AUC {result.value:.3f} on permuted labels, 99.9 % interval {_shown(result)}"
    return LeakFinding("D2 permuted labels", result.holds(0.5), text, {"auc": result.value, "error": result.error})


def _shown(result: Auc) -> str:
    return f"{result.interval[0]:.3f} to {result.interval[1]:.3f}"


def check_untouched(pipeline: Pipeline, samples: Samples, rng: np.random.Generator) -> LeakFinding:
    """Check that what is said of a test window does not depend on other test windows.

    Rows and labels of half of the tested windows are altered; the scores of the other half must stay. Whatever
    was fitted or chosen on test rows (a scaler, a threshold, a model that met rows of the same window) moves.
    """
    before, again = pipeline(samples), pipeline(samples)
    if not (np.array_equal(before.tested, again.tested) and np.array_equal(before.scores, again.scores)):
        return LeakFinding("D2 untouched", False, "the same samples give other scores: seed the pipeline")
    windows = samples.windows[before.tested]
    tested = np.unique(windows)
    chosen = rng.permutation(tested)[: len(tested) // 2]
    altered = np.isin(samples.windows, chosen)
    rows, labels = samples.rows.copy(), samples.labels.copy()
    rows[altered] = 3.0 * rows[altered] + rng.normal(size=rows[altered].shape)
    labels[altered] = ~labels[altered]
    after = pipeline(replace(samples, rows=rows, labels=labels))
    left = ~np.isin(windows, chosen)
    if not np.array_equal(before.tested, after.tested):
        return LeakFinding("D2 untouched", False, "which rows are tested depends on what they hold")
    moved = float(np.mean(~_same(before.scores[left], after.scores[left]))) if left.any() else 0.0
    text = f"{moved:.0%} of the scores of untouched test windows change when other test windows do"
    return LeakFinding("D2 untouched", moved == 0, text, {"moved": moved})


@dataclass(frozen=True)
class Splits:
    """The same learner on the same rows, split in two ways."""

    by_row: Auc
    """What rows of one window in both parts make of it; not to be quoted."""
    by_window: Auc
    """What it is worth on windows it has not met."""

    @property
    def inflated(self) -> bool:
        """Tell whether the split by rows looks better than luck allows."""
        gap = self.by_row.value - self.by_window.value
        return gap > 3.29 * float(np.hypot(self.by_row.error, self.by_window.error))


def compare_splits(learner: Learner, samples: Samples, rng: np.random.Generator, share: float = 0.5) -> Splits:
    """Score a learner on rows kept apart by window and time, and, for the contrast, on rows kept apart by chance."""
    first = samples.starts
    cut = round(len(first) * share)
    if not 0 < cut < len(first):
        raise InputError(f"expected windows enough for two parts, found {len(first)}")
    early = np.arange(len(samples.rows)) < first[cut]
    mixed = rng.random(len(samples.rows)) < early.mean()
    return Splits(_scored(learner, samples, mixed), _scored(learner, samples, early))


def _scored(learner: Learner, samples: Samples, train: Flags) -> Auc:
    scores = learner(samples.rows[train], samples.labels[train], samples.rows[~train])
    return auc(scores, samples.labels[~train], samples.windows[~train])


def check_features(
    samples: Samples, outcomes: Mapping[str, Mapping[str, float]] | None = None, known: Sequence[str] = ()
) -> LeakFinding:
    """Check that no feature gives its window away: by name, by outcome, or by what it shows only later.

    `outcomes` holds by name each window's value. `known` features are vouched for, since the game's own fold
    computes them from what was received, and are taken as what later values may be recognised in.
    """
    suspects = [index for index, name in enumerate(samples.names) if name not in known]
    later = _later_of(samples, suspects) if suspects else {}
    lines = [
        *(f"{samples.names[suspect]} names the window" for suspect in suspects if _is_identity(samples, suspect)),
        *(
            f"{samples.names[suspect]} is {what}"
            for suspect in suspects
            if (what := _outcome_of(samples, suspect, outcomes or {}))
        ),
        *(f"{samples.names[item]} is {what}" for item, what in later.items()),
    ]
    result = "; ".join(lines) or f"{len(suspects)} features looked at, none gives its window away"
    return LeakFinding("D2 features", not lines, result, {"features": float(len(lines))})


def _by_window(samples: Samples, index: int) -> tuple[Floats, bool]:
    """Give a feature's first value in each window, and whether it stays that all window."""
    first = samples.starts
    values = samples.rows[:, index]
    lengths = np.diff(np.concatenate([first, [len(values)]]))
    return values[first], bool(_same(values, np.repeat(values[first], lengths)).all())


def _is_identity(samples: Samples, index: int) -> bool:
    """Tell whether a feature has a value of its own in every window, and moves like a number drawn or counted.

    A slow average that happens to differ between windows is none: it resembles the window before.
    """
    values, constant = _by_window(samples, index)
    if not constant or len(values) < 20 or len(np.unique(values)) < 0.98 * len(values):
        return False
    steps = np.diff(values)
    if (steps > 0).all() or (steps < 0).all():
        return True
    return abs(_rank_correlation(values[1:], values[:-1])) < 4 / math.sqrt(len(values))


def _rank_correlation(first: Floats, second: Floats) -> float:
    """Give Spearman's correlation; equal values share their rank."""
    one, other = _ranks(first), _ranks(second)
    spread = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean()) / spread if spread > 0 else 0.0


def _ranks(values: Floats) -> Floats:
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - counts / 2)[index]
    return ranks


def _outcome_of(samples: Samples, index: int, outcomes: Mapping[str, Mapping[str, float]]) -> str | None:
    """Say which outcome a feature is, itself or counted down to as the window goes on."""
    first = samples.starts
    lengths = np.diff(np.concatenate([first, [len(samples.rows)]]))
    step = np.arange(len(samples.rows)) - np.repeat(first, lengths)
    for name, by_window in outcomes.items():
        truth = np.repeat([float(by_window.get(str(window), np.nan)) for window in samples.windows[first]], lengths)
        usable = np.isfinite(truth)
        if usable.sum() < MOVED:
            continue
        for what, target in ((f"the outcome {name}", truth), (f"the way to the outcome {name}", truth - step)):
            values = samples.rows[usable, index]
            if abs(_rank_correlation(values, target[usable])) > 0.999 and np.ptp(truth[usable]) > 0:
                return what
    return None


def _later_of(samples: Samples, suspects: Sequence[int]) -> dict[int, str]:
    """Say of which feature each suspect holds later values.

    Some rows are looked at for every pair of features and every distance; what fits there is looked at in all.
    Only rows count in which the other feature moves, so that what stands still resembles nothing.
    """
    first = samples.starts
    lengths = np.diff(np.concatenate([first, [len(samples.rows)]]))
    left = np.repeat(first + lengths, lengths) - np.arange(len(samples.rows))  # rows to the window's end
    result: dict[int, str] = {}
    for ahead in range(1, FORESIGHT + 1):
        usable = np.flatnonzero(left > ahead)
        probe = usable[:: max(1, len(usable) // PROBED)]
        now, later = samples.rows[probe], samples.rows[probe + ahead]
        moved = later != now  # (probes, features)
        equal = (now[:, suspects, None] == later[:, None, :]) & moved[:, None, :]  # (probes, suspects, features)
        fits = equal.sum(axis=0) >= MATCHED * np.maximum(moved.sum(axis=0), 1)
        for suspect, other in zip(*np.nonzero(fits), strict=True):
            index = suspects[int(suspect)]
            if index != other and index not in result and _is_later(samples, index, int(other), usable, ahead):
                result[index] = f"{samples.names[int(other)]} {ahead} steps later"
    return result


def _is_later(samples: Samples, index: int, other: int, usable: NDArray[np.intp], ahead: int) -> bool:
    """Tell whether a feature holds another one's later values, in all rows."""
    source = samples.rows[:, other]
    moved = usable[source[usable + ahead] != source[usable]]
    if len(moved) < MOVED or len(np.unique(source[moved])) < MOVED:
        return False
    return float(np.mean(samples.rows[moved, index] == source[moved + ahead])) >= MATCHED
