"""Outcomes from outside: over HTTP by a role of their own, once, whole, correctable, and never in a policy's view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, func, select
from test_trajectory_http import Running

from playproof.datasets.conversations.art import policy_view, to_art
from playproof.datasets.conversations.groups import read_groups
from playproof.errors import InputError, RefusedRecord
from playproof.game.markets import MarketDeclaration
from playproof.judge import group as judged
from playproof.judge.computed import computed
from playproof.net.access import AccessPolicy, RoleTokens
from playproof.record.trajectories.client import TrajectoryClient
from playproof.record.trajectories.facts import ActionTaken, Call
from playproof.record.trajectories.http import trajectory_api
from playproof.record.trajectories.outcomes import read_outcomes
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.store.db import MarketOutcome, OutcomeRevision, connect, upgrade
from playproof.store.db.trajectories import read_windows

NOW = datetime(2025, 1, 15, 11, 30, tzinfo=UTC)
MARKET = MarketDeclaration(name="mine", assets=("BTC", "ETH"), actions=("BUY", "SELL", "HOLD"))
TOKENS = RoleTokens("r" * 32, "v" * 32, "o" * 32)
AGENT, READER, TRACKER = ({"Authorization": "Bearer " + letter * 32} for letter in "rvo")
CANARY = "CANARY-7f3a"


def body(**more: Any) -> dict[str, Any]:
    assets = [
        {"asset": "BTC", "start_price": 100.5, "end_price": "101.25", "change": 0.0075, "news_ids": ["n1"]},
        {"asset": "ETH", "start_price": 10, "end_price": 9, "sentiment": -0.25, "volume": 12.5},
    ]
    questions = [{"question_id": "q1", "question": "Will it rain?", "outcome": True, "final_probability": 0.75}]
    return {"window_id": "2025-01-15T10:00", "currency": "USD", "assets": assets, "questions": questions} | more


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path / 'o.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres").new()
    engine = connect(url=url)
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def server(engine: Engine) -> Iterator[Running]:
    with (
        TrajectoryRecorder(engine, lambda: NOW, windows=MARKET.windows, environment={}) as recorder,
        Running(trajectory_api(recorder, AccessPolicy(TOKENS), MARKET)) as running,
    ):
        yield running


@pytest.fixture
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=TRACKER, timeout=30) as client:
        yield client


def rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(MarketOutcome)).scalar_one())


def test_outcomes_are_written_once_and_the_change_is_computed(http: httpx.Client, engine: Engine) -> None:
    first = http.post("/v1/outcomes", json=body(), headers={"Idempotency-Key": "a"})
    assert (first.status_code, first.json()) == (200, {"window_id": "2025-01-15T10:00Z", "written": 3, "again": False})
    assert "Idempotent-Replay" not in first.headers
    for key in ("a", "b", None):
        again = http.post("/v1/outcomes", json=body(), headers={"Idempotency-Key": key} if key else {})
        assert (again.status_code, again.json()["again"]) == (200, True)
        assert again.headers["Idempotent-Replay"] == "true"
    assert rows(engine) == 3
    btc, eth, question = read_outcomes(engine, ["2025-01-15T10:00Z"], "mine")["2025-01-15T10:00Z"].rows
    assert (btc["start_price"], btc["end_price"], btc["currency"]) == (100_500_000_000, 101_250_000_000, "USD")
    assert btc["change"] == pytest.approx(0.75 / 100.5, rel=1e-15)
    assert (eth["change"], eth["volume"], eth["sentiment"]) == (-0.1, 12_500_000_000, -0.25)
    assert (question["outcome"], question["final_probability"], question["question"]) == ("yes", 0.75, "Will it rain?")
    assert not read_outcomes(engine, ["2025-01-15T10:00Z"]), "outcomes of a market are not those of the arena"


def test_other_content_is_refused_and_a_correction_keeps_the_old_rows(http: httpx.Client, engine: Engine) -> None:
    http.post("/v1/outcomes", json=body())
    other = body(questions=[])
    refused = http.post("/v1/outcomes", json=other)
    assert refused.status_code == 409
    assert "PUT" in refused.json()["error"]["message"]
    assert rows(engine) == 3
    without = http.put("/v1/outcomes/2025-01-15T10:00", json=other)
    assert (without.status_code, without.json()["error"]["field"]) == (422, "reason")
    done = http.put("/v1/outcomes/2025-01-15T10:00Z", json=other | {"reason": "the feed was late"})
    assert (done.status_code, done.json()["written"], done.json()["revision"]) == (200, 2, 2)
    again = http.put("/v1/outcomes/2025-01-15T10:00Z", json=other | {"reason": "the feed was late"})
    assert (again.status_code, again.json()["again"]) == (200, True)
    with engine.connect() as connection:
        (kept,) = connection.execute(select(OutcomeRevision.__table__)).mappings().all()
    assert (kept["revision"], kept["reason"], len(kept["rows"])) == (1, "the feed was late", 3)
    assert {row["subject"] for row in kept["rows"]} == {"BTC", "ETH", "q1"}
    assert len(read_outcomes(engine, ["2025-01-15T10:00Z"], "mine")["2025-01-15T10:00Z"].rows) == 2
    nothing = http.put("/v1/outcomes/2025-01-15T09:00Z", json=body(window_id="2025-01-15T09:00Z", reason="x"))
    assert nothing.status_code == 404
    elsewhere = http.put("/v1/outcomes/2025-01-15T09:00Z", json=body(reason="x"))
    assert (elsewhere.status_code, elsewhere.json()["error"]["field"]) == (422, "window_id")


def test_a_stated_change_that_is_wrong_is_reported(http: httpx.Client) -> None:
    wrong = body()
    wrong["assets"][1]["change"] = 0.1
    (note,) = http.post("/v1/outcomes", json=wrong).json()["notes"]
    assert "ETH was stated to change by 0.1, its prices say -0.1" in note


def test_only_the_role_of_outcomes_writes_them_and_nobody_reads_them(http: httpx.Client, engine: Engine) -> None:
    http.post("/v1/outcomes", json=body())
    for headers in (AGENT, READER):
        assert http.post("/v1/outcomes", json=body(), headers=headers).status_code == 403
        assert http.put("/v1/outcomes/2025-01-15T10:00Z", json=body(reason="x"), headers=headers).status_code == 403
        assert http.get("/v1/windows", headers=headers).status_code == 200
    assert http.post("/v1/outcomes", json=body(), headers={"Authorization": "Bearer x"}).status_code == 401
    for headers in (AGENT, READER, TRACKER):
        for path in ("/v1/outcomes", "/v1/outcomes/2025-01-15T10:00Z"):
            assert http.get(path, headers=headers).status_code in (403, 405)
    assert http.get("/v1/trajectories", headers=TRACKER).status_code == 403
    assert http.post("/v1/trajectories", json={"agent_id": "x"}, headers=TRACKER).status_code == 403
    assert "/v1/outcomes" in http.get("/openapi.json", headers=READER).json()["paths"]


def record(engine: Engine, agent: str, pnl: int, window: str = "2025-01-15T10:00Z") -> str:
    with TrajectoryRecorder(engine, lambda: NOW, windows=MARKET.windows, environment={}) as recorder:
        identity = recorder.start_trajectory(agent, window)
        for number in range(5):
            recorder.start_step(identity, {"balance": 10**13})
            recorder.log_llm_call(identity, Call("m", user_prompt=f"BTC is at {number}", response="BUY"))
            recorder.complete_step(identity, ActionTaken("BUY", success=True))
        recorder.end_trajectory(identity, 10**13 + pnl, pnl)
    return identity


def test_windows_are_asked_for_and_the_reward_is_exact(server: Running, engine: Engine, tmp_path: Path) -> None:
    first, second = record(engine, "a", 10**11), record(engine, "b", -(10**10))
    with TrajectoryClient(server.url, tmp_path / "spool", token="o" * 32) as client:
        (before,) = client.windows(hours=24)
        assert before == {
            "window_id": "2025-01-15T10:00Z",
            "closed": True,
            "has_outcomes": False,
            "agents": 2,
            "actions": 10,
            "ready": False,
        }
        answer = client.post_outcomes("2025-01-15T10:00", currency="USD", assets=body()["assets"], market="mine")
        assert answer["written"] == 2
        with pytest.raises(RefusedRecord, match="PUT") as refusal:
            client.post_outcomes("2025-01-15T10:00", currency="USD", assets=[*body()["assets"][:1], asset("ETH", 1, 2)])
        assert refusal.value.reason == "has_outcomes"
        with pytest.raises(RefusedRecord, match="open"):
            client.post_outcomes("2025-01-15T11:00", currency="USD", assets=body()["assets"])
        with pytest.raises(InputError, match="currency"):
            client.post_outcomes("2025-01-15T10:00", currency="EUR", assets=body()["assets"])
        corrected = [asset("BTC", 100, 110), asset("ETH", 3, 2)]
        answer = client.post_outcomes("2025-01-15T10:00", currency="USD", assets=corrected, reason="late")
        assert answer["revision"] == 2
        assert client.windows()[0]["has_outcomes"]
    (group,) = judged.read_groups(engine, ["2025-01-15T10:00Z"], "mine")
    held = (Fraction(10, 100) - Fraction(1, 3)) / 2
    assert computed(group).values == {
        first: float(Fraction(1, 100) - held),
        second: float(Fraction(-1, 1000) - held),
    }


def asset(name: str, start: float, end: float) -> dict[str, Any]:
    return {"asset": name, "start_price": start, "end_price": end}


def test_a_canary_in_imported_outcomes_never_reaches_a_policy(http: httpx.Client, engine: Engine) -> None:
    record(engine, "a", 1), record(engine, "b", 2)
    planted = body(
        assets=[
            {"asset": "BTC", "start_price": 1, "end_price": 77777.777777777, "news_ids": [CANARY]},
            {"asset": "ETH", "start_price": 1, "end_price": 2},
        ],
        questions=[{"question_id": CANARY, "question": CANARY, "outcome": "yes"}],
    )
    assert http.post("/v1/outcomes", json=planted).status_code == 200
    (group,) = judged.read_groups(engine, ["2025-01-15T10:00Z"], "mine")
    assert CANARY in repr(group.outcomes)
    seen = [repr(trajectory) for trajectory in read_windows(engine, ["2025-01-15T10:00Z"], "mine")]
    seen += [json.dumps(to_art(policy_view(item))) for item in read_windows(engine, ["2025-01-15T10:00Z"], "mine")]
    seen += [repr(read_groups(engine, ["2025-01-15T10:00Z"], 1, 1, "mine"))]
    seen += [repr(contender.view.played) for contender in group.contenders]
    for path in ("/v1/trajectories", "/v1/windows?hours=24"):
        seen.append(http.get(path, headers=AGENT).text)
    identity = group.contenders[0].trajectory_id
    seen.append(http.get(f"/v1/trajectories/{identity}", headers=AGENT).text)
    assert len(seen) == 10
    for text in seen:
        assert CANARY not in text
        assert "77777777777777" not in text
        assert "77777.77" not in text


def test_markets_in_one_database_do_not_mix(engine: Engine) -> None:
    other = MarketDeclaration(name="other", assets=("BTC",))
    record(engine, "a", 1)
    with TrajectoryRecorder(engine, lambda: NOW, windows=other.windows, environment={}) as recorder:
        recorder.end_trajectory(recorder.start_trajectory("z", "2025-01-15T10:00"), 5, 1)
        prices = [asset("BTC", 1, 2)]
        recorder.post_outcomes({"window_id": "2025-01-15T10:00", "currency": "USD", "assets": prices}, other)
    assert [item.agent_id for item in read_windows(engine, ["2025-01-15T10:00Z"], "other")] == ["z"]
    assert [item.agent_id for item in read_windows(engine, ["2025-01-15T10:00Z"], "mine")] == ["a"]
    assert not read_outcomes(engine, ["2025-01-15T10:00Z"], "mine")
    assert read_outcomes(engine, ["2025-01-15T10:00Z"], "other")


def test_late_windows_are_the_clients_own_hours(http: httpx.Client, engine: Engine) -> None:
    record(engine, "a", 1)
    assert http.get("/v1/windows?hours=0").status_code == 422
    assert len(http.get("/v1/windows?hours=0.5").json()["windows"]) == 1, "it began at NOW"


def changed(index: int = 0, **more: Any) -> dict[str, Any]:
    """Give the body with other values of one asset."""
    other = body()
    other["assets"][index] |= more
    return other


def asked(**more: Any) -> dict[str, Any]:
    other = body()
    other["questions"][0] |= more
    return other


BAD: dict[str, tuple[Any, int, str]] = {
    "no object": ([1, 2], 422, "body"),
    "nothing": ({}, 422, "window_id"),
    "half a JSON": (b'{"window_id": "2025-01-15T10:00", "assets": [', 422, "body"),
    "NaN written as JSON": (json.dumps(changed(end_price=float("nan"))).encode(), 422, "body"),
    "a price of NaN": (changed(end_price="NaN"), 422, "assets.0.end_price"),
    "an infinite price": (changed(start_price="Infinity"), 422, "assets.0.start_price"),
    "a negative price": (changed(start_price=-1), 422, "assets.0.start_price"),
    "a price of zero": (changed(end_price=0), 422, "assets.0.end_price"),
    "a price too small to write": (changed(end_price="1e-12"), 422, "assets.0.end_price"),
    "a price beyond 64 bits": (changed(end_price=1e20), 422, "assets.0.end_price"),
    "a text for a price": (changed(end_price="a lot"), 422, "assets.0.end_price"),
    "true for a price": (changed(end_price=True), 422, "assets.0.end_price"),
    "no price": (changed(end_price=None), 422, "assets.0.end_price"),
    "a list for a price": (changed(end_price=[1]), 422, "assets.0.end_price"),
    "an asset without a name": (changed(asset=""), 422, "assets.0.asset"),
    "an asset twice": (changed(1, asset="BTC"), 422, "assets"),
    "an asset that is not declared": (changed(1, asset="DOGE"), 422, "assets"),
    "a declared asset missing": (body(assets=body()["assets"][:1]), 422, "assets"),
    "assets as an object": (body(assets={"BTC": 1}), 422, "assets"),
    "an asset as a text": (body(assets=["BTC", "ETH"]), 422, "assets.0"),
    "a field of another name": (changed(endPrice=5), 422, "assets.0.endPrice"),
    "a body's field of another name": (body(windowId="x"), 422, "windowId"),
    "nothing of the window": (body(assets=[], questions=[]), 422, "assets"),
    "another currency": (body(currency="EUR"), 422, "currency"),
    "no currency": (body(currency=None), 422, "currency"),
    "a currency that is a sentence": (body(currency="US dollars"), 422, "currency"),
    "another market": (body(market="other"), 422, "market"),
    "an open window": (body(window_id="2025-01-15T11:00"), 409, ""),
    "a window to come": (body(window_id="2099-01-01T00:00Z"), 409, ""),
    "another zone": (body(window_id="2025-01-15T10:00+02:00"), 422, "window_id"),
    "half an hour": (body(window_id="2025-01-15T10:30"), 422, "window_id"),
    "a day that is none": (body(window_id="2025-02-30T10:00"), 422, "window_id"),
    "a number for a window": (body(window_id=1736935200), 422, "window_id"),
    "news as a text": (changed(news_ids="n1"), 422, "assets.0.news_ids"),
    "news as numbers": (changed(news_ids=[1]), 422, "assets.0.news_ids"),
    "a sentiment that is none": (changed(sentiment="good"), 422, "assets.0.sentiment"),
    "a negative volume": (changed(volume=-1), 422, "assets.0.volume"),
    "an outcome of maybe": (asked(outcome="maybe"), 422, "questions.0.outcome"),
    "a probability above 1": (asked(final_probability=1.5), 422, "questions.0.final_probability"),
    "a question without an answer": (asked(outcome=None, final_probability=None), 422, "questions.0.outcome"),
    "a question without an id": (asked(question_id=None), 422, "questions.0.question_id"),
    "a question twice": (body(questions=body()["questions"] * 2), 422, "questions"),
    "a reason with POST": (body(reason="x"), 422, "reason"),
    "a body beyond the limit": (body(questions=[asked()["questions"][0] | {"question": "x" * (9 << 20)}]), 413, ""),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, Engine]]:
    engine = connect(url=f"sqlite:///{tmp_path_factory.mktemp('bad') / 'b.db'}")
    upgrade(engine)
    with (
        TrajectoryRecorder(engine, lambda: NOW, windows=MARKET.windows, environment={}) as recorder,
        Running(trajectory_api(recorder, AccessPolicy(TOKENS), MARKET)) as running,
        httpx.Client(base_url=running.url, headers=TRACKER, timeout=30) as client,
    ):
        good = client.post("/v1/outcomes", json=body(window_id="2025-01-15T09:00"))
        assert good.status_code == 200
        yield client, engine
    engine.dispose()


@pytest.mark.parametrize("name", BAD)
def test_bad_outcomes_are_refused_by_field_and_nothing_is_written(name: str, bad: tuple[httpx.Client, Engine]) -> None:
    client, engine = bad
    payload, status, field = BAD[name]
    content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    before = rows(engine)
    answer = client.post("/v1/outcomes", content=content, headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error.get("field", "")) == (status, field), error
    assert "expected" in error["message"]
    assert rows(engine) == before == 3
