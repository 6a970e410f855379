"""Proximal policy optimisation on a game's lanes: stable-baselines3 and sb3-contrib, evaluated in money.

The settings are those that learn fastest here; docs/guides/training.md says how each was measured. In short:
a thousand lanes and large minibatches, since small ones spend their time in Python; one torch thread,
since the networks are small; a short horizon, since a tick's noise is ten times its gain, and a fixed
reward scale, since a tick's money is a thousandth of a coin. `preset="plan"` keeps the set-up of the
plan that this product began with.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from playproof.errors import ConfigError, GateFailed, InputError
from playproof.evaluate.rollout import Rollout, RolloutOptions, make_lanes, rollout
from playproof.game import Game, NumericObservation, Reward, first, lookup
from playproof.game.vector_env import VectorGame, VectorTerms
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.policies.checkpoint import Card, Checkpoint, load_checkpoint
from playproof.policies.network import BatchPlayer, NetworkPolicy
from playproof.policies.scaling import Scaling, describe, game_scaling
from playproof.provenance import commit
from playproof.train.network import ACTIVATIONS, Weights, linear_weights
from playproof.train.ppo.callbacks import HALTED, EvaluationSchedule, RolloutBoundary, TrainingProgress
from playproof.train.ppo.config import SCHEDULES, PPOConfig
from playproof.train.ppo.state import bring_back
from playproof.train.run import Run, Tracking, read_config

STREAM = int.from_bytes(b"train")
"""Keeps the windows of training apart from those of evaluation with the same seed."""
VALIDATION = 1_000_003
"""Added to the seed for the windows of validation."""
LEAST = 0.02
"""Share of the learning rate that schedules never go below."""

Show = Callable[[int, Mapping[str, Any]], None]
Clock = Callable[[], float]


@dataclass(frozen=True)
class TrainSetup:
    """The game as a training sees it: names resolved, tables looked up."""

    game: Game
    config: PPOConfig
    observation: str
    actions: str
    reward: Reward
    scaling: Scaling
    heads: tuple[int, ...]
    failed_checks: bool = False
    """Was the reward taken in spite of its checks?"""

    @classmethod
    def from_config(
        cls, game: Game, config: PPOConfig, *, allow_failing_reward: bool = False, judged: bool | None = None
    ) -> TrainSetup:
        """Look everything up, and refuse a reward that fails its checks; `judged` says so if they were run already."""
        from playproof.rewards.load import load_reward

        observation = config.observation or first(game.observations)
        actions = config.actions or first(game.actions)
        shown = lookup(game.observations, observation, "observation set")
        if not isinstance(shown, NumericObservation):
            raise InputError(f"expected an observation set of numbers, found {observation!r}, which is of messages")
        for world, _ in config.worlds:
            lookup(game.worlds, world, "world")
        reward = load_reward(game, config.reward)
        failed = failing_checks(game, reward, config) if judged is None else ()
        if failed and not allow_failing_reward:
            raise GateFailed(
                f"expected a reward that passes its checks, found {reward.name!r} failing {', '.join(failed)}; "
                "repair it, or train all the same with --allow-failing-reward"
            )
        heads = tuple(map(len, lookup(game.actions, actions, "action set").heads))
        scaling = game_scaling(game, shown.features)
        return cls(game, config, observation, actions, reward, scaling, heads, bool(failed or judged))

    def lanes(self, world: str, seed: tuple[int, ...], count: int) -> VectorGame:
        """Make lanes to train on."""
        config = self.config
        terms = VectorTerms(
            world,
            seed,
            self.observation,
            self.actions,
            self.reward,
            config.clock,
            config.balance,
            config.stake,
            config.options,
        )
        return make_lanes(self.game, terms, count)

    def evaluate(self, policy: NetworkPolicy, world: str) -> Rollout:
        """Play a policy greedily over the validation windows."""
        options = RolloutOptions(self.observation, self.actions, self.config.clock, self.reward, 0, self.config.options)
        return rollout(
            self.game,
            BatchPlayer(policy),
            world,
            self.config.evaluate_windows,
            self.config.seed + VALIDATION,
            stake=self.config.stake,
            balance=self.config.balance,
            options=options,
        )

    def policy(self, weights: Weights) -> NetworkPolicy:
        """Make a policy of parameters."""
        config = self.config
        return NetworkPolicy(self.scaling, self.heads, weights, config.activation, config.frames, masked=config.masked)

    def card(self, metrics: Mapping[str, Any]) -> Card:
        """Describe a policy of this training."""
        config, reward = self.config, self.reward
        return Card(
            kind="network",
            method="ppo",
            actions=self.actions,
            heads=self.heads,
            clock=config.clock or "tick",
            stake=config.stake,
            reward={
                "name": reward.name,
                "version": reward.version,
                "hash": getattr(reward, "hash", None),
                "failed_checks": self.failed_checks,
            },
            world=config.world,
            commit=commit(),
            seed=config.seed,
            config=asdict(config),
            metrics={name: value for name, value in metrics.items() if name != "components"},
            **describe(self.game, self.observation),
        )


def failing_checks(game: Game, reward: Reward, config: PPOConfig) -> tuple[str, ...]:
    """Name the checks that a reward fails; the game's own rewards are checked by its tests and not again here."""
    if game.rewards().presets.get(reward.name) is reward or game.rewards().components is None:
        return ()
    from playproof.rewards.checks import check_reward
    from playproof.rewards.plays import Plays

    plays = Plays(game, config.seed)
    failed = check_reward(game, reward, config.seed, gamma=config.gamma, plays=plays, zoo_windows=0).failed
    return failed or check_reward(game, reward, config.seed, gamma=config.gamma, plays=plays).failed


@dataclass(frozen=True)
class PPOResult:
    """How a training ended."""

    path: Path
    best: Path | None
    """The best checkpoint, by profit on the validation windows."""
    steps: int
    progress: TrainingProgress
    weights: Weights
    """The last ones."""
    table: TrainSetup


def train_ppo(
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
    halt: int | None = None,
    judged: bool | None = None,
) -> PPOResult:
    """Train in a run's folder, from scratch, from a checkpoint (`source`), or from where the run stopped.

    `clock` gives the seconds that the log and the progress tell of. At the step `halt` it stops, to be gone on with.
    `judged` says whether the reward failed its checks, where they were run already.
    """
    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)
    if resume:
        config, source = run_from_dict(read_config(path)["config"])
    table = TrainSetup.from_config(game, config, allow_failing_reward=allow_failing_reward, judged=judged)
    model, env = build(table, load_checkpoint(source, game) if source is not None else None)
    run = (
        Run.resume(path, "ppo", tracking) if resume else Run.create(path, "ppo", run_to_dict(config, source), tracking)
    )
    try:
        boundary = _boundary(table, model, run, _brought_back(model, env, run), show, clock, halt)
        _learn(model, boundary, config)
        steps = boundary.progress.rollouts * model.n_steps * model.n_envs
        return _finish(run, boundary, steps, weights_of(model), table)
    finally:
        run.close()


def _brought_back(model: Any, env: Any, run: Run) -> TrainingProgress:
    """Put a training back to its resume point, if it has one; give how far it had come."""
    saved = run.load_state()
    if saved is None:
        return TrainingProgress()
    _, arrays, facts = saved
    progress = TrainingProgress(**facts["progress"])
    if progress.stage:
        env.enter(progress.stage)
    bring_back(model, env, arrays, facts)
    if progress.stopped in (INTERRUPTED, HALTED):
        progress.stopped = None
    return progress


INTERRUPTED = "interrupted"
"""Why a training stopped that Ctrl-C stopped."""


def run_to_dict(config: PPOConfig, source: Path | None) -> Json:
    """Write down what a training is asked for."""
    return asdict(config) | {"source": None if source is None else str(source.absolute())}


def run_from_dict(payload: Mapping[str, Any]) -> tuple[PPOConfig, Path | None]:
    """Read back what a training was asked for: its configuration, and what it starts from."""
    config = PPOConfig.from_json({name: value for name, value in payload.items() if name != "source"})
    return config, Path(payload["source"]) if payload.get("source") else None


def _boundary(
    table: TrainSetup,
    model: Any,
    run: Run,
    progress: TrainingProgress,
    show: Show,
    clock: Callable[[], float],
    halt: int | None,
) -> RolloutBoundary:
    config = table.config

    def evaluate() -> Rollout:
        return table.evaluate(table.policy(weights_of(model)), config.world)

    def keep(step: int, payload: Mapping[str, Any]) -> str:
        return run.save_checkpoint(step, table.card({**payload, "step": step}), weights_of(model))

    starts = np.cumsum([0.0, *(share for _, share in config.worlds[:-1])]) * config.steps
    watch = EvaluationSchedule(
        config.evaluate_every,
        config.patience,
        None if config.until is None else config.until * UNIT,
        tuple(int(start) for start in starts),
        halt=halt,
    )
    return RolloutBoundary(run, watch, evaluate, keep, progress, clock, show)


def _learn(model: Any, boundary: RolloutBoundary, config: PPOConfig) -> None:
    """Learn what is left to learn; Ctrl-C stops at the next boundary, a second one at once."""
    left = config.steps - model.num_timesteps
    halt = boundary.watch.halt
    if left <= 0 or boundary.progress.stopped or (halt is not None and model.num_timesteps >= halt):
        return
    with _on_interrupt(boundary):
        model.learn(left, callback=boundary, log_interval=None, reset_num_timesteps=model.num_timesteps == 0)


@contextmanager
def _on_interrupt(boundary: RolloutBoundary) -> Iterator[None]:
    """Turn the first Ctrl-C into a wish to stop; signals can be caught in the main thread alone."""

    def ask(number: int, frame: Any) -> None:  # noqa: ARG001
        if boundary.asked_to_stop is not None:
            raise KeyboardInterrupt
        boundary.asked_to_stop = INTERRUPTED

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_VECTORS = ("best_pnl", "best_reward", "first_pnl")


def _finish(run: Run, boundary: RolloutBoundary, steps: int, weights: Weights, table: TrainSetup) -> PPOResult:
    progress = boundary.progress
    payload = {name: value for name, value in vars(progress).items() if name not in _VECTORS}
    payload["best_profit"] = float(np.mean(progress.best_pnl)) if progress.best_pnl else None
    if progress.best and progress.alarms:  # a policy answers for the alarms after it, too
        run.amend_checkpoint(progress.best, {"alarms": progress.alarms})
    run.finish(payload | {"steps": steps})
    best = run.path / progress.best if progress.best else None
    return PPOResult(run.path, best, steps, progress, weights, table)


def build(table: TrainSetup, origin: Checkpoint | None = None) -> tuple[Any, Any]:
    """Build model and environment of a training, with the parameters of a checkpoint if one is given."""
    config = table.config
    if config.preset == "plan":
        from playproof.train.ppo.sb3_reference import build_plan

        return build_plan(table)
    env = _environment(table)
    model = _recurrent(table, env) if config.recurrent else _masked(table, env)
    if origin is not None:
        _start_from(model, table, origin)
    return model, env


def _environment(table: TrainSetup) -> Any:
    from playproof.train.ppo.vec_env import GameVecEnv

    config = table.config

    def make(stage: int) -> VectorGame:
        return table.lanes(config.worlds[stage][0], (STREAM, config.seed, stage), config.lanes)

    return GameVecEnv(make, table.scaling, frames=config.frames, reward_scale=config.reward_scale, masked=config.masked)


def _settings(config: PPOConfig) -> Json:
    """Give the settings that all of stable-baselines3's PPOs share."""
    rate = SCHEDULES[config.schedule]
    return {
        "learning_rate": lambda left: config.learning_rate * max(rate(left), LEAST),
        "n_steps": config.rollout,
        "batch_size": config.batch,
        "n_epochs": config.epochs,
        "gamma": config.gamma,
        "gae_lambda": config.gae_lambda,
        "clip_range": config.clip,
        "ent_coef": config.entropy,
        "vf_coef": config.value_weight,
        "max_grad_norm": config.grad_norm,
        "target_kl": config.target_kl,
        "seed": config.seed,
        "device": "cpu",
    }


def _shape(config: PPOConfig) -> Json:
    layers = list(config.hidden)
    return {"net_arch": {"pi": layers, "vf": layers}, "activation_fn": ACTIVATIONS[config.activation]}


def _masked(table: TrainSetup, env: Any) -> Any:
    from playproof.train.ppo.loss import FastPolicy, MaskedPPO

    config = table.config
    model = MaskedPPO(FastPolicy, env, policy_kwargs=_shape(config), **_settings(config))
    falls, least = SCHEDULES[config.entropy_schedule], config.entropy_least
    model.entropy_weight = lambda left: config.entropy * (least + (1.0 - least) * falls(left))
    start, end = config.noop_prior_from, config.noop_prior_by
    model.noop_prior = lambda left: config.noop_prior * _risen(1.0 - left, start, end)
    floor = config.advantage_std_floor * config.stake / UNIT * config.reward_scale
    model.advantage_std_floor = lambda left: floor * _risen(1.0 - left, start, end)
    model.entropy_floor = lambda left: config.entropy_floor * (1.0 - _risen(1.0 - left, start, end))
    return model


def _risen(done: float, start: float, end: float) -> float:
    """Give how far something has risen that rises from 0 at `start` to 1 at `end`."""
    return min(1.0, max(0.0, (done - start) / (end - start)))


def _recurrent(table: TrainSetup, env: Any) -> Any:
    from sb3_contrib import RecurrentPPO

    shape = _shape(table.config) | {"lstm_hidden_size": table.config.recurrent}
    return RecurrentPPO("MlpLstmPolicy", env, policy_kwargs=shape, **_settings(table.config))


def _start_from(model: Any, table: TrainSetup, origin: Checkpoint) -> None:
    """Take a checkpoint's policy over, and stay near it at first."""
    from playproof.train.ppo.loss import FastPolicy

    config, card = table.config, origin.card
    shape = (card.config.get("activation", "tanh"), card.config.get("frames", 1), tuple(card.config.get("hidden", ())))
    if card.game != table.game.name or (card.observation, card.actions) != (table.observation, table.actions):
        raise InputError(
            f"expected a policy of {table.game.name} for {table.observation} and {table.actions}, "
            f"found one of {card.game} for {card.observation} and {card.actions} in {origin.path}"
        )
    if card.kind != "network" or shape[:2] != (config.activation, config.frames):
        raise InputError(
            f"expected a network like the one to be trained, found {card.kind} with {shape}; give the same"
        )
    if not isinstance(model.policy, FastPolicy):
        raise ConfigError("expected a policy without memory to start from a checkpoint, found a recurrent one")
    model.policy.load(dict(origin.weights))
    if config.anchor:
        anchor = FastPolicy(model.observation_space, model.action_space, lambda _: 0.0, **_shape(config))
        anchor.load(dict(origin.weights))
        anchor.requires_grad_(False)
        model.anchor = anchor
        model.anchor_weight = lambda left: config.anchor * max(0.0, 1.0 - (1.0 - left) / config.anchor_share)
    model.warmup = config.warmup


def weights_of(model: Any) -> Weights:
    """Give a model's parameters by the names that policies act by."""
    policy = model.policy
    if hasattr(policy, "weights"):
        result: Weights = policy.weights()
        return result
    actor = {f"trunk.{k}": layer for k, layer in enumerate(policy.mlp_extractor.policy_net[::2])}
    weights = linear_weights(actor) | _cut(linear_weights({"out": policy.action_net}), model.action_space.nvec)
    if hasattr(policy, "lstm_actor"):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            weights[f"memory.{name}"] = getattr(policy.lstm_actor, f"{name}_l0").detach().numpy().copy()
    return weights


def _cut(whole: Weights, heads: Sequence[int]) -> Weights:
    """Cut the one layer of logits into the layers of the heads."""
    cuts = np.cumsum(heads)[:-1]
    result: dict[str, NDArray[np.float32]] = {}
    for part in ("weight", "bias"):
        pieces = np.split(whole[f"out.{part}"], cuts)
        result |= {f"head.{k}.{part}": np.ascontiguousarray(piece) for k, piece in enumerate(pieces)}
    return result
