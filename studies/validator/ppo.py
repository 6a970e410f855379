"""The study's dearest learner: train by PPO in a world, choose among the checkpoints, and have the choice judged.

The training is a short one, so that ten runs a world are affordable: what is studied is the validator, not the
trainer. Leaves out: rules and trees (study), good settings for a training (train).
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playproof.evaluate.rollout import rollout
from playproof.evaluate.trials import record_trial, trial_of
from playproof.game import Game, load_game
from playproof.policies.checkpoint import CARD
from playproof.store.db import opened, ready
from playproof.validate.examine import Examination, Subject, examine, from_checkpoint, world_plan
from studies.validator.study import left_at, told_of

if TYPE_CHECKING:
    from sqlalchemy import Engine

EVALUATE_EVERY = 24
"""Updates between two checkpoints."""
MOST = 20_000
"""Windows of a second report; a report that asks for more is not followed."""
VALIDATION, FIRST, SECOND = 1, 2, 3
"""Kinds of windows, kept apart by their seeds."""


def run_ppo(
    game_name: str, world: str, seed: int, now: datetime, *, steps: int, validation: int, windows: int, follow: bool
) -> dict[str, Any]:
    """Train, choose and judge; with `follow` judge again on as many fresh windows as the first report asks for."""
    game = load_game(game_name)
    with tempfile.TemporaryDirectory() as temporary_directory, opened(Path(temporary_directory)) as tables:
        engine = ready(tables)
        checkpoints = _train(game, world, seed, steps, Path(temporary_directory))
        chosen = _choose(game, checkpoints, world, seed, engine, now, validation)
        first = _judged(game, chosen, world, windows, _windows(seed, FIRST), engine, now)
        verdict, needed = first.verdict, first.needed.windows
        payload: dict[str, Any] = {"first": verdict.name, "pilot": windows, "chosen": chosen.name}
        payload["tried"] = len(checkpoints)
        if not follow:
            return payload | told_of(verdict)
        payload["needed"] = needed
        if needed is None or needed > MOST:
            return payload | left_at(verdict)
        again = _judged(game, chosen, world, needed, _windows(seed, SECOND), engine, now)
        return payload | told_of(again.verdict)


def _windows(seed: int, kind: int) -> int:
    return 10 * seed + kind


def _train(game: Game, world: str, seed: int, steps: int, path: Path) -> list[Path]:
    """Train; give the checkpoints, the untrained first one left out."""
    from playproof.train.ppo.config import PPOConfig
    from playproof.train.ppo.loop import train_ppo

    config = PPOConfig(
        game=game.name,
        worlds=((world, 1.0),),
        steps=steps,
        seed=seed,
        stake=game.defaults.stake,
        evaluate_every=EVALUATE_EVERY,
    )
    train_ppo(game, config, path / "run")
    parents = sorted(card.parent for card in (path / "run" / "checkpoints").glob(f"*/{CARD}"))
    return parents[1:] or parents


def _choose(
    game: Game, checkpoints: list[Path], world: str, seed: int, engine: Engine, now: datetime, windows: int
) -> Subject:
    """Look at every checkpoint on validation windows, all looks in the ledger; give the best."""
    plan = world_plan(game, world, windows, _windows(seed, VALIDATION))
    best: tuple[float, Subject] | None = None
    for path in checkpoints:
        subject = from_checkpoint(game, path)
        played = rollout(
            game, subject.player, world, windows, plan.seed, stake=subject.stake, options=subject.options
        ).score()
        trial = trial_of(
            played,
            family=subject.family,
            policy_hash=subject.policy_hash,
            data_hash=plan.data_hash,
            split="validation",
            kind="validation",
            now=now,
        )
        record_trial(engine, trial)
        if best is None or trial.roi > best[0]:
            best = trial.roi, subject
    assert best is not None
    return best[1]


def _judged(
    game: Game, subject: Subject, world: str, windows: int, seed: int, engine: Engine, now: datetime
) -> Examination:
    """Examine with the ceiling withheld, since it would decide alone."""
    plan = replace(world_plan(game, world, windows, seed), ceiling=None)
    return examine(game, subject, plan, engine, now)
