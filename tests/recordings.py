"""Recordings that tests of episodes and data sets share: scripted players at a real table, and simulated sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from playproof.datasets.segment import segment_session
from playproof.events import Event
from playproof.game import Frame, Game, load_game
from playproof.game.episode_columns import BuildRequest, ColumnarSession, EpisodeColumns, lay
from playproof.games.crash.features.table import RECORDED
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.sample import SampleRecorder, Script, record
from playproof.games.crash.rules.actions import ADJUSTMENTS, PERCENTAGES
from playproof.games.crash.server.protocol import Phase
from playproof.games.crash.sim.env import CrashEnv
from playproof.games.crash.sim.kernel import F_ADVANCED
from playproof.games.crash.sim.lanes import make_tape
from playproof.money import UNIT
from playproof.store import EventLog
from playproof.store.log.parts import schema, to_events

ACTIONS = ("BUY", "SELL", "SIDEBET")
BOLD = tuple(button for button in ADJUSTMENTS if button not in ("INC_1", "MAX"))
CAREFUL = ("CLEAR", "HALF", "INC_001")
"""Adjustments that leave a player money for a hundred rounds."""
SITE = (
    *("connected_players", "rugpool_amount", "rugpool_threshold", "instarug_count", "rugpool_ratio"),
    *("average_multiplier", "count_2x", "count_10x", "count_50x", "count_100x", "highest_today"),
)
ANSWERS = ("trade_id_hash", "client_timestamp", "latency_ms")
"""What only a recording knows of an execution."""
PLAYED = [index for index, name in enumerate(RECORDED) if name not in (*SITE, *ANSWERS, "cooldown_timer_ms")]
"""What prices and actions decide. The timer runs down in a recorded presale and stands still in the environment's."""
BET = RECORDED.index("bet_amount")


@cache
def crash() -> Game:
    return load_game("crash")


@cache
def batch() -> ColumnarSession:
    assert crash().recording().columnar is not None
    result = crash().recording().columnar  # type: ignore[arg-type]
    assert isinstance(result, ColumnarSession)
    return result


def decoded(frames: Sequence[Frame], session_id: str = "test") -> tuple[Event, ...]:
    """Give a recording's frames as one session's events."""
    payload = zip(frames, crash().decode(frames), strict=True)
    facts = [(frame, fact) for frame, of in payload for fact in of]
    return tuple(
        fact.event(frame.ts, session_id, seq, direction=frame.direction) for seq, (frame, fact) in enumerate(facts)
    )


def random_script(seed: int, rounds: int, often: float, adjustments: Sequence[str]) -> Script:
    """Press up to three adjustments and then perhaps an action at random points, the cooldown included."""
    rng = np.random.default_rng(seed)
    adjusts = (*adjustments, *PERCENTAGES)
    script: dict[tuple[int, Phase, int], tuple[str, ...]] = {}
    for number in range(rounds):
        points = [(Phase.PRESALE, 0), *((Phase.ACTIVE, tick) for tick in range(400))]
        for phase, tick in points:
            if rng.random() < often:
                pressed = [str(rng.choice(adjusts)) for _ in range(int(rng.integers(0, 4)))]
                if rng.random() < 0.6 or not pressed:
                    pressed.append(str(rng.choice(ACTIONS)))
                script[number, phase, tick] = tuple(pressed)
    return script


@cache
def played(
    seed: int, rounds: int, often: float = 0.2, world: str = "published", adjustments: tuple[str, ...] = BOLD
) -> tuple[SampleRecorder, tuple[Event, ...]]:
    """Record a scripted player at a table without a crowd."""
    recording = record(seed, random_script(seed, rounds, often, adjustments), rounds, world=world, crowded=False)
    return recording, decoded(recording.frames, f"played-{seed}")


def dealt(session_id: str, seed: int, rounds: int) -> Mapping[str, pa.Table]:
    """Deal a spectator's session of simulated rounds."""
    deal = batch().deal
    assert deal is not None
    return deal(session_id, seed, 0, rounds)


def dealt_events(tables: Mapping[str, pa.Table]) -> list[Event]:
    """Give a dealt session as events."""
    shape = schema(crash().columns)
    events = [event for table in tables.values() for event in to_events(_whole(table, shape))]
    return sorted(events, key=lambda event: event.seq)


def _whole(table: pa.Table, shape: pa.Schema) -> pa.Table:
    from playproof.store.log.parts import fill

    return fill(table, shape)


def to_tables(events: Iterable[Event]) -> dict[str, pa.Table]:
    """Give events as stored columns, by doc_type; columns that hold nothing are left out."""
    by: dict[str, list[Event]] = {}
    for event in events:
        by.setdefault(event.doc_type, []).append(event)
    return {kind: _table(of) for kind, of in by.items()}


def _table(events: Sequence[Event]) -> pa.Table:
    names = {name for event in events for name in event.columns}
    columns = {}
    for field in schema(crash().columns):
        if field.name in names:
            columns[field.name] = pa.array([event.columns.get(field.name) for event in events], field.type)
        elif field.name in Event.__dataclass_fields__ and field.name != "raw":
            columns[field.name] = pa.array([getattr(event, field.name) for event in events], field.type)
    return pa.table(columns)


def prices_of(events: Iterable[Event]) -> dict[str, list[float]]:
    """Give the prices of each round as they were recorded, from tick 0 to the rug."""
    prices: dict[str, list[float]] = {}
    for event in events:
        if event.event_name == c.TICK and event.columns["game_phase"] >= Phase.ACTIVE:  # type: ignore[operator]
            prices.setdefault(str(event.window_id), []).append(float(event.columns["price"]))  # type: ignore[arg-type]
    return prices


def compare_with_environment(
    prices: Mapping[str, Sequence[float]],
    lengths: Sequence[int],
    observations: Any,
    actions: Any,
    substeps: Any,
    money: Sequence[Any],
    paid: Any,
) -> int:
    """Play the actions of built rounds in an environment with their prices: the same bits throughout.

    `observations` has a row for each step and one after an episode's last; `money` is cash, equity and perhaps the
    open sidebet before each step. Gives how many steps were no wait.
    """
    env = CrashEnv(
        tape=make_tape(list(prices.values()), game_ids=list(prices)),
        rounds=len(lengths),
        clock="press",
        actions="buttons-share",
        observation="recorded",
        balance=int(money[0][0]),
        first_bet=round(float(observations[0][BET]) * UNIT),
    )
    seen, info = env.reset(seed=0)
    row = step = acted = 0
    for length in lengths:
        for number in range(length):
            action = tuple(int(item) for item in actions[step])
            assert unequal(observations[row], seen) == []
            held = [info[name] for name in ("cash", "equity", "sidebet_stake")]
            assert [int(of[step]) for of in money] == held[: len(money)]
            seen, reward, over, cut, info = env.step(action)
            advances = number == length - 1 or substeps[step + 1] == 0
            if advances and not info["flags"] & F_ADVANCED:
                seen, later, over, cut, info = env.step((0, 0, 0))
                assert reward == 0.0
                reward = later
            assert bool(info["flags"] & F_ADVANCED) == advances
            assert reward == paid[step]
            acted += any(action)
            row, step = row + 1, step + 1
        assert unequal(observations[row], seen) == []
        assert over or cut or info["phase"] == Phase.RUGGED
        if not (over or cut):
            seen, _, _, _, info = env.step((0, 0, 0))
        row += 1
    assert cut if len(lengths) > 1 else over
    return acted


def unequal(row: Any, seen: Any) -> list[str]:
    return [RECORDED[at] for at in PLAYED if row[at].tobytes() != seen[at].tobytes()]


def both_ways(events: Sequence[Event], ask: BuildRequest) -> tuple[EpisodeColumns, EpisodeColumns]:
    """Lay a session out event by event, and at once."""
    made = segment_session(crash(), events, ask)
    slow = lay(crash(), events[0].session_id, made.episodes, made.left_out, ask)
    return slow, batch().lay(to_tables(events), ask)


def unlike(one: EpisodeColumns, other: EpisodeColumns) -> list[str]:
    """Name everything in which two layouts differ, to the last bit."""
    names = ("observations", "missing", "actions", "substeps", "effects", "age_ticks", "age_us")
    result = [name for name in names if not same(np.asarray(getattr(one, name)), np.asarray(getattr(other, name)))]
    result += [name for name in ("entries", "left_out", "features") if getattr(one, name) != getattr(other, name)]
    for what in ("standings", "labels"):
        ours, theirs = getattr(one, what), getattr(other, what)
        result += sorted(set(ours) ^ set(theirs))
        result += [name for name in ours if name in theirs and not same(ours[name], theirs[name])]
    return result


def same(one: Any, other: Any) -> bool:
    """Tell whether two arrays hold the same bits, NaN included."""
    return one.shape == other.shape and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


def store(home: Path, events: Iterable[Event], *, compacted: bool = True, log: str = "main") -> None:
    """Put events into a home's store."""
    with EventLog.open(home, crash().columns, log) as opened:
        opened.append(list(events))
        if compacted:
            from playproof.store.log.compaction import compact_log

            compact_log(opened, final=True)
