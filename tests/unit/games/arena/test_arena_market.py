"""The arena's money: prices under impact, perps, pools, and that nothing is made of nothing."""

from __future__ import annotations

import math
import random
from decimal import Decimal, getcontext
from fractions import Fraction

import pytest
from arena_proofs import Ring, conserve
from hypothesis import given
from hypothesis import strategies as st

from playproof.errors import ConfigError, RefusedOrder
from playproof.games.arena.market import account as accounts
from playproof.games.arena.market.account import Account, Perp, Quote
from playproof.games.arena.market.exchange import Exchange
from playproof.games.arena.market.impact import buy_cost, growth, price_at, sell_proceeds
from playproof.games.arena.market.pools import NO, YES, LiquidityPool
from playproof.games.arena.market.rules import COMPANIES, FEE_FLOOR, SHARE, MarketRules, fee
from playproof.money import UNIT

getcontext().prec = 60
DEEP = MarketRules(kappa=1e-9, open_interest=1_000_000, position=500_000, cash=10_000_000 * UNIT)
"""A market so deep that a leverage of 100 is allowed."""


def market(*agents: str, rules: MarketRules | None = None) -> Exchange:
    exchange = Exchange(rules or MarketRules())
    for agent in agents or ("a",):
        exchange.enter(agent)
    return exchange


# The machines of other rules, and that they do not run here.


def test_the_rule_of_moving_the_price_by_the_volume_is_a_money_machine() -> None:
    price, entries, earned = 100.0, [], 0.0
    for _ in range(20):
        price *= 1 + min(500 / 10_000, 0.05)  # charged before the fill, and still a machine
        entries.append(price)
    for entry in entries:  # first in, first out
        price *= 1 - min(500 / 10_000, 0.05)
        earned += (price - entry) / entry * 500 - 2 * 0.5
    assert round(earned) == 880


def test_the_same_twenty_longs_lose_their_fees_here() -> None:
    agents = [f"a{at}" for at in range(20)]
    exchange = market(*agents)
    for agent in agents:
        exchange.open(agent, "KITE", 1, 500 * UNIT)
    for agent in agents:
        exchange.close(agent, "KITE")
    earned = sum(account.cash for account in exchange.accounts.values()) - 20 * 10_000 * UNIT
    assert -21 * UNIT < earned < -19.9 * UNIT


def test_the_odds_trap() -> None:
    pool, stake = LiquidityPool(250 * UNIT, 1000 * UNIT), UNIT // 10
    assert pool.probability == 0.8
    trap = pool.yes - pool.yes * pool.no / (pool.no + stake)  # shares without the buyer's own pairs
    assert trap / stake - 1 == pytest.approx(-0.75, abs=1e-3)
    _, shares = pool.buy(YES, stake)
    assert shares / stake - 1 == pytest.approx(0.25, abs=1e-3)


def test_a_search_finds_a_machine_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule that a margin covers others' impact, three agents pump a price for each other."""
    monkeypatch.setattr(accounts, "_check_room", lambda total, added, quote: None)
    assert Ring(3, 6, MarketRules()).search(rounds=8, plans=60, seed=1) > 50 * UNIT


@pytest.mark.parametrize("members", [1, 3])
def test_no_self_trading_plan_earns(members: int) -> None:
    assert Ring(members, 6, MarketRules()).search(rounds=8, plans=60, seed=1) <= 0


@given(st.integers(1, 3), st.lists(st.integers(0, 10**6), max_size=25), st.sampled_from([MarketRules(), DEEP]))
def test_no_plan_of_a_ring_earns(members: int, drawn: list[int], rules: MarketRules) -> None:
    ring = Ring(members, len(drawn), rules)
    choices = ring.choices
    assert ring.earn([choices[at % len(choices)] for at in drawn]) <= 0


def test_money_is_conserved() -> None:
    done = conserve(100_000, seed=1, every=50)
    assert min(done.values()) > 100, done


# Prices under impact.


@given(st.floats(-0.6, 0.6))
def test_growth_is_the_exponential(x: float) -> None:
    assert growth(x) == pytest.approx(math.expm1(x), rel=1e-14, abs=1e-300)


def test_500_of_notional_move_the_price_by_half_a_percent() -> None:
    exchange = market()
    exchange.open("a", "KITE", 1, 500 * UNIT)
    assert exchange.listings["KITE"].quote().price == pytest.approx(100.5 * UNIT, rel=2e-5)


def exact(fundamental: int, kappa: float, start: int, end: int) -> Decimal:
    """Give the integral of F e^(kappa Q) over units, in money, to 50 digits: the slow obvious twin."""
    rate = Decimal(kappa)
    if not kappa:
        return Decimal(fundamental) * (end - start) / SHARE
    return Decimal(fundamental) / SHARE / rate * ((rate * end).exp() - (rate * start).exp())


@given(
    st.sampled_from(COMPANIES),
    st.integers(1 * UNIT, 1000 * UNIT),
    st.floats(-0.1, 0.1),
    st.integers(1, 2_500),
    st.sampled_from([0.0, 1e-9, 1e-5]),
)
def test_a_fill_costs_the_integral_rounded_against_the_trader(
    company: object, fundamental: int, at: float, usd: int, kappa: float
) -> None:
    rules = MarketRules(kappa=kappa)
    rate, units = rules.impact(company), rules.units(company, usd)  # type: ignore[arg-type]
    net = int(at / rate) if rate else 0
    price = price_at(fundamental, rate * net)
    slack = Decimal(3) + Decimal(2) * units / SHARE + exact(fundamental, rate, net, net + units) / 10**11
    bought, paid = exact(fundamental, rate, net, net + units), buy_cost(price, units, rate)
    assert bought <= paid <= bought + slack
    sold, brought = exact(fundamental, rate, net - units, net), sell_proceeds(price, units, rate)
    assert sold - slack <= brought <= sold


# Perps.


def test_a_long_pays_what_it_should() -> None:
    exchange = market(rules=MarketRules(kappa=0.0))
    exchange.open("a", "KITE", 1, 500 * UNIT)
    exchange.listings["KITE"].fundamental = 110 * UNIT
    assert exchange.equity("a") == pytest.approx((10_000 - 0.5 + 50 - 0.5) * UNIT, abs=10_000)
    exchange.close("a", "KITE")
    assert exchange.accounts["a"].cash == exchange.equity("a") == pytest.approx(10_049 * UNIT, abs=10_000)


def test_a_short_pays_what_it_should() -> None:
    exchange = market(rules=MarketRules(kappa=0.0))
    exchange.open("a", "KITE", -1, 500 * UNIT)
    exchange.listings["KITE"].fundamental = 110 * UNIT
    assert exchange.equity("a") == pytest.approx(9_949 * UNIT, abs=10_000)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("leverage", [1, 10, 100])
def test_a_position_is_liquidated_when_nine_tenths_of_its_margin_are_lost(side: int, leverage: int) -> None:
    exchange = market(rules=DEEP)
    exchange.open("a", "KITE", side, 1000 * UNIT, leverage)
    perp, listing = exchange.accounts["a"].perps["KITE"], exchange.listings["KITE"]
    assert perp.margin == pytest.approx(1000 * UNIT / leverage, rel=1e-5)
    line = perp.entry * (1 - side * 0.9 / leverage)
    listing.fundamental = int(line * (1 + side * 1e-5))
    assert exchange.mark("a", "KITE", listing.quote()) is None
    listing.fundamental = int(line * (1 - side * 1e-5))
    before = exchange.accounts["a"].cash
    fill = exchange.mark("a", "KITE", listing.quote())
    assert fill is not None
    assert fill.order == "LIQUIDATED"
    assert fill.paid == perp.margin
    assert exchange.accounts["a"].cash == before
    assert not exchange.accounts["a"].perps
    assert (listing.longs, listing.shorts) == (0, 0)


def test_a_settlement_is_never_negative() -> None:
    exchange = market(rules=DEEP)
    exchange.open("a", "KITE", 1, 1000 * UNIT, 100)
    exchange.listings["KITE"].fundamental = 50 * UNIT
    before = exchange.accounts["a"].cash
    exchange.close("a", "KITE")
    assert exchange.accounts["a"].cash == before


def test_the_smallest_fee_and_the_smallest_size() -> None:
    assert fee(10 * UNIT) == FEE_FLOOR
    assert fee(500 * UNIT) == UNIT // 2
    exchange = market()
    with pytest.raises(RefusedOrder, match="10 USD or more"):
        exchange.open("a", "KITE", 1, 10 * UNIT - 1)
    assert exchange.open("a", "KITE", -1, 10 * UNIT).fee == FEE_FLOOR


def test_longs_pay_shorts_every_eight_hours() -> None:
    exchange = market("a", "b", "c")
    exchange.open("a", "KITE", 1, 1000 * UNIT)
    exchange.open("b", "KITE", -1, 300 * UNIT)
    exchange.open("c", "KITE", -1, 100 * UNIT)
    total = exchange.total
    pot, shorts = exchange.fund("KITE")
    perps = {agent: account.perps["KITE"] for agent, account in exchange.accounts.items()}
    assert perps["a"].funding == pot == math.ceil(perps["a"].size * Fraction("0.01") / Fraction("1095.75"))
    assert -perps["b"].funding == perps["b"].size // 109_575
    assert shorts == perps["b"].size + perps["c"].size
    assert sum(perp.funding for perp in perps.values()) >= 0
    for agent in exchange.accounts:
        exchange.close(agent, "KITE")
    assert exchange.total == total


def test_shorts_get_no_more_than_longs_pay() -> None:
    exchange = market("a", "b", "c")
    exchange.open("a", "KITE", 1, 100 * UNIT)
    exchange.open("b", "KITE", -1, 1000 * UNIT)
    exchange.open("c", "KITE", -1, 1000 * UNIT)
    pot, _ = exchange.fund("KITE")
    got = -sum(exchange.accounts[agent].perps["KITE"].funding for agent in "bc")
    assert 0 < pot - got < 3


def test_parts_add_up_to_the_whole() -> None:
    exchange = market()
    exchange.open("a", "ORCA", 1, 777 * UNIT, 2)
    exchange.open("a", "ORCA", 1, 333 * UNIT)
    exchange.close("a", "ORCA", 100 * UNIT)
    left = exchange.accounts["a"].perps["ORCA"]
    assert left.size == pytest.approx(1010 * UNIT, rel=0.01)
    exchange.close("a", "ORCA", 10**6 * UNIT)
    assert not exchange.accounts["a"].perps
    assert exchange.listings["ORCA"].longs == 0


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (lambda e: e.open("a", "KITE", -1, 100 * UNIT), "close it first"),
        (lambda e: e.open("a", "ORCA", 1, 100 * UNIT, 101), "leverage from 1 to 100"),
        (lambda e: e.open("a", "ORCA", 1, 100 * UNIT, 50), "use less leverage"),
        (lambda e: e.open("a", "ORCA", 1, 3_000 * UNIT), "units in one position"),
        (lambda e: e.open("a", "NOPE", 1, 100 * UNIT), "expected a perp among KITE"),
        (lambda e: e.close("a", "ORCA"), "expected a position in ORCA"),
        (lambda e: e.buy("a", "Q0", YES, 20_000 * UNIT), "within the cash"),
        (lambda e: e.buy("a", "Q0", YES, UNIT // 2), "1 USD or more"),
        (lambda e: e.buy("a", "Q7", YES, UNIT), "an open prediction market"),
        (lambda e: e.sell("a", "Q0"), "expected shares of Q0"),
    ],
)
def test_refused_orders_change_nothing(order: object, why: str) -> None:
    exchange = market()
    exchange.open("a", "KITE", 1, 100 * UNIT)
    exchange.open_pool("Q0")
    before = exchange.copy()
    with pytest.raises(RefusedOrder, match=why):
        order(exchange)  # type: ignore[operator]
    assert exchange == before


def test_open_interest_has_an_end() -> None:
    exchange = market(*(f"a{at}" for at in range(6)))
    for at in range(4):
        exchange.open(f"a{at}", "KITE", 1, 2_400 * UNIT)
    with pytest.raises(RefusedOrder, match="room in the open interest"):
        exchange.open("a4", "KITE", 1, 2_400 * UNIT)
    exchange.open("a5", "KITE", -1, 2_400 * UNIT)


def test_the_stake_of_a_window_is_kept() -> None:
    account = Account(10_000 * UNIT, stake=100 * UNIT)
    account.begin()
    quote = Quote(100 * UNIT, 0, 0, 1e-9, 10**9, 10**9)
    account.open("KITE", 1, 90 * UNIT, 1, quote, MarketRules())
    with pytest.raises(RefusedOrder, match="within the stake"):
        account.open("ORCA", 1, 20 * UNIT, 1, quote, MarketRules())


def test_impact_stays_a_band() -> None:
    with pytest.raises(ConfigError, match=r"from 0 to 0\.25"):
        MarketRules(kappa=1e-3)


@given(st.integers(1, 10**13), st.integers(1, 10**12), st.integers(1, 100), st.integers(0, 10**13))
def test_liquidation_is_where_the_formula_says(size: int, units: int, leverage: int, price: int) -> None:
    for side in (1, -1):
        perp = Perp(side, units, size, -(-size // leverage))
        entry, line = Fraction(size * SHARE, units), Fraction(9 * perp.margin, 10 * size)
        assert perp.liquidated(price) == (side * (price - entry) / entry <= -line)


# Pools.

SHARES = st.integers(1, 10**15)


@given(SHARES, SHARES, st.integers(1, 10**14), st.sampled_from([YES, NO]))
def test_buying_and_selling_are_inverse_and_never_pay(yes: int, no: int, amount: int, side: int) -> None:
    pool = LiquidityPool(yes, no)
    after, shares = pool.buy(side, amount)
    mine, other = (yes, no) if side == YES else (no, yes)
    assert shares == math.floor(amount + mine - Fraction(mine * other, other + amount))
    assert after.yes * after.no >= yes * no
    back, brought = after.sell(side, shares)
    assert brought <= amount
    assert back.yes * back.no >= yes * no
    if min(yes, no) > 1000 * amount:
        assert brought >= amount - 2


@given(SHARES, SHARES, st.integers(1, 10**14), st.sampled_from([YES, NO]))
def test_selling_is_the_formula(yes: int, no: int, shares: int, side: int) -> None:
    _, brought = LiquidityPool(yes, no).sell(side, shares)
    mine, other = (yes, no) if side == YES else (no, yes)
    total = mine + other + shares
    exactly = (total - Decimal(total * total - 4 * shares * other).sqrt()) / 2
    assert exactly - 2 < brought <= exactly


def test_a_pool_begins_even_and_pays_its_winners() -> None:
    exchange = market("a", "b")
    pool = exchange.open_pool("Q0")
    assert pool.probability == 0.5
    total = exchange.total
    won = exchange.buy("a", "Q0", YES, 100 * UNIT).shares
    exchange.buy("b", "Q0", NO, 50 * UNIT)
    assert exchange.pools["Q0"].probability > 0.5
    assert exchange.outstanding("Q0") == (exchange.collateral["Q0"],) * 2
    paid = dict(exchange.resolve("Q0", YES))
    assert set(paid) == {"a", "b"}
    assert exchange.accounts["a"].cash == 10_000 * UNIT - 100 * UNIT - UNIT // 10 + won
    assert exchange.total == total
    assert not exchange.collateral


def test_a_copy_is_a_market_of_its_own() -> None:
    exchange = market("a", "b")
    exchange.open_pool("Q0")
    exchange.open("a", "KITE", 1, 100 * UNIT)
    other = exchange.copy()
    rnd = random.Random(1)
    for _ in range(5):
        other.open("b", "VOLT", 1, rnd.randrange(10, 100) * UNIT)
        other.buy("a", "Q0", NO, 10 * UNIT)
    assert exchange != other
    assert exchange.accounts["b"].cash == 10_000 * UNIT
    assert exchange.pools["Q0"] == LiquidityPool(500 * UNIT, 500 * UNIT)
