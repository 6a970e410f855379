"""The crash game's part in a study of the validator: rules played on whole rounds at once, compiled.

A rule enters where its condition holds and leaves after some ticks, at a profit or loss, when the countdown is over
or where a signal says so; or it places sidebets. Prices are those of the lanes, and orders and settlements are theirs
(sim.orders), so that a rule earns to the unit what the same orders earn there. Leaves out: bets that change, several
lots, the presale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.game import Reward
from playproof.game.vector_env import ActivityProfile, RolloutStats
from playproof.games.crash.features.state import ACTIVE
from playproof.games.crash.rules.money import MAX_MONEY, MIN_BET, SIDEBET_TICKS
from playproof.games.crash.rules.worlds import get_world
from playproof.games.crash.sim import orders, prices_nb
from playproof.games.crash.sim.arrays import Floats, Ints, Marks, Record, Records
from playproof.games.crash.sim.lanes import CrashConfig
from playproof.games.crash.sim.layout import LANE, LOTS
from playproof.money import UNIT
from studies.validator.worlds import Learnable, SimulatedWindows

compiled = compiler(__file__)
inlined = compiler(__file__, inline=True)

STAKE = UNIT // 10
BET = UNIT // 50
ALWAYS, HOT, COUNTDOWN, DIP, ABOVE, SIGNAL = range(6)
POSITION, SIDEBET = range(2)
ENTER, LEAVE = 1, 2
"""Signals."""
NEVER = 1 << 20
CHOICES = ("WAIT", "BUY", "SELL", "SIDEBET")
EVERY = 8
"""Ticks between rows to learn from."""
AHEAD = 3
"""Rows by which a feature that nobody can have looks ahead."""
RULE = np.dtype(
    [
        *((name, "i8") for name in ("kind", "when", "first", "ticks", "again", "bet", "delay")),
        *((name, "f8") for name in ("level", "up", "down")),
    ],
    align=True,
)
"""A way to play, as compiled code reads it."""
NAMES = ("tick", "price", "velocity", "volatility", "peak", "countdown", "ratio")


@dataclass(frozen=True)
class RoundColumns:
    """Rounds side by side: every tick of every round, the rug's price last."""

    starts: NDArray[np.int64]
    """Place of each round's tick 0, and the end of all."""
    prices: NDArray[np.float64]
    countdowns: NDArray[np.int64]
    hot: NDArray[np.bool_]
    peaks: NDArray[np.float64]
    """Highest price so far, by tick."""
    known: dict[int, Any] = field(default_factory=dict, compare=False)
    """What was computed from these rounds before: the rows, and what a model says of them."""

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Give the rows to learn from, made once."""
        if 0 not in self.known:
            self.known[0] = table(self)
        result: tuple[NDArray[np.int64], NDArray[np.float64]] = self.known[0]
        return result

    def chances(self, model: Any) -> NDArray[np.float64]:
        """Give what a model says of each row, asked once."""
        if id(model) not in self.known:
            self.known[id(model)] = np.asarray(model.predict(self.rows()[1], num_threads=1))
        values: NDArray[np.float64] = self.known[id(model)]
        return values


@dataclass(frozen=True)
class PlayRule:
    """One way to play."""

    kind: int = POSITION
    when: int = ALWAYS
    level: float = 0.0
    """Of a dip: the share of the highest price; above: the price."""
    first: int = 0
    """Tick from which on it enters."""
    ticks: int = NEVER
    """A position is held so long at most."""
    up: float = 0.0
    """Sell at so many times the entry price; 0: do not."""
    down: float = 0.0
    again: bool = False
    """Enter more than once a round."""
    bet: int = BET
    trees: Any = None
    """What gives the signals: trees and the least probability, or shares of entering and leaving by chance."""

    def to_record(self, delay: int) -> Records:
        """Write the rule as compiled code reads it; orders are carried out so many ticks later."""
        numbers = (self.kind, self.when, self.first, self.ticks, self.again, self.bet, delay)
        return np.array([(*numbers, self.level, self.up, self.down)], RULE)

    def signals(self, dealt: SimulatedWindows) -> NDArray[np.int8]:
        """Give the signal of every tick."""
        rounds: RoundColumns = dealt.material
        if self.trees is None:
            return np.zeros(1 if self.when != SIGNAL else len(rounds.prices), np.int8)
        values: NDArray[np.int8] = self.trees.signals(dealt)
        return values


@dataclass(frozen=True)
class Chance:
    """Enter and leave by chance."""

    enter: float
    leave: float
    seed: int

    def signals(self, dealt: SimulatedWindows) -> NDArray[np.int8]:
        """Draw the signal of every tick."""
        drawn = np.random.default_rng([self.seed, 7]).random(len(dealt.material.prices))
        return np.where(drawn < self.enter, ENTER, np.where(drawn > 1 - self.leave, LEAVE, 0)).astype(np.int8)


@dataclass(frozen=True)
class TreeRule:
    """Enter where boosted trees give at least some probability that the rug comes in time."""

    model: Any
    least: float

    def signals(self, dealt: SimulatedWindows) -> NDArray[np.int8]:
        """Look at every eighth tick."""
        rounds: RoundColumns = dealt.material
        payload = np.zeros(len(rounds.prices), np.int8)
        payload[rounds.rows()[0]] = rounds.chances(self.model) >= self.least
        return payload


@compiled
def deal_rounds(
    code: int,
    seed: np.uint64,
    count: int,
    prices: Floats,
    countdowns: Ints,
    peaks: Floats,
    starts: Ints,
    hot: Marks,
) -> int:
    """Deal rounds one after the other; give how many fit into the arrays."""
    at = 0
    for number in range(count):
        if at + prices_nb.MAX_TICKS + 1 > len(prices):
            return number
        world_key = prices_nb.round_key(seed, number, prices_nb.WORLD)
        hot[number] = prices_nb.draw_hot(code, world_key)
        last, _ = prices_nb.counter_round(code, seed, number, prices[at : at + prices_nb.MAX_TICKS + 1])
        left, peak = 0, 1.0
        countdowns[at], peaks[at] = 0, 1.0
        for tick in range(1, last + 1):
            left = prices_nb.next_countdown(code, world_key, tick, left)
            peak = max(peak, prices[at + tick])
            countdowns[at + tick], peaks[at + tick] = left, peak
        at += last + 1
        starts[number + 1] = at
    return count


@inlined
def enters(rule: Record, price: float, peak: float, countdown: int, hot: bool, signal: int) -> bool:
    """Tell whether a rule's condition to enter holds."""
    if rule.when == HOT:
        return hot
    if rule.when == COUNTDOWN:
        return countdown > 0
    if rule.when == DIP:
        return bool(price <= rule.level * peak)
    if rule.when == ABOVE:
        return bool(price >= rule.level)
    if rule.when == SIGNAL:
        return signal == ENTER
    return True


@inlined
def leaves(rule: Record, price: float, entry_price: float, ticks: int, countdown: int, signal: int) -> bool:
    """Tell whether a rule sells a position that it has held for some ticks."""
    return bool(
        ticks >= rule.ticks
        or (rule.up > 0 and price >= rule.up * entry_price)
        or (rule.down > 0 and price <= rule.down * entry_price)
        or (rule.when == COUNTDOWN and countdown == 0)
        or signal == LEAVE
    )


@compiled
def play_rule(
    starts: Ints,
    prices: Floats,
    countdowns: Ints,
    hot: Marks,
    signals: NDArray[np.int8],
    rules: Records,
    lanes: Records,
    all_lots: Records,
    config: Records,
    out: Ints,
) -> None:
    """Play a rule over rounds; writes pnl, opened, staked, ticks in market, buys, sells, bets of each round."""
    rule, lane, lots, cfg = rules[0], lanes[0], all_lots[0], config[0]
    for number in range(len(starts) - 1):
        begin, end = starts[number], starts[number + 1] - 1  # the rug, or the last tick, is at `end`
        lane.cash = MAX_MONEY  # only the reserved stake of the round limits a rule
        lane.phase = ACTIVE
        orders.start_round(lane)
        market = buys = sells = bets = entered = 0
        peak, due, order = 0.0, -1, 0
        for index in range(begin, end):
            tick, price = index - begin, prices[index]
            lane.tick = tick
            lane.price = price
            peak = max(peak, price)
            orders.pass_tick(lane)
            signal = signals[index] if rule.when == SIGNAL else 0
            if due < 0:
                if lane.qty > 0:
                    if leaves(rule, price, prices[begin + entered], tick - entered, countdowns[index], signal):
                        due, order = tick + rule.delay, LEAVE
                elif (
                    lane.side_stake == 0
                    and tick >= rule.first
                    and (rule.again != 0 or buys + bets == 0)
                    and enters(rule, price, peak, countdowns[index], hot[number], signal)
                ):
                    due, order = tick + rule.delay, ENTER
            if due == tick:
                due = -1
                if order == LEAVE:
                    sells += orders.sell(lane, lots, 100)
                elif rule.kind == SIDEBET:
                    bets += orders.bet(lane, cfg, rule.bet)
                elif orders.buy(lane, lots, cfg, rule.bet):
                    entered, buys = tick, buys + 1
            market += lane.qty > 0
        lane.tick = end - begin
        lane.price = prices[end]
        orders.rug(lane, lots, cfg)
        out[number, 0], out[number, 1] = lane.cash - lane.round_cash, buys + bets
        out[number, 2], out[number, 3] = lane.invested, market
        out[number, 4], out[number, 5], out[number, 6] = buys, sells, bets


def table(rounds: RoundColumns) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Give every eighth tick of rounds, the rug left out, and what can be seen there."""
    lengths = np.diff(rounds.starts)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    tick = np.arange(len(rounds.prices)) - rounds.starts[owner]
    indices = np.flatnonzero((tick % EVERY == 0) & (tick < lengths[owner] - 1))
    at, since = tick[indices], np.minimum(tick[indices], 8)
    price, before = rounds.prices[indices], rounds.prices[indices - since]
    logs = np.log(np.maximum(rounds.prices, 1e-9))
    squares = np.concatenate([[0.0], np.cumsum(np.diff(logs, prepend=logs[0]) ** 2)])
    volatility = squares[indices + 1] - squares[indices - since + 1]
    ratio = np.where(rounds.hot[owner[indices]], 0.9, 0.5)
    rows = [at, price, price - before, volatility, rounds.peaks[indices], rounds.countdowns[indices], ratio]
    return indices, np.column_stack(rows).astype(np.float64)


class CrashStudy:
    """The crash game in a study."""

    nulls = ("published", "fair")
    edges = ("hazard", "drift")

    def deal(self, world: str, windows: int, seed: tuple[int, ...]) -> SimulatedWindows:
        """Deal rounds from the counter-based stream, as simulation and training do."""
        code, key = get_world(world).code, np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        room = windows * 400 + 20 * (prices_nb.MAX_TICKS + 1)
        prices, countdowns, peaks = np.zeros(room), np.zeros(room, np.int64), np.zeros(room)
        starts, hot = np.zeros(windows + 1, np.int64), np.zeros(windows, np.bool_)
        dealt = deal_rounds(code, key, windows, prices, countdowns, peaks, starts, hot)
        assert dealt == windows
        end = int(starts[-1])
        rounds = RoundColumns(starts, prices[:end], countdowns[:end], hot, peaks[:end])
        return SimulatedWindows(world, tuple(f"{world}-{key:016x}-{number}" for number in range(windows)), rounds)

    def learn(self, train: SimulatedWindows, seed: int) -> Mapping[str, PlayRule]:
        """Give a grid of 20 rules, and sidebets by boosted trees at three margins."""
        return GRID | self._trees(train, seed)

    def _trees(self, train: SimulatedWindows, seed: int) -> dict[str, PlayRule]:
        import lightgbm

        result = self.rows(train)
        options = {"objective": "binary", "num_leaves": 7, "min_data_in_leaf": 40, "learning_rate": 0.1}
        quiet = {"verbose": -1, "num_threads": 1, "seed": seed, "deterministic": True, "force_row_wise": True}
        data = lightgbm.Dataset(result.rows, result.labels.astype(float))
        model = lightgbm.train(options | quiet, data, 40)
        even = float(1 / get_world(train.world).payout)
        made = {f"trees {margin:.0%}": TreeRule(model, even * (1 + margin)) for margin in (0.0, 0.2, 0.5)}
        return {name: PlayRule(SIDEBET, SIGNAL, again=True, trees=trees) for name, trees in made.items()}

    def play(self, player: PlayRule, dealt: SimulatedWindows, *, delay: int = 0) -> RolloutStats:
        """Play a rule over rounds."""
        rounds: RoundColumns = dealt.material
        out = np.zeros((len(dealt), 7), np.int64)
        play_rule(
            rounds.starts,
            rounds.prices,
            rounds.countdowns,
            rounds.hot,
            player.signals(dealt),
            player.to_record(delay),
            np.zeros(1, LANE),
            np.zeros(1, LOTS),
            CrashConfig(world=dealt.world, stake=STAKE).to_record(1),
            out,
        )
        steps = np.diff(rounds.starts) - 1
        decisions = np.column_stack([steps - out[:, 4:].sum(axis=1), out[:, 4], out[:, 5], out[:, 6]])
        idle = np.zeros(len(dealt))
        return RolloutStats(
            pnl=out[:, 0],
            opened=out[:, 1],
            staked=out[:, 2],
            decisions=decisions,
            no_effect=np.zeros(len(dealt), np.int64),
            in_market=out[:, 3],
            steps=steps,
            reward=idle,
            components={},
        )

    def rivals(self, habits: ActivityProfile, seed: int) -> Mapping[str, PlayRule]:
        """Make those of the game's own rivals that do not wait: chance, a hold as long, and sidebets."""
        bet = max(MIN_BET, round(min(habits.bet, habits.stake) / MIN_BET) * MIN_BET)
        held = max(1, round(habits.held))
        enter, leave = habits.mix["BUY"] + habits.mix["SIDEBET"], habits.mix["SELL"]
        kind = SIDEBET if habits.mix["SIDEBET"] > habits.mix["BUY"] else POSITION
        return {
            "random": PlayRule(kind, SIGNAL, again=True, bet=bet, trees=Chance(enter, leave, seed)),
            f"hold-{held}": PlayRule(ticks=held, bet=bet),
            "always sidebet": PlayRule(SIDEBET, again=True, bet=bet),
        }

    def rows(self, dealt: SimulatedWindows) -> Learnable:
        """Give what can be seen at every eighth tick, and whether the rug comes within 40."""
        rounds: RoundColumns = dealt.material
        indices, rows = rounds.rows()
        owner = np.searchsorted(rounds.starts, indices, side="right") - 1
        rug = rounds.starts[owner + 1] - 1
        later = rounds.prices[np.minimum(indices + AHEAD * EVERY, rug)]
        names = np.array(dealt.windows)[owner]
        ends = dict(zip(dealt.windows, (np.diff(rounds.starts) - 1).astype(float).tolist(), strict=True))
        return Learnable(rows, rug - indices <= SIDEBET_TICKS, names, NAMES, later, ends)

    def rewards(self) -> tuple[Mapping[str, Reward], Mapping[str, Reward]]:
        """Give the mutants, and honest rewards."""
        from playproof.games.crash.rewards.mutants import CLEAN, MUTANTS

        return {name: mutant.reward for name, mutant in MUTANTS.items()}, CLEAN


def _grid() -> dict[str, PlayRule]:
    """Make 20 rules that anybody might try."""
    grid = {f"hold {ticks}": PlayRule(ticks=ticks) for ticks in (5, 20, 40, 100)}
    grid |= {f"from tick {first} hold 30": PlayRule(first=first, ticks=30) for first in (20, 60, 120)}
    grid |= {
        f"at {up:g} or {down:g}": PlayRule(up=up, down=down) for up, down in ((1.25, 0.85), (1.5, 0.7), (2.0, 0.5))
    }
    dips = {f"dip to {level:.0%}": PlayRule(when=DIP, level=level, ticks=20, again=True) for level in (0.7, 0.5)}
    high = {f"above {level:g}": PlayRule(when=ABOVE, level=level, ticks=20, again=True) for level in (2.0, 5.0)}
    late = {f"sidebets from {first}": PlayRule(SIDEBET, first=first, again=True) for first in (0, 100, 200)}
    shown = {
        "sidebets if hot": PlayRule(SIDEBET, HOT, again=True),
        "hold 20 in a countdown": PlayRule(when=COUNTDOWN, ticks=20, again=True),
        "all of a countdown": PlayRule(when=COUNTDOWN, again=True),
    }
    return grid | dips | high | late | shown


GRID = _grid()
STUDY = CrashStudy()
