"""A trained network that acts with numpy alone: fixed scaling, a trunk, one layer of logits a head.

Parameters, by name: `trunk.K.weight` (out, in) and `trunk.K.bias`, then `head.K.weight` and
`head.K.bias`. A recurrent network has `memory.weight_ih` (4 h, in), `memory.weight_hh` (4 h, h) and
two biases before its trunk: an LSTM with gates in, forget, cell, out. A critic (`critic.*`) may lie
beside them; acting does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.game import Action, Observation
from playproof.json_types import Json
from playproof.policies.one_row import SingleRowNetwork
from playproof.policies.scaling import Scaling, scale_rows

if TYPE_CHECKING:
    from playproof.policies.checkpoint import Checkpoint

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Rng = np.random.Generator
Possible = Callable[[Floats, tuple[str, ...]], Mask]
Weights = Mapping[str, Floats]

ACTIVATIONS: Mapping[str, Callable[[Floats], Floats]] = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}
NEVER = np.float32(-1e9)
"""Logit of a choice that is masked out."""


def layers(weights: Weights, part: str) -> tuple[tuple[Floats, Floats], ...]:
    """Give the layers of one part in their order, each as (weight transposed, bias)."""
    count = sum(1 for name in weights if name.startswith(f"{part}.") and name.endswith(".weight"))
    pairs = [(weights.get(f"{part}.{k}.weight"), weights.get(f"{part}.{k}.bias")) for k in range(count)]
    for weight, bias in pairs:
        if weight is None or bias is None or weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise InputError(f"expected {part}.0 to {part}.{count - 1}, each with weight (out, in) and bias (out,)")
    return tuple((np.ascontiguousarray(weight.T), bias) for weight, bias in pairs)  # type: ignore[union-attr,misc]


@dataclass(frozen=True)
class NetworkPolicy:
    """Choose by a network's logits, greedily or by chance."""

    scaling: Scaling
    """Of one frame."""
    heads: tuple[int, ...]
    weights: Weights
    activation: str = "tanh"
    frames: int = 1
    """Observations that lie side by side in what the network sees, the newest last."""
    possible: Possible | None = None
    """Tells from rows which choices can have an effect, where nobody gives masks."""
    offsets: tuple[float, ...] = ()
    """Added to the logits, heads side by side: a correction for class weights or priors."""
    exclusive: bool = False
    """By chance, act with at most one head a step, as players do who press one button after the other."""
    masked: bool = True
    """Heed masks; a policy that learned without them acts without them, as it learned."""
    _scaling: Scaling = field(init=False, repr=False)
    _trunk: tuple[tuple[Floats, Floats], ...] = field(init=False, repr=False)
    _out: tuple[Floats, Floats] = field(init=False, repr=False)
    _memory: tuple[Floats, Floats, Floats] | None = field(init=False, repr=False)
    _bounds: tuple[tuple[int, int], ...] = field(init=False, repr=False)
    _spare: list[SingleRowNetwork] = field(init=False, repr=False, compare=False)
    """Arrays for single rows that no thread is using."""

    def __post_init__(self) -> None:
        heads = layers(self.weights, "head")
        if tuple(len(bias) for _, bias in heads) != self.heads:
            raise InputError(f"expected heads of {self.heads} choices, found {[len(bias) for _, bias in heads]}")
        out = np.concatenate([weight for weight, _ in heads], axis=1)
        bias = np.concatenate([bias for _, bias in heads])
        if self.offsets:
            bias = bias + np.asarray(self.offsets, np.float32)
        ends = np.cumsum(self.heads).tolist()
        for name, value in {
            "_scaling": self.scaling.stacked(self.frames),
            "_trunk": layers(self.weights, "trunk"),
            "_out": (np.ascontiguousarray(out), bias),
            "_memory": _memory(self.weights),
            "_bounds": tuple(zip([0, *ends[:-1]], ends, strict=True)),
            "_spare": [],
        }.items():
            object.__setattr__(self, name, value)
        self._check_widths()

    def _check_widths(self) -> None:
        """Refuse layers that do not fit together."""
        width = len(self._scaling.names)
        if self._memory is not None:
            if self._memory[0].shape[0] != width:
                raise InputError(f"expected a memory that takes {width} numbers, found {self._memory[0].shape[0]}")
            width = self._memory[1].shape[0]
        for weight, bias in (*self._trunk, self._out):
            if weight.shape != (width, len(bias)):
                raise InputError(
                    f"expected a layer that takes {width} numbers, found one of shape {weight.shape[::-1]}"
                )
            width = len(bias)

    @property
    def features(self) -> tuple[str, ...]:
        """Name the places of a row."""
        return self.scaling.names

    @property
    def recurrent(self) -> int:
        """Give how many numbers the memory holds; 0 where there is none."""
        return 0 if self._memory is None else self._memory[1].shape[0]

    def logits(self, rows: NDArray[np.floating], memory: Floats | None = None) -> Floats:
        """Give the logits of rows (..., features x frames), heads side by side; a memory (2, n, h) is moved on."""
        x = scale_rows(rows, self._scaling)
        if self._memory is not None:
            x = _remember(x, self._memory, np.zeros((2, *x.shape[:-1], self.recurrent)) if memory is None else memory)
        activate = ACTIVATIONS[self.activation]
        for weight, bias in self._trunk:
            x = activate(x @ weight + bias)
        return x @ self._out[0] + self._out[1]

    def masked_logits(self, rows: Floats, masks: Mask | None, memory: Floats | None = None) -> Floats:
        """Give logits with those of impossible choices put out of reach."""
        logits = self.logits(rows, memory)
        if not self.masked:
            return logits
        if masks is None and self.possible is not None:
            masks = self.possible(rows[..., -len(self.features) :], self.features)
        return logits if masks is None else np.where(masks, logits, NEVER)

    def probabilities(self, rows: Floats, masks: Mask | None = None) -> tuple[Floats, ...]:
        """Give the chance of each choice, one array (n, choices) a head."""
        logits = self.masked_logits(rows, masks)
        return tuple(softmax(logits[:, start:end]) for start, end in self._bounds)

    def act_batch(
        self, rows: Floats, masks: Mask | None = None, rng: Rng | None = None, memory: Floats | None = None
    ) -> NDArray[np.int64]:
        """Choose for rows (n, features x frames) an action each, (n, heads); greedily where no rng is given."""
        logits = self.masked_logits(rows, masks, memory)
        if rng is not None and self.exclusive:
            return draw_one([softmax(logits[:, start:end]) for start, end in self._bounds], rng)
        if rng is not None:
            logits = logits + rng.gumbel(size=logits.shape).astype(np.float32)
        chosen = [logits[:, start:end].argmax(axis=1) for start, end in self._bounds]
        return np.stack(chosen, axis=1)

    def act(self, observation: Observation) -> Action:
        """Choose greedily for one observation; a policy with frames or memory is seated first (`NetworkSingleEnv`)."""
        if self.frames > 1 or self._memory is not None:
            raise InputError("expected a policy without frames or memory, found one with; call Seat(policy).act")
        return self.choose(observation)  # type: ignore[arg-type]

    def choose(self, row: Floats, mask: Mask | None = None, memory: Floats | None = None) -> tuple[int, ...]:
        """Choose greedily for one row (features x frames,)."""
        if not self.masked:
            mask = None
        elif mask is None and self.possible is not None:
            mask = self.possible(row[None, -len(self.features) :], self.features)[0]
        if self._memory is not None or row.dtype != np.float32:
            return self._highest(self.logits(row, memory), mask)
        try:
            arrays = self._spare.pop()
        except IndexError:
            arrays = SingleRowNetwork(self._scaling, (*self._trunk, self._out), self.activation)
        chosen = self._highest(arrays.logits(row), mask)
        self._spare.append(arrays)
        return chosen

    def _highest(self, logits: Floats, mask: Mask | None) -> tuple[int, ...]:
        """Give the choice of the highest logit of each head among those that are possible."""
        if mask is not None:
            logits = np.where(mask, logits, NEVER)
        return tuple([int(logits[start:end].argmax()) for start, end in self._bounds])


def draw_one(chances: Sequence[Floats], rng: Rng) -> NDArray[np.int64]:
    """Draw an action a row of which at most one head is not its first choice, with the heads' own chances, (n, heads).

    Heads that are never used together are told apart by their chances alone; where these add up to more
    than 1 they are scaled down.
    """
    acts = np.concatenate([of[:, 1:] for of in chances], axis=1)
    limits = np.cumsum(acts / np.maximum(acts.sum(axis=1, keepdims=True), 1.0), axis=1)
    drawn = (rng.random((len(acts), 1)) >= limits).sum(axis=1)
    result, start = np.zeros((len(acts), len(chances)), np.int64), 0
    for head, of in enumerate(chances):
        width = of.shape[1] - 1
        inside = (drawn >= start) & (drawn < start + width)
        result[inside, head] = drawn[inside] - start + 1
        start += width
    return result


def softmax(logits: Floats) -> Floats:
    """Turn logits into chances, along the last axis."""
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = grown / grown.sum(axis=-1, keepdims=True)
    return shares


def _memory(weights: Weights) -> tuple[Floats, Floats, Floats] | None:
    """Give the LSTM's weights transposed, and its biases added up."""
    if "memory.weight_ih" not in weights:
        return None
    biases = weights["memory.bias_ih"] + weights["memory.bias_hh"]
    transposed = [np.ascontiguousarray(weights[f"memory.weight_{part}"].T) for part in ("ih", "hh")]
    return transposed[0], transposed[1], biases


def _remember(x: Floats, lstm: tuple[Floats, Floats, Floats], memory: Floats) -> Floats:
    """Move an LSTM on by one step; `memory` holds its output and its cell, and is written in place."""
    gates = x @ lstm[0] + memory[0].astype(np.float32) @ lstm[1] + lstm[2]
    let_in, forget, cell, let_out = np.split(gates, 4, axis=-1)
    memory[1] = _sigmoid(forget) * memory[1] + _sigmoid(let_in) * np.tanh(cell)
    memory[0] = _sigmoid(let_out) * np.tanh(memory[1])
    remembered: Floats = memory[0].astype(np.float32)
    return remembered


def _sigmoid(x: Floats) -> Floats:
    return np.float32(1.0) / (np.float32(1.0) + np.exp(-x))


class ActsOnBatches(Protocol):
    """What can choose for many rows at once."""

    def act_batch(self, rows: Floats, masks: Mask | None = None, rng: Rng | None = None) -> NDArray[np.int64]:
        """Choose for rows (n, features) an action each, (n, heads)."""


@dataclass
class _NetworkMemory:
    """What a player remembers of its lanes."""

    rng: Rng
    frames: Floats | None
    """Rows of the last frames, (n, frames, features), once the first was seen."""
    memory: Floats | None
    fresh: Mask
    """Lanes whose window begins with the next row."""


@dataclass(frozen=True)
class BatchPlayer:
    """Play a policy that acts on batches in many lanes at once (playproof.game.vector_env.BatchPolicy)."""

    policy: ActsOnBatches
    sample: bool = False
    """Choose by chance rather than greedily."""

    def start(self, lanes: int, rng: Rng) -> _NetworkMemory:
        """Remember nothing of so many lanes."""
        width = getattr(self.policy, "recurrent", 0)
        memory = np.zeros((2, lanes, width), np.float32) if width else None
        return _NetworkMemory(rng, None, memory, np.ones(lanes, np.bool_))

    def begin(self, state: _NetworkMemory, chosen: Mask) -> None:
        """Forget what is remembered of the chosen lanes."""
        state.fresh |= chosen

    def act(self, obs: Floats, state: _NetworkMemory) -> NDArray[np.int64]:
        """Choose for every lane."""
        return self._act(obs, None, state)

    def act_masked(self, obs: Floats, masks: Mask, state: _NetworkMemory) -> NDArray[np.int64]:
        """Choose for every lane among what can have an effect."""
        return self._act(obs, masks, state)

    def _act(self, obs: Floats, masks: Mask | None, state: _NetworkMemory) -> NDArray[np.int64]:
        rows = stack_frames(obs, state, getattr(self.policy, "frames", 1))
        rng = state.rng if self.sample else None
        more: Json = {}
        if state.memory is not None:
            state.memory[:, state.fresh] = 0.0
            more["memory"] = state.memory
        state.fresh[:] = False
        return self.policy.act_batch(rows, masks, rng, **more)


def stack_frames(obs: Floats, state: _NetworkMemory, frames: int) -> Floats:
    """Lay the last frames side by side, the newest last; a window's first row stands for those before it."""
    if frames == 1:
        return obs
    if state.frames is None:
        state.frames = np.repeat(obs[:, None, :], frames, axis=1)
    state.frames[:, :-1] = state.frames[:, 1:]
    state.frames[:, -1] = obs
    state.frames[state.fresh] = obs[state.fresh][:, None, :]
    return state.frames.reshape(len(obs), -1)


class NetworkSingleEnv:
    """Sit a network down in one lane: row in, action out (playproof.game.Policy), frames and memory kept."""

    def __init__(self, policy: ActsOnBatches, rng: Rng | None = None) -> None:
        self._player = BatchPlayer(policy, sample=rng is not None)
        self._state = self._player.start(1, rng or np.random.default_rng(0))

    def begin(self) -> None:
        """Begin a window."""
        self._state.fresh[:] = True

    def act(self, observation: Observation, mask: Mask | None = None) -> Action:
        """Choose for one row."""
        row = np.asarray(observation, np.float32)[None, :]
        chosen = (
            self._player.act(row, self._state)
            if mask is None
            else self._player.act_masked(row, mask[None, :], self._state)
        )
        return tuple(chosen[0].tolist())


def from_checkpoint(checkpoint: Checkpoint, possible: Possible | None = None) -> NetworkPolicy:
    """Make the policy of a checkpoint of kind `network`."""
    card, config = checkpoint.card, checkpoint.card.config
    offsets: Sequence[float] = config.get("offsets", ())
    return NetworkPolicy(
        checkpoint.scaling,
        card.heads,
        checkpoint.weights,
        config.get("activation", "tanh"),
        config.get("frames", 1),
        possible if config.get("masked", True) else None,
        tuple(offsets),
        config.get("exclusive", False),
        card.method != "ppo" or config.get("masked", True),
    )
