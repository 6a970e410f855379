"""How like a player a clone chooses, head by head, beside what knowing nothing scores.

Accuracy says little where a player mostly waits: it stands beside the majority's and beside that of
always waiting. Balanced accuracy is the mean recall over choices; it is scored with chances divided
by how often each choice was demonstrated, which is what maximises it. Choices that were demonstrated
too rarely are left out of that mean and shown in the confusion matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from playproof.errors import InputError
from playproof.game import WAIT
from playproof.json_types import Json

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]

LEAST = 20
"""Demonstrations of a choice from which on it counts in balanced accuracy."""
FLOOR = 1e-12


@dataclass(frozen=True)
class PriorCorrection:
    """How learned chances are corrected in balanced predictions; found on windows held out of the demonstrations."""

    wait: float = 1.0
    """How many fold the first choice, doing nothing, counts."""
    stretch: float = 1.0
    """What the prior-adjusted logits of the seldom choices are multiplied by: where a choice was shown a few dozen
    times, what speaks for it is learned too timidly."""
    seldom: tuple[int, ...] = ()
    """Places of these choices in the head."""


EVEN = PriorCorrection()
WAITS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0)
STRETCHES = (1.0, 1.5, 2.0, 2.5)


@dataclass(frozen=True)
class HeadMetrics:
    """How one head's choices are met on unseen steps."""

    choices: tuple[str, ...]
    accuracy: float
    """Of the likeliest choice."""
    majority: float
    """Accuracy of always naming the choice demonstrated most."""
    always_wait: float
    log_loss: float
    """In nats a step."""
    mix_loss: float
    """Log loss of one who knows only how often each choice was demonstrated."""
    balanced: float
    """Mean recall over the scored choices, chances divided by their priors."""
    scored: tuple[str, ...]
    """Choices that count in it: demonstrated often enough, and met."""
    precision: tuple[float | None, ...]
    """Of the balanced prediction, by choice; None where it never names one."""
    recall: tuple[float | None, ...]
    """None where the player never chose it."""
    named_right: float
    """Share of steps in which the balanced prediction is right: what the confusion matrix adds up to."""
    confusion: tuple[tuple[int, ...], ...]
    """Rows: what the player chose; columns: what the balanced prediction names."""

    def to_json(self) -> Json:
        """Give all figures."""
        return dict(vars(self))


def balanced_choice(chances: Floats, prior: Floats, allowed: NDArray[np.bool_], tilt: PriorCorrection = EVEN) -> Ints:
    """Name the choice whose chance is largest beside its prior, among those allowed."""
    adjusted = np.where(allowed, chances / np.maximum(prior, FLOOR), -np.inf)
    adjusted[:, 0] *= tilt.wait
    for index in tilt.seldom:
        if allowed[index]:
            adjusted[:, index] **= tilt.stretch
    ints: Ints = adjusted.argmax(axis=1)
    return ints


def head_likeness(
    chances: Floats,
    chosen: Ints,
    demonstrated: Ints,
    choices: Sequence[str],
    least: int = LEAST,
    tilt: PriorCorrection = EVEN,
) -> HeadMetrics:
    """Score one head's chances (n, choices) against what was chosen (n,); priors come from the demonstrations."""
    if chances.shape != (len(chosen), len(choices)):
        raise InputError(f"expected chances of {len(choices)} choices in {len(chosen)} steps, found {chances.shape}")
    counts = np.bincount(demonstrated, minlength=len(choices))
    prior, allowed = counts / max(counts.sum(), 1), counts >= least
    named = balanced_choice(chances, prior, allowed, tilt)
    confusion = np.zeros((len(choices), len(choices)), np.int64)
    np.add.at(confusion, (chosen, named), 1)
    met, guessed, right = confusion.sum(axis=1), confusion.sum(axis=0), confusion.diagonal()
    scored = np.flatnonzero(allowed & (met > 0))
    picked = np.maximum(chances[np.arange(len(chosen)), chosen], FLOOR)
    wait = choices.index(WAIT) if WAIT in choices else 0
    return HeadMetrics(
        choices=tuple(choices),
        accuracy=float((chances.argmax(axis=1) == chosen).mean()),
        majority=float((chosen == counts.argmax()).mean()),
        always_wait=float((chosen == wait).mean()),
        log_loss=float(-np.log(picked).mean()),
        mix_loss=float(-np.log(np.maximum(prior[chosen], FLOOR)).mean()),
        balanced=float(np.mean(right[scored] / met[scored])) if len(scored) else 0.0,
        scored=tuple(choices[index] for index in scored.tolist()),
        precision=tuple(_share(a, b) for a, b in zip(right.tolist(), guessed.tolist(), strict=True)),
        recall=tuple(_share(a, b) for a, b in zip(right.tolist(), met.tolist(), strict=True)),
        named_right=float(right.sum() / max(1, len(chosen))),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def likeness(
    chances: Sequence[Floats],
    actions: Ints,
    demonstrated: Ints,
    heads: Sequence[Sequence[str]],
    least: int = LEAST,
    tilts: Sequence[PriorCorrection] = (),
) -> tuple[HeadMetrics, ...]:
    """Score every head on unseen steps (n, heads)."""
    tilts = tilts or (EVEN,) * len(heads)
    return tuple(
        head_likeness(chances[index], actions[:, index], demonstrated[:, index], names, least, tilts[index])
        for index, names in enumerate(heads)
    )


def find_tilts(
    chances: Sequence[Floats], actions: Ints, demonstrated: Ints, seldom: Sequence[Sequence[int]]
) -> list[PriorCorrection]:
    """Give for each head the tilt with the best balanced accuracy on held-out steps; `seldom` names choices by head."""
    results = []
    for head, (of, few) in enumerate(zip(chances, seldom, strict=True)):
        names = [str(index) for index in range(of.shape[1])]
        tried = [PriorCorrection(wait, by, tuple(few)) for by, wait in product(STRETCHES if few else (1.0,), WAITS)]
        scores = [
            head_likeness(of, actions[:, head], demonstrated[:, head], names, tilt=item).balanced for item in tried
        ]
        results.append(tried[int(np.argmax(scores))])
    return results


def action_mix(actions: Ints, heads: Sequence[Sequence[str]]) -> dict[str, float]:
    """Give the share of steps with each choice of each head that does something."""
    result: dict[str, float] = {}
    for index, names in enumerate(heads):
        shares = np.bincount(actions[:, index], minlength=len(names)) / max(len(actions), 1)
        result |= {name: float(shares[number]) for number, name in enumerate(names) if number}
    return result
