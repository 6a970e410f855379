"""What an agent records of its play: a start, steps with what it looked at, model calls and actions, an end.

Frozen records that refuse nonsense at birth. Money is integers of the game's smallest unit; times are aware, and
where none is given the recorder's clock tells it.
Leaves out: how they are stored (trajectory_writes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from playproof.errors import InputError
from playproof.events import check_id
from playproof.store.db.columns import LARGEST

PURPOSES = ("action", "reasoning", "evaluation", "response")
ENDS = ("completed", "failed", "cut")
LONGEST_NAME = 200
TRADE, POST = "trade", "create_post"
"""Types of actions that a trajectory counts, in any case."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a trajectory."""

    agent_id: str
    window_id: str | None = None
    """The window that holds the start unless given."""
    scenario_id: str | None = None
    """The window's id unless given."""
    metadata: Json | None = None
    trajectory_id: str | None = None
    """Made up unless given."""
    archetype: str | None = None
    episode_id: str | None = None
    batch_id: str | None = None
    is_training_data: bool = True
    is_evaluation: bool = False
    time: datetime | None = None

    def __post_init__(self) -> None:
        check_id(self.agent_id, "agent_id")
        if self.trajectory_id is not None:
            check_id(self.trajectory_id, "trajectory_id")
        for name in ("scenario_id", "archetype", "episode_id", "batch_id"):
            _check_name(getattr(self, name), name)
        _check_time(self.time)


@dataclass(frozen=True, slots=True)
class StepStart:
    """The beginning of a step: the environment as the agent stands in it."""

    state: Json = field(default_factory=dict)
    time: datetime | None = None

    def __post_init__(self) -> None:
        _check_time(self.time)


@dataclass(frozen=True, slots=True)
class Access:
    """Something that the agent looked at before it chose."""

    provider: str
    data: Any = None
    purpose: str | None = None
    time: datetime | None = None

    def __post_init__(self) -> None:
        _check_name(self.provider, "provider")
        _check_name(self.purpose, "purpose")
        _check_time(self.time)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a language model."""

    model: str
    purpose: str = "action"
    messages: list[Json] | None = None
    system_prompt: str | None = None
    user_prompt: str | None = None
    response: str | None = None
    reasoning: str | None = None
    model_version: str | None = None
    latency_ms: float | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    """Ids of the sampled tokens."""
    logprobs: list[float | None] | None = None
    """Log-probabilities of the sampled tokens; what is unknown is None."""
    call_id: str | None = None
    error: str | None = None
    time: datetime | None = None

    def __post_init__(self) -> None:
        if self.purpose not in PURPOSES:
            raise InputError(f"expected purpose to be one of {', '.join(PURPOSES)}, found {self.purpose[:40]!r}")
        if self.call_id is not None:
            check_id(self.call_id, "call_id")
        _check_name(self.model, "model")
        for name in ("max_tokens", "prompt_tokens", "completion_tokens"):
            _check_whole(getattr(self, name), name, 0, 2**31 - 1)
        if self.token_ids is not None and self.logprobs is not None and len(self.token_ids) != len(self.logprobs):
            raise InputError(
                f"expected one log-probability a token, found {len(self.logprobs)} of {len(self.token_ids)} tokens"
            )
        if any(value is not None and value > 1e-3 for value in self.logprobs or ()):
            raise InputError(f"expected log-probabilities of at most 0, found {max(filter(None, self.logprobs or ()))}")
        _check_time(self.time)


@dataclass(frozen=True, slots=True)
class ActionTaken:
    """What the agent did, and what came of it."""

    type: str
    parameters: Json | None = None
    success: bool | None = None
    """None where nobody said."""
    result: Json | None = None
    error: str | None = None
    reasoning: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.type, "action type")

    @property
    def kind(self) -> str:
        """Give the type in lower case, as it is counted."""
        return self.type.lower()


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a step."""

    action: ActionTaken
    reward: float | None = None
    """As the agent reports it."""
    done: bool = False
    time: datetime | None = None

    def __post_init__(self) -> None:
        if self.reward is not None and not math.isfinite(self.reward):
            raise InputError(f"expected a finite reward, found {self.reward}")
        _check_time(self.time)


@dataclass(frozen=True, slots=True)
class End:
    """The end of a trajectory."""

    final_balance: int | None = None
    final_pnl: int | None = None
    status: str = "completed"
    metrics: Json | None = None
    time: datetime | None = None

    def __post_init__(self) -> None:
        if self.status not in ENDS:
            raise InputError(f"expected status to be one of {', '.join(ENDS)}, found {self.status[:40]!r}")
        for name in ("final_balance", "final_pnl"):
            _check_whole(getattr(self, name), name, -LARGEST, LARGEST)
        _check_time(self.time)


def count_actions(kinds: Sequence[tuple[str | None, bool | None]], wanted: str) -> int:
    """Count actions of a kind that did not fail."""
    return sum(1 for kind, success in kinds if kind is not None and kind.lower() == wanted and success is not False)


def _check_name(name: str | None, what: str) -> None:
    if name is not None and not 0 < len(name) <= LONGEST_NAME:
        raise InputError(f"expected {what} of 1 to {LONGEST_NAME} characters, found {len(name)}")


def _check_time(time: datetime | None) -> None:
    if time is not None and time.utcoffset() is None:
        raise InputError(f"expected an aware time, found {time.isoformat()} without a zone")


def _check_whole(number: int | None, what: str, least: int, most: int) -> None:
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most):
        raise InputError(f"expected {what} as a whole number of the smallest unit, found {number!r:.40}")
