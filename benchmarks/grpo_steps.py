"""Our side of the bench of GRPO: one whole step, and generation with and without shared prefixes. Leaves out: TRL."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from playproof.datasets.conversations.groups import TokenSequence
from playproof.errors import ConfigError
from playproof.game import Game
from playproof.game.forks import ForkTerms
from playproof.train.language.generation import generate
from playproof.train.language.grpo import Clipping, GRPOLearner, TrainingSample, UpdateStats, advantages
from playproof.train.language.model import SMOLLM2, LanguageModel, load_language_model
from playproof.train.language.tiny import make_tiny

Messages = tuple[tuple[str, str], ...]


def prompt_of(game: Game) -> Messages:
    """Give the chat that language agents read at the first decision of a forked window."""
    if game.language is None:
        raise ConfigError(f"expected a game whose windows can be forked for language models, found {game.name}")
    (prompt,) = game.language().forks(ForkTerms(next(iter(game.worlds)), 1, 4), 7, 1).prompts()
    return tuple((item.role, item.content) for item in prompt)


def made_model(quick: bool, messages: Messages) -> LanguageModel:
    """Give the packaged model, or a small one."""
    texts = [text for _, text in messages]
    return make_tiny(texts, 1, width=128, layers=2) if quick else load_language_model(SMOLLM2)


@dataclass
class Ours:
    """A model and a group's prompt."""

    model: LanguageModel
    messages: Messages
    group: int
    limit: int

    def __post_init__(self) -> None:
        self.prompt = self.model.prompt_ids(self.messages)
        self.learner = GRPOLearner(self.model, 1e-6, Clipping(), float("inf"))
        self.generator = torch.Generator().manual_seed(1)
        self.drawn: list[TokenSequence] = []

    def generate(self) -> None:
        """Draw the group's answers, every one of the full length."""
        self.model.model.eval()
        payload = generate(self.model.model, [self.prompt] * self.group, frozenset(), self.limit, self.generator)
        self.drawn = [TokenSequence(self.prompt, item.token_ids, item.logprobs) for item in payload]

    def step(self) -> None:
        """Draw, score and learn."""
        self.generate()
        given = advantages([float(index) for index in range(self.group)]) or ()
        lessons = [TrainingSample(tokens, value) for tokens, value in zip(self.drawn, given, strict=True)]
        self.learner.step(lessons, UpdateStats())

    def generate_plainly(self) -> None:
        """Draw as many answers with transformers' own `generate`."""
        ids = torch.tensor([self.prompt] * self.group)
        with torch.inference_mode():
            self.model.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=self.limit,
                min_new_tokens=self.limit,
                do_sample=True,
                top_k=0,
                pad_token_id=self.model.tokenizer.eos_token_id,
            )
