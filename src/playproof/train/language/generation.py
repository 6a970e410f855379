"""Answers to many prompts at once: shared beginnings are computed once, and all answers grow side by side in one cache.

The prompts are one row of a prefix tree; each step feeds one token for every answer that has not ended, and a mask
lets it see its own prompt and its own answer alone; answers that are the same so far are read once. Log-probabilities
are the model's own at temperature 1, which is what answers are drawn with unless told otherwise.
Leaves out: stop texts, and serving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from playproof.train.language.prefix import BUDGET, PackedPrefixes, pack_rows

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class SampledAnswer:
    """One answer as it was drawn."""

    token_ids: tuple[int, ...]
    """The token that ends it is the last one, where the model wrote it."""
    logprobs: tuple[float, ...]
    ended: bool


@torch.inference_mode()
def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    ends: frozenset[int],
    limit: int,
    generator: torch.Generator,
    temperature: float = 1.0,
    budget: int = BUDGET,
) -> list[SampledAnswer]:
    """Draw an answer of at most `limit` tokens to every prompt; temperature 0 takes the likeliest."""
    sampled_answers: list[SampledAnswer | None] = [None] * len(prompts)
    for numbers, row in pack_rows(prompts, budget):
        growing = _PartialAnswers(model, row, limit)
        for number, drawn in zip(numbers, growing.draw(ends, generator, temperature), strict=True):
            sampled_answers[number] = drawn
    return [drawn for drawn in sampled_answers if drawn is not None]


class _PartialAnswers:
    """Answers to the prompts of one row; answers that are the same so far are one branch."""

    def __init__(self, model: Any, row: PackedPrefixes, limit: int) -> None:
        self.model, self.limit = model, limit
        self.count, self.length = len(row.indices), len(row.ids)
        indices, which = np.unique(row.ends, return_inverse=True)
        self.branch = torch.from_numpy(which)  # (answers,): which branch each is on
        self.depths = torch.from_numpy(row.positions[indices])  # (branches,)
        self.visible = torch.from_numpy(row.visible[indices])  # (branches, tokens so far)
        payload = model(
            input_ids=torch.from_numpy(row.ids)[None],
            position_ids=torch.from_numpy(row.positions)[None],
            attention_mask=torch.from_numpy(row.visible)[None, None],
            use_cache=True,
            logits_to_keep=torch.from_numpy(indices),
        )
        self.cache, self.logits = payload.past_key_values, payload.logits[0]  # (branches, vocabulary)

    def draw(self, ends: frozenset[int], generator: torch.Generator, temperature: float) -> list[SampledAnswer]:
        """Draw until every answer has ended or the limit is reached."""
        ids: list[list[int]] = [[] for _ in range(self.count)]
        logprobs: list[list[float]] = [[] for _ in range(self.count)]
        active = torch.arange(self.count)
        for step in range(self.limit):
            own = torch.log_softmax(self.logits.float(), -1)[self.branch[active]]
            tokens = _choose(own, temperature, generator)
            values = own.gather(1, tokens[:, None])[:, 0]
            for at, token, value in zip(active.tolist(), tokens.tolist(), values.tolist(), strict=True):
                ids[at].append(token)
                logprobs[at].append(value)
            going = torch.tensor([token not in ends for token in tokens.tolist()])
            active, tokens = active[going], tokens[going]
            if not len(active) or step + 1 == self.limit:
                break
            self._feed(active, tokens)
        return [
            SampledAnswer(tuple(item), tuple(logprob), item[-1] in ends)
            for item, logprob in zip(ids, logprobs, strict=True)
        ]

    def _feed(self, active: Tensor, tokens: Tensor) -> None:
        """Let the model read the next token of every branch that the active answers are on."""
        pairs, which = torch.unique(torch.stack([self.branch[active], tokens]), dim=1, return_inverse=True)
        before, after = pairs[0], pairs[1]  # (branches,): the branch that each goes on from, and its new token
        self.branch[active] = which
        own = torch.eye(len(after), dtype=torch.bool)
        self.visible = torch.cat([self.visible[before], own], 1)
        self.depths = self.depths[before] + 1
        payload = self.model(
            input_ids=after[None],
            position_ids=self.depths[None],
            attention_mask=self.visible[None, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        self.logits = payload.logits[0]


def _choose(own: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Draw a token of every row of log-probabilities (n, vocabulary)."""
    if temperature <= 0:
        return own.argmax(-1)
    return torch.multinomial(torch.softmax(own / temperature, -1), 1, generator=generator)[:, 0]
