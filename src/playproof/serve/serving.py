"""Serve a checkpoint: a language model as chats, a policy of numbers as /act, behind one door.

Leaves out: what is served (chat, acting).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from playproof.errors import ConfigError, PlayproofError
from playproof.net.access import AccessGuard, AccessPolicy, ClientLimits, RoleTokens, check_address, is_loopback
from playproof.net.listening import bind
from playproof.policies.checkpoint import CARD
from playproof.serve.batching import ServeLimits, Worker

READY_SECONDS = 20.0
LONGEST_ANSWER = 2_048
"""Tokens, of the packaged model."""


@dataclass(frozen=True)
class ServedApp:
    """An application that is ready to listen."""

    name: str
    kind: str
    """chat or act."""
    app: ASGIApp
    close: Callable[[], None] = field(default=lambda: None)
    canary: Callable[[], None] = field(default=lambda: None)
    """Answer a few questions of its own; raises if the model does not answer as it should."""


def prepare(checkpoint: str, limits: ServeLimits | None = None, name: str = "") -> ServedApp:
    """Load a checkpoint's folder, a model's folder or a model by name, and make its application."""
    card = Path(checkpoint) / CARD
    if card.exists() and _kind(card) != "language":
        from playproof.serve.acting import Actor, actor_app

        actor = Actor(Path(checkpoint))
        return ServedApp(name or Path(checkpoint).name, "act", actor_app(actor), canary=actor.canary)
    return _chats(checkpoint, limits or ServeLimits(), name)


def _kind(card: Path) -> str:
    try:
        return str(json.loads(card.read_text(encoding="utf-8")).get("kind"))
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"expected the card of a checkpoint at {card}, found: {error}") from None


def _chats(checkpoint: str, limits: ServeLimits, name: str) -> ServedApp:
    from playproof.policies.language.local import check_model_files
    from playproof.train.language.model import load_language_model

    check_model_files(Path(checkpoint))
    try:
        model = load_language_model(checkpoint)
    except PlayproofError:
        raise
    except Exception as error:  # damaged files raise whatever their readers raise
        what = f"{type(error).__name__}: {str(error)[:300]}"
        raise ConfigError(f"expected a model that can be read in {checkpoint}, found {what}") from error
    named = name or (model.version if model.card is not None else Path(model.name).name)
    version = model.version if model.card is not None else None
    return chat_app(named, model.model, model.tokenizer, limits, version=version)


def chat_app(
    name: str,
    model: Any,
    tokenizer: Any,
    limits: ServeLimits,
    context: int | None = None,
    version: str | None = None,
) -> ServedApp:
    """Make the application of a model of transformers; `context` is the most tokens of a chat."""
    from playproof.policies.language.batched import BatchedModel
    from playproof.serve.chat import create_app
    from playproof.train.language.model import LanguageModel

    ends = LanguageModel(name, model, tokenizer).ends
    worker = Worker(BatchedModel(name, model, tokenizer, ends, context, version), limits)
    return ServedApp(name, "chat", create_app(worker), worker.close, worker.canary)


@contextmanager
def packaged() -> Iterator[tuple[str, str]]:
    """Serve the packaged model on this machine; give its base URL and name."""
    from playproof.policies.language.local import MAX_CONTEXT, PACKAGED, load_model

    model = load_model(PACKAGED)
    limits = ServeLimits(max_tokens=LONGEST_ANSWER)
    served = chat_app(model.name, model.model, model.tokenizer, limits, MAX_CONTEXT + LONGEST_ANSWER)
    with serving(served) as url:
        yield f"{url}/v1", model.name


def behind_door(app: ASGIApp, host: str, key: str | None) -> ASGIApp:
    """Put an application behind a door that asks for the key; refuse an address that others reach without one."""
    tokens = RoleTokens(record=key)
    check_address(host, tokens)
    limits = ClientLimits(bytes=4 << 20, rate=500.0, burst=1_000.0)
    return AccessGuard(app, AccessPolicy(tokens, limits, is_loopback(host), lambda _method, _path: "record"))


@contextmanager
def serving(served: ServedApp, host: str = "127.0.0.1", port: int = 0, key: str | None = None) -> Iterator[str]:
    """Serve in a thread; give the address, and stop on the way out."""
    import uvicorn

    app = behind_door(served.app, host, key)
    with bind(host, port) as taken:
        config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        try:
            _wait(lambda: server.started)
            yield f"http://{host}:{taken.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            served.close()


def _wait(started: Callable[[], bool]) -> None:
    end = time.monotonic() + READY_SECONDS
    while not started():
        if time.monotonic() > end:
            raise ConfigError(f"expected the server to start within {READY_SECONDS:.0f} s, found it silent")
        time.sleep(0.01)
