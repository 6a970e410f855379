"""A cloned player as boosted trees: whether he acts now, and then what he does.

The two questions are apart because they differ: he mostly waits, and what he does when he does
something is nearly settled by what he sees. The trees look at the present row and at how some
features moved over the last rows, in which his state of mind shows. What he seldom does drowns in
both answers, so it has trees of its own, which tell it from everything else, waiting included.
Acts with at most one head a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from playproof.errors import DecodeError
from playproof.policies.network import Floats, Mask, NetworkSingleEnv, Rng, draw_one, softmax
from playproof.policies.scaling import Scaling, scale_rows
from playproof.policies.trees import TreeEnsemble, parse_trees

if TYPE_CHECKING:
    from playproof.policies.checkpoint import Checkpoint

RECENT = 3
"""Changes from row to row that are looked at one by one; older ones count in what is summed up."""
NEAR = 4
"""Changes of which the lowest and the highest are looked at, beside those of all: a fright lasts a few rows."""
DIVIDER = "\n##### next model\n"
"""Between the models in the file of a checkpoint."""


@dataclass(frozen=True)
class TreeInputs:
    """What the trees look at."""

    scaling: Scaling
    """Of one row."""
    used: tuple[int, ...]
    """Places of the present row's features that are looked at, unscaled."""
    watched: tuple[int, ...]
    """Places of features whose changes from row to row are looked at, scaled."""
    frames: int
    """Rows that are seen, the present one included."""

    @property
    def names(self) -> tuple[str, ...]:
        """Name the inputs, one word each."""
        texts = [f"moved_{back}" for back in range(1, 1 + min(RECENT, self.frames - 1))]
        if self.frames - 1 > RECENT:
            texts += [f"{what}_{near}" for near in ("near", "all") for what in ("lowest", "highest")]
            texts += ["still", "changes"]
        names = self.scaling.names
        return (
            *(names[index] for index in self.used),
            *(f"{names[at]}_{item}" for item in texts for at in self.watched),
        )

    def look(self, rows: Floats) -> Floats:
        """Give the inputs of rows (n, features x frames or more), the newest frame last."""
        features = len(self.scaling.names)
        rows = rows[:, -features * self.frames :]
        newest = rows[:, -features:][:, list(self.used)]
        if self.frames == 1 or not self.watched:
            return newest
        stack = rows.reshape(len(rows) * self.frames, features)
        seen = scale_rows(stack, self.scaling)[:, list(self.watched)].reshape(len(rows), self.frames, -1)
        moved = np.diff(seen, axis=1)[:, ::-1]
        parts = [newest, moved[:, :RECENT].reshape(len(rows), -1)]
        if self.frames - 1 > RECENT:
            near, changed = moved[:, :NEAR], moved != 0
            still = np.where(changed.any(axis=1), changed.argmax(axis=1), self.frames - 1)
            parts += [near.min(axis=1), near.max(axis=1), moved.min(axis=1), moved.max(axis=1)]
            parts += [still.astype(np.float32), changed.sum(axis=1).astype(np.float32)]
        floats: Floats = np.concatenate(parts, axis=1)
        return floats


@dataclass(frozen=True)
class CloneTreePolicy:
    """Choose as the cloned player would: by chance with his chances, or what is likeliest."""

    view: TreeInputs
    """What is looked at to tell whether he does something."""
    closer: TreeInputs
    """What is looked at to tell what he does: fewer rows, since that is settled by what he sees now."""
    acts: tuple[TreeEnsemble, ...]
    """Log-odds that he does something; those of several forests are averaged."""
    does: tuple[TreeEnsemble, ...]
    """Scores of what he then does: the heads' choices other than their first, side by side."""
    heads: tuple[int, ...]
    seldom: tuple[tuple[int, tuple[TreeEnsemble, ...]], ...] = ()
    """Places among these choices of what he seldom does, and the log-odds of each; what is left goes to the rest."""
    rates: tuple[float, ...] = ()
    """How many times likelier each of these choices is than the trees say: growing stops before rare ones are learned
    to their full share. None: all are as said."""

    @property
    def frames(self) -> int:
        """Give how many rows are seen at once."""
        return max(self.view.frames, self.closer.frames)

    @property
    def features(self) -> tuple[str, ...]:
        """Name the places of a row."""
        return self.view.scaling.names

    def log_odds(self, rows: Floats) -> NDArray[np.float64]:
        """Give the log-odds that he does something. Their noise, unlike that of chances, averages out."""
        seen = self.view.look(rows)
        values: NDArray[np.float64] = np.mean([trees.score(seen) for trees in self.acts], axis=0)
        return values

    def probabilities(self, rows: Floats, masks: Mask | None = None) -> tuple[NDArray[np.float64], ...]:
        """Give the chance of each choice, one array (n, choices) a head; the heads are never used together."""
        close = self.closer.look(rows)
        acts = 1.0 / (1.0 + np.exp(-self.log_odds(rows)))
        does = np.mean([softmax(trees.scores(close)) for trees in self.does], axis=0)  # type: ignore[arg-type]
        joint = acts[:, None] * does
        if self.seldom:
            self._tell_seldom(joint, close)
        if self.rates:
            joint *= np.array(self.rates)
            joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1.0)
        results, start = [], 0
        for size in self.heads:
            part = joint[:, start : start + size - 1]
            results.append(np.concatenate([1.0 - part.sum(axis=1, keepdims=True), part], axis=1))
            start += size - 1
        return tuple(results) if masks is None else _masked(results, masks, self.heads)

    def _tell_seldom(self, joint: NDArray[np.float64], close: Floats) -> None:
        """Put in the chances of what he seldom does; the other choices share the rest as they did."""
        indices = [index for index, _ in self.seldom]
        scores = [np.mean([trees.score(close) for trees in of], axis=0) for _, of in self.seldom]
        chances = 1.0 / (1.0 + np.exp(-np.stack(scores, axis=1)))
        chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1.0)
        left = (1.0 - chances.sum(axis=1)) / np.maximum(1.0 - joint[:, indices].sum(axis=1), 1e-12)
        joint *= left[:, None]
        joint[:, indices] = chances

    def act_batch(self, rows: Floats, masks: Mask | None = None, rng: Rng | None = None) -> NDArray[np.int64]:
        """Choose for rows (n, frames x features) an action each, (n, heads)."""
        chances = self.probabilities(rows, masks)
        if rng is not None:
            return draw_one(chances, rng)  # type: ignore[arg-type]
        return np.stack([of.argmax(axis=1) for of in chances], axis=1)


def _masked(chances: list[NDArray[np.float64]], masks: Mask, heads: tuple[int, ...]) -> tuple[NDArray[np.float64], ...]:
    """Put what is impossible out of reach; what is left shares its chance."""
    parts = np.split(masks, np.cumsum(heads)[:-1], axis=1)
    kept = [np.where(mask, of, 0.0) for of, mask in zip(chances, parts, strict=True)]
    return tuple(of / np.maximum(of.sum(axis=1, keepdims=True), 1e-300) for of in kept)


def to_text(models: Sequence[Sequence[str]]) -> str:
    """Write all models as one file: the members of each, one after the other."""
    return DIVIDER.join(text.rstrip("\n") + "\n" for of in models for text in of)


def from_checkpoint(checkpoint: Checkpoint, possible: object = None) -> NetworkSingleEnv:  # noqa: ARG001
    """Make the policy of a checkpoint of cloned habits, to be asked row by row."""
    return NetworkSingleEnv(read_habits(checkpoint), np.random.default_rng(checkpoint.card.seed))


def read_habits(checkpoint: Checkpoint) -> CloneTreePolicy:
    """Read the policy of a checkpoint of cloned habits."""
    habits, names = checkpoint.card.config["habits"], checkpoint.card.features
    models = [parse_trees(text) for text in checkpoint.read("model.txt").decode().split(DIVIDER)]
    members = int(habits["members"])
    view, closer = (
        TreeInputs(
            checkpoint.scaling,
            tuple(names.index(name) for name in habits["used"]),
            tuple(names.index(name) for name in habits["watched"]),
            int(frames),
        )
        for frames in (habits["frames"], habits["close_frames"])
    )
    rates, seldom = tuple(map(float, habits.get("rates", ()))), [int(index) for index in habits.get("seldom", ())]
    acts, does, *alone = (tuple(models[at : at + members]) for at in range(0, members * (2 + len(seldom)), members))
    heads = checkpoint.card.heads
    policy = CloneTreePolicy(view, closer, acts, does, heads, tuple(zip(seldom, alone, strict=True)), rates)
    classes = sum(heads) - len(heads)
    fits = all(trees.names == view.names and trees.classes == 1 for trees in acts)
    fits &= all(trees.names == closer.names and trees.classes == classes for trees in does)
    fits &= all(trees.names == closer.names and trees.classes == 1 for of in alone for trees in of)
    fits &= len(rates) in (0, classes) and sorted(set(seldom) & set(range(classes))) == sorted(seldom)
    if len(models) != members * (2 + len(seldom)) or not fits:
        raise DecodeError(f"expected trees over the inputs that the card names, found others in {checkpoint.path}")
    return policy
