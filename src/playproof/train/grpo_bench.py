"""Our side of the bench of GRPO: one whole step, and generation with and without shared prefixes. Leaves out: TRL."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from playproof.datasets.conversations import Tokens
from playproof.train.generation import generate
from playproof.train.grpo_learner import Learned, Learner, Lesson
from playproof.train.grpo_loss import Clipping, advantages
from playproof.train.language_model import SMOLLM2, LanguageModel, load_language_model
from playproof.train.tiny import make_tiny

Messages = tuple[tuple[str, str], ...]
TASK = "You trade in a market that others trade too. Answer with one JSON object and nothing else. " * 12
STATE = '{"minute":7,"portfolio":{"cash":10000,"equity":10000,"open":[]},"headlines":["sources call Q0 likely"]} ' * 2


def prompt_of(quick: bool) -> Messages:
    """Give a chat of about 360 tokens, as language agents read them."""
    return (("system", TASK[: 200 if quick else None]), ("user", STATE))


def made_model(quick: bool) -> LanguageModel:
    """Give the packaged model, or a small one."""
    return make_tiny([TASK, STATE], 1, width=128, layers=2) if quick else load_language_model(SMOLLM2)


@dataclass
class Ours:
    """A model and a group's prompt."""

    found: LanguageModel
    messages: Messages
    group: int
    limit: int

    def __post_init__(self) -> None:
        self.prompt = self.found.prompt_ids(self.messages)
        self.learner = Learner(self.found, 1e-6, Clipping(), float("inf"))
        self.generator = torch.Generator().manual_seed(1)
        self.drawn: list[Tokens] = []

    def generate(self) -> None:
        """Draw the group's answers, every one of the full length."""
        self.found.model.eval()
        told = generate(self.found.model, [self.prompt] * self.group, frozenset(), self.limit, self.generator)
        self.drawn = [Tokens(self.prompt, it.token_ids, it.logprobs) for it in told]

    def step(self) -> None:
        """Draw, score and learn."""
        self.generate()
        given = advantages([float(place) for place in range(self.group)]) or ()
        lessons = [Lesson(tokens, value) for tokens, value in zip(self.drawn, given, strict=True)]
        self.learner.step(lessons, Learned())

    def generate_plainly(self) -> None:
        """Draw as many answers with transformers' own `generate`."""
        ids = torch.tensor([self.prompt] * self.group)
        with torch.inference_mode():
            self.found.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=self.limit,
                min_new_tokens=self.limit,
                do_sample=True,
                top_k=0,
                pad_token_id=self.found.tokenizer.eos_token_id,
            )
