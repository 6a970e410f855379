"""Name the market of trajectories and outcomes, and make the tables of corrected outcomes and of imports."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from playproof.store.db.columns import Moment

revision = "0004_markets"
down_revision = "0003_used_windows"
branch_labels = None
depends_on = None

KEY = ("window_id", "kind", "subject", "market")


def upgrade() -> None:
    """Add the columns and make the tables."""
    op.add_column("trajectory", sa.Column("market", sa.Text(), nullable=False, server_default=""))
    op.create_index("ix_trajectory_market_window", "trajectory", ["market", "window_id"], unique=False)
    _market_outcome()
    op.create_table(
        "outcome_revision",
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("rows", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("replaced_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("market", "window_id", "revision", name=op.f("pk_outcome_revision")),
    )
    op.create_table(
        "import_cursor",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("position", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("updated_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_import_cursor")),
    )


def _market_outcome() -> None:
    """Put the market into the key of outcomes; SQLite cannot change a key, so its table is made anew."""
    if op.get_bind().dialect.name == "postgresql":
        op.add_column("market_outcome", sa.Column("market", sa.Text(), nullable=False, server_default=""))
        op.add_column("market_outcome", sa.Column("currency", sa.Text(), nullable=True))
        op.drop_constraint(op.f("pk_market_outcome"), "market_outcome", type_="primary")
        op.create_primary_key(op.f("pk_market_outcome"), "market_outcome", list(KEY))
        return
    old = (
        "window_id, kind, subject, start_price, end_price, change, sentiment, news_ids, question, outcome,"
        " final_probability, volume, created_at"
    )
    op.rename_table("market_outcome", "market_outcome_before")
    op.create_table(
        "market_outcome",
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False, server_default=""),
        sa.Column("currency", sa.Text(), nullable=True),
        sa.Column("start_price", sa.BigInteger(), nullable=True),
        sa.Column("end_price", sa.BigInteger(), nullable=True),
        sa.Column("change", sa.Double(), nullable=True),
        sa.Column("sentiment", sa.Double(), nullable=True),
        sa.Column("news_ids", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("question", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("final_probability", sa.Double(), nullable=True),
        sa.Column("volume", sa.BigInteger(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.CheckConstraint("kind IN ('asset', 'market')", name=op.f("ck_market_outcome_kind")),
        sa.PrimaryKeyConstraint(*KEY, name=op.f("pk_market_outcome")),
    )
    op.execute(f"INSERT INTO market_outcome ({old}) SELECT {old} FROM market_outcome_before")  # noqa: S608
    op.drop_table("market_outcome_before")
