"""The order gate: it stands between a policy and the world, and unknown means HALTED.

Closed when it is made; opens after a reconciliation that fits; each refusal has a name. The first thing that goes wrong
latches: in memory at once, then on disk and in the account, then somebody is told, then what is open is tidied up. No
later step is needed for the latch to hold: a report that fails or a database that is away changes nothing of it.
All clocks are given, so that a test drives the gate tick by tick. Leaves out: its process and its wire (gate_process).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from playproof.errors import PlayproofError
from playproof.home import write_durably
from playproof.operate.account import AccountStore, to_ms
from playproof.operate.limits import (
    ACTIVE,
    HALTED,
    REDUCING,
    AccountState,
    GateState,
    OrderLimits,
    OrderOutcome,
    OrderProposal,
    daily_room,
    is_well_formed,
    total_room,
)

KILL_FILE, LATCH_FILE = "kill", "halted.json"
Tell = Callable[[str, Mapping[str, Any]], object]
WAITING_LINES = 256
"""Audit lines that may wait for the next transaction."""


@dataclass(frozen=True)
class GateAnswer:
    """What the gate says to a proposal."""

    allowed: bool
    reason: str
    """Empty where it is allowed."""
    order_id: str = ""


@dataclass
class OrderGate:
    """One session's gate to one account."""

    store: AccountStore
    limits: OrderLimits
    version: str
    """Hash of the policy that this gate lets through."""
    folder: Path
    """Of the account: the kill file and the latch lie there."""
    steady_ms: Callable[[], int]
    """A clock that never jumps; the store's is the wall's."""
    tell: Tell = lambda what, payload: None  # noqa: ARG005
    """Tells people; may fail, and nothing waits for it."""
    state: GateState = HALTED
    reason: str = "closed: not reconciled yet"
    latched: bool = False
    pending_kill: str = field(default="", init=False)
    """Set by a signal, which may come in the middle of a transaction; looked at by `check`."""
    must_flatten: bool = field(default=False, init=False)
    """Was something latched while a position may be open?"""
    errors: int = field(default=0, init=False)
    """Failures since the last thing that went well."""
    tick: tuple[str, int] = field(default=("", -1), init=False)
    problems: list[str] = field(default_factory=list, init=False)
    """What could not be written, told or verified after a latch."""

    def __post_init__(self) -> None:
        self._zero = self._offset()
        self._heard = self.steady_ms()
        self._feed = self.steady_ms()
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / LATCH_FILE).exists():
            self._close(f"latched before: {_read_reason(self.folder / LATCH_FILE)}", latched=True)

    def _offset(self) -> int:
        return to_ms(self.store.now()) - self.steady_ms()

    @property
    def cash(self) -> int:
        """Give the account's cash, 0 where it cannot be read."""
        account = self._read()
        return 0 if account is None else account.cash

    def open(self, told_cash: int, told_open: int, detail: str = "") -> GateAnswer:  # noqa: PLR0911
        """Open after reconciliation: what the world tells of the money must be what the account holds, and flat.

        An order that was under way when a bot died is settled here by what the world tells, with its money.
        """
        self.check()
        if self.latched:
            return GateAnswer(False, f"halted: {self.reason}")
        account = self._read()
        if account is None:
            return GateAnswer(False, f"halted: {self.reason}")
        if account.latched:
            self._close(account.reason, latched=True)
            return GateAnswer(False, f"halted: {account.reason}")
        if account.version != self.version:
            return self._stay_closed("version mismatch: the account is another policy's; playproof bot reset takes it")
        if type(told_cash) is not int or not told_cash >= 0 or type(told_open) is not int or told_open != 0:
            return self._stay_closed("not flat: a position or sidebet is open; wait for the round's end")
        line: dict[str, object] = {"kind": "reconciled", "at": self._now(), "told": told_cash, "detail": detail}
        if account.open_positions or account.unanswered:
            outcome = OrderOutcome("settled", told_cash, 0, 0, account.unanswered, "as the feed tells after a restart")
            if not self._write(lambda: self.store.enter_outcome(outcome, line)):
                return GateAnswer(False, f"halted: {self.reason}")
        elif account.cash != told_cash:
            return self._stay_closed(
                f"ledger differs from feed: expected {account.cash} units of cash, found {told_cash}"
            )
        if self._write(lambda: self.store.change(line, state=ACTIVE, reason="", errors=0)):
            self.state, self.reason = ACTIVE, ""
            self._watch_losses()
        return GateAnswer(self.state != HALTED, self.reason)

    def _stay_closed(self, reason: str) -> GateAnswer:
        self._close(reason, latched=False)
        return GateAnswer(False, f"halted: {reason}")

    def heartbeat(self) -> None:
        """Note that the bot lives."""
        self._heard = self.steady_ms()

    def see_tick(self, window_id: str, tick: int) -> None:
        """Note the newest tick; the feed lives."""
        self.heartbeat()
        self._feed = self.steady_ms()
        self.tick = (window_id, tick)

    def see_feed(self) -> None:
        """Note that the feed said something, such as a countdown between rounds."""
        self.heartbeat()
        self._feed = self.steady_ms()

    def propose(self, proposal: OrderProposal, line: Mapping[str, Any]) -> GateAnswer:
        """Answer a proposal; an allowed one is reserved in the account and written to the log before this returns."""
        self.heartbeat()
        self.check()
        full = {"kind": "decision", "at": self._now(), **line, **_shown(proposal)}
        reason = self._closed_reason(proposal)
        if reason is not None:
            self.note({**full, "answer": "refused", "reason": reason})
            return GateAnswer(False, reason)
        answers: list[str | None] = []
        self._write(lambda: answers.append(self.store.reserve(self.limits, proposal, full)))
        if not answers:
            return GateAnswer(False, f"halted: {self.reason}")
        answer = answers[0]
        if answer is None and proposal.kind == "enter":
            self.state, self.reason = ACTIVE, ""  # a new day has begun, if it was reducing
        return GateAnswer(True, "", proposal.order_id) if answer is None else GateAnswer(False, answer)

    def _closed_reason(self, proposal: OrderProposal) -> str | None:
        """Say why nothing may leave, before the account is asked."""
        if self.latched or self.state not in (ACTIVE, REDUCING):
            return f"halted: {self.reason}"
        if not is_well_formed(proposal):
            return "malformed order"
        age = self.steady_ms() - self._feed
        if not age <= self.limits.stale_ms:
            return f"stale feed: nothing was heard for {age} ms"
        if (proposal.window_id, proposal.tick) != self.tick:
            return f"old tick: the newest is {self.tick[1]} of {self.tick[0]}"
        if proposal.version != self.version:
            return "version mismatch: another policy than the one that was let in"
        return None

    def note(self, line: Mapping[str, Any]) -> None:
        """Put a line into the log that moves no money; it becomes durable with the next that does, or soon."""
        self.store.chain.add(line)
        if len(self.store.chain.waiting) >= WAITING_LINES:
            self._write(self.store.flush)

    def decide_nothing(self, line: Mapping[str, Any]) -> None:
        """Write the line of a decision that proposes no order; one of a policy that did not fail ends its errors."""
        self.heartbeat()
        if self.errors and not line.get("failed"):
            self.forget_errors()
        self.note({"kind": "decision", "at": self._now(), **line, "answer": "none", "reason": ""})

    def report(self, outcome: OrderOutcome) -> None:
        """Enter what became of an order, or of a window, with its money."""
        self.heartbeat()
        line: dict[str, object] = {"kind": "outcome", "at": self._now()}
        results: list[tuple[AccountState, str | None]] = []
        self._write(lambda: results.append(self.store.enter_outcome(outcome, line)))
        if results and results[0][1] is not None:
            self.latch(f"ledger differs from feed: {results[0][1]}")
        self._watch_losses()

    def count_error(self, what: str) -> None:
        """Count a failure of the policy or of the venue; as many in a row as the limit says latch."""
        counts: list[int] = []

        def enter() -> None:
            line: dict[str, object] = {"kind": "error", "at": self._now(), "what": what}
            counts.append(self.store.change(line, errors=self.store.read().errors + 1).errors)

        self._write(enter)
        self.errors += 1
        if counts and not counts[0] < self.limits.errors_in_a_row:
            self.latch(f"errors in a row: {counts[0]}, the last was {what}")

    def forget_errors(self) -> None:
        """Note that something went well again."""
        self.errors = 0
        account = self._read()
        if account is not None and account.errors:
            self._write(lambda: self.store.change({"kind": "well", "at": self._now()}, errors=0))

    def lose_feed(self, why: str) -> None:
        """Close until the feed is back and the money is reconciled."""
        self._close(f"feed lost: {why}", latched=False)

    def latch(self, reason: str) -> None:
        """Stop for good: in memory first, then on disk, then tell, then tidy up. Only a person's reset opens again."""
        if self.latched:
            return
        self._close(reason, latched=True)
        self.must_flatten = True
        payload = {"reason": reason, "at": self._now(), "account": self.store.account}
        self._try("the latch file", lambda: write_durably(self.folder / LATCH_FILE, json.dumps(payload).encode()))
        line: dict[str, object] = {"kind": "latched", **payload}
        self._try("the account", lambda: self.store.change(line, state=HALTED, reason=reason, latched=True))
        self._try("a notification", lambda: self.tell("halted", {**payload, "head": self.store.chain.head}))

    def verify_flat(self, open_positions: int | None, detail: str) -> str:
        """Note whether everything is closed after a latch; None: it could not be found out."""
        if open_positions == 0:
            verdict = "verified flat"
            self.must_flatten = False
        else:
            count = "an unknown number of" if open_positions is None else str(open_positions)
            verdict = f"could not verify flat: {count} positions; {detail}"
        self._try("the log", lambda: self._note_durably({"kind": "flat", "at": self._now(), "verdict": verdict}))
        return verdict

    def _note_durably(self, line: Mapping[str, Any]) -> None:
        self.store.chain.add(line)
        self.store.flush()

    def check(self) -> None:
        """Look at everything that latches by itself: kill file, clock, heartbeat, feed."""
        if self.latched:
            return
        if self.pending_kill:
            self.latch(self.pending_kill)
            return
        if (self.folder / KILL_FILE).exists():
            self.latch(f"kill: {_read_why(self.folder / KILL_FILE)}")
            return
        jump = self._offset() - self._zero
        if not abs(jump) <= self.limits.clock_jump_ms:
            self.latch(f"clock jump: the wall's clock parted by {jump} ms from the steady one")
            return
        silence = self.steady_ms() - self._heard
        if self.state != HALTED and not silence <= self.limits.heartbeat_ms:
            self.latch(f"heartbeat lost: the bot was silent for {silence} ms")

    def _watch_losses(self) -> None:
        """Reduce where the day's loss is used up, latch where the total one is."""
        account = self._read()
        if account is None or self.latched:
            return
        least = self.limits.smallest_order
        if account.open_positions == 0 and not total_room(self.limits, account) >= least:
            self.latch("total loss: the limit from the peak is used up")
        elif account.open_positions == 0 and not daily_room(self.limits, account) >= least:
            self._reduce("daily loss: the day's limit is used up")

    def _reduce(self, reason: str) -> None:
        if self.state == ACTIVE:
            self.state, self.reason = REDUCING, reason
            line: dict[str, object] = {"kind": "reducing", "at": self._now(), "why": reason}
            self._write(lambda: self.store.change(line, state=REDUCING, reason=reason))
            self._try("a notification", lambda: self.tell("reducing", {"reason": reason}))

    def _close(self, reason: str, *, latched: bool) -> None:
        self.state, self.reason, self.latched = HALTED, reason, self.latched or latched

    def _write(self, change: Callable[[], object]) -> bool:
        """Write to the account and tell whether it was; what cannot be written latches."""
        try:
            change()
            return True
        except (SQLAlchemyError, PlayproofError, OSError) as error:
            self.latch(f"database: {_short(error)}")
            return False

    def _read(self) -> AccountState | None:
        try:
            return self.store.read()
        except (SQLAlchemyError, PlayproofError, OSError) as error:
            self.latch(f"database: {_short(error)}")
            return None

    def _try(self, what: str, attempt: Callable[[], object]) -> None:
        """Do what comes after the latch; that it failed is noted and changes nothing."""
        try:
            attempt()
        except Exception as error:  # noqa: BLE001  # whatever a report or a disk does, the latch holds
            self.problems.append(f"{what}: {_short(error)}")
            with contextlib.suppress(Exception):
                self.store.chain.add({"kind": "problem", "at": self._now(), "what": self.problems[-1]})

    def _now(self) -> int:
        return to_ms(self.store.now())


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}".rstrip(": ")


def _shown(proposal: OrderProposal) -> dict[str, Any]:
    """Give a proposal as the log holds it, whatever stands in it."""
    values = {"order": proposal.order_id, "order_kind": proposal.kind, "stake": proposal.stake}
    return {
        name: value if type(value) in (int, str) and (type(value) is str or -(2**63) <= value < 2**63) else repr(value)
        for name, value in values.items()
    }


def _read_why(path: Path) -> str:
    """Read what stands in the kill file; it need not say anything, nor be readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:200] or "the kill file is there"
    except OSError:
        return "the kill file is there"


def _read_reason(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unreadable"
