"""Charts as plain records: what is drawn, checked here, and the JSON from which static/chart.js draws it.

Names on an axis make it a list of names: on x they stand side by side, on y from the top down with values along x.
Values that are not finite are gaps. Long series are thinned so that the lowest and the highest point of every column
stay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from playproof.errors import ContractError
from playproof.json_types import Json

COLOURS = ("blue", "good", "warn", "violet", "teal", "bad", "pink", "olive")
"""Colours by turn: names of variables in static/style.css, which has them for light, dark and paper."""
ACTION_COLOURS = ("dim", "good", "warn", "blue", "violet", "teal", "pink", "olive", "bad")
"""Of the choices of a head, in their order, waiting first: the same on game page, cards, reports and replays."""
MOST_POINTS = 20_000
"""Points of a series that a page holds at most."""
MOST_ROWS = 40
"""Rows of the table that stands in for a chart."""
DIGITS = 7
"""Significant digits of a drawn value; a screen shows fewer."""

Kind = Literal["linear", "log", "time", "category"]
Symbol = Literal["circle", "cross", "dash", "none"]
Dash = Literal["", "dash", "dot"]
Coordinates = Sequence[Any]
"""Numbers, None for a gap, names, or moments."""


def action_colour(name: str, head: Sequence[str]) -> str:
    """Give a choice of a head its colour; choices of other heads are dim."""
    return ACTION_COLOURS[head.index(name) % len(ACTION_COLOURS)] if name in head else "dim"


@dataclass(frozen=True, kw_only=True)
class ChartAxis:
    """One axis: what it measures, and how its values are written."""

    title: str = ""
    kind: Kind = "linear"
    percent: bool = False
    zero: bool = False
    """Does it always show 0?"""
    range: tuple[float | None, float | None] | None = None
    names: Sequence[str] = ()
    """Names along the axis, where coordinates are positions among them: names may then come twice."""

    def __post_init__(self) -> None:
        """Refuse a range that cannot be drawn."""
        low, high = self.range or (None, None)
        if low is not None and high is not None and not low < high:
            raise ContractError(f"expected a range from low to high, found {self.range}; swap its ends")
        if self.kind == "log" and low is not None and low <= 0:
            raise ContractError(f"expected a range above 0 on a log axis, found {self.range}; raise its low end")

    def text(self, value: Any) -> str:
        """Write a value as this axis does."""
        if value is None or isinstance(value, str):
            return value or ""
        if self.names:
            return self.names[int(value)]
        if self.kind == "time":
            return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        if not math.isfinite(value):
            return ""
        if self.percent:
            return f"{value:.2%}"
        return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line through points."""

    kind: ClassVar[str] = "line"
    name: str = ""
    x: Coordinates
    y: Coordinates = ()
    low: Sequence[float | None] | None = None
    """Low ends of intervals around the points, along the axis that has values."""
    high: Sequence[float | None] | None = None
    colour: str = ""
    """One of COLOURS, or ink, dim, faint; empty: the next by turn."""
    width: float = 2.0
    dash: Dash = ""
    step: bool = False
    """Does a value hold until the next point, rather than move there?"""
    points: bool = False
    """Is every point marked?"""
    right: bool = False
    """Is it measured on the right axis?"""
    symbol: Symbol = "circle"
    radius: float | None = None
    """Of marked points, in pixels."""
    thick: bool = False
    """Are intervals drawn as broad bars, so that thin ones can lie upon them?"""
    text: Sequence[str] | None = None
    """What is said about each point when the pointer is on it."""
    tint: Sequence[float] | None = None
    """How strong each point is drawn, 0 to 1."""
    legend: bool = True

    def __post_init__(self) -> None:
        """Refuse columns of different lengths, half an interval and unknown colours."""
        for name in ("y", "low", "high", "text", "tint"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.x) and (name != "y" or self.kind != "band"):
                raise ContractError(
                    f"expected {len(self.x)} values of {name} in {self.name!r}, as many as of x, found {len(column)}"
                )
        if (self.low is None) != (self.high is None):
            raise ContractError(f"expected both ends of the intervals of {self.name!r}, found one; give low and high")
        if self.colour and self.colour not in (*COLOURS, "ink", "dim", "faint"):
            raise ContractError(f"expected a colour of {', '.join(COLOURS)}, found {self.colour!r}")

    @property
    def weight(self) -> int:
        """Give about how many bytes the series takes in a page."""
        columns = sum(getattr(self, name) is not None for name in ("x", "y", "low", "high"))
        texts = sum(len(item) + 3 for item in self.text[:100]) / max(1, len(self.text[:100])) if self.text else 0
        return int(len(self.x) * (9 * columns + texts))


@dataclass(frozen=True, kw_only=True)
class BarSeries(Series):
    """Bars from 0 to their values; several series stand side by side, or upon each other in a stacked chart."""

    kind: ClassVar[str] = "bar"


@dataclass(frozen=True, kw_only=True)
class AreaSeries(Series):
    """Filled areas, upon each other in a stacked chart."""

    kind: ClassVar[str] = "area"


@dataclass(frozen=True, kw_only=True)
class MarkerSeries(Series):
    """Points without a line."""

    kind: ClassVar[str] = "marker"


@dataclass(frozen=True, kw_only=True)
class BandSeries(Series):
    """What lies between low and high."""

    kind: ClassVar[str] = "band"

    def __post_init__(self) -> None:
        """Refuse a band without ends."""
        super().__post_init__()
        if self.low is None:
            raise ContractError(f"expected low and high of the band {self.name!r}, found neither")


@dataclass(frozen=True, kw_only=True)
class LevelLine:
    """A straight line across the chart at one value."""

    value: float
    name: str
    axis: Literal["x", "y"] = "y"
    colour: str = "warn"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart: its series, axes and title."""

    title: str
    series: Sequence[Series]
    x: ChartAxis = field(default_factory=ChartAxis)
    y: ChartAxis = field(default_factory=ChartAxis)
    right: ChartAxis = field(default_factory=ChartAxis)
    levels: Sequence[LevelLine] = ()
    stacked: bool = False
    wide: bool = False
    """Does it take the whole width of the page?"""
    height: int = 320
    hover: Literal["x", "point"] = "x"
    """Does the pointer read all series at one x, or the nearest point?"""
    numbers: bool = True
    """Does a table of the values stand below, folded? Not needed where the page has one."""

    def names(self, axis: Literal["x", "y"]) -> list[str]:
        """Give the names on an axis in order; none where it has numbers."""
        given: ChartAxis = getattr(self, axis)
        if given.names:
            return list(given.names)
        columns = [getattr(item, axis) for item in self.series]
        return list(dict.fromkeys(value for column in columns for value in column if isinstance(value, str)))

    def to_json(self, share: float = 1.0) -> Json:
        """Give what the script draws; of each series at most this share of its points, and never above MOST_POINTS."""
        axes = {"x": self._axis("x"), "y": self._axis("y")}
        if any(item.right for item in self.series):
            axes["right"] = _fields(self.right, ("title", "percent", "zero", "range"))
        names = {axis: {name: index for index, name in enumerate(axes[axis].get("categories", ()))} for axis in "xy"}
        payload: Json = {"title": self.title, **axes, "height": self.height}
        payload["series"] = [_series(item, index, names, share, self.x.kind) for index, item in enumerate(self.series)]
        if self.levels:
            payload["levels"] = [vars(level) for level in self.levels]
        if self.stacked:
            payload["stacked"] = True
        if self.hover != "x":
            payload["hover"] = self.hover
        return payload

    def _axis(self, axis: Literal["x", "y"]) -> Json:
        payload = _fields(getattr(self, axis), ("title", "kind", "percent", "zero", "range"))
        names = self.names(axis)
        return payload | {"kind": "category", "categories": names} if names else payload

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Give the values as a table, head and rows: one row for each x, evenly thinned to MOST_ROWS."""
        lying = bool(self.names("y"))
        along = self.y if lying else self.x
        cells: dict[Any, dict[int, str]] = {}
        for number, item in enumerate(self.series):
            axis = self.x if lying else self.right if item.right else self.y
            along_values, values = (item.y, item.x) if lying else (item.x, item.y)
            for index, key in enumerate(along_values):
                shown = axis.text(_plain(values[index])) if len(values) else ""
                if item.low is not None and item.high is not None:
                    span = f"{axis.text(_plain(item.low[index]))} to {axis.text(_plain(item.high[index]))}"
                    shown = f"{shown} ({span})" if shown else span
                cells.setdefault(_plain(key), {})[number] = shown
        rows_at = list(cells) if self.names("x") or lying else sorted(key for key in cells if key is not None)
        if len(rows_at) > MOST_ROWS:
            rows_at = [rows_at[index] for index in np.linspace(0, len(rows_at) - 1, MOST_ROWS).astype(int).tolist()]
        head = [along.title, *(item.name for item in self.series)]
        rows = [[along.text(key), *(cells[key].get(n, "") for n in range(len(self.series)))] for key in rows_at]
        return head, rows


def _fields(record: object, names: Sequence[str]) -> Json:
    """Give the fields of a record that say something."""
    return {name: getattr(record, name) for name in names if getattr(record, name) not in (None, "", False)}


def _series(item: Series, index: int, names: Mapping[str, Mapping[str, int]], share: float, kind: Kind) -> Json:
    """Give one series as JSON knows it, thinned where it is long."""
    fields = ("name", "dash", "step", "points", "right", "thick", "radius")
    payload: Json = {"kind": item.kind} | _fields(item, fields)
    payload["colour"] = item.colour or COLOURS[index % len(COLOURS)]
    if item.width != Series.width:
        payload["width"] = item.width
    if item.symbol != "circle":
        payload["symbol"] = item.symbol
    if not item.legend:
        payload["legend"] = False
    columns: dict[str, list[Any]] = {}
    for name in ("x", "y", "low", "high"):
        values = getattr(item, name)
        if values is not None and len(values):
            known = names.get(name, {})
            columns[name] = [known[value] if isinstance(value, str) else _plain(value) for value in values]
    for name in ("text", "tint"):
        if getattr(item, name) is not None:
            columns[name] = list(getattr(item, name))
    most = min(MOST_POINTS, max(400, int(share * len(item.x))))
    if len(item.x) > most:
        kept = _kept(columns, most)
        columns = {name: [values[position] for position in kept] for name, values in columns.items()}
    for name in ("x", "y", "low", "high"):
        if name in columns and (name != "x" or kind != "time"):
            columns[name] = [_short(value) for value in columns[name]]
    return payload | columns


def _kept(columns: Mapping[str, Sequence[object]], most: int) -> list[int]:
    """Choose the points of a long series that a page holds."""
    x = np.array([math.nan if value is None else value for value in columns["x"]], np.float64)
    order = np.argsort(x, kind="stable")
    # a line that turns back on itself cannot be cut into columns: it is thinned evenly
    if not np.isfinite(x).all() or ("tint" in columns and (order[:-1] > order[1:]).any()):
        evenly: list[int] = np.unique(np.linspace(0, len(x) - 1, most).astype(int)).tolist()
        return evenly
    drawn = [columns[name] for name in ("y", "low", "high") if name in columns]
    kept: set[int] = set()
    for values in drawn:
        y = np.array([math.nan if value is None else value for value in values], np.float64)
        kept.update(order[decimate(x[order], y[order], max(1, most // (4 * len(drawn))))].tolist())
    return sorted(kept)


def decimate(x: NDArray[np.float64], y: NDArray[np.float64], columns: int) -> NDArray[np.int64]:
    """Give the indices that keep the first, last, lowest and highest point of each column, and one gap of it.

    Columns are of equal width between the ends of x, which ascends.
    """
    if len(x) == 0:
        return np.zeros(0, np.int64)
    width = x[-1] - x[0]
    scaled = (x - x[0]) / width * columns if width > 0 else np.zeros(len(x))
    column = np.minimum(scaled.astype(np.int64), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    ends = np.append(starts[1:], len(x)) - 1
    finite = np.isfinite(y)
    known = np.flatnonzero(finite)
    order = known[np.lexsort((y[known], column[known]))]
    edge = np.flatnonzero(np.diff(column[order], prepend=-1))
    lowest = order[edge]
    highest = order[np.append(edge[1:], len(order)) - 1] if len(order) else order
    gaps = np.flatnonzero(~finite)
    first_gaps = gaps[np.flatnonzero(np.diff(column[gaps], prepend=-1))]
    return np.unique(np.concatenate([starts, ends, lowest, highest, first_gaps]))


def _plain(value: object) -> Any:
    """Give a number as JSON knows it: moments in milliseconds, None where it is not finite."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _short(value: object) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
