"""A scripted human-like player of the crash game, with every probability that he acts by.

One decision model in two forms: `Human` plays many lanes (a baseline), `Presser` gives the presses
for one live round. His style is written down in docs/concepts/scripted-player.md.
Leaves out: pressing anything (who drives the page or the socket does that).

At each step he makes one choice of twelve: WAIT, an action, or one adjustment of the bet. What he
chooses depends on the row he sees and on his `mind`, one of seven; after the choice his mind moves.
Both are drawn from explicit probabilities, `choice_table` and `mind_table`, so the best that anybody
can do in predicting him is computable: `Human.probabilities` for one who can read his mind, `Watcher`
for one who sees only the rows and the presses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from playproof.games.crash.features import state as fold
from playproof.games.crash.features.state import ACTIVE, COOLDOWN, PRESALE
from playproof.games.crash.players.baselines import (
    AVG_ENTRY,
    BALANCE,
    BET,
    BUY,
    CLEAR,
    COUNT_2X,
    DOUBLE,
    HALF,
    INC_001,
    INC_1,
    INVESTED,
    MAX,
    PHASE,
    PNL,
    PNL_PCT,
    PRICE,
    QTY,
    SELL,
    SIDEBET,
    SINCE_ACTION,
    TICK,
    TIME_IN_POSITION,
    VELOCITY,
    WAIT,
    Actions,
    Chosen,
    Ints,
    Rng,
    Rows,
    progress,
)
from playproof.games.crash.rules.money import MIN_BET, SHARES
from playproof.games.crash.rules.worlds import TICK_MS
from playproof.games.crash.sim.kernel import MAX_ADJUSTMENTS, adjusted_bet
from playproof.money import UNIT

CHOICES = (
    *("WAIT", "BUY", "SELL", "SIDEBET"),
    *("CLEAR", "INC_001", "INC_01", "INC_10", "INC_1", "HALF", "DOUBLE", "MAX"),
)
"""What he may do at a step, by the ids of the buttons: an action, or adjustment 1 to 8."""
ADJUST = 3
"""Adjustment k is choice ADJUST + k."""

FRESH, OUT, IDLE, ENTER, PRESS, EXIT, SIDE = range(7)
MINDS = ("fresh", "out", "idle", "enter", "press", "exit", "side")
"""A round has just begun; he sits it out; nothing on his mind; wants to buy; is pressing; wants to sell; to bet."""

CAUTIOUS, CALM, GREEDY = range(3)

Floats = NDArray[np.float64]
Minds = NDArray[np.int8]

_UNSEEN = np.iinfo(np.int64).max
_MICRO = 1_000_000
_INCREMENTS = np.array([1_000, 10_000, 100_000, 1_000_000])
_BREAK_EVEN = 1e-6
"""Coins: a smaller result of a round is neither won nor lost."""


@dataclass(frozen=True)
class Mood:
    """How he plays in one mood."""

    bet: float
    """What he buys for, in coins."""
    take_profit: float
    """Profit at which he wants to sell, of the cost."""
    stop_loss: float
    """Loss at which he panics, of the cost."""
    entry: float
    """Chance a tick that he comes to want a position."""
    sit_out: float
    """Chance that he sits a round out."""


@dataclass(frozen=True)
class HumanView:
    """What he takes from a row; one value a lane."""

    phase: Floats
    tick: Floats
    flat: Chosen
    mood: Minds
    jump: Floats
    """The last move of the price, of the price before it."""
    price: Floats
    pct: Floats
    held_for: Floats
    since: Floats
    pressed: Chosen
    """He put an order in a tick ago or less, and something was staked in this round."""
    bet: Ints
    """In the bet field, in millionths."""
    target: Ints
    """What he wants in it, in millionths."""

    def take(self, rows: object) -> HumanView:
        """Give some lanes of it."""
        return HumanView(*(getattr(self, field.name)[rows] for field in fields(self)))


Alike = tuple[int, Ints, HumanView]
"""A mind, the lanes that are of it, and what is seen there."""


@dataclass
class HumanMemory:
    """What he remembers of each lane: his mind, his nerve, and of the last row only what tells a round's end."""

    rng: Rng
    mind: Minds
    nerve: Minds
    """How the last round ended for him: -1 lost, 0 not played, +1 won."""
    seen: Ints
    held: Chosen
    pnl: Floats

    def copy(self) -> HumanMemory:
        """Give a copy that shares the generator only."""
        return replace(self, **{item: getattr(self, item).copy() for item in ("mind", "nerve", "seen", "held", "pnl")})


@dataclass(frozen=True)
class Human:
    """Play like a person: moods, hesitation, bet adjustments, panic, mistakes. Chances are per step."""

    cautious: Mood = Mood(bet=0.005, take_profit=0.15, stop_loss=0.20, entry=0.02, sit_out=0.50)
    calm: Mood = Mood(bet=0.021, take_profit=0.30, stop_loss=0.30, entry=0.04, sit_out=0.25)
    greedy: Mood = Mood(bet=0.042, take_profit=0.70, stop_loss=0.45, entry=0.08, sit_out=0.10)
    cold: float = 41.0
    """He takes a table with at most so many of the last 100 rounds above 2x for a cold one."""
    hot: float = 47.0
    bankroll: float = 1.0
    """What he came with, in coins."""
    shift: float = 0.02
    """He feels ahead or behind when this share of the bankroll is won or lost."""
    nerve: float = 0.4
    """A won round makes him want entries so much more often, a lost one so much less."""
    burned: float = 0.15
    """A lost round adds this to the chance of sitting out."""
    early: float = 0.2
    """Chance that he goes for a presale buy."""
    big_move: float = 0.12
    """A move of the price that he reacts to."""
    dip: float = 3.0
    """A big fall makes an entry so much likelier."""
    chase: float = 2.0
    """A big rise makes an entry so much likelier."""
    heights: float = 10.0
    """From this price on he is afraid of buying."""
    height_fear: float = 0.3
    """An entry from there on is so much likelier."""
    greed: float = 0.5
    """Chance that he wants to sell when the profit is there."""
    panic: float = 0.6
    """Chance that he wants to sell when the loss is there, and that he then presses."""
    fright: float = 0.35
    """Chance that a big fall alone makes him want to sell."""
    patience: float = 80.0
    """Ticks in a position until he is bored."""
    boredom: float = 0.05
    whim: float = 0.004
    """Chance that he wants to sell for no reason."""
    hesitation: float = 0.25
    """Chance that he presses, once he wants a position or a sidebet: 4 ticks on average."""
    exit_hesitation: float = 0.3
    fingers: float = 0.6
    """Chance that the next press of a sequence comes in the same tick."""
    lost_interest: float = 0.04
    """Chance that he drops the wish for a position or a sidebet, each tick he waits."""
    second_thought: float = 0.08
    """Chance that he drops the wish to sell, each tick he waits."""
    long_round: float = 150.0
    """From this tick on he thinks the rug is due."""
    rest: float = 45.0
    """Ticks without an order of his before he thinks of a sidebet, so that his last one is over."""
    due: float = 0.02
    """Chance that he wants a sidebet in a long round."""
    slip_right: float = 0.02
    """Chance of hitting the button to the right of the adjustment he means."""
    slip_left: float = 0.01
    fat_finger: float = 0.004
    """Chance of hitting +1 in place of any adjustment."""
    careless: float = 0.25
    """Chance that he does not notice a bet that is too big."""
    double_press: float = 0.04
    stray_sell: float = 0.002
    """Chance that he presses SELL with nothing to sell."""

    @property
    def moods(self) -> tuple[Mood, Mood, Mood]:
        """Give the moods in the order CAUTIOUS, CALM, GREEDY."""
        return self.cautious, self.calm, self.greedy

    def start(self, lanes: int, rng: Rng) -> HumanMemory:
        """Sit down at so many tables."""
        return HumanMemory(
            rng,
            np.full(lanes, FRESH, np.int8),
            np.zeros(lanes, np.int8),
            np.full(lanes, _UNSEEN),
            np.zeros(lanes, np.bool_),
            np.zeros(lanes),
        )

    def begin(self, state: HumanMemory, chosen: Chosen) -> None:
        """Sit down anew at the chosen tables: the last round is forgotten too."""
        fresh = self.start(int(chosen.sum()), state.rng)
        for item in ("mind", "nerve", "seen", "held", "pnl"):
            getattr(state, item)[chosen] = getattr(fresh, item)

    def act(self, obs: Rows, state: HumanMemory) -> Actions:
        """Choose for every lane, and move his mind."""
        sight = self.see(obs)
        self.notice(obs, sight, state)
        alike = by_mind(sight, state.mind)
        choice = _draw(self._choices(alike, len(obs)), state.rng)
        state.mind[:] = _draw(self._moves(alike, choice, state.nerve), state.rng)
        return to_actions(choice)

    def probabilities(self, obs: Rows, state: HumanMemory) -> tuple[Floats, Floats]:
        """Give the chances of his next action by head, (N, 4) and (N, 9), from the memory before it.

        The heads are not independent: he never presses an action and an adjustment in one step.
        """
        joint = self.choice_probabilities(obs, state)
        main, bet = joint[:, : ADJUST + 1].copy(), np.empty((len(joint), 9))
        main[:, WAIT] += joint[:, ADJUST + 1 :].sum(axis=1)
        bet[:, 0], bet[:, 1:] = joint[:, : ADJUST + 1].sum(axis=1), joint[:, ADJUST + 1 :]
        return main, bet

    def choice_probabilities(self, obs: Rows, state: HumanMemory) -> Floats:
        """Give the chances of his twelve choices, (N, 12); changes nothing."""
        sight, after = self.see(obs), state.copy()
        self.notice(obs, sight, after)
        return self._choices(by_mind(sight, after.mind), len(obs))

    def share_table(self, obs: Rows) -> Floats:
        """Give the chances of the shares 10, 25, 50 and 100 % if he sells now, (N, 4).

        The action set `buttons` has no shares: there he sells all.
        """
        sight = self.see(obs)
        table = np.tile([0.0, 0.0, 0.05, 0.95], (len(obs), 1))
        table[(sight.pct > 0.0) & (sight.mood == GREEDY)] = (0.05, 0.15, 0.30, 0.50)
        return table

    def see(self, obs: Rows) -> HumanView:
        """Read what he looks at."""
        rows = obs.astype(np.float64)
        before = rows[:, PRICE] - rows[:, VELOCITY]
        mood = self._mood(rows)
        wanted = np.rint(self._by_mood("bet", mood) * _MICRO).astype(np.int64)
        balance = np.rint(rows[:, BALANCE] * _MICRO).astype(np.int64)
        return HumanView(
            phase=rows[:, PHASE],
            tick=rows[:, TICK],
            flat=rows[:, QTY] <= 0.0,
            mood=mood,
            jump=rows[:, VELOCITY] / np.maximum(before, 1e-9),
            price=rows[:, PRICE],
            pct=rows[:, PNL_PCT],
            held_for=rows[:, TIME_IN_POSITION],
            since=rows[:, SINCE_ACTION],
            pressed=(rows[:, SINCE_ACTION] <= 1.0) & (rows[:, INVESTED] > 0.0),
            bet=np.rint(rows[:, BET] * _MICRO).astype(np.int64),
            target=np.where(balance >= 2 * wanted, wanted, MIN_BET * _MICRO // UNIT),
        )

    def _mood(self, rows: Floats) -> Minds:
        """Judge by the round's result, by the table, and by the bankroll; the majority of the three decides."""
        owned = rows[:, BALANCE] + rows[:, QTY] * rows[:, AVG_ENTRY]
        signs = (
            _sign(rows[:, PNL], _BREAK_EVEN)
            + (rows[:, COUNT_2X] >= self.hot).astype(np.int8)
            - (rows[:, COUNT_2X] <= self.cold).astype(np.int8)
            + _sign(owned - self.bankroll, self.shift * self.bankroll)
        )
        moods: Minds = (CALM + np.sign(signs)).astype(np.int8)
        return moods

    def notice(self, obs: Rows, sight: HumanView, state: HumanMemory) -> None:
        """Take in what the row says about his memory: a new round, or a position gained or gone. Draws nothing."""
        now = progress(obs)
        turned = now < state.seen
        result = np.where(state.held, -1, _sign(state.pnl, _BREAK_EVEN))
        state.nerve[turned] = result[turned]
        state.mind[turned] = FRESH
        state.mind[:] = settled(sight, state.mind)
        state.seen[:], state.held[:], state.pnl[:] = now, ~sight.flat, obs[:, PNL]

    def _choices(self, alike: Sequence[Alike], lanes: int) -> Floats:
        table = np.empty((lanes, len(CHOICES)))
        for mind, rows, sight in alike:
            table[rows] = self.choice_table(sight, mind)
        return table

    def _moves(self, alike: Sequence[Alike], choice: Ints, nerve: Minds) -> Floats:
        table = np.empty((len(choice), len(MINDS)))
        for mind, rows, sight in alike:
            table[rows] = self.mind_table(sight, mind, choice[rows], nerve[rows])
        return table

    def choice_table(self, sight: HumanView, mind: int) -> Floats:
        """Give the chances of the twelve choices in one mind, (N, 12)."""
        lanes = len(sight.tick)
        active = sight.phase == ACTIVE
        table = np.zeros((lanes, len(CHOICES)))
        if mind in (OUT, IDLE):
            table[:, SELL] = self.stray_sell * (active & sight.flat)
            if mind == IDLE:
                again = active & sight.pressed
                table[:, SELL] += self.double_press * (again & sight.flat)
                table[:, BUY] = self.double_press * (again & ~sight.flat)
        elif mind == EXIT:
            table[:, SELL] = np.where(self._frightened(sight), self.panic, self.exit_hesitation) * active
        else:
            final = SIDEBET if mind == SIDE else BUY
            table = self.press_table(sight, final) * self._readiness(sight, mind)[:, None]
        table[:, WAIT] = 1.0 - table[:, WAIT + 1 :].sum(axis=1)
        return table

    def _readiness(self, sight: HumanView, mind: int) -> Floats:
        """Give the chance that he presses now, whatever the button."""
        if mind == FRESH:
            return np.where(sight.phase == PRESALE, self.early, 0.0)
        chance = self.fingers if mind == PRESS else self.hesitation
        return np.where((sight.phase == PRESALE) | (sight.phase == ACTIVE), chance, 0.0)

    def press_table(self, sight: HumanView, final: int) -> Floats:
        """Give the chances of the next press on the way to the wanted bet and the order at its end, (N, 12)."""
        meant = self.meant_adjustment(sight)
        done, too_big = meant == 0, sight.bet > sight.target
        rows, table = np.arange(len(meant)), np.zeros((len(meant), len(CHOICES)))
        final_chance = np.where(done, 1.0, self.careless * too_big)
        right = self.slip_right * (~done & (meant < MAX))
        left = self.slip_left * (~done & (meant > CLEAR))
        fat = self.fat_finger * ~done
        rest = 1.0 - final_chance
        table[rows, ADJUST + np.minimum(meant + 1, MAX)] += rest * right
        table[rows, ADJUST + np.maximum(meant - 1, CLEAR)] += rest * left
        table[rows, ADJUST + INC_1] += rest * fat
        table[rows, ADJUST + np.maximum(meant, CLEAR)] += rest * (1.0 - right - left - fat)
        table[:, final] += final_chance
        return table

    def meant_adjustment(self, sight: HumanView) -> Ints:
        """Tell which adjustment he means to press: none within 0.001, X2 or 1/2 if that does it, else step by step."""
        missing = sight.target - sight.bet
        step = INC_001 + np.searchsorted(_INCREMENTS, np.maximum(missing, 1_000), side="right") - 1
        doubles = (np.abs(2 * sight.bet - sight.target) < 1_000) & (sight.bet >= 5_000)
        halves = np.abs(sight.bet - 2 * sight.target) < 1_000
        up, down = np.where(doubles, DOUBLE, step), np.where(halves, HALF, CLEAR)
        return np.where(np.abs(missing) < 1_000, 0, np.where(missing > 0, up, down)).astype(np.int64)

    def mind_table(self, sight: HumanView, mind: int, choice: Ints, nerve: Minds) -> Floats:
        """Give the chances of his next mind after a choice in one mind, (N, 7)."""
        table = np.zeros((len(choice), len(MINDS)))
        waits, open_phase = choice == WAIT, (sight.phase == PRESALE) | (sight.phase == ACTIVE)
        if mind == FRESH:
            out = self._sit_out(sight, nerve) * waits
            table[:, OUT] = out * open_phase
            table[:, FRESH] = ~open_phase
            table[:, PRESS] = (choice > ADJUST) & open_phase
        elif mind == OUT:
            table[:, OUT] = 1.0
        elif mind == IDLE:
            self._wish(sight, nerve, waits & (sight.phase == ACTIVE), table)
        else:
            self._go_on(mind, choice, open_phase, table)
        table[:, IDLE] += 1.0 - table.sum(axis=1)
        return table

    def _sit_out(self, sight: HumanView, nerve: Minds) -> Floats:
        return self._by_mood("sit_out", sight.mood) + np.where(nerve < 0, self.burned, 0.0)

    def _by_mood(self, name: str, mood: Minds) -> Floats:
        """Give a value of the mood that each lane is in."""
        return np.array([getattr(item, name) for item in self.moods])[mood]

    def _wish(self, sight: HumanView, nerve: Minds, may: Chosen, table: Floats) -> None:
        """Write the chances that a wish comes up."""
        wish = np.where(sight.flat, self._entry_chance(sight, nerve), self._exit_chance(sight)) * may
        table[:, ENTER], table[:, EXIT] = wish * sight.flat, wish * ~sight.flat
        due = (sight.tick >= self.long_round) & (sight.since >= self.rest) & may
        table[:, SIDE] = (1.0 - wish) * self.due * due

    def _go_on(self, mind: int, choice: Ints, open_phase: Chosen, table: Floats) -> None:
        """Write the chances that a wish stays: it ends with its order, and may fade while he waits."""
        fades = self.second_thought if mind == EXIT else self.lost_interest
        table[:, mind] = (choice == WAIT) * (1.0 - fades) * open_phase
        table[:, PRESS if mind == ENTER else mind] += (choice > ADJUST) & open_phase

    def _entry_chance(self, sight: HumanView, nerve: Minds) -> Floats:
        chance = self._by_mood("entry", sight.mood) * (1.0 + self.nerve * nerve)
        chance = np.where(sight.jump <= -self.big_move, self.dip * chance, chance)
        chance = np.where(sight.jump >= self.big_move, self.chase * chance, chance)
        return np.where(sight.price >= self.heights, self.height_fear * chance, chance)

    def _exit_chance(self, sight: HumanView) -> Floats:
        """Take the strongest of his reasons to sell."""
        goal = self._by_mood("take_profit", sight.mood)
        reasons = (
            self.greed * (sight.pct >= goal),
            self.panic * self._at_stop(sight),
            self.fright * (sight.jump <= -self.big_move),
            self.boredom * (sight.held_for >= self.patience),
        )
        chance: Floats = np.maximum.reduce([np.full(len(goal), self.whim), *reasons])
        return chance

    def _at_stop(self, sight: HumanView) -> Chosen:
        return sight.pct <= -self._by_mood("stop_loss", sight.mood)

    def _frightened(self, sight: HumanView) -> Chosen:
        return self._at_stop(sight) | (sight.jump <= -self.big_move)


def by_mind(sight: HumanView, minds: Minds) -> list[Alike]:
    """Put lanes of the same mind together."""
    indices = [(mind, np.flatnonzero(minds == mind)) for mind in np.flatnonzero(np.bincount(minds)).tolist()]
    return [(mind, rows, sight if len(rows) == len(minds) else sight.take(rows)) for mind, rows in indices]


def settled(sight: HumanView, minds: Minds) -> Minds:
    """Drop wishes that the position has overtaken: no exit without one, no entry or sitting out with one."""
    gone = (minds == EXIT) & sight.flat
    gone |= np.isin(minds, (OUT, ENTER, PRESS)) & ~sight.flat
    return np.where(gone, IDLE, minds).astype(np.int8)


def to_actions(choice: Ints) -> Actions:
    """Turn choices into actions of the set `buttons`, (N, 2)."""
    adjusts = choice > ADJUST
    return np.stack([np.where(adjusts, WAIT, choice), np.where(adjusts, choice - ADJUST, 0)], axis=1).astype(np.int64)


def to_choices(actions: Actions) -> Ints:
    """Turn actions of one press each into choices; where both heads are pressed the action counts."""
    return np.where((actions[:, 0] == WAIT) & (actions[:, 1] > 0), ADJUST + actions[:, 1], actions[:, 0])


def _sign(values: Floats, margin: float) -> NDArray[np.int8]:
    """Give -1, 0 or 1, with 0 for all that is within the margin."""
    return (values > margin).astype(np.int8) - (values < -margin).astype(np.int8)


def _draw(table: Floats, rng: Rng) -> Ints:
    """Draw one place a row, by the row's chances."""
    limits = np.cumsum(table, axis=1)
    ints: Ints = (rng.random((len(table), 1)) * limits[:, -1:] >= limits[:, :-1]).sum(axis=1)
    return ints


class CloneBoundPredictor:
    """Predict him from the rows and his presses alone, as well as that is possible.

    Keeps the exact chances of his mind given everything shown so far. Nobody who cannot read his mind
    predicts him better on average; one who sees only the present row can at most do as well.
    """

    def __init__(self, human: Human, lanes: int) -> None:
        self.human = human
        self.belief = np.zeros((lanes, len(MINDS)))
        self.belief[:, FRESH] = 1.0
        self._memory = human.start(lanes, np.random.default_rng(0))

    def predict(self, obs: Rows) -> Floats:
        """Take in the rows; give the chances of his choices, (N, 12)."""
        sight = self.human.see(obs)
        turned = progress(obs) < self._memory.seen
        self.human.notice(obs, sight, self._memory)
        self.belief[turned] = np.eye(len(MINDS))[FRESH]
        self.belief = self._settle(sight)
        tables = np.stack([self.human.choice_table(sight, mind) for mind in range(len(MINDS))])
        chances: Floats = np.einsum("nm,mnc->nc", self.belief, tables)
        return chances

    def learn(self, obs: Rows, actions: Actions) -> None:
        """Take in what he did at these rows, after `predict`."""
        sight, choice = self.human.see(obs), to_choices(actions)
        lanes = np.arange(len(choice))
        after = np.zeros_like(self.belief)
        for mind in range(len(MINDS)):
            likely = self.belief[:, mind] * self.human.choice_table(sight, mind)[lanes, choice]
            after += likely[:, None] * self.human.mind_table(sight, mind, choice, self._memory.nerve)
        self.belief = after / after.sum(axis=1, keepdims=True)

    def narrow(self, lanes: int) -> None:
        """Go on watching only the first lanes."""
        self.belief = self.belief[:lanes]
        kept = {item: getattr(self._memory, item)[:lanes] for item in ("mind", "nerve", "seen", "held", "pnl")}
        self._memory = replace(self._memory, **kept)

    def _settle(self, sight: HumanView) -> Floats:
        moved = np.zeros_like(self.belief)
        lanes = np.arange(len(moved))
        for mind in range(len(MINDS)):
            moved[lanes, settled(sight, np.full(len(moved), mind, np.int8))] += self.belief[:, mind]
        return moved


@dataclass(frozen=True, slots=True)
class Live:
    """What the page shows him at a tick; amounts in coins."""

    phase: int
    tick: int
    price: float
    balance: float
    bet: float
    position_qty: float = 0.0
    avg_entry_price: float = 0.0
    cumulative_pnl: float = 0.0
    total_invested: float = 0.0
    count_2x: float = 44.0


@dataclass(frozen=True, slots=True)
class Press:
    """One press of a button, so many ms after the one before it, or after the tick."""

    button_id: str
    delay_ms: int


class ScriptedPresser:
    """Give the presses of one scripted human, tick by tick, for the real page or socket.

    Each tick is one decision point, the presale is one too; what is shown again changes nothing. All
    presses of a tick fall into it. Decisions are drawn from `rng` exactly as `Human` draws them for one
    lane on the clock `press`; delays and shares come from a generator of their own.
    """

    def __init__(self, human: Human, rng: Rng, tick_ms: int = TICK_MS) -> None:
        self.human = human
        self.tick_ms = tick_ms
        self._timing = rng.spawn(1)[0]
        self._memory = human.start(1, rng)
        self._known = fold.new_state()
        self._point: tuple[int, int] | None = None
        self._share = 100

    def see(self, live: Live) -> tuple[Press, ...]:
        """Take in what the page shows; give the presses until the next tick."""
        self._know(live)
        row = np.empty((1, fold.POLICY_COUNT), np.float32)
        fold.observe_policy(self._known[0], row, 0)
        presses = self.see_row(row[0])
        if any(press.button_id in CHOICES[BUY : SIDEBET + 1] for press in presses):
            fold.apply_press(self._known[0])
        return presses

    def see_row(self, row: Rows) -> tuple[Press, ...]:
        """Take in a row of the set `policy` instead, for callers that have one."""
        point = int(row[PHASE]), int(row[TICK])
        if point == self._point:
            return ()
        self._point = point
        if point[0] in (COOLDOWN, PRESALE):
            self._share = 100
        return self._spread(self._decide(row[None, :].copy()))

    def _decide(self, obs: Rows) -> list[str]:
        """Draw choices until he waits, puts an order in, or has adjusted as often as a tick allows."""
        buttons: list[str] = []
        while len(buttons) <= MAX_ADJUSTMENTS:
            choice = int(to_choices(self.human.act(obs, self._memory))[0])
            if choice == WAIT:
                break
            if choice == SELL:
                buttons += self._set_share(obs)
            buttons.append(CHOICES[choice])
            if choice <= ADJUST:
                break
            bet, cash = (round(float(obs[0, index]) * UNIT) for index in (BET, BALANCE))
            obs[0, BET] = adjusted_bet(bet, cash, choice - ADJUST) / UNIT
        return buttons

    def _set_share(self, obs: Rows) -> list[str]:
        """Give the percentage button that he presses before he sells, if another share is set."""
        share = int(self._timing.choice(SHARES, p=self.human.share_table(obs)[0]))
        if share == self._share or obs[0, QTY] <= 0.0:
            return []
        self._share = share
        return [f"SELL_{share}"]

    def _spread(self, buttons: Sequence[str]) -> tuple[Press, ...]:
        """Spread presses over the tick, unevenly."""
        gaps = self._timing.uniform(0.6, 1.4, len(buttons) + 1)
        delays = np.floor(self.tick_ms * gaps / gaps.sum()).astype(int)
        return tuple(Press(button, int(delay)) for button, delay in zip(buttons, delays[:-1], strict=True))

    def _know(self, live: Live) -> None:
        """Take the page into the fold; what it tells of the player was filled at the tick before."""
        known = self._known[0]
        if live.phase in (COOLDOWN, PRESALE) and int(known["phase"]) not in (COOLDOWN, PRESALE):
            fold.apply_round(known, 0.0)
        fold.apply_session(known, 0.0, live.count_2x, 0.0, 0.0, 0.0)
        money = (live.balance, live.position_qty, live.avg_entry_price, live.cumulative_pnl, live.total_invested)
        fold.apply_player(known, *(round(amount * UNIT) for amount in money))
        fold.apply_bet(known, round(live.bet * UNIT))
        fold.apply_tick(known, live.tick, live.price, 0, live.phase)
