"""Folds that walk forward in time: train on what was, test on what comes next, by whole windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from playproof.errors import ConfigError


@dataclass(frozen=True)
class WalkForwardFold:
    """One step of the walk; windows in time order."""

    train: tuple[str, ...]
    test: tuple[str, ...]


def walk_forward(
    windows: Sequence[str], folds: int, *, purge: int = 1, embargo: int = 1, first: float = 0.5
) -> tuple[WalkForwardFold, ...]:
    """Cut windows, given in time order, into consecutive tests, each behind the training that it follows.

    `first` is the share before the first test. `purge` windows right before a test are left out of its training,
    since what they were labelled with may reach into it; `embargo` windows right after a test are left out
    of every later training, since they follow on what was looked at.
    """
    if len(set(windows)) != len(windows):
        raise ConfigError("expected each window once, found some twice")
    if folds < 1 or purge < 0 or embargo < 0 or not 0 < first < 1:
        raise ConfigError(
            f"expected at least 1 fold, purge and embargo >= 0 and a first share between 0 and 1, found {folds},"
            f" {purge}, {embargo}, {first}"
        )
    start = round(len(windows) * first)
    edges = [start + (len(windows) - start) * fold // folds for fold in range(folds + 1)]
    if start <= purge or min(end - begin for begin, end in pairwise(edges)) < 1:
        raise ConfigError(f"expected windows enough for {folds} folds and a purge of {purge}, found {len(windows)}")
    banned: set[int] = set()
    results = []
    for begin, end in pairwise(edges):
        train = tuple(windows[index] for index in range(begin - purge) if index not in banned)
        results.append(WalkForwardFold(train, tuple(windows[begin:end])))
        banned |= set(range(end, min(end + embargo, len(windows))))
    return tuple(results)
