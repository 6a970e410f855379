"""SFT: teach a language model to answer as recorded or scripted players did.

Only the answers' tokens are trained on, each answer under exactly the prompt that it was given for; the windows to
score on are later than those learned from. Checkpoints and a resume point as every run has them: a run that was killed
goes on to the same weights. Leaves out: rewards; what is imitated is as good as who is imitated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from playproof.datasets.conversations.groups import ChatExchange, ConversationGroup, TokenSequence, written_tokens
from playproof.errors import Diverged, InputError
from playproof.game import Game
from playproof.provenance import commit
from playproof.train.language.config import TINY, SFTConfig
from playproof.train.language.evaluate import measure, measure_baselines
from playproof.train.language.logprobs import fixed_answers, score_answers
from playproof.train.language.model import (
    LanguageCard,
    LanguageModel,
    add_adapter,
    load_language_model,
    save_language_model,
    weights_hash,
)
from playproof.train.language.rollout import model_player, play, scripted_player
from playproof.train.language.state import make_optimiser, restore_state, state_arrays, trained
from playproof.train.language.tiny import make_tiny
from playproof.train.run import Run, Tracking

Show = Callable[[int, Mapping[str, Any]], None]


def train_sft(
    game: Game,
    config: SFTConfig,
    path: Path,
    *,
    groups: Sequence[ConversationGroup] = (),
    resume: bool = False,
    tracking: Tracking = Tracking(),  # noqa: B008
    show: Show = lambda step, payload: None,  # noqa: ARG005
) -> dict[str, Any]:
    """Teach a model and measure it; give what came of it."""
    exchanges = _lessons(game, config, groups)
    result = starting_model(config.base, config.rank, config.seed, exchanges)
    sequences, long = _sequences(result, exchanges, config)
    run = Run.resume(path, "sft", tracking) if resume else Run.create(path, "sft", asdict(config), tracking)
    try:
        _learn(run, result, sequences, config, show)
        return _finish(run, game, config, result, sequences, long)
    finally:
        run.close()


def _lessons(game: Game, config: SFTConfig, groups: Sequence[ConversationGroup]) -> list[ChatExchange]:
    """Give the exchanges to imitate: the recorded ones, or those of a scripted player in forked windows."""
    if not groups:
        numbers = range(config.windows)
        player = scripted_player(config.player, (config.seed, 1))
        groups = [item.group for item in play(game, config.terms, numbers, 1, player, None)]
    result = [exchange for group in groups for episode in group.episodes for exchange in episode.exchanges]
    if not result:
        raise InputError("expected answers to learn from, found none; record play or name a scripted player")
    return result


def starting_model(base: str, rank: int | None, seed: int, exchanges: Sequence[ChatExchange]) -> LanguageModel:
    """Make or load the model that training begins with."""
    if base == TINY:
        return make_tiny(
            [
                text
                for exchange in exchanges
                for text in (*(payload for _, payload in exchange.messages), exchange.answer)
            ],
            seed,
        )
    language_model = load_language_model(base)
    return language_model if rank is None else add_adapter(language_model, rank, seed)


def _sequences(
    model: LanguageModel, exchanges: Sequence[ChatExchange], config: SFTConfig
) -> tuple[list[TokenSequence], int]:
    payload = [written_tokens(exchange, model) for exchange in exchanges]
    fitting = [item for item in payload if len(item.answer) <= config.max_tokens]
    if not fitting:
        raise InputError(
            f"expected answers of at most {config.max_tokens} tokens, found none; the shortest has "
            f"{min(len(item.answer) for item in payload)}: raise --max-tokens"
        )
    return fitting, len(payload) - len(fitting)


def _learn(run: Run, result: LanguageModel, sequences: Sequence[TokenSequence], config: SFTConfig, show: Show) -> None:
    """Take optimiser steps from the resume point on."""
    torch.manual_seed(config.seed)
    optimiser = make_optimiser(result.model, config.learning_rate)
    item = math.ceil(len(sequences) / config.batch)
    total, done = item * config.epochs, 0
    saved = run.load_state()
    if saved is not None:
        done = saved[0]
        restore_state(result.model, optimiser, saved[1])
    for step in range(done, total):
        epoch, index = divmod(step, item)
        order = np.random.default_rng([config.seed, epoch]).permutation(len(sequences))
        batch = [sequences[int(entry)] for entry in order[index * config.batch : (index + 1) * config.batch]]
        for group in optimiser.param_groups:
            group["lr"] = config.learning_rate * _slope(step, total)
        loss = sft_step(result.model, optimiser, batch)
        run.note("sft", step + 1, {"loss": loss, "tokens": sum(len(entry.answer) for entry in batch)})
        show(step + 1, {"loss": loss, "steps": total})
        if (step + 1) % config.save_every == 0 or step + 1 == total:
            run.save_state(step + 1, state_arrays(result.model, optimiser), {})


def _slope(step: int, total: int) -> float:
    """Give the learning rate's share: up over the first twentieth, then down to a tenth."""
    rise = max(1, total // 20)
    return (step + 1) / rise if step < rise else 1 - 0.9 * (step - rise) / max(1, total - rise)


def sft_step(model: Any, optimiser: torch.optim.Optimizer, batch: Sequence[TokenSequence]) -> float:
    """Take one step on a batch; give the mean loss of its answers' tokens."""
    model.train()
    optimiser.zero_grad()
    tokens, total = sum(len(item.answer) for item in batch), 0.0
    for scored in score_answers(model, batch):
        loss = -scored.logprobs.sum() / tokens
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    norm = torch.nn.utils.clip_grad_norm_(list(trained(model).values()), 1.0)
    if not math.isfinite(total) or not bool(torch.isfinite(norm)):
        raise Diverged(f"expected a finite loss, found {total} with gradient {float(norm)}; lower --learning-rate")
    optimiser.step()
    return total


def _finish(
    run: Run, game: Game, config: SFTConfig, value: LanguageModel, sequences: Sequence[TokenSequence], long: int
) -> dict[str, Any]:
    """Measure the model on later windows, save it and write the result."""
    first = config.windows + config.embargo
    held = range(first, first + config.holdout)
    payload = fixed_answers(value.model, sequences[: 4 * config.batch])
    metrics: dict[str, Any] = {
        "answers": len(sequences),
        "left_out_long": long,
        "loss": -sum(map(sum, payload)) / max(1, sum(map(len, payload))),
    }
    rng = np.random.default_rng(config.seed)
    if config.holdout and game.language is None:
        metrics["holdout"] = f"market {game.name} is recorded, not simulated: held-out windows need a simulation"
    elif config.holdout:
        player = model_player(value, config.max_tokens, (config.seed, 2))
        metrics["holdout"] = measure(game, config.terms, held, 1, player).to_json(rng)
        others = measure_baselines(game, config.terms, held) if config.baselines else {}
        metrics["baselines"] = {name: other.to_json(rng) for name, other in others.items()}
    card = LanguageCard(
        version=f"{run.path.name}@0",
        method="sft",
        game=game.name,
        base=config.base,
        base_hash="" if config.rank is None or config.base == TINY else weights_hash(value.model),
        next_window=first + config.holdout,
        commit=commit(),
        seed=config.seed,
        config=asdict(config),
        metrics=metrics,
    )
    save_language_model(run.path / "checkpoints" / "sft", value, card)
    result = {"run": str(run.path), "checkpoint": str(run.path / "checkpoints" / "sft"), **metrics}
    run.finish(result)
    return result
