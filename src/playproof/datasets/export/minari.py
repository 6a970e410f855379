"""A data set as Minari keeps it, one data set a split, to be loaded with `minari.load_dataset`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

from playproof.datasets.dataset import Dataset, Transitions
from playproof.datasets.export.formats import episode_ends

VARIABLE = "MINARI_DATASETS_PATH"
"""Where Minari looks for data sets."""


def dataset_id(dataset: Dataset, split: str) -> str:
    """Give the name under which Minari knows a split."""
    manifest = dataset.manifest
    return f"{manifest['game']['name']}/{manifest['name']}/{split}-v0"


@contextmanager
def minari_folder(path: Path) -> Iterator[None]:
    """Let Minari look into a folder for a while."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def buffers(transitions: Transitions) -> Iterator[EpisodeBuffer]:
    """Give each episode with the observation after its last step."""
    for number, (first, end) in enumerate(episode_ends(transitions)):
        yield EpisodeBuffer(
            id=number,
            observations=[*transitions.observations[first:end], transitions.next_observations[end - 1]],
            actions=list(transitions.actions[first:end].astype(np.int64)),
            rewards=transitions.rewards[first:end].tolist(),
            terminations=transitions.terminated[first:end].tolist(),
            truncations=transitions.truncated[first:end].tolist(),
        )


def write_split(dataset: Dataset, split: str, out: Path, observation: str | None = None) -> Path:
    """Write a split; give the folder of its Minari data set."""
    width = len(dataset.features(observation))
    heads = [len(head) for head in dataset.manifest["actions"]["heads"]]
    identity = dataset_id(dataset, split)
    with minari_folder(out), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a recording has no author and no link to name
        minari.create_dataset_from_buffers(
            identity,
            list(buffers(dataset.transitions(split, observation))),
            observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32),
            action_space=gymnasium.spaces.MultiDiscrete(heads),
            algorithm_name="recorded play",
            description=f"{dataset.manifest['name']}@{dataset.manifest['hash']}, split {split}, built with Playproof",
            data_format="hdf5",
        )
    return out / identity
