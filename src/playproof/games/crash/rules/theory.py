"""What a world is worth by theory: survival, and the return of buying at tick 0 and holding.

Write h(t) for the chance that the rug comes at tick t, S(k) for the chance that it comes after k,
G(k) for the mean price at tick k of a path that does not rug, and L(t) for the mean of its lowest
price so far. Prices do not know of the rug, so holding k ticks returns on average

    S(k) G(k) + sum over t = 1..k of h(t) rug_factor L(t - 1) - 1

h, S and G have closed forms here; L has none and comes from a long run of paths without rugs.
In world `fair` the return is 0 by construction. G holds while prices stay below 100.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from playproof._numba import compiler
from playproof.games.crash.rules import prices, worlds
from playproof.games.crash.rules.money import SIDEBET_TICKS
from playproof.games.crash.rules.worlds import World
from playproof.games.crash.sim import prices_nb

compiled = compiler(__file__)

LOW_SEED = 20_251_215
LOW_PATHS = 200_000
GROWTH = (1 - prices.GOD_CHANCE) * (1 - prices.BIG_CHANCE) * 0.005 + prices.GOD_CHANCE * (prices.GOD_FACTOR - 1)
"""What a survivor gains in a tick below 100: 0.446495625 %."""


def rug_chances(world: World, horizon: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Give h(t) for t = 0 to the horizon."""
    ticks = np.arange(horizon + 1)

    def constant(chance: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.where(ticks > 0, chance * (1 - chance) ** (ticks - 1.0), 0.0)

    if world.code == worlds.HAZARD:
        hot = constant(prices.RUG_CHANCE * worlds.HOT_HAZARD)
        return worlds.HOT_SHARE * hot + (1 - worlds.HOT_SHARE) * constant(prices.RUG_CHANCE)
    if world.code == worlds.INSTARUG:
        first = worlds.INSTARUG_TICKS
        later = (1 - worlds.INSTARUG_SHARE) * prices.RUG_CHANCE * (1 - prices.RUG_CHANCE) ** (ticks - first - 1.0)
        early = np.where(ticks > 0, worlds.INSTARUG_SHARE / first, 0.0)
        return np.where(ticks > first, later, early)
    return constant(prices.RUG_CHANCE)


def survival(world: World, tick: int) -> float:
    """Give S: the chance that the rug comes after the tick."""
    return float(1 - rug_chances(world, tick).sum())


def survival_in(world: str, ticks: int) -> float:
    """Give the chance that a round of the named world lasts longer than so many ticks."""
    return survival(worlds.get_world(world), ticks)


def growth(world: World, ticks: int) -> float:
    """Give G: the mean price at a tick of a path that does not rug."""
    if world.code != worlds.DRIFT:
        return float((1 + GROWTH) ** ticks)
    outside, inside = 1.0, np.zeros(worlds.COUNTDOWN_TICKS + 1)  # mean price by ticks left
    for _ in range(ticks):
        moved_out = outside * (1 - worlds.DRIFT_CHANGE)
        moved_in = inside * (1 + worlds.DRIFT_CHANGE)
        outside = moved_out * (1 - worlds.COUNTDOWN_CHANCE) + moved_in[1]
        inside[:-1] = moved_in[1:]
        inside[0] = 0.0
        inside[-1] = moved_out * worlds.COUNTDOWN_CHANCE
    return float(outside + inside.sum())


@compiled
def _lows(code: int, seed: int, paths: int, total: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    for path in range(paths):
        key = prices_nb.round_key(np.uint64(seed), path, prices_nb.PRICES)
        world_key = prices_nb.round_key(np.uint64(seed), path, prices_nb.WORLD)
        price, low, left = 1.0, 1.0, 0
        total[0] += 1.0
        for tick in range(1, len(total)):
            price = prices_nb.counter_moved(code, key, tick, price, left)
            left = prices_nb.next_countdown(code, world_key, tick, left)
            low = min(low, price)
            total[tick] += low


@lru_cache(maxsize=32)
def mean_lows(code: int, horizon: int, paths: int = LOW_PATHS) -> tuple[float, ...]:
    """Give L(0) to L(horizon) from a long run; its error moves a return by less than 0.001 %."""
    total = np.zeros(horizon + 1)
    _lows(code, LOW_SEED, paths, total)
    return tuple((total / paths).tolist())


def hold_return(world: World, ticks: int) -> float:
    """Give the mean return of buying at tick 0 and holding so long, as a fraction."""
    if world.code == worlds.FAIR:
        return 0.0
    lows = mean_lows(worlds.DRIFT if world.code == worlds.DRIFT else worlds.PUBLISHED, ticks)
    rugged = rug_chances(world, ticks)[1:] @ np.array(lows[:-1]) * prices.RUG_FACTOR
    return float(survival(world, ticks) * growth(world, ticks) + rugged - 1)


def sidebet_return(world: World) -> float:
    """Give the mean profit per unit of a sidebet placed before tick 0."""
    return float(world.payout) * (1 - survival(world, SIDEBET_TICKS)) - 1
