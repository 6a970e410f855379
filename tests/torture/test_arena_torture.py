"""The arena's long proofs: money over ten million random actions, and a longer search for a money machine.

PLAYPROOF_TORTURE_ACTIONS: how many random actions, 10,000,000 unless told.
"""

from __future__ import annotations

import os

import pytest

from arena_proofs import Ring, conserve
from playproof.games.arena.rules import Rules

pytestmark = pytest.mark.torture

ACTIONS = int(os.environ.get("PLAYPROOF_TORTURE_ACTIONS", "10000000"))
PART = 100_000


def test_money_is_conserved_over_ten_million_actions() -> None:
    done: dict[str, int] = {}
    for part in range(ACTIONS // PART):
        for kind, count in conserve(PART, seed=part, agents=2 + part % 7, every=100).items():
            done[kind] = done.get(kind, 0) + count
    assert sum(done.values()) >= ACTIONS - PART


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("steps", [4, 12, 30])
def test_no_searched_plan_earns(members: int, steps: int) -> None:
    for seed in range(3):
        assert Ring(members, steps, Rules()).search(rounds=60, plans=300, seed=seed) <= 0
