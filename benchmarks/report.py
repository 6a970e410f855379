"""The record every bench gives: results, goals, and the commit they were measured at.

Leaves out: the measuring, and deciding which benches there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from playproof.errors import ContractError
from playproof.provenance import commit

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured number."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Goal:
    """A number, what it should be, and whether it is."""

    name: str
    value: float
    goal: float
    met: bool

    @classmethod
    def at_least(cls, name: str, value: float, goal: float) -> Goal:
        """Set a goal that larger values meet; NaN meets none."""
        return cls(name, value, goal, value >= goal)

    @classmethod
    def at_most(cls, name: str, value: float, goal: float) -> Goal:
        """Set a goal that smaller values meet; NaN meets none."""
        return cls(name, value, goal, value <= goal)


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """What one run of one bench measured."""

    bench: str
    results: tuple[Measurement, ...]
    goals: tuple[Goal, ...] = ()
    commit: str = field(default_factory=commit)

    @property
    def met(self) -> bool:
        """Tell whether every goal is met."""
        return all(goal.met for goal in self.goals)

    def to_json(self) -> dict[str, Any]:
        """Give the object that `python -m benchmarks NAME --json` prints."""
        return {
            "bench": self.bench,
            "commit": self.commit,
            "results": [asdict(result) for result in self.results],
            "goals": [asdict(goal) for goal in self.goals],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BenchmarkReport:
        """Read the object back, and refuse one with other keys."""
        try:
            return cls(
                bench=data["bench"],
                results=tuple(Measurement(**result) for result in data["results"]),
                goals=tuple(Goal(**goal) for goal in data["goals"]),
                commit=data["commit"],
            )
        except (KeyError, TypeError) as error:
            raise ContractError(
                "expected bench, commit, results [{name, value, unit}] and goals [{name, value, goal, met}],"
                f" found {sorted(data)}: {error}"
            ) from error


def number(value: float) -> str:
    """Write a number with four significant digits and thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def tables(report: BenchmarkReport) -> RenderableType:
    """Lay a report out as one or two tables."""
    from rich.console import Group
    from rich.table import Table

    results = Table("result", "value", "unit", title=f"bench {report.bench}", title_justify="left")
    results.columns[1].justify = "right"
    for result in report.results:
        results.add_row(result.name, number(result.value), result.unit)
    if not report.goals:
        return results
    goals = Table("goal", "value", "wanted", "met")
    for goal in report.goals:
        met = "[green]yes[/]" if goal.met else "[red]no[/]"
        goals.add_row(goal.name, number(goal.value), number(goal.goal), met)
    return Group(results, goals)


def markdown(report: BenchmarkReport) -> str:
    """Write a report as a section of a Markdown page."""
    lines = [f"## {report.bench}", "", "| result | value | unit |", "|---|---:|---|"]
    lines += [f"| {result.name} | {number(result.value)} | {result.unit} |" for result in report.results]
    if report.goals:
        lines += ["", "| goal | value | wanted | met |", "|---|---:|---:|---|"]
        lines += [
            f"| {goal.name} | {number(goal.value)} | {number(goal.goal)} | {'yes' if goal.met else 'no'} |"
            for goal in report.goals
        ]
    return "\n".join([*lines, ""])
