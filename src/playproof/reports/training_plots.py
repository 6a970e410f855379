"""Plots of what was learned from data: how many rounds were enough, how trials went, who earned what, calibration.

Each is drawn from a run's notes of one kind. Leaves out: the page (page).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Note = dict[str, Any]
MONEY, BESIDE, GREY = "#4cc38a", "#f5a524", "#9fb0c0"


def lesson_figures(notes: Sequence[Note]) -> list[tuple[str, Figure]]:
    """Give the plots that the notes allow, each with its width."""
    kinds = {"rounds": rounds_figure, "trial": trials_figure, "player": players_figure, "bin": bins_figure}
    results = []
    for kind, draw in kinds.items():
        own = [note for note in notes if note["kind"] == kind]
        if own:
            results.append(("wide", draw(own)))
    return results


def error_bars(middle: Sequence[float], low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    """Give the bars from the low ends of intervals to the high ones."""
    up = [end - value for value, end in zip(middle, high, strict=True)]
    down = [value - end for value, end in zip(middle, low, strict=True)]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "color": GREY}


def rounds_figure(notes: Sequence[Note]) -> Figure:
    """Draw balanced accuracy over the rounds that a clone was shown, by head."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("How many rounds are enough", "balanced accuracy", xaxis_title="demonstrated rounds")
    heads = sorted(name for name in notes[0] if name.startswith("head_"))
    for name, colour in zip(heads, (MONEY, BESIDE, GREY), strict=False):
        drawn.add_scatter(x=[note["step"] for note in notes], y=[note[name] for note in notes],
                          name=name.replace("_", " "), mode="lines+markers", line={"color": colour})  # fmt: skip
    return drawn


def trials_figure(notes: Sequence[Note]) -> Figure:
    """Draw each trial's return, and the best so far."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("Trials: return on validation windows", "return on the stake", xaxis_title="trial")
    ended = sorted((note for note in notes if note.get("worth") is not None), key=lambda note: note["step"])
    steps, worth = [note["step"] for note in ended], [note["worth"] for note in ended]
    drawn.add_scatter(x=steps, y=worth, mode="markers", marker={"color": GREY, "size": 9}, name="finished trials")
    best = [max(worth[: index + 1]) for index in range(len(worth))]
    drawn.add_scatter(x=steps, y=best, name="best so far", line={"color": MONEY, "shape": "hv", "width": 3})
    return drawn


def players_figure(notes: Sequence[Note]) -> Figure:
    """Draw each player's return over the same windows, with its 95 % interval."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("Return on the stake, the same fresh windows for all", "return on the stake", xaxis_title="")
    drawn.add_bar(x=[note["name"] for note in notes], y=[note["roi"] for note in notes], marker_color=MONEY,
                  error_y={"type": "data", "array": [1.96 * note["se"] for note in notes], "color": GREY},
                  name="mean, 95 % interval")  # fmt: skip
    return drawn


def bins_figure(notes: Sequence[Note]) -> Figure:
    """Draw what happened over what was predicted: on the diagonal where probabilities are true."""
    from playproof.reports.run import empty_figure

    drawn = empty_figure("Calibration on test windows", "share that happened", xaxis_title="predicted probability")
    ends = [min(note["predicted"] for note in notes), max(note["predicted"] for note in notes)]
    drawn.add_scatter(x=ends, y=ends, name="true probabilities", line={"color": GREY, "dash": "dot"})
    observed, low, high = ([note[name] for note in notes] for name in ("observed", "low", "high"))
    drawn.add_scatter(x=[note["predicted"] for note in notes], y=observed, error_y=error_bars(observed, low, high),
                      mode="markers", marker={"color": MONEY, "size": 10}, name="predicted, 95 % interval")  # fmt: skip
    return drawn
