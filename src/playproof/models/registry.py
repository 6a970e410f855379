"""Versions of models and the aliases that point at them.

A version is immutable. A pointer is moved by one compare-and-swap on its generation, in the transaction that also
writes the change into the history: of two who replace the same generation one succeeds, and the other is told. Going
back undoes the last promotion that still stands, so that going back twice goes back two promotions.
Leaves out: who may be promoted (gates) and who is told of it (hooks).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from playproof.errors import ConfigError, InputError, PlayproofError, UnknownName
from playproof.home import check_id, folder, safe_join
from playproof.models.facts import CheckpointFacts, read_facts
from playproof.models.files import check_files, keep_files
from playproof.store.db import (
    ModelPointerRow,
    ModelRow,
    ModelVersionRow,
    PointerChangeRow,
    TrainingBatch,
    writing,
)

_VERSION = re.compile(r"v?(\d{1,9})")
Clock = Callable[[], datetime]


class PointerConflict(PlayproofError):
    """Tell that somebody else moved the pointer first; nothing was changed."""


@dataclass(frozen=True)
class ModelVersion:
    """One version of a model."""

    name: str
    version: int
    checkpoint: str
    """sha256 over all files, and the folder that holds them."""
    policy_hash: str
    kind: str
    game: str
    method: str
    files: Mapping[str, str]
    card: Mapping[str, Any]
    report_hash: str | None
    verdict: str | None
    data_hash: str | None
    reward_hash: str | None
    world_hash: str | None
    commit: str
    parent: str | None
    batch_id: str | None
    source: str
    metrics: Mapping[str, Any] | None
    created_at: datetime
    archived_at: datetime | None

    @property
    def label(self) -> str:
        """Give the version's name, as answers and reports carry it."""
        return f"{self.name}:{self.version}"


@dataclass(frozen=True)
class ModelPointer:
    """What an alias stands for now."""

    name: str
    alias: str
    version: int | None
    """None before the first promotion, and after it was taken back."""
    generation: int
    """0 for an alias that never was."""

    @property
    def label(self) -> str:
        """Give the alias as it is typed."""
        return f"{self.name}@{self.alias}"


@dataclass(frozen=True)
class PointerChange:
    """One change of a pointer."""

    name: str
    alias: str
    generation: int
    kind: str
    from_version: int | None
    to_version: int | None
    who: str
    why: str
    gate: str
    report_hash: str | None
    changed_at: datetime


@dataclass(frozen=True)
class PromotionGround:
    """On what ground a version is promoted."""

    gate: str
    """What was asked, and what it answered."""
    report_hash: str | None = None


@dataclass(frozen=True)
class ModelTarget:
    """What a name that was typed stands for."""

    version: ModelVersion
    pointer: ModelPointer | None
    """None where a version was named."""


class Registry:
    """The models of one database and home."""

    def __init__(self, engine: Engine, root: Path | None = None, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.engine, self.clock = engine, clock
        self.folder = folder("models", root)

    def add(self, path: Path, name: str, report: tuple[str, str] | None = None) -> tuple[ModelVersion, bool]:
        """Keep a checkpoint as the next version of a model; tell whether it is new.

        The same files under the same name give the version that they already are. `report` is hash and verdict.
        """
        check_id(name, "a model's name")
        if name in _BASELINE_WORDS:
            raise ConfigError(f"expected a model's name that means nothing else, found {name!r}; give another --name")
        facts = read_facts(path)
        checkpoint, files = keep_files(path, self.folder)
        if read_facts(self.folder / checkpoint).policy_hash != facts.policy_hash:
            raise InputError(f"expected a checkpoint that stays as it is, found {path} changed meanwhile; add it again")
        with writing(self.engine) as connection:
            self._enter(connection, name)
            known = self._one(connection, ModelVersionRow.name == name, ModelVersionRow.checkpoint == checkpoint)
            if known is not None:
                return known, False
            number = self._next_version(connection, name)
            values = self._values(connection, facts, path) | {
                "name": name,
                "version": number,
                "checkpoint": checkpoint,
                "files": files,
                "report_hash": report[0] if report else None,
                "verdict": report[1] if report else None,
            }
            connection.execute(insert(ModelVersionRow).values(values))
        return self.version(name, number), True

    def _enter(self, connection: Connection, name: str) -> None:
        """Make a model's row where there is none, and keep others from adding to it until the commit."""
        if connection.dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import insert as into
        else:
            from sqlalchemy.dialects.sqlite import insert as into  # type: ignore[assignment]
        connection.execute(into(ModelRow).values(name=name, created_at=self.clock()).on_conflict_do_nothing())
        connection.execute(select(ModelRow.name).where(ModelRow.name == name).with_for_update())

    def _next_version(self, connection: Connection, name: str) -> int:
        query = select(func.max(ModelVersionRow.version)).where(ModelVersionRow.name == name)
        return int(connection.scalar(query) or 0) + 1

    def _values(self, connection: Connection, facts: CheckpointFacts, path: Path) -> dict[str, Any]:
        batch = None
        if facts.kind == "language":
            query = select(TrainingBatch.batch_id).where(TrainingBatch.model_version == facts.card.get("version"))
            batch = connection.scalar(query.order_by(TrainingBatch.created_at.desc()).limit(1))
        return {
            "policy_hash": facts.policy_hash,
            "kind": facts.kind,
            "game": facts.game,
            "method": facts.method,
            "card": dict(facts.card),
            "data_hash": facts.data_hash,
            "reward_hash": facts.reward_hash,
            "world_hash": facts.world_hash,
            "commit": facts.commit,
            "parent": facts.parent,
            "batch_id": batch,
            "source": str(path.absolute()),
            "metrics": dict(facts.card.get("metrics") or {}),
            "created_at": self.clock(),
            "archived_at": None,
        }

    def _one(self, connection: Connection, *where: Any) -> ModelVersion | None:
        row = connection.execute(select(*_VERSION_COLUMNS).where(*where)).first()
        return None if row is None else _version(row)

    def names(self) -> list[str]:
        """Give the names of all models."""
        with self.engine.connect() as connection:
            return list(connection.scalars(select(ModelRow.name).order_by(ModelRow.name)))

    def versions(self, name: str | None = None, *, archived: bool = True) -> tuple[ModelVersion, ...]:
        """Give the versions of a model, or of all, the oldest first."""
        query = select(*_VERSION_COLUMNS).order_by(ModelVersionRow.name, ModelVersionRow.version)
        if name is not None:
            query = query.where(ModelVersionRow.name == name)
        if not archived:
            query = query.where(ModelVersionRow.archived_at.is_(None))
        with self.engine.connect() as connection:
            return tuple(map(_version, connection.execute(query)))

    def version(self, name: str, number: int) -> ModelVersion:
        """Give one version."""
        with self.engine.connect() as connection:
            result = self._one(connection, ModelVersionRow.name == name, ModelVersionRow.version == number)
            if result is not None:
                return result
        known = [item.label for item in self.versions(name)]
        if not known:
            raise UnknownName("model", name, self.names())
        raise UnknownName("version", f"{name}:{number}", known)

    def pointers(self, name: str | None = None) -> tuple[ModelPointer, ...]:
        """Give the pointers of a model, or of all."""
        query = select(*_POINTER_COLUMNS).order_by(ModelPointerRow.name, ModelPointerRow.alias)
        if name is not None:
            query = query.where(ModelPointerRow.name == name)
        with self.engine.connect() as connection:
            return tuple(_pointer(row) for row in connection.execute(query))

    def pointer(self, name: str, alias: str) -> ModelPointer:
        """Give what an alias stands for; generation 0 where it never was."""
        with self.engine.connect() as connection:
            return self._pointer(connection, name, alias)

    def _pointer(self, connection: Connection, name: str, alias: str, *, locked: bool = False) -> ModelPointer:
        query = select(*_POINTER_COLUMNS).where(ModelPointerRow.name == name, ModelPointerRow.alias == alias)
        row = connection.execute(query.with_for_update() if locked else query).first()
        return ModelPointer(name, alias, None, 0) if row is None else _pointer(row)

    def find(self, text: str) -> ModelTarget:
        """Give what NAME (the newest version), NAME:VERSION or NAME@ALIAS stands for."""
        name, at, alias = text.partition("@")
        if at:
            pointer = self.pointer(name, alias)
            if pointer.version is None:
                known = [item.label for item in self.pointers(name) if item.version is not None]
                if pointer.generation:
                    raise InputError(f"expected a version behind {text}, found that its promotion was taken back")
                if name not in self.names():
                    raise UnknownName("model", name, self.names())
                raise UnknownName("alias", text, known)
            return ModelTarget(self.version(name, pointer.version), pointer)
        name, colon, number = text.partition(":")
        if colon:
            shape = _VERSION.fullmatch(number)
            if shape is None:
                raise InputError(f"expected NAME:VERSION with a number such as {name}:3, found {text!r}")
            return ModelTarget(self.version(name, int(shape[1])), None)
        there = self.versions(name, archived=False) or self.versions(name)
        if not there:
            raise UnknownName("model", name, self.names())
        return ModelTarget(there[-1], None)

    def open(self, version: ModelVersion) -> Path:
        """Give the folder of a version's files once every one of them is as it was added."""
        return check_files(safe_join(self.folder, version.checkpoint), version.files)

    def promote(
        self,
        name: str,
        version: int,
        alias: str,
        *,
        who: str,
        why: str,
        ground: PromotionGround,
        replaces: int | None = None,
    ) -> PointerChange:
        """Let an alias stand for a version; `replaces` is the generation that is replaced, the present one if None.

        Raises PointerConflict if the pointer was moved since, and changes nothing then.
        """
        check_id(alias, "an alias")
        if not why.strip():
            raise InputError("expected a reason for the promotion, found none; give --why")
        wanted = self.version(name, version)
        if wanted.archived_at is not None:
            raise InputError(f"expected a version that is not archived, found {wanted.label}; add it again to use it")
        generation = self.pointer(name, alias).generation if replaces is None else replaces
        with writing(self.engine) as connection:
            before = self._pointer(connection, name, alias)
            if before.generation == generation:
                change = self._change(before, "promote", version, who, why, ground)
                if self._swap(connection, before, change):
                    return change
            now = self._pointer(connection, name, alias)
        stands = "nothing" if now.version is None else f"version {now.version}"
        raise PointerConflict(
            f"expected {name}@{alias} at generation {generation}, found generation {now.generation} ({stands}):"
            " somebody else moved it meanwhile, and nothing was changed; see `playproof models history`, then promote"
            " again"
        )

    def rollback(self, name: str, alias: str, *, who: str, why: str) -> PointerChange:
        """Let an alias stand for what stood before its last promotion that was not taken back; no gate is asked."""
        with writing(self.engine) as connection:
            before = self._pointer(connection, name, alias, locked=True)
            if not before.generation:
                raise UnknownName("alias", f"{name}@{alias}", [item.label for item in self.pointers(name)])
            standing = standing_versions(self._history(connection, name, alias))
            if not standing:
                raise InputError(
                    f"expected a promotion of {name}@{alias} to take back, found none left; it stands for nothing"
                )
            target = standing[-2] if len(standing) > 1 else None
            ground = PromotionGround("none: a rollback is never blocked")
            change = self._change(before, "rollback", target, who, why, ground)
            if self._swap(connection, before, change):
                return change
        raise PointerConflict(f"expected {name}@{alias} to stay while it is rolled back, found it moved; do it again")

    def _change(
        self,
        before: ModelPointer,
        kind: str,
        version: int | None,
        who: str,
        why: str,
        ground: PromotionGround,
    ) -> PointerChange:
        return PointerChange(
            before.name,
            before.alias,
            before.generation + 1,
            kind,
            before.version,
            version,
            who,
            why,
            ground.gate,
            ground.report_hash,
            self.clock(),
        )

    def _swap(self, connection: Connection, before: ModelPointer, change: PointerChange) -> bool:
        """Move a pointer if it is still at the generation that the change replaces; write the history with it."""
        values = {"version": change.to_version, "generation": change.generation}
        if before.generation:
            where = (
                ModelPointerRow.name == before.name,
                ModelPointerRow.alias == before.alias,
                ModelPointerRow.generation == before.generation,
            )
            moved = connection.execute(update(ModelPointerRow).where(*where).values(values)).rowcount
        else:
            try:
                with connection.begin_nested():
                    connection.execute(insert(ModelPointerRow).values(name=before.name, alias=before.alias, **values))
                moved = 1
            except IntegrityError:  # another first promotion was faster
                moved = 0
        if moved:
            connection.execute(insert(PointerChangeRow).values(vars(change)))
        return bool(moved)

    def history(self, name: str | None = None, alias: str | None = None) -> tuple[PointerChange, ...]:
        """Give every change of the pointers, the oldest first."""
        with self.engine.connect() as connection:
            return self._history(connection, name, alias)

    def _history(self, connection: Connection, name: str | None, alias: str | None) -> tuple[PointerChange, ...]:
        query = select(*PointerChangeRow.__table__.columns)
        if name is not None:
            query = query.where(PointerChangeRow.name == name)
        if alias is not None:
            query = query.where(PointerChangeRow.alias == alias)
        if name is None or alias is None:
            query = query.order_by(PointerChangeRow.changed_at, PointerChangeRow.name, PointerChangeRow.alias)
        query = query.order_by(PointerChangeRow.generation)  # of one pointer: clocks of machines may differ
        return tuple(PointerChange(**row._mapping) for row in connection.execute(query))

    def archive(self, version: ModelVersion) -> ModelVersion:
        """Take a version out of lists; one that an alias stands for is refused. Its files and history stay."""
        with writing(self.engine) as connection:
            connection.execute(select(ModelRow.name).where(ModelRow.name == version.name).with_for_update())
            query = select(ModelPointerRow.alias).where(
                ModelPointerRow.name == version.name, ModelPointerRow.version == version.version
            )
            users = list(connection.scalars(query))
            if users:
                raise InputError(
                    f"expected a version that no alias stands for, found {version.label} behind {', '.join(users)};"
                    " promote another version or roll back first"
                )
            where = (ModelVersionRow.name == version.name, ModelVersionRow.version == version.version)
            connection.execute(
                update(ModelVersionRow)
                .where(*where, ModelVersionRow.archived_at.is_(None))
                .values(archived_at=self.clock())
            )
        return self.version(version.name, version.version)

    def export(self, version: ModelVersion, target: Path) -> Path:
        """Copy a version's files, checked, into a folder that is not there yet."""
        source = self.open(version)
        try:
            shutil.copytree(source, target)
        except OSError as error:
            raise InputError(f"expected a new folder at {target}, found: {error.strerror or error}") from None
        return check_files(target, version.files)


def standing_versions(history: Sequence[PointerChange]) -> list[int]:
    """Give the promoted versions that were not taken back, the one in use last; one promoted twice in a row once."""
    standing: list[int] = []
    for change in history:
        if change.kind == "rollback":
            if standing:
                standing.pop()
        elif change.to_version is not None and standing[-1:] != [change.to_version]:
            standing.append(change.to_version)
    return standing


_VERSION_COLUMNS: Sequence[Any] = tuple(ModelVersionRow.__table__.columns)
_POINTER_COLUMNS: Sequence[Any] = tuple(ModelPointerRow.__table__.columns)
_BASELINE_WORDS = ("baseline",)
"""Names with which another kind of name begins."""


def _version(row: Row[Any]) -> ModelVersion:
    fields = dict(row._mapping)
    return ModelVersion(**{("commit" if name == "commit_hash" else name): value for name, value in fields.items()})


def _pointer(row: Row[Any]) -> ModelPointer:
    return ModelPointer(**row._mapping)
