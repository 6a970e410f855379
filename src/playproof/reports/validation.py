"""The report: one HTML file that opens offline, and the same as JSON; same inputs, same hash."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from playproof.home import write_durably
from playproof.json_types import Json
from playproof.provenance import commit
from playproof.reports.chart import (
    BandSeries,
    BarSeries,
    Chart,
    ChartAxis,
    LevelLine,
    MarkerSeries,
    Series,
    action_colour,
)
from playproof.reports.page import PageSection, PageTable, Toned, render
from playproof.stats.evidence import REJECT
from playproof.validate.examine import Examination, stake_returns
from playproof.validate.gates import advice, shown_interval

Floats = NDArray[np.float64]
VERDICT_TONES = {"EDGE SHOWN": "good", "NO EDGE SHOWN": "dim", "NOT EVALUABLE": "dim", "NEGATIVE": "bad"}
POINTS = 400
"""Points of a line that is drawn; more cannot be seen."""


def to_json(examination: Examination) -> Json:
    """Give everything that the report shows, with the profits by window and the report's own hash.

    Money is in the smallest unit. The profits of the policy, its rivals and itself under worse terms are on the same
    windows, in the same order: every figure of the report can be computed from them.
    """
    verdict, plan, subject = examination.verdict, examination.plan, examination.subject
    payload: Json = {
        "verdict": verdict.name,
        "sentence": verdict.sentence,
        "policy": {"name": subject.name, "hash": subject.policy_hash, "family": subject.family, "stake": subject.stake},
        "data": {"name": plan.name, "hash": plan.data_hash, "split": plan.split, "windows": verdict.windows},
        "seed": plan.seed,
        "roi": verdict.roi,
        "return_on_stakes": stake_returns(examination),
        "interval": list(verdict.interval),
        "e_value": verdict.e_value,
        "ceiling": verdict.ceiling,
        "windows_needed": verdict.windows_needed,
        "power": examination.needed.power,
        "advice": advice(verdict),
        "gates": [
            {"gate": item.gate, "name": item.title, "status": item.status, "found": item.finding, "rule": item.rule}
            for item in verdict.gates
        ],
        "failed": list(verdict.failed),
        "metrics": {name: asdict(metric) for name, metric in examination.metrics.items()},
        "hindsight_roi": _roi(examination.hindsight, subject.stake),
        "played": examination.played.summary(),
        "targets": [asdict(target) for target in examination.targets],
        "stressed": {name: item.summary() for name, item in examination.stressed.items()},
        "selection": {
            "step_down_p": examination.selection.chosen.p,
            "spa_p": examination.selection.superior.p,
            "deflated_sharpe": examination.selection.deflated.probability,
            "pbo": examination.selection.overfit.probability if examination.selection.overfit else None,
            "looks": dict(examination.selection.looks),
        },
        "windows": list(examination.played.windows),
        "profits": {
            subject.name: examination.played.pnl,
            **{name: rival.pnl for name, (_, rival) in examination.rivals.items()},
            **{f"{subject.name}, {name}": item.pnl for name, item in examination.stressed.items()},
        },
        "commit": commit(),
    }
    plain: Json = json.loads(json.dumps(payload, default=_plain))
    text = json.dumps(plain, sort_keys=True)
    return plain | {"report_hash": hashlib.sha256(text.encode()).hexdigest()}


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"expected a value that JSON knows, found {type(value).__name__}")


def _roi(pnl: NDArray[np.int64] | None, stake: int) -> float | None:
    return None if pnl is None else float(pnl.mean() / stake)


def write_report(examination: Examination, folder: Path) -> tuple[Path, Json]:
    """Write report.html and report.json into a folder; give the page's path and what the JSON says."""
    folder.mkdir(parents=True, exist_ok=True)
    payload = to_json(examination)
    write_durably(folder / "report.json", (json.dumps(payload, indent=1) + "\n").encode())
    write_durably(folder / "report.html", page(examination, payload).encode())
    return folder / "report.html", payload


def _thin(values: Floats) -> tuple[list[int], list[float]]:
    """Give the points of a line that are drawn: first, last, and evenly between."""
    indices = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))
    return (indices + 1).tolist(), values[indices].tolist()


def equity_figure(examination: Examination) -> Chart:
    """Draw the running profit of the policy, what luck would make of its windows, and its rivals."""
    returns = examination.returns
    rng = np.random.default_rng(examination.plan.seed)
    centred = returns - returns.mean()
    drawn = np.cumsum(centred[rng.integers(len(returns), size=(200, len(returns)))], axis=1)
    x, low = _thin(np.quantile(drawn, 0.025, axis=0))
    _, high = _thin(np.quantile(drawn, 0.975, axis=0))
    series: list[Series] = [BandSeries(name="luck alone, 95 %", x=x, low=low, high=high, colour="blue")]
    colours = ("blue", "warn", "violet", "teal", "olive", "pink", "bad")
    for index, (name, (_, rival)) in enumerate(examination.rivals.items()):
        x, y = _thin(np.cumsum(rival.score().returns))
        series.append(Series(name=name, x=x, y=y, colour=colours[index % 7], width=1.4, dash="dot"))
    x, y = _thin(np.cumsum(returns))
    series.append(Series(name=examination.subject.name, x=x, y=y, colour="good", width=3))
    return Chart(
        title="Profit over windows",
        x=ChartAxis(title="windows"),
        y=ChartAxis(title="profit, in reserved stakes"),
        series=series,
        height=360,
        wide=True,
    )


def evidence_figure(examination: Examination) -> Chart:
    """Draw the bankroll of the bettor on the claim, with the line that an edge must pass."""
    x, y = _thin(np.clip(examination.e_logs, -40, 60) / math.log(10))
    span = 10 ** (min(-1.0, *y) - 0.2), 10 ** (max(math.log10(REJECT), *y) + 0.4)
    return Chart(
        title="Evidence",
        x=ChartAxis(title="windows"),
        y=ChartAxis(title="e-value", kind="log", range=span),
        series=[Series(name="e-value", x=x, y=[10**value for value in y], width=3)],
        levels=[LevelLine(value=REJECT, name="20: more than luck")],
    )


def rivals_figure(examination: Examination) -> Chart:
    """Draw each ROI with its interval, theory beside them."""
    own = examination.subject.name
    ceiling = examination.verdict.ceiling
    series = []
    for title, colour, chosen in (("policy", "good", True), ("others", "blue", False)):
        shown = {name: item for name, item in examination.metrics.items() if (name == own) == chosen}
        series.append(
            MarkerSeries(
                name=f"{title}, 95 % interval",
                y=list(shown),
                x=[item.roi for item in shown.values()],
                low=[item.interval[0] for item in shown.values()],
                high=[item.interval[1] for item in shown.values()],
                colour=colour,
            )
        )
    return Chart(
        title="ROI on the same windows",
        x=ChartAxis(title="profit per unit reserved", percent=True),
        series=series,
        levels=[] if ceiling is None else [LevelLine(value=ceiling, name="best possible", axis="x")],
        height=max(320, 60 + 30 * len(examination.metrics)),
        numbers=False,
    )


def folds_figure(examination: Examination, folds: int = 5) -> Chart:
    """Draw the ROI of each stretch of time with its standard error."""
    parts = [part for part in np.array_split(examination.returns, folds) if len(part) > 1]
    means = [float(part.mean()) for part in parts]
    errors = [float(part.std(ddof=1) / math.sqrt(len(part))) for part in parts]
    return Chart(
        title="ROI by stretch of time",
        x=ChartAxis(title="stretch"),
        y=ChartAxis(title="ROI, one standard error", percent=True),
        series=[
            BarSeries(
                x=[str(index + 1) for index in range(len(parts))],
                y=means,
                low=[mean - error for mean, error in zip(means, errors, strict=True)],
                high=[mean + error for mean, error in zip(means, errors, strict=True)],
            )
        ],
    )


def mix_figure(examination: Examination) -> Chart:
    """Draw how often each action was taken, WAIT left out, beside the rivals."""
    played = {
        examination.subject.name: examination.played,
        **{name: rival for name, (_, rival) in examination.rivals.items()},
    }
    names = [name for name in examination.played.choices if name != "WAIT"]
    return Chart(
        title="Actions, without WAIT",
        x=ChartAxis(title="share of all steps", percent=True),
        series=[
            BarSeries(
                name=name,
                y=list(played),
                x=[item.mix[name] for item in played.values()],
                colour=action_colour(name, examination.played.choices),
            )
            for name in names
        ],
        height=max(320, 60 + 30 * len(played)),
    )


def figures(examination: Examination) -> list[Chart]:
    """Give the plots."""
    draws = (equity_figure, evidence_figure, folds_figure, rivals_figure, mix_figure)
    return [draw(examination) for draw in draws]


def _gates(examination: Examination) -> PageTable:
    rows = [
        (item.title, Toned(item.status, item.status), item.finding, Toned(item.rule, "dim"))
        for item in examination.verdict.gates
    ]
    return PageTable(head=("gate", "", "found", "rule"), rows=rows, words=4, hide=3)


def _rivals(examination: Examination) -> PageTable:
    docs = {examination.subject.name: "the policy", **{name: doc for name, (doc, _) in examination.rivals.items()}}
    staked = stake_returns(examination)
    rows = [
        [
            name,
            docs.get(name, ""),
            _percent(staked.get(name)),
            f"{metric.roi:+.2%}",
            _span(metric.interval),
            f"{metric.e_value:.3g}",
            "-" if metric.profit_factor is None else f"{metric.profit_factor:.2f}",
            f"{metric.sharpe:.4f}",
            f"{metric.max_drawdown:.2f}",
            f"{metric.cvar:+.1%}",
            f"{metric.ruin:.1%}",
        ]
        for name, metric in examination.metrics.items()
    ]
    ceiling, hindsight = examination.verdict.ceiling, _roi(examination.hindsight, examination.subject.stake)
    if ceiling is not None:
        rows.append(["theory", "the best expected result", "", f"{ceiling:+.2%}", *[""] * 7])
    if hindsight is not None:
        rows.append(["hindsight", "unattainable: knows the future", "", f"{hindsight:+.0%}", *[""] * 7])
    figures = (
        "return on stakes",
        "ROI of the reserve",
        "95 % interval",
        "e-value",
        "profit factor",
        "Sharpe",
        "drawdown",
        "CVaR 5 %",
        "ruin",
    )
    return PageTable(head=("who", "what", *figures), rows=rows, words=2)


def _targets(examination: Examination) -> list[PageSection]:
    if not examination.targets:
        return []
    rows = [
        [target.name, target.wanted, _share(target.policy), target.dummy, _share(target.dummy_score)]
        for target in examination.targets
    ]
    head = ("target of the old plan", "wanted", "policy", "a dummy", "its score")
    text = "A hit rate is not an edge: what is right often can lose more when it is wrong."
    return [PageSection("Targets that prove nothing", [text, PageTable(head=head, rows=rows)])]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2%}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _span(interval: tuple[float, float]) -> str:
    return shown_interval(interval).removeprefix("95 % interval ")


def page(examination: Examination, payload: Json) -> str:
    """Write the page."""
    verdict, plan = examination.verdict, examination.plan
    return render(
        "report.html",
        title=f"{verdict.name}: {examination.subject.name}",
        heading=verdict.name,
        tone=VERDICT_TONES.get(verdict.name, "warn"),
        lead=verdict.sentence,
        facts=[
            ("return on what was staked", _percent(stake_returns(examination).get(examination.subject.name))),
            ("ROI per reserved stake", f"{verdict.roi:+.2%}"),
            ("95 % interval", _span(verdict.interval)),
            ("best possible in theory", "unknown" if verdict.ceiling is None else f"{verdict.ceiling:+.2%}"),
            ("e-value (20 needed)", f"{verdict.e_value:.3g}"),
            ("windows played", f"{verdict.windows:,}"),
            ("more windows", advice(verdict)),
        ],
        charts=figures(examination),
        sections=[
            PageSection("Gates", [_gates(examination)]),
            PageSection("Everybody on the same windows", [_rivals(examination)]),
            *_targets(examination),
        ],
        footer=(
            f"{plan.name}, seed {plan.seed}. Policy {examination.subject.policy_hash[:16]}, data "
            f"{plan.data_hash[:16]}, commit {payload['commit']}, report {payload['report_hash'][:16]}. "
            "Returns are per unit reserved before each window."
        ),
    )
