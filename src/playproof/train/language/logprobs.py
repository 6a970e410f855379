"""Log-probabilities of answers under a model, with gradients, every shared beginning computed once.

Leaves out: losses (grpo_loss, sft).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from playproof.datasets.conversations.groups import TokenSequence
from playproof.train.language.prefix import BUDGET, PackedPrefixes, pack_rows

Tensor = torch.Tensor


@dataclass(frozen=True)
class ScoredAnswers:
    """Answers of one row, end to end."""

    numbers: list[int]
    """Which of the sequences they belong to, in this order."""
    lengths: list[int]
    logprobs: Tensor  # (t,)


def score_answers(model: Any, sequences: Sequence[TokenSequence], budget: int = BUDGET) -> Iterator[ScoredAnswers]:
    """Give the log-probabilities of every answer's tokens, row by row, so that a row's graph can go."""
    for numbers, row in pack_rows([sequence.ids for sequence in sequences], budget):
        lengths = [len(sequences[number].answer) for number in numbers]
        yield ScoredAnswers(numbers, lengths, _logprobs(model, row, lengths))


def _logprobs(model: Any, row: PackedPrefixes, lengths: Sequence[int]) -> Tensor:
    """Give the log-probabilities of each sequence's last tokens, end to end."""
    before = np.concatenate([index[-n - 1 : -1] for index, n in zip(row.indices, lengths, strict=True)])
    tokens = np.concatenate([row.ids[index[-n:]] for index, n in zip(row.indices, lengths, strict=True)])
    indices, which = np.unique(before, return_inverse=True)
    logits = model(
        input_ids=torch.from_numpy(row.ids)[None],
        position_ids=torch.from_numpy(row.positions)[None],
        attention_mask=torch.from_numpy(row.visible)[None, None],
        use_cache=False,
        logits_to_keep=torch.from_numpy(indices),
    ).logits[0]  # (places, vocabulary)
    tensor: Tensor = torch.log_softmax(logits.float(), -1)[torch.from_numpy(which), torch.from_numpy(tokens)]
    return tensor


@torch.no_grad()
def fixed_answers(model: Any, sequences: Sequence[TokenSequence], budget: int = BUDGET) -> list[tuple[float, ...]]:
    """Give the log-probabilities of every answer as plain numbers, in the order of the sequences."""
    result: list[tuple[float, ...]] = [()] * len(sequences)
    for scored in score_answers(model, sequences, budget):
        parts = torch.split(scored.logprobs, scored.lengths)
        for number, part in zip(scored.numbers, parts, strict=True):
            result[number] = tuple(part.tolist())
    return result
