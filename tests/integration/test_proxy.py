"""The recording proxy: the official client notices nothing, and what was said is stored."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from test_trajectories import windows
from test_trajectory_http import Running

from playproof.cli.app import main
from playproof.net.access import AccessPolicy, RoleTokens
from playproof.record.trajectories.proxy import Proxy, Upstream, proxy_role
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.store.db import opened, ready
from playproof.store.db.trajectories import StoredTrajectory, list_trajectories, read_trajectory

WORDS = ("Hello", " there", "!")
SECRET = "sk-upstream-0123456789abcdef"
NOW = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


def logprob(number: int) -> dict[str, Any]:
    return {"token": f"token_id:{number}", "logprob": -0.5 * number, "bytes": None, "top_logprobs": []}


class Model:
    """A small upstream that answers as the real API does."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, Any], dict[str, str]]] = []
        routes = [Route("/v1/chat/completions", self.chat, methods=["POST"]), Route("/v1/models", self.models)]
        self.app = Starlette(routes=routes)

    async def models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}]})

    async def chat(self, request: Request) -> Response:
        asked = await request.json()
        self.seen.append((asked, dict(request.headers)))
        wanted = asked["messages"][-1]["content"]
        if wanted == "fail":
            error = {"error": {"message": "slow down", "type": "rate_limit", "code": "rate_limit_exceeded"}}
            return JSONResponse(error, 429, headers={"retry-after-ms": "1"})
        if asked.get("stream"):
            return StreamingResponse(self.stream(asked, wanted), media_type="text/event-stream")
        message = {"role": "assistant", "content": "".join(WORDS), "reasoning_content": "because"}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "token_ids": [7, 8, 9]}
        if asked.get("logprobs"):
            choice["logprobs"] = {"content": [logprob(n) for n in (7, 8, 9)]}
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        payload = self.frame("chat.completion") | {"choices": [choice], "usage": usage, "prompt_token_ids": [1, 2]}
        if wanted == "zip":
            packed = gzip.compress(json.dumps(payload).encode())
            return Response(packed, headers={"content-encoding": "gzip"}, media_type="application/json")
        return JSONResponse(payload)

    async def stream(self, asked: dict[str, Any], wanted: str) -> Any:
        for number, word in enumerate(WORDS):
            choice: dict[str, Any] = {"index": 0, "delta": {"content": word}, "finish_reason": None}
            if asked.get("logprobs"):
                choice["logprobs"] = {"content": [logprob(number)]}
            yield f"data: {json.dumps(self.frame('chat.completion.chunk') | {'choices': [choice]})}\n\n"
            await asyncio.sleep(0.02)
            if wanted == "break":
                raise ConnectionError("the upstream broke off")
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        yield f"data: {json.dumps(self.frame('chat.completion.chunk') | {'choices': [last]})}\n\n"
        yield "data: [DONE]\n\n"

    @staticmethod
    def frame(kind: str) -> dict[str, Any]:
        return {"id": "x", "object": kind, "created": 1, "model": "m-2025", "system_fingerprint": "fp_1"}


class Setting:
    """A model, a proxy before it, and the recorder behind that."""

    def __init__(self, folder: Path, **upstream: Any) -> None:
        self.now = NOW
        self.model = Model()
        self.recorder = TrajectoryRecorder(
            f"sqlite:///{folder / 'proxy.db'}",
            lambda: self.now,
            windows=windows(),
            environment={"UPSTREAM_KEY": SECRET},
        )
        self.upstream = Running(self.model.app)
        self.proxy = Proxy(self.recorder, Upstream(f"{self.upstream.url}/v1", **upstream))
        self.running = Running(self.proxy.app(), stopped=self.proxy.close)

    def client(self, agent: str = "a1", **more: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.running.url}/agents/{agent}/v1", api_key=SECRET, max_retries=0, **more)

    def stored(self, calls: int, agent: str = "a1") -> list[StoredTrajectory]:
        """Wait until some calls are stored; give the agent's trajectories, oldest first."""
        end = time.monotonic() + 20
        while time.monotonic() < end and self.proxy.counts.stored < calls:
            time.sleep(0.01)
        assert self.proxy.counts.last_problem is None
        trajectories = list_trajectories(self.recorder.engine, agent_id=agent)
        return [read_trajectory(self.recorder.engine, item.trajectory_id) for item in reversed(trajectories)]

    def close(self) -> None:
        self.running.stop()
        self.upstream.stop()
        self.recorder.close()


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    made.close()


def ask(client: openai.OpenAI, words: str = "hi", **more: Any) -> Any:
    messages = [{"role": "system", "content": "You trade."}, {"role": "user", "content": words}]
    return client.chat.completions.create(model="m", messages=messages, **more)  # type: ignore[call-overload]


def test_a_chat_passes_and_is_stored(setting: Setting) -> None:
    with setting.client() as client:
        answer = ask(client, temperature=0.5, max_tokens=20, logprobs=True)
    assert answer.choices[0].message.content == "Hello there!"
    (result,) = setting.stored(1)
    assert (result.agent_id, result.window_id, result.final_status) == ("a1", "2025-01-15T10:00Z", "running")
    (call,) = result.calls
    assert call.messages == [{"role": "system", "content": "You trade."}, {"role": "user", "content": "hi"}]
    assert (call.response, call.reasoning, call.model, call.model_version) == (
        "Hello there!",
        "because",
        "m-2025",
        "fp_1",
    )
    assert (call.token_ids, call.logprobs, call.prompt_token_ids) == ([7, 8, 9], [-3.5, -4.0, -4.5], [1, 2])
    assert (call.prompt_tokens, call.completion_tokens, call.temperature, call.max_tokens) == (11, 3, 0.5, 20)
    assert call.trainable
    assert result.steps[0].action_type == "answer"
    assert setting.model.seen[0][1]["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in repr(result)


def test_a_stream_comes_piece_by_piece_and_is_stored_whole(setting: Setting) -> None:
    with setting.client() as client:
        times, words = [], []
        for chunk in ask(client, stream=True, logprobs=True):
            times.append(time.monotonic())
            words.append(chunk.choices[0].delta.content or "")
    assert "".join(words) == "Hello there!"
    assert times[-1] - times[0] > 0.03
    (result,) = setting.stored(1)
    assert result.calls[0].response == "Hello there!"
    assert result.calls[0].token_ids == [0, 1, 2]
    assert result.calls[0].logprobs == [0.0, -0.5, -1.0]


@pytest.mark.parametrize("streams", [40, pytest.param(1_000, marks=pytest.mark.torture)])
def test_streams_that_a_client_leaves_at_their_end_are_whole(setting: Setting, streams: int) -> None:
    """The official client closes the connection as soon as it reads [DONE]; others leave at the finish reason."""
    with setting.client() as client:
        for number in range(streams):
            answer = ask(client, stream=True)
            for chunk in answer:
                if number % 2 and chunk.choices[0].finish_reason:
                    break
            answer.close()
    (result,) = setting.stored(streams)
    assert [call.error for call in result.calls] == [None] * streams
    assert all(step.action_success for step in result.steps)


def test_a_stream_that_is_left_in_the_middle_is_not_whole(setting: Setting) -> None:
    with setting.client() as client:
        answer = ask(client, stream=True)
        next(iter(answer))
        answer.close()
    (result,) = setting.stored(1)
    assert "not read to its end" in (result.calls[0].error or "")


def test_errors_pass_and_are_stored_as_errors(setting: Setting) -> None:
    with setting.client() as client:
        with pytest.raises(openai.RateLimitError, match="slow down") as limited:
            ask(client, "fail")
        assert limited.value.response.headers["retry-after-ms"] == "1"
        with pytest.raises(openai.APIError):
            list(ask(client, "break", stream=True))
        assert [model.id for model in client.models.list()] == ["m"]
    (result,) = setting.stored(2)
    assert "HTTP 429" in (result.calls[0].error or "")
    assert result.calls[1].response == "Hello"
    assert result.calls[1].error
    assert [step.action_success for step in result.steps] == [False, False]


def test_an_upstream_that_is_away_is_told(setting: Setting) -> None:
    setting.upstream.stop()
    with setting.client() as client, pytest.raises(openai.APIStatusError) as payload:
        ask(client)
    assert payload.value.status_code == 502
    (result,) = setting.stored(1)
    assert result.calls[0].error


def test_packed_answers_are_unpacked(setting: Setting) -> None:
    with setting.client() as client:
        assert ask(client, "zip").choices[0].message.content == "Hello there!"


def test_the_official_async_client_passes(setting: Setting) -> None:
    async def talk() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{setting.running.url}/agents/many/v1", api_key="none") as client:
            asked = [
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": str(n)}])
                for n in range(10)
            ]
            return [str(item.choices[0].message.content) for item in await asyncio.gather(*asked)]

    assert asyncio.run(talk()) == ["Hello there!"] * 10
    (result,) = setting.stored(10, "many")
    assert [step.number for step in result.steps] == list(range(10))
    assert {call.prompt[0]["content"] for call in result.calls} == {str(n) for n in range(10)}


def test_a_new_hour_is_a_new_trajectory(setting: Setting) -> None:
    with setting.client() as client:
        ask(client)
        setting.stored(1)
        setting.now += timedelta(hours=1)
        ask(client)
    first, second = setting.stored(2)
    assert (first.window_id, first.final_status) == ("2025-01-15T10:00Z", "completed")
    assert (second.window_id, second.final_status) == ("2025-01-15T11:00Z", "running")


def test_a_call_joins_the_agents_own_trajectory(setting: Setting) -> None:
    identity = setting.recorder.start_trajectory("own")
    setting.recorder.start_step(identity, {})
    with setting.client("own", default_headers={"X-Playproof-Trajectory": identity}) as client:
        ask(client)
    (result,) = setting.stored(1, "own")
    assert [call.step for call in result.calls] == [0]
    assert "x-playproof-trajectory" not in setting.model.seen[0][1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_joining_call_is_stored_when_its_answer_ends(setting: Setting, stream: bool) -> None:
    for number in range(10):
        identity = setting.recorder.start_trajectory(f"own-{number}")
        setting.recorder.start_step(identity, {})
        with setting.client("own", default_headers={"X-Playproof-Trajectory": identity}) as client:
            answer = ask(client, stream=stream)
            if stream:
                list(answer)
        setting.recorder.end_trajectory(identity)
        stored = read_trajectory(setting.recorder.engine, identity)
        assert [(call.step, call.response) for call in stored.calls] == [(0, "Hello there!")]
    assert setting.proxy.counts.not_stored == 0


def test_a_record_that_fails_does_not_break_the_agent(setting: Setting) -> None:
    with setting.client(default_headers={"X-Playproof-Trajectory": "nobody"}) as client:
        assert ask(client).choices[0].message.content == "Hello there!"
    end = time.monotonic() + 10
    while not setting.proxy.counts.not_stored and time.monotonic() < end:
        time.sleep(0.01)
    assert "nobody" in (setting.proxy.counts.last_problem or "")


def test_keys_and_logprobs_can_be_the_proxys_own(tmp_path: Path) -> None:
    setting = Setting(tmp_path, key="the-real-key", ask_logprobs=True)
    with setting.client() as client:
        ask(client)
    (result,) = setting.stored(1)
    assert result.calls[0].trainable
    asked, headers = setting.model.seen[0]
    assert asked["logprobs"] is True
    assert headers["authorization"] == "Bearer the-real-key"
    setting.close()


def test_roles_and_routes_of_the_proxy(setting: Setting) -> None:
    door = AccessPolicy(RoleTokens("t" * 32, "v" * 32), roles=proxy_role)
    with Running(setting.proxy.app(door)) as closed:
        assert httpx.post(f"{closed.url}/v1/chat/completions", json={}).status_code == 401
        reader = {"Authorization": "Bearer " + "v" * 32}
        assert httpx.post(f"{closed.url}/v1/chat/completions", json={}, headers=reader).status_code == 403
        writer = {"Authorization": "Bearer " + "t" * 32}
        assert httpx.get(f"{closed.url}/other", headers=writer).status_code == 403
        assert httpx.get(f"{closed.url}/healthz").json()["forwarded"] == 0


class Noting:
    """An upstream that notes every path and key that reaches it, and redirects where it is asked to."""

    def __init__(self) -> None:
        self.paths: list[tuple[str, str, str]] = []
        self.rerouting: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.paths.append((scope["method"], scope["raw_path"].decode(), headers.get("authorization", "")))
        self.rerouting |= {"x-original-url", "x-http-method-override", "cookie"} & set(headers)
        moved = b"move=1" in scope["query_string"]
        answer = Response(status_code=307, headers={"location": "/admin"}) if moved else JSONResponse({"data": []})
        await answer(scope, receive, send)


ATTACKS = [
    f"{head}{middle}{tail}"
    for head in ("/agents/a/v1/", "/v1/", "/v1/models/", "/agents/a/v1/chat/completions/")
    for middle in (
        *("../../admin", "%2e%2e/%2e%2e/admin", "..%2f..%2fadmin", "%2e%2e%2f%2e%2e%2fadmin", ".%2e/.%2E/admin"),
        *("%252e%252e/%252e%252e/admin", "..%252f..%252fadmin", "%25252e%25252e/admin", "..\\\\admin", "..%5cadmin"),
        *("./admin", "%2e/admin", "..;/admin", "x/../../../admin", "//admin", "/admin", "%2fadmin", "admin"),
        *(
            "http://evil.example/admin",
            "http:%2f%2fevil.example",
            "@evil.example/",
            "..%00/admin",
            "%c0%ae%c0%ae/admin",
        ),
        *("models%3f/../admin", "a%23b", "..%ef%bc%8fadmin", "\u2025/admin".encode().decode("latin-1"), "files/1/2"),
    )
    for tail in ("", "/", "?x=1")
]


def test_no_path_beside_the_routes_reaches_the_upstream(setting: Setting) -> None:
    noting = Noting()
    with Running(noting) as upstream:
        proxy = Proxy(setting.recorder, Upstream(f"{upstream.url}/v1", key="the-real-key"))
        with Running(proxy.app(), stopped=proxy.close) as running:
            address = running.url.removeprefix("http://")
            headers = {"X-Original-URL": "/admin", "X-HTTP-Method-Override": "DELETE", "Cookie": "a=b"}
            for method in ("GET", "POST", "DELETE"):
                for path in ATTACKS:
                    asking = http.client.HTTPConnection(address, timeout=10)
                    asking._encode_request = lambda text: text.encode("latin-1")  # type: ignore[attr-defined]
                    asking._validate_path = lambda _: None  # type: ignore[attr-defined]
                    asking.request(method, path, headers=headers)
                    assert asking.getresponse().status in (307, 400, 403, 404, 200), path
                    asking.close()
            # GET /v1/models/admin names a model, whatever it is called.
            assert {path for _, path, _ in noting.paths} <= {"/v1/models/admin"}, noting.paths
            noting.paths.clear()
            with httpx.Client(base_url=running.url, headers=headers) as client:
                assert client.get("/v1/models/Qwen%2FQwen3-0.6B").status_code == 200
                assert client.get("/agents/a/v1/models").status_code == 200
                assert client.post("/agents/a/v1/embeddings", json={}).status_code == 200
                moved = client.get("/v1/models?move=1")
                assert (moved.status_code, moved.headers.get("location")) == (502, None)
    assert not noting.rerouting
    assert noting.paths == [
        ("GET", "/v1/models/Qwen/Qwen3-0.6B", "Bearer the-real-key"),
        ("GET", "/v1/models", "Bearer the-real-key"),
        ("POST", "/v1/embeddings", "Bearer the-real-key"),
        ("GET", "/v1/models", "Bearer the-real-key"),
    ]


def test_the_proxy_adds_little(setting: Setting) -> None:
    """Compare calls through the proxy with calls past it, in turns; the bench has the strict number."""
    direct, through = [], []
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 2000}]}
    urls = (f"{setting.upstream.url}/v1/chat/completions", f"{setting.running.url}/agents/fast/v1/chat/completions")
    with httpx.Client() as client:
        for _ in range(60):
            for url, spent in zip(urls, (direct, through), strict=True):
                began = time.perf_counter()
                assert client.post(url, json=body).status_code == 200
                spent.append(time.perf_counter() - began)
    assert statistics.median(through) - statistics.median(direct) < 0.05


def test_the_command_forwards(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert main(["arena", "trajectories", "proxy", "--port", "0"]) == 1
    assert "--upstream" in capsys.readouterr().err
    assert (
        main(
            ["arena", "trajectories", "proxy", "--port", "0", "--upstream", "http://127.0.0.1:1/v1", "--seconds", "0.2"]
        )
        == 0
    )
    assert "/agents/NAME/v1" in capsys.readouterr().err
    with opened(home) as engine:
        assert list_trajectories(ready(engine)) == ()
