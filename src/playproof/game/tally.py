"""Count what many lanes do, step by step, and keep it window by window; compiled, since it runs once a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.game.vector_env import Actions, Chosen, Ints, StepResult, VectorGame
from playproof.json_types import Json

compiled = compiler(__file__)
Floats = NDArray[np.float64]
AT_THE_END = ("pnl", "opened", "staked", "no_effect")


@compiled
def count_step(actions: Actions, held: Chosen, rewards: Floats, counts: Ints, sums: Floats) -> None:
    """Add one step to what is counted of every lane: steps, those in the market, choices; and the reward."""
    for lane in range(len(actions)):
        counts[lane, 0] += 1
        counts[lane, 1] += held[lane]
        counts[lane, 2 + actions[lane, 0]] += 1
        sums[0, lane] += rewards[lane]


@compiled
def close_windows(
    lanes: Ints,
    pnl: Ints,
    opened: Ints,
    staked: Ints,
    no_effect: Ints,
    played: Ints,
    seats: Ints,
    stride: int,
    counts: Ints,
    sums: Floats,
    counts_done: Ints,
    sums_done: Floats,
    ends_done: Ints,
) -> tuple[int, int]:
    """Move what was counted of the lanes whose windows ended to those windows.

    Give how many of them are wanted, and for how many lanes that was the last one.
    """
    wanted, over = 0, 0
    for index in range(len(lanes)):
        lane = lanes[index]
        number = played[lane] * stride + seats[lane]
        played[lane] += 1
        if number < len(counts_done):
            wanted += 1
            over += number + stride >= len(counts_done)
            counts_done[number] = counts[lane]
            sums_done[:, number] = sums[:, lane]
            ends_done[0, number], ends_done[1, number] = pnl[index], opened[index]
            ends_done[2, number], ends_done[3, number] = staked[index], no_effect[index]
        counts[lane] = 0
        sums[:, lane] = 0.0
    return wanted, over


class WindowTally:
    """Counts by lane while windows run, and by window once they have ended."""

    def __init__(self, lanes: VectorGame, windows: int) -> None:
        n, choices = lanes.count, lanes.heads[0]
        self.left = windows
        self.playing = min(n, windows)
        """Lanes that have not yet played all their windows."""
        self._played, self._seats, self._stride = np.zeros(n, np.int64), np.arange(n), n
        self._counts = np.zeros((n, 2 + choices), np.int64)
        self._counts_done = np.zeros((windows, 2 + choices), np.int64)
        self._ends_done = np.zeros((len(AT_THE_END), windows), np.int64)
        self._sums, self._sums_done = np.zeros((1, n)), np.zeros((1, windows))
        self._parts: dict[str, Floats] = {}

    def take(self, actions: Actions, moved: StepResult) -> None:
        """Count one step, and note the windows that ended in it."""
        if not moved.components.keys() <= self._parts.keys():
            self._widen(moved)
        count_step(actions, moved.held, moved.rewards, self._counts, self._sums)
        for name, values in moved.components.items():
            running = self._parts[name]
            np.add(running, values, out=running)
        ended = moved.ended
        if len(ended.lanes):
            wanted, over = close_windows(
                ended.lanes,
                ended.pnl,
                ended.opened,
                ended.staked,
                ended.no_effect,
                self._played,
                self._seats,
                self._stride,
                self._counts,
                self._sums,
                self._counts_done,
                self._sums_done,
                self._ends_done,
            )
            self.left -= wanted
            self.playing -= over

    def narrow(self) -> Ints:
        """Leave the lanes that have played all their windows; give the places of the others."""
        kept = np.flatnonzero(self._played * self._stride + self._seats < len(self._counts_done))
        self._played, self._seats, self._counts = self._played[kept], self._seats[kept], self._counts[kept]
        self._sums = np.ascontiguousarray(self._sums[:, kept])
        self._parts = {name: self._sums[1 + index] for index, name in enumerate(self._parts)}
        return kept

    def _widen(self, moved: StepResult) -> None:
        """Make room for components of the reward that were not told before; each is a row of the sums."""
        names = [*self._parts, *(name for name in moved.components if name not in self._parts)]
        self._sums, self._sums_done = (_taller(sums, 1 + len(names)) for sums in (self._sums, self._sums_done))
        self._parts = {name: self._sums[1 + index] for index, name in enumerate(names)}

    @property
    def done(self) -> Json:
        """Give what was counted, by window; the components of the reward too."""
        result: Json = dict(zip(AT_THE_END, self._ends_done, strict=True))
        result |= {"steps": self._counts_done[:, 0].copy(), "in_market": self._counts_done[:, 1].copy()}
        result |= {"decisions": self._counts_done[:, 2:].copy(), "reward": self._sums_done[0]}
        return result | {"components": {name: self._sums_done[1 + index] for index, name in enumerate(self._parts)}}


def _taller(sums: Floats, rows: int) -> Floats:
    """Give the same sums with more rows, 0 so far."""
    result = np.zeros((rows, sums.shape[1]))
    result[: len(sums)] = sums
    return result
