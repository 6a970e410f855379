"""Experiments in the database: registered once, units added in their order, ended once, counted in the trial ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from playproof.errors import ConfigError, InputError, UnknownName
from playproof.evaluate.trials import Trial, record_trial
from playproof.operate.experiments.plan import ExperimentArm, ExperimentPlan, ExperimentUnit, differences
from playproof.stats.sequential import SequentialVerdict, weigh_differences
from playproof.store.db import ExperimentRow, ExperimentUnitRow, writing

STOPPED = "stopped"
Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Experiment:
    """A registered experiment and what became of it."""

    plan: ExperimentPlan
    registered_at: datetime
    ended_at: datetime | None
    ending: str | None
    """One of the endings of its test, or stopped; None while it runs."""
    why: str | None


class ExperimentLedger:
    """The experiments of one database."""

    def __init__(self, engine: Engine, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.engine, self.clock = engine, clock

    def register(self, plan: ExperimentPlan) -> Experiment:
        """Write a plan down before anything is played; the same name again must be the same plan."""
        payload = plan.to_json()
        values = {
            "name": plan.name,
            "mode": plan.mode,
            "game": plan.game,
            "a": payload["a"],
            "b": payload["b"],
            "plan": payload,
            "registered_at": self.clock(),
        }
        try:
            with writing(self.engine) as connection:
                connection.execute(insert(ExperimentRow).values(values))
        except IntegrityError:
            known = self.find(plan.name)
            if known.plan != plan:
                raise ConfigError(
                    f"expected the plan with which experiment {plan.name!r} was registered, found another: what counts"
                    " is fixed before it starts; use another name"
                ) from None
        return self.find(plan.name)

    def find(self, name: str) -> Experiment:
        """Give an experiment by its name."""
        with self.engine.connect() as connection:
            row = connection.execute(select(*_COLUMNS).where(ExperimentRow.name == name)).first()
            if row is None:
                raise UnknownName("experiment", name, connection.scalars(select(ExperimentRow.name)))
        return Experiment(ExperimentPlan.from_json(row.plan), row.registered_at, row.ended_at, row.ending, row.why)

    def all(self) -> tuple[Experiment, ...]:
        """Give every experiment, the oldest first."""
        with self.engine.connect() as connection:
            names = list(connection.scalars(select(ExperimentRow.name).order_by(ExperimentRow.registered_at)))
        return tuple(map(self.find, names))

    def units(self, name: str) -> tuple[ExperimentUnit, ...]:
        """Give the units of an experiment in the order in which they counted."""
        query = (
            select(ExperimentUnitRow.unit, ExperimentUnitRow.pnl_a, ExperimentUnitRow.pnl_b)
            .where(ExperimentUnitRow.experiment == name)
            .order_by(ExperimentUnitRow.number)
        )
        with self.engine.connect() as connection:
            return tuple(ExperimentUnit(*row) for row in connection.execute(query))

    def add(self, name: str, units: Iterable[ExperimentUnit]) -> int:
        """Add units that are not known yet, in their order; tell how many were new. An ended experiment takes none."""
        with writing(self.engine) as connection:
            locked = select(ExperimentRow.ended_at, ExperimentRow.plan).where(ExperimentRow.name == name)
            row = connection.execute(locked.with_for_update()).first()
            if row is None:
                raise UnknownName("experiment", name, ())
            if row.ended_at is not None:
                return 0
            plan = ExperimentPlan.from_json(row.plan)
            where = ExperimentUnitRow.experiment == name
            known = set(connection.scalars(select(ExperimentUnitRow.unit).where(where)))
            number = int(connection.scalar(select(func.count()).select_from(ExperimentUnitRow).where(where)) or 0)
            fresh = [unit for unit in {unit.unit: unit for unit in units}.values() if unit.unit not in known]
            differences(plan, fresh)  # refuses what the plan does not allow, before anything is written
            now = self.clock()
            rows = [
                {
                    "experiment": name,
                    "number": number + at,
                    "unit": unit.unit,
                    "pnl_a": unit.pnl_a,
                    "pnl_b": unit.pnl_b,
                    "noted_at": now,
                }
                for at, unit in enumerate(fresh)
            ]
            if rows:
                connection.execute(insert(ExperimentUnitRow), rows)
        return len(fresh)

    def look(self, name: str) -> SequentialVerdict:
        """Say how an experiment stands; one that has reached an ending is ended by whoever looks first."""
        experiment = self.find(name)
        units = self.units(name)
        verdict = weigh_differences(differences(experiment.plan, units), experiment.plan.terms())
        if experiment.ended_at is None and verdict.ended is not None:
            self._end(experiment.plan, units[: verdict.windows], verdict.ending, f"after {verdict.ended} units")
        return verdict

    def stop(self, name: str, why: str) -> SequentialVerdict:
        """End an experiment by hand; what its test says then is kept, and is no ending of its own."""
        experiment, verdict = self.find(name), self.look(name)
        if not why.strip():
            raise InputError("expected a reason for stopping, found none; give --why")
        if experiment.ended_at is None and verdict.ended is None:
            self._end(experiment.plan, self.units(name), STOPPED, why)
        return verdict

    def _end(self, plan: ExperimentPlan, units: Sequence[ExperimentUnit], ending: str, why: str) -> None:
        """Write the ending, and both arms' looks into the trial ledger."""
        now = self.clock()
        for trial in _trials(plan, units, ending, now):
            record_trial(self.engine, trial)
        with writing(self.engine) as connection:
            running = (ExperimentRow.name == plan.name, ExperimentRow.ended_at.is_(None))
            connection.execute(update(ExperimentRow).where(*running).values(ended_at=now, ending=ending, why=why))


def _trials(plan: ExperimentPlan, units: Sequence[ExperimentUnit], ending: str, now: datetime) -> list[Trial]:
    """Give the look of each arm at the units that it played."""

    def one(arm: ExperimentArm, pnl: list[tuple[str, int | None]]) -> Trial | None:
        played = [(unit, value) for unit, value in pnl if value is not None]
        if not played:
            return None
        return Trial(
            f"experiment {plan.name}",
            arm.policy_hash,
            plan.data_hash,
            "experiment",
            "test",
            now,
            tuple(unit for unit, _ in played),
            tuple(value for _, value in played),
            plan.loss_limit,
            {"ending": ending, "arm": arm.label},
            f"ab {plan.name}",
        )

    first = one(plan.a, [(unit.unit, unit.pnl_a) for unit in units])
    second = one(plan.b, [(unit.unit, unit.pnl_b) for unit in units])
    return [trial for trial in (first, second) if trial is not None]


_COLUMNS = tuple(ExperimentRow.__table__.columns)
