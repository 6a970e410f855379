"""A data set in other tools' formats: the same steps in each, and nothing that runs code when it is loaded."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from playproof.datasets import Dataset, DatasetConfig, Transitions, build, open_dataset
from playproof.datasets.export import formats as module
from playproof.datasets.export.formats import FORMATS, episode_ends, export, splits
from playproof.datasets.registry import find_dataset, list_datasets
from playproof.errors import ConfigError, InputError, MissingExtra, UnknownName
from playproof.game import load_game
from playproof.games.crash.recording.sample import SCRIPT, record

GAME = load_game("crash")
SHARES = {"train": 0.5, "test": 0.5}


def events(rounds: int = 4) -> list[Any]:
    made, results = record(612, SCRIPT, rounds, crowded=False), []
    for frame, facts in zip(made.frames, GAME.decode(made.frames), strict=True):
        results += [fact.event(frame.ts, "sam", len(results) + index) for index, fact in enumerate(facts)]
    return results


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    home = tmp_path_factory.mktemp("home")
    config = DatasetConfig("mine", "policy", "buttons-share", "minimal", SHARES, 0)
    return open_dataset(build(GAME, events(), config, home))


def the_same(result: Any, wanted: Transitions) -> None:
    """Hold arrays of a format against the steps."""
    for name in ("observations", "actions", "rewards", "next_observations", "terminated", "truncated"):
        assert np.array_equal(np.asarray(result[name]), getattr(wanted, name)), name


def test_splits_and_episodes(dataset: Dataset) -> None:
    assert splits(dataset) == ("train", "test")
    train = dataset.transitions("train")
    ends = episode_ends(train)
    assert [first for first, _ in ends] == [0, *(end for _, end in ends[:-1])]
    assert len({train.windows[first] for first, _ in ends}) == len(ends) == 2
    for first, end in ends:
        assert np.array_equal(train.next_observations[first : end - 1], train.observations[first + 1 : end])


def test_numpy_loads_without_pickle(dataset: Dataset, tmp_path: Path) -> None:
    files = export(dataset, "numpy", tmp_path / "out")
    assert [file.name for file in files] == ["train.npz", "test.npz", "dataset.json"]
    for split in ("train", "test"):
        with np.load(tmp_path / "out" / f"{split}.npz", allow_pickle=False) as result:
            wanted = dataset.transitions(split)
            the_same(result, wanted)
            assert result["windows"].tolist() == list(wanted.windows)
    payload = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert (payload["hash"], payload["features"]) == (dataset.manifest["hash"], dataset.manifest["features"])


def test_torch_items_and_batches(dataset: Dataset, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from playproof.datasets.export.torch import StepDataset, data_loader, read_tensors, torch_dataset

    wanted = dataset.transitions("train")
    steps = torch_dataset(dataset, "train")
    assert isinstance(steps, torch.utils.data.Dataset)
    observation, action, reward, next_observation, done = steps[3]
    assert np.array_equal(observation.numpy(), wanted.observations[3])
    assert np.array_equal(next_observation.numpy(), wanted.next_observations[3])
    assert (action.dtype, reward.dtype, done.dtype) == (torch.int64, torch.float32, torch.bool)
    assert action.tolist() == wanted.actions[3].tolist()
    loader = data_loader(dataset.path, "train", 16, observation="recorded")
    batches = list(loader)
    assert sum(len(batch[0]) for batch in batches) == len(wanted.rewards)
    assert tuple(batches[0][0].shape) == tuple(batches[0][3].shape) == (16, 37)
    assert tuple(batches[0][1].shape) == (16, 3)
    assert sum(int(batch[4].sum()) for batch in batches) == int(wanted.done.sum())
    again = list(data_loader(dataset, "train", 16, observation="recorded"))
    assert all(torch.equal(one, other) for one, other in zip(batches[0], again[0], strict=True)), "same seed"
    export(dataset, "torch", tmp_path / "out")
    back = read_tensors(tmp_path / "out" / "train.safetensors")
    assert isinstance(back, StepDataset)
    assert np.array_equal(back.observations.numpy(), wanted.observations)
    assert np.array_equal(back.dones.numpy(), wanted.done)


def test_minari_loads_back(dataset: Dataset, tmp_path: Path) -> None:
    minari = pytest.importorskip("minari")
    from playproof.datasets.export.minari import minari_folder

    files = export(dataset, "minari", tmp_path / "out")
    assert all(file.is_dir() for file in files)
    before = os.environ.get("MINARI_DATASETS_PATH")
    with minari_folder(tmp_path / "out"):
        result = minari.load_dataset("crash/mine/train-v0")
        wanted = dataset.transitions("train")
        assert (result.total_episodes, result.total_steps) == (2, len(wanted.rewards))
        for number, (first, end) in enumerate(episode_ends(wanted)):
            episode = result[number]
            assert np.array_equal(episode.observations[:-1], wanted.observations[first:end])
            assert np.array_equal(episode.observations[-1], wanted.next_observations[end - 1])
            assert np.array_equal(episode.actions, wanted.actions[first:end])
            assert np.array_equal(episode.rewards, wanted.rewards[first:end])
            assert np.array_equal(episode.terminations, wanted.terminated[first:end])
        assert result.action_space.nvec.tolist() == [4, 9, 5]
    assert os.environ.get("MINARI_DATASETS_PATH") == before


def test_hugging_face_folders(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD_ROWS", 50)
    export(dataset, "huggingface", tmp_path / "out")
    wanted = dataset.transitions("train")
    shards = sorted((tmp_path / "out" / "data").glob("train-*.parquet"))
    count = -(-len(wanted.rewards) // 50)
    assert [shard.name for shard in shards] == [f"train-{n:05d}-of-{count:05d}.parquet" for n in range(count)]
    result = pl.concat([pl.read_parquet(shard) for shard in shards])
    singular = {"observations": "observation", "actions": "action", "rewards": "reward"}
    singular |= {"next_observations": "next_observation", "terminated": "terminated", "truncated": "truncated"}
    the_same({name: result[column].to_numpy() for name, column in singular.items()}, wanted)
    text = (tmp_path / "out" / "README.md").read_text()
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["configs"][0]["data_files"] == [
        {"split": split, "path": f"data/{split}-*.parquet"} for split in ("train", "test")
    ]
    assert header["size_categories"] == ["n<1K"]
    assert "0. `tick`" in text
    assert "BUY" in text


@pytest.mark.parametrize("form", FORMATS)
def test_a_narrower_observation_set(dataset: Dataset, form: str, tmp_path: Path) -> None:
    pytest.importorskip({"torch": "torch", "minari": "minari"}.get(form, "numpy"))
    export(dataset, form, tmp_path / "out", "recorded")
    if form == "numpy":
        with np.load(tmp_path / "out" / "test.npz") as result:
            assert result["observations"].shape[1] == 37


def test_what_cannot_be_done_is_said(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="huggingface"):
        export(dataset, "csv", tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(ConfigError, match="new or empty"):
        export(dataset, "numpy", tmp_path / "full")
    with pytest.raises(UnknownName, match="observation set"):
        export(dataset, "numpy", tmp_path / "out", "nonsense")

    def missing(*_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'minari'", name="minari")

    monkeypatch.setitem(module.FORMATS, "minari", missing)  # type: ignore[arg-type]
    with pytest.raises(MissingExtra, match=r"\[minari\]"):
        export(dataset, "minari", tmp_path / "other")


def test_finding_data_sets(dataset: Dataset, tmp_path: Path) -> None:
    home = dataset.path.parents[1]
    assert find_dataset("mine", home) == find_dataset(dataset.path) == find_dataset(str(dataset.path)) == dataset.path
    assert find_dataset(f"mine@{dataset.manifest['hash'][:5]}", home) == dataset.path
    assert [result.label for result in list_datasets(home)] == [dataset.path.name]
    for name in ("mine@ffff", "yours"):
        with pytest.raises(InputError, match="there are: mine@"):
            find_dataset(name, home)
    with pytest.raises(InputError, match="there are: none"):
        find_dataset("mine", tmp_path)


def test_of_several_the_last_one_is_meant(dataset: Dataset, tmp_path: Path) -> None:
    first = build(GAME, events(), DatasetConfig("mine", "policy", "buttons", "minimal", SHARES, 0), tmp_path)
    second = build(GAME, events(), DatasetConfig("mine", "policy", "trader", "minimal", SHARES, 0), tmp_path)
    os.utime(first / "manifest.json", (10**9, 10**9))
    assert find_dataset("mine", tmp_path) == second
    os.utime(second / "manifest.json", (10**8, 10**8))
    assert find_dataset("mine", tmp_path) == first
