"""Where a training of stable-baselines3 stands at a rollout boundary, as plain arrays and numbers.

Parameters, Adam's moments, both random generators, the lanes and the last observations: with all of
them back, the next rollout is the one that an unbroken run would have made, bit for bit on one
thread. Nothing is pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from playproof.errors import DecodeError
from playproof.json_types import Json
from playproof.train.run import restore

Arrays = dict[str, NDArray[Any]]


def gather(model: Any, env: Any) -> tuple[Arrays, Json]:
    """Give the whole state of a training: arrays, and numbers beside them."""
    arrays: Arrays = {f"policy.{name}": tensor.detach().numpy() for name, tensor in model.policy.state_dict().items()}
    for index, moments in model.policy.optimizer.state_dict()["state"].items():
        arrays |= {f"adam.{index}.{name}": _array(value) for name, value in moments.items()}
    arrays |= {f"env.{name}": array for name, array in env.arrays().items()}
    arrays |= {"last_obs": model._last_obs, "last_starts": np.asarray(model._last_episode_starts, np.bool_)}
    arrays |= {f"memory.{position}": state.detach().numpy() for position, state in enumerate(_memories(model))}
    kind, keys, index, has_gauss, gauss = np.random.get_state(legacy=True)
    arrays |= {"torch_generator": torch.get_rng_state().numpy(), "numpy_generator": np.asarray(keys)}
    facts = {"numpy": [kind, index, has_gauss, gauss], "steps": model.num_timesteps, "updates": model._n_updates}
    return arrays, facts


def bring_back(model: Any, env: Any, saved: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    """Put a training back where it stood; the model must be built as it was."""
    for name, tensor in model.policy.state_dict().items():
        restore(tensor.numpy(), _saved(saved, f"policy.{name}"))
    _bring_back_adam(model.policy.optimizer, saved)
    model._last_obs = env.reset()
    for name, array in env.arrays().items():
        if array.size:
            restore(array, _saved(saved, f"env.{name}"))
    restore(model._last_obs, _saved(saved, "last_obs"))
    model._last_episode_starts = np.zeros(model.n_envs, np.bool_)
    restore(model._last_episode_starts, _saved(saved, "last_starts"))
    for index, state in enumerate(_memories(model)):
        restore(state.numpy(), _saved(saved, f"memory.{index}"))
    model.num_timesteps, model._n_updates = facts["steps"], facts["updates"]
    kind, index, has_gauss, gauss = facts["numpy"]
    keys = np.frombuffer(_saved(saved, "numpy_generator"), np.uint32)
    np.random.set_state((kind, keys, index, has_gauss, gauss))
    torch.set_rng_state(torch.from_numpy(np.frombuffer(_saved(saved, "torch_generator"), np.uint8).copy()))


def _bring_back_adam(optimizer: torch.optim.Optimizer, saved: Mapping[str, bytes]) -> None:
    """Put Adam's moments back, in the order of its parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, parameter in enumerate(parameters):
        if f"adam.{index}.step" not in saved:
            continue
        state = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        state["step"] = torch.zeros((), dtype=torch.float32)
        for name, tensor in state.items():
            restore(tensor.numpy(), _saved(saved, f"adam.{index}.{name}"))
        optimizer.state[parameter] = state


def _memories(model: object) -> list[torch.Tensor]:
    """Give the states of a recurrent policy's memories; none where it has none."""
    states = getattr(model, "_last_lstm_states", None)
    return [] if states is None else [state for pair in states for state in pair]


def _array(value: object) -> NDArray[Any]:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _saved(saved: Mapping[str, bytes], name: str) -> bytes:
    if name not in saved:
        raise DecodeError(f"expected {name!r} in the resume point, found none; it was saved by another version")
    return saved[name]
