"""Serving an alias: the new version beside the old one, one reference swapped, and every answer of one version."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from models_kit import linear_policy, open_registry
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from swapping import check_history, swap_under_load

from playproof.cli.app import main
from playproof.errors import InputError, PlayproofError
from playproof.models.deployments import list_deployments
from playproof.models.registry import PromotionGround, Registry
from playproof.serve.following import AliasFollower, follow_alias
from playproof.serve.serving import ServedApp, prepare, serving
from playproof.serve.versions import ARM_HEADER, UNIT_HEADER, VERSION_HEADER, ServedVersion, VersionSwitch, stamp_of
from playproof.stats.assignment import assign_arm

PRACTICE = PromotionGround("practice")


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("policies")
    return [linear_policy(root / f"p{number}", 2 + number, number, head=1) for number in range(4)]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, home: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{home / 'playproof.db'}"
    return str(request.getfixturevalue("postgres").new())


@pytest.fixture
def tables(url: str, home: Path, policies: list[Path]) -> Iterator[tuple[Engine, Registry]]:
    engine, registry = open_registry(url, home)
    for path in policies:
        registry.add(path, "m")
    for version in (1, 2, 3, 4):
        promote(registry, version)
    yield engine, registry
    engine.dispose()


def promote(registry: Registry, version: int) -> None:
    registry.promote("m", version, "try-load", who="me", why="x", ground=PRACTICE)


def load(path: Path) -> ServedApp:
    return prepare(str(path))


def ask(url: str, headers: dict[str, str] | None = None) -> httpx.Response:
    with httpx.Client(base_url=url) as client:
        width = len(client.get("/card").json()["features"])
        return client.post("/act", json={"rows": [[0.0] * width]}, headers=headers)


def test_what_an_alias_stands_for_is_served_and_followed(tables: tuple[Engine, Registry]) -> None:
    engine, registry = tables
    said: list[str] = []
    served, follower = follow_alias(registry, "m", "try-load", load, said.append)
    assert served.kind == "act"
    with serving(served) as url:
        first = ask(url)
        assert first.json()["actions"][0][1] == 5
        assert (first.json()["version"], first.json()["generation"]) == ("m:4", 4)
        assert first.headers[VERSION_HEADER] == "m:4"
        assert not follower.look()
        promote(registry, 2)
        assert follower.look()
        second = ask(url).json()
        assert (second["actions"][0][1], second["version"], second["generation"]) == (3, "m:2", 5)
        promote(registry, 2)  # the same version again is a new generation of it
        assert follower.look()
        assert ask(url).json()["generation"] == 6
        for _ in range(4):
            registry.rollback("m", "try-load", who="me", why="x")
        assert follower.look()
        assert ask(url).json()["version"] == "m:1"
        registry.rollback("m", "try-load", who="me", why="x")
        assert follower.look()
        with httpx.Client(base_url=url) as client:
            empty = client.get("/healthz")
        assert empty.status_code == 503
        assert "taken back" in empty.json()["error"]["message"]
        promote(registry, 3)
        assert follower.look()
        assert ask(url).json()["version"] == "m:3"
    rows = list_deployments(engine, "m")
    assert [(row.version, row.generation) for row in rows] == [(4, 4), (2, 5), (2, 6), (1, 10), (3, 12)]
    assert all(row.ended_at is not None for row in rows)
    assert any("generation 5" in text for text in said)


def test_a_version_that_cannot_be_loaded_leaves_the_old_one(tables: tuple[Engine, Registry]) -> None:
    engine, registry = tables
    said: list[str] = []
    damaged = registry.folder / registry.version("m", 1).checkpoint / "weights.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    served, follower = follow_alias(registry, "m", "try-load", load, said.append)
    with serving(served) as url:
        promote(registry, 1)
        assert not follower.look()
        assert "weights.safetensors" in said[-1]
        assert "m:4 goes on" in said[-1]
        assert not follower.look()
        assert ask(url).json()["version"] == "m:4"
        assert "m:1 cannot be served" in str(list_deployments(engine, "m")[-1].problem)
        promote(registry, 2)
        assert follower.look()
        assert ask(url).json()["version"] == "m:2"
    promote(registry, 1)
    with pytest.raises(PlayproofError, match=r"weights\.safetensors"):
        AliasFollower(registry, "m", "try-load", load)


def test_a_canary_that_is_not_answered_keeps_the_new_version_out(tables: tuple[Engine, Registry]) -> None:
    _, registry = tables
    closed: list[Path] = []
    bad = registry.version("m", 1).checkpoint

    def wary(path: Path) -> ServedApp:
        served = load(path)
        if path.name != bad:
            return served

        def canary() -> None:
            raise InputError("expected an action, found none")

        return ServedApp(served.name, served.kind, served.app, lambda: closed.append(path), canary)

    follower = AliasFollower(registry, "m", "try-load", wary)
    promote(registry, 1)
    assert not follower.look()
    assert len(closed) == 1
    assert follower.switch.current is not None
    assert follower.switch.current.label == "m:4"
    follower.close()


def test_a_database_that_is_away_changes_nothing(
    tables: tuple[Engine, Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, registry = tables
    follower = AliasFollower(registry, "m", "try-load", load)

    def away(*_: Any) -> Any:
        raise OperationalError("SELECT", {}, Exception("gone"))

    with monkeypatch.context() as patch:
        patch.setattr(registry, "pointer", away)
        assert not follower.look()
    assert "gone" in str(follower.problem)
    assert follower.switch.current is not None
    promote(registry, 1)
    assert follower.look()
    assert follower.problem is None
    follower.close()


def test_running_requests_end_on_the_version_that_they_met() -> None:
    """Requests that began before a swap are held by events, not by time."""
    closed: list[str] = []

    def version(label: str, gate: asyncio.Event | None = None) -> ServedVersion:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if gate is not None:
                await gate.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": json.dumps(stamp_of(scope)).encode()})

        return ServedVersion(app, label, 1, lambda: closed.append(label))

    async def scenario() -> list[str]:
        gate = asyncio.Event()
        old = version("old", gate)
        switch = VersionSwitch(old)
        transport = httpx.ASGITransport(app=switch)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            slow = asyncio.create_task(client.get("/"))
            while not old.active:
                await asyncio.sleep(0)
            assert switch.swap(version("new")) is old
            fast = await client.get("/")
            assert closed == []
            gate.set()
            return [(await slow).json()["version"], fast.json()["version"]]

    assert asyncio.run(scenario()) == ["old", "new"]
    for thread in threading.enumerate():
        if thread.name == "playproof-retire":
            thread.join()
    assert closed == ["old"]


def test_units_keep_their_arm(policies: list[Path]) -> None:
    arms = [ServedVersion(load(path).app, f"m:{number}") for number, path in enumerate(policies[:2], start=1)]
    switch = VersionSwitch(arms[0], arms[1], "exp", 0.3)
    with serving(ServedApp("m", "act", switch)) as url:
        for unit in ("w1", "w2", "w3", "w4", "w5", "w6"):
            expected = assign_arm("exp", unit, 0.3)
            for _ in range(2):
                answer = ask(url, {UNIT_HEADER: unit})
                assert answer.headers[ARM_HEADER] == expected
                assert answer.json()["actions"][0][1] == (3 if expected == "b" else 2)
        nameless = ask(url)
        assert ARM_HEADER not in nameless.headers
        assert nameless.json()["version"] == "m:1"
        assert nameless.json()["arm"] is None


def test_a_chat_names_its_unit_by_the_user() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async def scenario() -> None:
        switch = VersionSwitch(ServedVersion(app, "m:1"), ServedVersion(app, "m:2"), "exp")
        transport = httpx.ASGITransport(app=switch)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            for user in ("agent-1", "agent-2", "agent-3"):
                answer = await client.post("/v1/chat/completions", json={"user": user})
                assert answer.json() == {"user": user}
                assert answer.headers[ARM_HEADER] == assign_arm("exp", user)
            assert ARM_HEADER not in (await client.post("/x", content=b"\xff")).headers

    asyncio.run(scenario())


def test_assignment_is_sticky_and_of_its_share() -> None:
    units = [f"w{number}" for number in range(20_000)]
    share = sum(assign_arm("e", unit, 0.25) == "b" for unit in units) / len(units)
    assert abs(share - 0.25) < 0.02
    assert [assign_arm("e", unit) for unit in units] == [assign_arm("e", unit) for unit in units]
    both = sum(assign_arm("e", unit) == assign_arm("f", unit) for unit in units) / len(units)
    assert abs(both - 0.5) < 0.02


def test_promotions_under_load_lose_and_mix_nothing(tables: tuple[Engine, Registry], url: str, home: Path) -> None:
    _, registry = tables
    report = swap_under_load(registry, url, home, processes=3, changes=30, clients=3)
    check_history(report, registry)
    assert len(report.made) == 30
    assert not report.mixed
    assert not report.lost
    assert report.answers > 0


def test_the_command_serves_an_alias(home: Path, policies: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "add", str(policies[0]), "--name", "m"]) == 0
    assert main(["serve", "m@practice", "--port", "0", "--seconds", "0.2"]) == 1
    assert "alias" in capsys.readouterr().err
    assert main(["models", "promote", "m", "1", "--to", "practice", "--why", "x"]) == 0
    assert main(["serve", "m@practice", "--port", "0", "--seconds", "0.2"]) == 0
    assert "serving m@practice at" in capsys.readouterr().err
    assert main(["serve", "m:1", "--port", "0", "--seconds", "0.2"]) == 0
