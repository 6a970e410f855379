"""Many chats with one language model at once: prompts join while other answers grow, and leave when they end.

All chats share one row of the model's cache. Each step feeds the whole prompt of every chat that joins and one token of
every chat that goes on; a mask lets each see its own past alone, so that a chat's answer does not depend on who else is
there. Columns of chats that ended are dropped once they are the larger part. Log-probabilities are the model's own,
before temperature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.policies.language.local import MAX_CONTEXT, Answer, Sampling, draw_token

COMPACT = 256
"""Dead columns from which on the cache is made smaller, if they are more than the living ones."""
Tops = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class TokenPiece:
    """One token of an answer."""

    token_id: int
    logprob: float
    tops: Tops
    """The likeliest tokens and their log-probabilities, where they were asked for."""
    finish: str | None
    """stop or length with the last token."""


@dataclass(eq=False)
class Chat:
    """One chat: its prompt, its answer so far, and where its columns are."""

    prompt: tuple[int, ...]
    sampling: Sampling
    tops: int = 0
    generator: torch.Generator = field(default_factory=torch.Generator)
    pieces: list[TokenPiece] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    failure: str | None = None
    """Why no further token could be drawn."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Give the answer's tokens so far."""
        return tuple(piece.token_id for piece in self.pieces)

    @property
    def over(self) -> bool:
        """Tell whether the answer has ended, or failed."""
        return self.failure is not None or (bool(self.pieces) and self.pieces[-1].finish is not None)

    def fresh(self) -> Sequence[int]:
        """Give the tokens that the model has not read yet."""
        return self.prompt if not self.pieces else (self.pieces[-1].token_id,)


class BatchedModel:
    """A causal language model of transformers with its tokenizer, and the chats it is in."""

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        ends: frozenset[int],
        context: int | None = None,
        version: str | None = None,
    ) -> None:
        self.name, self.model, self.tokenizer, self.ends = name, model, tokenizer, ends
        self.version = version
        """Version of the checkpoint, which answers carry whatever the model is called; None if it has none."""
        known = getattr(model.config, "max_position_embeddings", MAX_CONTEXT)
        self.context = min(context or MAX_CONTEXT, known)
        """Most tokens of a chat, prompt and answer."""
        self.chats: list[Chat] = []
        self._cache: Any = None
        self._width = 0

    def open(self, messages: Sequence[Mapping[str, str]], sampling: Sampling, tops: int = 0) -> Chat:
        """Make a chat that can join; refuse one that is too long."""
        try:
            payload = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages], add_generation_prompt=True, tokenize=True, return_dict=False
            )
        except Exception as error:  # a template comes with the model and may raise anything
            what = f"{type(error).__name__}: {str(error)[:200]}"
            raise ConfigError(f"expected a chat that the model's template can write, found {what}") from error
        if len(payload) + sampling.max_tokens > self.context:
            raise ConfigError(
                f"expected a chat of at most {self.context} tokens, found {len(payload)} and an answer of up to "
                f"{sampling.max_tokens}"
            )
        generator = torch.Generator()
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed)
        return Chat(tuple(payload), sampling, tops, generator)

    def join(self, chat: Chat) -> None:
        """Let a chat take part from the next step on."""
        self.chats.append(chat)

    def leave(self, chat: Chat) -> None:
        """Let a chat go, wherever it stands."""
        if chat in self.chats:
            self.chats.remove(chat)
        if not self.chats:
            self._cache, self._width = None, 0

    @torch.inference_mode()
    def step(self) -> list[Chat]:
        """Draw one token for every chat; give those that have ended, which leave."""
        if not self.chats:
            return []
        self._compact()
        own = self._read()
        for chat, row in zip(self.chats, own, strict=True):
            try:
                chat.pieces.append(self._draw(chat, row))
            except (RuntimeError, ValueError) as error:  # the failure of one chat is not its neighbours'
                chat.failure = f"no token could be drawn: {str(error)[:200]}"
        ended = [chat for chat in self.chats if chat.over]
        for chat in ended:
            self.leave(chat)
        return ended

    def _read(self) -> torch.Tensor:
        """Let the model read what is fresh; give the log-probabilities after it, (chats, vocabulary)."""
        fresh = [chat.fresh() for chat in self.chats]
        ids = np.concatenate([np.asarray(item, np.int64) for item in fresh])
        starts = np.array([len(chat.columns) for chat in self.chats])
        positions = np.concatenate([np.arange(at, at + len(item)) for at, item in zip(starts, fresh, strict=True)])
        ends = np.cumsum([len(item) for item in fresh]) - 1
        visible = self._visible(fresh)
        payload = self.model(
            input_ids=torch.from_numpy(ids)[None],
            position_ids=torch.from_numpy(positions)[None],
            attention_mask=torch.from_numpy(visible)[None, None],
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=torch.from_numpy(ends),
        )
        self._cache = payload.past_key_values
        self._width += len(ids)
        return torch.log_softmax(payload.logits[0].float(), -1)

    def _visible(self, fresh: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
        """Tell which columns each fresh token sees, and give every chat its new columns."""
        count = sum(len(item) for item in fresh)
        visible = np.zeros((count, self._width + count), np.bool_)
        row = 0
        for chat, tokens in zip(self.chats, fresh, strict=True):
            size = len(tokens)
            first = self._width + row
            visible[row : row + size, chat.columns] = True
            visible[row : row + size, first : first + size] = np.tri(size, dtype=np.bool_)
            chat.columns += range(first, first + size)
            row += size
        return visible

    def _draw(self, chat: Chat, own: torch.Tensor) -> TokenPiece:
        if own.isnan().any():
            raise ValueError("expected log-probabilities, found numbers that are not finite")
        token = draw_token(own, chat.sampling, chat.generator)
        best = own.topk(chat.tops) if chat.tops else None
        tops = tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True)) if best is not None else ()
        finish = None
        if token in self.ends or self._stopped(chat, token):
            finish = "stop"
        elif len(chat.pieces) + 1 >= chat.sampling.max_tokens:
            finish = "length"
        return TokenPiece(token, float(own[token]), tops, finish)

    def _stopped(self, chat: Chat, token: int) -> bool:
        """Tell whether one of the texts that end the answer stands in it."""
        if not chat.sampling.stop:
            return False
        text = self.tokenizer.decode([*chat.token_ids, token], skip_special_tokens=True)
        return any(stop in text for stop in chat.sampling.stop)

    def _compact(self) -> None:
        """Drop the columns of chats that have left, once they are many."""
        living = sorted(at for chat in self.chats for at in chat.columns)
        if self._width - len(living) < max(COMPACT, len(living)):
            return
        keep = torch.tensor(living, dtype=torch.long)
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys[:, :, keep], layer.values[:, :, keep]
        indices = {old: new for new, old in enumerate(living)}
        for chat in self.chats:
            chat.columns = [indices[at] for at in chat.columns]
        self._width = len(living)

    def text(self, chat: Chat) -> str:
        """Give the answer so far, without what ends it."""
        ids = [token_id for token_id in chat.token_ids if token_id not in self.ends]
        text = str(self.tokenizer.decode(ids, skip_special_tokens=True))
        for stop in chat.sampling.stop:
            text = text.partition(stop)[0]
        return text

    def token_text(self, token: int) -> str:
        """Give the text of one token."""
        return str(self.tokenizer.decode([token]))

    def answer(self, messages: Sequence[Mapping[str, str]], sampling: Sampling) -> Answer:
        """Answer one chat, together with whatever else is going on."""
        chat = self.open(messages, sampling)
        self.join(chat)
        while not chat.over:
            self.step()
        if chat.failure is not None:
            raise ConfigError(f"expected an answer, found that {chat.failure}")
        pieces = chat.pieces
        return Answer(
            self.text(chat),
            chat.prompt,
            chat.token_ids,
            tuple(piece.logprob for piece in pieces),
            tuple(self.token_text(piece.token_id) for piece in pieces),
            "length" if pieces[-1].finish == "length" else "stop",
        )
