"""The compiled game: many lanes at once, each one player at a table of their own.

A lane holds a round, the player's exact money, and what the player knows (features.state). `step` takes one
action a lane, moves time, and writes observations, rewards and facts. Actions never move a price.
Leaves out: the rules of money (orders), the site around the rounds (site), Gymnasium (env) and the histories of
`market` and `trader` (features.history).

A round is one PRESALE step, then ticks 0, 1, 2 ... to the rug. In a session of several rounds the
RUGGED observation is a step too, after which the next PRESALE follows.
The slow obvious twin is tests/reference/crash_twin.py; the tests hold both together, bit for bit.
"""

from __future__ import annotations

from numba import carray

from playproof._numba import compiler
from playproof.games.crash.features import state
from playproof.games.crash.features.state import ACTIVE, PRESALE, RUGGED
from playproof.games.crash.rules.money import MIN_BET
from playproof.games.crash.rules.worlds import TICK_MS
from playproof.games.crash.sim import layout, orders
from playproof.games.crash.sim.arrays import Floats, Ints, Keys, Marks, Record, Records, Rows
from playproof.games.crash.sim.layout import (
    AFTER,
    BEFORE,
    BUTTONS_SHARE,
    CLOCK_PRESS,
    F_ADJUSTED,
    F_ADVANCED,
    F_BANKRUPT,
    F_BET,
    F_BOUGHT,
    F_LOST,
    F_NO_EFFECT,
    F_RUG,
    F_SOLD,
    F_WON,
    FACTS,
    HEADS,
    LOTS,
    MOMENT,
    POLICY,
    TERMINATED,
    TRADER,
    TRUNCATED,
)
from playproof.games.crash.sim.orders import INCREMENTS, MAX_BET, SHARES, SIZES, adjusted_bet, may_bet, may_buy
from playproof.games.crash.sim.rounds import load_tape, next_tick, seed_lane, start_episode, start_round
from playproof.games.crash.sim.site import finish_site

# what stands in layout and orders is given on: players, replay and tests read a lane through the kernel
__all__ = [
    "AFTER",
    "BANKRUPTCY",
    "BEFORE",
    "FACTS",
    "F_ADJUSTED",
    "F_ADVANCED",
    "F_BANKRUPT",
    "F_BET",
    "F_BOUGHT",
    "F_LOST",
    "F_NO_EFFECT",
    "F_RUG",
    "F_SOLD",
    "F_WON",
    "HEADS",
    "INCREMENTS",
    "LOTS",
    "MAX_ADJUSTMENTS",
    "MAX_BET",
    "MOMENT",
    "SIZES",
    "adjusted_bet",
    "masks",
    "reset",
    "step",
    "step_one",
]

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)

MAX_ADJUSTMENTS = 8
"""Adjustments in a row after which time passes, on the clock `press`."""
BANKRUPTCY = -10.0
"""Reward for losing the last money that an order needs."""


@inlined
def act_trader(lane: Record, s: Record, lots: Record, cfg: Record, main: int, size: int, percent: int) -> None:
    """Carry one action of the set `trader` out: the first head with a bet size and a share to sell."""
    done = 0
    if main in (1, 4):
        done |= F_BOUGHT * orders.buy(lane, lots, cfg, size)
    if main in (3, 4):
        done |= F_BET * orders.bet(lane, cfg, size)
    if main in (2, 5, 6):
        done |= F_SOLD * orders.sell(lane, lots, percent if main == 6 else 100)
    skips = main == 7 and lane.skip == 0 and lane.phase in (PRESALE, ACTIVE)
    lane.skip |= skips
    if main not in (0, 7):
        state.apply_press(s)
    if main != 0 and done == 0 and not skips:
        done = F_NO_EFFECT
    lane.flags = done


@inlined
def act_buttons(lane: Record, s: Record, lots: Record, cfg: Record, main: int, button: int, share: int) -> None:
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
        done = F_BOUGHT * orders.buy(lane, lots, cfg, lane.bet)
    elif main == 2:
        done = F_SOLD * orders.sell(lane, lots, lane.share if cfg.actions == BUTTONS_SHARE else 100)
    elif main == 3:
        done = F_BET * orders.bet(lane, cfg, lane.bet)
    if main != 0:
        state.apply_press(s)
    if (main != 0 and done == 0) or (main == 0 and (button != 0 or share != 0) and not changed):
        done |= F_NO_EFFECT
    lane.flags = done | F_ADJUSTED * changed


@inlined
def advance(
    lane: Record,
    s: Record,
    site: Record,
    lots: Record,
    cfg: Record,
    tape_price: float,
    tape_countdown: int,
) -> None:
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
def show_money(lane: Record, s: Record) -> None:
    """Show the player their own money, as playerUpdate does."""
    pnl = orders.equity(lane) - lane.round_cash
    state.apply_player(s, lane.cash, lane.qty, orders.average_cost(lane), pnl, lane.invested)


@inlined
def step_lane(
    lane: Record,
    s: Record,
    site: Record,
    lots: Record,
    cfg: Record,
    tape_price: float,
    tape_countdown: int,
    main: int,
    second: int,
    third: int,
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
        show_money(lane, s)
        state.apply_execution(s, tick, price)
    if not waits or lane.adjustments >= MAX_ADJUSTMENTS:
        advance(lane, s, site, lots, cfg, tape_price, tape_countdown)
        if (lane.flags & (F_RUG | F_LOST)) != 0:
            show_money(lane, s)
    else:
        lane.adjustments += 1
    lane.no_effects += (lane.flags & F_NO_EFFECT) * (main != 0)
    equity = orders.equity(lane)
    reward = float(equity - lane.equity) / 1e9
    lane.equity = equity
    if equity + lane.side_stake < MIN_BET:
        lane.flags |= F_BANKRUPT
        lane.done = TERMINATED
        if wealth >= MIN_BET:
            reward += BANKRUPTCY
    return reward


@inlined
def write_facts(lane: Record, facts: Ints, row: int) -> None:
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
def write_moment(lane: Record, moment: Record) -> None:
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
def observe(s: Record, kind: int, out: Rows, row: int) -> None:
    """Write the observation of a lane."""
    if kind == POLICY:
        state.observe_policy(s, out, row)
    else:
        state.observe_recorded(s, out, row)


@compiled
def reset(
    lanes: Records,
    states: Records,
    sites: Records,
    config: Records,
    tape_rounds: Records,
    chosen: Marks,
    obs: Rows,
    facts: Ints,
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
        write_facts(lanes[i], facts, i)


@inlined
def is_outside(cfg: Record, actions: Ints) -> bool:
    """Tell whether an action is not one of the action set."""
    heads = HEADS[cfg.actions]
    bad = actions.shape[1] != (heads > 0).sum()
    for i in range(len(actions)):
        for k in range(actions.shape[1]):
            bad |= actions[i, k] < 0 or actions[i, k] >= heads[k]
    return bool(bad)


@inlined
def step_row(
    row: int,
    lane: Record,
    s: Record,
    site: Record,
    lots: Record,
    cfg: Record,
    at: Ints,
    main: int,
    second: int,
    third: int,
) -> float:
    """Take one action in one lane, on the tape if there is one; give the reward."""
    if cfg.watched > 0:
        write_moment(lane, carray(layout.moment_at(at[BEFORE]), row + 1)[row])
    tape_price, tape_countdown = 0.0, 0
    if cfg.taped > 0:
        here = lane.tape_start + min(lane.tick + 1, lane.last_tick)
        tick = carray(layout.tape_at(at[layout.TAPE_TICKS]), here + 1)[here]
        tape_price = tick.price
        tape_countdown = int(tick.countdown)
    reward = step_lane(lane, s, site, lots, cfg, tape_price, tape_countdown, main, second, third)
    if cfg.taped > 0 and lane.tick == 0:
        load_tape(lane, cfg, carray(layout.tape_round_at(at[layout.TAPE_ROUNDS]), cfg.taped))
    if cfg.watched > 0:
        write_moment(lane, carray(layout.moment_at(at[AFTER]), row + 1)[row])
    return reward


@compiled
def step(
    at: Ints,
    actions: Ints,
    obs: Rows,
    rewards: Floats,
    terminated: Marks,
    truncated: Marks,
    facts: Ints,
    ended: Ints,
    final_obs: Rows,
    final_facts: Ints,
) -> int:
    """Step every lane of the arrays at these addresses; a finished lane starts its next episode.

    `ended` gets the finished lanes, `final_obs` and `final_facts` their last rows in the same order.
    Give how many finished, or -1, and nothing done, if an action is not one of the action set.
    Arrays that stay the same come as addresses: each one handed over costs as much as a lane.
    """
    count = len(obs)
    lanes = carray(layout.lane_at(at[layout.LANES]), count)
    states = carray(layout.state_at(at[layout.STATES]), count)
    sites = carray(layout.site_at(at[layout.SITES]), count)
    lots = carray(layout.lots_at(at[layout.ALL_LOTS]), count)
    cfg = carray(layout.config_at(at[layout.CONFIGS]), 1)[0]
    if is_outside(cfg, actions):
        return -1
    heads = actions.shape[1]
    finished = 0
    for i in range(count):
        lane = lanes[i]
        s = states[i]
        third = int(actions[i, 2]) if heads == 3 else 0
        rewards[i] = step_row(i, lane, s, sites[i], lots[i], cfg, at, actions[i, 0], actions[i, 1], third)
        terminated[i] = lane.done == TERMINATED
        truncated[i] = lane.done == TRUNCATED
        if lane.done != 0:
            ended[finished] = i
            observe(s, cfg.observation, final_obs, finished)
            write_facts(lane, final_facts, finished)
            finished += 1
            start_episode(lane, s, sites[i], cfg)
            if cfg.taped > 0:
                load_tape(lane, cfg, carray(layout.tape_round_at(at[layout.TAPE_ROUNDS]), cfg.taped))
        observe(s, cfg.observation, obs, i)
        write_facts(lane, facts, i)
    return finished


@compiled
def step_one(at: Ints, main: int, second: int, third: int, obs: Rows, reward: Floats, facts: Ints) -> int:
    """Step the one lane of the arrays at these addresses, without restarting it.

    Give its done code, or -1, and nothing done, if the action is not one of the action set.
    """
    lane = carray(layout.lane_at(at[layout.LANES]), 1)[0]
    s = carray(layout.state_at(at[layout.STATES]), 1)[0]
    site = carray(layout.site_at(at[layout.SITES]), 1)[0]
    lots = carray(layout.lots_at(at[layout.ALL_LOTS]), 1)[0]
    cfg = carray(layout.config_at(at[layout.CONFIGS]), 1)[0]
    heads = HEADS[cfg.actions]
    if min(main, second, third) < 0 or main >= heads[0] or second >= heads[1] or third >= max(heads[2], 1):
        return -1
    reward[0] = step_row(0, lane, s, site, lots, cfg, at, main, second, third)
    observe(s, cfg.observation, obs, 0)
    write_facts(lane, facts, 0)
    return int(lane.done)


@compiled
def masks(lanes: Records, config: Records, out: Marks) -> None:
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


@compiled
def seed_lanes(lanes: Records, sites: Records, config: Records, seeds: Keys, first_round: int, chosen: Marks) -> None:
    """Key the chosen lanes and play their warm-up rounds."""
    for i in range(len(lanes)):
        if chosen[i]:
            seed_lane(lanes[i], sites[i], config[0].world, seeds[i], first_round)
