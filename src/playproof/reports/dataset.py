"""The card of a data set: one HTML file that shows what is in it, and opens without a network.

What can be counted is counted over every row; what a game may say (its phases, how long its windows should last) comes
through its record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from playproof.datasets.build import GAP
from playproof.datasets.dataset import Dataset, SessionTables
from playproof.game import WAIT, DataCard, Game, first, load_game
from playproof.reports.chart import (
    COLOURS,
    BandSeries,
    BarSeries,
    Chart,
    ChartAxis,
    MarkerSeries,
    Series,
    action_colour,
)
from playproof.reports.page import PageSection, PageTable, render

EXAMPLES = 4
"""Episodes that are drawn whole."""
TICKS = (10, 40, 100, 138, 200, 400)
"""Lengths at which the survival table compares."""
POINTS = 200
"""Points of a curve."""
ADJUSTED = "adjustment"
"""A choice of a head after the first."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Part = str | Chart | PageTable | PageSection


@dataclass
class DatasetCounts:
    """What was counted over all sessions."""

    lengths: list[int] = field(default_factory=list)
    """Of whole windows, once each."""
    starts: dict[str, tuple[datetime, int]] = field(default_factory=dict)
    """When each window began, and the steps of its longest episode."""
    actions: list[Counter[str]] = field(default_factory=list)
    """Names by head; the first of a later head adjusts nothing and is not counted."""
    phases: dict[str, Counter[str]] = field(default_factory=dict)
    """What was pressed, by phase."""
    missing: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    rewards: list[Any] = field(default_factory=list)
    """What steps paid, those that paid anything."""
    returns: list[float] = field(default_factory=list)
    """What whole episodes paid."""
    busy: list[tuple[int, str, str]] = field(default_factory=list)
    """Presses, session and window of each episode."""


def count(dataset: Dataset, game: Game) -> DatasetCounts:
    """Go through every session once."""
    dataset_counts = DatasetCounts(actions=[Counter() for _ in dataset.manifest["actions"]["heads"]])
    seen: set[str] = set()
    for session, tables in dataset.sessions.items():
        for episode in tables.episodes:
            _count_window(dataset_counts, episode, game.display().card, seen)
        _count_steps(dataset_counts, dataset, tables, game.display().card)
        _count_episodes(dataset_counts, session, tables)
    return dataset_counts


def _count_window(
    dataset_counts: DatasetCounts, episode: Mapping[str, Any], showing: DataCard | None, seen: set[str]
) -> None:
    window, start = episode["window_id"], _EPOCH + timedelta(microseconds=episode["start_us"])
    known = dataset_counts.starts.get(window, (start, 0))
    dataset_counts.starts[window] = (min(start, known[0]), max(int(episode["steps"]), known[1]))
    length = (episode["outcome"] or {}).get(showing.length) if showing else None
    if isinstance(length, int) and window not in seen:
        seen.add(window)
        dataset_counts.lengths.append(length)


def _count_steps(
    dataset_counts: DatasetCounts, dataset: Dataset, tables: SessionTables, showing: DataCard | None
) -> None:
    """Count choices, phases and what was unknown at each step."""
    heads: Sequence[Sequence[str]] = dataset.manifest["actions"]["heads"]
    taken, rows = tables["actions"], tables["observations"].filter(~pl.col("final"))
    dataset_counts.steps += taken.height
    for position, names in enumerate(heads):
        numbers = taken[f"head_{position}"].value_counts()
        chosen = {names[index]: int(times) for index, times in numbers.iter_rows() if index or not position}
        dataset_counts.actions[position].update(chosen)
    for name in dataset.manifest["stored_features"]:
        dataset_counts.missing[name] += int(rows[f"{name}__missing"].sum())
    if showing is not None and showing.phase in rows.columns:
        for names, codes in zip(_pressed(taken, heads), rows[showing.phase].to_list(), strict=True):
            for name in names:
                dataset_counts.phases.setdefault(showing.phases[int(codes)], Counter())[name] += 1


def _pressed(taken: pl.DataFrame, heads: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Name what was pressed at each step, by the first head or, for those that only adjust something, together."""
    columns = [taken[f"head_{index}"].to_list() for index in range(len(heads))]
    for row in zip(*columns, strict=True):
        yield tuple(ADJUSTED if position else heads[position][index] for position, index in enumerate(row) if index)


def _count_episodes(dataset_counts: DatasetCounts, session: str, tables: SessionTables) -> None:
    paid, taken = tables["rewards"], tables["actions"]
    rewards = paid["reward"].to_numpy()
    dataset_counts.rewards.append(rewards[rewards != 0])
    sums = paid.group_by("window_id", maintain_order=True).agg(pl.col("reward").sum())
    dataset_counts.returns += sums["reward"].to_list()
    pressed = pl.any_horizontal(pl.col("^head_.*$") != 0)
    for window, presses in taken.group_by("window_id", maintain_order=True).agg(pressed.sum()).iter_rows():
        dataset_counts.busy.append((int(presses), session, window))


def survival_rows(lengths: Sequence[int], game: Game, world: str | None) -> list[dict[str, float]]:
    """Compare how many windows lasted longer than so many ticks with what theory says; nothing without theory."""
    card = game.display().card
    theory = card.survival if card else None
    if theory is None or not lengths:
        return []
    chance, name = theory, world or first(game.worlds)
    rows = []
    for ticks in TICKS:
        expected = chance(name, ticks)
        measured = sum(length > ticks for length in lengths) / len(lengths)
        error = float(np.sqrt(expected * (1 - expected) / len(lengths)))
        score = (measured - expected) / error if error else 0.0
        rows.append({"ticks": ticks, "measured": measured, "theory": expected, "error": error, "z": score})
    return rows


def write_card(dataset: Dataset, path: Path) -> Path:
    """Write the card; give its path."""
    manifest = dataset.manifest
    game = load_game(manifest["game"]["name"])
    result = count(dataset, game)
    sections: dict[str, Iterable[Part]] = {
        "How long windows last": _lengths(result, game, manifest["world"]),
        "What was done": [_bars(_mix(result), "steps", log=True), _action_note(result)],
        "Presses by phase": _phases(result, game.display().card, manifest["actions"]["heads"][0]),
        "Example episodes": _examples(dataset, result, game),
        "Rewards": _rewards(result, manifest["reward"]),
        "What is unknown": [_bars(_missing(result), "share of steps"), _MISSING_NOTE],
        "Splits in time": [_timeline(result, manifest["split"]), _SPLIT_NOTE],
        "Left out": _left_out(manifest["left_out"]),
    }
    splits = Counter(manifest["split"].values())
    facts = {
        "windows": len(manifest["split"]),
        "episodes": manifest["episodes"],
        "steps": manifest["steps"],
        "sessions": len(manifest["sessions"]),
        "left out": len(manifest["left_out"]),
        "features stored": len(manifest["stored_features"]),
        **{f"{name} windows": times for name, times in splits.items()},
    }
    text = render(
        "report.html",
        title=f"{manifest['name']}: data card",
        heading=manifest["name"],
        notes=[
            f"Game {manifest['game']['name']}; observation set {manifest['observation']} ({len(manifest['features'])}"
            f" features), stored as {manifest['stored']}; actions {manifest['actions']['name']}; reward"
            f" {manifest['reward']['name']}.",
            f"Content hash {manifest['hash']}",
        ],
        facts=[(name, f"{value:,}") for name, value in facts.items()],
        sections=[PageSection(title, list(parts)) for title, parts in sections.items()],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _lengths(dataset_counts: DatasetCounts, game: Game, world: str | None) -> Iterator[Part]:
    """Draw the share of windows that lasted longer than so many ticks, beside the theory and twice its noise."""
    card = game.display().card
    if not dataset_counts.lengths or card is None:
        yield "This game does not say how long its windows last."
        return
    longest = max(dataset_counts.lengths)
    ticks = np.unique(np.linspace(0, longest, min(POINTS, longest + 1)).astype(int))
    x = ticks.tolist()
    lasting = [float(np.mean(np.array(dataset_counts.lengths) > tick)) for tick in x]
    series = [Series(name="measured", x=x, y=lasting, step=True, colour="blue")]
    if card.survival is not None:
        chance, name = card.survival, world or first(game.worlds)
        theory = np.array([chance(name, int(tick)) for tick in ticks])
        noise = 2 * np.sqrt(theory * (1 - theory) / len(dataset_counts.lengths))
        high, low = np.minimum(theory + noise, 1.0).tolist(), np.maximum(theory - noise, 0.0).tolist()
        series = [
            BandSeries(name="theory, 2 standard errors", x=x, low=low, high=high, colour="warn"),
            Series(name=f"theory ({name})", x=x, y=theory.tolist(), colour="warn", dash="dash"),
            *series,
        ]
    axis = ChartAxis(title="share that lasts longer", percent=True, zero=True)
    yield Chart(title="How long windows last", x=ChartAxis(title=f"{card.clock}s"), y=axis, series=series)
    rows = survival_rows(dataset_counts.lengths, game, world)
    if rows:
        worst = max(abs(row["z"]) for row in rows)
        figures = ("measured", "theory", "error")
        yield PageTable(
            head=("longer than", *figures, "z"),
            rows=[(int(row["ticks"]), *(f"{row[name]:.3f}" for name in figures), f"{row['z']:+.2f}") for row in rows],
        )
        yield (
            f"{len(dataset_counts.lengths)} whole windows; the largest difference from theory is {worst:.1f} "
            "standard errors (below 3 is noise)."
        )


def _mix(dataset_counts: DatasetCounts) -> dict[str, float]:
    """Give every choice that was made, of all heads."""
    names: Counter[str] = Counter()
    for head in dataset_counts.actions:
        names.update(head)
    return {name: float(times) for name, times in names.most_common()}


def _action_note(dataset_counts: DatasetCounts) -> str:
    waits, total = dataset_counts.actions[0][WAIT], sum(dataset_counts.actions[0].values())
    acted = total - waits
    return (
        f"{total} steps: {waits} say {WAIT}, adjustments among them, {acted} are orders. Every tick in which one could"
        " act is a step."
    )


def _phases(dataset_counts: DatasetCounts, showing: DataCard | None, heads: Sequence[str]) -> Iterator[Part]:
    if showing is None or showing.phase is None:
        yield "This game has no phases."
        return
    if not dataset_counts.phases:
        yield "Nobody pressed anything in these recordings."
        return
    names = list(dict.fromkeys(name for phase in showing.phases for name in dataset_counts.phases.get(phase, ())))
    phases = [phase for phase in showing.phases if phase in dataset_counts.phases]
    yield Chart(
        title="Presses by phase",
        y=ChartAxis(title="presses"),
        series=[
            BarSeries(
                name=name,
                x=phases,
                y=[dataset_counts.phases[phase][name] for phase in phases],
                colour=action_colour(name, heads),
            )
            for name in names
        ],
        stacked=True,
    )


def _examples(dataset: Dataset, dataset_counts: DatasetCounts, game: Game) -> Iterator[Part]:
    """Draw the episodes with most presses, or without any the middle ones."""
    card = game.display().card
    if card is None:
        yield "This game does not say what to draw."
        return
    chosen = [item for item in sorted(dataset_counts.busy, reverse=True) if item[0]] or dataset_counts.busy[
        len(dataset_counts.busy) // 2 :
    ]
    for presses, session, window in chosen[:EXAMPLES]:
        chart = example_chart(dataset, session, window, card)
        yield PageSection(window, [f"session {session}, {presses} presses", chart])


def example_chart(dataset: Dataset, session: str, window: str, showing: DataCard) -> Chart:
    """Draw the price of one recorded window, and what was pressed in it."""
    tables, heads = dataset.sessions[session], dataset.manifest["actions"]["heads"]
    rows = tables["observations"].filter(pl.col("window_id") == window)
    taken = tables["actions"].filter(pl.col("window_id") == window)
    ticks, prices = rows[showing.clock].to_list(), rows[showing.price].to_list()
    marks: dict[str, tuple[list[float], list[float]]] = {}
    for index, names in enumerate(_pressed(taken, heads)):
        for name in names:
            x, y = marks.setdefault(name, ([], []))
            x.append(ticks[index])
            y.append(prices[index])
    return Chart(
        title=window,
        x=ChartAxis(title=showing.clock),
        y=ChartAxis(title=showing.price),
        series=[
            Series(name=showing.price, x=ticks, y=prices, colour="faint"),
            *(
                MarkerSeries(name=name, x=x, y=y, colour=action_colour(name, heads[0]))
                for name, (x, y) in sorted(marks.items(), key=lambda item: item[0] != ADJUSTED)
            ),
        ],
        numbers=False,
    )


def _rewards(dataset_counts: DatasetCounts, reward: Mapping[str, object]) -> Iterator[Part]:
    paid = np.concatenate(dataset_counts.rewards) if dataset_counts.rewards else np.zeros(0)
    yield (
        f"Reward {reward['name']}, version {reward['version']}: {dataset_counts.steps - len(paid)} of "
        f"{dataset_counts.steps} steps pay 0."
    )
    if len(paid):
        yield _histogram(paid, "Reward of a step that pays anything")
        yield _histogram(np.array(dataset_counts.returns), "Reward of a whole episode")


def _histogram(values: Any, title: str) -> Chart:
    """Draw counts in bins; computed here, so that the page does not hold every value."""
    counts, edges = np.histogram(values, bins=60)
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    return Chart(
        title=title,
        x=ChartAxis(title="reward"),
        y=ChartAxis(title="count", kind="log", range=(0.7, None)),
        series=[BarSeries(x=middles, y=counts.tolist())],
        height=260,
    )


def _missing(dataset_counts: DatasetCounts) -> dict[str, float]:
    return {name: times / max(dataset_counts.steps, 1) for name, times in dataset_counts.missing.most_common() if times}


_MISSING_NOTE = "Where a feature is unknown its row holds the declared fill value; the others are known at every step."
_SPLIT_NOTE = "One point a window: when it began, and how many steps it has. Splits are consecutive and keep a gap."


def _timeline(dataset_counts: DatasetCounts, split: Mapping[str, str]) -> Chart:
    points = []
    for index, name in enumerate(dict.fromkeys(split.values())):
        windows = [window for window, its in split.items() if its == name and window in dataset_counts.starts]
        points.append(
            MarkerSeries(
                name=f"{name} ({len(windows)})",
                x=[dataset_counts.starts[window][0] for window in windows],
                y=[dataset_counts.starts[window][1] for window in windows],
                text=windows,
                colour="faint" if name == GAP else COLOURS[index % len(COLOURS)],
            )
        )
    return Chart(
        title="Splits in time",
        x=ChartAxis(title="began (UTC)", kind="time"),
        y=ChartAxis(title="steps"),
        series=points,
        hover="point",
        numbers=False,
    )


def _left_out(left: Sequence[Mapping[str, str]]) -> Iterator[Part]:
    if not left:
        yield "No window was left out."
        return
    reasons = Counter(item["reason"] for item in left)
    yield PageTable(head=("reason", "windows"), rows=reasons.most_common())
    rows = [(item["window_id"], item["session_id"], item["reason"]) for item in left]
    yield PageSection(
        f"all {len(left)}", [PageTable(head=("window", "session", "reason"), rows=rows, words=3)], folded=True
    )


def _bars(values: Mapping[str, float], x: str, *, log: bool = False) -> Part:
    """Draw bars along x, the largest on top."""
    if not values:
        return "Nothing."
    axis = ChartAxis(title=x, kind="log", range=(0.7, None)) if log else ChartAxis(title=x, percent=True, zero=True)
    return Chart(
        title="",
        x=axis,
        series=[BarSeries(y=list(values), x=list(values.values()))],
        height=60 + 22 * len(values),
    )
