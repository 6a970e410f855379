"""Compiled twins of `fair`, `worlds` and the ledger's roundings, bit-equal to them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.games.crash.rules import prices as fair
from playproof.games.crash.rules import worlds
from playproof.games.crash.rules.money import MAX_PROCEEDS
from playproof.games.crash.rules.prices import Version

Prices = NDArray[np.float64]

_GOLDEN = np.uint64(fair.GOLDEN)
_ROUND_STEP = np.uint64(fair.ROUND_STEP)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_EIGHT, _ONE = np.uint64(8), np.uint64(1)

RUG_CHANCE = fair.RUG_CHANCE
HOT_CHANCE = fair.RUG_CHANCE * worlds.HOT_HAZARD
GOD_CHANCE, GOD_FACTOR, GOD_LIMIT = fair.GOD_CHANCE, fair.GOD_FACTOR, fair.GOD_LIMIT
BIG_CHANCE, BIG_RANGE = fair.BIG_CHANCE, 0.25 - 0.15
RUG_FACTOR = fair.RUG_FACTOR
RHO_LOW, RHO_HIGH = worlds.RHO_LOW, worlds.RHO_HIGH
DRIFT_CHANGE = worlds.DRIFT_CHANGE
COUNTDOWN_CHANCE, COUNTDOWN_TICKS = worlds.COUNTDOWN_CHANCE, worlds.COUNTDOWN_TICKS
HOT_SHARE = worlds.HOT_SHARE
INSTARUG_SHARE, INSTARUG_TICKS = worlds.INSTARUG_SHARE, worlds.INSTARUG_TICKS
FAIR, HAZARD, DRIFT, INSTARUG = worlds.FAIR, worlds.HAZARD, worlds.DRIFT, worlds.INSTARUG
PRICES, WORLD = worlds.PRICES, worlds.WORLD
MAX_TICKS = fair.MAX_TICKS


compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)
"""For functions on the way of every step: a call that passes arrays costs more than they do."""


@inlined
def mix(z: np.uint64) -> np.uint64:
    """Scramble 64 bits."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@inlined
def round_key(seed: np.uint64, round_number: int, purpose: int) -> np.uint64:
    """Key one round's stream; seed as uint64."""
    return mix(mix(mix(np.uint64(seed)) + np.uint64(purpose)) + np.uint64(round_number) * _ROUND_STEP)


@inlined
def counter_uniform(key: np.uint64, tick: int, draw: int) -> float:
    """Draw number `draw` of a tick."""
    z = mix(key + _GOLDEN * (_EIGHT * np.uint64(tick) + np.uint64(draw) + _ONE))
    return float(np.int64(z >> _S11)) * 2.0**-53


@inlined
def rug_chance(code: int, hot: bool, instarug_tick: int, tick: int) -> float:
    """Give the chance that the tick rugs, 0 and 1 included."""
    if code == INSTARUG:
        if instarug_tick > 0:
            return 1.0 if tick >= instarug_tick else 0.0
        return RUG_CHANCE if tick > INSTARUG_TICKS else 0.0
    return HOT_CHANCE if hot else RUG_CHANCE


@inlined
def rug_price(code: int, price: float, low: float) -> float:
    """Give the price that open positions are sold at."""
    if code == FAIR:
        return (RHO_LOW if price <= 100.0 else RHO_HIGH) * price
    return RUG_FACTOR * low


@inlined
def draw_hot(code: int, world_key: np.uint64) -> bool:
    """Draw whether the round is hot (world `hazard`)."""
    return code == HAZARD and counter_uniform(world_key, 0, 0) < HOT_SHARE


@inlined
def draw_instarug(code: int, world_key: np.uint64) -> int:
    """Draw the forced rug tick of world `instarug`, 0 for none."""
    if code == INSTARUG and counter_uniform(world_key, 0, 0) < INSTARUG_SHARE:
        return 1 + int(INSTARUG_TICKS * counter_uniform(world_key, 0, 1))
    return 0


@inlined
def moved(code: int, price: float, countdown: int, u_god: float, u_big: float, u_a: float, u_b: float) -> float:
    """Move the price by one tick that does not rug (algorithm v3)."""
    if code == DRIFT:
        if u_big < BIG_CHANCE and countdown == 0:
            size = 0.15 + u_a * BIG_RANGE
            change = (size if u_b > 0.5 else -size) - DRIFT_CHANGE
        else:
            mean = DRIFT_CHANGE if countdown > 0 else -DRIFT_CHANGE
            spread = 0.05 * (u_a - 0.5)
            change = mean + spread + 0.005 * min(10.0, math.sqrt(price)) * (2.0 * u_b - 1.0)
        return max(0.0, price * (1.0 + change))
    if u_god < GOD_CHANCE and price <= GOD_LIMIT:
        return price * GOD_FACTOR
    if u_big < BIG_CHANCE:
        size = 0.15 + u_a * BIG_RANGE
        change = size if u_b > 0.5 else -size
    else:
        drift = -0.02 + u_a * 0.05
        change = drift + 0.005 * min(10.0, math.sqrt(price)) * (2.0 * u_b - 1.0)
    return max(0.0, price * (1.0 + change))


@inlined
def counter_moved(code: int, key: np.uint64, tick: int, price: float, countdown: int) -> float:
    """Move the price to a tick with the counter-based draws 1 to 4."""
    return moved(
        code,
        price,
        countdown,
        counter_uniform(key, tick, 1),
        counter_uniform(key, tick, 2),
        counter_uniform(key, tick, 3),
        counter_uniform(key, tick, 4),
    )


@inlined
def next_countdown(code: int, world_key: np.uint64, tick: int, countdown: int) -> int:
    """Give the ticks left of the countdown as shown at a tick (world `drift`)."""
    if code != DRIFT:
        return 0
    if countdown > 0:
        return countdown - 1
    return COUNTDOWN_TICKS if counter_uniform(world_key, tick, 2) < COUNTDOWN_CHANCE else 0


@compiled
def counter_round(code: int, seed: np.uint64, round_number: int, prices: Prices) -> tuple[int, bool]:
    """Play a round into `prices` (5001 long); give the last tick and whether it rugged."""
    key = round_key(seed, round_number, PRICES)
    world_key = round_key(seed, round_number, WORLD)
    hot = draw_hot(code, world_key)
    forced = draw_instarug(code, world_key)
    price, low, left = 1.0, 1.0, 0
    prices[0] = 1.0
    for tick in range(1, MAX_TICKS + 1):
        if counter_uniform(key, tick, 0) < rug_chance(code, hot, forced, tick):
            prices[tick] = rug_price(code, price, low)
            return tick, True
        price = counter_moved(code, key, tick, price, left)
        left = next_countdown(code, world_key, tick, left)
        low = min(low, price)
        prices[tick] = price
    return MAX_TICKS, False


@compiled
def finish_round(
    code: int,
    key: np.uint64,
    world_key: np.uint64,
    hot: bool,
    forced: int,
    tick: int,
    price: float,
    peak: float,
    left: int,
) -> tuple[int, float]:
    """Play a begun round to its end without keeping it; give the last tick and the peak."""
    for at in range(tick + 1, MAX_TICKS + 1):
        if counter_uniform(key, at, 0) < rug_chance(code, hot, forced, at):
            return at, peak
        price = counter_moved(code, key, at, price, left)
        left = next_countdown(code, world_key, at, left)
        peak = max(peak, price)
    return MAX_TICKS, peak


@compiled
def arc4_start(key: NDArray[np.uint8], s: NDArray[np.uint8]) -> None:
    """Set up the ARC4 state for the bytes of a text seed of at most 256 characters."""
    for i in range(256):
        s[i] = i
    j = 0
    for i in range(256):
        t = s[i]
        j = (j + key[i % len(key)] + t) & 255
        s[i] = s[j]
        s[j] = t


@inlined
def arc4_byte(s: NDArray[np.uint8], at: NDArray[np.int64]) -> int:
    """Draw one byte; `at` holds i and j."""
    i = (at[0] + 1) & 255
    t = np.int64(s[i])
    j = (at[1] + t) & 255
    u = np.int64(s[j])
    s[i] = u
    s[j] = t
    at[0] = i
    at[1] = j
    return int(s[(t + u) & 255])


@inlined
def arc4_uniform(s: NDArray[np.uint8], at: NDArray[np.int64]) -> float:
    """Draw one double of seedrandom."""
    n = 0
    for _ in range(6):
        n = n * 256 + arc4_byte(s, at)
    d = 2.0**48
    x = 0
    while n < 2**52:
        n = (n + x) * 256
        d *= 256.0
        x = arc4_byte(s, at)
    while n >= 2**53:
        n >>= 1
        d *= 0.5
        x >>= 1
    return float(n + x) / d


@compiled
def _site_prices(key: NDArray[np.uint8], version: int, prices: Prices) -> tuple[int, bool]:
    s = np.empty(256, np.uint8)
    at = np.zeros(2, np.int64)
    arc4_start(key, s)
    for _ in range(256):
        arc4_byte(s, at)
    price, low = 1.0, 1.0
    prices[0] = 1.0
    for tick in range(1, MAX_TICKS + 1):
        if arc4_uniform(s, at) < RUG_CHANCE:
            prices[tick] = RUG_FACTOR * low
            return tick, True
        if version >= 3 and arc4_uniform(s, at) < GOD_CHANCE and price <= GOD_LIMIT:
            price = price * GOD_FACTOR
        else:
            if arc4_uniform(s, at) < BIG_CHANCE:
                size = 0.15 + arc4_uniform(s, at) * BIG_RANGE
                change = size if arc4_uniform(s, at) > 0.5 else -size
            else:
                drift = -0.02 + arc4_uniform(s, at) * 0.05
                root = math.sqrt(price)
                volatility = 0.005 * (root if version == 1 else min(10.0, root))
                change = drift + volatility * (2.0 * arc4_uniform(s, at) - 1.0)
            price = max(0.0, price * (1.0 + change))
        low = min(low, price)
        prices[tick] = price
    return MAX_TICKS, False


def site_round(server_seed: str, game_id: str, version: Version = "v3") -> fair.Round:
    """Replay one published round from its revealed seed, compiled."""
    text = f"{server_seed}-{game_id}"
    if not text.isascii() or len(text) > 256:
        return fair.play_round(server_seed, game_id, version)
    prices = np.empty(MAX_TICKS + 1)
    last, rugged = _site_prices(np.frombuffer(text.encode(), np.uint8), int(version[1]), prices)
    return fair.Round(tuple(prices[: last + 1].tolist()), rugged)


@inlined
def product(a: float, b: float) -> tuple[float, float]:
    """Multiply exactly: a b = high + low (Dekker), for factors below 2^900."""
    high = a * b
    c = 134217729.0 * a
    a1 = c - (c - a)
    a2 = a - a1
    c = 134217729.0 * b
    b1 = c - (c - b)
    b2 = b - b1
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


@inlined
def exceeds(a: float, b: float, c: float, d: float) -> bool:
    """Tell exactly whether a b > c d."""
    high, low = product(a, b)
    other_high, other_low = product(c, d)
    return high > other_high or (high == other_high and low > other_low)


@compiled
def bought(amount: int, price: float) -> int:
    """Give amount / price rounded down, or -1 above 2^53."""
    quotient = np.floor(float(amount) / price)
    if not quotient < 9007199254740992.0:
        return -1
    if exceeds(quotient, price, float(amount), 1.0):
        quotient -= 1.0
    return int(quotient)


@compiled
def proceeds(qty: int, price: float) -> int:
    """Give qty x price rounded down, for qty below 2^53."""
    high, low = product(float(qty), price)
    if high >= MAX_PROCEEDS:
        return MAX_PROCEEDS
    whole = np.floor(high)
    if whole == high:
        return int(whole) + int(np.floor(low))
    return int(whole)


@compiled
def cost_share(cost: int, sold: int, qty: int) -> int:
    """Give cost x sold / qty rounded down, for values up to 10^13."""
    share = np.floor(float(cost) * (float(sold) / float(qty)))
    while exceeds(share, float(qty), float(cost), float(sold)):
        share -= 1.0
    while not exceeds(share + 1.0, float(qty), float(cost), float(sold)):
        share += 1.0
    return int(share)
