"""The environments: contract, the plain twin bit for bit, money, masks, tapes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import playproof  # noqa: F401  (registers the environments)
from playproof.errors import ConfigError, InputError, UnknownName
from playproof.games.crash.rules.worlds import WORLDS, counter_round, get_world
from playproof.games.crash.sim import kernel
from playproof.games.crash.sim.env import ENV_ID, CrashVectorEnv
from tests.reference.crash_twin import PlainEnv

ACTIONS = ("buttons", "buttons-share", "trader")


def make(**options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(ENV_ID, **options).unwrapped


@pytest.mark.parametrize("clock", ["tick", "press"])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("observation", ["policy", "recorded", "market", "trader"])
def test_check_env(observation: str, actions: str, rounds: int, clock: str) -> None:
    for world in WORLDS:
        check_env(make(observation=observation, actions=actions, rounds=rounds, clock=clock, world=world))


def random_action(rng: np.random.Generator, heads: list[int], mood: float) -> tuple[int, ...]:
    """Draw an action; moods differ in how often the player waits, so that positions get time."""
    return tuple(int(rng.integers(n)) if rng.random() < mood else 0 for n in heads)


@pytest.mark.parametrize("world", list(WORLDS))
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize(("clock", "rounds", "observation"), [("tick", 1, "policy"), ("press", 3, "recorded")])
def test_environment_equals_its_plain_twin(world: str, actions: str, clock: str, rounds: int, observation: str) -> None:
    options = {"actions": actions, "clock": clock, "rounds": rounds, "observation": observation}
    stake = 10**8 if world == "fair" else None
    env = make(world=world, stake=stake, **options)
    twin = PlainEnv(world, stake=stake, **options)
    rng = np.random.default_rng(5)
    heads = env.action_space.nvec.tolist()
    twin.seed(11)
    for episode in range(8):
        obs, info = env.reset(seed=11 if episode == 0 else None)
        np.testing.assert_array_equal(obs, twin.reset())
        mood = [0.05, 0.3, 1.0][episode % 3]
        over = False
        while not over:
            action = random_action(rng, heads, mood)
            obs, reward, terminated, truncated, info = env.step(np.array(action))
            expected, plain_reward, plain_terminated, plain_truncated = twin.step(action)
            np.testing.assert_array_equal(obs, expected)
            assert (reward, terminated, truncated) == (plain_reward, plain_terminated, plain_truncated)
            assert info["cash"] == twin.ledger.cash
            assert info["position_qty"] == twin.ledger.qty
            assert info["open_cost"] == twin.ledger.cost
            assert info["no_effect"] == twin.no_effect
            assert info["no_effect_actions"] == twin.no_effects
            over = terminated or truncated


@pytest.mark.parametrize(("actions", "rounds"), [("buttons", 1), ("buttons-share", 2), ("trader", 1)])
def test_the_vector_environment_equals_single_ones(actions: str, rounds: int) -> None:
    lanes = 7
    envs = gymnasium.make_vec(ENV_ID, num_envs=lanes, actions=actions, rounds=rounds)
    singles = [make(actions=actions, rounds=rounds) for _ in range(lanes)]
    obs, _ = envs.reset(seed=40)
    np.testing.assert_array_equal(obs, [env.reset(seed=40 + lane)[0] for lane, env in enumerate(singles)])
    envs.action_space.seed(1)
    finished = 0
    for _ in range(900):
        chosen = envs.action_space.sample()
        obs, rewards, terminated, truncated, infos = envs.step(chosen)
        for lane, env in enumerate(singles):
            row, reward, over, cut, info = env.step(chosen[lane])
            assert (rewards[lane], terminated[lane], truncated[lane]) == (reward, over, cut)
            if over or cut:
                finished += 1
                np.testing.assert_array_equal(infos["final_obs"][lane], row)
                assert infos["_final_info"][lane]
                assert {name: infos["final_info"][name][lane] for name in kernel.FACTS} == {
                    name: info[name] for name in kernel.FACTS
                }
                row, info = env.reset()
            np.testing.assert_array_equal(obs[lane], row)
            assert {name: infos[name][lane] for name in kernel.FACTS} == {name: info[name] for name in kernel.FACTS}
    assert finished > 10


def test_returned_arrays_are_never_written_again() -> None:
    envs = gymnasium.make_vec(ENV_ID, num_envs=64)
    envs.reset(seed=1)
    envs.action_space.seed(1)
    kept, copies = [], []
    for _ in range(40):
        obs, rewards, _, _, infos = envs.step(envs.action_space.sample())
        kept += [obs, rewards, infos["cash"]]
        copies += [obs.copy(), rewards.copy(), infos["cash"].copy()]
    for one, other in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("world", ["published", "drift"])
@pytest.mark.parametrize("clock", ["tick", "press"])
@pytest.mark.parametrize("actions", ACTIONS)
def test_masks_tell_what_has_an_effect(actions: str, clock: str, world: str) -> None:
    """A choice of the first head alone has an effect if, and only if, its mask says so."""
    env = make(actions=actions, clock=clock, world=world)
    env.reset(seed=9)
    rng = np.random.default_rng(2)
    heads = env.action_space.nvec
    for _ in range(1500):
        mask = env.action_masks()
        assert mask.shape == (heads.sum(),)
        assert mask[0]
        assert mask[heads[0]]
        if actions == "trader":  # sizes and shares ride along; the smallest and all of it stand for them
            action = np.array([rng.integers(heads[0]), 0, 10])
        elif rng.random() < 0.6:
            action = np.array([rng.integers(heads[0]), *np.zeros(len(heads) - 1, int)])
            if actions == "buttons-share" and action[0] == 2:
                action[2] = 4
        else:
            action = np.array([0, rng.integers(heads[1]), *np.zeros(len(heads) - 2, int)])
        masked = mask[action[0]] if action[0] else (actions == "trader" or mask[heads[0] + action[1]])
        spent = clock == "press" and env._lanes.lanes["adjustments"][0] >= kernel.MAX_ADJUSTMENTS
        _, _, terminated, _, info = env.step(action)
        if not spent:
            assert info["no_effect"] == (not masked and action.any()), action
        if terminated:
            env.reset()


def test_a_tape_plays_the_rounds_it_holds() -> None:
    world = get_world("published")
    rounds = [counter_round(world, 3, number) for number in range(5)]
    taped, dealt = make(tape=[one.prices for one in rounds]), make()
    taped.reset(seed=3)
    dealt.reset(seed=3)
    rng = np.random.default_rng(1)
    finished = 0
    while finished < 5:
        action = random_action(rng, [4, 9], 0.3)
        one, other = taped.step(action), dealt.step(action)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]
        assert {k: one[4][k] for k in kernel.FACTS} == {k: other[4][k] for k in kernel.FACTS}
        if one[2]:
            finished += 1
            np.testing.assert_array_equal(taped.reset()[0], dealt.reset()[0])


def test_many_lanes_share_a_tape_in_turn() -> None:
    lengths = [5, 9, 13, 17, 21]
    tape = [[1.0] * length + [0.02] for length in lengths]
    envs = CrashVectorEnv(2, tape=tape)
    envs.reset(seed=1)
    ends: list[list[int]] = [[], []]
    while min(map(len, ends)) < 5:
        *_, infos = envs.step(np.zeros((2, 2), np.int64))
        for lane in np.flatnonzero(infos.get("_final_info", [])):
            ends[lane].append(int(infos["final_info"]["tick"][lane]))
    assert ends[0][:5] == [5, 13, 21, 9, 17]
    assert ends[1][:5] == [9, 17, 5, 13, 21]


def test_a_session_carries_the_bankroll_and_truncates() -> None:
    env = make(rounds=3)
    env.reset(seed=2)
    rugs, terminated, truncated, cash = 0, False, False, 10**9
    while not truncated:
        _, _, terminated, truncated, info = env.step((3, 0))
        if info["flags"] & kernel.F_RUG:
            rugs += 1
        assert not terminated
        cash = info["cash"]
    assert rugs == 3
    assert cash != 10**9


def test_bankruptcy_costs_ten_once_and_ends() -> None:
    env = make(balance=10**7, tape=[[1.0] * 60 + [0.02]])
    env.reset(seed=1)
    env.step((0, 8))  # MAX
    _, reward, terminated, _, info = env.step((3, 0))
    assert reward == -0.01
    assert not terminated
    rewards = [reward]
    while not terminated:
        _, reward, terminated, _, info = env.step((0, 0))
        rewards.append(reward)
    assert rewards[-1] == -10.0
    assert sum(rewards) == pytest.approx(-10.01)
    assert info["tick"] == 41 - 1
    assert info["flags"] & kernel.F_BANKRUPT
    with pytest.raises(InputError, match="call reset"):
        env.step((0, 0))


def test_presale_buys_fill_at_one_and_cannot_be_sold_before_tick_0() -> None:
    env = make(tape=[[1.0, 3.0, 0.02]])
    env.reset(seed=1)
    _, _, _, _, info = env.step((1, 0))
    assert info["position_qty"] == 10**6
    assert info["tick"] == 0
    env.step((0, 0))
    *_, info = env.step((2, 0))
    assert info["cash"] == 10**9 + 2 * 10**6
    presale = make(tape=[[1.0, 3.0, 0.02]])
    presale.reset(seed=1)
    assert presale.step((2, 0))[4]["no_effect"]


def test_press_clock_lets_adjustments_pass_eight_times() -> None:
    env = make(clock="press", tape=[[1.0] * 30 + [0.02]])
    env.reset(seed=1)
    env.step((0, 0))
    ticks = [env.step((0, 2))[4]["tick"] for _ in range(9)]
    assert ticks == [0] * 8 + [1]
    *_, info = env.step((1, 0))
    assert (info["tick"], info["bet_amount"]) == (2, 10 * 10**6)


def test_a_round_can_be_asked_for_and_the_site_is_the_same() -> None:
    walked, asked = make(), make()
    walked.reset(seed=5)
    for _ in range(7):
        obs, _ = walked.reset()
    again, info = asked.reset(seed=5, options={"round": 7})
    np.testing.assert_array_equal(obs, again)
    assert info["round"] == 7


def test_bad_calls_say_what_was_expected() -> None:
    with pytest.raises(UnknownName, match="published"):
        make(world="moon")
    with pytest.raises(ConfigError, match="rounds"):
        make(rounds=0)
    with pytest.raises(UnknownName, match="minimal"):
        make(reward="fame")
    with pytest.raises(ConfigError, match="lanes"):
        CrashVectorEnv(2, observation="trader")
    with pytest.raises(InputError, match="prices"):
        make(tape=[[2.0, 1.0]])
    env = make()
    env.reset(seed=1)
    before = env.step((0, 0))[4]
    with pytest.raises(InputError, match=r"\[4, 9\]"):
        env.step((4, 0))
    with pytest.raises(InputError, match=r"\[4, 9\]"):
        env.step((0, -1))
    assert env.step((0, 0))[4]["tick"] == before["tick"] + 1
    envs = CrashVectorEnv(3)
    envs.reset(seed=1)
    with pytest.raises(InputError, match="lane 1"):
        envs.step(np.array([[0, 0], [0, 9], [0, 0]]))
    with pytest.raises(InputError, match="3 lanes"):
        envs.step(np.zeros((2, 2), np.int64))


@given(st.integers(0, 2**63 - 1), st.sampled_from(list(WORLDS)))
@settings(max_examples=15)
def test_same_seed_same_bits(seed: int, world: str) -> None:
    def history() -> list[Any]:
        envs = CrashVectorEnv(4, world=world)
        envs.reset(seed=seed)
        rng = np.random.default_rng(0)
        return [envs.step(rng.integers(0, (4, 9), (4, 2)))[:2] for _ in range(60)]

    for one, other in zip(history(), history(), strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_stable_baselines3_can_use_it() -> None:
    sb3 = pytest.importorskip("playproof.train.ppo.vec_env", reason="needs the extra train")
    maskable = pytest.importorskip("sb3_contrib", reason="needs the extra train")
    envs = sb3.GymVecEnv(CrashVectorEnv(16, world="drift"), seed=3)
    twin = CrashVectorEnv(16, world="drift")
    np.testing.assert_array_equal(envs.reset(), twin.reset(seed=3)[0])
    rng = np.random.default_rng(0)
    total, ended = np.zeros(16), 0
    for _ in range(400):
        chosen = rng.integers(0, (4, 9), (16, 2))
        obs, rewards, dones, infos = envs.step(chosen)
        expected = twin.step(chosen)
        np.testing.assert_array_equal(obs, expected[0])
        np.testing.assert_array_equal(rewards, expected[1].astype(np.float32))
        total += expected[1]
        for lane in np.flatnonzero(dones):
            ended += 1
            np.testing.assert_array_equal(infos[lane]["terminal_observation"], expected[4]["final_obs"][lane])
            assert infos[lane]["episode"]["r"] == pytest.approx(total[lane])
            total[lane] = 0.0
    assert ended > 5
    model = maskable.MaskablePPO("MlpPolicy", envs, n_steps=32, batch_size=256, n_epochs=1, seed=1, device="cpu")
    model.learn(1024)
    assert len(model.ep_info_buffer) > 0


@pytest.mark.parametrize("observation", ["market", "trader"])
def test_a_seed_forgets_what_was_seen_before(observation: str) -> None:
    def walk(env: gymnasium.Env[Any, Any]) -> list[Any]:
        rng = np.random.default_rng(4)
        env.reset(seed=8)
        rows = []
        for _ in range(300):
            obs, _, terminated, _, info = env.step(random_action(rng, [4, 9], 0.4))
            rows.append(np.concatenate(list(obs.values())) if observation == "trader" else obs)
            if terminated:
                env.reset()
        assert info["missing"] == ()
        return rows

    env = make(observation=observation)
    first = walk(env)
    np.testing.assert_array_equal(first, walk(env))
    np.testing.assert_array_equal(first, walk(make(observation=observation)))


def test_the_trader_set_knows_the_rounds_before_the_first() -> None:
    env = make(observation="trader")
    obs, _ = env.reset(seed=12)
    before = [counter_round(get_world("published"), 12, number) for number in range(-1, -6, -1)]
    expected = [(one.rug_price, one.rug_tick, max(one.prices[:-1]), one.rug_tick < 6) for one in before]
    np.testing.assert_array_equal(obs["history"], np.array(expected, np.float32).ravel())
