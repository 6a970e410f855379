"""What a checkpoint's card says of it, the same for policies of numbers and for language models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from playproof.errors import InputError
from playproof.json_types import Json
from playproof.policies.checkpoint import CARD, find_game, load_checkpoint

ModelKind = Literal["policy", "language"]


@dataclass(frozen=True)
class CheckpointFacts:
    """What the registry keeps of a card."""

    kind: ModelKind
    policy_hash: str
    """sha256 of the card, which names every other file's: the identity in verdicts and benchmarks."""
    game: str
    method: str
    card: Mapping[str, Any]
    data_hash: str | None
    reward_hash: str | None
    world_hash: str | None
    commit: str
    parent: str | None
    """What training began with."""


def read_facts(path: Path) -> CheckpointFacts:
    """Read a checkpoint, check every file against its card, and give what the card says."""
    text = _text(path / CARD)
    digest = hashlib.sha256(text).hexdigest()
    if _kind(text) == "language":
        from playproof.train.language.model import read_card  # torch

        card = read_card(path)
        payload = _plain(asdict(card))
        return CheckpointFacts(
            "language",
            digest,
            card.game,
            card.method,
            payload,
            _hash_of(card.config.get("data")),
            _hash_of(card.config.get("reward")),
            _world_hash(card.game, card.config.get("world")),
            card.commit,
            card.parent or card.base,
        )
    checkpoint = load_checkpoint(path)
    known = checkpoint.card
    reward = known.reward.get("hash")
    return CheckpointFacts(
        "policy",
        checkpoint.hash,
        known.game,
        known.method,
        known.to_json(),
        known.data_hash,
        None if reward is None else str(reward),
        _world_hash(known.game, known.world),
        known.commit,
        _text_of(known.config.get("init")),
    )


def is_language(path: Path) -> bool:
    """Tell whether a folder holds a language model's checkpoint."""
    return _kind(_text(path / CARD)) == "language"


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise InputError(
            f"expected a checkpoint with the file {path.name} in {path.parent}, found none; give a run or a checkpoint"
        ) from None


def _kind(text: bytes) -> str | None:
    try:
        payload = json.loads(text)
    except ValueError:
        return None  # whoever reads the card says what is wrong with it
    return payload.get("kind") if isinstance(payload, dict) else None


def _plain(payload: object) -> Json:
    result: Json = json.loads(json.dumps(payload, default=str))
    return result


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _hash_of(value: object) -> str | None:
    """Give one hash of a setting."""
    return (
        None if value is None else hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
    )


def _world_hash(game: str, world: object) -> str | None:
    """Give one hash of the simulated world that was learned in: the game's version decides what its name means."""
    if not world:
        return None
    known = find_game(game)
    version = "" if known is None else known.version
    return hashlib.sha256(f"{game} {version} {world}".encode()).hexdigest()
