"""One game under examination: its sample read once, and what several clauses ask of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from playproof.errors import ContractError, InputError
from playproof.events import DOC_TYPES, Event, Value
from playproof.game.game import Game
from playproof.game.play import PlayerConfig, play, spans
from playproof.game.types import (
    Action,
    ActionSet,
    Column,
    EpisodeRecord,
    Fact,
    Frame,
    Ledger,
    Observation,
    Policy,
    Terms,
    first,
)

_TYPES: Mapping[str, type] = {"int": int, "money": int, "float": float, "bool": bool, "text": str}
_INT64 = 2**63

JUNK: tuple[str | bytes, ...] = (
    "",
    " ",
    "null",
    "true",
    "0",
    "[]",
    "{}",
    "{",
    '"\\ud800"',
    "\ud800",
    "\0",
    b"",
    b"\xff\xfe\x00",
    "NaN",
    "-1e999",
    "9" * 5000,
    "[" * 100_000,
    '{"a":' * 5000,
    '[["a"]]',
    '{"event":null,"type":[],"window":{},"window_id":"../../etc"}',
    "2",
    "42[]",
    "42[null]",
    '42["x",',
    "43999999999999999999999[]",
)
"""Frames and decisions that are no game's."""


class SampleError(ContractError):
    """Tell that the game's sample cannot be read; clauses that need it are then not run."""


class GameCase:
    """One game, with its sample read once."""

    def __init__(self, game: Game) -> None:
        self.game = game

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        """Give the sample's frames."""
        return self.game.recording().sample()

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Give the sample as one session's events."""
        try:
            payload = zip(self.frames, self.game.decode(self.frames), strict=True)
            facts = [(frame, fact) for frame, of in payload for fact in of]
            events = tuple(
                fact.event(frame.ts, "sample", seq, direction=frame.direction)
                for seq, (frame, fact) in enumerate(facts)
            )
        except Exception as error:
            raise SampleError(f"expected a sample that can be decoded, found {error!r}") from error
        if not events:
            raise SampleError("expected a sample with events in it, found none")
        return events

    @cached_property
    def windows(self) -> dict[str, tuple[Event, ...]]:
        """Give the sample's events by window."""
        return spans(self.events)

    def play(
        self,
        make: Callable[[int], Policy],
        actions: str,
        observation: str | None = None,
        ledger: Callable[[Terms], Ledger] | None = None,
    ) -> list[EpisodeRecord]:
        """Play the sample with a policy made for each window's number, and with the game's ledger or another."""
        order = {window: number for number, window in enumerate(self.windows)}
        seat = PlayerConfig(observation or first(self.game.observations), Terms(actions))
        recording = self.game.recording()
        recording = replace(recording, ledger=ledger or recording.ledger)
        return list(
            play(replace(self.game, recording=lambda: recording), lambda window: make(order[window]), self.events, seat)
        )


@dataclass(frozen=True)
class ConstantPolicy:
    """Choose the same action for ever."""

    action: Action

    def act(self, observation: Observation) -> Action:  # noqa: ARG002
        """Choose it."""
        return self.action


@dataclass(frozen=True)
class Anything:
    """Choose at random among everything that an action set takes, rejected texts included."""

    actions: ActionSet
    rng: np.random.Generator

    def act(self, observation: Observation) -> Action:  # noqa: ARG002
        """Choose one."""
        if self.actions.read is not None:
            texts = (*self.actions.examples, "", "{", "null")
            return texts[int(self.rng.integers(len(texts)))]
        return tuple(int(self.rng.integers(len(head))) for head in self.actions.heads)


def misfits(game: Game, fact: Fact) -> Iterator[str]:
    """Tell where a fact is not what the game declares."""
    table = {column.name: column for column in game.columns}
    if not fact.event_name or fact.doc_type not in DOC_TYPES:
        yield f"expected a fact with a name and a known doc_type, found {fact.event_name!r} of {fact.doc_type!r}"
    for name, value in fact.columns.items():
        if name not in table:
            yield f"expected declared columns, found {name!r} in {fact.event_name!r}"
        elif not fits(table[name], value):
            name__ = type(value).__name__ if type(value) is not _TYPES.get(table[name].kind) else f"{value!r:.40}"
            yield f"expected {table[name].kind} in column {name!r}, found {name__}"
    if fact.window_id is not None and _canonical(game, fact.window_id) != fact.window_id:
        yield f"expected a canonical window id in {fact.event_name!r}, found {fact.window_id!r:.80}"


def fits(column: Column, value: Value) -> bool:
    """Tell whether a value may stand in a column; None always may."""
    if value is None:
        return True
    if type(value) is not _TYPES.get(column.kind):
        return False
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -_INT64 <= value < _INT64
    return value.encode("utf-8", "replace").decode() == value


def _canonical(game: Game, text: str) -> str | None:
    """Give a window id in its canonical form, None if it is none."""
    try:
        return game.windows.parse(text).window_id
    except InputError:
        return None


def twice(names: Iterable[str]) -> Iterator[str]:
    """Give the names that come again."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)
