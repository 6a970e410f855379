"""The leaderboard as one page: no script, no network, readable on a phone.

Leaves out: the figures (bench).
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from playproof.workflows.arena.benchmark import ALL, DUMMY, ContestantFigures, Criterion

STYLE = """
:root { color-scheme: dark; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 1.2rem; background: #0f141a; color: #e6edf3;
  font: 15px/1.5 system-ui, sans-serif; }
h1 { margin: .2rem 0; font-size: 1.7rem; } h2 { margin: 2rem 0 .4rem; font-size: 1.15rem; }
p { margin: .3rem 0; max-width: 75ch; } .dim { color: #9fb0c0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; margin: .6rem 0; }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid #26313d; text-align: right; white-space: nowrap; }
th { color: #9fb0c0; font-weight: 500; } th:first-child, td:first-child { text-align: left; }
td:first-child { position: sticky; left: 0; background: #0f141a; }
tr.model td { color: #7ee0b0; font-weight: 600; }
.yes { color: #4cc38a; } .no { color: #e5707a; }
svg { width: 100%; max-width: 560px; height: auto; display: block; }
svg text { fill: #e6edf3; font: 12px system-ui, sans-serif; }
svg .axis { fill: #9fb0c0; font-size: 10px; }
footer { margin: 2rem 0 .5rem; color: #9fb0c0; font-size: .85rem; overflow-wrap: anywhere; }
"""
ROW, LEFT, WIDTH = 24, 112, 420
HEADS = ("", "P&L", "95 % interval", "alpha", "wins", "drawdown", "valid", "errors", "trades", "timing", "e-value")


def page(
    told: Sequence[ContestantFigures],
    models: Sequence[str],
    criteria: Mapping[str, Sequence[Criterion]],
    facts: Mapping[str, Any],
) -> str:
    """Write the leaderboard."""
    scenarios = list(dict.fromkeys(it.scenario for it in told))
    if facts["scenarios"] == 1:  # whose figures are those of all
        scenarios = [name for name in scenarios if name != ALL]
    parts = [_scenario(name, [it for it in told if it.scenario == name], models) for name in scenarios]
    total = [it for it in told if it.scenario == ALL]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Arena leaderboard</title><style>{STYLE}</style></head><body><h1>Arena leaderboard</h1>"
        f'<p class="dim">{_told(facts)}</p>{_plot(total, models)}{"".join(parts)}'
        f"{_criteria(criteria, str(facts['against']))}{_duels(total, models)}"
        f"<footer>Windows of seed {facts['seed']}, plan {html.escape(str(facts['plan']))}, commit "
        f"{html.escape(str(facts['commit']))}. USD a window; the stake reserved for each is {facts['stake']:,.0f} USD. "
        "An interval that holds 0 shows nothing; an e-value of 20 or more is more than luck.</footer></body></html>"
    )


def _told(facts: Mapping[str, Any]) -> str:
    scenarios = "one scenario" if facts["scenarios"] == 1 else f"each of {facts['scenarios']} scenarios"
    return html.escape(
        f"{facts['windows']} forked windows of {scenarios}, {facts['decisions']} decisions in each, the same windows "
        "for everybody. Scripted players stand beside the models; wait does nothing."
    )


def _scenario(name: str, rows: Sequence[ContestantFigures], models: Sequence[str]) -> str:
    title = "All scenarios" if name == ALL else name.capitalize().replace("-", " ")
    body = "".join(_row(it, it.name in models) for it in rows)
    top = "".join(f"<th>{head}</th>" for head in HEADS)
    return f'<h2>{html.escape(title)}</h2><div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _row(it: ContestantFigures, is_model: bool) -> str:
    cells = (
        html.escape(it.name),
        f"{it.pnl:+.2f}",
        f"{it.pnl_interval[0]:+.2f} to {it.pnl_interval[1]:+.2f}",
        f"{it.alpha:+.3%}",
        f"{it.win_rate:.0%}",
        f"{it.drawdown:.0f}",
        f"{it.valid:.0%}",
        f"{it.errors:.1%}",
        f"{it.trades:.1f}",
        "-" if it.timing is None or it.captured is None else f"{it.timing:.0%} ({it.captured:+.2%})",
        f"{it.e_value:.3g}",
    )
    return f'<tr class="{"model" if is_model else ""}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _plot(rows: Sequence[ContestantFigures], models: Sequence[str]) -> str:
    """Draw every mean profit with its interval on one axis."""
    ends = [bound for it in rows for bound in it.pnl_interval] + [0.0]
    low, high = min(ends), max(ends)
    wide = (high - low) or 1.0

    def x(value: float) -> float:
        return LEFT + (value - low) / wide * (WIDTH - LEFT - 20)

    height = ROW * len(rows) + 30
    lines = [
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height - 22}" stroke="#9fb0c0" stroke-dasharray="3 4"/>'
    ]
    for at, it in enumerate(rows):
        y, colour = ROW * at + 16, "#4cc38a" if it.name in models else "#6ea8fe"
        start, end = it.pnl_interval
        shown = it.name if len(it.name) <= 16 else it.name[:15] + "…"
        lines.append(f'<text x="0" y="{y + 4}">{html.escape(shown)}</text>')
        lines.append(
            f'<line x1="{x(start):.1f}" x2="{x(end):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
        )
        lines.append(f'<circle cx="{x(it.pnl):.1f}" cy="{y}" r="5" fill="{colour}"/>')
    places = ((low, LEFT, "start"), (high, WIDTH - 20, "end"))
    for value, place, anchor in places:
        lines.append(f'<text class="axis" x="{place}" y="{height - 6}" text-anchor="{anchor}">{value:+.2f} USD</text>')
    label = "Mean profit a window with its 95 % interval"
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(lines)}</svg>'


def _criteria(criteria: Mapping[str, Sequence[Criterion]], against: str) -> str:
    if not criteria:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(model)}: {html.escape(it.name)}</td><td>{it.wanted:.4g}</td>"
        f"<td>{it.value:.4g} {_mark(it.met)}</td><td>{it.dummy:.4g} {_mark(it.dummy_met)}</td></tr>"
        for model, each in criteria.items()
        for it in each
    )
    return (
        "<h2>The plan's criteria</h2>"
        f'<p class="dim">Against {html.escape(against)}. {DUMMY} is a dummy that never trades: what it meets proves '
        "nothing.</p>"
        f'<div class="scroll"><table><tr><th></th><th>wanted</th><th>model</th><th>dummy</th></tr>{rows}</table></div>'
    )


def _mark(met: bool) -> str:
    return '<span class="yes">met</span>' if met else '<span class="no">not met</span>'


def _duels(rows: Sequence[ContestantFigures], models: Sequence[str]) -> str:
    """Lay out every model against everybody else, paired window by window."""
    found = [(it, name, versus) for it in rows if it.name in models for name, versus in it.versus.items()]
    if not found:
        return ""
    body = "".join(
        f"<tr><td>{html.escape(it.name)} against {html.escape(name)}</td><td>{versus.difference:+.2f}</td>"
        f"<td>{versus.interval[0]:+.2f} to {versus.interval[1]:+.2f}</td><td>{versus.e_value:.3g}</td></tr>"
        for it, name, versus in found
    )
    heads = "<tr><th></th><th>difference</th><th>95 % interval</th><th>e-value</th></tr>"
    return f'<h2>Paired, window by window</h2><div class="scroll"><table>{heads}{body}</table></div>'
