"""Clauses about what a player may know: observations, the fold, the future, the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from playproof.events import Event, Value
from playproof.game.checks.case import GameCase, fits, twice
from playproof.game.play import PlayerView
from playproof.game.types import ROLES, Message, MessageObservation, NumericObservation, Observation


def _numbers(case: GameCase) -> dict[str, NumericObservation]:
    """Give the observation sets of numbers."""
    return {name: kind for name, kind in case.game.observations.items() if isinstance(kind, NumericObservation)}


def check_observations(case: GameCase) -> Iterator[str]:
    """Observation sets list features of the table; the fold writes each of them, finite, unknowns filled."""
    game, fold = case.game, case.game.recording().fold
    known = {feature.name for feature in game.features}
    if set(fold.observe) != set(game.observations):
        yield f"expected the fold to write {sorted(game.observations)}, found {sorted(fold.observe)}"
    for name, kind in _numbers(case).items():
        yield from (
            f"{name}: expected a feature of the table, found {feature!r}"
            for feature in kind.features
            if feature not in known
        )
        yield from (f"{name}: expected each feature once, found {item!r} twice" for item in twice(kind.features))
        if not kind.features:
            yield f"{name}: expected at least one feature, found none"
        if kind.blocks and sum(kind.blocks.values()) != len(kind.features):
            yield f"{name}: expected blocks of {len(kind.features)} features, found {sum(kind.blocks.values())}"
    for name in set(game.observations) & set(fold.observe):
        yield from (f"{name}: {what}" for what in _miswritten(case, name))


def _miswritten(case: GameCase, name: str) -> Iterator[str]:
    """Tell what the fold writes wrongly for one set, over the sample."""
    kind, view = case.game.observations[name], PlayerView(case.game, name)
    for event in (None, *case.events):
        if event is not None:
            view.apply(event)
        observation, mask = view.look()
        if isinstance(kind, MessageObservation):
            yield from _bad_messages(observation)
            continue
        row, fills = np.asarray(observation), np.asarray(case.game.fills(kind.features), np.float32)
        for at in np.flatnonzero(~np.isfinite(row)):
            yield f"expected finite numbers, found {row[at]} as {kind.features[at]!r}"
        for at in np.flatnonzero(mask & (row != fills)):
            yield f"expected {fills[at]} while {kind.features[at]!r} is unknown, found {row[at]}"


def _bad_messages(observation: Observation) -> Iterator[str]:
    """Tell what is wrong with an observation of messages."""
    if not len(observation):
        yield "expected at least one message, found none"
    for message in observation:
        if not isinstance(message, Message) or message.role not in ROLES or not isinstance(message.content, str):
            yield f"expected messages with a role and a text, found {message!r:.80}"


def check_fold(case: GameCase) -> Iterator[str]:
    """The fold is deterministic, keeps its states apart, writes every place, and looking changes nothing."""
    columns = {column.name for column in case.game.columns}
    for name in case.game.observations:
        seen = _looks(case, name, case.events)
        _looks(case, name, _altered(case.events, columns))
        if not _same(seen, _looks(case, name, case.events)):
            yield f"{name}: expected the same observations from the same events, found others after another run"
        if not _same(seen, _looks(case, name, case.events, again=True)):
            yield f"{name}: expected looking to change nothing, found another observation when looking again"
        if not _same(seen, _looks_beside(case, name)):
            yield f"{name}: expected states to be apart, found one changed by the events of another"
    for name, kind in _numbers(case).items():
        unwritten = _kept(case, name, kind)
        yield from (f"{name}: expected every place to be written, found {item!r} untouched" for item in unwritten)


def _looks_beside(case: GameCase, name: str) -> list[Observation]:
    """Give what is seen while another fold takes the events in reverse."""
    view, other = PlayerView(case.game, name), PlayerView(case.game, name)
    looks = [view.look()[0]]
    for event, last in zip(case.events, reversed(case.events), strict=True):
        view.apply(event)
        other.apply(last)
        looks.append(view.look()[0])
    return looks


def _kept(case: GameCase, name: str, kind: NumericObservation) -> list[str]:
    """Give the features whose places the fold leaves as they were."""
    fold = case.game.recording().fold
    state = fold.start()
    for event in case.events:
        fold.apply(state, fold.encode(event))
    rows = [np.full(len(kind.features), value, np.float32) for value in (-12345.0, 54321.0)]
    for row in rows:
        fold.observe[name](state, row)
    return [kind.features[at] for at in np.flatnonzero(rows[0] != rows[1])]


def check_future(case: GameCase) -> Iterator[str]:
    """What was seen at t stays, byte for byte, when everything after t is cut, altered or extended."""
    columns = {column.name for column in case.game.columns}
    for name in case.game.observations:
        whole = _looks(case, name, case.events)
        for cut in sorted({len(case.events) * part // 7 for part in range(1, 7)}):
            past, future = case.events[:cut], case.events[cut:]
            for other in ((), future[::-1], future + future, tuple(_altered(future, columns))):
                if not _same(_looks(case, name, (*past, *other))[: cut + 1], whole[: cut + 1]):
                    yield f"{name}: expected what was seen to stay, found it changed by later events"


def check_outcome(case: GameCase) -> Iterator[str]:
    """A whole window has an outcome, half of one has none, and no observation of the window depends on it."""
    game, outcome = case.game, case.game.recording().outcome
    declared = {column.name: column for column in game.outcomes}
    for name in sorted(set(declared) & {feature.name for feature in game.features}):
        yield f"expected outcomes to be no features, found {name!r} in both"
    for window, events in case.windows.items():
        result = outcome(events)
        if result is None or result.window_id != window:
            yield f"expected the outcome of {window}, found {result}"
            continue
        if outcome(events) != result:
            yield f"expected the same outcome of {window} twice, found another"
        if outcome(events[: len(events) // 2]) is not None:
            yield f"expected no outcome of {window} while half of it is missing, found one"
        if set(result.values) != set(declared):
            yield f"expected the outcomes {sorted(declared)}, found {sorted(result.values)}"
        bad = [name for name, value in result.values.items() if name in declared and not fits(declared[name], value)]
        yield from (
            f"expected {declared[name].kind} as outcome {name!r}, found {result.values[name]!r}" for name in bad
        )
    yield from _outcome_seen(case)


def _outcome_seen(case: GameCase) -> Iterator[str]:
    """Tell which observation sets change with columns that only the outcome may hold."""
    decides = case.game.recording().decides
    hidden = {column.name for column in case.game.columns if column.outcome}
    for name in case.game.observations:
        for window, events in case.windows.items():
            points = [number + 1 for number, event in enumerate(events) if decides(event)]
            looks, others = _looks(case, name, events), _looks(case, name, _altered(events, hidden))
            if not _same([looks[at] for at in points], [others[at] for at in points]):
                yield f"{name}: expected nothing of the outcome in what is seen in {window}, found it changed with it"


def _altered(events: Iterable[Event], columns: set[str]) -> Iterator[Event]:
    """Give the events with other values in the named columns."""
    for event in events:
        yield replace(
            event,
            columns={name: _other(column) if name in columns else column for name, column in event.columns.items()},
        )


def _other(value: Value) -> Value:
    """Give another value of the same kind."""
    if value is None:
        return None
    if isinstance(value, bool):
        return not value
    return f"{value[::-1]}x" if isinstance(value, str) else value + 1


def _looks(case: GameCase, name: str, events: Iterable[Event], *, again: bool = False) -> list[Observation]:
    """Give what is seen before the first and after each event: the very objects that the fold wrote."""
    view = PlayerView(case.game, name)
    looks = [view.look()[0]]
    for event in events:
        view.apply(event)
        if again:
            view.look()
        looks.append(view.look()[0])
    return looks


def _same(some: Sequence[Observation], others: Sequence[Observation]) -> bool:
    """Tell whether observations are the same, byte for byte."""
    return [_bytes(one) for one in some] == [_bytes(one) for one in others]


def _bytes(observation: Observation) -> object:
    return observation if isinstance(observation, tuple) else observation.tobytes()
