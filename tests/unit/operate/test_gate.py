"""The order gate: limits that nothing crosses, latches that hold, and the failures of others, one test each."""

from __future__ import annotations

import json
import math
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gate_kills import kill_gates
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres import Postgres
from sqlalchemy import Engine, text

from playproof.errors import GateFailed, InputError
from playproof.operate import live_money
from playproof.operate.account import AccountStore, read_account
from playproof.operate.audit import read_audit, verify_audit
from playproof.operate.gate import KILL_FILE, LATCH_FILE, GateAnswer, OrderGate
from playproof.operate.limits import (
    ACTIVE,
    HALTED,
    REDUCING,
    SHARE,
    AccountState,
    OrderLimits,
    OrderOutcome,
    OrderProposal,
    refusal,
    reserved,
    settled,
)
from playproof.operate.live_money import LiveRequest, live_phrase, missing_for_live
from playproof.operate.notify import KEY, notify, signature
from playproof.operate.state import account_folder, kill, read_bot, reset
from playproof.store.db import connect, opened, ready, upgrade

COIN = 10**9
BET = COIN // 1000
START = datetime(2026, 1, 5, 12, tzinfo=UTC)


@dataclass
class Clocks:
    """A wall's clock and a steady one, moved by the test."""

    wall: datetime = START
    steady: int = 0

    def move(self, ms: int) -> None:
        self.wall += timedelta(milliseconds=ms)
        self.steady += ms


@dataclass
class Bench:
    """A gate on a real database, with everything around it in the test's hands."""

    engine: Engine
    home: Path
    clocks: Clocks = field(default_factory=Clocks)
    limits: OrderLimits = field(default_factory=OrderLimits)
    heard: list[str] = field(default_factory=list)
    number: int = 0
    ledger: int = COIN

    def gate(self, session: str = "one", account: str = "acc", opens: bool = True, **changes: Any) -> OrderGate:
        store = AccountStore(self.engine, account, session, lambda: self.clocks.wall)
        store.begin_session("hold", "v1", "paper", "", COIN)
        tell = changes.pop("tell", lambda what, payload: self.heard.append(what))
        gate = OrderGate(
            store,
            replace(self.limits, **changes),
            "v1",
            account_folder(account, self.home),
            lambda: self.clocks.steady,
            tell,
        )
        if opens:
            assert gate.open(store.read().cash, 0).allowed
        return gate

    def propose(self, gate: OrderGate, stake: Any = BET, kind: Any = "enter", **changes: Any) -> GateAnswer:
        """Propose at a new tick."""
        self.number += 1
        self.clocks.move(250)
        gate.see_tick("w", self.number)
        proposal = OrderProposal(f"o{self.number}", "w", self.number, kind, stake, "v1")
        return gate.propose(replace(proposal, **changes), {"observation": "0" * 64})

    def account(self) -> AccountState:
        state = read_account(self.engine, "acc")
        assert state is not None
        return state

    def lose(self, gate: OrderGate, stake: int = BET) -> GateAnswer:
        """Order and lose the whole stake."""
        answer = self.propose(gate, stake)
        if answer.allowed:
            gate.report(OrderOutcome("filled", gate.cash, stake, 1, answer.order_id))
            gate.report(OrderOutcome("settled", gate.cash))
        return answer


@pytest.fixture
def bench(home: Path) -> Bench:
    return Bench(ready(connect(home)), home)


def test_closed_until_reconciled_and_open_after(bench: Bench) -> None:
    gate = bench.gate(opens=False)
    assert (gate.state, bench.propose(gate).reason) == (HALTED, "halted: closed: not reconciled yet")
    assert not gate.open(COIN - 1, 0).allowed
    assert "ledger differs from feed" in gate.reason
    assert not gate.open(COIN, 1).allowed
    assert gate.open(COIN, 0).allowed
    assert bench.propose(gate).allowed


def test_an_allowed_order_is_reserved_before_it_leaves(bench: Bench) -> None:
    gate = bench.gate()
    assert bench.propose(gate).allowed
    state = bench.account()
    assert (state.cash, state.open_cost, state.open_positions) == (COIN - BET, BET, 1)
    line = read_audit(bench.engine, "one")[-1]
    assert (line["answer"], line["order"], line["stake"]) == ("allowed", "o1", BET)


REFUSALS: Mapping[str, tuple[dict[str, Any], str]] = {
    "nan": ({"stake": math.nan}, "malformed"),
    "infinite": ({"stake": math.inf}, "malformed"),
    "float": ({"stake": 1e6}, "malformed"),
    "true": ({"stake": True}, "malformed"),
    "negative": ({"stake": -BET}, "malformed"),
    "nothing": ({"stake": 0}, "malformed"),
    "huge": ({"stake": 10**30}, "malformed"),
    "text": ({"stake": "1"}, "malformed"),
    "kind": ({"kind": "both"}, "malformed"),
    "no id": ({"order_id": ""}, "malformed"),
    "list id": ({"order_id": []}, "malformed"),
    "nan tick": ({"tick": math.nan}, "malformed"),
    "old tick": ({"tick": 0}, "old tick"),
    "another window": ({"window_id": "v"}, "old tick"),
    "version": ({"version": "v2"}, "version mismatch"),
    "share": ({"stake": 5 * BET + 1}, "stake share"),
    "exit of nothing": ({"kind": "exit", "stake": 0}, "nothing is open"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_has_a_name_and_changes_nothing(name: str, bench: Bench) -> None:
    changes, reason = REFUSALS[name]
    gate = bench.gate()
    before = bench.account()
    answer = bench.propose(gate, **changes)
    assert not answer.allowed
    assert answer.reason.startswith(reason)
    assert replace(bench.account(), bets=before.bets) == before
    gate.store.flush()
    assert read_audit(bench.engine, "one")[-1]["reason"] == answer.reason


def test_one_position_one_order_under_way_and_one_use_of_an_id(bench: Bench) -> None:
    gate = bench.gate(open_positions=3)
    assert bench.propose(gate).allowed
    assert bench.propose(gate).reason.startswith("unanswered order")
    gate.report(OrderOutcome("filled", gate.cash, BET, 1, "o1"))
    assert bench.propose(gate, order_id="o1").reason == "repeated order id"
    single = replace(gate.limits, open_positions=1)
    gate.limits = single
    assert bench.propose(gate).reason.startswith("open position")


def test_no_raising_after_a_loss(bench: Bench) -> None:
    gate = bench.gate()
    assert bench.lose(gate).allowed
    assert bench.propose(gate, 2 * BET).reason.startswith("raise after a loss")
    assert bench.propose(gate, BET).allowed


def test_bets_an_hour(bench: Bench) -> None:
    gate = bench.gate(bets_an_hour=3)
    assert [bench.lose(gate).allowed for _ in range(4)] == [True, True, True, False]
    bench.clocks.move(3_600_000)
    gate.see_feed()
    assert bench.lose(gate).allowed


def test_the_daily_loss_reduces_and_the_next_day_is_free(bench: Bench) -> None:
    gate = bench.gate(bets_an_hour=1000)
    losses = 0
    while bench.lose(gate, 5 * BET if losses == 0 else 4 * BET).allowed:
        losses += 1
    gate.see_feed()
    state = bench.account()
    assert COIN - state.cash <= COIN * 2 // 100
    while bench.lose(gate).allowed:
        pass
    assert gate.state == REDUCING
    assert COIN - bench.account().cash == COIN * 2 // 100
    assert bench.lose(gate).reason.startswith("reducing: daily loss")
    bench.clocks.move(24 * 3_600_000)
    gate.see_feed()
    assert bench.lose(gate).allowed


def test_the_total_loss_latches_and_only_a_person_opens_again(bench: Bench) -> None:
    gate = bench.gate(bets_an_hour=10_000, daily_loss=SHARE)
    while bench.lose(gate).allowed:
        pass
    assert gate.latched
    assert COIN - bench.account().cash == COIN * 5 // 100
    assert bench.heard == ["halted"]
    again = bench.gate("two", opens=False)
    assert not again.open(again.cash, 0).allowed
    with pytest.raises(InputError, match="reason"):
        reset(bench.engine, bench.home, "acc", " ", bench.clocks.wall)
    reset(bench.engine, bench.home, "acc", "looked at the losses", bench.clocks.wall)
    assert bench.gate("three").state == REDUCING  # the day's own limit is used up as well


# what is known to have failed elsewhere


def test_a_report_that_raises_does_not_let_orders_on(bench: Bench) -> None:
    def fail(what: str, payload: Mapping[str, Any]) -> None:
        raise RuntimeError("the webhook is away")

    gate = bench.gate(bets_an_hour=10_000, daily_loss=SHARE, tell=fail)
    while bench.lose(gate).allowed:
        pass
    assert gate.latched
    assert [problem.split(":")[0] for problem in gate.problems] == ["a notification"]
    assert bench.propose(gate).reason.startswith("halted: total loss")
    assert (gate.folder / LATCH_FILE).exists()


def test_a_nan_does_not_disable_the_loss_limit(bench: Bench) -> None:
    state = replace(AccountState("a", ACTIVE, "", cash=COIN, peak=COIN, day_equity=COIN), version="v1")
    for stake in (math.nan, float("inf"), 1.0, None):
        for share in (SHARE, 0):
            limits = OrderLimits(stake_share=share)
            assert refusal(limits, state, OrderProposal("o", "w", 1, "enter", stake, "v1"), 0) is not None
    gate = bench.gate()
    gate.limits = replace(gate.limits, stale_ms=math.nan)  # type: ignore[arg-type]
    assert bench.propose(gate).reason.startswith("stale feed")


def test_a_position_that_bleeds_cannot_pass_the_limit_since_it_counts_as_lost(bench: Bench) -> None:
    gate = bench.gate(bets_an_hour=10_000, open_positions=100, stake_share=SHARE)
    stakes = 0
    while (answer := bench.propose(gate, 3 * BET)).allowed:
        stakes += 3 * BET
        gate.report(OrderOutcome("filled", gate.cash, stakes, stakes // (3 * BET), answer.order_id))
    assert answer.reason.startswith("daily loss")
    assert stakes <= COIN * 2 // 100
    gate.report(OrderOutcome("settled", gate.cash))  # all of it is lost at once
    assert COIN - bench.account().cash <= COIN * 2 // 100


def test_flat_is_verified_and_an_order_that_filled_after_flat_is_said(bench: Bench) -> None:
    gate = bench.gate()
    answer = bench.propose(gate)
    gate.report(OrderOutcome("unknown", 0, 0, 0, answer.order_id, "timeout"))
    gate.latch("kill: test")
    assert gate.must_flatten
    assert gate.verify_flat(1, "it filled after all").startswith("could not verify flat: 1 positions")
    assert gate.must_flatten
    assert gate.verify_flat(None, "the feed is away").startswith("could not verify flat: an unknown number")
    assert gate.verify_flat(0, "") == "verified flat"
    assert not gate.must_flatten


def test_a_second_bot_on_the_same_bankroll_shares_its_limits(bench: Bench) -> None:
    one, two = bench.gate("one"), bench.gate("two")
    assert bench.propose(one).allowed
    assert bench.propose(two).reason.startswith("unanswered order")
    one.report(OrderOutcome("filled", one.cash, BET, 1, "o1"))
    assert bench.propose(two).reason.startswith("open position")
    one.latch("kill: test")
    assert bench.propose(two).reason.startswith("halted: kill")


def test_a_restart_does_not_believe_that_it_is_flat(bench: Bench) -> None:
    gate = bench.gate()
    bench.propose(gate)  # and then the bot dies
    after = bench.gate("two", opens=False)
    assert after.open(COIN - BET, 1).reason.startswith("halted: not flat")
    assert bench.propose(after).reason.startswith("halted: not flat")
    assert after.open(COIN + 3 * BET, 0).allowed  # it filled, and was won, as the feed tells
    assert bench.account().cash == COIN + 3 * BET
    assert bench.account().unanswered == ""


def test_a_timeout_is_not_taken_for_a_refusal(bench: Bench) -> None:
    gate = bench.gate()
    answer = bench.propose(gate)
    gate.report(OrderOutcome("unknown", 0, 0, 0, answer.order_id, "timeout"))
    state = bench.account()
    assert (state.cash, state.open_cost, state.unanswered) == (COIN - BET, BET, answer.order_id)
    assert bench.propose(gate).reason.startswith("unanswered order: unknown until the feed tells")
    gate.report(OrderOutcome("filled", COIN - BET, BET, 1, answer.order_id))
    gate.report(OrderOutcome("filled", COIN + BET, 0, 0, "exit"))
    assert bench.account().cash == COIN + BET


def test_a_fill_and_its_money_are_one_transaction(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = bench.gate()
    answer = bench.propose(gate)

    def die(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(gate.store.chain, "write", die)
    gate.report(OrderOutcome("filled", COIN + BET, 0, 0, answer.order_id))
    monkeypatch.undo()
    state = bench.account()
    assert gate.latched
    assert (state.cash, state.open_cost, state.unanswered) == (COIN - BET, BET, answer.order_id)
    reset(bench.engine, bench.home, "acc", "the disk has room again", bench.clocks.wall)
    after = bench.gate("two", opens=False)
    assert after.open(COIN + BET, 0).allowed
    assert bench.account().cash == COIN + BET


# within one tick


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong between two ticks, and what the gate says of it."""

    happen: Callable[[Bench, OrderGate], None]
    reason: str


def _away(bench: Bench, gate: OrderGate) -> None:
    with bench.engine.begin() as connection:
        connection.execute(text("ALTER TABLE bot_account RENAME TO gone"))


def _silent(bench: Bench, gate: OrderGate) -> None:
    bench.clocks.move(gate.limits.heartbeat_ms + 1)


FAULTS: Mapping[str, Fault] = {
    "kill file": Fault(lambda bench, gate: kill(bench.home, "acc", "odd fills") and None, "kill: odd fills"),
    "signal": Fault(lambda bench, gate: setattr(gate, "pending_kill", "kill: signal"), "kill: signal"),
    "command": Fault(lambda bench, gate: gate.latch("kill: page"), "kill: page"),
    "clock": Fault(lambda bench, gate: setattr(bench.clocks, "wall", START + timedelta(hours=3)), "clock jump"),
    "clock back": Fault(lambda bench, gate: setattr(bench.clocks, "wall", START - timedelta(days=1)), "clock jump"),
    "feed": Fault(lambda bench, gate: gate.lose_feed("cut"), "feed lost: cut"),
    "database": Fault(_away, "database"),
    "errors": Fault(lambda bench, gate: [gate.count_error("nan") for _ in range(3)] and None, "errors in a row: 3"),
    "money": Fault(
        lambda bench, gate: gate.report(OrderOutcome("filled", -5, 0, 0, "x")), "ledger differs from feed"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_halted_within_one_tick(name: str, bench: Bench) -> None:
    gate = bench.gate()
    assert bench.lose(gate).allowed
    FAULTS[name].happen(bench, gate)
    answer = bench.propose(gate)  # the next tick
    assert not answer.allowed
    assert gate.state == HALTED
    assert FAULTS[name].reason in gate.reason


def test_a_bot_that_stood_still_finds_the_gate_latched(bench: Bench) -> None:
    gate = bench.gate()
    bench.clocks.move(gate.limits.heartbeat_ms + 1)
    gate.check()  # the gate's own beat
    assert gate.reason.startswith("heartbeat lost")
    assert bench.propose(gate).reason.startswith("halted: heartbeat lost")


def test_a_latch_outlives_a_database_that_is_away(bench: Bench) -> None:
    gate = bench.gate()
    _away(bench, gate)
    bench.propose(gate)
    with bench.engine.begin() as connection:
        connection.execute(text("ALTER TABLE gone RENAME TO bot_account"))
    assert not bench.account().latched  # it could not be written there
    again = bench.gate("two", opens=False)
    assert again.latched
    assert not again.open(COIN, 0).allowed


def test_the_first_reason_stands(bench: Bench) -> None:
    gate = bench.gate()
    gate.latch("kill: first")
    gate.latch("kill: second")
    assert gate.reason == "kill: first"
    assert json.loads((gate.folder / LATCH_FILE).read_text())["reason"] == "kill: first"


def test_a_kill_holds_for_a_bot_that_is_started_later(bench: Bench) -> None:
    bench.gate()
    kill(bench.home, "acc", "before the weekend")
    later = bench.gate("two", opens=False)
    assert not later.open(COIN, 0).allowed
    assert later.latched
    reset(bench.engine, bench.home, "acc", "it is Monday", bench.clocks.wall)
    assert not (account_folder("acc", bench.home) / KILL_FILE).exists()
    assert bench.gate("three").state == ACTIVE


# whatever a policy says

STRANGE: tuple[Any, ...] = (
    *(math.nan, math.inf, -math.inf, 1e6, 0.0, -0.0, True, False, None, "", "x", "1000000", [], [BET], {}, b"x"),
    *(-BET, 0, 1, BET - 1, 10**12, 2**62, 2**63, 10**30, -(2**63), (1, 2), object),
)
"""What a policy may give in place of anything."""
FIELDS: Mapping[str, tuple[Any, ...]] = {
    "stake": (BET, 2 * BET, 3 * BET, 5 * BET, 5 * BET + 1, 20 * BET, COIN),
    "kind": ("enter", "exit"),
    "tick": (0, 1, 2**61),
    "window_id": ("w", "v"),
    "version": ("v1", "v1", "v1", "v2"),
    "order_id": ("o1", "o2"),
}
OUTCOMES = ("lost", "lost", "won", "refused", "unknown", "open")


def anything(rng: random.Random) -> dict[str, Any]:
    """Give what some policy might propose: sound, strange, or both."""
    changes: dict[str, Any] = {"stake": rng.choice(FIELDS["stake"])}
    for name, sound in FIELDS.items():
        if rng.random() < 0.15:
            changes[name] = rng.choice(STRANGE if rng.random() < 0.5 else sound)
    return changes


def check_limits(limits: OrderLimits, state: AccountState) -> None:
    """Assert that nothing that can still happen crosses a limit."""
    assert state.cash >= 0
    assert state.open_positions <= limits.open_positions
    assert state.open_cost * SHARE <= state.equity * limits.stake_share
    assert (state.day_equity - state.cash) * SHARE <= state.day_equity * limits.daily_loss
    assert (state.peak - state.cash) * SHARE <= state.peak * limits.total_loss
    assert len(state.bets) <= limits.bets_an_hour


def test_no_policy_crosses_a_limit() -> None:
    """The gate's own rules without its database, 10,000 proposals; torture walks a million."""
    assert sum(flood(number, 500) for number in range(20)) > 300


def flood(seed: int, count: int) -> int:
    """Propose anything so many times, with anything as outcome; give how many orders were allowed."""
    rng = random.Random(seed)
    limits = OrderLimits(
        bets_an_hour=rng.choice((15, 60, 10_000)),
        open_positions=rng.choice((1, 1, 3)),
        raise_after_loss=rng.random() < 0.5,
    )
    return walk(limits, [(anything(rng), rng.choice(OUTCOMES)) for _ in range(count)])


VALUES = st.one_of(st.integers(-(10**20), 10**20), st.floats(), st.booleans(), st.none(), st.text(max_size=5))
PROPOSALS = st.dictionaries(
    st.sampled_from(sorted(FIELDS)), st.one_of(VALUES, st.sampled_from([BET, 2 * BET, "enter", "exit", "w", "v1"]))
)


def walk(limits: OrderLimits, steps: list[tuple[dict[str, Any], str]]) -> int:
    """Let any proposals meet any outcomes; give how many orders were allowed."""
    state = AccountState("a", ACTIVE, "", version="v1", cash=COIN, peak=COIN, day_equity=COIN)
    allowed = 0
    for number, (changes, outcome) in enumerate(steps):
        proposal = replace(OrderProposal(f"o{number}", "w", number, "enter", BET, "v1"), **changes)
        if refusal(limits, state, proposal, number * 250) is None:
            allowed += 1
            state = reserved(state, proposal, number * 250)
            check_limits(limits, state)
        before = state
        state = outcome_of(state, outcome)
        if state is not before:
            check_limits(limits, state)
    return allowed


def outcome_of(state: AccountState, outcome: str) -> AccountState:
    """Let an order under way, or what is open, come to something."""
    kinds = {
        "lost": OrderOutcome("settled", state.cash),
        "won": OrderOutcome("settled", state.cash + 2 * state.open_cost),
        "refused": OrderOutcome("refused", state.equity, 0, 0, state.unanswered),
        "open": OrderOutcome("filled", state.cash, state.open_cost, state.open_positions, state.unanswered),
    }
    if outcome == "unknown" or not (state.unanswered or state.open_positions):
        return state
    if outcome in ("refused", "open") and not state.unanswered:
        return state
    return settled(state, kinds[outcome])[0]


@settings(max_examples=12)
@given(steps=st.lists(PROPOSALS, min_size=5, max_size=15))
def test_no_policy_crosses_a_limit_of_the_real_gate(steps: list[dict[str, Any]], tmp_path_factory: Any) -> None:
    home = tmp_path_factory.mktemp("gate")
    bench = Bench(ready(connect(home)), home)
    gate = bench.gate()
    for changes in steps:
        answer = bench.propose(gate, **changes)
        check_limits(gate.limits, bench.account())
        if answer.allowed:
            gate.report(OrderOutcome("settled", gate.cash, 0, 0, answer.order_id))
            check_limits(gate.limits, bench.account())
    gate.store.flush()
    assert verify_audit(bench.engine, "one").sound
    bench.engine.dispose()


# the log


def written(bench: Bench) -> Engine:
    gate = bench.gate()
    for _ in range(4):
        gate.see_tick("w", bench.number)
        gate.decide_nothing({"tick": bench.number})
        bench.lose(gate)
    gate.store.end_session("test")
    return bench.engine


def test_an_untouched_log_is_sound(bench: Bench) -> None:
    result = verify_audit(written(bench), "one")
    assert result.sound
    assert result.lines > 12


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE bot_audit SET payload = replace(payload, 'allowed', 'refused') WHERE line = 2",
        "UPDATE bot_audit SET hash = 'x' WHERE line = 2",
        "DELETE FROM bot_audit WHERE line = 3",
        "DELETE FROM bot_audit WHERE line = (SELECT max(line) FROM bot_audit)",
        "INSERT INTO bot_audit SELECT session_id, line + 1, payload, hash FROM bot_audit ORDER BY line DESC LIMIT 1",
        "UPDATE bot_audit SET line = 3 - line + 1000 WHERE line IN (1, 2)",
    ],
)
def test_any_change_of_the_log_is_found(statement: str, bench: Bench) -> None:
    engine = written(bench)
    with engine.begin() as connection:
        connection.execute(text(statement))
    assert not verify_audit(engine, "one").sound


def test_a_log_cut_with_its_head_is_found_by_who_kept_the_head(bench: Bench) -> None:
    engine = written(bench)
    head = verify_audit(engine, "one").head
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM bot_audit WHERE line = (SELECT max(line) FROM bot_audit)"))
        connection.execute(
            text(
                "UPDATE bot_session SET lines = lines - 1,"
                " head = (SELECT hash FROM bot_audit ORDER BY line DESC LIMIT 1)"
            )
        )
    assert verify_audit(engine, "one").sound
    assert not verify_audit(engine, "one", head).sound


def test_the_state_is_read_in_one_piece(bench: Bench) -> None:
    gate = bench.gate()
    bench.propose(gate)
    state = read_bot(bench.engine, bench.home, "acc", int(bench.clocks.wall.timestamp() * 1000))
    used = {use.name: (use.used, use.most) for use in state.limits}
    assert used["stake"] == (BET, 5 * BET)
    assert used["daily loss"] == (BET, 20 * BET)
    assert used["bets an hour"] == (1, 60)
    assert (state.running, state.kill_file, state.decisions[0]["answer"]) == (True, False, "allowed")


# live money and notifications


def live_request(tmp_path: Path, **changes: Any) -> LiveRequest:
    import hashlib

    payload: dict[str, Any] = {"verdict": "EDGE SHOWN", "policy": {"hash": "abc"}}
    payload["report_hash"] = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
    path = tmp_path / "report.json"
    path.write_text(json.dumps(payload))
    return replace(LiveRequest("abc", COIN, OrderLimits(), live_phrase(COIN, OrderLimits()), path), **changes)


def test_live_money_needs_everything(tmp_path: Path) -> None:
    asked, now = live_request(tmp_path), datetime.now(UTC) + timedelta(minutes=1)
    environ = {live_money.VARIABLE: live_money.VALUE}
    (tmp_path / "playproof.toml").write_text('[bot]\nmode = "live"\n')
    assert "0.050000000" in asked.phrase
    assert missing_for_live(asked, tmp_path, now, environ) == []
    lacking = {
        "environment": missing_for_live(asked, tmp_path, now, {}),
        "phrase": missing_for_live(replace(asked, phrase="yes"), tmp_path, now, environ),
        "report": missing_for_live(replace(asked, report=None), tmp_path, now, environ),
        "this policy": missing_for_live(replace(asked, policy_hash="abd"), tmp_path, now, environ),
        "younger": missing_for_live(asked, tmp_path, now + timedelta(days=8), environ),
    }
    for what, missing in lacking.items():
        assert len(missing) == 1, what
        assert what in missing[0]
    (tmp_path / "playproof.toml").write_text('[bot]\nmode = "practice"\n')
    assert "mode" in missing_for_live(asked, tmp_path, now, environ)[0]
    payload = json.loads((tmp_path / "report.json").read_text())
    (tmp_path / "report.json").write_text(json.dumps(payload | {"verdict": "NO EDGE SHOWN"}))
    missing = missing_for_live(asked, tmp_path, now, environ)
    assert any("verdict" in item for item in missing)
    assert any("own hash" in item for item in missing)
    with pytest.raises(GateFailed, match="live money is refused"):
        live_money.check_live(asked, tmp_path, now)


def test_a_webhook_is_signed_and_a_dead_one_is_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    got: list[tuple[bytes, str]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((body, self.headers["X-Playproof-Signature"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/hook"
        (tmp_path / "playproof.toml").write_text(f'[notify]\nwebhook = "{url}"\n')
        monkeypatch.setenv(KEY, "secret")
        assert notify("halted", {"reason": "kill"}, tmp_path) == {"webhook": "sent"}
        thread.join()
    body, signed = got[0]
    assert json.loads(body) == {"what": "halted", "reason": "kill"}
    assert signed == signature(body, "secret")
    assert notify("halted", {}, tmp_path)["webhook"] != "sent"
    assert notify("halted", {}, tmp_path / "nothing") == {}


def test_two_gates_on_postgresql_share_one_locked_row(postgres: Postgres, home: Path) -> None:
    """Both propose at once, again and again: never more than one position, and no unit is lost."""
    with opened(url=postgres.new()) as engine:
        upgrade(engine)
        bench = Bench(engine, home)
        gates = [bench.gate(name, bets_an_hour=10_000, daily_loss=SHARE, total_loss=SHARE) for name in ("one", "two")]
        for number in range(1, 16):
            answers: list[GateAnswer] = []

            def ask(gate: OrderGate, name: str, number: int = number, answers: list[GateAnswer] = answers) -> None:
                gate.see_tick("w", number)
                answers.append(gate.propose(OrderProposal(f"{name}{number}", "w", number, "enter", BET, "v1"), {}))

            threads = [threading.Thread(target=ask, args=item) for item in zip(gates, ("one-", "two-"), strict=True)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [answer.allowed for answer in answers].count(True) == 1
            assert (bench.account().open_positions, bench.account().cash) == (1, COIN - BET)
            gates[0].report(OrderOutcome("settled", COIN))
        for gate, name in zip(gates, ("one", "two"), strict=True):
            gate.store.end_session("test")
            assert verify_audit(engine, name).sound


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_gate_that_is_killed_again_and_again_orders_nothing_twice(home: Path) -> None:
    orders, _ = kill_gates(home, 8, 3)
    assert orders >= 8
