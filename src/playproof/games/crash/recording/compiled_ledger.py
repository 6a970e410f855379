"""The compiled twin of player_ledger.CrashLedger: a recorded player's money, event by event.

`apply_own` takes what the recording says of the player's money, `apply_tick` what the round settles, `act` carries a
recorded choice out. The rules of money are those of sim.orders.
"""

from __future__ import annotations

from playproof._numba import compiler
from playproof.games.crash.features.state import ACTIVE, COOLDOWN, RUGGED
from playproof.games.crash.sim import orders
from playproof.games.crash.sim.arrays import Floats, Ints, Record
from playproof.games.crash.sim.layout import BUTTONS_SHARE, TRADER
from playproof.games.crash.sim.orders import SHARES, SIZES
from playproof.games.crash.sim.prices_nb import rug_price
from playproof.money import UNIT

inlined = compiler(__file__, inline=True)

OWN_OTHER, OWN_PRESS, OWN_PRESS_ACTION, OWN_ORDER, OWN_TOP_UP, OWN_ACK, OWN_REFUSED, OWN_PLAYER = range(8)
"""Kinds of own events, as the ledger tells them apart."""
OWN_KIND, BET, SHARE, LED, CASH, QTY, AVG_COST, STAKE, END_TICK, SETTLES = range(10)
"""Rows of an own event's fields; -1 where the event does not have it. LED: a press led to it. SETTLES: 1 for the
result of a sidebet, 2 for the player's money, QUIET for what is for the record alone."""
QUIET = -1

INT_FACTS = (
    *("cash", "equity", "opened", "qty", "cost", "sidebet_stake", "tick", "phase"),
    *("bought", "sold", "sidebet_staked", "sidebet_paid", "caught", "bet_amount", "sell_share"),
)
FLOAT_FACTS = ("price", "low", "peak")

REPORTED = (
    *((name, "i8") for name in ("bet", "share", "cash", "qty", "avg_cost", "stake", "end_tick", "orders")),
    *((name, "i1") for name in ("pressed", "reported", "filled", "granted")),
)
"""Fields of what was reported of money, as in player_ledger.ReportedMoney; -1 is what was not."""


@inlined
def cost_of(qty: int, avg_cost: int) -> int:
    """Give qty x avg_cost / 10^9, rounded down, without passing 64 bits."""
    whole = qty // UNIT
    return whole * avg_cost + (qty - whole * UNIT) * avg_cost // UNIT


@inlined
def take_reported(k: Record, lane: Record, lots: Record) -> bool:
    """Hold the money that was reported; tell whether it is another amount, and was not asked for."""
    k.filled = 0
    same = True
    if k.cash >= 0 and k.cash != lane.cash:
        lane.granted += k.cash - lane.cash
        lane.cash = k.cash
        same = False
    if k.qty >= 0 and k.qty != lane.qty:
        # how the position was bought is not known, so all of it is one lot
        lane.lot_head = 0
        lane.lot_count = 1 if k.qty > 0 else 0
        lane.qty = k.qty
        lane.cost = cost_of(k.qty, k.avg_cost)
        lots.qty[0] = lane.qty
        lots.cost[0] = lane.cost
        same = False
    if k.stake >= 0 and k.stake != lane.side_stake:
        lane.side_stake = k.stake
        lane.side_end = k.end_tick
        same = False
    granted = k.granted != 0
    k.granted = 0
    return not same and not granted


@inlined
def apply_own(k: Record, lane: Record, lots: Record, own: Ints, j: int) -> bool:
    """Take an own event before its choice is carried out; tell whether it reports other money than is held.

    What is reported while an order is under way may be from before it, and is looked at when the order is answered.
    """
    kind = own[OWN_KIND, j]
    if kind == OWN_PRESS or kind == OWN_PRESS_ACTION:
        k.bet = own[BET, j]
        k.share = own[SHARE, j]
        k.pressed = kind == OWN_PRESS_ACTION
    elif kind == OWN_ORDER or kind == OWN_TOP_UP:
        if own[LED, j] == 0:
            k.bet = own[BET, j]
            k.share = own[SHARE, j]
        k.pressed = 0
        k.reported = 0
        k.orders += 1
        k.granted |= kind == OWN_TOP_UP
    elif kind == OWN_ACK or kind == OWN_REFUSED:
        k.orders = max(0, k.orders - 1)
        undone = kind == OWN_REFUSED and k.filled != 0
        if k.orders == 0 and (k.reported != 0 or undone):
            return take_reported(k, lane, lots)
    elif kind == OWN_PLAYER:
        k.cash = own[CASH, j]
        k.qty = own[QTY, j]
        k.avg_cost = own[AVG_COST, j]
        k.stake = own[STAKE, j]
        k.end_tick = own[END_TICK, j]
        k.reported = 1
        if k.orders == 0 and k.pressed == 0:
            return take_reported(k, lane, lots)
    return False


@inlined
def begin_round(k: Record, lane: Record, lots: Record, cfg: Record) -> None:
    """Begin a round; one whose rug was not seen is settled as if it had come on the next tick."""
    if lane.qty > 0 or lane.side_stake > 0:
        lane.tick += 1
        lane.price = rug_price(cfg.world, lane.price, lane.low)
        orders.rug(lane, lots, cfg)
    orders.start_round(lane)
    lane.phase = COOLDOWN
    lane.tick = 0
    lane.price = 1.0
    lane.low = 1.0
    lane.peak = 1.0
    k.orders = 0
    k.pressed = 0


@inlined
def apply_tick(k: Record, lane: Record, lots: Record, cfg: Record, tick: int, price: float, phase: int) -> None:
    """Take a tick, and settle what it ends."""
    lane.tick = tick
    lane.price = price
    lane.phase = phase if 0 <= phase <= RUGGED else COOLDOWN
    k.pressed = 0
    if lane.phase == RUGGED:
        orders.rug(lane, lots, cfg)
        return
    lane.low = min(lane.low, price)
    lane.peak = max(lane.peak, price)
    if lane.phase == ACTIVE:
        orders.pass_tick(lane)


@inlined
def place_order(k: Record, lane: Record, lots: Record, cfg: Record, main: int, amount: int, percent: int) -> bool:
    """Place an order (0 none, 1 buy, 2 sell, 3 sidebet); tell whether it was carried out."""
    done = False
    if main == 1:
        done = orders.buy(lane, lots, cfg, amount)
    elif main == 2:
        done = orders.sell(lane, lots, percent)
    elif main == 3:
        done = orders.bet(lane, cfg, amount)
        lane.opened += done
    if main != 0:
        k.filled = done
    return done


@inlined
def act(k: Record, lane: Record, lots: Record, cfg: Record, main: int, second: int, third: int) -> bool:
    """Carry a choice out with the bet and the share that were reported with it; tell whether it changed anything."""
    bet, share = k.bet, k.share
    k.bet = -1
    k.share = -1
    if cfg.actions == TRADER:
        amount = SIZES[second] if bet < 0 else bet
        part = 10 * third if share < 0 else share
        if main == 6:
            return place_order(k, lane, lots, cfg, 2, amount, part)
        return place_order(k, lane, lots, cfg, main if main < 4 else 0, amount, 100)
    held_bet, held_share = lane.bet, lane.share
    lane.bet = orders.adjusted_bet(lane.bet, lane.cash, second)
    if third != 0:
        lane.share = SHARES[third]
    if bet >= 0:
        lane.bet = bet
    if share >= 0:
        lane.share = share
    part = lane.share if cfg.actions == BUTTONS_SHARE or share >= 0 else 100
    done = place_order(k, lane, lots, cfg, main, lane.bet, part)
    return bool(done or lane.bet != held_bet or lane.share != held_share)


@inlined
def write_account(lane: Record, ints: Ints, floats: Floats, row: int) -> None:
    """Write how the player stands, in the order of INT_FACTS and FLOAT_FACTS."""
    ints[0, row] = lane.cash
    ints[1, row] = orders.equity(lane)
    ints[2, row] = lane.opened
    ints[3, row] = lane.qty
    ints[4, row] = lane.cost
    ints[5, row] = lane.side_stake
    ints[8, row] = lane.staked - lane.sidebet_staked
    ints[9, row] = lane.sold
    ints[10, row] = lane.sidebet_staked
    ints[11, row] = lane.sidebet_paid
    ints[12, row] = lane.caught
    ints[13, row] = lane.bet
    ints[14, row] = lane.share
    write_round(lane, ints, floats, row)


@inlined
def write_round(lane: Record, ints: Ints, floats: Floats, row: int) -> None:
    """Write how the round stands, all that is known of somebody who only watches."""
    ints[6, row] = lane.tick
    ints[7, row] = lane.phase
    floats[0, row] = lane.price
    floats[1, row] = lane.low
    floats[2, row] = lane.peak
