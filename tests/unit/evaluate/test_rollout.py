"""Rollouts: the same windows for every policy, the money of the plain environments, delay, tapes, scores."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from playproof.errors import ConfigError, ContractError, InputError
from playproof.evaluate import rollout as module
from playproof.evaluate.rollout import Rollout, RolloutOptions, rollout
from playproof.game import Game, Terms, load_game
from playproof.game import vector_env as playing
from playproof.game.vector_env import ReplayTape, VectorTerms, narrows, play_lanes
from playproof.games.crash.players.baselines import Hold, SingleEnvAdapter, make_baseline
from playproof.games.crash.players.controls import EntryExitLog, HindsightTrader
from playproof.games.crash.players.optimum import best_policy, hazard_value, solve_drift
from playproof.games.crash.rules.possible import buttons
from playproof.games.crash.sim import kernel
from playproof.games.crash.sim.env import CrashEnv
from playproof.games.crash.sim.lanes import make_tape
from playproof.games.crash.sim.vector_env import CrashVectorGame, make_vector_game
from playproof.money import UNIT
from playproof.testing import coin
from playproof.testing.coin_lanes import CoinVectorGame

STAKE = UNIT // 10


@pytest.fixture(scope="module")
def game() -> Game:
    return load_game("crash")


@pytest.fixture(autouse=True)
def few_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LANES", 16)


class Follow:
    """Bet as the CoinGame's table hints."""

    def start(self, lanes: int, rng: np.random.Generator) -> None:
        return None

    def begin(self, state: None, chosen: np.ndarray) -> None:
        return None

    def act(self, obs: np.ndarray, state: None) -> np.ndarray:
        return np.where(obs[:, :1] > 0, 1, 2).astype(np.int64)


def test_every_policy_faces_the_same_windows(game: Game) -> None:
    played = [
        rollout(game, make_baseline(name), "published", 40, 3, stake=STAKE, name=name)
        for name in ("wait", "hold-10", "sidebet")
    ]
    assert all(one.windows == played[0].windows for one in played)
    assert all((one.steps == played[0].steps).all() for one in played)  # as long as the round, whatever is done in it
    assert len(set(played[0].windows)) == 40
    again = rollout(game, make_baseline("hold-10"), "published", 40, 3, stake=STAKE)
    assert (again.pnl == played[1].pnl).all()
    other = rollout(game, make_baseline("wait"), "published", 40, 4, stake=STAKE)
    assert (other.steps != played[0].steps).any()


def test_seeds_share_no_window(game: Game) -> None:
    rounds = [rollout(game, make_baseline("wait"), "published", 64, seed, stake=None).steps for seed in (1, 2)]
    for shift in range(16):  # neighbouring seeds must not be the same lanes, moved by one
        assert (rounds[0][: 64 - shift] != rounds[1][shift:]).any()


def test_a_rollout_is_the_plain_environment_played_lane_by_lane(game: Game) -> None:
    result = rollout(game, Hold(k=7, bet=0.01), "drift", 40, 5, stake=STAKE)
    lanes = make_vector_game(VectorTerms("drift", (module.STREAM, 5), stake=STAKE), 16)
    lanes.start()
    for lane, key in enumerate(lanes._lanes.lanes["seed"].tolist()):
        env = CrashEnv(world="drift", stake=STAKE)
        for number in range(lane, 40, 16):
            row, info = env.reset(seed=key if number == lane else None)
            player, steps, held, over = SingleEnvAdapter(Hold(k=7, bet=0.01), np.random.default_rng(0)), 0, 0, False
            while not over:
                action = player.act(row)
                before = info["position_qty"]
                row, _, over, _, info = env.step(action)
                steps += 1
                kept = before > 0 and action[0] != 2
                held += kept or (action[0] == 1 and not info["no_effect"])
            assert (result.pnl[number], result.steps[number]) == (info["equity"] - UNIT, steps)
            assert (result.opened[number], result.staked[number]) == (info["positions_opened"], info["total_invested"])
            assert result.in_market[number] == held


def test_no_window_loses_more_than_the_stake_and_scores_need_one(game: Game) -> None:
    result = rollout(game, make_baseline("random"), "published", 60, 1, stake=STAKE, name="random")
    assert result.pnl.min() >= -STAKE
    score = result.score()
    assert score.pnl == tuple(result.pnl.tolist())
    assert score.roi == pytest.approx(result.summary()["roi"])
    assert sum(result.mix.values()) == pytest.approx(1.0)
    assert result.decisions.sum() == result.steps.sum()
    free = rollout(game, make_baseline("wait"), "published", 3, 1, stake=None)
    with pytest.raises(InputError, match="stake"):
        free.score()


def test_sidebets_count_as_positions(game: Game) -> None:
    result = rollout(game, make_baseline("sidebet"), "published", 20, 1, stake=None)
    assert (result.opened >= 1).all()
    assert (result.staked == result.opened * (UNIT // 1000)).all()


def test_recorded_rounds_are_played_once_each(game: Game) -> None:
    rounds = [[1.0, 1.1, 1.25, 0.02], [1.0, 0.9, 0.01], [1.0, 1.5, 2.0, 2.5, 0.02]]
    tape = ReplayTape(("a", "b", "c"), make_tape(rounds, ["a", "b", "c"]))
    result = rollout(game, make_baseline("hold-2"), tape, None, 1, stake=STAKE)
    assert result.windows == ("a", "b", "c")
    assert result.steps.tolist() == [4, 3, 5]  # the presale and every tick before the rug
    assert result.pnl.tolist() == [250_000, -990_000, 1_000_000]  # sold at tick 2; the second rugs there
    with pytest.raises(ConfigError, match="3"):
        rollout(game, make_baseline("wait"), tape, 4, 1, stake=STAKE)


def test_a_delay_carries_actions_out_later(game: Game) -> None:
    prompt = rollout(game, Hold(k=5), "published", 32, 2, stake=STAKE)
    late = rollout(game, Hold(k=5), "published", 32, 2, stake=STAKE, options=RolloutOptions(delay=2))
    long = late.steps > 20
    assert (prompt.in_market[long] == 5).all()
    assert (late.in_market[long] == 7).all()  # bought two ticks late, sold two ticks after the fifth is seen
    assert (prompt.pnl != late.pnl).any()


@pytest.mark.parametrize("name", ["wait", "hold-40", "take-profit", "sidebet", "sweet-spot"])
@pytest.mark.parametrize(
    ("source", "delay", "reward"),
    [("published", 0, None), ("drift", 2, "playproof.games.crash.rewards.mutants:BROKEN"), ("tape", 1, None)],
    ids=["world", "composed", "tape"],
)
def test_lanes_that_are_left_change_nothing(
    name: str, source: str, delay: int, reward: str | None, game: Game, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    monkeypatch.setattr(module, "LANES", 64)
    narrow = CrashVectorGame.keep
    monkeypatch.setattr(
        CrashVectorGame, "keep", lambda self, chosen: (kept.append(len(chosen)), narrow(self, chosen))[1]
    )
    rng = np.random.default_rng(8)
    lengths = rng.geometric(0.02, 333) + 1
    rounds = [[1.0, *np.exp(rng.normal(0, 0.2, length).cumsum()), 0.01] for length in lengths]
    names = [f"r{number}" for number in range(len(rounds))]
    windows: str | ReplayTape = ReplayTape(tuple(names), make_tape(rounds, names)) if source == "tape" else source
    results = []
    for fewest in (2, 10**9):
        monkeypatch.setattr(playing, "NARROWEST", fewest)
        player = HindsightTrader() if name == "wait" else make_baseline(name)
        asked = RolloutOptions(delay=delay, reward=reward)
        played = rollout(game, player, windows, 333, 6, stake=STAKE, options=asked)
        seen = player.best(333, STAKE).tolist() if isinstance(player, HindsightTrader) else []
        results.append({key: np.asarray(value).tolist() for key, value in vars(played).items() if key != "components"})
        results[-1] |= {key: value.tolist() for key, value in played.components.items()} | {"seen": seen}
    assert results[0] == results[1]
    assert len(kept) >= 4  # 64, at most 32, at most 16 ...
    assert all(after <= before // 2 for before, after in pairwise([64, *kept]))


def test_lanes_that_were_left_are_there_again(game: Game) -> None:
    lanes = make_vector_game(VectorTerms("published", (1, 2), stake=STAKE), 64)
    first, again = (play_lanes(lanes, Hold(k=5), 200, np.random.default_rng(0)) for _ in range(2))
    assert lanes.count < 64
    assert (first.pnl == again.pnl).all()
    assert (first.steps == again.steps).all()


def test_who_notes_leaves_lanes_with_who_plays(game: Game, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = []
    for fewest in (2, 10**9):
        monkeypatch.setattr(playing, "NARROWEST", fewest)
        noting = EntryExitLog(Hold(k=20))
        rollout(game, noting, "published", 64, 6, stake=STAKE)
        noted.append((noting.entries, noting.sold, noting.rugged))
    assert 64 <= noted[0][0] < noted[1][0]  # the other also notes windows that nobody asked for
    assert noted[0][1] + noted[0][2] <= noted[0][0]
    assert not narrows(EntryExitLog(make_baseline("human")))


def test_games_without_lanes_and_worlds_without_number_are_refused(game: Game) -> None:
    with pytest.raises(ConfigError, match="rounds"):
        rollout(game, make_baseline("wait"), "published", None, 1, stake=STAKE)
    from dataclasses import replace

    with pytest.raises(ContractError, match="lanes"):
        rollout(replace(game, simulation=None), make_baseline("wait"), "published", 1, 1, stake=STAKE)


def test_following_the_hint_earns_a_fifth() -> None:
    result: Rollout = rollout(coin.game(), Follow(), "biased", 400, 1, stake=coin.RESERVED)
    assert result.score().roi == pytest.approx(0.2, abs=0.08)
    none = rollout(coin.game(), Follow(), "biased", 400, 1, stake=coin.RESERVED, options=RolloutOptions(delay=1))
    assert abs(none.score().roi) < 0.08  # a hint that is one flip old says nothing
    assert (none.decisions[:, 0] == 1).all()


def test_coin_lanes_hold_the_ledgers_money() -> None:
    rng, lanes = np.random.default_rng(1), CoinVectorGame(VectorTerms("fair", (9,), stake=3 * coin.STAKE), 5)
    lanes.start()
    sides = lanes._sides.copy()
    ledgers = [coin.CoinLedger(Terms("bets", stake=3 * coin.STAKE)) for _ in range(5)]
    from playproof.game import Fact

    for flip in range(coin.FLIPS):
        actions = rng.integers(0, 3, (5, 1))
        moved = lanes.step(actions)
        for lane, ledger in enumerate(ledgers):
            hint = Fact("hint", "game_tick", {"flip": flip, "side": 0}, "coin-000000")
            fell = Fact("flip", "game_tick", {"flip": flip, "side": int(sides[lane, flip])}, "coin-000000")
            ledger.apply_world(hint.event(coin.START, "t", 0))
            ledger.act((int(actions[lane, 0]),))
            ledger.apply_world(fell.event(coin.START, "t", 0))
            cash = moved.ended.pnl[lane] + UNIT if flip == coin.FLIPS - 1 else lanes._cash[lane]
            assert cash == ledger.cash
    assert moved.ended.opened.tolist() == [ledger.opened for ledger in ledgers]


def test_rows_tell_no_less_than_what_is_possible() -> None:
    rng = np.random.default_rng(3)
    lanes = make_vector_game(VectorTerms("published", (1,)), 64)
    rows = lanes.start()
    for _ in range(120):
        masks = lanes.masks()
        assert not (masks & ~buttons(rows, lanes.features)).any()
        rows = lanes.step(rng.integers(0, (4, 9), (64, 2))).rows


def test_an_order_is_masked_only_where_no_adjustment_makes_it_work() -> None:
    rng = np.random.default_rng(5)
    lanes = make_vector_game(VectorTerms("drift", (2,), stake=STAKE), 24)
    lanes.start()
    before = {name: array.copy() for name, array in lanes.arrays().items()}
    for _ in range(25):
        masks = lanes.masks()
        for order, done in ((1, kernel.F_BOUGHT), (3, kernel.F_BET)):
            worked = np.zeros(24, np.bool_)
            for button in range(9):
                for name, array in lanes.arrays().items():
                    array[...] = before[name]
                facts = lanes._lanes.step(np.tile([order, button], (24, 1)))[4]
                worked |= (facts[:, kernel.FACTS.index("flags")] & done) != 0
            going = facts[:, kernel.FACTS.index("tick")] > 0  # a lane that finished shows its next round's facts
            assert (worked == masks[:, order])[going].all()
        for name, array in lanes.arrays().items():
            array[...] = before[name]
        lanes.step(rng.integers(0, (4, 9), (24, 2)))
        before = {name: array.copy() for name, array in lanes.arrays().items()}


def test_the_best_policies_earn_what_theory_says(game: Game, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LANES", 200)
    drift = rollout(game, best_policy("drift"), "drift", 600, 1, stake=STAKE).summary()
    assert drift["pnl"] / STAKE == pytest.approx(solve_drift().value, abs=4 * drift["pnl_se"] / STAKE)
    hazard = rollout(game, best_policy("hazard"), "hazard", 600, 1, stake=STAKE).summary()
    assert hazard["pnl"] / (UNIT // 1000) == pytest.approx(hazard_value(), abs=4 * hazard["pnl_se"] / (UNIT // 1000))


def test_settled_orders_move_the_same_money_and_every_one_has_an_effect() -> None:
    terms = VectorTerms("drift", (7,), stake=STAKE)
    raw, settled = make_vector_game(terms, 32), make_vector_game(terms, 32)
    raw.start()
    settled.start()
    rng = np.random.default_rng(3)
    changed = np.zeros(32, np.int64)
    windows = 0
    for _ in range(1500):
        actions = np.stack([rng.choice([0, 1, 3], 32), rng.integers(0, 9, 32)], axis=1)
        wanted = settled.settle(actions)
        assert (wanted[:, 1] == actions[:, 1]).all()
        changed += wanted[:, 0] != actions[:, 0]
        idle, busy = raw.step(actions).ended, settled.step(wanted).ended
        assert (idle.lanes == busy.lanes).all()
        assert (idle.pnl == busy.pnl).all()
        assert (idle.no_effect == changed[idle.lanes]).all()
        assert (busy.no_effect == 0).all()
        windows += len(idle.lanes)
        changed[idle.lanes] = 0
    assert windows > 100
