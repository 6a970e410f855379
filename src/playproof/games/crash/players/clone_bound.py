"""How well the scripted human can be cloned: his next choice, as predicted by the best possible watcher.

For steps of recorded rounds, from rows and presses alone: the limit that no clone passes on average.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from playproof.games.crash.players.baselines import WAIT
from playproof.games.crash.players.human import ADJUST, CHOICES, CloneBoundPredictor, Floats, Human


def watched_chances(
    rows: NDArray[np.float32], actions: NDArray[np.integer], begins: NDArray[np.integer], human: Human | None = None
) -> tuple[Floats, Floats]:
    """Give the chances of his next action by head, (n, 4) and (n, 9), at every step of rounds that begin at `begins`.

    Each round is watched by somebody who knows nothing of the rounds before it.
    """
    lengths = np.diff(np.r_[begins, len(rows)])
    order = np.argsort(-lengths, kind="stable")
    begins, lengths = begins[order], lengths[order]
    watcher, result = CloneBoundPredictor(human or Human(), len(begins)), np.empty((len(rows), len(CHOICES)))
    for step in range(int(lengths[0])):
        live = int((lengths > step).sum())
        indices = begins[:live] + step
        watcher.narrow(live)
        result[indices] = watcher.predict(rows[indices])
        watcher.learn(rows[indices], actions[indices].astype(np.int64))
    return by_head(result)


def by_head(joint: Floats) -> tuple[Floats, Floats]:
    """Give the chances of the two heads from those of the twelve choices."""
    main, bet = joint[:, : ADJUST + 1].copy(), np.empty((len(joint), 9))
    main[:, WAIT] += joint[:, ADJUST + 1 :].sum(axis=1)
    bet[:, 0], bet[:, 1:] = joint[:, : ADJUST + 1].sum(axis=1), joint[:, ADJUST + 1 :]
    return main, bet
