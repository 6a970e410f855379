"""Count what many lanes do, step by step, and keep it window by window; compiled, since it runs once a step.

Leaves out: the loop that plays (lanes).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.compiled import compiler
from playproof.game.lanes import Actions, Ended, Lanes, Moved

compiled = compiler(__file__, ("tally",))
AT_THE_END = ("pnl", "opened", "staked", "no_effect")


@compiled
def count_step(chosen: Any, held: Any, rewards: Any, steps: Any, in_market: Any, decisions: Any, reward: Any) -> None:
    """Add one step to what is counted of every lane."""
    for lane in range(len(chosen)):
        steps[lane] += 1
        in_market[lane] += held[lane]
        decisions[lane, chosen[lane]] += 1
        reward[lane] += rewards[lane]


@compiled
def number_windows(lanes: Any, played: Any, windows: int, numbers: Any) -> int:
    """Write which window each of the lanes has ended, -1 for one too many; give how many are wanted."""
    wanted = 0
    for place in range(len(lanes)):
        lane = lanes[place]
        number = played[lane] * len(played) + lane
        played[lane] += 1
        numbers[place] = number if number < windows else -1
        wanted += number < windows
    return wanted


@compiled
def keep(lanes: Any, numbers: Any, running: Any, done: Any) -> None:
    """Move what was counted of the lanes' windows, (n, k), to the windows, and begin anew."""
    for place in range(len(lanes)):
        lane, number = lanes[place], numbers[place]
        for column in range(running.shape[1]):
            if number >= 0:
                done[number, column] = running[lane, column]
            running[lane, column] = 0


@compiled
def keep_ends(numbers: Any, ends: Any, done: Any) -> None:
    """Write what the windows themselves tell at their end, (k, m), to the windows, (k, windows)."""
    for place in range(len(numbers)):
        if numbers[place] >= 0:
            for row in range(len(ends)):
                done[row, numbers[place]] = ends[row, place]


class Tally:
    """Counts by lane while windows run, and by window once they have ended."""

    def __init__(self, lanes: Lanes, windows: int) -> None:
        n, choices = lanes.count, lanes.heads[0]
        self.windows = windows
        self.left = windows
        self._played = np.zeros(n, np.int64)
        self._numbers = np.zeros(n, np.int64)
        self._counts = np.zeros((n, 2 + choices), np.int64)
        self._counts_done = np.zeros((windows, 2 + choices), np.int64)
        self._ends_done = np.zeros((len(AT_THE_END), windows), np.int64)
        self._reward = np.zeros((n, 1))
        self._reward_done = np.zeros((windows, 1))
        self._parts: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def take(self, actions: Actions, moved: Moved) -> None:
        """Count one step, and note the windows that ended in it."""
        counts = self._counts
        count_step(
            actions[:, 0], moved.held, moved.rewards, counts[:, 0], counts[:, 1], counts[:, 2:], self._reward[:, 0]
        )
        for name, values in moved.components.items():
            if name not in self._parts:
                self._parts[name] = np.zeros((len(actions), 1)), np.zeros((self.windows, 1))
            running = self._parts[name][0][:, 0]
            np.add(running, values, out=running)
        if len(moved.ended.lanes):
            self._close(moved.ended)

    def _close(self, ended: Ended) -> None:
        lanes, numbers = ended.lanes, self._numbers[: len(ended.lanes)]
        self.left -= number_windows(lanes, self._played, self.windows, numbers)
        keep(lanes, numbers, self._counts, self._counts_done)
        keep(lanes, numbers, self._reward, self._reward_done)
        for running, done in self._parts.values():
            keep(lanes, numbers, running, done)
        keep_ends(numbers, np.stack([getattr(ended, name) for name in AT_THE_END]), self._ends_done)

    @property
    def done(self) -> dict[str, Any]:
        """Give what was counted, by window; the components of the reward too."""
        found: dict[str, Any] = dict(zip(AT_THE_END, self._ends_done, strict=True))
        found |= {"steps": self._counts_done[:, 0].copy(), "in_market": self._counts_done[:, 1].copy()}
        found |= {"decisions": self._counts_done[:, 2:].copy(), "reward": self._reward_done[:, 0]}
        return found | {"components": {name: done[:, 0] for name, (_, done) in self._parts.items()}}
