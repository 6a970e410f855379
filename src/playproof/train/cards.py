"""Describe what a method has learned: the card of a checkpoint, the same way for every offline method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

from playproof.game import Game
from playproof.policies.checkpoint import Card
from playproof.policies.scaling import describe

NO_REWARD: Mapping[str, Any] = {"name": None, "version": None, "hash": None, "failed_checks": False}
"""Of what was learned without rewards."""


class CardFacts(TypedDict):
    """Where a policy comes from and how it plays: what the caller of a method knows."""

    observation: str
    actions: str
    clock: str
    stake: int
    data_hash: str | None
    world: str | None
    commit: str
    metrics: Mapping[str, Any]


def trained_card(
    game: Game,
    kind: Literal["network", "trees"],
    method: str,
    heads: tuple[int, ...],
    config: Mapping[str, object],
    seed: int,
    reward: Mapping[str, object] = NO_REWARD,
    **facts: Unpack[CardFacts],
) -> Card:
    """Describe a policy's checkpoint."""
    return Card(
        kind=kind,
        method=method,
        actions=facts["actions"],
        heads=heads,
        clock=facts["clock"],
        stake=facts["stake"],
        reward=reward,
        data_hash=facts["data_hash"],
        world=facts["world"],
        commit=facts["commit"],
        seed=seed,
        config=config,
        metrics=facts["metrics"],
        **describe(game, facts["observation"]),
    )
