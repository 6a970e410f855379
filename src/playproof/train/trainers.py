"""Trainers that can be tuned: each trains with some settings and plays the result over validation windows of a world.

Options: game, world, stake in the smallest unit, windows to validate on, and for offline methods the
players whose play is learned from and for how many rounds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.datasets import Transitions
from playproof.evaluate.rollout import RolloutOptions, rollout
from playproof.game import Game, load_game
from playproof.game.vector_env import BatchPolicy
from playproof.policies.network import BatchPlayer
from playproof.train.config import CqlConfig, IqlConfig, OfflineConfig, RugPredictorConfig
from playproof.train.data import OfflinePolicy, OfflineSetup
from playproof.train.ppo.config import PPOConfig
from playproof.train.tuning import Axis, Report, Settings, TrialResult

VALIDATION = 700_001
"""Added to the seed for the windows that trials are judged by."""

SPACES: Mapping[str, Mapping[str, Axis]] = {
    "ppo": {
        "learning_rate": Axis("log", 1e-4, 3e-3),
        "entropy": Axis("log", 1e-4, 3e-2),
        "gamma": Axis("float", 0.9, 0.99),
        "gae_lambda": Axis("float", 0.8, 0.97),
    },
    "cql": {
        "alpha": Axis("log", 0.01, 2.0),
        "learning_rate": Axis("log", 1e-4, 3e-3),
        "gamma": Axis("float", 0.9, 0.99),
    },
    "iql": {
        "expectile": Axis("float", 0.6, 0.95),
        "beta": Axis("log", 0.5, 20.0),
        "learning_rate": Axis("log", 1e-4, 3e-3),
    },
    "sidebet": {
        "leaves": Axis("int", 2, 16),
        "learning_rate": Axis("log", 0.05, 1.0),
        "margin": Axis("float", 0.0, 0.3),
    },
}
"""What is searched unless something else is asked for."""
CONFIGS = {"ppo": PPOConfig, "cql": CqlConfig, "iql": IqlConfig, "sidebet": RugPredictorConfig}
"""The settings that each method knows."""
TRAINERS = {name: f"playproof.train.trainers:{name}" for name in SPACES}


def cql(settings: Settings, seed: int, report: Report, options: Mapping[str, Any]) -> TrialResult:
    """Try settings of conservative Q-learning."""
    from playproof.train.cql import train_cql

    return _offline(train_cql, CqlConfig, settings, seed, report, options)


def iql(settings: Settings, seed: int, report: Report, options: Mapping[str, Any]) -> TrialResult:
    """Try settings of implicit Q-learning."""
    from playproof.train.iql import train_iql

    return _offline(train_iql, IqlConfig, settings, seed, report, options)


def _offline(
    train: Callable[..., OfflinePolicy],
    kind: type[OfflineConfig],
    settings: Settings,
    seed: int,
    report: Report,
    options: Mapping[str, Any],
) -> TrialResult:
    game = load_game(options["game"])
    config = kind(**{**options.get("config", {}), **settings, "seed": seed})
    made = train(OfflineSetup.from_game(game), lessons(game, options, seed), config)
    return judge(game, BatchPlayer(made.policy), made.weights, seed, options, report)


def sidebet(settings: Settings, seed: int, report: Report, options: Mapping[str, Any]) -> TrialResult:
    """Try settings of the predictor; its policy bets by it."""
    from playproof.train.rug_predictor import grow, sidebet_policy

    game = load_game(options["game"])
    steps = lessons(game, {**options, "players": ["wait"]}, seed)
    names = tuple(game.observations[next(iter(game.observations))].features)  # type: ignore[union-attr]
    config = RugPredictorConfig(**{**options.get("config", {}), **settings}, seed=seed)
    made = grow(game, steps, config, names=names, world=options["world"])
    policy = sidebet_policy(game, made, options["world"])
    return judge(game, policy, made.model + str(config.margin), seed, options, report)


def ppo(settings: Settings, seed: int, report: Report, options: Mapping[str, Any]) -> TrialResult:
    """Try settings of PPO; judged by money at every evaluation."""
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    from playproof.train.ppo.loop import TrainSetup, train_ppo

    game = load_game(options["game"])
    config = PPOConfig(game=game.name, worlds=((options["world"], 1.0),), seed=seed, stake=options["stake"])
    config = replace(config, **{**options.get("config", {}), **settings})

    def show(step: int, payload: Mapping[str, Any]) -> None:
        if "pnl" in payload:
            report(step, payload["pnl"] / options["stake"])

    with tempfile.TemporaryDirectory() as folder:
        trained = train_ppo(game, config, Path(folder) / "run", show=show)
        policy = TrainSetup.from_config(game, config).policy(trained.weights)
    return judge(game, BatchPlayer(policy), trained.weights, seed, options, report)


def judge(
    game: Game,
    player: BatchPolicy,
    policy: Mapping[str, NDArray[Any]] | str,
    seed: int,
    options: Mapping[str, Any],
    report: Report,
) -> TrialResult:
    """Play over the validation windows in portions, telling the worth after each, so that poor trials end early."""
    windows, portions = int(options.get("windows", 1024)), 4
    parts = []
    for portion in range(portions):
        result = rollout(
            game,
            player,
            options["world"],
            max(1, windows // portions),
            seed + VALIDATION + portion,
            stake=options["stake"],
            options=RolloutOptions(clock=options.get("clock")),
        ).score()
        parts.append(result)
        report(10**9 + portion, sum(part.roi for part in parts) / len(parts))
    whole = parts[0].__class__(
        "tuned",
        tuple(name for part in parts for name in part.windows),
        tuple(pnl for part in parts for pnl in part.pnl),
        tuple(count for part in parts for count in part.opened),
        options["stake"],
    )
    return TrialResult(whole, hash_of(policy), f"{options['world']}@{seed + VALIDATION}")


def hash_of(policy: Mapping[str, NDArray[Any]] | str) -> str:
    """Give the identity of a policy that has no checkpoint."""
    digest = hashlib.sha256()
    if isinstance(policy, str):
        digest.update(policy.encode())
    else:
        for name in sorted(policy):
            digest.update(name.encode() + np.ascontiguousarray(policy[name]).tobytes())
    return digest.hexdigest()


def lessons(game: Game, options: Mapping[str, Any], seed: int) -> Transitions:
    """Play the players whose steps are learned from; the same ones for all trials of a process."""
    asked = {name: options.get(name) for name in ("world", "players", "rounds", "stake", "clock")}
    return _played(game.name, json.dumps(asked, sort_keys=True), seed)


@lru_cache(maxsize=2)
def _played(game_name: str, asked: str, seed: int) -> Transitions:
    from playproof.train.demonstrations import DemonstrationConfig, Mixture, demonstrate, find_player

    payload, game = json.loads(asked), load_game(game_name)
    sizes = tuple(map(len, next(iter(game.actions.values())).heads))
    players = [find_player(game, text, payload["world"], sizes) for text in payload["players"]]
    terms = DemonstrationConfig(clock=payload["clock"], stake=payload["stake"])
    return demonstrate(game, Mixture(players), payload["world"], payload["rounds"] or 500, seed, terms)
