"""Make the tables of bots: accounts, sessions, orders, the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from playproof.store.db.columns import Moment

revision = "0006_bots"
down_revision = "0005_models"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "bot_account",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("latched", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("cash", sa.BigInteger(), nullable=False),
        sa.Column("open_cost", sa.BigInteger(), nullable=False),
        sa.Column("open_positions", sa.Integer(), nullable=False),
        sa.Column("unanswered", sa.Text(), nullable=False),
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("round_equity", sa.BigInteger(), nullable=False),
        sa.Column("peak", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("day_equity", sa.BigInteger(), nullable=False),
        sa.Column("last_stake", sa.BigInteger(), nullable=False),
        sa.Column("last_lost", sa.Boolean(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("bets", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("updated_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("account", name=op.f("pk_bot_account")),
    )
    op.create_table(
        "bot_session",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("started_at", Moment(), nullable=False),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("ended", sa.Text(), nullable=True),
        sa.Column("lines", sa.Integer(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["bot_account.account"], name=op.f("fk_bot_session_account")),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_bot_session")),
    )
    op.create_table(
        "bot_order",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("tick", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("stake", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["bot_account.account"], name=op.f("fk_bot_order_account")),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_bot_order")),
    )
    op.create_index("ix_bot_order_account_state", "bot_order", ["account", "state"], unique=False)
    op.create_table(
        "bot_audit",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["bot_session.session_id"], name=op.f("fk_bot_audit_session_id")),
        sa.PrimaryKeyConstraint("session_id", "line", name=op.f("pk_bot_audit")),
    )
