"""Measure the predictor of a window's end where theory knows the chances: skill, bets, and being switched off.

| section | shows |
|---|---|
| predictor-edge | share of the Bayes-optimal Brier skill on test windows, and of the best bettor's profit |
| predictor-null | where nothing can be known: that the skill's interval holds 0, and that it is switched off |

Three seeds each. The game is the installed one that knows the best policies of its worlds.
Leaves out: other methods (ppo, train_bc, train_offline).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.report import Goal, Measurement
from playproof.cli.output import note
from playproof.games.crash.players.optimum import best_policy

if TYPE_CHECKING:
    from playproof.game import Game
    from playproof.train.rug_predictor import TrainedPredictor

EDGE, NULL = "hazard", "published"
"""The worlds: one in which the end can be foreseen, and one in which it cannot."""
SEEDS = (11, 12, 13)
"""Of the play; settings were chosen on seeds 1 and 2."""
ROUNDS = {EDGE: 12_000, NULL: 5_000}
WINDOWS = 4096
FRESH = 900_001
"""Seed of the windows that bets are measured on."""
SKILL_GOAL, PROFIT_GOAL = 0.95, 0.85

Found = tuple[list[Measurement], list[Goal]]


def grown(game: Game, world: str, seed: int, quick: bool) -> TrainedPredictor:
    """Grow a predictor with the defaults on windows that were only watched."""
    from playproof.game import first
    from playproof.policies.scaling import describe
    from playproof.train.config import RugPredictorConfig
    from playproof.train.demonstrations import demonstrate, find_player
    from playproof.train.rug_predictor import grow

    observation, rounds = first(game.observations), 300 if quick else ROUNDS[world]
    sizes = tuple(map(len, game.actions[first(game.actions)].heads))
    steps = demonstrate(game, find_player(game, "wait", world, sizes), world, rounds, seed)
    names = tuple(describe(game, observation)["features"])
    return grow(game, steps, RugPredictorConfig(seed=seed), names=names, world=world)


def edge(quick: bool) -> Found:
    """Measure skill against theory, and bets against the best bettor on the same fresh windows."""
    from benchmarks.ppo import known_game
    from playproof.evaluate.rollout import rollout
    from playproof.money import UNIT
    from playproof.train.rug_predictor import sidebet_policy

    game, windows, stake = known_game(), 128 if quick else WINDOWS, UNIT // 10
    best = rollout(game, best_policy(EDGE), EDGE, windows, FRESH, stake=stake)
    results = [Measurement(f"best bettor in {EDGE}: profit", best.pnl.mean() / UNIT, "coins a window")]
    skills, profits = [], []
    for seed in SEEDS:
        made = grown(game, EDGE, seed, quick)
        assert made.by_theory is not None
        result = rollout(game, sidebet_policy(game, made, EDGE), EDGE, windows, FRESH, stake=stake)
        skills.append(made.share_of_best or 0.0)
        profits.append(float(result.pnl.sum() / best.pnl.sum()))
        note(f"  seed {seed}: {skills[-1]:.4f} of the skill, {profits[-1]:.4f} of the profit")
        named = f"predictor in {EDGE}, seed {seed}"
        results += [
            Measurement(f"{named}: Brier skill", made.tested.skill, ""),
            Measurement(f"{named}: Brier skill of the true chances", made.by_theory.skill, ""),
            Measurement(f"{named}: share of the best skill", skills[-1], ""),
            Measurement(f"{named}: calibration error", made.tested.ece, ""),
            Measurement(f"{named}: profit of its bets", result.pnl.mean() / UNIT, "coins a window"),
            Measurement(f"{named}: share of the best profit", profits[-1], ""),
        ]
    return results, [
        Goal.at_least(f"predictor's share of the best Brier skill in {EDGE}, worst seed", min(skills), SKILL_GOAL),
        Goal.at_least("predictor's share of the best bettor's profit, worst seed", min(profits), PROFIT_GOAL),
    ]


def null(quick: bool) -> Found:
    """Measure what the predictor makes of windows whose end nobody can foresee."""
    from benchmarks.ppo import known_game
    from playproof.evaluate.rollout import rollout
    from playproof.money import UNIT
    from playproof.train.rug_predictor import sidebet_policy

    game, results, honest, off = known_game(), [], 0, 0
    for seed in SEEDS:
        made = grown(game, NULL, seed, quick)
        low, high = made.tested.interval
        bets = rollout(game, sidebet_policy(game, made, NULL), NULL, 128, FRESH, stake=UNIT // 10).opened.sum()
        honest += low <= 0.0 <= high
        off += not made.predictor.skilled and bets == 0
        note(f"  seed {seed}: skill {low:+.5f} to {high:+.5f}, switched {'on' if made.predictor.skilled else 'off'}")
        named = f"predictor in {NULL}, seed {seed}"
        results += [
            Measurement(f"{named}: Brier skill, lower bound", low, ""),
            Measurement(f"{named}: Brier skill, upper bound", high, ""),
            Measurement(f"{named}: switched on", float(made.predictor.skilled), ""),
        ]
    return results, [
        Goal.at_least(f"seeds whose Brier skill in {NULL} holds 0", float(honest), float(len(SEEDS))),
        Goal.at_least(f"seeds whose predictor in {NULL} is switched off and bets nothing", float(off),
                      float(len(SEEDS))),
    ]  # fmt: skip
