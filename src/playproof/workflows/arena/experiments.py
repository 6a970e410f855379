"""Experiments in the arena: two players of words in copies of the same windows, under declared order limits.

A copy's player can lose `stake` at most, which the market enforces; perps are opened with at least `leverage`, whose
margin bounds what each can lose, so that the stake may be small without changing what is played.
"""

from __future__ import annotations

from collections.abc import Iterator

from playproof.games.arena.market.rng import draw
from playproof.games.arena.market.scenarios import SCENARIOS, BenchScenario
from playproof.operate.experiments.plan import ExperimentPlan, ExperimentUnit
from playproof.workflows.arena.benchmark import CHUNK, BenchPlan, Contestant, play_windows

_STREAM = int.from_bytes(b"ab")


def forked_units(plan: ExperimentPlan, a: Contestant, b: Contestant, known: int = 0) -> Iterator[list[ExperimentUnit]]:
    """Give windows played by both in copies of their own, some at a time; the first `known` are left out."""
    options = dict(plan.options)
    decisions, prompt = int(options.pop("decisions", 6)), str(options.pop("prompt", "full"))
    options.pop("max_tokens", None)  # of the players, not of the market
    base = next(item for item in SCENARIOS.values() if item.world == plan.on)
    scenario = BenchScenario(f"ab-{plan.name}", base.world, base.doc, draw(_STREAM, plan.seed) % 2**31)
    terms = BenchPlan((scenario,), plan.budget, decisions, prompt, {**options, "stake": plan.loss_limit})
    for start in range(known, plan.budget, CHUNK):
        numbers = range(start, min(start + CHUNK, plan.budget))
        played = [play_windows(who, terms, scenario, numbers) for who in (a, b)]
        name = scenario.terms(decisions, prompt).window
        yield [ExperimentUnit(name(first.number), first.pnl, second.pnl) for first, second in zip(*played, strict=True)]
