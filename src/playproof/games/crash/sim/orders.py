"""The compiled rules of money: what an order costs and brings, what a tick and the rug settle, the bet field.

The only compiled source of these rules: the kernel, the columnar pass over recordings and the validator's study all
call it. It is bit-equal to the plain rules (rules.money.MoneyLedger), whose docstring says how amounts are rounded;
the tests hold both and the reference twin together. A record that is handed in as a `lane` needs the fields of
layout.LANE that are used. Leaves out: prices (prices_nb), and when an order is placed (kernel).

All but the walk through the lots is inlined into its caller, so that sharing it costs no call.
"""

from __future__ import annotations

import numpy as np

from playproof._numba import compiler
from playproof.games.crash.features.state import ACTIVE, PRESALE
from playproof.games.crash.rules.money import MAX_LOTS, MAX_MONEY, MIN_BET, SIDEBET_TICKS
from playproof.games.crash.sim.arrays import Record
from playproof.games.crash.sim.layout import F_LOST, F_RUG, F_SOLD, F_WON
from playproof.games.crash.sim.prices_nb import bought, cost_share, proceeds
from playproof.money import UNIT

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)

MAX_BET = 1_000_000 * UNIT
INCREMENTS = np.array([0, 0, UNIT // 1000, UNIT // 100, UNIT // 10, UNIT, 0, 0, 0], np.int64)
FACTORS = np.array([1, 0, 1, 1, 1, 1, 1, 2, 0], np.int64)
HALVES = np.array([0, 0, 0, 0, 0, 0, 1, 0, 0], np.int64)
WHOLES = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1], np.int64)
"""What NONE, CLEAR, +0.001, +0.01, +0.1, +1, 1/2, X2 and MAX do to the bet field."""
SHARES = np.array([0, 10, 25, 50, 100], np.int64)
"""Percent that each choice of the third head of `buttons-share` sells; the first keeps the share."""
SIZES = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500], np.int64) * (UNIT // 1000)
"""Bet sizes of the action set `trader`."""


@inlined
def adjusted_bet(bet_amount: int, cash: int, button: int) -> int:
    """Give the bet field after a press of an adjustment button (0 is none)."""
    # tables in place of branches: which button a learner presses cannot be predicted
    amount = ((bet_amount * FACTORS[button]) >> HALVES[button]) + INCREMENTS[button] + cash * WHOLES[button]
    return int(min(amount, MAX_BET))


@inlined
def is_affordable(lane: Record, cfg: Record, amount: int) -> bool:
    """Tell whether an order of this amount keeps the limits on amounts."""
    if amount < MIN_BET or amount > lane.cash or amount > MAX_MONEY:
        return False
    if cfg.stake >= 0:
        loss = max(0, lane.round_cash - lane.cash - lane.cost - lane.side_stake)
        return bool(lane.cost + lane.side_stake + loss + amount <= cfg.stake)
    return True


@inlined
def may_buy(lane: Record, cfg: Record, amount: int) -> bool:
    """Tell whether a buy would be taken."""
    return bool(
        (lane.phase == PRESALE or lane.phase == ACTIVE)
        and lane.skip == 0
        and is_affordable(lane, cfg, amount)
        and lane.cost + amount <= cfg.open_cost
        and lane.lot_count < MAX_LOTS
        and lane.price > 0.0
    )


@inlined
def may_bet(lane: Record, cfg: Record, amount: int) -> bool:
    """Tell whether a sidebet would be taken."""
    return bool(
        (lane.phase == PRESALE or lane.phase == ACTIVE)
        and lane.skip == 0
        and lane.side_stake == 0
        and is_affordable(lane, cfg, amount)
    )


@inlined
def pay_in(lane: Record, amount: int) -> None:
    """Move an amount from the player to the house."""
    lane.cash -= amount
    lane.staked += amount
    lane.invested += amount


@inlined
def pay_out(lane: Record, amount: int) -> None:
    """Move an amount from the house to the player."""
    lane.cash += amount
    lane.paid += amount


@inlined
def add_lot(lane: Record, lots: Record, qty: int, cost: int) -> None:
    """Put a lot behind the others; there must be room for it."""
    slot = (lane.lot_head + lane.lot_count) % MAX_LOTS
    lots.qty[slot] = qty
    lots.cost[slot] = cost
    lane.lot_count += 1
    lane.qty += qty
    lane.cost += cost


@inlined
def drop_lots(lane: Record) -> None:
    """Hold nothing."""
    lane.qty = 0
    lane.cost = 0
    lane.lot_head = 0
    lane.lot_count = 0


@compiled
def take_lots(lane: Record, lots: Record, qty: int) -> None:
    """Take a quantity out of the lots, first in, first out."""
    if qty == lane.qty:
        drop_lots(lane)
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
def buy(lane: Record, lots: Record, cfg: Record, amount: int) -> bool:
    """Buy for an amount at the lane's price; tell whether the order was taken."""
    if not may_buy(lane, cfg, amount):
        return False
    qty = bought(amount, lane.price)
    if qty <= 0 or qty > MAX_MONEY - lane.qty:
        return False
    lane.opened += lane.qty == 0
    add_lot(lane, lots, qty, amount)
    pay_in(lane, amount)
    return True


@inlined
def sell(lane: Record, lots: Record, percent: int) -> bool:
    """Sell a share of the position at the lane's price; tell whether there was anything to sell."""
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
def bet(lane: Record, cfg: Record, amount: int) -> bool:
    """Place a sidebet at the lane's tick; tell whether the order was taken."""
    if not may_bet(lane, cfg, amount):
        return False
    lane.side_stake = amount
    lane.side_end = lane.tick + SIDEBET_TICKS
    lane.sidebet_staked += amount
    pay_in(lane, amount)
    return True


@inlined
def start_round(lane: Record) -> None:
    """Begin a round with the cash that is there, flat; the share to sell is all of it again."""
    lane.invested = 0
    lane.round_cash = lane.cash
    lane.lot_head = 0
    lane.share = 100


@inlined
def pass_tick(lane: Record) -> None:
    """Lose the sidebet that ends on the lane's tick without a rug."""
    if lane.side_stake > 0 and lane.tick >= lane.side_end:
        lane.side_stake = 0
        lane.flags |= F_LOST


@inlined
def rug(lane: Record, lots: Record, cfg: Record) -> None:
    """Settle the round: sell everything at the lane's price, pay or lose the sidebet."""
    lane.flags |= F_RUG
    if lane.qty > 0:
        qty = lane.qty
        lane.caught += lane.cost
        take_lots(lane, lots, qty)
        pay_out(lane, proceeds(qty, lane.price))
        lane.flags |= F_SOLD
    if lane.side_stake > 0:
        if lane.tick <= lane.side_end:
            # whole and rest apart, since stake x numerator may pass 64 bits
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
def average_cost(lane: Record) -> int:
    """Give avgCost as it is shown."""
    if lane.qty == 0:
        return 0
    return int(float(lane.cost) / float(lane.qty) * 1e9 + 0.5)


@inlined
def equity(lane: Record) -> int:
    """Mark the position at the lane's price and the open sidebet at 0."""
    if lane.qty == 0:
        return int(lane.cash)
    return int(lane.cash + proceeds(lane.qty, lane.price))
