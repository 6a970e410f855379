"""Episodes as they are shown step by step, whoever played them and wherever they were kept.

An episode of n steps has n + 1 points: one before each step, and the end. Values are the game's own: whole
numbers of the smallest unit where they are money, None where they are unknown. A game tells in `Replaying` what
can be seen of its episodes. Leaves out: playing, reading and drawing them (validate).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ContractError, DecodeError
from playproof.game.vector_env import Chosen, Rows, VectorGame, VectorTerms

Number: TypeAlias = int | float | None
Values: TypeAlias = Mapping[str, Sequence[Number]]
"""By name: one value for each point."""
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Drawn = Literal["value", "change", "move"]
MarkKind = Literal["entry", "exit", "bet", "won", "lost", "end"]
SaidKind = Literal["told", "saw", "thought", "said", "did", "refused"]


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity over the points of an episode."""

    name: str
    panel: str
    """Lines of one panel share an axis; the first panel is the large one. Empty: told, and not drawn."""
    unit: str
    whole: int = 1
    """Values are whole numbers, so many to the unit: 10^9 for money in the smallest unit. 1: as they are."""
    stepped: bool = False
    """Does it stay as it is until the next point, rather than move there?"""
    drawn: Drawn = "value"
    """change: as what was added since the first value; move: as its relative move since then."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a point, drawn on a line."""

    point: int
    line: str
    kind: MarkKind
    text: str


@dataclass(frozen=True, slots=True)
class ReplayText:
    """One text of a step: what a language agent was told, saw, thought, said or did."""

    kind: SaidKind
    who: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ReplayedEpisode:
    """One episode as it is shown: n steps, n + 1 points."""

    window: str
    player: str
    pnl: int | None
    """Change in equity, in the smallest unit; None where nobody told."""
    lines: tuple[Line, ...]
    values: Values
    marks: tuple[Mark, ...]
    actions: tuple[str, ...]
    """What was chosen, in words, (n,)."""
    rewards: Sequence[Number]
    """What each step paid, (n,); empty where nothing is paid."""
    components: Mapping[str, Sequence[float]] = field(default_factory=lambda: MappingProxyType({}))
    features: tuple[str, ...] = ()
    rows: Rows = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """What the player saw, (n + 1, features), or nothing where it was messages."""
    missing: Chosen | None = None
    """What of it was unknown; None: nothing."""
    thoughts: tuple[tuple[tuple[str, ...], NDArray[np.floating[Any]]], ...] = ()
    """For each head its choices and their chances (n, choices); empty where the player has none to tell."""
    predictions: Mapping[str, Sequence[Number]] = field(default_factory=lambda: MappingProxyType({}))
    """By name: a chance at each step, (n,)."""
    said: tuple[tuple[ReplayText, ...], ...] = ()
    """Texts of each step, (n,); empty where nobody speaks."""
    about: str = ""
    """A sentence on where the numbers come from."""

    def __post_init__(self) -> None:
        steps = len(self.actions)
        sizes = {name: (len(of), steps + 1) for name, of in self.values.items()}
        sizes |= {name: (len(of), steps) for name, of in (*self.components.items(), *self.predictions.items())}
        sizes |= {f"chances of {names[0]}": (len(of), steps) for names, of in self.thoughts}
        sizes |= {"rewards": (len(self.rewards) or steps, steps), "texts": (len(self.said) or steps, steps)}
        sizes["rows"] = (len(self.rows) or steps + 1, steps + 1)
        for name, (size, expected) in sizes.items():
            if size != expected:
                raise ContractError(f"expected {expected} of {name!r} in an episode of {steps} steps, found {size}")

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, slots=True)
class LaneSnapshot:
    """Where each of n lanes stands, exactly."""

    values: Arrays
    """By line: (n,)."""
    missing: Chosen | None = None
    """What is unknown in each row, (n, features); None: nothing."""


class ObservedGame(VectorGame, Protocol):
    """Lanes that also tell exactly where each player stood."""

    def before(self) -> LaneSnapshot:
        """Tell how every lane stood when the last step began."""

    def after(self) -> LaneSnapshot:
        """Tell how every lane stood when the last step was over; a window that ended, as it ended."""


@dataclass(frozen=True)
class ReplayRules:
    """What can be seen of a game's episodes."""

    lines: tuple[Line, ...]
    """What watched lanes tell; the first counts time."""
    watch: Callable[[VectorTerms, int], ObservedGame]
    """Make lanes that can be watched; they play exactly as the game's own do."""
    say: Callable[[Sequence[int], str], str]
    """Put an action of an action set into words."""
    marks: Callable[[Values, Sequence[str]], tuple[Mark, ...]]
    """Find what happened in an episode, from its values and actions."""
    stored: Callable[[Mapping[str, Arrays]], tuple[tuple[Line, ...], Values]] | None = None
    """Give the lines of an episode of a data set, from its columns by table; None: money alone."""
    trajectory: Callable[[Any], ReplayedEpisode] | None = None
    """Show a stored trajectory; None: the game's players do not leave any."""


def step_texts(
    trajectory: Any, step: Any, action: str, show_result: Callable[[Mapping[str, Any]], str]
) -> Iterator[ReplayText]:
    """Give what was said at a step of a stored trajectory, in its order, then what the agent did."""
    for call in trajectory.calls_of(step.number):
        for message in call.prompt:
            role = str(message.get("role", "?"))
            text, by_system = content_text(message.get("content")), role == "system"
            yield ReplayText("told", role, text) if by_system else ReplayText("saw", trajectory.agent_id, text)
        if call.reasoning:
            yield ReplayText("thought", call.model, call.reasoning)
        if call.response is not None or call.error is not None:
            yield ReplayText("said", call.model, call.response if call.response is not None else f"error: {call.error}")
    if step.action_reasoning:
        yield ReplayText("thought", trajectory.agent_id, step.action_reasoning)
    refused = step.action_success is False
    payload = f"{action}{f', refused: {step.action_error}' if refused else ''}"
    if step.action_result:
        payload += f"; {show_result(step.action_result)}"
    yield ReplayText("refused" if refused else "did", trajectory.agent_id, payload)


def content_text(content: object) -> str:
    """Give a message's content as a text."""
    if isinstance(content, str):
        return content
    try:
        return json.dumps(content, ensure_ascii=False)
    except TypeError as error:
        raise DecodeError(f"expected a text or JSON, found {type(content).__name__}: {error}") from None
