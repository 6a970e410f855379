"""The environment once more in plain Python: slow, obvious, and the measure of the compiled one.

Rounds, money and site come from `worlds`, `ledger` and `bystanders`; what a step means is written
here a second time, from the rules. The tests hold both together bit for bit; the bench shows
what compiling is worth. Leaves out: tapes, and the observation sets `market` and `trader`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from playproof.errors import RefusedOrder
from playproof.games.crash.rules.money import MIN_BET, LedgerLimits, MoneyLedger
from playproof.games.crash.rules.prices import round_key
from playproof.games.crash.rules.worlds import PRICES, TICK_MS, WorldRound, counter_round, get_world
from playproof.games.crash.sim.crowd import FIRST_ROUND, RoundContext, Site
from playproof.money import UNIT

COOLDOWN, PRESALE, ACTIVE, RUGGED = range(4)
MAX_BET = 1_000_000 * UNIT
INCREMENTS = {"INC_001": UNIT // 1000, "INC_01": UNIT // 100, "INC_10": UNIT // 10, "INC_1": UNIT}
MAIN = ("WAIT", "BUY", "SELL", "SIDEBET")
ADJUST = ("NONE", "CLEAR", "INC_001", "INC_01", "INC_10", "INC_1", "HALF", "DOUBLE", "MAX")
SHARE = (None, 10, 25, 50, 100)
TRADER = ("WAIT", "BUY_MAIN", "SELL_MAIN", "BUY_SIDE", "BUY_BOTH", "EMERGENCY_EXIT", "PARTIAL_SELL", "SKIP")
SIZES = tuple(UNIT // 1000 * size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500))
BANKRUPTCY = -10.0


def adjusted(bet: int, cash: int, button: str) -> int:
    """Give the bet field after a press."""
    if button in INCREMENTS:
        bet += INCREMENTS[button]
    elif button == "CLEAR":
        bet = 0
    elif button == "HALF":
        bet //= 2
    elif button == "DOUBLE":
        bet *= 2
    elif button == "MAX":
        bet = cash
    return min(bet, MAX_BET)


@dataclass
class Told:
    """The player's own state as the game told it last."""

    cash: int
    qty: int = 0
    avg_cost: int = 0
    pnl: int = 0
    invested: int = 0


@dataclass
class PlainEnv:
    """One player at a table, in plain Python; `step` gives observation, reward, terminated, truncated."""

    world_name: str = "published"
    actions: str = "buttons"
    rounds: int = 1
    clock: str = "tick"
    observation: str = "policy"
    balance: int = UNIT
    stake: int | None = None
    no_effect: bool = field(default=False, init=False)
    no_effects: int = field(default=0, init=False)

    def seed(self, seed: int) -> None:
        """Play the 100 warm-up rounds of a seed."""
        self.world = get_world(self.world_name)
        self.seed_value = seed
        self.site = Site(self.world, seed)
        self.number = FIRST_ROUND
        self.over = True
        while self.number < 0:
            self._finish(counter_round(self.world, seed, self.number))

    def _finish(self, finished: WorldRound) -> None:
        before_end = finished.prices[:-1] if finished.rugged else finished.prices
        self.site.finish(self.number, max(before_end), finished.rug_tick)
        self.number += 1
        self.over = True

    def reset(self) -> NDArray[np.float32]:
        """Start an episode with a fresh balance."""
        if not self.over:
            self._finish(self.round)
        limits = LedgerLimits(self.world.open_cost, self.stake)
        self.ledger = MoneyLedger(self.balance, Fraction(self.world.payout), limits)
        self.bet = MIN_BET
        self.rounds_left = self.rounds
        self.execution = (0, 0.0)
        self.no_effects = 0
        self.adjustments = 0
        self.equity = self.wealth = self.balance
        self._deal()
        return self.observe()

    def _deal(self) -> None:
        self.round = counter_round(self.world, self.seed_value, self.number)
        self.context: RoundContext = self.site.context(self.number, self.round.hot)
        self.over = False
        self.phase, self.tick = PRESALE, 0
        self.share = 100
        self.skip = False
        self.action_tick = 0
        self.entry_tick = 0
        self.ledger.start_round()
        self.told = Told(self.ledger.cash)

    @property
    def price(self) -> float:
        """Give the price of the present tick."""
        return self.round.prices[self.tick]

    def _tell(self) -> None:
        """Send the player's own state, as the server does after a fill or a settlement."""
        book = self.ledger
        if self.told.qty == 0 and book.qty > 0:
            self.entry_tick = self.tick
        self.told = Told(book.cash, book.qty, book.avg_cost, book.pnl(self.price), book.invested)

    def _try(self, kind: str, amount: int) -> bool:
        """Place an order; give whether it was taken."""
        if self.skip or self.phase not in (PRESALE, ACTIVE) or (kind == "sell" and self.phase == PRESALE):
            return False
        try:
            if kind == "buy":
                self.ledger.buy(amount, self.price)
            elif kind == "sell":
                self.ledger.sell(amount, self.price)
            else:
                self.ledger.bet(amount, self.tick)
        except RefusedOrder:
            return False
        return True

    def _act_trader(self, main: str, size: int, percent: int) -> bool:
        filled = False
        if main in ("BUY_MAIN", "BUY_BOTH"):
            filled |= self._try("buy", size)
        if main in ("BUY_SIDE", "BUY_BOTH"):
            filled |= self._try("sidebet", size)
        if main in ("SELL_MAIN", "EMERGENCY_EXIT"):
            filled |= self._try("sell", 100)
        if main == "PARTIAL_SELL":
            filled |= self._try("sell", percent)
        skips = main == "SKIP" and not self.skip and self.phase in (PRESALE, ACTIVE)
        self.skip |= skips
        if main not in ("WAIT", "SKIP"):
            self.action_tick = self.tick
        self.no_effect = main != "WAIT" and not filled and not skips
        return filled

    def _act_buttons(self, main: str, button: str, percent: int | None) -> bool:
        before = (self.bet, self.share)
        self.bet = adjusted(self.bet, self.ledger.cash, button)
        self.share = percent or self.share
        filled = False
        if main == "BUY":
            filled = self._try("buy", self.bet)
        elif main == "SELL":
            filled = self._try("sell", self.share if self.actions == "buttons-share" else 100)
        elif main == "SIDEBET":
            filled = self._try("sidebet", self.bet)
        pressed = button != "NONE" or percent is not None
        if main == "WAIT":
            self.no_effect = pressed and before == (self.bet, self.share)
        else:
            self.action_tick = self.tick
            self.no_effect = not filled
        return filled

    def step(self, action: tuple[int, ...]) -> tuple[NDArray[np.float32], float, bool, bool]:
        """Take one action."""
        if self.actions == "trader":
            filled = self._act_trader(TRADER[action[0]], SIZES[action[1]], 10 * action[2])
            only_adjusts = False
        else:
            third = action[2] if len(action) > 2 else 0
            filled = self._act_buttons(MAIN[action[0]], ADJUST[action[1]], SHARE[third])
            only_adjusts = action[0] == 0 and (action[1] != 0 or third != 0)
        if filled:
            self._tell()
            self.execution = (self.tick, self.price)
        self.no_effects += self.no_effect and action[0] != 0
        terminated = truncated = False
        if self.clock == "press" and only_adjusts and self.adjustments < 8:
            self.adjustments += 1
        else:
            self.adjustments = 0
            terminated, truncated = self._advance()
        wealth = self.wealth
        equity = self.ledger.equity(self.price)
        self.wealth = equity + self.ledger.open_stake
        reward = (equity - self.equity) / 1e9
        self.equity = equity
        if self.wealth < MIN_BET:
            reward += BANKRUPTCY if wealth >= MIN_BET else 0.0
            terminated, truncated = True, False
        return self.observe(), reward, terminated, truncated

    def _advance(self) -> tuple[bool, bool]:
        if self.phase == RUGGED:
            self._deal()
            return False, False
        if self.phase == PRESALE:
            self.phase = ACTIVE
            return False, False
        self.tick += 1
        if self.tick < self.round.rug_tick:
            if self.ledger.pass_tick(self.tick) is not None:
                self._tell()
            return False, False
        self.phase = RUGGED
        self.ledger.rug(self.tick, self.price)
        self._tell()
        self._finish(self.round)
        self.rounds_left -= 1
        over = self.rounds_left == 0
        return over and self.rounds == 1, over and self.rounds > 1

    def _velocity(self, tick: int) -> float:
        return self.round.prices[tick] - self.round.prices[tick - 1] if tick > 0 else 0.0

    def observe(self) -> NDArray[np.float32]:
        """Write the observation from the rules of the feature table."""
        payload, context = self.told, self.context
        cash, qty, avg = payload.cash / 1e9, payload.qty / 1e9, payload.avg_cost / 1e9
        value = qty * self.price
        held = payload.qty > 0
        timer = 10000 if self.phase == PRESALE else TICK_MS * self.round.countdown[self.tick]
        server = [self.tick, self.price, self.phase, timer, self.phase == PRESALE, self.phase >= ACTIVE]
        server += [self.phase == RUGGED, context.connected_players]
        player = [cash, qty, avg, payload.pnl / 1e9, payload.invested / 1e9]
        rugpool = [context.rugpool_amount, context.rugpool_threshold, context.instarug_count]
        session = [context.average_multiplier, context.count_2x, context.count_10x, context.count_50x]
        session += [context.count_100x, context.highest_today]
        derived = [
            self._velocity(self.tick),
            self._velocity(self.tick) - self._velocity(self.tick - 1),
            qty * (self.price - avg) if held else 0.0,
            (self.price - avg) / avg if held and avg > 0 else 0.0,
            np.float32(context.rugpool_amount / context.rugpool_threshold),
            value / (cash + value) if held and value > 0 else 0.0,
        ]
        pressed = [self.tick - self.entry_tick if held else 0, self.tick - self.action_tick, self.bet / 1e9]
        if self.observation == "policy":
            return np.array(server + player + rugpool + session + derived + pressed, np.float32)
        identity = [(round_key(self.seed_value, self.number - self.over, PRICES) >> 40) / 2**24]
        execution = [*self.execution, 0.0, 0.0, 0.0]
        return np.array(server + identity + player + rugpool + session + derived + pressed + execution, np.float32)
