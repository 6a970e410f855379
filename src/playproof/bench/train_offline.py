"""Measure CQL and IQL on play of mixed quality: what they make of it beside those who played.

| section | shows |
|---|---|
| offline | return of each learner and of its teachers on the same fresh windows, with a paired interval |

The teachers are the best policy of the world with a fifth and with three fifths of its steps at random, in turn.
The game is the installed one that knows the best policies of its worlds. Leaves out: other methods.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from playproof.bench.report import Goal, Result
from playproof.cli.output import note

if TYPE_CHECKING:
    from playproof.datasets import Transitions
    from playproof.game import Game

EDGE = "drift"
TEACHERS = ("best:0.2", "best:0.6")
SEEDS = (1, 2, 3)
ROUNDS = 400
EPOCHS = 10
WINDOWS = 4096
FRESH = 900_001
METHODS = ("cql", "iql")

Found = tuple[list[Result], list[Goal]]


def learned(method: str, game: Game, steps: Transitions, seed: int, quick: bool) -> Any:
    """Learn with the defaults, for so many epochs."""
    from playproof.train.cql import CqlConfig, train_cql
    from playproof.train.iql import IqlConfig, train_iql
    from playproof.train.offline import Table

    epochs = 1 if quick else EPOCHS
    if method == "cql":
        return train_cql(Table.lay(game), steps, CqlConfig(seed=seed, epochs=epochs))
    return train_iql(Table.lay(game), steps, IqlConfig(seed=seed, epochs=epochs))


def offline(quick: bool) -> Found:
    """Learn from the teachers and play beside them."""
    from playproof.bench.ppo import STAKE, known_game
    from playproof.evaluate.rollout import rollout
    from playproof.game import first, resolve
    from playproof.policies.network import BatchPlayer
    from playproof.train.demonstrations import Asked, Mixture, demonstrate
    from playproof.train.players import find_player

    game, windows, rounds = known_game(), 256 if quick else WINDOWS, 40 if quick else ROUNDS
    assert game.best is not None
    sizes = tuple(map(len, game.actions[first(game.actions)].heads))
    teachers = Mixture([find_player(game, text, EDGE, sizes) for text in TEACHERS])
    players = {"teachers": teachers, "best stationary policy": resolve(game.best)(EDGE)}
    returns = {name: rollout(game, it, EDGE, windows, FRESH, stake=STAKE).pnl / STAKE for name, it in players.items()}
    results = [Result(f"{name} in {EDGE}: return on the stake", of.mean(), "") for name, of in returns.items()]
    lows: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in SEEDS:
        steps = demonstrate(game, teachers, EDGE, rounds, seed, Asked(stake=STAKE))
        for method in METHODS:
            made = learned(method, game, steps, seed, quick)
            own = rollout(game, BatchPlayer(made.policy), EDGE, windows, FRESH, stake=STAKE).pnl / STAKE
            better = own - returns["teachers"]
            width = 1.96 * float(better.std(ddof=1)) / math.sqrt(windows)
            lows[method].append(float(better.mean()) - width)
            note(f"  {method}, seed {seed}: {own.mean():+.4f}, better by {better.mean():+.4f} +- {width:.4f}")
            named = f"{method} in {EDGE}, seed {seed}"
            results += [
                Result(f"{named}: return on the stake", float(own.mean()), ""),
                Result(f"{named}: better than its teachers by, lower bound", float(better.mean()) - width, ""),
                Result(f"{named}: better than its teachers by, upper bound", float(better.mean()) + width, ""),
            ]
    goals = [
        Goal.at_least(f"{method} better than its teachers in {EDGE}, lower bound, worst seed", min(of), 0.0)
        for method, of in lows.items()
    ]
    return results, goals
