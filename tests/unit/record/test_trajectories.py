"""The trajectory recorder: what it acknowledged is there once, what it refuses changes nothing, on both databases."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from playproof.errors import InputError, RefusedRecord, StoreError
from playproof.game import WindowRules, load_game
from playproof.record.trajectories.bulk import BulkRecorder
from playproof.record.trajectories.facts import ActionTaken, Call, End, Start
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.record.trajectories.secrets import SecretScrubber, secret_values
from playproof.store.db import GroupWriter, connect, upgrade, writing
from playproof.store.db.trajectories import (
    StoredTrajectory,
    list_trajectories,
    read_trajectory,
    read_window,
    windows_ahead,
)

NOW = datetime(2025, 1, 15, 10, 59, 58, tzinfo=UTC)


def windows() -> WindowRules:
    return load_game("arena").windows


class Ticking:
    """A clock that goes on by half a second at every look."""

    def __init__(self, start: datetime = NOW) -> None:
        self.now = start

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=0.5)
        return self.now


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('db') / 'tables.db'}"
    else:
        url = request.getfixturevalue("postgres").new()
    engine = connect(url=url)
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def recorder(engine: Engine) -> Iterator[TrajectoryRecorder]:
    with TrajectoryRecorder(engine, Ticking(), windows=windows(), rng=random.Random(), environment={}) as recorder:
        yield recorder


def call(**more: Any) -> Call:
    payload: dict[str, Any] = {
        "model": "some-model",
        "messages": [{"role": "system", "content": "You trade."}, {"role": "user", "content": "ACME 101"}],
        "response": '{"action":"hold"}',
        "token_ids": [1, 2, 3],
        "logprobs": [-0.5, -0.25, -1e-9],
        "temperature": 0.7,
        "latency_ms": 12.5,
    }
    return Call(**(payload | more))


def play(recorder: TrajectoryRecorder | BulkRecorder, agent: str = "a1", steps: int = 3, **start: Any) -> str:
    """Record a whole trajectory."""
    identity = recorder.start_trajectory(agent, **start)
    for number in range(steps):
        assert recorder.start_step(identity, {"balance": 10**13 - number, "pnl": -number}) == number
        recorder.log_provider_access(identity, "markets", {"ACME": 101.5 + number}, "prices")
        recorder.log_provider_access(identity, "posts", [{"author": "b", "text": "up!"}])
        recorder.log_llm_call(identity, call())
        action = ActionTaken("trade" if number else "CREATE_POST", {"amount": 50}, success=number != 2, reasoning="why")
        assert recorder.complete_step(identity, action, 0.5, done=number == steps - 1) == number
    recorder.end_trajectory(identity, 10**13 - 5, -5, metrics={"sharpe": None})
    return identity


def test_a_trajectory_comes_back_as_it_was_told(recorder: TrajectoryRecorder) -> None:
    identity = play(recorder, metadata={"note": "x"})
    trajectory = read_trajectory(recorder.engine, identity)
    assert (trajectory.agent_id, trajectory.window_id, trajectory.scenario_id) == (
        "a1",
        "2025-01-15T10:00Z",
        "2025-01-15T10:00Z",
    )
    assert (trajectory.final_status, trajectory.final_balance, trajectory.final_pnl) == ("completed", 10**13 - 5, -5)
    assert (trajectory.trades_executed, trajectory.posts_created, trajectory.total_reward) == (1, 1, 1.5)
    assert trajectory.metrics == {"sharpe": None}
    assert trajectory.extra == {"note": "x"}
    assert [step.number for step in trajectory.steps] == [0, 1, 2]
    assert trajectory.steps[1].state == {"balance": 10**13 - 1, "pnl": -1}
    assert [access["provider"] for access in trajectory.steps[1].accesses] == ["markets", "posts"]
    assert trajectory.steps[2].done
    assert [item.step for item in trajectory.calls] == [0, 1, 2]
    assert trajectory.calls[0].trainable
    assert trajectory.calls[0].logprobs == [-0.5, -0.25, -1e-9]
    assert trajectory.end_time is not None
    assert trajectory.duration_ms == round((trajectory.end_time - trajectory.start_time).total_seconds() * 1000)


def test_a_trajectory_that_crosses_the_hour_keeps_its_window(recorder: TrajectoryRecorder) -> None:
    trajectory = read_trajectory(recorder.engine, play(recorder))
    assert trajectory.start_time.hour == 10
    assert trajectory.end_time is not None
    assert trajectory.end_time.hour == 11
    assert trajectory.window_id == "2025-01-15T10:00Z"


def test_bulk_and_single_records_are_the_same(engine: Engine, recorder: TrajectoryRecorder) -> None:
    single = read_trajectory(engine, play(recorder, "twin", metadata={"n": 1}))
    with BulkRecorder(engine, Ticking(), windows=windows(), environment={}) as bulk:
        identity = play(bulk, "twin", metadata={"n": 1})
    stored = read_trajectory(engine, identity)

    def told(trajectory: StoredTrajectory) -> StoredTrajectory:
        steps = tuple(
            replace(step, time=NOW, completed_at=NOW, accesses=_timeless(step.accesses)) for step in trajectory.steps
        )
        calls = tuple(replace(item, call_id="", time=NOW) for item in trajectory.calls)
        same = {"trajectory_id": "", "start_time": NOW, "end_time": NOW, "duration_ms": 0}
        return replace(trajectory, **same, steps=steps, calls=calls)

    assert told(stored) == told(single)


def _timeless(accesses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in access.items() if name != "time"} for access in accesses]


WRONG = {
    "unknown id": (lambda r, i: r.start_step("nobody", {}), "unknown"),
    "step while one is open": (lambda r, i: (r.start_step(i, {}), r.start_step(i, {})), "open_step"),
    "action without a step": (lambda r, i: r.complete_step(i, ActionTaken("hold")), "no_step"),
    "access without a step": (lambda r, i: r.log_provider_access(i, "x"), "no_step"),
    "two ends": (lambda r, i: (r.end_trajectory(i), r.end_trajectory(i)), "ended"),
    "step after the end": (lambda r, i: (r.end_trajectory(i), r.start_step(i, {})), "ended"),
    "call after the end": (lambda r, i: (r.end_trajectory(i), r.log_llm_call(i, call())), "ended"),
    "same id": (lambda r, i: r.start_trajectory("a1", trajectory_id=i), "known"),
    "same call id": (lambda r, i: [r.log_llm_call(i, call(call_id=f"c-{i}")) for _ in range(2)], "known"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_records_are_refused_and_change_nothing(recorder: TrajectoryRecorder, name: str) -> None:
    wrong, reason = WRONG[name]
    identity = recorder.start_trajectory("a1")
    with pytest.raises(RefusedRecord) as refusal:
        wrong(recorder, identity)
    assert refusal.value.reason == reason
    trajectory = read_trajectory(recorder.engine, identity)
    assert (len(trajectory.steps), len(trajectory.calls)) == {
        "step while one is open": (1, 0),
        "same call id": (0, 1),
    }.get(name, (0, 0))


@pytest.mark.parametrize(
    "name", ["unknown id", "step while one is open", "action without a step", "access without a step", "two ends"]
)
def test_bulk_refuses_alike(engine: Engine, name: str) -> None:
    wrong, reason = WRONG[name]
    with BulkRecorder(engine, Ticking(), windows=windows(), environment={}) as bulk:
        identity = bulk.start_trajectory("a1")
        with pytest.raises(RefusedRecord) as refusal:
            wrong(bulk, identity)
    assert refusal.value.reason in (reason, "unknown")


def test_a_bulk_with_a_known_id_stores_nothing(engine: Engine, recorder: TrajectoryRecorder) -> None:
    known = play(recorder)
    bulk = BulkRecorder(engine, Ticking(), windows=windows(), environment={})
    fresh = play(bulk)
    play(bulk, trajectory_id=known)
    with pytest.raises(RefusedRecord, match="new trajectories"):
        bulk.flush()
    with pytest.raises(InputError):
        read_trajectory(engine, fresh)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Start("../etc"),
        lambda: Start("a" * 65),
        lambda: Start("a", trajectory_id="x/y"),
        lambda: Start("a", scenario_id=""),
        lambda: Start("a", time=datetime(2025, 1, 1)),  # noqa: DTZ001
        lambda: call(purpose="fun"),
        lambda: call(token_ids=[1]),
        lambda: call(logprobs=[0.5, 0.0, 0.0]),
        lambda: call(max_tokens=-1),
        lambda: End(final_pnl=2**63),
        lambda: End(final_balance=1.5),  # type: ignore[arg-type]
        lambda: End(status="running"),
        lambda: ActionTaken(""),
    ],
)
def test_nonsense_is_refused_at_birth(make: Any) -> None:
    with pytest.raises(InputError):
        make()


def test_windows_come_with_their_zone(recorder: TrajectoryRecorder) -> None:
    given = recorder.start_trajectory("a1", window_id="2025-01-15T07:00")
    assert read_trajectory(recorder.engine, given).window_id == "2025-01-15T07:00Z"
    with pytest.raises(InputError, match="window id"):
        recorder.start_trajectory("a1", window_id="yesterday")
    kolkata = datetime.fromisoformat("2025-01-15T16:00:00+05:30")
    there = recorder.start_trajectory("a1", time=kolkata)
    assert read_trajectory(recorder.engine, there).window_id == "2025-01-15T10:00Z"
    assert read_trajectory(recorder.engine, there).start_time == kolkata


def test_without_windows_an_id_is_needed(engine: Engine) -> None:
    with TrajectoryRecorder(engine, Ticking(), environment={}) as recorder:
        with pytest.raises(InputError, match="window_id"):
            recorder.start_trajectory("a1")
        assert recorder.start_trajectory("a1", "some-window")


def test_threads_share_transactions_and_lose_nothing(recorder: TrajectoryRecorder) -> None:
    with ThreadPoolExecutor(8) as pool:
        identities = list(pool.map(lambda n: play(recorder, f"thread-{n}"), range(16)))
    for identity in identities:
        trajectory = read_trajectory(recorder.engine, identity)
        assert (len(trajectory.steps), len(trajectory.calls), trajectory.final_status) == (3, 3, "completed")


def test_two_recorders_on_one_trajectory_keep_its_order(engine: Engine) -> None:
    recorders = [TrajectoryRecorder(engine, Ticking(), windows=windows(), environment={}) for _ in range(2)]
    identity = recorders[0].start_trajectory("shared")
    refused = []

    def step(recorder: TrajectoryRecorder) -> None:
        for _ in range(10):
            try:
                recorder.start_step(identity, {})
                recorder.complete_step(identity, ActionTaken("hold"))
            except RefusedRecord as refusal:
                refused.append(refusal.reason)

    threads = [threading.Thread(target=step, args=(entry,)) for entry in recorders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trajectory = read_trajectory(engine, identity)
    assert [entry.number for entry in trajectory.steps] == list(range(len(trajectory.steps)))
    assert set(refused) <= {"open_step", "no_step"}
    for item in recorders:
        item.close()


def test_a_refused_write_leaves_its_neighbours_alone(engine: Engine) -> None:
    with writing(engine) as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS ledger (n INTEGER PRIMARY KEY)"))
        connection.execute(text("DELETE FROM ledger"))
    gate = threading.Event()

    def refuse(_: Any) -> None:
        raise RefusedRecord("unknown", "no")

    with GroupWriter(engine) as writer:
        first = writer.submit(lambda _: gate.wait(10))
        rest = [
            writer.submit(lambda c, n=n: c.execute(text(f"INSERT INTO ledger VALUES ({n})")).rowcount)
            for n in (1, 2, 2)
        ]
        refused = writer.submit(refuse)
        last = writer.submit(lambda c: c.execute(text("INSERT INTO ledger VALUES (9)")).rowcount)
        gate.set()
        assert first.result()
        assert [future.exception() is None for future in rest] == [True, True, False]
        assert isinstance(rest[2].exception(), StoreError)
        assert isinstance(refused.exception(), RefusedRecord)
        assert last.result() == 1
    with engine.connect() as connection:
        assert connection.scalars(text("SELECT n FROM ledger ORDER BY n")).all() == [1, 2, 9]
    with pytest.raises(StoreError, match="closed"):
        writer.submit(refuse)


def test_a_row_of_writes_ends_where_the_database_fails(engine: Engine) -> None:
    """A database that is away for one write and back for the next must not turn the order of records round."""
    with writing(engine) as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS ledger (n INTEGER PRIMARY KEY)"))
        connection.execute(text("DELETE FROM ledger"))

    def put(number: int) -> Any:
        return lambda c: c.execute(text(f"INSERT INTO ledger VALUES ({number})")).rowcount

    def refuse(_: Any) -> int:
        raise RefusedRecord("unknown", "no")

    def fail(_: Any) -> int:
        raise OperationalError("away", None, Exception("the server closed the connection"))

    with GroupWriter(engine) as writer:
        first = writer.submit_row([put(1), refuse, put(2), fail, put(3), put(4)]).result()
        assert [type(item) for item in first] == [int, RefusedRecord, int, StoreError, StoreError, StoreError]
        assert [type(item) for item in writer.submit_row([put(3), refuse]).result()] == [int, RefusedRecord]
        assert writer.submit_row([]).result() == []
        gate = threading.Event()
        held, given_up = writer.submit(lambda _: gate.wait(10)), writer.submit(put(7))
        assert given_up.cancel()
        gate.set()
        assert held.result()
        assert writer.write(put(8)) == 1
    with engine.connect() as connection:
        assert connection.scalars(text("SELECT n FROM ledger ORDER BY n")).all() == [1, 2, 3, 8]


def test_a_writer_refuses_what_would_wait_too_long(engine: Engine) -> None:
    gate = threading.Event()
    with GroupWriter(engine, waiting=2) as writer:
        futures = [writer.submit(lambda _: gate.wait(10))]
        with pytest.raises(StoreError, match="wait"):
            futures.extend(writer.submit(lambda _: None) for _ in range(10))
        gate.set()
        assert all(future.exception(10) is None for future in futures)


def test_vanished_agents_are_cut(recorder: TrajectoryRecorder) -> None:
    identity = recorder.start_trajectory("gone")
    recorder.start_step(identity, {})
    assert identity in recorder.cut_off(NOW + timedelta(days=1))
    trajectory = read_trajectory(recorder.engine, identity)
    assert (trajectory.final_status, len(trajectory.steps)) == ("cut", 1)
    assert identity not in recorder.cut_off(NOW + timedelta(days=1))


def test_agents_are_registered(recorder: TrajectoryRecorder) -> None:
    recorder.register_agent("reg", kind="llm", model="m1", settings={"apiKey": "abc", "risk": 0.2})
    recorder.register_agent("reg", kind="llm", model="m2", settings={"risk": 0.5})
    with recorder.engine.connect() as connection:
        row = connection.execute(text("SELECT model, archetype FROM agent WHERE agent_id = 'reg'")).one()
    assert row.model == "m2"


def test_a_window_is_read_whole_and_ahead(engine: Engine) -> None:
    ids = ["2025-02-01T00:00Z", "2025-02-01T01:00Z", "2025-02-01T02:00Z"]
    with BulkRecorder(engine, Ticking(), windows=windows(), environment={}) as bulk:
        for window, agent in itertools.product(ids, ("b", "a", "c")):
            play(bulk, agent, window_id=window)
    assert [item.agent_id for item in read_window(engine, ids[1])] == ["a", "b", "c"]
    assert len(list_trajectories(engine, window_id=ids[0], limit=2)) == 2
    assert len(list_trajectories(engine, window_id=ids[0], agent_id="a")) == 1

    async def collect() -> list[tuple[str, int]]:
        return [(name, len(result)) async for name, result in windows_ahead(engine, ids, ahead=1)]

    assert asyncio.run(collect()) == [(name, 3) for name in ids]


SECRET = "sk-proj-abcdefghijklmnop0123456789"


def test_secrets_are_not_stored(engine: Engine, tmp_path: Path) -> None:
    environment = {"OPENAI_API_KEY": 'plain"value,1234', "WANDB_API_KEY": "w" * 40, "HOME": "/root-of-all"}
    payload = f"my key is {SECRET} and {environment['OPENAI_API_KEY']} at /root-of-all, " + environment["WANDB_API_KEY"]
    texts: dict[str, Any] = {
        "messages": [{"role": "user", "content": payload, "token": "T0PSECRET"}],
        "response": payload,
        "reasoning": '{"password": "T0PSECRET"}',
        "system_prompt": "Authorization: Bearer abcdefghij0123456789",
    }
    for kind in (TrajectoryRecorder, BulkRecorder):
        with kind(engine, Ticking(), windows=windows(), environment=environment) as recorder:
            identity = recorder.start_trajectory("leaky", metadata={"api_key": "T0PSECRET"})
            recorder.start_step(identity, {"cookie": "T0PSECRET", "note": payload})
            recorder.log_provider_access(identity, "mail", {"deep": [{"Secret": "T0PSECRET", "text": payload}]})
            recorder.log_llm_call(identity, call(**texts))
            recorder.complete_step(
                identity, ActionTaken("hold", {"auth": "T0PSECRET"}, error=payload, reasoning=payload)
            )
            recorder.end_trajectory(identity, metrics={"jwt": "T0PSECRET"})
        stored = repr(read_trajectory(engine, identity))
        for secret in (SECRET, "T0PSECRET", "plain", "w" * 40, "abcdefghij0123456789"):
            assert secret not in stored, (kind, secret)
        assert "/root-of-all" in stored


_SPELLINGS = """
token jwt auth cookie passphrase sid connect.sid walletPrivateKey session_id seed-phrase otp
"""
SECRET_KEYS = _SPELLINGS.split()


def test_every_secret_key_is_sifted() -> None:
    assert all(SecretScrubber().suspect(f'"{key}":1') for key in SECRET_KEYS)
    assert secret_values({"A_TOKEN": "short", "B_TOKEN": "longenough", "TOKENS": "longenough2"}) == ("longenough",)


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(["the ", '"', "\\", ":", " ", *sorted(SECRET_KEYS), "Bearer ", SECRET, "value", "{", "}", ","]),
        max_size=12,
    )
)
def test_sifting_misses_nothing_that_a_close_look_finds(pieces: list[str]) -> None:
    clean = SecretScrubber(["value"])
    words = "".join(pieces)
    closely = clean.read_closely(words)
    assert clean.text(words) == closely
    if closely != words:
        assert clean.suspects([words, "nothing"]) == [True, False]


def test_stored_records_name_every_column() -> None:
    left_out = {"created_at", "episode_length", "reward_components", "judge_reward", "judge_reasoning", "judged_at"}
    from playproof.store.db import LlmCall, StepRow, Trajectory
    from playproof.store.db.trajectories import StoredCall, StoredStep

    for table, record, missing in (
        (Trajectory, StoredTrajectory, left_out | {"trained_in_batch"}),
        (StepRow, StoredStep, {"trajectory_id"}),
        (LlmCall, StoredCall, {"trajectory_id"}),
    ):
        names = {field.name for field in fields(record)} - {"steps", "calls"}
        assert names | missing == set(table.__mapper__.attrs.keys())
