"""What is fixed before an experiment starts, and how its units become differences.

| mode | a unit | what is known of it | difference |
|---|---|---|---|
| shadow | a window | what both earned at the same prices | A less B |
| forks | a window | what both earned in copies of one market | A less B |
| split | a window or an agent | what the arm earned that its hash gave it | weighted by the arm's share |

Profits are counted up to `gain_cap` and cannot fall below `-loss_limit`, which the market's order limits enforce: what
lies beyond them refutes the limits, and the experiment with them. Leaves out: where units come from (feeds).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ConfigError, ContractError, InputError
from playproof.home import check_id
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.stats.assignment import assign_arm
from playproof.stats.sequential import ALPHA, SequentialTerms

Mode = Literal["shadow", "split", "forks"]
MODES: tuple[Mode, ...] = get_args(Mode)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExperimentArm:
    """One of the two versions."""

    label: str
    """NAME:VERSION, or the name of a baseline."""
    policy_hash: str
    load: str
    """What it is loaded from: a checkpoint's folder, or a baseline's name."""


@dataclass(frozen=True, kw_only=True)
class ExperimentPlan:
    """An experiment as it is registered; money in the smallest unit."""

    name: str
    mode: Mode
    game: str
    a: ExperimentArm
    """The version in use."""
    b: ExperimentArm
    """The challenger."""
    loss_limit: int
    """What the order limits allow a window to lose."""
    gain_cap: int
    """Profit of a window up to which it counts."""
    margin: int = 0
    """Differences of a unit below it do not matter; 0: equality is not concluded."""
    budget: int = 1_000
    """Units after which it ends in any case."""
    alpha: float = ALPHA
    share: float = 0.5
    """Of units that a split gives to B."""
    on: str = ""
    """What is played: a world, a data set, or where the feed is."""
    seed: int = 1
    options: Json = field(default_factory=dict)
    """What else the feed is asked for."""

    def __post_init__(self) -> None:
        check_id(self.name, "an experiment's name")
        if self.mode not in MODES:
            raise ConfigError(f"expected a mode of {', '.join(MODES)}, found {self.mode!r}")
        if self.a.policy_hash == self.b.policy_hash:
            raise ConfigError(
                f"expected two versions that differ, found {self.a.label} and {self.b.label}: the same files"
            )
        if self.loss_limit <= 0 or self.gain_cap <= 0:
            raise ConfigError(f"expected a loss limit and a gain cap above 0, found {self.loss_limit}, {self.gain_cap}")
        if not 0.05 <= self.share <= 0.95 or self.budget < 1:
            raise ConfigError(f"expected a share of 0.05 to 0.95 and a budget, found {self.share}, {self.budget}")
        self.terms()  # refuses a margin or alpha that make no sense

    @property
    def bound(self) -> int:
        """Give the largest difference of one unit."""
        if self.mode != "split":
            return self.loss_limit + self.gain_cap
        return math.ceil(max(self.loss_limit, self.gain_cap) / min(self.share, 1 - self.share))

    def terms(self) -> SequentialTerms:
        """Give the terms of the test, in coins or USD."""
        return SequentialTerms(self.bound / UNIT, self.margin / UNIT, self.budget, self.alpha)

    @property
    def data_hash(self) -> str:
        """Give one hash of what is played, for the trial ledger."""
        lines = [self.mode, self.game, self.on, self.seed, self.loss_limit, sorted(self.options.items())]
        return sha256(json.dumps(lines, default=str).encode()).hexdigest()

    def to_json(self) -> Json:
        """Give the plan as it is registered."""
        return asdict(self)

    @classmethod
    def from_json(cls, payload: Json) -> ExperimentPlan:
        """Read a registered plan."""
        fields: dict[str, Any] = dict(payload)
        fields |= {arm: ExperimentArm(**fields[arm]) for arm in ("a", "b")}
        return cls(**fields)


@dataclass(frozen=True)
class ExperimentUnit:
    """What one unit came to; in a split only one of the two is known."""

    unit: str
    pnl_a: int | None
    pnl_b: int | None


def unit_difference(plan: ExperimentPlan, unit: ExperimentUnit) -> float:
    """Give A less B of one unit, in coins or USD; its expectation is the true difference of capped profits."""
    a, b = (_counted(plan, value) for value in (unit.pnl_a, unit.pnl_b))
    if plan.mode != "split":
        if a is None or b is None:
            raise ContractError(f"expected both profits of {unit.unit} in a paired experiment, found one")
        return (a - b) / UNIT
    if (a is None) == (b is None):
        raise ContractError(
            f"expected the profit of one arm of {unit.unit} in a split, found {(unit.pnl_a, unit.pnl_b)}"
        )
    if (a is None) != (assign_arm(plan.name, unit.unit, plan.share) == "b"):
        raise ContractError(f"expected the arm of {unit.unit} that its hash gives, found the other one")
    if a is not None:
        return a / (1 - plan.share) / UNIT
    assert b is not None
    return -b / plan.share / UNIT


def differences(plan: ExperimentPlan, units: Sequence[ExperimentUnit]) -> Floats:
    """Give the differences of units in their order."""
    return np.array([unit_difference(plan, unit) for unit in units], np.float64)


def _counted(plan: ExperimentPlan, pnl: int | None) -> int | None:
    """Count a profit up to the cap; refuse a loss that the limits do not allow."""
    if pnl is None:
        return None
    if pnl < -plan.loss_limit:
        raise InputError(
            f"expected no unit to lose more than {plan.loss_limit / UNIT:g}, found {pnl / UNIT:g}: the order limits"
            " were not kept, and nothing can be concluded; register another experiment with limits that hold"
        )
    return min(pnl, plan.gain_cap)
