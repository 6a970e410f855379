"""How the bots stand, for pages and commands: one typed read of the tables and the account's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson
from sqlalchemy import Engine, select

from playproof.errors import InputError
from playproof.home import check_id, write_durably
from playproof.json_types import Json
from playproof.operate.account import read_account, reset_account
from playproof.operate.gate import KILL_FILE, LATCH_FILE
from playproof.operate.limits import HALTED, HOUR_MS, AccountState, OrderLimits, daily_room, total_room
from playproof.store.db.bots import BotAccount, BotAudit, BotSession

DECISIONS = 20
FOLDER = "bots"
TAKE_OVER = "takeover"
"""While this file lies in an account's folder, a person plays until the round ends."""


def account_folder(account: str, home: Path) -> Path:
    """Give the folder of an account: kill file, latch, lock, take-over."""
    return home / FOLDER / check_id(account, "an account's name")


@dataclass(frozen=True)
class LimitUse:
    """How much of one limit is used up, in its own unit."""

    name: str
    used: int
    most: int
    unit: str


@dataclass(frozen=True)
class BotState:
    """One account and its last session."""

    account: AccountState
    limits: tuple[LimitUse, ...]
    kill_file: bool
    taken_over: bool
    running: bool
    """Has its last session not ended?"""
    session_id: str
    policy: str
    mode: str
    url: str
    started_at: datetime | None
    ended: str
    audit_lines: int
    audit_head: str
    decisions: tuple[Json, ...]
    """The last lines of the audit log, newest first."""


def find_session(engine: Engine, name: str) -> str:
    """Give a session by its id, the last one of an account by the account's name, or the last of all by "last"."""
    query = select(BotSession.session_id).where(BotSession.mode != "reset").order_by(BotSession.started_at.desc())
    with engine.connect() as connection:
        if connection.execute(select(BotSession.session_id).where(BotSession.session_id == name)).first():
            return name
        last = query if name == "last" else query.where(BotSession.account == name)
        result = connection.execute(last.limit(1)).scalar_one_or_none()
    if result is None:
        raise InputError(f"expected a session, an account or 'last', found {name!r}; see playproof bot ls")
    return result


def read_bots(engine: Engine, home: Path, now_ms: int, limits: OrderLimits | None = None) -> tuple[BotState, ...]:
    """Give every account, the one that traded last first."""
    with engine.connect() as connection:
        names: Sequence[str] = (
            connection.execute(select(BotAccount.account).order_by(BotAccount.updated_at.desc())).scalars().all()
        )
    return tuple(read_bot(engine, home, name, now_ms, limits) for name in names)


def read_bot(engine: Engine, home: Path, account: str, now_ms: int, limits: OrderLimits | None = None) -> BotState:
    """Give one account."""
    state = read_account(engine, account)
    if state is None:
        raise InputError(f"expected an account, found none called {account!r}; see playproof bot ls")
    with engine.connect() as connection:
        session = connection.execute(
            select(BotSession.__table__)
            .where(BotSession.account == account, BotSession.mode != "reset")
            .order_by(BotSession.started_at.desc())
            .limit(1)
        ).one_or_none()
        lines = (
            connection.execute(
                select(BotAudit.payload)
                .where(BotAudit.session_id == (session.session_id if session else ""))
                .order_by(BotAudit.line.desc())
                .limit(DECISIONS)
            )
            .scalars()
            .all()
        )
    folder = account_folder(account, home)
    return BotState(
        account=state,
        limits=limits_used(limits or OrderLimits(), state, now_ms),
        kill_file=(folder / KILL_FILE).exists(),
        taken_over=(folder / TAKE_OVER).exists(),
        running=session is not None and session.ended_at is None,
        session_id=session.session_id if session else "",
        policy=session.policy if session else "",
        mode=session.mode if session else "",
        url=session.url if session else "",
        started_at=session.started_at if session else None,
        ended=(session.ended or "") if session else "",
        audit_lines=session.lines if session else 0,
        audit_head=session.head if session else "",
        decisions=tuple(orjson.loads(line) for line in lines),
    )


def limits_used(limits: OrderLimits, state: AccountState, now_ms: int) -> tuple[LimitUse, ...]:
    """Give how much of each limit is used up; all that is open counts as lost."""
    day = state.day_equity * limits.daily_loss // 1_000_000
    total = state.peak * limits.total_loss // 1_000_000
    return (
        LimitUse("stake", state.open_cost, state.equity * limits.stake_share // 1_000_000, "units"),
        LimitUse("open positions", state.open_positions, limits.open_positions, "positions"),
        LimitUse("daily loss", day - daily_room(limits, state), day, "units"),
        LimitUse("total loss", total - total_room(limits, state), total, "units"),
        LimitUse("bets an hour", sum(at > now_ms - HOUR_MS for at in state.bets), limits.bets_an_hour, "bets"),
        LimitUse("errors in a row", state.errors, limits.errors_in_a_row, "errors"),
    )


def kill(home: Path, account: str, why: str) -> Path:
    """Kill a bot: write the file that its gate looks for. Works where nobody answers, and for the next start too."""
    path = account_folder(account, home) / KILL_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, f"{why}\n".encode())
    return path


def take_over(home: Path, account: str) -> Path:
    """Let a person play until the round ends; the bot watches and notes what is done."""
    path = account_folder(account, home) / TAKE_OVER
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, b"")
    return path


def reset(engine: Engine, home: Path, account: str, why: str, now: datetime) -> AccountState:
    """Take kill and latch off an account, with a person's reason; it opens again after a reconciliation."""
    state = reset_account(engine, account, why, now)
    folder = account_folder(account, home)
    for name in (KILL_FILE, LATCH_FILE):
        (folder / name).unlink(missing_ok=True)
    assert state.state == HALTED
    return state
