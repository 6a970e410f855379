"""The arena as an environment: Gymnasium's contract, lanes, rollouts, and that every policy meets the same windows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from playproof.errors import ConfigError, InputError, UnknownName
from playproof.evaluate.rollout import rollout
from playproof.game import load_game
from playproof.game.vector_env import ActivityProfile, VectorTerms
from playproof.games.arena.learning.controls import control_policies
from playproof.games.arena.learning.env import ArenaEnv
from playproof.games.arena.learning.vector_env import (
    HEADS,
    ArenaMarketPlayer,
    ArenaVectorGame,
    LaneSettings,
    make_vector_game,
)
from playproof.money import UNIT
from playproof.store.db import opened, ready
from playproof.validate.examine import EvalPlan, examine, load_subject

GAME = load_game("arena")
WAIT = (0, 0, 0)
LONG = (1, 0, 2)


def random_actions(rng: np.random.Generator, lanes: int) -> np.ndarray:
    return np.stack([rng.integers(size, size=lanes) for size in HEADS], axis=1)


def test_the_environment_keeps_gymnasiums_contract() -> None:
    env = gymnasium.make("playproof/Arena-v1", render_mode="ansi")
    check_env(env.unwrapped)
    assert isinstance(env.unwrapped, ArenaEnv)
    assert "KITE" in str(env.unwrapped.render())


def test_an_episode_is_a_window_that_truncates() -> None:
    env = ArenaEnv(reward="profit")
    _, info = env.reset(seed=3)
    steps, over = 0, False
    while not over:
        _, reward, terminated, over, info = env.step(WAIT)
        assert (reward, terminated) == (0.0, False)
        steps += 1
    assert steps == 6
    assert info["equity"] == 10_000 * UNIT
    with pytest.raises(InputError, match="call reset first"):
        env.step(WAIT)


def test_alpha_of_waiting_is_minus_the_return_of_holding() -> None:
    env = ArenaEnv()
    env.reset(seed=3)
    rewards = [env.step(WAIT)[1] for _ in range(6)]
    assert rewards[:5] == [0.0] * 5
    assert rewards[5] != 0.0


def test_the_same_seed_gives_the_same_episode() -> None:
    rows = []
    for _ in range(2):
        env = ArenaEnv(decisions=12)
        rng = np.random.default_rng(1)
        rows.append([env.reset(seed=9)[0]])
        for _ in range(12):
            row, reward, *_ = env.step(random_actions(rng, 1)[0])
            rows[-1].append(np.append(row, reward))
    assert all(np.array_equal(one, other) for one, other in zip(*rows, strict=True))


def test_every_policy_meets_the_same_windows() -> None:
    """Headlines and fundamentals of a window depend on its number alone; prices on what is done in it too."""
    lanes = [ArenaMarketPlayer(LaneSettings(seed=4, others=())) for _ in range(2)]
    for lane, action in zip(lanes, (WAIT, LONG), strict=True):
        lane.begin(7)
        while not lane.step(action)[1]:
            pass
    worlds = [lane.world for lane in lanes]
    one, other = (world.exchange.listings["KITE"].fundamental for world in worlds)
    assert one == other
    assert list(worlds[0].public.headlines) == list(worlds[1].public.headlines)


def test_lanes_are_environments_side_by_side() -> None:
    """Lane i of n plays windows i, i + n ...: the same rows, rewards and money as the single environment."""
    settings = LaneSettings(seed=11, others=("informed", "random"))
    lanes, rng = ArenaVectorGame(settings, 3), np.random.default_rng(2)
    rows = lanes.start()
    singles = [ArenaMarketPlayer(settings) for _ in range(3)]
    for at, lane in enumerate(singles):
        lane.begin(at)
        assert np.array_equal(rows[at], np.array(lane.row, np.float32))
    for step in range(6):
        actions = random_actions(rng, 3)
        moved = lanes.step(actions)
        for at, lane in enumerate(singles):
            profit, over, hold = lane.step(tuple(actions[at].tolist()))
            assert moved.rewards[at] == profit - hold
            assert over == (step == 5)
            if over:
                assert moved.ended.pnl[at] == lane.equity - lane.start
    assert lanes.arrays()["number"].tolist() == [3, 4, 5]


def test_lanes_are_restored_from_their_arrays() -> None:
    settings = LaneSettings(seed=5, others=("momentum",))
    first, other, rng = ArenaVectorGame(settings, 2), ArenaVectorGame(settings, 2), np.random.default_rng(3)
    first.start()
    for _ in range(8):
        first.step(random_actions(rng, 2))
    other.start()
    for name, value in first.arrays().items():
        other.arrays()[name][:] = value
    actions = random_actions(rng, 2)
    one, two = first.step(actions), other.step(actions)
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(one.rewards, two.rewards)


def test_masks_leave_out_what_cannot_have_an_effect() -> None:
    lanes = ArenaVectorGame(LaneSettings(others=()), 1)
    lanes.start()
    assert lanes.masks()[0].tolist()[:7] == [True, True, True, False, True, True, False]
    lanes.step(np.array([LONG]))
    assert lanes.masks()[0].tolist()[:7] == [True, True, True, True, True, True, False]
    assert lanes.masks().shape == (1, sum(HEADS))


def test_baselines_are_rolled_out_over_the_same_windows() -> None:
    result = {
        name: rollout(GAME, GAME.baselines[name].batch(), "news", 24, 1, stake=2_000 * UNIT)  # type: ignore[arg-type,misc]
        for name in ("wait", "informed", "random")
    }
    assert result["wait"].pnl.tolist() == [0] * 24
    assert result["informed"].pnl.mean() > result["random"].pnl.mean()
    assert min(result["random"].pnl) >= -2_000 * UNIT
    assert result["informed"].score().roi > 0


@pytest.mark.parametrize("terms", [{"observation": "messages"}, {"actions": "decision"}, {"reward": "fame"}])
def test_lanes_refuse_what_they_do_not_have(terms: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="arena's lanes"):
        make_vector_game(VectorTerms("news", (1,), **terms), 1)  # type: ignore[arg-type]
    with pytest.raises(UnknownName):
        LaneSettings(others=("nobody",))


def test_rivals_trade_as_much_as_the_policy() -> None:
    mix = {"WAIT": 0.5, "OPEN_LONG": 0.3, "BUY_YES": 0.2}
    result = control_policies(ActivityProfile(mix, 480 * UNIT, 2.0, 1_000 * UNIT))
    assert list(result) == ["do nothing", "random", "buy and hold", "momentum"]
    drawn = result["random"].player.act(np.zeros((4_000, len(GAME.features)), np.float32), np.random.default_rng(1))
    shares = np.bincount(drawn[:, 0], minlength=HEADS[0]) / len(drawn)
    assert shares == pytest.approx([0.5, 0.3, 0, 0, 0.2, 0, 0], abs=0.03)
    assert set(drawn[drawn[:, 0] == 1, 2]) == {2}, "480 USD is nearest to 500"
    assert set(drawn[drawn[:, 0] == 4, 2]) == {1}, "but no question is bet on with more than 100"


def test_training_and_validation_take_the_arena_as_any_game(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from playproof.train.ppo.config import PPOConfig
    from playproof.train.ppo.loop import train_ppo

    config = PPOConfig(
        game="arena",
        worlds=(("news", 1.0),),
        steps=192,
        stake=1_000 * UNIT,
        lanes=16,
        rollout=6,
        batch=96,
        evaluate_every=1,
        evaluate_windows=8,
    )
    trained = train_ppo(GAME, config, tmp_path / "run")
    subject = load_subject(GAME, str(trained.best))
    plan = EvalPlan("news", "news", "data", "test", 8, draws=200)
    with opened(home=tmp_path) as engine:
        result = examine(GAME, subject, plan, ready(engine), datetime(2026, 1, 1, tzinfo=UTC))
    assert set(result.metrics) == {subject.name, *control_policies(ActivityProfile({}, 0, 1.0, 0))}
    assert result.verdict.name in ("NOT EVALUABLE", "NO EDGE SHOWN")
