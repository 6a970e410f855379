"""Cut recorded events into episodes: one player's way through one window, step by step.

A step is a decision point. The recorded player's choice belongs to the last decision point received
before it; a decision point without a choice is a step of WAIT; further choices at the same one are
substeps. Money is what the game's ledger says of these choices. Nothing after a step changes it.
Leaves out: sequences of presses, and the age of what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from playproof.errors import InputError
from playproof.events import Event
from playproof.game import Action, Episode, Game, Outcome, Terms, lookup, resolve
from playproof.game.play import Notes, Seat, View, spans


@dataclass(frozen=True)
class LeftOut:
    """A window of a session that gave no episode, and why."""

    session_id: str
    window_id: str
    reason: str


@dataclass(frozen=True)
class Segmented:
    """All that was made of recorded events."""

    episodes: tuple[Episode, ...]
    left_out: tuple[LeftOut, ...]


def segment(game: Game, events: Iterable[Event], observation: str, actions: str) -> Segmented:
    """Cut events of any number of sessions into episodes, session by session in the order of their ids."""
    sessions: dict[str, list[Event]] = {}
    for event in events:
        sessions.setdefault(event.session_id, []).append(event)
    walks = [
        _Walk(game, sorted(sessions[name], key=lambda event: event.seq), observation, actions)
        for name in sorted(sessions)
    ]
    for walk in walks:
        walk.run()
    return Segmented(
        tuple(episode for walk in walks for episode in walk.episodes),
        tuple(window for walk in walks for window in walk.left_out),
    )


class _Walk:
    """One pass through one session's events."""

    def __init__(self, game: Game, events: Sequence[Event], observation: str, actions: str) -> None:
        players = sorted({event.player_id for event in events if event.player_id is not None})
        if len(players) > 1:
            raise InputError(f"expected one player in session {events[0].session_id}, found {', '.join(players)}")
        self.game, self.events = game, events
        self.player_id = players[0] if players else None
        self.seat = Seat(observation, Terms(actions), self.player_id or "spectator", events[0].session_id)
        self.actions = lookup(game.actions, actions, "action set")
        self.recorded, self.decides = resolve(self.actions.recorded), resolve(game.decides)
        self.view, self.ledger = View(game, observation), resolve(game.ledger)(self.seat.terms)
        self.outcomes: dict[str, Outcome | None] = {
            window: resolve(game.outcome)(of) for window, of in spans(events).items()
        }
        self.notes: Notes | None = None
        self.undecided = False
        self.strays = 0
        self.episodes: list[Episode] = []
        self.left_out: list[LeftOut] = []

    def run(self) -> None:
        """Take every event."""
        for event in self.events:
            if event.window_id in self.outcomes and (self.notes is None or self.notes.window_id != event.window_id):
                self._close()
                self.notes = Notes(self.game, event.window_id, self.seat, self.ledger, event)
            if event.player_id is None:
                self._take_world(event)
            else:
                self._take_own(event)
        self._close()

    def _take_world(self, event: Event) -> None:
        self.view.apply(event)
        if self.notes is None or event.window_id != self.notes.window_id:
            return
        self.notes.see(event)
        if self.decides(event):
            self._wait_if_undecided()
            self.notes.decide(event, self.view.look())
            self.undecided = True

    def _take_own(self, event: Event) -> None:
        action = self.recorded(event)
        if action is not None and self.notes is not None:
            self._choose(self.notes, action)
        self.view.apply(event)

    def _choose(self, notes: Notes, action: Action) -> None:
        """Give a choice to the last decision point, as a substep if it already has one."""
        if not notes.decisions:
            self.strays += 1
            return
        if not self.undecided:
            notes.decide(notes.decisions[-1], self.view.look(), notes.substeps[-1] + 1)
        notes.act(action)
        self.undecided = False

    def _wait_if_undecided(self) -> None:
        if self.undecided and self.notes is not None:
            self.notes.act(self.actions.wait)
        self.undecided = False

    def _close(self) -> None:
        """Make the episode of the window that is open, or say why there is none."""
        if self.notes is None:
            return
        self._wait_if_undecided()
        outcome = self.outcomes.pop(self.notes.window_id)
        reason = (
            "the window was not seen whole"
            if outcome is None
            else f"{self.strays} choices came before the first decision point"
            if self.strays
            else "there is no decision point"
            if not self.notes.decisions
            else None
        )
        if reason is None:
            self.episodes.append(self.notes.close(self.view.look(), outcome, self.player_id))
        else:
            self.left_out.append(LeftOut(self.seat.session_id, self.notes.window_id, reason))
        self.notes, self.strays = None, 0
