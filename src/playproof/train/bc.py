"""Behaviour cloning: learn a player's choices from recorded steps, both heads at once, by log likelihood.

The network is the one that every method trains (fixed scaling, trunk, a layer of logits a head). A
person's state of mind does not stand in one row: with `frames` the network sees the last rows too.
Thresholds, by which people choose, are hard for a smooth network to learn from few rounds: with
`knots` its first layer is laid at quantiles of the demonstrated rows and differences of rows, so that
what follows works on piecewise linear pieces (Gorishniy et al. 2022, piecewise linear encoding).
Several `members` start from different weights and are averaged into one network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from playproof.datasets import Transitions
from playproof.datasets.dataset import first_windows, prior_of, stacked, starts, take
from playproof.errors import UnknownName
from playproof.game import Game, lookup
from playproof.policies.checkpoint import Card
from playproof.policies.network import NetworkPolicy, Possible
from playproof.policies.scaling import Scaling, describe, game_scaling, scale_rows
from playproof.train.cards import CardFacts, trained_card
from playproof.train.config import BcConfig, TreesConfig
from playproof.train.imitation_metrics import HeadMetrics, likeness
from playproof.train.network import ACTIVATIONS
from playproof.train.offline_loop import Losses, learn, one_cycle

if TYPE_CHECKING:
    from playproof.train.bc_trees import CloneTrees
    from playproof.train.run import Run

Floats = NDArray[np.float32]
Weights = dict[str, Floats]

CURVE = (25, 50, 100, 200, 300)
"""Demonstrated rounds of the learning curve."""
NARROWEST = 2e-3
"""Least distance of two knots, in scaled units: below it float32 rounds the pieces away."""
SCREENS = 20
NEVER = -1e9


@dataclass(frozen=True)
class Pieces:
    """Piecewise linear inputs: piece j is how far x[plus] - x[minus] has come from `low` to `low + width`, 0 to 1."""

    plus: NDArray[np.int64]
    minus: NDArray[np.int64]
    """-1: nothing is taken away."""
    low: Floats
    width: Floats
    mean: Floats
    spread: Floats

    def encode(self, scaled: Floats) -> Floats:
        """Give standardised pieces of scaled rows, (n, pieces)."""
        values = scaled[:, self.plus] - np.where(self.minus < 0, np.float32(0), scaled[:, self.minus])
        pieces = np.clip((values - self.low) / self.width, 0.0, 1.0)
        floats: Floats = ((pieces - self.mean) / self.spread).astype(np.float32)
        return floats

    def fold(self, width: int, weight: Floats, bias: Floats) -> Weights:
        """Give the two dense layers that stand for the encoding and the layer (out, pieces) after it.

        Piece j is (relu(u - low) - relu(u - low - width)) / width, a difference of two units.
        """
        count = len(self.plus)
        units = np.zeros((2 * count, width), np.float32)
        indices = np.arange(count)
        for half in (0, count):
            units[indices + half, self.plus] += 1.0
            taken = self.minus >= 0
            units[indices[taken] + half, self.minus[taken]] -= 1.0
        slope = weight.astype(np.float64) / self.spread / self.width
        moved = bias - weight.astype(np.float64) @ (self.mean / self.spread)
        return {
            "trunk.0.weight": units,
            "trunk.0.bias": -np.concatenate([self.low, self.low + self.width]).astype(np.float32),
            "trunk.1.weight": np.concatenate([slope, -slope], axis=1).astype(np.float32),
            "trunk.1.bias": moved.astype(np.float32),
        }


def lay_knots(values: NDArray[np.floating], knots: int) -> list[float]:
    """Give the edges of pieces: at quantiles, and where few values are taken, at those."""
    distinct = np.unique(values)
    edges = distinct
    if len(distinct) > knots + 1:
        edges = np.quantile(values, np.linspace(0, 1, knots + 1))
        if len(np.unique(edges)) < knots // 2:
            edges = np.concatenate([edges, np.quantile(distinct, np.linspace(0, 1, knots // 2 + 1))])
    kept: list[float] = []
    for edge in np.unique(edges).tolist():
        if not kept or edge - kept[-1] >= NARROWEST:
            kept.append(edge)
    return kept


def lay_pieces(scaled: Floats, features: int, config: BcConfig, used: Sequence[int], watched: Sequence[int]) -> Pieces:
    """Cut the used features of the newest row, and the watched changes between rows, into pieces."""
    newest = (config.frames - 1) * features
    inputs = [(newest + index, -1, config.knots) for index in used]
    for back in range(config.frames - 1):
        at = newest - back * features
        inputs += [(at + index, at - features + index, max(2, config.knots // 2)) for index in watched]
    rows: list[tuple[int, int, float, float]] = []
    for plus, minus, knots in inputs:
        values = scaled[:, plus] - (scaled[:, minus] if minus >= 0 else 0.0)
        edges = lay_knots(values, knots)
        rows += [(plus, minus, low, high - low) for low, high in pairwise(edges)]
    ups, downs, lows, widths = (np.array(column) for column in zip(*rows, strict=True))
    nothing, whole = np.zeros(len(rows), np.float32), np.ones(len(rows), np.float32)
    bare = Pieces(ups, downs, lows.astype(np.float32), widths.astype(np.float32), nothing, whole)
    cut = bare.encode(scaled)
    return Pieces(ups, downs, bare.low, bare.width, cut.mean(axis=0), cut.std(axis=0) + np.float32(0.02))


def telling(steps: Transitions, rng: np.random.Generator, draws: int = SCREENS) -> list[int]:
    """Give the places of features to learn from: all that move within windows, and those others that tell something.

    A feature that stands still in a window can tell windows apart and nothing else. It is kept if its
    mutual information with the choices is above that of each of some shuffles of whole windows.
    """
    begins = starts(steps)
    lengths = np.diff(np.r_[begins, len(steps.windows)])
    owner = np.repeat(np.arange(len(begins)), lengths)
    first = steps.observations[begins]
    still = (steps.observations == first[owner]).all(axis=0)
    combined = steps.actions.astype(np.int64) @ np.cumprod([1, *(steps.actions.max(axis=0)[:-1] + 1)])
    codes = np.unique(combined, return_inverse=True)[1]
    kept = np.flatnonzero(~still).tolist()
    for index in np.flatnonzero(still).tolist():
        edges = np.unique(np.quantile(first[:, index], [0.25, 0.5, 0.75]))
        bins = np.searchsorted(edges, first[:, index], side="right")
        real = _information(bins[owner], codes)
        if len(np.unique(bins)) > 1 and all(
            real > _information(rng.permutation(bins)[owner], codes) for _ in range(draws)
        ):
            kept.append(index)
    return sorted(kept)


def _information(bins: NDArray[np.intp], codes: NDArray[np.intp]) -> float:
    """Give the mutual information of two codes, in nats."""
    joint = np.bincount(bins * (codes.max() + 1) + codes, minlength=(bins.max() + 1) * (codes.max() + 1))
    share = joint.reshape(bins.max() + 1, -1) / len(codes)
    product = share.sum(axis=1, keepdims=True) * share.sum(axis=0, keepdims=True)
    filled = share > 0
    return float((share[filled] * np.log(share[filled] / product[filled])).sum())


class Member(nn.Module):
    """One network of the average: trunk and heads over rows that are scaled and cut into pieces already."""

    def __init__(self, width: int, heads: Sequence[int], config: BcConfig) -> None:
        super().__init__()
        sizes = (width, *config.hidden)
        self.trunk = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        self.heads = nn.ModuleList([nn.Linear(sizes[-1], size) for size in heads])
        self.activate, self.drop = ACTIVATIONS[config.activation](), nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Give logits by head, (n, choices)."""
        for layer in self.trunk:
            x = self.drop(self.activate(layer(x)))
        return [head(x) for head in self.heads]


class CloningLearner:
    """Members in training, each by the log likelihood of the same batches."""

    def __init__(self, inputs: Floats, actions: NDArray[np.int16], heads: Sequence[int], config: BcConfig) -> None:
        self.config, self.inputs = config, torch.from_numpy(inputs)
        self.actions = torch.from_numpy(actions.astype(np.int64))
        self.module = nn.ModuleList([Member(inputs.shape[1], heads, config) for _ in range(config.members)])
        self.optimizers = [
            torch.optim.AdamW(
                self.module.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, foreach=True
            )
        ]
        self.weights = [torch.from_numpy(weight) for weight in class_weights(actions, heads)]
        self.masks: list[Tensor] | None = None

    def update(self, batch: Tensor, share: float) -> Losses:
        """Learn from one batch."""
        one_cycle(self.optimizers[0], self.config.learning_rate, share)
        rows, chosen = self.inputs[batch], self.actions[batch]
        total = torch.zeros(())
        payload: dict[str, float] = {}
        for member in self.module:
            for head, logits in enumerate(member(rows)):
                loss = self._loss(logits, chosen[:, head], head, batch)
                total = total + loss
                payload[f"head_{head}"] = payload.get(f"head_{head}", 0.0) + float(loss.detach()) / len(self.module)
        self.optimizers[0].zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        self.optimizers[0].step()
        return {"loss": sum(payload.values()), **payload}

    def _loss(self, logits: Tensor, chosen: Tensor, head: int, batch: Tensor) -> Tensor:
        if self.masks is not None:
            possible = self.masks[head][batch]
            kept = possible.gather(1, chosen[:, None]).squeeze(1)
            logits, chosen = logits.masked_fill(~possible, NEVER)[kept], chosen[kept]
        return cross_entropy(logits, chosen, self.weights[head] if self.config.class_weights else None)


def class_weights(actions: NDArray[np.int16], heads: Sequence[int]) -> list[Floats]:
    """Give each choice's weight: 1 over how often it was demonstrated, 1 on average over steps; 1 if it never was."""
    results = []
    for prior in prior_of(actions, heads):
        shown = prior > 0
        results.append(np.where(shown, 1.0 / np.maximum(prior, 1e-12) / shown.sum(), 1.0).astype(np.float32))
    return results


def merge(members: nn.ModuleList, pieces: Pieces | None, width: int) -> Weights:
    """Write the average of the members' logits as one network, its layers block by block."""
    depth, count = len(members[0].trunk), len(members)  # type: ignore[arg-type]

    def arrays(name: str, index: int) -> tuple[list[Floats], list[Floats]]:
        layers: list[Any] = [getattr(member, name)[index] for member in members]
        return [layer.weight.detach().numpy() for layer in layers], [layer.bias.detach().numpy() for layer in layers]

    first, bias = (np.concatenate(array) for array in arrays("trunk", 0))
    result: Weights = {"trunk.0.weight": first, "trunk.0.bias": bias}
    if pieces is not None:
        result = pieces.fold(width, first, bias)
    ahead = 1 if pieces is not None else 0
    for position in range(1, depth):
        weights, biases = arrays("trunk", position)
        result[f"trunk.{position + ahead}.weight"] = _block_diagonal(weights)
        result[f"trunk.{position + ahead}.bias"] = np.concatenate(biases)
    for head in range(len(members[0].heads)):  # type: ignore[arg-type]
        weights, biases = arrays("heads", head)
        result[f"head.{head}.weight"] = np.concatenate(weights, axis=1) / np.float32(count)
        result[f"head.{head}.bias"] = np.mean(biases, axis=0, dtype=np.float32)
    return {name: np.ascontiguousarray(value, np.float32) for name, value in result.items()}


def _block_diagonal(blocks: Sequence[Floats]) -> Floats:
    rows, columns = sum(item.shape[0] for item in blocks), sum(item.shape[1] for item in blocks)
    result, row, column = np.zeros((rows, columns), np.float32), 0, 0
    for block in blocks:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return result


@dataclass(frozen=True)
class Clone:
    """A cloned player."""

    policy: NetworkPolicy
    weights: Mapping[str, Floats]
    config: BcConfig
    curve: tuple[Losses, ...]
    """Losses of each epoch."""
    used: tuple[str, ...]
    """Features it learned from."""

    def chances(self, steps: Transitions) -> tuple[Floats, ...]:
        """Give the chances of each head's choices at recorded steps, with the rows before them."""
        return self.policy.probabilities(stacked(steps, self.config.frames))

    def likeness(self, steps: Transitions, demonstrated: Transitions, names: Sequence[Sequence[str]]) -> Likenesses:
        """Score the clone on steps of windows that it has not seen."""
        return likeness(self.chances(steps), steps.actions, demonstrated.actions, names)


Likenesses = tuple[HeadMetrics, ...]


def clone(
    game: Game,
    steps: Transitions,
    config: BcConfig,
    *,
    observation: str = "policy",
    actions: str | None = None,
    run: Run | None = None,
    notify: Callable[[int, Losses], None] | None = None,
) -> Clone:
    """Clone the player of some steps; rows are those of the observation set, windows stand together."""
    scaling = game_scaling(game, _features(game, observation))
    names = tuple(scaling.names)
    of = lookup(game.actions, actions or next(iter(game.actions)), "action set")
    sizes = tuple(map(len, of.heads))
    rows = stacked(steps, config.frames)
    scaled = scale_rows(rows, scaling.stacked(config.frames))
    used = telling(steps, np.random.default_rng(config.seed)) if config.screen else list(range(len(names)))
    pieces = _pieces(scaled, scaling, config, used)
    inputs = pieces.encode(scaled) if pieces is not None else _only(scaled, used, config.frames, len(names))
    possible: Possible | None = of.possible if config.masked else None

    def make() -> CloningLearner:
        cloning = CloningLearner(inputs, steps.actions, sizes, config)
        if possible is not None:
            masks = np.split(possible(steps.observations, names), np.cumsum(sizes)[:-1], axis=1)
            cloning.masks = [torch.from_numpy(np.ascontiguousarray(mask)) for mask in masks]
        return cloning

    cloning, curve = learn(make, len(inputs), config.pace, run, notify)
    weights = merge(cloning.module, pieces, scaled.shape[1])
    policy = NetworkPolicy(
        scaling,
        sizes,
        weights,
        config.activation,
        config.frames,
        possible,
        offsets(steps, sizes, config),
        config.exclusive,
    )
    return Clone(policy, weights, config, tuple(curve), tuple(names[index] for index in used))


def _features(game: Game, observation: str) -> tuple[str, ...]:
    names: tuple[str, ...] = describe(game, observation)["features"]
    return names


def _pieces(scaled: Floats, scaling: Scaling, config: BcConfig, used: Sequence[int]) -> Pieces | None:
    if not config.knots:
        return None
    for name in config.watched:
        if name not in scaling.names:
            raise UnknownName("feature", name, scaling.names)
    watched = [scaling.names.index(name) for name in config.watched]
    return lay_pieces(scaled, len(scaling.names), config, used, watched)


def _only(scaled: Floats, used: Sequence[int], frames: int, features: int) -> Floats:
    """Blot out the features that are not learned from."""
    if len(used) == features:
        return scaled
    kept = np.zeros(features, np.float32)
    kept[list(used)] = 1.0
    floats: Floats = scaled * np.tile(kept, frames)
    return floats


def offsets(steps: Transitions, sizes: Sequence[int], config: BcConfig) -> tuple[float, ...]:
    """Give what takes class weights back when the clone acts; nothing without them."""
    if not config.class_weights:
        return ()
    weights = np.concatenate(class_weights(steps.actions, sizes))
    return tuple((-np.log(weights)).tolist())


def card_of(game: Game, made: Clone, **facts: Unpack[CardFacts]) -> Card:
    """Describe a clone's checkpoint."""
    shape = {
        "hidden": [len(made.weights[f"trunk.{k}.bias"]) for k in range(_depth(made.weights))],
        "activation": made.config.activation,
        "frames": made.config.frames,
        "masked": made.config.masked,
        "exclusive": made.config.exclusive,
        **({"offsets": list(made.policy.offsets)} if made.policy.offsets else {}),
    }
    config = {**asdict(made.config), "used": list(made.used), **shape}
    return trained_card(game, "network", "bc", made.policy.heads, config, made.config.seed, **facts)


def _depth(weights: Mapping[str, Floats]) -> int:
    return sum(1 for name in weights if name.startswith("trunk.") and name.endswith(".bias"))


def learning_curve(
    game: Game,
    steps: Transitions,
    unseen: Transitions,
    config: BcConfig | TreesConfig,
    *,
    observation: str = "policy",
    actions: str | None = None,
    counts: Sequence[int] = CURVE,
    notify: Callable[[int, Likenesses], None] | None = None,
) -> dict[int, Likenesses]:
    """Clone from the first 25, 50, ... windows and score each clone on the same unseen ones."""
    from playproof.train.bc_trees import clone_habits

    names = lookup(game.actions, actions or next(iter(game.actions)), "action set").heads
    scores: dict[int, Likenesses] = {}
    total = len(starts(steps))
    for count in sorted({min(count, total) for count in counts}):
        part = first_windows(steps, count)
        made: Clone | CloneTrees
        if isinstance(config, BcConfig):
            made = clone(game, part, config, observation=observation, actions=actions)
        else:
            made = clone_habits(game, part, config, observation=observation, actions=actions)
        scores[count] = made.likeness(unseen, steps, names)
        if notify is not None:
            notify(count, scores[count])
    return scores


__all__ = [
    "CURVE",
    "BcConfig",
    "Clone",
    "card_of",
    "clone",
    "learning_curve",
    "take",
]
