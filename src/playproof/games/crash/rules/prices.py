"""The provably fair price algorithm v1, v2, v3, in plain Python.

This is the obvious twin: `fast` holds the compiled one, bit-equal to this.
Leaves out: money (ledger) and how a world differs from the published game (worlds).

Two random streams feed the same tick:
- the site's own: ARC4 as in the JavaScript library seedrandom, keyed by "serverSeed-gameId";
- a counter-based one for simulation, keyed by (seed, round, tick, draw).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Version = Literal["v1", "v2", "v3"]
VERSIONS: tuple[Version, ...] = ("v1", "v2", "v3")

RUG_CHANCE = 0.005
GOD_CHANCE = 0.00001
GOD_FACTOR = 10.0
GOD_LIMIT = 100.0
BIG_CHANCE = 0.125
RUG_FACTOR = 1.0 - 0.98
"""The site computes it so: 0.020000000000000018, to the last bit of every recorded rug price."""
MAX_TICKS = 5000

Uniform = Callable[[], float]


def server_seed_hash(server_seed: str) -> str:
    """Give the commitment that the site publishes before a round."""
    return hashlib.sha256(server_seed.encode()).hexdigest()


class SeedRandom:
    """Draw the doubles of the JavaScript library seedrandom for a text seed."""

    def __init__(self, seed: str) -> None:
        key: list[int] = []
        smear = 0
        for j, code in enumerate(seed.encode("utf-16-le")[::2]):
            slot = j & 255
            if slot < len(key):
                smear ^= key[slot] * 19
                key[slot] = (smear + code) & 255
            else:
                key.append((smear + code) & 255)
        key = key or [0]
        s = list(range(256))
        j = 0
        for i in range(256):
            j = (j + key[i % len(key)] + s[i]) & 255
            s[i], s[j] = s[j], s[i]
        self._s, self._i, self._j = s, 0, 0
        for _ in range(256):
            self._byte()

    def _byte(self) -> int:
        s = self._s
        self._i = (self._i + 1) & 255
        t = s[self._i]
        self._j = (self._j + t) & 255
        s[self._i] = s[self._j]
        s[self._j] = t
        return s[(s[self._i] + t) & 255]

    def __call__(self) -> float:
        """Draw the next double in [0, 1)."""
        n = 0
        for _ in range(6):
            n = n * 256 + self._byte()
        d, x = 2**48, 0
        while n < 2**52:
            n = (n + x) * 256
            d *= 256
            x = self._byte()
        while n >= 2**53:
            n //= 2
            d //= 2
            x >>= 1
        return (n + x) / d


MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
ROUND_STEP = 0xD1342543DE82EF95


def mix(z: int) -> int:
    """Scramble 64 bits (the finaliser of SplitMix64)."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def round_key(seed: int, round_number: int, purpose: int = 0) -> int:
    """Key one round's counter-based stream; warm-up rounds have negative numbers.

    Purpose keeps the streams of prices (0), worlds (1) and bystanders (2) apart.
    """
    return mix(mix((mix(seed & MASK) + purpose) & MASK) + round_number * ROUND_STEP & MASK)


def counter_uniform(key: int, tick: int, draw: int) -> float:
    """Draw number `draw` (0 to 7) of a tick, in [0, 1) with 53 bits."""
    return (mix(key + GOLDEN * (8 * tick + draw + 1) & MASK) >> 11) * 2.0**-53


def next_price(price: float, version: Version, uniform: Uniform) -> float:
    """Move the price by one tick that does not rug."""
    if version == "v3" and uniform() < GOD_CHANCE and price <= GOD_LIMIT:
        return price * GOD_FACTOR
    if uniform() < BIG_CHANCE:
        size = 0.15 + uniform() * (0.25 - 0.15)
        change = size if uniform() > 0.5 else -size
    else:
        drift = -0.02 + uniform() * 0.05
        root = math.sqrt(price)
        volatility = 0.005 * (root if version == "v1" else min(10.0, root))
        change = drift + volatility * (2.0 * uniform() - 1.0)
    return max(0.0, price * (1.0 + change))


@dataclass(frozen=True)
class Round:
    """One finished round: prices by tick, the last of them the rug price if it rugged."""

    prices: tuple[float, ...]
    rugged: bool = True

    @property
    def rug_tick(self) -> int:
        """Give the tick of the first rugged message."""
        return len(self.prices) - 1

    @property
    def rug_price(self) -> float:
        """Give the price that open positions are sold at."""
        return self.prices[-1]

    @property
    def peak(self) -> float:
        """Give the highest price of the round."""
        return max(self.prices)


def play_round(server_seed: str, game_id: str, version: Version = "v3") -> Round:
    """Replay one published round from its revealed seed."""
    uniform = SeedRandom(f"{server_seed}-{game_id}")
    prices = [1.0]
    while len(prices) <= MAX_TICKS:
        if uniform() < RUG_CHANCE:
            return Round((*prices, RUG_FACTOR * min(prices)))
        prices.append(next_price(prices[-1], version, uniform))
    return Round(tuple(prices), rugged=False)
