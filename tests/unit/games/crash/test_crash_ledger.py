"""Exact money: the roundings, conservation, and the compiled twins."""

from __future__ import annotations

import ast
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from playproof.errors import RefusedOrder
from playproof.games.crash.rules.money import MAX_LOTS, MAX_MONEY, MIN_BET, LedgerLimits, MoneyLedger, bought, proceeds
from playproof.games.crash.rules.worlds import WORLDS
from playproof.games.crash.sim import prices_nb
from playproof.games.crash.sim.lanes import CrashConfig, KernelLanes
from playproof.money import UNIT

PRICES = st.floats(1e-7, 1e5, allow_nan=False) | st.builds(
    lambda a, b: a / b, st.integers(1, 10**6), st.integers(1, 10**6)
)
AMOUNTS = st.integers(1, MAX_MONEY)


@given(AMOUNTS, PRICES)
def test_roundings_are_exact(amount: int, price: float) -> None:
    exact = Fraction(price)
    qty = bought(amount, price)
    assert qty * exact <= amount < (qty + 1) * exact
    compiled = prices_nb.bought(amount, price)
    assert compiled == (qty if qty < 2**53 else -1)
    value = proceeds(amount, price)
    assert value <= amount * exact < value + 1
    assert prices_nb.proceeds(amount, price) == value


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_roundings_hold_where_a_float_quotient_would_round_up(qty: int, below: int, price_scale: int) -> None:
    price = price_scale / 1024
    amount = max(1, int(qty * Fraction(price)) - below)
    assert prices_nb.bought(amount, price) == bought(amount, price)


@given(AMOUNTS, st.data(), AMOUNTS)
def test_cost_of_a_part_of_a_lot(cost: int, data: st.DataObject, qty: int) -> None:
    sold = data.draw(st.integers(0, qty))
    assert prices_nb.cost_share(cost, sold, qty) == cost * sold // qty


@given(AMOUNTS, PRICES)
def test_a_round_trip_at_one_price_never_pays(amount: int, price: float) -> None:
    assert proceeds(bought(amount, price), price) <= amount


def test_lots_are_sold_first_in_first_out() -> None:
    ledger = MoneyLedger(10 * UNIT)
    ledger.buy(UNIT, 1.0)
    ledger.buy(UNIT, 2.0)
    assert ledger.avg_cost == round(2 / 1.5 * UNIT)
    sold, paid = ledger.sell(50, 4.0)
    assert (sold, paid) == (750_000_000, 3 * UNIT)
    assert [(lot.qty, lot.cost) for lot in ledger.lots] == [(250_000_000, 250_000_000), (500_000_000, UNIT)]
    assert ledger.avg_cost == round(1.25 / 0.75 * UNIT)
    assert ledger.invested == 2 * UNIT
    ledger.sell(100, 4.0)
    assert (ledger.qty, ledger.cost, ledger.avg_cost) == (0, 0, 0)


def test_sidebets_win_up_to_their_last_tick_and_follow_one_another() -> None:
    ledger = MoneyLedger()
    ledger.bet(MIN_BET, 0)
    with pytest.raises(RefusedOrder):
        ledger.bet(MIN_BET, 20)
    assert ledger.pass_tick(39) is None
    assert ledger.pass_tick(40) is not None
    ledger.bet(MIN_BET, 40)
    assert ledger.rug(80, 0.01) == (0, 5 * MIN_BET)
    assert ledger.cash == UNIT + 3 * MIN_BET
    assert ledger.sidebet_pnl == 3 * MIN_BET


@pytest.mark.parametrize("amount", [0, -5, MIN_BET - 1, UNIT + 1])
def test_bad_amounts_are_refused_and_change_nothing(amount: int) -> None:
    ledger = MoneyLedger()
    for order in (lambda: ledger.buy(amount, 1.0), lambda: ledger.bet(amount, 0)):
        with pytest.raises(RefusedOrder):
            order()
    assert ledger == MoneyLedger()


def test_limits() -> None:
    ledger = MoneyLedger(10 * UNIT, limits=LedgerLimits(open_cost=UNIT // 10))
    ledger.buy(UNIT // 10, 1.0)
    with pytest.raises(RefusedOrder, match="open cost"):
        ledger.buy(MIN_BET, 1.0)
    reserved = MoneyLedger(10 * UNIT, limits=LedgerLimits(stake=UNIT // 10))
    reserved.buy(UNIT // 10, 1.0)
    reserved.sell(100, 0.5)
    reserved.buy(UNIT // 20, 1.0)
    with pytest.raises(RefusedOrder, match="reserved stake"):
        reserved.bet(MIN_BET, 3)
    many = MoneyLedger(10 * UNIT)
    for _ in range(MAX_LOTS):
        many.buy(MIN_BET, 1.0)
    with pytest.raises(RefusedOrder, match="lots"):
        many.buy(MIN_BET, 1.0)


class Play(RuleBasedStateMachine):
    """Random orders against the ledger; what must hold holds after each."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = MoneyLedger(5 * UNIT, limits=LedgerLimits())
        self.tick = 0
        self.price = 1.0

    @rule(amount=st.integers(-10, 6 * UNIT))
    def buy(self, amount: int) -> None:
        with suppress(RefusedOrder):
            self.ledger.buy(amount, self.price)

    @rule(percent=st.sampled_from([0, 1, 10, 25, 33, 50, 100, 101]))
    def sell(self, percent: int) -> None:
        worth = self.ledger.equity(self.price)
        try:
            self.ledger.sell(percent, self.price)
        except RefusedOrder:
            return
        assert worth - 1 <= self.ledger.equity(self.price) <= worth

    @rule(amount=st.integers(0, UNIT))
    def bet(self, amount: int) -> None:
        with suppress(RefusedOrder):
            self.ledger.bet(amount, self.tick)

    @rule(change=st.floats(-0.25, 0.25))
    def pass_tick(self, change: float) -> None:
        self.tick += 1
        self.price *= 1 + change
        self.ledger.pass_tick(self.tick)

    @rule()
    @precondition(lambda self: self.tick > 0)
    def rug(self) -> None:
        self.ledger.rug(self.tick, 0.02 * self.price)
        self.ledger.start_round()
        self.tick, self.price = 0, 1.0

    @invariant()
    def money_is_conserved(self) -> None:
        assert self.ledger.cash + self.ledger.house == 5 * UNIT
        assert self.ledger.cash >= 0
        assert all(lot.qty > 0 and lot.cost >= 0 for lot in self.ledger.lots)


TestPlay = Play.TestCase


def play_random(world: str, lanes: int, steps: int, seed: int) -> int:
    """Take random actions in the kernel; give the sum of all differences in money."""
    table = KernelLanes(CrashConfig(world=world, actions="buttons-share", rounds=3), lanes)
    everyone = np.ones(lanes, np.bool_)
    table.seed(list(range(seed, seed + lanes)), everyone)
    table.reset(everyone)
    rng = np.random.default_rng(seed)
    heads = np.array(table.settings.heads)
    difference = 0
    for _ in range(steps):
        table.step(rng.integers(0, heads, (lanes, 3)))
        lane = table.lanes
        house = lane["staked"] - lane["paid"]
        difference += int(np.abs(lane["cash"] + house - lane["granted"]).sum())
        assert (lane["cash"] >= 0).all()
        assert (lane["qty"] >= 0).all()
    return difference


@pytest.mark.parametrize("world", list(WORLDS))
def test_the_kernel_conserves_money(world: str) -> None:
    assert play_random(world, 256, 200, 3) == 0


@pytest.mark.torture
def test_ten_million_random_actions_lose_no_unit() -> None:
    assert sum(play_random(world, 2048, 1000, 7) for world in WORLDS) == 0


def test_the_compiled_rules_of_money_have_one_source() -> None:
    """Whoever rounds amounts in compiled code calls sim/orders.py; a second copy of the rules would drift."""
    roundings = {"bought", "proceeds", "cost_share"}
    root = Path(__file__).parents[4]
    users = set()
    for path in [*(root / "src/playproof").rglob("*.py"), *(root / "studies").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        if "prices_nb" not in text or path.name == "prices_nb.py":
            continue
        tree = ast.parse(text)
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("prices_nb")
            for alias in node.names
        }
        read = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "prices_nb"
        }
        if (imported | read) & roundings:
            users.add(path.name)
    assert users == {"orders.py"}
