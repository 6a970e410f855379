"""Conservative Q-learning for discrete heads (Kumar et al. 2020): double DQN that mistrusts what was not played.

    loss = (Q(s, a) - r - gamma Q'(s', argmax Q(s', .)))^2 / 2 + alpha (log sum exp Q(s, .) - Q(s, a))

Squares, since money is a mean: Huber's loss, which is there as an option, cuts rare large losses off, and holding
into them then looks like a gain. With one head and Huber's loss this is d3rlpy's DiscreteCQL to the last rounding;
the tests hold its values.
Leaves out: several critics, distributional values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss, mse_loss

from playproof.datasets import Transitions
from playproof.train.data import Heads, OfflinePolicy, OfflineSetup, Steps, best_of, learned, to_steps, value_of
from playproof.train.offline_loop import Losses, TrainingPace, falling, learn

if TYPE_CHECKING:
    from playproof.train.run import Run


@dataclass(frozen=True)
class CqlConfig:
    """How to learn conservatively."""

    alpha: float = 5.0
    """Weight of the conservative term. Where a step's gain is far below its noise, values alone choose at random:
    large enough, what was mostly played is played unless money clearly speaks against it."""
    huber: float = 0.0
    """Errors from which on the loss grows linearly; 0: never."""
    gamma: float = 0.98
    reward_scale: float = 100.0
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    learning_rate: float = 2e-3
    """Falls linearly to nothing, which takes the noise out of the values."""
    target_interval: int = 200
    """Updates after which the target takes the network's parameters over."""
    masked: bool = True
    """Choose, and value what comes, only among what can have an effect."""
    epochs: int = 3
    batch: int = 1024
    seed: int = 0

    @property
    def pace(self) -> TrainingPace:
        """Give how long to learn."""
        return TrainingPace(self.epochs, self.batch, self.seed)


class Cql:
    """Values in training."""

    def __init__(self, steps: Steps, heads: tuple[int, ...], config: CqlConfig) -> None:
        self.steps, self.config = steps, config
        self.q = Heads(steps.rows.shape[1], heads, config.hidden, config.activation)
        self.target = copy.deepcopy(self.q)
        self.updates = torch.zeros((), dtype=torch.int64)
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


def train_cql(
    table: OfflineSetup,
    steps: Transitions,
    config: CqlConfig,
    run: Run | None = None,
    notify: Callable[[int, Losses], None] | None = None,
    look: Callable[[int, OfflinePolicy], None] | None = None,
) -> OfflinePolicy:
    """Learn a policy from recorded steps; `look` sees what was learned after each epoch."""
    laid = to_steps(table, steps, config.reward_scale, config.masked)

    def seen(epoch: int, learner: Cql) -> None:
        if look is not None:
            look(epoch, learned(table, learner.q, (), config.activation, config.masked))

    made, curve = learn(lambda: Cql(laid, table.heads, config), len(laid), config.pace, run, notify, seen)
    return learned(table, made.q, curve, config.activation, config.masked)
