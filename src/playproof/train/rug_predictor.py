"""Predict a window's end: boosted trees for the game's label, such as a rug within 40 ticks.

Windows are split in their order: on the first the trees are grown, on the next they are stopped,
calibrated (Platt) and judged, and the last are never looked at before the end. Rows of a window are
alike, so that all errors are counted by window. A predictor whose Brier skill against the constant
hazard is not above 0 with its interval on the judging windows is switched off: it then predicts the
constant hazard. Labels are the game's own, with their true horizon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from playproof.datasets import Transitions
from playproof.datasets.dataset import starts
from playproof.errors import ContractError, InputError
from playproof.game import Game, lookup
from playproof.game.prediction import PredictionTask
from playproof.json_types import Json
from playproof.policies.checkpoint import TREES, Card, save_checkpoint
from playproof.policies.trees import BetOnLabelPolicy, Predictor, PredictorPolicy, parse_trees
from playproof.stats.calibration import Bin, Calibration, calibrate, reliability
from playproof.stats.survival import constant_hazard, lives
from playproof.train.cards import trained_card
from playproof.train.config import RugPredictorConfig

Floats = NDArray[np.float64]
STREAM = int.from_bytes(b"hazard")
SHARES = (0.6, 0.2, 0.2)
"""Of the windows: to grow on, to judge by, to test on."""
GAP = 1
"""Windows left out between two parts."""


@dataclass(frozen=True)
class PredictorRows:
    """Rows at which the label is asked for."""

    inputs: NDArray[np.float32]
    happened: NDArray[np.bool_]
    windows: NDArray[np.int64]
    """Number of each row's window, in their order."""
    chance: Floats | None
    """By theory, where the world's is known."""
    ends: NDArray[np.int64]
    """By window: the tick it ended at."""

    def part(self, low: int, high: int) -> PredictorRows:
        """Give the rows of some windows."""
        own = (self.windows >= low) & (self.windows < high)
        chance = None if self.chance is None else self.chance[own]
        return PredictorRows(self.inputs[own], self.happened[own], self.windows[own], chance, self.ends[low:high])


def find_predicting(game: Game) -> PredictionTask:
    """Give what the game tells predictors, or say that it tells nothing."""
    task = game.simulated().prediction
    if task is None:
        raise ContractError(f"expected game {game.name!r} to say what can be predicted, found nothing")
    return task


def lay_ticks(game: Game, steps: Transitions, names: tuple[str, ...], world: str | None = None) -> PredictorRows:
    """Lay out inputs and labels of whole windows; windows that were only cut are refused."""
    predicting = find_predicting(game)
    horizon = lookup(game.labels, predicting.label, "label").horizon
    begins = starts(steps)
    lengths = np.diff(np.r_[begins, len(steps.windows)])
    last = begins + lengths - 1
    if not steps.terminated[last].all():
        raise InputError("expected windows that were recorded to their end, found some that were cut; leave them out")
    owner = np.repeat(np.arange(len(begins)), lengths)
    ends = predicting.clock(steps.next_observations[last], names)
    beyond = follow(predicting, steps.observations, names, begins, lengths)
    asked = predicting.asked(steps.observations, names)
    clock = predicting.clock(steps.observations, names)
    rows = steps.observations[asked]
    return PredictorRows(
        np.concatenate([rows, beyond[asked]], axis=1),
        (ends[owner] - clock <= horizon)[asked],
        owner[asked],
        None if world is None else predicting.chance(world, rows, names),
        ends,
    )


def follow(
    predicting: PredictionTask,
    rows: NDArray[np.float32],
    names: tuple[str, ...],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Compute the inputs beyond the rows exactly as live play does: row by row, every window a lane of its own."""
    order = np.argsort(-lengths, kind="stable")
    begins, lengths = begins[order], lengths[order]
    memory = predicting.start(len(begins))
    result = np.zeros((len(rows), len(predicting.inputs)), np.float32)
    for step in range(int(lengths[0]) if len(lengths) else 0):
        live = int((lengths > step).sum())
        memory = predicting.keep(memory, live)
        indices = begins[:live] + step
        result[indices] = predicting.look(memory, rows[indices], names)
    return result


def cut(windows: int, shares: tuple[float, float, float] = SHARES, gap: int = GAP) -> tuple[tuple[int, int], ...]:
    """Give the first and last window of each part, in their order, a gap between them."""
    usable = windows - gap * (len(shares) - 1)
    bounds = np.round(np.cumsum((0.0, *shares)) / sum(shares) * usable).astype(int)
    parts = tuple((int(a) + k * gap, int(b) + k * gap) for k, (a, b) in enumerate(pairwise(bounds)))
    if any(high - low < 2 for low, high in parts):
        raise InputError(f"expected windows enough for three parts, found {windows}")
    return parts


@dataclass(frozen=True)
class TrainedPredictor:
    """A predictor, and what it is worth."""

    predictor: Predictor
    model: str
    """LightGBM's text."""
    inputs: tuple[str, ...]
    rows: tuple[str, ...]
    """Features of a row; the inputs beyond them follow."""
    judged: Calibration
    """On the windows that decided whether it is switched off."""
    tested: Calibration
    """Its own probabilities, switched off or not, on windows that nothing was chosen by."""
    by_theory: Calibration | None
    """The best possible probabilities on the same test windows."""
    config: RugPredictorConfig
    importance: Mapping[str, float]
    """Share of the gain by input."""
    bins: tuple[Bin, ...] = ()
    """Reliability on the test windows."""

    @property
    def share_of_best(self) -> float | None:
        """Give the skill as a share of the best possible one; None where there is none to be had."""
        best = self.by_theory
        return self.tested.skill / best.skill if best is not None and best.skill > 0 else None


def grow(
    game: Game, steps: Transitions, config: RugPredictorConfig, *, names: tuple[str, ...], world: str | None = None
) -> TrainedPredictor:
    """Grow, stop, calibrate, judge and test a predictor on whole windows in their order."""
    predicting = find_predicting(game)
    ticks = lay_ticks(game, steps, names, world)
    grown_on, judged_on, tested_on = (ticks.part(*bounds) for bounds in cut(len(ticks.ends)))
    inputs = (*names, *predicting.inputs)
    hazard = constant_hazard(lives(grown_on.ends)).value
    horizon = game.labels[predicting.label].horizon
    constant = float(1.0 - (1.0 - hazard) ** horizon)
    model, importance = _boost(grown_on, judged_on, inputs, config)
    trees = parse_trees(model)
    slope, offset = platt(trees.score(judged_on.inputs), judged_on.happened)
    predictor = Predictor(trees, slope, offset, constant, horizon, predicting.mean_life)
    rng = np.random.default_rng([STREAM, config.seed])
    judged = _judge(predictor, judged_on, constant, rng)
    tested = _judge(predictor, tested_on, constant, rng)
    best = None
    if tested_on.chance is not None:
        best = calibrate(tested_on.chance, tested_on.happened, tested_on.windows, constant, rng)
    final = Predictor(trees, slope, offset, constant, horizon, predicting.mean_life, judged.skilled)
    bins = reliability(predictor.calibrated(tested_on.inputs), tested_on.happened, tested_on.windows, rng)
    return TrainedPredictor(final, model, inputs, names, judged, tested, best, config, importance, bins)


def _judge(predictor: Predictor, ticks: PredictorRows, constant: float, rng: np.random.Generator) -> Calibration:
    return calibrate(predictor.calibrated(ticks.inputs), ticks.happened, ticks.windows, constant, rng)


def _boost(
    grown_on: PredictorRows, judged_on: PredictorRows, inputs: tuple[str, ...], config: RugPredictorConfig
) -> tuple[str, dict[str, float]]:
    """Grow trees; give LightGBM's text and the inputs' shares of the gain."""
    import lightgbm

    rng = np.random.default_rng([STREAM, config.seed, 1])
    first = rng.integers(config.stride, size=len(grown_on.ends) + grown_on.windows[0])
    index = np.arange(len(grown_on.windows)) + first[grown_on.windows]
    kept = index % config.stride == 0
    settings = {
        "objective": "binary",
        "num_leaves": config.leaves,
        "learning_rate": config.learning_rate,
        "min_data_in_leaf": max(20, int(config.leaf_share * kept.sum())),
        "min_gain_to_split": config.least_gain,
        "use_missing": False,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": config.seed,
        "verbosity": -1,
    }
    table = lightgbm.Dataset(grown_on.inputs[kept], grown_on.happened[kept].astype(float), feature_name=list(inputs))
    judge = table.create_valid(judged_on.inputs[:: config.stride], judged_on.happened[:: config.stride].astype(float))
    stop = lightgbm.early_stopping(config.patience, verbose=False)
    booster = lightgbm.train(settings, table, config.trees, valid_sets=[judge], callbacks=[stop])
    gain = booster.feature_importance("gain")
    shares = dict(zip(inputs, (gain / max(gain.sum(), 1e-300)).tolist(), strict=True))
    best = max(1, booster.best_iteration)
    return booster.model_to_string(num_iteration=best), {name: share for name, share in shares.items() if share > 0}


def platt(scores: Floats, happened: NDArray[np.bool_], steps: int = 50) -> tuple[float, float]:
    """Fit log-odds = offset + slope x score by Newton's method, with Platt's softened targets.

    The slope is kept between 0 and 1: a calibration may take confidence away, never add or turn it.
    """
    ones, zeros = int(happened.sum()), int((~happened).sum())
    target = np.where(happened, (ones + 1) / (ones + 2), 1 / (zeros + 2))
    slope, offset = 1.0, 0.0
    for _ in range(steps):
        chance = 1.0 / (1.0 + np.exp(-(offset + slope * scores)))
        weight = np.maximum(chance * (1.0 - chance), 1e-12)
        gradient = np.array([((chance - target) * scores).sum(), (chance - target).sum()])
        bend = np.array(
            [[(weight * scores**2).sum() + 1e-9, (weight * scores).sum()], [(weight * scores).sum(), weight.sum()]]
        )
        move = np.linalg.lstsq(bend, gradient, rcond=None)[0]
        slope, offset = slope - float(move[0]), offset - float(move[1])
        if np.abs(move).max() < 1e-9:
            break
    if 0.0 <= slope <= 1.0:
        return slope, offset
    slope = min(max(slope, 0.0), 1.0)
    return slope, _offset(slope * scores, float(target.mean()))


def _offset(scores: Floats, mean: float) -> float:
    """Find the offset at which the mean probability is that of what happened, by bisection."""
    low, high = -30.0, 30.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if float((1.0 / (1.0 + np.exp(-(middle + scores)))).mean()) < mean else (low, middle)
    return (low + high) / 2


def sidebet_policy(game: Game, made: TrainedPredictor, world: str | None) -> BetOnLabelPolicy:
    """Give the policy that bets by a predictor."""
    predicting = find_predicting(game)
    foresight = PredictorPolicy(made.predictor, predicting, made.rows, predicting.payout(world), made.config.margin)
    wait = lookup(game.actions, predicting.actions, "action set").wait
    assert isinstance(wait, tuple)
    return BetOnLabelPolicy(foresight, wait)


def save_predictor(
    path: Path,
    game: Game,
    made: TrainedPredictor,
    *,
    observation: str,
    stake: int,
    commit: str,
    data_hash: str | None = None,
    world: str | None = None,
) -> Card:
    """Write a predictor's checkpoint: LightGBM's text, and the card with its calibration."""
    predicting, predictor = find_predicting(game), made.predictor
    payload = {
        "inputs": list(made.inputs),
        "rows": list(made.rows),
        "label": predicting.label,
        "horizon": predictor.horizon,
        "slope": predictor.slope,
        "offset": predictor.offset,
        "constant": predictor.constant,
        "mean_life": predictor.mean_life,
        "skilled": predictor.skilled,
    }
    card = trained_card(
        game,
        "trees",
        "sidebet",
        tuple(map(len, game.actions[predicting.actions].heads)),
        {**asdict(made.config), "predictor": payload},
        made.config.seed,
        observation=observation,
        actions=predicting.actions,
        clock="tick",
        stake=stake,
        data_hash=data_hash,
        world=world,
        commit=commit,
        metrics=to_metrics(made),
    )
    return save_checkpoint(path, card, files={TREES: made.model.encode()})


def to_metrics(made: TrainedPredictor) -> Json:
    """Give the figures of a predictor."""
    return {
        "judged": asdict(made.judged),
        "tested": asdict(made.tested),
        "by_theory": None if made.by_theory is None else asdict(made.by_theory),
        "share_of_best": made.share_of_best,
        "skilled": made.predictor.skilled,
        "trees": len(made.predictor.trees),
        "importance": dict(made.importance),
    }
