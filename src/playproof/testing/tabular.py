"""Learn a table: in each situation the action that earned most, if it earned anything.

The simplest learner there is: a situation is what a few named features show, an action's worth the
mean of the rewards that followed at once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from playproof.datasets import Dataset
from playproof.errors import UnknownName
from playproof.policies import TablePolicy


@dataclass(frozen=True)
class TableConfig:
    """How to learn a table."""

    features: tuple[str, ...]
    """What makes up a situation."""
    stake: int
    """Money that the policy reserves for each window."""
    least: int = 20
    """How often an action must have been seen in a situation to be chosen there."""


def learn(dataset: Dataset, config: TableConfig, wait: tuple[int, ...]) -> TablePolicy:
    """Learn from the split `train` alone."""
    names: list[str] = dataset.manifest["features"]
    for name in config.features:
        if name not in names:
            raise UnknownName("feature", name, names)
    indexes = tuple(names.index(name) for name in config.features)
    steps = dataset.transitions("train")
    earned: dict[tuple[float, ...], dict[tuple[int, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, action, reward in zip(steps.observations[:, indexes], steps.actions, steps.rewards, strict=True):
        earned[tuple(map(float, row))][tuple(map(int, action))].append(float(reward))
    table = {situation: _best(of, wait, config.least) for situation, of in earned.items()}
    return TablePolicy(
        observation=dataset.manifest["observation"],
        actions=dataset.manifest["actions"]["name"],
        features=config.features,
        columns=indexes,
        wait=wait,
        stake=config.stake,
        table={situation: action for situation, action in table.items() if action != wait},
        data_hash=dataset.manifest["hash"],
    )


def _best(earned: dict[tuple[int, ...], list[float]], wait: tuple[int, ...], least: int) -> tuple[int, ...]:
    """Give the action with the highest mean above 0, else the one that waits."""
    means = {action: float(np.mean(of)) for action, of in sorted(earned.items()) if len(of) >= least}
    best = max(means, key=lambda action: means[action], default=wait)
    return best if means.get(best, 0.0) > 0 else wait
