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
from playproof.games.crash import kernel
from playproof.games.crash.env import ENV_ID, CrashVectorEnv
from playproof.games.crash.twin import PlainEnv
from playproof.games.crash.worlds import WORLDS, counter_round, get_world

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
def test_environment_equals_its_plain_twin(
    world: str, actions: str, clock: str, rounds: int, observation: str
) -> None:
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
