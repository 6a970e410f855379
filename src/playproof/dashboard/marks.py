"""What people say of trajectories: accepted or rejected, tags, a note; and the queue of those nobody has looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, delete, insert, select, update

from playproof.errors import InputError
from playproof.store.db import ReviewMark, Trajectory, writing
from playproof.store.db.columns import storable

MOST_TAGS, MOST_TAG, MOST_NOTE = 20, 60, 4_000


@dataclass(frozen=True)
class TrajectoryMark:
    """One trajectory's mark."""

    verdict: str | None
    tags: tuple[str, ...]
    note: str


def read_mark(engine: Engine, trajectory_id: str) -> TrajectoryMark:
    """Read a mark; an empty one where nobody has said anything."""
    query = select(ReviewMark.verdict, ReviewMark.tags, ReviewMark.note).where(
        ReviewMark.trajectory_id == trajectory_id
    )
    with engine.connect() as connection:
        row = connection.execute(query).first()
    return TrajectoryMark(None, (), "") if row is None else TrajectoryMark(row.verdict, tuple(row.tags), row.note)


def mark_trajectory(
    engine: Engine,
    trajectory_id: str,
    *,
    verdict: str | None,
    tags: Sequence[str] | None,
    note: str | None,
    who: str,
    now: datetime,
) -> None:
    """Write a mark; "keep" and None leave what was said before, a verdict of None takes it back."""
    before = read_mark(engine, trajectory_id)
    values: dict[str, Any] = {
        "verdict": before.verdict if verdict == "keep" else verdict,
        "tags": [storable(tag[:MOST_TAG]) for tag in (before.tags if tags is None else tags)][:MOST_TAGS],
        "note": storable((before.note if note is None else note)[:MOST_NOTE]),
        "marked_by": who,
        "marked_at": now,
    }
    with writing(engine) as connection:
        known = connection.execute(
            select(Trajectory.trajectory_id).where(Trajectory.trajectory_id == trajectory_id)
        ).first()
        if known is None:
            raise InputError(f"expected a stored trajectory to mark, found none called {trajectory_id[:80]!r}")
        if values["verdict"] is None and not values["tags"] and not values["note"]:
            connection.execute(delete(ReviewMark).where(ReviewMark.trajectory_id == trajectory_id))
            return
        changed = connection.execute(
            update(ReviewMark).where(ReviewMark.trajectory_id == trajectory_id).values(**values)
        )
        if not changed.rowcount:
            connection.execute(insert(ReviewMark).values(trajectory_id=trajectory_id, **values))


def next_unmarked(engine: Engine, after: str = "") -> str | None:
    """Give the latest ended trajectory that has no verdict, older than `after`; None where all have one."""
    query = (
        select(Trajectory.trajectory_id)
        .outerjoin(ReviewMark, ReviewMark.trajectory_id == Trajectory.trajectory_id)
        .where(ReviewMark.verdict.is_(None), Trajectory.final_status != "running")
        .order_by(Trajectory.start_time.desc(), Trajectory.trajectory_id.desc())
        .limit(1)
    )
    with engine.connect() as connection:
        if after:
            start = connection.execute(
                select(Trajectory.start_time).where(Trajectory.trajectory_id == after)
            ).scalar_one_or_none()
            if start is not None:
                older = (Trajectory.start_time < start) | (
                    (Trajectory.start_time == start) & (Trajectory.trajectory_id < after)
                )
                row = connection.execute(query.where(older)).first()
                return None if row is None else str(row[0])
        row = connection.execute(query).first()
    return None if row is None else str(row[0])
