"""The sidebet's label and inputs, as a predictor of the rug learns and acts by them.

The inputs beyond a row are features of the set `trader`, written by the very fold that writes them
there (history), over the prices that rows of the set `policy` show. Rows hold prices as float32, so
that an input differs from a recording's in its last digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.game.vector_env import Chosen, Ints, Rows
from playproof.games.crash.features import history, state
from playproof.games.crash.features.state import ACTIVE, PRESALE
from playproof.games.crash.features.table import PREDICTOR_INPUTS, TRADER
from playproof.games.crash.players.baselines import SELL, SIDEBET
from playproof.games.crash.rules.money import MIN_BET, SIDEBET_TICKS
from playproof.games.crash.rules.prices import RUG_CHANCE
from playproof.games.crash.rules.worlds import HAZARD, HOT_HAZARD, INSTARUG, get_world
from playproof.money import UNIT

compiled = compiler(__file__)

INPUTS = (
    "z_score_20",
    "volatility_ratio",
    "log_return_10",
    "volatility_last_10",
    "big_moves_10",
    "ticks_since_big_move",
)
"""Those of the 14 planned inputs that are neither in a row already nor left out."""
HOT_RATIO = 0.8

_PLACES = np.array([TRADER.index(name) for name in INPUTS])


@dataclass
class PriceMemory:
    """What is remembered of each lane: the folds of its prices."""

    states: NDArray[Any]
    histories: NDArray[Any]
    seen: Ints
    """Tick of the last row, -1 before the first."""


@compiled
def _follow(
    states: NDArray[Any],
    histories: NDArray[Any],
    fresh: NDArray[np.bool_],
    ticks: NDArray[np.int64],
    prices: NDArray[np.float64],
    phases: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Take one row a lane into its folds and write the set `trader`."""
    for lane in range(len(ticks)):
        if fresh[lane]:
            state.apply_round(states[lane], 0.0)
            history.apply_round(histories[lane], states[lane])
        state.apply_tick(states[lane], ticks[lane], prices[lane], 0, phases[lane])
        history.apply_tick(histories[lane], states[lane])
        history.observe_trader(histories[lane], states[lane], out, lane)


class Sidebets:
    """The label `rug_within_40`: would a sidebet placed now win?"""

    label = "rug_within_40"
    inputs = INPUTS
    mean_life = 1.0 / RUG_CHANCE
    actions = "buttons"
    bet = (SIDEBET, 0)
    exit = (SELL, 0)

    @property
    def planned(self) -> Mapping[str, str]:
        """Tell what became of the 14 inputs of the old plan."""
        return PREDICTOR_INPUTS

    def start(self, lanes: int) -> PriceMemory:
        """Remember nothing yet of so many lanes."""
        return PriceMemory(state.new_state(lanes), history.new_history(lanes), np.full(lanes, -1))

    def begin(self, memory: PriceMemory, chosen: Chosen) -> None:
        """Forget the chosen lanes."""
        memory.seen[chosen] = -1

    def keep(self, memory: PriceMemory, lanes: int) -> PriceMemory:
        """Give the memory of the first lanes only."""
        return PriceMemory(memory.states[:lanes], memory.histories[:lanes], memory.seen[:lanes])

    def look(self, memory: PriceMemory, rows: Rows, names: tuple[str, ...]) -> Rows:
        """Take one row a lane into the folds; give the inputs beyond it."""
        ticks = self.clock(rows, names)
        out = np.zeros((len(rows), len(TRADER)), np.float32)
        fresh = (memory.seen < 0) | (ticks < memory.seen)
        prices = _column(rows, names, "price").astype(np.float64)
        phases = _column(rows, names, "game_phase").astype(np.int64)
        _follow(memory.states, memory.histories, fresh, ticks, prices, phases, out)
        memory.seen[:] = ticks
        return out[:, _PLACES]

    def clock(self, rows: Rows, names: tuple[str, ...]) -> Ints:
        """Give the tick; a presale counts as tick 0, where its sidebets start."""
        return _column(rows, names, "tick").astype(np.int64)

    def asked(self, rows: Rows, names: tuple[str, ...]) -> Chosen:
        """Tell where a sidebet could be placed."""
        phase = _column(rows, names, "game_phase")
        chosen: Chosen = (phase == PRESALE) | (phase == ACTIVE)
        return chosen

    def held(self, rows: Rows, names: tuple[str, ...]) -> Chosen:
        """Tell where a position can be sold."""
        chosen: Chosen = (_column(rows, names, "position_qty") > 0) & (_column(rows, names, "game_phase") == ACTIVE)
        return chosen

    def affords(self, rows: Rows, names: tuple[str, ...]) -> Chosen:
        """Tell where the bet in the field is at least the smallest and can be paid."""
        bet, balance = _column(rows, names, "bet_amount"), _column(rows, names, "balance")
        chosen: Chosen = (bet >= 0.999 * MIN_BET / UNIT) & (bet <= balance)
        return chosen

    def payout(self, world: str | None) -> float:
        """Give what a sidebet that wins pays for each unit staked."""
        return float(get_world(world or "published").payout)

    def chance(self, world: str, rows: Rows, names: tuple[str, ...]) -> NDArray[np.float64] | None:
        """Give the chance that a sidebet placed now wins; None in world `instarug`, where it depends on the tick."""
        code = get_world(world).code
        if code == INSTARUG:
            return None
        hazard = np.full(len(rows), RUG_CHANCE)
        if code == HAZARD:
            hazard[_column(rows, names, "rugpool_ratio") >= np.float32(HOT_RATIO) * (1 - 1e-6)] *= HOT_HAZARD
        values: NDArray[np.float64] = 1.0 - (1.0 - hazard) ** SIDEBET_TICKS
        return values


def _column(rows: Rows, names: tuple[str, ...], name: str) -> Rows:
    row: Rows = rows[:, names.index(name)]
    return row


PREDICTION = Sidebets()
