"""The observation sets `market` and `trader` in the single environment.

After each step of the kernel the crowd's trades and the leaderboard of the tick are told to the
history (history), which then writes the observation.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from playproof._numba import compiler
from playproof.games.crash.features import history
from playproof.games.crash.features.state import ACTIVE, PRESALE, RUGGED
from playproof.games.crash.features.table import OBSERVATIONS, PAST_ROUNDS
from playproof.games.crash.rules.prices import MAX_TICKS
from playproof.games.crash.rules.worlds import get_world
from playproof.games.crash.server.messages import Deal
from playproof.games.crash.sim.arrays import Floats, Marks, Records, Rows
from playproof.games.crash.sim.crowd_feed import CrowdFeed, CrowdUpdate, OwnPosition, to_records
from playproof.games.crash.sim.lanes import SingleLane
from playproof.games.crash.sim.layout import F_ADVANCED
from playproof.games.crash.sim.prices_nb import counter_round

MARKET, TRADER = range(2)
KINDS = {"market": MARKET, "trader": TRADER}

compiled = compiler(__file__)


@compiled
def sit_down(histories: Records) -> None:
    """Begin the player's session."""
    history.start_session(histories[0])


@compiled
def recall(histories: Records, world: int, lanes: Records, prices: Floats) -> None:
    """Take the rounds before the one that comes next, as a site shows them to who joins."""
    lane = lanes[0]
    for number in range(lane.round + 1 - PAST_ROUNDS, lane.round + 1):
        last, rugged = counter_round(world, lane.seed, number, prices)
        history.apply_past_round(histories[0], prices[last], last, prices[: last + (not rugged)].max())


@compiled
def hear(histories: Records, states: Records, lanes: Records, players: int, holders: int, capital: int) -> None:
    """Take what the message of a tick said, and what it settled."""
    h, s, lane = histories[0], states[0], lanes[0]
    if s.phase == PRESALE:
        history.apply_round(h, s)
    history.apply_leaderboard(h, players, holders, capital)
    history.apply_tick(h, s)
    if s.phase == RUGGED:
        history.apply_rug(h, s, lane.peak)
        history.apply_session_result(h, lane.equity - lane.round_cash, lane.invested > 0)


@compiled
def look(
    histories: Records, states: Records, lanes: Records, lots: Records, kind: int, out: Rows, missing: Marks
) -> None:
    """Take the player's lots and sidebet, and write the observation and what of it is unknown."""
    h, s, lane = histories[0], states[0], lanes[0]
    history.apply_lots(h, lots[0], lane.lot_head, lane.lot_count)
    history.apply_sidebet(h, lane.side_stake, lane.side_end)
    if kind == MARKET:
        history.observe_market(h, s, out, 0)
        history.missing_market(h, s, missing, 0)
    else:
        history.observe_trader(h, s, out, 0)
        history.missing_trader(h, s, missing, 0)


class CrowdObserver:
    """Follow one lane and write its observations."""

    def __init__(self, table: SingleLane, observation: str) -> None:
        self._table = table
        self._kind = KINDS[observation]
        self._names = OBSERVATIONS[observation].features
        self._payout: Fraction = get_world(table.settings.world).payout
        self._histories = history.new_history(1)
        self._row = np.zeros((1, len(self._names)), np.float32)
        self._mask = np.zeros((1, len(self._names)), np.bool_)
        self._feed: CrowdFeed | None = None
        self._heard: tuple[Deal, ...] = ()
        """Trades that follow the message of the tick: known from the next observation on."""

    def seed(self) -> None:
        """Forget everything, and recall the last rounds of a lane that has just been keyed."""
        self._histories = history.new_history(1)
        self._heard = ()
        if self._table.settings.tape is None:
            code = get_world(self._table.settings.world).code
            recall(self._histories, code, self._table.lanes, np.empty(MAX_TICKS + 1))

    def start(self) -> Rows:
        """Begin an episode at its first presale; give the observation."""
        sit_down(self._histories)
        self._hear()
        return self._look()

    def follow(self, flags: int) -> Rows:
        """Follow one step of the kernel; give the observation."""
        if flags & F_ADVANCED:
            self._hear()
        return self._look()

    def missing(self) -> tuple[str, ...]:
        """Name the features that hold their fill value."""
        return tuple(name for name, unknown in zip(self._names, self._mask[0].tolist(), strict=True) if unknown)

    def _hear(self) -> None:
        if self._heard:
            history.apply_trades(self._histories, 0, to_records(self._heard))
        payload = self._told()
        figures = payload.figures
        tables = (self._histories, self._table.states, self._table.lanes)
        hear(*tables, figures.players_in_game, figures.players_with_positions, figures.total_capital)
        self._heard = payload.trades

    def _told(self) -> CrowdUpdate:
        lane = self._table.lanes[0]
        phase, tick, price = int(lane["phase"]), int(lane["tick"]), float(lane["price"])
        if phase == PRESALE or self._feed is None:
            self._feed = CrowdFeed(int(lane["seed"]), int(lane["round"]), self._payout)
            return self._feed.presale()
        own = None
        if lane["invested"] > 0:
            pnl = int(lane["equity"] + lane["side_stake"] - lane["round_cash"])
            own = OwnPosition(pnl, int(lane["invested"]), int(lane["qty"]))
        return self._feed.at(tick, price, own) if phase == ACTIVE else self._feed.rug(tick, price, own)

    def _look(self) -> Rows:
        table = self._table
        look(self._histories, table.states, table.lanes, table.lots, self._kind, self._row, self._mask)
        row: Rows = self._row[0].copy()
        return row
