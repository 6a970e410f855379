"""A language model on this machine behind an OpenAI-compatible address: chat completions with token ids.

`POST /v1/chat/completions` with `logprobs` and, as vLLM has it, `return_token_ids`: the answer then carries
`prompt_token_ids`, and each choice `token_ids`. One chat at a time. Leaves out: streaming, batches, keys.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from playproof.errors import ConfigError
from playproof.policies.language.local import PACKAGED, Answer, ChatModel, Sampling, load_model

READY_SECONDS = 20.0


class LocalChatMessage(BaseModel):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(max_length=100_000)


class LocalChatRequest(BaseModel):
    """What a client asks; other fields of the interface are read over."""

    model: str = ""
    messages: list[LocalChatMessage] = Field(min_length=1, max_length=100)
    max_tokens: int | None = Field(default=None, ge=1, le=2_048)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=2_048)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    n: Literal[1] = 1
    seed: int | None = Field(default=None, ge=0)
    stop: str | list[str] | None = None
    stream: Literal[False] = False
    logprobs: bool = False
    return_token_ids: bool = False

    def sampling(self) -> Sampling:
        """Give how the answer is drawn."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        limit = self.max_completion_tokens or self.max_tokens or Sampling.max_tokens
        return Sampling(limit, self.temperature, self.top_p, self.seed, tuple(stop))


def create_app(model: ChatModel) -> FastAPI:
    """Make the application around a model."""
    app = FastAPI(title="playproof local model", docs_url=None, redoc_url=None)
    one_at_a_time = threading.Lock()

    @app.exception_handler(ConfigError)
    def refuse(_: Request, error: Exception) -> JSONResponse:
        payload = {"message": str(error), "type": "invalid_request_error"}
        return JSONResponse({"error": payload}, status_code=400)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": model.name, "object": "model", "owned_by": "playproof"}]}

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/chat/completions")
    def complete(asked: LocalChatRequest) -> dict[str, Any]:
        with one_at_a_time:
            answer = model.answer([message.model_dump() for message in asked.messages], asked.sampling())
        return _completion(model.name, asked, answer)

    return app


def _completion(name: str, asked: LocalChatRequest, answer: Answer) -> dict[str, Any]:
    """Write an answer as the interface has it."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": answer.text},
        "finish_reason": answer.finish,
        "logprobs": {"content": _logprobs(answer)} if asked.logprobs else None,
    }
    payload: dict[str, Any] = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(answer.prompt_ids),
            "completion_tokens": len(answer.token_ids),
            "total_tokens": len(answer.prompt_ids) + len(answer.token_ids),
        },
    }
    if asked.return_token_ids:
        choice["token_ids"] = list(answer.token_ids)
        payload["prompt_token_ids"] = list(answer.prompt_ids)
    return payload


def _logprobs(answer: Answer) -> list[dict[str, Any]]:
    pairs = zip(answer.tokens, answer.logprobs, strict=True)
    return [
        {"token": token, "logprob": value, "bytes": list(token.encode()), "top_logprobs": []} for token, value in pairs
    ]


@contextmanager
def serving(model: ChatModel, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve a model in a thread; give its base URL, and stop on the way out."""
    import uvicorn

    with socket.create_server((host, port)) as listening:
        server = uvicorn.Server(uvicorn.Config(create_app(model), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            _wait(server)
            yield f"http://{host}:{listening.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()


def _wait(server: Any) -> None:
    end = time.monotonic() + READY_SECONDS
    while not server.started:
        if time.monotonic() > end:
            raise ConfigError(f"expected the model's server to start within {READY_SECONDS:.0f} s, found it silent")
        time.sleep(0.01)


@contextmanager
def packaged() -> Iterator[tuple[str, str]]:
    """Serve the packaged model; give its base URL and name."""
    model = load_model(PACKAGED)
    with serving(model) as url:
        yield url, model.name
