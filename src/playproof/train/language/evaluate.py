"""Measure players of words in money on held-out forked windows, the same windows for each, paired window by window.

Leaves out: learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.game import Game
from playproof.game.forks import ForkTerms
from playproof.stats.evidence import bootstrap_interval, paired_intervals
from playproof.train.language.rollout import Answering, PlayedGroup, play, scripted_player

Floats = NDArray[np.float64]
AT_ONCE = 16
"""Windows that are played side by side."""
BASELINES = ("wait", "random", "momentum", "hold", "informed")


@dataclass(frozen=True)
class PlayerMeasurement:
    """How a player did; one number for each window, the mean over its copies, money in the smallest unit."""

    pnl: Floats
    reward: Floats
    valid: float
    """Share of answers that could be read as a decision."""
    refused: float
    trades: float
    """In each episode."""

    def to_json(self, rng: np.random.Generator) -> dict[str, Any]:
        """Give means and intervals."""
        low, high = bootstrap_interval(self.pnl, rng)
        return {
            "windows": len(self.pnl),
            "pnl": float(self.pnl.mean()),
            "pnl_low": low,
            "pnl_high": high,
            "reward": float(self.reward.mean()),
            "valid": self.valid,
            "refused": self.refused,
            "trades": self.trades,
        }


def measure(game: Game, terms: ForkTerms, numbers: Sequence[int], forks: int, player: Answering) -> PlayerMeasurement:
    """Let a player play windows, each in so many copies."""
    played: list[PlayedGroup] = []
    for start in range(0, len(numbers), AT_ONCE):
        played += play(game, terms, numbers[start : start + AT_ONCE], forks, player, None)
    ends = [end for item in played for end in item.ends]
    decisions = max(1, sum(end.decisions for end in ends))
    return PlayerMeasurement(
        np.array([item.money for item in played]),
        np.array([item.reward for item in played]),
        sum(end.valid for end in ends) / decisions,
        sum(end.refused for end in ends) / decisions,
        sum(end.trades for end in ends) / max(1, len(ends)),
    )


def measure_baselines(
    game: Game, terms: ForkTerms, numbers: Sequence[int], names: Sequence[str] = BASELINES
) -> dict[str, PlayerMeasurement]:
    """Let scripted players play the same windows."""
    return {name: measure(game, terms, numbers, 1, scripted_player(name, (terms.seed, 77))) for name in names}


def gains(
    player_measurement: PlayerMeasurement, others: Mapping[str, PlayerMeasurement], rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Give for each other player the interval of the difference in P&L, window by window."""
    return paired_intervals(player_measurement.pnl, {name: other.pnl for name, other in others.items()}, rng)
