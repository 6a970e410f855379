"""Data sets: immutable folders of observations, actions and rewards, split by window in time."""

from playproof.datasets.build import DatasetConfig, build
from playproof.datasets.dataset import Dataset, Transitions, open_dataset
from playproof.datasets.split import split_windows

__all__ = ["Dataset", "DatasetConfig", "Transitions", "build", "open_dataset", "split_windows"]
