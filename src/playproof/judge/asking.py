"""Ask a judge's model, within a budget that is reserved before every call, and never the same question twice.

Tokens of a question are reckoned as one for every two characters, more than any known tokenizer takes of such text, so
that the reckoning is a bound. Leaves out: what is asked and how an answer is read (ruler).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlalchemy import Engine, insert, select

from playproof.errors import ConfigError, MissingExtra, PlayproofError
from playproof.judge.ruler import AnswerRefused, JudgeQuestion, prompt_hash
from playproof.store.db import JudgeCall, writing


@dataclass(frozen=True)
class JudgeSettings:
    """Which model judges, and how it is asked."""

    model: str
    base_url: str | None = None
    """Any OpenAI-compatible address; None: the client's own, $OPENAI_BASE_URL."""
    api_key: str | None = None
    """Never stored; None: $OPENAI_API_KEY."""
    permutations: int = 2
    """Orders in which every group is shown; scores are their mean."""
    canaries: int = 1
    """Episodes without a word that are mixed into every group; an answer that likes them is refused."""
    attempts: int = 2
    """How often an order is asked before the group is given up."""
    temperature: float = 0.0
    max_tokens: int = 1_500
    timeout: float = 120.0
    retries: int = 2
    """Of the client, where the endpoint does not answer."""
    parallel: int = 4
    price_in: float = 0.0
    """USD for a million tokens of questions."""
    price_out: float = 0.0
    """USD for a million tokens of answers."""

    def __post_init__(self) -> None:
        if self.permutations < 2 or self.attempts < 1 or not 0 <= self.canaries <= 3 or self.parallel < 1:
            raise ConfigError(
                "expected at least 2 permutations, 1 attempt, 1 call at a time and 0 to 3 canaries, "
                f"found {self.permutations}, {self.attempts}, {self.parallel} and {self.canaries}"
            )

    def cost(self, prompt: int, completion: int) -> float:
        """Give what tokens cost in USD."""
        return (prompt * self.price_in + completion * self.price_out) / 1_000_000


@dataclass(frozen=True)
class Budget:
    """The most that judging may take; None is no limit."""

    calls: int | None = 1_000
    tokens: int | None = None
    usd: float | None = None


class BudgetSpent(PlayproofError):
    """Tell that the next call could take more than the budget."""


@dataclass(frozen=True)
class Estimate:
    """What judging would take at most, if every order is asked once."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    known: int = 0
    """Questions whose answers are stored already; they are not among the calls."""

    @property
    def tokens(self) -> int:
        """Give all tokens."""
        return self.prompt_tokens + self.completion_tokens

    def check(self, budget: Budget) -> None:
        """Refuse work that would not fit, before the first call."""
        limits = (("calls", self.calls, budget.calls), ("tokens", self.tokens, budget.tokens))
        for name, wanted, most in (*limits, ("USD", self.usd, budget.usd)):
            if most is not None and wanted > most:
                raise BudgetSpent(
                    f"expected judging to take at most {most} {name}, found an estimate of {wanted:.4g}; "
                    "judge fewer windows or raise the budget"
                )


@dataclass(frozen=True)
class ModelAnswer:
    """What a model answered."""

    text: str
    version: str | None
    prompt_tokens: int | None
    completion_tokens: int | None


class JudgeEndpoint(Protocol):
    """Asks a model once; raises Refused with the reason `transport` if it does not answer."""

    def __call__(self, messages: Sequence[Mapping[str, str]]) -> ModelAnswer:
        """Ask."""


def openai_endpoint(settings: JudgeSettings) -> JudgeEndpoint:
    """Make an endpoint of the official client."""
    try:
        import openai
    except ImportError:
        raise MissingExtra("the openai client", "llm") from None
    try:
        client = openai.OpenAI(
            base_url=settings.base_url,
            api_key=settings.api_key,
            timeout=settings.timeout,
            max_retries=settings.retries,
        )
    except openai.OpenAIError as error:
        raise ConfigError(f"expected a key for the judge in OPENAI_API_KEY, found: {error}") from None

    def ask(messages: Sequence[Mapping[str, str]]) -> ModelAnswer:
        asked: Any = [dict(message) for message in messages]
        try:
            answer = client.chat.completions.create(
                model=settings.model,
                messages=asked,
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
            )
            text = answer.choices[0].message.content or "" if answer.choices else ""
        except (openai.OpenAIError, OSError, ValueError, AttributeError, TypeError) as error:
            raise AnswerRefused("transport", f"{type(error).__name__}: {str(error)[:300]}") from error
        usage = answer.usage
        tokens = (usage.prompt_tokens, usage.completion_tokens) if usage is not None else (None, None)
        return ModelAnswer(text, answer.model, *tokens)

    return ask


def bound_tokens(question: JudgeQuestion) -> int:
    """Give a bound on a question's tokens."""
    return question.characters // 2 + 64


class BudgetMeter:
    """What has been spent; threads may share it."""

    def __init__(self, budget: Budget, settings: JudgeSettings) -> None:
        self.budget, self.settings = budget, settings
        self.calls = self.prompt_tokens = self.completion_tokens = 0
        self._lock = threading.Lock()

    @property
    def usd(self) -> float:
        """Give what the tokens cost."""
        return self.settings.cost(self.prompt_tokens, self.completion_tokens)

    def reserve(self, prompt: int) -> None:
        """Set the most that one call may take aside, or refuse it."""
        with self._lock:
            tokens = self.prompt_tokens + self.completion_tokens + prompt + self.settings.max_tokens
            usd = self.usd + self.settings.cost(prompt, self.settings.max_tokens)
            Estimate(self.calls + 1, tokens, 0, usd).check(self.budget)
            self.calls += 1
            self.prompt_tokens += prompt
            self.completion_tokens += self.settings.max_tokens

    def settle(self, prompt: int, model_answer: ModelAnswer | None) -> None:
        """Put back what a call did not take; what an endpoint does not tell stays spent, a failed call is free."""
        with self._lock:
            if model_answer is None:
                self.prompt_tokens -= prompt
                self.completion_tokens -= self.settings.max_tokens
                return
            if model_answer.prompt_tokens is not None and model_answer.completion_tokens is not None:
                self.prompt_tokens += model_answer.prompt_tokens - prompt
                self.completion_tokens += model_answer.completion_tokens - self.settings.max_tokens


@dataclass(frozen=True)
class CachedAnswer:
    """A stored answer."""

    labels: tuple[str, ...]
    nonce: str
    answer: str
    version: str | None


class Cache:
    """Answers by the hash of what was asked: in the relational tables, or in memory without them."""

    def __init__(self, engine: Engine | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.engine, self.now = engine, now
        self._memory: dict[str, CachedAnswer] = {}

    def get(self, key: str) -> CachedAnswer | None:
        """Give what was answered."""
        if self.engine is None:
            return self._memory.get(key)
        query = select(JudgeCall.labels, JudgeCall.nonce, JudgeCall.answer, JudgeCall.judge_version)
        with self.engine.connect() as connection:
            row = connection.execute(query.where(JudgeCall.key == key)).first()
        return CachedAnswer(tuple(row[0]), row[1], row[2], row[3]) if row else None

    def put(
        self,
        key: str,
        group_id: str,
        question: JudgeQuestion,
        model_answer: ModelAnswer,
        refused: str | None,
        settings: JudgeSettings,
    ) -> None:
        """Keep an answer, refused ones too; the first one stays."""
        self._memory[key] = CachedAnswer(question.labels, question.nonce, model_answer.text, model_answer.version)
        if self.engine is None:
            return
        paid = settings.cost(
            model_answer.prompt_tokens or bound_tokens(question), model_answer.completion_tokens or settings.max_tokens
        )
        row = {
            "key": key,
            "judge_model": settings.model,
            "judge_version": model_answer.version,
            "prompt_hash": prompt_hash(),
            "group_id": group_id,
            "labels": list(question.labels),
            "nonce": question.nonce,
            "answer": model_answer.text,
            "refused": refused,
            "prompt_tokens": model_answer.prompt_tokens,
            "completion_tokens": model_answer.completion_tokens,
            "cost": paid,
            "created_at": self.now(),
        }
        with writing(self.engine) as connection:
            if connection.execute(select(JudgeCall.key).where(JudgeCall.key == key)).first() is None:
                connection.execute(insert(JudgeCall), [row])
