"""Show an audit: one HTML page that opens offline, with plots, and the same figures as plain JSON."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from playproof.game.audit import AuditRules
from playproof.json_types import Json
from playproof.reports.chart import BandSeries, Chart, ChartAxis, LevelLine, MarkerSeries, Series
from playproof.reports.page import PageSection, PageTable, render
from playproof.validate.audit import LEAST_WINDOWS, AuditReport, Band, WagerFigures


def to_json(report: AuditReport) -> Json:
    """Give an audit as plain data; the survival curve by its ages."""
    payload = asdict(report)
    payload["survival"] = {name: getattr(report.survival, name).tolist() for name in ("ages", "alive", "low", "high")}
    return payload


def page(report: AuditReport, auditing: AuditRules, source: str) -> str:
    """Write the page."""
    groups = list(dict.fromkeys(item.group for item in report.compared))
    why = (
        "A share of hits is no edge: most entries may end a little higher while the few that end badly cost more"
        " than all of them earned. What counts is the mean profit."
    )
    return render(
        "report.html",
        title=f"Audit of {report.game}",
        heading="Is there anything to exploit here?",
        answer=report.answer,
        answer_tone="perhaps" if report.exploitable else "",
        notes=[
            f"Audit of {source}, game {report.game}. Intervals are 95 % ones over whole windows: entries of one window"
            " share their luck."
        ],
        lines=report.lines,
        sections=[
            PageSection("How long windows live", [survival_plot(report, auditing), _hazard_table(report)]),
            PageSection(f"Is the {auditing.end} due?", [hazard_plot(report, auditing)]),
            *(
                PageSection(
                    f"What a unit staked came to: {name}",
                    [wager_plot(report, name), *_wager_table(report, auditing, name)],
                )
                for name in groups
            ),
            PageSection("What was once promised", [PageTable(head=PROMISE_HEAD, rows=promise_rows(report)), why]),
        ],
    )


def survival_plot(report: AuditReport, auditing: AuditRules) -> Chart:
    """Draw the share of windows that live, its band, the published line and what was promised."""
    result = report.survival
    ages = [0, *result.ages.tolist()]
    low, high = [1.0, *result.low.tolist()], [1.0, *result.high.tolist()]
    promised = [(item.age, 1 - item.claimed) for item in auditing.promised if item.age is not None]
    every = list(range(0, max(ages) + 1, 5))
    return Chart(
        title="How long windows live",
        x=ChartAxis(title=f"{auditing.unit}s"),
        y=ChartAxis(title="share still alive", percent=True, range=(0.0, None)),
        series=[
            BandSeries(name="95 % band", x=ages, low=low, high=high, step=True, colour="blue"),
            Series(name="measured", x=ages, y=[1.0, *result.alive.tolist()], step=True, colour="blue"),
            Series(
                name=f"published, {report.published_hazard:.1%} a {auditing.unit}",
                x=every,
                y=[(1 - report.published_hazard) ** age for age in every],
                colour="ink",
                dash="dot",
            ),
            MarkerSeries(
                name="the old plan",
                x=[age for age, _ in promised],
                y=[share for _, share in promised],
                symbol="cross",
                colour="bad",
            ),
        ],
        height=360,
    )


def hazard_plot(report: AuditReport, auditing: AuditRules) -> Chart:
    """Draw the hazard by age with its intervals and the published line."""
    intervals = [band.hazard.interval for band in report.bands]
    return Chart(
        title=f"Is the {auditing.end} due?",
        x=ChartAxis(title=f"age in {auditing.unit}s"),
        y=ChartAxis(title=f"chance of the {auditing.end} a {auditing.unit}", percent=True, zero=True),
        series=[
            MarkerSeries(
                name="measured, 95 % interval",
                x=[_ages(band) for band in report.bands],
                y=[band.hazard.value for band in report.bands],
                low=[low for low, _ in intervals],
                high=[high for _, high in intervals],
            )
        ],
        levels=[LevelLine(value=report.published_hazard, name="published")],
        numbers=False,
    )


def wager_plot(report: AuditReport, group: str) -> Chart:
    """Draw the mean profit of a group's wagers with their intervals, beside the published rules."""
    own = [wager for wager in report.wagers if wager.group == group and np.isfinite(wager.interval).all()]
    names = [item.name for item in own]
    series: list[Series] = [
        MarkerSeries(
            name="measured, 95 % interval",
            y=names,
            x=[item.profit for item in own],
            low=[item.interval[0] for item in own],
            high=[item.interval[1] for item in own],
        )
    ]
    if any(item.theory is not None for item in own):
        theory = [item.theory for item in own]
        series.append(MarkerSeries(name="published", y=names, x=theory, symbol="dash", colour="ink"))
    bounds = [bound for item in own if item.enough for bound in item.interval]
    room = 0.3 * (max(0.0, *bounds) - min(0.0, *bounds)) if bounds else 0.0
    return Chart(
        title=f"What a unit staked came to: {group}",
        x=ChartAxis(
            title="mean profit of a unit",
            percent=True,
            range=(min(0.0, *bounds) - room, max(0.0, *bounds) + room) if room else None,
        ),
        series=series,
        levels=[LevelLine(value=0.0, name="not playing", axis="x", colour="dim")],
        height=70 + 26 * max(3, len(own)),
        numbers=False,
    )


def span(interval: tuple[float, float] | None, digits: int = 2, signed: bool = True) -> str:
    """Write an interval of shares."""
    if interval is None or not np.isfinite(interval).all():
        return "too few windows"
    sign = "+" if signed else ""
    return f"{interval[0]:{sign}.{digits}%} to {interval[1]:{sign}.{digits}%}"


def _hazard_table(report: AuditReport) -> PageTable:
    bands = [(_ages(band), band.hazard) for band in report.bands]
    rows = [
        [name, f"{item.value:.3%}", span(item.interval, 3, False), str(item.deaths), f"{item.exposure:,}"]
        for name, item in [("all", report.hazard), *bands]
    ]
    return PageTable(head=("age", "hazard", "95 % interval", "ends", "at risk"), rows=rows)


def _ages(band: Band) -> str:
    return f"{band.first} to {band.last}" if band.last else f"{band.first} on"


def wager_row(wager_figures: WagerFigures) -> list[str]:
    """Give one wager as a row of texts."""
    theory = f"{wager_figures.theory:+.2%}" if wager_figures.theory is not None else ""
    return [
        wager_figures.name,
        f"{wager_figures.profit:+.2%}" if wager_figures.count else "never",
        span(wager_figures.interval),
        theory,
        f"{wager_figures.hit_rate:.1%}",
        f"{wager_figures.count:,}",
        str(wager_figures.windows),
    ]


WAGER_HEAD = ("place", "mean profit", "95 % interval", "published", "hits", "entries", "windows")


def _wager_table(report: AuditReport, auditing: AuditRules, group: str) -> list[PageTable | str]:
    own = [wager for wager in report.wagers if wager.group == group]
    text = f"Intervals of places with fewer than {LEAST_WINDOWS} windows may reach beyond the plot."
    if group in auditing.hit_rates:
        rate, even = auditing.hit_rates[group], auditing.break_even[group]
        text += f" By the published rules {rate:.2%} of these hit; {even:.2%} are needed to break even."
    marked = ["" if item.remark is None else "remark" for item in own]
    return [PageTable(head=WAGER_HEAD, rows=[wager_row(item) for item in own], marked=marked), text]


PROMISE_HEAD = ("promise", "claimed", "measured", "95 % interval", "published", "profit of it", "95 % interval")


def promise_rows(report: AuditReport) -> list[list[str]]:
    """Give the promises as rows of texts."""
    return [
        [
            promise.what,
            f"{promise.claimed:.1%}",
            f"{promise.measured:.1%}" if promise.measured is not None else "not seen",
            span(promise.interval, 1, False),
            f"{promise.published:.1%}" if promise.published is not None else "",
            f"{promise.profit:+.1%}" if promise.profit is not None else "",
            span(promise.profit_interval, 1) if promise.profit is not None else "",
        ]
        for promise in report.promises
    ]
