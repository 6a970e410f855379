"""PPO as the plan had it, kept as the honest baseline: stable-baselines3 on 8 plain environments.

DummyVecEnv and VecMonitor, learning rate 3e-4, batches of 64, entropy 0.01, everything else as
stable-baselines3 has it by default; no masks. The one thing given to it that the plan did not have
is the fixed scaling of observations, so that its policies can be kept and compared.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper, VecMonitor

from playproof.errors import ConfigError
from playproof.json_types import Json
from playproof.policies.scaling import LIMIT, Scaling, scale_rows
from playproof.train.ppo.loop import TrainSetup, _settings, _shape

Array = NDArray[Any]


class ScaledObservation(VecEnvWrapper):  # type: ignore[misc]
    """Show scaled rows of plain environments."""

    def __init__(self, venv: object, scaling: Scaling) -> None:
        self._scaling = scaling
        super().__init__(venv, spaces.Box(-LIMIT, LIMIT, (len(scaling.names),), np.float32))

    def reset(self) -> Array:
        """Start an episode in every environment."""
        return scale_rows(self.venv.reset(), self._scaling)

    def step_wait(self) -> tuple[Array, Array, Array, list[Json]]:
        """Step every environment."""
        rows, rewards, dones, infos = self.venv.step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = scale_rows(info["terminal_observation"], self._scaling)
        return scale_rows(rows, self._scaling), rewards, dones, infos

    def arrays(self) -> dict[str, Array]:
        """Refuse: plain environments cannot be put back where they stood."""
        return {}


def build_plan(table: TrainSetup) -> tuple[Any, Any]:
    """Build the plan's model and environments."""
    config, game = table.config, table.game
    if game.simulated().environment is None:
        raise ConfigError(f"expected game {game.name!r} to have a Gymnasium environment, found none")
    options: Json = {"world": config.world, "observation": table.observation, "actions": table.actions}
    options |= {"stake": config.stake, **config.options}
    if config.balance is not None:
        options["balance"] = config.balance
    name = game.simulated().environment
    if name is None:
        raise ConfigError(f"expected a game with a Gymnasium environment, found {game.name}")

    def make() -> Any:
        return gymnasium.make(name, **options)

    env = ScaledObservation(VecMonitor(DummyVecEnv([make] * config.lanes)), table.scaling)
    env.seed(config.seed)
    return PPO("MlpPolicy", env, policy_kwargs=_shape(config), **_settings(config)), env
