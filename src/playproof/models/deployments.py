"""What serves which version, since when: one row for each version that a server serves.

A row without an end and with an old heartbeat belongs to a server that crashed. Leaves out: serving (serve).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine, insert, select, update

from playproof.store.db import DeploymentRow, writing


@dataclass(frozen=True)
class Deployment:
    """A stretch of time in which one server served one version."""

    deployment_id: str
    server: str
    name: str
    alias: str | None
    version: int
    generation: int | None
    began_at: datetime
    heartbeat_at: datetime
    ended_at: datetime | None
    answers: int
    problem: str | None


class DeploymentLog:
    """Notes what one server serves."""

    def __init__(self, engine: Engine, server: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.engine, self.server, self.clock = engine, server, clock
        self._open = ""

    def begin(self, name: str, version: int, alias: str | None = None, generation: int | None = None) -> None:
        """Note that a version is served from now on, in place of the one before."""
        now, self._open, before = self.clock(), uuid.uuid4().hex, self._open
        with writing(self.engine) as connection:
            ended = update(DeploymentRow).where(DeploymentRow.deployment_id == before)
            connection.execute(ended.values(ended_at=now, heartbeat_at=now))
            connection.execute(
                insert(DeploymentRow).values(
                    deployment_id=self._open,
                    server=self.server,
                    name=name,
                    alias=alias,
                    version=version,
                    generation=generation,
                    began_at=now,
                    heartbeat_at=now,
                    ended_at=None,
                    answers=0,
                    problem=None,
                )
            )

    def beat(self, answers: int, problem: str | None = None, *, ended: bool = False) -> None:
        """Note that the server lives, how much it answered, and why it does not serve a newer version."""
        now = self.clock()
        values = {"heartbeat_at": now, "answers": answers, "problem": problem} | ({"ended_at": now} if ended else {})
        with writing(self.engine) as connection:
            where = DeploymentRow.deployment_id == self._open
            connection.execute(update(DeploymentRow).where(where).values(values))


def list_deployments(engine: Engine, name: str | None = None, version: int | None = None) -> tuple[Deployment, ...]:
    """Give who served what, the oldest first."""
    query = select(*DeploymentRow.__table__.columns).order_by(DeploymentRow.began_at)
    if name is not None:
        query = query.where(DeploymentRow.name == name)
    if version is not None:
        query = query.where(DeploymentRow.version == version)
    with engine.connect() as connection:
        return tuple(Deployment(**row._mapping) for row in connection.execute(query))
