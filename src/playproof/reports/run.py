"""A run's plots as one HTML file that opens offline: money first, then what was done and what was rewarded.

Reads the run's folder alone, so that it can be written again at any time. Leaves out: verdicts; a
learning curve on validation windows is no proof of an edge.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playproof.money import UNIT
from playproof.policies.checkpoint import write_durably

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PAPER, INK, LINE, MONEY, REWARD = "#0f1720", "#e6edf3", "#2b3947", "#4cc38a", "#f5a524"
COLOURS = ("#4cc38a", "#f5a524", "#e5484d", "#6ea8fe", "#b38cf5", "#56c7d6", "#d6c256", "#c98ba6")
STYLE = f"""
:root {{ color-scheme: dark; }}
body {{ margin: 0 auto; max-width: 1080px; padding: 2rem 1.2rem 4rem; background: {PAPER}; color: {INK};
       font: 16px/1.55 system-ui, sans-serif; }}
h1 {{ font-size: 1.7rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }} p.lead {{ color: #9fb0c0; margin: 0 0 1.4rem; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 1rem; }}
.plots > section {{ border: 1px solid {LINE}; border-radius: 10px; overflow: hidden; min-width: 0; }}
.wide {{ grid-column: 1 / -1; }} h3 {{ margin: .9rem 1.1rem 0; font-size: 1.05rem; font-weight: 600; }}
.scroll {{ overflow-x: auto; }} table {{ border-collapse: collapse; margin: 1.2rem 0; }}
th, td {{ text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid {LINE}; vertical-align: top; }}
th {{ color: #9fb0c0; font-weight: 500; white-space: nowrap; }} td {{ overflow-wrap: anywhere; }}
.numbers td {{ white-space: nowrap; font-variant-numeric: tabular-nums; }}
footer {{ color: #9fb0c0; margin-top: 2rem; font-size: .9rem; }}
"""
RESIZE = "addEventListener('load', () => document.querySelectorAll('.js-plotly-plot').forEach(Plotly.Plots.resize))"

ENOUGH = 30
"""Held-out choices other than waiting, below which the page says that they are too few."""

Note = dict[str, Any]


def empty_figure(title: str, y: str, **layout: Any) -> Figure:
    """Give a figure in the page's colours, without its lines."""
    from plotly.graph_objects import Figure

    figure = Figure()
    figure.update_layout(
        meta={"title": title},
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        font_color=INK,
        height=340,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        legend={"orientation": "h", "y": -0.25},
        xaxis={"title": "steps of training", "gridcolor": LINE, "zeroline": False},
        yaxis={"title": y, "gridcolor": LINE, "zerolinecolor": "#9fb0c0"},
    )
    figure.update_layout(**layout)
    return figure


def money_figure(notes: Sequence[Note]) -> Figure:
    """Draw the profit per window on the validation windows, with its 95 % interval."""
    figure = empty_figure("Money: profit per validation window", "coins per window", height=380)
    steps = [note["step"] for note in notes]
    pnl = [note["pnl"] / UNIT for note in notes]
    errors = [1.96 * (note["pnl_se"] or 0.0) / UNIT for note in notes]
    high = [value + error for value, error in zip(pnl, errors, strict=True)]
    low = [value - error for value, error in zip(pnl, errors, strict=True)]
    figure.add_scatter(x=steps + steps[::-1], y=high + low[::-1], fill="toself", fillcolor="rgba(76,195,138,.18)",
                       mode="lines", line={"width": 0}, hoverinfo="skip", name="95 % interval")  # fmt: skip
    figure.add_scatter(x=steps, y=pnl, name="validation, greedy", line={"color": MONEY, "width": 3})
    alarms = [note for note in notes if note.get("alarm")]
    if alarms:
        figure.add_scatter(x=[note["step"] for note in alarms], y=[note["pnl"] / UNIT for note in alarms],
                           mode="markers", marker={"color": "#e5484d", "size": 12, "symbol": "x"},
                           name="alarm: reward rises, money does not")  # fmt: skip
    return figure


def mix_figure(notes: Sequence[Note]) -> Figure:
    """Draw the share of each action among all steps; WAIT is left out of the stack, since it dwarfs the others."""
    figure = empty_figure("What is done: action mix over training", "share of steps", yaxis_tickformat=".1%")
    names = [name for name in notes[0].get("mix", {}) if name != "WAIT"]
    for name, colour in zip(names, COLOURS, strict=False):
        figure.add_scatter(x=[note["step"] for note in notes], y=[note["mix"][name] for note in notes], name=name,
                           stackgroup="mix", line={"color": colour, "width": 1})  # fmt: skip
    return figure


def divergence_figure(notes: Sequence[Note]) -> Figure:
    """Draw reward against money, one point an evaluation: they must rise together."""
    figure = empty_figure("Reward against money", "reward per window", xaxis_title="coins per window")
    figure.add_scatter(
        x=[note["pnl"] / UNIT for note in notes],
        y=[note["reward"] for note in notes],
        mode="lines+markers",
        line={"color": LINE},
        marker={"color": [note["step"] for note in notes], "colorscale": "Viridis", "size": 9, "showscale": True},
        name="evaluations, brighter is later",
    )
    figure.update_layout(xaxis={"gridcolor": LINE, "zerolinecolor": "#9fb0c0"})
    return figure


def components_figure(notes: Sequence[Note]) -> Figure:
    """Draw the reward by component."""
    figure = empty_figure("Reward by component", "reward per window")
    for name, colour in zip(notes[-1].get("components", {}), COLOURS, strict=False):
        figure.add_scatter(x=[note["step"] for note in notes], line={"color": colour}, name=name,
                           y=[note.get("components", {}).get(name) for note in notes])  # fmt: skip
    return figure


def learning_figure(notes: Sequence[Note], names: Sequence[str], title: str) -> Figure:
    """Draw some numbers of the updates."""
    figure = empty_figure(title, "")
    for name, colour in zip(names, COLOURS, strict=False):
        if any(name in note for note in notes):
            figure.add_scatter(x=[note["step"] for note in notes], y=[note.get(name) for note in notes], name=name,
                               line={"color": colour})  # fmt: skip
    return figure


def figures(notes: Sequence[Note]) -> list[tuple[str, Figure]]:
    """Give the plots that a run's notes allow, each with its width."""
    from playproof.reports.language_run import language_figures
    from playproof.reports.training_plots import lesson_figures

    evaluations = [note for note in notes if note["kind"] == "evaluation"]
    updates = [note for note in notes if note["kind"] == "train"]
    results: list[tuple[str, Figure]] = []
    if evaluations:
        results.append(("wide", money_figure(evaluations)))
        if evaluations[0].get("mix"):
            results.append(("", mix_figure(evaluations)))
        if "reward" in evaluations[0]:
            results.append(("", divergence_figure(evaluations)))
        if evaluations[-1].get("components"):
            results.append(("wide", components_figure(evaluations)))
    if updates:
        results.append(("", learning_figure(updates, ("loss", "policy_loss", "value_loss", "anchor"), "Losses")))
        moves = ("entropy", "approx_kl", "clip_fraction")
        if any(name in update for update in updates for name in moves):
            results.append(("", learning_figure(updates, moves, "How the policy moves")))
    return results + lesson_figures(notes) + language_figures(notes)


def page(path: Path) -> str:
    """Write the page of a run's folder."""
    from playproof.reports.language_run import holdout_table
    from playproof.train.run import read_config, read_log, read_result

    payload, result, notes = read_config(path), read_result(path), read_log(path)
    parts = []
    for index, (kind, figure) in enumerate(figures(notes)):
        body = figure.to_html(full_html=False, include_plotlyjs=index == 0, div_id=f"plot-{index}",
                              config={"displaylogo": False, "responsive": True})  # fmt: skip
        parts.append(f'<section class="{kind}"><h3>{html.escape(figure.layout.meta["title"])}</h3>{body}</section>')
    shown = {**_flat(payload["config"]), **{f"result: {name}": value for name, value in _flat(result).items()}}
    rows = _rows([name, _short(value)] for name, value in sorted(shown.items()) if value not in (None, "", {}, []))
    title = html.escape(f"{payload['method']} run {path.name}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
        f'<p class="lead">{_lead(path, notes)}</p>'
        f'<div class="plots">{"".join(parts)}</div>{likeness_tables(result)}{holdout_table(result)}'
        f'<h2>Configuration and result</h2><div class="scroll"><table>{rows}</table></div>'
        f"<footer>Commit {html.escape(payload['commit'])}. "
        "Plots in whole coins or USD; money in the last table in the smallest unit.</footer>"
        f"<script>{RESIZE}</script></body></html>"
    )


def _lead(path: Path, notes: Sequence[Note]) -> str:
    """Say what the plots show, and what they do not."""
    from playproof.train.ppo.restarts import begun

    text = "This is how it learned, not a proof of an edge: that is what validate gives."
    if any(note["kind"] == "holdout" for note in notes):
        text = f"Money on held-out windows, the same ones every time. {text}"
    if any(note["kind"] == "evaluation" for note in notes):
        text = f"Money on validation windows, the same ones at every evaluation. {text}"
    if len(tried := begun(path)) > 1:
        profits = ", ".join(f"{item.profit / UNIT:+.5f}" for item in tried)
        text += f" Begun {len(tried)} times; the best went on (coins per window: {profits})."
    return text


def likeness_tables(result: Mapping[str, Any]) -> str:
    """Show how well a clone knows its player, head by head and choice by choice; nothing for other runs."""
    parts, mix = [], result.get("mix") or {}
    played = any(shares[1] is not None for shares in mix.values())
    acted = 0
    for number, head in enumerate(result.get("heads") or ()):
        summary = (
            f"Accuracy {head['accuracy']:.3f}; always waiting {head['always_wait']:.3f}, the choice made most "
            f"{head['majority']:.3f}. Balanced accuracy {head['balanced']:.3f} over {', '.join(head['scored'])}. "
            f"Log loss {head['log_loss']:.4f} nats, of his mix alone {head['mix_loss']:.4f}."
        )
        acted += sum(map(sum, head["confusion"][1:]))
        lines = [
            [
                name,
                *map(_share, mix.get(name, (None, None))[: 1 + played]),
                _share(precision),
                _share(recall),
                *map(str, named),
            ]
            for name, precision, recall, named in zip(
                head["choices"], head["precision"], head["recall"], head["confusion"], strict=True
            )
        ]
        shares = ("player's share", "clone's share")[: 1 + played]
        columns = ["choice", *shares, "precision", "recall", *head["choices"]]
        titles = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        parts.append(
            f"<h3>Head {number + 1}</h3><p>{html.escape(summary)}</p>"
            f'<div class="scroll"><table class="numbers"><tr>{titles}</tr>{_rows(lines)}</table></div>'
        )
    if not parts:
        return ""
    scored = f"{result['scored_steps']:,}" if "scored_steps" in result else "the"
    few = "" if acted >= ENOUGH else f" He did something {acted} times in them: too few to tell how well it knows him."
    return (
        f"<h2>How well it knows the player</h2><p>On {scored} held-out steps; the last columns count what a balanced "
        f"prediction names where he chose what the row says.{few}</p>{''.join(parts)}"
    )


def _rows(lines: Iterable[Sequence[str]]) -> str:
    """Write lines of a table, the first cell of each as its name."""
    return "".join(
        f"<tr><th>{html.escape(first)}</th>{''.join(f'<td>{html.escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in lines
    )


def _flat(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Lay nested settings side by side; what has a table of its own is left out."""
    result: dict[str, Any] = {}
    for name, value in payload.items():
        if name in ("heads", "mix", "before", "after"):
            continue
        result |= {f"{name}: {k}": v for k, v in _flat(value).items()} if isinstance(value, dict) else {name: value}
    return result


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_page(path: Path) -> Path:
    """Write report.html into a run's folder."""
    from playproof.train.run import REPORT

    write_durably(path / REPORT, page(path).encode())
    return path / REPORT
