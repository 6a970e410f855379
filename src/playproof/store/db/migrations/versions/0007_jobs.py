"""Make the tables of jobs and of marks that people give trajectories."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from playproof.store.db.columns import Moment

revision = "0007_jobs"
down_revision = "0006_bots"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, and the index that lists trajectories by their start."""
    op.create_table(
        "job",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("home_id", sa.Text(), nullable=False),
        sa.Column("home", sa.Text(), nullable=False),
        sa.Column("arguments", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("lease_until", Moment(), nullable=True),
        sa.Column("cancel_asked", sa.Boolean(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("started_at", Moment(), nullable=True),
        sa.Column("finished_at", Moment(), nullable=True),
        sa.CheckConstraint(
            "status IN ('waiting', 'running', 'done', 'failed', 'cancelled')", name=op.f("ck_job_status")
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job")),
    )
    op.create_index("ix_job_home_status_created", "job", ["home_id", "status", "created_at"], unique=False)
    op.create_index("ix_job_created", "job", ["created_at"], unique=False)
    op.create_table(
        "review_mark",
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("marked_by", sa.Text(), nullable=False),
        sa.Column("marked_at", Moment(), nullable=False),
        sa.CheckConstraint("verdict IN ('accepted', 'rejected')", name=op.f("ck_review_mark_verdict")),
        sa.PrimaryKeyConstraint("trajectory_id", name=op.f("pk_review_mark")),
    )
    op.create_index("ix_review_mark_verdict", "review_mark", ["verdict"], unique=False)
    op.create_index("ix_trajectory_start", "trajectory", ["start_time", "trajectory_id"], unique=False)
