"""Plots of how a language model learned: money and valid answers on held-out windows, scores, how far it moved, loss.

Drawn from a run's notes. Leaves out: the page (run), and learners of other kinds (training_plots).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playproof.money import UNIT
from playproof.reports.chart import BandSeries, BarSeries, Chart, ChartAxis, Series
from playproof.reports.page import PageSection, PageTable
from playproof.reports.training_plots import Note

ITERATION = ChartAxis(title="iteration")


def language_figures(notes: Sequence[Note]) -> list[Chart]:
    """Give the plots that the notes allow."""
    held, learned, taught = ([note for note in notes if note["kind"] == kind] for kind in ("holdout", "grpo", "sft"))
    results = []
    if held:
        results += [money_figure(held), answers_figure(held)]
    if learned:
        results += [scores_figure(learned), moved_figure(learned, wide=bool(held))]
    if taught:
        results.append(loss_figure(taught))
    return results


def money_figure(notes: Sequence[Note]) -> Chart:
    """Draw the profit on held-out windows with its 95 % interval, beside what the model earned at the beginning."""
    steps = [note["step"] for note in notes]
    pnl, low, high = ([note[f"holdout_pnl{end}"] / UNIT for note in notes] for end in ("", "_low", "_high"))
    return Chart(
        title="Money: profit per held-out window",
        x=ITERATION,
        y=ChartAxis(title="money a window"),
        series=[
            Series(name="at the beginning", x=[steps[0], steps[-1]], y=[pnl[0], pnl[0]], colour="dim", dash="dot"),
            Series(name="held out, 95 % interval", x=steps, y=pnl, low=low, high=high, points=True, width=3,
                   colour="good"),
        ],
        height=380,
        wide=True,
    )  # fmt: skip


def answers_figure(notes: Sequence[Note]) -> Chart:
    """Draw which share of the answers are decisions, and which share the market refused."""
    steps = [note["step"] for note in notes]
    shares = (("holdout_valid", "valid decisions", "good"), ("holdout_refused", "refused orders", "bad"))
    return Chart(
        title="Answers on held-out windows",
        x=ITERATION,
        y=ChartAxis(title="share", percent=True, zero=True),
        series=[
            Series(name=shown, x=steps, y=[note.get(name) for note in notes], points=True, colour=colour)
            for name, shown, colour in shares
        ],
    )


def scores_figure(notes: Sequence[Note]) -> Chart:
    """Draw the mean of each iteration's own scores, between the lowest and the highest."""
    steps = [note["step"] for note in notes]
    low, high, mean = ([note[name] for note in notes] for name in ("score_min", "score_max", "score_mean"))
    return Chart(
        title="Scores of the iteration's own episodes",
        x=ITERATION,
        y=ChartAxis(title="score"),
        series=[
            BandSeries(name="lowest to highest", x=steps, low=low, high=high, colour="warn"),
            Series(name="mean", x=steps, y=mean, points=True, width=3, colour="warn"),
        ],
    )


def moved_figure(notes: Sequence[Note], *, wide: bool = False) -> Chart:
    """Draw how far each iteration moved the policy, and how many groups taught nothing."""
    steps = [note["step"] for note in notes]
    flat = [note["flat"] / max(note["windows"], 1) for note in notes]
    return Chart(
        title="How the policy moves",
        x=ITERATION,
        y=ChartAxis(title="KL an iteration", zero=True),
        right=ChartAxis(title="groups without spread", percent=True, range=(0.0, 1.0)),
        series=[
            BarSeries(name="groups without spread, right axis", x=steps, y=flat, right=True, colour="dim"),
            Series(name="KL", x=steps, y=[note["kl"] for note in notes], points=True, width=3, colour="warn"),
        ],
        wide=wide,
    )


def loss_figure(notes: Sequence[Note]) -> Chart:
    """Draw the loss of each step."""
    return Chart(
        title="Loss of the answers' tokens",
        x=ChartAxis(title="steps of training"),
        y=ChartAxis(title="nats a token", kind="log"),
        series=[Series(name="loss", x=[note["step"] for note in notes], y=[note["loss"] for note in notes])],
        wide=True,
    )


def holdout_table(result: Mapping[str, Any]) -> PageSection | None:
    """Show money and answers on held-out windows before and after; nothing for runs that held none out."""
    before, after = result.get("before"), result.get("after")
    if not before or not after:
        return None
    payload = [("before", before), *([(f"after {after['step']} iterations", after)] if after["step"] else [])]
    rows = [
        (
            name,
            _money(item, "holdout_pnl"),
            f"{item['holdout_valid']:.0%}",
            f"{item['holdout_refused']:.0%}",
            f"{item['holdout_trades']:.2f}",
        )
        for name, item in payload
    ]
    gain = [f"Gain, paired window by window: {_money(after, 'gain')}."] if "gain" in after else []
    table = PageTable(head=("", "money a window", "valid", "refused", "trades a window"), rows=rows)
    return PageSection(f"On {before['holdout_windows']} held-out windows", [*gain, table])


def _money(payload: Mapping[str, Any], name: str) -> str:
    value, low, high = (payload[item] / UNIT for item in (name, f"{name}_low", f"{name}_high"))
    return f"{value:+.2f} (95 % {low:+.2f} to {high:+.2f})"
