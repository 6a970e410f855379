"""Settings of SFT and GRPO: plain records that import no torch.

The commands make their options from these records (cli.configs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge

from playproof.errors import ConfigError
from playproof.game.forks import ForkTerms
from playproof.train.config import Count, Seed, Share

TINY = "tiny"
"""Name of the model that is made on the spot, for tests and first tries."""
Averaging = Literal["sequence", "token"]


@dataclass(frozen=True, kw_only=True)
class LanguageConfig:
    """What SFT and GRPO are both asked for."""

    game: str
    """The game, played in words."""
    base: str
    """Model to train: a checkpoint such as SFT's, smollm2, a folder, or hf:NAME from a hub."""
    world: str = "news"
    """World of the forked windows."""
    seed: Seed = 1
    """Same seed, same windows, same weights."""
    decisions: Count = 4
    """Decisions of an episode."""
    prompt: str = "full"
    """Which prompt the game writes."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What only this game's forked windows can be asked for."""
    rank: int | None = 16
    """Rank of a fresh adapter, where the base has none; null trains all weights."""
    holdout: Annotated[int, Ge(0)] = 32
    """Later windows that are held out to measure on."""
    embargo: int = 24
    """Windows, or hours of recorded ones, between those learned from and those held out."""

    @property
    def terms(self) -> ForkTerms:
        """Give the terms of the forked windows."""
        return ForkTerms(self.world, self.seed, self.decisions, self.prompt, dict(self.options))


@dataclass(frozen=True, kw_only=True)
class SFTConfig(LanguageConfig):
    """What is learned from whom, and how."""

    base: str = TINY
    """Model to teach: tiny, smollm2, a folder, or hf:NAME from a hub."""
    player: str = "informed"
    """Scripted player to imitate in forked windows; informed:0.65 does the contrary of 35 % of its trades."""
    windows: Count = 200
    """Forked windows to play for lessons; unused where recorded groups are given."""
    epochs: Count = 2
    """Passes over the answers."""
    batch: Count = 32
    """Answers of one optimiser step."""
    learning_rate: float = 1e-4
    """Largest learning rate; adapters bear more."""
    max_tokens: Count = 48
    """Tokens of an answer when it is measured; longer ones are left out of the lessons, and counted."""
    save_every: Count = 20
    """Steps between resume points."""
    baselines: bool = True
    """Measure scripted players on the same windows."""


@dataclass(frozen=True, kw_only=True)
class GRPOConfig(LanguageConfig):
    """What is learned from, how, and how it is measured."""

    min_agents: Annotated[int, Ge(2)] = 5
    """Least episodes of a group: agents of a window, or its forks."""
    forks: Annotated[int, Ge(2)] = 8
    """Copies of each forked window."""
    iterations: Count = 10
    """Times to take windows, learn and save."""
    windows: Count = 20
    """Windows of an iteration."""
    lookback_hours: Annotated[float, Ge(0)] = 168
    """How far back recorded windows may have begun."""
    min_actions: Annotated[int, Ge(1)] | None = None
    """Usable steps of an episode. Default: 5, or all decisions if fewer."""
    learning_rate: float = 5e-6
    """For whole models; adapters bear about ten times more."""
    target: Count = 1_000
    """Trajectories above which whole windows are left out."""
    max_dropout: Share = 0.3
    """The largest share of its trajectories that a set may lose to that."""
    reward: str = "computed"
    """Name of the reward."""
    warm_up: int = 0
    """Optimiser steps in which the learning rate rises; the first ones would else move every weight by all of it."""
    max_tokens: Count = 24
    """Tokens of an answer."""
    groups_a_step: Count = 4
    """Groups of one optimiser step."""
    epochs: Count = 1
    """Passes over the groups of an iteration."""
    clip: float = 0.2
    """How far the ratio of the new to the old likelihood of a token counts."""
    beta: float = 0.0
    """Weight of the distance from the model that training began with."""
    averaging: Averaging = "sequence"
    """Of tokens within each sequence and then of sequences, or of all tokens alike: sequence or token."""
    holdout_forks: Count = 2
    """Copies of each held-out window."""
    evaluate_every: Count = 1
    """Iterations between measurements on the held-out windows."""
    max_kl: float = 0.5
    """KL divergence of one iteration, per token, above which the run stops."""

    def __post_init__(self) -> None:
        if self.forks < max(2, self.min_agents):
            raise ConfigError(
                f"expected at least {max(2, self.min_agents)} forks of a window (min-agents), found {self.forks}"
            )

    @property
    def least_actions(self) -> int:
        """Give the usable steps that an episode must have."""
        return min(5, self.decisions) if self.min_actions is None else self.min_actions
