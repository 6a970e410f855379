"""Data sets: immutable folders of observations, actions and rewards, split by window in time."""

from playproof.datasets.build import DatasetConfig, build, split_windows
from playproof.datasets.dataset import Dataset, Transitions, open_dataset

__all__ = ["Dataset", "DatasetConfig", "Transitions", "build", "open_dataset", "split_windows"]
