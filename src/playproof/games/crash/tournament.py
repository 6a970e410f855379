"""Play baselines over the same rounds and tell in money what came of it.

The return is profit per unit staked, with the standard error of a ratio over rounds. Leaves out:
verdicts; a return here is a figure, not a claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.games.crash.baselines import WAIT, VectorPolicy, make_baseline
from playproof.games.crash.env import CrashVectorEnv
from playproof.money import UNIT

LANES = 500


@dataclass(frozen=True)
class Score:
    """What one policy did over some rounds; money in coins."""

    name: str
    rounds: int
    positions: int
    staked: float
    pnl: float
    roi: float
    """Profit per unit staked; 0 where nothing was."""
    se: float
    """Standard error of the return, over rounds."""
    decisions: int
    """Actions other than WAIT."""
    no_effect: int

    @property
    def interval(self) -> tuple[float, float]:
        """Give the 95 % interval of the return."""
        return self.roi - 1.96 * self.se, self.roi + 1.96 * self.se

    def to_json(self) -> dict[str, Any]:
        """Give all figures, the interval included."""
        return {**asdict(self), "interval": list(self.interval)}


def score(name: str, pnl: NDArray[np.float64], staked: NDArray[np.float64], counts: tuple[int, int, int]) -> Score:
    """Sum rounds up; the error of the ratio is that of the residuals pnl - roi x staked."""
    total = float(staked.sum())
    roi = float(pnl.sum() / total) if total else 0.0
    spread = float(np.sqrt(((pnl - roi * staked) ** 2).sum())) / total if total else 0.0
    positions, decisions, no_effect = counts
    return Score(name, len(pnl), positions, total, float(pnl.sum()), roi, spread, decisions, no_effect)


def play(name: str, policy: VectorPolicy, world: str, rounds: int, seed: int) -> Score:
    """Play a policy over rounds 0 to n of so many lanes that every lane plays equally many."""
    lanes = min(LANES, rounds)
    envs = CrashVectorEnv(lanes, world=world)
    obs, _ = envs.reset(seed=seed)
    state = policy.start(lanes, np.random.default_rng(seed))
    left = np.full(lanes, rounds // lanes) + (np.arange(lanes) < rounds % lanes)
    pnl: list[NDArray[np.float64]] = []
    staked: list[NDArray[np.float64]] = []
    positions = decisions = no_effect = 0
    while left.any():
        actions = policy.act(obs, state)
        obs, _, terminated, _, infos = envs.step(actions)
        playing = left > 0
        decisions += int((playing & (actions[:, 0] != WAIT)).sum())
        if terminated.any():
            over = np.flatnonzero(terminated & playing)
            final = infos["final_info"]
            pnl.append((final["cash"][over] - UNIT) / UNIT)
            staked.append(final["total_invested"][over] / UNIT)
            positions += int(final["positions_opened"][over].sum())
            no_effect += int(final["no_effect_actions"][over].sum())
            left[over] -= 1
            policy.begin(state, terminated)
    return score(name, np.concatenate(pnl), np.concatenate(staked), (positions, decisions, no_effect))


def tournament(names: Sequence[str], world: str, rounds: int, seed: int) -> list[Score]:
    """Play several baselines over the same rounds."""
    return [play(name, make_baseline(name), world, rounds, seed) for name in names]
