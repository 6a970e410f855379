"""Implicit Q-learning for discrete heads (Kostrikov et al. 2021): values of what was played, never of what was not.

    V(s)  expectile tau of Q'(s, a) over the played actions
    Q(s, a) -> r + gamma V(s')
    policy: log likelihood of the played actions, weighed by exp(beta (Q'(s, a) - V(s))), at most 100

Q' is the lower of two slowly following copies.
"""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import Tensor, nn

from playproof.train.config import IqlConfig
from playproof.train.data import Heads, Steps, train_offline, value_of
from playproof.train.offline_loop import Losses, falling

LARGEST_WEIGHT = 100.0


def expectile_loss(difference: Tensor, expectile: float) -> Tensor:
    """Give the mean of |tau - 1(u < 0)| u^2."""
    weight = torch.where(difference < 0, 1.0 - expectile, expectile)
    return (weight * difference**2).mean()


def advantage_weight(advantage: Tensor, beta: float) -> Tensor:
    """Give exp(beta A), at most 100."""
    return (beta * advantage).exp().clamp(max=LARGEST_WEIGHT)


class Iql:
    """Critics, value and policy in training."""

    def __init__(self, steps: Steps, heads: tuple[int, ...], config: IqlConfig) -> None:
        self.steps, self.config = steps, config
        width = steps.rows.shape[1]

        def net(sizes: tuple[int, ...]) -> Heads:
            return Heads(width, sizes, config.hidden, config.activation)

        self.critics = nn.ModuleList([net(heads), net(heads)])
        self.copies = copy.deepcopy(self.critics)
        self.value, self.policy = net((1,)), net(heads)
        self.module = nn.ModuleDict(
            {"critics": self.critics, "copies": self.copies, "value": self.value, "policy": self.policy}
        )
        parts = (self.critics, self.value, self.policy)
        self.optimizers = [torch.optim.Adam(part.parameters(), lr=config.learning_rate) for part in parts]

    def losses(self, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give the losses of critics, value and policy."""
        steps, config = self.steps, self.config
        rows, actions = steps.rows[batch], steps.actions[batch]
        with torch.no_grad():
            known = torch.stack([value_of(net(rows), actions) for net in self.copies]).min(dim=0).values
            after = self.value(steps.after[batch])[0].squeeze(1)
            goal = steps.rewards[batch] + config.gamma * steps.goes_on[batch] * after
        value = self.value(rows)[0].squeeze(1)
        value_loss = expectile_loss(known - value, config.expectile)
        errors = torch.stack([(value_of(net(rows), actions) - goal) ** 2 for net in self.critics])
        weight = advantage_weight(known - value.detach(), config.beta)
        chances = [logits.log_softmax(dim=1) for logits in self.policy(rows)]
        return errors.mean(dim=1).sum(), value_loss, -(weight * value_of(chances, actions)).mean()

    def update(self, batch: Tensor, share: float) -> Losses:
        """Learn from one batch."""
        falling(self.optimizers, self.config.learning_rate, share)
        losses = self.losses(batch)
        for optimizer, loss in zip(self.optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.copies.parameters(), self.critics.parameters(), strict=True):
                slow.lerp_(fast, self.config.follow)
        critic, value, policy = (float(loss.detach()) for loss in losses)
        return {"loss": critic + value + policy, "critic": critic, "value": value, "policy": policy}


train_iql = partial(train_offline, Iql)
"""Learn a policy from recorded steps by implicit Q-learning."""
