"""Where GRPO's groups come from: fresh play in forked windows, or windows that were recorded.

Each gives the groups of one iteration with their scores, and takes windows through the ledger, so that none is learned
from twice. Leaves out: learning (grpo).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from sqlalchemy import Engine

from playproof.datasets.conversations.groups import (
    MAX_DROPOUT,
    TARGET,
    ConversationGroup,
    HoldoutSplit,
    TimedWindow,
    drop_windows,
    hold_out,
    read_groups,
    usable_windows,
)
from playproof.datasets.conversations.used_windows import UsedWindows
from playproof.errors import ConfigError, InputError
from playproof.game import Game
from playproof.game.forks import ForkTerms
from playproof.judge import group as judged
from playproof.record.trajectories.outcomes import Outcomes, read_outcomes
from playproof.train.language.model import LanguageModel
from playproof.train.language.rollout import model_player, play, to_judged

RewardFunction = Callable[[judged.JudgedGroup], judged.Scores]
"""Score a group; one named reward, never a mixture."""


@dataclass(frozen=True)
class ScoredGroup:
    """A group and its scores, one for each episode."""

    group: ConversationGroup
    rewards: tuple[float, ...]
    reward: str
    """Name of the reward."""

    @property
    def best(self) -> str:
        """Name the agent with the highest score."""
        index = max(range(len(self.rewards)), key=self.rewards.__getitem__)
        return self.group.episodes[index].agent


@dataclass(frozen=True)
class IterationData:
    """What one iteration learns from."""

    scored: tuple[ScoredGroup, ...]
    dropped: tuple[str, ...] = ()
    """Windows left out of a large set."""
    unscored: int = 0
    """Groups that the reward refused."""


class Source(Protocol):
    """Gives groups to learn from."""

    def take(self, iteration: int, model: LanguageModel, version: str) -> IterationData:
        """Give the groups of an iteration, from 1 on; empty when there are no more."""


def score(group: ConversationGroup, outcomes: Outcomes, reward: RewardFunction) -> ScoredGroup:
    """Score a group and put the scores in the order of its episodes."""
    payload = reward(to_judged(group, outcomes))
    missing = [episode.episode_id for episode in group.episodes if episode.episode_id not in payload.values]
    if missing:
        raise InputError(f"expected a score for every episode of {group.window}, found none for {missing[0]}")
    return ScoredGroup(group, tuple(payload.values[episode.episode_id] for episode in group.episodes), payload.reward)


@dataclass(frozen=True)
class ForkPlan:
    """Which forked windows are learned from, and which are held out: numbers in the order of time."""

    terms: ForkTerms
    first: int
    iterations: int
    per_iteration: int
    """Windows of an iteration."""
    holdout: int
    embargo: int

    def numbers(self, iteration: int) -> range:
        """Give the windows of an iteration, from 1 on."""
        start = self.first + (iteration - 1) * self.per_iteration
        return range(start, start + self.per_iteration)

    @property
    def held(self) -> range:
        """Give the windows to measure on."""
        start = self.first + self.iterations * self.per_iteration + self.embargo
        return range(start, start + self.holdout)

    def split(self) -> HoldoutSplit:
        """Give the names of both, by the same rule that recorded windows are split by."""
        last = self.held.stop
        placed = (TimedWindow(self.terms.window(number), number, number + 1) for number in range(self.first, last))
        return hold_out(placed, self.holdout, self.embargo)


@dataclass(frozen=True)
class ForkedSource:
    """Fresh play of the policy itself: K copies of each window are a group."""

    game: Game
    plan: ForkPlan
    forks: int
    max_tokens: int
    seed: int
    reward: RewardFunction
    ledger: UsedWindows

    def take(self, iteration: int, model: LanguageModel, version: str) -> IterationData:
        """Play the iteration's windows with the model as it stands."""
        numbers, terms = self.plan.numbers(iteration), self.plan.terms
        self.ledger.reserve([terms.window(number) for number in numbers], iteration)
        player = model_player(model, self.max_tokens, (self.seed, iteration))
        played = play(self.game, terms, numbers, self.forks, player, version)
        return IterationData(tuple(score(item.group, item.outcomes, self.reward) for item in played))


@dataclass(frozen=True)
class RecordedSource:
    """Windows that agents played and that were recorded, the oldest first."""

    engine: Engine
    game: Game
    split: HoldoutSplit
    per_iteration: int
    min_agents: int
    min_actions: int
    seed: int
    reward: RewardFunction
    ledger: UsedWindows
    parent: str
    """Version whose samples count as those of the policy at its beginning."""
    target: int = TARGET
    most: float = MAX_DROPOUT

    def take(self, iteration: int, model: LanguageModel, version: str) -> IterationData:  # noqa: ARG002
        """Read the next windows that were not used; large sets lose whole windows."""
        mine = self.ledger.reserved(iteration)
        used = self.ledger.used() - mine
        windows = sorted(mine) or [name for name in self.split.train if name not in used][: self.per_iteration]
        if not windows:
            return IterationData(())
        self.ledger.reserve(windows, iteration)
        market = self.game.windows.market
        read = read_groups(self.engine, windows, self.min_agents, self.min_actions, market)
        groups = [self._own(group) for group in read]
        kept, dropped = drop_windows(groups, self.seed + iteration, self.target, self.most)
        outcomes = read_outcomes(self.engine, windows, market)
        scored = tuple(score(item, outcomes[item.window.partition("/")[0]], self.reward) for item in kept)
        return IterationData(scored, dropped)

    def _own(self, group: ConversationGroup) -> ConversationGroup:
        """Give the parent's samples the number 0 of this line."""
        first = f"{self.ledger.lineage}@0"
        return replace(
            group,
            episodes=tuple(
                replace(episode, version=first) if episode.version == self.parent else episode
                for episode in group.episodes
            ),
        )


def recorded_split(
    engine: Engine,
    game: Game,
    now: datetime,
    hours: float,
    min_agents: int,
    min_actions: int,
    holdout: int,
    embargo: float,
) -> HoldoutSplit:
    """Find recorded windows to learn from, time-ordered, with the last ones held out."""
    if game.windows is None:
        raise ConfigError(f"expected a game with windows, found {game.name}")
    result = usable_windows(engine, game.windows, now, hours, min_agents, min_actions)
    split = hold_out(result, min(holdout, len(result)), embargo)
    if not split.train:
        raise InputError(
            f"expected windows to learn from, found {len(result)} usable ones, of which {len(split.held)} are held out "
            f"and {len(split.embargoed)} lie in the embargo before them; record more windows, or hold fewer out"
        )
    return split
