"""Play baselines over the same rounds and tell in money what came of it.

The return is profit per unit staked, with the standard error of a ratio over rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from playproof.game.vector_env import BatchPolicy, VectorTerms, play_lanes
from playproof.games.crash.players.baselines import make_baseline
from playproof.games.crash.sim.vector_env import make_vector_game
from playproof.json_types import Json
from playproof.money import UNIT

LANES = 512
STREAM = int.from_bytes(b"tournament")


@dataclass(frozen=True)
class TournamentScore:
    """What one policy did over some rounds; money in coins."""

    name: str
    rounds: int
    positions: int
    """Positions opened and sidebets placed."""
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

    def to_json(self) -> Json:
        """Give all figures, the interval included."""
        return {**asdict(self), "interval": list(self.interval)}


def score(
    name: str, pnl: NDArray[np.float64], staked: NDArray[np.float64], counts: tuple[int, int, int]
) -> TournamentScore:
    """Sum rounds up; the error of the ratio is that of the residuals pnl - roi x staked."""
    total = float(staked.sum())
    roi = float(pnl.sum() / total) if total else 0.0
    spread = float(np.sqrt(((pnl - roi * staked) ** 2).sum())) / total if total else 0.0
    positions, decisions, no_effect = counts
    return TournamentScore(name, len(pnl), positions, total, float(pnl.sum()), roi, spread, decisions, no_effect)


def play(name: str, policy: BatchPolicy, world: str, rounds: int, seed: int) -> TournamentScore:
    """Play a policy over so many rounds of a world, without a reserved stake."""
    lanes = make_vector_game(VectorTerms(world, (STREAM, seed)), min(LANES, rounds))
    played = play_lanes(lanes, policy, rounds, np.random.default_rng([STREAM, seed, 1]))
    decisions = int(played.decisions[:, 1:].sum())
    counts = (int(played.opened.sum()), decisions, int(played.no_effect.sum()))
    return score(name, played.pnl / UNIT, played.staked / UNIT, counts)


def tournament(names: Sequence[str], world: str, rounds: int, seed: int) -> list[TournamentScore]:
    """Play several baselines over the same rounds."""
    return [play(name, make_baseline(name), world, rounds, seed) for name in names]
