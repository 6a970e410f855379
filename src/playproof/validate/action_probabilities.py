"""Overhear what a policy thinks while it plays: the chances of its choices, and what it predicts.

The policy is asked nothing that it would not be asked anyway, and plays as it does unheard. Rules that weigh
nothing have nothing to tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.game.vector_env import BatchPolicy, Rows
from playproof.policies.ensemble import EnsemblePolicy
from playproof.policies.network import BatchPlayer, Floats, Mask, Rng, softmax
from playproof.policies.trees import BetOnLabelPolicy, Prediction, PredictorPolicy


@dataclass
class PolicyTrace:
    """What was thought at the last step, lane by lane."""

    chances: tuple[NDArray[np.floating], ...] = ()
    """For each head (lanes, choices)."""
    predictions: dict[str, NDArray[np.floating]] = field(default_factory=dict)
    """By label (lanes,)."""


class _TracedPolicy:
    """A policy that acts on batches, and notes the chances that it acts by."""

    def __init__(self, policy: Any, thoughts: PolicyTrace) -> None:
        self._policy, self._thoughts = policy, thoughts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def act_batch(
        self, rows: Floats, masks: Mask | None = None, rng: Rng | None = None, memory: Floats | None = None
    ) -> NDArray[np.int64]:
        """Choose as the policy does."""
        if memory is None:
            self._thoughts.chances = tuple(self._policy.probabilities(rows, masks))
            values: NDArray[np.int64] = self._policy.act_batch(rows, masks, rng)
            return values
        logits = self._policy.masked_logits(rows, masks, memory.copy())
        ends = np.cumsum(self._policy.heads)[:-1]
        self._thoughts.chances = tuple(softmax(part) for part in np.split(logits, ends, axis=1))
        moved: NDArray[np.int64] = self._policy.act_batch(rows, masks, rng, memory=memory)
        return moved


@dataclass(frozen=True)
class _TracedPredictor(PredictorPolicy):
    """A predictor that notes what it predicts."""

    thoughts: PolicyTrace = field(default_factory=PolicyTrace)

    def look(self, rows: Rows, state: Any) -> Prediction:
        """Predict as the predictor does."""
        payload = super().look(rows, state)
        self.thoughts.predictions[self.predicting.label] = payload.probability
        return payload


def overhear(player: BatchPolicy, thoughts: PolicyTrace) -> BatchPolicy:
    """Give the same player, whose thoughts are noted as it acts."""
    if isinstance(player, BatchPlayer) and hasattr(player.policy, "probabilities"):
        return replace(player, policy=_TracedPolicy(player.policy, thoughts))
    if isinstance(player, BetOnLabelPolicy):
        return replace(player, foresight=_foretold(player.foresight, thoughts))
    if isinstance(player, EnsemblePolicy):
        return replace(
            player, policy=overhear(player.policy, thoughts), foresight=_foretold(player.foresight, thoughts)
        )
    return player


def _foretold(foresight: PredictorPolicy, thoughts: PolicyTrace) -> PredictorPolicy:
    payload = {name: getattr(foresight, name) for name in PredictorPolicy.__dataclass_fields__}
    return _TracedPredictor(**payload, thoughts=thoughts)
