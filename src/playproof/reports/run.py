"""A run's plots as one HTML file that opens offline: money first, then what was done and what was rewarded.

Reads the run's folder alone, so that it can be written again at any time. Leaves out: verdicts; a
learning curve on validation windows is no proof of an edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from playproof.money import UNIT
from playproof.policies.checkpoint import write_durably
from playproof.reports.chart import AreaSeries, BandSeries, Chart, ChartAxis, MarkerSeries, Series
from playproof.reports.language_run import holdout_table, language_figures
from playproof.reports.page import PageSection, PageTable, render
from playproof.reports.training_plots import Note, lesson_figures

ENOUGH = 30
"""Held-out choices other than waiting, below which the page says that they are too few."""
STEPS = ChartAxis(title="steps of training")


def money_figure(notes: Sequence[Note]) -> Chart:
    """Draw the profit per window on the validation windows, with its 95 % interval."""
    steps = [note["step"] for note in notes]
    pnl = [note["pnl"] / UNIT for note in notes]
    errors = [1.96 * (note["pnl_se"] or 0.0) / UNIT for note in notes]
    series: list[Series] = [
        BandSeries(
            name="95 % interval",
            x=steps,
            low=[value - error for value, error in zip(pnl, errors, strict=True)],
            high=[value + error for value, error in zip(pnl, errors, strict=True)],
            colour="good",
        ),
        Series(name="validation, greedy", x=steps, y=pnl, width=3, colour="good"),
    ]
    alarms = [note for note in notes if note.get("alarm")]
    if alarms:
        series.append(
            MarkerSeries(
                name="alarm: reward rises, money does not",
                x=[note["step"] for note in alarms],
                y=[note["pnl"] / UNIT for note in alarms],
                symbol="cross",
                colour="bad",
            )
        )
    title = "Money: profit per validation window"
    return Chart(title=title, x=STEPS, y=ChartAxis(title="coins per window"), series=series, height=380, wide=True)


def mix_figure(notes: Sequence[Note]) -> Chart:
    """Draw the share of each action among all steps; WAIT is left out of the stack, since it dwarfs the others."""
    steps = [note["step"] for note in notes]
    names = [name for name in notes[0].get("mix", {}) if name != "WAIT"]
    return Chart(
        title="What is done: action mix over training",
        x=STEPS,
        y=ChartAxis(title="share of steps", percent=True),
        series=[AreaSeries(name=name, x=steps, y=[note["mix"][name] for note in notes]) for name in names],
        stacked=True,
    )


def divergence_figure(notes: Sequence[Note]) -> Chart:
    """Draw reward against money, one point an evaluation: they must rise together."""
    pnl, reward = [note["pnl"] / UNIT for note in notes], [note["reward"] for note in notes]
    return Chart(
        title="Reward against money",
        x=ChartAxis(title="coins per window"),
        y=ChartAxis(title="reward per window"),
        series=[
            Series(x=pnl, y=reward, colour="faint", width=1, legend=False),
            MarkerSeries(
                name="evaluations, stronger is later",
                x=pnl,
                y=reward,
                tint=[(index + 1) / len(notes) for index in range(len(notes))],
                text=[f"after {note['step']:,} steps" for note in notes],
                colour="violet",
            ),
        ],
        hover="point",
    )


def components_figure(notes: Sequence[Note]) -> Chart:
    """Draw the reward by component."""
    steps = [note["step"] for note in notes]
    return Chart(
        title="Reward by component",
        x=STEPS,
        y=ChartAxis(title="reward per window"),
        series=[
            Series(name=name, x=steps, y=[note.get("components", {}).get(name) for note in notes])
            for name in notes[-1].get("components", {})
        ],
        wide=True,
    )


def learning_figure(notes: Sequence[Note], names: Sequence[str], title: str) -> Chart:
    """Draw some numbers of the updates."""
    steps = [note["step"] for note in notes]
    return Chart(
        title=title,
        x=STEPS,
        series=[
            Series(name=name, x=steps, y=[note.get(name) for note in notes])
            for name in names
            if any(name in note for note in notes)
        ],
    )


def figures(notes: Sequence[Note]) -> list[Chart]:
    """Give the plots that a run's notes allow."""
    evaluations = [note for note in notes if note["kind"] == "evaluation"]
    updates = [note for note in notes if note["kind"] == "train"]
    results = []
    if evaluations:
        results.append(money_figure(evaluations))
        if evaluations[0].get("mix"):
            results.append(mix_figure(evaluations))
        if "reward" in evaluations[0]:
            results.append(divergence_figure(evaluations))
        if evaluations[-1].get("components"):
            results.append(components_figure(evaluations))
    if updates:
        results.append(learning_figure(updates, ("loss", "policy_loss", "value_loss", "anchor"), "Losses"))
        moves = ("entropy", "approx_kl", "clip_fraction")
        if any(name in update for update in updates for name in moves):
            results.append(learning_figure(updates, moves, "How the policy moves"))
    return results + lesson_figures(notes) + language_figures(notes)


def page(path: Path) -> str:
    """Write the page of a run's folder."""
    from playproof.train.run import read_config, read_log, read_result

    payload, result, notes = read_config(path), read_result(path), read_log(path)
    shown = {**_flat(payload["config"]), **{f"result: {name}": value for name, value in _flat(result).items()}}
    sections = [section for section in (likeness_tables(result), holdout_table(result)) if section]
    return render(
        "report.html",
        title=f"{payload['method']} run {path.name}",
        lead=_lead(path, payload["method"], notes),
        charts=figures(notes),
        sections=sections,
        settings=[(name, _short(value)) for name, value in sorted(shown.items()) if value not in (None, "", {}, [])],
        footer=(
            f"Commit {payload['commit']}. Plots in whole coins or USD; money in the last table in the smallest unit."
        ),
    )


def _lead(path: Path, method: str, notes: Sequence[Note]) -> str:
    """Say what the plots show, and what they do not."""
    text = "This is how it learned, not a proof of an edge: that is what validate gives."
    if any(note["kind"] == "holdout" for note in notes):
        text = f"Money on held-out windows, the same ones every time. {text}"
    if any(note["kind"] == "evaluation" for note in notes):
        text = f"Money on validation windows, the same ones at every evaluation. {text}"
    if method != "ppo":
        return text
    from playproof.train.ppo.restarts import list_restarts  # needs the extra `train`, which language models do without

    if len(tried := list_restarts(path)) > 1:
        profits = ", ".join(f"{item.profit / UNIT:+.5f}" for item in tried)
        text += f" Begun {len(tried)} times; the best went on (coins per window: {profits})."
    return text


def likeness_tables(result: Mapping[str, Any]) -> PageSection | None:
    """Show how well a clone knows its player, head by head and choice by choice; nothing for other runs."""
    heads, mix = result.get("heads") or (), result.get("mix") or {}
    if not heads:
        return None
    played = any(shares[1] is not None for shares in mix.values())
    parts = []
    acted = 0
    for number, head in enumerate(heads):
        summary = (
            f"Accuracy {head['accuracy']:.3f}; always waiting {head['always_wait']:.3f}, the choice made most "
            f"{head['majority']:.3f}. Balanced accuracy {head['balanced']:.3f} over {', '.join(head['scored'])}. "
            f"Log loss {head['log_loss']:.4f} nats, of his mix alone {head['mix_loss']:.4f}."
        )
        acted += sum(map(sum, head["confusion"][1:]))
        rows = [
            (name, *map(_share, mix.get(name, (None, None))[: 1 + played]), _share(precision), _share(recall), *named)
            for name, precision, recall, named in zip(
                head["choices"], head["precision"], head["recall"], head["confusion"], strict=True
            )
        ]
        shares = ("player's share", "clone's share")[: 1 + played]
        table = PageTable(head=("choice", *shares, "precision", "recall", *head["choices"]), rows=rows)
        parts.append(PageSection(f"Head {number + 1}", [summary, table]))
    scored = f"{result['scored_steps']:,}" if "scored_steps" in result else "the"
    few = "" if acted >= ENOUGH else f" He did something {acted} times in them: too few to tell how well it knows him."
    text = (
        f"On {scored} held-out steps; the last columns count what a balanced prediction names where he chose what the "
        f"row says.{few}"
    )
    return PageSection("How well it knows the player", [text, *parts])


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
