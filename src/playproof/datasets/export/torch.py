"""A data set as PyTorch takes it: a Dataset of (observation, action, reward, next_observation, done), a DataLoader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from playproof.datasets.dataset import Dataset, Transitions, open_dataset
from playproof.datasets.registry import find_dataset

Item = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
NAMES = ("observations", "actions", "rewards", "next_observations", "terminated", "truncated")


class StepDataset(TorchDataset[Item]):
    """Steps as tensors: observations float32 (f,), actions int64 (heads,), rewards float32, dones bool."""

    def __init__(
        self,
        observations: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        next_observations: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
    ) -> None:
        self.observations, self.actions = observations, actions.long()
        self.rewards, self.next_observations = rewards.float(), next_observations
        self.terminated, self.truncated = terminated, truncated
        self.dones = terminated | truncated

    @classmethod
    def of(cls, transitions: Transitions) -> StepDataset:
        """Take steps over."""
        return cls(**_tensors(transitions))

    def __len__(self) -> int:
        return len(self.dones)

    def __getitem__(self, index: int) -> Item:
        """Give one step, or many for a list of places."""
        return (
            self.observations[index],
            self.actions[index],
            self.rewards[index],
            self.next_observations[index],
            self.dones[index],
        )

    def __getitems__(self, indices: list[int]) -> list[Item]:
        """Give the steps of a batch in one go, as DataLoader asks for them."""
        columns = self[torch.as_tensor(indices)]  # type: ignore[index]
        return list(zip(*columns, strict=True))


def _tensors(transitions: Transitions) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(getattr(transitions, name))) for name in NAMES}


def torch_dataset(source: Dataset | str | Path, split: str = "train", observation: str | None = None) -> StepDataset:
    """Give a split of a data set: an open one, its folder, or its name in the home.

    Example: torch_dataset("mine", "validation", observation="policy")
    """
    dataset = source if isinstance(source, Dataset) else open_dataset(find_dataset(source))
    return StepDataset.of(dataset.transitions(split, observation))


def data_loader(
    source: Dataset | str | Path,
    split: str = "train",
    batch_size: int = 256,
    *,
    observation: str | None = None,
    shuffle: bool = True,
    seed: int = 0,
) -> DataLoader[Item]:
    """Give batches of (observation, action, reward, next_observation, done); the same seed, the same order.

    Example: data_loader("mine", batch_size=32)
    """
    steps = torch_dataset(source, split, observation)
    order = torch.Generator().manual_seed(seed)
    return DataLoader(steps, batch_size=batch_size, shuffle=shuffle, generator=order)


def write_tensors(transitions: Transitions, path: Path) -> Path:
    """Write the steps of a split as safetensors."""
    from safetensors.torch import save_file

    save_file(_tensors(transitions), path)
    return path


def read_tensors(path: Path) -> StepDataset:
    """Read what `write_tensors` wrote."""
    from safetensors.torch import load_file

    return StepDataset(**load_file(path))
