"""The worlds of the crash game: the published one, and four that differ in one known way.

A world is data; the tick that reads it stands here in plain Python and in `fast` compiled.
Leaves out: what other people do (bystanders) and money (ledger).

| world | differs from the published game in |
|---|---|
| published | nothing |
| fair | a rug pays rho x the last price, a sidebet 5.5042: holding is worth exactly 0 |
| hazard | in 30 % of the rounds, shown as rugpool_ratio >= 0.8, the rug is 4 x as likely |
| drift | a countdown of 20 ticks, shown as cooldown_timer_ms, gains 1 % a tick; outside -1 % |
| instarug | 5 % of the rounds rug within 5 ticks, the others after them |

What a world draws for itself comes from a stream of its own, so that the site's stream is used
exactly as published. `drift` has no god candles, so that its means are exactly +1 % and -1 %.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from playproof.errors import UnknownName
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.rules.prices import (
    BIG_CHANCE,
    MAX_TICKS,
    RUG_CHANCE,
    RUG_FACTOR,
    Round,
    SeedRandom,
    Uniform,
    Version,
    counter_uniform,
    next_price,
    round_key,
)

PUBLISHED, FAIR, HAZARD, DRIFT, INSTARUG = range(5)

RHO_LOW = 0.11147370625
RHO_HIGH = 0.129375
HOT_SHARE = 0.3
HOT_HAZARD = 4.0
COUNTDOWN_CHANCE = 1 / 40
COUNTDOWN_TICKS = 20
DRIFT_CHANGE = 0.01
INSTARUG_SHARE = 0.05
INSTARUG_TICKS = 5
TICK_MS = 250

PRICES, WORLD, BYSTANDERS = range(3)
"""Purposes of the counter-based streams of one round."""


@dataclass(frozen=True)
class World:
    """One set of rules for rounds."""

    name: str
    code: int
    summary: str
    payout: Fraction = Fraction(5)
    """What a winning sidebet pays for each unit staked."""
    open_cost: int | None = None
    """Largest cost of open lots, in units."""
    ceiling: float | None = 0.0
    """Best expected profit per unit reserved before a round; None where it is positive without a closed form."""


def _presale_sidebet() -> float:
    """Give the one good bet of world `instarug`: a sidebet before the round."""
    later = (1 - INSTARUG_SHARE) * (1 - (1 - RUG_CHANCE) ** (SIDEBET_TICKS - INSTARUG_TICKS))
    return 5 * (INSTARUG_SHARE + later) - 1


WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        World("published", PUBLISHED, "the game as published: every position and sidebet loses on average"),
        World("fair", FAIR, "a rug pays back so much that nothing wins or loses on average", Fraction(55042, 10000)),
        World("hazard", HAZARD, "3 rounds in 10 are 4 x as dangerous and say so", ceiling=None),
        World("drift", DRIFT, "prices rise during countdowns and fall outside", open_cost=10**8, ceiling=None),
        World("instarug", INSTARUG, "1 round in 20 rugs within 5 ticks, the others do not", ceiling=_presale_sidebet()),
    )
}


def get_world(name: str) -> World:
    """Look a world up by its name."""
    if name not in WORLDS:
        raise UnknownName("world", name, WORLDS)
    return WORLDS[name]


@dataclass(frozen=True)
class RoundDraw:
    """What a world draws before a round: is it hot (hazard), and its forced rug tick (instarug)."""

    hot: bool = False
    instarug_tick: int = 0


def draw_round(world: World, world_key: int) -> RoundDraw:
    """Draw what the world fixes before the round."""
    first = counter_uniform(world_key, 0, 0)
    if world.code == HAZARD:
        return RoundDraw(hot=first < HOT_SHARE)
    if world.code == INSTARUG and first < INSTARUG_SHARE:
        return RoundDraw(instarug_tick=1 + int(INSTARUG_TICKS * counter_uniform(world_key, 0, 1)))
    return RoundDraw()


def rugs(world: World, drawn: RoundDraw, tick: int, first: float) -> bool:
    """Decide whether the tick rugs, from the first draw of the tick."""
    if world.code == INSTARUG:
        if drawn.instarug_tick:
            return tick >= drawn.instarug_tick
        return tick > INSTARUG_TICKS and first < RUG_CHANCE
    return first < (RUG_CHANCE * HOT_HAZARD if drawn.hot else RUG_CHANCE)


def rug_price(world: World, price: float, low: float) -> float:
    """Give the price that open positions are sold at."""
    if world.code == FAIR:
        return (RHO_LOW if price <= 100.0 else RHO_HIGH) * price
    return RUG_FACTOR * low


def drift_price(price: float, countdown: int, uniform: Uniform) -> float:
    """Move the price of world `drift`: +1 % on average in a countdown, -1 % outside."""
    uniform()  # the draw of the god candle, unused here
    if uniform() < BIG_CHANCE and countdown == 0:
        size = 0.15 + uniform() * (0.25 - 0.15)
        change = (size if uniform() > 0.5 else -size) - DRIFT_CHANGE
    else:
        mean = DRIFT_CHANGE if countdown > 0 else -DRIFT_CHANGE
        spread = 0.05 * (uniform() - 0.5)
        change = mean + spread + 0.005 * min(10.0, math.sqrt(price)) * (2.0 * uniform() - 1.0)
    return max(0.0, price * (1.0 + change))


@dataclass(frozen=True)
class WorldRound(Round):
    """A round of a world, with what the world shows beside the price."""

    countdown: tuple[int, ...] = ()
    """Ticks left of the countdown, by tick (world `drift`; 0 elsewhere)."""
    hot: bool = False


TickStream = Callable[[int], Uniform]
"""Give the uniform draws of a tick, in order."""


def counter_stream(key: int) -> TickStream:
    """Draw from the counter-based stream of a round."""

    def at(tick: int) -> Uniform:
        draws: Iterator[float] = (counter_uniform(key, tick, draw) for draw in range(8))
        return lambda: next(draws)

    return at


def site_stream(server_seed: str, game_id: str) -> TickStream:
    """Draw from the site's stream of a round, which does not know of ticks."""
    uniform = SeedRandom(f"{server_seed}-{game_id}")
    return lambda _: uniform


def counter_round(world: World, seed: int, round_number: int) -> WorldRound:
    """Play round number n of a seed, as simulation and training see it."""
    return play(world, round_key(seed, round_number, WORLD), counter_stream(round_key(seed, round_number, PRICES)))


def site_round(world: World, server_seed: str, game_id: str, version: Version = "v3") -> WorldRound:
    """Play the round of a server seed, as the server deals it and anybody can verify it."""
    digest = hashlib.sha256(f"{server_seed}-{game_id}".encode()).digest()
    world_key = int.from_bytes(digest[:8], "big")
    return play(world, world_key, site_stream(server_seed, game_id), version)


def play(world: World, world_key: int, uniform_at: TickStream, version: Version = "v3") -> WorldRound:
    """Play one round of a world; `uniform_at(tick)` gives the tick's draws in order."""
    drawn = draw_round(world, world_key)
    prices, countdowns, low, left = [1.0], [0], 1.0, 0
    for tick in range(1, MAX_TICKS + 1):
        uniform = uniform_at(tick)
        price = prices[-1]
        if rugs(world, drawn, tick, uniform()):
            prices.append(rug_price(world, price, low))
            return WorldRound(tuple(prices), True, (*countdowns, 0), drawn.hot)
        if world.code == DRIFT:
            price = drift_price(price, left, uniform)
            if left > 0:
                left -= 1
            elif counter_uniform(world_key, tick, 2) < COUNTDOWN_CHANCE:
                left = COUNTDOWN_TICKS
        else:
            price = next_price(price, version, uniform)
        prices.append(price)
        countdowns.append(left)
        low = min(low, price)
    return WorldRound(tuple(prices), False, tuple(countdowns), drawn.hot)


def ceiling(world: str) -> float | None:
    """Give the best expected profit per unit reserved before a round; None where it is positive and unknown."""
    return get_world(world).ceiling
