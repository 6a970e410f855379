"""The compiled game: many lanes at once, each one player at a table of their own.

A lane holds a round, the player's exact money, and what the player knows (fold). `step` takes one
action a lane, moves time, and writes observations, rewards and facts. Actions never move a price.
Leaves out: Gymnasium (environments) and the histories of `market` and `trader` (history).

A round is one PRESALE step, then ticks 0, 1, 2 ... to the rug. In a session of several rounds the
RUGGED observation is a step too, after which the next PRESALE follows.
The slow obvious twin is `twin`; the tests hold both together, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, from_dtype, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.games.crash.features import state
from playproof.games.crash.features.state import ACTIVE, PRESALE, RUGGED
from playproof.games.crash.rules.money import MAX_LOTS, MAX_MONEY, MIN_BET, SIDEBET_TICKS
from playproof.games.crash.rules.worlds import BYSTANDERS, TICK_MS
from playproof.games.crash.sim import crowd
from playproof.games.crash.sim.crowd import FIRST_ROUND, INSTARUG_TICKS, RING, ROUNDS_PER_DAY, RUGPOOL_THRESHOLD
from playproof.games.crash.sim.prices_nb import (
    HAZARD,
    MAX_TICKS,
    PRICES,
    WORLD,
    bought,
    cost_share,
    counter_moved,
    counter_uniform,
    draw_hot,
    draw_instarug,
    finish_round,
    next_countdown,
    proceeds,
    round_key,
    rug_chance,
    rug_price,
)
from playproof.money import UNIT

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)

LANE = np.dtype(
    [
        ("seed", "u8"),
        ("price_key", "u8"),
        ("world_key", "u8"),
        ("price", "f8"),
        ("low", "f8"),
        ("peak", "f8"),
        ("tape_peak", "f8"),
        ("next_peak", "f8"),
        ("next_hash", "f8"),
        ("cash", "i8"),
        ("qty", "i8"),
        ("cost", "i8"),
        ("side_stake", "i8"),
        ("round_cash", "i8"),
        ("invested", "i8"),
        ("staked", "i8"),  # everything ever paid in, over all rounds and episodes
        ("paid", "i8"),  # everything ever paid out
        ("sidebet_staked", "i8"),  # of what was paid in
        ("sidebet_paid", "i8"),  # of what was paid out
        ("sold", "i8"),  # of what was paid out, the player's own sales
        ("caught", "i8"),  # cost of all lots that a rug sold
        ("granted", "i8"),  # balances handed out at the start of episodes
        ("equity", "i8"),
        ("bet", "i8"),
        ("round", "i8"),
        ("seat", "i8"),  # number among the lanes that began
        ("tape_start", "i8"),  # of this round on the tape
        ("next_start", "i8"),  # of the next round on the tape
        ("tick", "i4"),
        ("last_tick", "i4"),  # of a taped round
        ("next_last", "i4"),
        ("countdown", "i4"),
        ("instarug", "i4"),
        ("side_end", "i4"),
        ("lot_head", "i4"),
        ("lot_count", "i4"),
        ("adjustments", "i4"),
        ("rounds_left", "i4"),
        ("opened", "i4"),
        ("no_effects", "i4"),  # presses of the first head that changed nothing
        ("flags", "i4"),
        ("share", "i1"),
        ("phase", "i1"),
        ("hot", "i1"),
        ("skip", "i1"),
        ("done", "i1"),
        ("over", "i1"),  # the round's last tick has come
    ],
    align=True,
)
"""One lane. Invariant: cash = granted + paid - staked."""

LOTS = np.dtype([("qty", "i8", (MAX_LOTS,)), ("cost", "i8", (MAX_LOTS,))], align=True)
"""A ring of lots. A record like the others: arrays handed to inner functions are counted, records are not."""

MOMENT = np.dtype(
    [
        *((name, "i8") for name in ("equity", "cash", "qty", "cost", "sidebet_stake")),
        *((name, "f8") for name in ("price", "low", "peak")),
        *((name, "i8") for name in ("tick", "phase", "opened")),
        *((name, "i8") for name in ("bought", "sold", "sidebet_staked", "sidebet_paid", "caught")),
    ],
    align=True,
)
"""What rewards read of a lane before and after a step."""

SITE = np.dtype(
    [
        ("peaks", "f8", (RING,)),
        ("level", "f8"),
        ("rugpool", "f8"),
        ("highest", "f8"),
        ("instarugs", "i4"),
        ("day_start", "i4"),
    ],
    align=True,
)

CONFIG = np.dtype(
    [
        (name, "i8")
        for name in (
            "world",
            "payout_numerator",
            "payout_denominator",
            "open_cost",  # largest cost of open lots
            "stake",  # reserved stake of a round, -1 for none
            "balance",
            "first_bet",
            "rounds",
            "clock",
            "actions",
            "observation",
            "taped",  # rounds on the tape, 0 for the counter-based stream
            "stride",  # lanes share the tape in turn
            "watched",  # are moments written for a reward that the kernel does not compute?
        )
    ],
    align=True,
)

TAPE = np.dtype([("price", "f8"), ("countdown", "i4")], align=True)
"""One tick of a recorded round."""

TAPE_ROUND = np.dtype([("start", "i8"), ("peak", "f8"), ("id_hash", "f8"), ("last_tick", "i4")], align=True)
"""One recorded round on the tape; the peak leaves the rug price out."""

CLOCK_TICK, CLOCK_PRESS = range(2)
BUTTONS, BUTTONS_SHARE, TRADER = range(3)
POLICY, RECORDED = range(2)
TERMINATED, TRUNCATED = 1, 2
MAX_BET = 1_000_000 * UNIT
MAX_ADJUSTMENTS = 8
BANKRUPTCY = -10.0

F_NO_EFFECT, F_BOUGHT, F_SOLD, F_BET, F_RUG, F_WON, F_LOST, F_BANKRUPT, F_ADJUSTED, F_ADVANCED = (
    1 << bit for bit in range(10)
)

FACTS = (
    "cash",
    "position_qty",
    "open_cost",
    "equity",
    "sidebet_stake",
    "sidebet_end_tick",
    "bet_amount",
    "round",
    "tick",
    "phase",
    "sell_share",
    "flags",
    "no_effect",
    "positions_opened",
    "no_effect_actions",
    "total_invested",
)
"""Integers told of every lane after every step; money in units of 10^-9."""
FACT_COUNT = len(FACTS)

HEADS = np.array([[4, 9, 0], [4, 9, 5], [8, 9, 11]], np.int64)
"""Choices of each head, by action set."""

INCREMENTS = np.array([0, 0, UNIT // 1000, UNIT // 100, UNIT // 10, UNIT, 0, 0, 0], np.int64)
FACTORS = np.array([1, 0, 1, 1, 1, 1, 1, 2, 0], np.int64)
HALVES = np.array([0, 0, 0, 0, 0, 0, 1, 0, 0], np.int64)
WHOLES = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1], np.int64)
"""What NONE, CLEAR, +0.001, +0.01, +0.1, +1, 1/2, X2 and MAX do to the bet field."""
SHARES = np.array([0, 10, 25, 50, 100], np.int64)
SIZES = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500], np.int64) * (UNIT // 1000)
_CONNECTED = np.array(crowd.CONNECTED_PLAYERS)
_RUGPOOL_STEP = np.array(crowd.RUGPOOL_STEP)
_RUGPOOL_MEAN = crowd.RUGPOOL_MEAN
_HIGHEST_TODAY = np.array(crowd.HIGHEST_TODAY)
_CONNECTED_STEP = crowd.CONNECTED_STEP

Array = NDArray[Any]


@inlined
def quantile(table: Array, u: float) -> Any:
    """Interpolate linearly in a table of equally spaced quantiles."""
    at = u * (len(table) - 1)
    i = min(int(at), len(table) - 2)
    return table[i] + (at - i) * (table[i + 1] - table[i])


@compiled
def start_site(site: Any, world: int, seed: Any) -> None:
    """Draw where the site's statistics begin."""
    key = round_key(seed, FIRST_ROUND, BYSTANDERS)
    site.peaks[:] = 1.0
    site.level = counter_uniform(key, 0, 3)
    site.instarugs = int(RUGPOOL_THRESHOLD * counter_uniform(key, 0, 4))
    site.rugpool = site.instarugs * _RUGPOOL_MEAN
    site.day_start = int(ROUNDS_PER_DAY * counter_uniform(key, 0, 5))
    site.highest = quantile(_HIGHEST_TODAY[world], counter_uniform(key, 0, 6))


@compiled
def finish_site(site: Any, seed: Any, round_number: int, peak: float, rug_tick: int) -> None:
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
def tell_site(site: Any, s: Any, world: int, seed: Any, round_number: int, hot: bool) -> None:
    """Tell the player what the site shows all through the round."""
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


@compiled
def seed_lane(lane: Any, site: Any, world: int, seed: Any, first_round: int) -> None:
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
def id_hash(key: Any) -> float:
    """Give a simulated round's identity as a number in [0, 1)."""
    return float(key >> np.uint64(40)) / 16777216.0


@compiled
def close_round(lane: Any, site: Any, cfg: Any) -> None:
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
def start_round(lane: Any, s: Any, site: Any, cfg: Any) -> None:
    """Deal the next round and stand in its presale."""
    lane.round += 1
    lane.price = 1.0
    lane.low = 1.0
    lane.peak = 1.0
    lane.tick = 0
    lane.countdown = 0
    lane.phase = PRESALE
    lane.share = 100
    lane.skip = 0
    lane.over = 0
    lane.invested = 0
    lane.round_cash = lane.cash
    lane.lot_head = 0
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
    tell_site(site, s, cfg.world, lane.seed, lane.round, lane.hot != 0)
    state.apply_tick(s, 0, 1.0, 10000, PRESALE)
    state.apply_player(s, lane.cash, 0, 0, 0, 0)


@compiled
def start_episode(lane: Any, s: Any, site: Any, cfg: Any) -> None:
    """Hand out a fresh balance and deal the next round."""
    if lane.over == 0:
        close_round(lane, site, cfg)
    lane.granted += cfg.balance - lane.cash
    lane.cash = cfg.balance
    lane.qty = 0
    lane.cost = 0
    lane.side_stake = 0
    lane.side_end = 0
    lane.lot_count = 0
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
def allowed(lane: Any, cfg: Any, amount: int) -> Any:
    """Tell whether an order of this amount keeps the rules on amounts."""
    if amount < MIN_BET or amount > lane.cash or amount > MAX_MONEY:
        return False
    if cfg.stake >= 0:
        loss = max(0, lane.round_cash - lane.cash - lane.cost - lane.side_stake)
        return lane.cost + lane.side_stake + loss + amount <= cfg.stake
    return True


@inlined
def may_buy(lane: Any, cfg: Any, amount: int) -> Any:
    """Tell whether a buy would be taken."""
    return (
        (lane.phase == PRESALE or lane.phase == ACTIVE)
        and lane.skip == 0
        and allowed(lane, cfg, amount)
        and lane.cost + amount <= cfg.open_cost
        and lane.lot_count < MAX_LOTS
        and lane.price > 0.0
    )


@inlined
def may_bet(lane: Any, cfg: Any, amount: int) -> Any:
    """Tell whether a sidebet would be taken."""
    return (
        (lane.phase == PRESALE or lane.phase == ACTIVE)
        and lane.skip == 0
        and lane.side_stake == 0
        and allowed(lane, cfg, amount)
    )


@inlined
def pay_in(lane: Any, amount: int) -> None:
    """Move an amount from the player to the house."""
    lane.cash -= amount
    lane.staked += amount
    lane.invested += amount


@inlined
def pay_out(lane: Any, amount: int) -> None:
    """Move an amount from the house to the player."""
    lane.cash += amount
    lane.paid += amount


@inlined
def buy(lane: Any, lots: Any, cfg: Any, amount: int) -> bool:
    """Buy for an amount at the lane's price."""
    if not may_buy(lane, cfg, amount):
        return False
    qty = bought(amount, lane.price)
    if qty <= 0 or qty > MAX_MONEY - lane.qty:
        return False
    slot = (lane.lot_head + lane.lot_count) % MAX_LOTS
    lots.qty[slot] = qty
    lots.cost[slot] = amount
    lane.lot_count += 1
    lane.opened += lane.qty == 0
    lane.qty += qty
    lane.cost += amount
    pay_in(lane, amount)
    return True


@compiled
def take_lots(lane: Any, lots: Any, qty: int) -> None:
    """Take a quantity out of the lots, first in, first out."""
    if qty == lane.qty:
        lane.qty = 0
        lane.cost = 0
        lane.lot_head = 0
        lane.lot_count = 0
        return
    lane.qty -= qty
    while qty > 0:
        slot = lane.lot_head
        if lots.qty[slot] <= qty:
            qty -= lots.qty[slot]
            lane.cost -= lots.cost[slot]
            lane.lot_head = (slot + 1) % MAX_LOTS
            lane.lot_count -= 1
        else:
            cost = cost_share(lots.cost[slot], qty, lots.qty[slot])
            lots.qty[slot] -= qty
            lots.cost[slot] -= cost
            lane.cost -= cost
            qty = 0


@inlined
def sell(lane: Any, lots: Any, percent: int) -> bool:
    """Sell a share of the position at the lane's price."""
    if lane.phase != ACTIVE or lane.skip != 0:
        return False
    qty = lane.qty * percent // 100
    if qty == 0:
        return False
    take_lots(lane, lots, qty)
    amount = proceeds(qty, lane.price)
    lane.sold += amount
    pay_out(lane, amount)
    return True


@inlined
def bet(lane: Any, cfg: Any, amount: int) -> bool:
    """Place a sidebet at the lane's tick."""
    if not may_bet(lane, cfg, amount):
        return False
    lane.side_stake = amount
    lane.side_end = lane.tick + SIDEBET_TICKS
    lane.sidebet_staked += amount
    pay_in(lane, amount)
    return True


@inlined
def settle_rug(lane: Any, lots: Any, cfg: Any) -> None:
    """Sell everything at the rug price and settle the sidebet."""
    lane.flags |= F_RUG
    if lane.qty > 0:
        qty = lane.qty
        lane.caught += lane.cost
        take_lots(lane, lots, qty)
        pay_out(lane, proceeds(qty, lane.price))
        lane.flags |= F_SOLD
    if lane.side_stake > 0:
        if lane.tick <= lane.side_end:
            whole = lane.side_stake // cfg.payout_denominator
            rest = lane.side_stake % cfg.payout_denominator
            amount = whole * cfg.payout_numerator + rest * cfg.payout_numerator // cfg.payout_denominator
            lane.sidebet_paid += amount
            pay_out(lane, amount)
            lane.flags |= F_WON
        else:
            lane.flags |= F_LOST
        lane.side_stake = 0


@inlined
def adjusted_bet(bet_amount: int, cash: int, button: int) -> Any:
    """Give the bet field after a press of an adjustment button (0 is none); free of branches."""
    amount = ((bet_amount * FACTORS[button]) >> HALVES[button]) + INCREMENTS[button] + cash * WHOLES[button]
    return min(amount, MAX_BET)


@inlined
def act_trader(lane: Any, s: Any, lots: Any, cfg: Any, main: Any, size: Any, percent: Any) -> None:
    """Carry one action of the set `trader` out: the first head with a bet size and a share to sell."""
    done = 0
    if main in (1, 4):
        done |= F_BOUGHT * buy(lane, lots, cfg, size)
    if main in (3, 4):
        done |= F_BET * bet(lane, cfg, size)
    if main in (2, 5, 6):
        done |= F_SOLD * sell(lane, lots, percent if main == 6 else 100)
    skips = main == 7 and lane.skip == 0 and lane.phase in (PRESALE, ACTIVE)
    lane.skip |= skips
    if main not in (0, 7):
        state.apply_press(s)
    if main != 0 and done == 0 and not skips:
        done = F_NO_EFFECT
    lane.flags = done


@inlined
def act_buttons(lane: Any, s: Any, lots: Any, cfg: Any, main: Any, button: Any, share: Any) -> None:
    """Carry one action of the sets `buttons` out: adjustment and share first, then the order."""
    before = lane.bet
    lane.bet = adjusted_bet(before, lane.cash, button)
    changed = lane.bet != before
    if share != 0:
        changed |= lane.share != SHARES[share]
        lane.share = SHARES[share]
    state.apply_bet(s, lane.bet)
    done = 0
    if main == 1:
        done = F_BOUGHT * buy(lane, lots, cfg, lane.bet)
    elif main == 2:
        done = F_SOLD * sell(lane, lots, lane.share if cfg.actions == BUTTONS_SHARE else 100)
    elif main == 3:
        done = F_BET * bet(lane, cfg, lane.bet)
    if main != 0:
        state.apply_press(s)
    if (main != 0 and done == 0) or (main == 0 and (button != 0 or share != 0) and not changed):
        done |= F_NO_EFFECT
    lane.flags = done | F_ADJUSTED * changed


@inlined
def average_cost(lane: Any) -> Any:
    """Give avgCost as it is shown."""
    if lane.qty == 0:
        return 0
    return np.int64(float(lane.cost) / float(lane.qty) * 1e9 + 0.5)


@inlined
def marked(lane: Any) -> Any:
    """Mark the position at the price and the open sidebet at 0."""
    if lane.qty == 0:
        return lane.cash
    return lane.cash + proceeds(lane.qty, lane.price)


@inlined
def next_tick(lane: Any, lots: Any, cfg: Any, tape_price: float, tape_countdown: Any) -> None:
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
        settle_rug(lane, lots, cfg)
    else:
        lane.low = min(lane.low, lane.price)
        lane.peak = max(lane.peak, lane.price)
        if lane.side_stake > 0 and tick >= lane.side_end:
            lane.side_stake = 0
            lane.flags |= F_LOST


@inlined
def advance(lane: Any, s: Any, site: Any, lots: Any, cfg: Any, tape_price: float, tape_countdown: Any) -> None:
    """Let time pass by one step."""
    lane.flags |= F_ADVANCED
    lane.adjustments = 0
    if lane.phase == PRESALE:
        lane.phase = ACTIVE
        state.apply_tick(s, 0, 1.0, 0, ACTIVE)
    elif lane.phase == ACTIVE:
        next_tick(lane, lots, cfg, tape_price, tape_countdown)
        state.apply_tick(s, lane.tick, lane.price, TICK_MS * lane.countdown, lane.phase)
        if lane.phase == RUGGED:
            finish_site(site, lane.seed, lane.round, lane.peak, lane.tick)
            lane.over = 1
            lane.rounds_left -= 1
            if lane.rounds_left == 0:
                lane.done = TERMINATED if cfg.rounds == 1 else TRUNCATED
    else:
        start_round(lane, s, site, cfg)


@inlined
def step_lane(
    lane: Any,
    s: Any,
    site: Any,
    lots: Any,
    cfg: Any,
    tape_price: float,
    tape_countdown: Any,
    main: Any,
    second: Any,
    third: Any,
) -> float:
    """Take one action in one lane; give the reward `minimal`."""
    tick, price, wealth = lane.tick, lane.price, lane.equity + lane.side_stake
    if cfg.actions == TRADER:
        act_trader(lane, s, lots, cfg, main, SIZES[second], 10 * third)
        waits = False
    else:
        act_buttons(lane, s, lots, cfg, main, second, third)
        waits = cfg.clock == CLOCK_PRESS and main == 0 and (second != 0 or third != 0)
    filled = (lane.flags & (F_BOUGHT | F_SOLD | F_BET)) != 0
    if filled:
        state.apply_player(s, lane.cash, lane.qty, average_cost(lane), marked(lane) - lane.round_cash, lane.invested)
        state.apply_execution(s, tick, price)
    if not waits or lane.adjustments >= MAX_ADJUSTMENTS:
        advance(lane, s, site, lots, cfg, tape_price, tape_countdown)
        if (lane.flags & (F_RUG | F_LOST)) != 0:
            state.apply_player(
                s, lane.cash, lane.qty, average_cost(lane), marked(lane) - lane.round_cash, lane.invested
            )
    else:
        lane.adjustments += 1
    lane.no_effects += (lane.flags & F_NO_EFFECT) * (main != 0)
    equity = marked(lane)
    reward = float(equity - lane.equity) / 1e9
    lane.equity = equity
    if equity + lane.side_stake < MIN_BET:
        lane.flags |= F_BANKRUPT
        lane.done = TERMINATED
        if wealth >= MIN_BET:
            reward += BANKRUPTCY
    return reward


@inlined
def tell_facts(lane: Any, facts: Array, row: int) -> None:
    """Write the facts of a lane."""
    facts[row, 0] = lane.cash
    facts[row, 1] = lane.qty
    facts[row, 2] = lane.cost
    facts[row, 3] = lane.equity
    facts[row, 4] = lane.side_stake
    facts[row, 5] = lane.side_end
    facts[row, 6] = lane.bet
    facts[row, 7] = lane.round
    facts[row, 8] = lane.tick
    facts[row, 9] = lane.phase
    facts[row, 10] = lane.share
    facts[row, 11] = lane.flags
    facts[row, 12] = lane.flags & F_NO_EFFECT
    facts[row, 13] = lane.opened
    facts[row, 14] = lane.no_effects
    facts[row, 15] = lane.invested


@inlined
def tell_moment(lane: Any, moment: Any) -> None:
    """Write what rewards read of a lane."""
    moment.equity = lane.equity
    moment.cash = lane.cash
    moment.qty = lane.qty
    moment.cost = lane.cost
    moment.sidebet_stake = lane.side_stake
    moment.price = lane.price
    moment.low = lane.low
    moment.peak = lane.peak
    moment.tick = lane.tick
    moment.phase = lane.phase
    moment.opened = lane.opened
    moment.bought = lane.staked - lane.sidebet_staked
    moment.sold = lane.sold
    moment.sidebet_staked = lane.sidebet_staked
    moment.sidebet_paid = lane.sidebet_paid
    moment.caught = lane.caught


@inlined
def observe(s: Any, kind: int, out: Array, row: int) -> None:
    """Write the observation of a lane."""
    if kind == POLICY:
        state.observe_policy(s, out, row)
    else:
        state.observe_recorded(s, out, row)


@compiled
def load_tape(lane: Any, cfg: Any, tape_rounds: Array) -> None:
    """Lay the round after this one ready: seat i plays rounds i, i + lanes, i + 2 lanes ... in a circle."""
    following = tape_rounds[((lane.round + 1) * cfg.stride + lane.seat) % cfg.taped]
    lane.next_start = following.start
    lane.next_last = following.last_tick
    lane.next_peak = following.peak
    lane.next_hash = following.id_hash


@compiled
def seed_lanes(lanes: Array, sites: Array, config: Array, seeds: Array, first_round: int, chosen: Array) -> None:
    """Key the chosen lanes and play their warm-up rounds."""
    for i in range(len(lanes)):
        if chosen[i]:
            seed_lane(lanes[i], sites[i], config[0].world, seeds[i], first_round)


@compiled
def reset(
    lanes: Array,
    states: Array,
    sites: Array,
    config: Array,
    tape_rounds: Array,
    chosen: Array,
    obs: Array,
    facts: Array,
) -> None:
    """Start a new episode in the chosen lanes; write what all lanes show."""
    cfg = config[0]
    for i in range(len(lanes)):
        if chosen[i]:
            if cfg.taped > 0:
                load_tape(lanes[i], cfg, tape_rounds)
            start_episode(lanes[i], states[i], sites[i], cfg)
            if cfg.taped > 0:
                load_tape(lanes[i], cfg, tape_rounds)
        observe(states[i], cfg.observation, obs, i)
        tell_facts(lanes[i], facts, i)


def pointer_to(dtype: Any) -> Callable[[int], Any]:
    """Give a compiled cast from an address to a pointer to this type."""
    target = types.CPointer(from_dtype(np.dtype(dtype)))

    @intrinsic  # type: ignore[untyped-decorator]
    def cast(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            return builder.inttoptr(arguments[0], context.get_value_type(target))

        return target(types.int64), generate

    return cast  # type: ignore[no-any-return]


_lane_at, _state_at, _site_at = pointer_to(LANE), pointer_to(state.STATE), pointer_to(SITE)
_lots_at, _config_at, _tape_at, _tape_rounds_at = map(pointer_to, (LOTS, CONFIG, TAPE, TAPE_ROUND))
_moment_at = pointer_to(MOMENT)
LANES, STATES, SITES, ALL_LOTS, CONFIGS, TAPE_ROUNDS, TAPE_TICKS, BEFORE, AFTER = range(9)
"""Places in a table of addresses."""


def addresses(*arrays: Array) -> Array:
    """Give where arrays stand: lanes, states, sites, lots, config, tape rounds, tape ticks, moments."""
    return np.array([array.__array_interface__["data"][0] for array in arrays], np.int64)


@inlined
def outside(cfg: Any, actions: Array) -> Any:
    """Tell whether an action is not one of the action set."""
    heads = HEADS[cfg.actions]
    bad = actions.shape[1] != (heads > 0).sum()
    for i in range(len(actions)):
        for k in range(actions.shape[1]):
            bad |= actions[i, k] < 0 or actions[i, k] >= heads[k]
    return bad


@inlined
def step_row(
    row: int, lane: Any, s: Any, site: Any, lots: Any, cfg: Any, at: Array, main: Any, second: Any, third: Any
) -> Any:
    """Take one action in one lane, on the tape if there is one; give the reward."""
    if cfg.watched > 0:
        tell_moment(lane, carray(_moment_at(at[BEFORE]), row + 1)[row])
    tape_price, tape_countdown = 0.0, np.int64(0)
    if cfg.taped > 0:
        here = lane.tape_start + min(lane.tick + 1, lane.last_tick)
        tick = carray(_tape_at(at[TAPE_TICKS]), here + 1)[here]
        tape_price = tick.price
        tape_countdown = np.int64(tick.countdown)
    reward = step_lane(lane, s, site, lots, cfg, tape_price, tape_countdown, main, second, third)
    if cfg.taped > 0 and lane.tick == 0:
        load_tape(lane, cfg, carray(_tape_rounds_at(at[TAPE_ROUNDS]), cfg.taped))
    if cfg.watched > 0:
        tell_moment(lane, carray(_moment_at(at[AFTER]), row + 1)[row])
    return reward


@compiled
def step(
    at: Array,
    actions: Array,
    obs: Array,
    rewards: Array,
    terminated: Array,
    truncated: Array,
    facts: Array,
    ended: Array,
    final_obs: Array,
    final_facts: Array,
) -> int:
    """Step every lane of the arrays at these addresses; a finished lane starts its next episode.

    `ended` gets the finished lanes, `final_obs` and `final_facts` their last rows in the same order.
    Give how many finished, or -1, and nothing done, if an action is not one of the action set.
    Arrays that stay the same come as addresses: each one handed over costs as much as a lane.
    """
    count = len(obs)
    lanes = carray(_lane_at(at[LANES]), count)
    states = carray(_state_at(at[STATES]), count)
    sites = carray(_site_at(at[SITES]), count)
    lots = carray(_lots_at(at[ALL_LOTS]), count)
    cfg = carray(_config_at(at[CONFIGS]), 1)[0]
    if outside(cfg, actions):
        return -1
    heads = actions.shape[1]
    finished = 0
    for i in range(count):
        lane = lanes[i]
        s = states[i]
        third = np.int64(actions[i, 2]) if heads == 3 else np.int64(0)
        rewards[i] = step_row(i, lane, s, sites[i], lots[i], cfg, at, actions[i, 0], actions[i, 1], third)
        terminated[i] = lane.done == TERMINATED
        truncated[i] = lane.done == TRUNCATED
        if lane.done != 0:
            ended[finished] = i
            observe(s, cfg.observation, final_obs, finished)
            tell_facts(lane, final_facts, finished)
            finished += 1
            start_episode(lane, s, sites[i], cfg)
            if cfg.taped > 0:
                load_tape(lane, cfg, carray(_tape_rounds_at(at[TAPE_ROUNDS]), cfg.taped))
        observe(s, cfg.observation, obs, i)
        tell_facts(lane, facts, i)
    return finished


@compiled
def step_one(at: Array, main: Any, second: Any, third: Any, obs: Array, reward: Array, facts: Array) -> Any:
    """Step the one lane of the arrays at these addresses, without restarting it.

    Give its done code, or -1, and nothing done, if the action is not one of the action set.
    """
    lane = carray(_lane_at(at[LANES]), 1)[0]
    s = carray(_state_at(at[STATES]), 1)[0]
    site = carray(_site_at(at[SITES]), 1)[0]
    lots = carray(_lots_at(at[ALL_LOTS]), 1)[0]
    cfg = carray(_config_at(at[CONFIGS]), 1)[0]
    heads = HEADS[cfg.actions]
    if min(main, second, third) < 0 or main >= heads[0] or second >= heads[1] or third >= max(heads[2], 1):
        return -1
    reward[0] = step_row(0, lane, s, site, lots, cfg, at, main, second, third)
    observe(s, cfg.observation, obs, 0)
    tell_facts(lane, facts, 0)
    return lane.done


@compiled
def masks(lanes: Array, config: Array, out: Array) -> None:
    """Write which choices of each head can have an effect now; WAIT, NONE and keep always can."""
    cfg = config[0]
    for i in range(len(lanes)):
        lane = lanes[i]
        row = out[i]
        row[:] = True
        can_sell = lane.phase == ACTIVE and lane.skip == 0 and lane.qty > 0
        if cfg.actions == TRADER:
            open_phase = lane.phase == PRESALE or lane.phase == ACTIVE
            smallest = SIZES[0]
            can_buy = may_buy(lane, cfg, smallest)
            can_bet = may_bet(lane, cfg, smallest)
            row[1] = can_buy
            row[2] = can_sell
            row[3] = can_bet
            row[4] = can_buy or can_bet
            row[5] = can_sell
            row[6] = can_sell
            row[7] = open_phase and lane.skip == 0
            for k in range(1, 9):
                row[8 + k] = may_buy(lane, cfg, SIZES[k]) or may_bet(lane, cfg, SIZES[k])
        else:
            row[1] = may_buy(lane, cfg, lane.bet)
            row[2] = can_sell
            row[3] = may_bet(lane, cfg, lane.bet)
            for k in range(1, 9):
                row[4 + k] = adjusted_bet(lane.bet, lane.cash, k) != lane.bet
            if cfg.clock == CLOCK_PRESS and lane.adjustments >= MAX_ADJUSTMENTS:
                row[5:13] = False
            if cfg.actions == BUTTONS_SHARE:
                for k in range(1, 5):
                    row[13 + k] = lane.share != SHARES[k]
                if cfg.clock == CLOCK_PRESS and lane.adjustments >= MAX_ADJUSTMENTS:
                    row[14:18] = False
