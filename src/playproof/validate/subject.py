"""What is to be validated: a frozen policy with its hash, its terms and where it came from.

A subject is named by a checkpoint's folder, by the name of a baseline of the game, or by
"module:attribute", which gives a batch policy of one's own. Leaves out: playing it (examine).
"""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from playproof.errors import ConfigError, UnknownName
from playproof.evaluate.rollout import RolloutOptions
from playproof.game import Game
from playproof.game.vector_env import BatchPolicy
from playproof.policies.checkpoint import CARD, Card, load_checkpoint, load_policy
from playproof.policies.ensemble import batch_player
from playproof.policies.network import BatchPlayer


@dataclass(frozen=True)
class Subject:
    """A policy that is not going to change any more."""

    name: str
    player: BatchPolicy
    policy_hash: str
    family: str
    """What it was chosen among: the trial ledger counts its relatives."""
    stake: int
    options: RolloutOptions = field(default_factory=RolloutOptions)
    card: Card | None = None
    """None for what was never trained."""


def load_subject(game: Game, what: str, *, stake: int | None = None, sample: bool = False) -> Subject:
    """Find a policy by its checkpoint's folder, a baseline's name or "module:attribute"."""
    path = Path(what)
    if (path / CARD).exists():
        return from_checkpoint(game, path, stake, sample)
    if ":" in what and not path.exists():
        return _own(what, stake or game.defaults.stake)
    result = game.baselines.get(what)
    if result is None:
        raise UnknownName("policy (a checkpoint's folder, module:attribute, or baseline)", what, game.baselines)
    if result.batch is None:
        raise ConfigError(f"expected a baseline that plays many lanes, found {what!r}, which does not")
    identity = hashlib.sha256(f"{game.name} {game.version} baseline {what}".encode()).hexdigest()
    options = RolloutOptions(result.observation, result.actions)
    return Subject(what, result.batch(), identity, f"baseline {what}", stake or game.defaults.stake, options)


def from_checkpoint(game: Game, path: Path, stake: int | None = None, sample: bool = False) -> Subject:
    """Read a checkpoint; its card gives stake, clock, actions and observation."""
    checkpoint = load_checkpoint(path, game)
    card = checkpoint.card
    if stake is not None and stake != card.stake:
        raise ConfigError(
            f"expected the stake that the policy's file fixes, {card.stake}, found {stake}; leave --stake out"
        )
    policy: Any = load_policy(path, game)
    chance = sample or card.method == "bc"
    player = BatchPlayer(policy, sample=chance) if hasattr(policy, "act_batch") else batch_player(path, game)
    options = RolloutOptions(card.observation, card.actions, card.clock or None)
    family = f"{card.game} {card.method} {card.data_hash or card.world or ''}".strip()
    name = f"{card.method} {path.name}" if card.method not in path.name else path.name
    return Subject(name, player, checkpoint.hash, family, card.stake, options, card)


def _own(what: str, stake: int) -> Subject:
    """Import a batch policy, or a function that makes one; its source is its identity."""
    module, _, attribute = what.partition(":")
    try:
        result = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"expected a policy at {what!r}, found: {error}") from error
    player = result() if callable(result) else result
    try:
        source = inspect.getsource(import_module(module))
    except OSError:
        source = what
    identity = hashlib.sha256(f"{what}\n{source}".encode()).hexdigest()
    options = getattr(player, "options", RolloutOptions())
    return Subject(attribute, player, identity, what, stake, options)
