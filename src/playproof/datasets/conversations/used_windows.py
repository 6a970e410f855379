"""The ledger of used windows: what a line of models has learned from, and what is kept from it.

A window is reserved for an iteration before anything is learned from it, and settled when the weights that learned from
it are saved. After a kill the reserved ones belong to the iteration that was cut off, which takes them again; so no
window is lost and none is learned from twice. Leaves out: choosing windows (conversations).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine, delete, insert, select, update

from playproof.errors import InputError
from playproof.store.db import Trajectory, UsedWindow, writing


@dataclass(frozen=True)
class UsedWindows:
    """The ledger of one line of models."""

    engine: Engine
    lineage: str
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def hold_out(self, windows: Sequence[str]) -> None:
        """Keep windows from being learned from; refuse those that were."""
        self._take(windows, "holdout", 0, settled=True)

    def reserve(self, windows: Sequence[str], iteration: int) -> None:
        """Take windows for one iteration; refuse those that another one has, or that are held out."""
        self._take(windows, "train", iteration, settled=False)

    def settle(self, iteration: int, version: str, trajectories: Sequence[str] = ()) -> None:
        """Note that the weights that learned from an iteration's windows are saved."""
        mine = (UsedWindow.lineage == self.lineage) & (UsedWindow.iteration == iteration)
        with writing(self.engine) as connection:
            payload = update(UsedWindow).where(mine, UsedWindow.purpose == "train")
            connection.execute(payload.values(settled=True, model_version=version))
            if trajectories:
                used = update(Trajectory).where(Trajectory.trajectory_id.in_(list(trajectories)))
                connection.execute(used.values(used_in_training=True, trained_in_batch=f"{self.lineage}/{iteration}"))

    def release(self, after: int) -> None:
        """Give back windows reserved for iterations after the last one that was saved."""
        late = (UsedWindow.lineage == self.lineage) & (UsedWindow.iteration > after)
        with writing(self.engine) as connection:
            connection.execute(delete(UsedWindow).where(late, UsedWindow.purpose == "train", ~UsedWindow.settled))

    def used(self) -> frozenset[str]:
        """Give the windows that were reserved or learned from."""
        return self._names("train")

    def reserved(self, iteration: int) -> frozenset[str]:
        """Give the windows of one iteration."""
        mine = (UsedWindow.lineage == self.lineage) & (UsedWindow.iteration == iteration)
        with self.engine.connect() as connection:
            query = select(UsedWindow.window_id).where(mine, UsedWindow.purpose == "train")
            return frozenset(connection.scalars(query))

    def held(self) -> frozenset[str]:
        """Give the windows that are held out."""
        return self._names("holdout")

    def _names(self, purpose: str) -> frozenset[str]:
        query = select(UsedWindow.window_id).where(UsedWindow.lineage == self.lineage, UsedWindow.purpose == purpose)
        with self.engine.connect() as connection:
            return frozenset(connection.scalars(query))

    def _take(self, windows: Sequence[str], purpose: str, iteration: int, *, settled: bool) -> None:
        """Write windows that are not there; the same use again changes nothing, another one is refused."""
        query = select(UsedWindow.window_id, UsedWindow.purpose, UsedWindow.iteration)
        mine = query.where(UsedWindow.lineage == self.lineage, UsedWindow.window_id.in_(list(windows)))
        with writing(self.engine) as connection:
            known = {name: (use, of) for name, use, of in connection.execute(mine)}
            for name, result in known.items():
                if result != (purpose, iteration):
                    raise InputError(
                        f"expected window {name} to be free for {purpose} in iteration {iteration} of {self.lineage}, "
                        f"found it taken for {result[0]} in iteration {result[1]}; windows are used once"
                    )
            fresh = [name for name in dict.fromkeys(windows) if name not in known]
            rows = [
                {
                    "lineage": self.lineage,
                    "window_id": name,
                    "purpose": purpose,
                    "iteration": iteration,
                    "settled": settled,
                    "model_version": None,
                    "created_at": self.clock(),
                }
                for name in fresh
            ]
            if rows:
                connection.execute(insert(UsedWindow), rows)
