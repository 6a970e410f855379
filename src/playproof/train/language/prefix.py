"""Prefix trees: many token sequences as one row in which every shared beginning stands once.

A token of the row sees its ancestors in the tree and itself, and its position is its depth; so a model computes for it
exactly what it would compute in a sequence of its own, and K answers to one prompt cost one prompt and K answers. The
same row serves training, with gradients that add up over the branches, and generation, where it is the cache's content.
Leaves out: models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
