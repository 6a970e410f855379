"""Lay whole recorded sessions of the crash game out at once: the compiled way from stored columns to a data set's rows.

The same values as event by event (datasets.segment over encoder and player_ledger), the slow, obvious twin: ticks
are read from their columns as they are stored, everything else from rows of `encoder.ROW`, both are merged by seq, and
one compiled pass folds, keeps the player's money and writes what was seen at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from playproof.game import Reward, lookup
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
from playproof.games.crash.features.state import ACTIVE, PRESALE, id_hash
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.alignment import name_lack
from playproof.games.crash.recording.columnar_pass import (
    BLOCK,
    WALK,
    WINDOW,
    RowColumns,
    StepColumns,
    fill_unknown,
    segmented,
    walk,
)
from playproof.games.crash.recording.compiled_ledger import FLOAT_FACTS, INT_FACTS
from playproof.games.crash.recording.session_columns import (
    EVENT_CODES,
    FLAG_COLUMNS,
    TEXT_COLUMNS,
    SessionEvents,
    WindowSummary,
    doc_types,
    read_actions,
    read_others,
    read_session,
    read_ticks,
    revealed,
    survey_windows,
)
from playproof.games.crash.recording.synthetic_sessions import deal_session
from playproof.games.crash.rewards.terms import to_facts
from playproof.games.crash.rules.actions import ACTIONS, FULL_SHARE
from playproof.games.crash.rules.money import MAX_MONEY, MIN_BET
from playproof.games.crash.rules.worlds import WORLDS
from playproof.games.crash.sim.arrays import Array, Ints, Marks, Records
from playproof.games.crash.sim.layout import ACTION_CODES, CONFIG, LANE, LOTS
from playproof.money import UNIT


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
        is_tick = ticks.mapped("event_name", EVENT_CODES)
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

    def _run(self, phases: Ints, names: Ints, own: Marks, actions: Ints) -> None:
        session, ask = self.session, self.ask
        hashes = np.array([*map(id_hash, session.windows), id_hash("")])
        state = encoder.ObservationState()
        lane, lots = self._seat()
        world = lookup(WORLDS, ask.world or next(iter(WORLDS)), "world")
        config = np.zeros(1, CONFIG)
        config["world"], config["actions"] = world.code, ACTION_CODES[ask.actions]
        config["payout_numerator"], config["payout_denominator"] = world.payout.numerator, world.payout.denominator
        config["open_cost"] = MAX_MONEY if world.open_cost is None else world.open_cost
        config["stake"] = -1  # a person is not bound to a reserved stake
        walked = np.zeros(1, WALK)
        walked["window"], walked["min_ticks"], walked["player"] = -1, ask.min_ticks, session.player_id is not None
        block = np.empty((len(self.out), BLOCK), np.float32).T
        self.count = walk(
            (state.states, state.histories, state.books, state.lots),
            (lane, lots, config),
            walked,
            self.windows,
            hashes,
            read_ticks(session, names, phases),
            read_others(session, own, actions, hashes),
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
                *TEXT_COLUMNS,
                *FLAG_COLUMNS,
            ]
        )
    ),
    doc_types=doc_types,
    lay=lay,
    pay=pay,
    deal=deal_session,
)
