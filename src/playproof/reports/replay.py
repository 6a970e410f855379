"""A replay as one HTML file: no network, every number as the ledger and the environment had it.

Money stays whole numbers, and is text where a browser's numbers would lose a digit; float32 is written with the
shortest decimals that mean it; only chances are rounded. Columns that rarely change are stored as their changes.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from playproof.game.replay import Line, Number, ReplayedEpisode
from playproof.json_types import Json
from playproof.money import UNIT
from playproof.reports.page import CHART_SCRIPT, embed, render
from playproof.validate.replay import Replay

SAFE = 2**53
"""From here on a browser's numbers are no longer whole."""
DIGITS = 4
"""Of chances, which are shown and not counted with."""
PACKED_FROM = 500_000
"""Bytes of data from which it is packed, so that long replays stay light."""
Column = list[Any] | Json


def replay_page(replay: Replay) -> str:
    """Write the page."""
    data = embed(page_data(replay))
    packed = len(data) > PACKED_FROM
    if packed:
        data = Markup(base64.b64encode(gzip.compress(data.encode(), mtime=0)).decode())  # noqa: S704 - base64 alone
    return render(
        "replay.html",
        title=f"Replay: {replay.title}",
        heading=replay.title,
        lead=_lead(replay),
        data=data,
        packed=packed,
        scripts=(CHART_SCRIPT, "replay.js"),
    )


def _lead(replay: Replay) -> str:
    if replay.pnl is None:
        return replay.about
    return f"{replay.about}; together {replay.pnl / UNIT:+,.6g} {replay.money}"


def page_data(replay: Replay) -> Json:
    """Give everything that the page shows, as JSON knows it."""
    used = {name for episode in replay.episodes for name in episode.features}
    return {
        "title": replay.title,
        "game": replay.game,
        "money": replay.money,
        "whole": UNIT,
        "reward": "profit of the step" if any(episode.said for episode in replay.episodes) else "reward",
        "worst": replay.worst,
        "best": replay.best,
        "units": {name: unit for name, unit in replay.units.items() if name in used},
        "episodes": [_episode(episode) for episode in replay.episodes],
    }


def _episode(episode: ReplayedEpisode) -> Json:
    words = {word: index for index, word in enumerate(dict.fromkeys(episode.actions))}
    return {
        "window": episode.window,
        "player": episode.player,
        "pnl": _safe(episode.pnl),
        "about": episode.about,
        "lines": [_line(line, episode) for line in episode.lines],
        "marks": [
            {"point": mark.point, "line": mark.line, "kind": mark.kind, "text": mark.text} for mark in episode.marks
        ],
        "words": list(words),
        "actions": shorten([words[word] for word in episode.actions]),
        "rewards": shorten(list(episode.rewards)),
        "components": {name: shorten(list(of)) for name, of in episode.components.items()},
        "features": list(episode.features),
        "rows": [shorten(_decimals(column)) for column in episode.rows.T] if len(episode.rows) else [],
        "missing": _missing(episode),
        "thoughts": [
            {
                "choices": list(names),
                "p": [shorten([round(item, DIGITS) for item in column.tolist()]) for column in chances.T],
            }
            for names, chances in episode.thoughts
        ],
        "predictions": {name: shorten(list(of)) for name, of in episode.predictions.items()},
        "said": [[{"kind": item.kind, "who": item.who, "text": item.text} for item in of] for of in episode.said],
    }


def _line(line: Line, episode: ReplayedEpisode) -> Json:
    payload = {name: getattr(line, name) for name in ("name", "panel", "unit", "whole", "stepped", "drawn")}
    return payload | {"v": shorten([_safe(value) for value in episode.values[line.name]])}


def _missing(episode: ReplayedEpisode) -> list[Column] | None:
    if episode.missing is None or not episode.missing.any():
        return None
    return [shorten(column.astype(int).tolist()) for column in episode.missing.T]


def _safe(value: Number) -> int | float | str | None:
    """Give a number, as text where a browser would lose digits of it."""
    return str(value) if isinstance(value, int) and abs(value) >= SAFE else value


def _decimals(column: NDArray[np.floating]) -> list[float]:
    """Give the shortest decimals that mean the same number of the column's own kind; none is NaN."""
    return [int(value) if float(value).is_integer() else float(str(value)) for value in column]


def shorten(column: Sequence[object]) -> Column:
    """Give a column as it is, or as its changes where these are fewer: where each begins, and its value."""
    starts = [index for index, value in enumerate(column) if index == 0 or value != column[index - 1]]
    if 2 * len(starts) >= len(column):
        return list(column)
    return {"n": len(column), "at": starts, "v": [column[start] for start in starts]}


def expand(column: Column) -> list[Any]:
    """Give a column back as it was."""
    if isinstance(column, list):
        return column
    ends = [*column["at"][1:], column["n"]]
    values: list[Any] = []
    for start, end, value in zip(column["at"], ends, column["v"], strict=True):
        values += [value] * (end - start)
    return values
