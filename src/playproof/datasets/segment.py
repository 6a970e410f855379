"""Cut recorded events into episodes: one player's way through one window, step by step.

A step is a decision point. The recorded player's choice belongs to the last tick received before it, by the order of
the recording, which is the page's own; a decision point without a choice is a step of WAIT; every choice is a step
of its own, and further ones at the same point are substeps. What a tick settled and told directly after itself
belongs to it, and is known at its step. Choices after the window's end are carried out and
counted, but are no steps. Nothing after a step changes it, and nothing is filled in: what the player was told is
carried forward, and each step says how old it is.

Money is what the game's ledger says of these choices, from the terms that the session's own events tell. Where the
recording then tells other money, what was told stands and the episode counts it as corrected.
Windows that were not received whole are episodes too, marked with what they lack; they are left out unless asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from playproof.errors import InputError
from playproof.events import Event
from playproof.game import Action, EpisodeRecord, Game, Outcome, RecordingGap, RecordingRules, Terms, lookup
from playproof.game.episode_columns import NEVER, BuildRequest, SkippedWindow
from playproof.game.play import EpisodeNotes, PlayerConfig, PlayerView, spans

NOT_WHOLE = "the window was not seen whole"
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Segmentation:
    """All that was made of recorded events."""

    episodes: tuple[EpisodeRecord, ...]
    left_out: tuple[SkippedWindow, ...]


def segment(
    game: Game,
    events: Iterable[Event],
    observation: str,
    actions: str,
    *,
    world: str | None = None,
    include_incomplete: bool = False,
    min_ticks: int = 0,
) -> Segmentation:
    """Cut events of any number of sessions into episodes, session by session in the order of their ids."""
    ask = BuildRequest(observation, actions, world, include_incomplete, min_ticks)
    sessions: dict[str, list[Event]] = {}
    for event in events:
        sessions.setdefault(event.session_id, []).append(event)
    made = [segment_session(game, sessions[name], ask) for name in sorted(sessions)]
    return Segmentation(
        tuple(episode for item in made for episode in item.episodes),
        tuple(window for item in made for window in item.left_out),
    )


def segment_session(game: Game, events: Iterable[Event], ask: BuildRequest) -> Segmentation:
    """Cut one session's events, given in any order."""
    walk = _Walk(game, sorted(events, key=lambda event: event.seq), ask)
    walk.run()
    return Segmentation(tuple(walk.episodes), tuple(walk.left_out))


def _plain(game: Game) -> RecordingRules:
    """Give how recordings are read where a game says nothing of it."""
    return RecordingRules(
        anchors=game.recording().decides,
        ends=lambda _: False,
        updates=lambda _: False,
        lack=lambda _: RecordingGap(NOT_WHOLE),
        terms=lambda _, terms: terms,
        apply_own=lambda _ledger, _event: False,
    )


class _Walk:
    """One pass through one session's events."""

    def __init__(self, game: Game, events: Sequence[Event], ask: BuildRequest) -> None:
        players = sorted({event.player_id for event in events if event.player_id is not None})
        if len(players) > 1:
            raise InputError(f"expected one player in session {events[0].session_id}, found {', '.join(players)}")
        self.game, self.events, self.ask = game, events, ask
        self.rules = game.recording().alignment or _plain(game)
        self.player_id = players[0] if players else None
        terms = self.rules.terms(events, Terms(ask.actions, ask.world))
        self.seat = PlayerConfig(ask.observation, terms, self.player_id or "spectator", events[0].session_id)
        self.actions = lookup(game.actions, ask.actions, "action set")
        self.recorded, self.decides = self.actions.recorded, game.recording().decides
        self.view, self.ledger = PlayerView(game, ask.observation), game.recording().ledger(terms)
        self.spans = spans(events)
        self.updated: Event | None = None
        self.last: Event | None = None
        self.pending: Event | None = None
        self.ticks = 0
        self.episodes: list[EpisodeRecord] = []
        self.left_out: list[SkippedWindow] = []
        self._open(None)

    def _open(self, notes: EpisodeNotes | None) -> None:
        """Begin a window."""
        self.notes = notes
        self.undecided = self.over = False
        self.anchor: Event | None = None
        self.ages: list[tuple[int, int]] = []
        self.strays = self.late = self.corrected = self.decided = 0

    def run(self) -> None:
        """Take every event."""
        for event in self.events:
            if not self._is_quiet(event):
                if self.pending is not None and self.last is not None and not self.rules.settles(self.last, event):
                    self._look()
                self.last = event
            if event.window_id in self.spans and (self.notes is None or self.notes.window_id != event.window_id):
                self._close()
                self._open(EpisodeNotes(self.game, event.window_id, self.seat, self.ledger, event))
            if event.player_id is None:
                self._take_world(event)
            else:
                self._take_own(event)
        self._look()
        self._close()

    def _is_quiet(self, event: Event) -> bool:
        """Tell whether an event leaves everything as it is."""
        stays = event.window_id not in self.spans or (
            self.notes is not None and event.window_id == self.notes.window_id
        )
        return stays and self.rules.quiet(event, self.ask.observation)

    def _look(self) -> None:
        """Note the decision point that has come, with what it settled."""
        if self.pending is not None and self.notes is not None and self.last is not None:
            self._decide(self.notes, self.pending, self.last)
            self.undecided = True
        self.pending = None

    def _take_world(self, event: Event) -> None:
        self.view.apply(event)
        if self.notes is None or event.window_id != self.notes.window_id:
            return
        self.notes.apply_world(event)
        self.anchor = event if self.rules.anchors(event) else self.anchor
        self.over = self.over or self.rules.ends(event)
        if self.decides(event):
            self._wait_if_undecided()
            self.ticks += 1
            self.decided += 1
            self.pending = event

    def _take_own(self, event: Event) -> None:
        self.corrected += self.rules.apply_own(self.ledger, event)
        action = self.recorded(event)
        if action is not None:
            self._choose(action, event)
        self.view.apply(event)
        if self.rules.updates(event):
            self.updated, self.ticks = event, 0

    def _choose(self, action: Action, event: Event) -> None:
        """Give a choice to the last tick received, as a substep if that already has one."""
        if self.notes is None or self.anchor is None or self.over:
            self.strays += self.notes is not None and self.anchor is None
            self.late += self.over
            self.ledger.act(action)
            return
        if not self.undecided:
            same = bool(self.notes.decisions) and self.notes.decisions[-1] is self.anchor
            self._decide(self.notes, self.anchor, event, self.notes.substeps[-1] + 1 if same else 0)
        self.notes.act(action)
        self.undecided = False

    def _decide(self, notes: EpisodeNotes, anchor: Event, now: Event, substep: int = 0) -> None:
        age = (NEVER, NEVER)
        if self.updated is not None:
            age = (self.ticks, (now.ts - self.updated.ts) // _MICROSECOND)
        self.ages.append(age)
        notes.decide(anchor, self.view.look(), substep)

    def _wait_if_undecided(self) -> None:
        if self.undecided and self.notes is not None:
            self.notes.act(self.actions.wait)
        self.undecided = False

    def _close(self) -> None:
        """Make the episode of the window that is open, or say why there is none."""
        if self.notes is None:
            return
        self._wait_if_undecided()
        events = self.spans.pop(self.notes.window_id)
        outcome: Outcome | None = self.game.recording().outcome(events)
        lack = self.rules.lack(events) if outcome is None else None
        reason = self._reason(lack)
        if reason is not None:
            self.left_out.append(SkippedWindow(self.seat.session_id, self.notes.window_id, reason))
            return
        cut = lack is not None and not lack.ended
        episode = self.notes.close(self.view.look(), outcome, self.player_id, "truncated" if cut else None)
        self.episodes.append(
            replace(episode, lack=lack, corrected=self.corrected, late=self.late, ages=tuple(self.ages))
        )

    def _reason(self, lack: RecordingGap | None) -> str | None:
        """Say why the open window gives no episode, None if it does."""
        assert self.notes is not None
        if lack is not None and not self.ask.include_incomplete:
            return lack.reason
        if self.strays:
            return f"{self.strays} choices came before the first decision point"
        if not self.notes.decisions:
            return "there is no decision point"
        if self.decided < self.ask.min_ticks:
            return f"it has {self.decided} decision points, less than {self.ask.min_ticks}"
        return None
