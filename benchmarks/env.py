"""Measure steps per CPU second of the environments, beside their plain twin and two public peers.

All in one process and one run, on random actions drawn beforehand; a finished episode is reset and
its reset counts. Leaves out: learning.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.errors import MissingExtra
from playproof.games.crash.sim.env import ENV_ID
from tests.reference.crash_twin import PlainEnv

LANES = 1024
SPREAD = (256, 1024, 4096, 16384)
SECONDS = 2.0
PREPARED = 512
VECTOR_GOAL = 10e6
PEER_GOAL = 200.0
FLAT_GOAL = 1.1
"""How much dearer a step may become with more lanes than 256."""


def rate(run: Callable[[int], int], seconds: float = SECONDS) -> float:
    """Give steps per CPU second: the best of several stretches, since others may use the machine."""
    run(0)
    best, end = 0.0, time.process_time() + seconds
    while time.process_time() < end:
        start = time.process_time()
        steps = sum(run(turn) for turn in range(4))
        best = max(best, steps / (time.process_time() - start))
    return best


def vector_run(lanes: int) -> Callable[[int], int]:
    """Prepare the vector environment; one run is some steps of all lanes."""
    envs = gymnasium.make_vec(ENV_ID, num_envs=lanes)
    envs.reset(seed=1)
    envs.action_space.seed(1)
    actions = [envs.action_space.sample() for _ in range(32)]
    repeats = max(1, 64 * LANES // lanes // 32)

    def run(turn: int) -> int:  # noqa: ARG001
        for _ in range(repeats):
            for action in actions:
                envs.step(action)
        return repeats * len(actions) * lanes

    return run


def single_run(env: gymnasium.Env[Any, Any]) -> Callable[[int], int]:
    """Prepare any single environment; one run is some thousand steps."""
    env.reset(seed=1)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(PREPARED)]

    def run(turn: int) -> int:  # noqa: ARG001
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return len(actions)

    return run


def plain_run() -> Callable[[int], int]:
    """Prepare the plain Python twin."""
    twin = PlainEnv()
    twin.seed(1)
    twin.reset()
    rng = np.random.default_rng(1)
    actions = [tuple(row) for row in rng.integers(0, (4, 9), (PREPARED, 2)).tolist()]

    def run(turn: int) -> int:  # noqa: ARG001
        for action in actions:
            _, _, terminated, truncated = twin.step(action)
            if terminated or truncated:
                twin.reset()
        return len(actions)

    return run


def peers() -> dict[str, gymnasium.Env[Any, Any]]:
    """Make the public trading environments on a made price series."""
    try:
        import gym_anytrading  # noqa: F401
        import gym_trading_env  # noqa: F401
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), "bench") from None
    rng = np.random.default_rng(1)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.001, 20_000)))
    index = pd.date_range("2025-01-01", periods=len(close), freq="min")
    frame = pd.DataFrame({"open": close, "high": close, "low": close, "close": close, "volume": 1.0}, index=index)
    frame["feature_close"] = frame["close"].pct_change().fillna(0)
    stocks = pd.DataFrame({"Open": close, "High": close, "Low": close, "Close": close}, index=index)
    return {
        "gym-trading-env": gymnasium.make("TradingEnv", df=frame, positions=[-1, 0, 1], verbose=0),
        "gym-anytrading": gymnasium.make("stocks-v0", df=stocks, window_size=10, frame_bound=(10, len(close))),
    }


def run() -> dict[str, Any]:
    """Measure everything and compare."""
    rates = {f"playproof-vector-{lanes}": rate(vector_run(lanes)) for lanes in SPREAD}
    rates["playproof-vector"] = rates[f"playproof-vector-{LANES}"]
    rates["playproof-single"] = rate(single_run(gymnasium.make(ENV_ID)))
    rates["plain-python"] = rate(plain_run())
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        others = peers()
        warnings.simplefilter("ignore")  # gym-trading-env turns every warning into an error when imported
        for name, env in others.items():
            rates[name] = rate(single_run(env))
    spread = [rates[f"playproof-vector-{lanes}"] for lanes in SPREAD]
    vector, single = rates["playproof-vector"], rates["playproof-single"]
    goals = (
        Goal.at_least("vector steps per CPU second", vector, VECTOR_GOAL),
        Goal.at_least("vector against gym-trading-env", vector / rates["gym-trading-env"], PEER_GOAL),
        Goal.at_least("single against gym-anytrading", single / rates["gym-anytrading"], 1.0),
        Goal.at_most("a step at more lanes against one at 256, at worst", spread[0] / min(spread), FLAT_GOAL),
    )
    results = tuple(Measurement(name, value, "steps per CPU second") for name, value in rates.items())
    return BenchmarkReport("env", results, goals).to_json()
