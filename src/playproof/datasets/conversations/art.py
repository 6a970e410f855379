"""Trajectories in the format of OpenPipe ART: what a policy may learn from, what a judge may know, and back again.

A policy's view is the conversations that the agent had, exactly as it had them; a judge's view is that and the outcomes
of the window. They are different types, and only `judge_view` takes outcomes: nothing that trains is made from one.
In ART's terms a trajectory is `messages_and_choices`, where an answer with its tokens and log-probabilities is a Choice
and trainable, and one without is a message; a call that does not continue the conversation before it begins one of
the `additional_histories`. Numbers go to metrics, texts to metadata.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from playproof.datasets.conversations.groups import Turn
from playproof.errors import DecodeError
from playproof.json_types import Json
from playproof.record.trajectories.outcomes import Outcomes
from playproof.store.db.trajectories import StoredCall, StoredTrajectory

Number = float | int | bool
Text = str | float | int | bool | None
_TOKEN = re.compile(r"token_id:(\d+)")
_NUMBERS = ("final_balance", "final_pnl", "trades_executed", "posts_created", "duration_ms")
_TEXTS = ("trajectory_id", "agent_id", "archetype", "window_id", "scenario_id", "final_status")


Conversation = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class PolicyView:
    """What a policy may learn from: the agent's conversations, and what it earned. No outcome of the window."""

    conversations: tuple[Conversation, ...]
    metadata: Mapping[str, Text] = field(default_factory=dict)
    metrics: Mapping[str, Number] = field(default_factory=dict)
    reward: float = 0.0

    @property
    def turns(self) -> int:
        """Count the agent's own answers."""
        return sum(turn.sampled for conversation in self.conversations for turn in conversation)


@dataclass(frozen=True, slots=True)
class JudgeView:
    """What a judge may know: the agent's conversations, and what the window did."""

    played: PolicyView
    outcomes: Outcomes


@dataclass(frozen=True, slots=True)
class Compatibility:
    """What stands between a group and training: errors forbid it, warnings limit it."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def compatible(self) -> bool:
        """Tell whether the group can be trained on at all."""
        return not self.errors


def policy_view(trajectory: StoredTrajectory, reward: float = 0.0) -> PolicyView:
    """Give what a policy may learn from a stored trajectory."""
    conversations: list[list[Turn]] = []
    for call in trajectory.calls:
        if call.response is not None and call.purpose in ("action", "reasoning", "response"):
            _add(conversations, call)
    numbers = {name: getattr(trajectory, name) for name in _NUMBERS if getattr(trajectory, name) is not None}
    texts = {name: getattr(trajectory, name) for name in _TEXTS if getattr(trajectory, name) is not None}
    models = sorted({call.model for call in trajectory.calls})
    return PolicyView(tuple(map(tuple, conversations)), texts | {"models": ", ".join(models)}, numbers, reward)


def judge_view(trajectory: StoredTrajectory, outcomes: Outcomes) -> JudgeView:
    """Give what a judge may know of a stored trajectory."""
    if outcomes.window_id != trajectory.window_id:
        raise DecodeError(f"expected outcomes of {trajectory.window_id}, found those of {outcomes.window_id}")
    return JudgeView(policy_view(trajectory), outcomes)


def _add(conversations: list[list[Turn]], call: StoredCall) -> None:
    """Put a call behind the conversation that it continues, or begin another."""
    prompt = [_turn(message) for message in call.prompt]
    known = conversations[-1] if conversations else None
    if known is not None and _told(prompt[: len(known)]) == _told(known):
        known.extend(prompt[len(known) :])
    else:
        conversations.append(prompt)
    ids, logprobs = (call.token_ids or (), call.logprobs or ()) if call.trainable else ((), ())
    numbers = tuple(value for value in logprobs if value is not None)
    conversations[-1].append(Turn("assistant", call.response or "", tuple(ids), numbers, sampled=True))


def _turn(message: Json) -> Turn:
    content = message.get("content")
    return Turn(str(message.get("role", "user")), content if isinstance(content, str) else _flat(content))


def _flat(content: object) -> str:
    """Give the text of a message that is a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def _told(turns: Iterable[Turn]) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in turns]


def to_art(view: PolicyView) -> Json:
    """Give a policy's view as ART's Trajectory."""
    first, *rest = view.conversations or ((),)
    return {
        "messages_and_choices": [_message(turn) for turn in first],
        "tools": None,
        "additional_histories": [
            {"messages_and_choices": [_message(turn) for turn in item], "tools": None} for item in rest
        ],
        "reward": view.reward,
        "initial_policy_version": None,
        "final_policy_version": None,
        "metrics": dict(view.metrics),
        "metadata": dict(view.metadata),
        "logs": [],
    }


def to_art_group(views: Sequence[PolicyView], metadata: Mapping[str, Text] | None = None) -> Json:
    """Give the views of one scenario as ART's TrajectoryGroup."""
    return {
        "trajectories": [to_art(view) for view in views],
        "exceptions": [],
        "metadata": dict(metadata or {}),
        "metrics": {},
        "logs": [],
    }


def _message(turn: Turn) -> Json:
    """Write a turn: a Choice if it can be trained on, else a message."""
    if not turn.trainable:
        return {"role": turn.role, "content": turn.content}
    tokens: list[Json] = [
        {"token": f"token_id:{identity}", "bytes": None, "logprob": logprob, "top_logprobs": []}
        for identity, logprob in zip(turn.token_ids, turn.logprobs, strict=True)
    ]
    return {
        "finish_reason": "stop",
        "index": 0,
        "logprobs": {"content": tokens, "refusal": None},
        "message": {"role": "assistant", "content": turn.content, "refusal": None},
    }


def from_art(payload: Json) -> PolicyView:
    """Read ART's Trajectory back; an answer without tokens is the agent's own only where none has tokens."""
    try:
        histories = [
            payload["messages_and_choices"],
            *(item["messages_and_choices"] for item in payload.get("additional_histories", [])),
        ]
        conversations = tuple(tuple(_read_message(item) for item in history) for history in histories)
        reward, metrics, metadata = float(payload["reward"]), dict(payload["metrics"]), dict(payload["metadata"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DecodeError(f"expected an ART trajectory, found {type(error).__name__}: {error}") from error
    return PolicyView(conversations if any(conversations) else (), metadata, metrics, reward)


def from_art_group(payload: Json) -> tuple[PolicyView, ...]:
    """Read ART's TrajectoryGroup back."""
    if not isinstance(payload.get("trajectories"), list):
        raise DecodeError("expected an ART group with a list of trajectories")
    return tuple(from_art(item) for item in payload["trajectories"])


def _read_message(payload: Json) -> Turn:
    if "message" not in payload:
        content = payload.get("content")
        return Turn(
            payload["role"],
            content if isinstance(content, str) else _flat(content),
            sampled=payload["role"] == "assistant",
        )
    content = (payload.get("logprobs") or {}).get("content") or []
    ids = tuple(_token_id(item["token"]) for item in content)
    logprobs = tuple(float(item["logprob"]) for item in content)
    return Turn("assistant", payload["message"]["content"] or "", ids, logprobs, sampled=True)


def _token_id(token: str) -> int:
    named = _TOKEN.fullmatch(token)
    if named is None:
        raise DecodeError(f"expected a token as token_id:NUMBER, found {token[:40]!r}")
    return int(named[1])


def validate_compatibility(views: Sequence[PolicyView], min_agents: int = 2) -> Compatibility:
    """Check a group before it is trained on."""
    errors = [f"{_name(view)}: {view_error}" for view in views for view_error in _view_errors(view)]
    warnings = [f"{_name(view)}: {view_warning}" for view in views for view_warning in _view_warnings(view)]
    names = [view.metadata.get("trajectory_id") for view in views]
    if not views:
        errors.append("the group is empty")
    if len(set(names)) < len(names):
        errors.append("a trajectory is in the group twice, or has no trajectory_id")
    scenarios = {view.metadata.get("scenario_id") for view in views}
    if len(scenarios) > 1:
        errors.append(f"expected one scenario in a group, found {len(scenarios)}")
    if len(views) < min_agents:
        warnings.append(f"expected at least {min_agents} trajectories to compare, found {len(views)}")
    if len(views) > 1 and len({view.reward for view in views}) == 1:
        warnings.append("all rewards are equal: the group teaches nothing and is dropped")
    return Compatibility(tuple(errors), tuple(warnings))


def _name(view: PolicyView) -> str:
    return str(view.metadata.get("trajectory_id", "a trajectory"))


def _view_errors(view: PolicyView) -> Iterable[str]:
    if not view.turns:
        yield "no answer of the agent"
    for conversation in view.conversations:
        if conversation and conversation[0].role not in ("system", "user", "developer"):
            yield f"expected a conversation to begin with system or user, found {conversation[0].role}"
        if any(turn.sampled and not turn.content and not turn.token_ids for turn in conversation):
            yield "an answer is empty"
        if any(turn.role == "system" for turn in conversation[1:]):
            yield "a system prompt stands inside a conversation"
    for name, value in view.metrics.items():
        if not isinstance(value, int | float) or math.isnan(value):
            yield f"expected metric {name} as a number, found {value!r:.40}"
    if not math.isfinite(view.reward):
        yield "the reward is not finite"


def _view_warnings(view: PolicyView) -> Iterable[str]:
    answers = [turn for conversation in view.conversations for turn in conversation if turn.sampled]
    without = sum(not turn.trainable for turn in answers)
    if without:
        yield f"{without} of {len(answers)} answers have no log-probabilities: for SFT only"
    if any(conversation and conversation[0].role == "user" for conversation in view.conversations):
        yield "a conversation has no system prompt"
    if view.metadata.get("final_status") not in (None, "completed"):
        yield f"the trajectory is {view.metadata['final_status']}"
