"""Make the table of windows that models have learned from, and of those kept from them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from playproof.store.db.columns import Moment

revision = "0003_used_windows"
down_revision = "0002_judge_calls"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "used_window",
        sa.Column("lineage", sa.Text(), nullable=False),
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("iteration", sa.Integer(), nullable=False),
        sa.Column("settled", sa.Boolean(), nullable=False),
        sa.Column("model_version", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.CheckConstraint("purpose IN ('train', 'holdout')", name=op.f("ck_used_window_purpose")),
        sa.PrimaryKeyConstraint("lineage", "window_id", name=op.f("pk_used_window")),
    )
    op.create_index("ix_used_window_iteration", "used_window", ["lineage", "iteration"], unique=False)
