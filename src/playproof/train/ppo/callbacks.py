"""What happens at a rollout boundary: evaluation in money, the divergence alarm, checkpoints, the resume point.

Success is money on validation windows, the same ones at every evaluation; the reward only trains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from playproof.evaluate.rollout import Rollout
from playproof.train.ppo.state import gather
from playproof.train.run import Run

HALTED = "halted"
"""Why a training stopped that was to go so far and no farther."""
ALARMS = 3
"""Alarms that stop a training."""
SURE = 2.0
"""Standard errors by which the reward must have risen to count as risen."""

Values = NDArray[np.float64]


def diverged(reward: Values, pnl: Values, best_reward: Values, best_pnl: Values) -> bool:
    """Tell whether reward rose while money did not, against the best checkpoint on the same windows.

    The reward has risen if its paired difference is above 2 standard errors; money has not if its mean
    is no higher. Where the reward is money both move together, and this never is.
    """
    gain = reward - best_reward
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else 0.0
    return float(gain.mean()) > SURE * error + 1e-12 and float(pnl.mean()) <= float(best_pnl.mean())


def gained(pnl: Values, first: Values) -> tuple[float, float]:
    """Give what a policy earns above the first one on the same windows, in the mean, and its standard error."""
    gain = pnl - first
    return float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else 0.0


@dataclass
class TrainingProgress:
    """How far a training has come; part of the resume point."""

    rollouts: int = 0
    stage: int = 0
    best: str | None = None
    """Name of the best checkpoint."""
    best_step: int = 0
    best_pnl: list[int] = field(default_factory=list)
    """Of its validation windows."""
    best_reward: list[float] = field(default_factory=list)
    first_pnl: list[int] = field(default_factory=list)
    """Of the policy that training started from, on the same windows."""
    since_best: int = 0
    """Evaluations since the best one."""
    alarms: int = 0
    stopped: str | None = None
    """Why the training stops before its last step."""
    reached: dict[str, float] | None = None
    """Step and seconds of training when the wanted profit was first reached."""
    seconds: float = 0.0
    """Time spent learning, evaluations left out."""


@dataclass(frozen=True)
class EvaluationSchedule:
    """When to look, and when to stop."""

    every: int
    """Rollouts between evaluations."""
    patience: int | None = None
    """Evaluations without a better one that stop the training; None: never."""
    until: float | None = None
    """Mean profit per validation window, in the smallest unit, that ends the training once it is reached."""
    stages: tuple[int, ...] = (0,)
    """At which step each stage of the curriculum begins."""
    save_every: int = 1
    """Rollouts between resume points."""
    halt: int | None = None
    """Step at which the training stops to be gone on with later; None: never."""


class RolloutBoundary(BaseCallback):  # type: ignore[misc]
    """Work at every rollout boundary."""

    def __init__(
        self,
        run: Run,
        watch: EvaluationSchedule,
        evaluate: Callable[[], Rollout],
        keep: Callable[[int, Mapping[str, Any]], str],
        progress: TrainingProgress,
        clock: Callable[[], float],
        show: Callable[[int, Mapping[str, Any]], None],
    ) -> None:
        super().__init__()
        self.run, self.watch, self.progress = run, watch, progress
        self._evaluate, self._keep, self._clock, self._show = evaluate, keep, clock, show
        self._since = clock()
        self.asked_to_stop: str | None = None
        """Set from outside, by Ctrl-C: stop at the next boundary."""

    @property
    def _rollout(self) -> int:
        return int(self.model.n_steps * self.model.n_envs)

    def _on_step(self) -> bool:
        return self.progress.stopped is None

    def _on_rollout_start(self) -> None:
        """Do the work of the boundary that the last update has led to."""
        self.at_boundary()

    def _on_training_end(self) -> None:
        if self.progress.stopped is None:
            self.at_boundary(last=True)

    def at_boundary(self, last: bool = False) -> None:
        """Note, evaluate, move on in the curriculum, save; once for each boundary."""
        rollouts = self.num_timesteps // self._rollout
        first = rollouts == 0 and self.progress.rollouts == 0 and not self.progress.best_pnl
        if rollouts == self.progress.rollouts and not first:
            return
        self.progress.seconds += self._clock() - self._since
        self.progress.rollouts = rollouts
        if not first:
            self._note_update()
        if first or last or rollouts % self.watch.every == 0:
            self._look()
        self._enter_stage()
        if self.watch.halt is not None and self.num_timesteps >= self.watch.halt:
            self.asked_to_stop = self.asked_to_stop or HALTED
        if self.asked_to_stop is not None and self.progress.stopped is None:
            self.progress.stopped = self.asked_to_stop
        if last or self.progress.stopped or rollouts % self.watch.save_every == 0:
            self.save()
        self._since = self._clock()

    def _note_update(self) -> None:
        payload = {name.removeprefix("train/"): value for name, value in self.logger.name_to_value.items()}
        payload = {name: value for name, value in payload.items() if "/" not in name}
        payload["steps_per_second"] = self.num_timesteps / max(self.progress.seconds, 1e-9)
        self.run.note("train", self.num_timesteps, payload)
        self._show(self.num_timesteps, payload)

    def _look(self) -> None:
        """Evaluate in money; keep the policy if it is the best so far; raise the alarm if reward lies."""
        evaluate, progress = self._evaluate(), self.progress
        payload = evaluate.summary()
        pnl, reward = evaluate.pnl.astype(np.float64), evaluate.reward
        better = not progress.best_pnl or float(pnl.mean()) > float(np.mean(progress.best_pnl))
        payload["alarm"] = not better and diverged(
            reward, pnl, np.asarray(progress.best_reward), np.asarray(progress.best_pnl, np.float64)
        )
        progress.alarms += payload["alarm"]
        payload["alarms"] = progress.alarms
        progress.first_pnl = progress.first_pnl or evaluate.pnl.tolist()
        payload["gain"], payload["gain_se"] = gained(pnl, np.asarray(progress.first_pnl, np.float64))
        progress.since_best = 0 if better else progress.since_best + 1
        if better:
            progress.best = self._keep(self.num_timesteps, payload)
            progress.best_step = self.num_timesteps
            progress.best_pnl, progress.best_reward = evaluate.pnl.tolist(), reward.tolist()
        payload |= {"best": better, "seconds": progress.seconds}
        self.run.note("evaluation", self.num_timesteps, payload)
        self._show(self.num_timesteps, payload)
        self._decide(float(pnl.mean()))

    def _decide(self, pnl: float) -> None:
        """Stop where three alarms, patience or the wanted profit say so."""
        progress, watch = self.progress, self.watch
        if watch.until is not None and pnl >= watch.until and progress.reached is None:
            progress.reached = {"step": float(self.num_timesteps), "seconds": progress.seconds}
            progress.stopped = "the wanted profit is reached"
        if watch.patience is not None and progress.since_best >= watch.patience:
            progress.stopped = f"no better profit in {progress.since_best} evaluations"
        if progress.alarms >= ALARMS:
            progress.stopped = f"{progress.alarms} alarms: reward rises while money does not"

    def _enter_stage(self) -> None:
        """Move the lanes to the next stage of the curriculum where its time has come."""
        due = sum(start <= self.num_timesteps for start in self.watch.stages) - 1
        if due > self.progress.stage:
            self.progress.stage = due
            self.model._last_obs = self.training_env.enter(due)
            self.model._last_episode_starts = np.ones(self.model.n_envs, np.bool_)

    def save(self) -> None:
        """Write the resume point."""
        arrays, facts = gather(self.model, self.training_env)
        self.run.save_state(self.num_timesteps, arrays, facts | {"progress": vars(self.progress)})
