"""Measure CQL and IQL on play of mixed quality: what they make of it beside those who played.

| section | shows |
|---|---|
| offline | return of each learner and of its teachers on the same fresh windows, with a paired interval |

The teachers take turns window by window: the best policy of the world with a fiftieth, a tenth and six tenths of its
steps at random. Together they earn nothing; the steadiest earns, and only his windows show what quiet play looks like.
A learner has found the edge if it earns more than they do and more than nothing.
The game is the installed one that knows the best policies of its worlds. Leaves out: other methods.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benchmarks.report import Goal, Measurement
from playproof.cli.output import note
from playproof.games.crash.players.optimum import best_policy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from playproof.datasets import Transitions
    from playproof.game import Game

EDGE = "drift"
TEACHERS = ("best:0.02", "best:0.1", "best:0.6")
SEEDS = (11, 12, 13)
"""Of the play that is learned from; settings were chosen on seed 101."""
ROUNDS = 4800
WINDOWS = 4096
FRESH = 900_001
METHODS = ("cql", "iql")

Found = tuple[list[Measurement], list[Goal]]


def learned(method: str, game: Game, steps: Transitions, seed: int) -> Any:
    """Learn with the defaults."""
    from playproof.train.config import CqlConfig, IqlConfig
    from playproof.train.cql import train_cql
    from playproof.train.data import OfflineSetup
    from playproof.train.iql import train_iql

    if method == "cql":
        return train_cql(OfflineSetup.from_game(game), steps, CqlConfig(seed=seed))
    return train_iql(OfflineSetup.from_game(game), steps, IqlConfig(seed=seed))


def offline(quick: bool) -> Found:
    """Learn from the teachers and play beside them."""
    from benchmarks.ppo import STAKE, known_game
    from playproof.evaluate.rollout import rollout
    from playproof.game import first
    from playproof.policies.network import BatchPlayer
    from playproof.train.demonstrations import DemonstrationConfig, Mixture, demonstrate, find_player

    game, windows, rounds = known_game(), 256 if quick else WINDOWS, 40 if quick else ROUNDS
    sizes = tuple(map(len, game.actions[first(game.actions)].heads))
    teachers = Mixture([find_player(game, text, EDGE, sizes) for text in TEACHERS])
    players = {"teachers": teachers, "best stationary policy": best_policy(EDGE)}
    returns = {
        name: rollout(game, player, EDGE, windows, FRESH, stake=STAKE).pnl / STAKE for name, player in players.items()
    }
    results = [Measurement(f"{name} in {EDGE}: return on the stake", of.mean(), "") for name, of in returns.items()]
    lows: dict[str, list[float]] = {method: [] for method in METHODS}
    earned: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in SEEDS:
        steps = demonstrate(game, teachers, EDGE, rounds, seed, DemonstrationConfig(stake=STAKE))
        for method in METHODS:
            made = learned(method, game, steps, seed)
            own = rollout(game, BatchPlayer(made.policy), EDGE, windows, FRESH, stake=STAKE).pnl / STAKE
            (low, high), (least, most) = bounds(own - returns["teachers"]), bounds(own)
            note(f"  {method}, seed {seed}: {own.mean():+.4f}, better by {low:+.4f} to {high:+.4f}")
            named = f"{method} in {EDGE}, seed {seed}"
            results += [
                Measurement(f"{named}: return on the stake", float(own.mean()), ""),
                Measurement(f"{named}: return on the stake, lower bound", least, ""),
                Measurement(f"{named}: return on the stake, upper bound", most, ""),
                Measurement(f"{named}: better than its teachers by, lower bound", low, ""),
                Measurement(f"{named}: better than its teachers by, upper bound", high, ""),
            ]
            lows[method].append(low)
            earned[method].append(least)
    goals = []
    for method in METHODS:
        named = f"{method} better than its teachers in {EDGE}, lower bound, worst seed"
        goals += [
            Goal.at_least(named, min(lows[method]), 0.0),
            Goal.at_least(f"{method}'s return in {EDGE}, lower bound, worst seed", min(earned[method]), 0.0),
        ]
    return results, goals


def bounds(values: NDArray[np.float64]) -> tuple[float, float]:
    """Give the 95 % interval of a mean over windows."""
    mean, width = float(values.mean()), 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return mean - width, mean + width
