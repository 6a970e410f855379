"""The baselines of the crash game play as they are documented, and the scripted human by his own probabilities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playproof.errors import ConfigError, UnknownName
from playproof.game import Policy
from playproof.games.crash.features.state import ACTIVE, COOLDOWN, PRESALE, RUGGED
from playproof.games.crash.features.table import POLICY
from playproof.games.crash.players import baselines, human
from playproof.games.crash.players.baselines import (
    BASELINES,
    BUY,
    SELL,
    SIDEBET,
    WAIT,
    AlwaysSidebet,
    Hold,
    Random,
    SingleEnvAdapter,
    SweetSpot,
    TakeProfit,
    VectorPolicy,
    Wait,
    bet_units,
    game_baselines,
    make_baseline,
    presses_to,
)
from playproof.games.crash.players.human import (
    ADJUST,
    CHOICES,
    ENTER,
    EXIT,
    FRESH,
    IDLE,
    MINDS,
    OUT,
    PRESS,
    CloneBoundPredictor,
    Human,
    Live,
    Mood,
    ScriptedPresser,
    to_choices,
)
from playproof.games.crash.rules.money import average_cost
from playproof.games.crash.sim import kernel
from playproof.games.crash.sim.env import CrashVectorEnv
from playproof.money import UNIT

MILLI = UNIT // 1000
PLACES = {
    "TICK": "tick",
    "PRICE": "price",
    "PHASE": "game_phase",
    "BALANCE": "balance",
    "QTY": "position_qty",
    "AVG_ENTRY": "avg_entry_price",
    "PNL": "cumulative_pnl",
    "INVESTED": "total_invested",
    "COUNT_2X": "count_2x",
    "VELOCITY": "price_velocity",
    "PNL_PCT": "position_pnl_pct",
    "TIME_IN_POSITION": "time_in_position",
    "SINCE_ACTION": "ticks_since_last_action",
    "BET": "bet_amount",
}
LIVES = 512
"""Lanes in which the scripted human is watched."""


@dataclass(frozen=True)
class Played:
    """One step of all lanes: rows before, actions, and what came of them."""

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    done: np.ndarray
    facts: dict[str, np.ndarray]
    """After the step; of a finished lane those of its end."""

    @property
    def refused(self) -> np.ndarray:
        return (self.facts["flags"] & kernel.F_NO_EFFECT) != 0


class Table:
    """The vector environment, with the facts of a finished lane in place of those of its next episode."""

    def __init__(self, lanes: int, seed: int = 1, **settings: object) -> None:
        self.env = CrashVectorEnv(lanes, **settings)
        self.obs, self.facts = self.env.reset(seed=seed)

    def step(self, actions: np.ndarray) -> Played:
        before = self.obs
        self.obs, rewards, terminated, truncated, self.facts = self.env.step(actions)
        done, facts = terminated | truncated, self.facts
        if done.any():
            last = facts["final_info"]
            facts = {name: np.where(done, last[name], facts[name]) for name in ("flags", "equity", "open_cost")}
        return Played(before, actions, rewards, done, facts)

    def leave(self, chosen: np.ndarray) -> None:
        self.obs, self.facts = self.env.reset(options={"reset_mask": chosen})


def play(policy: VectorPolicy, steps: int, lanes: int = 512, seed: int = 1, **settings: object) -> Iterator[Played]:
    table = Table(lanes, seed, **settings)
    state = policy.start(lanes, np.random.default_rng(seed))
    for _ in range(steps):
        yield table.step(policy.act(table.obs, state))


def replay(policy: VectorPolicy, prices: list[float], **settings: object) -> list[Played]:
    """Play one recorded round."""
    return list(play(policy, len(prices), lanes=1, tape=[prices], **settings))


def bought(step: Played) -> np.ndarray:
    return (step.facts["flags"] & kernel.F_BOUGHT) != 0


def unlikely(chi2: float, freedom: int) -> bool:
    """Tell whether a chi-square is above its 99.99 % point (Wilson and Hilferty)."""
    return chi2 > freedom * (1 - 2 / (9 * freedom) + 3.72 * np.sqrt(2 / (9 * freedom))) ** 3


def chi_square(counts: np.ndarray, expected: np.ndarray) -> tuple[float, int]:
    """Compare counts with what was expected, rare cells thrown together."""
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    awaited = np.append(expected[~rare], expected[rare].sum())
    observed, awaited = observed[awaited > 0], awaited[awaited > 0]
    return float(((observed - awaited) ** 2 / awaited).sum()), max(1, len(awaited) - 1)


def pressed(bet: int, presses: tuple[int, ...], cash: int = UNIT) -> int:
    for button in presses:
        bet = int(kernel.adjusted_bet(bet, cash, button))
    return bet


@pytest.mark.parametrize("start", [0, MILLI, 21 * MILLI])
def test_presses_reach_every_bet_up_to_five_coins(start: int) -> None:
    assert all(pressed(start, presses_to(start, bet)) == bet for bet in range(0, 5 * UNIT + 1, MILLI))


@given(st.integers(0, 10**13), st.integers(0, 10_000_000))
def test_presses_reach_any_bet_from_any_amount(start: int, thousandths: int) -> None:
    assert pressed(start, presses_to(start, thousandths * MILLI)) == thousandths * MILLI


@cache
def all_within(start: int, depth: int) -> dict[int, int]:
    """Try every sequence of presses; give how few lead to each amount."""
    index, last = {start: 0}, [start]
    for presses in range(1, depth + 1):
        reached = {pressed(bet, (button,)) for bet in last for button in range(1, kernel.HEADS[0][1] - 1)}
        last = [bet for bet in reached if bet not in index]
        index |= dict.fromkeys(last, presses)
    return index


@pytest.mark.parametrize("start", [0, MILLI, 21 * MILLI, UNIT])
def test_no_shorter_presses_exist(start: int) -> None:
    within = {bet: presses for bet, presses in all_within(start, 5).items() if bet % MILLI == 0 and bet <= 5 * UNIT}
    assert len(within) > 500
    assert {bet: len(presses_to(start, bet)) for bet in within} == within
    missing = [bet for bet in range(0, 200 * MILLI, MILLI) if bet not in within]
    assert all(len(presses_to(start, bet)) > 5 for bet in missing)


def test_a_bet_of_parts_of_the_smallest_is_refused() -> None:
    with pytest.raises(ConfigError, match="whole steps"):
        presses_to(0, MILLI // 2)
    with pytest.raises(ConfigError, match="whole steps"):
        Hold(bet=0.0015)
    with pytest.raises(ConfigError, match="whole steps"):
        Hold(bet=0.0)


@given(st.integers(0, 40 * 8000))
def test_the_bet_field_is_read_exactly_from_float32(eighths: int) -> None:
    row = np.zeros((1, 31), np.float32)
    row[0, baselines.BET] = eighths * (MILLI // 8) / UNIT
    assert bet_units(row)[0] == eighths * (MILLI // 8)


def test_places_in_the_row_are_those_of_the_feature_table() -> None:
    assert {index: POLICY[getattr(baselines, index)] for index in PLACES} == PLACES


def test_waiting_earns_exactly_nothing() -> None:
    rounds = 0
    for step in play(Wait(), 1200):
        assert not step.actions.any()
        assert not step.rewards.any()
        assert (step.facts["equity"] == UNIT).all()
        rounds += np.count_nonzero(step.done)
    assert rounds > 2000


def test_random_presses_every_pair_equally_often() -> None:
    counts = np.zeros((4, 9))
    for step in play(Random(), 200):
        np.add.at(counts, tuple(step.actions.T), 1)
    assert not unlikely(*chi_square(counts.ravel(), np.full(36, counts.sum() / 36)))


def test_random_takes_over_the_frequencies_of_other_play() -> None:
    played = np.concatenate([step.actions for step in play(Human(), 300, clock="press")])
    same = Random.like(played)
    drawn = np.concatenate([step.actions for step in play(same, 300, clock="press")])
    share = np.array(same.weights) / sum(same.weights)
    counts = np.bincount(drawn[:, 0] * 9 + drawn[:, 1], minlength=36)
    assert counts[share == 0].sum() == 0
    assert not unlikely(*chi_square(counts, share * len(drawn)))
    with pytest.raises(ConfigError, match="36 weights"):
        Random(weights=(1.0, 2.0))


def test_hold_40_buys_at_tick_0_sells_at_tick_40_and_returns_what_theory_says() -> None:
    lanes, policy = 4096, Hold()
    table, state = Table(lanes), policy.start(lanes, np.random.default_rng(0))
    gained, results = np.zeros(lanes), []
    for _ in range(500):
        step = table.step(policy.act(table.obs, state))
        tick, active = step.obs[:, baselines.TICK], step.obs[:, baselines.PHASE] == ACTIVE
        sells = step.actions[:, 0] == SELL
        np.testing.assert_array_equal(step.actions[:, 0] == BUY, active & (tick == 0))
        np.testing.assert_array_equal(sells, active & (tick == 40))
        assert not step.refused.any()
        gained += step.rewards
        over = step.done | sells
        results.append(gained[over] / 0.001)
        gained[over] = 0.0
        if (leaving := over & ~step.done).any():  # the rest of the round is no concern of this policy
            table.leave(leaving)
    returns = np.concatenate(results)
    assert len(returns) > 45_000
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - -0.0189) < 4 * error
    assert error < 0.004


def test_hold_buys_once_a_round_at_its_own_tick() -> None:
    buys, seen = np.zeros(512, int), 0
    for step in play(Hold(k=5, entry_tick=12), 800):
        entering = step.actions[:, 0] == BUY
        assert (step.obs[entering, baselines.TICK] == 12).all()
        assert (step.obs[step.actions[:, 0] == SELL, baselines.TICK] == 17).all()
        buys += entering
        assert (buys <= 1).all()
        seen += int(entering.sum())
        buys[step.done] = 0
    assert seen > 1000


@pytest.mark.parametrize(("clock", "entry"), [("tick", 1), ("press", 0)])
def test_a_larger_bet_is_pressed_before_the_entry(clock: str, entry: int) -> None:
    entries = 0
    for step in play(Hold(bet=0.02), 300, clock=clock):
        got = bought(step) & (step.facts["open_cost"] > 0)
        assert (step.obs[got, baselines.TICK] == entry).all()
        assert (step.facts["open_cost"][got] == 20 * MILLI).all()
        entries += int(got.sum())
    assert len(presses_to(MILLI, 20 * MILLI)) == 3
    assert entries > 500


def test_take_profit_sells_at_its_two_marks_and_nowhere_else() -> None:
    policy, sold = TakeProfit(profit=0.3, loss=0.2), 0
    for step in play(policy, 400):
        held = (step.obs[:, baselines.QTY] > 0) & (step.obs[:, baselines.PHASE] == ACTIVE)
        reached = (step.obs[:, baselines.PNL_PCT] >= 0.3) | (step.obs[:, baselines.PNL_PCT] <= -0.2)
        np.testing.assert_array_equal(step.actions[:, 0] == SELL, held & reached)
        sold += int((held & reached).sum())
    assert sold > 500


def test_sidebets_follow_each_other_and_win_as_often_as_the_hazard_says() -> None:
    lanes, steps = 1024, 1000
    placed, won, lost = np.full(lanes, -1), 0, 0
    for number, step in enumerate(play(AlwaysSidebet(), steps, lanes=lanes)):
        flags = step.facts["flags"]
        assert not step.refused.any()
        betting, tick = step.actions[:, 0] == SIDEBET, step.obs[:, baselines.TICK]
        before_start = step.obs[:, baselines.PHASE] == PRESALE
        np.testing.assert_array_equal(betting, before_start | ((tick > 0) & (tick % 40 == 0)))
        placed[betting] = number
        counted = placed <= steps - 42  # later ones may end after the last step
        won += int(((flags & kernel.F_WON) != 0)[counted].sum())
        lost += int(((flags & kernel.F_LOST) != 0)[counted].sum())
    share, theory = won / (won + lost), 1 - 0.995**40
    assert won + lost > 20_000
    assert abs(share - theory) < 4 * np.sqrt(theory * (1 - theory) / (won + lost))
    assert theory == pytest.approx(0.1817, abs=5e-5)


def test_sidebets_end_where_the_balance_does() -> None:
    steps = list(play(AlwaysSidebet(bet=0.4), 400, lanes=64, balance=UNIT))
    assert not any(step.refused.any() for step in steps)
    assert any((step.obs[:, baselines.BALANCE] < 0.4).any() for step in steps)


def test_sweet_spot_enters_in_its_range_only() -> None:
    entries = exits = 0
    for step in play(SweetSpot(), 2500, lanes=1024):
        price = step.obs[:, baselines.PRICE]
        entering, leaving = step.actions[:, 0] == BUY, step.actions[:, 0] == SELL
        assert ((price[entering] >= 25) & (price[entering] <= 50)).all()
        late = step.obs[:, baselines.TIME_IN_POSITION] >= 60
        assert ((price > 50) | (price < 20) | late)[leaving].all()
        assert not step.refused.any()
        entries, exits = entries + int(entering.sum()), exits + int(leaving.sum())
    assert entries > 100
    assert exits > 50


def test_sweet_spot_comes_back_only_after_the_price_has_left() -> None:
    prices = [1.0, 24.0, 26.0, *[30.0] * 80, 22.0, 30.0, 51.0, 49.0, 21.0, 19.0, 25.0, 0.02]
    steps = replay(SweetSpot(), prices)
    orders = [(int(s.obs[0, baselines.TICK]), int(s.actions[0, 0])) for s in steps if s.actions[0, 0] != WAIT]
    assert orders == [(2, BUY), (62, SELL), (84, BUY), (85, SELL), (86, BUY), (88, SELL), (89, BUY)]


def test_begin_tells_of_a_round_that_was_broken_off_before_tick_0() -> None:
    policy = AlwaysSidebet()
    state = policy.start(2, np.random.default_rng(0))
    row = np.zeros((2, 31), np.float32)
    row[:, baselines.PHASE], row[:, baselines.BALANCE], row[:, baselines.BET] = PRESALE, 1.0, 0.001
    assert (policy.act(row, state)[:, 0] == SIDEBET).all()
    policy.begin(state, np.array([True, False]))
    assert policy.act(row, state)[:, 0].tolist() == [SIDEBET, WAIT]


def test_the_table_names_every_baseline() -> None:
    assert list(BASELINES) == ["wait", "random", "hold-40", "take-profit", "sidebet", "sweet-spot", "human"]
    assert make_baseline("hold-40") == Hold(k=40)
    assert make_baseline("hold-137") == Hold(k=137)
    for name in ("hold", "hold-0", "hold-4x", "winner"):
        with pytest.raises(UnknownName, match="hold-k"):
            make_baseline(name)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_plays_one_window_as_it_plays_a_lane(name: str) -> None:
    entry = game_baselines()[name]
    assert (entry.observation, entry.actions) == ("policy", "buttons")
    assert not isinstance(entry.make, str)
    one: Policy = entry.make(np.random.default_rng(5))
    assert isinstance(one, SingleEnvAdapter)
    for step in play(make_baseline(name), 300, lanes=1, seed=5):
        action = one.act(step.obs[0])
        assert action == tuple(step.actions[0])
        assert all(type(head) is int for head in action)


@dataclass(frozen=True)
class Lived:
    """What the scripted human went through, one row a step and lane."""

    obs: np.ndarray
    mind: np.ndarray
    mood: np.ndarray
    choice: np.ndarray
    chances: np.ndarray
    flags: np.ndarray
    done: np.ndarray


@cache
def lived(rounds: int = 1, lanes: int = LIVES) -> Lived:
    """Let him play, and note his mind and chances before each choice; arrays (steps, lanes, ...)."""
    policy, table = Human(), Table(lanes, clock="press", rounds=rounds)
    state = policy.start(lanes, np.random.default_rng(7))
    rows = []
    for _ in range(500):
        obs, noticed = table.obs, state.copy()
        sight = policy.see(obs)
        policy.notice(obs, sight, noticed)
        chances = policy.choice_probabilities(obs, state)
        step = table.step(policy.act(obs, state))
        choice = to_choices(step.actions)
        rows.append((obs, noticed.mind, sight.mood, choice, chances, step.facts["flags"], step.done))
    return Lived(*(np.stack(column) for column in zip(*rows, strict=True)))


def test_his_chances_sum_to_one_and_to_those_of_the_heads() -> None:
    human_, state = Human(), Human().start(256, np.random.default_rng(1))
    for step in play(human_, 120, lanes=256, clock="press"):
        joint = human_.choice_probabilities(step.obs, state)
        main, bet = human_.probabilities(step.obs, state)
        assert joint.min() >= 0.0
        for table in (joint, main, bet):
            np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(main[:, 1:], joint[:, 1:4])
        np.testing.assert_allclose(bet[:, 1:], joint[:, 4:])
        assert np.array_equal(human_.act(step.obs, state), step.actions)  # asking for chances draws nothing


@pytest.mark.parametrize("mind", range(len(MINDS)))
def test_he_chooses_as_often_as_his_chances_say(mind: int) -> None:
    his = lived()
    here = his.mind == mind
    counts = np.bincount(his.choice[here], minlength=len(CHOICES))
    assert counts.sum() > 500
    assert not counts[his.chances[here].sum(axis=0) == 0].any()
    assert not unlikely(*chi_square(counts, his.chances[here].sum(axis=0)))


def test_his_mind_moves_as_often_as_its_table_says() -> None:
    his, policy = lived(), Human()
    state = policy.start(LIVES, np.random.default_rng(0))
    counts, expected = np.zeros((7, 7)), np.zeros((7, 7))
    for step in range(120):
        sight = policy.see(his.obs[step])
        policy.notice(his.obs[step], sight, state)
        following = his.obs[step + 1]
        stays = ~his.done[step] & (following[:, baselines.PHASE] == ACTIVE)
        for mind in range(7):
            here = np.flatnonzero((his.mind[step] == mind) & stays)
            table = policy.mind_table(sight.take(here), mind, his.choice[step, here], state.nerve[here])
            np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-12)
            moved = np.stack([human.settled(policy.see(following[here]), np.full(len(here), m)) for m in range(7)])
            for target in range(7):
                expected[mind] += ((moved[target][:, None] == np.arange(7)) * table[:, [target]]).sum(axis=0)
            counts[mind] += np.bincount(his.mind[step + 1, here], minlength=7)
    assert counts[[IDLE, ENTER, PRESS, EXIT]].sum(axis=1).min() > 500
    for mind in range(7):
        assert not unlikely(*chi_square(counts[mind], expected[mind])), MINDS[mind]


def test_he_waits_most_of_the_time_and_uses_every_button() -> None:
    share = np.bincount(lived().choice.ravel(), minlength=len(CHOICES)) / lived().choice.size
    assert 0.93 < share[0] < 0.97
    assert (share > 0).all()
    assert share[1] > 0.005
    assert share[1] == pytest.approx(share[2], rel=0.2)


def test_he_adjusts_the_bet_to_his_mood_before_he_buys() -> None:
    his, policy = lived(), Human()
    buys = (his.choice == BUY) & np.isin(his.mind, (FRESH, ENTER, PRESS))
    bets = his.obs[..., baselines.BET][buys]
    wanted = np.array([mood.bet for mood in policy.moods], np.float32)[his.mood[buys]]
    right = np.abs(bets - wanted) < 0.001
    assert right.mean() > 0.93
    assert (bets[~right] > wanted[~right]).all()  # what he does not notice is a bet too big, never one too small
    assert (bets > his.obs[..., baselines.BALANCE][buys]).any()
    for mood in range(3):
        assert right[his.mood[buys] == mood].sum() > 100


def test_his_press_sequence_from_the_smallest_bet() -> None:
    his = lived()
    calm_first = 0
    for lane in range(LIVES):
        choices, rounds = his.choice[:, lane], np.cumsum(his.done[:, lane])
        for number in range(int(rounds[-1])):
            inside = np.flatnonzero(rounds == number)
            presses = [CHOICES[c] for c in choices[inside] if c != WAIT]
            mood = his.mood[inside, lane]
            calm_first += presses[:3] == ["INC_01", "INC_01", "BUY"] and bool((mood[:20] == human.CALM).all())
    assert calm_first > 100


def test_he_hesitates_for_several_ticks() -> None:
    """The wish ends each tick with chance 1 - (1 - press)(1 - drop), so its length is geometric."""
    his, policy = lived(), Human()
    runs = [
        len(run)
        for lane in range(LIVES)
        for run in np.split(his.mind[:, lane], np.flatnonzero(np.diff(his.mind[:, lane])) + 1)[1:-1]
        if run[0] == ENTER
    ]
    ends = 1 - (1 - policy.hesitation) * (1 - policy.lost_interest) * 0.995  # or the round does
    assert len(runs) > 1000
    assert np.mean(runs) == pytest.approx(1 / ends, abs=4 * np.std(runs) / np.sqrt(len(runs)))
    assert np.percentile(runs, 90) >= 6


def by_mood(name: str, mood: np.ndarray) -> np.ndarray:
    return np.array([getattr(item, name) for item in Human().moods])[mood]


def wished(his: Lived, wish: int, held: bool) -> tuple[np.ndarray, np.ndarray]:
    """Give where he had nothing on his mind and waited through a tick, and where he then had the wish."""
    idle = (his.mind == IDLE) & (his.choice == WAIT) & (his.obs[..., baselines.PHASE] == ACTIVE) & ~his.done
    idle &= (his.obs[..., baselines.QTY] > 0) == held
    return idle[:-1], his.mind[1:] == wish


def near(result: np.ndarray, chance: float) -> bool:
    """Tell whether a share of at least 100 cases is within 4 standard errors of its chance."""
    return len(result) >= 100 and abs(result.mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / len(result))


def test_he_takes_profits_and_panics() -> None:
    his, policy = lived(), Human()
    idle, wants_out = wished(his, EXIT, held=True)
    pct = his.obs[:-1, :, baselines.PNL_PCT]
    velocity, price = his.obs[:-1, :, baselines.VELOCITY], his.obs[:-1, :, baselines.PRICE]
    falls = velocity <= -policy.big_move * (price - velocity)
    bored = his.obs[:-1, :, baselines.TIME_IN_POSITION] >= policy.patience
    profit = pct >= by_mood("take_profit", his.mood[:-1])
    stop = pct <= -by_mood("stop_loss", his.mood[:-1])
    assert near(wants_out[idle & stop], policy.panic)
    assert near(wants_out[idle & profit], policy.greed)
    assert near(wants_out[idle & falls & ~stop & ~profit], policy.fright)
    assert near(wants_out[idle & ~stop & ~profit & ~falls & ~bored], policy.whim)
    wanting = his.mind[:-1] == EXIT
    frightened, sells = (stop | falls)[wanting], his.choice[:-1][wanting] == SELL
    assert near(sells[frightened], policy.panic)
    assert near(sells[~frightened], policy.exit_hesitation)


@pytest.mark.parametrize(
    ("reason", "payload"),
    [
        ("whim", {}),
        ("greed", {"PNL_PCT": 0.31}),
        ("panic", {"PNL_PCT": -0.31}),
        ("fright", {"PRICE": 0.87, "VELOCITY": -0.13}),
        ("boredom", {"TIME_IN_POSITION": 80}),
        ("panic", {"PNL_PCT": -0.31, "TIME_IN_POSITION": 80, "PRICE": 0.87, "VELOCITY": -0.13}),
    ],
)
def test_his_strongest_reason_to_sell_counts(reason: str, payload: dict[str, float]) -> None:
    row = np.zeros((1, 31), np.float32)
    calm = {"PHASE": ACTIVE, "TICK": 90, "PRICE": 1.0, "BALANCE": 1.0, "COUNT_2X": 44, "QTY": 0.01, "BET": 0.001}
    for name, value in (calm | payload).items():
        row[0, getattr(baselines, name)] = value
    policy = Human()
    table = policy.mind_table(policy.see(row), IDLE, np.array([WAIT]), np.zeros(1, np.int8))
    assert table[0, EXIT] == getattr(policy, reason)


def test_he_buys_dips_chases_rises_and_fears_heights() -> None:
    his, policy = lived(), Human()
    idle, wants_in = wished(his, ENTER, held=False)
    velocity, price = his.obs[:-1, :, baselines.VELOCITY], his.obs[:-1, :, baselines.PRICE]
    move = velocity / (price - velocity)
    calm = (move > -policy.big_move) & (move < policy.big_move) & (price < policy.heights)

    def rate(where: np.ndarray) -> float:
        expected = by_mood("entry", his.mood[:-1])[idle & where].sum()
        assert expected > 10
        return float(wants_in[idle & where].sum() / expected)

    assert rate(calm) == pytest.approx(1.0, abs=0.15)  # nerve pulls both ways
    assert rate(move <= -policy.big_move) / rate(calm) == pytest.approx(policy.dip, rel=0.25)
    assert rate((move >= policy.big_move) & (price < policy.heights)) / rate(calm) == pytest.approx(2.0, rel=0.25)
    assert rate(price >= policy.heights) / rate(calm) < 0.6


def test_he_makes_mistakes() -> None:
    his = lived()
    nothing = (his.choice == SELL) & (his.obs[..., baselines.QTY] == 0)
    refused = (his.choice == BUY) & ((his.flags & kernel.F_BOUGHT) == 0)
    double = (his.choice[1:] == BUY) & (his.choice[:-1] == BUY)
    slipped = np.isin(his.choice, [ADJUST + baselines.INC_1, ADJUST + baselines.MAX])
    for mistake in (nothing, refused, double, slipped):
        assert mistake.sum() > 5
    idle_presses = (nothing | refused).sum() / (his.choice != WAIT).sum()
    assert 0.005 < idle_presses < 0.08


def test_he_bets_on_the_rug_only_in_long_rounds() -> None:
    his, policy = lived(), Human()
    bets = his.choice == SIDEBET
    assert bets.sum() > 50
    assert (his.obs[..., baselines.TICK][bets] >= policy.long_round).all()
    assert ((his.flags[bets] & kernel.F_BET) != 0).mean() > 0.9


def test_he_sits_rounds_out_more_often_at_a_cold_table() -> None:
    his, policy = lived(), Human()
    first = (his.mind == FRESH) & (his.choice == WAIT)
    count = his.obs[..., baselines.COUNT_2X]
    out = his.mind[1:] == OUT
    cold, hot = (first[:-1] & side[:-1] for side in (count <= policy.cold, count >= policy.hot))
    assert out[cold].mean() > 0.45
    assert out[hot].mean() < 0.30
    sitting = his.choice[his.mind == OUT]
    assert set(sitting.tolist()) <= {WAIT, SELL}
    assert (sitting == SELL).mean() < 2 * policy.stray_sell


def test_his_mood_follows_result_table_and_bankroll() -> None:
    row = np.zeros((1, 31), np.float32)
    row[0, baselines.BALANCE], row[0, baselines.COUNT_2X] = 1.0, 44.0

    def mood(**payload: float) -> int:
        changed = row.copy()
        for name, value in payload.items():
            changed[0, getattr(baselines, name)] = value
        return int(Human().see(changed).mood[0])

    assert mood() == human.CALM
    assert mood(PNL=-0.01) == mood(COUNT_2X=41) == mood(BALANCE=0.97) == human.CAUTIOUS
    assert mood(PNL=0.01) == mood(COUNT_2X=47) == mood(BALANCE=1.03) == human.GREEDY
    assert mood(PNL=-0.01, COUNT_2X=50) == human.CALM
    assert mood(BALANCE=0.958, QTY=0.042, AVG_ENTRY=1.0) == human.CALM


def test_he_remembers_how_the_last_round_ended() -> None:
    policy = Human()
    state = policy.start(4, np.random.default_rng(0))
    row = np.zeros((4, 31), np.float32)
    row[:, baselines.PHASE], row[:, baselines.TICK], row[:, baselines.PRICE] = ACTIVE, 30, 1.0
    row[:, baselines.PNL] = [0.0, 0.01, -0.01, 0.01]
    row[3, baselines.QTY] = 0.01  # held into the rug
    policy.act(row, state)
    fresh = row.copy()
    fresh[:, [baselines.TICK, baselines.PNL, baselines.QTY]] = 0.0
    fresh[:, baselines.PHASE] = PRESALE
    policy.act(fresh, state)
    assert state.nerve.tolist() == [0, 1, -1, -1]
    policy.begin(state, np.ones(4, np.bool_))
    policy.act(fresh, state)
    assert state.nerve.tolist() == [0, 0, 0, 0]


def test_he_does_nothing_while_the_table_is_closed() -> None:
    his = lived(rounds=6, lanes=128)
    closed = np.isin(his.obs[..., baselines.PHASE], (COOLDOWN, RUGGED))
    assert closed.sum() > 100
    assert not his.choice[closed].any()


def test_the_watcher_knows_all_that_can_be_known_from_outside() -> None:
    his, watcher = lived(), CloneBoundPredictor(Human(), LIVES)
    expected, counts, lanes = np.zeros(12), np.zeros(12), np.arange(LIVES)
    payload = {"mind": 0.0, "watched": 0.0}
    for step in range(200):
        chances = watcher.predict(his.obs[step])
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-9)
        choice = his.choice[step]
        watcher.learn(his.obs[step], human.to_actions(choice))
        expected += chances.sum(axis=0)
        counts += np.bincount(choice, minlength=12)
        payload["watched"] -= np.log(chances[lanes, choice]).sum()
        payload["mind"] -= np.log(his.chances[step][lanes, choice]).sum()
    assert not unlikely(*chi_square(counts, expected))
    share = counts / counts.sum()
    blind = -(counts * np.log(share)).sum()
    assert payload["mind"] < 0.8 * payload["watched"]
    assert payload["watched"] < 0.7 * blind


def odd_rows(rng: np.random.Generator, steps: int) -> np.ndarray:
    """Make rows of two rounds in which a position comes and goes at will."""
    rows = np.zeros((steps, 1, 31), np.float32)
    half = steps // 2
    rows[:, 0, baselines.PRICE] = rng.uniform(0.5, 12.0, steps)
    rows[:, 0, baselines.VELOCITY] = rng.uniform(-0.3, 0.3, steps) * rows[:, 0, baselines.PRICE]
    rows[:, 0, baselines.TICK] = 140 + np.arange(steps) % half
    rows[:, 0, baselines.PHASE] = ACTIVE
    rows[[0, half], 0, baselines.PHASE] = PRESALE
    rows[:, 0, baselines.QTY] = 0.01 * (rng.random(steps) < 0.4)
    rows[:, 0, baselines.PNL_PCT] = rng.uniform(-0.5, 0.8, steps) * (rows[:, 0, baselines.QTY] > 0)
    rows[:, 0, baselines.PNL] = rng.choice([-0.01, 0.0, 0.01], steps)
    rows[:, 0, baselines.SINCE_ACTION] = rng.choice([0.0, 1.0, 50.0], steps)
    rows[:, 0, baselines.INVESTED] = 0.01
    rows[:, 0, baselines.BALANCE] = 1.0
    rows[:, 0, baselines.BET] = rng.choice([0.001, 0.005, 0.021, 0.042, 1.0], steps)
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_the_watcher_is_exact(seed: int) -> None:
    """Sum over every way that his mind could have gone, one mind at a time."""
    rng, policy, watcher = np.random.default_rng(seed), Human(), CloneBoundPredictor(Human(), 1)
    state, paths = policy.start(1, rng), {FRESH: 1.0}
    for row in odd_rows(rng, 40):
        sight = policy.see(row)
        if int(row[0, baselines.PHASE]) == PRESALE:
            paths = {FRESH: sum(paths.values())}
        policy.notice(row, sight, state)
        kept = {mind: int(human.settled(sight, np.array([mind], np.int8))[0]) for mind in paths}
        likely = {mind: weight * policy.choice_table(sight, kept[mind])[0] for mind, weight in paths.items()}
        chances = sum(likely.values()) / sum(paths.values())
        np.testing.assert_allclose(watcher.predict(row)[0], chances, rtol=1e-9, atol=1e-15)
        choice = rng.choice(len(CHOICES), size=1, p=chances / chances.sum())
        watcher.learn(row, human.to_actions(choice))
        nexts: dict[int, float] = {}
        for mind, weights in likely.items():
            table = policy.mind_table(sight, kept[mind], choice, state.nerve)[0]
            for after in np.flatnonzero(table).tolist():
                nexts[after] = nexts.get(after, 0.0) + weights[choice[0]] * table[after]
        paths = nexts


def press_actions(presses: tuple[human.Press, ...]) -> list[tuple[int, int]]:
    """Read presses as actions of `buttons`; percentage buttons have no place there."""
    choices = [CHOICES.index(press.button_id) for press in presses if press.button_id in CHOICES]
    return [(int(main), int(bet)) for main, bet in human.to_actions(np.array(choices, np.int64))]


def to_live(table: Table) -> Live:
    """Show one lane as a page would."""
    row = table.obs[0]
    cash, qty, cost, bet = (int(table.facts[name][0]) for name in ("cash", "position_qty", "open_cost", "bet_amount"))
    return Live(
        phase=int(row[baselines.PHASE]),
        tick=int(row[baselines.TICK]),
        price=float(table.env._lanes.lanes["price"][0]),
        balance=cash / UNIT,
        bet=bet / UNIT,
        position_qty=qty / UNIT,
        avg_entry_price=average_cost(cost, qty) / UNIT,
        cumulative_pnl=float(row[baselines.PNL]),
        total_invested=float(row[baselines.INVESTED]),
        count_2x=float(row[baselines.COUNT_2X]),
    )


@pytest.mark.parametrize("eyes", ["page", "row"])
def test_the_presser_is_the_same_person(eyes: str) -> None:
    """On the same rows and the same draws both forms do the same, press for press."""
    table = Table(1, seed=12, clock="press", rounds=40)
    policy = Human(long_round=30.0, due=0.1)
    presser, state = ScriptedPresser(policy, np.random.default_rng(3)), policy.start(1, np.random.default_rng(3))
    made: list[tuple[int, int]] = []
    for _ in range(800):
        presses = presser.see(to_live(table)) if eyes == "page" else presser.see_row(table.obs[0])
        actions = press_actions(presses)
        made += actions
        assert sum(press.delay_ms for press in presses) < presser.tick_ms
        for action in [*actions, (0, 0)]:
            chosen = policy.act(table.obs, state)
            assert tuple(chosen[0]) == action
            table.step(chosen)
            if action[0]:
                break
    assert len(made) > 30
    assert {BUY, SELL, SIDEBET} <= {main for main, _ in made}


def test_the_presser_sees_what_the_fold_sees() -> None:
    table = Table(1, seed=4, clock="press", rounds=20)
    rows: list[np.ndarray] = []

    class Noting(ScriptedPresser):
        def see_row(self, row: np.ndarray) -> tuple[human.Press, ...]:
            rows.append(row.copy())
            return super().see_row(row)

    presser = Noting(Human(), np.random.default_rng(2))
    used = [getattr(baselines, index) for index in PLACES]
    for _ in range(800):
        presses = presser.see(to_live(table))
        np.testing.assert_allclose(rows[-1][used], table.obs[0, used], rtol=2e-6, atol=1e-9)
        for action in [*press_actions(presses), (0, 0)]:
            table.step(np.array([action]))
            if action[0]:
                break


def test_what_is_shown_again_is_no_new_decision() -> None:
    eager = Human(early=1.0, fingers=1.0, slip_left=0.0, slip_right=0.0, fat_finger=0.0)
    presser = ScriptedPresser(eager, np.random.default_rng(0))
    shown = Live(phase=PRESALE, tick=0, price=1.0, balance=1.0, bet=0.001)
    presses = presser.see(shown)
    assert [press.button_id for press in presses] == ["INC_01", "INC_01", "BUY"]
    assert presser.see(shown) == ()


def test_a_sidebet_ends_the_presses_of_its_tick() -> None:
    sure = {"due": 1.0, "hesitation": 1.0, "slip_left": 0.0, "slip_right": 0.0, "fat_finger": 0.0, "stray_sell": 0.0}
    quiet = Mood(bet=0.021, take_profit=1.0, stop_loss=1.0, entry=0.0, sit_out=0.0)
    presser = ScriptedPresser(Human(calm=quiet, careless=0.0, early=0.0, **sure), np.random.default_rng(0))
    seen = [
        presser.see(Live(phase=phase, tick=tick, price=1.0, balance=1.0, bet=bet))
        for phase, tick, bet in [(PRESALE, 0, 0.021), (ACTIVE, 0, 0.021), (ACTIVE, 150, 0.021), (ACTIVE, 151, 0.042)]
    ]
    assert [[press.button_id for press in presses] for presses in seen] == [[], [], [], ["HALF", "SIDEBET"]]


def test_he_sells_in_parts_when_greedy_and_sets_the_share_back() -> None:
    hasty = Human(greed=1.0, exit_hesitation=1.0, second_thought=0.0, double_press=0.0)
    shares: list[str] = []
    for seed in range(60):
        presser = ScriptedPresser(hasty, np.random.default_rng(seed))
        share = 100
        presser.see(Live(phase=PRESALE, tick=0, price=1.0, balance=1.0, bet=0.001, count_2x=50))
        for tick in range(12):
            presses = presser.see(
                Live(
                    phase=ACTIVE,
                    tick=tick,
                    price=2.0,
                    balance=0.99,
                    bet=0.001,
                    position_qty=0.01,
                    avg_entry_price=1.0,
                    total_invested=0.01,
                    count_2x=50,
                )
            )
            buttons = [press.button_id for press in presses]
            assert len(buttons) <= 2
            if len(buttons) == 2:
                assert buttons[1] == "SELL"
                assert buttons[0] != f"SELL_{share}"
                share = int(buttons[0].removeprefix("SELL_"))
            shares += [f"SELL_{share}"] * ("SELL" in buttons)
    result = {name: shares.count(name) / len(shares) for name in set(shares)}
    assert set(result) == {"SELL_10", "SELL_25", "SELL_50", "SELL_100"}
    assert result["SELL_100"] == pytest.approx(0.5, abs=0.12)


def test_the_document_tells_his_numbers(project: Path) -> None:
    text = (project / "docs" / "concepts" / "scripted-player.md").read_text(encoding="utf-8")
    payload = {name: float(value) for name, value in re.findall(r"^\| `(\w+)` \| ([0-9.]+) \|", text, re.MULTILINE)}
    policy = Human()
    numbers = {field.name: getattr(policy, field.name) for field in fields(Human)}
    moods = {name: numbers.pop(name) for name in ("cautious", "calm", "greedy")}
    assert payload == numbers
    for name, mood in moods.items():
        row = re.search(rf"^\| {name} \|(.*)\|$", text, re.MULTILINE)
        assert row, name
        assert Mood(*(float(cell) for cell in row[1].split("|"))) == mood
