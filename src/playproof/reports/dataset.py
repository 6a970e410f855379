"""The card of a data set: one HTML file that shows what is in it, and opens without a network.

What can be counted is counted over every row; what a game may say (its phases, how long its windows should last) comes
through its record. Leaves out: judging the data (check) and drawing in Python: figures are plain Plotly records.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from playproof.datasets.dataset import Dataset, SessionTables
from playproof.datasets.split import GAP
from playproof.game import WAIT, DataCard, Game, first, load_game

EXAMPLES = 4
"""Episodes that are drawn whole."""
TICKS = (10, 40, 100, 138, 200, 400)
"""Lengths at which the survival table compares."""
POINTS = 200
"""Points of a curve."""
ADJUSTED = "adjustment"
"""A choice of a head after the first."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLOURS = ("#2a6f97", "#e07a5f", "#81b29a", "#f2cc8f", "#6d597a", "#b56576", "#355070", "#8d99ae")
_GREY = "#b8bec6"

Figure = Mapping[str, Any]


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
    game = load_game(dataset.manifest["game"]["name"])
    result = count(dataset, game)
    sections = [
        _section("How long windows last", *_lengths(result, game, dataset.manifest["world"])),
        _section("What was done", _bars(_mix(result), "steps", log=True), _action_note(result)),
        _section("Presses by phase", *_phases(result, game.display().card, dataset.manifest["actions"]["heads"][0])),
        _section("Example episodes", *_examples(dataset, result, game)),
        _section("Rewards", *_rewards(result, dataset.manifest["reward"])),
        _section("What is unknown", _bars(_missing(result), "share of steps"), _MISSING_NOTE),
        _section("Splits in time", _timeline(result, dataset.manifest["split"]), _SPLIT_NOTE),
        _section("Left out", *_left_out(dataset.manifest["left_out"])),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(dataset, "\n".join(sections)), encoding="utf-8")
    return path


def _lengths(dataset_counts: DatasetCounts, game: Game, world: str | None) -> Iterator[Figure | str]:
    """Draw the share of windows that lasted longer than so many ticks, beside the theory and twice its noise."""
    card = game.display().card
    if not dataset_counts.lengths or card is None:
        yield "This game does not say how long its windows last."
        return
    longest = max(dataset_counts.lengths)
    ticks = np.unique(np.linspace(0, longest, min(POINTS, longest + 1)).astype(int))
    lasting = [float(np.mean(np.array(dataset_counts.lengths) > tick)) for tick in ticks]
    lines = [_line(ticks.tolist(), lasting, "measured", _COLOURS[0], shape="hv")]
    if card.survival is not None:
        chance, name = card.survival, world or first(game.worlds)
        theory = np.array([chance(name, int(tick)) for tick in ticks])
        noise = 2 * np.sqrt(theory * (1 - theory) / len(dataset_counts.lengths))
        above, below = np.minimum(theory + noise, 1.0), np.maximum(theory - noise, 0.0)
        band = [*above.tolist(), *below[::-1].tolist()]
        lines = [
            {
                "x": [*ticks.tolist(), *ticks[::-1].tolist()],
                "y": band,
                "fill": "toself",
                "mode": "lines",
                "line": {"width": 0},
                "fillcolor": "rgba(224,122,95,0.18)",
                "name": "theory, 2 standard errors",
                "hoverinfo": "skip",
            },
            _line(ticks.tolist(), theory.tolist(), f"theory ({name})", _COLOURS[1], dash="dash"),
            *lines,
        ]
    yield _figure(lines, x=f"{card.clock}s", y="share that lasts longer", rangemode="tozero")
    rows = survival_rows(dataset_counts.lengths, game, world)
    if rows:
        worst = max(abs(row["z"]) for row in rows)
        yield _table(
            ("longer than", "measured", "theory", "error", "z"),
            [
                (
                    int(row["ticks"]),
                    f"{row['measured']:.3f}",
                    f"{row['theory']:.3f}",
                    f"{row['error']:.3f}",
                    f"{row['z']:+.2f}",
                )
                for row in rows
            ],
        )
        yield (
            f"{len(dataset_counts.lengths)} whole windows; the largest difference from theory is {worst:.1f} "
            f"standard errors"
            " (below 3 is noise)."
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


def _colour(name: str, head: Sequence[str]) -> str:
    """Give an action the same colour everywhere."""
    return _COLOURS[(head.index(name) if name in head else 0) % len(_COLOURS)]


def _phases(dataset_counts: DatasetCounts, showing: DataCard | None, heads: Sequence[str]) -> Iterator[Figure | str]:
    if showing is None or showing.phase is None:
        yield "This game has no phases."
        return
    if not dataset_counts.phases:
        yield "Nobody pressed anything in these recordings."
        return
    names = list(dict.fromkeys(name for phase in showing.phases for name in dataset_counts.phases.get(phase, ())))
    phases = [phase for phase in showing.phases if phase in dataset_counts.phases]
    bars = [
        {
            "type": "bar",
            "name": name,
            "x": phases,
            "y": [dataset_counts.phases[phase][name] for phase in phases],
            "marker": {"color": _colour(name, heads)},
        }
        for name in names
    ]
    yield _figure(bars, y="presses", barmode="stack")


def _examples(dataset: Dataset, dataset_counts: DatasetCounts, game: Game) -> Iterator[Figure | str]:
    """Draw the episodes with most presses, or without any the middle ones."""
    card = game.display().card
    if card is None:
        yield "This game does not say what to draw."
        return
    chosen = [item for item in sorted(dataset_counts.busy, reverse=True) if item[0]] or dataset_counts.busy[
        len(dataset_counts.busy) // 2 :
    ]
    for presses, session, window in chosen[:EXAMPLES]:
        yield f"<h3>{escape(window)}</h3><p>session {escape(session)}, {presses} presses</p>"
        yield _example(dataset, session, window, card)


def _example(dataset: Dataset, session: str, window: str, showing: DataCard) -> Figure:
    tables, heads = dataset.sessions[session], dataset.manifest["actions"]["heads"]
    rows = tables["observations"].filter(pl.col("window_id") == window)
    taken = tables["actions"].filter(pl.col("window_id") == window)
    ticks, prices = rows[showing.clock].to_list(), rows[showing.price].to_list()
    lines = [_line(ticks, prices, showing.price, _GREY)]
    marks: dict[str, tuple[list[float], list[float]]] = {}
    for index, names in enumerate(_pressed(taken, heads)):
        for name in names:
            x, y = marks.setdefault(name, ([], []))
            x.append(ticks[index])
            y.append(prices[index])
    for name, (x, y) in sorted(marks.items(), key=lambda item: item[0] != ADJUSTED):
        size = 6 if name == ADJUSTED else 9
        mark = {"size": size, "color": _colour(name, heads[0]), "line": {"width": 1, "color": "white"}}
        lines.append({"x": x, "y": y, "mode": "markers", "name": name, "marker": mark})
    return _figure(lines, x=showing.clock, y=showing.price)


def _rewards(dataset_counts: DatasetCounts, reward: Mapping[str, Any]) -> Iterator[Figure | str]:
    paid = np.concatenate(dataset_counts.rewards) if dataset_counts.rewards else np.zeros(0)
    name, version = escape(reward["name"]), escape(str(reward["version"]))
    yield (
        f"Reward <b>{name}</b>, version {version}: {dataset_counts.steps - len(paid)} of "
        f"{dataset_counts.steps} steps pay 0."
    )
    if len(paid):
        yield _histogram(paid, "reward of a step that pays anything")
        yield _histogram(np.array(dataset_counts.returns), "reward of a whole episode")


def _histogram(values: Any, x: str) -> Figure:
    """Draw counts in bins; computed here, so that the page does not hold every value."""
    counts, edges = np.histogram(values, bins=60)
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    return _figure(
        [{"type": "bar", "x": middles, "y": counts.tolist(), "marker": {"color": _COLOURS[0]}}], x=x, log=True
    )


def _missing(dataset_counts: DatasetCounts) -> dict[str, float]:
    return {name: times / max(dataset_counts.steps, 1) for name, times in dataset_counts.missing.most_common() if times}


_MISSING_NOTE = "Where a feature is unknown its row holds the declared fill value; the others are known at every step."
_SPLIT_NOTE = "One point a window: when it began, and how many steps it has. Splits are consecutive and keep a gap."


def _timeline(dataset_counts: DatasetCounts, split: Mapping[str, str]) -> Figure:
    points = []
    for index, name in enumerate(dict.fromkeys(split.values())):
        windows = [window for window, its in split.items() if its == name and window in dataset_counts.starts]
        mark = {"size": 6, "color": _GREY if name == GAP else _COLOURS[index % len(_COLOURS)]}
        points.append(
            {
                "x": [dataset_counts.starts[window][0].isoformat() for window in windows],
                "y": [dataset_counts.starts[window][1] for window in windows],
                "text": windows,
                "mode": "markers",
                "name": f"{name} ({len(windows)})",
                "marker": mark,
            }
        )
    return _figure(points, x="began (UTC)", y="steps")


def _left_out(left: Sequence[Mapping[str, str]]) -> Iterator[Figure | str]:
    if not left:
        yield "No window was left out."
        return
    reasons = Counter(item["reason"] for item in left)
    yield _table(("reason", "windows"), [(reason, times) for reason, times in reasons.most_common()])
    rows = [(item["window_id"], item["session_id"], item["reason"]) for item in left]
    yield f"<details><summary>all {len(left)}</summary>{_table(('window', 'session', 'reason'), rows)}</details>"


def _line(x: Sequence[float], y: Sequence[float], name: str, colour: str, **line: str) -> dict[str, Any]:
    return {"x": x, "y": y, "mode": "lines", "name": name, "line": {"color": colour, "width": 2, **line}}


def _bars(values: Mapping[str, float], x: str, *, log: bool = False) -> Figure | str:
    """Draw horizontal bars, the largest on top."""
    if not values:
        return "Nothing."
    names, lengths = list(values)[::-1], list(values.values())[::-1]
    bar = {"type": "bar", "orientation": "h", "x": lengths, "y": names, "marker": {"color": _COLOURS[0]}}
    figure = dict(_figure([bar], x=x))
    figure["layout"] = figure["layout"] | {
        "height": 90 + 20 * len(names),
        "margin": {"l": 150, "r": 16, "t": 10, "b": 44},
    }
    if log:
        decades = [-0.1, float(np.log10(max(lengths))) + 0.1]
        figure["layout"]["xaxis"] = figure["layout"]["xaxis"] | {"type": "log", "range": decades, "dtick": 1}
    return figure


def _figure(data: Sequence[Mapping[str, Any]], x: str = "", y: str = "", *, log: bool = False, **layout: Any) -> Figure:
    rangemode = layout.pop("rangemode", "normal")
    return {
        "data": list(data),
        "layout": {
            "height": 320,
            "margin": {"l": 52, "r": 16, "t": 10, "b": 44},
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#22303c"},
            "paper_bgcolor": "white",
            "plot_bgcolor": "white",
            "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
            "showlegend": len(data) > 1,
            "xaxis": {"title": {"text": x}, "gridcolor": "#eceff2", "zeroline": False, "automargin": True},
            "yaxis": {
                "title": {"text": y},
                "gridcolor": "#eceff2",
                "zeroline": False,
                "rangemode": rangemode,
                "type": "log" if log else None,
                "automargin": True,
            },
            **layout,
        },
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def _section(title: str, *parts: Figure | str) -> str:
    """Write a section: figures become places that the page's script fills."""
    written = [_paragraph(part) if isinstance(part, str) else _place(part) for part in parts]
    return f"<section><h2>{escape(title)}</h2>{''.join(written)}</section>"


def _paragraph(text: str) -> str:
    return text if text.startswith("<") else f"<p>{text}</p>"


def _place(figure: Figure) -> str:
    payload = json.dumps(figure, allow_nan=False).replace("<", "\\u003c")
    height = figure["layout"]["height"]
    return f'<div class="figure" style="height:{height}px"><script type="application/json">{payload}</script></div>'


def _tiles(dataset: Dataset) -> str:
    manifest = dataset.manifest
    splits = Counter(manifest["split"].values())
    payload = {
        "windows": len(manifest["split"]),
        "episodes": manifest["episodes"],
        "steps": manifest["steps"],
        "sessions": len(manifest["sessions"]),
        "left out": len(manifest["left_out"]),
        "features stored": len(manifest["stored_features"]),
        **{f"{name} windows": times for name, times in splits.items()},
    }
    return "".join(
        f'<div class="tile"><b>{value:,}</b><span>{escape(name)}</span></div>' for name, value in payload.items()
    )


_STYLE = """
:root{color-scheme:light}
*{box-sizing:border-box}
body{margin:0;background:#f5f6f8;color:#22303c;font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:980px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:26px;margin:0 0 2px;overflow-wrap:anywhere}
h2{font-size:18px;margin:0 0 8px}h3{font-size:14px;margin:14px 0 0}
p{margin:6px 0;color:#4a5967}code{overflow-wrap:anywhere;font-size:12px}
section{background:#fff;border:1px solid #e3e7eb;border-radius:10px;padding:16px;margin:14px 0;overflow:hidden}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(118px,1fr));gap:10px;margin:14px 0}
.tile{background:#fff;border:1px solid #e3e7eb;border-radius:10px;padding:10px 12px}
.tile b{display:block;font-size:21px;font-variant-numeric:tabular-nums}.tile span{color:#5d6b78;font-size:12px}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:4px 10px 4px 0;border-bottom:1px solid #eceff2;white-space:nowrap}
.figure{width:100%}details{margin-top:8px}summary{cursor:pointer;color:#2a6f97}
"""
_SCRIPT = """
for (const place of document.querySelectorAll(".figure")) {
  const told = JSON.parse(place.querySelector("script").textContent);
  Plotly.newPlot(place, told.data, told.layout, {responsive: true, displayModeBar: false});
}
"""


def _page(dataset: Dataset, sections: str) -> str:
    from plotly.offline import get_plotlyjs

    manifest = dataset.manifest
    name = escape(str(manifest["name"]))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}: data card</title><style>{_STYLE}</style></head>
<body><main>
<h1>{name}</h1>
<p>Game {escape(manifest["game"]["name"])}; observation set {escape(manifest["observation"])}
({len(manifest["features"])} features), stored as {escape(manifest["stored"])}; actions
{escape(manifest["actions"]["name"])}; reward {escape(manifest["reward"]["name"])}.</p>
<p>Content hash <code>{escape(manifest["hash"])}</code></p>
<div class="tiles">{_tiles(dataset)}</div>
{sections}
</main>
<script>{get_plotlyjs()}</script>
<script>{_SCRIPT}</script>
</body></html>
"""
