"""Sit a policy down at recorded windows: apply, look, choose, carry out, in one loop for every game.

Orders do not move the world here: the windows are replayed as they were. Games in which they do
need their own environment.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from playproof.errors import ContractError
from playproof.events import Event
from playproof.game.game import Game
from playproof.game.types import (
    AccountSnapshot,
    Action,
    End,
    EpisodeRecord,
    Fact,
    Ledger,
    Mask,
    Message,
    MessageObservation,
    Observation,
    ObservationFold,
    Outcome,
    Policy,
    Step,
    Terms,
    lookup,
)


@dataclass(frozen=True)
class PlayerConfig:
    """Where a player sits: what he sees, what he may do, and who he is."""

    observation: str
    terms: Terms
    player_id: str = "seat"
    session_id: str = "seat"


class PlayerView:
    """What one player knows, event by event, and what it looks like."""

    def __init__(self, game: Game, observation: str) -> None:
        self._set = lookup(game.observations, observation, "observation set")
        self._fold: ObservationFold = game.recording().fold
        self._observe = lookup(self._fold.observe, observation, "observation set of the fold")
        self._missing = self._fold.missing.get(observation)
        self._state: Any = self._fold.start()

    def apply(self, event: Event) -> None:
        """Take one event."""
        self._fold.apply(self._state, self._fold.encode(event))

    def look(self) -> tuple[Observation, Mask | None]:
        """Give the observation now, and what of it is unknown."""
        if isinstance(self._set, MessageObservation):
            messages: list[Message] = []
            self._observe(self._state, messages)
            return tuple(messages), None
        row = np.full(len(self._set.features), np.nan, np.float32)
        mask = np.zeros(len(row), np.bool_)
        self._observe(self._state, row)
        if self._missing is not None:
            self._missing(self._state, mask)
        return row, mask


@dataclass
class EpisodeNotes:
    """An episode while it is being played; `close` makes the record."""

    game: Game
    window_id: str
    seat: PlayerConfig
    ledger: Ledger
    first: Event
    looks: list[tuple[Observation, Mask | None]] = field(default_factory=list)
    decisions: list[Event] = field(default_factory=list)
    chosen: list[tuple[Action, bool]] = field(default_factory=list)
    before: list[AccountSnapshot] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    substeps: list[int] = field(default_factory=list)

    def decide(self, decision: Event, look: tuple[Observation, Mask | None], substep: int = 0) -> None:
        """Note a decision point and where the money stands there."""
        self.looks.append(look)
        self.decisions.append(decision)
        self.substeps.append(substep)
        self.before.append(self.ledger.standing())

    def act(self, action: Action) -> tuple[Fact, ...]:
        """Carry out the choice of the decision point noted last."""
        before = self.ledger.standing()
        payload = self.ledger.act(action)
        self.chosen.append((action, self.ledger.standing() != before))
        self.facts.extend(payload)
        return payload

    def apply_world(self, event: Event) -> tuple[Fact, ...]:
        """Let the ledger take an event of the world."""
        payload = self.ledger.apply_world(event)
        self.facts.extend(payload)
        return payload

    def close(
        self,
        look: tuple[Observation, Mask | None],
        outcome: Outcome | None,
        player_id: str | None,
        end: End | None = None,
    ) -> EpisodeRecord:
        """Make the record of the episode, with the observation after its last step; it ends as the windows do."""
        standings = [*self.before, self.ledger.standing()]
        last = len(self.chosen) - 1
        steps = tuple(
            Step(
                number,
                self.substeps[number],
                action,
                effect,
                standings[number],
                standings[number + 1],
                (end or self.game.windows.end) if number == last else None,
            )
            for number, (action, effect) in enumerate(self.chosen)
        )
        looks = [*self.looks, look]
        return EpisodeRecord(
            window_id=self.window_id,
            session_id=self.seat.session_id,
            player_id=player_id,
            start=self.first.ts,
            observations=tuple(observation for observation, _ in looks),
            missing=tuple(mask for _, mask in looks),
            steps=steps,
            decisions=tuple(self.decisions),
            facts=tuple(self.facts),
            outcome=outcome,
        )


def spans(events: Iterable[Event]) -> dict[str, tuple[Event, ...]]:
    """Give each window's events, windows in the order of their first event."""
    result: dict[str, list[Event]] = {}
    for event in events:
        if event.window_id is not None:
            result.setdefault(event.window_id, []).append(event)
    return {window: tuple(of) for window, of in result.items()}


class _Table:
    """The loop of `play`, with what it carries from event to event."""

    def __init__(
        self, game: Game, make: Callable[[str], Policy], seat: PlayerConfig, windows: dict[str, Outcome | None]
    ):
        self.game, self.make, self.seat, self.windows = game, make, seat, windows
        self.view = PlayerView(game, seat.observation)
        self.decides = game.recording().decides
        self.notes: EpisodeNotes | None = None
        self.policy: Policy | None = None
        self.seq = 0

    def take(self, event: Event) -> Iterator[EpisodeRecord]:
        """Take one event of the world; give the episode that it closes, if it does."""
        if event.window_id in self.windows and (self.notes is None or event.window_id != self.notes.window_id):
            yield from self.close()
            self._open(event.window_id, event)
        self.view.apply(event)
        if self.notes is None or event.window_id != self.notes.window_id:
            return
        self._tell(self.notes.apply_world(event), event)
        if self.decides(event) and self.policy is not None:
            look = self.view.look()
            self.notes.decide(event, look)
            self._tell(self.notes.act(self.policy.act(look[0])), event)

    def _open(self, window: str, event: Event) -> None:
        ledger = self.game.recording().ledger(self.seat.terms)
        self.notes, self.policy = EpisodeNotes(self.game, window, self.seat, ledger, event), self.make(window)

    def _tell(self, facts: Sequence[Fact], event: Event) -> None:
        """Let the player know what the ledger told him, when the event could be known."""
        for fact in facts:
            self.view.apply(fact.event(event.ts, self.seat.session_id, self.seq, player_id=self.seat.player_id))
            self.seq += 1

    def close(self) -> Iterator[EpisodeRecord]:
        """Give the episode that is being played; its window is not played again."""
        if self.notes is not None:
            outcome = self.windows.pop(self.notes.window_id)
            yield self.notes.close(self.view.look(), outcome, self.seat.player_id)
        self.notes = None


def play(
    game: Game,
    make: Callable[[str], Policy],
    events: Sequence[Event],
    seat: PlayerConfig,
    windows: Container[str] | None = None,
) -> Iterator[EpisodeRecord]:
    """Play a policy through a session's windows, in their order; give one episode for each.

    The fold takes every event, so that what a player knows from earlier windows is there; a fresh
    ledger and a fresh policy play each window named (all of them if none are). The recorded player's
    own facts are left out: this player has his own.
    """
    outcome = game.recording().outcome
    world = [event for event in events if event.player_id is None]
    if len({event.session_id for event in world}) > 1:
        raise ContractError("expected the events of one session, found several; play them one by one")
    table = _Table(
        game, make, seat, {name: outcome(of) for name, of in spans(world).items() if windows is None or name in windows}
    )
    for event in world:
        yield from table.take(event)
    yield from table.close()
