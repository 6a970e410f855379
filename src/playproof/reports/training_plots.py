"""Plots of what was learned from data: how many rounds were enough, how trials went, who earned what, calibration.

Each is drawn from a run's notes of one kind. Leaves out: the page (run).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playproof.reports.chart import Chart, ChartAxis, LevelLine, MarkerSeries, Series

Note = dict[str, Any]


def lesson_figures(notes: Sequence[Note]) -> list[Chart]:
    """Give the plots that the notes allow."""
    kinds = {"rounds": rounds_figure, "trial": trials_figure, "player": players_figure, "bin": bins_figure}
    results = []
    for kind, draw in kinds.items():
        own = [note for note in notes if note["kind"] == kind]
        if own:
            results.append(draw(own))
    return results


def rounds_figure(notes: Sequence[Note]) -> Chart:
    """Draw balanced accuracy over the rounds that a clone was shown, by head."""
    heads = sorted(name for name in notes[0] if name.startswith("head_"))
    rounds = [note["step"] for note in notes]
    return Chart(
        title="How many rounds are enough",
        x=ChartAxis(title="demonstrated rounds"),
        y=ChartAxis(title="balanced accuracy"),
        series=[
            Series(name=name.replace("_", " "), x=rounds, y=[note[name] for note in notes], points=True)
            for name in heads
        ],
        wide=True,
    )


def trials_figure(notes: Sequence[Note]) -> Chart:
    """Draw each trial's return, and the best so far."""
    ended = sorted((note for note in notes if note.get("worth") is not None), key=lambda note: note["step"])
    steps, worth = [note["step"] for note in ended], [note["worth"] for note in ended]
    best = [max(worth[: index + 1]) for index in range(len(worth))]
    return Chart(
        title="Trials: return on validation windows",
        x=ChartAxis(title="trial"),
        y=ChartAxis(title="return on the stake"),
        series=[
            Series(name="best so far", x=steps, y=best, step=True, width=3, colour="good"),
            MarkerSeries(name="finished trials", x=steps, y=worth, colour="dim"),
        ],
        wide=True,
    )


def players_figure(notes: Sequence[Note]) -> Chart:
    """Draw each player's return over the same windows, with its 95 % interval."""
    return Chart(
        title="Return on the stake, the same fresh windows for all",
        x=ChartAxis(title="return on the stake", percent=True),
        series=[
            MarkerSeries(
                name="mean, 95 % interval",
                y=[note["name"] for note in notes],
                x=[note["roi"] for note in notes],
                low=[note["roi"] - 1.96 * note["se"] for note in notes],
                high=[note["roi"] + 1.96 * note["se"] for note in notes],
            )
        ],
        levels=[LevelLine(value=0.0, name="not playing", axis="x")],
        height=70 + 34 * len(notes),
        wide=True,
    )


def bins_figure(notes: Sequence[Note]) -> Chart:
    """Draw what happened over what was predicted: on the diagonal where probabilities are true."""
    ends = [min(note["predicted"] for note in notes), max(note["predicted"] for note in notes)]
    predicted, observed, low, high = (
        [note[name] for note in notes] for name in ("predicted", "observed", "low", "high")
    )
    return Chart(
        title="Calibration on test windows",
        x=ChartAxis(title="predicted probability", percent=True),
        y=ChartAxis(title="share that happened", percent=True),
        series=[
            Series(name="true probabilities", x=ends, y=ends, colour="dim", dash="dot"),
            MarkerSeries(name="predicted, 95 % interval", x=predicted, y=observed, low=low, high=high, colour="good"),
        ],
        wide=True,
    )
