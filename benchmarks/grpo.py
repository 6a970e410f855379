"""Measure GRPO's step beside TRL's: the same model, prompts, group size and answer length, in one process.

A step is everything between two versions of a policy: draw a group's answers, score them, one optimiser step. Each
side runs it three times, taking turns; the median counts. Generation alone is measured against transformers' own
`generate` on the same prompts. The prompt is one that language agents read in a forked window. The model is the
packaged one; PLAYPROOF_BENCH_QUICK=1 takes a small one that is made here, to see that the bench runs, and its goals are
then not to be quoted. Needs trl, which the extra dev brings. Leaves out: what is learned.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.report import BenchmarkReport, Goal, Measurement
from playproof.cli.output import note
from playproof.errors import MissingExtra

GROUP, REPEATS, NEW_TOKENS = 8, 3, 24
QUICK = "PLAYPROOF_BENCH_QUICK"
Messages = tuple[tuple[str, str], ...]


def run() -> dict[str, Any]:
    """Measure both sides and give the report."""
    from benchmarks.grpo_steps import Ours, made_model, prompt_of
    from playproof.cli.targets import language_game

    quick = os.environ.get(QUICK, "0") not in ("", "0")
    messages = prompt_of(language_game(None))
    ours = Ours(made_model(quick, messages), messages, GROUP, NEW_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        theirs = _their_step(made_model(quick, messages), messages, folder)
        taken = _taking_turns({"ours": ours.step, "trl": theirs})
    steps = {name: median(result) for name, result in taken.items()}
    drew = _taking_turns({"ours": ours.generate, "transformers": ours.generate_plainly})
    drawn = {name: median(result) for name, result in drew.items()}
    tokens = GROUP * NEW_TOKENS
    results = (
        Measurement("our step", steps["ours"], "s"),
        Measurement("TRL's step", steps["trl"], "s"),
        Measurement("our slowest step", max(taken["ours"]), "s"),
        Measurement("TRL's fastest step", min(taken["trl"]), "s"),
        Measurement("our generation", tokens / drawn["ours"], "tokens/s"),
        Measurement("transformers' generation", tokens / drawn["transformers"], "tokens/s"),
        Measurement("our slowest generation", tokens / max(drew["ours"]), "tokens/s"),
        Measurement("transformers' fastest generation", tokens / min(drew["transformers"]), "tokens/s"),
        Measurement("repeats", REPEATS, "of each, in turns"),
        Measurement("tokens of the prompt", len(ours.prompt), "tokens"),
        Measurement("group size", GROUP, "answers"),
        Measurement("new tokens", NEW_TOKENS, "tokens an answer"),
    )
    goals = (
        Goal.at_least("step against TRL's", steps["trl"] / steps["ours"], 2.0),
        Goal.at_least("generation against transformers'", drawn["transformers"] / drawn["ours"], 2.0),
    )
    return BenchmarkReport("grpo", results, goals).to_json()


def _taking_turns(sides: Mapping[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Run every side once to warm up, then in turns; give the seconds of each run."""
    for name, side in sides.items():
        began = time.perf_counter()
        side()
        note(f"  {name}, to warm up: {time.perf_counter() - began:.1f} s")
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(REPEATS):
        for name, side in sides.items():
            began = time.perf_counter()
            side()
            taken[name].append(time.perf_counter() - began)
            note(f"  {name}: {taken[name][-1]:.1f} s")
    return taken


def _their_step(result: Any, messages: Messages, folder: str) -> Callable[[], None]:
    """Give one step of TRL's trainer: it draws, scores and learns in one call."""
    warnings.simplefilter("ignore")
    try:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer
    except ImportError:
        raise MissingExtra("trl, which the bench is measured against,", "dev") from None
    prompt = [{"role": role, "content": content} for role, content in messages]

    def reward(completions: Sequence[Any], **_: Any) -> list[float]:
        return [float(index) for index in range(len(completions))]

    args = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=GROUP,
        num_generations=GROUP,
        max_completion_length=NEW_TOKENS,
        max_steps=REPEATS + 2,
        learning_rate=1e-6,
        generation_kwargs={"min_new_tokens": NEW_TOKENS},
        report_to=[],
        use_cpu=True,
        bf16=False,  # TRL's default is many times slower on processors without it, and ours is in float32 too
        beta=0.0,
        loss_type="grpo",
        gradient_checkpointing=False,
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
    )
    trainer = GRPOTrainer(
        model=result.model,
        processing_class=result.tokenizer,
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": prompt}] * GROUP),
    )
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = 1  # which the loop that is left out here would set
    batch = [{"prompt": prompt} for _ in range(GROUP)]

    def step() -> None:
        trainer.model.train()
        trainer._buffered_inputs, trainer._step = None, 0
        trainer.training_step(trainer.model, batch, None)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()

    return step
