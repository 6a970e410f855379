"""Recorded windows as the groups that GRPO learns from, the oldest first, each taken once through the ledger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Engine

from playproof.datasets.conversations.groups import (
    MAX_DROPOUT,
    TARGET,
    ConversationGroup,
    HoldoutSplit,
    UsedWindows,
    drop_windows,
    hold_out,
    read_groups,
    usable_windows,
)
from playproof.errors import ConfigError, InputError
from playproof.game import Game
from playproof.record.trajectories.outcomes import read_outcomes
from playproof.train.language.grpo import IterationData, RewardFunction, score
from playproof.train.language.model import LanguageModel


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
