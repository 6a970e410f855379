"""Measure what a validation costs: a whole report, beside the same evaluation by a plain Gymnasium loop.

All times are processor seconds of one core. The loop plays one round after the other through `env.step` with the same
baseline and counts what a report counts of every step; what a step takes is measured on some rounds, and extrapolated
to the steps of all rounds and of all players of the report that differ, since it would take ten minutes or more; the
statistics, which both need, count for the report alone. Leaves out: training.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.cli.output import note
from playproof.cli.targets import game_of
from playproof.game import Game, first, lookup
from playproof.reports.validation import write_report
from playproof.store.db import connect, ready
from playproof.validate.examine import TARGET_WINDOWS, Examination, examine, load_subject, world_plan

POLICY = "hold-40"
ROUNDS = 10_000
FEWER = 2_500
LOOPED = 300
"""Rounds of the plain loop, as many before the report as after it."""
MOST_SECONDS = 20.0
TIMES_FASTER = 50.0
TARGET_PLAYS = 2
"""How often the windows are played on which older plans' targets are measured; those with a person are left out."""
LINEAR = 1.15
"""How much more a round may cost in a large report than in a small one; it costs less, since some costs are fixed."""


def run() -> dict[str, Any]:
    """Write a report of 10,000 rounds and of fewer, and play some rounds by a plain loop."""
    game = game_of([POLICY])
    report_seconds(game, 64, 9)  # compile and import
    fewer, _ = report_seconds(game, FEWER, 1)
    note(f"{FEWER:,} rounds: {fewer:.1f} s")
    before = loop_seconds(game, range(LOOPED))
    seconds, result = report_seconds(game, ROUNDS, 2)
    note(f"{ROUNDS:,} rounds: {seconds:.1f} s")
    players, steps = different_players(result), int(result.played.steps.sum())
    loop = (before + loop_seconds(game, range(LOOPED, 2 * LOOPED))) / 2
    rounds = players * ROUNDS + TARGET_PLAYS * TARGET_WINDOWS
    plain = loop * rounds * steps / ROUNDS
    results = (
        Measurement("report, 10,000 rounds, 2,000 draws, all baselines", seconds, "s"),
        Measurement("report, 2,500 rounds", fewer, "s"),
        Measurement("times that every round is played", players, "players"),
        Measurement("steps of a round, on average", steps / ROUNDS, "steps"),
        Measurement(f"plain loop, one player ({2 * LOOPED} rounds measured)", 1e6 * loop, "us a step"),
        Measurement("the same evaluation by the plain loop, extrapolated", plain, "s"),
    )
    goals = (
        Goal.at_most("seconds for a report of 10,000 rounds", seconds, MOST_SECONDS),
        Goal.at_least("times faster than a plain loop", plain / seconds, TIMES_FASTER),
        Goal.at_most("seconds of 10,000 rounds by four times those of 2,500", seconds / (4 * fewer), LINEAR),
    )
    return BenchmarkReport("validate", results, goals).to_json()


def report_seconds(game: Game, rounds: int, seed: int) -> tuple[float, Examination]:
    """Give what one report takes, and what it found."""
    subject = load_subject(game, POLICY)
    plan = world_plan(game, first(game.worlds), rounds, seed)
    with tempfile.TemporaryDirectory() as temporary_directory:
        engine = ready(connect(Path(temporary_directory)))
        start = time.process_time()
        result = examine(game, subject, plan, engine, datetime.now(UTC))
        write_report(result, Path(temporary_directory) / "report")
        seconds = time.process_time() - start
        engine.dispose()
    return seconds, result


def different_players(examination: Examination) -> int:
    """Count who played every round: the policy, its rivals, two that do the same as one, and the worse terms."""
    played = [examination.played, *(item for _, item in examination.rivals.values()), *examination.stressed.values()]
    return len({(item.pnl.tobytes(), item.decisions.tobytes()) for item in played})


def loop_seconds(game: Game, seeds: Sequence[int]) -> float:
    """Give what one player takes for a step in a plain Gymnasium loop."""
    import gymnasium

    name = game.simulated().environment
    assert name is not None
    baseline = lookup(game.baselines, POLICY, "baseline")
    env = gymnasium.make(name)
    played, steps = 0.0, 0
    for index, number in enumerate(seeds):
        policy = baseline.make(np.random.default_rng(number))
        start = time.process_time()
        row, _ = env.reset(seed=number)
        over, taken, chosen, held, paid = False, 0, [0] * 16, 0, 0.0
        while not over:
            action: Any = policy.act(row)
            row, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            taken += 1  # and what else a report counts of every step
            chosen[action[0]] += 1
            held += info["position_qty"] > 0
            paid += float(reward)
        if index >= 2:
            played += time.process_time() - start
            steps += taken
    env.close()
    return played / steps
