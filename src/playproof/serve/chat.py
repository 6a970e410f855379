"""Chat completions as OpenAI has them, in front of a model that answers many chats at once.

`POST /v1/chat/completions` with streams, log-probabilities and, as vLLM has it, `return_token_ids`; `GET /v1/models`,
`GET /healthz` and `/health`. Errors have OpenAI's form: 400 what is wrong with a request, 401 without the key, 404
another model, 429 too many waiting chats. What the interface knows and this server does not do (tools, images,
formats) is refused rather than read over. Leaves out: computing (batching).
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from playproof.errors import ConfigError, PlayproofError
from playproof.json_types import Json
from playproof.policies.language.batched import BatchedModel, Chat, TokenPiece
from playproof.policies.language.local import Sampling
from playproof.serve.batching import ModelFailed, ServerBusy, Ticket, Worker
from playproof.serve.versions import stamp_of

ANY_NAME = ("", "default")
"""Names that stand for whatever model is served."""
POLL_SECONDS = 0.25
"""How often it is looked whether a client that waits for a whole answer has gone."""
MOST_ANSWERS = 8
LOWEST_TEMPERATURE = 0.01
"""Below it log-probabilities overflow; 0 takes the likeliest token instead."""


class TextPart(BaseModel):
    """One part of a message that is a list."""

    type: Literal["text"]
    text: str = Field(max_length=200_000)


class ChatMessage(BaseModel):
    """One message of a chat."""

    role: Literal["system", "user", "assistant", "developer"]
    content: Annotated[str, Field(max_length=200_000)] | list[TextPart]

    def plain(self) -> dict[str, str]:
        """Give role and text as the model's template knows them."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class StreamOptions(BaseModel):
    """What a stream carries beside its pieces."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """What a client asks."""

    model_config = ConfigDict(extra="ignore")

    model: str = ""
    messages: list[ChatMessage] = Field(min_length=1, max_length=200)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    n: int = Field(default=1, ge=1, le=MOST_ANSWERS)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    return_token_ids: bool = False
    tools: None = None
    functions: None = None
    audio: None = None
    response_format: None = None
    logit_bias: None = None
    frequency_penalty: Literal[0] | None = None
    presence_penalty: Literal[0] | None = None

    def sampling(self, most: int, number: int) -> Sampling:
        """Give how answer `number` is drawn, of at most so many tokens."""
        if 0 < self.temperature < LOWEST_TEMPERATURE:
            raise ConfigError(
                f"expected a temperature of 0 or of {LOWEST_TEMPERATURE} to 2, found {self.temperature:g}"
            )
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        wanted = self.max_completion_tokens or self.max_tokens
        if wanted is not None and wanted > most:
            raise ConfigError(f"expected an answer of at most {most} tokens, found max_tokens {wanted}")
        seed = None if self.seed is None else self.seed + number
        limit = wanted or min(Sampling.max_tokens, most)
        return Sampling(limit, self.temperature, self.top_p, seed, tuple(item for item in stop if item))


def problem(status: int, message: str, kind: str, code: str | None = None) -> JSONResponse:
    """Write an error in OpenAI's form."""
    payload = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": payload}, status, {"Retry-After": "1"} if status in (429, 503) else None)


def create_app(worker: Worker) -> FastAPI:
    """Make the application around a model."""
    app = FastAPI(title="playproof", docs_url=None, redoc_url=None)
    _handle_errors(app)
    model = worker.model

    @app.get("/v1/models")
    def models() -> Json:
        return {"object": "list", "data": [_model(model)]}

    @app.get("/v1/models/{name:path}", response_model=None)
    def one_model(name: str) -> Json | JSONResponse:
        return _model(model) if name == model.name else _unknown(model, name)

    @app.get("/health")
    @app.get("/healthz")
    def health() -> Json:
        return {"status": "ok", "model": model.name, "load": worker.load}

    @app.post("/v1/chat/completions", response_model=None)
    async def complete(asked: ChatRequest, request: Request) -> JSONResponse | StreamingResponse:
        if asked.model not in (model.name, *ANY_NAME):
            return _unknown(model, asked.model)
        tickets = _submit(worker, asked)
        response_parts = _ResponseParts(model, asked, tickets, stamp_of(request.scope))
        if asked.stream:
            return StreamingResponse(_stream(worker, response_parts), media_type="text/event-stream")
        await _whole(worker, response_parts, request)
        return JSONResponse(response_parts.completion())

    return app


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    def unreadable(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        index = ".".join(str(item) for item in first["loc"][1:])
        return problem(400, f"{index}: {first['msg']}", "invalid_request_error")

    @app.exception_handler(HTTPException)
    def refused(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail), "invalid_request_error")

    @app.exception_handler(PlayproofError)
    def failed(_: Request, error: PlayproofError) -> JSONResponse:
        if isinstance(error, ServerBusy):
            return problem(429, str(error), "rate_limit_error", "busy")
        if isinstance(error, ModelFailed):
            return problem(503, str(error), "server_error", "model_failed")
        return problem(400, str(error), "invalid_request_error")


def _model(model: BatchedModel) -> Json:
    return {"id": model.name, "object": "model", "created": 0, "owned_by": "playproof"}


def _unknown(model: BatchedModel, name: str) -> JSONResponse:
    message = f"expected the model {model.name!r}, found {name[:80]!r}"
    return problem(404, message, "invalid_request_error", "model_not_found")


def _submit(worker: Worker, asked: ChatRequest) -> list[Ticket]:
    """Let every answer of a request wait for its place; all of them or none."""
    messages = [message.plain() for message in asked.messages]
    tops = (asked.top_logprobs or 0) if asked.logprobs else 0
    most = worker.limits.max_tokens
    chats = [worker.model.open(messages, asked.sampling(most, at), tops) for at in range(asked.n)]
    tickets: list[Ticket] = []
    loop = asyncio.get_running_loop()
    try:
        for chat in chats:
            tickets.append(worker.submit(chat, loop))
    except ServerBusy:
        for ticket in tickets:
            worker.cancel(ticket)
        raise
    return tickets


async def _whole(worker: Worker, response_parts: _ResponseParts, request: Request) -> None:
    """Wait for whole answers; give them up if the client goes away or it takes too long."""
    waiting = asyncio.gather(*(_drain(ticket) for ticket in response_parts.tickets))
    end = time.monotonic() + worker.limits.seconds
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=POLL_SECONDS)
            if not waiting.done() and (time.monotonic() > end or await request.is_disconnected()):
                raise ModelFailed(
                    f"expected an answer within {worker.limits.seconds:g} s and a client that waits for it"
                )
        await waiting
    finally:
        waiting.cancel()
        for ticket in response_parts.tickets:
            worker.cancel(ticket)


async def _drain(ticket: Ticket) -> None:
    async for _ in ticket.pieces():
        pass


async def _stream(worker: Worker, response_parts: _ResponseParts) -> AsyncIterator[bytes]:
    """Write the pieces of all answers as they come; a client that goes away ends them."""
    try:
        for number in range(len(response_parts.tickets)):
            yield _event(response_parts.chunk(number, {"role": "assistant", "content": ""}))
        async for number, piece in _merged(response_parts.tickets, worker.limits.seconds):
            yield _event(response_parts.next_chunk(number, piece))
        if response_parts.asked.stream_options is not None and response_parts.asked.stream_options.include_usage:
            yield _event(
                response_parts.head("chat.completion.chunk") | {"choices": [], "usage": response_parts.usage()}
            )
        yield b"data: [DONE]\n\n"
    except ModelFailed as error:
        yield _event({"error": {"message": str(error), "type": "server_error", "param": None, "code": "model_failed"}})
    finally:
        for ticket in response_parts.tickets:
            worker.cancel(ticket)


async def _merged(tickets: list[Ticket], seconds: float) -> AsyncIterator[tuple[int, TokenPiece]]:
    """Give the pieces of several answers in the order in which they come."""
    left: dict[int, AsyncIterator[TokenPiece]] = {at: ticket.pieces() for at, ticket in enumerate(tickets)}
    async with asyncio.timeout(seconds):
        while left:
            for number, pieces in list(left.items()):
                piece = await anext(pieces, None)
                if piece is None:
                    del left[number]
                else:
                    yield number, piece


def _event(payload: Json) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


class _ResponseParts:
    """What is written of the answers to one request."""

    def __init__(self, model: BatchedModel, asked: ChatRequest, tickets: list[Ticket], stamp: Json) -> None:
        self.model, self.asked, self.tickets, self.stamp = model, asked, tickets, stamp
        self.id, self.created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        self._sent = [0] * len(tickets)
        self._shown = [0] * len(tickets)

    def head(self, kind: str) -> Json:
        """Give what every message begins with; the recording proxy stores the fingerprint as the model's version."""
        payload: Json = {"id": self.id, "object": kind, "created": self.created, "model": self.model.name}
        payload |= self.stamp
        return payload if self.model.version is None else payload | {"system_fingerprint": self.model.version}

    def usage(self) -> dict[str, int]:
        """Count the tokens."""
        prompt = len(self.tickets[0].chat.prompt)
        answers = sum(len(ticket.chat.pieces) for ticket in self.tickets)
        return {"prompt_tokens": prompt, "completion_tokens": answers, "total_tokens": prompt + answers}

    def completion(self) -> Json:
        """Give whole answers."""
        payload = self.head("chat.completion") | {
            "choices": [self._choice(at, ticket.chat) for at, ticket in enumerate(self.tickets)],
            "usage": self.usage(),
        }
        if self.asked.return_token_ids:
            payload["prompt_token_ids"] = list(self.tickets[0].chat.prompt)
        return payload

    def _choice(self, number: int, chat: Chat) -> Json:
        choice: Json = {
            "index": number,
            "message": {"role": "assistant", "content": self.model.text(chat), "refusal": None},
            "finish_reason": chat.pieces[-1].finish,
            "logprobs": self._logprobs(chat.pieces),
        }
        if self.asked.return_token_ids:
            choice["token_ids"] = list(chat.token_ids)
        return choice

    def _logprobs(self, pieces: list[TokenPiece]) -> Json | None:
        if not self.asked.logprobs:
            return None
        rows = [
            self._token(piece.token_id, piece.logprob)
            | {"top_logprobs": [self._token(token, value) for token, value in piece.tops]}
            for piece in pieces
        ]
        return {"content": rows, "refusal": None}

    def _token(self, token: int, value: float) -> Json:
        text = self.model.token_text(token)
        return {"token": text, "logprob": value, "bytes": list(text.encode("utf-8", "replace"))}

    def chunk(self, number: int, delta: Json, finish: str | None = None) -> Json:
        """Give one message of a stream."""
        choice: Json = {"index": number, "delta": delta, "finish_reason": finish, "logprobs": None}
        return self.head("chat.completion.chunk") | {"choices": [choice]}

    def next_chunk(self, number: int, piece: TokenPiece) -> Json:
        """Give the message of one more token: what can be shown of it, and its log-probability."""
        self._sent[number] += 1
        pieces = self.tickets[number].chat.pieces[: self._sent[number]]
        text = self._showable(number, pieces, piece.finish is not None)
        delta = {"content": text[self._shown[number] :]}
        self._shown[number] = max(self._shown[number], len(text))
        payload = self.chunk(number, delta, piece.finish)
        payload["choices"][0]["logprobs"] = self._logprobs([piece])
        if self.asked.return_token_ids:
            payload["choices"][0]["token_ids"] = [piece.token_id]
            if self._sent[number] == 1:
                payload["prompt_token_ids"] = list(self.tickets[number].chat.prompt)
        return payload

    def _showable(self, number: int, pieces: list[TokenPiece], last: bool) -> str:
        """Give the text that will not change any more: no half characters, no beginning of a stop text."""
        chat = self.tickets[number].chat
        text = self.model.text(Chat(chat.prompt, chat.sampling, pieces=pieces))
        if last:
            return text
        text = text.rstrip("\ufffd")
        held = max((_overlap(text, stop) for stop in chat.sampling.stop), default=0)
        return text[: len(text) - held]


def _overlap(text: str, stop: str) -> int:
    """Give how many of the last characters could be the beginning of a stop text."""
    return next((size for size in range(min(len(text), len(stop)), 0, -1) if text.endswith(stop[:size])), 0)
