"""A run's plots as one HTML file that opens offline: money first, then what was done and what was rewarded.

Reads the run's folder alone, so that it can be written again at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from playproof.home import write_durably
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.reports.chart import AreaSeries, BandSeries, BarSeries, Chart, ChartAxis, LevelLine, MarkerSeries, Series
from playproof.reports.page import PageSection, PageTable, render

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
            f"Accuracy {head['accuracy']:.3f} of the likeliest choice; always waiting {head['always_wait']:.3f}, the "
            f"choice made most {head['majority']:.3f}. {_named_right(head)}"
            f"Balanced accuracy {head['balanced']:.3f} over {', '.join(head['scored'])}. "
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


def _named_right(head: Mapping[str, Any]) -> str:
    """Say what the table counts: another prediction than the accuracy. Runs of earlier versions did not note it."""
    if "named_right" not in head:
        return ""
    return (
        "The table is about the balanced prediction, to which every choice is equally likely beforehand; it is right"
        f" in {head['named_right']:.1%} of the steps. "
    )


def _flat(payload: Mapping[str, object]) -> Json:
    """Lay nested settings side by side; what has a table of its own is left out."""
    result: Json = {}
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


Note = Json


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


ITERATION = ChartAxis(title="iteration")


def language_figures(notes: Sequence[Note]) -> list[Chart]:
    """Give the plots that the notes allow."""
    held, learned, taught = ([note for note in notes if note["kind"] == kind] for kind in ("holdout", "grpo", "sft"))
    results = []
    if held:
        results += [holdout_figure(held), answers_figure(held)]
    if learned:
        results += [scores_figure(learned), moved_figure(learned, wide=bool(held))]
    if taught:
        results.append(loss_figure(taught))
    return results


def holdout_figure(notes: Sequence[Note]) -> Chart:
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
