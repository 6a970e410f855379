"""One iteration of GRPO: from scored groups to a changed policy.

Mean and spread of a group come from all its episodes; gradients come from the policy's own ones alone, those of its
last two versions. Groups without spread and episodes that may not teach are counted, never used.
Leaves out: where groups come from (grpo_sources), and the run (grpo).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from playproof.datasets.conversations.groups import TokenSequence, Why, sampled_tokens, standing
from playproof.errors import Diverged
from playproof.train.language.grpo_loss import Clipping, advantages, grpo_loss
from playproof.train.language.grpo_sources import ScoredGroup
from playproof.train.language.logprobs import fixed_answers, score_answers
from playproof.train.language.model import LanguageModel
from playproof.train.language.state import make_optimiser, trained

BASIS = 1e4
"""Rewards are returns; in basis points the 1e-4 beside a spread is nothing."""

LOOKED_AT = 64
"""The most answers, spread over all, by which it is measured how far an iteration has moved the policy."""


@dataclass(frozen=True)
class TrainingSample:
    """One answer to learn from."""

    tokens: TokenSequence
    advantage: float


@dataclass(frozen=True)
class SelectedSamples:
    """What scored groups give to learn from, and what they do not."""

    lessons: tuple[tuple[TrainingSample, ...], ...]
    """By group."""
    flat: int
    """Groups whose rewards are all alike."""
    idle: int
    """Groups with a spread but no episode of the policy's own."""
    standings: dict[Why, int]


@dataclass
class UpdateStats:
    """What an iteration did."""

    loss: float = 0.0
    """Mean over the optimiser's steps."""
    steps: int = 0
    tokens: int = 0
    clipped: float = 0.0
    """Share of tokens whose ratio was cut."""
    kl: float = 0.0
    """Mean distance of a token from the policy that drew it, at the last look."""
    kl_reference: float = 0.0
    norm: float = 0.0
    """Largest gradient."""
    extra: dict[str, float] = field(default_factory=dict)


def choose(scored: Sequence[ScoredGroup], found: LanguageModel, lineage: str, newest: int) -> SelectedSamples:
    """Give the answers that may teach, with the advantages of their episodes."""
    lessons: list[tuple[TrainingSample, ...]] = []
    standings: dict[Why, int] = {}
    flat = idle = 0
    for each in scored:
        told = advantages([BASIS * value for value in each.rewards])
        flat += told is None
        own: list[TrainingSample] = []
        for place, episode in enumerate(each.group.episodes):
            why = standing(episode, lineage, newest)
            standings[why] = standings.get(why, 0) + 1
            if told is not None and why == "own":
                own += [TrainingSample(sampled_tokens(it, found), told[place]) for it in episode.exchanges]
        idle += told is not None and not own
        if own:
            lessons.append(tuple(own))
    return SelectedSamples(tuple(lessons), flat, idle, standings)


class GRPOLearner:
    """A policy with its optimiser."""

    def __init__(
        self, found: LanguageModel, learning_rate: float, clipping: Clipping, max_kl: float, warm_up: int = 0
    ) -> None:
        self.found, self.clipping, self.max_kl = found, clipping, max_kl
        self.learning_rate, self.warm_up = learning_rate, warm_up
        self.optimiser = make_optimiser(found.model, learning_rate)
        self._parent = {name: each.detach().clone() for name, each in trained(found.model).items()}

    def learn(self, chosen: SelectedSamples, groups_a_step: int, epochs: int, rng: np.random.Generator) -> UpdateStats:
        """Learn from the groups, so many an optimiser step, in an order drawn anew for each pass."""
        told = UpdateStats()
        for _ in range(epochs):
            order = rng.permutation(len(chosen.lessons))
            for start in range(0, len(order), groups_a_step):
                batch = [it for at in order[start : start + groups_a_step] for it in chosen.lessons[int(at)]]
                self.step(batch, told)
        told.loss /= max(1, told.steps)
        told.clipped /= max(1, told.tokens)
        if chosen.lessons:
            everything = [it for of in chosen.lessons for it in of]
            told.kl = self.moved(everything[:: math.ceil(len(everything) / LOOKED_AT)])
            if not math.isfinite(told.kl) or told.kl > self.max_kl:
                raise Diverged(
                    f"expected an iteration to move the policy by a KL of at most {self.max_kl}, found {told.kl:.3g}; "
                    "lower --learning-rate, or raise max_kl"
                )
        return told

    def step(self, batch: Sequence[TrainingSample], told: UpdateStats) -> None:
        """Take one optimiser step."""
        reference = self._reference(batch) if self.clipping.beta else None
        self.found.model.train()
        self.optimiser.zero_grad()
        sequences = [it.tokens for it in batch]
        tokens = sum(len(it.answer) for it in sequences)
        total, value = len(batch) if self.clipping.averaging == "sequence" else tokens, 0.0
        for scored in score_answers(self.found.model, sequences):
            old = torch.tensor([it for number in scored.numbers for it in sequences[number].logprobs or ()])
            loss = grpo_loss(
                scored.logprobs,
                old,
                scored.lengths,
                [batch[number].advantage for number in scored.numbers],
                self.clipping,
                reference=None
                if reference is None
                else torch.tensor([it for number in scored.numbers for it in reference[number]]),
                total=total,
            )
            loss.value.backward()  # type: ignore[no-untyped-call]
            value += float(loss.value.detach())
            told.clipped += loss.clipped
            told.kl_reference += loss.kl_reference / tokens
        norm = float(torch.nn.utils.clip_grad_norm_(list(trained(self.found.model).values()), 1.0))
        if not math.isfinite(value) or not math.isfinite(norm):
            raise Diverged(f"expected a finite loss, found {value} with gradient {norm}; lower --learning-rate")
        for each in self.optimiser.param_groups:
            each["lr"] = self.learning_rate * min(1.0, (self._steps() + 1) / (self.warm_up + 1))
        self.optimiser.step()
        told.loss += value
        told.steps += 1
        told.tokens += tokens
        told.norm = max(told.norm, norm)

    def _steps(self) -> int:
        """Give the optimiser's steps so far, those before a resume included."""
        return max((int(it["step"]) for it in self.optimiser.state.values() if "step" in it), default=0)

    def moved(self, batch: Sequence[TrainingSample]) -> float:
        """Give the mean distance of the policy that drew a token from this one."""
        self.found.model.eval()
        now = fixed_answers(self.found.model, [it.tokens for it in batch])
        gaps = np.concatenate(
            [np.subtract(values, it.tokens.logprobs or ()) for it, values in zip(batch, now, strict=True)]
        )
        return float(np.mean(np.exp(gaps) - gaps - 1))

    def _reference(self, batch: Sequence[TrainingSample]) -> list[tuple[float, ...]]:
        """Give the answers' log-probabilities under the policy that training began with."""
        with self._as_parent():
            self.found.model.eval()
            return fixed_answers(self.found.model, [it.tokens for it in batch])

    @contextmanager
    def _as_parent(self) -> Iterator[None]:
        """Put the weights that training began with in place for a while."""
        own: dict[str, Any] = {name: each.detach().clone() for name, each in trained(self.found.model).items()}
        _put(self.found.model, self._parent)
        try:
            yield
        finally:
            _put(self.found.model, own)


def _put(model: Any, values: dict[str, Any]) -> None:
    with torch.no_grad():
        for name, each in trained(model).items():
            each.copy_(values[name])
