"""Play millions of rounds of a world and set what was measured beside theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.errors import ConfigError
from playproof.games.crash.rules import theory
from playproof.games.crash.rules.prices import MASK, MAX_TICKS
from playproof.games.crash.rules.worlds import World
from playproof.games.crash.sim import prices_nb

compiled = compiler(__file__)

SURVIVAL_TICKS = (50, 100, 138, 200, 300)
HOLD_TICKS = (10, 40, 100, 200)
CHUNK = 50_000


@compiled
def _simulate(
    code: int,
    seed: np.uint64,
    first: int,
    horizons: NDArray[np.int64],
    rug_ticks: NDArray[np.int32],
    peaks: NDArray[np.float64],
    held: NDArray[np.float64],
    prices: NDArray[np.float64],
) -> None:
    """Play rounds `first` on, one for each row of the outputs."""
    for row in range(len(rug_ticks)):
        last, rugged = prices_nb.counter_round(code, seed, first + row, prices)
        rug_ticks[row] = last
        peaks[row] = prices[: last + (not rugged)].max()
        for index in range(len(horizons)):
            held[row, index] = prices[min(horizons[index], last)]


@dataclass(frozen=True)
class MeasuredMean:
    """A mean, its standard error and the theoretical value."""

    mean: float
    se: float
    theory: float

    @property
    def sigmas(self) -> float:
        """Give the distance from theory in standard errors."""
        return abs(self.mean - self.theory) / self.se if self.se else 0.0


@dataclass(frozen=True)
class SimulatedRounds:
    """What some rounds of a world showed."""

    world: str
    seed: int
    rounds: int
    survival: dict[int, MeasuredMean]
    hold: dict[int, MeasuredMean]
    rug_ticks: NDArray[np.int32]
    peaks: NDArray[np.float64]

    def to_json(self) -> dict[str, object]:
        """Give the figures without the rounds."""

        def table(rows: dict[int, MeasuredMean]) -> dict[str, dict[str, float]]:
            return {str(k): {"mean": row.mean, "se": row.se, "theory": row.theory} for k, row in rows.items()}

        return {
            "world": self.world,
            "seed": self.seed,
            "rounds": self.rounds,
            "mean_rug_tick": float(self.rug_ticks.mean()),
            "survival": table(self.survival),
            "hold": table(self.hold),
        }


def simulate(
    world: World,
    seed: int,
    rounds: int,
    hold: Sequence[int] = HOLD_TICKS,
    survive: Sequence[int] = SURVIVAL_TICKS,
    progress: Callable[[int], None] = lambda _: None,
) -> SimulatedRounds:
    """Play rounds 0 to `rounds` - 1 of a seed; `progress` hears how many are done."""
    if rounds < 2:
        raise ConfigError(f"expected at least 2 rounds, found {rounds}")
    horizons = np.array(hold, np.int64)
    rug_ticks = np.empty(rounds, np.int32)
    peaks = np.empty(rounds)
    held = np.empty((rounds, len(hold)))
    prices = np.empty(MAX_TICKS + 1)
    for start in range(0, rounds, CHUNK):
        part = slice(start, min(start + CHUNK, rounds))
        _simulate(world.code, np.uint64(seed & MASK), start, horizons, rug_ticks[part], peaks[part], held[part], prices)
        progress(part.stop)
    root = np.sqrt(rounds)
    survival = {}
    for tick in survive:
        share = float((rug_ticks > tick).mean())
        survival[tick] = MeasuredMean(share, float(np.sqrt(share * (1 - share)) / root), theory.survival(world, tick))
    returns = {
        ticks: MeasuredMean(
            float(held[:, index].mean() - 1), float(held[:, index].std(ddof=1) / root), theory.hold_return(world, ticks)
        )
        for index, ticks in enumerate(hold)
    }
    return SimulatedRounds(world.name, seed, rounds, survival, returns, rug_ticks, peaks)
