"""The report: one HTML file that opens offline, and the same as JSON; same inputs, same hash.

Leaves out: finding anything out (examine). Neither file holds a time, so that both depend on inputs alone.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from playproof.policies.checkpoint import write_durably
from playproof.provenance import commit
from playproof.stats.evidence import REJECT
from playproof.validate.examine import Examination

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Floats = NDArray[np.float64]
PAPER, INK, LINE, DIM = "#0f1720", "#e6edf3", "#2b3947", "#9fb0c0"
GOOD, BAD, WARN, BLUE = "#4cc38a", "#e5484d", "#f5a524", "#6ea8fe"
COLOURS = (GOOD, BLUE, WARN, "#b38cf5", "#56c7d6", "#d6c256", "#c98ba6", BAD)
VERDICT_COLOURS = {"EDGE SHOWN": GOOD, "NO EDGE SHOWN": DIM, "NOT EVALUABLE": DIM, "NEGATIVE": BAD}
STYLE = f"""
:root {{ color-scheme: dark; }}
body {{ margin: 0 auto; max-width: 1080px; padding: 2rem 1.2rem 4rem; background: {PAPER}; color: {INK};
       font: 16px/1.55 system-ui, sans-serif; }}
h1 {{ font-size: 2.1rem; margin: 0; letter-spacing: .02em; }} h2 {{ margin: 2.2rem 0 .6rem; font-size: 1.25rem; }}
p.lead {{ font-size: 1.1rem; margin: .6rem 0 1rem; overflow-wrap: anywhere; }} .dim {{ color: {DIM}; }}
.facts {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: .8rem; margin: 1.2rem 0; }}
.facts div {{ border: 1px solid {LINE}; border-radius: 10px; padding: .7rem .9rem; }}
.facts b {{ display: block; font-size: 1.25rem; font-weight: 600; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 1rem; }}
.plots > section {{ border: 1px solid {LINE}; border-radius: 10px; overflow: hidden; min-width: 0; }}
.wide {{ grid-column: 1 / -1; }} h3 {{ margin: .9rem 1.1rem 0; font-size: 1.05rem; font-weight: 600; }}
.scroll {{ overflow-x: auto; }} table {{ border-collapse: collapse; margin: .6rem 0; width: 100%; }}
th, td {{ text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid {LINE}; vertical-align: top; }}
th {{ color: {DIM}; font-weight: 500; }} td.n {{ text-align: right; font-variant-numeric: tabular-nums;
       white-space: nowrap; }}
.passed {{ color: {GOOD}; }} .failed {{ color: {BAD}; font-weight: 600; }} .skipped {{ color: {DIM}; }}
footer {{ color: {DIM}; margin-top: 2rem; font-size: .9rem; overflow-wrap: anywhere; }}
@media (max-width: 640px) {{ body {{ padding: 1.2rem .8rem 3rem; font-size: 15px; }}
  .rules td:last-child, .rules th:last-child {{ display: none; }} .scroll table {{ min-width: 100%; }}
  td:nth-child(2) {{ min-width: 4.2rem; }} td:nth-child(3) {{ min-width: 9rem; }} }}
@media print {{ :root {{ color-scheme: light; }} body {{ background: white; color: black; }} }}
"""
RESIZE = "addEventListener('load', () => document.querySelectorAll('.js-plotly-plot').forEach(Plotly.Plots.resize))"
POINTS = 400
"""Points of a line that is drawn; more cannot be seen."""


def to_json(examination: Examination) -> dict[str, Any]:
    """Give everything but the windows one by one, with the report's own hash."""
    verdict, plan, subject = examination.verdict, examination.plan, examination.subject
    payload: dict[str, Any] = {
        "verdict": verdict.name,
        "sentence": verdict.sentence,
        "policy": {"name": subject.name, "hash": subject.policy_hash, "family": subject.family, "stake": subject.stake},
        "data": {"name": plan.name, "hash": plan.data_hash, "split": plan.split, "windows": verdict.windows},
        "seed": plan.seed,
        "roi": verdict.roi,
        "interval": list(verdict.interval),
        "e_value": verdict.e_value,
        "ceiling": verdict.ceiling,
        "windows_needed": verdict.windows_needed,
        "power": examination.needed.power,
        "gates": [
            {"gate": item.gate, "status": item.status, "found": item.finding, "rule": item.rule}
            for item in verdict.gates
        ],
        "failed": list(verdict.failed),
        "metrics": {name: asdict(metric) for name, metric in examination.metrics.items()},
        "hindsight_roi": _roi(examination.hindsight, subject.stake),
        "played": examination.played.summary(),
        "targets": [asdict(target) for target in examination.targets],
        "stressed": {name: item.summary() for name, item in examination.stressed.items()},
        "selection": {
            "spa_p": examination.selection.superior.p,
            "deflated_sharpe": examination.selection.deflated.probability,
            "pbo": examination.selection.overfit.probability if examination.selection.overfit else None,
            "looks": dict(examination.selection.looks),
        },
        "commit": commit(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(payload, default=_plain))
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


def write_report(examination: Examination, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write report.html and report.json into a folder; give the page's path and what the JSON says."""
    folder.mkdir(parents=True, exist_ok=True)
    payload = to_json(examination)
    write_durably(folder / "report.json", (json.dumps(payload, indent=1) + "\n").encode())
    write_durably(folder / "report.html", page(examination, payload).encode())
    return folder / "report.html", payload


def _figure(title: str, x: str, y: str, **layout: Any) -> Figure:
    from plotly.graph_objects import Figure

    figure = Figure()
    figure.update_layout(
        meta={"title": title},
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        font_color=INK,
        height=360,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        legend={"orientation": "h", "y": -0.22},
        xaxis={"title": x, "gridcolor": LINE, "zeroline": False},
        yaxis={"title": y, "gridcolor": LINE, "zerolinecolor": DIM},
    )
    figure.update_layout(**layout)
    return figure


def _thin(values: Floats) -> tuple[list[int], list[float]]:
    """Give the points of a line that are drawn: first, last, and evenly between."""
    indices = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))
    return (indices + 1).tolist(), values[indices].tolist()


def equity_figure(examination: Examination) -> Figure:
    """Draw the running profit of the policy, what luck would make of its windows, and its rivals."""
    figure = _figure("Profit over windows", "windows", "profit, in reserved stakes")
    returns = examination.returns
    rng = np.random.default_rng(examination.plan.seed)
    centred = returns - returns.mean()
    drawn = np.cumsum(centred[rng.integers(len(returns), size=(200, len(returns)))], axis=1)
    for share, name in ((0.975, "luck alone, 95 %"), (0.025, None)):
        x, y = _thin(np.quantile(drawn, share, axis=0))
        figure.add_scatter(x=x, y=y, name=name, showlegend=name is not None, line={"color": LINE, "width": 1},
                           fill="tonexty" if share < 0.5 else None, fillcolor="rgba(110,168,254,0.10)")  # fmt: skip
    for index, (name, (_, rival)) in enumerate(examination.rivals.items()):
        x, y = _thin(np.cumsum(rival.score().returns))
        figure.add_scatter(x=x, y=y, name=name, line={"color": COLOURS[1 + index % 7], "width": 1, "dash": "dot"})
    x, y = _thin(np.cumsum(returns))
    figure.add_scatter(x=x, y=y, name=examination.subject.name, line={"color": GOOD, "width": 3})
    return figure


def evidence_figure(examination: Examination) -> Figure:
    """Draw the bankroll of the bettor on the claim, with the line that an edge must pass."""
    x, y = _thin(np.clip(examination.e_logs, -40, 60) / math.log(10))
    span = [min(-1.0, *y) - 0.2, max(math.log10(REJECT), *y) + 0.4]
    figure = _figure("Evidence", "windows", "e-value", yaxis_type="log", yaxis_range=span)
    figure.add_scatter(x=x, y=[10**value for value in y], name="e-value", line={"color": BLUE, "width": 3})
    figure.add_scatter(x=[x[0], x[-1]], y=[REJECT, REJECT], name="20: more than luck",
                       line={"color": WARN, "dash": "dash"}, mode="lines")  # fmt: skip
    return figure


def rivals_figure(examination: Examination) -> Figure:
    """Draw each ROI with its interval, theory beside them."""
    figure = _figure("ROI on the same windows", "", "profit per unit reserved", yaxis_tickformat=".1%")
    names = list(examination.metrics)
    shown = [examination.metrics[name] for name in names]
    figure.add_scatter(
        x=names,
        y=[item.roi for item in shown],
        mode="markers",
        marker={"size": 11, "color": [GOOD, *[BLUE] * (len(names) - 1)]},
        error_y={
            "array": [_finite(item.interval[1] - item.roi) for item in shown],
            "arrayminus": [_finite(item.roi - item.interval[0]) for item in shown],
            "color": DIM,
        },
        showlegend=False,
    )
    if examination.verdict.ceiling is not None:
        figure.add_hline(
            y=examination.verdict.ceiling, line={"color": WARN, "dash": "dash"}, annotation_text="best possible"
        )
    return figure


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def folds_figure(examination: Examination, folds: int = 5) -> Figure:
    """Draw the ROI of each stretch of time with its standard error."""
    figure = _figure("ROI by stretch of time", "stretch", "ROI", yaxis_tickformat=".1%")
    parts = [part for part in np.array_split(examination.returns, folds) if len(part) > 1]
    errors = [float(part.std(ddof=1) / math.sqrt(len(part))) for part in parts]
    figure.add_bar(
        x=[str(index + 1) for index in range(len(parts))],
        y=[float(part.mean()) for part in parts],
        error_y={"array": errors},
        marker_color=BLUE,
    )
    return figure


def mix_figure(examination: Examination) -> Figure:
    """Draw how often each action was taken, WAIT left out, beside the rivals."""
    figure = _figure("Actions, without WAIT", "", "share of all steps", yaxis_tickformat=".1%", barmode="group")
    played = {
        examination.subject.name: examination.played,
        **{name: rival for name, (_, rival) in examination.rivals.items()},
    }
    for index, name in enumerate(name for name in examination.played.choices if name != "WAIT"):
        figure.add_bar(x=list(played), y=[item.mix[name] for item in played.values()], name=name,
                       marker_color=COLOURS[index % 8])  # fmt: skip
    return figure


def figures(examination: Examination) -> list[tuple[str, Figure]]:
    """Give the plots, each with its width."""
    return [
        ("wide", equity_figure(examination)),
        ("", evidence_figure(examination)),
        ("", rivals_figure(examination)),
        ("", folds_figure(examination)),
        ("", mix_figure(examination)),
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Lay rows out; the last `numbers` columns are figures."""
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{"n" if index >= len(row) - numbers else ""}">{cell}</td>' for index, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _gates(examination: Examination) -> str:
    rows = [
        (
            html.escape(item.gate),
            f'<span class="{item.status}">{item.status}</span>',
            html.escape(item.finding),
            f'<span class="dim">{html.escape(item.rule)}</span>',
        )
        for item in examination.verdict.gates
    ]
    return f'<div class="rules">{_table(("gate", "", "found", "rule"), rows)}</div>'


def _rivals(examination: Examination) -> str:
    docs = {examination.subject.name: "the policy", **{name: doc for name, (doc, _) in examination.rivals.items()}}
    rows = [
        [
            html.escape(name),
            html.escape(docs.get(name, "")),
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
    rest = [""] * 5
    if ceiling is not None:
        rows.append(["theory", "the best expected result", f"{ceiling:+.2%}", "", "", *rest])
    if hindsight is not None:
        rows.append(["hindsight", "unattainable: knows the future", f"{hindsight:+.0%}", "", "", *rest])
    heads = (
        "who",
        "what",
        "ROI",
        "95 % interval",
        "e-value",
        "profit factor",
        "Sharpe",
        "drawdown",
        "CVaR 5 %",
        "ruin",
    )
    return _table(heads, rows, 8)


def _targets(examination: Examination) -> str:
    if not examination.targets:
        return ""
    rows = [
        [
            html.escape(target.name),
            html.escape(target.wanted),
            _share(target.policy),
            html.escape(target.dummy),
            _share(target.dummy_score),
        ]
        for target in examination.targets
    ]
    heads = ("target of the old plan", "wanted", "policy", "a dummy", "its score")
    return (
        "<h2>Targets that prove nothing</h2>"
        '<p class="dim">A hit rate is not an edge: what is right often can lose more when it is wrong.</p>'
        + _table(heads, rows)
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:+.2%} to {interval[1]:+.2%}"


def _facts(examination: Examination) -> str:
    verdict = examination.verdict
    needed = "no number would do" if verdict.windows_needed is None else f"{verdict.windows_needed:,}"
    ceiling = "unknown" if verdict.ceiling is None else f"{verdict.ceiling:+.2%}"
    shown = {
        "ROI per reserved stake": f"{verdict.roi:+.2%}",
        "95 % interval": _span(verdict.interval),
        "best possible in theory": ceiling,
        "e-value (20 needed)": f"{verdict.e_value:.3g}",
        "windows played": f"{verdict.windows:,}",
        "windows needed for proof": needed,
    }
    cells = (f'<div><span class="dim">{name}</span><b>{value}</b></div>' for name, value in shown.items())
    return f'<div class="facts">{"".join(cells)}</div>'


def page(examination: Examination, payload: dict[str, Any]) -> str:
    """Write the page."""
    parts = []
    for index, (kind, figure) in enumerate(figures(examination)):
        body = figure.to_html(full_html=False, include_plotlyjs=index == 0, div_id=f"plot-{index}",
                              config={"displaylogo": False, "responsive": True})  # fmt: skip
        parts.append(f'<section class="{kind}"><h3>{html.escape(figure.layout.meta["title"])}</h3>{body}</section>')
    verdict, plan = examination.verdict, examination.plan
    colour = VERDICT_COLOURS.get(verdict.name, WARN)
    title = html.escape(f"{verdict.name}: {examination.subject.name}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>"
        f'<h1 style="color:{colour}">{verdict.name}</h1><p class="lead">{html.escape(verdict.sentence)}</p>'
        f"{_facts(examination)}"
        f'<div class="plots">{"".join(parts)}</div>'
        f"<h2>Gates</h2>{_gates(examination)}<h2>Everybody on the same "
        f"windows</h2>{_rivals(examination)}{_targets(examination)}"
        f"<footer>{html.escape(plan.name)}, seed {plan.seed}. Policy {examination.subject.policy_hash[:16]}, data "
        f"{plan.data_hash[:16]}, commit {payload['commit']}, report {payload['report_hash'][:16]}. "
        f"Returns are per unit "
        f"reserved before each window.</footer><script>{RESIZE}</script></body></html>"
    )
