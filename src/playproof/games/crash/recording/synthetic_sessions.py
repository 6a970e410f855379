"""Deal many rounds as the columns of stored sessions, without frames and servers: for benches, and for tests of size.

What a spectator's recording of simulated rounds holds of each round: that it began, a tick of the cooldown, one of the
presale, every active tick, the rug, and its revealing. The site's statistics are drawn once a round.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from playproof._numba import compiler
from playproof.games.crash.features.state import ACTIVE, COOLDOWN, PRESALE, RUGGED
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.worlds import TICK_MS, get_world
from playproof.games.crash.sim.arrays import Array, Floats, Ints
from playproof.games.crash.sim.prices_nb import MAX_TICKS, counter_round

compiled = compiler(__file__)

START_US = 1_736_899_200_000_000
"""2025-01-15, in microseconds since 1970 UTC."""
ROUND_US = 15_000_000
"""Between a rug and the next tick 0."""
MEAN_US = 80_000_000
"""More than a round takes on average, so that sessions follow each other in time."""
TIME = pa.timestamp("us", tz="UTC")


@compiled
def deal(code: int, seed: np.uint64, first: int, rounds: int, prices: Floats, lengths: Ints) -> int:
    """Write the prices of rounds one after the other; give how many there are."""
    at = 0
    one = np.empty(MAX_TICKS + 1)
    for number in range(rounds):
        last, _ = counter_round(code, seed, first + number, one)
        prices[at : at + last + 1] = one[: last + 1]
        lengths[number] = last + 1
        at += last + 1
    return at


def _dictionary(indices: Array, texts: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), pa.array(texts, pa.string())).cast(
        pa.string()
    )


def _window(seed: int, number: int) -> str:
    return f"20250115-{hashlib.sha256(f'{seed}/{number}'.encode()).hexdigest()[:16]}"


def deal_session(
    session_id: str, seed: int, first: int, rounds: int, world: str = "published"
) -> Mapping[str, pa.Table]:
    """Give one session of simulated rounds as stored columns, by doc_type."""
    prices, lengths = np.empty(rounds * (MAX_TICKS + 1)), np.empty(rounds, np.int64)
    total = deal(get_world(world).code, np.uint64(seed), first, rounds, prices, lengths)
    prices = prices[:total]
    rows = lengths + 2  # a tick of the cooldown and one of the presale come before tick 0
    ends = np.cumsum(rows)
    starts = ends - rows
    number = np.repeat(np.arange(rounds), rows)
    index = np.arange(ends[-1]) - starts[number]
    tick = np.maximum(index - 2, 0)
    phase = np.where(index == 0, COOLDOWN, np.where(index == 1, PRESALE, ACTIVE))
    phase[ends - 1] = RUGGED
    price = np.ones(ends[-1])
    price[index >= 2] = prices
    waited = ROUND_US * (number + 1) + TICK_MS * 1000 * (np.cumsum(index >= 3)) - np.where(index == 0, 15_000_000, 0)
    ts = START_US + first * MEAN_US + waited - np.where(index == 1, 10_000_000, 0)
    seq = np.arange(ends[-1]) + 2 * number + 2  # before each round's ticks the round, after them its revealing
    windows = [_window(seed, first + at) for at in range(rounds)]
    rng = np.random.default_rng([seed, first])
    shown: dict[str, Array] = {
        "connected_players": rng.integers(150, 350, rounds)[number],
        "rugpool_amount": np.round(rng.uniform(0, 8, rounds), 3)[number],
        "rugpool_threshold": np.full(ends[-1], 10),
        "instarug_count": rng.integers(0, 10, rounds)[number],
        "average_multiplier": np.round(rng.uniform(3, 9, rounds), 4)[number],
        "count_2x": rng.integers(35, 55, rounds)[number],
        "count_10x": rng.integers(4, 12, rounds)[number],
        "count_50x": rng.integers(0, 3, rounds)[number],
        "count_100x": rng.integers(0, 2, rounds)[number],
        "highest_today": np.round(rng.uniform(50, 900, rounds), 3)[number],
    }
    ticks = _table(session_id, seq, ts, c.TICK, "game_tick", number, windows) | {
        "tick": tick,
        "price": price,
        "game_phase": phase,
        "cooldown_timer_ms": np.where(index == 0, 15_000, np.where(index == 1, 10_000, 0)),
        **shown,
    }
    every = np.arange(rounds)
    begun = _table(session_id, seq[starts] - 1, ts[starts], c.ROUND, "server_state", every, windows)
    peaks = np.maximum.reduceat(prices, np.cumsum(lengths) - lengths)
    revealed = _table(session_id, seq[ends - 1] + 1, ts[ends - 1], c.COMPLETE, "complete_game", every, windows) | {
        "rug_tick": lengths - 1,
        "rug_price": price[ends - 1],
        "peak": peaks,
        "rug_seen": np.ones(rounds, np.bool_),
    }
    return {"game_tick": pa.table(ticks), "server_state": pa.table(begun), "complete_game": pa.table(revealed)}


def _table(
    session_id: str, seq: Array, ts: Array, name: str, doc_type: str, number: Array, windows: list[str]
) -> dict[str, pa.Array | Array]:
    """Give the envelope of some events."""
    nobody = np.zeros(len(seq), np.int32)
    texts = {"session_id": session_id, "source": "public_ws", "doc_type": doc_type, "direction": "received"}
    return {
        **{key: _dictionary(nobody, [text]) for key, text in texts.items()},
        "seq": seq,
        "ts": pa.array(ts, TIME),
        "event_name": _dictionary(nobody, [name]),
        "window_id": _dictionary(number, windows),
    }
