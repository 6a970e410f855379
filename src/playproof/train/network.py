"""The network that every method trains: fixed scaling, a trunk, one layer of logits a head, a critic beside it.

Its parameters have the names that policies.network acts by, so that exporting is naming them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from playproof.errors import ConfigError, InputError
from playproof.policies.scaling import FLOOR, LIMIT, Scaling

ACTIVATIONS: Mapping[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class NetworkShape:
    """How large a network is."""

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    frames: int = 1
    """Observations that it sees at once, side by side."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"expected activation {' or '.join(ACTIVATIONS)}, found {self.activation!r}")
        if not self.hidden or min(self.hidden) < 1 or self.frames < 1:
            raise ConfigError(f"expected hidden sizes and frames of at least 1, found {self.hidden}, {self.frames}")


class Scale(nn.Module):
    """Scale raw rows by fixed rules; nothing in it is learned or saved with the parameters."""

    taken: Tensor
    ratio: Tensor
    curved: Tensor
    logged: Tensor
    units: Tensor
    centers: Tensor
    spreads: Tensor

    def __init__(self, scaling: Scaling) -> None:
        super().__init__()
        width = len(scaling.names)
        taken, units = np.arange(width), np.ones(width, np.float32)
        taken[scaling.ratios], units[scaling.curves] = scaling.divisors, scaling.units
        for name, value in {
            "taken": taken,
            "ratio": _marked(width, scaling.ratios),
            "curved": _marked(width, scaling.curves),
            "logged": _marked(width, scaling.logs),
            "units": units,
            "centers": scaling.centers,
            "spreads": scaling.spreads,
        }.items():
            self.register_buffer(name, torch.from_numpy(value), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Give scaled rows (n, f)."""
        x = torch.where(self.ratio, rows / rows[:, self.taken].abs().clamp(min=FLOOR), rows)
        curve = torch.sign(x) * torch.log1p(x.abs() / self.units)
        x = torch.where(self.curved, curve, torch.where(self.logged, x.clamp(min=FLOOR).log(), x))
        return ((x - self.centers) / self.spreads).clamp(-LIMIT, LIMIT)


def _marked(width: int, indices: NDArray[np.int64]) -> NDArray[np.bool_]:
    marks = np.zeros(width, np.bool_)
    marks[indices] = True
    return marks


def dense(width: int, hidden: Sequence[int], activation: str) -> nn.Sequential:
    """Build a stack of layers, each with its activation."""
    sizes = [width, *hidden]
    parts: list[nn.Module] = []
    for inside, out in pairwise(sizes):
        parts += [nn.Linear(inside, out), ACTIVATIONS[activation]()]
    return nn.Sequential(*parts)


class Network(nn.Module):
    """Raw rows in, logits by head out; and a value, from a trunk of its own."""

    def __init__(self, scaling: Scaling, heads: Sequence[int], shape: NetworkShape) -> None:
        super().__init__()
        self.shape, self.head_sizes = shape, tuple(heads)
        self.scale = Scale(scaling.stacked(shape.frames))
        width = len(scaling.names) * shape.frames
        self.trunk = dense(width, shape.hidden, shape.activation)
        self.heads = nn.ModuleList([nn.Linear(shape.hidden[-1], size) for size in heads])
        self.critic_trunk = dense(width, shape.hidden, shape.activation)
        self.critic_out = nn.Linear(shape.hidden[-1], 1)

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Give the logits of each head, (n, choices)."""
        x = self.trunk(self.scale(rows))
        return tuple(head(x) for head in self.heads)

    def value(self, rows: Tensor) -> Tensor:
        """Give the critic's value, (n,)."""
        value: Tensor = self.critic_out(self.critic_trunk(self.scale(rows))).squeeze(1)
        return value

    def weights(self) -> Weights:
        """Give the parameters by the names that policies act by, the critic's beside them."""
        return linear_weights(self.layers())

    def layers(self) -> dict[str, nn.Linear]:
        """Name the layers that have parameters."""
        parts: dict[str, list[nn.Module]] = {"trunk": [*self.trunk], "head": [*self.heads]}
        parts["critic"] = [*self.critic_trunk, self.critic_out]
        named: dict[str, nn.Linear] = {}
        for part, modules in parts.items():
            linear = [module for module in modules if isinstance(module, nn.Linear)]
            named |= {f"{part}.{k}": layer for k, layer in enumerate(linear)}
        return named

    def load(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        """Take parameters over; those that are not given stay as they are."""
        load_linear(self.layers(), weights)


def load_linear(named: Mapping[str, nn.Linear], weights: Mapping[str, NDArray[np.float32]]) -> None:
    """Write parameters into linear layers; those that are not given stay as they are."""
    for name, layer in named.items():
        for part in ("weight", "bias"):
            given, tensor = weights.get(f"{name}.{part}"), getattr(layer, part)
            if given is None:
                continue
            if tuple(tensor.shape) != given.shape:
                raise InputError(f"expected {name}.{part} of shape {tuple(tensor.shape)}, found {given.shape}")
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(np.array(given)))


def linear_weights(named: Mapping[str, nn.Linear]) -> Weights:
    """Give copies of the parameters of linear layers."""
    return {
        f"{name}.{part}": getattr(layer, part).detach().cpu().numpy().copy()
        for name, layer in named.items()
        for part in ("weight", "bias")
    }


def build_network(scaling: Scaling, heads: Sequence[int], hidden: Sequence[int] = (64, 64), **shape: object) -> Network:
    """Build a network for rows of these features and heads of these sizes; its weights come from torch's generator."""
    return Network(scaling, heads, NetworkShape(tuple(hidden), **shape))  # type: ignore[arg-type]
