"""The trajectory recorder over HTTP: the same calls as JSON, stored once under an idempotency key.

POST /v1/trajectories begins one; below /v1/trajectories/{id}/ stand steps, accesses, calls, actions and end;
POST /v1/records takes many of them in order, as the spooling client sends them. An answer means: committed and synced.
Send `Idempotency-Key` with every POST: the same request again gets the first answer, another body under the same key
409. POST /v1/outcomes writes what a closed window did, PUT /v1/outcomes/{window_id} corrects it with a reason, and
GET /v1/windows tells which windows need outcomes; no route reads outcomes.
The description of all of it is at /openapi.json.
Leaves out: who may come in (access), and the client (trajectory_client).
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, delete
from starlette.responses import Response
from starlette.types import ASGIApp

from playproof.errors import InputError, PlayproofError, RefusedRecord, StoreError
from playproof.game.markets import MarketDeclaration
from playproof.net.access import AccessGuard, AccessPolicy, TooLarge, problem, scope_of
from playproof.record.trajectories.facts import Access, Call, End, Json, Start, StepEnd, StepStart
from playproof.record.trajectories.posted_outcomes import InvalidField, read_posted, write_posted
from playproof.record.trajectories.recorder import TrajectoryRecorder
from playproof.record.trajectories.windows import MIN_ACTIONS, MIN_AGENTS, survey
from playproof.record.trajectories.writes import once
from playproof.store.db import Request as StoredRequest
from playproof.store.db.trajectories import list_trajectories, read_trajectory

Kind = Literal["start", "step", "access", "call", "action", "end"]
LONGEST_KEY = 200
KEPT = timedelta(days=14)
"""How long a key and its answer are remembered."""
MOST_RECORDS = 1_000
"""Records of one batch."""
MOST_DEPTH = 64
"""Levels of lists and objects within each other."""
_SURROGATE = re.compile("[\ud800-\udfff]")
MOST_HOURS = 24 * 366 * 10
"""How far back windows can be asked for."""
_NUMBER = {"type": ["number", "string"]}
OUTCOMES_SCHEMA: Json = {
    "type": "object",
    "required": ["window_id", "currency"],
    "properties": {
        "window_id": {"type": "string", "example": "2025-01-15T10:00Z"},
        "currency": {"type": "string", "example": "USD"},
        "market": {"type": "string"},
        "reason": {"type": "string", "description": "of a correction, with PUT alone"},
        "assets": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["asset", "start_price", "end_price"],
                "properties": {
                    "asset": {"type": "string"},
                    **dict.fromkeys(("start_price", "end_price", "change", "sentiment", "volume"), _NUMBER),
                    "news_ids": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        "questions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["question_id"],
                "properties": {
                    "question_id": {"type": "string"},
                    "question": {"type": "string"},
                    "outcome": {"type": ["string", "boolean"], "enum": ["yes", "no", True, False]},
                    **dict.fromkeys(("final_probability", "volume"), _NUMBER),
                },
            },
        },
    },
}
"""The body of outcomes, as /openapi.json describes it."""
_READERS: dict[Kind, TypeAdapter[Any]] = {
    "start": TypeAdapter(Start),
    "step": TypeAdapter(StepStart),
    "access": TypeAdapter(Access),
    "call": TypeAdapter(Call),
    "action": TypeAdapter(StepEnd),
    "end": TypeAdapter(End),
}


@dataclass(frozen=True, slots=True)
class SentRecord:
    """One record of a batch."""

    key: str
    """Its idempotency key."""
    kind: Kind
    body: Json
    trajectory_id: str | None = None
    """None only for a start."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records in their order."""

    records: list[SentRecord]


def trajectory_api(
    recorder: TrajectoryRecorder, door: AccessPolicy | None = None, market: MarketDeclaration | None = None
) -> ASGIApp:
    """Make the server's application over a recorder; `market` is the declared one that it records."""
    words = (__doc__ or "").partition("\nLeaves")[0]
    app = FastAPI(title="Playproof trajectories", version="1", description=words, docs_url=None, redoc_url=None)
    _add_errors(app)
    _add_records(app, recorder)
    _add_batch(app, recorder)
    _add_outcomes(app, recorder, market)
    _add_reads(app, recorder)
    return AccessGuard(app, door or AccessPolicy())


Answer = tuple[Json, bool]
"""A record's answer, and whether it is one from before."""


def submit(recorder: TrajectoryRecorder, sent: SentRecord, scope: str) -> Future[Answer]:
    """Put a record into the next transaction."""
    return recorder.writer.submit(write_once(recorder, sent, scope))


def write_once(recorder: TrajectoryRecorder, sent: SentRecord, scope: str) -> Callable[[Connection], Answer]:
    """Give the write of a record under its key."""
    if not 0 < len(sent.key) <= LONGEST_KEY:
        raise InputError(f"expected an idempotency key of 1 to {LONGEST_KEY} characters, found {len(sent.key)}")
    check_value(sent.body)
    fact = _read(sent.kind, sent.body)
    write = _write(recorder, sent, fact)
    payload = {"kind": sent.kind, "trajectory_id": sent.trajectory_id, "body": sent.body}
    now = recorder.clock()
    return lambda connection: once(connection, f"{scope}:{sent.key}", payload, now, write)


def check_value(value: object) -> None:
    """Refuse what no database holds as it was sent: deep nesting, numbers beyond 64 bits or not finite, half letters.

    It goes through the value without recursion, which deep nesting would end.
    """
    left: list[tuple[object, int]] = [(value, 0)]
    while left:
        item, depth = left.pop()
        if depth > MOST_DEPTH:
            raise InputError(f"expected JSON nested at most {MOST_DEPTH} deep, found more")
        if isinstance(item, str):
            if not item.isascii() and _SURROGATE.search(item):
                raise InputError("expected text of whole characters, found half of a surrogate pair")
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise InputError(f"expected finite numbers, found {item}; send null for what is unknown")
        elif isinstance(item, int):
            if not -(2**63) <= item < 2**63:
                raise InputError(f"expected whole numbers of 64 bits, found one of {item.bit_length()} bits")
        elif isinstance(item, dict):
            left += ((part, depth + 1) for pair in item.items() for part in pair)
        elif isinstance(item, list | tuple):
            left += ((part, depth + 1) for part in item)
        elif is_dataclass(item):
            left += ((getattr(item, part.name), depth) for part in fields(item))


def _read(kind: Kind, body: Json) -> Any:
    try:
        return _READERS[kind].validate_python(body)
    except ValidationError as error:
        result = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, result["loc"]))
        raise InputError(f"expected a valid {kind}, found {where}: {result['msg']}") from error


def _write(recorder: TrajectoryRecorder, sent: SentRecord, fact: Any) -> Callable[[Connection], Json]:
    """Give the write of a record, with its answer as JSON."""
    if sent.kind == "start":
        named = recorder.name(fact)
        begin = recorder.started(fact, named)
        payload: Json = {"trajectory_id": named.trajectory_id, "window_id": named.window_id}
        return lambda connection: begin(connection) or payload
    if sent.trajectory_id is None:
        raise InputError(f"expected the trajectory_id of a {sent.kind}, found none")
    identity = sent.trajectory_id
    makers: dict[str, tuple[Callable[[str, Any], Callable[[Connection], Any]], str]] = {
        "step": (recorder.step_started, "number"),
        "access": (recorder.accessed, "number"),
        "call": (recorder.called, "call_id"),
        "action": (recorder.step_ended, "number"),
        "end": (recorder.ended, "ended"),
    }
    make, name = makers[sent.kind]
    write = make(identity, fact)
    return lambda connection: {"trajectory_id": identity, name: write(connection)}


Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=LONGEST_KEY)]


def _scope(request: Request) -> str:
    return scope_of(request.headers)


Scope = Annotated[str, Depends(_scope)]


def _add_records(app: FastAPI, recorder: TrajectoryRecorder) -> None:
    async def take(kind: Kind, identity: str | None, fact: Any, key: str | None, scope: str) -> Response:
        check_value(fact)
        body = _fact_to_dict(fact)
        sent = SentRecord(key or recorder.new_key(), kind, body, identity)
        answer, again = await asyncio.wrap_future(submit(recorder, sent, scope))
        return _answer(answer, again)

    @app.post("/v1/trajectories", summary="Begin a trajectory")
    async def begin(body: Start, scope: Scope, key: Key = None) -> Response:
        return await take("start", None, body, key, scope)

    @app.post("/v1/trajectories/{trajectory_id}/steps", summary="Begin a step")
    async def step(trajectory_id: str, body: StepStart, scope: Scope, key: Key = None) -> Response:
        return await take("step", trajectory_id, body, key, scope)

    @app.post("/v1/trajectories/{trajectory_id}/accesses", summary="Note what the agent looked at")
    async def access(trajectory_id: str, body: Access, scope: Scope, key: Key = None) -> Response:
        return await take("access", trajectory_id, body, key, scope)

    @app.post("/v1/trajectories/{trajectory_id}/calls", summary="Note a model call")
    async def call(trajectory_id: str, body: Call, scope: Scope, key: Key = None) -> Response:
        return await take("call", trajectory_id, body, key, scope)

    @app.post("/v1/trajectories/{trajectory_id}/actions", summary="End the open step with its action")
    async def action(trajectory_id: str, body: StepEnd, scope: Scope, key: Key = None) -> Response:
        return await take("action", trajectory_id, body, key, scope)

    @app.post("/v1/trajectories/{trajectory_id}/end", summary="End a trajectory")
    async def end(trajectory_id: str, body: End, scope: Scope, key: Key = None) -> Response:
        return await take("end", trajectory_id, body, key, scope)


def _fact_to_dict(fact: Any) -> Json:
    """Give a record's body as JSON, what was left open left out, so that equal requests have equal bodies."""
    payload: Json = jsonable_encoder(asdict(fact))
    return {name: value for name, value in payload.items() if value is not None}


def _add_batch(app: FastAPI, recorder: TrajectoryRecorder) -> None:
    @app.post("/v1/records", summary="Take many records in order; each is answered by itself")
    async def records(body: RecordBatch, scope: Scope) -> Response:
        if len(body.records) > MOST_RECORDS:
            raise InputError(f"expected at most {MOST_RECORDS} records, found {len(body.records)}")
        prepareds = [_prepared(recorder, sent, scope) for sent in body.records]
        writes = [item for item in prepareds if not isinstance(item, PlayproofError)]
        payload = await asyncio.wrap_future(recorder.writer.submit_row(writes))
        stored = iter(payload)
        answers = [item if isinstance(item, PlayproofError) else next(stored) for item in prepareds]
        return _answer({"answers": [_settled(answer) for answer in answers]}, False)


def _prepared(
    recorder: TrajectoryRecorder, sent: SentRecord, scope: str
) -> Callable[[Connection], Answer] | PlayproofError:
    """Give the write of a record of a batch, or why there is none."""
    try:
        return write_once(recorder, sent, scope)
    except PlayproofError as error:
        return error


def _settled(result: Answer | Exception) -> Json:
    """Tell how one record of a batch fared."""
    if isinstance(result, PlayproofError):
        return {"status": status_of(result), "error": str(result), "reason": getattr(result, "reason", None)}
    if isinstance(result, Exception):
        raise result
    answer, again = result
    return {"status": 200, "answer": answer, "again": again}


def _add_reads(app: FastAPI, recorder: TrajectoryRecorder) -> None:
    @app.get("/v1/trajectories", summary="List trajectories, the latest first")
    async def listing(window_id: str | None = None, agent_id: str | None = None, limit: int = 100) -> Response:
        most = max(1, min(limit, MOST_RECORDS))
        thread = await asyncio.to_thread(
            list_trajectories, recorder.engine, window_id=window_id, agent_id=agent_id, limit=most
        )
        return _answer({"trajectories": [_listed(asdict(item)) for item in thread]}, False)

    @app.get("/v1/trajectories/{trajectory_id}", summary="Read a whole trajectory")
    async def whole(trajectory_id: str) -> Response:
        try:
            thread = await asyncio.to_thread(read_trajectory, recorder.engine, trajectory_id)
        except InputError as error:
            raise RefusedRecord("unknown", str(error)) from error
        return _answer(asdict(thread), False)

    @app.get("/healthz", summary="Tell that the server is there")
    async def health() -> Response:
        return _answer({"ok": True}, False)


def _add_outcomes(app: FastAPI, recorder: TrajectoryRecorder, market: MarketDeclaration | None) -> None:
    if recorder.windows is None:
        return
    windows = recorder.windows

    async def take(payload: Json, key: str | None, scope: str) -> Response:
        now = recorder.clock()
        posted = read_posted(payload, windows, now, market)
        name = f"{scope}:outcomes:{key or recorder.new_key()}"
        if len(name) > LONGEST_KEY + 50:
            raise InputError(f"expected an idempotency key of at most {LONGEST_KEY} characters, found more")
        answer, replayed = await asyncio.wrap_future(
            recorder.writer.submit(
                lambda connection: once(
                    connection, name, payload, now, lambda inside: write_posted(inside, posted, now)
                )
            )
        )
        again = replayed or bool(answer["again"])
        return _answer(answer | {"again": again}, again)

    described = {"requestBody": {"required": True, "content": {"application/json": {"schema": OUTCOMES_SCHEMA}}}}

    @app.post(
        "/v1/outcomes",
        summary="Write what a closed window did; the same content again changes nothing",
        openapi_extra=described,
    )
    async def outcomes(request: Request, scope: Scope, key: Key = None) -> Response:
        payload = await _json_object(request)
        if "reason" in payload:
            raise InvalidField("reason", "expected no reason with POST, found one; correct outcomes with PUT")
        return await take(payload, key, scope)

    @app.put(
        "/v1/outcomes/{window_id}",
        summary="Correct the outcomes of a window, with a reason; the old ones are kept",
        openapi_extra=described,
    )
    async def correction(window_id: str, request: Request, scope: Scope, key: Key = None) -> Response:
        payload = {"window_id": window_id} | await _json_object(request)
        if "reason" not in payload:
            raise InvalidField("reason", "expected why the outcomes are corrected, found none")
        try:
            same = windows.parse(str(payload["window_id"])) == windows.parse(window_id)
        except InputError as error:
            raise InvalidField("window_id", str(error)) from error
        if not same:
            raise InvalidField("window_id", f"expected {window_id}, as the path says, found {payload['window_id']!r}")
        return await take(payload, key, scope)

    @app.get("/v1/windows", summary="Tell which windows have closed, have outcomes and are ready")
    async def surveyed(hours: float = 24.0, min_agents: int = MIN_AGENTS, min_actions: int = MIN_ACTIONS) -> Response:
        if not 0 < hours <= MOST_HOURS:
            raise InvalidField("hours", f"expected more than 0 and at most {MOST_HOURS}, found {hours}")
        agents, actions = max(1, min_agents), max(1, min_actions)
        result = await asyncio.to_thread(
            lambda: survey(
                recorder.engine, windows, recorder.clock(), hours=hours, min_agents=agents, min_actions=actions
            )
        )
        names = ("window_id", "closed", "has_outcomes", "agents", "actions")
        rows = [
            {name: getattr(item, name) for name in names} | {"ready": item.ready(result.min_agents)}
            for item in result.windows
        ]
        return _answer({"windows": rows}, False)


async def _json_object(request: Request) -> Json:
    """Read a body that must be a JSON object; NaN and what comes behind it are no JSON."""
    import orjson

    try:
        payload = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise InvalidField("body", f"expected JSON, found: {error}") from None
    if not isinstance(payload, dict):
        raise InvalidField("body", f"expected an object, found a {type(payload).__name__}")
    return payload


def _listed(payload: Json) -> Json:
    return {name: value for name, value in payload.items() if name not in ("steps", "calls")}


def _answer(payload: Json, again: bool) -> Response:
    import orjson

    headers = {"Idempotent-Replay": "true"} if again else {}
    return Response(orjson.dumps(payload), 200, headers, "application/json")


def status_of(error: PlayproofError) -> int:
    """Give the status with which an error is answered."""
    if isinstance(error, RefusedRecord):
        return 404 if error.reason == "unknown" else 409
    return 503 if isinstance(error, StoreError) else 422


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(PlayproofError)
    async def refused(_: Request, error: PlayproofError) -> Response:
        reason = "field" if isinstance(error, InvalidField) else getattr(error, "reason", None)
        return problem(status_of(error), str(error), reason, getattr(error, "field", None))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        result = error.errors()[0]
        return problem(422, f"expected a valid body, found {'.'.join(map(str, result['loc']))}: {result['msg']}")

    @app.exception_handler(TooLarge)
    async def too_large(_: Request, __: TooLarge) -> Response:
        return problem(413, "expected a smaller body")


def forget_requests(recorder: TrajectoryRecorder, kept: timedelta = KEPT) -> int:
    """Forget keys whose retries are over; give how many."""
    before = recorder.clock() - kept
    return int(
        recorder.writer.write(
            lambda connection: (
                connection.execute(delete(StoredRequest).where(StoredRequest.created_at < before)).rowcount
            )
        )
    )
