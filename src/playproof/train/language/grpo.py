"""GRPO: let a language model learn from how its own answers compare within a window, from sampling to the loss.

An iteration plays the model in K copies of each window (`ForkedSource`; `grpo_recorded` gives recorded windows in
their stead), scores the group by one named reward, turns scores into advantages (`choose`), takes optimiser steps on
the loss (`GRPOLearner.step`, `grpo_loss`), saves a checkpoint and is measured in money on held-out windows, paired
with the model it began with. The resume point comes last: a run that is killed at any moment goes on to the same
weights, and no window is learned from twice. Divergence (numbers that are not finite, too large a KL, money or valid
decisions lost) stops the run, says so, and keeps the last good checkpoint.

Group advantages are A = (r - mean) / (spread + 1e-4), the spread with n - 1, over all episodes of a group; gradients
come from the policy's own episodes alone, those of its last two versions. A group whose rewards are all alike teaches
nothing and has no advantages; noise is never added to break a tie. The importance ratio of each token comes from the
recorded log-probabilities, clipped; the distance from a reference is Schulman's third estimator. The loss gives the
same numbers as TRL's `grpo` and `bnpo`, which a test checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from sqlalchemy import Engine

from playproof.datasets.conversations.groups import (
    ConversationGroup,
    HoldoutSplit,
    TimedWindow,
    TokenSequence,
    UsedWindows,
    Why,
    hold_out,
    sampled_tokens,
    standing,
)
from playproof.errors import Diverged, InputError
from playproof.game import Game
from playproof.game.forks import ForkTerms
from playproof.json_types import Json
from playproof.judge import group as judged
from playproof.judge.computed import computed
from playproof.provenance import commit
from playproof.record.trajectories.outcomes import Outcomes
from playproof.train.language.config import Averaging, GRPOConfig
from playproof.train.language.generation import fixed_answers, score_answers
from playproof.train.language.model import (
    LanguageCard,
    LanguageModel,
    add_adapter,
    is_adapted,
    load_language_model,
    make_optimiser,
    restore_state,
    save_language_model,
    state_arrays,
    trained,
    weights_hash,
)
from playproof.train.language.rollout import PlayerMeasurement, gains, measure, model_player, play, to_judged
from playproof.train.run import CHECKPOINTS, Run, Tracking, read_log

Tensor = torch.Tensor
EPSILON = 1e-4
FLAT = 1e-12
"""A spread of rewards no larger than this is that of rounding."""
RewardFunction = Callable[[judged.JudgedGroup], judged.Scores]
"""Score a group; one named reward, never a mixture."""


@dataclass(frozen=True)
class ScoredGroup:
    """A group and its scores, one for each episode."""

    group: ConversationGroup
    rewards: tuple[float, ...]
    reward: str
    """Name of the reward."""

    @property
    def best(self) -> str:
        """Name the agent with the highest score."""
        index = max(range(len(self.rewards)), key=self.rewards.__getitem__)
        return self.group.episodes[index].agent


@dataclass(frozen=True)
class IterationData:
    """What one iteration learns from."""

    scored: tuple[ScoredGroup, ...]
    dropped: tuple[str, ...] = ()
    """Windows left out of a large set."""
    unscored: int = 0
    """Groups that the reward refused."""


class Source(Protocol):
    """Gives groups to learn from."""

    def take(self, iteration: int, model: LanguageModel, version: str) -> IterationData:
        """Give the groups of an iteration, from 1 on; empty when there are no more."""


def score(group: ConversationGroup, outcomes: Outcomes, reward: RewardFunction) -> ScoredGroup:
    """Score a group and put the scores in the order of its episodes."""
    payload = reward(to_judged(group, outcomes))
    missing = [episode.episode_id for episode in group.episodes if episode.episode_id not in payload.values]
    if missing:
        raise InputError(f"expected a score for every episode of {group.window}, found none for {missing[0]}")
    return ScoredGroup(group, tuple(payload.values[episode.episode_id] for episode in group.episodes), payload.reward)


@dataclass(frozen=True)
class ForkPlan:
    """Which forked windows are learned from, and which are held out: numbers in the order of time."""

    terms: ForkTerms
    first: int
    iterations: int
    per_iteration: int
    """Windows of an iteration."""
    holdout: int
    embargo: int

    def numbers(self, iteration: int) -> range:
        """Give the windows of an iteration, from 1 on."""
        start = self.first + (iteration - 1) * self.per_iteration
        return range(start, start + self.per_iteration)

    @property
    def held(self) -> range:
        """Give the windows to measure on."""
        start = self.first + self.iterations * self.per_iteration + self.embargo
        return range(start, start + self.holdout)

    def split(self) -> HoldoutSplit:
        """Give the names of both, by the same rule that recorded windows are split by."""
        last = self.held.stop
        placed = (TimedWindow(self.terms.window(number), number, number + 1) for number in range(self.first, last))
        return hold_out(placed, self.holdout, self.embargo)


@dataclass(frozen=True)
class ForkedSource:
    """Fresh play of the policy itself: K copies of each window are a group."""

    game: Game
    plan: ForkPlan
    forks: int
    max_tokens: int
    seed: int
    reward: RewardFunction
    ledger: UsedWindows

    def take(self, iteration: int, model: LanguageModel, version: str) -> IterationData:
        """Play the iteration's windows with the model as it stands."""
        numbers, terms = self.plan.numbers(iteration), self.plan.terms
        self.ledger.reserve([terms.window(number) for number in numbers], iteration)
        player = model_player(model, self.max_tokens, (self.seed, iteration))
        played = play(self.game, terms, numbers, self.forks, player, version)
        return IterationData(tuple(score(item.group, item.outcomes, self.reward) for item in played))


@dataclass(frozen=True)
class Clipping:
    """How far one update may go."""

    low: float = 0.2
    high: float = 0.2
    beta: float = 0.0
    """Weight of the distance from the reference; 0: none is computed."""
    averaging: Averaging = "sequence"
    """Of tokens within each sequence and then of sequences, or of all tokens alike."""


@dataclass(frozen=True)
class Loss:
    """A loss and what it was made of; all but `value` are plain numbers, as sums over its sequences or tokens."""

    value: Tensor
    """Already divided by the batch's own count, so that the parts of a batch add up."""
    tokens: int
    clipped: float
    """Tokens whose ratio is cut."""
    kl_old: float
    """Distance of the one that drew the tokens from the policy."""
    kl_reference: float


def advantages(rewards: Sequence[float]) -> tuple[float, ...] | None:
    """Give each episode's advantage in its group; None where all rewards are alike.

    Give rewards in units in which a spread of 1e-4 is nothing, such as basis points.
    """
    payload = np.asarray(rewards, np.float64)
    if len(payload) < 2 or not np.isfinite(payload).all():
        return None
    spread = float(payload.std(ddof=1))
    if spread <= FLAT:
        return None
    return tuple(((payload - payload.mean()) / (spread + EPSILON)).tolist())


def distance(logprobs: Tensor, others: Tensor) -> Tensor:
    """Estimate KL(policy, other) of each token that the policy itself drew; never negative, (t,)."""
    gap = others - logprobs
    return torch.exp(gap) - gap - 1


def grpo_loss(
    logprobs: Tensor,  # (t,) of the policy, with gradients
    old: Tensor,  # (t,) as recorded
    lengths: Sequence[int],  # of the n sequences
    given: Sequence[float],  # (n,) advantages
    clipping: Clipping,
    *,
    reference: Tensor | None = None,  # (t,)
    total: int | None = None,
) -> Loss:
    """Give the loss of n sequences; `total` is the count of sequences or tokens of the whole batch they are part of."""
    item = torch.tensor(list(lengths))
    payload = torch.tensor(list(given), dtype=logprobs.dtype).repeat_interleave(item)
    ratio = torch.exp(logprobs - old)
    cut = torch.clamp(ratio, 1 - clipping.low, 1 + clipping.high)
    per_token = -torch.min(ratio * payload, cut * payload)
    kl_reference = 0.0
    if clipping.beta and reference is not None:
        apart = distance(logprobs, reference)
        per_token = per_token + clipping.beta * ratio * apart  # weighted, since another policy drew the tokens
        kl_reference = float(apart.detach().sum())
    if clipping.averaging == "sequence":
        weights = (1.0 / item.to(logprobs.dtype)).repeat_interleave(item)
        value = (per_token * weights).sum() / (total or len(item))
    else:
        value = per_token.sum() / (total or len(per_token))
    moved = ratio.detach()
    outside = ((moved < 1 - clipping.low) & (payload < 0)) | ((moved > 1 + clipping.high) & (payload > 0))
    return Loss(
        value,
        len(per_token),
        float(outside.sum()),
        float(distance(old, logprobs.detach()).sum()),
        kl_reference,
    )


BASIS = 1e4
"""Rewards are returns; in basis points the 1e-4 beside a spread is nothing."""

LOOKED_AT = 64
"""The most answers, spread over all, by which it is measured how far an iteration has moved the policy."""


@dataclass(frozen=True)
class TrainingSample:
    """One answer to learn from."""

    tokens: TokenSequence
    advantage: float


@dataclass(frozen=True)
class SelectedSamples:
    """What scored groups give to learn from, and what they do not."""

    lessons: tuple[tuple[TrainingSample, ...], ...]
    """By group."""
    flat: int
    """Groups whose rewards are all alike."""
    idle: int
    """Groups with a spread but no episode of the policy's own."""
    standings: dict[Why, int]


@dataclass
class UpdateStats:
    """What an iteration did."""

    loss: float = 0.0
    """Mean over the optimiser's steps."""
    steps: int = 0
    tokens: int = 0
    clipped: float = 0.0
    """Share of tokens whose ratio was cut."""
    kl: float = 0.0
    """Mean distance of a token from the policy that drew it, at the last look."""
    kl_reference: float = 0.0
    norm: float = 0.0
    """Largest gradient."""
    extra: dict[str, float] = field(default_factory=dict)


def choose(scored: Sequence[ScoredGroup], model: LanguageModel, lineage: str, newest: int) -> SelectedSamples:
    """Give the answers that may teach, with the advantages of their episodes."""
    lessons: list[tuple[TrainingSample, ...]] = []
    standings: dict[Why, int] = {}
    flat = idle = 0
    for item in scored:
        payload = advantages([BASIS * value for value in item.rewards])
        flat += payload is None
        own: list[TrainingSample] = []
        for index, episode in enumerate(item.group.episodes):
            why = standing(episode, lineage, newest)
            standings[why] = standings.get(why, 0) + 1
            if payload is not None and why == "own":
                own += [
                    TrainingSample(sampled_tokens(exchange, model), payload[index]) for exchange in episode.exchanges
                ]
        idle += payload is not None and not own
        if own:
            lessons.append(tuple(own))
    return SelectedSamples(tuple(lessons), flat, idle, standings)


class GRPOLearner:
    """A policy with its optimiser."""

    def __init__(
        self, result: LanguageModel, learning_rate: float, clipping: Clipping, max_kl: float, warm_up: int = 0
    ) -> None:
        self.language_model, self.clipping, self.max_kl = result, clipping, max_kl
        self.learning_rate, self.warm_up = learning_rate, warm_up
        self.optimiser = make_optimiser(result.model, learning_rate)
        self._parent = {name: item.detach().clone() for name, item in trained(result.model).items()}

    def learn(self, chosen: SelectedSamples, groups_a_step: int, epochs: int, rng: np.random.Generator) -> UpdateStats:
        """Learn from the groups, so many an optimiser step, in an order drawn anew for each pass."""
        update_stats = UpdateStats()
        for _ in range(epochs):
            order = rng.permutation(len(chosen.lessons))
            for start in range(0, len(order), groups_a_step):
                batch = [lesson for at in order[start : start + groups_a_step] for lesson in chosen.lessons[int(at)]]
                self.step(batch, update_stats)
        update_stats.loss /= max(1, update_stats.steps)
        update_stats.clipped /= max(1, update_stats.tokens)
        if chosen.lessons:
            everything = [item for of in chosen.lessons for item in of]
            update_stats.kl = self.moved(everything[:: math.ceil(len(everything) / LOOKED_AT)])
            if not math.isfinite(update_stats.kl) or update_stats.kl > self.max_kl:
                raise Diverged(
                    f"expected an iteration to move the policy by a KL of at most {self.max_kl}, found "
                    f"{update_stats.kl:.3g}; "
                    "lower --learning-rate, or raise max_kl"
                )
        return update_stats

    def step(self, batch: Sequence[TrainingSample], update_stats: UpdateStats) -> None:
        """Take one optimiser step."""
        reference = self._reference(batch) if self.clipping.beta else None
        self.language_model.model.train()
        self.optimiser.zero_grad()
        sequences = [item.tokens for item in batch]
        tokens = sum(len(sequence.answer) for sequence in sequences)
        total, value = len(batch) if self.clipping.averaging == "sequence" else tokens, 0.0
        for scored in score_answers(self.language_model.model, sequences):
            old = torch.tensor([item for number in scored.numbers for item in sequences[number].logprobs or ()])
            loss = grpo_loss(
                scored.logprobs,
                old,
                scored.lengths,
                [batch[number].advantage for number in scored.numbers],
                self.clipping,
                reference=None
                if reference is None
                else torch.tensor([item for number in scored.numbers for item in reference[number]]),
                total=total,
            )
            loss.value.backward()  # type: ignore[no-untyped-call]
            value += float(loss.value.detach())
            update_stats.clipped += loss.clipped
            update_stats.kl_reference += loss.kl_reference / tokens
        norm = float(torch.nn.utils.clip_grad_norm_(list(trained(self.language_model.model).values()), 1.0))
        if not math.isfinite(value) or not math.isfinite(norm):
            raise Diverged(f"expected a finite loss, found {value} with gradient {norm}; lower --learning-rate")
        for param_group in self.optimiser.param_groups:
            param_group["lr"] = self.learning_rate * min(1.0, (self._steps() + 1) / (self.warm_up + 1))
        self.optimiser.step()
        update_stats.loss += value
        update_stats.steps += 1
        update_stats.tokens += tokens
        update_stats.norm = max(update_stats.norm, norm)

    def _steps(self) -> int:
        """Give the optimiser's steps so far, those before a resume included."""
        return max((int(item["step"]) for item in self.optimiser.state.values() if "step" in item), default=0)

    def moved(self, batch: Sequence[TrainingSample]) -> float:
        """Give the mean distance of the policy that drew a token from this one."""
        self.language_model.model.eval()
        now = fixed_answers(self.language_model.model, [item.tokens for item in batch])
        gaps = np.concatenate(
            [np.subtract(values, item.tokens.logprobs or ()) for item, values in zip(batch, now, strict=True)]
        )
        return float(np.mean(np.exp(gaps) - gaps - 1))

    def _reference(self, batch: Sequence[TrainingSample]) -> list[tuple[float, ...]]:
        """Give the answers' log-probabilities under the policy that training began with."""
        with self._as_parent():
            self.language_model.model.eval()
            return fixed_answers(self.language_model.model, [item.tokens for item in batch])

    @contextmanager
    def _as_parent(self) -> Iterator[None]:
        """Put the weights that training began with in place for a while."""
        own: Json = {name: item.detach().clone() for name, item in trained(self.language_model.model).items()}
        _put(self.language_model.model, self._parent)
        try:
            yield
        finally:
            _put(self.language_model.model, own)


def _put(model: torch.nn.Module, values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, item in trained(model).items():
            item.copy_(values[name])


Show = Callable[[int, Mapping[str, Any]], None]


def train_grpo(
    game: Game,
    config: GRPOConfig,
    path: Path,
    engine: Engine,
    *,
    reward: RewardFunction = computed,
    source: Callable[[UsedWindows, LanguageModel], Source] | None = None,
    resume: bool = False,
    tracking: Tracking = Tracking(),  # noqa: B008
    show: Show = lambda iteration, payload: None,  # noqa: ARG005
) -> Json:
    """Train a model; give what came of it. `source` makes another source of groups than forked windows."""
    run = Run.resume(path, "grpo", tracking) if resume else Run.create(path, "grpo", asdict(config), tracking)
    try:
        training = Training(game, config, run, engine, reward, source)
        return training.run_through(show)
    finally:
        run.close()


class Training:
    """One run of GRPO."""

    def __init__(
        self,
        game: Game,
        config: GRPOConfig,
        run: Run,
        engine: Engine,
        reward: RewardFunction,
        source: Callable[[UsedWindows, LanguageModel], Source] | None,
    ) -> None:
        self.game, self.config, self.run = game, config, run
        loaded = load_language_model(config.base)
        self.parent = loaded.card
        fresh = config.rank is not None and not is_adapted(loaded.model) and not _is_whole(loaded)
        self.language_model = add_adapter(loaded, config.rank or 1, config.seed) if fresh else loaded
        self.base = loaded.card.base if is_adapted(loaded.model) and loaded.card is not None else config.base
        self.base_hash = weights_hash(self.language_model.model) if is_adapted(self.language_model.model) else ""
        clipping = Clipping(config.clip, config.clip, config.beta, config.averaging)
        self.learner = GRPOLearner(self.language_model, config.learning_rate, clipping, config.max_kl, config.warm_up)
        first = loaded.card.next_window if loaded.card is not None else 0
        self.plan = ForkPlan(config.terms, first, config.iterations, config.windows, config.holdout, config.embargo)
        self.ledger = UsedWindows(engine, run.path.name)
        self.source = source(self.ledger, loaded) if source is not None else self._forked(reward)
        self.rng = np.random.default_rng([config.seed, 3])

    def _forked(self, reward: RewardFunction) -> Source:
        config = self.config
        self.ledger.hold_out(self.plan.split().held)
        return ForkedSource(self.game, self.plan, config.forks, config.max_tokens, config.seed, reward, self.ledger)

    def version(self, iteration: int) -> str:
        """Name the policy after so many iterations."""
        return f"{self.ledger.lineage}@{iteration}"

    def run_through(self, show: Show) -> Json:
        """Go through the iterations that are left."""
        done = self._go_on()
        if done == 0:
            self._measure(0)
            self.run.save_state(0, state_arrays(self.language_model.model, self.learner.optimiser), {})
        for iteration in range(done + 1, self.config.iterations + 1):
            try:
                iterate = self._iterate(iteration)
            except Diverged as error:
                raise self._stopped(iteration, error) from error
            if iterate is None:
                break
            show(iteration, iterate)
        result = self._result(None)
        self.run.finish(result)
        return result

    def _go_on(self) -> int:
        """Put the resume point back; give the iterations that are done."""
        saved = self.run.load_state()
        done = 0
        if saved is not None:
            done = saved[0]
            restore_state(self.language_model.model, self.learner.optimiser, saved[1])
            if done:
                self.ledger.settle(done, self.version(done))
        self.ledger.release(done)
        return done

    def _iterate(self, iteration: int) -> Json | None:
        """Take groups, learn, save, measure; None when there is nothing left to learn from."""
        config = self.config
        taken = self.source.take(iteration, self.language_model, self.version(iteration - 1))
        if not taken.scored:
            if iteration == 1:
                raise InputError("expected windows to learn from, found none; see `playproof train grpo --help`")
            return None
        chosen = choose(taken.scored, self.language_model, self.ledger.lineage, iteration - 1)
        if not chosen.lessons and not chosen.standings.get("own"):
            raise InputError(
                f"expected episodes that {self.version(iteration - 1)} or the version before sampled itself, found "
                f"{dict(chosen.standings)}; only those give gradients: record the policy's own play with "
                "log-probabilities at temperature 1, or train on forked windows"
            )
        learned = self.learner.learn(
            chosen, config.groups_a_step, config.epochs, np.random.default_rng([config.seed, iteration, 5])
        )
        payload = iteration_metrics(taken, chosen, learned) | {"checkpoint": f"{CHECKPOINTS}/{iteration:04d}"}
        self.run.note("grpo", iteration, payload)
        if iteration % config.evaluate_every == 0 or iteration == config.iterations:
            payload |= self._measure(iteration)
        self._save(iteration, payload)
        self.run.save_state(iteration, state_arrays(self.language_model.model, self.learner.optimiser), {})
        used = [episode.episode_id for item in taken.scored for episode in item.group.episodes]
        self.ledger.settle(iteration, self.version(iteration), used)
        return payload

    def _measure(self, iteration: int) -> Json:
        """Measure the policy in money on held-out windows, beside the model that training began with.

        A market that is only recorded cannot be played again: nothing is measured there.
        """
        config = self.config
        if not config.holdout or self.game.language is None:
            return {}
        player = model_player(self.language_model, config.max_tokens, (config.seed, 9))
        result = measure(self.game, config.terms, self.plan.held, config.holdout_forks, player)
        payload: Json = {f"holdout_{name}": value for name, value in result.to_json(self.rng).items()}
        if iteration:
            first = self._first()
            low, high = gains(result, {"parent": first}, self.rng)["parent"]
            payload |= {"gain": float((result.pnl - first.pnl).mean()), "gain_low": low, "gain_high": high}
            if high < 0 or result.valid < first.valid / 2:
                raise Diverged(
                    f"expected money and valid decisions to hold, found {payload['gain']:.3g} a window against the "
                    f"model "
                    f"that training began with, at most {high:.3g}, and {result.valid:.0%} valid decisions after "
                    f"{first.valid:.0%}"
                )
        self.run.note("holdout", iteration, payload | {"windows_pnl": result.pnl.tolist(), "valid": result.valid})
        return payload

    def _first(self) -> PlayerMeasurement:
        """Give how the model that training began with did, from the run's own log."""
        line = next(item for item in read_log(self.run.path) if item["kind"] == "holdout" and item["step"] == 0)
        pnl = np.array(line["windows_pnl"], np.float64)
        return PlayerMeasurement(pnl, np.zeros_like(pnl), float(line["valid"]), 0.0, 0.0)

    def _save(self, iteration: int, payload: Mapping[str, object]) -> None:
        card = LanguageCard(
            version=self.version(iteration),
            method="grpo",
            game=self.game.name,
            base=self.base,
            base_hash=self.base_hash,
            parent=self.parent.version if self.parent is not None else self.config.base,
            next_window=self.plan.held.stop,
            commit=commit(),
            seed=self.config.seed,
            config=asdict(self.config),
            metrics={name: value for name, value in payload.items() if isinstance(value, (int, float))},
        )
        save_language_model(self.run.path / CHECKPOINTS / f"{iteration:04d}", self.language_model, card)

    def _stopped(self, iteration: int, error: Diverged) -> Diverged:
        """Write that the run has stopped; give the error with what is kept."""
        kept = self.run.path / CHECKPOINTS / f"{iteration - 1:04d}" if iteration > 1 else Path(self.config.base)
        self.run.finish(self._result(str(error)) | {"last_good": str(kept)})
        return Diverged(f"training stopped in iteration {iteration}: {error}. The last good checkpoint is {kept}")

    def _result(self, stopped: str | None) -> Json:
        log = [item for item in read_log(self.run.path) if item["kind"] in ("grpo", "holdout")]
        last = max((item["step"] for item in log if item["kind"] == "grpo"), default=0)
        held = [item for item in log if item["kind"] == "holdout"]
        return {
            "run": str(self.run.path),
            "iterations": last,
            "checkpoint": str(self.run.path / CHECKPOINTS / f"{last:04d}") if last else None,
            "stopped": stopped,
            "flat_groups": sum(item["flat"] for item in log if item["kind"] == "grpo"),
            "before": {name: value for name, value in held[0].items() if name != "windows_pnl"} if held else None,
            "after": {name: value for name, value in held[-1].items() if name != "windows_pnl"} if held else None,
        }


def _is_whole(model: LanguageModel) -> bool:
    """Tell whether a checkpoint of this package holds all weights, which are then trained further."""
    return model.card is not None and not model.card.base_hash


def iteration_metrics(taken: IterationData, chosen: SelectedSamples, learned: UpdateStats) -> Json:
    """Give what is noted and shown of an iteration."""
    rewards = [value for item in taken.scored for value in item.rewards]
    best = max(taken.scored, key=lambda item: max(item.rewards))
    return {
        "windows": len(taken.scored),
        "episodes": len(rewards),
        "reward": taken.scored[0].reward,
        "score_min": min(rewards),
        "score_max": max(rewards),
        "score_mean": float(np.mean(rewards)),
        "best": best.best,
        "loss": learned.loss,
        "kl": learned.kl,
        "clipped": learned.clipped,
        "gradient": learned.norm,
        "tokens": learned.tokens,
        "flat": chosen.flat,
        "idle": chosen.idle,
        "dropped_windows": len(taken.dropped),
        **{f"episodes_{why}": count for why, count in sorted(chosen.standings.items())},
    }
