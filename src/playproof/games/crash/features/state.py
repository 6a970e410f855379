"""The one fold of the crash game: what a player knows, event by event, and the numbers made of it.

`apply_*` take one event each into a state record, `observe` writes the features. The environment's
kernel, the live builder and the batch builder all call these functions, so their features are
the same bits. Leaves out: decoding messages, and the histories of the sets `market` and `trader`
(see `history`).

Money comes in as integers of 10^-9. Knowledge is carried forward, never interpolated: a value
stands until the feed tells another. What the feed has not told is not known (`known` bits), and
then the feature holds the fill value of the feature table.
"""

from __future__ import annotations

import hashlib

import numpy as np

from playproof._numba import compiler
from playproof.games.crash.sim.arrays import Record, Records, Rows

inlined = compiler(__file__, inline=True)


COOLDOWN, PRESALE, ACTIVE, RUGGED = range(4)
"""Phases of a round."""

STATE = np.dtype(
    [
        ("price", "f8"),
        ("velocity", "f8"),
        ("acceleration", "f8"),
        ("cash", "i8"),
        ("qty", "i8"),
        ("avg_cost", "i8"),
        ("pnl", "i8"),
        ("invested", "i8"),
        ("bet", "i8"),
        ("tick", "i4"),
        ("timer_ms", "i4"),
        ("entry_tick", "i4"),
        ("action_tick", "i4"),
        ("phase", "i1"),
        ("presale", "i1"),
        ("active", "i1"),
        ("rugged", "i1"),
        ("known", "i4"),
        ("context", "f4", (12,)),  # connected players, id hash, rugpool 3 + ratio, session 6
        ("execution_price", "f8"),
        ("execution_client_ms", "f8"),
        ("execution_tick", "i4"),
        ("execution_latency_ms", "f4"),
        ("execution_trade", "f4"),
    ],
    align=True,
)

CONNECTED, ID_HASH, RUGPOOL, RATIO, SESSION = 0, 1, 2, 5, 6
"""Places in `context`: rugpool is amount, threshold, count; session is the mean, four counts, the day's highest."""

K_TICK, K_PLAYER, K_ROUND, K_RUGPOOL, K_SESSION, K_HIGHEST, K_EXECUTION, K_CLIENT, K_VELOCITY, K_ACCELERATION = (
    1 << bit for bit in range(10)
)
K_BET, K_TIMER = 1 << 10, 1 << 11
"""Bits of `known`."""

FEATURE_COUNT = 37
POLICY_COUNT = 31


def new_state(count: int = 1) -> Records:
    """Give states that know nothing yet."""
    states = np.zeros(count, STATE)
    states["price"] = 1.0
    return states


@inlined
def apply_seat(s: Record) -> None:
    """Seat a new player, who has executed nothing yet."""
    s.execution_tick = 0
    s.execution_price = 0.0
    s.execution_trade = 0.0
    s.execution_client_ms = 0.0
    s.execution_latency_ms = 0.0
    s.known &= ~(K_EXECUTION | K_CLIENT | K_PLAYER | K_BET)


@inlined
def apply_round(s: Record, id_hash: float) -> None:
    """Begin a round: the price is 1 at tick 0, nothing is active, no position is held."""
    s.price = 1.0
    s.velocity = 0.0
    s.acceleration = 0.0
    s.tick = 0
    s.timer_ms = 0
    s.phase = COOLDOWN
    s.presale = 0
    s.active = 0
    s.rugged = 0
    s.entry_tick = 0
    s.action_tick = 0
    s.context[ID_HASH] = id_hash
    s.known = (s.known | K_ROUND | K_VELOCITY | K_ACCELERATION) & ~(K_TICK | K_TIMER)


@inlined
def apply_connected(s: Record, players: float) -> None:
    """Take the number of connected players."""
    s.context[CONNECTED] = players


@inlined
def apply_rugpool(s: Record, amount: float, threshold: float, instarugs: float) -> None:
    """Take the rugpool as it is shown."""
    s.context[RUGPOOL] = amount
    s.context[RUGPOOL + 1] = threshold
    s.context[RUGPOOL + 2] = instarugs
    s.context[RATIO] = amount / threshold if threshold > 0.0 else 0.0
    s.known |= K_RUGPOOL


@inlined
def apply_session(s: Record, mean: float, over_2: float, over_10: float, over_50: float, over_100: float) -> None:
    """Take the statistics of the last 100 rounds."""
    s.context[SESSION] = mean
    s.context[SESSION + 1] = over_2
    s.context[SESSION + 2] = over_10
    s.context[SESSION + 3] = over_50
    s.context[SESSION + 4] = over_100
    s.known |= K_SESSION


@inlined
def apply_highest(s: Record, highest: float) -> None:
    """Take the highest multiplier of the day."""
    s.context[SESSION + 5] = highest
    s.known |= K_HIGHEST


@inlined
def apply_tick(s: Record, tick: int, price: float, timer_ms: int, phase: int) -> None:
    """Take a tick, its timer below 0 where it was not told; a repeated one changes nothing that depends on time."""
    if phase == ACTIVE or phase == RUGGED:
        if tick == s.tick + 1:
            velocity = price - s.price
            if (s.known & K_VELOCITY) != 0:
                s.acceleration = velocity - s.velocity
                s.known |= K_ACCELERATION
            s.velocity = velocity
            s.known |= K_VELOCITY
        elif tick != s.tick:
            s.velocity = 0.0
            s.acceleration = 0.0
            s.known &= ~(K_VELOCITY | K_ACCELERATION)
    s.tick = tick
    s.price = price
    s.timer_ms = max(0, timer_ms)
    s.phase = phase
    s.presale = phase == PRESALE
    s.active = phase >= ACTIVE
    s.rugged = phase == RUGGED
    s.known = (s.known | K_TICK | K_TIMER) if timer_ms >= 0 else (s.known | K_TICK) & ~K_TIMER


@inlined
def apply_player(s: Record, cash: int, qty: int, avg_cost: int, pnl: int, invested: int) -> None:
    """Take the player's own state; it belongs to the last tick seen."""
    if s.qty == 0 and qty > 0:
        s.entry_tick = s.tick
    s.cash = cash
    s.qty = qty
    s.avg_cost = avg_cost
    s.pnl = pnl
    s.invested = invested
    s.known |= K_PLAYER


@inlined
def apply_bet(s: Record, bet: int) -> None:
    """Take the amount that stands in the bet field."""
    s.bet = bet
    s.known |= K_BET


@inlined
def apply_press(s: Record) -> None:
    """Take the press of an action button (BUY, SELL, SIDEBET)."""
    s.action_tick = s.tick


@inlined
def apply_execution(s: Record, tick: int, price: float) -> None:
    """Take a completed execution of an own order."""
    s.execution_tick = tick
    s.execution_price = price
    s.execution_trade = 0.0
    s.execution_client_ms = 0.0
    s.execution_latency_ms = 0.0
    s.known = (s.known | K_EXECUTION) & ~K_CLIENT


@inlined
def apply_client(s: Record, trade: float, client_ms: float, latency_ms: float) -> None:
    """Take what only a recording knows of the last execution."""
    s.execution_trade = trade
    s.execution_client_ms = client_ms
    s.execution_latency_ms = latency_ms
    s.known |= K_CLIENT


@inlined
def observe_policy(s: Record, out: Rows, row: int) -> None:
    """Write the 31 features of the set `policy` into a row of `out`."""
    price = s.price
    qty = float(s.qty) / 1e9
    avg = float(s.avg_cost) / 1e9
    cash = float(s.cash) / 1e9
    value = qty * price
    out[row, 0] = s.tick
    out[row, 1] = price
    out[row, 2] = s.phase
    out[row, 3] = s.timer_ms
    out[row, 4] = s.presale
    out[row, 5] = s.active
    out[row, 6] = s.rugged
    out[row, 7] = s.context[0]
    out[row, 8] = cash
    out[row, 9] = qty
    out[row, 10] = avg
    out[row, 11] = float(s.pnl) / 1e9
    out[row, 12] = float(s.invested) / 1e9
    out[row, 13] = s.context[2]
    out[row, 14] = s.context[3]
    out[row, 15] = s.context[4]
    out[row, 16] = s.context[6]
    out[row, 17] = s.context[7]
    out[row, 18] = s.context[8]
    out[row, 19] = s.context[9]
    out[row, 20] = s.context[10]
    out[row, 21] = s.context[11]
    out[row, 22] = s.velocity
    out[row, 23] = s.acceleration
    if s.qty > 0:
        out[row, 24] = qty * (price - avg)
        out[row, 25] = (price - avg) / avg if avg > 0.0 else 0.0
        out[row, 27] = value / (cash + value) if value > 0.0 else 0.0
        out[row, 28] = s.tick - s.entry_tick
    else:
        out[row, 24] = 0.0
        out[row, 25] = 0.0
        out[row, 27] = 0.0
        out[row, 28] = 0.0
    out[row, 26] = s.context[5]
    out[row, 29] = s.tick - s.action_tick
    out[row, 30] = float(s.bet) / 1e9


@inlined
def observe_recorded(s: Record, out: Rows, row: int) -> None:
    """Write the 37 features of the set `recorded` into a row of `out`."""
    observe_policy(s, out, row)
    for i in range(31, 8, -1):
        out[row, i] = out[row, i - 1]
    out[row, 8] = s.context[ID_HASH]
    out[row, 32] = s.execution_tick
    out[row, 33] = s.execution_price
    out[row, 34] = s.execution_trade
    out[row, 35] = s.execution_client_ms
    out[row, 36] = s.execution_latency_ms


def id_hash(identity: str) -> float:
    """Turn an id into a number in [0, 1) that float32 holds exactly; an identity, not a feature."""
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:3], "big") / 2**24
