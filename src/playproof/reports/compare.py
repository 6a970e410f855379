"""A comparison as one HTML file: everybody's return and difference with intervals, in one chart; no network, no script.

Leaves out: finding anything out (compare). The file holds no time, so that it depends on the inputs alone.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from playproof.provenance import commit
from playproof.validate.compare import Comparison, PolicyComparison

Floats = NDArray[np.float64]
COLOURS = ("--blue", "--good", "--warn", "--violet", "--teal", "--bad")
POINTS = 300
"""Points of a line that is drawn; more cannot be seen."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --dim: #5d6977; --line: #d8dee6; --paper: #f5f7f9; --card: #fff;
  --good: #0a7d4f; --bad: #c0322b; --warn: #a86400; --blue: #2563c9; --violet: #7a4fd0; --teal: #0e7f8f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9fb0c0; --line: #2b3947; --paper: #0f1720;
  --card: #141e29; --good: #4cc38a; --bad: #ff6b6b; --warn: #f5a524; --blue: #6ea8fe; --violet: #b38cf5;
  --teal: #56c7d6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 24px 18px 60px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 0 0 4px; }
.dim { color: var(--dim); }
.lead { font-size: 17px; margin: 6px 0 18px; overflow-wrap: anywhere; } .num { font-variant-numeric: tabular-nums; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px;
  margin: 0 0 14px; }
.chart { display: grid; grid-template-columns: minmax(110px, auto) 1fr 1fr; gap: 4px 26px; align-items: center; }
.chart .head { color: var(--dim); font-size: 13px; } .who { font-weight: 600; overflow-wrap: anywhere; }
.who i { display: inline-block; width: 10px; height: 10px; border-radius: 50%; background: var(--c);
  margin-right: 8px; }
.cell { padding: 6px 0; min-width: 0; } .cell small { display: flex; justify-content: space-between; gap: 8px;
  font-size: 12.5px; } .cell b { font-size: 15px; }
.track { position: relative; height: 18px; margin: 2px 0; border-bottom: 1px solid var(--line); }
.track > * { position: absolute; }
.thin { top: 8px; height: 2px; background: var(--c); opacity: .75; } .thick { top: 5px; height: 8px;
  border-radius: 3px; background: var(--c); opacity: .4; }
.dot { top: 3px; width: 12px; height: 12px; margin-left: -6px; border-radius: 50%; background: var(--c); }
.zero, .ceiling { top: -6px; bottom: -6px; width: 0; border-left: 1px solid var(--dim); }
.ceiling { border-left: 2px dashed var(--warn); }
.better { color: var(--good); font-weight: 600; } .worse { color: var(--bad); font-weight: 600; }
svg { display: block; width: 100%; height: 230px; overflow: visible; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px; overflow-wrap: anywhere; }
.legend > * { min-width: 0; } .legend i { display: inline-block;
  width: 16px; height: 3px; background: var(--c); margin-right: 6px; vertical-align: middle; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: right; padding: 3px 0 3px 14px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--dim); font-weight: 500; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
footer { color: var(--dim); font-size: 13px; overflow-wrap: anywhere; }
@media (max-width: 700px) { .chart { grid-template-columns: 1fr; gap: 0; } .chart .head:not(.first) { display: none; }
  .who { margin-top: 14px; } .cell small { flex-wrap: wrap; } .cell small > * { white-space: nowrap; }
  .cell small::before { content: attr(data-what); color: var(--dim); max-width: 34%; overflow-wrap: anywhere; } }
@media print { :root { color-scheme: light; --ink: #000; --dim: #444; --line: #bbb; --paper: #fff; --card: #fff;
  --good: #0a7d4f; --bad: #c0322b; --warn: #a86400; --blue: #2563c9; --violet: #7a4fd0; --teal: #0e7f8f; }
  body { padding: 0; max-width: none; } .card { break-inside: avoid; } }
"""


def compare_page(comparison: Comparison) -> str:
    """Write the page."""
    first = comparison.rows[0].subject.name
    title = html.escape(f"Compared with {first}")
    plan = comparison.plan
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
        f'<p class="lead">{html.escape(comparison.sentence)}</p>'
        f'<section class="card">{_chart(comparison)}<p class="dim">{html.escape(_caution(comparison))}</p></section>'
        f'<section class="card"><h2>Profit over the windows</h2>{_lines(comparison.rows)}</section>'
        f'<section class="card"><h2>In figures</h2>{_table(comparison)}</section>'
        f"<footer>{html.escape(plan.name)}, seed {plan.seed}; data {plan.data_hash[:16]}, commit {commit()}. Returns"
        " are per unit reserved before each window; windows are drawn whole. Each of these evaluations stands in the"
        " trial ledger.</footer></body></html>\n"
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


class _Scale:
    """Where values lie on a track, in percent of its width."""

    def __init__(self, values: Sequence[float]) -> None:
        known = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(0.0, *known), max(0.0, *known)
        room = 0.06 * ((high - low) or 1.0)
        self.low, self.high = low - room, high + room

    def at(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(100 * share, 3)

    def bar(self, kind: str, interval: tuple[float, float]) -> str:
        left, right = self.at(interval[0]), self.at(interval[1])
        return f'<span class="{kind}" style="left:{left}%;width:{max(0.2, right - left):.3f}%"></span>'

    def dot(self, kind: str, value: float) -> str:
        return f'<span class="{kind}" style="left:{self.at(value)}%"></span>'


def _chart(comparison: Comparison) -> str:
    ceiling = comparison.plan.ceiling
    profits = _Scale(
        [*(item for row in comparison.rows for item in (row.metrics.roi, *row.metrics.interval)), ceiling or 0.0]
    )
    gaps = [row.difference for row in comparison.rows if row.difference is not None]
    differences = _Scale([item for gap in gaps for item in (gap.mean, *gap.alone, *gap.together)])
    first = html.escape(comparison.rows[0].subject.name)
    heads = (
        '<div class="head first"></div><div class="head">ROI per reserved stake</div>'
        f'<div class="head">difference to {first}</div>'
    )
    rows = (_row(comparison, index, profits, differences) for index in range(len(comparison.rows)))
    return f'<div class="chart">{heads}{"".join(rows)}</div>'


def _row(comparison: Comparison, index: int, profits: _Scale, differences: _Scale) -> str:
    row, ceiling = comparison.rows[index], comparison.plan.ceiling
    colour = f"--c:var({COLOURS[index % len(COLOURS)]})"
    best = "" if ceiling is None else profits.dot("ceiling", ceiling)
    roi = (
        f'<div class="cell" style="{colour}"><small data-what="ROI" class="num"><b>{share(row.metrics.roi)}</b>'
        f'<span class="dim">{span(row.metrics.interval)}</span></small><div class="track">{profits.dot("zero", 0.0)}'
        f"{best}{profits.bar('thick', row.metrics.interval)}{profits.dot('dot', row.metrics.roi)}</div></div>"
    )
    name = f'<div class="who" style="{colour}"><i></i>{html.escape(row.subject.name)}</div>'
    return name + roi + _gap(row, colour, differences, html.escape(comparison.rows[0].subject.name))


def _gap(row: PolicyComparison, colour: str, scale: _Scale, first: str) -> str:
    gap = row.difference
    if gap is None:
        return '<div class="cell dim">the measure of the others</div>'
    kind = gap.finding if gap.finding in ("better", "worse") else "dim"
    return (
        f'<div class="cell" style="{colour}"><small data-what="to {first}" class="num"><b>{share(gap.mean)}</b>'
        f'<span class="{kind}">{gap.finding}</span><span class="dim">{span(gap.together)}</span></small>'
        f'<div class="track">{scale.dot("zero", 0.0)}{scale.bar("thick", gap.alone)}{scale.bar("thin", gap.together)}'
        f"{scale.dot('dot', gap.mean)}</div></div>"
    )


def share(value: float) -> str:
    """Write a share of the stake; small ones with a digit more."""
    return f"{value:+.3%}" if 0 < abs(value) < 0.001 else f"{value:+.2%}"


def span(interval: tuple[float, float]) -> str:
    """Write an interval of shares."""
    if not all(math.isfinite(item) for item in interval):
        return "too few windows"
    return f"{share(interval[0])} to {share(interval[1])}"


def _lines(rows: Sequence[PolicyComparison]) -> str:
    """Draw the running profit of everybody, in reserved stakes."""
    sums = [np.concatenate([[0.0], np.cumsum(row.returns)]) for row in rows]
    low, high = min(float(item.min()) for item in sums), max(float(item.max()) for item in sums)
    span = (high - low) or 1.0
    windows = len(sums[0]) - 1
    indices = np.unique(np.linspace(0, windows, min(POINTS, windows + 1)).astype(int))

    def line(values: Floats, index: int) -> str:
        points = " ".join(
            f"{1000 * at / max(1, windows):.1f},{200 - 200 * (values[at] - low) / span:.1f}" for at in indices.tolist()
        )
        return (
            f'<polyline points="{points}" fill="none" stroke="var({COLOURS[index % len(COLOURS)]})" stroke-width="2"'
            ' vector-effect="non-scaling-stroke"/>'
        )

    zero = 200 + 200 * low / span
    drawn = "".join(line(values, index) for index, values in enumerate(sums))
    legend = "".join(
        f'<span style="--c:var({COLOURS[index % len(COLOURS)]})"><i></i>{html.escape(row.subject.name)}'
        f' <span class="num">{values[-1]:+.1f}</span></span>'
        for index, (row, values) in enumerate(zip(rows, sums, strict=True))
    )
    return (
        f'<svg viewBox="0 0 1000 200" preserveAspectRatio="none" role="img" aria-label="running profit">'
        f'<line x1="0" x2="1000" y1="{zero:.1f}" y2="{zero:.1f}" stroke="var(--dim)" stroke-dasharray="4 4"'
        f' vector-effect="non-scaling-stroke"/>{drawn}</svg>'
        f'<p class="dim num">from the first to the {windows:,}th window; {high:+.1f} stakes at the top, {low:+.1f} at'
        f' the bottom, dashed is 0</p><div class="legend">{legend}</div>'
    )


def _table(comparison: Comparison) -> str:
    heads = ("", "ROI", "e-value", "Sharpe", "drawdown", "CVaR 5 %", "positions", "better in", "worse in")
    rows: list[tuple[str, ...]] = []
    for row in comparison.rows:
        item, gap = row.metrics, row.difference
        rows.append(
            (
                html.escape(row.subject.name),
                share(item.roi),
                f"{item.e_value:.3g}",
                f"{item.sharpe:+.4f}",
                f"{item.max_drawdown:.2f}",
                f"{item.cvar:+.1%}",
                f"{int(row.played.opened.sum()):,}",
                "" if gap is None else f"{gap.better:,}",
                "" if gap is None else f"{gap.worse:,}",
            )
        )
    if comparison.plan.ceiling is not None:
        rows.append(("theory: the best possible", f"{comparison.plan.ceiling:+.2%}", *[""] * 7))
    top = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{entry}</td>" for entry in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="num"><tr>{top}</tr>{body}</table></div>'
