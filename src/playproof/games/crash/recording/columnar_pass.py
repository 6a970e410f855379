"""The compiled pass of `columnar`: a session's ticks and other events, merged by sequence number, into rows and steps.

Each function does what a method of the slow, obvious twin does: windows and decisions are those of datasets.segment,
the money is that of player_ledger (compiled_ledger), what the player knows that of features.encoder.
Leaves out: reading columns (columnar).

All functions below `walk` are inlined into it, and it counts no references: cutting it by meaning costs no call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.games.crash.features import encoder, state
from playproof.games.crash.features.state import ACTIVE, PRESALE, RUGGED
from playproof.games.crash.recording import compiled_ledger as ledger
from playproof.games.crash.recording.compiled_ledger import OWN_KIND, OWN_PLAYER, QUIET, REPORTED, SETTLES
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.sim.arrays import Floats, Ints, Marks, Record, Records, Rows

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)
uncounted = compiler(__file__, counted=False)

BLOCK = 64
"""Rows that are written side by side before they go to their columns: 37 streams at once are slow."""
N_TICK, N_LATE, N_ROUND = 1, 2, 3
"""Names of events that move a round."""
KEPT, LACKING, STRAYS, EMPTY, SHORT = range(5)
"""What became of a window."""

WINDOW = np.dtype(
    [
        *((name, "i8") for name in ("expected", "first", "rug_tick", "odd", "rugged", "include", "closed", "reason")),
        *((name, "i8") for name in ("start_us", "steps", "corrected", "late", "strays", "decided")),
        *((name, "f8") for name in ("rug_price", "peak")),
    ],
    align=True,
)
"""One window: what the survey saw of it, and what the pass made of it."""

WALK = np.dtype(
    [
        *((name, "i8") for name in ("window", "row", "step", "first_row", "first_step", "opened")),
        *((name, "i8") for name in ("anchor", "anchor_tick", "decided_at", "substep", "ticks", "updated_us")),
        *((name, "i8") for name in ("strays", "late", "corrected", "decided", "min_ticks", "start_us", "last_us")),
        *((name, "i1") for name in ("undecided", "over", "is_updated", "player", "begun", "pending")),
        *REPORTED,
        *((name, "i8") for name in ("base", "held")),
    ],
    align=True,
)
"""How far the pass has come: the open window, its steps so far, what was reported of money, the block of rows.

A tick on which the player can act is `pending` until what it settled has been reported: 1 while a sidebet's result may
still come, 2 while the player's money may, 3 after it. Then it becomes a step of WAIT, which is `undecided` until a
choice takes it.
"""


class TickColumns(NamedTuple):
    """A session's ticks as they are stored; a column of what the site shows is empty if the session has none of it."""

    seq: Ints
    ts_us: Ints
    window: Ints
    name: Ints
    kind: Ints
    is_priced: Marks
    tick: Ints
    price: Floats
    phase: Ints
    timer_ms: Ints
    present: Ints
    connected_players: Ints
    rugpool_amount: Floats
    rugpool_threshold: Ints
    instarug_count: Ints
    average_multiplier: Floats
    count_2x: Ints
    count_10x: Ints
    count_50x: Ints
    count_100x: Ints
    highest_today: Floats
    players_in_game: Ints
    players_with_positions: Ints
    total_market_capital: Ints


class OtherEvents(NamedTuple):
    """A session's events that are not ticks."""

    seq: Ints
    ts_us: Ints
    window: Ints
    is_own: Marks
    name: Ints
    rows: Records
    """As encoder.ROW."""
    actions: Ints
    """Of each event's choice the index for each head, -1 in the first if it is none."""
    own: Ints
    """Fields of own events: OWN_KIND to SETTLES."""


class RowColumns(NamedTuple):
    """What is written of each row: one before each step, and one after the last step of a window."""

    observations: Rows
    missing: Marks
    ints: Ints
    floats: Floats
    known: Ints
    block: Rows
    """Rows that are not yet among the observations."""


class StepColumns(NamedTuple):
    """What is written of each step."""

    actions: NDArray[np.int16]
    substeps: NDArray[np.int16]
    effects: Marks
    age_ticks: NDArray[np.int32]
    age_us: Ints
    labels: Floats


class SessionState(NamedTuple):
    """The records that a pass folds a session into, and the columns that it writes."""

    k: Record
    """As WALK."""
    windows: Records
    s: Record
    h: Record
    b: Record
    known_lots: Record
    """What the player knows: state, history, book and lots of encoder.ObservationState."""
    lane: Record
    lots: Record
    cfg: Record
    """The player's money."""
    rows: RowColumns
    steps: StepColumns
    kind: int
    """Index of the observation set."""
    with_history: bool
    is_player: bool
    """False for somebody who only watches: then choices and money are not written."""


@compiled
def survey(
    windows: Ints, known_tick: Marks, priced: Marks, ticks: Ints, prices: Floats, phases: Ints, out: Records
) -> None:
    """Follow each window's ticks: how far they are unbroken from 0, where it rugged, and its peak."""
    for w in range(len(out)):
        out[w].rug_tick = -1
        out[w].first = -1
    for i in range(len(windows)):
        if windows[i] < 0:
            continue
        w = out[windows[i]]
        tick, phase = ticks[i], phases[i]
        if phase == RUGGED:
            w.rugged = 1
            if priced[i] and (w.rug_tick < 0 or tick <= w.rug_tick):
                w.rug_tick = tick
                w.rug_price = prices[i]
        elif phase == ACTIVE and known_tick[i]:
            if w.first < 0 or tick < w.first:
                w.first = tick
            if tick == w.expected and priced[i]:
                w.expected += 1
                w.peak = max(w.peak, prices[i])
            else:
                w.odd = 1


@uncounted
def walk(
    known: tuple[Records, Records, Records, Records],
    money: tuple[Records, Records, Records],
    walked: Records,
    windows: Records,
    hashes: Floats,
    ticks: TickColumns,
    others: OtherEvents,
    kind: int,
    with_history: bool,
    rows: RowColumns,
    steps: StepColumns,
    order_of: Ints,
    scratch: Records,
) -> int:
    """Take a session's events in their order; give how many windows were opened, whose numbers are in `order_of`."""
    k = walked[0]
    k.bet = -1
    k.share = -1
    session = SessionState(
        k,
        windows,
        known[0][0],
        known[1][0],
        known[2][0],
        known[3][0],
        money[0][0],
        money[1][0],
        money[2][0],
        rows,
        steps,
        kind,
        with_history,
        k.player != 0,
    )
    opened, i, j = 0, 0, 0
    while i < len(ticks.seq) or j < len(others.seq):
        is_tick = comes_first(ticks.seq, i, others.seq, j)
        window = ticks.window[i] if is_tick else others.window[j]
        now = ticks.ts_us[i] if is_tick else others.ts_us[j]
        settles = 0 if is_tick else others.own[SETTLES, j]
        is_new = window >= 0 and window != k.window and windows[window].closed == 0
        # what is for the record alone neither ends a pending decision nor moves the clock, unless a window begins
        if settles != QUIET or is_new:
            settle_pending(session, settles)
            k.last_us = now
        if is_new:
            end_window(session)
            open_window(k, window, now)
            order_of[opened] = window
            opened += 1
        if is_tick:
            take_tick(session, ticks, i, hashes, scratch[0])
            i += 1
        else:
            if others.is_own[j]:
                take_own(session, others, j)
            else:
                take_world(session, others, j)
            j += 1
    settle_pending(session, 0)
    end_window(session)
    flush(k, rows)
    return opened


@inlined
def comes_first(seq: Ints, i: int, other_seq: Ints, j: int) -> bool:
    """Tell whether event i of one table comes before event j of another one; at least one is left."""
    return bool(i < len(seq) and (j >= len(other_seq) or seq[i] < other_seq[j]))


@inlined
def settle_pending(session: SessionState, settles: int) -> None:
    """Decide on the last tick once all that it settled is reported; an event that `settles` nothing is too late."""
    k = session.k
    if k.pending == 0:
        return
    if settles == k.pending:
        k.pending += 1
    else:
        add_step(session, k.last_us, 0)
        k.undecided = 1
        k.pending = 0


@inlined
def open_window(k: Record, window: int, now: int) -> None:
    """Begin a window."""
    k.window = window
    k.first_row = k.row
    k.first_step = k.step
    k.start_us = now
    k.anchor = 0
    k.undecided = 0
    k.over = 0
    k.begun = 0
    k.strays = 0
    k.late = 0
    k.corrected = 0
    k.decided = 0


@inlined
def end_window(session: SessionState) -> None:
    """End the open window: keep its steps and write the row after the last one, or take them back."""
    k = session.k
    if k.window < 0:
        return
    w = session.windows[k.window]
    w.closed = 1
    w.start_us = k.start_us
    w.steps = k.step - k.first_step
    w.corrected = k.corrected
    w.late = k.late
    w.strays = k.strays
    w.decided = k.decided
    w.reason = KEPT
    if w.include == 0:
        w.reason = LACKING
    elif k.strays > 0:
        w.reason = STRAYS
    elif w.steps == 0:
        w.reason = EMPTY
    elif k.decided < k.min_ticks:
        w.reason = SHORT
    k.window = -1
    if w.reason == KEPT:
        write_row(session, k.row)
        k.row += 1
    else:
        k.row = k.first_row
        k.step = k.first_step


@inlined
def take_tick(session: SessionState, ticks: TickColumns, i: int, hashes: Floats, e: Record) -> None:
    """Take a tick: into what the player knows, into the money, and as a point of decision."""
    k, window = session.k, ticks.window[i]
    if ticks.kind[i] == encoder.TICK:
        read_tick(ticks, i, e)
        if session.with_history:
            e.id_hash = hashes[window]
            encoder.take_row(session.s, session.h, session.b, session.known_lots, e)
        else:
            encoder.take_state(session.s, e)
    if ticks.name[i] != N_TICK or window != k.window or window < 0:
        return
    tick, phase = ticks.tick[i], ticks.phase[i]
    if k.begun == 0:
        begin_round(session)
    if ticks.is_priced[i]:
        ledger.apply_tick(k, session.lane, session.lots, session.cfg, tick, ticks.price[i], phase)
    if phase == RUGGED:
        k.over = 1
    else:
        k.anchor += 1
        k.anchor_tick = tick
    if phase == PRESALE or phase == ACTIVE:
        k.ticks += 1
        k.decided += 1
        k.undecided = 0
        k.pending = 1


@inlined
def read_tick(ticks: TickColumns, i: int, e: Record) -> None:
    """Read a tick into a row of encoder.ROW; what it does not have keeps its last value, which nobody reads."""
    present = ticks.present[i]
    e.kind = encoder.TICK
    e.present = present
    e.tick = ticks.tick[i]
    e.price = ticks.price[i]
    e.game_phase = ticks.phase[i]
    # a column that the session lacks is empty, so that it must not be read
    if (present & encoder.T_TIMER) != 0:
        e.cooldown_timer_ms = ticks.timer_ms[i]
    if (present & encoder.T_CONNECTED) != 0:
        e.connected_players = ticks.connected_players[i]
    if (present & encoder.T_RUGPOOL) != 0:
        e.rugpool_amount = ticks.rugpool_amount[i]
        e.rugpool_threshold = ticks.rugpool_threshold[i]
        e.instarug_count = ticks.instarug_count[i]
    if (present & encoder.T_SESSION) != 0:
        e.average_multiplier = ticks.average_multiplier[i]
        e.count_2x = ticks.count_2x[i]
        e.count_10x = ticks.count_10x[i]
        e.count_50x = ticks.count_50x[i]
        e.count_100x = ticks.count_100x[i]
    if (present & encoder.T_HIGHEST) != 0:
        e.highest_today = ticks.highest_today[i]
    if (present & encoder.T_LEADERBOARD) != 0:
        e.players_in_game = ticks.players_in_game[i]
        e.players_with_positions = ticks.players_with_positions[i]
        e.total_market_capital = ticks.total_market_capital[i]


@inlined
def take_world(session: SessionState, others: OtherEvents, j: int) -> None:
    """Take an event of the world that is not a tick."""
    k, window = session.k, others.window[j]
    if session.with_history or others.rows[j].kind != encoder.TICK:
        encoder.take_row(session.s, session.h, session.b, session.known_lots, others.rows[j])
    else:
        encoder.take_state(session.s, others.rows[j])
    if others.name[j] == N_ROUND and window == k.window and window >= 0:
        begin_round(session)


@inlined
def begin_round(session: SessionState) -> None:
    """Begin the window's round in the money."""
    ledger.begin_round(session.k, session.lane, session.lots, session.cfg)
    session.k.begun = 1


@inlined
def take_own(session: SessionState, others: OtherEvents, j: int) -> None:
    """Take an own event: into the money, as a choice, and only then into what the player knows.

    So the row of a choice shows what was known before it.
    """
    k, now = session.k, others.ts_us[j]
    k.corrected += ledger.apply_own(k, session.lane, session.lots, others.own, j)
    if others.actions[j, 0] >= 0:
        take_choice(session, others.actions, j, now)
    encoder.take_row(session.s, session.h, session.b, session.known_lots, others.rows[j])
    if others.own[OWN_KIND, j] == OWN_PLAYER:
        k.is_updated = 1
        k.updated_us = now
        k.ticks = 0


@inlined
def take_choice(session: SessionState, actions: Ints, j: int, now: int) -> None:
    """Carry a choice out; inside a round it takes the tick's WAIT, or becomes a further step of the same tick."""
    k, heads = session.k, session.steps.actions.shape[1]
    third = actions[j, 2] if heads == 3 else 0
    if k.window < 0 or k.anchor == 0 or k.over != 0:
        # no decision point for it: the money moves all the same
        k.strays += k.window >= 0 and k.anchor == 0
        k.late += k.over
        ledger.act(k, session.lane, session.lots, session.cfg, actions[j, 0], actions[j, 1], third)
        return
    if k.undecided == 0:
        substep = 0
        if k.step > k.first_step and k.decided_at == k.anchor:
            substep = k.substep + 1
        add_step(session, now, substep)
    at = k.step - 1
    for head in range(heads):
        session.steps.actions[at, head] = actions[j, head]
    session.steps.effects[at] = ledger.act(
        k, session.lane, session.lots, session.cfg, actions[j, 0], actions[j, 1], third
    )
    k.undecided = 0


@inlined
def add_step(session: SessionState, now: int, substep: int) -> None:
    """Write a row and a step of WAIT, which a choice may still take; a watcher's steps have nothing else."""
    k, steps = session.k, session.steps
    w = session.windows[k.window]
    write_row(session, k.row)
    at = k.step
    if session.is_player:
        for head in range(steps.actions.shape[1]):
            steps.actions[at, head] = 0
        steps.substeps[at] = substep
        steps.effects[at] = False
        steps.age_ticks[at] = k.ticks if k.is_updated != 0 else -1
        steps.age_us[at] = now - k.updated_us if k.is_updated != 0 else -1
    steps.labels[at] = 1.0 if w.rug_tick <= k.anchor_tick + SIDEBET_TICKS else 0.0
    if w.rug_tick < 0:
        steps.labels[at] = np.nan
    k.substep = substep
    k.decided_at = k.anchor
    k.row += 1
    k.step += 1


@inlined
def write_row(session: SessionState, row: int) -> None:
    """Write what is seen and how the money stands. What is unknown is filled later where it can be."""
    k, s, rows = session.k, session.s, session.rows
    if session.with_history:
        encoder.look(s, session.h, session.kind, rows.observations, row)
        encoder.mark_missing(s, session.h, session.kind, rows.missing, row)
    else:
        if row < k.base or row >= k.base + BLOCK:
            flush(k, rows)
            k.base = row
        k.held = row - k.base + 1
        if rows.observations.shape[1] == state.FEATURE_COUNT:
            state.observe_recorded(s, rows.block, row - k.base)
        else:
            state.observe_policy(s, rows.block, row - k.base)
        rows.known[row] = s.known
    if session.is_player:
        ledger.write_account(session.lane, rows.ints, rows.floats, row)
    else:
        ledger.write_round(session.lane, rows.ints, rows.floats, row)


@inlined
def flush(k: Record, rows: RowColumns) -> None:
    """Write the rows held back among the observations, feature by feature."""
    for f in range(rows.block.shape[1]):
        for i in range(k.held):
            rows.observations[k.base + i, f] = rows.block[i, f]
    k.held = 0


@compiled
def fill_unknown(bits: Ints, need: int, fill: np.float32, out: Rows, missing: Marks) -> None:
    """Mark the rows in which a feature is unknown, and write its fill value there (`encoder.look`)."""
    for i in range(len(bits)):
        missing[i] = (need & ~bits[i]) != 0
        out[i] = fill if missing[i] else out[i]


@compiled
def segmented(equity: Ints, stake: Ints, qty: Ints, tick: Ints, lengths: Ints, what: int, out: Ints) -> None:
    """Write, within each episode, the lowest wealth (0), the highest equity (1) or the ticks held (2) so far."""
    at = 0
    for length in lengths:
        best = equity[at] + stake[at] if what == 0 else equity[at]
        entry = tick[at]
        for i in range(at, at + length):
            if what == 0:
                best = min(best, equity[i] + stake[i])
                out[i] = best
            elif what == 1:
                best = max(best, equity[i])
                out[i] = best
            else:
                if i > at and qty[i - 1] == 0 and qty[i] > 0:
                    entry = tick[i - 1]
                out[i] = tick[i] - entry if qty[i] > 0 else 0
        at += length
