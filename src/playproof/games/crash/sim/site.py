"""The site around a lane's rounds, compiled: the statistics of the last rounds, the rugpool, the players connected.

They are drawn by the bystander model (crowd) from streams of their own, so that no player can move them.
"""

from __future__ import annotations

import numpy as np

from playproof._numba import compiler
from playproof.games.crash.features import state
from playproof.games.crash.rules.worlds import BYSTANDERS
from playproof.games.crash.sim import crowd
from playproof.games.crash.sim.arrays import Floats, Record
from playproof.games.crash.sim.crowd import FIRST_ROUND, INSTARUG_TICKS, RING, ROUNDS_PER_DAY, RUGPOOL_THRESHOLD
from playproof.games.crash.sim.prices_nb import HAZARD, counter_uniform, round_key

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)

_CONNECTED = np.array(crowd.CONNECTED_PLAYERS)
_RUGPOOL_STEP = np.array(crowd.RUGPOOL_STEP)
_RUGPOOL_MEAN = crowd.RUGPOOL_MEAN
_HIGHEST_TODAY = np.array(crowd.HIGHEST_TODAY)
_CONNECTED_STEP = crowd.CONNECTED_STEP


@inlined
def quantile(table: Floats, u: float) -> float:
    """Interpolate linearly in a table of equally spaced quantiles."""
    at = u * (len(table) - 1)
    i = min(int(at), len(table) - 2)
    return float(table[i] + (at - i) * (table[i + 1] - table[i]))


@compiled
def start_site(site: Record, world: int, seed: np.uint64) -> None:
    """Draw where the site's statistics begin."""
    key = round_key(seed, FIRST_ROUND, BYSTANDERS)
    site.peaks[:] = 1.0
    site.level = counter_uniform(key, 0, 3)
    site.instarugs = int(RUGPOOL_THRESHOLD * counter_uniform(key, 0, 4))
    site.rugpool = site.instarugs * _RUGPOOL_MEAN
    site.day_start = int(ROUNDS_PER_DAY * counter_uniform(key, 0, 5))
    site.highest = quantile(_HIGHEST_TODAY[world], counter_uniform(key, 0, 6))


@compiled
def finish_site(site: Record, seed: np.uint64, round_number: int, peak: float, rug_tick: int) -> None:
    """Take a finished round into the site's statistics."""
    key = round_key(seed, round_number, BYSTANDERS)
    site.peaks[round_number % RING] = peak
    level = site.level + _CONNECTED_STEP * (2.0 * counter_uniform(key, 0, 0) - 1.0)
    if level < 0.0:
        level = -level
    elif level > 1.0:
        level = 2.0 - level
    site.level = level
    if rug_tick < INSTARUG_TICKS:
        if site.instarugs + 1 >= RUGPOOL_THRESHOLD:
            site.rugpool = 0.0
            site.instarugs = 0
        else:
            site.rugpool += quantile(_RUGPOOL_STEP, counter_uniform(key, 0, 1))
            site.instarugs += 1
    if (round_number + 1 + site.day_start) % ROUNDS_PER_DAY == 0:
        site.highest = 1.0
    else:
        site.highest = max(site.highest, peak)


@compiled
def show_site(site: Record, s: Record, world: int, seed: np.uint64, round_number: int, hot: bool) -> None:
    """Show the player what the site shows all through the round."""
    amount = site.rugpool
    if world == HAZARD:
        u = counter_uniform(round_key(seed, round_number, BYSTANDERS), 0, 2)
        amount = 8.0 + int(u * 2097152.0) / 1048576.0 if hot else int(u * 8388608.0) / 1048576.0
    total = 0.0
    over_2, over_10, over_50, over_100 = 0, 0, 0, 0
    for i in range(RING):
        peak = site.peaks[i]
        total += peak
        over_2 += peak >= 2.0
        over_10 += peak >= 10.0
        over_50 += peak >= 50.0
        over_100 += peak >= 100.0
    state.apply_connected(s, float(int(quantile(_CONNECTED, site.level))))
    state.apply_rugpool(s, amount, float(RUGPOOL_THRESHOLD), float(site.instarugs))
    state.apply_session(s, total / RING, float(over_2), float(over_10), float(over_50), float(over_100))
    state.apply_highest(s, site.highest)
