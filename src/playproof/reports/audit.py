"""Show an audit: one HTML page that opens offline, with plots, and the same figures as plain JSON.

Leaves out: the figures themselves (audit).
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from playproof.game.audit import AuditRules
from playproof.validate.audit import LEAST_WINDOWS, AuditReport, Band, WagerFigures

INK, SOFT, BAND, MARK, WARN = "#1d2733", "#6b7785", "rgba(31, 119, 180, 0.18)", "#1f77b4", "#c0392b"
_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; color: #1d2733; background: #fff;
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; }
.answer { border-left: 6px solid #2c7a4b; background: #f1f8f4; padding: 0.8rem 1rem; font-size: 1.1rem; }
.answer.perhaps { border-color: #c0392b; background: #fdf3f2; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.6rem; text-align: right; border-bottom: 1px solid #e3e7eb; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tr.remark td { background: #fff8e6; }
.note { color: #6b7785; font-size: 0.9rem; }
.plot { height: 22rem; }
@media print { .plot { break-inside: avoid; } body { max-width: none; } }
"""


def to_json(report: AuditReport) -> dict[str, Any]:
    """Give an audit as plain data; the survival curve by its ages."""
    payload = asdict(report)
    payload["survival"] = {name: getattr(report.survival, name).tolist() for name in ("ages", "alive", "low", "high")}
    return payload


def page(report: AuditReport, auditing: AuditRules, source: str) -> str:
    """Write the page."""
    from plotly.offline import get_plotlyjs

    shown = html.escape
    lines = "".join(f"<li>{shown(line)}</li>" for line in report.lines)
    sections = [
        ("How long windows live", survival_plot(report, auditing), _hazard_table(report)),
        (f"Is the {auditing.end} due?", hazard_plot(report, auditing), ""),
        *((f"What a unit staked came to: {name}", wager_plot(report, name), _wager_table(report, auditing, name))
          for name in dict.fromkeys(item.group for item in report.compared)),
        ("What was once promised", None, _promise_table(report)),
    ]  # fmt: skip
    body = "".join(
        f"<h2>{shown(title)}</h2>{_div(plot, index) if plot else ''}{table}"
        for index, (title, plot, table) in enumerate(sections)
    )
    kind = "answer perhaps" if report.exploitable else "answer"
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>Audit of {shown(report.game)}</title><style>{_STYLE}</style>"
        f"<script>{get_plotlyjs()}</script></head><body>"
        f"<h1>Is there anything to exploit here?</h1><p class='{kind}'>{shown(report.answer)}</p>"
        f"<p class=note>Audit of {shown(source)}, game {shown(report.game)}. Intervals are 95 % ones over whole"
        " windows: entries of one window share their luck.</p>"
        f"<ul>{lines}</ul>{body}</body></html>\n"
    )


def _div(plot: Mapping[str, Any], index: int) -> str:
    """Draw a plot; what stands in it cannot end the script."""
    import orjson

    data, layout = (orjson.dumps(plot[part]).decode().replace("<", "\\u003c") for part in ("data", "layout"))
    options = '{"responsive": true, "displayModeBar": false}'
    draw = f"Plotly.newPlot('plot{index}', {data}, {layout}, {options})"
    return f"<div class=plot id=plot{index}></div><script>{draw}</script>"


def _layout(x: str, y: str, **more: Any) -> dict[str, Any]:
    return {
        "margin": {"l": 60, "r": 15, "t": 10, "b": 50},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "legend": {"orientation": "h", "y": 1.12},
        "xaxis": {"title": {"text": x}, "gridcolor": "#eef1f4", "automargin": True},
        "yaxis": {"title": {"text": y}, "gridcolor": "#eef1f4", "automargin": True, "tickformat": ".0%"},
    } | more


def survival_plot(report: AuditReport, auditing: AuditRules) -> dict[str, Any]:
    """Draw the share of windows that live, its band, the published line and what was promised."""
    result = report.survival
    ages = [0, *result.ages.tolist()]
    line = [1.0, *result.alive.tolist()]
    low, high = [1.0, *result.low.tolist()], [1.0, *result.high.tolist()]
    promised = [(item.age, 1 - item.claimed) for item in auditing.promised if item.age is not None]
    steps = {"mode": "lines", "line": {"shape": "hv", "width": 0}, "hoverinfo": "skip", "showlegend": False}
    data = [
        {"x": ages, "y": high, **steps},
        {"x": ages, "y": low, **steps, "fill": "tonexty", "fillcolor": BAND},
        {"x": ages, "y": line, "mode": "lines", "line": {"shape": "hv", "color": MARK}, "name": "measured"},
        {
            "x": list(range(0, max(ages) + 1, 5)),
            "y": [(1 - report.published_hazard) ** age for age in range(0, max(ages) + 1, 5)],
            "mode": "lines",
            "line": {"color": INK, "dash": "dot"},
            "name": f"published, {report.published_hazard:.1%} a {auditing.unit}",
        },
        {
            "x": [age for age, _ in promised],
            "y": [share for _, share in promised],
            "mode": "markers",
            "marker": {"color": WARN, "size": 9, "symbol": "x"},
            "name": "the old plan",
        },
    ]
    return {"data": data, "layout": _layout(f"{auditing.unit}s", "share still alive")}


def hazard_plot(report: AuditReport, auditing: AuditRules) -> dict[str, Any]:
    """Draw the hazard by age with its intervals and the published line."""
    names = [_ages(band) for band in report.bands]
    values = [band.hazard.value for band in report.bands]
    data = [
        _bars(names, values, [band.hazard.interval for band in report.bands], "measured"),
        _level(names, report.published_hazard, "published"),
    ]
    layout = _layout(f"age in {auditing.unit}s", f"chance of the {auditing.end} a {auditing.unit}")
    layout["yaxis"] |= {"tickformat": ".2%", "rangemode": "tozero"}
    return {"data": data, "layout": layout}


def wager_plot(report: AuditReport, group: str) -> dict[str, Any]:
    """Draw the mean profit of a group's wagers with their intervals, beside the published rules."""
    own = [wager for wager in report.wagers if wager.group == group and np.isfinite(wager.interval).all()]
    names = [item.name for item in own]
    data = [
        _bars(names, [item.profit for item in own], [item.interval for item in own], "measured"),
        _level(names, 0.0, "not playing"),
    ]
    if any(item.theory is not None for item in own):
        theory = {"color": INK, "symbol": "line-ew-open", "size": 22, "line": {"width": 2}}
        data.append(
            {"x": names, "y": [item.theory for item in own], "mode": "markers", "marker": theory, "name": "published"}
        )
    layout = _layout("", "mean profit of a unit")
    bounds = [bound for item in own if item.enough for bound in item.interval]
    if bounds:
        room = 0.3 * (max(0.0, *bounds) - min(0.0, *bounds))
        layout["yaxis"]["range"] = [min(0.0, *bounds) - room, max(0.0, *bounds) + room]
    return {"data": data, "layout": layout}


def _bars(names: Sequence[str], values: Sequence[float], intervals: Sequence[tuple[float, float]], name: str) -> Any:
    """Give points with their intervals."""
    return {
        "x": list(names),
        "y": list(values),
        "mode": "markers",
        "marker": {"color": MARK, "size": 10},
        "name": name,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [high - value for value, (_, high) in zip(values, intervals, strict=True)],
            "arrayminus": [value - low for value, (low, _) in zip(values, intervals, strict=True)],
            "color": MARK,
        },
    }


def _level(names: Sequence[str], value: float, name: str) -> Any:
    line = {"color": SOFT, "dash": "dot"}
    return {"x": list(names), "y": [value] * len(names), "mode": "lines", "line": line, "name": name}


def table(head: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[bool] = ()) -> str:
    """Write a table of texts; marked rows stand out."""
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = ""
    for index, row in enumerate(rows):
        kind = " class=remark" if index < len(marked) and marked[index] else ""
        body += f"<tr{kind}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
    return f"<div class=wide><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>"


def span(interval: tuple[float, float] | None, digits: int = 2, signed: bool = True) -> str:
    """Write an interval of shares."""
    if interval is None or not np.isfinite(interval).all():
        return "too few windows"
    sign = "+" if signed else ""
    return f"{interval[0]:{sign}.{digits}%} to {interval[1]:{sign}.{digits}%}"


def _hazard_table(report: AuditReport) -> str:
    bands = [(_ages(band), band.hazard) for band in report.bands]
    rows = [
        [name, f"{item.value:.3%}", span(item.interval, 3, False), str(item.deaths), f"{item.exposure:,}"]
        for name, item in [("all", report.hazard), *bands]
    ]
    return table(["age", "hazard", "95 % interval", "ends", "at risk"], rows)


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


def _wager_table(report: AuditReport, auditing: AuditRules, group: str) -> str:
    own = [wager for wager in report.wagers if wager.group == group]
    text = f"Intervals of places with fewer than {LEAST_WINDOWS} windows may reach beyond the plot."
    if group in auditing.hit_rates:
        rate, even = auditing.hit_rates[group], auditing.break_even[group]
        text += f" By the published rules {rate:.2%} of these hit; {even:.2%} are needed to break even."
    rows = table(WAGER_HEAD, [wager_row(item) for item in own], [item.remark is not None for item in own])
    return f"{rows}<p class=note>{text}</p>"


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


def _promise_table(report: AuditReport) -> str:
    why = (
        "A share of hits is no edge: most entries may end a little higher while the few that end badly cost more"
        " than all of them earned. What counts is the mean profit."
    )
    return f"{table(PROMISE_HEAD, promise_rows(report))}<p class=note>{why}</p>"
