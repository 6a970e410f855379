"""Masked PPO as sb3-contrib has it, with a leaner loss: one log-softmax a head instead of distribution objects.

Without what is added the loss and the order of minibatches are those of sb3-contrib, and so are the
weights, up to rounding (tests hold both together). Added are:

- floor: while the mean entropy of a minibatch is below a floor, FLOOR_WEIGHT times the square of what is
  missing is added. Where most of what can be done loses, a learner else stops trying before it has seen the rest;
- noop_prior: instead of the entropy bonus, which is the KL divergence from a uniform policy, the KL divergence from
  a policy that prefers WAIT in every head. Where profits are noise, the policy then ends at WAIT and not wherever
  the noise took it;
- advantage_std_floor: with the no-op prior, advantages are divided by at least a share of the stake. Divided by their
  own standard deviation, the noise of the smallest bets counts as much as that of the largest, and the prior
  cannot end them;
- warm-up, for fine-tuning a cloned policy: in the first rollouts only the critic learns, so that a
  critic that knows nothing yet cannot push the actor about;
- anchor, for the same: beta KL(cloned || policy) on the states of each minibatch, beta falling to 0, so that the
  policy leaves the clone only where money says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.utils import explained_variance
from torch import Tensor, nn

from playproof.train.network import Weights, linear_weights, load_linear

MASKED = -1e8
"""Logit of a choice that is masked out, as sb3-contrib sets it."""
FLOOR_WEIGHT = 0.1


class FastPolicy(MaskableActorCriticPolicy):  # type: ignore[misc]
    """Actor and critic with trunks of their own over rows that are scaled already."""

    def chances(self, obs: Tensor, masks: Tensor | None) -> list[Tensor]:
        """Give the log-chances of each head, (n, choices)."""
        logits = self.action_net(self.mlp_extractor.forward_actor(obs))
        if masks is not None:
            logits = torch.where(masks, logits, MASKED)
        return [part.log_softmax(dim=1) for part in logits.split(self.action_dist.action_dims, dim=1)]

    def forward(
        self, obs: Tensor, deterministic: bool = False, action_masks: object = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give actions, values and log-chances of the actions."""
        masks = None if action_masks is None else torch.as_tensor(action_masks).bool()
        chances = self.chances(obs, masks)
        picked = [log.argmax(1) if deterministic else log.exp().multinomial(1).squeeze(1) for log in chances]
        actions = torch.stack(picked, dim=1)
        return actions, self.predict_values(obs), log_chance(chances, actions)

    def predict_values(self, obs: Tensor) -> Tensor:
        """Give the critic's values, (n, 1)."""
        values: Tensor = self.value_net(self.mlp_extractor.forward_critic(obs))
        return values

    def actor_parameters(self) -> list[nn.Parameter]:
        """Give what the actor learns."""
        return [*self.mlp_extractor.policy_net.parameters(), *self.action_net.parameters()]

    def layers(self) -> dict[str, nn.Linear]:
        """Name the layers whose parameters policies act by, the critic's beside them; all but the heads'."""
        critic = [*self.mlp_extractor.value_net[::2], self.value_net]
        named = {f"trunk.{k}": layer for k, layer in enumerate(self.mlp_extractor.policy_net[::2])}
        return named | {f"critic.{k}": layer for k, layer in enumerate(critic)}

    def weights(self) -> Weights:
        """Give the parameters by the names that policies act by, the critic's beside them."""
        result, whole = linear_weights(self.layers()), linear_weights({"out": self.action_net})
        cuts = np.cumsum(self.action_dist.action_dims)[:-1]
        for part in ("weight", "bias"):
            pieces = np.split(whole[f"out.{part}"], cuts)
            result |= {f"head.{k}.{part}": np.ascontiguousarray(piece) for k, piece in enumerate(pieces)}
        return result

    def load(self, weights: Weights) -> None:
        """Take a policy's parameters over, and its critic's if there are any."""
        heads = range(len(self.action_dist.action_dims))
        whole = {
            f"out.{part}": np.concatenate([weights[f"head.{k}.{part}"] for k in heads]) for part in ("weight", "bias")
        }
        load_linear(self.layers(), weights)
        load_linear({"out": self.action_net}, whole)


def log_chance(chances: list[Tensor], actions: Tensor) -> Tensor:
    """Give the log-chance of actions (n, heads) under log-chances by head."""
    picked = [log.gather(1, actions[:, k : k + 1].long()) for k, log in enumerate(chances)]
    return torch.cat(picked, dim=1).sum(dim=1)


def entropy_of(chances: list[Tensor]) -> Tensor:
    """Give the entropy of all heads together, (n,)."""
    return torch.stack([-(log.exp() * log.clamp(min=MASKED)).sum(dim=1) for log in chances]).sum(dim=0)


def divergence(reference: list[Tensor], chances: list[Tensor]) -> Tensor:
    """Give KL(reference || policy) of all heads together, (n,); choices masked in both count nothing."""
    return torch.stack([(old.exp() * (old - new)).sum(dim=1) for old, new in zip(reference, chances, strict=True)]).sum(
        dim=0
    )


def leaning(masks: Tensor, heads: Sequence[int], lean: float) -> list[Tensor]:
    """Give the log-chances of a policy whose first choice leads by `lean`, by head; masks are (n, all heads)."""
    logits = torch.cat([lean * nn.functional.one_hot(torch.tensor(0), size) for size in heads])
    parts = torch.split_with_sizes(torch.where(masks, logits, MASKED), list(heads), dim=1)
    return [part.log_softmax(dim=1) for part in parts]


class MaskedPPO(MaskablePPO):  # type: ignore[misc]
    """Masked PPO whose updates may warm up the critic and be anchored to a cloned policy."""

    warmup: int = 0
    """Rollouts in which only the critic learns."""
    anchor: FastPolicy | None = None
    anchor_weight: Callable[[float], float] | None = None
    """beta by what is left of the training, from 1 to 0."""
    entropy_weight: Callable[[float], float] | None = None
    """The weight of entropy by what is left of the training; None: constant."""
    entropy_floor: Callable[[float], float] | None = None
    """Entropy below which it is pulled up, by what is left of the training; None: none."""
    noop_prior: Callable[[float], float] | None = None
    """By how much doing nothing leads, by what is left of the training; None or 0: entropy alone."""
    advantage_std_floor: Callable[[float], float] | None = None
    """Least spread by which advantages are divided, by what is left of the training; None or 0: their own."""

    def train(self) -> None:
        """Update the policy on the gathered rollout."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        clip = self.clip_range(self._current_progress_remaining)
        beta = self.anchor_weight(self._current_progress_remaining) if self.anchor_weight is not None else 0.0
        if self.entropy_weight is not None:
            self.ent_coef = self.entropy_weight(self._current_progress_remaining)
        critic_only = self.num_timesteps <= self.warmup * self.n_steps * self.n_envs
        sums: dict[str, list[float]] = {}
        for _ in range(self.n_epochs):
            for batch in self.rollout_buffer.get(self.batch_size):
                loss, payload = self._loss(batch, clip, beta, critic_only)
                for name, value in payload.items():
                    sums.setdefault(name, []).append(float(value))
                if self.target_kl is not None and sums["approx_kl"][-1] > 1.5 * self.target_kl:
                    break
                self.policy.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                self.policy.optimizer.step()
            else:
                self._n_updates += 1
                continue
            break
        self._note(sums, beta)

    def _loss(self, batch: Any, clip: float, beta: float, critic_only: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """Give the loss of one minibatch, and its parts for the log."""
        values = self.policy.predict_values(batch.observations).flatten()
        value_loss = nn.functional.mse_loss(batch.returns, values)
        if critic_only:
            return self.vf_coef * value_loss, {"value_loss": value_loss.detach(), "approx_kl": torch.zeros(())}
        masks = batch.action_masks.bool()
        chances = self.policy.chances(batch.observations, masks)
        log_prob = log_chance(chances, batch.actions)
        log_ratio = log_prob - batch.old_log_prob
        ratio = log_ratio.exp()
        advantages = batch.advantages
        if self.normalize_advantage:
            least = (
                self.advantage_std_floor(self._current_progress_remaining)
                if self.advantage_std_floor is not None
                else 0.0
            )
            advantages = (advantages - advantages.mean()) / (advantages.std().clamp(min=least) + 1e-8)
        policy_loss = -torch.min(advantages * ratio, advantages * ratio.clamp(1 - clip, 1 + clip)).mean()
        entropy = entropy_of(chances).mean()
        loss = policy_loss + self._pull(chances, masks, entropy) + self.vf_coef * value_loss
        payload = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        payload["approx_kl"] = ((ratio - 1) - log_ratio).mean()
        payload["clip_fraction"] = ((ratio - 1).abs() > clip).float().mean()
        if beta > 0 and self.anchor is not None:
            with torch.no_grad():
                reference = self.anchor.chances(batch.observations, masks)
            payload["anchor"] = divergence(reference, chances).mean()
            loss = loss + beta * payload["anchor"]
        payload["loss"] = loss
        return loss, {name: value.detach() for name, value in payload.items()}

    def _pull(self, chances: list[Tensor], masks: Tensor, entropy: Tensor) -> Tensor:
        """Give the part of the loss that money does not speak of: what the policy is pulled to."""
        left = self._current_progress_remaining
        lean = self.noop_prior(left) if self.noop_prior is not None else 0.0
        floor = self.entropy_floor(left) if self.entropy_floor is not None else 0.0
        far = -entropy
        if lean > 0:
            far = divergence(chances, leaning(masks, self.policy.action_dist.action_dims, lean)).mean()
        pull: Tensor = self.ent_coef * far
        return pull + FLOOR_WEIGHT * (floor - entropy).clamp(min=0.0).square() if floor > 0 else pull

    def _note(self, sums: dict[str, list[float]], beta: float) -> None:
        """Write what the update came to into the log."""
        for name, values in sums.items():
            self.logger.record(f"train/{name}", float(np.mean(values)))
        spread = explained_variance(self.rollout_buffer.values.flatten(), self.rollout_buffer.returns.flatten())
        self.logger.record("train/explained_variance", spread)
        self.logger.record("train/anchor_weight", beta)
