"""A model on this machine behind an OpenAI-compatible address: the official client, token ids, log-probabilities."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from playproof.errors import ConfigError
from playproof.policies.language.local import LocalModel, Sampling, load_model
from playproof.serve.batching import ServeLimits
from playproof.serve.serving import chat_app, serving

CHAT = [{"role": "system", "content": "You trade."}, {"role": "user", "content": "Buy or sell?"}]


@pytest.fixture(scope="module")
def tiny() -> LocalModel:
    """Make a model with random weights and an alphabet of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(1)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {letter: index for index, letter in enumerate(alphabet)} | {"<|im_end|>": 256}
    raw = Tokenizer(models.BPE(vocab=words, merges=[]))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}|{% endfor %}assistant:"
    shape = LlamaConfig(
        vocab_size=257,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
        eos_token_id=256,
        bos_token_id=0,
    )
    return LocalModel("tiny", LlamaForCausalLM(shape).eval(), tokenizer)


def test_the_official_client_gets_text_token_ids_and_log_probabilities(tiny: LocalModel) -> None:
    served = chat_app("tiny-1", tiny.model, tiny.tokenizer, ServeLimits(max_tokens=64))
    alone = tiny.answer(CHAT, Sampling(max_tokens=7, temperature=0.5, seed=3))
    with serving(served) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        assert [item.id for item in client.models.list()] == ["tiny-1"]
        payload = client.chat.completions.create(
            model="tiny-1",
            messages=CHAT,  # type: ignore[arg-type]
            max_tokens=7,
            temperature=0.5,
            seed=3,
            logprobs=True,
            extra_body={"return_token_ids": True},
        )
        choice = payload.choices[0]
        assert choice.message.content == alone.text
        assert choice.logprobs is not None
        assert choice.logprobs.content is not None
        assert [item.logprob for item in choice.logprobs.content] == pytest.approx(alone.logprobs, abs=1e-4)
        assert (choice.model_extra or {})["token_ids"] == list(alone.token_ids)
        assert (payload.model_extra or {})["prompt_token_ids"] == list(alone.prompt_ids)
        assert payload.usage is not None
        assert payload.usage.total_tokens == len(alone.prompt_ids) + len(alone.token_ids)
        plain = client.chat.completions.create(model="tiny-1", messages=CHAT, max_tokens=7)  # type: ignore[arg-type]
        assert "token_ids" not in (plain.choices[0].model_extra or {})
        for bad in ({"max_tokens": 10**9}, {"n": 99}, {"max_tokens": 7, "top_p": 2}):
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(model="tiny-1", messages=CHAT, **bad)  # type: ignore[call-overload]
        with pytest.raises(openai.BadRequestError, match="expected a chat of at most 512 tokens"):
            client.chat.completions.create(model="tiny-1", messages=[{"role": "user", "content": "long " * 200}])


def test_log_probabilities_are_those_of_one_pass_over_the_whole_text(tiny: LocalModel) -> None:
    import torch

    answer = tiny.answer(CHAT, Sampling(max_tokens=40, temperature=1.3, top_p=0.9, seed=3))
    whole = torch.tensor([[*answer.prompt_ids, *answer.token_ids]])
    with torch.inference_mode():
        logs = torch.log_softmax(tiny.model(whole).logits[0].float(), -1)
    first = len(answer.prompt_ids) - 1
    again = [float(logs[first + at, token]) for at, token in enumerate(answer.token_ids)]
    assert answer.logprobs == pytest.approx(again, abs=1e-4)
    assert len(answer.tokens) == len(answer.token_ids) == len(answer.logprobs)


def test_answers_are_repeatable_by_seed_and_greedy_without_heat(tiny: LocalModel) -> None:
    one, other = (tiny.answer(CHAT, Sampling(max_tokens=20, seed=5)) for _ in range(2))
    assert one == other
    assert tiny.answer(CHAT, Sampling(max_tokens=20, seed=6)).token_ids != one.token_ids
    assert len({tiny.answer(CHAT, Sampling(max_tokens=20)).token_ids for _ in range(3)}) == 3, "no seed: anew each time"
    cold = [tiny.answer(CHAT, Sampling(max_tokens=20, temperature=0, seed=seed)) for seed in (1, 2)]
    assert cold[0] == cold[1]
    assert cold[0].finish in ("length", "stop")


def test_a_chat_that_is_too_long_is_refused(tiny: LocalModel) -> None:
    with pytest.raises(ConfigError, match="fewer than 4096 tokens"):
        tiny.answer([{"role": "user", "content": "x" * 5000}], Sampling())
    with pytest.raises(ConfigError, match="the folder of a model"):
        load_model("no-such-folder")
