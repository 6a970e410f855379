"""The trial ledger: every look of a policy at a split, and what all the looks together allow to be claimed.

A look is written down by itself when a score is made, with its profit window by window. The same policy on
the same data and split counts once, however often it is run.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, Select, select

from playproof.errors import InputError
from playproof.evaluate.rollout import Score
from playproof.events import check_utc
from playproof.stats.metrics import sharpe_ratio
from playproof.stats.selection import (
    DeflatedSharpe,
    OverfitProbability,
    StepDownTest,
    SuperiorityTest,
    deflated_sharpe,
    overfit_probability,
    step_down,
    superior_ability,
)
from playproof.store.db import TrialRow as Row
from playproof.store.db import writing

Floats = NDArray[np.float64]
Kind = Literal["validation", "test"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MOST_BLOCKS = 16


@dataclass(frozen=True)
class Trial:
    """One policy's look at one split of one data set or world."""

    family: str
    """What was chosen among: policies of one family are tries at one thing."""
    policy_hash: str
    data_hash: str
    split: str
    kind: Kind
    created_at: datetime
    """Aware UTC."""
    windows: tuple[str, ...]
    pnl: tuple[int, ...]
    """Profit of each window, in the smallest unit."""
    stake: int
    """Reserved for each window before it began."""
    result: Mapping[str, Any] | None = None
    """What was said of it: the verdict, figures."""
    origin: str | None = None
    """What made the look: a command, a tuning run."""

    def __post_init__(self) -> None:
        check_utc(self.created_at, "created_at")
        if self.kind not in KINDS:
            raise InputError(f"expected a kind of trial among {', '.join(KINDS)}, found {self.kind!r}")
        if len(self.windows) != len(self.pnl) or self.stake <= 0:
            raise InputError(
                f"expected a profit for each of {len(self.windows)} windows and a stake above 0, found"
                f" {len(self.pnl)} profits and a stake of {self.stake}"
            )

    @property
    def trial_id(self) -> str:
        """Give the identity of the look: policy, data and split, whenever it was."""
        payload = json.dumps([self.policy_hash, self.data_hash, self.split, self.kind])
        return hashlib.sha256(payload.encode()).hexdigest()[:32]

    @property
    def returns(self) -> Floats:
        """Give each window's profit per unit reserved."""
        return np.asarray(self.pnl, np.float64) / self.stake

    @property
    def roi(self) -> float:
        """Give the profit per unit reserved over all windows."""
        return float(self.returns.mean()) if self.pnl else 0.0


def trial_of(
    score: Score,
    *,
    family: str,
    policy_hash: str,
    data_hash: str,
    split: str,
    kind: Kind,
    now: datetime,
    result: Mapping[str, object] | None = None,
    origin: str | None = None,
) -> Trial:
    """Make the trial of a score."""
    return Trial(
        family=family,
        policy_hash=policy_hash,
        data_hash=data_hash,
        split=split,
        kind=kind,
        created_at=now,
        windows=score.windows,
        pnl=score.pnl,
        stake=score.stake,
        result=result,
        origin=origin,
    )


def record_trial(engine: Engine, trial: Trial) -> bool:
    """Write a look down; tell whether it is a new one. The first look of a policy at its data stays as it was."""
    row = Row(
        trial_id=trial.trial_id,
        family=trial.family,
        policy_hash=trial.policy_hash,
        data_hash=trial.data_hash,
        split=trial.split,
        kind=trial.kind,
        created_at=trial.created_at,
        windows=list(trial.windows),
        pnl=list(trial.pnl),
        stake=trial.stake,
        metric=trial.roi,
        result=dict(trial.result) if trial.result is not None else None,
        origin=trial.origin,
    )
    values = {column.key: getattr(row, column.key) for column in Row.__mapper__.column_attrs}
    with writing(engine) as connection:
        value = connection.execute(select(Row.trial_id).where(Row.trial_id == trial.trial_id)).first()
        if value is not None:
            return False
        insert = _insert(engine).values(values).on_conflict_do_nothing(index_elements=["trial_id"])
        return bool(connection.execute(insert).rowcount)


def _insert(engine: Engine) -> Any:
    """Give the insert of the database's own dialect, which knows what to do about a known key."""
    if engine.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as into
    else:
        from sqlalchemy.dialects.sqlite import insert as into  # type: ignore[assignment]
    return into(Row)


def trials(
    engine: Engine, *, family: str | None = None, kind: Kind | None = None, data_hash: str | None = None
) -> tuple[Trial, ...]:
    """Give the looks, the oldest first; None stands for all."""
    with engine.connect() as connection:
        return tuple(_trial(row) for row in connection.execute(_wanted(family, kind, data_hash)).mappings())


def _wanted(family: str | None, kind: Kind | None, data_hash: str | None) -> Select[Any]:
    query = select(*Row.__table__.columns).order_by(Row.created_at, Row.trial_id)
    if family is not None:
        query = query.where(Row.family == family)
    if kind is not None:
        query = query.where(Row.kind == kind)
    return query if data_hash is None else query.where(Row.data_hash == data_hash)


def _trial(row: Mapping[Any, Any]) -> Trial:
    return Trial(
        family=row["family"],
        policy_hash=row["policy_hash"],
        data_hash=row["data_hash"],
        split=row["split"],
        kind=row["kind"],
        created_at=row["created_at"],
        windows=tuple(row["windows"]),
        pnl=tuple(row["pnl"]),
        stake=row["stake"],
        result=row["result"],
        origin=row["origin"],
    )


def overlapping(candidate: Trial, result: Iterable[Trial]) -> tuple[Trial, ...]:
    """Give the test looks that share windows with a candidate's, itself first, and those that share with them.

    The chain is followed to its end: whoever looked at some of the windows chose among all that did.
    """
    left = [trial for trial in result if trial.kind == "test" and trial.trial_id != candidate.trial_id]
    reached, kept = set(candidate.windows), [candidate]
    while more := [trial for trial in left if reached.intersection(trial.windows)]:
        kept += more
        reached.update(name for trial in more for name in trial.windows)
        left = [trial for trial in left if trial not in more]
    return tuple(kept)


def aligned(result: Sequence[Trial]) -> tuple[tuple[str, ...], Floats]:
    """Give the windows that any of the looks saw, and returns (windows, trials); 0 where a policy did not play.

    Windows keep the order of the look that names them first. Not playing earns nothing, so 0 is exact.
    """
    order: dict[str, int] = {}
    for trial in result:
        for name in trial.windows:
            order.setdefault(name, len(order))
    table = np.zeros((len(order), len(result)))
    for column, trial in enumerate(result):
        np.add.at(table[:, column], [order[name] for name in trial.windows], trial.returns)
    return tuple(order), table


@dataclass(frozen=True)
class Selection:
    """What the choice among all looks leaves of a candidate."""

    chosen: StepDownTest
    """Does the candidate itself earn more than nothing, every policy opened on overlapping test windows counted?"""
    superior: SuperiorityTest
    """SPA over the same policies against doing nothing, a diagnostic: does the best of them earn anything?"""
    deflated: DeflatedSharpe
    """The candidate's Sharpe ratio against the best of all its family's lucky tries, validation included."""
    overfit: OverfitProbability | None
    """PBO over the same policies as SPA; None where there are too few of them."""
    looks: Mapping[str, int]
    """Looks by kind that were counted."""


def weigh_selection(candidate: Trial, result: Sequence[Trial], seed: int, draws: int = 1000) -> Selection:
    """Weigh a candidate's test look against every look in the ledger."""
    beside = overlapping(candidate, result)
    windows, table = aligned(beside)
    tries = {trial.trial_id: trial for trial in result if trial.family == candidate.family}
    counted = {trial.trial_id: trial for trial in (*tries.values(), *beside)}
    sharpes = np.array([sharpe_ratio(trial.returns) for trial in counted.values()])
    luck = float(np.mean([1 / max(len(trial.pnl) - 1, 1) for trial in counted.values()]))
    blocks = min(MOST_BLOCKS, len(windows) // 2 // 2 * 2)
    overfit = overfit_probability(table, blocks) if len(beside) > 1 and blocks >= 2 else None
    return Selection(
        chosen=step_down(table, seed),
        superior=superior_ability(table, seed, draws=draws),
        deflated=deflated_sharpe(candidate.returns, sharpes, luck),
        overfit=overfit,
        looks=dict(Counter(trial.kind for trial in counted.values())),
    )
