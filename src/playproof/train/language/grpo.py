"""GRPO: let a language model learn from how its own answers compare within a window, iteration by iteration.

An iteration takes groups (fresh play in forked windows, or recorded windows), scores them by one named reward, learns,
saves a checkpoint and is measured in money on held-out windows, paired with the model it began with. The resume point
comes last: a run that is killed at any moment goes on to the same weights, and no window is learned from twice.
Divergence (numbers that are not finite, too large a KL, money or valid decisions lost) stops the run, says so, and
keeps the last good checkpoint. Leaves out: groups (grpo_sources) and the update (grpo_learner).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine

from playproof.datasets.conversations.used_windows import UsedWindows
from playproof.errors import Diverged, InputError
from playproof.game import Game
from playproof.judge.computed import computed
from playproof.provenance import commit
from playproof.train.language.config import GRPOConfig
from playproof.train.language.evaluate import PlayerMeasurement, gains, measure
from playproof.train.language.grpo_loss import Clipping
from playproof.train.language.grpo_sources import ForkedSource, ForkPlan, IterationData, RewardFunction, Source
from playproof.train.language.grpo_update import GRPOLearner, SelectedSamples, UpdateStats, choose
from playproof.train.language.model import (
    LanguageCard,
    LanguageModel,
    add_adapter,
    is_adapted,
    load_language_model,
    save_language_model,
    weights_hash,
)
from playproof.train.language.rollout import model_player
from playproof.train.language.state import restore_state, state_arrays
from playproof.train.run import CHECKPOINTS, Run, Tracking, read_log

Show = Callable[[int, Mapping[str, Any]], None]


def train_grpo(
    game: Game,
    config: GRPOConfig,
    path: Path,
    engine: Engine,
    *,
    reward: RewardFunction = computed,
    source: Callable[[UsedWindows, LanguageModel], Source] | None = None,
    resume: bool = False,
    tracking: Tracking = Tracking(),  # noqa: B008
    show: Show = lambda iteration, payload: None,  # noqa: ARG005
) -> dict[str, Any]:
    """Train a model; give what came of it. `source` makes another source of groups than forked windows."""
    run = Run.resume(path, "grpo", tracking) if resume else Run.create(path, "grpo", asdict(config), tracking)
    try:
        training = Training(game, config, run, engine, reward, source)
        return training.run_through(show)
    finally:
        run.close()


class Training:
    """One run of GRPO."""

    def __init__(
        self,
        game: Game,
        config: GRPOConfig,
        run: Run,
        engine: Engine,
        reward: RewardFunction,
        source: Callable[[UsedWindows, LanguageModel], Source] | None,
    ) -> None:
        self.game, self.config, self.run = game, config, run
        loaded = load_language_model(config.base)
        self.parent = loaded.card
        fresh = config.rank is not None and not is_adapted(loaded.model) and not _is_whole(loaded)
        self.language_model = add_adapter(loaded, config.rank or 1, config.seed) if fresh else loaded
        self.base = loaded.card.base if is_adapted(loaded.model) and loaded.card is not None else config.base
        self.base_hash = weights_hash(self.language_model.model) if is_adapted(self.language_model.model) else ""
        clipping = Clipping(config.clip, config.clip, config.beta, config.averaging)
        self.learner = GRPOLearner(self.language_model, config.learning_rate, clipping, config.max_kl, config.warm_up)
        first = loaded.card.next_window if loaded.card is not None else 0
        self.plan = ForkPlan(config.terms, first, config.iterations, config.windows, config.holdout, config.embargo)
        self.ledger = UsedWindows(engine, run.path.name)
        self.source = source(self.ledger, loaded) if source is not None else self._forked(reward)
        self.rng = np.random.default_rng([config.seed, 3])

    def _forked(self, reward: RewardFunction) -> Source:
        config = self.config
        self.ledger.hold_out(self.plan.split().held)
        return ForkedSource(self.game, self.plan, config.forks, config.max_tokens, config.seed, reward, self.ledger)

    def version(self, iteration: int) -> str:
        """Name the policy after so many iterations."""
        return f"{self.ledger.lineage}@{iteration}"

    def run_through(self, show: Show) -> dict[str, Any]:
        """Go through the iterations that are left."""
        done = self._go_on()
        if done == 0:
            self._measure(0)
            self.run.save_state(0, state_arrays(self.language_model.model, self.learner.optimiser), {})
        for iteration in range(done + 1, self.config.iterations + 1):
            try:
                iterate = self._iterate(iteration)
            except Diverged as error:
                raise self._stopped(iteration, error) from error
            if iterate is None:
                break
            show(iteration, iterate)
        result = self._result(None)
        self.run.finish(result)
        return result

    def _go_on(self) -> int:
        """Put the resume point back; give the iterations that are done."""
        saved = self.run.load_state()
        done = 0
        if saved is not None:
            done = saved[0]
            restore_state(self.language_model.model, self.learner.optimiser, saved[1])
            if done:
                self.ledger.settle(done, self.version(done))
        self.ledger.release(done)
        return done

    def _iterate(self, iteration: int) -> dict[str, Any] | None:
        """Take groups, learn, save, measure; None when there is nothing left to learn from."""
        config = self.config
        taken = self.source.take(iteration, self.language_model, self.version(iteration - 1))
        if not taken.scored:
            if iteration == 1:
                raise InputError("expected windows to learn from, found none; see `playproof train grpo --help`")
            return None
        chosen = choose(taken.scored, self.language_model, self.ledger.lineage, iteration - 1)
        if not chosen.lessons and not chosen.standings.get("own"):
            raise InputError(
                f"expected episodes that {self.version(iteration - 1)} or the version before sampled itself, found "
                f"{dict(chosen.standings)}; only those give gradients: record the policy's own play with "
                "log-probabilities at temperature 1, or train on forked windows"
            )
        learned = self.learner.learn(
            chosen, config.groups_a_step, config.epochs, np.random.default_rng([config.seed, iteration, 5])
        )
        payload = iteration_metrics(taken, chosen, learned) | {"checkpoint": f"{CHECKPOINTS}/{iteration:04d}"}
        self.run.note("grpo", iteration, payload)
        if iteration % config.evaluate_every == 0 or iteration == config.iterations:
            payload |= self._measure(iteration)
        self._save(iteration, payload)
        self.run.save_state(iteration, state_arrays(self.language_model.model, self.learner.optimiser), {})
        used = [episode.episode_id for item in taken.scored for episode in item.group.episodes]
        self.ledger.settle(iteration, self.version(iteration), used)
        return payload

    def _measure(self, iteration: int) -> dict[str, Any]:
        """Measure the policy in money on held-out windows, beside the model that training began with.

        A market that is only recorded cannot be played again: nothing is measured there.
        """
        config = self.config
        if not config.holdout or self.game.language is None:
            return {}
        player = model_player(self.language_model, config.max_tokens, (config.seed, 9))
        result = measure(self.game, config.terms, self.plan.held, config.holdout_forks, player)
        payload: dict[str, Any] = {f"holdout_{name}": value for name, value in result.to_json(self.rng).items()}
        if iteration:
            first = self._first()
            low, high = gains(result, {"parent": first}, self.rng)["parent"]
            payload |= {"gain": float((result.pnl - first.pnl).mean()), "gain_low": low, "gain_high": high}
            if high < 0 or result.valid < first.valid / 2:
                raise Diverged(
                    f"expected money and valid decisions to hold, found {payload['gain']:.3g} a window against the "
                    f"model "
                    f"that training began with, at most {high:.3g}, and {result.valid:.0%} valid decisions after "
                    f"{first.valid:.0%}"
                )
        self.run.note("holdout", iteration, payload | {"windows_pnl": result.pnl.tolist(), "valid": result.valid})
        return payload

    def _first(self) -> PlayerMeasurement:
        """Give how the model that training began with did, from the run's own log."""
        line = next(item for item in read_log(self.run.path) if item["kind"] == "holdout" and item["step"] == 0)
        pnl = np.array(line["windows_pnl"], np.float64)
        return PlayerMeasurement(pnl, np.zeros_like(pnl), float(line["valid"]), 0.0, 0.0)

    def _save(self, iteration: int, payload: Mapping[str, Any]) -> None:
        card = LanguageCard(
            version=self.version(iteration),
            method="grpo",
            game=self.game.name,
            base=self.base,
            base_hash=self.base_hash,
            parent=self.parent.version if self.parent is not None else self.config.base,
            next_window=self.plan.held.stop,
            commit=commit(),
            seed=self.config.seed,
            config=asdict(self.config),
            metrics={name: value for name, value in payload.items() if isinstance(value, (int, float))},
        )
        save_language_model(self.run.path / CHECKPOINTS / f"{iteration:04d}", self.language_model, card)

    def _stopped(self, iteration: int, error: Diverged) -> Diverged:
        """Write that the run has stopped; give the error with what is kept."""
        kept = self.run.path / CHECKPOINTS / f"{iteration - 1:04d}" if iteration > 1 else Path(self.config.base)
        self.run.finish(self._result(str(error)) | {"last_good": str(kept)})
        return Diverged(f"training stopped in iteration {iteration}: {error}. The last good checkpoint is {kept}")

    def _result(self, stopped: str | None) -> dict[str, Any]:
        log = [item for item in read_log(self.run.path) if item["kind"] in ("grpo", "holdout")]
        last = max((item["step"] for item in log if item["kind"] == "grpo"), default=0)
        held = [item for item in log if item["kind"] == "holdout"]
        return {
            "run": str(self.run.path),
            "iterations": last,
            "checkpoint": str(self.run.path / CHECKPOINTS / f"{last:04d}") if last else None,
            "stopped": stopped,
            "flat_groups": sum(item["flat"] for item in log if item["kind"] == "grpo"),
            "before": {name: value for name, value in held[0].items() if name != "windows_pnl"} if held else None,
            "after": {name: value for name, value in held[-1].items() if name != "windows_pnl"} if held else None,
        }


def _is_whole(model: LanguageModel) -> bool:
    """Tell whether a checkpoint of this package holds all weights, which are then trained further."""
    return model.card is not None and not model.card.base_hash


def iteration_metrics(taken: IterationData, chosen: SelectedSamples, learned: UpdateStats) -> dict[str, Any]:
    """Give what is noted and shown of an iteration."""
    rewards = [value for item in taken.scored for value in item.rewards]
    best = max(taken.scored, key=lambda item: max(item.rewards))
    return {
        "windows": len(taken.scored),
        "episodes": len(rewards),
        "reward": taken.scored[0].reward,
        "score_min": min(rewards),
        "score_max": max(rewards),
        "score_mean": float(np.mean(rewards)),
        "best": best.best,
        "loss": learned.loss,
        "kl": learned.kl,
        "clipped": learned.clipped,
        "gradient": learned.norm,
        "tokens": learned.tokens,
        "flat": chosen.flat,
        "idle": chosen.idle,
        "dropped_windows": len(taken.dropped),
        **{f"episodes_{why}": count for why, count in sorted(chosen.standings.items())},
    }
