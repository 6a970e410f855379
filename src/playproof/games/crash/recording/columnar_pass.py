"""The compiled pass of `batch`: a session's ticks and other events, merged by seq, into rows and steps.

Each function does what a method of the slow twin does: `open_window`, `decide` and `close_window` are those of
`episodes.segment`, `hear` and `act` those of `seat.CrashLedger`. Leaves out: reading columns (batch).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.games.crash.features import encoder
from playproof.games.crash.features import state as fold
from playproof.games.crash.features.state import ACTIVE, COOLDOWN, PRESALE, RUGGED
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.sim import kernel
from playproof.games.crash.sim.kernel import SHARES, SIZES, TRADER
from playproof.games.crash.sim.prices_nb import rug_price
from playproof.money import UNIT

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)
uncounted = compiler(__file__, counted=False)

BLOCK = 64
"""Rows that are written side by side before they go to their columns: 37 streams at once are slow."""
D_NONE, D_PRESS, D_PRESS_ACTION, D_ORDER, D_TOP_UP, D_ACK, D_REFUSED, D_PLAYER = range(8)
"""What an own event means for the ledger."""
DEED, BET, SHARE, LED, CASH, QTY, AVG_COST, STAKE, END_TICK, SETTLES = range(10)
"""Places in what own events tell; -1 where nothing is told. LED: a press led to it. SETTLES: 1 for the result of a
sidebet, 2 for the player's money, QUIET for what is for the record alone."""
QUIET = -1
N_TICK, N_LATE, N_ROUND = 1, 2, 3
KEPT, LACKING, STRAYS, EMPTY, SHORT = range(5)
"""What became of a window."""

INT_FACTS = (
    *("cash", "equity", "opened", "qty", "cost", "sidebet_stake", "tick", "phase"),
    *("bought", "sold", "sidebet_staked", "sidebet_paid", "caught", "bet_amount", "sell_share"),
)
FLOAT_FACTS = ("price", "low", "peak")

WINDOW = np.dtype(
    [
        *((name, "i8") for name in ("expected", "first", "rug_tick", "odd", "rugged", "include", "closed", "reason")),
        *((name, "i8") for name in ("start_us", "steps", "corrected", "late", "strays", "decided")),
        *((name, "f8") for name in ("rug_price", "peak")),
    ],
    align=True,
)
"""One window: what the survey found, and what the walk made of it."""

WALK = np.dtype(
    [
        *((name, "i8") for name in ("window", "row", "step", "first_row", "first_step", "opened")),
        *((name, "i8") for name in ("anchor", "anchor_tick", "decided_at", "substep", "ticks", "updated_us")),
        *((name, "i8") for name in ("strays", "late", "corrected", "decided", "min_ticks", "start_us", "last_us")),
        *((name, "i1") for name in ("undecided", "over", "is_updated", "player", "begun", "pending")),
        *(
            (name, "i8")
            for name in ("bet", "share", "cash", "qty", "avg_cost", "stake", "end_tick", "orders", "base", "held")
        ),
        *((name, "i1") for name in ("pressed", "reported", "filled", "granted")),
        ("id_hash", "f8"),
    ],
    align=True,
)
"""Where the walk stands: the open window, its steps so far, and what was heard of money (`seat.Heard`)."""

Array = NDArray[Any]


@compiled
def survey(
    windows: Array, known_tick: Array, priced: Array, ticks: Array, prices: Array, phases: Array, out: Array
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


@inlined
def take_reported(k: Any, lane: Any, lots: Any) -> Any:
    """Hold what was told; tell whether that is other money, and was not asked for."""
    k.filled = 0
    same = True
    if k.cash >= 0 and k.cash != lane.cash:
        lane.granted += k.cash - lane.cash
        lane.cash = k.cash
        same = False
    if k.qty >= 0 and k.qty != lane.qty:
        lane.lot_head = 0
        lane.lot_count = 1 if k.qty > 0 else 0
        lane.qty = k.qty
        lane.cost = share_of(k.qty, k.avg_cost)
        lots.qty[0] = lane.qty
        lots.cost[0] = lane.cost
        same = False
    if k.stake >= 0 and k.stake != lane.side_stake:
        lane.side_stake = k.stake
        lane.side_end = k.end_tick
        same = False
    granted = k.granted != 0
    k.granted = 0
    return not same and not granted


@inlined
def share_of(qty: int, avg_cost: int) -> Any:
    """Give qty x avg_cost / 10^9, rounded down, without passing 64 bits."""
    whole = qty // UNIT
    return whole * avg_cost + (qty - whole * UNIT) * avg_cost // UNIT


@inlined
def hear(k: Any, lane: Any, lots: Any, indices: Array, i: int) -> Any:
    """Take an own fact before its choice is carried out; tell whether it is other money than is held."""
    deed = indices[DEED, i]
    if deed == D_PRESS or deed == D_PRESS_ACTION:
        k.bet = indices[BET, i]
        k.share = indices[SHARE, i]
        k.pressed = deed == D_PRESS_ACTION
    elif deed == D_ORDER or deed == D_TOP_UP:
        if indices[LED, i] == 0:
            k.bet = indices[BET, i]
            k.share = indices[SHARE, i]
        k.pressed = 0
        k.reported = 0
        k.orders += 1
        k.granted |= deed == D_TOP_UP
    elif deed == D_ACK or deed == D_REFUSED:
        k.orders = max(0, k.orders - 1)
        undone = deed == D_REFUSED and k.filled != 0
        if k.orders == 0 and (k.reported != 0 or undone):
            return take_reported(k, lane, lots)
    elif deed == D_PLAYER:
        k.cash = indices[CASH, i]
        k.qty = indices[QTY, i]
        k.avg_cost = indices[AVG_COST, i]
        k.stake = indices[STAKE, i]
        k.end_tick = indices[END_TICK, i]
        k.reported = 1
        if k.orders == 0 and k.pressed == 0:
            return take_reported(k, lane, lots)
    return False


@inlined
def begin_round(k: Any, lane: Any, lots: Any, cfg: Any) -> None:
    """Begin a round; one whose rug was not seen is settled as if it had come on the next tick."""
    if lane.qty > 0 or lane.side_stake > 0:
        lane.tick += 1
        lane.price = rug_price(cfg.world, lane.price, lane.low)
        kernel.settle_rug(lane, lots, cfg)
    lane.invested = 0
    lane.round_cash = lane.cash
    lane.share = 100
    lane.phase = COOLDOWN
    lane.tick = 0
    lane.price = 1.0
    lane.low = 1.0
    lane.peak = 1.0
    k.orders = 0
    k.pressed = 0
    k.begun = 1


@inlined
def see_tick(k: Any, lane: Any, lots: Any, cfg: Any, tick: int, price: float, phase: int) -> None:
    """Take a tick, and settle what it ends."""
    lane.tick = tick
    lane.price = price
    lane.phase = phase if 0 <= phase <= RUGGED else COOLDOWN
    k.pressed = 0
    if lane.phase == RUGGED:
        kernel.settle_rug(lane, lots, cfg)
        return
    lane.low = min(lane.low, price)
    lane.peak = max(lane.peak, price)
    if lane.phase == ACTIVE and lane.side_stake > 0 and tick >= lane.side_end:
        lane.side_stake = 0


@inlined
def order(k: Any, lane: Any, lots: Any, cfg: Any, main: int, amount: int, percent: int) -> Any:
    """Place an order (1 buy, 2 sell, 3 sidebet); tell whether it was carried out."""
    done = False
    if main == 1:
        done = kernel.buy(lane, lots, cfg, amount)
    elif main == 2:
        done = kernel.sell(lane, lots, percent)
    elif main == 3:
        done = kernel.bet(lane, cfg, amount)
        lane.opened += done
    if main != 0:
        k.filled = done
    return done


@inlined
def act(k: Any, lane: Any, lots: Any, cfg: Any, main: int, second: int, third: int) -> Any:
    """Carry a choice out with the bet and the share that stood there; tell whether it changed anything."""
    bet, share = k.bet, k.share
    k.bet = -1
    k.share = -1
    if cfg.actions == TRADER:
        amount = SIZES[second] if bet < 0 else bet
        part = 10 * third if share < 0 else share
        if main == 6:
            return order(k, lane, lots, cfg, 2, amount, part)
        return order(k, lane, lots, cfg, main if main < 4 else 0, amount, 100)
    held_bet, held_share = lane.bet, lane.share
    lane.bet = kernel.adjusted_bet(lane.bet, lane.cash, second)
    if third != 0:
        lane.share = SHARES[third]
    if bet >= 0:
        lane.bet = bet
    if share >= 0:
        lane.share = share
    part = lane.share if cfg.actions == kernel.BUTTONS_SHARE or share >= 0 else 100
    done = order(k, lane, lots, cfg, main, lane.bet, part)
    return done or lane.bet != held_bet or lane.share != held_share


@inlined
def stand(lane: Any, ints: Array, floats: Array, row: int) -> None:
    """Write where the money stands, in the order of INT_FACTS and FLOAT_FACTS."""
    ints[0, row] = lane.cash
    ints[1, row] = kernel.marked(lane)
    ints[2, row] = lane.opened
    ints[3, row] = lane.qty
    ints[4, row] = lane.cost
    ints[5, row] = lane.side_stake
    ints[6, row] = lane.tick
    ints[7, row] = lane.phase
    ints[8, row] = lane.staked - lane.sidebet_staked
    ints[9, row] = lane.sold
    ints[10, row] = lane.sidebet_staked
    ints[11, row] = lane.sidebet_paid
    ints[12, row] = lane.caught
    ints[13, row] = lane.bet
    ints[14, row] = lane.share
    floats[0, row] = lane.price
    floats[1, row] = lane.low
    floats[2, row] = lane.peak


@inlined
def take_light(s: Any, e: Any) -> None:
    """Take a tick into what the sets without history need of it."""
    if (e.present & encoder.T_CONNECTED) != 0:
        fold.apply_connected(s, float(e.connected_players))
    if (e.present & encoder.T_RUGPOOL) != 0:
        fold.apply_rugpool(s, e.rugpool_amount, float(e.rugpool_threshold), float(e.instarug_count))
    if (e.present & encoder.T_SESSION) != 0:
        fold.apply_session(
            s, e.average_multiplier, float(e.count_2x), float(e.count_10x), float(e.count_50x), float(e.count_100x)
        )
    if (e.present & encoder.T_HIGHEST) != 0:
        fold.apply_highest(s, e.highest_today)
    fold.apply_tick(s, e.tick, e.price, e.cooldown_timer_ms if (e.present & encoder.T_TIMER) != 0 else -1, e.game_phase)


@inlined
def flush(k: Any, block: Array, out: Array) -> None:
    """Write the rows held back to their places, feature by feature."""
    for f in range(block.shape[1]):
        for i in range(k.held):
            out[k.base + i, f] = block[i, f]
    k.held = 0


@inlined
def show(
    s: Any,
    h: Any,
    lane: Any,
    player: Any,
    kind: int,
    with_history: bool,
    row: int,
    out: Array,
    missing: Array,
    ints: Array,
    floats: Array,
    bits: Array,
    k: Any,
    block: Array,
) -> None:
    """Write a row: what is seen, and where the money stands. What is unknown is filled later where it can be."""
    if with_history:
        encoder.look(s, h, kind, out, row)
        encoder.mark_missing(s, h, kind, missing, row)
    else:
        if row < k.base or row >= k.base + BLOCK:
            flush(k, block, out)
            k.base = row
        k.held = row - k.base + 1
        if out.shape[1] == fold.FEATURE_COUNT:
            fold.observe_recorded(s, block, row - k.base)
        else:
            fold.observe_policy(s, block, row - k.base)
        bits[row] = s.known
    if player:
        stand(lane, ints, floats, row)
    else:
        ints[6, row] = lane.tick
        ints[7, row] = lane.phase
        floats[0, row] = lane.price
        floats[1, row] = lane.low
        floats[2, row] = lane.peak


@compiled
def fill_unknown(bits: Array, need: int, fill: np.float32, out: Array, missing: Array) -> None:
    """Mark the rows in which a feature is unknown, and write its fill value there (`known.look`)."""
    for i in range(len(bits)):
        missing[i] = (need & ~bits[i]) != 0
        out[i] = fill if missing[i] else out[i]


@uncounted
def walk(  # noqa: PLR0912, PLR0915  (one loop over a dozen arrays, which inner functions would all have to be handed)
    state: Any,
    money: Any,
    walked: Array,
    windows: Array,
    hashes: Array,
    ticks: Any,
    others: Any,
    kind: int,
    with_history: bool,
    seen: Any,
    taken: Any,
    order_of: Array,
    block: Array,
    scratch: Array,
) -> int:
    """Take a session's events in their order; give how many windows were opened, whose numbers are in `order_of`."""
    states, histories, books, known_lots = state
    s, h, b, held = states[0], histories[0], books[0], known_lots[0]
    lanes, all_lots, configs = money
    lane, lots, cfg = lanes[0], all_lots[0], configs[0]
    k = walked[0]
    k.bet = -1
    k.share = -1
    (
        t_seq,
        t_ts,
        t_window,
        t_name,
        t_kind,
        t_priced,
        t_tick,
        t_price,
        t_phase,
        t_timer,
        t_present,
        t_connected,
        t_pool,
        t_threshold,
        t_instarugs,
        t_mean,
        t_2,
        t_10,
        t_50,
        t_100,
        t_highest,
        t_players,
        t_holders,
        t_capital,
    ) = ticks
    o_seq, o_ts, o_window, o_own, o_name, o_rows, o_action, o_own_fields = others
    out, missing, ints, floats, bits = seen
    player = k.player != 0
    actions, substeps, effects, age_ticks, age_us, labels = taken
    heads = actions.shape[1]
    e = scratch[0]
    opened = 0
    i, j = 0, 0
    while i < len(t_seq) or j < len(o_seq):
        from_ticks = i < len(t_seq) and (j >= len(o_seq) or t_seq[i] < o_seq[j])
        window = t_window[i] if from_ticks else o_window[j]
        now = t_ts[i] if from_ticks else o_ts[j]
        stays = window < 0 or window == k.window or windows[window].closed != 0
        quiet = not from_ticks and o_own_fields[SETTLES, j] == QUIET and stays
        if k.pending != 0 and not quiet:
            if not from_ticks and o_own_fields[SETTLES, j] == k.pending:
                k.pending += 1
            else:
                show(s, h, lane, player, kind, with_history, k.row, out, missing, ints, floats, bits, k, block)
                decide(
                    k, windows[k.window], player, k.last_us, 0, actions, substeps, effects, age_ticks, age_us, labels
                )
                k.undecided = 1
                k.pending = 0
        if not quiet:
            k.last_us = now
        if window >= 0 and window != k.window and windows[window].closed == 0:
            if k.window >= 0:
                row = k.row
                if close_window(k, windows[k.window]):
                    show(s, h, lane, player, kind, with_history, row, out, missing, ints, floats, bits, k, block)
            open_window(k, window, now)
            order_of[opened] = window
            opened += 1
        chooses = False
        if from_ticks:
            if t_kind[i] == encoder.TICK:
                e.kind = encoder.TICK
                e.present = t_present[i]
                e.tick = t_tick[i]
                e.price = t_price[i]
                e.game_phase = t_phase[i]
                if (e.present & encoder.T_TIMER) != 0:
                    e.cooldown_timer_ms = t_timer[i]
                if (e.present & encoder.T_CONNECTED) != 0:
                    e.connected_players = t_connected[i]
                if (e.present & encoder.T_RUGPOOL) != 0:
                    e.rugpool_amount = t_pool[i]
                    e.rugpool_threshold = t_threshold[i]
                    e.instarug_count = t_instarugs[i]
                if (e.present & encoder.T_SESSION) != 0:
                    e.average_multiplier = t_mean[i]
                    e.count_2x = t_2[i]
                    e.count_10x = t_10[i]
                    e.count_50x = t_50[i]
                    e.count_100x = t_100[i]
                if (e.present & encoder.T_HIGHEST) != 0:
                    e.highest_today = t_highest[i]
                if (e.present & encoder.T_LEADERBOARD) != 0:
                    e.players_in_game = t_players[i]
                    e.players_with_positions = t_holders[i]
                    e.total_market_capital = t_capital[i]
                if with_history:
                    e.id_hash = hashes[window]
                    encoder.take_row(s, h, b, held, e)
                else:
                    take_light(s, e)
            if t_name[i] == N_TICK and window == k.window and window >= 0:
                if k.begun == 0:
                    begin_round(k, lane, lots, cfg)
                if t_priced[i]:
                    see_tick(k, lane, lots, cfg, t_tick[i], t_price[i], t_phase[i])
                phase = t_phase[i]
                if phase == RUGGED:
                    k.over = 1
                else:
                    k.anchor += 1
                    k.anchor_tick = t_tick[i]
                if phase == PRESALE or phase == ACTIVE:
                    k.ticks += 1
                    k.decided += 1
                    k.undecided = 0
                    k.pending = 1
            i += 1
        elif o_own[j] == 0:
            if with_history or o_rows[j].kind != encoder.TICK:
                encoder.take_row(s, h, b, held, o_rows[j])
            else:
                take_light(s, o_rows[j])
            if o_name[j] == N_ROUND and window == k.window and window >= 0:
                begin_round(k, lane, lots, cfg)
        else:
            k.corrected += hear(k, lane, lots, o_own_fields, j)
            chooses = o_action[j, 0] >= 0
        if chooses and (k.window < 0 or k.anchor == 0 or k.over != 0):
            k.strays += k.window >= 0 and k.anchor == 0
            k.late += k.over
            act(k, lane, lots, cfg, o_action[j, 0], o_action[j, 1], o_action[j, 2] if heads == 3 else 0)
            chooses = False
        if chooses and k.undecided == 0:
            substep = 0
            if k.step > k.first_step and k.decided_at == k.anchor:
                substep = k.substep + 1
            show(s, h, lane, player, kind, with_history, k.row, out, missing, ints, floats, bits, k, block)
            decide(k, windows[k.window], player, now, substep, actions, substeps, effects, age_ticks, age_us, labels)
        if chooses:
            at = k.step - 1
            for head in range(heads):
                actions[at, head] = o_action[j, head]
            third = o_action[j, 2] if heads == 3 else 0
            effects[at] = act(k, lane, lots, cfg, o_action[j, 0], o_action[j, 1], third)
            k.undecided = 0
        if not from_ticks:
            if o_own[j] != 0:
                encoder.take_row(s, h, b, held, o_rows[j])
                if o_own_fields[DEED, j] == D_PLAYER:
                    k.is_updated = 1
                    k.updated_us = now
                    k.ticks = 0
            j += 1
    if k.pending != 0:
        show(s, h, lane, player, kind, with_history, k.row, out, missing, ints, floats, bits, k, block)
        decide(k, windows[k.window], player, k.last_us, 0, actions, substeps, effects, age_ticks, age_us, labels)
    if k.window >= 0:
        row = k.row
        if close_window(k, windows[k.window]):
            show(s, h, lane, player, kind, with_history, row, out, missing, ints, floats, bits, k, block)
    flush(k, block, out)
    return opened


@inlined
def open_window(k: Any, window: int, now: int) -> None:
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
def close_window(k: Any, w: Any) -> Any:
    """Keep the open window's steps or take them back; tell whether they are kept, and need a last row."""
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
    if w.reason != KEPT:
        k.row = k.first_row
        k.step = k.first_step
        return False
    k.row += 1
    return True


@inlined
def decide(
    k: Any,
    w: Any,
    player: Any,
    now: int,
    substep: int,
    actions: Array,
    substeps: Array,
    effects: Array,
    age_ticks: Array,
    age_us: Array,
    labels: Array,
) -> None:
    """Note a step of WAIT; a choice may still take its place. Of somebody who only watches nothing else is known."""
    at = k.step
    if player:
        for head in range(actions.shape[1]):
            actions[at, head] = 0
        substeps[at] = substep
        effects[at] = False
        age_ticks[at] = k.ticks if k.is_updated != 0 else -1
        age_us[at] = now - k.updated_us if k.is_updated != 0 else -1
    labels[at] = 1.0 if w.rug_tick <= k.anchor_tick + SIDEBET_TICKS else 0.0
    if w.rug_tick < 0:
        labels[at] = np.nan
    k.substep = substep
    k.decided_at = k.anchor
    k.row += 1
    k.step += 1


@compiled
def segmented(equity: Array, stake: Array, qty: Array, tick: Array, lengths: Array, what: int, out: Array) -> None:
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
