"""A recording proxy for the OpenAI API: an agent in any language is recorded by changing its base_url.

    base_url = "http://127.0.0.1:8791/agents/AGENT/v1"

Requests go on to the upstream as they came and answers come back as they came, streams piece by piece, errors too. What
was said is stored beside that, after the answer has gone out, so that the agent waits for nothing: each call is a step
of the agent's trajectory in the running window, with prompt, answer, token ids and log-probabilities where the upstream
gives them. Only the routes of `ROUTES` go on, rebuilt from their parsed segments, so that nobody reaches another path
or host of the upstream with the proxy's key; redirects are not followed. With the header `X-Playproof-Trajectory` a
call joins a trajectory that the agent records itself; it is then stored before its answer ends, so that the agent's
next record, such as the end of the step, comes after it.
Leaves out: being an acknowledgement. A call whose proxy is killed between answer and commit is not stored.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import aiohttp
import orjson
import yarl
from sqlalchemy import Connection, insert, select, update
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from playproof.errors import PlayproofError
from playproof.events import check_id
from playproof.net.access import AccessGuard, AccessPolicy, Role, problem
from playproof.record.trajectories import writes
from playproof.record.trajectories.facts import ActionTaken, Call, End, Json, Start, StepEnd, StepStart
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.store.db import LlmCall, StepRow, Trajectory

TRAJECTORY, AGENT, PURPOSE = "x-playproof-trajectory", "x-playproof-agent", "x-playproof-purpose"
ORIGIN = "proxy"
"""The batch of trajectories that the proxy makes."""
LONGEST_ERROR = 2_000
_HOP = frozenset(
    {"host", "content-length", "connection", "keep-alive", "te", "trailer", "upgrade", "accept-encoding", "origin"}
    | {"proxy-authorization", "proxy-authenticate", "transfer-encoding", TRAJECTORY, AGENT, PURPOSE}
)
_REROUTING = frozenset(
    {"cookie", "forwarded", "x-original-url", "x-rewrite-url", "x-http-method", "x-http-method-override"}
    | {"x-method-override", "x-forwarded-host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-prefix"}
)
"""Headers by which some servers choose another path or method than the request line's."""
SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}"
"""One segment of a path: it holds no percent sign and begins with no dot, so it leads nowhere else in any encoding."""
ROUTES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("POST", re.compile(r"chat/completions|completions|responses|embeddings|moderations")),
    ("GET", re.compile(rf"models|models/{SEGMENT}(?:/{SEGMENT})?|responses/{SEGMENT}")),
    ("POST", re.compile(rf"responses/{SEGMENT}/cancel")),
    ("DELETE", re.compile(rf"responses/{SEGMENT}")),
)
"""What goes on to the upstream: a method and the path below /v1/, decoded once."""
_ANSWER_HOP = _HOP | {"content-encoding"}
_TOKEN_ID = re.compile(r"token_id:(\d+)")

_END = b"data: [DONE]"
"""Ends a stream of chunks."""


@dataclass(frozen=True)
class Upstream:
    """Where requests go on to."""

    url: str
    """The base_url of an OpenAI-compatible API."""
    key: str | None = None
    """Sent instead of the agent's own key, which then need not be one."""
    ask_logprobs: bool = False
    """Ask for log-probabilities also where the agent does not."""
    timeout: float = 600.0


@dataclass
class ProxyCounts:
    """What the proxy has seen."""

    forwarded: int = 0
    stored: int = 0
    not_stored: int = 0
    last_problem: str | None = None


@dataclass
class Proxy:
    """Forward and record."""

    recorder: TrajectoryRecorder
    upstream: Upstream
    clock: Callable[[], float] = time.perf_counter
    counts: ProxyCounts = field(default_factory=ProxyCounts)
    _session: aiohttp.ClientSession | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _known: dict[str, _TrajectoryState] = field(default_factory=dict)
    """By agent; only the writer's thread looks at it, and what it says is checked against the tables."""

    def app(self, door: AccessPolicy | None = None) -> ASGIApp:
        """Make the proxy's application."""
        methods = ["GET", "POST", "DELETE"]
        routes = [
            Route("/agents/{agent}/v1/{path:path}", self._forward, methods=methods),
            Route("/v1/{path:path}", self._forward, methods=methods),
            Route("/healthz", self._health),
        ]
        return AccessGuard(Starlette(routes=routes), door or AccessPolicy(roles=proxy_role))

    async def close(self) -> None:
        """Store what was said last, and let go of the upstream."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _health(self, _: Request) -> Response:
        return Response(orjson.dumps(self.counts.__dict__), media_type="application/json")

    async def _forward(self, request: Request) -> Response:
        """Send a request on, and its answer back."""
        segments = allowed_segments(request.method, request.path_params["path"])
        if segments is None:
            return problem(404, "expected a route of the OpenAI API such as /v1/chat/completions, found another path")
        body = await request.body()
        asked = _object(body)
        sent = self._sent(body, asked)
        began, at = self.clock(), self.recorder.clock()
        said = _PendingExchange("/".join(segments), asked, dict(request.headers), request.path_params.get("agent"), at)
        try:
            answer = await self._open(request, segments, sent)
        except (aiohttp.ClientError, TimeoutError) as error:
            self._later(said, 502, b"", self.clock() - began, f"{type(error).__name__}: {error}")
            return problem(502, f"expected the upstream to answer, found {type(error).__name__}")
        if 300 <= answer.status < 400 and "location" in answer.headers:
            answer.release()
            self._later(said, 502, b"", self.clock() - began, "the upstream redirected")
            return problem(502, "expected the upstream to answer, found a redirect, which is not followed")
        self.counts.forwarded += 1
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _ANSWER_HOP}
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return StreamingResponse(self._streamed(answer, said, began), answer.status, headers)
        try:
            content = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self._later(said, 502, b"", self.clock() - began, f"{type(error).__name__}: {error}")
            return problem(502, f"expected the upstream's whole answer, found {type(error).__name__}")
        finally:
            answer.release()
        task = self._later(said, answer.status, content, self.clock() - began)
        if task is not None and said.joins:
            await task
        return Response(content, answer.status, headers)

    def _sent(self, body: bytes, asked: Json | None) -> bytes:
        if asked is None or not self.upstream.ask_logprobs or "logprobs" in asked or "messages" not in asked:
            return body
        return orjson.dumps(asked | {"logprobs": True})

    async def _open(self, request: Request, segments: tuple[str, ...], body: bytes) -> aiohttp.ClientResponse:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self.upstream.timeout)
            self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=True)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP | _REROUTING}
        if self.upstream.key:
            headers["authorization"] = f"Bearer {self.upstream.key}"
        # The segments hold nothing that needs an encoding, so that the URL is taken as it is written.
        url = yarl.URL(f"{self.upstream.url.rstrip('/')}/{'/'.join(segments)}", encoded=True)
        return await self._session.request(
            request.method,
            url.with_query(request.query_params.multi_items()),
            data=body or None,
            headers=headers,
            allow_redirects=False,
        )

    async def _streamed(
        self, answer: aiohttp.ClientResponse, said: _PendingExchange, began: float
    ) -> AsyncIterator[bytes]:
        """Pass a stream on piece by piece; what was said is stored also if it breaks off."""
        pieces: list[bytes] = []
        broken: str | None = "the stream was not read to its end"
        ended = False
        task: asyncio.Task[None] | None = None
        try:
            async for piece in answer.content.iter_any():
                pieces.append(piece)
                # The end may be cut between pieces. Clients close at it, before the upstream does.
                ended = ended or _END in (pieces[-2][-len(_END) :] + piece if len(pieces) > 1 else piece)
                if said.joins and task is None and ended:
                    status, seconds = answer.status, self.clock() - began
                    task = self._later(said, status, b"".join(pieces), seconds, streamed=True)
                    if task is not None:
                        await task
                yield piece
            broken = None
        except (aiohttp.ClientError, TimeoutError) as error:
            broken = f"{type(error).__name__}: {error}"
            raise
        finally:
            answer.release()
            if task is None:
                content = b"".join(pieces)
                if broken is not None and (ended or _is_finished(content)):
                    broken = None
                self._later(said, answer.status, content, self.clock() - began, broken, streamed=True)

    def _later(
        self,
        said: _PendingExchange,
        status: int,
        content: bytes,
        seconds: float,
        error: str | None = None,
        *,
        streamed: bool = False,
    ) -> asyncio.Task[None] | None:
        """Store what was said without making anybody wait; None where nothing is to be stored."""
        if said.asked is None or not said.is_generation:
            return None
        task = asyncio.create_task(self._store(said, status, content, seconds, error, streamed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _store(
        self, said: _PendingExchange, status: int, content: bytes, seconds: float, error: str | None, streamed: bool
    ) -> None:
        events = _from_events(content) if streamed else _object(content)
        try:
            call = read_call(said, status, events, content, seconds * 1000, error)
            await asyncio.wrap_future(self.recorder.writer.submit(self._write(said, call)))
            self.counts.stored += 1
        except PlayproofError as problem_found:
            self.counts.not_stored += 1
            self.counts.last_problem = str(problem_found)

    def _write(self, said: _PendingExchange, call: Call) -> Callable[[Connection], object]:
        identity = said.headers.get(TRAJECTORY)
        if identity is not None:
            return self.recorder.called(identity, call)
        agent = check_id(said.agent or said.headers.get(AGENT) or "agent", "agent")
        start = Start(agent, batch_id=ORIGIN, metadata={"origin": ORIGIN}, time=said.at)
        return lambda connection: self._turn(connection, start, call)

    def _turn(self, connection: Connection, start: Start, call: Call) -> None:
        """Write one call as one step of the agent's trajectory in its window."""
        named = self.recorder.name(start)
        known = self._known.get(start.agent_id)
        if known is None or known.window_id != named.window_id or not self._goes_on(connection, known, call, named):
            self._known[start.agent_id] = self._whole_turn(connection, start, call, named)

    def _goes_on(
        self, connection: Connection, known: _TrajectoryState, call: Call, named: writes.ResolvedStart
    ) -> bool:
        """Write a step of a trajectory that stands as it was left; tell whether it does."""
        mine = (Trajectory.trajectory_id == known.trajectory_id, Trajectory.episode_length == known.steps)
        running = update(Trajectory).where(*mine, Trajectory.final_status == writes.RUNNING)
        if connection.execute(running.values(episode_length=known.steps + 1)).rowcount != 1:
            return False
        clean, now = self.recorder.clean, self.recorder.clock()
        index = {"trajectory_id": known.trajectory_id, "number": known.steps, "time": named.time}
        ended = writes.step_end_row(_answered(call), now, clean)
        connection.execute(insert(StepRow).values(**index, state={}, accesses=[], **ended))
        said = writes.call_row(call, clean)
        where = {"call_id": self.recorder.new_key(), "trajectory_id": known.trajectory_id, "time": call.time or now}
        connection.execute(insert(LlmCall).values(**where, step=known.steps, position=known.calls, **said))
        known.steps, known.calls = known.steps + 1, known.calls + 1
        return True

    def _whole_turn(
        self, connection: Connection, start: Start, call: Call, named: writes.ResolvedStart
    ) -> _TrajectoryState:
        """Find or begin the trajectory, end those of earlier windows, and write a step."""
        clean, now = self.recorder.clean, self.recorder.clock()
        identity = _running(connection, start.agent_id, named.window_id)
        for old in _left_open(connection, start.agent_id, named.window_id):
            writes.end_trajectory(connection, old, End(), named.time, clean)
        if identity is None:
            identity = named.trajectory_id
            writes.start_trajectory(connection, start, named, clean)
        writes.start_step(connection, identity, StepStart({}, named.time), now, clean)
        self.recorder.called(identity, call)(connection)
        writes.complete_step(connection, identity, _answered(call), now, clean)
        standing = writes.read_standing(connection, identity)
        return _TrajectoryState(identity, standing.window_id, standing.steps, standing.calls)


@dataclass
class _TrajectoryState:
    """How one of the proxy's own trajectories was left."""

    trajectory_id: str
    window_id: str
    steps: int
    calls: int


def _answered(call: Call) -> StepEnd:
    return StepEnd(ActionTaken("answer", success=call.error is None, error=call.error))


@dataclass(frozen=True)
class _PendingExchange:
    """One request, as it is kept until its answer is whole."""

    path: str
    asked: Json | None
    headers: Mapping[str, str]
    agent: str | None
    at: datetime

    @property
    def is_generation(self) -> bool:
        """Tell whether a model was asked to say something."""
        return self.path.strip("/") in ("chat/completions", "completions", "responses")

    @property
    def joins(self) -> bool:
        """Tell whether the agent records the trajectory itself."""
        return TRAJECTORY in self.headers


def allowed_segments(method: str, path: str) -> tuple[str, ...] | None:
    """Parse the path below /v1/ into segments; None if no route of `ROUTES` has it."""
    path = path.removesuffix("/")
    known = any(method == allowed and pattern.fullmatch(path) for allowed, pattern in ROUTES)
    return tuple(path.split("/")) if known else None


def proxy_role(method: str, path: str) -> Role | None:
    """Give the role that a request to the proxy needs."""
    known = path.startswith(("/agents/", "/v1/")) and method in ("GET", "POST", "DELETE")
    return "record" if known else None


def read_call(
    said: _PendingExchange, status: int, payload: Json | None, content: bytes, latency_ms: float, error: str | None
) -> Call:
    """Read a model call from a request and its answer."""
    asked = said.asked or {}
    choice: Json = ((payload or {}).get("choices") or [{}])[0] or {}
    message = choice.get("message") or {}
    usage = (payload or {}).get("usage") or {}
    ids, logprobs = _tokens(choice)
    purpose = said.headers.get(PURPOSE, "action")
    failed = f"HTTP {status}: {content[:LONGEST_ERROR].decode('utf-8', 'replace')}" if status >= 400 else None
    return Call(
        model=str((payload or {}).get("model") or asked.get("model") or "unknown")[:200],
        purpose=purpose if purpose in ("action", "reasoning", "evaluation", "response") else "action",
        messages=_messages(asked),
        response=_answer_text(choice, message, payload),
        reasoning=_text(message.get("reasoning_content") or message.get("reasoning")),
        model_version=_text((payload or {}).get("system_fingerprint")),
        latency_ms=latency_ms,
        temperature=_number(asked.get("temperature")),
        max_tokens=_whole(asked.get("max_completion_tokens") or asked.get("max_tokens")),
        top_p=_number(asked.get("top_p")),
        prompt_tokens=_whole(usage.get("prompt_tokens")),
        completion_tokens=_whole(usage.get("completion_tokens")),
        prompt_token_ids=_whole_list((payload or {}).get("prompt_token_ids")),
        token_ids=ids,
        logprobs=logprobs if ids is None or logprobs is None or len(ids) == len(logprobs) else None,
        error=error or failed,
    )


def _messages(asked: Json) -> list[Json] | None:
    messages = asked.get("messages", asked.get("input"))
    if isinstance(messages, list):
        return [item if isinstance(item, dict) else {"role": "user", "content": str(item)} for item in messages]
    prompt = asked.get("prompt", messages)
    return [{"role": "user", "content": prompt if isinstance(prompt, str) else str(prompt)}] if prompt else None


def _answer_text(choice: Json, message: Json, payload: Json | None) -> str | None:
    for result in (message.get("content"), choice.get("text"), (payload or {}).get("output_text")):
        if isinstance(result, str):
            return result
    spoken = message.get("tool_calls") or message.get("content") or (payload or {}).get("output")
    return orjson.dumps(spoken).decode() if spoken else None


def _tokens(choice: Json) -> tuple[list[int] | None, list[float | None] | None]:
    """Read token ids and log-probabilities in the forms that servers give them."""
    content = (choice.get("logprobs") or {}).get("content")
    if not isinstance(content, list):
        return _whole_list(choice.get("token_ids")), None
    logprobs = [_number(item.get("logprob")) for item in content if isinstance(item, dict)]
    ids = _whole_list(choice.get("token_ids")) or _named_ids(content)
    return ids, [None if value is None else min(0.0, value) for value in logprobs]


def _named_ids(content: Iterable[Any]) -> list[int] | None:
    """Read ids that stand beside tokens, or as their names."""
    results = []
    for item in content:
        named = _TOKEN_ID.fullmatch(str(item.get("token", "")))
        identity = item.get("token_id", int(named[1]) if named else None)
        if not isinstance(identity, int):
            return None
        results.append(identity)
    return results


def _from_events(content: bytes) -> Json | None:
    """Put the pieces of a stream together to the answer that they make up."""
    whole: Json = {}
    choice: Json = {"message": {}}
    for line in content.split(b"\n"):
        payload = _object(line[5:].strip()) if line.startswith(b"data:") else None
        if payload is None:
            continue
        whole |= {name: value for name, value in payload.items() if value is not None and name != "choices"}
        for piece in payload.get("choices") or []:
            if isinstance(piece, dict) and piece.get("index", 0) == 0:
                _join(choice, piece)
    return whole | {"choices": [choice]} if whole else None


def _is_finished(content: bytes) -> bool:
    """Tell whether every choice of a stream came to its finish reason; what follows is usage and the end mark."""
    finished: dict[int, bool] = {}
    for line in content.split(b"\n"):
        payload = _object(line[5:].strip()) if line.startswith(b"data:") else None
        for piece in (payload or {}).get("choices") or []:
            if isinstance(piece, dict):
                index = piece.get("index", 0)
                finished[index] = finished.get(index, False) or piece.get("finish_reason") is not None
    return bool(finished) and all(finished.values())


def _join(choice: Json, piece: Json) -> None:
    """Add one piece of a streamed choice."""
    delta = piece.get("delta") or {}
    message = choice["message"]
    for name in ("content", "reasoning_content", "reasoning"):
        if isinstance(delta.get(name), str):
            message[name] = message.get(name, "") + delta[name]
    for call in delta.get("tool_calls") or []:
        if isinstance(call, dict):
            _join_tool_call(message.setdefault("tool_calls", []), call)
    if isinstance(piece.get("text"), str):
        choice["text"] = choice.get("text", "") + piece["text"]
    if isinstance(piece.get("token_ids"), list):
        choice["token_ids"] = choice.get("token_ids", []) + piece["token_ids"]
    content = (piece.get("logprobs") or {}).get("content")
    if isinstance(content, list):
        known = choice.setdefault("logprobs", {"content": []})
        known["content"] += content


def _join_tool_call(calls: list[Json], piece: Json) -> None:
    """Add one piece of a tool call to the call that it belongs to: a secret in pieces is seen by no rule."""
    index = piece.get("index", len(calls))
    known = next((call for call in calls if call.get("index") == index), None)
    if known is None:
        calls.append({"index": index} | {name: value for name, value in piece.items() if value is not None})
        return
    for name, value in piece.items():
        if name != "function":
            known[name] = known.get(name) if value is None else value
        elif isinstance(value, dict):
            function = known.setdefault("function", {})
            for part, text in value.items():
                joined = isinstance(text, str) and isinstance(function.get(part), str)
                function[part] = function[part] + text if joined else text


def _running(connection: Connection, agent_id: str, window_id: str) -> str | None:
    """Find the proxy's own trajectory of an agent in a window, also one that an earlier process began."""
    query = select(Trajectory.trajectory_id).where(
        Trajectory.agent_id == agent_id,
        Trajectory.window_id == window_id,
        Trajectory.batch_id == ORIGIN,
        Trajectory.final_status == writes.RUNNING,
    )
    return connection.scalars(query.order_by(Trajectory.trajectory_id).limit(1)).first()


def _left_open(connection: Connection, agent_id: str, window_id: str) -> list[str]:
    """Find the proxy's trajectories of an agent in windows before."""
    query = select(Trajectory.trajectory_id).where(
        Trajectory.agent_id == agent_id,
        Trajectory.window_id < window_id,
        Trajectory.batch_id == ORIGIN,
        Trajectory.final_status == writes.RUNNING,
    )
    return list(connection.scalars(query))


def _object(content: bytes) -> Json | None:
    try:
        payload = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return payload if isinstance(payload, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def _whole_list(value: object) -> list[int] | None:
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        return None
    return value
