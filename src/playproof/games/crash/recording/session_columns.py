"""Read one recorded session of the crash game as columns: its ticks, its other events, its windows.

Every reader of a column gives whole arrays, in the order of the recording, as the compiled pass takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike

from playproof.errors import InputError
from playproof.games.crash.features import encoder
from playproof.games.crash.features.state import ACTIVE
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.columnar_pass import (
    N_LATE,
    N_ROUND,
    N_TICK,
    WINDOW,
    OtherEvents,
    TickColumns,
    survey,
)
from playproof.games.crash.recording.compiled_ledger import (
    OWN_ACK,
    OWN_ORDER,
    OWN_OTHER,
    OWN_PLAYER,
    OWN_PRESS,
    OWN_PRESS_ACTION,
    OWN_REFUSED,
    OWN_TOP_UP,
    QUIET,
)
from playproof.games.crash.rules.actions import (
    ACTIONS,
    ADJUSTMENTS,
    BETS,
    CATEGORIES,
    FULL_SHARE,
    MAIN,
    ORDERS,
    PERCENTAGES,
    SHARES,
    SIZES,
    TENTHS,
    TRADER_MAIN,
)
from playproof.games.crash.server.protocol import COIN
from playproof.games.crash.sim.arrays import Array, Floats, Ints, Marks, Records

TICKS = "game_tick"
WORLD_TYPES = ("game_tick", "server_state", "complete_game", "system_event", "gap")
OWN_TYPES = ("button_event", "player_action")
TRADE_TYPES = ("ws_event",)
TEXT_COLUMNS = (
    *("button_id", "button_category", "order_kind", "trade_type", "coin", "sidebet_type", "trade_id"),
    *("server_seed", "server_seed_hash", "game_version"),
)
FLAG_COLUMNS = ("forced", "sequence_id", "order_amount", "order_share", "sell_share", "ended_by_rug")
_SEEDS = ("server_seed", "server_seed_hash", "game_version")
EVENT_CODES = {c.TICK: N_TICK, c.LATE_TICK: N_LATE, c.ROUND: N_ROUND}


def doc_types(observation: str) -> tuple[str, ...]:
    """Give the types of events that an observation set is made of; others' trades are only for two of them."""
    return WORLD_TYPES + OWN_TYPES + (() if observation in encoder.LIGHT else TRADE_TYPES)


class Columns:
    """The columns of one table as arrays; what is missing is filled, and what is there can be asked."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.rows: int = table.num_rows
        self._nulls: dict[str, int] = {
            name: column.null_count for name, column in zip(table.schema.names, table.columns, strict=True)
        }
        self._codes: dict[str, tuple[Ints, list[str]]] = {}

    def __len__(self) -> int:
        return self.rows

    def has(self, name: str) -> bool:
        """Tell whether a column holds anything."""
        return bool(self._nulls.get(name, self.rows) < self.rows)

    def is_full(self, name: str) -> bool:
        """Tell whether a column holds a value in every row."""
        return self.rows > 0 and self._nulls.get(name, self.rows) == 0

    def valid(self, name: str) -> Marks:
        """Tell where a column holds a value."""
        if not self.has(name):
            return np.zeros(self.rows, np.bool_)
        if self.is_full(name):
            return np.ones(self.rows, np.bool_)
        return np.asarray(self.table[name].is_valid().to_numpy(zero_copy_only=False))

    def numbers(self, name: str, dtype: DTypeLike = np.int64, fill: float = 0) -> Array:
        """Give a column of numbers, `fill` where there is none."""
        if not self.has(name):
            return np.full(self.rows, fill, dtype)
        column = self.table[name]
        if not self.is_full(name):
            column = pc.fill_null(column, pa.scalar(fill).cast(column.type))
        return np.asarray(_one(column).to_numpy(zero_copy_only=False)).astype(dtype, copy=False)

    def times(self, name: str) -> Ints:
        """Give a column of times as microseconds."""
        return np.asarray(_one(self.table[name]).cast(pa.int64()).to_numpy(zero_copy_only=False))

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Give a text column as places in a list of the texts that occur, -1 where there is none."""
        if name not in self._codes:
            self._codes[name] = self._coded(name)
        return self._codes[name]

    def _coded(self, name: str) -> tuple[Ints, list[str]]:
        if not self.has(name):
            return np.full(self.rows, -1, np.int64), []
        column = _one(self.table[name])
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        indices = column.indices if self.is_full(name) else pc.fill_null(column.indices, -1)
        if len(column.dictionary) == 1 and self.is_full(name):
            return np.zeros(self.rows, np.int64), column.dictionary.to_pylist()
        numpy = indices.to_numpy(zero_copy_only=False)
        starts = np.concatenate(([0], np.flatnonzero(numpy[1:] != numpy[:-1]) + 1))
        used, numbers = np.unique(numpy[starts], return_inverse=True)
        absent = int(used[0] < 0)
        texts = column.dictionary.take(pa.array(used[absent:])).to_pylist()
        return np.repeat(numbers - absent, np.diff(starts, append=self.rows)), texts

    def mapped(self, name: str, table: Mapping[str, int], missing: int = 0) -> Ints:
        """Give a text column as the numbers of a table, `missing` for other texts and where there is none."""
        indices, texts = self.codes(name)
        if len(texts) == 1 and self.is_full(name):
            return np.full(self.rows, table.get(texts[0], missing), np.int64)
        of = np.array([*(table.get(text, missing) for text in texts), missing], np.int64)
        return of[indices]


def read_only(*columns: Array) -> tuple[Array, ...]:
    """Give columns that cannot be written, as those that Arrow lends are: one type for each, so one compilation."""
    seen = tuple(column.view() for column in columns)
    for column in seen:
        column.flags.writeable = False
    return seen


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Give a column in one piece, without a copy if it is."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def read_kinds(columns: Columns) -> Ints:
    """Give the kind of row that each event becomes (`encoder.encode`)."""
    names = columns.codes("event_name")[1]
    kinds = columns.mapped("event_name", {name: shape.kind for name, shape in encoder.SHAPES.items()})
    for name in names:
        lacking = (
            [need for need in encoder.SHAPES[name].needs if not columns.is_full(need)] if name in encoder.SHAPES else []
        )
        if lacking:
            whole = np.logical_and.reduce([columns.valid(need) for need in lacking])
            kinds[columns.mapped("event_name", {name: 1}).astype(bool) & ~whole] = encoder.NOTHING
    if c.ORDER in names:
        orders = columns.mapped("event_name", {c.ORDER: 1}).astype(bool)
        kinds[orders & columns.valid("sequence_id")] = encoder.NOTHING
    if c.BET in names:
        kinds[(kinds == encoder.BET) & (columns.mapped("sidebet_type", {"placed": 1}) == 0)] = encoder.NOTHING
    return kinds


def read_present(result: Columns, kinds: Ints) -> Ints:
    """Give which groups of columns each row has."""
    payload = np.zeros(len(result), np.int64)
    allowed: dict[str, list[int]] = {}
    for shape in encoder.SHAPES.values():
        for group in shape.groups:
            allowed.setdefault(group, []).append(shape.kind)
    one = kinds[0] if len(kinds) and (kinds == kinds[0]).all() else None
    everywhere = 0
    for group, columns in encoder._GROUPS.items():
        if not all(result.has(name) for name in columns):
            continue
        lacking = [name for name in columns if not result.is_full(name)]
        if one is not None and not lacking:
            everywhere |= encoder._BITS[group] if one in allowed[group] else 0
            continue
        there = np.logical_and.reduce([result.valid(name) for name in lacking or columns])
        payload[there & np.isin(kinds, allowed[group])] |= encoder._BITS[group]
    return payload | everywhere


def read_rows(columns: Columns, hashes: Floats) -> Records:
    """Give events as rows of `encoder.ROW`."""
    kinds = read_kinds(columns)
    rows = np.zeros(len(columns), encoder.ROW)
    rows["kind"], rows["present"], rows["id_hash"] = kinds, read_present(columns, kinds), hashes
    for name in encoder._COLUMNS:
        if columns.has(name):
            rows[name] = columns.numbers(name, encoder.ROW[name])
    side = columns.mapped("trade_type", {"buy": 1, "sell": 2})
    rows["is_buy"] = side == 1
    rows["is_counted"] = (side > 0) & (columns.mapped("coin", {COIN: 1}, 0).astype(bool) | ~columns.valid("coin"))
    rows["is_forced"] = columns.numbers("forced", np.bool_) if columns.has("forced") else 0
    rows["is_action"] = _buttons(columns, {name: kind == "action" for name, kind in CATEGORIES.items()})
    indices, texts = columns.codes("trade_id")
    if (kinds == encoder.ACK).any():
        rows["trade_hash"] = np.array([*(encoder._hash(text) for text in texts), encoder._hash("")])[indices]
    return rows


def _buttons(columns: Columns, table: Mapping[str, int], missing: int = 0) -> Ints:
    """Give the button pressed, or else the order sent, as the number of a table."""
    pressed = columns.mapped("button_id", table, missing)
    return np.where(columns.valid("button_id"), pressed, columns.mapped("order_kind", table, missing))


def read_own_kinds(columns: Columns) -> Ints:
    """Give what each own event means for the ledger (`CrashLedger.hear`)."""
    names = columns.mapped("event_name", {c.PRESS: 1, c.ORDER: 2, c.ACK: 3, c.PLAYER: 4})
    kinds = np.full(len(columns), OWN_OTHER, np.int64)
    action = columns.mapped("button_category", {"action": 1}) == 1
    kinds[names == 1] = np.where(action, OWN_PRESS_ACTION, OWN_PRESS)[names == 1]
    kinds[names == 2] = np.where(columns.mapped("order_kind", {"TOP_UP": 1}) == 1, OWN_TOP_UP, OWN_ORDER)[names == 2]
    refused = columns.valid("success") & (columns.numbers("success", np.bool_) == 0)
    kinds[names == 3] = np.where(refused, OWN_REFUSED, OWN_ACK)[names == 3]
    kinds[names == 4] = OWN_PLAYER
    return kinds


def read_actions(columns: Columns, actions: str) -> Ints:
    """Give each event's choice as an index for each head, -1 in the first if it is none (`ActionSet.recorded`)."""
    heads = len(ACTIONS[actions].heads)
    taken = np.zeros((len(columns), heads), np.int64)
    names = columns.mapped("event_name", {c.PRESS: 1, c.ORDER: 2})
    alone = (names == 2) & ~columns.valid("sequence_id")
    chooses = (names == 1) | alone
    order = _buttons(columns, {name: MAIN.index(name) for name in ORDERS})
    share = np.where(
        alone, columns.numbers("order_share", fill=FULL_SHARE), columns.numbers("sell_share", fill=FULL_SHARE)
    )
    if actions == "trader":
        main = np.array([0, *(TRADER_MAIN.index(name) for name in ("BUY_MAIN", "SELL_MAIN", "BUY_SIDE"))])[order]
        partial_sell = (order == MAIN.index("SELL")) & (share < FULL_SHARE)
        amount = np.where(
            columns.valid("bet_amount"), columns.numbers("bet_amount"), columns.numbers("order_amount", fill=-1)
        )
        amount = np.where(amount < 0, SIZES[0], amount)
        taken[:, 0] = np.where(partial_sell, TRADER_MAIN.index("PARTIAL_SELL"), main)
        taken[:, 1] = np.where(partial_sell, 0, _nearest(SIZES, amount))
        taken[:, 2] = np.where(partial_sell, _nearest(TENTHS, share), 0)
        chooses &= order > 0
    else:
        adjust = _buttons(columns, {name: BETS.index(name) for name in ADJUSTMENTS})
        percent = _buttons(columns, {name: SHARES.index(name) for name in PERCENTAGES})
        taken[:, 0], taken[:, 1] = order, adjust
        if actions == "buttons-share":
            sold = alone & (order == MAIN.index("SELL"))
            taken[:, 2] = np.where(sold, 1 + _nearest(tuple(PERCENTAGES.values()), share), percent)
        chooses &= (order > 0) | (adjust > 0) | (percent > 0)
    taken[~chooses] = 0
    taken[~chooses, 0] = -1
    return taken


def _nearest(choices: Sequence[int], wanted: Ints) -> Ints:
    return np.asarray(np.abs(np.asarray(choices, np.int64)[:, None] - wanted[None, :]).argmin(axis=0))


@dataclass(frozen=True)
class SessionEvents:
    """One session's events, ready for the compiled pass."""

    session_id: str
    player_id: str | None
    ticks: Columns
    others: Columns
    windows: tuple[str, ...]
    tick_windows: Ints
    other_windows: Ints


def read_session(tables: Mapping[str, pa.Table]) -> SessionEvents:
    """Bring a session's tables into the order of the recording: ticks, and everything else."""
    ticks = _ordered([tables[TICKS]] if TICKS in tables else [], next(iter(tables.values())))
    others = _ordered([table for name, table in tables.items() if name != TICKS], next(iter(tables.values())))
    coded = (ticks.codes("window_id"), others.codes("window_id"))
    windows = {text: index for index, text in enumerate(dict.fromkeys(text for _, texts in coded for text in texts))}
    players = sorted({text for result in (ticks, others) for text in result.codes("player_id")[1]})
    session_id = (ticks if len(ticks) else others).codes("session_id")[1][0]
    if len(players) > 1:
        raise InputError(f"expected one player in session {session_id}, found {', '.join(players)}")
    return SessionEvents(
        session_id=session_id,
        player_id=players[0] if players else None,
        ticks=ticks,
        others=others,
        windows=tuple(windows),
        tick_windows=_renumbered(*coded[0], windows),
        other_windows=_renumbered(*coded[1], windows),
    )


def _renumbered(indices: Ints, texts: Sequence[str], numbers: Mapping[str, int]) -> Ints:
    """Give texts by their numbers, -1 where there is none."""
    return np.array([*(numbers[text] for text in texts), -1], np.int64)[indices]


def _ordered(tables: Sequence[pa.Table], shape: pa.Table) -> Columns:
    table = tables[0] if len(tables) == 1 else shape.slice(0, 0)
    if len(tables) > 1:
        table = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
    seqs = table["seq"].combine_chunks().to_numpy(zero_copy_only=False)
    if len(seqs) > 1 and (np.diff(seqs) <= 0).any():
        table = table.take(pa.array(np.argsort(seqs, kind="stable")))
    return Columns(table.combine_chunks())


def read_own_fields(others: Columns, own: Marks) -> Ints:
    """Give what the ledger reads of own events, a row for each of OWN_KIND to SETTLES."""
    alone = others.valid("sequence_id")
    choice_bet = np.where(
        others.valid("bet_amount"), others.numbers("bet_amount", fill=-1), others.numbers("order_amount", fill=-1)
    )
    choice_share = np.where(
        others.valid("sell_share"), others.numbers("sell_share", fill=-1), others.numbers("order_share", fill=-1)
    )
    settling = dict.fromkeys(encoder.SHAPES, 0)
    return np.stack(
        [
            read_own_kinds(others),
            choice_bet,
            choice_share,
            alone,
            others.numbers("cash", fill=-1),
            others.numbers("position_qty", fill=-1),
            others.numbers("avg_cost"),
            others.numbers("sidebet_stake", fill=-1),
            others.numbers("sidebet_end_tick"),
            np.where(
                others.mapped("sidebet_type", {"payout": 1}) * own == 1,
                others.mapped("event_name", settling | {c.BET: 1}, QUIET),
                others.mapped("event_name", settling | {c.PLAYER: 2}, QUIET),
            ),
        ]
    )


def read_ticks(session: SessionEvents, names: Ints, phases: Ints) -> TickColumns:
    """Give the ticks as the pass takes them."""
    ticks = session.ticks
    kinds = read_kinds(ticks)
    empty = np.zeros(0, np.int64)

    def shown(name: str, dtype: DTypeLike = np.int64) -> Array:
        return ticks.numbers(name, dtype) if ticks.has(name) else empty.astype(dtype)

    columns = TickColumns(
        seq=ticks.numbers("seq"),
        ts_us=ticks.times("ts"),
        window=session.tick_windows,
        name=names,
        kind=kinds,
        is_priced=ticks.valid("tick") & ticks.valid("price") & ticks.valid("game_phase"),
        tick=ticks.numbers("tick"),
        price=ticks.numbers("price", np.float64),
        phase=phases,
        timer_ms=shown("cooldown_timer_ms"),
        present=read_present(ticks, kinds),
        connected_players=shown("connected_players"),
        rugpool_amount=shown("rugpool_amount", np.float64),
        rugpool_threshold=shown("rugpool_threshold"),
        instarug_count=shown("instarug_count"),
        average_multiplier=shown("average_multiplier", np.float64),
        count_2x=shown("count_2x"),
        count_10x=shown("count_10x"),
        count_50x=shown("count_50x"),
        count_100x=shown("count_100x"),
        highest_today=shown("highest_today", np.float64),
        players_in_game=shown("players_in_game"),
        players_with_positions=shown("players_with_positions"),
        total_market_capital=shown("total_market_capital"),
    )
    return TickColumns(*read_only(*columns))


def read_others(session: SessionEvents, own: Marks, actions: Ints, hashes: Floats) -> OtherEvents:
    """Give the other events as the pass takes them."""
    others = session.others
    events = OtherEvents(
        seq=others.numbers("seq"),
        ts_us=others.times("ts"),
        window=session.other_windows,
        is_own=own,
        name=others.mapped("event_name", EVENT_CODES),
        rows=read_rows(others, hashes[session.other_windows]),
        actions=actions,
        own=read_own_fields(others, own),
    )
    return OtherEvents(*read_only(*events))


@dataclass(frozen=True)
class WindowSummary:
    """What is known of each window once all its ticks were read."""

    rug_tick: Ints
    rug_price: Floats
    peak: Floats
    is_whole: Marks
    is_rugged: Marks
    first_tick: Ints


def survey_windows(session: SessionEvents) -> WindowSummary:
    """Find where each window rugged, and whether every tick before it was received (`outcomes.read_outcome`)."""
    ticks, count = session.ticks, len(session.windows)
    known_tick = ticks.valid("tick")
    values = (ticks.numbers("tick"), ticks.numbers("price", np.float64), ticks.numbers("game_phase", fill=-1))
    priced = known_tick & ticks.valid("price")
    out = np.zeros(count, WINDOW)
    windows, known, within, number, price, phase = read_only(session.tick_windows, known_tick, priced, *values)
    survey(windows, known, within, number, price, phase, out)
    whole = (out["rug_tick"] >= 0) & (out["expected"] == out["rug_tick"]) & (out["odd"] == 0)
    for window in np.flatnonzero((out["odd"] != 0) & (out["rug_tick"] >= 0)).tolist():
        mine = (session.tick_windows == window) & priced & (values[2] == ACTIVE)
        prices = dict(zip(values[0][mine].tolist(), values[1][mine].tolist(), strict=True))
        rug_tick = int(out["rug_tick"][window])
        whole[window] = all(tick in prices for tick in range(rug_tick))
        if whole[window]:
            out["peak"][window] = max([prices[tick] for tick in range(rug_tick)], default=0.0)
    peak = np.maximum(out["peak"], out["rug_price"])
    return WindowSummary(out["rug_tick"], out["rug_price"], peak, whole, out["rugged"] != 0, out["first"])


def revealed(session: SessionEvents) -> list[dict[str, str | None]]:
    """Give what was published of each window's seed (`outcomes.read_outcome`)."""
    result: list[dict[str, str | None]] = [dict.fromkeys(_SEEDS) for _ in session.windows]
    others = session.others
    chosen = np.flatnonzero(others.mapped("event_name", {c.ROUND: 1, c.COMPLETE: 1}) * (session.other_windows >= 0))
    names = [name for name in _SEEDS if others.has(name)]
    if not len(chosen) or not names:
        return result
    table = others.table.select(names).take(pa.array(chosen))
    for window, row in zip(session.other_windows[chosen].tolist(), table.to_pylist(), strict=True):
        result[window] |= {name: value for name, value in row.items() if value is not None}
    return result
