"""Data sets of the crash game: the same bits from the same inputs, and nothing left out silently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import recordings as r

from playproof.datasets import DatasetConfig, build, open_dataset
from playproof.datasets.build import stored_set
from playproof.datasets.source import PIECE_ROWS, plan
from playproof.errors import ConfigError, DecodeError, UnknownName
from playproof.events import Event
from playproof.game import Reward
from playproof.games.crash.recording import columns as c
from playproof.games.crash.rules.windows import Phase
from playproof.parallel import LocalEngine
from playproof.store import EventStore
from playproof.testing.altered import altered

CONFIG = DatasetConfig("mixed", "policy", "buttons-share", "minimal")


def mixed() -> list[Event]:
    """Give two players' sessions and two spectators', one of which saw a round twice."""
    watched = r.dealt_events(r.dealt("watch-1", 5, 6)) + r.dealt_events(r.dealt("watch-2", 6, 6))
    return [*r.played(31, 4)[1], *r.played(33, 4, 0.4)[1], *watched]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a home whose store holds them, compacted and hot."""
    home = tmp_path_factory.mktemp("stored")
    events = mixed()
    r.store(home, [event for event in events if event.session_id != "watch-2"])
    r.store(home, [event for event in events if event.session_id == "watch-2"], compacted=False, log="other")
    return home


@pytest.fixture(scope="module")
def dataset(stored: Path) -> Path:
    return build(r.crash(), EventStore(stored, r.crash().columns), CONFIG, stored)


def hash_of(home: Path, source: Any, config: DatasetConfig = CONFIG, engine: Any = None) -> str:
    return str(open_dataset(build(r.crash(), source, config, home, engine)).manifest["hash"])


def test_a_store_and_its_events_give_the_same_data_set(stored: Path, dataset: Path, tmp_path: Path) -> None:
    """Compiled over stored columns, and event by event: one content hash."""
    known = open_dataset(dataset).manifest["hash"]
    assert hash_of(tmp_path, mixed()) == known
    assert hash_of(tmp_path, EventStore(stored, r.crash().columns).events()) == known


@pytest.mark.parametrize("actions", ["buttons", "trader"])
def test_so_do_other_sets(stored: Path, tmp_path: Path, actions: str) -> None:
    config = replace(CONFIG, observation="trader", actions=actions)
    assert hash_of(tmp_path, EventStore(stored, r.crash().columns), config) == hash_of(tmp_path, mixed(), config)


def test_the_hash_knows_no_order_of_files_nor_threads(dataset: Path, tmp_path: Path) -> None:
    known = open_dataset(dataset).manifest["hash"]
    events = mixed()
    names = sorted({event.session_id for event in events}, reverse=True)
    for name in names:
        r.store(tmp_path, [event for event in events if event.session_id == name], log=f"log-{names.index(name)}")
    assert hash_of(tmp_path, EventStore(tmp_path, r.crash().columns), engine=LocalEngine(3)) == known


def test_nor_locale_time_zone_nor_hash_seed(stored: Path, dataset: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from playproof.datasets import *; from playproof.game import load_game\n"
        "from playproof.store import EventStore; game = load_game('crash')\n"
        "config = DatasetConfig('mixed', 'policy', 'buttons-share', 'minimal')\n"
        "store = EventStore(Path(sys.argv[1]), game.columns)\n"
        "print(open_dataset(build(game, store, config, Path(sys.argv[2]))).manifest['hash'])"
    )
    surroundings = {"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7", "POLARS_MAX_THREADS": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", program, str(stored), str(tmp_path)],
        env={**os.environ, **surroundings},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == open_dataset(dataset).manifest["hash"]


@pytest.mark.parametrize(
    ("name", "column"), [(c.TICK, "price"), (c.PRESS, "bet_amount"), (c.PLAYER, "cash"), (c.TICK, "connected_players")]
)
def test_one_changed_value_changes_it(dataset: Path, tmp_path: Path, name: str, column: str) -> None:
    events = mixed()
    at = [n for n, event in enumerate(events) if event.event_name == name and column in event.columns][100]
    payload = events[at].columns[column]
    events[at] = replace(events[at], columns={**events[at].columns, column: payload + 1})  # type: ignore[operator]
    assert hash_of(tmp_path, events) != open_dataset(dataset).manifest["hash"]


def test_pieces_are_bounded_and_hold_every_session_once(stored: Path) -> None:
    assert [len(piece.sessions) for piece in plan(stored)] == [3, 1]
    small = plan(stored, rows=1)
    assert sorted(name for piece in small for _, name in piece.sessions) == [
        "played-31",
        "played-33",
        "watch-1",
        "watch-2",
    ]
    assert all(len(piece.sessions) == 1 for piece in small)
    assert [piece.sessions[0][1] for piece in plan(stored, ["watch-2"])] == ["watch-2"]
    assert PIECE_ROWS < 10**7


def test_transitions_are_what_was_laid_out(dataset: Path) -> None:
    opened = open_dataset(dataset)
    seen = opened.transitions("train")
    wide = opened.transitions("train", "recorded")
    assert seen.observations.shape[1] == 31
    assert wide.observations.shape[1] == 37
    indexes = [opened.features("recorded").index(name) for name in opened.features("policy")]
    assert np.array_equal(wide.observations[:, indexes], seen.observations)
    assert np.array_equal(wide.missing[:, indexes], seen.missing)
    assert np.isfinite(wide.observations).all()
    assert seen.actions.shape == (len(seen.rewards), 3)
    same = np.flatnonzero(~seen.done[:-1])
    assert np.array_equal(seen.next_observations[same], seen.observations[same + 1])
    assert seen.done.sum() == len({*zip(seen.windows, np.cumsum(seen.done) - seen.done, strict=True)})
    with pytest.raises(UnknownName, match="observation set"):
        opened.transitions("train", "market")


def test_splits_are_in_time_and_statistics_of_train_alone(dataset: Path) -> None:
    opened = open_dataset(dataset)
    split, statistics = opened.manifest["split"], opened.manifest["statistics"]
    starts = {episode["window_id"]: episode["start_us"] for of in opened.sessions.values() for episode in of.episodes}
    assert list(split) == sorted(split, key=lambda window: (starts[window], window))
    assert list(dict.fromkeys(split.values())) == ["train", "gap", "validation", "test"]
    train = opened.transitions("train", "recorded")
    for at, name in enumerate(opened.features("recorded")):
        values = train.observations[:, at].astype(np.float64)
        result = statistics["features"][name]
        assert result["mean"] == pytest.approx(values.mean(), rel=1e-9, abs=1e-12)
        assert result["std"] == pytest.approx(values.std(), rel=1e-6, abs=1e-9)
        assert (result["min"], result["max"]) == (values.min(), values.max())
        assert result["missing"] == pytest.approx(train.missing[:, at].mean())


def test_labels_stand_apart_from_observations(dataset: Path) -> None:
    tables = open_dataset(dataset).sessions["watch-1"]
    labels, ticks = tables["labels"], tables["observations"].filter(~pl.col("final"))
    rugs = {episode["window_id"]: episode["outcome"]["rug_tick"] for episode in tables.episodes}
    wins = [
        float(rugs[window] <= tick + 40)
        for window, tick in zip(ticks["window_id"], ticks["tick"].to_list(), strict=True)
    ]
    assert labels["rug_within_40"].to_list() == wins
    assert "rug_within_40" not in tables["observations"].columns


def test_every_window_left_out_has_its_reason(tmp_path: Path) -> None:
    events = [event for event in mixed() if event.columns.get("game_phase") != Phase.RUGGED or event.seq % 2]
    manifest = open_dataset(build(r.crash(), events, CONFIG, tmp_path)).manifest
    reasons = {(left["session_id"], left["window_id"]): left["reason"] for left in manifest["left_out"]}
    windows = {
        (event.session_id, event.window_id) for event in events if event.window_id and event.event_name == c.TICK
    }
    kept = {
        (name, episode["window_id"])
        for name, of in open_dataset(build(r.crash(), events, CONFIG, tmp_path)).sessions.items()
        for episode in of.episodes
    }
    assert reasons
    assert set(reasons) | kept == windows
    assert set(reasons.values()) == {"no rug was seen"}
    asked = open_dataset(build(r.crash(), events, replace(CONFIG, include_incomplete=True), tmp_path)).manifest
    assert (asked["left_out"], asked["incomplete"]) == ([], len(reasons))


def test_any_reward_is_paid(stored: Path, tmp_path: Path) -> None:
    """A reward that takes records of steps pays the same as one that takes columns."""
    game, minimal = r.crash(), r.crash().rewards().presets["minimal"]
    plain = Reward("plain", "1", minimal.doc, minimal.components)
    rewarded = altered(game, presets={"plain": plain, "minimal": minimal})
    slow = open_dataset(build(rewarded, EventStore(stored, game.columns), replace(CONFIG, reward="plain"), tmp_path))
    fast = open_dataset(build(game, EventStore(stored, game.columns), CONFIG, tmp_path))
    assert slow.transitions("train").rewards.tobytes() == fast.transitions("train").rewards.tobytes()


def test_a_doctored_folder_is_refused(dataset: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / dataset.name
    shutil.copytree(dataset, copy)
    payload = json.loads((copy / "sessions" / "watch-1" / "metadata.json").read_text())
    payload["episodes"][0]["outcome"]["rug_tick"] += 1
    (copy / "sessions" / "watch-1" / "metadata.json").write_text(json.dumps(payload))
    with pytest.raises(DecodeError, match="found others"):
        _ = open_dataset(copy).sessions["watch-1"].episodes
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["steps"] += 1
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DecodeError, match="as it was written"):
        open_dataset(copy)
    (copy / "manifest.json").write_text(json.dumps({**manifest, "format": 1}))
    with pytest.raises(DecodeError, match="format"):
        open_dataset(copy)


def test_the_widest_set_is_stored() -> None:
    assert [stored_set(r.crash(), name) for name in ("policy", "recorded", "market", "trader")] == [
        "recorded",
        "recorded",
        "market",
        "trader",
    ]


def test_an_empty_store_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least one whole window"):
        build(r.crash(), EventStore(tmp_path), CONFIG, tmp_path)
    assert list((tmp_path / "datasets").iterdir()) == []
