"""A language agent: asks a model behind any OpenAI-compatible address for one decision a turn.

Timeouts and retries are the client's; what goes wrong is a recorded call with an error and a decision
that is rejected, never an exception. A budget bounds calls and tokens of a run; when it is spent the
agent holds.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from playproof.errors import MissingExtra
from playproof.game import Message, lookup
from playproof.games.arena.agents.archetypes import ARCHETYPES
from playproof.games.arena.agents.decisions import HOLD
from playproof.games.arena.agents.prompts import FULL, PROMPTS
from playproof.games.arena.agents.runner import AgentView, ModelCall, Reply
from playproof.json_types import Json


@dataclass(frozen=True)
class ModelSettings:
    """Where the model is and how it is asked."""

    model: str
    base_url: str
    api_key: str = "none"
    """Never written into a record."""
    temperature: float = 0.7
    max_tokens: int = 120
    timeout: float = 120.0
    """Seconds for one answer."""
    retries: int = 2
    calls: int = 10_000
    """The most calls of one run."""
    tokens: int = 5_000_000
    """The most tokens of one run, prompts and answers together."""
    persona: str = "balanced"
    """Which archetype's way of trading the system prompt asks for."""
    prompt: str = FULL
    """Which of the prompts it reads."""

    def __post_init__(self) -> None:
        lookup(PROMPTS, self.prompt, "prompt")


Completions = Callable[..., Awaitable[Any]]
"""The one method of the client that is used: it asks for a completion."""


@dataclass
class LanguageAgent:
    """One language model that takes part in a run."""

    name: str
    settings: ModelSettings
    complete: Completions
    archetype: str = "language"
    clock: Callable[[], float] = time.monotonic
    calls: int = 0
    tokens: int = 0
    close: Callable[[], Awaitable[None]] | None = None
    """Lets the client's connections go, when a run has ended."""
    _extra: Json = field(default_factory=lambda: {"return_token_ids": True})

    @property
    def persona(self) -> str:
        """Give how the system prompt asks the model to trade."""
        kind = ARCHETYPES[self.settings.persona]
        return f"You are {kind.name} (risk {kind.risk}): an agent that {kind.doc}."

    async def decide(self, sight: AgentView) -> Reply:
        """Ask the model; whatever happens, answer."""
        messages = sight.messages(self.persona, self.settings.prompt)
        if self.calls >= self.settings.calls or self.tokens >= self.settings.tokens:
            return Reply(HOLD, self._failed(messages, "the budget of this run is spent"))
        self.calls += 1
        began = self.clock()
        try:
            answer = await self._asked(messages)
        except _errors() as error:
            failed = f"{type(error).__name__}: {str(error)[:200]}"
            return Reply("", self._failed(messages, failed, 1000 * (self.clock() - began)))
        return self._read(messages, answer, 1000 * (self.clock() - began))

    async def _asked(self, messages: tuple[Message, ...]) -> Any:
        """Ask with log-probabilities and token ids; ask again without what the server does not know."""
        import openai

        options: Json = {
            "model": self.settings.model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "temperature": self.settings.temperature,
            "max_tokens": self.settings.max_tokens,
            "logprobs": True,
        }
        try:
            return await self.complete(**options, extra_body=self._extra or None)
        except openai.BadRequestError:
            if not self._extra:
                raise
            self._extra = {}
            return await self.complete(**options)

    def _read(self, messages: tuple[Message, ...], answer: Any, latency: float) -> Reply:
        """Read an answer; fields that a server leaves out are None."""
        choice = answer.choices[0] if answer.choices else None
        text = (choice.message.content or "") if choice is not None else ""
        usage = answer.usage
        self.tokens += usage.total_tokens if usage is not None else 0
        payload = choice.logprobs.content if choice is not None and choice.logprobs is not None else None
        extra = (getattr(choice, "model_extra", None) or {}) if choice is not None else {}
        ids = extra.get("token_ids")
        logprobs = tuple(min(0.0, item.logprob) for item in payload) if payload else None
        call = ModelCall(
            self.settings.model,
            messages,
            text,
            latency_ms=latency,
            model_version=answer.model,
            temperature=self.settings.temperature,
            max_tokens=self.settings.max_tokens,
            prompt_tokens=usage.prompt_tokens if usage is not None else None,
            completion_tokens=usage.completion_tokens if usage is not None else None,
            prompt_token_ids=_ids(extra.get("prompt_token_ids") or (answer.model_extra or {}).get("prompt_token_ids")),
            token_ids=_ids(ids),
            logprobs=logprobs if ids is None or (logprobs is not None and len(logprobs) == len(ids)) else None,
        )
        return Reply(text, call)

    def _failed(self, messages: tuple[Message, ...], error: str, latency: float | None = None) -> ModelCall:
        return ModelCall(self.settings.model, messages, error=error, latency_ms=latency)


def _ids(result: object) -> tuple[int, ...] | None:
    return tuple(result) if isinstance(result, list) and all(type(item) is int for item in result) else None


def _errors() -> tuple[type[Exception], ...]:
    """Give what asking may raise."""
    import openai

    return (openai.OpenAIError, OSError, ValueError, AttributeError, TypeError)


def language_agent(name: str, settings: ModelSettings) -> LanguageAgent:
    """Make a language agent with the official client."""
    try:
        from openai import AsyncOpenAI
    except ImportError:
        raise MissingExtra("the openai client", "llm") from None
    client = AsyncOpenAI(
        base_url=settings.base_url, api_key=settings.api_key, timeout=settings.timeout, max_retries=settings.retries
    )
    return LanguageAgent(name, settings, client.chat.completions.create, close=client.close)
