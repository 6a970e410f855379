"""The leaderboard as one page: no network, readable on a phone.

Leaves out: the figures (bench).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playproof.reports.chart import Chart, ChartAxis, LevelLine, MarkerSeries
from playproof.reports.page import PageSection, PageTable, Toned, render
from playproof.workflows.arena.benchmark import ALL, DUMMY, ContestantFigures, Criterion

HEAD = ("", "P&L", "95 % interval", "alpha", "wins", "drawdown", "valid", "errors", "trades", "timing", "e-value")


def page(
    rows: Sequence[ContestantFigures],
    models: Sequence[str],
    criteria: Mapping[str, Sequence[Criterion]],
    facts: Mapping[str, Any],
) -> str:
    """Write the leaderboard."""
    scenarios = list(dict.fromkeys(item.scenario for item in rows))
    if facts["scenarios"] == 1:  # whose figures are those of all
        scenarios = [name for name in scenarios if name != ALL]
    total = [item for item in rows if item.scenario == ALL]
    among = "one scenario" if facts["scenarios"] == 1 else f"each of {facts['scenarios']} scenarios"
    return render(
        "report.html",
        title="Arena leaderboard",
        lead=(
            f"{facts['windows']} forked windows of {among}, {facts['decisions']} decisions in each, the same windows"
            " for everybody. Scripted players stand beside the models; wait does nothing."
        ),
        charts=[profit_figure(total, models)],
        sections=[
            *(_scenario(name, [item for item in rows if item.scenario == name], models) for name in scenarios),
            *_criteria(criteria, str(facts["against"])),
            *_duels(total, models),
        ],
        footer=(
            f"Windows of seed {facts['seed']}, plan {facts['plan']}, commit {facts['commit']}. USD a window; the stake "
            f"reserved for each is {facts['stake']:,.0f} USD. An interval that holds 0 shows nothing; an e-value of 20 "
            "or more is more than luck."
        ),
    )


def profit_figure(rows: Sequence[ContestantFigures], models: Sequence[str]) -> Chart:
    """Draw every mean profit with its interval on one axis."""
    series = []
    for title, colour, chosen in (("models", "good", True), ("scripted players", "blue", False)):
        shown = [(index, row) for index, row in enumerate(rows) if (row.name in models) == chosen]
        if shown:
            series.append(
                MarkerSeries(
                    name=f"{title}, 95 % interval",
                    y=[index for index, _ in shown],
                    x=[row.pnl for _, row in shown],
                    low=[row.pnl_interval[0] for _, row in shown],
                    high=[row.pnl_interval[1] for _, row in shown],
                    colour=colour,
                )
            )
    return Chart(
        title="Mean profit a window with its 95 % interval",
        x=ChartAxis(title="USD a window", zero=True),
        y=ChartAxis(names=[row.name for row in rows]),
        series=series,
        levels=[LevelLine(value=0.0, name="doing nothing", axis="x", colour="dim")],
        height=60 + 28 * len(rows),
        wide=True,
        numbers=False,
    )


def _scenario(name: str, rows: Sequence[ContestantFigures], models: Sequence[str]) -> PageSection:
    table = PageTable(
        head=HEAD,
        rows=[
            (
                row.name,
                f"{row.pnl:+.2f}",
                f"{row.pnl_interval[0]:+.2f} to {row.pnl_interval[1]:+.2f}",
                f"{row.alpha:+.3%}",
                f"{row.win_rate:.0%}",
                f"{row.drawdown:.0f}",
                f"{row.valid:.0%}",
                f"{row.errors:.1%}",
                f"{row.trades:.1f}",
                "-" if row.timing is None or row.captured is None else f"{row.timing:.0%} ({row.captured:+.2%})",
                f"{row.e_value:.3g}",
            )
            for row in rows
        ],
        marked=["model" if row.name in models else "" for row in rows],
    )
    return PageSection("All scenarios" if name == ALL else name.capitalize().replace("-", " "), [table])


def _criteria(criteria: Mapping[str, Sequence[Criterion]], against: str) -> list[PageSection]:
    def judged(value: float, met: bool) -> Toned:
        return Toned(f"{value:.4g} {'met' if met else 'not met'}", "good" if met else "bad")

    if not criteria:
        return []
    rows = [
        (
            f"{model}: {item.name}",
            f"{item.wanted:.4g}",
            judged(item.value, item.met),
            judged(item.dummy, item.dummy_met),
        )
        for model, wanted in criteria.items()
        for item in wanted
    ]
    text = f"Against {against}. {DUMMY} is a dummy that never trades: what it meets proves nothing."
    return [PageSection("The plan's criteria", [text, PageTable(head=("", "wanted", "model", "dummy"), rows=rows)])]


def _duels(rows: Sequence[ContestantFigures], models: Sequence[str]) -> list[PageSection]:
    """Show every model against everybody else, paired window by window."""
    duels = [
        (
            f"{row.name} against {name}",
            f"{versus.difference:+.2f}",
            f"{versus.interval[0]:+.2f} to {versus.interval[1]:+.2f}",
            f"{versus.e_value:.3g}",
        )
        for row in rows
        if row.name in models
        for name, versus in row.versus.items()
    ]
    head = ("", "difference", "95 % interval", "e-value")
    return [PageSection("Paired, window by window", [PageTable(head=head, rows=duels)])] if duels else []
