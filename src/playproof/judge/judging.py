"""A judge: scores groups in several orders, counts every answer that it cannot use, and stores what it gave.

A group has scores only if every order was answered soundly; then each episode's score is the mean over the orders.
Otherwise it has none: nothing stands in for a judge that failed. Leaves out: the computed reward (computed), and
whether a judge can be trusted (gates).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean, median

import numpy as np
from sqlalchemy import Engine, insert, select, update

from playproof.errors import ConfigError, PlayproofError
from playproof.judge.asking import (
    Budget,
    BudgetMeter,
    Cache,
    Estimate,
    JudgeEndpoint,
    JudgeSettings,
    ModelAnswer,
    bound_tokens,
    openai_endpoint,
)
from playproof.judge.group import Contender, JudgedGroup, Scores
from playproof.judge.ruler import AnswerRefused, JudgeQuestion, JudgeScore, ask, content_hash, prompt_hash, read
from playproof.store.db import Judgement, Trajectory, writing

NAME = "judge"
CANARY = "canary-"
GIVE_UP = 3
"""Groups in a row without one sound answer after which a judge has failed."""


class JudgeFailed(PlayproofError):
    """Tell which judge failed, on which group, and what it answered."""

    def __init__(self, model: str, group_id: str, refusal: AnswerRefused, answer: str | None) -> None:
        self.model, self.group_id, self.reason, self.answer = model, group_id, refusal.reason, answer
        shown = "nothing" if answer is None else repr(answer[:300])
        super().__init__(
            f"judge {model} failed on group {group_id} ({refusal.reason}): {refusal}; it answered {shown}. "
            "Check the model with: playproof judge check, or use the computed reward"
        )


@dataclass(frozen=True)
class GroupJudgement:
    """What became of one group."""

    group_id: str
    scores: Scores | None
    """None if an order was not answered soundly."""
    orders: tuple[Mapping[str, JudgeScore], ...] = ()
    """What each order gave."""
    failure: JudgeFailed | None = None

    @property
    def no_variance(self) -> bool:
        """Tell whether all episodes have the same score, so that the group teaches nothing."""
        return self.scores is not None and len(set(self.scores.values.values())) == 1


class Judge:
    """One judge with its budget, its cache and its counts."""

    def __init__(
        self,
        settings: JudgeSettings,
        endpoint: JudgeEndpoint | None = None,
        *,
        engine: Engine | None = None,
        budget: Budget | None = None,
        token: Callable[[int], str] = secrets.token_hex,
    ) -> None:
        self.settings, self.token = settings, token
        self.endpoint = endpoint or openai_endpoint(settings)
        self.cache = Cache(engine)
        self.purse = BudgetMeter(budget or Budget(), settings)
        self.refusals: Counter[str] = Counter()
        """Answers that were not used, by reason."""
        self.accepted = 0
        self.from_cache = 0

    @property
    def version(self) -> str:
        """Give what makes this judge's scores: its model and what it is told."""
        return f"{self.settings.model}@{prompt_hash()}"

    def orders(self, group: JudgedGroup) -> list[tuple[int, ...]]:
        """Give the orders that a group is shown in: drawn from its content, each different, canaries among them."""
        members = len(group.contenders) + self.settings.canaries
        seed = int(content_hash(group, range(len(group.contenders)))[:16], 16)
        rng = np.random.default_rng(seed)
        result: dict[tuple[int, ...], None] = {}
        while len(result) < self.settings.permutations:
            result[tuple(int(at) for at in rng.permutation(members))] = None
        return list(result)

    def score(self, group: JudgedGroup) -> GroupJudgement:
        """Score one group."""
        extra = _canaries(group, self.settings.canaries)
        given: list[Mapping[str, JudgeScore]] = []
        for order in self.orders(group):
            result = self.give(group, order, extra)
            if isinstance(result, JudgeFailed):
                return GroupJudgement(group.group_id, None, tuple(given), result)
            given.append(result)
        values = {name: fmean(item[name].score for item in given) for name in group.names}
        return GroupJudgement(group.group_id, Scores(NAME, self.version, group.group_id, values), tuple(given))

    def give(
        self, group: JudgedGroup, order: Sequence[int], extra: Sequence[Contender] = ()
    ) -> Mapping[str, JudgeScore] | JudgeFailed:
        """Ask for one order, again if the answer cannot be used."""
        canaries = frozenset(item.trajectory_id for item in extra)
        for attempt in range(self.settings.attempts):
            answer: str | None = None
            try:
                question, answer = self._answer(group, order, extra, attempt, canaries)
                result = read(answer, question, canaries)
            except AnswerRefused as error:
                self.refusals[error.reason] += 1
                refusal = error
                continue
            self.accepted += 1
            return result
        return JudgeFailed(self.settings.model, group.group_id, refusal, answer)

    def _answer(
        self,
        group: JudgedGroup,
        order: Sequence[int],
        extra: Sequence[Contender],
        attempt: int,
        canaries: frozenset[str],
    ) -> tuple[JudgeQuestion, str]:
        """Give the question and its answer, from the cache where it was asked before."""
        key = self._key(group, order, extra, attempt)
        question = ask(group, order, self.token, extra)
        known = self.cache.get(key)
        if known is not None:
            self.from_cache += 1
            return replace(question, labels=known.labels, nonce=known.nonce), known.answer
        asked = self._asked(question)
        self.cache.put(key, group.group_id, question, asked, _reason(asked.text, question, canaries), self.settings)
        return question, asked.text

    def _asked(self, question: JudgeQuestion) -> ModelAnswer:
        """Call the model within the budget."""
        prompt = bound_tokens(question)
        self.purse.reserve(prompt)
        model_answer: ModelAnswer | None = None
        try:
            model_answer = self.endpoint(question.messages)
        finally:
            self.purse.settle(prompt, model_answer)
        return model_answer

    def _key(self, group: JudgedGroup, order: Sequence[int], extra: Sequence[Contender], attempt: int) -> str:
        asked = [self.settings.model, self.settings.base_url, self.settings.temperature, self.settings.max_tokens]
        parts = [*asked, content_hash(group, order, extra), attempt]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def estimate(self, groups: Iterable[JudgedGroup]) -> Estimate:
        """Reckon what judging groups would take at most, one answer an order."""
        calls = prompt = known = 0
        for group in groups:
            extra = _canaries(group, self.settings.canaries)
            for order in self.orders(group):
                if self.cache.get(self._key(group, order, extra, 0)) is not None:
                    known += 1
                    continue
                calls += 1
                prompt += bound_tokens(ask(group, order, self.token, extra))
        completion = calls * self.settings.max_tokens
        return Estimate(calls, prompt, completion, self.settings.cost(prompt, completion), known)

    def score_all(self, groups: Sequence[JudgedGroup]) -> list[GroupJudgement]:
        """Score groups side by side, once the estimate fits the budget; raise if the judge fails throughout."""
        self.estimate(groups).check(self.purse.budget)
        group_judgements: list[GroupJudgement] = []
        step = max(GIVE_UP, self.settings.parallel)
        with ThreadPoolExecutor(self.settings.parallel) as pool:
            for start in range(0, len(groups), step):
                group_judgements += pool.map(self.score, groups[start : start + step])
                _stop_if_hopeless(group_judgements)
        return group_judgements


def _stop_if_hopeless(group_judgements: Sequence[GroupJudgement]) -> None:
    failed = [item.failure for item in group_judgements]
    if failed and all(item is not None for item in failed[-GIVE_UP:]) and (last := failed[-1]) is not None:
        raise last


def _canaries(group: JudgedGroup, count: int) -> tuple[Contender, ...]:
    """Make episodes that read what others read and answer nothing."""
    return tuple(
        replace(group.contenders[at % len(group.contenders)].answering(""), trajectory_id=f"{CANARY}{at}")
        for at in range(count)
    )


def _reason(text: str, question: JudgeQuestion, canaries: frozenset[str]) -> str | None:
    try:
        read(text, question, canaries)
    except AnswerRefused as error:
        return error.reason
    return None


def ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Rank episodes, the best 0; equal scores share the better rank."""
    return {name: sum(other > value for other in values.values()) for name, value in values.items()}


def store(engine: Engine, judge: Judge, judged: Sequence[GroupJudgement], now: datetime | None = None) -> int:
    """Store the scores of groups, one judgement a trajectory and judge; give how many are new."""
    moment, new = now or datetime.now(UTC), 0
    for item in judged:
        if item.scores is None:
            continue
        indices = ranks(item.scores.values)
        with writing(engine) as connection:
            for name, score in item.scores.values.items():
                row = _row(judge, item, name, score, indices[name], moment)
                there = select(Judgement.judgement_id).where(Judgement.judgement_id == row["judgement_id"])
                if connection.execute(there).first() is not None:
                    continue
                new += 1
                connection.execute(insert(Judgement), [row])
                connection.execute(
                    update(Trajectory)
                    .where(Trajectory.trajectory_id == name)
                    .values(judge_reward=score, judge_reasoning=row["reasoning"], judged_at=moment)
                )
    return new


def _row(judge: Judge, judged: GroupJudgement, name: str, score: float, rank: int, now: datetime) -> dict[str, object]:
    given = [order[name] for order in judged.orders]
    identity = json.dumps([judge.version, judged.group_id, name, score])
    return {
        "judgement_id": hashlib.sha256(identity.encode()).hexdigest()[:32],
        "trajectory_id": name,
        "judge_model": judge.settings.model,
        "judge_version": judge.version,
        "prompt_hash": prompt_hash(),
        "score": score,
        "components": {"orders": [item.score for item in given]},
        "rank": rank,
        "group_id": judged.group_id,
        "reasoning": "\n".join(item.explanation for item in given),
        "created_at": now,
    }


def configured() -> JudgeSettings | None:
    """Give the judge that the environment names, JUDGE_MODEL behind OPENAI_BASE_URL; None without one."""
    model = os.environ.get("JUDGE_MODEL", "")
    return JudgeSettings(model, os.environ.get("OPENAI_BASE_URL") or None) if model else None


def reward_function(name: str | None, judge: Judge | None = None) -> Callable[[JudgedGroup], Scores]:
    """Give a reward by name: computed or judge; without a name the judge if there is one, else the computed one.

    A group that the judge could not score raises JudgeFailed; it is never scored by anything else.
    """
    from playproof.judge.computed import computed

    wanted = name or ("computed" if judge is None else NAME)
    if wanted == "computed":
        return computed
    if wanted != NAME or judge is None:
        raise ConfigError(
            f"expected the reward computed, or judge with a judge configured (JUDGE_MODEL), found {wanted!r}"
        )

    def scored(group: JudgedGroup) -> Scores:
        result = judge.score(group)
        if result.scores is None:
            assert result.failure is not None
            raise result.failure
        return result.scores

    return scored


def spread(judged: Iterable[GroupJudgement]) -> float | None:
    """Give the median difference that the order alone made to a score; None without scores."""
    gaps = [
        max(order[name].score for order in item.orders) - min(order[name].score for order in item.orders)
        for item in judged
        if item.scores is not None
        for name in item.scores.values
    ]
    return median(gaps) if gaps else None
