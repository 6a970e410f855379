"""The tables of the model registry and of experiments between versions.

A version is never changed but for the moment it was archived. A pointer names the version that an alias stands for; its
generation counts every change, and the table of changes has one row a generation, so that a change that is lost or
counted twice cannot be written. Leaves out: who may move a pointer (models).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from playproof.store.db.columns import MONEY
from playproof.store.db.records import TableRow

CHANGE_KINDS = ("promote", "rollback")
MODES = ("shadow", "split", "forks")


class ModelRow(TableRow):
    """A name under which versions of one model are kept."""

    __tablename__ = "model"

    name: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime]


class ModelVersionRow(TableRow):
    """One version of a model: its files by their hash, and from what it was made."""

    __tablename__ = "model_version"
    __table_args__ = (UniqueConstraint("name", "checkpoint"),)

    name: Mapped[str] = mapped_column(ForeignKey("model.name"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Counted from 1."""
    checkpoint: Mapped[str]
    """sha256 over all files; also the folder that holds them."""
    policy_hash: Mapped[str]
    """Identity in verdicts, benchmarks and the trial ledger."""
    kind: Mapped[str]
    """policy or language."""
    game: Mapped[str]
    method: Mapped[str]
    files: Mapped[dict[str, Any]]
    """sha256 by name."""
    card: Mapped[dict[str, Any]]
    report_hash: Mapped[str | None]
    """Of the report that was known when the version was added."""
    verdict: Mapped[str | None]
    data_hash: Mapped[str | None]
    reward_hash: Mapped[str | None]
    world_hash: Mapped[str | None]
    """Of the simulated world's name and the game's version; None where it learned from recordings alone."""
    commit: Mapped[str] = mapped_column("commit_hash", key="commit")
    parent: Mapped[str | None]
    """Version, or the name of the model, that training began with."""
    batch_id: Mapped[str | None] = mapped_column(ForeignKey("training_batch.batch_id"))
    source: Mapped[str]
    """Where the files were added from."""
    metrics: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime]
    archived_at: Mapped[datetime | None]


class ModelPointerRow(TableRow):
    """What an alias of a model stands for now."""

    __tablename__ = "model_pointer"
    __table_args__ = (
        ForeignKeyConstraint(
            ["name", "version"], ["model_version.name", "model_version.version"], name="fk_model_pointer_version"
        ),
    )

    name: Mapped[str] = mapped_column(ForeignKey("model.name"), primary_key=True)
    alias: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int | None]
    """None after a rollback to before the first promotion."""
    generation: Mapped[int]
    """Changes so far; a change names the generation that it replaces."""


class PointerChangeRow(TableRow):
    """One change of a pointer; rows are only added."""

    __tablename__ = "pointer_history"
    __table_args__ = (
        ForeignKeyConstraint(["name", "alias"], ["model_pointer.name", "model_pointer.alias"]),
        CheckConstraint(f"kind IN ({', '.join(map(repr, CHANGE_KINDS))})", name="kind"),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    alias: Mapped[str] = mapped_column(primary_key=True)
    generation: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """The one that the change made, from 1."""
    kind: Mapped[str]
    from_version: Mapped[int | None]
    to_version: Mapped[int | None]
    who: Mapped[str]
    why: Mapped[str]
    gate: Mapped[str]
    """What was asked of the version, and what it answered."""
    report_hash: Mapped[str | None]
    changed_at: Mapped[datetime]


class DeploymentRow(TableRow):
    """A server that serves one version, since when and until when."""

    __tablename__ = "deployment"
    __table_args__ = (Index("ix_deployment_model", "name", "alias", "began_at"),)

    deployment_id: Mapped[str] = mapped_column(primary_key=True)
    server: Mapped[str]
    """Host, process and address; a server that swaps has one row for each version."""
    name: Mapped[str]
    alias: Mapped[str | None]
    """None where a version was named and is kept."""
    version: Mapped[int]
    generation: Mapped[int | None]
    began_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    """None while it serves, or after a crash: then the heartbeat is old."""
    answers: Mapped[int] = mapped_column(MONEY)
    problem: Mapped[str | None]
    """Why a newer version is not served instead."""


class ExperimentRow(TableRow):
    """An experiment between two versions, registered before it starts."""

    __tablename__ = "experiment"
    __table_args__ = (CheckConstraint(f"mode IN ({', '.join(map(repr, MODES))})", name="mode"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    mode: Mapped[str]
    game: Mapped[str]
    a: Mapped[dict[str, Any]]
    """The version in use: label, policy_hash, and where it is loaded from."""
    b: Mapped[dict[str, Any]]
    """The challenger."""
    plan: Mapped[dict[str, Any]]
    """Limits, margin, budget and what is played; never changed."""
    registered_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ending: Mapped[str | None]
    """A better, B better, equal, budget used, or stopped; None while it runs."""
    why: Mapped[str | None]


class ExperimentUnitRow(TableRow):
    """One window of an experiment, or in a split one window or agent of one arm."""

    __tablename__ = "experiment_unit"
    __table_args__ = (UniqueConstraint("experiment", "unit"),)

    experiment: Mapped[str] = mapped_column(ForeignKey("experiment.name"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Order in which units counted, from 0."""
    unit: Mapped[str]
    pnl_a: Mapped[int | None] = mapped_column(MONEY)
    """Profit of A in the smallest unit; None where only B played."""
    pnl_b: Mapped[int | None] = mapped_column(MONEY)
    noted_at: Mapped[datetime]
