"""Outcomes of closed windows: written once, whole, from what the world did between the window's own ends.

Where the prices come from is the game's to know: `sync` asks a source for the windows that have closed and have none.
Outcomes are read by judges and rewards alone; nothing here is part of a policy's view.
Leaves out: sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, insert, select

from playproof.errors import InputError
from playproof.game import WindowRules
from playproof.record.trajectories.windows import (
    GRACE,
    by_window,
    is_closed,
    read_played,
    windows_with_outcomes,
)
from playproof.store.db import MarketOutcome, writing

Row = Mapping[str, Any]
Source = Callable[[Sequence[str]], Iterable[Row]]
"""Give rows, named as the table's columns, of the windows whose prices are known from both ends."""
_NAMES = frozenset(column.key for column in MarketOutcome.__table__.columns) - {"created_at", "market", "currency"}


@dataclass(frozen=True, slots=True)
class OutcomeSync:
    """What became of the windows that were looked at."""

    written: tuple[str, ...]
    known: tuple[str, ...]
    """Had outcomes already, which are never changed."""
    open: tuple[str, ...]
    """Have not closed, or agents still play in them."""
    missing: tuple[str, ...]
    """Have closed, but nobody knows their prices."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What one window did, as a judge may know it."""

    window_id: str
    rows: tuple[Row, ...]


def sync(
    engine: Engine,
    source: Source,
    windows: WindowRules,
    now: datetime,
    *,
    hours: float | None = 24.0,
    grace: timedelta = GRACE,
) -> OutcomeSync:
    """Write the outcomes of windows that began in the last hours, have closed and have none."""
    played = by_window(read_played(engine, None if hours is None else now - timedelta(hours=hours), windows))
    closed = {
        name
        for name, group in played.items()
        if is_closed(name, group[0].window_hours, windows, now, grace)
        and all(item.status != "running" for item in group)
    }
    known = windows_with_outcomes(engine, windows.market)
    wanted = sorted(closed - known)
    result = _sorted(source(wanted) if wanted else ())
    written = tuple(name for name in wanted if name in result and write_outcomes(engine, name, result[name], now))
    missing = tuple(name for name in wanted if name not in result)
    return OutcomeSync(written, tuple(sorted(closed & known)), tuple(sorted(set(played) - closed)), missing)


def _sorted(rows: Iterable[Row]) -> dict[str, list[Row]]:
    result: dict[str, list[Row]] = {}
    for row in rows:
        result.setdefault(row["window_id"], []).append(row)
    return result


def write_outcomes(engine: Engine, window_id: str, rows: Sequence[Row], now: datetime) -> bool:
    """Write the outcomes of an installed game's window unless it has some; all or none. Tell whether they are new."""
    for row in rows:
        if row["window_id"] != window_id or not set(row) <= _NAMES:
            raise InputError(f"expected outcomes of {window_id}, found a row of {sorted(row)} for {row['window_id']}")
    with writing(engine) as connection:
        there = select(MarketOutcome.window_id).where(MarketOutcome.window_id == window_id, MarketOutcome.market == "")
        if not rows or connection.execute(there.limit(1)).first():
            return False
        connection.execute(insert(MarketOutcome), [{**row, "created_at": now} for row in rows])
    return True


def read_outcomes(engine: Engine, window_ids: Iterable[str], market: str = "") -> dict[str, Outcomes]:
    """Read the outcomes of some windows as they stand, corrections included; those without any are left out."""
    query = select(MarketOutcome.__table__).where(
        MarketOutcome.window_id.in_(list(window_ids)), MarketOutcome.market == market
    )
    with engine.connect() as connection:
        rows = connection.execute(query.order_by(MarketOutcome.window_id, MarketOutcome.kind, MarketOutcome.subject))
        result = _sorted(dict(row) for row in rows.mappings())
    return {name: Outcomes(name, tuple(item)) for name, item in result.items()}
