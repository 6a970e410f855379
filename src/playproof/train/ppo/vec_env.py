"""Any game as the vector environment of stable-baselines3.

`GymVecEnv` wraps a game's Gymnasium vector environment as it is, raw rows and all: for trainers of one's own.
`GameVecEnv` steps a game's lanes for PPO here: rows scaled as networks see them, rewards multiplied by a fixed number.
Only lanes that finished get an info of their own; the others share an empty one, as stable-baselines3 looks for
nothing in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from playproof.errors import ConfigError
from playproof.game.vector_env import FinishedEpisodes, VectorGame
from playproof.json_types import Json
from playproof.policies.network import BatchPlayer, stack_frames
from playproof.policies.scaling import LIMIT, Scaling, scale_rows

Array = NDArray[Any]


class LanesVecEnv(VecEnv):  # type: ignore[misc]
    """What stable-baselines3 asks of environments that are stepped all at once and have nothing of their own."""

    _actions: Array

    def step_async(self, actions: Array) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = np.ascontiguousarray(actions, np.int64)

    def close(self) -> None:
        """Let the arrays go."""

    def get_attr(self, attr_name: str, indices: object = None) -> list[Any]:
        """Give an attribute once for each lane asked for."""
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: object, indices: object = None) -> None:  # noqa: ARG002
        """Refuse: lanes have no attributes of their own."""
        raise AttributeError(f"expected no attribute of single lanes to be set, found {attr_name}")

    def env_method(self, method_name: str, *args: object, indices: object = None, **kwargs: object) -> list[Any]:
        """Call a method of all lanes; give the part of each lane asked for."""
        result = getattr(self, method_name)(*args, **kwargs)
        return [result[lane] for lane in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: object = None) -> list[bool]:  # noqa: ARG002
        """Tell that no lane is wrapped."""
        return [False] * len(list(self._get_indices(indices)))


class GymVecEnv(LanesVecEnv):
    """A Gymnasium vector environment that resets in the same step, with episode statistics as VecMonitor adds them."""

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: int | None = None) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ConfigError(f"expected an environment with autoreset in the same step, found {mode}")
        self.env, self._seed = env, seed
        self.render_mode: str | None = None
        self.returns = np.zeros(env.num_envs)
        self.lengths = np.zeros(env.num_envs, np.int64)
        self._start = time.monotonic()
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Key the lanes at the next reset: lane i gets seed + i."""
        self._seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        return [self._seed + lane for lane in range(self.num_envs)]

    def reset(self) -> Array:
        """Start an episode in every lane."""
        self.returns[:] = 0.0
        self.lengths[:] = 0
        rows: Array = self.env.reset(seed=self._seed)[0]
        self._seed = None
        return rows

    def step_wait(self) -> tuple[Array, Array, Array, list[Json]]:
        """Step every lane."""
        rows, rewards, terminated, truncated, facts = self.env.step(self._actions)
        self.returns += rewards
        self.lengths += 1
        dones = terminated | truncated
        infos: list[Json] = [{}] * self.num_envs
        ended = np.flatnonzero(dones).tolist()
        final = {name: values for name, values in facts["final_info"].items() if name[0] != "_"} if ended else {}
        for lane in ended:
            infos[lane] = {
                **{name: values[lane] for name, values in final.items()},
                "terminal_observation": facts["final_obs"][lane],
                "TimeLimit.truncated": bool(truncated[lane]),
                "episode": {
                    "r": float(self.returns[lane]),
                    "l": int(self.lengths[lane]),
                    "t": round(time.monotonic() - self._start, 6),
                },
            }
        self.returns[dones] = 0.0
        self.lengths[dones] = 0
        return rows, rewards.astype(np.float32), dones, infos

    def action_masks(self) -> Array:
        """Give which choices can have an effect now, where the environment says."""
        masks: Array = self.env.action_masks()  # type: ignore[attr-defined]
        return masks


class GameVecEnv(LanesVecEnv):
    """Many lanes of a game; `enter` moves all of them to another world."""

    def __init__(
        self,
        make: Callable[[int], VectorGame],
        scaling: Scaling,
        *,
        frames: int = 1,
        reward_scale: float = 1.0,
        masked: bool = True,
    ) -> None:
        self._make, self._frames, self._reward_scale, self._masked = make, frames, reward_scale, masked
        self._scaling = scaling.stacked(frames)
        self.lanes = make(0)
        self.render_mode: str | None = None
        self._state = BatchPlayer(None).start(self.lanes.count, np.random.default_rng(0))  # type: ignore[arg-type]
        self._actions = np.zeros((self.lanes.count, len(self.lanes.heads)), np.int64)
        self.returns = np.zeros(self.lanes.count)
        self.lengths = np.zeros(self.lanes.count, np.int64)
        width = len(scaling.names) * frames
        super().__init__(
            self.lanes.count,
            spaces.Box(-LIMIT, LIMIT, (width,), np.float32),
            spaces.MultiDiscrete(list(self.lanes.heads)),
        )

    def enter(self, stage: int) -> Array:
        """Make the lanes of a stage of the curriculum and start them."""
        self.lanes = self._make(stage)
        return self.reset()

    def reset(self) -> Array:
        """Start a window in every lane."""
        self.returns[:] = 0.0
        self.lengths[:] = 0
        self._state.fresh[:] = True
        self._state.frames = None
        return self._shown(self.lanes.start())

    def _shown(self, rows: Array) -> Array:
        stacked = stack_frames(rows, self._state, self._frames)
        self._state.fresh[:] = False
        return scale_rows(stacked, self._scaling)

    def step_wait(self) -> tuple[Array, Array, Array, list[Json]]:
        """Step every lane."""
        moved = self.lanes.step(self.lanes.settle(self._actions) if self._masked else self._actions)
        self.returns += moved.rewards
        self.lengths += 1
        dones = np.zeros(self.num_envs, np.bool_)
        dones[moved.ended.lanes] = True
        infos = self._infos(moved.ended)
        self._state.fresh |= dones
        self.returns[dones] = 0.0
        self.lengths[dones] = 0
        return self._shown(moved.rows), (self._reward_scale * moved.rewards).astype(np.float32), dones, infos

    def _infos(self, ended: FinishedEpisodes) -> list[Json]:
        """Tell what came of the windows that ended, in money too."""
        infos: list[Json] = [{}] * self.num_envs
        for index, lane in enumerate(ended.lanes.tolist()):
            infos[lane] = {
                "terminal_observation": self._last(ended.rows[index], lane),
                "TimeLimit.truncated": bool(ended.truncated[index]),
                "episode": {"r": float(self.returns[lane]), "l": int(self.lengths[lane]), "t": 0.0},
                "pnl": int(ended.pnl[index]),
            }
        return infos

    def _last(self, row: Array, lane: int) -> Array:
        """Scale a window's last row, with the frames before it."""
        if self._state.frames is not None:
            row = np.concatenate([self._state.frames[lane, 1:].ravel(), row])
        return scale_rows(row, self._scaling)

    def arrays(self) -> dict[str, Array]:
        """Give the whole state as the arrays it lives in; writing into them restores it."""
        kept = {f"lanes.{name}": array for name, array in self.lanes.arrays().items()}
        kept |= {"returns": self.returns, "lengths": self.lengths}
        return kept | ({} if self._state.frames is None else {"frames": self._state.frames})

    def action_masks(self) -> Array:
        """Give which choices may be taken, shape (lanes, all heads side by side): those that can have an effect."""
        return self.lanes.masks() if self._masked else np.ones((self.num_envs, sum(self.lanes.heads)), np.bool_)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:  # noqa: ARG002
        """Leave the seed as it was given with the lanes."""
        return [None] * self.num_envs
