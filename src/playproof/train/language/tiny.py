"""The preset `tiny`: a language model of about five million parameters with a tokenizer of its own, made from nothing.

Its tokenizer is trained on the prompts and answers that it will read and write, so that a prompt of a brief kind takes
fewer than 64 tokens. Small enough to learn, and to be measured, within seconds on one core.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from playproof.train.language.config import TINY
from playproof.train.language.model import LanguageModel

ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
VOCABULARY = 512
LONGEST = 14
"""Characters of a token; without a bound a whole answer would become one."""
CONTEXT = 512
WIDTH, LAYERS = 384, 3


def make_tokenizer(texts: Iterable[str]) -> Any:
    """Train a byte-level BPE tokenizer on texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(ROLES),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=LONGEST,
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=trained, eos_token=ROLES[-1], pad_token=ROLES[-1], chat_template=TEMPLATE
    )


def make_tiny(texts: Iterable[str], seed: int, width: int = WIDTH, layers: int = LAYERS) -> LanguageModel:
    """Make the model with weights drawn by the seed; a smaller one where less is to be learned."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer(texts)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64),
        num_key_value_heads=max(1, width // 64),
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(seed)
    return LanguageModel(TINY, LlamaForCausalLM(config).eval(), tokenizer)
