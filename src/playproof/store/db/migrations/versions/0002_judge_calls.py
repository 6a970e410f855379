"""Make the table of questions to judges and their answers, which no question is asked twice because of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from playproof.store.db.columns import Moment

revision = "0002_judge_calls"
down_revision = "0001_first_tables"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "judge_call",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("judge_model", sa.Text(), nullable=False),
        sa.Column("judge_version", sa.Text(), nullable=True),
        sa.Column("prompt_hash", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("places", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("refused", sa.Text(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_judge_call")),
    )
    op.create_index("ix_judge_call_group", "judge_call", ["group_id"])
