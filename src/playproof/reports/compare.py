"""A comparison as one HTML file: everybody's return and difference with intervals, in one chart; no network."""

from __future__ import annotations

import math

import numpy as np

from playproof.provenance import commit
from playproof.reports.chart import COLOURS, Chart, ChartAxis, LevelLine, MarkerSeries, Series
from playproof.reports.page import PageSection, PageTable, Toned, render
from playproof.validate.compare import Comparison

POINTS = 300
"""Points of a line that is drawn; more cannot be seen."""


def compare_page(comparison: Comparison) -> str:
    """Write the page."""
    plan = comparison.plan
    return render(
        "report.html",
        title=f"Compared with {comparison.rows[0].subject.name}",
        lead=comparison.sentence,
        charts=[returns_figure(comparison), differences_figure(comparison)],
        sections=[
            PageSection("Differences", [_differences(comparison), _caution(comparison)]),
            PageSection("Profit over the windows", [profit_figure(comparison)]),
            PageSection("In figures", [_figures(comparison)]),
        ],
        footer=(
            f"{plan.name}, seed {plan.seed}; data {plan.data_hash[:16]}, commit {commit()}. Returns are per unit"
            " reserved before each window; windows are drawn whole. Each of these evaluations stands in the"
            " trial ledger."
        ),
    )


def _caution(comparison: Comparison) -> str:
    count = len(comparison.rows) - 1
    ceiling = comparison.plan.ceiling
    theory = "What theory allows at best is not known here." if ceiling is None else (
        f"The dashed line is the best that theory allows: {ceiling:+.2%}."
    )  # fmt: skip
    many = (
        "One comparison is made; thick is its 95 % interval by resampling, thin the studentised one that decides."
        if count == 1
        else f"{count} comparisons are made at once. Thick is the 95 % interval of each alone, thin the one that holds"
        " for all together; only the thin ones decide."
    )
    return (
        f"{theory} {many} That no difference exists at all has p = {comparison.joint.p:.3g}; that none is better than"
        f" {comparison.rows[0].subject.name}, p = {comparison.superior.p:.3g} (SPA). The trial ledger "
        f"knows {comparison.looks:,}"
        f" {'policy' if comparison.looks == 1 else 'policies'} on these windows."
    )


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def returns_figure(comparison: Comparison) -> Chart:
    """Draw everybody's ROI with its interval, and the best that theory allows."""
    ceiling = comparison.plan.ceiling
    return Chart(
        title="ROI per reserved stake",
        x=ChartAxis(percent=True, zero=True),
        y=ChartAxis(names=[row.subject.name for row in comparison.rows]),
        series=[
            MarkerSeries(
                name="ROI",
                x=[row.metrics.roi],
                y=[index],
                low=[row.metrics.interval[0]],
                high=[row.metrics.interval[1]],
                thick=True,
                colour=_colour(index),
                legend=False,
            )
            for index, row in enumerate(comparison.rows)
        ],
        levels=[] if ceiling is None else [LevelLine(value=ceiling, name="best possible", axis="x")],
        height=60 + 40 * len(comparison.rows),
        numbers=False,
    )


def differences_figure(comparison: Comparison) -> Chart:
    """Draw everybody's difference to the first: its interval alone, and the one that holds for all together."""
    series: list[Series] = []
    for index, row in enumerate(comparison.rows):
        gap = row.difference
        if gap is None:
            continue
        for name, interval, thick in (("95 % alone", gap.alone, True), ("together", gap.together, False)):
            series.append(
                MarkerSeries(
                    name=name,
                    x=[gap.mean],
                    y=[index],
                    low=[interval[0]],
                    high=[interval[1]],
                    thick=thick,
                    text=None if thick else [gap.finding],
                    colour=_colour(index),
                    legend=False,
                )
            )
    return Chart(
        title=f"Difference to {comparison.rows[0].subject.name}",
        x=ChartAxis(percent=True, zero=True),
        y=ChartAxis(names=[row.subject.name for row in comparison.rows]),
        series=series,
        levels=[LevelLine(value=0.0, name="no difference", axis="x", colour="dim")],
        height=60 + 40 * len(comparison.rows),
        numbers=False,
    )


def profit_figure(comparison: Comparison) -> Chart:
    """Draw the running profit of everybody, in reserved stakes."""
    series = []
    for index, row in enumerate(comparison.rows):
        sums = np.concatenate([[0.0], np.cumsum(row.returns)])
        drawn = np.unique(np.linspace(0, len(sums) - 1, min(POINTS, len(sums))).astype(int))
        name = f"{row.subject.name} {sums[-1]:+.1f}"
        series.append(Series(name=name, x=drawn.tolist(), y=sums[drawn].tolist(), colour=_colour(index)))
    return Chart(
        title="Profit over the windows",
        x=ChartAxis(title="windows"),
        y=ChartAxis(title="profit, in reserved stakes"),
        series=series,
        levels=[LevelLine(value=0.0, name="not playing", colour="dim")],
        wide=True,
    )


def share(value: float) -> str:
    """Write a share of the stake; small ones with a digit more."""
    return f"{value:+.3%}" if 0 < abs(value) < 0.001 else f"{value:+.2%}"


def span(interval: tuple[float, float]) -> str:
    """Write an interval of shares."""
    if not all(math.isfinite(item) for item in interval):
        return "too few windows"
    return f"{share(interval[0])} to {share(interval[1])}"


def _differences(comparison: Comparison) -> PageTable:
    rows = []
    for row in comparison.rows:
        gap = row.difference
        if gap is None:
            rows.append((row.subject.name, Toned("the measure of the others", "dim"), *[""] * 5))
            continue
        tone = {"better": "good better", "worse": "bad worse"}.get(gap.finding, "dim")
        spans = share(gap.mean), span(gap.alone), span(gap.together)
        rows.append((row.subject.name, Toned(gap.finding, tone), *spans, f"{gap.better:,}", f"{gap.worse:,}"))
    figures = ("difference", "95 % alone", "all together", "better in", "worse in")
    return PageTable(head=("", "finding", *figures), rows=rows, words=2)


def _figures(comparison: Comparison) -> PageTable:
    rows: list[tuple[str, ...]] = [
        (
            row.subject.name,
            share(row.metrics.roi),
            span(row.metrics.interval),
            f"{row.metrics.e_value:.3g}",
            f"{row.metrics.sharpe:+.4f}",
            f"{row.metrics.max_drawdown:.2f}",
            f"{row.metrics.cvar:+.1%}",
            f"{int(row.played.opened.sum()):,}",
        )
        for row in comparison.rows
    ]
    if comparison.plan.ceiling is not None:
        rows.append(("theory: the best possible", f"{comparison.plan.ceiling:+.2%}", *[""] * 6))
    head = ("", "ROI", "95 % interval", "e-value", "Sharpe", "drawdown", "CVaR 5 %", "positions")
    return PageTable(head=head, rows=rows)
