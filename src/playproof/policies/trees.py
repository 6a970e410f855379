"""Boosted trees that act without LightGBM: its text file read as data, walked by compiled code, with a calibration.

Only what this product trains is read: binary and multiclass objectives, numerical splits, no missing
values. A file with anything else is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from playproof._numba import compiler
from playproof.errors import ContractError, DecodeError, InputError
from playproof.game import Action, Observation, Policy, load_game
from playproof.game.vector_env import Actions, Chosen, Ints, Rng, Rows

if TYPE_CHECKING:
    from playproof.game.prediction import PredictionTask
    from playproof.policies.checkpoint import Checkpoint

compiled = compiler(__file__)

Floats = NDArray[np.float64]
CRITICAL, EXIT = 0.50, 0.40
"""Probabilities from which on `is_critical` and `should_exit` are set."""
CATEGORICAL = 1
"""Bit of a split's type."""


@dataclass(frozen=True)
class TreeEnsemble:
    """All trees side by side: splits and leaves, each tree from its own start."""

    names: tuple[str, ...]
    """Inputs, in their order."""
    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    """Children: a split of the same tree, or ~leaf."""
    leaf: Floats
    split_start: Ints
    leaf_start: Ints
    classes: int = 1
    """Trees of the classes take turns; 1 where there are log-odds of one thing alone."""

    def __len__(self) -> int:
        return len(self.split_start)

    def score(self, rows: NDArray[np.floating]) -> Floats:
        """Give the sum of leaves of rows (n, inputs): the log-odds, (n,)."""
        return self.scores(rows)[:, 0]

    def scores(self, rows: NDArray[np.floating]) -> Floats:
        """Give the sum of leaves of each class, (n, classes)."""
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            raise InputError(f"expected rows of {len(self.names)} inputs, found shape {rows.shape}")
        out = np.zeros((len(rows), self.classes))
        _walk(
            np.ascontiguousarray(rows, np.float64),
            self.feature,
            self.threshold,
            self.left,
            self.right,
            self.leaf,
            self.split_start,
            self.leaf_start,
            out,
        )
        return out


@compiled
def _walk(
    rows: Floats,
    feature: Ints,
    threshold: Floats,
    left: Ints,
    right: Ints,
    leaf: Floats,
    split_start: Ints,
    leaf_start: Ints,
    out: Floats,
) -> None:
    """Add up the leaves that each row falls into."""
    classes = out.shape[1]
    for tree in range(len(split_start)):
        first, leaves = split_start[tree], leaf_start[tree]
        for row in range(len(rows)):
            node = 0
            if first < 0:
                node = -1
            while node >= 0:
                at = first + node
                node = left[at] if rows[row, feature[at]] <= threshold[at] else right[at]
            out[row, tree % classes] += leaf[leaves - node - 1]


def parse_trees(text: str) -> TreeEnsemble:
    """Read the text that LightGBM saves a model as."""
    head, *parts = text.split("\nTree=")
    fields = _fields(head)
    classes = _classes(fields.get("objective", ""))
    names = tuple(fields.get("feature_names", "").split())
    if not parts or int(fields.get("max_feature_idx", "-1")) != len(names) - 1:
        raise DecodeError("expected trees and a name for each input, found others")
    listed = len(fields.get("tree_sizes", "").split())
    if [part.partition("\n")[0] for part in parts] != [str(number) for number in range(listed)]:
        raise DecodeError(f"expected the {listed} trees that the text lists, in their order; found {len(parts)}")
    columns: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "left", "right", "leaf")}
    split_start, leaf_start = [], []
    for part in parts:
        tree = _fields(part.partition("\nend of trees")[0])
        leaf_start.append(len(columns["leaf"]))
        splits = int(tree["num_leaves"]) - 1
        split_start.append(len(columns["feature"]) if splits else -1)
        _read_tree(tree, splits, len(names), columns)
    ints = {name: np.array(columns[name], np.int64) for name in ("feature", "left", "right")}
    return TreeEnsemble(
        names,
        ints["feature"],
        np.array(columns["threshold"], np.float64),
        ints["left"],
        ints["right"],
        np.array(columns["leaf"], np.float64),
        np.array(split_start, np.int64),
        np.array(leaf_start, np.int64),
        classes,
    )


def _classes(objective: str) -> int:
    """Read how many classes there are trees for."""
    kind, *rest = objective.split() or [""]
    if kind == "binary" and rest[:1] == ["sigmoid:1"]:
        return 1
    if kind == "multiclass" and rest and rest[0].removeprefix("num_class:").isdigit():
        return int(rest[0].removeprefix("num_class:"))
    raise DecodeError(f"expected trees of objective 'binary sigmoid:1' or 'multiclass', found {objective!r}")


def _fields(part: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in part.splitlines() if "=" in line)


def _read_tree(tree: Mapping[str, str], splits: int, inputs: int, columns: dict[str, list[Any]]) -> None:
    """Add one tree's splits and leaves, and refuse what cannot be walked."""
    try:
        leaves = [float(word) for word in tree["leaf_value"].split()]
        feature, left, right = ([int(word) for word in tree.get(name, "").split()] for name in _SPLITS)
        threshold = [float(word) for word in tree.get("threshold", "").split()]
        kinds = [int(word) for word in tree.get("decision_type", "").split()]
    except (KeyError, ValueError) as error:
        raise DecodeError(f"expected a tree as LightGBM writes it, found: {error}") from None
    sizes = {len(feature), len(left), len(right), len(threshold), len(kinds)}
    fits = sizes == {splits} and len(leaves) == splits + 1 and all(map(math.isfinite, (*leaves, *threshold)))
    down = all(
        (index < child < splits) or (-splits - 1 <= child < 0)
        for children in (left, right)
        for index, child in enumerate(children)
    )
    if not fits or not down or any(kind & CATEGORICAL for kind in kinds) or tree.get("is_linear", "0") != "0":
        raise DecodeError("expected numerical splits whose children come after them, found a tree with others")
    if any(not 0 <= index < inputs for index in feature):
        raise DecodeError(f"expected splits on {inputs} inputs, found one beyond them")
    for name, values in zip(("feature", "left", "right"), (feature, left, right), strict=True):
        columns[name] += values
    columns["threshold"] += threshold
    columns["leaf"] += leaves


_SPLITS = ("split_feature", "left_child", "right_child")


@dataclass(frozen=True)
class Prediction:
    """What is predicted at each row, (n,)."""

    probability: Floats
    confidence: Floats
    """0: the base rate alone; 1: certain against it."""
    ticks_to_rug_norm: Floats
    """Expected ticks to the end, with a hazard that stays as it is, over the game's mean life."""
    is_critical: Chosen
    should_exit: Chosen


@dataclass(frozen=True)
class Predictor:
    """Trees with their calibration; switched off, it knows the constant hazard alone."""

    trees: TreeEnsemble
    slope: float
    offset: float
    """Calibrated log-odds = offset + slope x the trees' own."""
    constant: float
    """Probability of the label with the constant hazard."""
    horizon: int
    mean_life: float
    skilled: bool = True
    """Was its skill above 0, with its interval, on windows it had not seen? If not it is switched off."""

    def probability(self, rows: NDArray[np.floating]) -> Floats:
        """Give the probability of the label at rows (n, inputs)."""
        if not self.skilled:
            return np.full(len(rows), self.constant)
        return self.calibrated(rows)

    def calibrated(self, rows: NDArray[np.floating]) -> Floats:
        """Give the trees' own calibrated probability, switched off or not."""
        floats: Floats = 1.0 / (1.0 + np.exp(-(self.offset + self.slope * self.trees.score(rows))))
        return floats

    def predict(self, rows: NDArray[np.floating]) -> Prediction:
        """Give all that is told at each row."""
        return describe_chances(self.probability(rows), self.constant, self.horizon, self.mean_life)


def describe_chances(chance: Floats, constant: float, horizon: int, mean_life: float) -> Prediction:
    """Give what follows from probabilities of the label."""
    inside = np.clip(chance, 1e-9, 1.0 - 1e-9)
    hazard = -np.expm1(np.log1p(-inside) / horizon)
    return Prediction(
        probability=chance,
        confidence=np.abs(chance - constant) / max(constant, 1.0 - constant),
        ticks_to_rug_norm=1.0 / (hazard * mean_life),
        is_critical=chance >= CRITICAL,
        should_exit=chance >= EXIT,
    )


@dataclass
class _PredictorMemory:
    """What a player on predictions remembers of its lanes."""

    memory: Any
    free: Ints
    """Tick from which on the next bet may start."""
    seen: Ints


@dataclass(frozen=True)
class PredictorPolicy:
    """Follow lanes row by row: inputs, predictions, and where a bet may be placed."""

    predictor: Predictor
    predicting: PredictionTask
    names: tuple[str, ...]
    """Features of a row."""
    payout: float
    margin: float = 0.05
    """Least expected profit of a bet, per unit staked."""

    def start(self, lanes: int) -> _PredictorMemory:
        """Remember nothing of so many lanes."""
        return _PredictorMemory(self.predicting.start(lanes), np.zeros(lanes, np.int64), np.full(lanes, -1))

    def begin(self, state: _PredictorMemory, chosen: Chosen) -> None:
        """Forget the chosen lanes."""
        self.predicting.begin(state.memory, chosen)
        state.free[chosen], state.seen[chosen] = 0, -1

    def look(self, rows: Rows, state: _PredictorMemory) -> Prediction:
        """Predict at one row a lane."""
        ticks = self.predicting.clock(rows, self.names)
        state.free[ticks < state.seen] = 0
        state.seen[:] = ticks
        return self.predictor.predict(np.concatenate([rows, self.predicting.look(state.memory, rows, self.names)], 1))

    def bets(self, rows: Rows, state: _PredictorMemory, prediction: Prediction) -> Chosen:
        """Tell where a bet is worth more than it costs and none is open."""
        worth = self.payout * prediction.probability - 1.0 > self.margin
        free = state.seen >= state.free
        chosen: Chosen = worth & free & self.predicting.asked(rows, self.names)
        return chosen & self.predicting.affords(rows, self.names)

    def placed(self, state: _PredictorMemory, chosen: Chosen) -> None:
        """Note that bets were placed: the next may start when they end."""
        state.free[chosen] = state.seen[chosen] + self.predictor.horizon


@dataclass(frozen=True)
class BetOnLabelPolicy:
    """Bet on the label whenever the prediction makes the bet worth it, with what stands in the bet field."""

    foresight: PredictorPolicy
    wait: tuple[int, ...]

    def start(self, lanes: int, rng: Rng) -> _PredictorMemory:  # noqa: ARG002
        """Sit down in so many lanes."""
        return self.foresight.start(lanes)

    def begin(self, state: _PredictorMemory, chosen: Chosen) -> None:
        """Begin windows in the chosen lanes."""
        self.foresight.begin(state, chosen)

    def act(self, obs: Rows, state: _PredictorMemory) -> Actions:
        """Bet or wait in every lane."""
        payload = self.foresight.look(obs, state)
        bets = self.foresight.bets(obs, state, payload)
        self.foresight.placed(state, bets)
        return np.where(bets[:, None], self.foresight.predicting.bet, self.wait).astype(np.int64)


class PredictorSingleEnv:
    """A policy on predictions in one lane: row in, action out (playproof.game.Policy)."""

    def __init__(self, policy: BetOnLabelPolicy) -> None:
        self.batch = policy
        self._state = policy.start(1, np.random.default_rng(0))

    def begin(self) -> None:
        """Begin a window."""
        self.batch.begin(self._state, np.ones(1, np.bool_))

    def act(self, observation: Observation) -> Action:
        """Choose for one row."""
        row = np.asarray(observation, np.float32)[None, :]
        return tuple(self.batch.act(row, self._state)[0].tolist())


def read_predictor(checkpoint: Checkpoint) -> Predictor:
    """Make the predictor of a checkpoint of kind `trees`."""
    predictor = checkpoint.card.config["predictor"]
    trees = parse_trees(checkpoint.read("model.txt").decode())
    if trees.names != tuple(predictor["inputs"]):
        raise DecodeError(f"expected trees over the inputs that the card names, found others in {checkpoint.path}")
    return Predictor(
        trees,
        float(predictor["slope"]),
        float(predictor["offset"]),
        float(predictor["constant"]),
        int(predictor["horizon"]),
        float(predictor["mean_life"]),
        bool(predictor["skilled"]),
    )


def find_predicting(game: str) -> PredictionTask:
    """Give what a game tells predictors."""
    task = load_game(game).simulated().prediction
    if task is None:
        raise ContractError(f"expected game {game!r} to say what can be predicted, found nothing")
    return task


def foresight_of(checkpoint: Checkpoint, margin: float | None = None) -> PredictorPolicy:
    """Make what follows lanes with a checkpoint's predictions."""
    card = checkpoint.card
    predicting = find_predicting(card.game)
    names: Sequence[str] = card.config["predictor"]["rows"]
    margin = card.config.get("margin", 0.05) if margin is None else margin
    return PredictorPolicy(read_predictor(checkpoint), predicting, tuple(names), predicting.payout(card.world), margin)


def from_checkpoint(checkpoint: Checkpoint, possible: object = None) -> Policy:
    """Make the policy of a checkpoint of kind `trees`."""
    card = checkpoint.card
    if card.method == "bc":
        from playproof.policies.clone_trees import from_checkpoint as clone

        return clone(checkpoint, possible)
    wait = load_game(card.game).actions[card.actions].wait
    assert isinstance(wait, tuple)
    return PredictorSingleEnv(BetOnLabelPolicy(foresight_of(checkpoint), wait))
