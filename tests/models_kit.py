"""Small policies and registries for tests of models and experiments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
from sqlalchemy import Engine

from playproof.evaluate.trials import Trial, record_trial
from playproof.game import load_game
from playproof.models.registry import Registry
from playproof.policies.checkpoint import Card, save_checkpoint
from playproof.policies.scaling import describe
from playproof.store.db import connect, upgrade

NOW = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


class Clock:
    """A clock that moves on by a second with every look."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def linear_policy(path: Path, choice: int, seed: int = 0, head: int = 0) -> Path:
    """Save a network of the crash game that takes one choice of a head wherever it is possible."""
    game = load_game("crash")
    described = describe(game, "policy")
    card = Card(
        kind="network",
        method="ppo",
        actions="buttons",
        heads=(4, 9),
        clock="tick",
        stake=10**8,
        reward={"name": "minimal", "version": "1", "failed_checks": False, "hash": "r" * 64},
        world="published",
        config={"activation": "relu", "seed": seed},
        metrics={"roi": seed / 100},
        **described,
    )
    save_checkpoint(path, card, _weights(len(described["features"]), choice, seed, head))
    return path


def _weights(features: int, choice: int, seed: int, head: int) -> dict[str, np.ndarray]:
    """Give small random parameters; the bias of a head decides it."""
    rng = np.random.default_rng(seed)
    shapes = {
        "trunk.0": (8, features),
        "head.0": (4, 8),
        "head.1": (9, 8),
        "critic.0": (8, features),
        "critic.1": (1, 8),
    }
    weights: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        weights[f"{name}.weight"] = rng.normal(0, 0.01, shape).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    weights[f"head.{head}.bias"][choice] = 50.0
    return weights


def open_registry(url: str, home: Path, clock: Clock | None = None) -> tuple[Engine, Registry]:
    """Open a registry on fresh tables."""
    engine = connect(url=url)
    upgrade(engine)
    return engine, Registry(engine, home, clock or Clock())


def write_report(path: Path, policy_hash: str, verdict: str = "EDGE SHOWN", data: str = "d" * 64) -> Path:
    """Write a report.json as `validate` does, of a verdict that is made up."""
    import hashlib
    import json

    payload = {
        "verdict": verdict,
        "sentence": f"{verdict} was found.",
        "policy": {"name": "p", "hash": policy_hash, "family": "f", "stake": 10**8},
        "data": {"name": "held-out", "hash": data, "split": "test", "windows": 3},
    }
    digest = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
    path.mkdir(parents=True, exist_ok=True)
    (path / "report.json").write_bytes(orjson.dumps(payload | {"report_hash": digest}))
    return path


def note_look(engine: Engine, policy_hash: str, when: datetime, data: str = "d" * 64) -> None:
    """Write the look of a report into the trial ledger."""
    trial = Trial("f", policy_hash, data, "test", "test", when, ("w1", "w2", "w3"), (1, 2, 3), 10**8)
    assert record_trial(engine, trial)
