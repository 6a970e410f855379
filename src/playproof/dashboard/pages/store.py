"""The event store: its parts and logs, verification, and a box for one SELECT, locked down as `store query` is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from playproof.dashboard.actions import once_field
from playproof.dashboard.context import DashboardContext
from playproof.dashboard.pages.recordings import log_state
from playproof.dashboard.pages.shown import size
from playproof.dashboard.shell import Block, FactList, Field, Form, Link, Page, Part
from playproof.events import DOC_TYPES
from playproof.reports.chart import Chart, ChartAxis, Series
from playproof.reports.page import PageTable
from playproof.store import EventStore
from playproof.store.log.query import QueryLimits

LIMITS = QueryLimits(seconds=10.0, memory_mb=256, rows=10_000)
SHOWN = 200
EXAMPLE = "SELECT window_id, count(*) AS ticks FROM game_tick GROUP BY ALL ORDER BY ALL"


def store_page(context: DashboardContext, values: Mapping[str, str]) -> Page:  # noqa: ARG001
    """Show what the store holds."""
    rows, parts, bytes_, problems = context.cache.get("store", log_state(context), lambda: _listing(context))
    events = sum(row[2] + row[3] for row in rows)
    once = once_field()
    return Page(
        title="Store",
        blocks=[
            Block(
                "facts",
                [FactList(pairs=[("events", f"{events:,}"), ("parts", f"{parts:,}"), ("Parquet", size(bytes_))])],
            ),
            Block(
                "logs",
                [PageTable(head=("log", "doc_type", "hot", "compacted", "parts"), rows=rows, words=2)]
                if rows
                else ["The store is empty."],
                "What it holds",
            ),
            Block(
                "problems", [PageTable(head=("passed over",), rows=[(item,) for item in problems])] if problems else []
            ),
            Block("sql", [sql_form("")], "Ask it"),
            Block(
                "doing",
                [
                    Form(action="/do/store/verify", submit="Verify every checksum", fields=[once], inline=True),
                    Form(
                        action="/do/store/compact", submit="Compact the logs", fields=[once], inline=True, role="admin"
                    ),
                ],
            ),
        ],
        topics=("log",),
    )


def _listing(context: DashboardContext) -> tuple[list[tuple[Any, ...]], int, int, tuple[str, ...]]:
    store = EventStore(context.root)
    rows: list[tuple[Any, ...]] = []
    parts = bytes_ = 0
    for log in store.views():
        for doc_type in DOC_TYPES:
            own = [part for part in log.parts if part.doc_type == doc_type]
            hot = sum(1 for row in log.rows if row[4] == doc_type)
            if own or hot:
                rows.append((log.name, doc_type, hot, sum(part.rows for part in own), len(own)))
        parts += len(log.parts)
        bytes_ += sum(part.bytes for part in log.parts)
    return rows, parts, bytes_, store.problems


def sql_form(sql: str) -> Form:
    """Give the box for a query; it is a GET, so that a query has an address."""
    return Form(
        action="/store/query",
        method="get",
        submit="Ask",
        role="viewer",
        text=f"One SELECT over {', '.join(DOC_TYPES)}; it reaches the store's events and nothing else."
        f" At most {LIMITS.seconds:g} seconds, {LIMITS.memory_mb} MB and {LIMITS.rows:,} rows.",
        fields=[Field(name="sql", label="SQL", kind="textarea", value=sql or EXAMPLE)],
    )


def query(context: DashboardContext, sql: str) -> tuple[list[str], list[list[Any]]]:
    """Run a query; give names and rows."""
    table = EventStore(context.root).query(sql, LIMITS)
    named = table.rename_columns([str(index) for index in range(table.num_columns)])
    return list(table.column_names), [[_plain(value) for value in row.values()] for row in named.to_pylist()]


def query_page(context: DashboardContext, values: Mapping[str, str]) -> Page:
    """Show the result of a query as a table, and as a chart where its columns are numbers."""
    sql = values.get("sql", "").strip() or EXAMPLE
    names, rows = query(context, sql)
    parts: list[Part] = [f"{len(rows):,} rows{f', the first {SHOWN} shown' if len(rows) > SHOWN else ''}."]
    if (chart := _chart(names, rows)) is not None:
        parts.append(chart)
    if rows:
        parts.append(PageTable(head=names, rows=[[_cell(value) for value in row] for row in rows[:SHOWN]]))
        parts.append(Link("CSV", f"/data/query.csv?{urlencode({'sql': sql})}"))
    return Page(
        title="Query",
        trail=[Link("Store", "/store")],
        blocks=[Block("sql", [sql_form(sql)]), Block("result", parts, "Result")],
    )


def _chart(names: list[str], rows: list[list[Any]]) -> Chart | None:
    """Draw the first column against the numbers beside it."""
    if len(names) < 2 or len(rows) < 2:
        return None
    numbers = [
        index
        for index in range(1, len(names))
        if all(isinstance(row[index], int | float) and not isinstance(row[index], bool) for row in rows)
    ][:6]
    if not numbers:
        return None
    first = [row[0] for row in rows]
    plain = all(isinstance(value, int | float) and not isinstance(value, bool) for value in first)
    if plain:
        rows = sorted(rows, key=lambda row: row[0])
    x = [row[0] for row in rows] if plain else list(range(1, len(rows) + 1))
    return Chart(
        title=", ".join(names[index] for index in numbers),
        x=ChartAxis(title=names[0] if plain else "row"),
        series=[
            Series(name=names[index], x=x, y=[row[index] for row in rows], points=len(rows) < 60) for index in numbers
        ],
        wide=True,
        numbers=False,
    )


def _plain(value: Any) -> Any:
    from decimal import Decimal

    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if value is None or isinstance(value, int | float | str | bool) else str(value)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:199]}…"
