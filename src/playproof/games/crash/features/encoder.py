"""What a player knows of the crash game, fact by fact: the Game record's fold over `fold` and `history`.

A fact becomes a numeric row (`encode`), compiled code takes rows into four records (`take`, `follow`)
and writes any of the four observation sets. One event or a whole recording go through the same
code, so that live and batch are the same bits. Leaves out: the features themselves (fold, history).

What the rules say is known without being told: a new round starts flat, with nothing invested. The
open lots are known while the own fills since the position was flat add up to the position told.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from playproof._numba import compiler
from playproof.events import Event, Value
from playproof.game import ObservationFold
from playproof.games.crash.features import history, state, table
from playproof.games.crash.features.history import K_LOTS, K_PAST
from playproof.games.crash.features.state import K_CLIENT, K_PLAYER, RUGGED, id_hash
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.actions import CATEGORIES
from playproof.games.crash.rules.money import MAX_LOTS
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.protocol import COIN
from playproof.games.crash.sim.arrays import Ints, Marks, Record, Records, Rows
from playproof.games.crash.sim.layout import LOTS
from playproof.games.crash.sim.orders import add_lot, drop_lots, take_lots

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)

NOTHING, ROUND, TICK, RUGPOOL, TRADE, PAST, SEAT, PLAYER, PRESS, FILL, BET, ACK = range(12)
"""Kinds of rows; from SEAT on they are the player's own."""

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "connected": ("connected_players",),
    "rugpool": ("rugpool_amount", "rugpool_threshold", "instarug_count"),
    "session": ("average_multiplier", "count_2x", "count_10x", "count_50x", "count_100x"),
    "highest": ("highest_today",),
    "leaderboard": ("players_in_game", "players_with_positions", "total_market_capital"),
    "sidebet": ("sidebet_stake", "sidebet_end_tick"),
    "bet": ("bet_amount",),
    "execution": ("execution_tick", "execution_price"),
    "client": ("client_timestamp", "latency_ms", "trade_id"),
    "timer": ("cooldown_timer_ms",),
}
"""Columns that are known together or not at all."""
T_CONNECTED, T_RUGPOOL, T_SESSION, T_HIGHEST, T_LEADERBOARD, T_SIDEBET, T_BET, T_EXECUTION, T_CLIENT, T_TIMER = (
    1 << bit for bit in range(len(_GROUPS))
)
_SHOWN = ("connected", "rugpool", "session", "highest", "leaderboard", "timer")

_OWN_MONEY = ("cash", "position_qty", "avg_cost", "cumulative_pnl", "total_invested")


@dataclass(frozen=True)
class FactShape:
    """How a fact becomes a row."""

    kind: int
    needs: tuple[str, ...] = ()
    """Columns without which there is no row."""
    groups: tuple[str, ...] = ()
    """Columns that it may have."""


SHAPES: Mapping[str, FactShape] = {
    c.ROUND: FactShape(ROUND),
    c.TICK: FactShape(TICK, ("tick", "price", "game_phase"), _SHOWN),
    c.COUNTDOWN: FactShape(TICK, ("tick", "price", "game_phase"), _SHOWN),
    c.RUGPOOL: FactShape(RUGPOOL, _GROUPS["rugpool"]),
    c.TRADE: FactShape(TRADE, ("tick", "trade_amount")),
    c.COMPLETE: FactShape(PAST, ("rug_tick", "rug_price", "peak", "rug_seen")),
    c.SEAT: FactShape(SEAT),
    c.PLAYER: FactShape(PLAYER, _OWN_MONEY, ("sidebet", "bet")),
    c.PRESS: FactShape(PRESS, (), ("bet",)),
    c.ORDER: FactShape(PRESS),
    c.FILL: FactShape(FILL, ("tick", "trade_amount", "trade_qty", "trade_price")),
    c.BET: FactShape(BET, ("sidebet_start_tick",)),
    c.ACK: FactShape(ACK, ("success",), ("execution", "client")),
}
"""The facts that change what is known; all others are for the record."""
LIGHT = ("policy", "recorded")
"""Observation sets that need neither history nor others' trades."""

_FLOATS = {
    *("price", "rugpool_amount", "average_multiplier", "highest_today", "rug_price", "peak", "trade_price"),
    *("execution_price", "client_timestamp", "latency_ms"),
}
_COLUMNS = tuple(
    dict.fromkeys(
        [name for shape in SHAPES.values() for name in shape.needs]
        + [name for group in _GROUPS.values() for name in group if name != "trade_id"]
    )
)
ROW = np.dtype(
    [
        ("kind", "i8"),
        ("present", "i8"),  # groups of columns that the row has
        ("is_buy", "i8"),
        ("is_counted", "i8"),  # a plain buy or sell of the coin itself
        ("is_action", "i8"),  # BUY, SELL or SIDEBET was pressed
        ("is_forced", "i8"),
        ("id_hash", "f8"),
        ("trade_hash", "f8"),
        *((name, "f8" if name in _FLOATS else "i8") for name in _COLUMNS),
    ],
    align=True,
)
"""One fact as compiled code reads it; money in units."""

BOOK = np.dtype(
    [
        ("id_hash", "f8"),
        ("qty", "i8"),
        ("cost", "i8"),
        ("lot_head", "i4"),
        ("lot_count", "i4"),
        ("follows_lots", "i1"),  # has the position been flat since the player was first heard of?
        ("has_sidebet", "i1"),
        ("is_open", "i1"),  # the round's own result has not been added up
        ("is_settling", "i1"),  # it rugged, and what that did to the player is still to be told
    ],
    align=True,
)
"""The player's lots, as his fills tell them, and whether the round's result is known; fields as in `layout.LANE`."""


_PACKED = struct.Struct("=" + "".join("d" if ROW[name] == np.float64 else "q" for name in ROW.names or ()))
_PLACES = {name: index for index, name in enumerate(ROW.names or ())}
_BITS = {group: 1 << bit for bit, group in enumerate(_GROUPS)}


@dataclass(frozen=True)
class RowPlan:
    """A shape, worked out: which columns go to which places of a row."""

    kind: int
    needs: tuple[tuple[str, int], ...]
    groups: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
    """Bit in `present`, columns and places; texts have the last place, which is not packed."""


def _plan(shape: FactShape) -> RowPlan:
    def columns_of(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        return tuple((name, _PLACES.get(name, len(_PLACES))) for name in names)

    return RowPlan(
        shape.kind, columns_of(shape.needs), tuple((_BITS[group], columns_of(_GROUPS[group])) for group in shape.groups)
    )


_PLANS = {name: _plan(shape) for name, shape in SHAPES.items()}


@lru_cache(maxsize=4096)
def _hash(identity: str) -> float:
    return id_hash(identity)


def encode(event: Event) -> Records:
    """Turn an event into a row, of kind NOTHING if it changes nothing that is known."""
    row, plan = np.zeros(1, ROW), _PLANS.get(event.event_name)
    if plan is None or _is_aftermath(event) or any(event.columns.get(name) is None for name, _ in plan.needs):
        return row
    payload, present = event.columns, 0
    values: list[Value] = [0] * (len(_PLACES) + 1)
    values[_PLACES["kind"]], values[_PLACES["id_hash"]] = plan.kind, _hash(event.window_id or "")
    for name, index in plan.needs:
        values[index] = payload[name]
    for bit, columns in plan.groups:
        if all(payload.get(name) is not None for name, _ in columns):
            present |= bit
            for name, index in columns:
                values[index] = payload[name]
    values[_PLACES["present"]] = present
    _add_texts(plan.kind, payload, values)
    _PACKED.pack_into(row.view(np.uint8).data, 0, *values[: len(_PLACES)])
    return row


def _add_texts(kind: int, payload: Mapping[str, Value], values: list[Value]) -> None:
    """Write what is told in words."""
    if kind in (TRADE, FILL):
        side = payload.get("trade_type")
        values[_PLACES["is_buy"]] = side == "buy"
        values[_PLACES["is_counted"]] = side in ("buy", "sell") and payload.get("coin", COIN) == COIN
        values[_PLACES["is_forced"]] = payload.get("forced") is True
    elif kind == PRESS:
        values[_PLACES["is_action"]] = (
            CATEGORIES.get(str(payload.get("button_id") or payload.get("order_kind", ""))) == "action"
        )
    elif kind == ACK:
        values[_PLACES["trade_hash"]] = _hash(str(payload.get("trade_id") or ""))


def _is_aftermath(event: Event) -> bool:
    """Tell whether a fact only follows from another one: the order of a press, the settlement of a sidebet."""
    if event.event_name == c.ORDER:
        return "sequence_id" in event.columns
    return event.event_name == c.BET and event.columns.get("sidebet_type") != "placed"


def decides(event: Event) -> bool:
    """Tell whether the player can act now: once in the presale, and at each tick until the rug."""
    return event.event_name == c.TICK and event.columns.get("game_phase") in (Phase.PRESALE, Phase.ACTIVE)


@inlined
def close_result(s: Record, h: Record, b: Record) -> None:
    """Add the player's result of a round up, once, as far as it was told."""
    if b.is_open != 0 and (s.known & K_PLAYER) != 0:
        history.apply_session_result(h, s.pnl if s.invested > 0 else 0, s.invested > 0)
    b.is_open = 0
    b.is_settling = 0


@inlined
def show_lots(s: Record, h: Record, b: Record, lots: Record) -> None:
    """Show the lots if they add up to the position told, else say that they are unknown."""
    if b.follows_lots != 0 and b.qty == s.qty:
        history.apply_lots(h, lots, b.lot_head, b.lot_count)
    else:
        h.known &= ~K_LOTS


@inlined
def take_round(s: Record, h: Record, b: Record, lots: Record, e: Record) -> None:
    """Begin a round, flat and with nothing invested."""
    close_result(s, h, b)
    state.apply_round(s, e.id_hash)
    history.apply_round(h, s)
    b.id_hash = e.id_hash
    b.is_open = 1
    b.has_sidebet = 0
    drop_lots(b)
    if (s.known & K_PLAYER) != 0:
        state.apply_player(s, s.cash, 0, 0, 0, 0)
        b.follows_lots = 1
        show_lots(s, h, b, lots)


@inlined
def take_state(s: Record, e: Record) -> None:
    """Take a tick, and what the site shows beside the price, into all that the sets without history need."""
    if (e.present & T_CONNECTED) != 0:
        state.apply_connected(s, float(e.connected_players))
    if (e.present & T_RUGPOOL) != 0:
        state.apply_rugpool(s, e.rugpool_amount, float(e.rugpool_threshold), float(e.instarug_count))
    if (e.present & T_SESSION) != 0:
        state.apply_session(
            s, e.average_multiplier, float(e.count_2x), float(e.count_10x), float(e.count_50x), float(e.count_100x)
        )
    if (e.present & T_HIGHEST) != 0:
        state.apply_highest(s, e.highest_today)
    state.apply_tick(s, e.tick, e.price, e.cooldown_timer_ms if (e.present & T_TIMER) != 0 else -1, e.game_phase)


@inlined
def take_tick(s: Record, h: Record, b: Record, e: Record) -> None:
    """Take a tick; at the rug the result is known at once to one who holds nothing."""
    take_state(s, e)
    if (e.present & T_LEADERBOARD) != 0:
        history.apply_leaderboard(h, float(e.players_in_game), float(e.players_with_positions), e.total_market_capital)
    history.apply_tick(h, s)
    if e.game_phase == RUGGED:
        history.apply_rug(h, s, h.peak)
        b.is_settling = 1
        if s.qty == 0 and b.has_sidebet == 0:
            close_result(s, h, b)


@inlined
def take_player(s: Record, h: Record, b: Record, lots: Record, e: Record) -> None:
    """Take the player's own money."""
    state.apply_player(s, e.cash, e.position_qty, e.avg_cost, e.cumulative_pnl, e.total_invested)
    if (e.present & T_BET) != 0:
        state.apply_bet(s, e.bet_amount)
    if (e.present & T_SIDEBET) != 0:
        history.apply_sidebet(h, e.sidebet_stake, e.sidebet_end_tick)
        b.has_sidebet = e.sidebet_stake > 0
    if e.position_qty == 0:
        drop_lots(b)
        b.follows_lots = 1
    show_lots(s, h, b, lots)
    if b.is_settling != 0:
        close_result(s, h, b)


@inlined
def take_fill(s: Record, h: Record, b: Record, lots: Record, e: Record) -> None:
    """Take an own fill into the lots and, if an order led to it, as the last execution; volumes are the others'."""
    if e.is_counted != 0 and e.id_hash == b.id_hash:
        if e.is_buy == 0:
            take_lots(b, lots, min(e.trade_qty, b.qty))
        elif b.lot_count < MAX_LOTS:
            add_lot(b, lots, e.trade_qty, e.trade_amount)
        show_lots(s, h, b, lots)
    is_known = s.execution_tick == e.tick and s.execution_price == e.trade_price and (s.known & K_CLIENT) != 0
    if e.is_forced == 0 and not is_known:
        state.apply_execution(s, e.tick, e.trade_price)


@inlined
def take_past(h: Record, e: Record) -> None:
    """Take a revealed round: as a new one if its rug was not seen, else in place of what was seen of it."""
    if e.rug_seen == 0:
        history.apply_past_round(h, e.rug_price, e.rug_tick, e.peak)
    elif (h.known & K_PAST) != 0 and h.past_duration[0] == e.rug_tick:
        h.past_end[0] = e.rug_price
        h.past_peak[0] = e.peak


@inlined
def take_seat(s: Record, h: Record, b: Record) -> None:
    """Seat a player who has done nothing yet; what was seen of the market stays."""
    state.apply_seat(s)
    history.start_session(h)
    h.rounds = 1
    h.side_stake = 0
    h.known &= ~K_LOTS
    s.qty = 0
    s.action_tick = 0
    s.entry_tick = 0
    drop_lots(b)
    b.follows_lots = 0
    b.has_sidebet = 0


@inlined
def take_press(s: Record, e: Record) -> None:
    """Take a press, or an order that no press led to."""
    if (e.present & T_BET) != 0:
        state.apply_bet(s, e.bet_amount)
    if e.is_action != 0:
        state.apply_press(s)


@inlined
def take_ack(s: Record, e: Record) -> None:
    """Take the answer to an order that was carried out."""
    if e.success != 0 and (e.present & T_EXECUTION) != 0:
        state.apply_execution(s, e.execution_tick, e.execution_price)
        if (e.present & T_CLIENT) != 0:
            state.apply_client(s, e.trade_hash, e.client_timestamp, e.latency_ms)


@inlined
def take_own(s: Record, h: Record, b: Record, lots: Record, e: Record) -> None:
    """Take an own fact."""
    if e.kind == PLAYER:
        take_player(s, h, b, lots, e)
    elif e.kind == PRESS:
        take_press(s, e)
    elif e.kind == FILL:
        take_fill(s, h, b, lots, e)
    elif e.kind == BET:
        state.apply_execution(s, e.sidebet_start_tick, s.price)
    elif e.kind == ACK:
        take_ack(s, e)
    else:
        take_seat(s, h, b)


@compiled
def take_row(s: Record, h: Record, b: Record, lots: Record, e: Record) -> None:
    """Take one fact into what is known."""
    if e.kind >= SEAT:
        take_own(s, h, b, lots, e)
    elif e.kind == TICK:
        take_tick(s, h, b, e)
    elif e.kind == TRADE:
        if e.is_counted != 0 and e.id_hash == b.id_hash:
            history.apply_trade(h, e.tick, e.is_buy != 0, e.trade_amount)
    elif e.kind == ROUND:
        take_round(s, h, b, lots, e)
    elif e.kind == RUGPOOL:
        state.apply_rugpool(s, e.rugpool_amount, float(e.rugpool_threshold), float(e.instarug_count))
    elif e.kind == PAST:
        take_past(h, e)


SETS = tuple(table.OBSERVATIONS)
_POLICY, _RECORDED, _MARKET, _TRADER = (SETS.index(name) for name in ("policy", "recorded", "market", "trader"))
_WIDEST = max(len(needs) for needs in table.NEEDS.values())
_NEEDS = np.array([[*table.NEEDS[name], *[0] * (_WIDEST - len(table.NEEDS[name]))] for name in SETS], np.int64)
_FILLS = np.array([[*table.FILLS[name], *[0.0] * (_WIDEST - len(table.FILLS[name]))] for name in SETS], np.float32)


@compiled
def look(s: Record, h: Record, kind: int, out: Rows, row: int) -> None:
    """Write an observation set (its place in SETS) into a row of `out`, fill values where unknown."""
    if kind == _MARKET:
        history.observe_market(h, s, out, row)
    elif kind == _TRADER:
        history.observe_trader(h, s, out, row)
    else:
        if kind == _POLICY:
            state.observe_policy(s, out, row)
        else:
            state.observe_recorded(s, out, row)
        unknown = ~(s.known | h.known)
        for i in range(out.shape[1]):
            if (_NEEDS[kind, i] & unknown) != 0:
                out[row, i] = _FILLS[kind, i]


@compiled
def mark_missing(s: Record, h: Record, kind: int, out: Marks, row: int) -> None:
    """Write which features of a set are unknown into a row of `out`."""
    unknown = ~(s.known | h.known)
    for i in range(out.shape[1]):
        out[row, i] = (_NEEDS[kind, i] & unknown) != 0


@compiled
def take(states: Records, histories: Records, books: Records, lots: Records, rows: Records) -> None:
    """Take rows into what is known, in their order."""
    for i in range(len(rows)):
        take_row(states[0], histories[0], books[0], lots[0], rows[i])


@compiled
def follow(
    states: Records,
    histories: Records,
    books: Records,
    lots: Records,
    rows: Records,
    looks: Ints,
    kind: int,
    out: Rows,
    missing: Marks,
) -> None:
    """Take rows, and after each row number in `looks` (ascending) write what is seen and what is missing."""
    at = 0
    for i in range(len(rows)):
        take_row(states[0], histories[0], books[0], lots[0], rows[i])
        if at < len(looks) and looks[at] == i:
            look(states[0], histories[0], kind, out, at)
            mark_missing(states[0], histories[0], kind, missing, at)
            at += 1


@compiled
def look_one(states: Records, histories: Records, kind: int, out: Rows) -> None:
    """Write the observation now."""
    look(states[0], histories[0], kind, out, 0)


@compiled
def mark_one(states: Records, histories: Records, kind: int, out: Marks) -> None:
    """Write what is missing now."""
    mark_missing(states[0], histories[0], kind, out, 0)


class ObservationState:
    """What one player knows."""

    __slots__ = ("books", "histories", "lots", "states")

    def __init__(self) -> None:
        self.states = state.new_state()
        self.histories = history.new_history()
        self.books = np.zeros(1, BOOK)
        self.lots = np.zeros(1, LOTS)


def apply(known: ObservationState, rows: Records) -> None:
    """Take one encoded event, or many."""
    take(known.states, known.histories, known.books, known.lots, rows)


def observe(known: ObservationState, out: Rows, *, kind: int) -> None:
    """Write one observation set."""
    look_one(known.states, known.histories, kind, out[None, :])


def missing(known: ObservationState, out: Marks, *, kind: int) -> None:
    """Write what of one observation set is unknown."""
    mark_one(known.states, known.histories, kind, out[None, :])


FOLD = ObservationFold(
    ObservationState,
    apply,
    {name: partial(observe, kind=kind) for kind, name in enumerate(SETS)},
    {name: partial(missing, kind=kind) for kind, name in enumerate(SETS)},
    encode,
)
