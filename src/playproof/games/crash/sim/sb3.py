"""The vector environment as stable-baselines3 wants it, at the kernel's speed.

Needs the extra `train`. Only finished lanes get an info of their own; the others share an empty one,
as stable-baselines3 looks for nothing in them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from playproof.games.crash.sim.arrays import Ints, Marks, Rows
from playproof.games.crash.sim.env import SEED_LIMIT, Info, observation_space, to_info, to_settings
from playproof.games.crash.sim.lanes import KernelLanes


class CrashVecEnv(VecEnv):  # type: ignore[misc]
    """Many lanes of the crash game, with episode statistics as VecMonitor would add them."""

    def __init__(self, num_envs: int, seed: int | None = None, **options: Any) -> None:
        from gymnasium import spaces

        self.settings = to_settings(options)
        self.render_mode: str | None = None
        self._lanes = KernelLanes(self.settings, num_envs)
        self._all = np.ones(num_envs, np.bool_)
        self._actions = np.zeros((num_envs, len(self.settings.heads)), np.int64)
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self._start = time.monotonic()
        self._pending: int | None = seed if seed is not None else int(np.random.default_rng().integers(SEED_LIMIT))
        super().__init__(
            num_envs, observation_space(self.settings.observation), spaces.MultiDiscrete(list(self.settings.heads))
        )

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Key the lanes at the next reset: lane i gets seed + i."""
        self._pending = seed if seed is not None else int(np.random.default_rng().integers(SEED_LIMIT))
        return [self._pending + lane for lane in range(self.num_envs)]

    def reset(self) -> Rows:
        """Start an episode in every lane."""
        if self._pending is not None:
            self._lanes.seed([self._pending + lane for lane in range(self.num_envs)], self._all)
            self._pending = None
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return self._lanes.reset(self._all)[0]

    def step_async(self, actions: Ints) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = np.ascontiguousarray(actions, np.int64)

    def step_wait(self) -> tuple[Rows, Rows, Marks, list[Info]]:
        """Step every lane."""
        obs, rewards, terminated, truncated, _, ended = self._lanes.step(self._actions)
        self._returns += rewards
        self._lengths += 1
        infos: list[Info] = [{}] * self.num_envs
        for index, lane in enumerate(ended.tolist()):
            infos[lane] = self._final(index, lane, bool(truncated[lane]))
        self._returns[ended] = 0.0
        self._lengths[ended] = 0
        return obs, rewards.astype(np.float32), terminated | truncated, infos

    def _final(self, index: int, lane: int, truncated: bool) -> Info:
        info = to_info(self._lanes.final_facts[index].tolist())
        info["terminal_observation"] = self._lanes.final_obs[index].copy()
        info["TimeLimit.truncated"] = truncated
        info["episode"] = {
            "r": float(self._returns[lane]),
            "l": int(self._lengths[lane]),
            "t": round(time.monotonic() - self._start, 6),
        }
        return info

    def close(self) -> None:
        """Let the arrays go."""

    @property
    def clipped_steps(self) -> int:
        """Give how many steps so far had their reward clipped."""
        return self._lanes.clipped

    def action_masks(self) -> Marks:
        """Give which choices can have an effect now, shape (lanes, all heads side by side)."""
        return self._lanes.masks()

    def get_attr(self, attr_name: str, indices: object = None) -> list[object]:
        """Give an attribute once for each lane asked for."""
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: object, indices: object = None) -> None:  # noqa: ARG002
        """Refuse: lanes have no attributes of their own."""
        raise AttributeError(f"expected no attribute of single lanes to be set, found {attr_name}")

    def env_method(self, method_name: str, *args: object, indices: object = None, **kwargs: object) -> list[object]:
        """Call a method of all lanes; give the part of each lane asked for."""
        result = getattr(self, method_name)(*args, **kwargs)
        return [result[lane] for lane in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: object = None) -> list[bool]:  # noqa: ARG002
        """Tell that no lane is wrapped."""
        return [False] * len(list(self._get_indices(indices)))
