"""What the observation sets `market` and `trader` need to remember beyond the fold's state.

A second record beside `fold.STATE`, with `apply_*` for what the feed tells and `observe_market` and
`observe_trader` for the rows; the definitions are the feature table's (features). Numbers that the
set `policy` has too are the fold's own, bit for bit.
Leaves out: where trades, leaderboard and lots come from (crowd_feed, a lane's lots, a recording).

Order of calls: `fold.apply_round` then `apply_round`; `fold.apply_tick` then `apply_tick`; on the rug
also `apply_rug`, and `apply_session_result` when the round's money is settled. Memory is limited to
rings, looking changes nothing that a later look shows, and every number written is finite.
"""

from __future__ import annotations

import math

import numpy as np

from playproof._numba import compiler
from playproof.games.crash.features import state, table
from playproof.games.crash.features.table import (
    KNOWLEDGE,
    LOTS,
    MARKET,
    PAST_ROUNDS,
    POLICY,
    TRADER,
    WHALE_WINDOW,
    WINDOW,
)
from playproof.games.crash.rules.money import MAX_LOTS, SIDEBET_TICKS
from playproof.games.crash.rules.prices import RUG_CHANCE
from playproof.games.crash.sim.arrays import Ints, Marks, Record, Records, Rows
from playproof.games.crash.sim.crowd import INSTARUG_TICKS

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)

RING = 64
"""Ticks kept: a power of two above the longest window."""
_MASK = RING - 1
FIRST_TICKS = 40
SIZES = 100
"""Trades whose median tells a whale."""
WHALE_FACTOR = 10
BIG_MOVE = 0.12
SWEET_LOW, SWEET_HIGH = 25.0, 50.0
HALF_LIFE = 138.0
LEAST_PRICE = 1e-12
"""A price below this counts as this where it is divided by or its logarithm taken."""

EXPECTED_TICKS = 1.0 / RUG_CHANCE
BASE_PROBABILITY = 1.0 - (1.0 - RUG_CHANCE) ** SIDEBET_TICKS
"""The constant hazard's expected ticks to the rug and P(rug within 40), told while there is no prediction."""
CRITICAL, EXIT = 0.5, 0.4

K_LEADERBOARD = 1 << KNOWLEDGE.index("leaderboard")
K_LOTS = 1 << KNOWLEDGE.index("lots")
K_PAST = 1 << KNOWLEDGE.index("past_1")
PAST_BITS = K_PAST * (2**PAST_ROUNDS - 1)

HISTORY = np.dtype(
    [
        ("prices", "f8", (RING,)),  # of the ticks seen in this round, the newest at seen - 1
        ("changes", "f8", (RING,)),  # price / price before - 1, where the tick before was seen
        ("ticks", "i4", (RING,)),
        ("follows", "i1", (RING,)),  # was the tick before seen?
        ("first_changes", "f8", (FIRST_TICKS,)),
        ("first_volatility", "f8"),
        ("peak", "f8"),
        ("low", "f8"),
        ("buys", "i8", (RING,)),  # volume by tick, in slot tick % RING
        ("sells", "i8", (RING,)),
        ("largest", "i8", (RING,)),
        ("volume_ticks", "i4", (RING,)),
        ("sizes", "i8", (SIZES,)),  # of the last trades, in slot number % SIZES
        ("sorted_sizes", "i8", (SIZES,)),
        ("trades", "i8"),
        ("capital", "i8"),
        ("players", "f8"),
        ("holders", "f8"),
        ("past_end", "f8", (PAST_ROUNDS,)),  # newest first
        ("past_duration", "f8", (PAST_ROUNDS,)),
        ("past_peak", "f8", (PAST_ROUNDS,)),
        ("lot_qty", "i8", (LOTS,)),  # oldest first
        ("lot_cost", "i8", (LOTS,)),
        ("side_stake", "i8"),
        ("session_pnl", "i8"),
        ("probability", "f8"),
        ("confidence", "f8"),
        ("ticks_to_rug_norm", "f8"),
        ("duration", "f8"),
        ("duration_confidence", "f8"),
        ("policy", "f4", (len(POLICY),)),  # scratch of one look
        ("seen", "i4"),
        ("first_count", "i4"),
        ("peak_tick", "i4"),
        ("low_tick", "i4"),
        ("big_tick", "i4"),
        ("sweet_ticks", "i4"),
        ("lot_count", "i4"),
        ("side_end", "i4"),
        ("rounds", "i4"),
        ("wins", "i4"),
        ("losses", "i4"),
        ("idle", "i4"),
        ("known", "i4"),
        ("predicted", "i1"),
        ("finished", "i1"),
    ],
    align=True,
)


def shared(names: tuple[str, ...]) -> Ints:
    """Give for each feature its place in the set `policy`, -1 if it is not there."""
    return np.array([POLICY.index(name) if name in POLICY else -1 for name in names], np.int64)


_MARKET_SHARED, _TRADER_SHARED = shared(MARKET), shared(TRADER)
_MARKET_NEEDS = np.array(table.NEEDS["market"], np.int64)
_TRADER_NEEDS = np.array(table.NEEDS["trader"], np.int64)
_MARKET_FILLS = np.array(table.FILLS["market"], np.float32)
_TRADER_FILLS = np.array(table.FILLS["trader"], np.float32)
_CROWD = MARKET.index("players_in_game")
_PRICES = MARKET.index("price_mean_40")
_VOLUMES = MARKET.index("volume_mean_40")
_POSITION = TRADER.index("has_positions")
_LOT_COUNT = TRADER.index("position_count")
_PAST = TRADER.index("history_1_end_price")
_LOTS = TRADER.index("lot_1_entry_price")
_INDICATORS = TRADER.index("log_return_3")
_RUN = TRADER.index("rounds_in_session")
_SWEET = TRADER.index("in_sweet_spot")
_PREDICTION = TRADER.index("predicted_duration")


def new_history(count: int = 1) -> Records:
    """Give records that know nothing but that every round starts at a price of 1."""
    histories = np.zeros(count, HISTORY)
    histories["prices"][:, 0] = 1.0
    histories["peak"] = histories["low"] = 1.0
    histories["seen"] = 1
    histories["volume_ticks"] = -1
    return histories


@compiled
def apply_round(h: Record, s: Record) -> None:
    """Begin a round, after the fold has: what belonged to the last one is forgotten."""
    h.prices[0] = s.price
    h.changes[0] = 0.0
    h.ticks[0] = s.tick
    h.follows[0] = 0
    h.seen = 1
    h.first_count = 0
    h.first_volatility = 0.0
    h.peak = s.price
    h.low = s.price
    h.peak_tick = s.tick
    h.low_tick = s.tick
    h.big_tick = s.tick
    h.sweet_ticks = 0
    for i in range(RING):
        h.volume_ticks[i] = -1
    for i in range(LOTS):
        h.lot_qty[i] = 0
        h.lot_cost[i] = 0
    h.lot_count = 0
    h.side_stake = 0
    h.predicted = 0
    h.finished = 0
    h.rounds += 1


@inlined
def keep_size(h: Record, amount: int) -> None:
    """Take a trade's size among the last 100, in the place of the oldest of them."""
    count = min(h.trades, SIZES)
    hole = count
    if count == SIZES:
        oldest = h.sizes[h.trades % SIZES]
        hole = 0
        while h.sorted_sizes[hole] != oldest:
            hole += 1
    else:
        count += 1
    while hole > 0 and h.sorted_sizes[hole - 1] > amount:
        h.sorted_sizes[hole] = h.sorted_sizes[hole - 1]
        hole -= 1
    while hole < count - 1 and h.sorted_sizes[hole + 1] < amount:
        h.sorted_sizes[hole] = h.sorted_sizes[hole + 1]
        hole += 1
    h.sorted_sizes[hole] = amount
    h.sizes[h.trades % SIZES] = amount
    h.trades += 1


@inlined
def apply_trade(h: Record, tick: int, is_buy: bool, amount: int) -> None:
    """Take a trade of this round as it is heard of, anybody's, in units; the presale's tick is 0."""
    keep_size(h, amount)
    at = max(tick, 0)
    slot = at & _MASK
    if at < h.volume_ticks[slot]:
        return
    if at > h.volume_ticks[slot]:
        h.volume_ticks[slot] = at
        h.buys[slot] = 0
        h.sells[slot] = 0
        h.largest[slot] = 0
    if is_buy:
        h.buys[slot] += amount
    else:
        h.sells[slot] += amount
    h.largest[slot] = max(h.largest[slot], amount)


@compiled
def apply_trades(histories: Records, row: int, trades: Records) -> None:
    """Take the trades that one tick brought (`crowd_feed.TRADE`), with one call from Python."""
    for i in range(len(trades)):
        apply_trade(histories[row], trades[i].tick, trades[i].is_buy != 0, trades[i].amount)


@inlined
def apply_leaderboard(h: Record, players_in_game: float, players_with_positions: float, total_capital: int) -> None:
    """Take the figures of a leaderboard, the capital in units."""
    h.players = players_in_game
    h.holders = players_with_positions
    h.capital = total_capital
    h.known |= K_LEADERBOARD


@inlined
def extend_first(h: Record, change: float) -> None:
    """Take one of the first 40 changes and bring their volatility up to date."""
    h.first_changes[h.first_count] = change
    h.first_count += 1
    count = h.first_count
    total, low, high = 0.0, change, change
    for i in range(count):
        value = h.first_changes[i]
        total += value
        low = min(low, value)
        high = max(high, value)
    mean, squares = total / count, 0.0
    for i in range(count):
        squares += (h.first_changes[i] - mean) * (h.first_changes[i] - mean)
    h.first_volatility = math.sqrt(squares / count) if low < high else 0.0


@inlined
def apply_tick(h: Record, s: Record) -> None:
    """Take the tick that the fold has just taken; one that was seen, or comes late, changes nothing."""
    last = (h.seen - 1) & _MASK
    if s.phase < state.ACTIVE or s.tick < h.ticks[last]:
        return
    if s.tick > h.ticks[last]:
        slot = h.seen & _MASK
        follows = s.tick == h.ticks[last] + 1
        change = s.price / max(h.prices[last], LEAST_PRICE) - 1.0 if follows else 0.0
        h.prices[slot] = s.price
        h.ticks[slot] = s.tick
        h.follows[slot] = follows
        h.changes[slot] = change
        h.seen += 1
        if follows and s.tick <= FIRST_TICKS:
            extend_first(h, change)
        if abs(change) > BIG_MOVE:
            h.big_tick = s.tick
        if s.price > h.peak:
            h.peak = s.price
            h.peak_tick = s.tick
        if s.price < h.low:
            h.low = s.price
            h.low_tick = s.tick
        h.sweet_ticks += SWEET_LOW <= s.price <= SWEET_HIGH


@inlined
def apply_past_round(h: Record, end_price: float, duration: int, peak: float) -> None:
    """Take a finished round, such as the feed's own list tells to one who joins; the newest comes last."""
    for i in range(PAST_ROUNDS - 1, 0, -1):
        h.past_end[i] = h.past_end[i - 1]
        h.past_duration[i] = h.past_duration[i - 1]
        h.past_peak[i] = h.past_peak[i - 1]
    h.past_end[0] = end_price
    h.past_duration[0] = duration
    h.past_peak[0] = peak
    h.known |= K_PAST | (((h.known & PAST_BITS) << 1) & PAST_BITS)


@inlined
def apply_rug(h: Record, s: Record, peak: float) -> None:
    """Take the rug that the fold has just taken, once a round; the peak leaves the rug price out."""
    if h.finished == 0:
        h.finished = 1
        apply_past_round(h, s.price, s.tick, peak)


@inlined
def apply_lots(h: Record, lots: Record, head: int, count: int) -> None:
    """Take the open lots: `count` of a ring of MAX_LOTS from `head` on, oldest first (`layout.LOTS`)."""
    for i in range(LOTS):
        held = i < count
        slot = (head + i) % MAX_LOTS
        h.lot_qty[i] = lots.qty[slot] if held else 0
        h.lot_cost[i] = lots.cost[slot] if held else 0
    h.lot_count = count
    h.known |= K_LOTS


@inlined
def apply_sidebet(h: Record, stake: int, end_tick: int) -> None:
    """Take the own sidebet that was placed, in units; a stake of 0 is none."""
    h.side_stake = stake
    h.side_end = end_tick


@inlined
def start_session(h: Record) -> None:
    """Begin a session of the player: results and streaks are forgotten, what was seen of the market stays."""
    h.rounds = 0
    h.session_pnl = 0
    h.wins = 0
    h.losses = 0
    h.idle = 0


@inlined
def apply_session_result(h: Record, pnl: int, traded: bool) -> None:
    """Take the player's own result of a finished round, in units."""
    h.session_pnl += pnl
    h.idle = 0 if traded else h.idle + 1
    if traded:
        h.wins = h.wins + 1 if pnl > 0 else 0
        h.losses = h.losses + 1 if pnl < 0 else 0


@inlined
def apply_prediction(
    h: Record,
    probability: float,
    confidence: float,
    ticks_to_rug_norm: float,
    duration: float,
    duration_confidence: float,
) -> None:
    """Take what a predictor says now; it stands until it says more or the round changes."""
    h.probability = probability
    h.confidence = confidence
    h.ticks_to_rug_norm = ticks_to_rug_norm
    h.duration = duration
    h.duration_confidence = duration_confidence
    h.predicted = 1


@inlined
def seen_in(h: Record, ticks: int) -> int:
    """Count the ticks seen among the last `ticks` of the round."""
    oldest = h.ticks[(h.seen - 1) & _MASK] - ticks
    count = 0
    while count < min(h.seen, RING) and h.ticks[(h.seen - 1 - count) & _MASK] > oldest:
        count += 1
    return count


@inlined
def price_window(h: Record, ticks: int) -> tuple[float, float, float, float]:
    """Give mean, standard deviation, lowest and highest of the prices seen on the last `ticks` ticks."""
    count = seen_in(h, ticks)
    total, low, high = 0.0, np.inf, -np.inf
    for i in range(h.seen - count, h.seen):
        price = h.prices[i & _MASK]
        total += price
        low = min(low, price)
        high = max(high, price)
    if low == high:
        return low, 0.0, low, high
    mean, squares = total / count, 0.0
    for i in range(h.seen - count, h.seen):
        squares += (h.prices[i & _MASK] - mean) * (h.prices[i & _MASK] - mean)
    return mean, math.sqrt(squares / count), low, high


@inlined
def volatility(h: Record, ticks: int) -> float:
    """Give the standard deviation of the changes seen on the last `ticks` ticks."""
    first = h.seen - seen_in(h, ticks)
    count, total, low, high = 0, 0.0, np.inf, -np.inf
    for i in range(first, h.seen):
        if h.follows[i & _MASK]:
            change = h.changes[i & _MASK]
            count += 1
            total += change
            low = min(low, change)
            high = max(high, change)
    if not low < high:
        return 0.0
    mean, squares = total / count, 0.0
    for i in range(first, h.seen):
        if h.follows[i & _MASK]:
            squares += (h.changes[i & _MASK] - mean) * (h.changes[i & _MASK] - mean)
    return math.sqrt(squares / count)


@inlined
def relative_strength(h: Record, ticks: int) -> float:
    """Give 100 x gains / (gains + losses) of the last `ticks` ticks, 50 when the price stood still."""
    gains, losses = 0.0, 0.0
    for i in range(h.seen - seen_in(h, ticks), h.seen):
        if h.follows[i & _MASK]:
            step = h.prices[i & _MASK] - h.prices[(i - 1) & _MASK]
            if step > 0.0:
                gains += step
            else:
                losses -= step
    return 100.0 * gains / (gains + losses) if gains + losses > 0.0 else 50.0


@inlined
def log_return(h: Record, price: float, ticks: int) -> float:
    """Give the logarithm of the price against the oldest one seen at most `ticks` ticks ago."""
    oldest = h.prices[(h.seen - seen_in(h, ticks + 1)) & _MASK]
    return math.log(max(price, LEAST_PRICE) / max(oldest, LEAST_PRICE))


@inlined
def volume_at(h: Record, tick: int) -> int:
    """Give the volume stamped with a tick of the window."""
    slot = tick & _MASK
    return h.buys[slot] + h.sells[slot] if h.volume_ticks[slot] == tick else 0


@inlined
def is_whale_about(h: Record, tick: int) -> bool:
    """Tell whether one of the last 10 ticks' trades is above 10 x the median of the last 100 trades."""
    largest = 0
    for at in range(max(0, tick - WHALE_WINDOW + 1), tick + 1):
        if h.volume_ticks[at & _MASK] == at:
            largest = max(largest, h.largest[at & _MASK])
    count = min(h.trades, SIZES)
    middle = count // 2
    if largest == 0:
        return False
    if count % 2 == 1:
        return bool(largest > WHALE_FACTOR * h.sorted_sizes[middle])
    return bool(2 * largest > WHALE_FACTOR * (h.sorted_sizes[middle - 1] + h.sorted_sizes[middle]))


@inlined
def write_crowd(h: Record, tick: int, out: Rows, row: int) -> None:
    """Write leaderboard, recent volumes, flow and whale."""
    buys, sells = 0, 0
    for at in range(max(0, tick - WINDOW + 1), tick + 1):
        slot = at & _MASK
        if h.volume_ticks[slot] == at:
            buys += h.buys[slot]
            sells += h.sells[slot]
    out[row, _CROWD] = h.players
    out[row, _CROWD + 1] = h.holders
    out[row, _CROWD + 2] = float(h.capital) / 1e9
    out[row, _CROWD + 3] = float(buys) / 1e9
    out[row, _CROWD + 4] = float(sells) / 1e9
    out[row, _CROWD + 5] = float(buys) / float(buys + sells) if buys + sells > 0 else 0.5
    out[row, _CROWD + 6] = is_whale_about(h, tick)


@inlined
def write_volumes(h: Record, tick: int, out: Rows, row: int) -> None:
    """Write the statistics of the volume a tick."""
    first = max(0, tick - WINDOW + 1)
    total, low, high = 0, volume_at(h, first), 0
    for at in range(first, tick + 1):
        volume = volume_at(h, at)
        total += volume
        low = min(low, volume)
        high = max(high, volume)
    count = tick + 1 - first
    mean, squares = float(total) / 1e9 / count, 0.0
    for at in range(first, tick + 1):
        off = float(volume_at(h, at)) / 1e9 - mean
        squares += off * off
    out[row, _VOLUMES] = mean
    out[row, _VOLUMES + 1] = math.sqrt(squares / count) if low < high else 0.0
    out[row, _VOLUMES + 2] = float(low) / 1e9
    out[row, _VOLUMES + 3] = float(high) / 1e9


@inlined
def look_policy(h: Record, s: Record, out: Rows, row: int) -> None:
    """Let the fold write the set `policy`, and put it aside; the row is overwritten after that."""
    state.observe_policy(s, out, row)
    for i in range(len(POLICY)):
        h.policy[i] = out[row, i]


@inlined
def observe_market(h: Record, s: Record, out: Rows, row: int) -> None:
    """Write the 40 features of the set `market` into a row of `out`."""
    tick = int(max(s.tick, 0))
    look_policy(h, s, out, row)
    for i in range(len(MARKET)):
        if _MARKET_SHARED[i] >= 0:
            out[row, i] = h.policy[_MARKET_SHARED[i]]
    write_crowd(h, tick, out, row)
    mean, deviation, low, high = price_window(h, WINDOW)
    out[row, _PRICES] = mean
    out[row, _PRICES + 1] = deviation
    out[row, _PRICES + 2] = low
    out[row, _PRICES + 3] = high
    write_volumes(h, tick, out, row)
    unknown = ~(s.known | h.known)
    for i in range(len(MARKET)):
        if (_MARKET_NEEDS[i] & unknown) != 0:
            out[row, i] = _MARKET_FILLS[i]


@inlined
def write_current(h: Record, s: Record, out: Rows, row: int) -> None:
    """Write position, bankroll and volatilities."""
    recent = volatility(h, 10)
    out[row, _POSITION] = s.qty > 0
    out[row, _POSITION + 1] = float(s.cash) / 1e9 + float(s.qty) / 1e9 * s.price
    out[row, _LOT_COUNT] = h.lot_count
    out[row, _LOT_COUNT + 1] = h.first_volatility
    out[row, _LOT_COUNT + 2] = recent
    out[row, _LOT_COUNT + 3] = recent / h.first_volatility if h.first_volatility > 0.0 else 1.0


@inlined
def write_past(h: Record, out: Rows, row: int) -> None:
    """Write the last finished rounds."""
    for i in range(PAST_ROUNDS):
        out[row, _PAST + 4 * i] = h.past_end[i]
        out[row, _PAST + 4 * i + 1] = h.past_duration[i]
        out[row, _PAST + 4 * i + 2] = h.past_peak[i]
        out[row, _PAST + 4 * i + 3] = h.past_duration[i] < INSTARUG_TICKS


@inlined
def write_lots(h: Record, price: float, out: Rows, row: int) -> None:
    """Write the oldest open lots."""
    for i in range(LOTS):
        held = h.lot_qty[i] > 0 and h.lot_cost[i] > 0
        entry = float(h.lot_cost[i]) / float(h.lot_qty[i]) if held else 0.0
        out[row, _LOTS + 3 * i] = entry
        out[row, _LOTS + 3 * i + 1] = float(h.lot_cost[i]) / 1e9 if held else 0.0
        out[row, _LOTS + 3 * i + 2] = price / entry - 1.0 if held else 0.0


@inlined
def write_moves(h: Record, out: Rows, row: int) -> None:
    """Write how many of the last 10 ticks moved far, and which share of them rose."""
    big, ups, count = 0, 0, 0
    for i in range(h.seen - seen_in(h, 10), h.seen):
        if h.follows[i & _MASK]:
            count += 1
            big += abs(h.changes[i & _MASK]) > BIG_MOVE
            ups += h.changes[i & _MASK] > 0.0
    out[row, _INDICATORS + 11] = big
    out[row, _INDICATORS + 12] = float(ups) / count if count > 0 else 0.5


@inlined
def write_indicators(h: Record, s: Record, out: Rows, row: int) -> None:
    """Write the indicators of this round's prices."""
    price = s.price
    out[row, _INDICATORS] = log_return(h, price, 3)
    out[row, _INDICATORS + 1] = log_return(h, price, 5)
    out[row, _INDICATORS + 2] = log_return(h, price, 10)
    out[row, _INDICATORS + 3] = log_return(h, price, 20)
    out[row, _INDICATORS + 4] = relative_strength(h, 14)
    mean, deviation, _, _ = price_window(h, 20)
    out[row, _INDICATORS + 5] = (price - mean) / deviation if deviation > 0.0 else 0.0
    out[row, _INDICATORS + 6] = 1.0 - price / max(h.peak, LEAST_PRICE)
    out[row, _INDICATORS + 7] = price / max(h.low, LEAST_PRICE) - 1.0
    out[row, _INDICATORS + 8] = s.tick - h.peak_tick
    out[row, _INDICATORS + 9] = s.tick - h.low_tick
    out[row, _INDICATORS + 10] = s.tick - h.big_tick
    write_moves(h, out, row)
    _, _, low, high = price_window(h, 10)
    out[row, _INDICATORS + 13] = (high - low) / max(high, LEAST_PRICE)
    out[row, _INDICATORS + 14] = math.log(max(price, LEAST_PRICE))
    out[row, _INDICATORS + 15] = s.tick / HALF_LIFE


@inlined
def write_run(h: Record, out: Rows, row: int) -> None:
    """Write how the session went, and the means of the last rounds."""
    peaks, durations, count = 0.0, 0.0, 0
    for i in range(PAST_ROUNDS):
        if (h.known & (K_PAST << i)) != 0:
            peaks += h.past_peak[i]
            durations += h.past_duration[i]
            count += 1
    out[row, _RUN] = h.rounds
    out[row, _RUN + 1] = float(h.session_pnl) / 1e9
    out[row, _RUN + 2] = h.wins
    out[row, _RUN + 3] = h.losses
    out[row, _RUN + 4] = h.idle
    out[row, _RUN + 5] = peaks / max(count, 1)
    out[row, _RUN + 6] = durations / max(count, 1)


@inlined
def write_predictions(h: Record, s: Record, out: Rows, row: int) -> None:
    """Write predictions, or the constant hazard's values, and what the open sidebet allows."""
    probability, confidence, norm = BASE_PROBABILITY, 0.0, 1.0
    duration, duration_confidence = float(s.tick) + EXPECTED_TICKS, 0.0
    if h.predicted != 0:
        probability, confidence, norm = h.probability, h.confidence, h.ticks_to_rug_norm
        duration, duration_confidence = h.duration, h.duration_confidence
    betting = h.side_stake > 0 and s.tick < h.side_end and s.rugged == 0
    out[row, _PREDICTION] = duration
    out[row, _PREDICTION + 1] = duration_confidence
    out[row, _PREDICTION + 2] = betting
    out[row, _PREDICTION + 3] = h.side_end - s.tick if betting else 0
    out[row, _PREDICTION + 4] = probability
    out[row, _PREDICTION + 5] = confidence
    out[row, _PREDICTION + 6] = norm
    out[row, _PREDICTION + 7] = probability >= CRITICAL
    out[row, _PREDICTION + 8] = probability >= EXIT


@inlined
def observe_trader(h: Record, s: Record, out: Rows, row: int) -> None:
    """Write the 96 features of the set `trader` into a row of `out`."""
    look_policy(h, s, out, row)
    for i in range(len(TRADER)):
        if _TRADER_SHARED[i] >= 0:
            out[row, i] = h.policy[_TRADER_SHARED[i]]
    write_current(h, s, out, row)
    write_past(h, out, row)
    write_lots(h, s.price, out, row)
    write_indicators(h, s, out, row)
    write_run(h, out, row)
    out[row, _SWEET] = SWEET_LOW <= s.price <= SWEET_HIGH
    out[row, _SWEET + 1] = h.sweet_ticks
    out[row, _SWEET + 2] = h.peak >= SWEET_LOW
    write_predictions(h, s, out, row)
    unknown = ~(s.known | h.known)
    for i in range(len(TRADER)):
        if (_TRADER_NEEDS[i] & unknown) != 0:
            out[row, i] = _TRADER_FILLS[i]


@compiled
def missing_market(h: Record, s: Record, out: Marks, row: int) -> None:
    """Write which features of the set `market` are unknown into a row of `out`."""
    unknown = ~(s.known | h.known)
    for i in range(len(MARKET)):
        out[row, i] = (_MARKET_NEEDS[i] & unknown) != 0


@compiled
def missing_trader(h: Record, s: Record, out: Marks, row: int) -> None:
    """Write which features of the set `trader` are unknown into a row of `out`."""
    unknown = ~(s.known | h.known)
    for i in range(len(TRADER)):
        out[row, i] = (_TRADER_NEEDS[i] & unknown) != 0
