"""The paired benchmark of language models, as `arena bench` and the arena's loop write it, read for a promotion."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playproof.errors import InputError

LEADERBOARD = "leaderboard.json"
ALL = "all"
"""The row over all scenarios."""


@dataclass(frozen=True)
class PairedGain:
    """How much more one earned than another on the same windows, USD a window."""

    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark says of its contestants."""

    policies: Mapping[str, str]
    """Card hashes of the contestants that are checkpoints, by their names."""
    gains: Mapping[str, Mapping[str, PairedGain]]
    windows: int
    report_hash: str

    def name_of(self, policy_hash: str) -> str | None:
        """Give the name under which a checkpoint was benchmarked."""
        return next((name for name, digest in self.policies.items() if digest == policy_hash), None)

    def versus(self, own: str, rival: str) -> PairedGain | None:
        """Give the paired difference of two contestants."""
        return self.gains.get(own, {}).get(rival)


def read_benchmark(path: Path) -> Benchmark:
    """Read a leaderboard.json, or the folder that holds it."""
    file = path / LEADERBOARD if path.is_dir() else path
    try:
        text = file.read_bytes()
        payload = json.loads(text)
        policies = {str(name): str(digest) for name, digest in payload["policies"].items()}
        rows = {row["name"]: row for row in payload["figures"] if row["scenario"] == ALL}
        gains = {name: {rival: _gain(item) for rival, item in row["versus"].items()} for name, row in rows.items()}
        windows = min(int(row["windows"]) for row in rows.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"expected the {LEADERBOARD} of `playproof arena bench` at {file}, found: {error!r:.80}"
        ) from None
    return Benchmark(policies, gains, windows, hashlib.sha256(text).hexdigest())


def _gain(item: Mapping[str, object]) -> PairedGain:
    interval = item["interval"]
    assert isinstance(interval, list)
    gain = PairedGain(float(str(item["difference"])), float(interval[0]), float(interval[1]))
    if not all(map(math.isfinite, (gain.difference, gain.low, gain.high))):
        raise ValueError("a difference that is not finite")
    return gain
