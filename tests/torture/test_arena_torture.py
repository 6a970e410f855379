"""The arena's long proofs: money over ten million random actions, a longer search for a money machine, a real model.

PLAYPROOF_TORTURE_ACTIONS: how many random actions, 10,000,000 unless told.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from arena_proofs import Ring, busy_prompts, conserve
from sqlalchemy import select
from typer.testing import CliRunner

from playproof.games.arena.agents.prompts import most_tokens
from playproof.games.arena.market.rules import MarketRules
from playproof.policies.language.local import load_model
from playproof.store.db import LlmCall, opened
from playproof.workflows.arena.commands import app

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
        assert Ring(members, steps, MarketRules()).search(rounds=60, plans=300, seed=seed) <= 0


def test_the_bound_on_tokens_holds_for_a_real_tokenizer() -> None:
    """Busy states with odd posts, counted by the tokenizer of the packaged model."""
    tokenizer = load_model().tokenizer
    texts = [text for seed in range(5) for text in busy_prompts(windows=6, seed=seed)]
    counted = [len(tokenizer.encode(text)) for text in texts]
    assert all(count <= most_tokens(text) for count, text in zip(counted, texts, strict=True))
    assert 200 < max(counted) <= 300


def test_a_real_language_model_plays_two_windows(home: Path) -> None:
    done = CliRunner().invoke(app, ["run", "--agents", "3", "--windows", "2", "--llm", "local", "--json"])
    assert done.exit_code == 0, done.output
    payload = {load["agent"]: load for load in json.loads(done.stdout)["agents"]}
    with opened() as engine, engine.connect() as connection:
        mine = LlmCall.model == "smollm2-135m"
        calls = connection.execute(select(LlmCall.token_ids, LlmCall.logprobs, LlmCall.error).where(mine)).all()
    assert len(calls) == 12
    assert all(ids and len(ids) == len(logs) and error is None for ids, logs, error in calls)
    assert 0 <= payload["llm-1"]["valid"] <= 1
