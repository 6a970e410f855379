"""The report of an experiment: one HTML file that opens offline, and the same as JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from playproof.home import write_durably
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.operate.experiments.ledger import STOPPED, Experiment
from playproof.operate.experiments.plan import ExperimentPlan, ExperimentUnit, differences
from playproof.provenance import commit
from playproof.reports.chart import BandSeries, Chart, ChartAxis, LevelLine, Series
from playproof.reports.page import PageSection, PageTable, Toned, render
from playproof.stats.sequential import SequentialVerdict, confidence_path, naive_ps

POINTS = 40
"""Moments at which the confidence sequence is drawn."""
TONES = {"A better": "good", "B better": "good", "equal": "dim", "go on": "dim", "budget used": "warn", STOPPED: "warn"}
LIES = (
    "The naive p-value belongs to a test that looks once, after a number of units that was fixed before. Who looks"
    " after every unit sees it fall below 5 % sooner or later, also where both versions are the same; therefore it ends"
    " nothing here. An e-value is the bankroll of a bettor against 'no difference'. It may be looked at after every"
    " unit: the chance that it ever reaches its line without a difference is at most 2.5 % in each direction."
)


def sentence(plan: ExperimentPlan, verdict: SequentialVerdict, ending: str) -> str:
    """Say how an experiment stands."""
    low, high = verdict.interval
    gap = f"{verdict.mean:+.4g} a unit, between {low:+.4g} and {high:+.4g}"
    a, b, number = plan.a.label, plan.b.label, f"{verdict.windows:,} units"
    match ending:
        case "A better":
            return f"{a} earns more than {b}: {gap}, after {number}."
        case "B better":
            return f"{b} earns more than {a}: A less B is {gap}, after {number}."
        case "equal":
            return f"{a} and {b} differ by less than {plan.margin / UNIT:g} a unit: {gap}, after {number}."
        case "budget used":
            return f"The budget of {plan.budget:,} units is used and no difference is shown: {gap}."
        case "go on":
            needed = "no number of units like these would end it" if verdict.needed is None else (
                f"about {verdict.needed:,} units would, if they stay like these"
            )  # fmt: skip
            return f"No ending yet after {number}: {gap}; {needed}."
    return f"Stopped by hand after {number}, which shows nothing: {gap}."


def experiment_json(experiment: Experiment, verdict: SequentialVerdict) -> Json:
    """Give an experiment as JSON; money in coins or USD."""
    plan, ending = experiment.plan, experiment.ending or verdict.ending
    limit = plan.terms().threshold
    return {
        "name": plan.name,
        "mode": plan.mode,
        "game": plan.game,
        "a": plan.a.label,
        "b": plan.b.label,
        "ending": ending,
        "sentence": sentence(plan, verdict, ending),
        "units": verdict.windows,
        "difference": verdict.mean,
        "interval": list(verdict.interval),
        "e_value_a": _last(verdict.logs_a),
        "e_value_b": _last(verdict.logs_b),
        "e_value_needed": math.exp(limit),
        "naive_p": verdict.naive_p,
        "naive_first": verdict.naive_first,
        "naive_note": LIES,
        "needed": verdict.needed,
        "loss_limit": plan.loss_limit / UNIT,
        "gain_cap": plan.gain_cap / UNIT,
        "margin": plan.margin / UNIT,
        "budget": plan.budget,
        "on": plan.on,
        "seed": plan.seed,
        "registered_at": experiment.registered_at.isoformat(),
        "ended_at": None if experiment.ended_at is None else experiment.ended_at.isoformat(),
        "why": experiment.why,
    }


def _last(logs: np.ndarray) -> float:
    return math.exp(min(700.0, float(logs[-1]))) if len(logs) else 1.0


def write_experiment(
    experiment: Experiment, units: tuple[ExperimentUnit, ...], verdict: SequentialVerdict, folder: Path
) -> Path:
    """Write report.html and report.json into a folder; give the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    payload = experiment_json(experiment, verdict)
    write_durably(folder / "report.json", (json.dumps(payload, indent=1) + "\n").encode())
    write_durably(folder / "report.html", experiment_page(experiment, units, verdict).encode())
    return folder / "report.html"


def experiment_page(experiment: Experiment, units: tuple[ExperimentUnit, ...], verdict: SequentialVerdict) -> str:
    """Write the page."""
    plan, payload = experiment.plan, experiment_json(experiment, verdict)
    used = units[: verdict.windows]
    gaps = differences(plan, used)
    ending = str(payload["ending"])
    charts = (
        []
        if len(gaps) < 2
        else [_evidence(plan, verdict), _sequence(plan, gaps), _profit(plan, used), _naive(gaps, plan)]
    )
    capped = sum(value is not None and value > plan.gain_cap for unit in used for value in (unit.pnl_a, unit.pnl_b))
    return render(
        "report.html",
        title=f"Experiment {plan.name}",
        answer=ending.upper() if ending != "go on" else "GO ON",
        answer_tone=TONES.get(ending, "dim"),
        lead=payload["sentence"],
        charts=charts,
        sections=[
            PageSection("What stands", [_figures(plan, verdict, payload)]),
            PageSection("Why the naive p-value is not used", [_naive_text(verdict), LIES]),
            PageSection("What was fixed before it started", [_plan_table(experiment, capped)]),
        ],
        footer=(
            f"Registered {experiment.registered_at:%Y-%m-%d %H:%M} UTC; plan {plan.data_hash[:16]}, commit {commit()}."
            " Every unit counts in the order in which it came; those after the ending do not. Both arms stand in the"
            " trial ledger once it has ended."
        ),
    )


def _naive_text(verdict: SequentialVerdict) -> str:
    if verdict.naive_first is None:
        return f"It is {verdict.naive_p:.3g} now, and never lay below 5 %."
    return f"It is {verdict.naive_p:.3g} now, and first lay below 5 % after {verdict.naive_first:,} units."


def _times(count: int) -> list[int]:
    return [int(time) for time in np.unique(np.linspace(1, count, min(POINTS, count)).astype(int))]


def _evidence(plan: ExperimentPlan, verdict: SequentialVerdict) -> Chart:
    x = list(range(1, verdict.windows + 1))
    return Chart(
        title="E-values: how much a bettor on each side has made of 1",
        x=ChartAxis(title="units"),
        y=ChartAxis(kind="log"),
        series=[
            Series(
                name=f"A, {plan.a.label}, earns more",
                x=x,
                y=np.exp(np.clip(verdict.logs_a, -20, 100)).tolist(),
                colour="good",
            ),
            Series(
                name=f"B, {plan.b.label}, earns more",
                x=x,
                y=np.exp(np.clip(verdict.logs_b, -20, 100)).tolist(),
                colour="warn",
            ),
        ],
        levels=[LevelLine(value=math.exp(plan.terms().threshold), name="ends the experiment")],
        wide=True,
    )


def _sequence(plan: ExperimentPlan, gaps: np.ndarray) -> Chart:
    times = _times(len(gaps))
    lows, highs = confidence_path(gaps / (plan.bound / UNIT), times, plan.alpha)
    scale = plan.bound / UNIT
    means = np.cumsum(gaps) / np.arange(1, len(gaps) + 1)
    first = max(0, next((at for at, time in enumerate(times) if time >= 5), 0))
    levels = [LevelLine(value=0.0, name="no difference", colour="dim")]
    if plan.margin:
        margin = plan.margin / UNIT
        levels += [LevelLine(value=value, name=f"margin {value:+g}", colour="faint") for value in (margin, -margin)]
    return Chart(
        title="A less B, a unit: mean and confidence sequence, 95 % at all units together",
        x=ChartAxis(title="units"),
        y=ChartAxis(zero=True),
        series=[
            BandSeries(
                name="confidence sequence",
                x=times[first:],
                low=(lows * scale).tolist()[first:],
                high=(highs * scale).tolist()[first:],
                colour="blue",
            ),
            Series(name="mean", x=times[first:], y=[float(means[time - 1]) for time in times[first:]], colour="blue"),
        ],
        levels=levels,
    )


def _profit(plan: ExperimentPlan, used: tuple[ExperimentUnit, ...]) -> Chart:
    x = list(range(1, len(used) + 1))
    sums = {
        plan.a.label: np.cumsum([(unit.pnl_a or 0) / UNIT for unit in used]),
        plan.b.label: np.cumsum([(unit.pnl_b or 0) / UNIT for unit in used]),
    }
    colours = ("good", "warn")
    return Chart(
        title="Profit of each, as it was earned",
        x=ChartAxis(title="units"),
        y=ChartAxis(zero=True),
        series=[
            Series(name=f"{arm} {label}", x=x, y=total.tolist(), colour=colour)
            for arm, (label, total), colour in zip("AB", sums.items(), colours, strict=True)
        ],
        levels=[LevelLine(value=0.0, name="not playing", colour="dim")],
    )


def _naive(gaps: np.ndarray, plan: ExperimentPlan) -> Chart:
    ps = naive_ps(gaps)
    return Chart(
        title="The naive p-value, looked at after every unit",
        x=ChartAxis(title="units"),
        y=ChartAxis(range=(0.0, 1.0)),
        series=[Series(name="p", x=list(range(1, len(ps) + 1)), y=ps.tolist(), colour="bad")],
        levels=[LevelLine(value=plan.alpha, name="where it would have said: different")],
    )


def _figures(plan: ExperimentPlan, verdict: SequentialVerdict, payload: Json) -> PageTable:
    low, high = verdict.interval
    ending = str(payload["ending"])
    rows = [
        ("ending", Toned(ending, TONES.get(ending, "dim"))),
        ("units", f"{verdict.windows:,} of {plan.budget:,}"),
        ("A less B, a unit", f"{verdict.mean:+.4g}"),
        ("confidence sequence, 95 %", f"{low:+.4g} to {high:+.4g}"),
        ("e-value: A better", f"{payload['e_value_a']:.3g} of {payload['e_value_needed']:.3g}"),
        ("e-value: B better", f"{payload['e_value_b']:.3g} of {payload['e_value_needed']:.3g}"),
        ("naive p, not used", f"{verdict.naive_p:.3g}"),
    ]
    return PageTable(head=("", ""), rows=rows)


def _plan_table(experiment: Experiment, capped: int) -> PageTable:
    plan = experiment.plan
    rows = [
        ("mode", plan.mode),
        ("A, in use", f"{plan.a.label} ({plan.a.policy_hash[:12]})"),
        ("B, challenger", f"{plan.b.label} ({plan.b.policy_hash[:12]})"),
        ("played on", f"{plan.on} (seed {plan.seed})"),
        ("a unit can lose", f"{plan.loss_limit / UNIT:g}"),
        ("profits count up to", f"{plan.gain_cap / UNIT:g} (reached {capped:,} times)"),
        ("largest difference", f"{plan.bound / UNIT:g}"),
        ("margin", f"{plan.margin / UNIT:g}" if plan.margin else "none: equality is not concluded"),
        ("budget", f"{plan.budget:,} units"),
        ("wrong endings", f"at most {plan.alpha:.0%}"),
    ]
    if plan.mode == "split":
        rows.append(("share of B", f"{plan.share:.0%}"))
    return PageTable(head=("", ""), rows=rows)
