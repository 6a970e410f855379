"""Make the tables of the model registry and of experiments; drop `trained_model`, which nothing ever wrote.

What `trained_model` was to hold, `model_version`, `model_pointer` and `deployment` do.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from playproof.errors import StoreError
from playproof.store.db.columns import Moment

revision = "0005_models"
down_revision = "0004_markets"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    rows = op.get_bind().execute(sa.text("SELECT count(*) FROM trained_model")).scalar_one()
    if rows:
        raise StoreError(
            f"expected the table trained_model empty, found {rows} rows that playproof did not write; "
            "save them elsewhere and delete them, then upgrade again"
        )
    op.drop_table("trained_model")
    _registry()
    _experiments()


def _registry() -> None:
    op.create_table(
        "model",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_model")),
    )
    op.create_table(
        "model_version",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("checkpoint", sa.Text(), nullable=False),
        sa.Column("policy_hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("game", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.Column("card", sa.JSON(), nullable=False),
        sa.Column("report_hash", sa.Text(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("data_hash", sa.Text(), nullable=True),
        sa.Column("reward_hash", sa.Text(), nullable=True),
        sa.Column("world_hash", sa.Text(), nullable=True),
        sa.Column("commit_hash", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("batch_id", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("archived_at", Moment(), nullable=True),
        sa.ForeignKeyConstraint(["batch_id"], ["training_batch.batch_id"], name=op.f("fk_model_version_batch_id")),
        sa.ForeignKeyConstraint(["name"], ["model.name"], name=op.f("fk_model_version_name")),
        sa.PrimaryKeyConstraint("name", "version", name=op.f("pk_model_version")),
        sa.UniqueConstraint("name", "checkpoint", name=op.f("uq_model_version_name_checkpoint")),
    )
    op.create_table(
        "model_pointer",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["name", "version"], ["model_version.name", "model_version.version"], name="fk_model_pointer_version"
        ),
        sa.ForeignKeyConstraint(["name"], ["model.name"], name=op.f("fk_model_pointer_name")),
        sa.PrimaryKeyConstraint("name", "alias", name=op.f("pk_model_pointer")),
    )
    op.create_table(
        "pointer_history",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("from_version", sa.Integer(), nullable=True),
        sa.Column("to_version", sa.Integer(), nullable=True),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("gate", sa.Text(), nullable=False),
        sa.Column("report_hash", sa.Text(), nullable=True),
        sa.Column("changed_at", Moment(), nullable=False),
        sa.CheckConstraint("kind IN ('promote', 'rollback')", name=op.f("ck_pointer_history_kind")),
        sa.ForeignKeyConstraint(
            ["name", "alias"], ["model_pointer.name", "model_pointer.alias"], name=op.f("fk_pointer_history_name")
        ),
        sa.PrimaryKeyConstraint("name", "alias", "generation", name=op.f("pk_pointer_history")),
    )
    op.create_table(
        "deployment",
        sa.Column("deployment_id", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("began_at", Moment(), nullable=False),
        sa.Column("heartbeat_at", Moment(), nullable=False),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("deployment_id", name=op.f("pk_deployment")),
    )
    op.create_index("ix_deployment_model", "deployment", ["name", "alias", "began_at"], unique=False)


def _experiments() -> None:
    op.create_table(
        "experiment",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("game", sa.Text(), nullable=False),
        sa.Column("a", sa.JSON(), nullable=False),
        sa.Column("b", sa.JSON(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("registered_at", Moment(), nullable=False),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("ending", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.CheckConstraint("mode IN ('shadow', 'split', 'forks')", name=op.f("ck_experiment_mode")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_experiment")),
    )
    op.create_table(
        "experiment_unit",
        sa.Column("experiment", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("pnl_a", sa.BigInteger(), nullable=True),
        sa.Column("pnl_b", sa.BigInteger(), nullable=True),
        sa.Column("noted_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["experiment"], ["experiment.name"], name=op.f("fk_experiment_unit_experiment")),
        sa.PrimaryKeyConstraint("experiment", "number", name=op.f("pk_experiment_unit")),
        sa.UniqueConstraint("experiment", "unit", name=op.f("uq_experiment_unit_experiment_unit")),
    )
