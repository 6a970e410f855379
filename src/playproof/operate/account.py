"""The account in the database: every change of its money is one transaction with the audit lines that say why.

The row is locked first (SQLite: the write lock, PostgreSQL: FOR UPDATE), read, judged, changed and committed; to
reserve an order costs one sync. Limits therefore belong to the account: two gates on one bankroll see each other's
orders.
Leaves out: what is allowed (limits) and when to latch (gate).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, insert, select, update

from playproof.errors import ConfigError, InputError
from playproof.operate.audit import AuditChain
from playproof.operate.limits import (
    HALTED,
    AccountState,
    OrderLimits,
    OrderOutcome,
    OrderProposal,
    next_day,
    refusal,
    reserved,
    settled,
)
from playproof.store.db.bots import BotAccount, BotOrder, BotSession
from playproof.store.db.engine import writing

Now = Callable[[], datetime]
_FIELDS = tuple(item.name for item in fields(AccountState))
_COLUMNS = tuple(BotAccount.__table__.c[name] for name in _FIELDS)


def to_ms(moment: datetime) -> int:
    """Give a moment as whole milliseconds."""
    return int(moment.timestamp() * 1000)


def to_day(moment: datetime) -> str:
    """Give the day of a moment, in UTC."""
    return moment.astimezone(UTC).date().isoformat()


class AccountStore:
    """One account, as one session sees it; all reads and writes of its row go through here."""

    def __init__(self, engine: Engine, account: str, session_id: str, now: Now) -> None:
        self.engine, self.account, self.now = engine, account, now
        self.chain = AuditChain(session_id)
        self._is_postgres = engine.dialect.name == "postgresql"

    @contextmanager
    def locked(self) -> Iterator[tuple[Connection, AccountState]]:
        """Give the account's row in a transaction that nobody else can be in; audit lines that wait go with it."""
        before = self.chain.mark()
        try:
            with writing(self.engine) as connection:
                query = select(*_COLUMNS).where(BotAccount.account == self.account)
                row = connection.execute(query.with_for_update() if self._is_postgres else query).one_or_none()
                if row is None:
                    raise ConfigError(
                        f"expected an account, found none called {self.account!r}; playproof bot run makes it"
                    )
                yield connection, AccountState(**{**row._mapping, "bets": tuple(row.bets)})
                self.chain.write(connection)
        except BaseException:
            self.chain.go_back(before)  # what was not committed did not happen
            raise
        self.chain.written()

    def save(self, connection: Connection, state: AccountState) -> None:
        """Write the row."""
        values = {**asdict(state), "bets": list(state.bets), "updated_at": self.now()}
        connection.execute(update(BotAccount).where(BotAccount.account == self.account).values(**values))

    def read(self) -> AccountState:
        """Give the row as it stands."""
        state = read_account(self.engine, self.account)
        if state is None:
            raise ConfigError(f"expected an account, found none called {self.account!r}; playproof bot run makes it")
        return state

    def begin_session(self, policy: str, version: str, mode: str, url: str, cash: int) -> AccountState:
        """Make the account if it is new, and the session's row; a new account starts with this cash."""
        now = self.now()
        with writing(self.engine) as connection:
            row = connection.execute(
                select(BotAccount.open_positions, BotAccount.latched).where(BotAccount.account == self.account)
            ).one_or_none()
            if row is not None and not row.latched and row.open_positions == 0:
                # Whoever starts a bot names its policy; after this the version may not change under way.
                connection.execute(update(BotAccount).where(BotAccount.account == self.account).values(version=version))
            if row is None:
                new = AccountState(
                    self.account, cash=cash, peak=cash, day=to_day(now), day_equity=cash, version=version
                )
                values = {**asdict(new), "bets": [], "updated_at": now}
                connection.execute(insert(BotAccount).values(**values))
            connection.execute(
                insert(BotSession).values(
                    session_id=self.chain.session_id,
                    account=self.account,
                    policy=policy,
                    version=version,
                    mode=mode,
                    url=url,
                    started_at=now,
                    ended_at=None,
                    ended=None,
                    lines=0,
                    head=self.chain.head,
                )
            )
        return self.read()

    def end_session(self, why: str) -> None:
        """Write the end of the session and all that waits."""
        self.chain.add({"kind": "end", "at": to_ms(self.now()), "why": why})
        with self.locked() as (connection, _):
            connection.execute(
                update(BotSession)
                .where(BotSession.session_id == self.chain.session_id)
                .values(ended_at=self.now(), ended=why)
            )

    def flush(self) -> None:
        """Make the lines that wait durable."""
        if self.chain.waiting:
            with self.locked():
                pass

    def reserve(self, limits: OrderLimits, proposal: OrderProposal, line: dict[str, object]) -> str | None:
        """Reserve an order and write its line, in one transaction; give why it was refused, None if it may leave."""
        now = self.now()
        with self.locked() as (connection, before):
            state = next_day(before, to_day(now))
            reason = refusal(limits, state, proposal, to_ms(now)) or self._repeated(connection, proposal.order_id)
            if reason is None:
                state = self._reserved(connection, state, proposal, now)
            if state is not before:
                self.save(connection, state)
            self.chain.add({**line, "answer": "refused" if reason else "allowed", "reason": reason or ""})
        return reason

    def _repeated(self, connection: Connection, order_id: str) -> str | None:
        """Refuse an id that was used: one id, at most one order."""
        known = connection.execute(select(BotOrder.order_id).where(BotOrder.order_id == order_id)).first()
        return "repeated order id" if known else None

    def _reserved(
        self, connection: Connection, state: AccountState, proposal: OrderProposal, now: datetime
    ) -> AccountState:
        enters, moment = proposal.kind == "enter", to_ms(now)
        stake = proposal.stake if enters else 0
        connection.execute(
            insert(BotOrder).values(
                order_id=proposal.order_id,
                account=self.account,
                session_id=self.chain.session_id,
                window_id=proposal.window_id,
                tick=proposal.tick,
                kind=proposal.kind,
                stake=stake,
                state="reserved",
                created_at=now,
            )
        )
        return reserved(state, proposal, moment)

    def enter_outcome(self, outcome: OrderOutcome, line: dict[str, object]) -> tuple[AccountState, str | None]:
        """Enter what became of an order with its money, in one transaction; give the state, and what does not fit."""
        with self.locked() as (connection, before):
            state, problem = settled(before, outcome)
            if outcome.order_id:
                name = "unknown" if outcome.outcome == "unknown" else outcome.outcome
                connection.execute(update(BotOrder).where(BotOrder.order_id == outcome.order_id).values(state=name))
            if outcome.outcome == "settled":
                connection.execute(
                    update(BotOrder)
                    .where(BotOrder.account == self.account, BotOrder.state.in_(("reserved", "unknown", "filled")))
                    .values(state="settled")
                )
            self.save(connection, state)
            self.chain.add(
                {
                    **line,
                    "outcome": outcome.outcome,
                    "order": outcome.order_id,
                    "cash": state.cash,
                    "open_cost": state.open_cost,
                    "open_positions": state.open_positions,
                    "detail": outcome.detail,
                    **({"problem": problem} if problem else {}),
                }
            )
        return state, problem

    def change(self, line: dict[str, object], **values: object) -> AccountState:
        """Change fields of the row that are no money, and say so in the log."""
        with self.locked() as (connection, before):
            state = replace(before, **values)  # type: ignore[arg-type]
            self.save(connection, state)
            self.chain.add(line)
        return state


def read_account(engine: Engine, account: str) -> AccountState | None:
    """Give an account's row, None where there is none."""
    with engine.connect() as connection:
        row = connection.execute(select(*_COLUMNS).where(BotAccount.account == account)).one_or_none()
    return None if row is None else AccountState(**{**row._mapping, "bets": tuple(row.bets)})


def reset_account(engine: Engine, account: str, why: str, now: datetime) -> AccountState:
    """Take the latch off, with a person's reason; the gate stays closed until it has reconciled.

    The loss that latched it stays on the books, but the peak begins anew: a person has looked.
    """
    if len(why.strip()) < 3:
        raise InputError("expected a reason of a person in --why, found none; say what was looked at")
    with writing(engine) as connection:
        query = select(*_COLUMNS).where(BotAccount.account == account)
        row = connection.execute(query).one_or_none()
        if row is None:
            raise InputError(f"expected an account, found none called {account!r}; see playproof bot ls")
        state = AccountState(**{**row._mapping, "bets": tuple(row.bets)})
        state = replace(state, latched=False, state=HALTED, reason=f"reset: {why.strip()}", errors=0, peak=state.equity)
        values = {**asdict(state), "bets": list(state.bets), "updated_at": now}
        connection.execute(update(BotAccount).where(BotAccount.account == account).values(**values))
        _note_reset(connection, account, why.strip(), now)
    return state


def _note_reset(connection: Connection, account: str, why: str, now: datetime) -> None:
    """Write the reset into a session of its own, so that no running chain is touched."""
    session_id = f"reset-{to_ms(now)}"
    chain = AuditChain(session_id)
    connection.execute(
        insert(BotSession).values(
            session_id=session_id, account=account, policy="", version="", mode="reset", url="", started_at=now,
            ended_at=now, ended=why, lines=0, head=chain.head,
        )
    )  # fmt: skip
    chain.add({"kind": "reset", "at": to_ms(now), "why": why})
    chain.write(connection)
