"""What offline methods share: steps as tensors, a network of heads over scaled rows, and the card of what they learn.

Values of an action add up over its heads: Q(s, a) = sum over heads h of Q_h(s, a_h). The best action
is then the best choice of every head, the log-sum-exp over all actions the sum of the heads' own, and
a network of values has the very shape by which policies act.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from playproof.datasets import Transitions
from playproof.game import Game, first, lookup
from playproof.policies.checkpoint import Card
from playproof.policies.network import NetworkPolicy
from playproof.policies.scaling import Scaling, describe, game_scaling, scale_rows
from playproof.train.cards import trained_card
from playproof.train.config import OfflineConfig
from playproof.train.network import ACTIVATIONS, Weights, linear_weights
from playproof.train.offline_loop import Losses, OfflineMethod, learn

if TYPE_CHECKING:
    from playproof.train.run import Run

NEVER = -1e9


@dataclass(frozen=True)
class OfflineSetup:
    """The game as an offline method sees it."""

    game: Game
    observation: str
    actions: str
    scaling: Scaling
    heads: tuple[int, ...]

    @classmethod
    def from_game(cls, game: Game, observation: str | None = None, actions: str | None = None) -> OfflineSetup:
        """Look names up; None is the game's default."""
        observation, actions = observation or first(game.observations), actions or first(game.actions)
        features = describe(game, observation)["features"]
        heads = tuple(map(len, lookup(game.actions, actions, "action set").heads))
        return cls(game, observation, actions, game_scaling(game, features), heads)

    def possible(self, rows: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Tell which choices can have an effect at rows, heads side by side; all where the game does not say."""
        of = self.game.actions[self.actions].possible
        if of is None:
            return np.ones((len(rows), sum(self.heads)), np.bool_)
        values: NDArray[np.bool_] = of(rows, tuple(self.scaling.names))
        return values


@dataclass(frozen=True)
class Steps:
    """Steps as tensors, rows scaled."""

    rows: Tensor  # (n, features)
    actions: Tensor  # (n, heads)
    rewards: Tensor  # (n,)
    after: Tensor  # (n, features)
    goes_on: Tensor  # (n,), 0 where the window ended with the step; one that was only cut goes on
    possible: Tensor | None  # (n, sum of heads) at the next row

    def __len__(self) -> int:
        return len(self.rewards)


def to_steps(table: OfflineSetup, steps: Transitions, reward_scale: float, masked: bool) -> Steps:
    """Lay transitions out as tensors."""
    possible = torch.from_numpy(table.possible(steps.next_observations)) if masked else None
    return Steps(
        torch.from_numpy(scale_rows(steps.observations, table.scaling)),
        torch.from_numpy(steps.actions.astype(np.int64)),
        torch.from_numpy((reward_scale * steps.rewards).astype(np.float32)),
        torch.from_numpy(scale_rows(steps.next_observations, table.scaling)),
        torch.from_numpy((~steps.terminated).astype(np.float32)),
        possible,
    )


class Heads(nn.Module):
    """A trunk and one layer a head over scaled rows: logits, or values."""

    def __init__(self, width: int, heads: Sequence[int], hidden: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        sizes = (width, *hidden)
        self.trunk = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        self.heads = nn.ModuleList([nn.Linear(sizes[-1], size) for size in heads])
        self.activate = ACTIVATIONS[activation]()

    def forward(self, rows: Tensor) -> list[Tensor]:
        """Give one array (n, choices) a head."""
        for layer in self.trunk:
            rows = self.activate(layer(rows))
        return [head(rows) for head in self.heads]

    def weights(self) -> Weights:
        """Give the parameters by the names that policies act by."""
        layers = [(f"trunk.{k}", layer) for k, layer in enumerate(self.trunk)]
        layers += [(f"head.{k}", layer) for k, layer in enumerate(self.heads)]
        return linear_weights({name: layer for name, layer in layers if isinstance(layer, nn.Linear)})


def value_of(values: Sequence[Tensor], actions: Tensor) -> Tensor:
    """Give Q(s, a) of actions (n, heads), the sum over heads, (n,)."""
    return torch.stack([of.gather(1, actions[:, k : k + 1]).squeeze(1) for k, of in enumerate(values)]).sum(dim=0)


def best_of(values: Sequence[Tensor], possible: Tensor | None) -> Tensor:
    """Give the action of the highest value among those possible, (n, heads)."""
    if possible is not None:
        cuts = np.cumsum([of.shape[1] for of in values])[:-1].tolist()
        masks = torch.tensor_split(possible, cuts, dim=1)
        values = [of.masked_fill(~mask, NEVER) for of, mask in zip(values, masks, strict=True)]
    return torch.stack([of.argmax(dim=1) for of in values], dim=1)


@dataclass(frozen=True)
class OfflinePolicy:
    """A policy learned offline."""

    policy: NetworkPolicy
    weights: Mapping[str, NDArray[np.float32]]
    curve: tuple[Losses, ...]
    """Losses of each epoch."""


def learned(table: OfflineSetup, net: Heads, curve: Sequence[Losses], activation: str, masked: bool) -> OfflinePolicy:
    """Give the policy that a network makes."""
    of, weights = table.game.actions[table.actions].possible, net.weights()
    possible = of if masked else None
    policy = NetworkPolicy(table.scaling, table.heads, weights, activation, 1, possible)
    return OfflinePolicy(policy, weights, tuple(curve))


class OfflineLearner(OfflineMethod, Protocol):
    """A method that learns a policy from steps."""

    policy: Heads


C = TypeVar("C", bound=OfflineConfig)


def train_offline(
    make: Callable[[Steps, tuple[int, ...], C], OfflineLearner],
    setup: OfflineSetup,
    steps: Transitions,
    config: C,
    run: Run | None = None,
    notify: Callable[[int, Losses], None] | None = None,
    look: Callable[[int, OfflinePolicy], None] | None = None,
) -> OfflinePolicy:
    """Learn a policy from recorded steps by a method; `look` sees what was learned after each epoch."""
    tensors = to_steps(setup, steps, config.reward_scale, config.masks_targets)

    def show(epoch: int, learner: OfflineLearner) -> None:
        if look is not None:
            look(epoch, learned(setup, learner.policy, (), config.activation, config.masked))

    learner, curve = learn(lambda: make(tensors, setup.heads, config), len(tensors), config.pace, run, notify, show)
    return learned(setup, learner.policy, curve, config.activation, config.masked)


def card_of(
    setup: OfflineSetup, method: str, config: Mapping[str, Any], *, seed: int, reward: Mapping[str, Any], **facts: Any
) -> Card:
    """Describe an offline policy's checkpoint; `facts` as CardFacts, but for what the set-up says."""
    facts |= {"observation": setup.observation, "actions": setup.actions}
    return trained_card(setup.game, "network", method, setup.heads, {**config, "frames": 1}, seed, reward, **facts)
