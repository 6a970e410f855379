"""The limits of an account and the one function that decides whether an order may leave: pure, in exact integers.

Every comparison is written so that a value that cannot be compared refuses: `not (a <= b)`, never `a > b`. A loss limit
counts all that is open as lost, the order in question included: nothing that a position does later can cross it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

GateState = Literal["ACTIVE", "REDUCING", "HALTED"]
ACTIVE: GateState = "ACTIVE"
REDUCING: GateState = "REDUCING"
"""Positions may be closed, none opened."""
HALTED: GateState = "HALTED"
"""No order at all. A state that is not one of the three is this one."""

SHARE = 1_000_000
"""Shares are parts per million, so that money stays whole."""
LARGEST = 2**62
MOST_TEXT = 200
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class OrderLimits:
    """What an account may do; shares are parts per million."""

    stake_share: int = 5_000
    """Largest share of the equity that is at stake at once: 0.5 %."""
    open_positions: int = 1
    daily_loss: int = 20_000
    """2 % of the equity with which the day (UTC) began; used up, positions may only be closed until the next."""
    total_loss: int = 50_000
    """5 % of the highest equity there was; used up, a latched stop."""
    bets_an_hour: int = 60
    raise_after_loss: bool = False
    errors_in_a_row: int = 3
    smallest_order: int = 1_000_000
    """Where less than this is left under a loss limit, the limit counts as used up."""
    stale_ms: int = 2_000
    """Age of the last message of the feed above which no order leaves."""
    clock_jump_ms: int = 2_000
    """By how much the wall's clock may part from the steady one."""
    heartbeat_ms: int = 5_000
    """Silence of the bot after which the gate latches."""


@dataclass(frozen=True)
class OrderProposal:
    """An order that somebody wants to send. Anything may stand in it: `refusal` trusts nothing."""

    order_id: Any
    window_id: Any
    tick: Any
    kind: Any
    """enter: money is put at stake; exit: a position is closed or made smaller."""
    stake: Any = 0
    """Money put at stake, in units; 0 for an exit."""
    version: Any = ""
    """Hash of the policy that proposes."""


@dataclass(frozen=True)
class AccountState:
    """Where the money of an account stands, in units; the row that every gate of the account locks."""

    account: str
    state: str = HALTED
    reason: str = "new: not reconciled yet"
    latched: bool = False
    version: str = ""
    """Hash of the policy that may trade it."""
    cash: int = 0
    open_cost: int = 0
    """Money at stake in open positions and in orders under way."""
    open_positions: int = 0
    unanswered: str = ""
    """Id of the order that was reserved and of which nothing is known yet."""
    window_id: str = ""
    round_equity: int = 0
    """Equity when the window's first order was reserved."""
    peak: int = 0
    day: str = ""
    day_equity: int = 0
    """Equity at the start of the day."""
    last_stake: int = 0
    last_lost: bool = False
    errors: int = 0
    bets: tuple[int, ...] = field(default=())
    """Times of the last hour's orders, in ms."""

    @property
    def equity(self) -> int:
        """Give cash and what was paid for all that is open."""
        return self.cash + self.open_cost


@dataclass(frozen=True)
class OrderOutcome:
    """What became of an order, or of everything that was open when a window ended; money as the ledger has it."""

    outcome: str
    """filled, refused, unknown or settled."""
    cash: int
    open_cost: int = 0
    open_positions: int = 0
    order_id: str = ""
    detail: str = ""
    """In words: the fill's price, the venue's reason."""


def is_amount(value: Any) -> bool:
    """Tell whether a value is a whole positive number of units; no float is, nor a truth value."""
    return type(value) is int and 0 < value < LARGEST


def is_well_formed(proposal: OrderProposal) -> bool:
    """Tell whether a proposal's fields are texts and numbers of the right kind; the stake is looked at later."""
    texts = (proposal.order_id, proposal.window_id, proposal.kind, proposal.version)
    if not all(type(text) is str and len(text) <= MOST_TEXT for text in texts) or not proposal.order_id:
        return False
    return proposal.kind in ("enter", "exit") and type(proposal.tick) is int and 0 <= proposal.tick < LARGEST


def refusal(limits: OrderLimits, account: AccountState, proposal: OrderProposal, now_ms: int) -> str | None:
    """Say why an order may not leave; None if it may."""
    if not is_well_formed(proposal):
        return "malformed order"
    if proposal.version != account.version:
        return "version mismatch: another policy than the one that was let in"
    if account.state not in (ACTIVE, REDUCING) or account.latched:
        return f"halted: {account.reason}"
    if account.unanswered:
        return "unanswered order: unknown until the feed tells"
    if proposal.kind == "exit":
        return None if account.open_positions > 0 else "nothing is open"
    return _entry_refusal(limits, account, proposal.stake, now_ms)


def _entry_refusal(limits: OrderLimits, account: AccountState, stake: Any, now_ms: int) -> str | None:
    """Say why no money may be put at stake now."""
    if account.state != ACTIVE:
        return f"reducing: {account.reason}"
    if not is_amount(stake):
        return "malformed order: its stake is no whole positive number of units"
    checks = (
        (account.open_positions + 1 <= limits.open_positions, "open position: there is one already"),
        (stake <= account.cash, "balance: the stake is more than the cash"),
        (
            (account.open_cost + stake) * SHARE <= account.equity * limits.stake_share,
            "stake share: more than the account may put at stake",
        ),
        (stake <= daily_room(limits, account), "daily loss: the day's limit could be crossed"),
        (stake <= total_room(limits, account), "total loss: the limit from the peak could be crossed"),
        (
            sum(moment > now_ms - HOUR_MS for moment in account.bets) + 1 <= limits.bets_an_hour,
            "bets an hour: as many as allowed",
        ),
        (
            limits.raise_after_loss or not account.last_lost or stake <= account.last_stake,
            "raise after a loss: the stake is higher than the one that lost",
        ),
        (account.errors < limits.errors_in_a_row, "errors in a row: as many as allowed"),
    )
    return next((reason for holds, reason in checks if not holds), None)


def daily_room(limits: OrderLimits, account: AccountState) -> int:
    """Give what may still be lost today, all that is open counted as lost."""
    return account.day_equity * limits.daily_loss // SHARE - (account.day_equity - account.cash)


def total_room(limits: OrderLimits, account: AccountState) -> int:
    """Give what may still be lost from the peak, all that is open counted as lost."""
    return account.peak * limits.total_loss // SHARE - (account.peak - account.cash)


def reserved(state: AccountState, proposal: OrderProposal, now_ms: int) -> AccountState:
    """Give the account after an allowed order was reserved: the stake is open, whatever becomes of the order."""
    state = replace(state, unanswered=proposal.order_id)
    if proposal.kind != "enter":
        return state
    return replace(
        state,
        cash=state.cash - proposal.stake,
        open_cost=state.open_cost + proposal.stake,
        open_positions=state.open_positions + 1,
        window_id=proposal.window_id,
        round_equity=state.equity if state.open_positions == 0 else state.round_equity,
        last_stake=proposal.stake,
        bets=(*(moment for moment in state.bets if moment > now_ms - HOUR_MS), now_ms),
    )


def next_day(state: AccountState, day: str) -> AccountState:
    """Begin a day, where it is one; a clock that went back begins none."""
    if day <= state.day:
        return state
    is_free = state.state == REDUCING and not state.latched
    state = replace(state, day=day, day_equity=state.equity)
    return replace(state, state=ACTIVE, reason="") if is_free else state


def settled(state: AccountState, outcome: OrderOutcome) -> tuple[AccountState, str | None]:
    """Give the account after an outcome, and what of it does not fit the money that was held.

    What was told stands, since it is what is there; a problem latches the gate.
    """
    if outcome.outcome == "unknown":
        return state, None  # reserved money stays reserved, and no other order leaves
    problem = None
    if outcome.outcome == "refused" and outcome.cash != state.equity - outcome.open_cost:
        problem = f"expected {state.equity - outcome.open_cost} units after a refused order, found {outcome.cash}"
    if outcome.outcome == "filled" and outcome.cash < state.cash:
        problem = f"expected at least {state.cash} units after a fill, found {outcome.cash}"
    if outcome.cash < 0 or outcome.open_cost < 0 or outcome.open_positions < 0:
        problem = "expected money from 0 on, found less"
    after = replace(
        state,
        unanswered="",
        cash=outcome.cash,
        open_cost=outcome.open_cost,
        open_positions=outcome.open_positions,
    )
    if after.open_positions == 0 and state.open_positions > 0 and outcome.outcome != "refused":
        after = replace(after, last_lost=after.equity < state.round_equity)
    if after.open_positions == 0:
        after = replace(after, peak=max(after.peak, after.equity))
    return after, problem
