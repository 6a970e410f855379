"""Settings of PPO, and the presets that change several of them at once: a plain record that imports no torch.

The command makes its options from this record (cli.configs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from playproof.errors import ConfigError, UnknownName
from playproof.game import Game, lookup
from playproof.money import UNIT
from playproof.train.config import ACTIVATION_NAMES, Count, Seed

SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda left: 1.0,  # noqa: ARG005
    "linear": lambda left: max(left, 0.0),
    "quadratic": lambda left: max(left, 0.0) ** 2,
    "cosine": lambda left: 0.5 * (1.0 - math.cos(math.pi * min(1.0, max(left, 0.0)))),
}
"""Share of a rate by what is left of the training, from 1 to 0."""


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """What a training by PPO is asked for."""

    game: str
    """The game."""
    worlds: tuple[tuple[str, float], ...]
    """The curriculum: worlds in their order, each with its share of the steps."""
    steps: Count = 6_000_000
    """Steps of all lanes together, those of discarded restarts left out."""
    seed: Seed = 1
    """Same seed, same weights."""
    observation: str | None = None
    """Observation set; default: the game's first."""
    actions: str | None = None
    """Action set; default: the game's first."""
    clock: str | None = None
    """When the policy decides: tick or press; default: the game's own."""
    reward: str | None = None
    """Name of a reward, a file, or module:attribute; default: the game's first."""
    stake: int = UNIT // 10
    """Reserved for each window, in the smallest unit."""
    balance: int | None = None
    """Money at the start of a window, in the smallest unit; default: the stake."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What only this game can be asked for, such as the bet that stands in the field at first."""
    lanes: int = 1024
    """Environments that are stepped at once."""
    rollout: int = 16
    """Steps of each lane between updates."""
    batch: int = 1024
    """Steps of one minibatch."""
    epochs: int = 2
    """Passes over a rollout."""
    learning_rate: float = 2e-3
    """At first; the schedule lowers it."""
    schedule: str = "linear"
    """How the learning rate falls: constant, linear, quadratic or cosine."""
    gamma: float = 0.98
    """Discount of a step."""
    gae_lambda: float = 0.6
    """Lambda of generalised advantage estimation."""
    clip: float = 0.2
    """Clipping range of the probability ratio."""
    entropy: float = 0.015
    """Weight of the entropy, at first."""
    entropy_schedule: str = "quadratic"
    """How that weight falls: constant, linear, quadratic or cosine."""
    entropy_least: float = 0.4
    """Share of the entropy's weight that its schedule never goes below."""
    entropy_floor: float = 2.0
    """Entropy of an action, in nats, kept until `noop_prior_from`; falls to 0 by `noop_prior_by`."""
    noop_prior: float = 5.0
    """Lead of WAIT, in logits, in the policy that the entropy term pulls towards, at the end."""
    noop_prior_from: float = 0.4
    """Share of the training after which that lead rises; before, the policy explores freely."""
    noop_prior_by: float = 0.6
    """Share of the training by which the lead is complete."""
    advantage_std_floor: float = 0.01
    """Smallest divisor of advantages as a share of the stake, once the no-op prior is active."""
    value_weight: float = 0.5
    """Weight of the critic's loss."""
    grad_norm: float = 0.5
    """Largest norm of a gradient."""
    target_kl: float | None = None
    """KL divergence that ends the passes over a rollout early; default: never."""
    reward_scale: float = 100.0
    """What rewards are multiplied by."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of each hidden layer."""
    activation: str = "relu"
    """tanh or relu."""
    frames: int = 1
    """Observations that the policy sees at once."""
    masked: bool = True
    """Choose only among actions that can have an effect."""
    recurrent: int = 0
    """Numbers that an LSTM remembers; 0: none. A recurrent policy is not masked."""
    evaluate_every: int = 20
    """Rollouts between evaluations in money."""
    evaluate_windows: int = 512
    """Validation windows of an evaluation."""
    restarts: int = 3
    """Trainings from scratch with different seeds; the most profitable one continues."""
    restart_share: float = 0.3
    """Share of the steps after which that is decided."""
    patience: int | None = None
    """Evaluations without a better profit that stop the training."""
    until: float | None = None
    """Profit per validation window, in coins, that ends the training."""
    warmup: int = 0
    """Rollouts in which only the critic learns; for fine-tuning."""
    anchor: float = 0.0
    """Weight of the divergence from the policy that training starts from, at first."""
    anchor_share: float = 0.5
    """Share of the training after which that weight has fallen to 0."""
    preset: str = "lanes"
    """lanes, or plan: 8 plain environments, learning rate 3e-4, batches of 64, entropy 0.01."""

    def __post_init__(self) -> None:
        total = sum(share for _, share in self.worlds)
        if not self.worlds or not 0.999 < total < 1.001 or min(share for _, share in self.worlds) <= 0:
            raise ConfigError(f"expected worlds with shares that sum to 1, found {self.worlds}")
        for name in ("schedule", "entropy_schedule"):
            lookup(SCHEDULES, getattr(self, name), name)
        if self.activation not in ACTIVATION_NAMES:
            raise UnknownName("activation", self.activation, ACTIVATION_NAMES)
        if self.preset not in ("lanes", "plan"):
            raise ConfigError(f"expected preset lanes or plan, found {self.preset!r}")
        if not 0.0 <= self.noop_prior_from < self.noop_prior_by:
            raise ConfigError(
                f"expected noop_prior_from below noop_prior_by, found {self.noop_prior_from} and {self.noop_prior_by}"
            )
        if self.restarts < 1 or not 0.0 < self.restart_share < 1.0:
            raise ConfigError(
                f"expected at least 1 restart of a share between 0 and 1, found {self.restarts} of {self.restart_share}"
            )
        if self.recurrent and (self.frames > 1 or self.anchor or self.warmup):
            raise ConfigError("expected a recurrent policy without frames, anchor and warm-up, found one with")
        if self.recurrent:
            object.__setattr__(self, "masked", False)
        if self.batch > self.lanes * self.rollout or (self.lanes * self.rollout) % self.batch:
            raise ConfigError(
                f"expected batches that divide {self.lanes} lanes x {self.rollout} steps, found {self.batch}"
            )

    @property
    def world(self) -> str:
        """Give the world that the policy is meant for: the curriculum's last."""
        return self.worlds[-1][0]

    @classmethod
    def from_json(cls, payload: Mapping[str, Any]) -> PPOConfig:
        """Read a configuration back from a run's folder."""
        worlds = tuple((name, float(share)) for name, share in payload["worlds"])
        return cls(**{**payload, "worlds": worlds, "hidden": tuple(payload["hidden"])})


def plan_preset(config: PPOConfig) -> PPOConfig:
    """Give the plan's set-up: stable-baselines3's defaults but for what the plan names."""
    return replace(
        config,
        preset="plan",
        lanes=8,
        rollout=2048,
        batch=64,
        epochs=10,
        learning_rate=3e-4,
        schedule="constant",
        gamma=0.99,
        gae_lambda=0.95,
        entropy=0.01,
        entropy_schedule="constant",
        entropy_floor=0.0,
        noop_prior=0.0,
        advantage_std_floor=0.0,
        reward_scale=1.0,
        activation="tanh",
        masked=False,
        evaluate_every=1,
        restarts=1,
    )


def fine_tuned(config: PPOConfig, source: Path, game: Game) -> PPOConfig:
    """Give the settings for going on from a checkpoint: its own shape and terms, a warm-up, an anchor.

    It has no prior towards doing nothing: what the policy does already was shown to it, and an anchor holds it there.
    """
    from playproof.policies.checkpoint import load_checkpoint

    card = load_checkpoint(source, game).card
    return replace(
        config,
        observation=card.observation,
        actions=card.actions,
        clock=card.clock,
        hidden=tuple(card.config.get("hidden", config.hidden)),
        activation=card.config.get("activation", config.activation),
        frames=card.config.get("frames", 1),
        warmup=4,
        anchor=1.0,
        anchor_share=0.3,
        entropy=config.entropy / 3,
        entropy_floor=0.0,
        noop_prior=0.0,
        restarts=1,
    )
