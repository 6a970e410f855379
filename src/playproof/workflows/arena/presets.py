"""Settings that belong together: how a model is taught, trained and benchmarked, from nothing to a verdict.

`tiny` is a model of about five million parameters that decides once an hour in the easy world. Its teacher goes with
67 % of the headlines; these are right in 95 %, so that the play is right in 0.67 x 0.95 + 0.33 x 0.05 = 65 %.
Leaves out: the training (train), and the cycle (loop).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from playproof.json_types import Json

ALONE: Mapping[str, Any] = MappingProxyType({"others": []})
"""Nobody else trades in the forked windows that are learned from."""


@dataclass(frozen=True)
class Preset:
    """Settings of one kind of model."""

    teach: Mapping[str, Any]
    """Of SFT."""
    train: Mapping[str, Any]
    """Of GRPO."""
    loop: Mapping[str, Any]
    """Of the cycle."""


_TERMS: Json = {"world": "clear", "decisions": 1, "prompt": "brief"}
_ALL_WEIGHTS: Json = {"options": dict(ALONE), "rank": None}

PRESETS: Mapping[str, Preset] = {
    "tiny": Preset(
        teach={
            **_TERMS,
            **_ALL_WEIGHTS,
            "base": "tiny",
            "player": "headline:0.67",
            "windows": 320,
            "holdout": 0,
            "epochs": 6,
            "batch": 16,
            "learning_rate": 1e-3,
            "max_tokens": 16,
        },
        train={
            **_ALL_WEIGHTS,
            "iterations": 8,
            "epochs": 2,
            "windows": 32,
            "forks": 8,
            "groups_a_step": 16,
            "learning_rate": 1e-4,
            "warm_up": 8,
            "holdout": 64,
            "holdout_forks": 4,
            "evaluate_every": 8,
        },
        loop={**_TERMS, "max_tokens": 10, "agents": 4, "own_agents": 2, "windows": 2, "bench_windows": 96},
    ),
}
