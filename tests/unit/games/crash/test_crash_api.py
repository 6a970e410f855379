"""The names of the crash game's plan, called as a user's own scripts call them."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import playproof.crash
import playproof.games.crash.api
from playproof.crash import (
    FEATURE_COUNT,
    FEATURE_NAMES,
    Action,
    BetAdjustment,
    Episode,
    EpisodeSegmenter,
    Observation,
    ObservationBuilder,
    TrainingData,
    TrainingDataGenerator,
    extract_bet_adjustment,
    sequence_to_training_pair,
)
from playproof.errors import ConfigError, InputError
from playproof.game import load_game
from playproof.game.play import PlayerView
from playproof.games.crash.features.table import FILLS, OBSERVATIONS
from playproof.games.crash.recording.sample import sample
from playproof.games.crash.rules.actions import BETS, MAIN
from playproof.store import EventLog, EventStore

GAME = load_game("crash")
START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def flat(tick: int, price: float = 1.5, game_id: str = "g1", **more: Any) -> dict[str, Any]:
    return {"game_id": game_id, "tick": tick, "price": price, "rugged": False, **more}


def nested(tick: int, price: float = 1.5, game_id: str = "g1", **more: Any) -> dict[str, Any]:
    return {"event_name": "gameStateUpdate", "data": {"gameId": game_id, "tickCount": tick, "price": price, **more}}


def press(button: str, tick: int, game_id: str = "g1", **more: Any) -> dict[str, Any]:
    return {"button_id": button, "tick": tick, "game_id": game_id, **more}


def whole_round(ticks: int, game_id: str = "g1", make: Any = nested) -> list[dict[str, Any]]:
    """Make a round from tick 0 to its rug."""
    running = [make(tick, 1 + tick / 64, game_id, active=True) for tick in range(ticks)]
    return [*running, make(ticks, 0.02, game_id, active=True) | _rugged(make)]


def _rugged(make: Any) -> dict[str, Any]:
    return {"rugged": True} if make is flat else {}


def rug(tick: int, game_id: str = "g1") -> dict[str, Any]:
    return nested(tick, 0.02, game_id, active=True, rugged=True)


def built(*events: Any) -> Observation:
    builder = ObservationBuilder()
    for event in events:
        builder.update(event)
    return builder.build()


# Names and shapes


def test_the_observation_is_the_recorded_set() -> None:
    assert OBSERVATIONS["recorded"].features == FEATURE_NAMES
    assert len(FEATURE_NAMES) == FEATURE_COUNT == 37
    assert tuple(field.name for field in fields(Observation)) == FEATURE_NAMES
    assert [field.default for field in fields(Observation)] == list(FILLS["recorded"])


def test_actions_are_the_games_own() -> None:
    assert tuple(item.name for item in Action) == MAIN
    assert tuple(item.name for item in BetAdjustment) == BETS
    assert [int(item) for item in Action] == list(range(len(MAIN)))
    assert [int(item) for item in BetAdjustment] == list(range(len(BETS)))
    assert Action.BUY == "BUY" == str(Action.BUY)
    assert Action.BUY == 1
    assert Action.BUY != "SELL"


@pytest.mark.parametrize(
    "name",
    [module.name for module in pkgutil.iter_modules(playproof.games.crash.api.__path__, "playproof.games.crash.api.")],
)
def test_the_examples_in_the_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_names_are_sorted_and_exist() -> None:
    names = playproof.crash.__all__
    assert sorted(names, key=lambda name: (name != name.upper(), not name[0].isupper(), name)) == names
    assert all(hasattr(playproof.crash, name) for name in names)


# Episodes


@pytest.mark.parametrize("make", [flat, nested])
def test_rounds_become_episodes(make: Any) -> None:
    first, second = EpisodeSegmenter().segment([make(1), make(2), make(1, game_id="g2")])
    assert (first.game_id, len(first.events), second.game_id, len(second.events)) == ("g1", 2, "g2", 1)
    assert not first.is_terminal
    assert first.terminal_tick is None


def test_events_that_only_name_their_round_are_episodes_too() -> None:
    assert [item.game_id for item in EpisodeSegmenter().segment([{"game_id": "g1"}, {"game_id": "g2"}])] == ["g1", "g2"]


@pytest.mark.parametrize("make", [flat, nested])
def test_a_rug_ends_an_episode(make: Any) -> None:
    last = make(2, 0.02, rugged=True)
    (episode,) = EpisodeSegmenter().segment([make(1), last])
    assert episode.is_terminal
    assert episode.terminal_tick == 2


def test_the_second_broadcast_of_a_rug_is_ignored_and_late_messages_find_their_round() -> None:
    events = [nested(1, active=True), nested(1, game_id="g2", active=True), rug(2), rug(4)]
    first, second = EpisodeSegmenter().segment(events)
    assert (first.terminal_tick, len(first.events)) == (2, 3)
    assert (second.terminal_tick, len(second.events)) == (None, 1)


def test_short_episodes_are_dropped() -> None:
    events = [flat(tick) for tick in range(10)] + [flat(tick, game_id="g2") for tick in range(60)]
    assert [item.game_id for item in EpisodeSegmenter(min_ticks=50).segment(events)] == ["g2"]
    assert [item.game_id for item in EpisodeSegmenter(10).segment(events)] == ["g1", "g2"]


def test_what_names_no_round_belongs_to_the_last_one() -> None:
    own = {"event_name": "playerUpdate", "data": {"cash": 1.5}}
    (episode,) = EpisodeSegmenter().segment([own, nested(1), own, {"event_name": "chatMessage", "data": {"text": "x"}}])
    assert len(episode.events) == 3
    assert Episode("g1", ({"a": 1},), True, 5).terminal_tick == 5


# Observations

MIXED = {"game_id": "g1", "tick_count": 100, "PRICE": 2.5, "rugpoolAmount": 5, "rugpoolThreshold": 10}


@pytest.mark.parametrize(
    "event",
    [
        nested(100, 2.5, rugpool={"rugpoolAmount": 5.0, "threshold": 10.0}),
        nested(100, 2.5, rugpool={"rugpoolAmount": 5.0, "threshold": 10.0, "instarugCount": 3}, active=True),
        nested(100, 2.5, rugpool={"amount": 5, "threshold": 10}),
        flat(100, 2.5, rugpool_amount=5.0, rugpool_threshold=10.0),
        {"event": "gameStateUpdate", "payload": MIXED},
        {"event_name": "gameStateUpdate", "data": json.dumps(MIXED)},
        {"event_name": "gameStateUpdate", "data": [{"__trace": True}, MIXED]},
        {"raw": f'42["gameStateUpdate",{json.dumps(MIXED)}]'},
        {"tick": np.int64(100), "price": np.float64(2.5), "rugpool_amount": "5.0", "rugpool_threshold": np.float32(10)},
    ],
)
def test_a_state_in_every_form(event: dict[str, Any]) -> None:
    seen = built(event)
    assert (seen.tick, seen.price, seen.rugpool_ratio, seen.game_phase, seen.active) == (100, 2.5, 0.5, 2, 1)


@pytest.mark.parametrize("first", [0, 1, 100])
@pytest.mark.parametrize("make", [flat, nested])
def test_velocity_and_acceleration(make: Any, first: int) -> None:
    seen = built(*(make(first + index, price) for index, price in enumerate([1.0, 1.5, 2.5])))
    assert (seen.price_velocity, seen.price_acceleration) == (1.0, 0.5)


def test_the_players_own_money_may_come_in_parts() -> None:
    builder = ObservationBuilder()
    builder.update(nested(5, 2.0))
    builder.update({"event_name": "playerUpdate", "data": {"cash": 1.5, "positionQty": 0.1}})
    seen = builder.build()
    assert (seen.balance, seen.position_qty) == (1.5, 0.1)
    assert "avg_entry_price" in builder.missing
    assert "unrealized_pnl" in builder.missing
    assert "balance" not in builder.missing
    builder.update({"event_name": "playerUpdate", "data": {"avgCost": 1.0}})
    seen = builder.build()
    assert (seen.balance, seen.position_qty, seen.avg_entry_price, seen.unrealized_pnl) == (1.5, 0.1, 1.0, 0.1)


def test_a_missing_field_keeps_its_value_within_a_round() -> None:
    state = nested(7, 1.5, connectedPlayers=150, active=True)
    assert built(state, {"event_name": "gameStateUpdate", "data": {"gameId": "g1"}}).price == 1.5
    countdown = {"gameId": "g2", "cooldownTimer": 9000, "allowPreRoundBuys": True}
    seen = built(state, {"event_name": "gameStateUpdate", "data": countdown})
    assert (seen.tick, seen.price, seen.game_phase, seen.cooldown_timer_ms) == (0, 1, 1, 9000)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"event_name": "battleUpdate", "data": {"price": 9.0, "tickCount": 3}},
        {"event_name": "gameStateUpdate", "data": None},
        {"event_name": "gameStateUpdate", "data": "no json"},
        {"event_name": "gameStateUpdate", "data": {"price": "nonsense", "tickCount": None}},
        {"event_name": "playerUpdate", "data": {"cash": float("nan")}},
        {"event_name": "standard/newTrade", "data": [{"__trace": True}, {"gameId": "g1"}]},
    ],
)
def test_what_is_no_event_changes_nothing(event: dict[str, Any]) -> None:
    assert built(nested(3, 1.25), event) == built(nested(3, 1.25))


def test_rows_are_finite_float32() -> None:
    for events in ([], [nested(1)], [flat(1, rugged=True)], [press("BUY", 1)]):
        builder = ObservationBuilder()
        for event in events:
            builder.update(event)
        row = builder.to_numpy()
        assert (row.shape, row.dtype) == ((FEATURE_COUNT,), np.dtype(np.float32))
        assert np.isfinite(row).all()
        assert (builder.build().to_numpy() == row).all()
    assert Observation(tick=3).to_numpy()[0] == 3


KEYS = [
    "gameId",
    "tick",
    "tickCount",
    "price",
    "rugged",
    "active",
    "cash",
    "rugpool",
    "threshold",
    "phase",
]
VALUES = st.none() | st.booleans() | st.integers(-10, 10**6) | st.floats() | st.text(max_size=5)
PAYLOADS = st.dictionaries(st.sampled_from(KEYS), VALUES | st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3))
OPTIONAL = {
    "event_name": st.sampled_from(["gameStateUpdate", "playerUpdate", "standard/newTrade", "buyOrder", "x"]),
    "data": PAYLOADS | VALUES | st.lists(PAYLOADS, max_size=2),
    "game_id": st.sampled_from(["g1", "g2"]),
    **dict.fromkeys(("tick", "price", "ts"), VALUES),
    "button_id": st.none() | st.sampled_from(["BUY", "+0.01", "1/2", "sell"]),  # any other is an error that names it
}


@settings(max_examples=40)
@given(st.lists(st.fixed_dictionaries({}, optional=OPTIONAL), max_size=6))
def test_anything_is_tolerated(events: list[dict[str, Any]]) -> None:
    assert np.isfinite(built(*events).to_numpy()).all()
    EpisodeSegmenter().segment(events)
    TrainingDataGenerator().align_events(events, events)


def test_a_recording_as_dicts_gives_the_numbers_of_the_products_own_view() -> None:
    frames = [frame for frame in sample() if frame.direction == "received"]
    decoder, view, builder = GAME.decode(frames), PlayerView(GAME, "recorded"), ObservationBuilder()
    compared = 0
    for frame, facts in zip(frames, decoder, strict=True):
        for fact in facts:
            view.apply(fact.event(frame.ts, "events", 0))
        builder.update({"raw": frame.payload, "ts": frame.ts})
        row, mask = view.look()
        assert mask is not None
        unknown = [name for name, missing in zip(FEATURE_NAMES, mask, strict=True) if missing]
        assert list(builder.missing) == unknown
        assert builder.to_numpy().tobytes() == np.asarray(row).tobytes()
        compared += bool(facts)
    assert compared > 50


# Alignment and training data


@pytest.mark.parametrize("make", [flat, nested])
def test_a_press_belongs_to_its_tick(make: Any) -> None:
    (result,) = TrainingDataGenerator().align_events([make(100), make(101)], [press("BUY", 100)])
    assert (result.action, result.tick, result.done, result.game_id) == ("BUY", 100, False, "g1")
    assert result["action"] == Action.BUY


def test_the_last_sample_of_a_round_is_done() -> None:
    result = TrainingDataGenerator().align_events([nested(100), rug(101)], [])
    assert [item.done for item in result] == [True]
    assert TrainingDataGenerator().process_episode([nested(100), rug(101)])[-1].done is True


def test_waits_are_steps_and_presses_of_one_tick_are_substeps() -> None:
    events = [nested(tick, active=True) for tick in range(5)] + [rug(5)]
    presses = [press(button, 2) for button in ("INC_01", "INC_01", "INC_001", "BUY")]
    result = TrainingDataGenerator().align_events(events, presses)
    shape = [(item.tick, item.substep, str(item.action), str(item.bet_adjustment), item.bet_amount) for item in result]
    assert shape == [
        (0, 0, "WAIT", "NONE", 0.001),
        (1, 0, "WAIT", "NONE", 0.001),
        (2, 0, "WAIT", "INC_01", 0.001),
        (2, 1, "WAIT", "INC_01", 0.011),
        (2, 2, "WAIT", "INC_001", 0.021),
        (2, 3, "BUY", "NONE", 0.022),
        (3, 0, "WAIT", "NONE", 0.022),
        (4, 0, "WAIT", "NONE", 0.022),
    ]
    assert [item.done for item in result] == [False] * 7 + [True]
    assert sum(item.reward for item in result) == pytest.approx(0.022 * 0.02 / 1.5 - 0.022, rel=1e-5)


def test_presses_never_reach_a_later_tick() -> None:
    events = [nested(10), nested(12), nested(13)]
    result = TrainingDataGenerator().align_events(events, [press("BUY", 11), press("SELL", 9), press("SELL", 12, "g9")])
    assert [(item.tick, str(item.action)) for item in result] == [(10, "BUY"), (12, "WAIT")]


def test_a_press_without_a_tick_goes_by_its_time() -> None:
    events = [nested(tick) | {"ts": START + timedelta(milliseconds=250 * tick)} for tick in range(4)]
    at = (START + timedelta(milliseconds=600)).isoformat()
    result = TrainingDataGenerator().align_events(events, [{"button_id": "buy", "ts": at}])
    assert [(item.tick, str(item.action)) for item in result] == [(0, "WAIT"), (1, "WAIT"), (2, "BUY")]
    result = TrainingDataGenerator().align_events(
        events, [{"button_id": "BUY", "timestamp": START.timestamp() * 1000 + 600}]
    )
    assert [str(item.action) for item in result] == ["WAIT", "WAIT", "BUY"]


def test_batches_have_their_shapes() -> None:
    maker = TrainingDataGenerator()
    data = maker.process_episode(Episode("g1", (*whole_round(40)[:-1], rug(40))), [press("BUY", 3), press("SELL", 9)])
    assert len(data) == 40
    for dataset in (data, list(data), data[:7]):
        batch = maker.get_batch(dataset, 32)
        assert batch.observations.shape == batch["next_observations"].shape == (32, FEATURE_COUNT)
        assert batch.observations.dtype == batch.next_observations.dtype == np.float32
        assert (batch.actions.shape, batch.actions.dtype) == ((32,), np.dtype(np.int64))
        assert (batch.rewards.shape, batch.rewards.dtype) == ((32,), np.dtype(np.float32))
        assert (batch.dones.shape, batch.dones.dtype) == ((32,), np.dtype(np.bool_))
        assert all(np.isfinite(item).all() for item in batch)
        assert set(dict(batch)) == {"observations", "actions", "rewards", "next_observations", "dones"}
    whole = maker.get_batch(data, 40)
    assert sorted(whole.observations[:, 0]) == list(range(40)), "each step once where there are enough"
    observation, action, reward, next_observation, done = data[3]
    assert (action.tolist(), done) == (1, False)
    assert observation.shape == next_observation.shape == (FEATURE_COUNT,)
    assert np.isfinite(reward)
    with pytest.raises(ConfigError, match="found 0 steps"):
        maker.get_batch(TrainingData.of([]), 4)


def test_a_torch_loader_takes_it_as_it_is() -> None:
    torch = pytest.importorskip("torch")
    data = TrainingDataGenerator().process_episode([*whole_round(20)[:-1], rug(20)])
    seen, taken, earned, then, ended = next(iter(torch.utils.data.DataLoader(data, batch_size=8)))
    assert (tuple(seen.shape), tuple(then.shape), tuple(taken.shape)) == ((8, 37), (8, 37), (8,))
    assert (earned.dtype, ended.dtype, taken.dtype) == (torch.float32, torch.bool, torch.int64)


# Files


@pytest.fixture
def rounds() -> list[dict[str, Any]]:
    return [*whole_round(12, "g1")[:-1], rug(12, "g1"), *whole_round(8, "g2")[:-1], rug(8, "g2")]


def _columns(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"event_name": event["event_name"], "data": json.dumps(event["data"])} for event in events]


@pytest.mark.parametrize("as_folder", [False, True])
def test_parquet_of_the_users_own(rounds: list[dict[str, Any]], tmp_path: Path, as_folder: bool) -> None:
    folder = tmp_path / "ws"
    (folder / "date=2026-01-05").mkdir(parents=True)
    pl.DataFrame(_columns(rounds)).write_parquet(folder / "date=2026-01-05" / "part-0.parquet")
    pl.DataFrame([press("BUY", 2), press("SELL", 5)]).write_parquet(tmp_path / "buttons.parquet")
    path = folder if as_folder else folder / "date=2026-01-05" / "part-0.parquet"
    assert [item.game_id for item in EpisodeSegmenter().from_parquet(path)] == ["g1", "g2"]
    assert [item.terminal_tick for item in EpisodeSegmenter().from_parquet(str(path), limit=1)] == [12]
    data = TrainingDataGenerator().from_parquet(str(path), tmp_path / "buttons.parquet")
    assert len(data) == 20
    assert data.batch.actions[[2, 5, 14]].tolist() == [1, 2, 0]
    assert np.flatnonzero(data.batch.dones).tolist() == [11, 19]
    assert len(TrainingDataGenerator().from_parquet(path, limit=1)) == 12
    assert len(TrainingDataGenerator(min_ticks=10).from_parquet(path)) == 12


def test_flat_tables_and_frames(tmp_path: Path) -> None:
    frame = pl.DataFrame([flat(tick, 1 + tick / 8) for tick in range(6)] + [flat(6, 0.02, rugged=True)])
    frame.write_parquet(tmp_path / "ticks.parquet")
    for source in (tmp_path / "ticks.parquet", frame, frame.to_arrow()):
        data = TrainingDataGenerator().from_parquet(source)
        assert (len(data), data[-1].done) == (6, True)


def test_a_store_is_read_hot_and_compacted(home: Path) -> None:
    from playproof.store import compact

    decoder, seq = GAME.decode(sample()), 0
    with EventLog.open(home, GAME.columns) as log:
        for frame, facts in zip(sample(), decoder, strict=True):
            events = [fact.event(frame.ts, "ada", seq + index) for index, fact in enumerate(facts)]
            seq += len(events)
            if events:
                log.append(events)
    hot = TrainingDataGenerator().from_parquet(home)
    compact(home, final=True)
    for source in (home, str(home), home / "events", EventStore(home)):
        data = TrainingDataGenerator().from_parquet(source)
        assert len(data) == len(hot) > 20
        assert all((a == b).all() for a, b in zip(data.batch, hot.batch, strict=True))
    assert (hot.batch.actions > 0).any()
    assert EpisodeSegmenter().from_parquet(home, limit=1)[0].is_terminal


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing at"):
        EpisodeSegmenter().from_parquet(tmp_path / "none")
    with pytest.raises(InputError, match="Parquet files"):
        TrainingDataGenerator().from_parquet(tmp_path)
    (tmp_path / "x.parquet").write_text("no parquet")
    with pytest.raises(InputError, match="Parquet file"):
        TrainingDataGenerator().from_parquet(tmp_path)


# Sequences


@pytest.mark.parametrize(
    ("buttons", "expected"),
    [
        (["BUY"], "NONE"),
        (["INC_01", "INC_01", "INC_001", "BUY"], "INC_001"),
        (["INC_01", "CLEAR", "BUY"], "CLEAR"),
        (["CLEAR", "INC_01", "SELL_50", "SELL"], "INC_01"),
        (["DOUBLE", "HALF", "BUY"], "NONE"),
        (["HALF", "DOUBLE", "DOUBLE", "BUY"], "DOUBLE"),
        (["MAX"], "MAX"),
        ([], "NONE"),
    ],
)
def test_the_last_net_adjustment(buttons: list[str], expected: str) -> None:
    for form in (
        buttons,
        [{"button_id": button} for button in buttons],
        {"presses": [{"buttonId": button} for button in buttons]},
    ):
        assert extract_bet_adjustment(form) == expected


def test_a_sequence_becomes_one_pair() -> None:
    presses = [press("INC_01", 7), press("BUY", 8, price=1.5, balance=0.75, bet_amount=0.011, game_phase=2)]
    observation, action = sequence_to_training_pair({"final_action": "BUY", "presses": presses})
    assert action.tolist() == [Action.BUY, BetAdjustment.INC_01]
    seen = Observation.from_numpy(observation)
    assert (seen.tick, seen.price, seen.balance, seen.bet_amount) == (8, 1.5, 0.75, 0.011)
    builder = ObservationBuilder()
    builder.update(nested(9, 3.0))
    observation, action = sequence_to_training_pair([press("HALF", 9)], builder)
    assert (action.tolist(), observation[1]) == ([0, 6], 3.0)
    with pytest.raises(InputError, match="at least one press"):
        sequence_to_training_pair([])


def test_a_recorded_sequence_becomes_a_pair_in_coins() -> None:
    from playproof.record.presses import ActionSequence, ButtonEvent

    pressed = ButtonEvent(START, None, "BUY", "action", 8, 1.5, 2, "g1", 750_000_000, 0, 11_000_000, 8, 0, 0)
    observation, action = sequence_to_training_pair(ActionSequence("ada", 0, None, (pressed,), "BUY"))
    seen = Observation.from_numpy(observation)
    assert (action.tolist(), seen.balance, seen.bet_amount) == ([1, 0], 0.75, 0.011)
