"""A documented rule over two checkpoints: a trained policy plays, a predictor of the window's end takes the wheel.

In this order, at every step and in every lane:

1. the prediction is critical (probability >= 0.50) and a position is open: close it;
2. a bet on the end is worth more than it costs, by the margin, none is open, and the policy would do
   nothing or has just been overruled: place it;
3. else do what the policy does.

A predictor that was switched off for lack of skill changes nothing but what rule 2 allows at the
constant hazard's odds, which is nothing where bets lose.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from playproof.errors import DecodeError
from playproof.game import Action, Game, Observation, load_game
from playproof.game.vector_env import Actions, BatchPolicy, Chosen, Rng, Rows
from playproof.policies.checkpoint import Card, Checkpoint, load_checkpoint, load_policy, save_checkpoint
from playproof.policies.network import BatchPlayer, NetworkSingleEnv
from playproof.policies.scaling import describe
from playproof.policies.trees import PredictorPolicy, foresight_of

if TYPE_CHECKING:
    from playproof.policies.network import Possible

RULE = "exit on critical; bet when its expected value is positive; else the policy"
VERSION = "1"


@dataclass(frozen=True)
class EnsemblePolicy:
    """Play by the rule, many lanes at once."""

    policy: BatchPolicy
    foresight: PredictorPolicy
    wait: tuple[int, ...]

    def start(self, lanes: int, rng: Rng) -> tuple[Any, Any]:
        """Sit both down in so many lanes."""
        return self.policy.start(lanes, rng), self.foresight.start(lanes)

    def begin(self, state: tuple[Any, Any], chosen: Chosen) -> None:
        """Begin windows in the chosen lanes."""
        self.policy.begin(state[0], chosen)
        self.foresight.begin(state[1], chosen)

    def act(self, obs: Rows, state: tuple[Any, Any]) -> Actions:
        """Choose for every lane."""
        own, seen = state
        actions = np.array(self.policy.act(obs, own), np.int64)
        payload, game = self.foresight.look(obs, seen), self.foresight.predicting
        leaves = payload.is_critical & game.held(obs, self.foresight.names)
        idle = (actions == np.asarray(self.wait)).all(axis=1)
        bets = self.foresight.bets(obs, seen, payload) & idle & ~leaves
        already = (actions == np.asarray(game.bet)).all(axis=1) & ~leaves
        actions[leaves], actions[bets] = game.exit, game.bet
        self.foresight.placed(seen, bets | already)
        return actions


class EnsembleSingleEnv:
    """The rule in one lane: row in, action out (playproof.game.Policy)."""

    def __init__(self, policy: EnsemblePolicy, rng: Rng) -> None:
        self.batch = policy
        self._state = policy.start(1, rng)

    def begin(self) -> None:
        """Begin a window."""
        self.batch.begin(self._state, np.ones(1, np.bool_))

    def act(self, observation: Observation) -> Action:
        """Choose for one row."""
        row = np.asarray(observation, np.float32)[None, :]
        return tuple(self.batch.act(row, self._state)[0].tolist())


def batch_player(path: Path, game: Game | None = None) -> BatchPolicy:
    """Give the player of many lanes that a checkpoint of any kind makes."""
    policy: Any = load_policy(path, game)
    if isinstance(policy, NetworkSingleEnv):
        return policy._player
    if hasattr(policy, "batch"):
        batch_policy: BatchPolicy = policy.batch
        return batch_policy
    if hasattr(policy, "act_batch"):
        return BatchPlayer(policy)
    raise DecodeError(f"expected a policy that plays many lanes at once, found {type(policy).__name__} in {path}")


def combine(policy: Path, predictor: Path, margin: float | None = None) -> EnsemblePolicy:
    """Make the rule of two checkpoints, which must be made for the same rows and actions."""
    first, second = load_checkpoint(policy), load_checkpoint(predictor)
    for what in ("game", "observation", "actions"):
        own, other = getattr(first.card, what), getattr(second.card, what)
        if own != other:
            raise DecodeError(f"expected both checkpoints for one {what}, found {own!r} and {other!r}")
    wait = load_game(first.card.game).actions[first.card.actions].wait
    assert isinstance(wait, tuple)
    return EnsemblePolicy(batch_player(policy), foresight_of(second, margin), wait)


def save_ensemble(
    path: Path,
    policy: Path,
    predictor: Path,
    *,
    margin: float,
    commit: str,
    metrics: Mapping[str, Any],
) -> Card:
    """Write the rule's checkpoint: the card names both parts by their hashes, and where they lie beside it."""
    first, second = load_checkpoint(policy), load_checkpoint(predictor)
    card = first.card
    parts = {
        "policy": {"path": _beside(policy, path), "hash": first.hash},
        "predictor": {"path": _beside(predictor, path), "hash": second.hash},
    }
    made = Card(
        kind="rule",
        method="ensemble",
        actions=card.actions,
        heads=card.heads,
        clock=card.clock,
        stake=card.stake,
        reward=card.reward,
        data_hash=card.data_hash,
        world=card.world,
        commit=commit,
        seed=card.seed,
        config={"rule": RULE, "version": VERSION, "margin": margin, **parts},
        metrics=metrics,
        **describe(load_game(card.game), card.observation),
    )
    return save_checkpoint(path, made)


def _beside(part: Path, path: Path) -> str:
    """Give the way from the rule's folder's parent to a part."""
    return os.path.relpath(part.absolute(), path.absolute().parent)


def from_checkpoint(checkpoint: Checkpoint, possible: Possible | None = None) -> EnsembleSingleEnv:  # noqa: ARG001
    """Make the policy of a checkpoint of kind `rule`; parts that were changed are refused."""
    config = checkpoint.card.config
    if config.get("rule") != RULE or config.get("version") != VERSION:
        raise DecodeError(f"expected the rule {RULE!r} of version {VERSION}, found {config.get('rule')!r}")
    paths = {}
    for part in ("policy", "predictor"):
        paths[part] = (checkpoint.path.absolute().parent / config[part]["path"]).resolve()
        if load_checkpoint(paths[part]).hash != config[part]["hash"]:
            raise DecodeError(f"expected the {part} that the rule was made with, found another at {paths[part]}")
    rule = combine(paths["policy"], paths["predictor"], config["margin"])
    return EnsembleSingleEnv(rule, np.random.default_rng(checkpoint.card.seed))
