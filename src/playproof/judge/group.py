"""Groups: the episodes of one window that are scored against each other, with what the window did.

Leaves out: scoring (computed, ruler).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Engine

from playproof.datasets.conversations.art import Conversation, JudgeView, PolicyView, judge_view
from playproof.datasets.conversations.groups import Turn
from playproof.errors import InputError
from playproof.game.golden import RankedGroup
from playproof.json_types import Json
from playproof.record.trajectories.outcomes import Outcomes, read_outcomes
from playproof.store.db.trajectories import StoredTrajectory, read_windows


@dataclass(frozen=True)
class Contender:
    """One episode of a group: how it was played, and what it earned in the smallest unit of money."""

    trajectory_id: str
    view: JudgeView
    start_equity: int | None = None
    pnl: int | None = None

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """Give what the agent read and answered."""
        return self.view.played.conversations

    def answering(self, answers: Mapping[int, str] | str) -> Contender:
        """Give the same episode with other answers, by their number or all alike; its money stays."""
        number = -1
        conversations = []
        for conversation in self.conversations:
            turns = []
            for turn in conversation:
                number += turn.sampled
                said = answers if isinstance(answers, str) else answers.get(number, turn.content)
                turns.append(Turn(turn.role, said, sampled=True) if turn.sampled else turn)
            conversations.append(tuple(turns))
        played = replace(self.view.played, conversations=tuple(conversations))
        return replace(self, view=replace(self.view, played=played))

    @property
    def answers(self) -> list[str]:
        """Give the agent's own answers in their order."""
        return [turn.content for conversation in self.conversations for turn in conversation if turn.sampled]


@dataclass(frozen=True)
class JudgedGroup:
    """All episodes of one window, or of the forks of one."""

    group_id: str
    outcomes: Outcomes
    contenders: tuple[Contender, ...]

    def __post_init__(self) -> None:
        names = self.names
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(
                f"expected at least 2 different episodes in group {self.group_id}, found {len(set(names))}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Give the ids of the episodes."""
        return tuple(contender.trajectory_id for contender in self.contenders)

    def put(self, changed: Contender) -> JudgedGroup:
        """Give the group with one episode in another form."""
        same = tuple(
            changed if contender.trajectory_id == changed.trajectory_id else contender for contender in self.contenders
        )
        return replace(self, contenders=same)


@dataclass(frozen=True)
class Scores:
    """What one reward gives to the episodes of one group; rewards of two names never stand in one."""

    reward: str
    """computed, or judge."""
    version: str
    """What made them: the reward's version, or the judge's model and prompt."""
    group_id: str
    values: Mapping[str, float]
    """By trajectory."""


def read_groups(engine: Engine, window_ids: Iterable[str], market: str = "") -> list[JudgedGroup]:
    """Read the groups of windows that have outcomes: the ended episodes of each scenario, two or more."""
    wanted = list(window_ids)
    outcomes = read_outcomes(engine, wanted, market)
    result: dict[tuple[str, str], list[StoredTrajectory]] = {}
    for window in read_windows(engine, wanted, market):
        if window.ended and window.window_id in outcomes:
            result.setdefault((window.window_id, window.scenario_id), []).append(window)
    return [
        JudgedGroup(_name(*name), outcomes[name[0]], tuple(_contender(item, outcomes[name[0]]) for item in of))
        for name, of in sorted(result.items())
        if len(of) > 1
    ]


def _name(window_id: str, scenario_id: str) -> str:
    return window_id if scenario_id == window_id else f"{window_id}/{scenario_id}"


def _contender(trajectory: StoredTrajectory, outcomes: Outcomes) -> Contender:
    return Contender(
        trajectory.trajectory_id, judge_view(trajectory, outcomes), trajectory.start_equity, trajectory.final_pnl
    )


def from_ranked(ranked_group: RankedGroup, number: int = 0) -> JudgedGroup:
    """Make a group of plays whose order is known; episodes are named by their place."""
    outcomes = Outcomes(ranked_group.window_id, tuple(ranked_group.outcomes))
    contenders = []
    for play in ranked_group.plays:
        conversations = tuple(
            tuple(Turn(item.role, item.content, sampled=item.role == "assistant") for item in conversation)
            for conversation in play.conversations
        )
        name: Json = {"trajectory_id": f"golden-{number}-{play.rank}"}
        view = JudgeView(PolicyView(conversations, name), outcomes)
        contenders.append(Contender(name["trajectory_id"], view, play.start_equity, play.pnl))
    return JudgedGroup(f"golden-{number}", outcomes, tuple(contenders))
