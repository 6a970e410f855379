"""The rounds of a lane, compiled: warm-up, the next round, the next tick, and a tape of recorded rounds.

Prices come from the counter-based stream (prices_nb) or from the tape.
"""

from __future__ import annotations

import numpy as np

from playproof._numba import compiler
from playproof.games.crash.features import state
from playproof.games.crash.features.state import PRESALE, RUGGED
from playproof.games.crash.sim import orders
from playproof.games.crash.sim.arrays import Record, Records
from playproof.games.crash.sim.crowd import FIRST_ROUND
from playproof.games.crash.sim.prices_nb import (
    MAX_TICKS,
    PRICES,
    WORLD,
    counter_moved,
    counter_uniform,
    draw_hot,
    draw_instarug,
    finish_round,
    next_countdown,
    round_key,
    rug_chance,
    rug_price,
)
from playproof.games.crash.sim.site import finish_site, show_site, start_site

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)


@compiled
def seed_lane(lane: Record, site: Record, world: int, seed: np.uint64, first_round: int) -> None:
    """Key a lane and play its 100 warm-up rounds and all before the first; that one comes next."""
    lane.seed = seed
    start_site(site, world, seed)
    for number in range(FIRST_ROUND, first_round):
        world_key = round_key(seed, number, WORLD)
        tick, peak = finish_round(
            world,
            round_key(seed, number, PRICES),
            world_key,
            draw_hot(world, world_key),
            draw_instarug(world, world_key),
            0,
            1.0,
            1.0,
            0,
        )
        finish_site(site, seed, number, peak, tick)
    lane.round = first_round - 1
    lane.over = 1


@inlined
def id_hash(key: np.uint64) -> float:
    """Give a simulated round's identity as a number in [0, 1)."""
    return float(key >> np.uint64(40)) / 16777216.0


@compiled
def close_round(lane: Record, site: Record, cfg: Record) -> None:
    """Play an abandoned round to its end, so that the site's statistics never depend on the player."""
    tick, peak = lane.last_tick, lane.tape_peak
    if cfg.taped == 0:
        tick, peak = finish_round(
            cfg.world,
            lane.price_key,
            lane.world_key,
            lane.hot != 0,
            lane.instarug,
            lane.tick,
            lane.price,
            lane.peak,
            lane.countdown,
        )
    finish_site(site, lane.seed, lane.round, peak, tick)
    lane.over = 1


@compiled
def start_round(lane: Record, s: Record, site: Record, cfg: Record) -> None:
    """Deal the next round and stand in its presale."""
    lane.round += 1
    lane.price = 1.0
    lane.low = 1.0
    lane.peak = 1.0
    lane.tick = 0
    lane.countdown = 0
    lane.phase = PRESALE
    lane.skip = 0
    lane.over = 0
    orders.start_round(lane)
    lane.price_key = round_key(lane.seed, lane.round, PRICES)
    lane.world_key = round_key(lane.seed, lane.round, WORLD)
    identity = id_hash(lane.price_key)
    if cfg.taped > 0:
        lane.tape_start = lane.next_start
        lane.last_tick = lane.next_last
        lane.tape_peak = lane.next_peak
        identity = lane.next_hash
    else:
        lane.hot = draw_hot(cfg.world, lane.world_key)
        lane.instarug = draw_instarug(cfg.world, lane.world_key)
    state.apply_round(s, identity)
    show_site(site, s, cfg.world, lane.seed, lane.round, lane.hot != 0)
    state.apply_tick(s, 0, 1.0, 10000, PRESALE)
    state.apply_player(s, lane.cash, 0, 0, 0, 0)


@compiled
def start_episode(lane: Record, s: Record, site: Record, cfg: Record) -> None:
    """Hand out a fresh balance and deal the next round."""
    if lane.over == 0:
        close_round(lane, site, cfg)
    lane.granted += cfg.balance - lane.cash
    lane.cash = cfg.balance
    orders.drop_lots(lane)
    lane.side_stake = 0
    lane.side_end = 0
    lane.equity = cfg.balance
    lane.bet = cfg.first_bet
    lane.adjustments = 0
    lane.rounds_left = cfg.rounds
    lane.opened = 0
    lane.no_effects = 0
    lane.flags = 0
    lane.done = 0
    state.apply_seat(s)
    start_round(lane, s, site, cfg)
    state.apply_bet(s, lane.bet)


@inlined
def next_tick(lane: Record, lots: Record, cfg: Record, tape_price: float, tape_countdown: int) -> None:
    """Move an active round by one tick, and settle what it ends."""
    tick = lane.tick + 1
    lane.tick = tick
    if cfg.taped > 0:
        lane.price = tape_price
        lane.countdown = tape_countdown
        over = tick >= lane.last_tick
    else:
        chance = rug_chance(cfg.world, lane.hot != 0, lane.instarug, tick)
        over = counter_uniform(lane.price_key, tick, 0) < chance
        if over:
            lane.price = rug_price(cfg.world, lane.price, lane.low)
            lane.countdown = 0
        else:
            price = counter_moved(cfg.world, lane.price_key, tick, lane.price, lane.countdown)
            lane.countdown = next_countdown(cfg.world, lane.world_key, tick, lane.countdown)
            lane.price = price
            over = tick >= MAX_TICKS
    if over:
        lane.phase = RUGGED
        orders.rug(lane, lots, cfg)
    else:
        lane.low = min(lane.low, lane.price)
        lane.peak = max(lane.peak, lane.price)
        orders.pass_tick(lane)


@compiled
def load_tape(lane: Record, cfg: Record, tape_rounds: Records) -> None:
    """Lay the round after this one ready: seat i plays rounds i, i + lanes, i + 2 lanes ... in a circle."""
    following = tape_rounds[((lane.round + 1) * cfg.stride + lane.seat) % cfg.taped]
    lane.next_start = following.start
    lane.next_last = following.last_tick
    lane.next_peak = following.peak
    lane.next_hash = following.id_hash
