"""The tables of bots: accounts with their limits' state, orders, sessions and the audit log.

Money is units of 10^-9. An account is one row, which whoever spends from it locks first.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from playproof.store.db.columns import MONEY
from playproof.store.db.records import TableRow

ORDER_STATES = ("reserved", "unknown", "filled", "refused", "settled")


class BotAccount(TableRow):
    """One bankroll: what it holds, what its limits have used up, and whether it may trade."""

    __tablename__ = "bot_account"

    account: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
    reason: Mapped[str]
    latched: Mapped[bool]
    version: Mapped[str]
    cash: Mapped[int] = mapped_column(MONEY)
    open_cost: Mapped[int] = mapped_column(MONEY)
    open_positions: Mapped[int]
    unanswered: Mapped[str]
    window_id: Mapped[str]
    round_equity: Mapped[int] = mapped_column(MONEY)
    peak: Mapped[int] = mapped_column(MONEY)
    day: Mapped[str]
    day_equity: Mapped[int] = mapped_column(MONEY)
    last_stake: Mapped[int] = mapped_column(MONEY)
    last_lost: Mapped[bool]
    errors: Mapped[int]
    bets: Mapped[list[Any]]
    updated_at: Mapped[datetime]


class BotSession(TableRow):
    """One run of a bot, with the end of its audit chain."""

    __tablename__ = "bot_session"

    session_id: Mapped[str] = mapped_column(primary_key=True)
    account: Mapped[str] = mapped_column(ForeignKey("bot_account.account"))
    policy: Mapped[str]
    version: Mapped[str]
    mode: Mapped[str]
    url: Mapped[str]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ended: Mapped[str | None]
    """Why it ended."""
    lines: Mapped[int]
    head: Mapped[str]


class BotOrder(TableRow):
    """One order, reserved before it was sent."""

    __tablename__ = "bot_order"
    __table_args__ = (Index("ix_bot_order_account_state", "account", "state"),)

    order_id: Mapped[str] = mapped_column(primary_key=True)
    account: Mapped[str] = mapped_column(ForeignKey("bot_account.account"))
    session_id: Mapped[str]
    window_id: Mapped[str]
    tick: Mapped[int]
    kind: Mapped[str]
    stake: Mapped[int] = mapped_column(MONEY)
    state: Mapped[str]
    created_at: Mapped[datetime]


class BotAudit(TableRow):
    """One line of a session's audit log; never changed."""

    __tablename__ = "bot_audit"

    session_id: Mapped[str] = mapped_column(ForeignKey("bot_session.session_id"), primary_key=True)
    line: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    payload: Mapped[str]
    hash: Mapped[str]
