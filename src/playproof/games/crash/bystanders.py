"""What the player sees of other people: the site's statistics, and the crowd that trades beside them.

Both are drawn before a round and know nothing of its prices: `Site` rolls the market, session and
rugpool numbers from round to round, `crowd` draws who buys, sells and bets in one round.
Leaves out: money (an amount is only what was staked) and everything that would react to the price.

Draws come from the round's bystander stream, `counter_uniform(key, tick, draw)`:

| (tick, draw) | decides |
|---|---|
| (0, 0) | the step of connected_players to the next round |
| (0, 1) | what an instarug pays into the rugpool |
| (0, 2) | the rugpool amount shown in world `hazard` |
| (0, 3) to (0, 6) | in round FIRST_ROUND only: where players, rugpool count, rugpool amount and day start |
| (1, 0) to (1, 2) | the crowd: how many presale buyers, how many later buyers, where the cast begins |
| (2 + i, 0) to (2 + i, 6) | buyer i: entry, amount, holding time, sidebet or not, its tick, its amount, usual bet |

`Site` uses only + - * /, comparisons and linear interpolation, so that compiled code is bit-equal to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from playproof.errors import ConfigError
from playproof.games.crash.fair import GOLDEN, MASK, counter_uniform, round_key
from playproof.games.crash.ledger import MIN_BET
from playproof.games.crash.worlds import BYSTANDERS, HAZARD, World

WARM_UP_ROUNDS = 100
FIRST_ROUND = -WARM_UP_ROUNDS
RING = 100
"""Rounds that the session statistics look back on."""
ROUNDS_PER_DAY = 1280
RUGPOOL_THRESHOLD = 10
INSTARUG_TICKS = 6
"""A round that rugs before this tick counts as an instarug."""

CONNECTED_PLAYERS = (182.0, 196.0, 199.0, 201.0, 205.0, 242.0, 249.0, 253.0, 255.0)
CONNECTED_STEP = 0.08
"""Farthest step of connected_players to the next round, in shares of its distribution."""
RUGPOOL_STEP = (0.2, 0.5, 0.7, 0.83, 1.2, 2.0)
"""What one instarug pays in."""

PRESALE_BUYERS = (0.0, 17.0, 32.0, 38.0, 51.0, 56.0, 59.0, 61.0, 66.0)
LATER_BUYERS = (60.0, 100.0, 150.0, 200.0, 300.0)
ENTRY_TICK = (0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 640.0)
AMOUNT = (0.001, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 5.0)
HOLD_TICKS = (1.0, 3.0, 5.0, 9.0, 14.0, 20.0, 40.0, 80.0, 300.0)
SIDEBET_SHARE = 0.25
SIDEBET_AMOUNT = (0.001, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.25)

CAST_SIZE = 240
ANIMALS = ("otter", "lynx", "heron", "mole", "crane", "ibex", "newt", "raven", "stoat", "wren", "tapir", "gecko")


def quantile(table: Sequence[float], u: float) -> float:
    """Interpolate linearly in a table of equally spaced quantiles."""
    at = u * (len(table) - 1)
    i = min(int(at), len(table) - 2)
    return table[i] + (at - i) * (table[i + 1] - table[i])


@dataclass(frozen=True)
class RoundContext:
    """What the site shows all through one round."""

    connected_players: int
    rugpool_amount: float
    rugpool_threshold: int
    instarug_count: int
    average_multiplier: float
    """Mean peak of the last 100 rounds."""
    count_2x: int
    """Rounds of the last 100 whose peak reached 2; likewise the three below."""
    count_10x: int
    count_50x: int
    count_100x: int
    highest_today: float


def mean_peak(peaks: Sequence[float]) -> float:
    """Average the ring, adding from slot 0 up so that the last bit is reproducible."""
    total = 0.0
    for peak in peaks:
        total += peak
    return total / len(peaks)


def count_peaks(peaks: Sequence[float], least: float) -> int:
    """Count the peaks that reached a multiplier."""
    count = 0
    for peak in peaks:
        if peak >= least:
            count += 1
    return count


def next_level(level: float, u: float) -> float:
    """Walk a level in [0, 1] one step, reflected at both ends so that it stays uniform."""
    level += CONNECTED_STEP * (2.0 * u - 1.0)
    if level < 0.0:
        return -level
    if level > 1.0:
        return 2.0 - level
    return level


def next_rugpool(amount: float, count: int, rug_tick: int, u: float) -> tuple[float, int]:
    """Pay an instarug into the rugpool; at the threshold it is raffled off and starts again."""
    if rug_tick >= INSTARUG_TICKS:
        return amount, count
    if count + 1 >= RUGPOOL_THRESHOLD:
        return 0.0, 0
    return amount + quantile(RUGPOOL_STEP, u), count + 1


def next_highest(highest: float, day_start: int, next_round: int, peak: float) -> float:
    """Raise the day's highest peak, or forget it when the next round starts a day."""
    if (next_round + day_start) % ROUNDS_PER_DAY == 0:
        return 1.0
    return max(highest, peak)


def hazard_amount(hot: bool, u: float) -> float:
    """Draw the amount that tells a hot round: ratio in [0.8, 1) if hot, else in [0, 0.8).

    In steps of 2^-20, so that float32 holds amount and ratio on the right side of 0.8 too.
    """
    if hot:
        return 8.0 + int(u * 2097152.0) / 1048576.0
    return int(u * 8388608.0) / 1048576.0


@dataclass
class Site:
    """Roll the site's own statistics from round to round; `context` reads, `finish` moves on."""

    world: World
    seed: int
    peaks: list[float] = field(default_factory=lambda: [1.0] * RING)
    """Slot n % 100 holds the peak of round n."""
    level: float = field(init=False)
    """Where connected_players stands in its distribution, in [0, 1]."""
    instarug_count: int = field(init=False)
    rugpool_amount: float = field(init=False)
    day_start: int = field(init=False)
    """A day starts before round n if (n + day_start) % ROUNDS_PER_DAY is 0."""
    highest_today: float = 1.0

    def __post_init__(self) -> None:
        key = round_key(self.seed, FIRST_ROUND, BYSTANDERS)
        self.level = counter_uniform(key, 0, 3)
        self.instarug_count = int(RUGPOOL_THRESHOLD * counter_uniform(key, 0, 4))
        self.rugpool_amount = self.instarug_count * quantile(RUGPOOL_STEP, counter_uniform(key, 0, 5))
        self.day_start = int(ROUNDS_PER_DAY * counter_uniform(key, 0, 6))

    def context(self, round_number: int, hot: bool) -> RoundContext:
        """Give what the site shows in a round; `hot` matters in world `hazard` alone."""
        amount = self.rugpool_amount
        if self.world.code == HAZARD:
            amount = hazard_amount(hot, counter_uniform(round_key(self.seed, round_number, BYSTANDERS), 0, 2))
        return RoundContext(
            connected_players=int(quantile(CONNECTED_PLAYERS, self.level)),
            rugpool_amount=amount,
            rugpool_threshold=RUGPOOL_THRESHOLD,
            instarug_count=self.instarug_count,
            average_multiplier=mean_peak(self.peaks),
            count_2x=count_peaks(self.peaks, 2.0),
            count_10x=count_peaks(self.peaks, 10.0),
            count_50x=count_peaks(self.peaks, 50.0),
            count_100x=count_peaks(self.peaks, 100.0),
            highest_today=self.highest_today,
        )

    def finish(self, round_number: int, peak: float, rug_tick: int) -> None:
        """Take a finished round into the statistics."""
        key = round_key(self.seed, round_number, BYSTANDERS)
        self.peaks[round_number % RING] = peak
        self.level = next_level(self.level, counter_uniform(key, 0, 0))
        self.rugpool_amount, self.instarug_count = next_rugpool(
            self.rugpool_amount, self.instarug_count, rug_tick, counter_uniform(key, 0, 1)
        )
        self.highest_today = next_highest(self.highest_today, self.day_start, round_number + 1, peak)


def warm_site(world: World, seed: int, rounds: Iterable[tuple[float, int]]) -> Site:
    """Start a site from (peak, rug tick) of the 100 warm-up rounds, numbers -100 to -1."""
    site = Site(world, seed)
    number = FIRST_ROUND
    for peak, rug_tick in rounds:
        site.finish(number, peak, rug_tick)
        number += 1
    if number != 0:
        raise ConfigError(f"expected {WARM_UP_ROUNDS} warm-up rounds, found {number - FIRST_ROUND}")
    return site


@dataclass(frozen=True)
class Bystander:
    """One position of another person, from buy to sell, and perhaps a sidebet."""

    player: int
    """Index in the cast; one player may take several positions in a round."""
    name: str
    level: int
    entry_tick: int
    """-1 is the presale."""
    amount: int
    """What is bought for, in units of 10^-9."""
    exit_tick: int
    """May lie after the rug."""
    sidebet_tick: int | None
    """-1 is the presale; None is no sidebet."""
    sidebet_amount: int


Floats = npt.NDArray[np.float64]
_SHIFT = [np.uint64(n) for n in (30, 27, 31, 11)]
_FACTOR = [np.uint64(n) for n in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)]


def uniforms(key: int, first_tick: int, ticks: int) -> Floats:
    """Draw all 8 uniforms of some ticks at once, equal to `counter_uniform`; shape (ticks, 8)."""
    count = np.arange(8 * first_tick + 1, 8 * (first_tick + ticks) + 1, dtype=np.uint64)
    z = count * np.uint64(GOLDEN) + np.uint64(key & MASK)
    z = (z ^ (z >> _SHIFT[0])) * _FACTOR[0]
    z = (z ^ (z >> _SHIFT[1])) * _FACTOR[1]
    z = z ^ (z >> _SHIFT[2])
    return ((z >> _SHIFT[3]).astype(np.float64) * 2.0**-53).reshape(ticks, 8)


def quantiles(table: Sequence[float], u: Floats) -> Floats:
    """Interpolate in a table of equally spaced quantiles, for many draws."""
    return np.interp(u * (len(table) - 1), np.arange(len(table)), table)


def player_name(player: int) -> str:
    """Name a player of the cast."""
    return f"{ANIMALS[player % len(ANIMALS)]}-{100 + player * 37 % 900}"


def player_level(player: int) -> int:
    """Give a player's level, 1 to 79."""
    return 1 + player * player * 31 % 79


NAMES = tuple(player_name(player) for player in range(CAST_SIZE))
LEVELS = tuple(player_level(player) for player in range(CAST_SIZE))


def to_amounts(coins: Floats) -> npt.NDArray[np.int64]:
    """Round coins down to thousandths, at least the smallest bet, in units."""
    return np.maximum(np.floor(coins * 1000.0).astype(np.int64), 1) * MIN_BET


def crowd(seed: int, round_number: int) -> tuple[Bystander, ...]:
    """Draw who trades in a round, in order of entry."""
    key = round_key(seed, round_number, BYSTANDERS)
    early = int(quantile(PRESALE_BUYERS, counter_uniform(key, 1, 0)))
    late = int(quantile(LATER_BUYERS, counter_uniform(key, 1, 1)))
    shift = int(CAST_SIZE * counter_uniform(key, 1, 2))
    u = uniforms(key, 2, early + late)
    entry = np.full(early + late, -1, dtype=np.int64)
    entry[early:] = np.sort(np.floor(quantiles(ENTRY_TICK, u[early:, 0]))).astype(np.int64)
    exits = np.maximum(entry, 0) + np.floor(quantiles(HOLD_TICKS, u[:, 2])).astype(np.int64)
    bets = np.where(u[:, 3] < SIDEBET_SHARE, entry, -2)
    rows = zip(
        ((np.arange(early + late) * 7 + shift) % CAST_SIZE).tolist(),
        entry.tolist(),
        to_amounts(quantiles(AMOUNT, u[:, 1])).tolist(),
        exits.tolist(),
        bets.tolist(),
        to_amounts(quantiles(SIDEBET_AMOUNT, u[:, 5])).tolist(),
        strict=True,
    )
    return tuple(
        Bystander(
            player,
            NAMES[player],
            LEVELS[player],
            tick,
            amount,
            out,
            None if bet == -2 else bet,
            0 if bet == -2 else stake,
        )
        for player, tick, amount, out, bet, stake in rows
    )
