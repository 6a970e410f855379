"""Checkpoints: a trained policy as a folder of data that is checked before it is used and never run as code.

| file | what |
|---|---|
| checkpoint.json | the card: what the policy is, from what it was made, and the sha256 of every other file |
| weights.safetensors | a network's parameters, with the hash of the feature list in its metadata |
| policy.onnx | the same network with its scaling, for servers that speak ONNX |
| model.txt | trees, as LightGBM writes them |

Loading checks every hash, the feature list and its order against the card and against the game, and
reads nothing but JSON, safetensors and text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from playproof.errors import DecodeError, InputError, PlayproofError
from playproof.game import Game, NumericObservation, Policy, game_names, load_game, lookup
from playproof.home import write_durably
from playproof.json_types import Json
from playproof.policies.scaling import SCALING, Scaling, feature_hash, game_scaling, parse

Kind = Literal["network", "trees", "rule"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CARD, WEIGHTS, ONNX, TREES = "checkpoint.json", "weights.safetensors", "policy.onnx", "model.txt"
FILES = (WEIGHTS, ONNX, TREES)
CARD_HASH = "card_hash"
LARGEST = 1 << 30
"""Bytes; a larger file is no policy."""
_ONNX_START = b"\x08"
"""The first field of an ONNX file that this module writes: its version."""
_DISGUISED = {b"\x80": "a pickle", b"PK": "a zip archive, as torch and stable-baselines3 save them"}


class CheckpointRefused(DecodeError):
    """Tell why a checkpoint is not used."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a policy is, and from what it was made."""

    kind: Kind
    method: str
    """bc, ppo, iql, cql, sidebet, ensemble, ..."""
    game: str
    observation: str
    features: tuple[str, ...]
    feature_hash: str
    """Of names, order and scales."""
    scaling: Mapping[str, Any]
    """name, version, and the rule of each feature."""
    actions: str
    heads: tuple[int, ...]
    clock: str
    stake: int
    """Reserved for each window, in the smallest unit; fixed before the policy is evaluated."""
    reward: Mapping[str, Any]
    """name, version, hash, failed_checks."""
    data_hash: str | None = None
    world: str | None = None
    commit: str = ""
    seed: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """sha256 by name; filled when the checkpoint is saved."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise CheckpointRefused(f"expected a kind among {', '.join(KINDS)}, found {self.kind!r}")
        rules = self.scaling.get("rules", ())
        if len(rules) != len(self.features):
            raise CheckpointRefused(f"expected a scale for each of {len(self.features)} features, found {len(rules)}")

    def to_json(self) -> Json:
        """Give the card as its file holds it, with its own hash."""
        payload: Json = json.loads(json.dumps(asdict(self), default=_plain))
        return payload | {CARD_HASH: _card_hash(payload)}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and checked."""

    path: Path
    card: Card
    scaling: Scaling
    weights: Mapping[str, NDArray[np.float32]]
    """Empty where the policy is no network."""
    hash: str
    """Identity of the policy in verdicts and ledgers: that of its card, which names every other file's."""

    def read(self, name: str) -> bytes:
        """Read one of its files again, checked."""
        return _read_checked(self.path, name, self.card.files)


def save_checkpoint(
    path: Path,
    card: Card,
    weights: Mapping[str, NDArray[Any]] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Card:
    """Write a checkpoint, its card last; give the card with the files' hashes. Networks get an ONNX file too."""
    from safetensors.numpy import save

    content = dict(files or {})
    if weights:
        arrays = {name: np.ascontiguousarray(value, np.float32) for name, value in sorted(weights.items())}
        content[WEIGHTS] = save(arrays, {"feature_hash": card.feature_hash})
        if card.kind == "network" and not any(name.startswith("memory.") for name in arrays):
            from playproof.policies.onnx import to_onnx

            content[ONNX] = to_onnx(card, arrays)
    if unknown := sorted(set(content) - set(FILES)):
        raise InputError(f"expected files among {', '.join(FILES)}, found {', '.join(unknown)}")
    full = replace(card, files={name: hashlib.sha256(data).hexdigest() for name, data in sorted(content.items())})
    path.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        write_durably(path / name, data)
    write_durably(path / CARD, (json.dumps(full.to_json(), indent=1, sort_keys=True) + "\n").encode())
    return full


def load_checkpoint(path: Path, game: Game | None = None) -> Checkpoint:
    """Read a checkpoint and check all of it; `game` is looked up by its name where it is not given."""
    path = Path(path)
    text = _read(path / CARD)
    card = _read_card(path / CARD, text)
    scaling = _check_features(card, path)
    _check_game(card, path, game)
    contents = {name: _read_checked(path, name, card.files) for name in card.files}
    if ONNX in contents and not contents[ONNX].startswith(_ONNX_START):
        raise CheckpointRefused(f"expected an ONNX graph in {path / ONNX}, found something else")
    weights = _read_weights(path / WEIGHTS, contents[WEIGHTS], card) if WEIGHTS in contents else {}
    return Checkpoint(path, card, scaling, weights, hashlib.sha256(text).hexdigest())


def load_policy(path: Path, game: Game | None = None) -> Policy:
    """Read a checkpoint, check it, and make its policy."""
    checkpoint = load_checkpoint(path, game)
    game = game or find_game(checkpoint.card.game)
    actions = game.actions.get(checkpoint.card.actions) if game else None
    possible = actions.possible if actions is not None else None
    # The kinds are imported here, since each of them reads checkpoints by this module.
    match checkpoint.card.kind:
        case "network":
            from playproof.policies import network

            return network.from_checkpoint(checkpoint, possible)
        case "trees":
            from playproof.policies import trees

            return trees.from_checkpoint(checkpoint, possible)
        case "rule":
            from playproof.policies import ensemble

            return ensemble.from_checkpoint(checkpoint, possible)


def find_game(name: str) -> Game | None:
    """Give the game of a name, None where it is not installed."""
    return load_game(name) if name in game_names() else None


def _plain(value: object) -> Any:
    """Write what JSON does not know: mappings, numpy numbers, paths."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"expected what JSON can hold, found {type(value).__name__}")


def _card_hash(payload: Mapping[str, object]) -> str:
    body = {name: value for name, value in payload.items() if name != CARD_HASH}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read(path: Path) -> bytes:
    """Read a file that must be a plain one of bearable size."""
    try:
        if not path.is_file() or path.is_symlink():
            raise CheckpointRefused(f"expected a checkpoint with the file {path.name}, found none in {path.parent}")
        if path.stat().st_size > LARGEST:
            raise CheckpointRefused(f"expected {path.name} of at most {LARGEST} bytes, found {path.stat().st_size}")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointRefused(f"expected a readable {path.name} in {path.parent}, found: {error.strerror}") from error


def _read_checked(path: Path, name: str, hashes: Mapping[str, str]) -> bytes:
    """Read a file and compare its hash with the card's."""
    if name not in FILES:
        raise CheckpointRefused(f"expected files among {', '.join(FILES)}, found {name!r} named in {path / CARD}")
    data = _read(path / name)
    is_tensors = name == WEIGHTS and data[8:9] == b"{"  # a length comes first, which may begin with any byte
    for start, what in _DISGUISED.items():
        if data.startswith(start) and not is_tensors:
            raise CheckpointRefused(f"expected {name} to be data, found {what}: {path / name} is not opened")
    result = hashlib.sha256(data).hexdigest()
    if result != hashes.get(name):
        raise CheckpointRefused(
            f"expected {name} with sha256 {str(hashes.get(name))[:12]}..., found {result[:12]}...: "
            f"{path / name} was changed after it was saved; train it again or fetch it anew"
        )
    return data


def _read_card(path: Path, text: bytes) -> Card:
    """Read the card and compare its own hash."""
    try:
        payload = json.loads(text)
        if payload.get(CARD_HASH) != _card_hash(payload):
            raise CheckpointRefused(f"expected {path} as it was saved, found it changed: its own hash does not fit")
        known = {item.name for item in fields(Card)}
        body = {name: value for name, value in payload.items() if name in known}
        body |= {name: tuple(body[name]) for name in ("features", "heads")}
        return Card(**body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointRefused(f"expected the card of a checkpoint in {path}, found: {error}") from None


def _check_features(card: Card, path: Path) -> Scaling:
    """Compare the feature list with its hash."""
    rules = tuple(card.scaling["rules"])
    if feature_hash(card.features, rules) != card.feature_hash:
        raise CheckpointRefused(
            f"expected the features in the order and scales that the policy of {path} was trained with, found others: "
            "the list's hash does not fit"
        )
    if card.scaling.get("name") != SCALING:
        raise CheckpointRefused(f"expected scaling {SCALING!r}, found {card.scaling.get('name')!r} in {path}")
    try:
        return parse(card.features, rules)
    except PlayproofError as error:
        raise CheckpointRefused(str(error)) from None


def _check_game(card: Card, path: Path, game: Game | None) -> None:
    """Compare features, scales and heads with the game's own tables, where the game is here."""
    game = game or find_game(card.game)
    if game is None:
        return
    shown = lookup(game.observations, card.observation, "observation set")
    expected = shown.features if isinstance(shown, NumericObservation) else ()
    heads = tuple(map(len, lookup(game.actions, card.actions, "action set").heads))
    if card.kind == "network" and (tuple(expected) != card.features or heads != card.heads):
        where = next((a for a, b in zip(expected, card.features, strict=False) if a != b), "their number")
        raise CheckpointRefused(
            f"expected the {len(expected)} features of {card.observation!r} and heads {heads} of {game.name}, "
            f"found {len(card.features)} features that differ first at {where!r}, heads {card.heads}: {path} "
            "was made for another feature list; train it again"
        )
    if card.scaling["version"] != game.scaling or game_scaling(game, card.features).rules != tuple(
        card.scaling["rules"]
    ):
        raise CheckpointRefused(
            f"expected scaling version {game.scaling} of {game.name}, found {card.scaling['version']} in {path}; "
            "train it again"
        )


def _read_weights(path: Path, data: bytes, card: Card) -> dict[str, NDArray[np.float32]]:
    """Read parameters, and refuse any that are no finite float32."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        weights = load(data)
        size = int.from_bytes(data[:8], "little")
        bound = json.loads(data[8 : 8 + size]).get("__metadata__", {}).get("feature_hash")
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointRefused(f"expected safetensors in {path}, found: {error}") from None
    if bound != card.feature_hash:
        raise CheckpointRefused(f"expected weights trained on the card's features, found others in {path}")
    for name, value in weights.items():
        if value.dtype != np.float32 or not np.isfinite(value).all():
            raise CheckpointRefused(f"expected finite float32 in {path}, found {name} of {value.dtype} or not finite")
    return dict(weights)
