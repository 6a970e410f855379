"""Start PPO several times, and continue the restart that earns most.

What a learner happens to find first decides what it refines later: some seeds learn when to bet, but not how much at
once, and not all of them are mended by going on. A third of the way tells such seeds apart. So some trainings that
differ by their seed alone are begun; all play the same validation windows; the best of them goes on to the end, just
as if it had been alone. One whose reward rises while money does not ends the choice: it is what the reward teaches.

    runs/NAME/restarts.json      what was asked for; at last the profits and which one went on
    runs/NAME/restarts/0, 1, 2   a run's folder each
    runs/NAME/...                  a copy of the best one, which goes on there

A kill at any time loses at most one update, and leads to the same weights.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from playproof.errors import ConfigError
from playproof.game import Game
from playproof.home import write_durably
from playproof.json_types import Json
from playproof.train.ppo.callbacks import ALARMS
from playproof.train.ppo.config import PPOConfig
from playproof.train.ppo.loop import INTERRUPTED, Clock, PPOResult, Show, run_from_dict, run_to_dict, train_ppo
from playproof.train.run import CONFIG, Tracking

PLAN, FOLDER = "restarts.json", "restarts"
CLOSER = 4
"""Times as many validation windows decide as an evaluation plays."""


@dataclass(frozen=True)
class Restart:
    """One restart."""

    seed: int
    profit: float
    """Per validation window, in the smallest unit."""
    seconds: float
    """Of learning."""


def seed_of(config: PPOConfig, number: int) -> int:
    """Give the seed of a restart: the first has that of the training."""
    if number == 0:
        return config.seed
    return int(np.random.SeedSequence((config.seed, number)).generate_state(1)[0]) % 2**31


def discarded_steps(config: PPOConfig) -> int:
    """Count the steps of the restarts that do not go on; they come on top of those that were asked for."""
    return (config.restarts - 1) * halt_of(config)


def list_restarts(path: Path) -> tuple[Restart, ...]:
    """Give the restarts of a run; none if it was alone, or has not decided yet."""
    return tuple(Restart(**payload) for payload in (_plan(path) or {}).get("begun", ()))


def discarded(path: Path) -> tuple[Restart, ...]:
    """Give those of them that were not gone on with."""
    return tuple(item for at, item in enumerate(list_restarts(path)) if at != (_plan(path) or {})["chosen"])


def train_best(
    game: Game,
    config: PPOConfig,
    path: Path,
    *,
    source: Path | None = None,
    resume: bool = False,
    allow_failing_reward: bool = False,
    tracking: Tracking = Tracking(),  # noqa: B008  (frozen)
    show: Show = lambda step, payload: None,  # noqa: ARG005
    clock: Clock = time.perf_counter,
) -> PPOResult:
    """Train like train_ppo, after as many restarts as the configuration asks for."""
    train = partial(train_ppo, game, allow_failing_reward=allow_failing_reward, clock=clock)
    plan = _plan(path)
    if plan is None and (resume or config.restarts == 1 or (path / CONFIG).exists()):
        return train(config, path, source=source, resume=resume, tracking=tracking, show=show)
    if plan is None:
        path.mkdir(parents=True, exist_ok=True)
        plan = _write(path, {"asked": run_to_dict(config, source)})
    elif not resume:
        raise ConfigError(f"expected a new run at {path}, found one that was begun; use --resume, or another name")
    config, source = run_from_dict(plan["asked"])
    halt = halt_of(config)
    judged: bool | None = None
    if not (path / CONFIG).exists():
        result, settled = list[Restart](), False
        for number in range(config.restarts):
            own, index = replace(config, seed=seed_of(config, number), restarts=1), path / FOLDER / str(number)
            made = train(
                own,
                index,
                source=source,
                resume=(index / CONFIG).exists(),
                tracking=Tracking(tensorboard=False),
                show=_of_restart(show, number + 1),
                halt=halt,
                judged=judged,
            )
            if made.progress.stopped == INTERRUPTED:
                return made
            judged = made.table.failed_checks
            result.append(Restart(own.seed, _profit(made, config), made.progress.seconds))
            settled = made.progress.alarms >= ALARMS or made.progress.reached is not None
            if settled:
                break
        best = len(result) - 1 if settled else int(np.argmax([item.profit for item in result]))
        _write(path, {**plan, "begun": [vars(item) for item in result], "chosen": best})
        _take_over(path / FOLDER / str(best), path)
    return train(config, path, resume=True, tracking=tracking, show=show, judged=judged)


def halt_of(config: PPOConfig) -> int:
    """Give the step at which restarts are compared: the first boundary after their share."""
    rollout = config.lanes * config.rollout
    return math.ceil(config.restart_share * config.steps / rollout) * rollout


def _of_restart(show: Show, number: int) -> Show:
    """Mark what is shown as a restart's: its steps are not those of the training that goes on."""
    return lambda step, payload: show(step, {**payload, "restart": number})


def _profit(made: PPOResult, config: PPOConfig) -> float:
    """Play the last policy of a restart over validation windows that are the same for all."""
    closer = replace(made.table.config, seed=config.seed, evaluate_windows=CLOSER * config.evaluate_windows)
    table = replace(made.table, config=closer)
    return float(table.evaluate(table.policy(made.weights), config.world).pnl.mean())


def _take_over(index: Path, path: Path) -> None:
    """Copy a restart to where it continues; its configuration last, since that makes it a run."""
    shutil.copytree(index, path, ignore=shutil.ignore_patterns(CONFIG), dirs_exist_ok=True)
    write_durably(path / CONFIG, (index / CONFIG).read_bytes())


def _plan(path: Path) -> Json | None:
    try:
        payload: Json = json.loads((path / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return payload


def _write(path: Path, plan: Mapping[str, object]) -> Json:
    write_durably(path / PLAN, (json.dumps(plan, indent=1, sort_keys=True) + "\n").encode())
    return dict(plan)
