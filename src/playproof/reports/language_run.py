"""Plots of how a language model learned: money and valid answers on held-out windows, scores, how far it moved, loss.

Drawn from a run's notes. Leaves out: the page (page), and learners of other kinds (lesson_figures).
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from playproof.money import UNIT
from playproof.reports.training_plots import BESIDE, GREY, MONEY, Note, error_bars

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BAD = "#e5484d"
ITERATION = "iteration"


def language_figures(notes: Sequence[Note]) -> list[tuple[str, Figure]]:
    """Give the plots that the notes allow, each with its width."""
    held, learned, taught = ([note for note in notes if note["kind"] == kind] for kind in ("holdout", "grpo", "sft"))
    results: list[tuple[str, Figure]] = []
    if held:
        results += [("wide", money_figure(held)), ("", answers_figure(held))]
    if learned:
        results += [("", scores_figure(learned)), ("wide" if held else "", moved_figure(learned))]
    if taught:
        results.append(("wide", loss_figure(taught)))
    return results


def money_figure(notes: Sequence[Note]) -> Figure:
    """Draw the profit on held-out windows with its 95 % interval, beside what the model earned at the beginning."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("Money: profit per held-out window", "money a window", height=380, xaxis_title=ITERATION)
    steps = [note["step"] for note in notes]
    pnl, low, high = ([note[f"holdout_pnl{end}"] / UNIT for note in notes] for end in ("", "_low", "_high"))
    drawn.add_scatter(x=[steps[0], steps[-1]], y=[pnl[0], pnl[0]], mode="lines", name="at the beginning",
                      line={"color": GREY, "dash": "dot"})  # fmt: skip
    drawn.add_scatter(x=steps, y=pnl, error_y=error_bars(pnl, low, high), mode="lines+markers", marker={"size": 10},
                      name="held out, 95 % interval", line={"color": MONEY, "width": 3})  # fmt: skip
    return drawn


def answers_figure(notes: Sequence[Note]) -> Figure:
    """Draw which share of the answers are decisions, and which share the market refused."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("Answers on held-out windows", "share", xaxis_title=ITERATION, yaxis_tickformat=".0%")
    for name, shown, colour in (
        ("holdout_valid", "valid decisions", MONEY),
        ("holdout_refused", "refused orders", BAD),
    ):
        drawn.add_scatter(x=[note["step"] for note in notes], y=[note.get(name) for note in notes], name=shown,
                          mode="lines+markers", line={"color": colour})  # fmt: skip
    return drawn


def scores_figure(notes: Sequence[Note]) -> Figure:
    """Draw the mean of each iteration's own scores, between the lowest and the highest."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("Scores of the iteration's own episodes", "score", xaxis_title=ITERATION)
    steps = [note["step"] for note in notes]
    high, low = [note["score_max"] for note in notes], [note["score_min"] for note in notes]
    drawn.add_scatter(x=steps + steps[::-1], y=high + low[::-1], fill="toself", fillcolor="rgba(245,165,36,.15)",
                      mode="lines", line={"width": 0}, hoverinfo="skip", name="lowest to highest")  # fmt: skip
    drawn.add_scatter(x=steps, y=[note["score_mean"] for note in notes], mode="lines+markers", name="mean",
                      line={"color": BESIDE, "width": 3})  # fmt: skip
    return drawn


def moved_figure(notes: Sequence[Note]) -> Figure:
    """Draw how far each iteration moved the policy, and how many groups taught nothing."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("How the policy moves", "KL an iteration", xaxis_title=ITERATION)
    steps = [note["step"] for note in notes]
    drawn.add_bar(x=steps, y=[note["flat"] / max(note["windows"], 1) for note in notes], yaxis="y2", opacity=0.35,
                  marker_color=GREY, name="groups without spread, right axis")  # fmt: skip
    drawn.add_scatter(x=steps, y=[note["kl"] for note in notes], mode="lines+markers", name="KL",
                      line={"color": BESIDE, "width": 3})  # fmt: skip
    drawn.update_layout(
        yaxis_rangemode="tozero",
        yaxis2={"overlaying": "y", "side": "right", "range": [0, 1], "dtick": 0.25, "tickformat": ".0%"},
        yaxis2_showgrid=False,
        margin_r=55,
    )
    return drawn


def loss_figure(notes: Sequence[Note]) -> Figure:
    """Draw the loss of each step."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("Loss of the answers' tokens", "nats a token", yaxis_type="log")
    drawn.add_scatter(x=[note["step"] for note in notes], y=[note["loss"] for note in notes], name="loss",
                      line={"color": MONEY})  # fmt: skip
    return drawn


def holdout_table(result: Mapping[str, Any]) -> str:
    """Show money and answers on held-out windows before and after; nothing for runs that held none out."""
    before, after = result.get("before"), result.get("after")
    if not before or not after:
        return ""
    payload = [("before", before), *([(f"after {after['step']} iterations", after)] if after["step"] else [])]
    lines = [
        f"<tr><th>{name}</th><td>{_money(item, 'holdout_pnl')}</td><td>{item['holdout_valid']:.0%}</td>"
        f"<td>{item['holdout_refused']:.0%}</td><td>{item['holdout_trades']:.2f}</td></tr>"
        for name, item in payload
    ]
    gain = f"<p>Gain, paired window by window: {_money(after, 'gain')}.</p>" if "gain" in after else ""
    titles = "".join(f"<th>{item}</th>" for item in ("", "money a window", "valid", "refused", "trades a window"))
    return (
        f"<h2>On {before['holdout_windows']} held-out windows</h2>{gain}"
        f'<div class="scroll"><table class="numbers"><tr>{titles}</tr>{"".join(lines)}</table></div>'
    )


def _money(payload: Mapping[str, Any], name: str) -> str:
    value, low, high = (payload[item] / UNIT for item in (name, f"{name}_low", f"{name}_high"))
    return html.escape(f"{value:+.2f} (95 % {low:+.2f} to {high:+.2f})")
