"""Weights that are trained and their optimiser's state, as arrays of a run's resume point. Leaves out: the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from playproof.errors import DecodeError
from playproof.train.run import restore

_PARTS = ("step", "exp_avg", "exp_avg_sq")


def trained(model: Any) -> dict[str, torch.nn.Parameter]:
    """Give the parameters that are trained, by name."""
    return {name: item for name, item in model.named_parameters() if item.requires_grad}


def make_optimiser(model: Any, learning_rate: float) -> torch.optim.AdamW:
    """Make the optimiser of a model's trained parameters."""
    return torch.optim.AdamW(trained(model).values(), lr=learning_rate, weight_decay=0.0, betas=(0.9, 0.95))


def state_arrays(model: Any, optimiser: torch.optim.Optimizer) -> dict[str, NDArray[Any]]:
    """Give weights and optimiser as arrays."""
    result: dict[str, NDArray[Any]] = {}
    for name, item in trained(model).items():
        result[f"weights/{name}"] = item.detach().numpy()
        for part, value in optimiser.state.get(item, {}).items():
            result[f"{part}/{name}"] = np.asarray(value.detach().numpy())
    return result


def restore_state(model: Any, optimiser: torch.optim.Optimizer, data: Mapping[str, bytes]) -> None:
    """Write saved weights and optimiser back, to the last bit."""
    wanted = trained(model)
    if missing := [name for name in wanted if f"weights/{name}" not in data]:
        raise DecodeError(f"expected a resume point of the same model, found none for {missing[0]}")
    for name, item in wanted.items():
        with torch.no_grad():
            restore(item.detach().numpy(), data[f"weights/{name}"])
        if f"step/{name}" in data:
            made = {"step": torch.zeros(()), "exp_avg": torch.zeros_like(item), "exp_avg_sq": torch.zeros_like(item)}
            for part in _PARTS:
                restore(made[part].numpy(), data[f"{part}/{name}"])
            optimiser.state[item] = made
