"""CoinGame in many lanes at once, so that learners can be tried on it.

A lane is one player at a table of their own; a window is ten flips, each a step. The money is that of
`coin.CoinLedger`, counted in arrays; a test plays both side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, UnknownName
from playproof.game.vector_env import Actions, Chosen, FinishedEpisodes, Rows, StepResult, VectorTerms
from playproof.money import UNIT
from playproof.testing.coin import CHOICES, FEATURES, FLIPS, SIDES, STAKE, STREAM, WORLDS

WAITS, HEADS, TAILS = range(len(CHOICES))


class CoinVectorGame:
    """Many players of the CoinGame."""

    def __init__(self, terms: VectorTerms, count: int) -> None:
        if not isinstance(terms.source, str):
            raise ConfigError("expected a world of the CoinGame, found recorded windows, which it has no tape for")
        if terms.source not in WORLDS:
            raise UnknownName("world", terms.source, WORLDS)
        self.count = count
        self._as_hinted, self._seed = WORLDS[terms.source], terms.seed
        self._balance = UNIT if terms.balance is None else terms.balance
        self._stake = 2**62 if terms.stake is None else terms.stake
        self._window = np.zeros(count, np.int64)
        self._flip = np.zeros(count, np.int64)
        self._cash = np.zeros(count, np.int64)
        self._counts = np.zeros((3, count), np.int64)
        """Bets placed, money paid in, orders refused."""
        self._run = np.zeros((2, count), np.int64)
        """The last side as -1, 0 or 1, and how often it fell in a row."""
        self._hints = np.zeros((count, FLIPS), np.int64)
        self._sides = np.zeros((count, FLIPS), np.int64)

    heads = (len(CHOICES),)
    features = tuple(feature.name for feature in FEATURES)

    def start(self) -> Rows:
        """Seat a player in window 0 of every lane."""
        self._window[:] = -1
        self._open(np.arange(self.count))
        return self._rows()

    def _open(self, lanes: NDArray[np.int64]) -> None:
        """Deal the next window of some lanes."""
        self._window[lanes] += 1
        self._flip[lanes], self._cash[lanes] = 0, self._balance
        self._counts[:, lanes], self._run[:, lanes] = 0, 0
        for lane in lanes.tolist():
            rng = np.random.default_rng([STREAM, *self._seed, lane, int(self._window[lane])])
            hints = (rng.random(FLIPS) < 0.5).astype(np.int64)
            self._hints[lane] = hints
            self._sides[lane] = np.where(rng.random(FLIPS) < self._as_hinted, hints, 1 - hints)

    def _rows(self) -> Rows:
        over = self._flip >= FLIPS
        hint = self._hints[np.arange(self.count), np.minimum(self._flip, FLIPS - 1)]
        columns = [np.where(over, 0, 2 * hint - 1), *self._run, FLIPS - self._flip, self._cash / UNIT]
        return np.stack(columns, axis=1).astype(np.float32)

    def _may_bet(self) -> Chosen:
        lost = np.maximum(0, self._balance - self._cash)
        return (self._cash >= STAKE) & (lost + STAKE <= self._stake)

    def step(self, actions: Actions) -> StepResult:
        """Place the bets, flip, and open new windows where the last flip has fallen."""
        choice = np.asarray(actions)[:, 0]
        side = self._sides[np.arange(self.count), self._flip]
        wants, may = choice != WAITS, self._may_bet()
        bets = wants & may
        wins = bets & ((choice == HEADS) == (side == SIDES.index("HEADS")))
        gained = STAKE * (2 * wins.astype(np.int64) - 1) * bets
        self._cash += gained
        self._counts += np.stack([bets, STAKE * bets, wants & ~may])
        self._flip += 1
        fell = 2 * side - 1
        self._run[1] = np.where(fell == self._run[0], self._run[1] + 1, 1)
        self._run[0] = fell
        ended = np.flatnonzero(self._flip >= FLIPS)
        payload = self._ended(ended)
        self._open(ended)
        rewards = gained / UNIT
        return StepResult(self._rows(), rewards, np.zeros(self.count, np.bool_), payload, {"profit": rewards})

    def _ended(self, lanes: NDArray[np.int64]) -> FinishedEpisodes:
        opened, staked, refused = self._counts[:, lanes]
        pnl = self._cash[lanes] - self._balance
        return FinishedEpisodes(
            lanes, self._rows()[lanes], np.zeros(len(lanes), np.bool_), pnl, opened, staked, refused
        )

    def masks(self) -> Chosen:
        """Tell which choices can have an effect now."""
        may = self._may_bet()
        return np.stack([np.ones(self.count, np.bool_), may, may], axis=1)

    def settle(self, actions: Actions) -> Actions:
        """Leave actions as they are: one head has nothing to agree with."""
        return actions

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the whole state as the arrays it lives in."""
        names = ("window", "flip", "cash", "counts", "run", "hints", "sides")
        return {name: getattr(self, f"_{name}") for name in names}


def make_vector_game(terms: VectorTerms, count: int) -> CoinVectorGame:
    """Make the lanes of the Game record."""
    return CoinVectorGame(terms, count)
