"""Look-ahead: what a step shows does not change when what comes after it is cut, altered or extended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import recordings as r
from playproof.events import Event
from playproof.game import resolve
from playproof.game.laid import Ask, Laid
from playproof.game.play import View
from playproof.games.crash import columns as c

PAIRS = 2_000
CUTS = 5
"""Cuts of each session; every step before a cut is compared with three other futures."""
ASK = Ask("recorded", "buttons-share", include_incomplete=True)
SIMULATED = 1_000


def sessions() -> list[tuple[Event, ...]]:
    """Give sessions of players and of a spectator."""
    return [r.played(31, 4)[1], r.played(33, 4, 0.4)[1], tuple(r.dealt_events(r.dealt("watch", 5, 8)))]


def laid(events: Sequence[Event], ask: Ask = ASK) -> Laid:
    return r.batch().lay(r.to_tables(events), ask)


def steps_until(events: Sequence[Event], end: int, ask: Ask) -> list[tuple[Any, ...]]:
    """Give what each step before an event shows, with its action; the step at the cut may still be chosen for."""
    made = laid(events, ask)
    final = made.is_final()
    rows = np.flatnonzero(~final)
    found = []
    for step, row in enumerate(rows):
        shown = (made.observations[:, row].tobytes(), made.missing[:, row].tobytes())
        ages = (int(made.age_ticks[step]), int(made.age_us[step]))
        money = tuple(float(made.standings[name][row]) for name in ("cash", "equity", "sidebet_stake"))
        found.append((*shown, ages, money, int(made.substeps[step]), tuple(made.actions[:, step].tolist())))
    return found


def next_cut(events: Sequence[Event], end: int) -> int:
    """Give the next place at which a cut does not part a tick from what it settled."""
    settles = resolve(r.crash().recordings).settles  # type: ignore[union-attr, arg-type]
    while end < len(events) and settles(events[end - 1], events[end]):
        end += 1
    return end


def altered(events: Sequence[Event], end: int, rng: np.random.Generator) -> list[Event]:
    """Change every number that comes after a place."""
    factor = float(rng.uniform(0.2, 3.0))

    def change(event: Event) -> Event:
        told = {
            name: value * factor
            if type(value) is float
            else value + 7
            if name in ("cash", "connected_players")
            else value
            for name, value in event.columns.items()
        }
        return replace(event, columns=told)

    return [*events[:end], *map(change, events[end:])]


def compare(events: Sequence[Event], end: int, ask: Ask, rng: np.random.Generator) -> int:
    """Hold the steps before a cut against three other futures; give how many were compared."""
    known = steps_until(events[:end], end, ask)
    futures = (
        events,
        altered(events, end, rng),
        [*events, *(replace(event, seq=event.seq + len(events)) for event in events[-300:])],
    )
    for future in futures:
        whole = steps_until(future, end, ask)
        assert len(whole) >= len(known)
        assert whole[: max(0, len(known) - 1)] == known[:-1]
        if known:  # what was chosen at the last of them may come after the cut
            assert whole[len(known) - 1][:-1] == known[-1][:-1]
    return len(known) * len(futures)


def test_no_step_depends_on_what_comes_after_it() -> None:
    rng = np.random.default_rng(8)
    pairs = 0
    for events in sessions():
        for _ in range(CUTS):
            end = next_cut(events, int(rng.integers(2, len(events))))
            pairs += compare(events[: min(len(events), end + 400)], end, ASK, rng)
    assert pairs > PAIRS


@pytest.mark.parametrize("observation", ["market", "trader"])
def test_the_longer_memories_do_not_either(observation: str) -> None:
    rng = np.random.default_rng(9)
    events = r.played(31, 4)[1]
    for end in (next_cut(events, 300), next_cut(events, 700)):
        assert compare(events, end, replace(ASK, observation=observation), rng) > 50


def test_a_leak_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same comparison notices a feature that knows the rug."""
    from playproof.games.crash import batch as module

    honest = module.Walked.laid

    def leaking(self: Any) -> Laid:
        made = honest(self)
        rugs = np.repeat([(entry.outcome or {}).get("rug_tick", 0) for entry in made.entries], made.lengths + 1)
        made.observations[-1] = rugs
        return made

    monkeypatch.setattr(module.Walked, "laid", leaking)
    events = r.played(31, 4)[1]
    end = next(n for n, e in enumerate(events) if e.event_name == c.TICK and e.columns["tick"] == 8)
    with pytest.raises(AssertionError):
        compare(events, end, ASK, np.random.default_rng(1))


def test_streaming_is_the_batch_over_simulated_rounds() -> None:
    """One event at a time, as a live player is shown it, over a thousand rounds."""
    tables = r.dealt("stream", 77, SIMULATED)
    made = r.batch().lay(tables, Ask("recorded", "buttons"))
    view, decides = View(r.crash(), "recorded"), resolve(r.crash().decides)
    rows = np.flatnonzero(~made.is_final())
    at = 0
    for event in r.dealt_events(tables):
        view.apply(event)
        if decides(event):
            if at % 7 == 0:  # every event is taken, and every seventh looked at
                row, mask = view.look()
                assert np.asarray(row).tobytes() == made.observations[:, rows[at]].tobytes()
                assert np.asarray(mask).tobytes() == made.missing[:, rows[at]].tobytes()
            at += 1
    assert (at, len(made.entries)) == (len(rows), SIMULATED)
