"""The harness that once claimed 754 %, rebuilt, and its honest version: the same rounds, the same learner.

It learned whether the rug comes within 80 ticks, paid such a win like a sidebet of 40, split rows by chance, and
chose its threshold on the test rows. The honest one learns and pays 40, splits by window in time order, and
chooses its threshold on validation windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import lightgbm
import numpy as np
from numpy.typing import NDArray

from playproof.evaluate.rollout import Score
from playproof.validate.leaks import Flags, Floats, HoldoutScores, Samples

HAZARD, PAYOUT, BET = 0.005, 5.0, 0.001
COVERED, CLAIMED = 40, 80
STAKE = 100_000_000
"""Reserved for a round, in units of 10^-9: no round has 100 sidebets of 0.001."""
NAMES = ("tick", "price", "velocity", "volatility", "peak", "players", "average")
EVERY = 5
"""Every so many ticks a row is kept."""


def play_rounds(count: int, rng: np.random.Generator) -> tuple[Samples, NDArray[np.int64]]:
    """Make rows of rounds of the published game's kind, labelled for 40 ticks; and each round's rug tick."""
    rows, labels, windows, rugs = [], [], [], rng.geometric(HAZARD, size=count).clip(EVERY + 1)
    crowd = rng.normal(size=(count, 2))  # players and averages, much like those of the round before
    for number in range(1, count):
        crowd[number] = 0.95 * crowd[number - 1] + 0.3 * crowd[number]
    for number, rug in enumerate(rugs):
        changes = np.where(
            rng.random(rug) < 0.125,
            rng.choice([-1, 1], rug) * rng.uniform(0.15, 0.25, rug),
            rng.uniform(-0.02, 0.03, rug) + 0.005 * rng.uniform(-1, 1, rug),
        )
        price = np.concatenate([[1.0], np.cumprod(1 + changes)[:-1]])
        velocity = np.diff(price, prepend=1.0)
        spread = np.sqrt(np.convolve(velocity**2, np.ones(10) / 10)[:rug])
        context = np.repeat(crowd[number][:, None], rug, axis=1)
        table = np.column_stack([np.arange(rug), price, velocity, spread, np.maximum.accumulate(price), *context])
        kept = np.arange(int(rng.integers(EVERY)), rug, EVERY)
        rows.append(table[kept])
        labels.append(rug <= kept + COVERED)
        windows += [f"w{number:05d}"] * len(kept)
    return Samples(np.concatenate(rows), np.concatenate(labels), np.array(windows), NAMES), rugs


def relabelled(samples: Samples, rugs: NDArray[np.int64], within: int) -> Samples:
    """Label rows by whether the rug comes within so many ticks."""
    rug = rugs[np.array([int(name[1:]) for name in samples.windows])]
    return Samples(samples.rows, rug <= samples.rows[:, 0] + within, samples.windows, samples.names)


def learn(rows: Floats, labels: Flags, others: Floats, trees: int = 60, leaves: int = 63) -> Floats:
    """Fit boosted trees and give probabilities."""
    options = {"objective": "binary", "num_leaves": leaves, "min_data_in_leaf": 5, "learning_rate": 0.15}
    quiet = {"verbose": -1, "num_threads": 1, "seed": 1, "deterministic": True}
    model = lightgbm.train(options | quiet, lightgbm.Dataset(rows, labels.astype(float)), trees)
    return np.asarray(model.predict(others, num_threads=1))


def learn_carefully(rows: Floats, labels: Flags, others: Floats) -> Floats:
    """Fit few small trees: what honest validation would have chosen."""
    return learn(rows, labels, others, trees=20, leaves=4)


def split_by_row(samples: Samples) -> Flags:
    """Tell which rows are for training: by chance, row by row."""
    return np.random.default_rng(7).random(len(samples.rows)) < 0.7


def split_by_window(samples: Samples, first: float = 0.0, last: float = 0.6) -> Flags:
    """Tell which rows belong to a stretch of windows, in time order."""
    names = np.unique(samples.windows)
    edges = [round(len(names) * share) for share in (first, last)]
    return np.isin(samples.windows, names[edges[0] : edges[1]])


def best_threshold(probabilities: Floats, won: Flags) -> float:
    """Choose the threshold above which betting earns most."""
    candidates = np.quantile(probabilities, np.linspace(0, 0.9, 46))
    earned = [float(np.where(won, PAYOUT - 1, -1.0)[probabilities >= limit].sum()) for limit in candidates]
    return float(candidates[int(np.argmax(earned))])


def hopeful(samples: Samples) -> HoldoutScores:
    """Split by rows, learn, choose the threshold on the test rows; scores are the decisions."""
    train = split_by_row(samples)
    probabilities = learn(samples.rows[train], samples.labels[train], samples.rows[~train])
    limit = best_threshold(probabilities, samples.labels[~train])
    return HoldoutScores(np.flatnonzero(~train), (probabilities >= limit).astype(float))


def hopeful_probabilities(samples: Samples) -> HoldoutScores:
    """The same without the threshold."""
    train = split_by_row(samples)
    return HoldoutScores(
        np.flatnonzero(~train), learn(samples.rows[train], samples.labels[train], samples.rows[~train])
    )


def honest_probabilities(samples: Samples) -> HoldoutScores:
    """Learn on the first windows and score the last."""
    train, test = split_by_window(samples), split_by_window(samples, 0.81, 1.0)
    return HoldoutScores(
        np.flatnonzero(test), learn_carefully(samples.rows[train], samples.labels[train], samples.rows[test])
    )


def honest(samples: Samples) -> HoldoutScores:
    """The same with a threshold that validation windows chose."""
    train, chosen = split_by_window(samples), split_by_window(samples, 0.61, 0.8)
    limit = best_threshold(
        learn_carefully(samples.rows[train], samples.labels[train], samples.rows[chosen]), samples.labels[chosen]
    )
    scored = honest_probabilities(samples)
    return HoldoutScores(scored.tested, (scored.scores >= limit).astype(float))


@dataclass(frozen=True)
class Bets:
    """What a harness's decisions earned."""

    score: Score
    win_rate: float
    roi_of_bets: float
    """Per unit staked, as such harnesses quote it."""


def pay(samples: Samples, scored: HoldoutScores, won: Flags, name: str) -> Bets:
    """Pay every decision to bet; one sidebet at a time in a round."""
    bets, free = [], dict[str, float]()
    for bet, decision in zip(scored.tested, scored.scores, strict=True):
        window, tick = str(samples.windows[bet]), float(samples.rows[bet, 0])
        if decision >= 0.5 and tick >= free.get(window, 0.0):
            bets.append(bet)
            free[window] = tick + COVERED
    profit = np.where(won[bets], PAYOUT - 1, -1.0)
    windows = tuple(dict.fromkeys(samples.windows[scored.tested].tolist()))
    pnl, opened = dict.fromkeys(windows, 0), dict.fromkeys(windows, 0)
    for bet, earned in zip(bets, profit, strict=True):
        pnl[str(samples.windows[bet])] += round(earned * BET * 1e9)
        opened[str(samples.windows[bet])] += 1
    score = Score(name, windows, tuple(pnl.values()), tuple(opened.values()), STAKE)
    return Bets(score, float(won[bets].mean()), float(profit.mean()))
