"""Let players of words play forked windows, and measure them in money: a model, or a scripted player.

All windows stand at the same decision and all their copies are asked at once. Play is data: groups with the tokens and
log-probabilities that were drawn, and what each window did beside them, never in them. Players are measured on the same
held-out windows, paired window by window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from playproof.datasets.conversations.art import JudgeView, PolicyView
from playproof.datasets.conversations.groups import ChatExchange, Conversation, ConversationGroup, conversation_of
from playproof.errors import ConfigError
from playproof.game import Game
from playproof.game.forks import ForkEnd, Forks, ForkTerms
from playproof.json_types import Json
from playproof.judge import group as judged
from playproof.record.trajectories.outcomes import Outcomes
from playproof.stats.evidence import bootstrap_interval, paired_intervals
from playproof.train.language.generation import generate
from playproof.train.language.model import LanguageModel

Answering = Callable[[Sequence[Forks]], list[list[ChatExchange]]]
"""Give an exchange for every copy of every window."""


@dataclass(frozen=True)
class PlayedGroup:
    """A group that was played in forks, and what came of it."""

    group: ConversationGroup
    ends: tuple[ForkEnd, ...]
    outcomes: Outcomes

    @property
    def money(self) -> float:
        """Give the mean P&L of the copies, in the smallest unit."""
        return float(np.mean([end.pnl for end in self.ends]))

    @property
    def reward(self) -> float:
        """Give the mean reward of the copies."""
        return float(np.mean([end.reward for end in self.ends]))

    def judged(self) -> judged.JudgedGroup:
        """Give the group as rewards and judges score it."""
        return to_judged(self.group, self.outcomes)


def to_judged(group: ConversationGroup, outcomes: Outcomes) -> judged.JudgedGroup:
    """Give a group with its outcomes, as rewards and judges score it."""
    contenders = []
    for episode in group.episodes:
        conversations = tuple(conversation_of(exchange) for exchange in episode.exchanges)
        view = PolicyView(conversations, {"trajectory_id": episode.episode_id, "window_id": group.window})
        contenders.append(
            judged.Contender(episode.episode_id, JudgeView(view, outcomes), episode.start_equity, episode.pnl)
        )
    return judged.JudgedGroup(group.window, outcomes, tuple(contenders))


def play(
    game: Game, terms: ForkTerms, numbers: Sequence[int], forks: int, player: Answering, version: str | None
) -> list[PlayedGroup]:
    """Play windows, each in so many copies; give a group a window."""
    if game.language is None:
        raise ConfigError(f"expected a game whose windows can be forked for language models, found {game.name}")
    make = game.language().forks
    tables: list[Forks] = [make(terms, number, forks) for number in numbers]
    said: list[list[list[ChatExchange]]] = [[[] for _ in range(forks)] for _ in tables]
    while tables and not tables[0].over:
        for index, (table, answers) in enumerate(zip(tables, player(tables), strict=True)):
            for own, exchange in zip(said[index], answers, strict=True):
                own.append(exchange)
            table.act([exchange.answer for exchange in answers])
    return [
        _group(terms.window(number), version, own, table)
        for number, own, table in zip(numbers, said, tables, strict=True)
    ]


def _group(window: str, version: str | None, said: Sequence[Sequence[ChatExchange]], table: Forks) -> PlayedGroup:
    ends = table.ends()
    episodes = tuple(
        Conversation(
            f"{window}/{fork}", version or "scripted", version, tuple(own), end.pnl, end.start_equity, end.valid
        )
        for fork, (own, end) in enumerate(zip(said, ends, strict=True))
    )
    rows = tuple({"window_id": window, **row} for row in table.outcomes())
    return PlayedGroup(ConversationGroup(window, episodes), ends, Outcomes(window, rows))


def model_player(result: LanguageModel, limit: int, seed: Sequence[int], temperature: float = 1.0) -> Answering:
    """Answer by a model; the same seed, the same answers."""
    generator = torch.Generator()
    generator.manual_seed(int(np.random.default_rng(list(seed)).integers(2**62)))

    def answers(tables: Sequence[Forks]) -> list[list[ChatExchange]]:
        chats = [[tuple((item.role, item.content) for item in chat) for chat in table.prompts()] for table in tables]
        flat = [chat for of in chats for chat in of]
        prompts = [result.prompt_ids(chat) for chat in flat]
        result.model.eval()
        drawn = generate(result.model, prompts, result.ends, limit, generator, temperature)
        exchanges = iter(
            ChatExchange(chat, result.text(item.token_ids), prompt, item.token_ids, item.logprobs, temperature)
            for chat, prompt, item in zip(flat, prompts, drawn, strict=True)
        )
        return [[next(exchanges) for _ in of] for of in chats]

    return answers


def scripted_player(name: str, seed: Sequence[int]) -> Answering:
    """Answer as a scripted player does, such as `informed`, or `informed:0.65`, which is right so often."""
    rng = np.random.default_rng(list(seed))

    def answers(tables: Sequence[Forks]) -> list[list[ChatExchange]]:
        results = []
        for table in tables:
            chats = [tuple((item.role, item.content) for item in chat) for chat in table.prompts()]
            results.append(
                [ChatExchange(chat, text) for chat, text in zip(chats, table.scripted(name, rng), strict=True)]
            )
        return results

    return answers


Floats = NDArray[np.float64]
AT_ONCE = 16
"""Windows that are played side by side."""
BASELINES = ("wait", "random", "momentum", "hold", "informed")


@dataclass(frozen=True)
class PlayerMeasurement:
    """How a player did; one number for each window, the mean over its copies, money in the smallest unit."""

    pnl: Floats
    reward: Floats
    valid: float
    """Share of answers that could be read as a decision."""
    refused: float
    trades: float
    """In each episode."""

    def to_json(self, rng: np.random.Generator) -> Json:
        """Give means and intervals."""
        low, high = bootstrap_interval(self.pnl, rng)
        return {
            "windows": len(self.pnl),
            "pnl": float(self.pnl.mean()),
            "pnl_low": low,
            "pnl_high": high,
            "reward": float(self.reward.mean()),
            "valid": self.valid,
            "refused": self.refused,
            "trades": self.trades,
        }


def measure(game: Game, terms: ForkTerms, numbers: Sequence[int], forks: int, player: Answering) -> PlayerMeasurement:
    """Let a player play windows, each in so many copies."""
    played: list[PlayedGroup] = []
    for start in range(0, len(numbers), AT_ONCE):
        played += play(game, terms, numbers[start : start + AT_ONCE], forks, player, None)
    ends = [end for item in played for end in item.ends]
    decisions = max(1, sum(end.decisions for end in ends))
    return PlayerMeasurement(
        np.array([item.money for item in played]),
        np.array([item.reward for item in played]),
        sum(end.valid for end in ends) / decisions,
        sum(end.refused for end in ends) / decisions,
        sum(end.trades for end in ends) / max(1, len(ends)),
    )


def measure_baselines(
    game: Game, terms: ForkTerms, numbers: Sequence[int], names: Sequence[str] = BASELINES
) -> dict[str, PlayerMeasurement]:
    """Let scripted players play the same windows."""
    return {name: measure(game, terms, numbers, 1, scripted_player(name, (terms.seed, 77))) for name in names}


def gains(
    player_measurement: PlayerMeasurement, others: Mapping[str, PlayerMeasurement], rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Give for each other player the interval of the difference in P&L, window by window."""
    return paired_intervals(player_measurement.pnl, {name: other.pnl for name, other in others.items()}, rng)
