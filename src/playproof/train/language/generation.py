"""Draw answers to many prompts at once, and score given answers: every shared beginning is computed once.

Token sequences are packed as a prefix tree into one row. A token of the row sees its ancestors in the tree and itself,
and its position is its depth; so a model computes for it exactly what it would compute in a sequence of its own, and K
answers to one prompt cost one prompt and K answers. The same row serves training (`score_answers`), with gradients that
add up over the branches, and generation, where it is the cache's content: each step feeds one token for every answer
that has not ended, and answers that are the same so far are read once. Log-probabilities are the model's own at
temperature 1, which is what answers are drawn with unless asked otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from playproof.datasets.conversations.groups import TokenSequence

BUDGET = 2_048
"""Tokens of a row: attention over a row grows with its square, and beyond this sharing saves less than it costs."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PackedPrefixes:
    """Sequences in one row of s tokens."""

    ids: Ints  # (s,)
    positions: Ints  # (s,)
    visible: NDArray[np.bool_]  # (s, s): row i tells what token i sees
    indices: tuple[Ints, ...]
    """For each sequence: where its tokens stand."""

    @property
    def ends(self) -> Ints:
        """Give where each sequence ends."""
        return np.array([index[-1] for index in self.indices], np.int64)


def pack(sequences: Sequence[Sequence[int]]) -> PackedPrefixes:
    """Lay sequences, none of them empty, into one row."""
    tree = _Tree()
    indices = tuple(np.array(tree.add(sequence), np.int64) for sequence in sequences)
    visible = np.eye(len(tree.ids), dtype=np.bool_)
    for at, parent in enumerate(tree.parents):
        if parent >= 0:
            visible[at] |= visible[parent]
    return PackedPrefixes(np.array(tree.ids, np.int64), np.array(tree.depths, np.int64), visible, indices)


def pack_rows(sequences: Sequence[Sequence[int]], budget: int = BUDGET) -> Iterator[tuple[list[int], PackedPrefixes]]:
    """Lay sequences into rows of at most so many tokens, a longer one alone; give the numbers of those in each row.

    Neighbours in the order of their tokens share most, so they come into one row.
    """
    tree, chosen = _Tree(), list[int]()
    for number in sorted(range(len(sequences)), key=lambda item: tuple(sequences[item])):
        if chosen and len(tree.ids) + tree.news(sequences[number]) > budget:
            yield chosen, pack([sequences[item] for item in chosen])
            tree, chosen = _Tree(), []
        tree.add(sequences[number])
        chosen.append(number)
    if chosen:
        yield chosen, pack([sequences[item] for item in chosen])


class _Tree:
    """A prefix tree whose nodes are numbered as they come."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def add(self, sequence: Sequence[int]) -> list[int]:
        """Add a sequence; give the nodes of its tokens."""
        nodes, parent = [], -1
        for depth, token in enumerate(sequence):
            node = self._children.setdefault((parent, token), len(self.ids))
            if node == len(self.ids):
                self.ids.append(token)
                self.parents.append(parent)
                self.depths.append(depth)
            nodes.append(node)
            parent = node
        return nodes

    def news(self, sequence: Sequence[int]) -> int:
        """Count the tokens that a sequence would add."""
        parent = -1
        for depth, token in enumerate(sequence):
            node = self._children.get((parent, token))
            if node is None:
                return len(sequence) - depth
            parent = node
        return 0


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
    model: torch.nn.Module,
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

    def __init__(self, model: torch.nn.Module, row: PackedPrefixes, limit: int) -> None:
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


@dataclass(frozen=True)
class ScoredAnswers:
    """Answers of one row, end to end."""

    numbers: list[int]
    """Which of the sequences they belong to, in this order."""
    lengths: list[int]
    logprobs: Tensor  # (t,)


def score_answers(
    model: torch.nn.Module, sequences: Sequence[TokenSequence], budget: int = BUDGET
) -> Iterator[ScoredAnswers]:
    """Give the log-probabilities of every answer's tokens, row by row, so that a row's graph can go."""
    for numbers, row in pack_rows([sequence.ids for sequence in sequences], budget):
        lengths = [len(sequences[number].answer) for number in numbers]
        yield ScoredAnswers(numbers, lengths, _logprobs(model, row, lengths))


def _logprobs(model: torch.nn.Module, row: PackedPrefixes, lengths: Sequence[int]) -> Tensor:
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
def fixed_answers(
    model: torch.nn.Module, sequences: Sequence[TokenSequence], budget: int = BUDGET
) -> list[tuple[float, ...]]:
    """Give the log-probabilities of every answer as plain numbers, in the order of the sequences."""
    result: list[tuple[float, ...]] = [()] * len(sequences)
    for scored in score_answers(model, sequences, budget):
        parts = torch.split(scored.logprobs, scored.lengths)
        for number, part in zip(scored.numbers, parts, strict=True):
            result[number] = tuple(part.tolist())
    return result
