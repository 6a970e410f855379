"""Language models to be trained: loaded from a folder or by name, and saved as checkpoints that are checked.

| file | what |
|---|---|
| checkpoint.json | the card: what the model is, from what it was made, and the sha256 of every other file |
| model.safetensors, config.json | all weights; or |
| adapter_model.safetensors, adapter_config.json | an adapter (LoRA), over the base model that the card names |
| tokenizer files | as transformers writes them, with the chat template |

A folder appears whole or not at all. Loading reads JSON and safetensors alone, and refuses a file that is not as the
card says.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from playproof.errors import ConfigError, DecodeError, MissingExtra
from playproof.home import write_durably
from playproof.policies.checkpoint import CARD, CheckpointRefused
from playproof.policies.language.local import PACKAGED, check_model_files, load_model
from playproof.train.run import restore

ADAPTER = "adapter_config.json"
SMOLLM2 = "smollm2"
"""Another name of the packaged model."""
HUB = "hf:"
"""Begins a name that is looked up on a hub, over the network."""
RANK = 16


@dataclass(frozen=True, kw_only=True)
class LanguageCard:
    """What a language model is, and from what it was made."""

    version: str
    """lineage@number, which answers carry."""
    method: str
    """sft, grpo, or none for a model that was only made."""
    game: str
    base: str
    """Name or folder of the model that training began with; an adapter needs it again."""
    base_hash: str
    """sha256 over the weights that an adapter lies on; empty where all weights are here."""
    parent: str | None = None
    """Version that this one was trained from."""
    next_window: int = 0
    """First number of a forked window that no ancestor has learned from or was measured on."""
    commit: str = ""
    seed: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """sha256 by name; filled when the checkpoint is saved."""
    kind: str = "language"


@dataclass(frozen=True)
class LanguageModel:
    """A model of transformers with its tokenizer, as trainers and servers use it."""

    name: str
    """Folder or name that it was loaded from."""
    model: Any
    tokenizer: Any
    card: LanguageCard | None = None
    """None for a model that is no checkpoint of this package."""

    @property
    def version(self) -> str:
        """Give the version that answers carry."""
        return self.card.version if self.card is not None else self.name

    @property
    def ends(self) -> frozenset[int]:
        """Give the tokens that end an answer."""
        payload = getattr(self.model.generation_config, "eos_token_id", None)
        known = payload if isinstance(payload, list) else [payload]
        turn = self.tokenizer.get_vocab().get("<|im_end|>")
        return frozenset(item for item in (*known, self.tokenizer.eos_token_id, turn) if item is not None)

    @property
    def parameters(self) -> int:
        """Count the weights, an adapter's included."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def prompt_ids(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Give a chat's tokens up to where the answer begins."""
        payload = [{"role": role, "content": content} for role, content in messages]
        return tuple(
            self.tokenizer.apply_chat_template(payload, add_generation_prompt=True, tokenize=True, return_dict=False)
        )

    def answer_ids(self, answer: str) -> tuple[int, ...]:
        """Give an answer's tokens and the one that ends it."""
        turn = self.tokenizer.get_vocab().get("<|im_end|>", self.tokenizer.eos_token_id)
        return (*self.tokenizer(answer, add_special_tokens=False)["input_ids"], turn)

    def text(self, token_ids: Sequence[int]) -> str:
        """Give the text of an answer."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))


def load_language_model(path_or_name: str | Path, home: Path | None = None) -> LanguageModel:
    """Load a checkpoint's folder, any folder of transformers, `smollm2`, which comes in a package, or hf:NAME.

    Only a name that begins with "hf:" is asked for on a hub, over the network.
    """
    name = str(path_or_name)
    hub = name.startswith(HUB)
    name = name.removeprefix(HUB)
    if name in (SMOLLM2, PACKAGED):
        result = load_model(PACKAGED, home, torch.get_num_threads())
        return LanguageModel(SMOLLM2, result.model, result.tokenizer)
    if not hub and not Path(name).is_dir():
        raise ConfigError(
            f"expected {SMOLLM2}, the folder of a checkpoint or model, or {HUB}NAME for a model of a hub,"
            f" found {name[:80]!r}, which is not here"
        )
    check_model_files(Path(name))
    card = read_card(Path(name)) if (Path(name) / CARD).exists() else None
    if (Path(name) / ADAPTER).exists():
        return _load_adapter(Path(name), card, home)
    auto_model, auto_tokenizer = _autos()
    try:
        model = auto_model.from_pretrained(name, use_safetensors=True, dtype="float32", local_files_only=not hub)
        tokenizer = auto_tokenizer.from_pretrained(name, local_files_only=not hub)
        return LanguageModel(name, model.eval(), tokenizer, card)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"expected {SMOLLM2}, a checkpoint, or a folder or name of transformers, found {name[:80]!r}: "
            f"{str(error).splitlines()[0][:160]}"
        ) from None


def _autos() -> tuple[Any, Any]:
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError:
        raise MissingExtra("transformers", "llm") from None
    logging.disable_progress_bar()
    return AutoModelForCausalLM, AutoTokenizer


def _load_adapter(path: Path, card: LanguageCard | None, home: Path | None) -> LanguageModel:
    """Load the base model and lay an adapter over it."""
    from peft import PeftModel

    payload = (
        card.base if card is not None else str(json.loads((path / ADAPTER).read_text())["base_model_name_or_path"])
    )
    base = load_language_model(payload, home)
    if card is not None and weights_hash(base.model) != card.base_hash:
        raise CheckpointRefused(f"expected the base model {payload} as {path} was trained on it, found other weights")
    model = PeftModel.from_pretrained(base.model, str(path), is_trainable=True)
    return LanguageModel(str(path), model.eval(), _autos()[1].from_pretrained(path), card)


def add_adapter(result: LanguageModel, rank: int = RANK, seed: int = 0) -> LanguageModel:
    """Lay a fresh LoRA adapter over a model; only it will be trained."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return replace(result, model=get_peft_model(result.model, config))


def is_adapted(model: torch.nn.Module) -> bool:
    """Tell whether a model is trained by an adapter."""
    return hasattr(model, "peft_config")


def weights_hash(model: torch.nn.Module) -> str:
    """Give one hash over a model's own weights, an adapter's left out."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if "lora_" not in name:
            digest.update(value.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def save_language_model(path: Path, result: LanguageModel, card: LanguageCard) -> LanguageCard:
    """Write a checkpoint's folder, whole or not at all; give the card with the hashes of its files."""
    rough = path.with_name(f".{path.name}.unfinished")
    shutil.rmtree(rough, ignore_errors=True)
    rough.mkdir(parents=True)
    _autos()  # which silences the progress bars
    result.model.save_pretrained(rough, safe_serialization=True)
    result.tokenizer.save_pretrained(rough)
    (rough / "README.md").unlink(missing_ok=True)  # peft's model card, which says nothing
    names = sorted(item.name for item in rough.iterdir())
    full = replace(card, files={name: _hash(rough / name) for name in names})
    for name in names:
        _sync(rough / name)
    write_durably(rough / CARD, (json.dumps(asdict(full), indent=1, sort_keys=True) + "\n").encode())
    shutil.rmtree(path, ignore_errors=True)
    rough.rename(path)
    _sync(path.parent)
    return full


def read_card(path: Path) -> LanguageCard:
    """Read a checkpoint's card and check every file against it."""
    try:
        payload = json.loads((path / CARD).read_text(encoding="utf-8"))
        card = LanguageCard(**payload)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointRefused(f"expected the card of a language model at {path / CARD}, found: {error}") from None
    if card.kind != "language":
        raise CheckpointRefused(f"expected a language model at {path}, found a checkpoint of kind {card.kind!r}")
    there = {item.name for item in path.iterdir()} - {CARD}
    if there != set(card.files):
        odd = ", ".join(sorted(there ^ set(card.files)))
        raise CheckpointRefused(f"expected exactly the files that the card of {path} names, found a difference: {odd}")
    for name, expected in card.files.items():
        if _hash(path / name) != expected:
            raise CheckpointRefused(f"expected {path / name} as the card says, found other content; do not use it")
    return card


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_PARTS = ("step", "exp_avg", "exp_avg_sq")


def trained(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Give the parameters that are trained, by name."""
    return {name: item for name, item in model.named_parameters() if item.requires_grad}


def make_optimiser(model: torch.nn.Module, learning_rate: float) -> torch.optim.AdamW:
    """Make the optimiser of a model's trained parameters."""
    return torch.optim.AdamW(trained(model).values(), lr=learning_rate, weight_decay=0.0, betas=(0.9, 0.95))


def state_arrays(model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, NDArray[Any]]:
    """Give weights and optimiser as arrays."""
    result: dict[str, NDArray[Any]] = {}
    for name, item in trained(model).items():
        result[f"weights/{name}"] = item.detach().numpy()
        for part, value in optimiser.state.get(item, {}).items():
            result[f"{part}/{name}"] = np.asarray(value.detach().numpy())
    return result


def restore_state(model: torch.nn.Module, optimiser: torch.optim.Optimizer, data: Mapping[str, bytes]) -> None:
    """Write saved weights and optimiser back, to the last bit."""
    wanted = trained(model)
    if missing := [name for name in wanted if f"weights/{name}" not in data]:
        raise DecodeError(f"expected a resume point of the same model, found none for {missing[0]}")
    for name, item in wanted.items():
        with torch.no_grad():
            restore(item.detach().numpy(), data[f"weights/{name}"])
        if f"step/{name}" in data:
            made = {"step": torch.zeros(()), "exp_avg": torch.zeros_like(item), "exp_avg_sq": torch.zeros_like(item)}
            for part in _PARTS:
                restore(made[part].numpy(), data[f"{part}/{name}"])
            optimiser.state[item] = made
