"""The loss of GRPO over sequences of any lengths, laid end to end.

Group advantages A = (r - mean) / (spread + 1e-4), the spread with n - 1; importance ratio of each token from the
recorded log-probabilities, clipped; an optional penalty on the distance from a reference by Schulman's third estimator.
A group whose rewards are all alike teaches nothing and has no advantages; noise is never added to break a tie.
The same numbers as TRL's `grpo` and `bnpo` losses, which a test checks. Leaves out: models and batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from playproof.train.language.config import Averaging

Tensor = torch.Tensor
EPSILON = 1e-4
FLAT = 1e-12
"""A spread of rewards no larger than this is that of rounding."""


@dataclass(frozen=True)
class Clipping:
    """How far one update may go."""

    low: float = 0.2
    high: float = 0.2
    beta: float = 0.0
    """Weight of the distance from the reference; 0: none is computed."""
    averaging: Averaging = "sequence"
    """Of tokens within each sequence and then of sequences, or of all tokens alike."""


@dataclass(frozen=True)
class Loss:
    """A loss and what it was made of; all but `value` are plain numbers, as sums over its sequences or tokens."""

    value: Tensor
    """Already divided by the batch's own count, so that the parts of a batch add up."""
    tokens: int
    clipped: float
    """Tokens whose ratio is cut."""
    kl_old: float
    """Distance of the one that drew the tokens from the policy."""
    kl_reference: float


def advantages(rewards: Sequence[float]) -> tuple[float, ...] | None:
    """Give each episode's advantage in its group; None where all rewards are alike.

    Give rewards in units in which a spread of 1e-4 is nothing, such as basis points.
    """
    payload = np.asarray(rewards, np.float64)
    if len(payload) < 2 or not np.isfinite(payload).all():
        return None
    spread = float(payload.std(ddof=1))
    if spread <= FLAT:
        return None
    return tuple(((payload - payload.mean()) / (spread + EPSILON)).tolist())


def distance(logprobs: Tensor, others: Tensor) -> Tensor:
    """Estimate KL(policy, other) of each token that the policy itself drew; never negative, (t,)."""
    gap = others - logprobs
    return torch.exp(gap) - gap - 1


def grpo_loss(
    logprobs: Tensor,  # (t,) of the policy, with gradients
    old: Tensor,  # (t,) as recorded
    lengths: Sequence[int],  # of the n sequences
    given: Sequence[float],  # (n,) advantages
    clipping: Clipping,
    *,
    reference: Tensor | None = None,  # (t,)
    total: int | None = None,
) -> Loss:
    """Give the loss of n sequences; `total` is the count of sequences or tokens of the whole batch they are part of."""
    item = torch.tensor(list(lengths))
    payload = torch.tensor(list(given), dtype=logprobs.dtype).repeat_interleave(item)
    ratio = torch.exp(logprobs - old)
    cut = torch.clamp(ratio, 1 - clipping.low, 1 + clipping.high)
    per_token = -torch.min(ratio * payload, cut * payload)
    kl_reference = 0.0
    if clipping.beta and reference is not None:
        apart = distance(logprobs, reference)
        per_token = per_token + clipping.beta * ratio * apart  # weighted, since another policy drew the tokens
        kl_reference = float(apart.detach().sum())
    if clipping.averaging == "sequence":
        weights = (1.0 / item.to(logprobs.dtype)).repeat_interleave(item)
        value = (per_token * weights).sum() / (total or len(item))
    else:
        value = per_token.sum() / (total or len(per_token))
    moved = ratio.detach()
    outside = ((moved < 1 - clipping.low) & (payload < 0)) | ((moved > 1 + clipping.high) & (payload > 0))
    return Loss(
        value,
        len(per_token),
        float(outside.sum()),
        float(distance(old, logprobs.detach()).sum()),
        kl_reference,
    )
