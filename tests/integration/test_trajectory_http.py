"""The recorder over HTTP: stored once, refused by words, and a client that neither waits nor breaks."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi.routing import APIRoute
from sqlalchemy import Engine, func, select
from test_trajectories import call, windows

from playproof.cli.app import main
from playproof.errors import ConfigError
from playproof.net.access import AccessPolicy, ClientLimits, RoleTokens, check_address, read_tokens
from playproof.net.listening import bind
from playproof.record.trajectories.client import TrajectoryClient
from playproof.record.trajectories.facts import ActionTaken
from playproof.record.trajectories.http import forget_requests, trajectory_api
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.record.trajectories.spool import Spool
from playproof.store.db import Request, StepRow, connect, upgrade
from playproof.store.db.trajectories import read_trajectory

TOKENS = RoleTokens("r" * 32, "v" * 32)
WRITER, READER = {"Authorization": "Bearer " + "r" * 32}, {"Authorization": "Bearer " + "v" * 32}


class Running:
    """An application on a free port, in a thread."""

    def __init__(self, app: Any, port: int = 0, stopped: Any = None) -> None:
        self.socket = bind("127.0.0.1", port)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve(stopped)), daemon=True)
        self.thread.start()
        end = time.monotonic() + 30
        while not self.server.started and time.monotonic() < end:
            time.sleep(0.01)

    async def _serve(self, stopped: Any) -> None:
        await self.server.serve(sockets=[self.socket])
        if stopped is not None:
            await stopped()

    def stop(self) -> None:
        self.server.should_exit = True
        self.server.force_exit = True
        self.thread.join(20)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


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


@pytest.fixture(scope="module")
def recorder(engine: Engine) -> Iterator[TrajectoryRecorder]:
    with TrajectoryRecorder(engine, windows=windows(), environment={}) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def server(recorder: TrajectoryRecorder) -> Iterator[Running]:
    with Running(trajectory_api(recorder, AccessPolicy(TOKENS, ClientLimits(bytes=200_000)))) as running:
        yield running


@pytest.fixture
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=WRITER, timeout=30) as client:
        yield client


_keys = itertools.count()


def post(http: httpx.Client, path: str, body: Any, key: str | None = None, **more: Any) -> httpx.Response:
    name = key or f"key-{next(_keys)}-{random.random()}"
    return http.post(f"/v1/trajectories{path}", json=body, headers={"Idempotency-Key": name, **more})


def begin(http: httpx.Client, **more: Any) -> str:
    return str(post(http, "", {"agent_id": "remote", "window_id": "2025-01-15T10:00", **more}).json()["trajectory_id"])


def test_a_trajectory_over_http_is_stored_whole(http: httpx.Client, recorder: TrajectoryRecorder) -> None:
    identity = begin(http, metadata={"from": "http"})
    assert post(http, f"/{identity}/steps", {"state": {"balance": 10**13}}).json()["number"] == 0
    post(http, f"/{identity}/accesses", {"provider": "markets", "data": {"ACME": 1.5}})
    said = post(http, f"/{identity}/calls", {"model": "m", "response": "hold", "token_ids": [1], "logprobs": [-0.5]})
    assert said.json()["call_id"]
    post(http, f"/{identity}/actions", {"action": {"type": "trade", "success": True}, "reward": 1.0})
    assert post(http, f"/{identity}/end", {"final_pnl": -5}).status_code == 200
    trajectory = read_trajectory(recorder.engine, identity)
    assert (trajectory.window_id, trajectory.final_status, trajectory.final_pnl) == (
        "2025-01-15T10:00Z",
        "completed",
        -5,
    )
    assert trajectory.calls[0].trainable
    payload = http.get(f"/v1/trajectories/{identity}").json()
    assert payload["steps"][0]["action_type"] == "trade"
    listed = http.get("/v1/trajectories", params={"agent_id": "remote"}).json()["trajectories"]
    assert identity in [item["trajectory_id"] for item in listed]


def test_a_retried_request_is_stored_once(http: httpx.Client, recorder: TrajectoryRecorder) -> None:
    first = post(http, "", {"agent_id": "again", "window_id": "2025-01-15T10:00Z"}, "same-start")
    again = post(http, "", {"agent_id": "again", "window_id": "2025-01-15T10:00Z"}, "same-start")
    assert first.json() == again.json()
    assert again.headers["Idempotent-Replay"] == "true"
    identity = first.json()["trajectory_id"]
    answers = [post(http, f"/{identity}/steps", {"state": {"n": 1}}, f"step-{identity}") for _ in range(3)]
    assert [answer.json()["number"] for answer in answers] == [0, 0, 0]
    assert len(read_trajectory(recorder.engine, identity).steps) == 1
    other = post(http, f"/{identity}/steps", {"state": {"n": 2}}, f"step-{identity}")
    assert other.status_code == 409
    assert other.json()["error"]["reason"] == "other_body"


def test_retries_at_the_same_time_are_stored_once(server: Running, recorder: TrajectoryRecorder) -> None:
    with httpx.Client(base_url=server.url, headers=WRITER, timeout=30) as http:
        identity = begin(http)
        answers: list[int] = []
        key = f"racing-{identity}"

        def send() -> None:
            answers.append(post(http, f"/{identity}/steps", {"state": {}}, key).status_code)

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [200] * 8
    assert len(read_trajectory(recorder.engine, identity).steps) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/nobody/steps", {"state": {}}, 404, "unknown"),
        ("/{}/actions", {"action": {"type": "hold"}}, 409, "no_step"),
        ("/{}/accesses", {"provider": "x"}, 409, "no_step"),
        ("/{}/steps", {"state": [1]}, 422, "422"),
        ("/{}/calls", {"model": "m", "purpose": "fun"}, 422, "422"),
        ("/{}/calls", {"model": "m", "logprobs": [2.0]}, 422, "422"),
        ("/{}/end", {"final_pnl": 2**70}, 422, "422"),
        ("/{}/end", {"time": "2025-01-01T00:00:00"}, 422, "422"),
        ("", {"agent_id": "../x", "window_id": "2025-01-15T10:00Z"}, 422, "422"),
        ("", {"agent_id": "x", "window_id": "soon"}, 422, "422"),
        ("", [], 422, "422"),
    ],
)
def test_wrong_requests_are_told_in_words(http: httpx.Client, path: str, body: Any, status: int, reason: str) -> None:
    identity = begin(http)
    answer = post(http, path.format(identity), body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["reason"] == reason
    assert "expected" in answer.json()["error"]["message"]


def test_a_second_end_and_a_step_after_it_are_refused(http: httpx.Client) -> None:
    identity = begin(http)
    assert post(http, f"/{identity}/end", {}).status_code == 200
    assert post(http, f"/{identity}/end", {}).json()["error"]["reason"] == "ended"
    assert post(http, f"/{identity}/steps", {}).json()["error"]["reason"] == "ended"


def test_every_route_needs_its_role(server: Running, recorder: TrajectoryRecorder) -> None:
    app = trajectory_api(recorder)._app  # type: ignore[attr-defined]
    routes = [(route.path, method) for route in app.routes if isinstance(route, APIRoute) for method in route.methods]
    assert len(routes) >= 10
    with httpx.Client(base_url=server.url, timeout=30) as http:
        for path, method in routes:
            there = path.format(trajectory_id="x", window_id="x")
            if path == "/healthz":
                assert http.request(method, there).status_code == 200
                continue
            assert http.request(method, there).status_code == 401, path
            assert http.request(method, there, headers={"Authorization": "Bearer nonsense"}).status_code == 401
            status = http.request(method, there, headers=READER).status_code
            assert status == 403 if method in ("POST", "PUT") else status in (200, 404), path
        assert http.delete("/v1/trajectories/x", headers=WRITER).status_code == 403
        assert http.post("/openapi.json", headers=WRITER).status_code == 403
        foreign = {**WRITER, "Origin": "http://evil.example"}
        assert http.post("/v1/trajectories", json={}, headers=foreign).status_code == 403
        assert http.get("/v1/trajectories", headers={**WRITER, "Host": "evil.example"}).status_code == 421


def test_bodies_and_rates_are_limited(http: httpx.Client, server: Running, recorder: TrajectoryRecorder) -> None:
    assert post(http, "", {"agent_id": "big", "metadata": {"x": "y" * 300_000}}).status_code == 413
    pieces = (b"x" * 50_000 for _ in range(10))
    assert http.post("/v1/trajectories", content=pieces).status_code == 413
    with Running(trajectory_api(recorder, AccessPolicy(limits=ClientLimits(rate=0.001, burst=3)))) as slow:
        status_codes = [httpx.get(f"{slow.url}/v1/trajectories?limit=1").status_code for _ in range(5)]
    assert status_codes == [200, 200, 200, 429, 429]


def test_the_api_is_described(http: httpx.Client) -> None:
    payload = http.get("/openapi.json").json()
    assert "/v1/trajectories/{trajectory_id}/calls" in payload["paths"]
    assert "logprobs" in json.dumps(payload["components"]["schemas"]["Call"])


def test_keys_are_forgotten_when_retries_are_over(engine: Engine, http: httpx.Client) -> None:
    begin(http)
    with TrajectoryRecorder(engine, lambda: datetime.now(UTC) + timedelta(days=30), environment={}) as later:
        assert forget_requests(later) > 0
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(Request)) == 0


def test_tokens_are_made_once_and_kept_to_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "access" / "tokens.json"
    made = read_tokens(path)
    assert read_tokens(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod"):
        read_tokens(path)
    with pytest.raises(ConfigError, match="--tokens"):
        check_address("0.0.0.0", RoleTokens())
    check_address("0.0.0.0", made)


def spoken(client: TrajectoryClient, agent: str = "spooled", steps: int = 3) -> str:
    identity = client.start_trajectory(agent, window_id="2025-01-15T10:00Z")
    for number in range(steps):
        client.start_step(identity, {"n": number})
        client.log_provider_access(identity, "markets", {"n": number})
        client.log_llm_call(identity, call())
        client.complete_step(identity, ActionTaken("hold"), 0.5)
    client.end_trajectory(identity, 5, -1)
    return identity


def test_the_client_sends_everything_once(server: Running, recorder: TrajectoryRecorder, tmp_path: Path) -> None:
    with TrajectoryClient(server.url, tmp_path, token=TOKENS.record) as client:
        identity = spoken(client)
        assert client.flush(30)
        assert (client.refused, client.dropped) == (0, 0)
    trajectory = read_trajectory(recorder.engine, identity)
    assert (len(trajectory.steps), len(trajectory.calls), trajectory.final_status, trajectory.final_pnl) == (
        3,
        3,
        "completed",
        -1,
    )


def test_a_server_that_is_away_loses_nothing(recorder: TrajectoryRecorder, tmp_path: Path) -> None:
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    client = TrajectoryClient(f"http://127.0.0.1:{port}", tmp_path)
    spent = []
    identities = []
    for _ in range(20):
        began = time.perf_counter()
        identities.append(spoken(client))
        spent.append((time.perf_counter() - began) / 14)
    assert sorted(spent)[len(spent) // 2] < 0.02
    assert not client.flush(0.1)
    client.close(0)
    again = TrajectoryClient(f"http://127.0.0.1:{port}", tmp_path)
    late = spoken(again)
    with Running(trajectory_api(recorder), port):
        assert again.flush(60)
    again.close()
    for identity in (*identities, late):
        trajectory = read_trajectory(recorder.engine, identity)
        assert (len(trajectory.steps), trajectory.final_status) == (3, "completed")


def test_a_lost_answer_is_sent_again_and_stored_once(recorder: TrajectoryRecorder, tmp_path: Path) -> None:
    """The server stores, but its first answers never arrive."""
    inner = trajectory_api(recorder)
    lost = itertools.count()

    async def losing(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and next(lost) < 3:

            async def swallow(message: Any) -> None:
                if message["type"] == "http.response.body":
                    raise ConnectionError("the answer is lost")

            try:
                await inner(scope, receive, swallow)
            except ConnectionError:
                await send({"type": "http.response.start", "status": 500, "headers": []})
                await send({"type": "http.response.body", "body": b""})
            return
        await inner(scope, receive, send)

    with Running(losing) as running, TrajectoryClient(running.url, tmp_path) as client:
        identity = spoken(client)
        assert client.flush(30)
        assert client.refused == 0
    assert len(read_trajectory(recorder.engine, identity).steps) == 3


def test_a_full_spool_drops_whole_rests_and_counts_them(tmp_path: Path) -> None:
    with bind("127.0.0.1", 0) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    client = TrajectoryClient(url, tmp_path, most=4_000)
    for _ in range(10):
        spoken(client)
    assert client.dropped > 50
    assert client.waiting <= 4_000
    client.close(0)
    lines = [json.loads(line) for line in (tmp_path / "spool.jsonl").read_text().splitlines()]
    assert lines[0]["kind"] == "start"


def test_refusals_are_told_and_do_not_block(server: Running, tmp_path: Path) -> None:
    with TrajectoryClient(server.url, tmp_path, token=TOKENS.record) as client:
        client.start_step("nobody", {})
        client.start_step("nobody", {"x": "y" * 300_000})
        identity = spoken(client)
        assert client.flush(30)
        assert {refusal.status for refusal in client.refusals} == {404, 413}
        assert client.sent == 14
    assert identity


def test_one_process_writes_a_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(ConfigError, match="alone"):
        Spool(tmp_path)
    assert spool.append(b"one")
    assert spool.append(b"two")
    lines, index = spool.peek(1, 100)
    assert lines == [b"one"]
    spool.finish(index)
    spool.close()
    with (tmp_path / "spool.jsonl").open("ab") as file:
        file.write(b"torn")
    again = Spool(tmp_path)
    assert again.peek(10, 1)[0] == [b"two"]
    again.close()


def test_the_command_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arena", "trajectories", "serve", "--port", "0", "--seconds", "0.2"]) == 0
    assert "http://127.0.0.1:" in capsys.readouterr().err
    assert main(["arena", "trajectories", "serve", "--host", "0.0.0.0", "--port", "0"]) == 1
    assert "--tokens" in capsys.readouterr().err


def test_steps_are_never_doubled(engine: Engine) -> None:
    with engine.connect() as connection:
        result = connection.execute(select(StepRow.trajectory_id, StepRow.number)).all()
    assert len(result) == len(set(result))


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


POISON = [deep(300), deep(5_000), str(2**64), str(-(2**70)), r'"\ud800"', r'{"\udfff": 1}', "NaN", "Infinity", "1e999"]


@pytest.mark.parametrize("poison", POISON, ids=lambda text: text[:12])
def test_what_cannot_be_stored_is_refused_in_words_and_alone(http: httpx.Client, poison: str) -> None:
    identity = begin(http)
    headers = {"content-type": "application/json"}
    for path, body in (
        (
            "/v1/trajectories",
            f'{{"agent_id": "remote", "window_id": "2025-01-15T10:00", "metadata": {{"x": {poison}}}}}',
        ),
        (f"/v1/trajectories/{identity}/steps", f'{{"state": {{"x": [{poison}]}}}}'),
        (f"/v1/trajectories/{identity}/end", f'{{"metrics": {{"x": {poison}}}}}'),
    ):
        answer = http.post(path, content=body, headers=headers)
        assert answer.status_code in (400, 422), (path, answer.text)
        assert "expected" in answer.text or "parsing" in answer.text
    if poison == deep(5_000):
        return  # no JSON reader takes it, so that the batch around it cannot be read either
    start = '"kind": "start", "body": {"agent_id": "remote", "window_id": "2025-01-15T10:00", "metadata": {"x": %s}}'
    records = [
        f'{{"key": "{identity}-{number}", {start % text}}}'
        for number, text in enumerate(("1", poison, "2", poison, "3"))
    ]
    batch = http.post("/v1/records", content=f'{{"records": [{", ".join(records)}]}}', headers=headers)
    assert batch.status_code == 200
    assert [answer["status"] for answer in batch.json()["answers"]] == [200, 422, 200, 422, 200]
