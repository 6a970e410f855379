"""Behaviour cloning with boosted trees: few rounds are enough where a player chooses by thresholds.

Two models (policies.habits): whether the player acts, learned from every step, and what he then
does, learned from the steps in which he acts. Both by unweighted log likelihood, so that together
they are the likelihood of all his choices. How many trees to grow is found on windows held out, each
fifth of them once; then all windows are learned from. A choice that was shown a few dozen times has
a small model of its own, learned from every step: among all that he does it would hardly be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from playproof.datasets import Transitions
from playproof.datasets.dataset import stacked, starts, take
from playproof.errors import InputError, UnknownName
from playproof.game import Game, lookup
from playproof.json_types import Json
from playproof.policies.checkpoint import TREES, Card, save_checkpoint
from playproof.policies.clone_trees import CloneTreePolicy, TreeInputs, to_text
from playproof.policies.scaling import Scaling, describe, game_scaling
from playproof.policies.trees import parse_trees
from playproof.train.bc import telling
from playproof.train.cards import CardFacts, trained_card
from playproof.train.config import ForestConfig, TreesConfig
from playproof.train.imitation_metrics import HeadMetrics, PriorCorrection, find_tilts, likeness

Ints = NDArray[np.int64]
Rows = NDArray[np.float32]
STREAM = int.from_bytes(b"habits")
MOST_RATE = 3.0
"""What is corrected at most: choices seen once or twice are not to be believed."""
FOLDS = 5


@dataclass(frozen=True)
class CloneTrees:
    """A cloned player."""

    policy: CloneTreePolicy
    text: str
    """All models, as the checkpoint holds them."""
    config: TreesConfig
    rounds: tuple[int, ...]
    """Trees of each model, for each class."""
    tilts: tuple[PriorCorrection, ...]
    """By head: how balanced predictions correct the chances."""

    def chances(self, steps: Transitions) -> tuple[NDArray[np.float64], ...]:
        """Give the chances of each head's choices at recorded steps, with the rows before them."""
        return self.policy.probabilities(stacked(steps, self.policy.frames))

    def likeness(
        self, steps: Transitions, demonstrated: Transitions, names: Sequence[Sequence[str]]
    ) -> tuple[HeadMetrics, ...]:
        """Score the clone on steps of windows that it has not seen."""
        return likeness(self.chances(steps), steps.actions, demonstrated.actions, names, tilts=self.tilts)


def clone_habits(
    game: Game,
    steps: Transitions,
    config: TreesConfig,
    *,
    observation: str = "policy",
    actions: str | None = None,
) -> CloneTrees:
    """Clone the player of some steps; windows stand together, in their order."""
    scaling = game_scaling(game, describe(game, observation)["features"])
    heads = tuple(map(len, lookup(game.actions, actions or next(iter(game.actions)), "action set").heads))
    begins = starts(steps)
    if len(begins) < 5:
        raise InputError(f"expected at least 5 demonstrated windows, found {len(begins)}")
    view = lay_view(scaling, steps, config)
    fold = np.repeat(np.arange(len(begins)) % FOLDS, np.diff(np.r_[begins, len(steps.windows)]))
    seldom = find_seldom(steps.actions, heads, config)
    lessons = _lessons(view, steps, heads, config, seldom)
    tried = [_try(of, fold, config) for of in lessons]
    counts = [max(1, round(float(np.mean([trees for _, trees in of])))) for of in tried]
    final = [
        [_grow(of, count, config.seed * config.members + member) for member in range(config.members)]
        for of, count in zip(lessons, counts, strict=True)
    ]
    policy = with_rates(_policy(view, config, final, heads, seldom), steps)
    texts = [[[of[number][0]] for of in tried] for number in range(FOLDS)]
    unseen = _unseen(steps, fold, [_policy(view, config, of, heads, seldom) for of in texts])
    tilts = find_tilts(unseen, steps.actions, steps.actions, by_head(seldom, heads))
    return CloneTrees(policy, to_text(final), config, tuple(counts), tuple(tilts))


def _unseen(steps: Transitions, fold: Ints, policies: Sequence[CloneTreePolicy]) -> list[NDArray[np.float64]]:
    """Give the chances of every step by the policy that was grown without its fold, one array a head."""
    result: list[NDArray[np.float64]] = [np.empty((len(fold), size)) for size in policies[0].heads]
    for number, policy in enumerate(policies):
        out = fold == number
        rates = with_rates(policy, take(steps, ~out))
        for whole, part in zip(result, rates.probabilities(stacked(take(steps, out), rates.frames)), strict=True):
            whole[out] = part
    return result


def _policy(
    view: TreeInputs, config: TreesConfig, texts: Sequence[Sequence[str]], heads: tuple[int, ...], seldom: Sequence[int]
) -> CloneTreePolicy:
    acts, does, *alone = (tuple(parse_trees(text) for text in of) for of in texts)
    closer = replace(view, frames=config.close_frames)
    return CloneTreePolicy(view, closer, acts, does, heads, tuple(zip(seldom, alone, strict=True)))


def find_seldom(actions: NDArray[np.int16], heads: tuple[int, ...], config: TreesConfig) -> list[int]:
    """Give the places, among all that can be done, of choices that are made seldom, but often enough to learn from."""
    sizes = np.array(heads) - 1
    shown = np.bincount(to_choices(actions, heads), minlength=sizes.sum() + 1)[1:]
    of_head = np.repeat(np.add.reduceat(shown, np.r_[0, sizes.cumsum()[:-1]]), sizes)
    return np.flatnonzero((shown >= config.enough) & (shown < config.rare * of_head)).tolist()


def by_head(indices: Sequence[int], heads: tuple[int, ...]) -> list[list[int]]:
    """Give for each head which of its choices stand at some places among all that can be done."""
    begins = np.r_[0, (np.array(heads) - 1).cumsum()].tolist()
    return [[index - low + 1 for index in indices if low <= index < high] for low, high in pairwise(begins)]


def with_rates(policy: CloneTreePolicy, steps: Transitions) -> CloneTreePolicy:
    """Set how often each choice is made to how often it was shown, on the steps that were learned from."""
    chances = policy.probabilities(stacked(steps, policy.frames))
    said = np.concatenate([of[:, 1:].sum(axis=0) for of in chances])
    shown = np.bincount(to_choices(steps.actions, policy.heads), minlength=len(said) + 1)[1:]
    rates = np.clip(shown / np.maximum(said, 1e-9), 1 / MOST_RATE, MOST_RATE)
    return replace(policy, rates=tuple(rates.tolist()))


@dataclass(frozen=True)
class TreeSamples:
    """What one model learns from."""

    inputs: Rows
    target: NDArray[np.float64]
    rows: NDArray[np.bool_]
    """Which of all steps these are."""
    classes: int
    names: tuple[str, ...]
    forest: ForestConfig


def _lessons(
    view: TreeInputs, steps: Transitions, heads: tuple[int, ...], config: TreesConfig, seldom: Sequence[int]
) -> list[TreeSamples]:
    """Give what the models learn from: every step, those in which he acts, and every step for each rare choice."""
    chosen = to_choices(steps.actions, heads)
    does, every = chosen > 0, np.ones(len(chosen), np.bool_)
    closer = replace(view, frames=config.close_frames)
    seen = view.look(stacked(steps, view.frames))
    close = closer.look(stacked(steps, closer.frames))
    classes = sum(heads) - len(heads)
    return [
        TreeSamples(seen, does.astype(np.float64), every, 1, view.names, config.acts),
        TreeSamples(close[does], (chosen[does] - 1).astype(np.float64), does, classes, closer.names, config.does),
        *(
            TreeSamples(close, (chosen == index + 1).astype(np.float64), every, 1, closer.names, config.seldom)
            for index in seldom
        ),
    ]


def lay_view(scaling: Scaling, steps: Transitions, config: TreesConfig) -> TreeInputs:
    """Decide what the trees look at."""
    for name in config.watched:
        if name not in scaling.names:
            raise UnknownName("feature", name, scaling.names)
    used = telling(steps, np.random.default_rng([STREAM, config.seed])) if config.screen else range(len(scaling.names))
    watched = [scaling.names.index(name) for name in config.watched] or moving(steps)
    return TreeInputs(scaling, tuple(used), tuple(watched), config.frames)


def moving(steps: Transitions) -> list[int]:
    """Give the places of features that move within windows."""
    begins = starts(steps)
    owner = np.repeat(begins, np.diff(np.r_[begins, len(steps.windows)]))
    still = (steps.observations == steps.observations[owner]).all(axis=0)
    return np.flatnonzero(~still).tolist()


def to_choices(actions: NDArray[np.int16], heads: Sequence[int]) -> Ints:
    """Number what was done: 0 nothing, else the choice of the first head that does something, heads side by side."""
    result, start = np.zeros(len(actions), np.int64), 1
    for head, size in enumerate(heads):
        own = (result == 0) & (actions[:, head] > 0)
        result[own] = start + actions[own, head] - 1
        start += size - 1
    return result


def _table(lessons: TreeSamples, rows: NDArray[np.bool_] | slice = slice(None)) -> Any:
    import lightgbm

    return lightgbm.Dataset(lessons.inputs[rows], lessons.target[rows], feature_name=list(lessons.names))


def _try(lessons: TreeSamples, fold: Ints, config: TreesConfig) -> list[tuple[str, int]]:
    """Grow a forest without each fold, as large as is best for that fold; give its text and how many trees it has."""
    import lightgbm

    forest, number, tried = lessons.forest, fold[lessons.rows], []
    for held in range(FOLDS):
        settings = _settings(forest, lessons.classes, config.seed * FOLDS + held)
        within, out = _table(lessons, number != held), _table(lessons, number == held)
        if forest.eager is None or not (number == held).any():
            count = forest.trees if forest.eager is None else min(forest.trees, config.patience)
            grown = lightgbm.train(settings, within, count)
        else:
            stop = lightgbm.early_stopping(config.patience, verbose=False)
            grown = lightgbm.train(settings, within, forest.trees, valid_sets=[out], callbacks=[stop])
            count = max(1, round(grown.best_iteration * forest.eager))
        tried.append((grown.model_to_string(num_iteration=min(count, grown.current_iteration())), count))
    return tried


def _grow(lessons: TreeSamples, count: int, seed: int) -> str:
    """Grow so many trees on all windows."""
    import lightgbm

    settings = _settings(lessons.forest, lessons.classes, seed)
    text: str = lightgbm.train(settings, _table(lessons), count).model_to_string()
    return text


def _settings(forest: ForestConfig, classes: int, seed: int) -> Json:
    objective = {"objective": "binary"} if classes == 1 else {"objective": "multiclass", "num_class": classes}
    return objective | {
        "num_leaves": forest.leaves,
        "learning_rate": forest.learning_rate,
        "min_data_in_leaf": forest.least,
        "feature_fraction": forest.inputs,
        "bagging_fraction": forest.rows,
        "bagging_freq": 1,
        "lambda_l2": forest.calm,
        "use_missing": False,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": seed,
        "verbosity": -1,
    }


def save_habits(path: Path, game: Game, made: CloneTrees, **facts: Unpack[CardFacts]) -> Card:
    """Write a clone's checkpoint."""
    view = made.policy.view
    payload = {
        "used": [view.scaling.names[index] for index in view.used],
        "watched": [view.scaling.names[index] for index in view.watched],
        "frames": view.frames,
        "close_frames": made.policy.closer.frames,
        "members": made.config.members,
        "seldom": [index for index, _ in made.policy.seldom],
        "tilts": [asdict(tilt) for tilt in made.tilts],
        "rates": list(made.policy.rates),
    }
    config = {**asdict(made.config), "habits": payload}
    card = trained_card(game, "trees", "bc", made.policy.heads, config, made.config.seed, **facts)
    return save_checkpoint(path, card, files={TREES: made.text.encode()})
