"""Look-ahead: what a step shows does not change when what comes after it is cut, altered or extended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import recordings as r

from playproof.events import Event
from playproof.game.episode_columns import BuildRequest, EpisodeColumns
from playproof.game.play import PlayerView

PAIRS = 2_000
ASK = BuildRequest("recorded", "buttons-share", include_incomplete=True)
SIMULATED = 1_000
AGAIN = 300
"""Events that are told once more in an extended future."""
Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Recorded:
    """A session, and the places at which it may be cut: none parts a tick from what it settled."""

    tables: Tables
    whole: EpisodeColumns
    cuts: tuple[int, ...]

    @classmethod
    def of(cls, events: Sequence[Event], ask: BuildRequest = ASK) -> Recorded:
        settles = r.crash().recording().alignment.settles  # type: ignore[union-attr, arg-type]
        cuts = tuple(event.seq for before, event in pairwise(events) if not settles(before, event))
        tables = r.to_tables(events)
        return cls(tables, r.batch().lay(tables, ask), cuts[1:])


def sessions() -> list[Recorded]:
    """Give sessions of players and of spectators."""
    played = [r.played(31, 2)[1], r.played(33, 2, 0.4)[1], r.played(35, 1, 0.2)[1]]
    return [*map(Recorded.of, played), *(Recorded.of(r.dealt_events(r.dealt("watch", seed, 4))) for seed in (5, 6))]


def until(tables: Tables, cut: int) -> dict[str, pa.Table]:
    """Leave out what comes from a place on."""
    result = {kind: table.filter(pc.less(table["seq"], cut)) for kind, table in tables.items()}
    return {kind: table for kind, table in result.items() if table.num_rows}


def another(tables: Tables, cut: int, rng: np.random.Generator) -> dict[str, pa.Table]:
    """Change every number that comes from a place on, and let the end come once more."""
    factor, last = float(rng.uniform(0.2, 3.0)), max(pc.max(table["seq"]).as_py() for table in tables.values())
    return {kind: _extended(_altered(table, cut, factor), last) for kind, table in tables.items()}


def _altered(table: pa.Table, cut: int, factor: float) -> pa.Table:
    later = pc.greater_equal(table["seq"], cut)
    for index, name in enumerate(table.schema.names):
        kind = table.schema.field(name).type
        if pa.types.is_floating(kind):
            table = table.set_column(index, name, pc.if_else(later, pc.multiply(table[name], factor), table[name]))
        elif name in ("cash", "connected_players", "count_2x", "cooldown_timer_ms"):
            table = table.set_column(index, name, pc.if_else(later, pc.add(table[name], 7), table[name]))
    return table


def _extended(table: pa.Table, last: int) -> pa.Table:
    again = table.filter(pc.greater(table["seq"], last - AGAIN))
    moved = again.set_column(again.schema.get_field_index("seq"), "seq", pc.add(again["seq"], last + 1))
    return pa.concat_tables([table, moved])


def shown(laid: EpisodeColumns, steps: int) -> tuple[bytes, ...]:
    """Give what the first steps show: what was seen, how old it is, the money, and all choices but the last."""
    rows = np.flatnonzero(~laid.is_final)[:steps]
    money = (laid.standings[name][rows].astype(np.float64) for name in ("cash", "equity", "sidebet_stake"))
    seen = (laid.observations[:, rows], np.array(laid.missing)[:, rows], *money)
    ages = (laid.age_ticks[:steps], laid.age_us[:steps], laid.substeps[:steps])
    return tuple(np.ascontiguousarray(item).tobytes() for item in (*seen, *ages, laid.actions[:, : max(0, steps - 1)]))


def compare(recorded: Recorded, cut: int, rng: np.random.Generator, ask: BuildRequest = ASK) -> int:
    """Hold the steps before a cut against two futures, the real one and another; give how many there are."""
    known = r.batch().lay(until(recorded.tables, cut), ask)
    steps = int(known.lengths.sum())
    expected = shown(known, steps)
    assert shown(recorded.whole, steps) == expected, f"cut at {cut}"
    assert shown(r.batch().lay(another(recorded.tables, cut, rng), ask), steps) == expected, f"changed from {cut} on"
    return steps


def compare_pairs(recordeds: Sequence[Recorded], pairs: int, rng: np.random.Generator, ask: BuildRequest = ASK) -> None:
    """Cut recordings at so many random places, each after some step of some episode."""
    done = 0
    while done < pairs:
        item = recordeds[int(rng.integers(len(recordeds)))]
        done += compare(item, item.cuts[int(rng.integers(len(item.cuts)))], rng, ask) > 0


def test_no_step_depends_on_what_comes_after_it() -> None:
    compare_pairs(sessions(), PAIRS, np.random.default_rng(8))


@pytest.mark.parametrize("observation", ["market", "trader"])
def test_the_longer_memories_do_not_either(observation: str) -> None:
    ask = replace(ASK, observation=observation)
    compare_pairs([Recorded.of(r.played(31, 2)[1], ask)], 40, np.random.default_rng(9), ask)


def test_a_leak_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same comparison notices a feature that knows the rug."""
    from playproof.games.crash.recording import columnar as module

    honest = module.SessionPass.laid

    def leaking(self: Any) -> EpisodeColumns:
        made = honest(self)
        rugs = np.repeat([(entry.outcome or {}).get("rug_tick", 0) for entry in made.entries], made.lengths + 1)
        made.observations[-1] = rugs
        return made

    monkeypatch.setattr(module.SessionPass, "laid", leaking)
    with pytest.raises(AssertionError):
        compare_pairs([Recorded.of(r.played(31, 2)[1])], 5, np.random.default_rng(1))


def test_streaming_is_the_batch_over_simulated_rounds() -> None:
    """One event at a time, as a live player is shown it, over a thousand rounds."""
    tables = r.dealt("stream", 77, SIMULATED)
    made = r.batch().lay(tables, BuildRequest("recorded", "buttons"))
    view, decides = PlayerView(r.crash(), "recorded"), r.crash().recording().decides
    rows, missing = np.flatnonzero(~made.is_final), np.array(made.missing)
    at = 0
    for event in r.dealt_events(tables):
        view.apply(event)
        if decides(event):
            if at % 7 == 0:  # every event is taken, and every seventh looked at
                row, mask = view.look()
                assert np.asarray(row).tobytes() == made.observations[:, rows[at]].tobytes()
                assert np.asarray(mask).tobytes() == missing[:, rows[at]].tobytes()
            at += 1
    assert (at, len(made.entries)) == (len(rows), SIMULATED)
