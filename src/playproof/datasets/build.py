"""Build a data set from recorded events: a pure function of events, game and configuration.

The folder `datasets/<name>@<hash>/` holds, for each session, observations.parquet (one row a step
and one after the last, `final`), actions.parquet, rewards.parquet and metadata.json under
`sessions/<id>/`, and manifest.json, written last: a folder without it is unfinished and is built
anew. The hash is over the rows' values, not over files.
Leaves out: observations in messages, parts and engines, labels, data cards.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from playproof.datasets.split import split_windows
from playproof.episodes import Segmented, segment
from playproof.errors import ConfigError, ContractError
from playproof.events import Event, check_id
from playproof.game import Episode, Game, Numbers, Reward, lookup
from playproof.home import folder, safe_join

MANIFEST = "manifest.json"
TABLES = ("observations", "actions", "rewards")
Tables = Mapping[str, pl.DataFrame]


def _default_shares() -> Mapping[str, float]:
    return {"train": 0.6, "validation": 0.2, "test": 0.2}


@dataclass(frozen=True)
class DatasetConfig:
    """What to make of recorded events."""

    name: str
    observation: str
    actions: str
    reward: str
    shares: Mapping[str, float] = field(default_factory=_default_shares)
    """Splits and their sizes, in time order."""
    gap: int = 1
    """Windows left out between two splits."""


def build(game: Game, events: Sequence[Event], config: DatasetConfig, home: Path) -> Path:
    """Build the data set, or find it already there; give its folder."""
    check_id(config.name, "a data set's name")
    reward = lookup(game.rewards, config.reward, "reward")
    made = segment(game, events, config.observation, config.actions)
    if not made.episodes:
        raise ConfigError(f"expected at least one whole window in {len(events)} events, found none")
    sessions = {
        session: tables(game, config, reward, [it for it in made.episodes if it.session_id == session])
        for session in sorted({episode.session_id for episode in made.episodes})
    }
    manifest = describe(game, config, reward, made, content_hash(sessions))
    return write(manifest, sessions, folder("datasets", home))


def tables(game: Game, config: DatasetConfig, reward: Reward, episodes: Sequence[Episode]) -> Tables:
    """Lay one session's episodes out as tables."""
    kind = lookup(game.observations, config.observation, "observation set")
    if not isinstance(kind, Numbers):
        raise ConfigError(f"expected an observation set of numbers, found {config.observation!r}, which is messages")
    return {
        "observations": pl.concat([_observations(kind, episode) for episode in episodes]),
        "actions": pl.concat([_actions(episode) for episode in episodes]),
        "rewards": pl.concat([_rewards(reward, episode) for episode in episodes]),
    }


def _keys(episode: Episode, rows: int) -> dict[str, Any]:
    return {"window_id": [episode.window_id] * rows, "step": np.arange(rows, dtype=np.int32)}


def _observations(kind: Numbers, episode: Episode) -> pl.DataFrame:
    """Give one row a step and one after the last, with what is unknown beside each feature."""
    values = np.stack([np.asarray(observation) for observation in episode.observations])  # (steps + 1, features)
    masks = np.stack([mask for mask in episode.missing if mask is not None])
    if not np.isfinite(values).all():
        raise ContractError(f"expected finite observations in {episode.window_id}, found NaN or infinity")
    rows = len(values)
    features = {name: values[:, place] for place, name in enumerate(kind.features)}
    unknown = {f"{name}__missing": masks[:, place] for place, name in enumerate(kind.features)}
    return pl.DataFrame(_keys(episode, rows) | features | unknown | {"final": np.arange(rows) == rows - 1})


def _actions(episode: Episode) -> pl.DataFrame:
    """Give one row a step: an index for each head."""
    taken = np.asarray([step.action for step in episode.steps], np.int16)  # (steps, heads)
    heads = {f"head_{place}": taken[:, place] for place in range(taken.shape[1])}
    return pl.DataFrame(
        _keys(episode, len(taken))
        | {"substep": np.asarray([step.substep for step in episode.steps], np.int16)}
        | heads
        | {"effect": [step.effect for step in episode.steps]}
    )


def _rewards(reward: Reward, episode: Episode) -> pl.DataFrame:
    """Give one row a step: the reward, its components, the money before and after, and how it ended."""
    assert episode.outcome is not None
    steps = episode.steps
    parts = {name: np.asarray(it, np.float64) for name, it in reward.compute(steps, episode.outcome).items()}
    money = {
        "cash": [step.before.cash for step in steps],
        "equity": [step.before.equity for step in steps],
        "next_equity": [step.after.equity for step in steps],
    }
    return pl.DataFrame(
        _keys(episode, len(steps))
        | {"reward": np.sum(list(parts.values()), axis=0)}
        | {f"reward__{name}": it for name, it in parts.items()}
        | {name: np.asarray(it, np.int64) for name, it in money.items()}
        | {end: [step.end == end for step in steps] for end in ("terminated", "truncated")}
    )


def content_hash(sessions: Mapping[str, Tables]) -> str:
    """Hash the values of all rows, column by column, whatever files they will stand in."""
    digest = hashlib.sha256()
    for session in sorted(sessions):
        for name in TABLES:
            table = sessions[session][name]
            digest.update(json.dumps([session, name, table.height]).encode())
            for column in table:
                values = column.to_list() if column.dtype == pl.String else None
                digest.update(f"{column.name}:{column.dtype}".encode())
                digest.update(json.dumps(values).encode() if values is not None else column.to_numpy().tobytes())
    return digest.hexdigest()


def describe(game: Game, config: DatasetConfig, reward: Reward, made: Segmented, rows_hash: str) -> dict[str, Any]:
    """Write the manifest: what the data set is, and how its windows are split."""
    kind = game.observations[config.observation]
    starts: dict[str, Any] = {}
    for episode in made.episodes:
        starts[episode.window_id] = min(episode.start, starts.get(episode.window_id, episode.start))
    windows = sorted(starts, key=lambda window: (starts[window], window))
    manifest: dict[str, Any] = {
        "name": config.name,
        "rows_hash": rows_hash,
        "game": {"name": game.name, "version": game.version},
        "observation": config.observation,
        "features": list(kind.features) if isinstance(kind, Numbers) else [],
        "actions": {"name": config.actions, "heads": [list(head) for head in game.actions[config.actions].heads]},
        "reward": {"name": reward.name, "version": reward.version, "components": list(reward.components)},
        "split": split_windows(windows, config.shares, config.gap),
        "episodes": len(made.episodes),
        "steps": sum(len(episode.steps) for episode in made.episodes),
        "left_out": [asdict(window) for window in made.left_out],
    }
    return manifest | {"hash": hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()}


def write(manifest: Mapping[str, Any], sessions: Mapping[str, Tables], root: Path) -> Path:
    """Write the folder, the manifest last."""
    path = safe_join(root, f"{manifest['name']}@{manifest['hash'][:16]}")
    if (path / MANIFEST).exists():
        return path
    shutil.rmtree(path, ignore_errors=True)
    for session, of in sessions.items():
        place = safe_join(path, "sessions", session)
        place.mkdir(parents=True)
        for name, table in of.items():
            table.write_parquet(place / f"{name}.parquet")
            _sync(place / f"{name}.parquet")
        _write_json(place / "metadata.json", {"session_id": session, "steps": of["actions"].height})
        _sync(place)
    _sync(path / "sessions")
    _write_json(path / MANIFEST, manifest)
    _sync(path)
    _sync(root)
    return path


def _write_json(path: Path, told: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    _sync(draft)
    draft.replace(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
