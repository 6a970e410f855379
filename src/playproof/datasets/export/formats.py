"""Write a data set for other tools: NumPy, PyTorch, Minari, or Parquet as Hugging Face reads it.

Every format holds the same steps: observation, action, reward, next observation, terminated, truncated, split by
split.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from playproof.datasets.build import GAP
from playproof.datasets.dataset import Dataset, Transitions
from playproof.errors import ConfigError, MissingExtra, UnknownName
from playproof.json_types import Json

SHARD_ROWS = 500_000
"""Rows of one Parquet file."""
DESCRIPTION = "dataset.json"


def splits(dataset: Dataset) -> tuple[str, ...]:
    """Name the splits in time order, without the windows between them."""
    of: Mapping[str, str] = dataset.manifest["split"]
    return tuple(dict.fromkeys(split for split in of.values() if split != GAP))


def episode_ends(transitions: Transitions) -> list[tuple[int, int]]:
    """Give the first step of each episode and the one after its last."""
    ends = (np.flatnonzero(transitions.done) + 1).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def describe(dataset: Dataset, observation: str | None) -> Json:
    """Say what the exported arrays are, and which data set they come from."""
    manifest = dataset.manifest
    return {
        "name": manifest["name"],
        "hash": manifest["hash"],
        "game": manifest["game"],
        "observation": observation or manifest["observation"],
        "features": list(dataset.features(observation)),
        "actions": manifest["actions"],
        "reward": manifest["reward"],
        "splits": list(splits(dataset)),
    }


def arrays(transitions: Transitions) -> Json:
    """Give the steps as plain arrays by name."""
    return {
        "observations": transitions.observations,
        "actions": transitions.actions,
        "rewards": transitions.rewards,
        "next_observations": transitions.next_observations,
        "terminated": transitions.terminated,
        "truncated": transitions.truncated,
        "substep": transitions.substep,
        "windows": np.array(transitions.windows, np.str_),
    }


def write_numpy(dataset: Dataset, out: Path, observation: str | None = None) -> Iterator[Path]:
    """Write one compressed .npz a split, which loads without pickle, and what the arrays are."""
    for split in splits(dataset):
        path = out / f"{split}.npz"
        np.savez_compressed(path, **arrays(dataset.transitions(split, observation)))
        yield path
    yield _write_description(out, describe(dataset, observation))


def write_torch(dataset: Dataset, out: Path, observation: str | None = None) -> Iterator[Path]:
    """Write one .safetensors file a split, and what the tensors are."""
    from playproof.datasets.export.torch import write_tensors

    for split in splits(dataset):
        yield write_tensors(dataset.transitions(split, observation), out / f"{split}.safetensors")
    yield _write_description(out, describe(dataset, observation))


def write_minari(dataset: Dataset, out: Path, observation: str | None = None) -> Iterator[Path]:
    """Write one Minari data set a split."""
    from playproof.datasets.export.minari import write_split

    for split in splits(dataset):
        yield write_split(dataset, split, out, observation)


def write_huggingface(dataset: Dataset, out: Path, observation: str | None = None) -> Iterator[Path]:
    """Write data/<split>-00000-of-0000N.parquet, and a README with the header that Hugging Face reads."""
    sizes: dict[str, int] = {}
    (out / "data").mkdir()
    for split in splits(dataset):
        result = dataset.transitions(split, observation)
        sizes[split] = len(result.rewards)
        yield from _write_shards(result, split, out / "data")
    payload = describe(dataset, observation)
    path = out / "README.md"
    path.write_text(_readme(dataset, payload, sizes), encoding="utf-8")
    yield path
    yield _write_description(out, payload)


def _write_shards(transitions: Transitions, split: str, folder: Path) -> Iterator[Path]:
    count = max(1, -(-len(transitions.rewards) // SHARD_ROWS))
    for shard in range(count):
        rows = slice(shard * SHARD_ROWS, (shard + 1) * SHARD_ROWS)
        path = folder / f"{split}-{shard:05d}-of-{count:05d}.parquet"
        _write_shard(transitions, rows, path)
        yield path


def _write_shard(transitions: Transitions, rows: slice, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def listed(values: Any) -> pa.Array:
        flat = np.ascontiguousarray(values[rows])
        return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])

    columns = {
        "window": pa.array(transitions.windows[rows]),
        "substep": pa.array(transitions.substep[rows]),
        "observation": listed(transitions.observations),
        "action": listed(transitions.actions),
        "reward": pa.array(transitions.rewards[rows]),
        "next_observation": listed(transitions.next_observations),
        "terminated": pa.array(transitions.terminated[rows]),
        "truncated": pa.array(transitions.truncated[rows]),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


def _readme(dataset: Dataset, payload: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
    total = sum(sizes.values())
    header = {
        "pretty_name": payload["name"],
        "task_categories": ["reinforcement-learning"],
        "tags": ["offline-rl", "playproof", payload["game"]["name"]],
        "size_categories": [_size(total)],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"data/{split}-*.parquet"} for split in sizes],
            }
        ],
    }
    rows = "\n".join(f"| {split} | {count} | {len(dataset.windows(split))} |" for split, count in sizes.items())
    heads = "\n".join(
        f"- `action[{index}]`: {', '.join(names)}" for index, names in enumerate(payload["actions"]["heads"])
    )
    features = "\n".join(f"{index}. `{name}`" for index, name in enumerate(payload["features"]))
    return f"""---
{yaml.safe_dump(header, sort_keys=False)}---

# {payload["name"]}

{total} steps of the game {payload["game"]["name"]}, built with Playproof. Content hash `{payload["hash"]}`.
A row is one decision: `observation`, `action`, `reward` ({payload["reward"]["name"]}, version
{payload["reward"]["version"]}), `next_observation`, `terminated`, `truncated`, and the window it was taken in. Splits
are consecutive in time, whole windows each.

| split | steps | windows |
|---|---|---|
{rows}

## Actions

{heads}

## Features of an observation ({payload["observation"]})

{features}
"""


def _size(count: int) -> str:
    """Give the size class that Hugging Face uses."""
    bounds = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M", 10_000_000: "1M<n<10M"}
    return next((name for bound, name in bounds.items() if count < bound), "10M<n<100M")


def _write_description(out: Path, payload: Mapping[str, object]) -> Path:
    path = out / DESCRIPTION
    path.write_text(json.dumps(payload, indent=1) + "\n", encoding="utf-8")
    return path


Writer = Callable[[Dataset, Path, str | None], Iterator[Path]]
FORMATS: Mapping[str, Writer] = {
    "numpy": write_numpy,
    "torch": write_torch,
    "minari": write_minari,
    "huggingface": write_huggingface,
}
_EXTRAS = {"torch": ("torch", "train"), "safetensors": ("safetensors", "train"), "minari": ("Minari", "minari")}


def export(dataset: Dataset, form: str, out: Path, observation: str | None = None) -> tuple[Path, ...]:
    """Write a data set in one of FORMATS into a new folder; give what was written."""
    if form not in FORMATS:
        raise UnknownName("format", form, FORMATS)
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"expected a new or empty folder, found files in {out}; remove it or name another")
    out.mkdir(parents=True, exist_ok=True)
    try:
        return tuple(FORMATS[form](dataset, out, observation))
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise MissingExtra(*_EXTRAS[error.name]) from error
