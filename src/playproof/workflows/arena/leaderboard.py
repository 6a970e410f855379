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
    contestant_figureses: Sequence[ContestantFigures],
    models: Sequence[str],
    criteria: Mapping[str, Sequence[Criterion]],
    facts: Mapping[str, Any],
) -> str:
    """Write the leaderboard."""
    scenarios = list(dict.fromkeys(item.scenario for item in contestant_figureses))
    if facts["scenarios"] == 1:  # whose figures are those of all
        scenarios = [name for name in scenarios if name != ALL]
    parts = [
        _scenario(name, [item for item in contestant_figureses if item.scenario == name], models) for name in scenarios
    ]
    total = [item for item in contestant_figureses if item.scenario == ALL]
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
    body = "".join(_row(row, row.name in models) for row in rows)
    top = "".join(f"<th>{head}</th>" for head in HEADS)
    return f'<h2>{html.escape(title)}</h2><div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _row(contestant_figures: ContestantFigures, is_model: bool) -> str:
    cells = (
        html.escape(contestant_figures.name),
        f"{contestant_figures.pnl:+.2f}",
        f"{contestant_figures.pnl_interval[0]:+.2f} to {contestant_figures.pnl_interval[1]:+.2f}",
        f"{contestant_figures.alpha:+.3%}",
        f"{contestant_figures.win_rate:.0%}",
        f"{contestant_figures.drawdown:.0f}",
        f"{contestant_figures.valid:.0%}",
        f"{contestant_figures.errors:.1%}",
        f"{contestant_figures.trades:.1f}",
        "-"
        if contestant_figures.timing is None or contestant_figures.captured is None
        else f"{contestant_figures.timing:.0%} ({contestant_figures.captured:+.2%})",
        f"{contestant_figures.e_value:.3g}",
    )
    return f'<tr class="{"model" if is_model else ""}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _plot(rows: Sequence[ContestantFigures], models: Sequence[str]) -> str:
    """Draw every mean profit with its interval on one axis."""
    ends = [bound for item in rows for bound in item.pnl_interval] + [0.0]
    low, high = min(ends), max(ends)
    wide = (high - low) or 1.0

    def x(value: float) -> float:
        return LEFT + (value - low) / wide * (WIDTH - LEFT - 20)

    height = ROW * len(rows) + 30
    lines = [
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height - 22}" stroke="#9fb0c0" stroke-dasharray="3 4"/>'
    ]
    for at, row in enumerate(rows):
        y, colour = ROW * at + 16, "#4cc38a" if row.name in models else "#6ea8fe"
        start, end = row.pnl_interval
        shown = row.name if len(row.name) <= 16 else row.name[:15] + "…"
        lines.append(f'<text x="0" y="{y + 4}">{html.escape(shown)}</text>')
        lines.append(
            f'<line x1="{x(start):.1f}" x2="{x(end):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
        )
        lines.append(f'<circle cx="{x(row.pnl):.1f}" cy="{y}" r="5" fill="{colour}"/>')
    indices = ((low, LEFT, "start"), (high, WIDTH - 20, "end"))
    for value, index, anchor in indices:
        lines.append(f'<text class="axis" x="{index}" y="{height - 6}" text-anchor="{anchor}">{value:+.2f} USD</text>')
    label = "Mean profit a window with its 95 % interval"
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(lines)}</svg>'


def _criteria(criteria: Mapping[str, Sequence[Criterion]], against: str) -> str:
    if not criteria:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(model)}: {html.escape(item.name)}</td><td>{item.wanted:.4g}</td>"
        f"<td>{item.value:.4g} {_mark(item.met)}</td><td>{item.dummy:.4g} {_mark(item.dummy_met)}</td></tr>"
        for model, wanted in criteria.items()
        for item in wanted
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
    result = [(row, name, versus) for row in rows if row.name in models for name, versus in row.versus.items()]
    if not result:
        return ""
    body = "".join(
        f"<tr><td>{html.escape(item.name)} against {html.escape(name)}</td><td>{versus.difference:+.2f}</td>"
        f"<td>{versus.interval[0]:+.2f} to {versus.interval[1]:+.2f}</td><td>{versus.e_value:.3g}</td></tr>"
        for item, name, versus in result
    )
    heads = "<tr><th></th><th>difference</th><th>95 % interval</th><th>e-value</th></tr>"
    return f'<h2>Paired, window by window</h2><div class="scroll"><table>{heads}{body}</table></div>'
