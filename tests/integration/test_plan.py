"""The acceptance tests of the player-researcher's own plan, as his files have them: only imports and paths differ.

The paths are patterns over an event store: the sample beside the project where it is there, else one written here.
"""

from __future__ import annotations

import tarfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from gymnasium import spaces

from playproof.crash import (
    BUTTON_CATEGORIES,
    BUTTONS,
    FEATURE_COUNT,
    FEATURE_NAMES,
    ActionSequence,
    ButtonEvent,
    EpisodeSegmenter,
    Observation,
    ObservationBuilder,
    RugsMultiGameEnv,
    TrainingDataGenerator,
    sequence_to_training_pair,
)
from playproof.errors import InputError
from playproof.game import load_game
from playproof.games.crash.recording.sample import sample
from playproof.record.session import RecordingSession
from tests.conftest import ROOT
from tests.reference.event_store_writer import rows_of, write_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("plan")
    archive = ROOT.parent / "shared" / "data" / "crash" / "event-store-sample.tar.gz"
    if archive.exists():
        with tarfile.open(archive) as tar:
            tar.extractall(root, filter="data")
        return root / "event-store-sample" / "events_parquet"
    session = RecordingSession(load_game("crash"), lambda events: None, "own", "cdp")
    return write_store(root, rows_of(session.take(sample()), "his"))


@pytest.fixture(scope="module")
def ws_path(store: Path) -> str:
    return f"{store}/doc_type=ws_event/**/*.parquet"


@pytest.fixture(scope="module")
def button_path(store: Path) -> str:
    return f"{store}/doc_type=button_event/**/*.parquet"


def test_01_feature_names_and_count() -> None:
    # The plan says 36; its own list has 37 names, and the list is what counts.
    assert len(FEATURE_NAMES) == FEATURE_COUNT == 37


def test_02_observation_to_numpy() -> None:
    row = Observation(
        tick=100,
        price=2.5,
        game_phase=2,
        cooldown_timer_ms=0,
        allow_pre_round_buys=False,
        active=True,
        rugged=False,
        connected_players=150,
        game_id="20251228-0123456789abcdef",
        balance=1.0,
        position_qty=0.1,
        avg_entry_price=2.0,
        cumulative_pnl=0.05,
        total_invested=0.2,
        rugpool_amount=5.0,
        rugpool_threshold=10.0,
        instarug_count=2,
        average_multiplier=3.5,
        count_2x=40,
        count_10x=8,
        count_50x=1,
        count_100x=0,
        highest_today=250.0,
        price_velocity=0.01,
        price_acceleration=0.001,
        unrealized_pnl=0.05,
        position_pnl_pct=0.25,
        rugpool_ratio=0.5,
        balance_at_risk_pct=0.2,
        time_in_position=12,
        ticks_since_last_action=5,
        bet_amount=0.01,
    ).to_numpy()
    assert row.shape == (FEATURE_COUNT,)
    assert row.dtype == np.float32
    assert row[8] != 0


def test_03_places_of_features() -> None:
    assert FEATURE_NAMES[0] == "tick"
    assert FEATURE_NAMES[8] == "game_id_hash"
    assert FEATURE_NAMES[-1] == "latency_ms"


def test_04_segment_by_game_id() -> None:
    events = [
        {"game_id": "game-1", "tick": 1, "event_name": "gameStateUpdate"},
        {"game_id": "game-1", "tick": 2, "event_name": "gameStateUpdate"},
        {"game_id": "game-2", "tick": 1, "event_name": "gameStateUpdate"},
    ]
    episodes = EpisodeSegmenter().segment(events)
    assert len(episodes) == 2
    assert episodes[0].game_id == "game-1"
    assert len(episodes[0].events) == 2


def test_05_terminal_state() -> None:
    events = [
        {"game_id": "game-1", "tick": 1, "rugged": False},
        {"game_id": "game-1", "tick": 2, "rugged": True},
    ]
    episode = EpisodeSegmenter().segment(events)[0]
    assert episode.is_terminal
    assert episode.terminal_tick == 2


def test_06_short_episodes() -> None:
    events = [{"game_id": "game-1", "tick": tick} for tick in range(10)]
    assert EpisodeSegmenter(min_ticks=50).segment(events) == []


def test_07_episodes_from_parquet(ws_path: str) -> None:
    episodes = EpisodeSegmenter().from_parquet(ws_path, limit=1000)
    assert len(episodes) > 0
    assert sum(episode.is_terminal for episode in episodes) >= len(episodes) - 1


def test_08_builder_takes_a_game_state() -> None:
    builder = ObservationBuilder()
    data = {"tickCount": 100, "price": 2.5, "rugpool": {"rugpoolAmount": 5.0, "threshold": 10.0}}
    builder.update({"event_name": "gameStateUpdate", "data": data})
    observation = builder.build()
    assert observation.tick == 100
    assert observation.price == 2.5
    assert observation.rugpool_ratio == 0.5


def test_09_velocity_and_acceleration() -> None:
    builder = ObservationBuilder()
    for tick, price in enumerate((1.0, 1.5, 2.5)):
        builder.update({"data": {"tickCount": tick, "price": price}})
    assert builder.build().price_velocity > 0
    assert builder.build().price_acceleration > 0


def test_10_player_update() -> None:
    builder = ObservationBuilder()
    data = {"cash": 1.5, "positionQty": 0.1, "avgCost": 2.0, "cumulativePnL": 0.05, "totalInvested": 0.2}
    builder.update({"event_name": "playerUpdate", "data": data})
    assert builder.build().balance == 1.5
    assert builder.build().position_qty == 0.1


def test_11_builder_to_numpy() -> None:
    builder = ObservationBuilder()
    builder.update({"event_name": "gameStateUpdate", "data": {"tickCount": 100, "price": 2.5}})
    assert builder.to_numpy().shape == (FEATURE_COUNT,)
    assert builder.to_numpy().dtype == np.float32


def test_12_training_data_from_parquet(ws_path: str, button_path: str) -> None:
    generator = TrainingDataGenerator()
    dataset = generator.from_parquet(ws_events_path=ws_path, button_events_path=button_path, limit=1000)
    assert len(dataset) > 0
    observation, action, reward, next_observation, done = dataset[0]
    assert observation.shape == next_observation.shape == (FEATURE_COUNT,)
    assert np.shape(action) == np.shape(reward) == np.shape(done) == ()


def test_13_align_events() -> None:
    ws_events = [{"game_id": "g", "tick": tick, "price": 1.0 + tick / 100} for tick in (100, 101)]
    button_events = [{"game_id": "g", "tick": 100, "button_id": "BUY"}]
    aligned = TrainingDataGenerator().align_events(ws_events, button_events)
    assert len(aligned) == 1
    assert aligned[0]["action"] == "BUY"
    assert aligned[0]["tick"] == 100


def test_14_done_at_the_rug() -> None:
    ws_events = [{"game_id": "g", "tick": tick, "price": 1.0, "rugged": tick == 102} for tick in (100, 101, 102)]
    samples = TrainingDataGenerator().process_episode(ws_events)
    assert samples[-1]["done"] is True


def test_15_batches() -> None:
    generator = TrainingDataGenerator()
    empty = np.zeros(FEATURE_COUNT, np.float32)
    batch = generator.get_batch([(empty, 0, 0.0, empty, False) for _ in range(100)], batch_size=32)
    observations, actions, rewards, next_observations, dones = batch
    assert observations.shape == next_observations.shape == (32, FEATURE_COUNT)
    assert actions.shape == rewards.shape == dones.shape == (32,)
    assert batch["actions"].shape == (32,)


def test_16_the_whole_on_real_data(ws_path: str, button_path: str) -> None:
    generator = TrainingDataGenerator()
    dataset = generator.from_parquet(ws_events_path=ws_path, button_events_path=button_path)
    batch = generator.get_batch(dataset, batch_size=min(32, len(dataset)))
    for array in (dataset.batch.observations, dataset.batch.next_observations):
        assert not np.isnan(array).any()
    assert len(batch.actions) == min(32, len(dataset))
    assert set(np.unique(dataset.batch.actions)) == {0, 1, 2, 3}
    assert dataset.batch.dones.sum() >= 2


def test_17_names_of_the_earlier_plan() -> None:
    assert is_dataclass(ButtonEvent)
    assert {field.name for field in fields(ButtonEvent)} >= {"ts", "server_ts", "button_id", "latency_ms"}
    assert is_dataclass(ActionSequence)
    assert BUTTONS["+0.01"] == "INC_01"
    assert BUTTON_CATEGORIES["INC_01"] == "bet_adjust"
    assert RugsMultiGameEnv().action_space == spaces.MultiDiscrete([4, 9])
    state = {"event_name": "gameStateUpdate", "data": {"gameId": "g", "tickCount": 8, "price": 1.5}}
    row, action = sequence_to_training_pair([{"button_id": "+0.01"}, {"button_id": "BUY"}], state)
    assert row.shape == (FEATURE_COUNT,)
    assert list(action) == [1, 3]
    assert sequence_to_training_pair([{"button_id": "BUY"}], state, observation="market")[0].shape == (40,)


# --- beyond the plan: the same data by every way in


def test_frames_and_paths_give_the_same_steps(store: Path, ws_path: str, button_path: str) -> None:
    generator = TrainingDataGenerator(actions="buttons")
    by_path = generator.from_parquet(ws_path, button_path)
    for read in (pl.read_parquet, pd.read_parquet):
        both: list[Any] = []
        for doc_type in ("ws_event", "button_event"):
            files = sorted((store / f"doc_type={doc_type}").rglob("*.parquet"))
            frames: list[Any] = [read(file) for file in files]
            both.append(pl.concat(frames) if read is pl.read_parquet else pd.concat(frames))
        by_frame = generator.from_parquet(*both)
        for mine, theirs in zip(by_path.batch, by_frame.batch, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("button", ["foo", "", "BUYY"])
def test_an_unknown_button_is_an_error_that_names_it(button: str) -> None:
    ticks = [{"game_id": "g", "tick": tick, "price": 1.0} for tick in (1, 2)]
    with pytest.raises(InputError, match=repr(button)):
        TrainingDataGenerator().align_events(ticks, [{"game_id": "g", "tick": 1, "button_id": button}])
    with pytest.raises(InputError, match=repr(button)):
        sequence_to_training_pair([{"button_id": button}])


def test_nothing_comes_out_empty_in_silence(tmp_path: Path, store: Path) -> None:
    empty = pl.DataFrame({"session_id": ["s"], "seq": [1], "ts": ["2025-01-01T00:00:00"], "doc_type": ["ws_event"]})
    frame = empty.with_columns(raw_json=pl.lit("{}"))
    with pytest.raises(InputError, match="found none"):
        TrainingDataGenerator().from_parquet(frame)
    with pytest.raises(InputError, match="found none"):
        EpisodeSegmenter().from_parquet(frame)
    with pytest.raises(InputError, match="fewer than 100000 ticks"):
        EpisodeSegmenter(min_ticks=100_000).from_parquet(f"{store}/doc_type=ws_event/**/*.parquet")
    with pytest.raises(InputError, match="found none"):
        TrainingDataGenerator().from_parquet(f"{tmp_path}/nothing/**/*.parquet")
