"""Conservative Q-learning for discrete heads (Kumar et al. 2020): double DQN that mistrusts what was not played.

    loss = (Q(s, a) - r - gamma Q'(s', argmax Q(s', .)))^2 / 2 + alpha (log sum exp Q(s, .) - Q(s, a))

Squares, since money is a mean: Huber's loss, which is there as an option, cuts rare large losses off, and holding
into them then looks like a gain. With one head and Huber's loss this is d3rlpy's DiscreteCQL to the last rounding;
the tests hold its values.
"""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss, mse_loss

from playproof.train.config import CqlConfig
from playproof.train.data import Heads, Steps, best_of, train_offline, value_of
from playproof.train.offline_loop import Losses, falling


class Cql:
    """Values in training; the policy acts by them."""

    def __init__(self, steps: Steps, heads: tuple[int, ...], config: CqlConfig) -> None:
        self.steps, self.config = steps, config
        self.q = Heads(steps.rows.shape[1], heads, config.hidden, config.activation)
        self.target = copy.deepcopy(self.q)
        self.updates = torch.zeros((), dtype=torch.int64)
        self.policy = self.q
        self.module = nn.ModuleDict({"q": self.q, "target": self.target})
        self.module.register_buffer("updates", self.updates)
        self.optimizers = [torch.optim.Adam(self.q.parameters(), lr=config.learning_rate)]

    def loss(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Give the temporal-difference and the conservative loss of some steps."""
        steps, config = self.steps, self.config
        actions, after = steps.actions[batch], steps.after[batch]
        values = self.q(steps.rows[batch])
        with torch.no_grad():
            possible = None if steps.possible is None else steps.possible[batch]
            best = best_of(self.q(after), possible)
            next_value = value_of(self.target(after), best)
            goal = steps.rewards[batch] + config.gamma * steps.goes_on[batch] * next_value
        taken = value_of(values, actions)
        spread = torch.stack([of.logsumexp(dim=1) for of in values]).sum(dim=0)
        error = huber_loss(taken, goal, delta=config.huber) if config.huber else mse_loss(taken, goal) / 2
        return error, (spread - taken).mean()

    def update(self, batch: Tensor, share: float) -> Losses:
        """Learn from one batch."""
        falling(self.optimizers, self.config.learning_rate, share)
        difference, conservative = self.loss(batch)
        loss = difference + self.config.alpha * conservative
        self.optimizers[0].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizers[0].step()
        self.updates.add_(1)
        if int(self.updates) % self.config.target_interval == 0:
            self.target.load_state_dict(self.q.state_dict())
        return {"loss": float(loss.detach()), "td": float(difference.detach()), "cql": float(conservative.detach())}


train_cql = partial(train_offline, Cql)
"""Learn a policy from recorded steps by conservative Q-learning."""
