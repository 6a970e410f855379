"""Tables of the dashboard: one query gives a page of 100, CSV and JSON alike, and its state stands in the URL.

Pages are cut by key, not by number: the cursor names the last row by what is sorted by and its id, so that the
thousandth page costs what the first does. Leaves out: where rows come from (`pages`).
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import orjson
from sqlalchemy import ColumnElement, Connection, and_, literal, or_, select
from sqlalchemy.sql import Select

from playproof.dashboard.shell import DataView, Field
from playproof.errors import InputError

PAGE = 100
MOST_EXPORTED = 100_000
MOST_FILTER = 300
"""Characters of a filter."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class TableQuery:
    """What a URL asks of a table."""

    sort: str = ""
    """A column; empty for the table's own order."""
    descending: bool = True
    after: str = ""
    """The cursor of the last row of the page before."""
    filters: Mapping[str, str] = field(default_factory=dict)
    limit: int = PAGE

    @classmethod
    def from_url(cls, values: Mapping[str, str], table: TableSource) -> TableQuery:
        """Read a URL's query; unknown names are left alone, since a page may have several tables."""
        sort = values.get("sort", "").lstrip("-") or table.sort
        if sort not in table.sortable:
            raise InputError(f"expected to sort by one of {', '.join(sorted(table.sortable))}, found {sort[:40]!r}")
        given = values.get("sort", "")
        descending = given.startswith("-") if given else table.descending
        filters = {name: values[name][:MOST_FILTER] for name in table.filters if values.get(name)}
        return cls(sort, descending, values.get("after", ""), filters)

    def to_url(self, **changed: str | None) -> str:
        """Write the query as a URL has it."""
        values: dict[str, str | None] = {
            "sort": f"{'-' if self.descending else ''}{self.sort}",
            **self.filters,
            **changed,
        }
        return urlencode({name: value for name, value in values.items() if value})


@dataclass(frozen=True)
class TableSource:
    """One table: its columns, what it can be sorted and filtered by, and how its rows are read."""

    name: str
    columns: Sequence[tuple[str, str, bool]]
    """Name, heading, whether it is words."""
    read: Callable[[Any, TableQuery], Sequence[Row]]
    """Give the rows of a query from the dashboard's context; each has its `key`: what is sorted by, and an id."""
    sort: str
    sortable: frozenset[str]
    filters: Sequence[str] = ()
    descending: bool = True
    empty: str = "Nothing is here yet."
    show: Callable[[Row], Row] = lambda row: row
    """Give a row as the page shows it: money in coins, times as text, links."""


def view(
    source: TableSource, context: Any, values: Mapping[str, str], path: str, fields: Sequence[Field] = ()
) -> DataView:
    """Give a page of a table as the template draws it."""
    query = TableQuery.from_url(values, source)
    rows = list(source.read(context, TableQuery(query.sort, query.descending, query.after, query.filters, PAGE + 1)))
    more, rows = len(rows) > PAGE, rows[:PAGE]
    heads = {}
    for name in source.sortable:
        down = not query.descending if name == query.sort else True
        heads[name] = f"{path}?{TableQuery(name, down, '', query.filters).to_url()}"
    links = [(form.upper(), f"/data/{source.name}.{form}?{query.to_url()}") for form in ("csv", "json")]
    shown = [
        Field(
            name=item.name,
            label=item.label,
            value=query.filters.get(item.name, item.value),
            kind=item.kind,
            options=item.options,
        )
        for item in fields
    ]
    return DataView(
        name=source.name,
        columns=source.columns,
        rows=[source.show(row) for row in rows],
        sort=query.sort,
        descending=query.descending,
        sortable=source.sortable,
        filters=shown,
        query=query.filters,
        first=path,
        following=f"{path}?{query.to_url(after=cursor(rows[-1]['key']))}" if more else None,
        links=links if rows else (),
        heads=heads,
        empty="Nothing fits the filter." if query.filters else source.empty,
    )


def rows_of_all(source: TableSource, context: Any, values: Mapping[str, str]) -> Iterator[Row]:
    """Give the rows of a query one after the other, page by page, up to MOST_EXPORTED."""
    query = TableQuery.from_url(values, source)
    count = 0
    while count < MOST_EXPORTED:
        rows = source.read(context, query)
        yield from rows
        count += len(rows)
        if len(rows) < query.limit:
            return
        query = TableQuery(query.sort, query.descending, cursor(rows[-1]["key"]), query.filters, query.limit)


def to_csv(names: Sequence[str], rows: Iterator[Row]) -> Iterator[bytes]:
    """Write rows as CSV; a text that a spreadsheet would take for a formula is quoted."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in names])
        if buffer.tell() > 1 << 16:
            yield buffer.getvalue().encode("utf-8", "replace")
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else value


def cursor(key: Sequence[Any]) -> str:
    """Write the key of a row as a URL has it."""
    values = [value.isoformat() if isinstance(value, datetime) else value for value in key]
    return base64.urlsafe_b64encode(orjson.dumps(values)).decode().rstrip("=")


def read_cursor(text: str, like: Sequence[type]) -> list[Any]:
    """Read a cursor; one that is not of these types is refused."""
    try:
        values = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        assert isinstance(values, list)
        assert len(values) == len(like)
        result = [
            datetime.fromisoformat(value).astimezone(UTC) if kind is datetime and value is not None else value
            for value, kind in zip(values, like, strict=True)
        ]
        allowed = all(
            value is None or isinstance(value, (int, float) if kind in (int, float) else kind)
            for value, kind in zip(result, like, strict=True)
        )
    except (ValueError, AssertionError, TypeError, OverflowError):
        allowed, result = False, []
    if not allowed or any(isinstance(value, int) and abs(value) > 2**63 - 1 for value in result):
        raise InputError(f"expected a cursor of an earlier page, found {text[:40]!r}; begin at the first page")
    return result


def page_of(rows: Sequence[Row], query: TableQuery, identity: str) -> Sequence[Row]:
    """Cut a page out of rows that are in memory; unknown values come last, whichever way is sorted."""

    def key(row: Row) -> tuple[bool, Any, str]:
        value = row[query.sort]
        return (value is None, 0 if value is None else value, str(row[identity]))

    known = [row for row in rows if row[query.sort] is not None]
    unknown = [row for row in rows if row[query.sort] is None]
    kinds = {type(row[query.sort]) for row in known}
    if len(kinds - {int, float}) > 1 or (str in kinds and len(kinds) > 1):
        known = [{**row, query.sort: str(row[query.sort])} for row in known]
    ordered = [*sorted(known, key=key, reverse=query.descending), *sorted(unknown, key=key)]
    keyed = [{**row, "key": (row[query.sort], str(row[identity]))} for row in ordered]
    start = 0
    if query.after:
        kind = type(known[0][query.sort]) if known else str
        value, last = read_cursor(query.after, (kind, str))
        start = next((index + 1 for index, row in enumerate(keyed) if row["key"][1] == last), None) or _bisect(
            keyed, value, last, query.descending
        )
    return keyed[start : start + query.limit]


def _bisect(rows: Sequence[Row], value: Any, last: str, descending: bool) -> int:
    """Find where a row that is gone by now would have stood."""
    for index, row in enumerate(rows):
        present = row["key"][0]
        if present is None or value is None:
            if present is None:
                return index
            continue
        if ((present, row["key"][1]) < (value, last)) if descending else ((present, row["key"][1]) > (value, last)):
            return index
    return len(rows)


def matches(row: Row, filters: Mapping[str, str]) -> bool:
    """Tell whether a row in memory holds every filter's text."""
    return all(text.lower() in str(row.get(name) or "").lower() for name, text in filters.items())


def select_page(
    connection: Connection,
    query: Select[*tuple[Any, ...]],
    column: ColumnElement[Any],
    identity: ColumnElement[str],
    asked: TableQuery,
    kind: type,
    *,
    nullable: bool = False,
) -> list[Any]:
    """Read a page of a statement by key; where values may be unknown, those come last."""
    down = asked.descending
    if asked.after:
        value, last = read_cursor(asked.after, (kind, str))
        bound, name = literal(value, column.type), literal(last, identity.type)
        after_id = identity < name if down else identity > name
        if value is None:
            query = query.where(column.is_(None), after_id)
        else:
            beyond = column < bound if down else column > bound
            # one bound on the first column lets both databases begin in the index
            least = column <= bound if down else column >= bound
            following: ColumnElement[bool] = and_(least, or_(beyond, and_(column == bound, after_id)))
            query = query.where(or_(following, column.is_(None)) if nullable else following)
    direction = (column.desc(), identity.desc()) if down else (column.asc(), identity.asc())
    query = query.order_by(column.is_(None), *direction) if nullable else query.order_by(*direction)
    return list(connection.execute(query.limit(asked.limit)).all())


__all__ = [
    "PAGE",
    "TableQuery",
    "TableSource",
    "cursor",
    "matches",
    "page_of",
    "read_cursor",
    "rows_of_all",
    "select",
    "select_page",
    "to_csv",
    "view",
]
