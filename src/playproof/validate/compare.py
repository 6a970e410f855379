"""Compare policies in pairs: the same windows for all, differences to the first named, honest about how many there are.

Whoever compares many finds something: intervals of the differences are therefore shown for each alone and for all
at once, and only the latter decide. Every evaluation is written into the trial ledger before anything is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError
from playproof.evaluate.rollout import Rollout
from playproof.evaluate.trials import Trial, overlapping, record_trial, trials
from playproof.game import Game
from playproof.json_types import Json
from playproof.stats.evidence import JointTest, joint_test, ratio_errors, ratio_intervals
from playproof.stats.metrics import Metrics, measure
from playproof.stats.selection import SuperiorityTest, superior_ability
from playproof.validate.examine import EvalPlan, Subject, ledger_trial, play_plan
from playproof.validate.gates import METHOD

if TYPE_CHECKING:
    from sqlalchemy import Engine

Floats = NDArray[np.float64]
Finding = Literal["better", "worse", "no difference shown", "the same in every window"]
STREAM = int.from_bytes(b"compare")
LEAST = 2


@dataclass(frozen=True)
class Difference:
    """How a policy differs from the first one, in profit per unit reserved and window."""

    mean: float
    alone: tuple[float, float]
    """95 % interval, if this were the only comparison."""
    together: tuple[float, float]
    """Interval that holds for all comparisons at once in 95 % of the cases."""
    finding: Finding
    """What the intervals for all at once allow to be said."""
    better: int
    """Windows in which it earned more than the first."""
    worse: int


@dataclass(frozen=True)
class PolicyComparison:
    """One policy on the windows of all."""

    subject: Subject
    played: Rollout
    metrics: Metrics
    difference: Difference | None
    """None for the first, to which the others are compared."""
    new_look: bool
    """Was this its first look at these windows?"""

    @property
    def returns(self) -> Floats:
        """Give its profit per unit reserved, window by window."""
        return self.played.score().returns


@dataclass(frozen=True)
class Comparison:
    """Policies on the same windows, the first named as the measure."""

    plan: EvalPlan
    rows: tuple[PolicyComparison, ...]
    joint: JointTest
    """All differences at once, against none at all."""
    superior: SuperiorityTest
    """SPA: is any of the others better than the first?"""
    looks: int
    """Policies that the trial ledger knows on these windows, these included."""

    @property
    def sentence(self) -> str:
        """Say what was found."""
        first, others = self.rows[0].subject.name, self.rows[1:]
        result = {
            word: [other.subject.name for other in others if other.difference and other.difference.finding == word]
            for word in ("better", "worse")
        }
        texts = [f"{_list(names)} earned {word} than {first}" for word, names in
                (("more", result["better"]), ("less", result["worse"])) if names]  # fmt: skip
        rest = len(others) - len(result["better"]) - len(result["worse"])
        if rest:
            names = "the others" if texts else _list([other.subject.name for other in others])
            texts.append(f"of {names} no difference to {first} is shown")
        return f"{'; '.join(texts)}, on {len(self.rows[0].played):,} windows."

    def to_json(self) -> Json:
        """Give everything but the windows one by one."""
        return {
            "on": self.plan.name,
            "data_hash": self.plan.data_hash,
            "seed": self.plan.seed,
            "windows": len(self.rows[0].played),
            "sentence": self.sentence,
            "ceiling": self.plan.ceiling,
            "comparisons": len(self.rows) - 1,
            "joint_p": self.joint.p,
            "spa_p": self.superior.p,
            "looks": self.looks,
            "policies": [
                {
                    "name": row.subject.name,
                    "policy_hash": row.subject.policy_hash,
                    "stake": row.subject.stake,
                    "positions": int(row.played.opened.sum()),
                    "pnl": int(row.played.pnl.sum()),
                    "new_look": row.new_look,
                    "metrics": asdict(row.metrics),
                    "difference": None if row.difference is None else asdict(row.difference),
                }
                for row in self.rows
            ],
        }


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def compare(
    game: Game,
    subjects: Sequence[Subject],
    plan: EvalPlan,
    engine: Engine,
    now: datetime,
    notify: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Play every policy over the same windows, write each look down, and weigh the differences to the first."""
    if len(subjects) < LEAST:
        raise ConfigError(f"expected at least two policies to compare, found {len(subjects)}")
    named = _named(subjects)
    played: list[Rollout] = []
    looks: list[Trial] = []
    new: list[bool] = []
    for subject in named:
        notify(f"playing {subject.name}")
        played.append(play_plan(game, subject, plan))
        looks.append(ledger_trial(subject, plan, played[-1], now, "playproof compare"))
        new.append(record_trial(engine, looks[-1]))
    returns = np.column_stack([item.score().returns for item in played])  # (windows, policies)
    differences = returns[:, 1:] - returns[:, :1]
    joint = joint_test(differences, np.ones_like(differences), np.zeros(len(named) - 1), _draws(plan, 1))
    result = weigh(differences, joint, _draws(plan, 2))
    return Comparison(
        plan=plan,
        rows=tuple(
            PolicyComparison(subject, item, measure(returns[:, index], _draws(plan, 0)), difference, fresh)
            for index, (subject, item, difference, fresh) in enumerate(
                zip(named, played, (None, *result), new, strict=True)
            )
        ),
        joint=joint,
        superior=superior_ability(returns[:, 1:], plan.seed, benchmark=returns[:, 0]),
        looks=len(overlapping(looks[0], trials(engine))),
    )


def weigh(differences: Floats, joint: JointTest, rng: np.random.Generator) -> tuple[Difference, ...]:
    """Give the intervals of mean differences (windows, policies), for each alone and for all at once."""
    ones = np.ones_like(differences)
    alone = ratio_intervals(differences, ones, rng, method=METHOD).tolist()
    means, errors = ratio_errors(differences, ones)
    return tuple(
        _difference(column, float(mean), joint.critical * float(error) if error > 0 else 0.0, (low, high))
        for column, mean, error, (low, high) in zip(differences.T, means, errors, alone, strict=True)
    )


def _difference(column: Floats, mean: float, reach: float, alone: tuple[float, float]) -> Difference:
    together = (mean - reach, mean + reach)
    return Difference(
        mean=mean,
        alone=alone,
        together=together,
        finding=_finding(column, together),
        better=int((column > 0).sum()),
        worse=int((column < 0).sum()),
    )


def _finding(differences: Floats, together: tuple[float, float]) -> Finding:
    if not differences.any():
        return "the same in every window"
    if together[0] > 0 and math.isfinite(together[0]):
        return "better"
    return "worse" if together[1] < 0 else "no difference shown"


def _draws(plan: EvalPlan, stream: int) -> np.random.Generator:
    return np.random.default_rng([STREAM, plan.seed, stream])


def _named(subjects: Sequence[Subject]) -> list[Subject]:
    """Give every policy a name of its own."""
    results: list[Subject] = []
    for subject in subjects:
        same = sum(1 for item in results if item.name == subject.name or item.name.startswith(f"{subject.name} ("))
        results.append(replace(subject, name=f"{subject.name} ({same + 1})") if same else subject)
    return results
