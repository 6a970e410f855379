"""Lay whole recorded sessions of the crash game out at once: the compiled way from stored columns to a data set's rows.

The same values as event by event (`episodes.segment` over encoder and player_ledger), the slow, obvious twin: ticks
are read from their columns as they are stored, everything else from rows of `encoder.ROW`, both are merged by seq, and
one compiled pass folds, keeps the player's money and writes what was seen at each step.
Leaves out: reading parts (datasets), the features (features) and the rules of money (sim.orders).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike

from playproof.errors import InputError
from playproof.game import Reward
from playproof.game.episode_columns import (
    NEVER,
    BuildRequest,
    ColumnarSession,
    EpisodeColumns,
    EpisodeEntry,
    SkippedWindow,
)
from playproof.game.rewards import ComposedReward
from playproof.games.crash.features import encoder
from playproof.games.crash.features import table as features
from playproof.games.crash.features.state import ACTIVE, PRESALE
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.alignment import name_lack
from playproof.games.crash.recording.columnar_pass import (
    BLOCK,
    WALK,
    WINDOW,
    OtherEvents,
    RowColumns,
    StepColumns,
    TickColumns,
    fill_unknown,
    segmented,
    survey,
    walk,
)
from playproof.games.crash.recording.compiled_ledger import (
    FLOAT_FACTS,
    INT_FACTS,
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
from playproof.games.crash.recording.synthetic_sessions import deal_session
from playproof.games.crash.rewards.terms import to_facts
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
from playproof.games.crash.rules.money import MIN_BET
from playproof.games.crash.rules.prices import id_hash
from playproof.games.crash.server.protocol import COIN
from playproof.games.crash.sim.arrays import Array, Floats, Ints, Marks, Records
from playproof.games.crash.sim.lanes import CrashConfig
from playproof.games.crash.sim.layout import LANE, LOTS
from playproof.money import UNIT

TICKS = "game_tick"
WORLD_TYPES = ("game_tick", "server_state", "complete_game", "system_event", "gap")
OWN_TYPES = ("button_event", "player_action")
TRADE_TYPES = ("ws_event",)
_TEXTS = (
    *("button_id", "button_category", "order_kind", "trade_type", "coin", "sidebet_type", "trade_id"),
    *("server_seed", "server_seed_hash", "game_version"),
)
_FLAGS = ("forced", "sequence_id", "order_amount", "order_share", "sell_share", "ended_by_rug")
_SEEDS = ("server_seed", "server_seed_hash", "game_version")
_NAMES = {c.TICK: 1, c.LATE_TICK: 2, c.ROUND: 3}


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


def lay(tables: Mapping[str, pa.Table], ask: BuildRequest) -> EpisodeColumns:
    """Lay one session out: its events by doc_type."""
    session = read_session(tables)
    whole = survey_windows(session)
    walked = SessionPass(session, whole, ask)
    return walked.laid()


class SessionPass:
    """One compiled pass through one session."""

    def __init__(self, session: SessionEvents, whole: WindowSummary, ask: BuildRequest) -> None:
        self.session, self.whole, self.ask = session, whole, ask
        ticks, others, count = session.ticks, session.others, len(session.windows)
        phases = ticks.numbers("game_phase", fill=-1)
        is_tick = ticks.mapped("event_name", _NAMES)
        own = others.valid("player_id")
        actions = read_actions(others, ask.actions)
        actions[~own, 0] = -1
        decisions = int(((is_tick == 1) & ((phases == PRESALE) | (phases == ACTIVE))).sum())
        steps = 2 + decisions + int((actions[:, 0] >= 0).sum())  # two more: one row alone has another type
        rows = steps + count
        width = len(features.OBSERVATIONS[ask.observation].features)
        heads = len(ACTIONS[ask.actions].heads)
        self.out = np.empty((width, rows), np.float32)
        self.missing = np.empty((0 if ask.observation in encoder.LIGHT else width, rows), np.bool_)
        self.known = np.empty(rows, np.int64)
        self.ints = np.empty((len(INT_FACTS), rows), np.int64)
        self.floats = np.empty((len(FLOAT_FACTS), rows), np.float64)
        self.actions = np.empty((heads, steps), np.int16)
        self.substeps = np.empty(steps, np.int16)
        self.effects = np.empty(steps, np.bool_)
        self.age_ticks = np.empty(steps, np.int32)
        self.age_us = np.empty(steps, np.int64)
        self.labels = np.empty(steps, np.float64)
        self.windows = np.zeros(count, WINDOW)
        self.windows["rug_tick"] = np.where(whole.is_whole, whole.rug_tick, -1)
        self.windows["include"] = whole.is_whole | ask.include_incomplete
        self.order = np.full(count, -1, np.int64)
        self._run(phases, is_tick, own, actions)

    def _run(self, phases: Ints, is_tick: Ints, own: Marks, actions: Ints) -> None:
        session, ask = self.session, self.ask
        ticks, others = session.ticks, session.others
        hashes = np.array([*map(id_hash, session.windows), id_hash("")])
        kinds = read_kinds(ticks)
        empty = np.zeros(0, np.int64)

        def shown(name: str, dtype: DTypeLike = np.int64) -> Array:
            return ticks.numbers(name, dtype) if ticks.has(name) else empty.astype(dtype)

        state = encoder.ObservationState()
        lane, lots = self._seat()
        config = CrashConfig(world=ask.world or "published", actions=ask.actions).to_record(1)  # type: ignore[arg-type]
        walked = np.zeros(1, WALK)
        walked["window"], walked["min_ticks"], walked["player"] = -1, ask.min_ticks, session.player_id is not None
        alone = others.valid("sequence_id")
        choice_bet = np.where(
            others.valid("bet_amount"), others.numbers("bet_amount", fill=-1), others.numbers("order_amount", fill=-1)
        )
        choice_share = np.where(
            others.valid("sell_share"), others.numbers("sell_share", fill=-1), others.numbers("order_share", fill=-1)
        )
        settling = dict.fromkeys(encoder.SHAPES, 0)
        own_fields = np.stack(
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
        tick_columns = TickColumns(
            seq=ticks.numbers("seq"),
            ts_us=ticks.times("ts"),
            window=session.tick_windows,
            name=is_tick,
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
        other_events = OtherEvents(
            seq=others.numbers("seq"),
            ts_us=others.times("ts"),
            window=session.other_windows,
            is_own=own,
            name=others.mapped("event_name", _NAMES),
            rows=read_rows(others, hashes[session.other_windows]),
            actions=actions,
            own=own_fields,
        )
        block = np.empty((len(self.out), BLOCK), np.float32).T
        self.count = walk(
            (state.states, state.histories, state.books, state.lots),
            (lane, lots, config),
            walked,
            self.windows,
            hashes,
            TickColumns(*read_only(*tick_columns)),
            OtherEvents(*read_only(*other_events)),
            encoder.SETS.index(ask.observation),
            ask.observation not in encoder.LIGHT,
            RowColumns(self.out.T, self.missing.T, self.ints, self.floats, self.known, block),
            StepColumns(self.actions.T, self.substeps, self.effects, self.age_ticks, self.age_us, self.labels),
            self.order,
            np.zeros(1, encoder.ROW),
        )
        self.walked = walked[0]

    def _seat(self) -> tuple[Records, Records]:
        """Give the player's money as he was first heard of."""
        others = self.session.others
        payload = others.numbers("cash", fill=-1)[(others.mapped("event_name", {c.PLAYER: 1}) == 1)]
        first = payload[payload >= 0]
        lane, lots = np.zeros(1, LANE), np.zeros(1, LOTS)
        lane["cash"] = lane["round_cash"] = lane["granted"] = lane["equity"] = int(first[0]) if len(first) else UNIT
        lane["bet"], lane["share"], lane["price"], lane["low"], lane["peak"] = MIN_BET, FULL_SHARE, 1.0, 1.0, 1.0
        return lane, lots

    def laid(self) -> EpisodeColumns:
        """Give what was written."""
        steps, rows = int(self.walked["step"]), int(self.walked["row"])
        opened = self.order[: self.count]
        reasons = self.windows["reason"][opened]
        kept = opened[reasons == 0].tolist()
        names = INT_FACTS if self.ask.actions != "trader" else (*INT_FACTS[:-2], "skips")
        facts = {name: self._fact(index, rows) for index, name in enumerate(INT_FACTS) if name in names}
        facts |= {name: self.floats[index, :rows] for index, name in enumerate(FLOAT_FACTS)}
        if "skips" in names:
            facts["skips"] = np.zeros(rows, np.int64)
        return EpisodeColumns(
            session_id=self.session.session_id,
            features=features.OBSERVATIONS[self.ask.observation].features,
            entries=tuple(self._entries(kept)),
            observations=self.out[:, :rows],
            missing=tuple(self._missing(rows)),
            standings=facts,
            actions=self._choices(self.actions, 0, steps),
            substeps=self._choices(self.substeps, 0, steps),
            effects=self._choices(self.effects, 0, steps),
            age_ticks=self._choices(self.age_ticks, NEVER, steps),
            age_us=self._choices(self.age_us, NEVER, steps),
            labels={"rug_within_40": self.labels[:steps]},
            left_out=tuple(map(self._left_out, opened[reasons != 0].tolist())),
        )

    def _missing(self, rows: int) -> Iterator[Marks]:
        """Tell for each feature the rows in which it is unknown; its fill value is written there (`encoder.look`)."""
        if self.ask.observation not in encoder.LIGHT:
            yield from self.missing[:, :rows]
            return
        bits = self.known[:rows]
        always, ever = np.bitwise_and.reduce(bits), np.bitwise_or.reduce(bits)
        needs, fills = features.NEEDS[self.ask.observation], features.FILLS[self.ask.observation]
        for index, (need, fill) in enumerate(zip(needs, fills, strict=True)):
            if need & ~ever or not need & ~always:
                yield np.broadcast_to(np.bool_(need & ~ever), rows)
                if need & ~ever:
                    self.out[index, :rows] = fill
            else:
                missing = np.empty(rows, np.bool_)
                fill_unknown(bits, need, np.float32(fill), self.out[index], missing)
                yield missing

    def _choices(self, column: Array, waiting: int, steps: int) -> Array:
        """Give what is known of a player's choices; a spectator only waits."""
        if self.session.player_id is not None:
            return column[..., :steps]
        return np.broadcast_to(column.dtype.type(waiting), (*column.shape[:-1], steps))

    def _fact(self, index: int, rows: int) -> Array:
        """Give a fact of the ledger; a spectator's never changes, but for tick and phase."""
        name = INT_FACTS[index]
        if self.session.player_id is not None or name in ("tick", "phase"):
            return self.ints[index, :rows]
        held = {"cash": UNIT, "equity": UNIT, "bet_amount": MIN_BET, "sell_share": FULL_SHARE}.get(name, 0)
        return np.broadcast_to(np.int64(held), rows)

    def _entries(self, kept: Sequence[int]) -> Iterator[EpisodeEntry]:
        """Describe the episodes of some windows."""
        seeds, windows, whole = revealed(self.session), self.windows[kept], self.whole
        columns = (windows["start_us"], windows["steps"], windows["corrected"], windows["late"])
        outcomes = (whole.is_whole[kept], whole.rug_tick[kept], whole.rug_price[kept], whole.peak[kept])
        for window, start, steps, corrected, late, is_whole, rug_tick, rug_price, peak in zip(
            kept, *(column.tolist() for column in (*columns, *outcomes)), strict=True
        ):
            lack = None if is_whole else name_lack(*self._lack(window))
            outcome = {"rug_tick": rug_tick, "rug_price": rug_price, "peak": peak, "ended_by_rug": True}
            yield EpisodeEntry(
                window_id=self.session.windows[window],
                player_id=self.session.player_id,
                start_us=start,
                steps=steps,
                end="terminated" if lack is None or lack.ended else "truncated",
                lack=lack,
                corrected=corrected,
                late=late,
                outcome=outcome | seeds[window] if is_whole else None,
            )

    def _lack(self, window: int) -> tuple[bool, int | None]:
        first = int(self.whole.first_tick[window])
        return bool(self.whole.is_rugged[window]), None if first < 0 else first

    def _left_out(self, window: int) -> SkippedWindow:
        record = self.windows[window]
        reasons = {
            1: "" if self.whole.is_whole[window] else name_lack(*self._lack(window)).reason,
            2: f"{record['strays']} choices came before the first decision point",
            3: "there is no decision point",
            4: f"it has {record['decided']} decision points, less than {self.ask.min_ticks}",
        }
        return SkippedWindow(self.session.session_id, self.session.windows[window], reasons[int(record["reason"])])


def pay(laid: EpisodeColumns, reward: Reward) -> dict[str, Array] | None:
    """Give what a reward's components pay for all steps at once; None if it takes only records of steps."""
    if not isinstance(reward, ComposedReward):
        return None
    lengths = laid.lengths
    before, after = _Side(laid.before), _Side(laid.after)
    ended = np.zeros(len(laid.substeps), np.bool_)
    ended[np.cumsum(lengths) - 1] = [entry.end == "terminated" for entry in laid.entries]
    more = {
        "main": laid.actions[0].astype(np.int64),
        "effect": laid.effects,
        "terminated": ended,
        "lowest": partial(_so_far, before, lengths, "lowest"),
        "highest": partial(_so_far, before, lengths, "highest"),
        "held": partial(_so_far, before, lengths, "held"),
    }
    return reward.pay(to_facts(before, after, more))


class _Side(dict[str, Array]):
    """What stood before, or after, each step; read when asked for."""

    def __init__(self, read: Callable[[str], Array]) -> None:
        self._read = read

    def __missing__(self, name: str) -> Array:
        self[name] = result = self._read(name)
        return result


def _so_far(before: _Side, lengths: Ints, what: str) -> Ints:
    """Give what is remembered within an episode (`reward_components.lay_out`)."""
    out = np.zeros(len(before["equity"]), np.int64)
    code = ("lowest", "highest", "held").index(what)
    segmented(before["equity"], before["sidebet_stake"], before["qty"], before["tick"], lengths, code, out)
    return out


COLUMNAR = ColumnarSession(
    columns=tuple(
        dict.fromkeys(
            [
                *(name for name in encoder._COLUMNS),
                *(name for group in encoder._GROUPS.values() for name in group),
                *("tick", "price", "game_phase", "cooldown_timer_ms"),
                *_TEXTS,
                *_FLAGS,
            ]
        )
    ),
    doc_types=doc_types,
    lay=lay,
    pay=pay,
    deal=deal_session,
)
