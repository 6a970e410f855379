"""What a player sees of other people: the site's statistics, and the crowd that trades in a round.

Both are drawn before a round and know nothing of its prices: `Site` rolls the market, session and
rugpool numbers from round to round, `crowd` draws who buys, sells and bets in one round.
Leaves out: money (an amount is only what was staked) and everything that would react to a price.
The constants were fitted by scripts/fit_bystanders.py; docs/concepts/crowd-model.md compares model and data.

Draws come from a round's bystander stream, `counter_uniform(key, tick, draw)`:

| (tick, draw) | decides | stream of |
|---|---|---|
| (0, 0) | the step of connected_players to the next round | the round |
| (0, 1) | what an instarug pays into the rugpool | the round |
| (0, 2) | the rugpool amount shown in world `hazard` | the round |
| (0, 3) to (0, 6) | where connected_players, instarug count, day and highest_today start | FIRST_ROUND |
| (1, 0) to (1, 2) | level of presale buyers, first of the active people, share of sidebets | its PRESALE_BLOCK |
| (1, 3) | how busy later buyers are | its BUSY_BLOCK |
| (1, 4) to (1, 7) | presale buyers about their level, is there a farm, its share, its exit | the round |
| (2 + 2048 k + i, 0) to (.., 6) | buyer i of stretch k: entry, stake, usual stake or not, hold, sidebet or not, \
its stake, usual stake or not | the round |

A block of rounds draws from the stream of its first round. `Site` uses only + - * /, comparisons and
linear interpolation, so that compiled code is bit-equal to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from playproof.errors import ConfigError
from playproof.games.crash.rules.money import MIN_BET
from playproof.games.crash.rules.prices import GOLDEN, MASK, counter_uniform, round_key
from playproof.games.crash.rules.worlds import BYSTANDERS, HAZARD, World

WARM_UP_ROUNDS = 100
FIRST_ROUND = -WARM_UP_ROUNDS
RING = 100
"""Rounds that the session statistics look back on."""
RUGPOOL_THRESHOLD = 10
INSTARUG_TICKS = 6
"""A round that rugs before this tick is an instarug. Documented by the site; of the recordings only that
a rug on tick 16 is none."""
ROUNDS_PER_DAY = 1300
"""At 0.2506 s a tick and 16.35 s between rounds, from 21 pairs of successive rugs, and 200 ticks a round."""

CONNECTED_PLAYERS = (182.0, 200.0, 202.0, 204.0, 208.0, 250.0, 254.0, 255.0, 255.0)
"""Equally spaced quantiles, from 699 messages; thin: they come from two captures, of 90 and 35 seconds."""
CONNECTED_STEP = 0.12
"""Farthest step of connected_players to the next round, in shares of its distribution; thin: 3 steps seen."""
RUGPOOL_MEAN = 0.814
"""What an instarug pays in on average; thin: 0.701 after 1 instarug and 7.441 after 9 is all that was seen.
It did not move over two recorded rounds that were no instarugs, so only instarugs pay in."""
RUGPOOL_STEP = (0.042, 0.255, 0.372, 0.441, 0.503, 0.569, 0.761, 1.556, 4.067)
"""Equally spaced quantiles of what an instarug pays in: the spread of the crowd's presale stakes about that mean."""
# fmt: off
HIGHEST_TODAY = (
    (1.0, 48.5, 96.7, 142.0, 185.0, 240.0, 309.0, 380.0, 514.0, 566.0,
     663.0, 820.0, 924.0, 1570.0, 3840.0, 8890.0, 25800.0),
    (1.0, 48.5, 96.7, 142.0, 185.0, 240.0, 309.0, 380.0, 514.0, 566.0,
     663.0, 820.0, 924.0, 1570.0, 3840.0, 8890.0, 25800.0),
    (1.0, 37.3, 67.3, 101.0, 136.0, 171.0, 229.0, 291.0, 351.0, 483.0,
     536.0, 600.0, 679.0, 942.0, 1570.0, 4880.0, 25800.0),
    (1.0, 3.6, 4.5, 5.0, 5.5, 6.0, 7.0, 7.5, 7.9, 8.3,
     8.8, 9.6, 10.6, 10.8, 11.7, 12.7, 16.8),
    (1.0, 48.5, 96.7, 142.0, 185.0, 240.0, 309.0, 380.0, 514.0, 566.0,
     663.0, 820.0, 924.0, 1570.0, 3840.0, 8890.0, 25800.0),
)
# fmt: on
"""By world code, equally spaced quantiles of the day's highest peak at a random time of day: simulated (20,000
rounds a world), since the recordings show only two, 11450 and 1886. Worlds `fair` and `instarug` share the table
of `published`, whose highest peaks they have."""

GRID = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.995, 1.0)
"""Where the quantile tables of the crowd stand."""
PRESALE_BUYERS = (6.0, 18.0, 32.0, 38.0, 51.0, 56.0, 59.0, 61.0, 63.0, 65.0, 66.0)
"""The trade counter at tick 1 of 563 rounds."""
PRESALE_BLOCK = 37
"""Rounds that share a level of presale buyers: their counts correlate with 0.91 at lag 1, 0.49 at lag 20."""
PRESALE_STEP = 0.15
"""How far a round's presale buyers may lie from the level of its block, in shares of the distribution."""
BUSY = (0.24, 0.47, 0.56, 0.71, 0.94, 1.21, 1.55, 1.75, 1.96, 2.35, 3.33)
"""Trades a tick of a round against their mean, 415 rounds of 60 ticks or more."""
BUSY_BLOCK = 4
"""Rounds that are equally busy: trades a tick correlate with 0.46 at lag 1, 0.11 at lag 5."""
STRETCH = 640
"""Ticks of later buyers that one call of `crowd` draws; 1 round in 25 lasts longer."""
BUY_EDGES = (0, 10, 20, 40, 80, 160, 320, 640)
BUY_RATES = (0.507, 0.534, 0.564, 0.585, 0.557, 0.519, 0.45)
"""Later buyers a tick between those edges, half of all trades, 99,412 ticks; the last holds ever after."""
FARM_CHANCE = 0.93
"""Rounds in which many small accounts buy before the round and leave on one tick, 382 of 410."""
FARM_SHARE = (0.33, 0.45, 0.49, 0.53, 0.57, 0.7, 0.77, 0.82, 0.85, 0.88, 0.9)
"""Of the presale buyers, 382 rounds."""
FARM_EXIT = (3.0, 3.0, 3.0, 3.0, 3.0, 6.0, 21.0, 21.0, 21.0, 21.0, 24.0)
"""The tick the farm leaves on, 382 rounds: the third in October, up to the 21st in November."""
AMOUNT = (0.001, 0.001, 0.001, 0.002, 0.01, 0.034, 0.103, 0.179, 0.265, 1.853, 5.0)
"""Usual stakes of people; thin: 45 players who came on a leaderboard or into the trade feed, with the share of
those above the farm's stakes (13 of about 45 people) from the complete presale leaderboards of two rounds."""
FARM_AMOUNT = (0.006, 0.01, 0.014, 0.02, 0.022, 0.022, 0.023, 0.023, 0.023, 0.023, 0.023)
"""Stakes of the farm; thin: 7 accounts."""
HOLD = (1.0, 1.2, 1.5, 2.2, 10.7, 39.8, 78.3, 107.4, 145.9, 204.2, 264.2)
"""Ticks from buy to sell. The mean, 28.9, follows from 16.1 positions open at the rug of 462 rounds; the shape
is thin: 23 completed positions of 5 players, two of whom sell within 3 ticks."""
PRESALE_HOLD = (5.0, 5.0, 5.0, 6.0, 24.0, 42.0, 49.0, 63.0, 71.0, 76.0, 77.0)
"""The same for people who bought before the round; thin: 10 positions."""
SIDEBET_SHARE = (0.23, 0.4)
"""Positions of people with a sidebet beside them, in the quieter and in the busier capture, 23 rounds."""
SIDEBET_AMOUNT = (0.001, 0.001, 0.001, 0.001, 0.003, 0.01, 0.05, 0.05, 0.1, 0.144, 5.0)
"""1,009 sidebets of 80 players."""
USUAL_SHARE = 0.70
"""Stakes equal to the player's most frequent one, 951 sidebets of players with 5 or more."""
LEVEL = (2.0, 6.0, 9.0, 14.0, 26.0, 48.0, 59.0, 72.0, 77.0, 93.0, 100.0)
"""60 players."""

TRADE_FEED_TICKS = 8
"""The site broadcasts a newTrade at most every 2 s, whoever traded in between (43 gaps)."""
TRADE_FEED_LEAST = 10_000_000
"""And probably none below 0.01: no smaller one among 31, though every third stake on the leaderboards is."""

FARM_SIZE = 48
FARM_LEVEL = 8
"""The farm fills the first places of the cast; all its accounts have this level."""
PEOPLE = 240
ACTIVE = 96
"""People of the cast who trade in one round, in turn; the leaderboards show at least 30 of them."""
CAST_SIZE = FARM_SIZE + PEOPLE
ANIMALS = ("otter", "lynx", "heron", "mole", "crane", "ibex", "newt", "raven", "stoat", "wren", "tapir", "gecko")
DRAWS_PER_STRETCH = 2048
"""More than any stretch has buyers."""


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


def next_level(level: float, step: float, u: float) -> float:
    """Walk a level in [0, 1] by at most one step, reflected at both ends so that it stays uniform."""
    level += step * (2.0 * u - 1.0)
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
    highest_today: float = field(init=False)

    def __post_init__(self) -> None:
        key = round_key(self.seed, FIRST_ROUND, BYSTANDERS)
        self.level = counter_uniform(key, 0, 3)
        self.instarug_count = int(RUGPOOL_THRESHOLD * counter_uniform(key, 0, 4))
        self.rugpool_amount = self.instarug_count * RUGPOOL_MEAN
        self.day_start = int(ROUNDS_PER_DAY * counter_uniform(key, 0, 5))
        self.highest_today = quantile(HIGHEST_TODAY[self.world.code], counter_uniform(key, 0, 6))

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
        self.level = next_level(self.level, CONNECTED_STEP, counter_uniform(key, 0, 0))
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
Integers = npt.NDArray[np.int64]
_SHIFTS = [np.uint64(n) for n in (30, 27, 31, 11)]
_FACTORS = [np.uint64(n) for n in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)]


def uniforms(key: int, first_tick: int, ticks: int) -> Floats:
    """Draw all 8 uniforms of some ticks at once, equal to `counter_uniform`; shape (8, ticks)."""
    count = np.arange(8 * first_tick + 1, 8 * (first_tick + ticks) + 1, dtype=np.uint64)
    z = count * np.uint64(GOLDEN) + np.uint64(key & MASK)
    z = (z ^ (z >> _SHIFTS[0])) * _FACTORS[0]
    z = (z ^ (z >> _SHIFTS[1])) * _FACTORS[1]
    z = z ^ (z >> _SHIFTS[2])
    return ((z >> _SHIFTS[3]).astype(np.float64) * 2.0**-53).reshape(ticks, 8).T


def pick(table: Sequence[float], u: Floats) -> Floats:
    """Interpolate in a quantile table of the crowd."""
    return np.interp(u, GRID, table)


def pick_one(table: Sequence[float], u: float) -> float:
    """Do the same for a single draw."""
    return float(np.interp(u, GRID, table))


def units(coins: Floats) -> Integers:
    """Round stakes to thousandths, at least the smallest bet, in units of 10^-9."""
    return np.maximum(np.rint(coins * 1000.0).astype(np.int64), 1) * MIN_BET


def spread(step: float) -> Floats:
    """Place the people of the cast evenly in [0, 1), in an order that looks arbitrary."""
    return np.arange(1, PEOPLE + 1, dtype=np.float64) * step % 1.0


def player_name(player: int) -> str:
    """Name a player of the cast, such as otter-412."""
    return f"{ANIMALS[player * 5 % len(ANIMALS)]}-{100 + player * 373 % 900}"


NAMES = tuple(player_name(player) for player in range(CAST_SIZE))
LEVELS = (*[FARM_LEVEL] * FARM_SIZE, *pick(LEVEL, spread(0.7548776662466927)).astype(int).tolist())
USUAL_AMOUNT = pick(AMOUNT, spread(0.6180339887498949))
"""What each of the people usually stakes on a position, in coins."""
USUAL_SIDEBET = pick(SIDEBET_AMOUNT, spread(0.4142135623730951))
_BUYS = np.concatenate(([0.0], np.cumsum(np.multiply(BUY_RATES, np.diff(BUY_EDGES)))))
"""Later buyers of an average round up to each of BUY_EDGES."""


@dataclass(frozen=True)
class Turnout:
    """How many trade in a round, drawn before it."""

    farm: int
    """Accounts that buy before the round and leave together."""
    farm_exit: int
    presale: int
    """People who buy before the round."""
    busy: float
    """Later buyers against an average round."""
    first: int
    """The first of the active people."""
    sidebet_share: float


def draw_turnout(seed: int, round_number: int) -> Turnout:
    """Draw how many trade in a round."""
    own = round_key(seed, round_number, BYSTANDERS)
    block = round_key(seed, round_number - round_number % PRESALE_BLOCK, BYSTANDERS)
    busy = counter_uniform(round_key(seed, round_number - round_number % BUSY_BLOCK, BYSTANDERS), 1, 3)
    level = next_level(counter_uniform(block, 1, 0), PRESALE_STEP, counter_uniform(own, 1, 4))
    buyers = int(pick_one(PRESALE_BUYERS, level))
    share = pick_one(FARM_SHARE, counter_uniform(own, 1, 6)) if counter_uniform(own, 1, 5) < FARM_CHANCE else 0.0
    farm = min(int(buyers * share), FARM_SIZE)
    low, high = SIDEBET_SHARE
    return Turnout(
        farm=farm,
        farm_exit=int(pick_one(FARM_EXIT, counter_uniform(own, 1, 7))),
        presale=buyers - farm,
        busy=pick_one(BUSY, busy),
        first=int(PEOPLE * counter_uniform(block, 1, 1)),
        sidebet_share=low + (high - low) * counter_uniform(block, 1, 2),
    )


def draw_farm(turnout: Turnout, u: Floats) -> list[Bystander]:
    """Draw the accounts that act together; they place no sidebets."""
    amounts = units(pick(FARM_AMOUNT, u[1])).tolist()
    return [
        Bystander(i, NAMES[i], FARM_LEVEL, -1, amount, turnout.farm_exit, None, 0) for i, amount in enumerate(amounts)
    ]


def draw_people(turnout: Turnout, entry: Integers, first: int, u: Floats) -> list[Bystander]:
    """Draw people who act alone, given the ticks they enter on; `first` is how many came before them."""
    person = (turnout.first + (first + np.arange(len(entry))) % ACTIVE) % PEOPLE
    early = entry < 0
    hold = np.where(early, pick(PRESALE_HOLD, u[3]), pick(HOLD, u[3])).astype(np.int64)
    amount = units(np.where(u[2] < USUAL_SHARE, USUAL_AMOUNT[person], pick(AMOUNT, u[1])))
    stake = units(np.where(u[6] < USUAL_SHARE, USUAL_SIDEBET[person], pick(SIDEBET_AMOUNT, u[5])))
    bets = u[4] < turnout.sidebet_share
    player = (person + FARM_SIZE).tolist()
    ticks: list[int] = entry.tolist()
    return list(
        map(
            Bystander,
            player,
            map(NAMES.__getitem__, player),
            map(LEVELS.__getitem__, player),
            ticks,
            amount.tolist(),
            (np.maximum(entry, 0) + np.maximum(hold, 1)).tolist(),
            [tick if bet else None for tick, bet in zip(ticks, bets.tolist(), strict=True)],
            np.where(bets, stake, 0).tolist(),
        )
    )


def later_entries(stretch: int, u: Floats) -> Integers:
    """Place later buyers on the ticks of a stretch, in order."""
    u = np.sort(u)
    ticks = STRETCH * (stretch + u) if stretch else np.interp(u, _BUYS / _BUYS[-1], BUY_EDGES)
    return np.floor(ticks).astype(np.int64)


def crowd(seed: int, round_number: int, stretch: int = 0) -> tuple[Bystander, ...]:
    """Draw who trades in a round, in order of entry.

    Stretch 0 holds everybody who enters before tick 640; a round that lasts longer asks for stretch 1 at that
    tick, and so on. Callers that never ask see a round without new bystanders from there.
    """
    turnout = draw_turnout(seed, round_number)
    mean = _BUYS[-1] if stretch == 0 else STRETCH * BUY_RATES[-1]
    later = int(turnout.busy * mean)
    farm, presale = (turnout.farm, turnout.presale) if stretch == 0 else (0, 0)
    count = farm + presale + later
    u = uniforms(round_key(seed, round_number, BYSTANDERS), 2 + DRAWS_PER_STRETCH * stretch, count)
    entry = np.full(presale + later, -1, dtype=np.int64)
    entry[presale:] = later_entries(stretch, u[0, farm + presale :])
    before = 0 if stretch == 0 else turnout.presale + int(turnout.busy * _BUYS[-1]) + (stretch - 1) * later
    return (*draw_farm(turnout, u[:, :farm]), *draw_people(turnout, entry, before, u[:, farm:]))
