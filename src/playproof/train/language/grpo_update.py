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


def choose(scored: Sequence[ScoredGroup], model: LanguageModel, lineage: str, newest: int) -> SelectedSamples:
    """Give the answers that may teach, with the advantages of their episodes."""
    lessons: list[tuple[TrainingSample, ...]] = []
    standings: dict[Why, int] = {}
    flat = idle = 0
    for item in scored:
        payload = advantages([BASIS * value for value in item.rewards])
        flat += payload is None
        own: list[TrainingSample] = []
        for index, episode in enumerate(item.group.episodes):
            why = standing(episode, lineage, newest)
            standings[why] = standings.get(why, 0) + 1
            if payload is not None and why == "own":
                own += [
                    TrainingSample(sampled_tokens(exchange, model), payload[index]) for exchange in episode.exchanges
                ]
        idle += payload is not None and not own
        if own:
            lessons.append(tuple(own))
    return SelectedSamples(tuple(lessons), flat, idle, standings)


class GRPOLearner:
    """A policy with its optimiser."""

    def __init__(
        self, result: LanguageModel, learning_rate: float, clipping: Clipping, max_kl: float, warm_up: int = 0
    ) -> None:
        self.language_model, self.clipping, self.max_kl = result, clipping, max_kl
        self.learning_rate, self.warm_up = learning_rate, warm_up
        self.optimiser = make_optimiser(result.model, learning_rate)
        self._parent = {name: item.detach().clone() for name, item in trained(result.model).items()}

    def learn(self, chosen: SelectedSamples, groups_a_step: int, epochs: int, rng: np.random.Generator) -> UpdateStats:
        """Learn from the groups, so many an optimiser step, in an order drawn anew for each pass."""
        update_stats = UpdateStats()
        for _ in range(epochs):
            order = rng.permutation(len(chosen.lessons))
            for start in range(0, len(order), groups_a_step):
                batch = [lesson for at in order[start : start + groups_a_step] for lesson in chosen.lessons[int(at)]]
                self.step(batch, update_stats)
        update_stats.loss /= max(1, update_stats.steps)
        update_stats.clipped /= max(1, update_stats.tokens)
        if chosen.lessons:
            everything = [item for of in chosen.lessons for item in of]
            update_stats.kl = self.moved(everything[:: math.ceil(len(everything) / LOOKED_AT)])
            if not math.isfinite(update_stats.kl) or update_stats.kl > self.max_kl:
                raise Diverged(
                    f"expected an iteration to move the policy by a KL of at most {self.max_kl}, found "
                    f"{update_stats.kl:.3g}; "
                    "lower --learning-rate, or raise max_kl"
                )
        return update_stats

    def step(self, batch: Sequence[TrainingSample], update_stats: UpdateStats) -> None:
        """Take one optimiser step."""
        reference = self._reference(batch) if self.clipping.beta else None
        self.language_model.model.train()
        self.optimiser.zero_grad()
        sequences = [item.tokens for item in batch]
        tokens = sum(len(sequence.answer) for sequence in sequences)
        total, value = len(batch) if self.clipping.averaging == "sequence" else tokens, 0.0
        for scored in score_answers(self.language_model.model, sequences):
            old = torch.tensor([item for number in scored.numbers for item in sequences[number].logprobs or ()])
            loss = grpo_loss(
                scored.logprobs,
                old,
                scored.lengths,
                [batch[number].advantage for number in scored.numbers],
                self.clipping,
                reference=None
                if reference is None
                else torch.tensor([item for number in scored.numbers for item in reference[number]]),
                total=total,
            )
            loss.value.backward()  # type: ignore[no-untyped-call]
            value += float(loss.value.detach())
            update_stats.clipped += loss.clipped
            update_stats.kl_reference += loss.kl_reference / tokens
        norm = float(torch.nn.utils.clip_grad_norm_(list(trained(self.language_model.model).values()), 1.0))
        if not math.isfinite(value) or not math.isfinite(norm):
            raise Diverged(f"expected a finite loss, found {value} with gradient {norm}; lower --learning-rate")
        for param_group in self.optimiser.param_groups:
            param_group["lr"] = self.learning_rate * min(1.0, (self._steps() + 1) / (self.warm_up + 1))
        self.optimiser.step()
        update_stats.loss += value
        update_stats.steps += 1
        update_stats.tokens += tokens
        update_stats.norm = max(update_stats.norm, norm)

    def _steps(self) -> int:
        """Give the optimiser's steps so far, those before a resume included."""
        return max((int(item["step"]) for item in self.optimiser.state.values() if "step" in item), default=0)

    def moved(self, batch: Sequence[TrainingSample]) -> float:
        """Give the mean distance of the policy that drew a token from this one."""
        self.language_model.model.eval()
        now = fixed_answers(self.language_model.model, [item.tokens for item in batch])
        gaps = np.concatenate(
            [np.subtract(values, item.tokens.logprobs or ()) for item, values in zip(batch, now, strict=True)]
        )
        return float(np.mean(np.exp(gaps) - gaps - 1))

    def _reference(self, batch: Sequence[TrainingSample]) -> list[tuple[float, ...]]:
        """Give the answers' log-probabilities under the policy that training began with."""
        with self._as_parent():
            self.language_model.model.eval()
            return fixed_answers(self.language_model.model, [item.tokens for item in batch])

    @contextmanager
    def _as_parent(self) -> Iterator[None]:
        """Put the weights that training began with in place for a while."""
        own: dict[str, Any] = {name: item.detach().clone() for name, item in trained(self.language_model.model).items()}
        _put(self.language_model.model, self._parent)
        try:
            yield
        finally:
            _put(self.language_model.model, own)


def _put(model: Any, values: dict[str, Any]) -> None:
    with torch.no_grad():
        for name, item in trained(model).items():
            item.copy_(values[name])
