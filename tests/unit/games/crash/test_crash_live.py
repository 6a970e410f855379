"""The table without sockets: schedule, orders, money, and messages in the shape of the real feed."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playproof.errors import DecodeError
from playproof.games.crash.rules import prices as fair
from playproof.games.crash.rules.money import proceeds
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import WORLDS
from playproof.games.crash.server import protocol
from playproof.games.crash.server.protocol import BET, BUY, SELL, STATE, TOP_UP
from playproof.games.crash.server.round_schedule import bystander_seed, deal, game_id, server_seed
from playproof.games.crash.server.table import REST_MS, RUG_MS, Entry, FillEntry, GameTable, OrderEntry, TableMessage
from playproof.money import UNIT, to_units

DAY = date(2025, 1, 1)
SEED = 11


def clock() -> Callable[[], datetime]:
    """Give a clock that moves by a millisecond a look."""
    now = [datetime(2025, 1, 1, tzinfo=UTC)]

    def look() -> datetime:
        now[0] += timedelta(milliseconds=1)
        return now[0]

    return look


def new_table(world: str = "published", seed: int = SEED, log: list[Entry] | None = None) -> GameTable:
    table = GameTable(WORLDS[world], seed, clock(), day=DAY, log=log)
    table.join("ann", "Ann")
    return table


def seed_with(world: str, wanted: Callable[[Any], bool]) -> int:
    """Find a seed whose first round is as wanted."""
    return next(seed for seed in range(10_000) if wanted(deal(WORLDS[world], seed, 0, DAY).played))


LONG = seed_with("published", lambda played: 90 <= played.rug_tick <= 140)


def advance_to(table: GameTable, phase: Phase, tick: int = 0) -> list[TableMessage]:
    """Move to a phase and tick; give what was said by the last beat."""
    said: list[TableMessage] = []
    for _ in range(10_000):
        if table.phase is phase and table.tick >= tick:
            return said
        said = table.advance()
    raise AssertionError(f"{phase} {tick} never came")


def states(messages: list[TableMessage]) -> list[dict[str, Any]]:
    return [message.arguments[0] for message in messages if message.event == STATE]


def whole_round(table: GameTable) -> Iterator[list[TableMessage]]:
    """Move until the next round's first beat."""
    number = table.number
    while table.number == number:
        yield table.advance()


@pytest.fixture
def table() -> GameTable:
    return new_table(seed=LONG)


def test_a_round_goes_through_its_phases_on_time(table: GameTable) -> None:
    length, rug = table.wait_ms, table.round.rug_tick
    said: list[dict[str, Any]] = []
    for messages in whole_round(table):
        said += states(messages)
        length += table.wait_ms
    length -= table.wait_ms
    assert length == 15_000 + rug * 250 + RUG_MS + REST_MS
    carried: dict[str, Any] = {"gameId": said[0]["gameId"]}
    phases = []
    for state in said[:-1]:
        carried = protocol.carry(carried, state)
        phases.append((protocol.phase_of(carried), carried["cooldownTimer"]))
    assert [phase for phase, _ in phases] == sorted(phase for phase, _ in phases if phase is not None)
    assert Counter(phase for phase, _ in phases) == {
        Phase.COOLDOWN: 49,
        Phase.PRESALE: 101,
        Phase.ACTIVE: rug,
        Phase.RUGGED: 2,
    }
    assert phases[0][1] == 14_900
    assert phases[49:51] == [(Phase.PRESALE, 10_000)] * 2


def test_the_rug_is_said_twice_and_only_the_first_time_with_its_own_tick(table: GameTable) -> None:
    rug = table.round.rug_tick
    first = states(advance_to(table, Phase.RUGGED))[0]
    second = states(table.advance())[0]
    third = states(table.advance())[0]
    assert first["rugged"]
    assert first["active"]
    assert first["tickCount"] == rug
    assert (
        first["price"] == pytest.approx(table.round.rug_price)
        or first["price"] == first["partialPrices"]["values"][str(rug)]
    )
    assert "gameHistory" not in first
    assert second["rugged"]
    assert second["tickCount"] == rug + 1
    assert second["partialPrices"] == first["partialPrices"]
    assert second["gameId"] == first["gameId"]
    assert first["gameId"] not in [past["id"] for past in second["gameHistory"]]
    assert third["gameId"] != first["gameId"]
    assert third["cooldownTimer"] == 15_000
    assert third["gameHistory"][0]["id"] == first["gameId"]


def test_the_seed_is_committed_to_before_and_revealed_after(table: GameTable) -> None:
    identity, prices = table.game_id, table.round.prices
    said = [message for messages in whole_round(table) for message in messages]
    published = {state["provablyFair"]["serverSeedHash"] for state in states(said) if state["gameId"] == identity}
    secret = server_seed(LONG, 0)
    assert published == {fair.server_seed_hash(secret)}
    before_the_end = json.dumps([m.arguments for m in said if m.event != STATE or m.arguments[0]["gameId"] == identity])
    assert secret not in before_the_end
    past = states(said)[-1]["gameHistory"][0]
    assert past["provablyFair"]["serverSeed"] == secret
    assert tuple(past["prices"]) == prices
    assert prices == fair.play_round(secret, identity).prices
    assert table.revealed(identity) is not None
    assert table.revealed(table.game_id) is None


def test_a_seed_fixes_rounds_and_messages() -> None:
    one, two = new_table(), new_table()
    for _ in range(400):
        assert one.advance() == two.advance()
    other = new_table(seed=SEED + 1)
    assert other.round.prices != one.round.prices


def test_game_ids_follow_the_clock_unless_a_day_is_fixed() -> None:
    table = GameTable(WORLDS["published"], 1, lambda: datetime(2031, 5, 6, 23, tzinfo=UTC))
    assert table.game_id == game_id(1, 0, date(2031, 5, 6))
    assert table.game_id.startswith("20310506-")
    assert len(table.game_id) == 25
    assert str(bystander_seed(1)) not in server_seed(1, 0)


def test_ticks_show_the_last_five_prices(table: GameTable) -> None:
    state = states(advance_to(table, Phase.ACTIVE, 30))[0]
    window = state["partialPrices"]
    assert (window["startTick"], window["endTick"]) == (26, 30)
    assert [window["values"][str(tick)] for tick in range(26, 31)] == list(table.round.prices[26:31])
    assert state["price"] == table.round.prices[30] == table.price


def test_a_presale_buy_fills_at_exactly_one_and_cannot_be_sold_before_tick_0(table: GameTable) -> None:
    assert not table.order("ann", BUY, {"amount": 0.1}).success
    advance_to(table, Phase.PRESALE)
    ack = table.order("ann", BUY, {"amount": 0.1})
    assert ack.body["executedPrice"] == 1
    ledger = table.players["ann"].ledger
    assert (ledger.qty, ledger.cash) == (100_000_000, 900_000_000)
    refused = table.order("ann", SELL, {"percentage": 100})
    assert refused.body == {"success": False, "reason": "a presale position cannot be sold before tick 0"}
    advance_to(table, Phase.ACTIVE)
    assert table.tick == 0
    assert table.order("ann", SELL, {"percentage": 100}).success
    assert ledger.cash == UNIT


def test_orders_fill_at_the_last_price_said(table: GameTable) -> None:
    advance_to(table, Phase.ACTIVE, 10)
    price = table.round.prices[10]
    ack = table.order("ann", BUY, {"amount": 0.1})
    assert ack.body["executedPrice"] == price
    qty = int(Fraction(100_000_000) / Fraction(price))
    assert table.players["ann"].ledger.qty == qty
    update = next(m.arguments[0] for m in ack.messages if m.event == protocol.PLAYER)
    assert to_units(update["positionQty"]) == qty
    trade = next(m.arguments[1] for m in ack.messages if m.event == protocol.TRADE)
    assert (trade["type"], trade["tickIndex"], trade["amount"], trade["playerId"]) == ("buy", 10, 0.1, "ann")


def test_late_orders_are_refused_and_change_nothing(table: GameTable) -> None:
    advance_to(table, Phase.ACTIVE, 5)
    table.order("ann", BUY, {"amount": 0.25})
    advance_to(table, Phase.RUGGED)
    ledger = table.players["ann"].ledger
    cash = ledger.cash
    for kind, payload in ((BUY, {"amount": 0.1}), (SELL, {"percentage": 100}), (BET, {"amount": 0.1})):
        ack = table.order("ann", kind, payload)
        assert not ack.success
        assert ack.body["reason"]
        assert not ack.messages
    assert ledger.cash == cash
    assert not ledger.lots


def test_the_rug_sells_at_the_rug_price(table: GameTable) -> None:
    advance_to(table, Phase.ACTIVE, 5)
    table.order("ann", BUY, {"amount": 0.25})
    ledger = table.players["ann"].ledger
    qty, cash = ledger.qty, ledger.cash
    messages = advance_to(table, Phase.RUGGED)
    assert ledger.cash == cash + proceeds(qty, table.round.rug_price)
    trade = next(m.arguments[1] for m in messages if m.event == protocol.TRADE and m.arguments[1]["playerId"] == "ann")
    assert (trade["type"], trade["tickIndex"]) == ("sell", table.round.rug_tick)
    assert messages[0].event == STATE


def test_a_sidebet_wins_by_a_rug_within_40_ticks(table: GameTable) -> None:
    advance_to(table, Phase.ACTIVE, table.round.rug_tick - 40)
    ack = table.order("ann", BET, {"amount": 0.01, "coinAddress": protocol.COIN_ADDRESS, "xPayout": 5})
    assert ack.success
    assert ack.body["sidebet"]["end"] == table.round.rug_tick
    messages = advance_to(table, Phase.RUGGED)
    assert table.players["ann"].ledger.cash == UNIT + 40_000_000
    result = next(
        m.arguments[1] for m in messages if m.event == protocol.SIDEBET_RESULT and m.arguments[1]["playerId"] == "ann"
    )
    assert (result["payout"], result["profit"], result["tickIndex"]) == (0.05, 0.04, table.round.rug_tick)


def test_a_sidebet_loses_after_40_ticks_and_the_next_may_start_on_that_tick(table: GameTable) -> None:
    advance_to(table, Phase.PRESALE)
    assert table.order("ann", BET, {"amount": 0.01}).success
    advance_to(table, Phase.ACTIVE, 39)
    assert not table.order("ann", BET, {"amount": 0.01}).success
    messages = table.advance()
    result = next(
        m.arguments[1] for m in messages if m.event == protocol.SIDEBET_RESULT and m.arguments[1]["playerId"] == "ann"
    )
    assert (result["payout"], result["profit"], result["startTick"], result["endTick"]) == (0, -0.01, 0, 40)
    ack = table.order("ann", BET, {"amount": 0.02})
    assert (table.tick, ack.body["sidebet"]["startedAtTick"], ack.body["sidebet"]["end"]) == (40, 40, 80)


def test_a_sidebet_of_world_fair_pays_more() -> None:
    table = new_table("fair", seed_with("fair", lambda played: played.rug_tick < 40))
    advance_to(table, Phase.PRESALE)
    assert table.order("ann", BET, {"amount": 0.01, "xPayout": 5.5042}).success
    advance_to(table, Phase.RUGGED)
    assert table.players["ann"].ledger.cash == UNIT - 10_000_000 + 55_042_000


def test_world_drift_shows_its_countdown_and_limits_open_cost() -> None:
    table = new_table("drift", seed_with("drift", lambda played: any(played.countdown) and played.rug_tick > 60))
    advance_to(table, Phase.PRESALE)
    assert not table.order("ann", BUY, {"amount": 0.2}).success
    shown = []
    for messages in whole_round(table):
        shown += [(s["tickCount"], s["cooldownTimer"]) for s in states(messages) if s.get("active") and not s["rugged"]]
        if table.phase is Phase.RUGGED:
            break
    assert max(timer for _, timer in shown) == 5000
    assert shown == [(tick, 250 * left) for tick, left in enumerate(table.round.countdown[:-1])]


def test_world_hazard_tells_a_hot_round_by_the_rugpool() -> None:
    table = new_table("hazard", seed_with("hazard", lambda played: played.hot))
    rugpool = states(advance_to(table, Phase.PRESALE))[0]["rugpool"]
    assert rugpool["rugpoolAmount"] / rugpool["threshold"] >= 0.8
    table = new_table("hazard", seed_with("hazard", lambda played: not played.hot))
    rugpool = states(advance_to(table, Phase.PRESALE))[0]["rugpool"]
    assert rugpool["rugpoolAmount"] / rugpool["threshold"] < 0.8


def test_a_new_practice_balance_is_given_only_to_the_poor() -> None:
    table = new_table(seed=LONG)
    assert not table.order("ann", TOP_UP, None).success
    advance_to(table, Phase.ACTIVE, 50)
    assert table.order("ann", BET, {"amount": 0.9995}).success
    assert not table.order("ann", TOP_UP, None).success, "while a bet is open"
    ledger = table.players["ann"].ledger
    advance_to(table, Phase.ACTIVE, 90)
    assert ledger.cash == 500_000
    assert table.order("ann", TOP_UP, None).success
    assert ledger.cash == UNIT
    assert ledger.cash + ledger.house == UNIT
    assert ledger.pnl(table.price) == -999_500_000


@pytest.mark.parametrize(
    ("amount", "units"), [(0.1, 100_000_000), (0.001, 1_000_000), (0.123456789, 123_456_789), (1, UNIT)]
)
def test_amounts_are_exact(table: GameTable, amount: float, units: int) -> None:
    advance_to(table, Phase.PRESALE)
    assert table.order("ann", BUY, {"amount": amount}).success
    assert table.players["ann"].ledger.cash == UNIT - units


BAD_AMOUNTS = [
    0, -0.1, -1, 0.0009, 1.1, 1e300, math.inf, -math.inf, math.nan, 10**400, 0.1234567891, "0.1", "", None, True,
    [], {}, [0.1], {"amount": 0.1},
]  # fmt: skip


@pytest.mark.parametrize("amount", BAD_AMOUNTS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("kind", [BUY, BET])
def test_bad_amounts_are_refused(table: GameTable, kind: str, amount: Any) -> None:
    advance_to(table, Phase.ACTIVE, 3)
    ack = table.order("ann", kind, {"amount": amount})
    assert not ack.success
    assert len(ack.body["reason"]) > 5
    assert table.players["ann"].ledger.cash == UNIT


@pytest.mark.parametrize("percentage", [0, -10, 101, 10.5, "50", None, True, math.nan, math.inf, 10**400, {}])
def test_bad_shares_are_refused(table: GameTable, percentage: Any) -> None:
    advance_to(table, Phase.ACTIVE, 3)
    table.order("ann", BUY, {"amount": 0.1})
    qty = table.players["ann"].ledger.qty
    assert not table.order("ann", SELL, {"percentage": percentage}).success
    assert table.players["ann"].ledger.qty == qty


def test_strangers_and_unknown_orders_are_refused(table: GameTable) -> None:
    advance_to(table, Phase.ACTIVE, 3)
    assert not table.order("bob", BUY, {"amount": 0.1}).success
    assert not table.order("ann", "shortOrder", {"amount": 0.1}).success
    assert not table.order("ann", SELL, {"percentage": 100}).success, "nothing to sell"
    assert not table.order("ann", BET, {"amount": 0.1, "xPayout": 50}).success
    assert not table.order("ann", BET, {"amount": 0.1, "coinAddress": "x"}).success


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
numbers = (
    st.floats(allow_nan=True) | st.integers(-(10**30), 10**30) | st.sampled_from([0.001, 0.01, 0.5, 1, 10, 50, 100])
)
payloads = st.one_of(
    json_values,
    st.fixed_dictionaries({"amount": numbers | json_values}, optional={"xPayout": json_values | st.just(5)}),
    st.fixed_dictionaries({"percentage": numbers | json_values}),
)
FUZZED = new_table(seed=LONG)


@settings(max_examples=300)
@given(
    kind=st.sampled_from([BUY, SELL, BET, TOP_UP, "x"]),
    payload=payloads,
    beats=st.integers(0, 40),
)
def test_any_order_is_answered_and_a_refusal_changes_nothing(kind: str, payload: Any, beats: int) -> None:
    for _ in range(beats):
        FUZZED.advance()
    ledger = FUZZED.players["ann"].ledger
    before = (ledger.cash, ledger.house, ledger.qty, ledger.cost, ledger.invested, ledger.sidebet)
    ack = FUZZED.order("ann", kind, payload)
    assert set(ack.body) >= ({"success"} if ack.success else {"success", "reason"})
    if not ack.success:
        assert not ack.messages
        assert before == (ledger.cash, ledger.house, ledger.qty, ledger.cost, ledger.invested, ledger.sidebet)
    assert ledger.cash >= 0
    assert ledger.cash + ledger.house == UNIT


def test_money_is_conserved_over_rounds_and_the_log_tells_every_balance() -> None:
    log: list[Entry] = []
    table = new_table(seed=3, log=log)
    for name in ("bob", "eve"):
        table.join(name, name.title())
    script = [
        ("ann", BUY, {"amount": 0.05}), ("bob", BET, {"amount": 0.01}), ("ann", SELL, {"percentage": 50}),
        ("eve", BUY, {"amount": 0.3}), ("eve", SELL, {"percentage": 25}), ("bob", BUY, {"amount": 0.001}),
    ]  # fmt: skip
    for i in range(3000):
        table.advance()
        if i % 7 == 0:
            table.order(*script[(i // 7) % len(script)])
        for player in table.players.values():
            assert player.ledger.cash + player.ledger.house == UNIT
            assert player.ledger.cash >= 0
    assert table.number >= 4
    fills = [entry for entry in log if isinstance(entry, FillEntry)]
    orders = [entry for entry in log if isinstance(entry, OrderEntry)]
    assert {fill.kind for fill in fills} == {"buy", "sell", "rug_sale", "bet", "bet_won", "bet_lost"}
    assert len([order for order in orders if order.success]) == len(
        [fill for fill in fills if fill.kind in ("buy", "sell", "bet")]
    )
    sign = {"buy": -1, "bet": -1, "sell": 1, "rug_sale": 1, "bet_won": 1, "bet_lost": 0}
    cash = dict.fromkeys(table.players, UNIT)
    for fill in fills:
        cash[fill.player] += sign[fill.kind] * fill.amount
        assert fill.cash == cash[fill.player]
    assert cash == {player.id: player.ledger.cash for player in table.players.values()}


def test_bystanders_trade_and_the_leaderboard_adds_up(table: GameTable) -> None:
    said = [message for messages in whole_round(table) for message in messages]
    trades = [message.arguments[1] for message in said if message.event == protocol.TRADE]
    assert {trade["type"] for trade in trades} == {"buy", "sell"}
    bought = Counter[str]()
    sold = Counter[str]()
    for trade in trades:
        (bought if trade["type"] == "buy" else sold)[trade["playerId"]] += to_units(trade["qty"])
    assert bought == sold, "everything bought is sold, at the latest by the rug"
    final = next(state for state in states(said) if state.get("rugged"))
    assert final["tradeCount"] == len(trades)
    board = final["leaderboard"]
    assert len(board) == 10
    assert [entry["position"] for entry in board] == list(range(1, 11))
    assert [entry["pnl"] for entry in board] == sorted((entry["pnl"] for entry in board), reverse=True)
    for entry in board:
        own = [trade for trade in trades if trade["playerId"] == entry["id"]]
        flow = sum(to_units(t["amount"]) * (1 if t["type"] == "sell" else -1) for t in own)
        assert to_units(entry["regularPnl"]) == flow
        assert to_units(entry["pnl"]) == flow + to_units(entry["sidebetPnl"])
        assert entry["positionQty"] == entry["avgCost"] == 0


def test_a_player_sees_its_own_leaderboard_entry(table: GameTable) -> None:
    advance_to(table, Phase.ACTIVE, 3)
    ack = table.order("ann", BUY, {"amount": 0.1})
    own = next(m for m in ack.messages if m.event == protocol.PLAYER_STATE)
    assert own.to == "ann"
    assert own.arguments[0]["leaderboardEntry"]["id"] == "ann"
    shared, mine = (m for m in table.advance() if m.event == protocol.PLAYER_STATE)
    assert (shared.to, shared.without, mine.to) == (None, frozenset({"ann"}), "ann")
    assert not shared.reaches("ann")
    assert shared.reaches("bob")


def test_a_newcomer_gets_the_whole_round_so_far(table: GameTable) -> None:
    advance_to(table, Phase.ACTIVE, 20)
    table.join("bob", "Bob")
    messages = table.greet("bob")
    assert {message.to for message in messages} == {"bob"}
    state = messages[0].arguments[0]
    assert tuple(state["prices"]) == table.round.prices[:21]
    assert len(state["gameHistory"]) == 10
    assert [m.event for m in messages] == [
        protocol.STATE, protocol.PLAYER, protocol.PLAYER_STATE, protocol.USERNAME, protocol.RANK,
    ]  # fmt: skip


def test_no_message_says_more_than_has_happened(table: GameTable) -> None:
    for _ in range(400):
        messages = table.advance()
        if table.phase is Phase.RUGGED:
            break
        shown = json.dumps([message.arguments for message in messages])
        future = table.round.prices[table.tick + 1 :]
        assert not any(repr(price) in shown for price in future[:3])


# the real recordings


def _capture(shared_data: Path, name: str) -> list[tuple[str, Any]]:
    path = shared_data / "crash" / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["event"], row["data"]) for row in rows if row.get("direction") != "sent"]


def _own_shapes() -> dict[str, set[Any]]:
    table = new_table(seed=LONG)
    messages = table.greet("ann")
    for wanted in range(3 * 150 + 900):
        messages += table.advance()
        if table.phase is Phase.PRESALE and wanted % 50 == 0:
            messages += table.order("ann", BUY, {"amount": 0.001}).messages
        if table.phase is Phase.ACTIVE and wanted % 20 == 0:
            messages += table.order("ann", SELL, {"percentage": 50}).messages
    shapes: dict[str, set[Any]] = {}
    for message in messages:
        shapes.setdefault(message.event, set()).add(tuple(protocol.payload_of(message.arguments)))
    rows = [row for m in messages if m.event == STATE for row in m.arguments[0]["leaderboard"]]
    shapes["leaderboard"] = {tuple(row) for row in rows}
    shapes["sideBet"] = {tuple(row["sideBet"]) for row in rows if row["sideBet"]}
    past = [past for m in messages if m.event == STATE for past in m.arguments[0].get("gameHistory", ())]
    shapes["gameHistory"] = {tuple(row) for row in past}
    shapes["globalSidebets"] = {tuple(row) for item in past for row in item["globalSidebets"]}
    shapes["rugpool"] = {tuple(m.arguments[0]["rugpool"]) for m in messages if "rugpool" in m.arguments[0]}
    shapes["partialPrices"] = {
        tuple(m.arguments[0]["partialPrices"]) for m in messages if "partialPrices" in m.arguments[0]
    }
    return shapes


@pytest.mark.parametrize("name", ["socket-capture-public.jsonl.gz", "socket-capture-cdp.jsonl.gz"])
def test_messages_have_the_shape_of_the_real_feed(shared_data: Path, name: str) -> None:
    events = _capture(shared_data, name)
    ours = _own_shapes()
    seen = Counter[str]()

    def check(what: str, payload: dict[str, Any]) -> None:
        seen[what] += 1
        assert tuple(payload) in ours[what], f"{what}: {tuple(payload)} not in {ours[what]}"

    for event, data in events:
        if event == protocol.TRADE and isinstance(data, list):
            assert data[0]["__trace"] is True
            check(event, data[1])
        if event in (STATE, protocol.PLAYER, protocol.PLAYER_STATE):
            check(event, data)
        if event == protocol.PLAYER_STATE:
            check("rugpool", data["rugpool"])
        if event != STATE:
            continue
        for row in data["leaderboard"]:
            check("leaderboard", row)
            if row["sideBet"]:
                check("sideBet", row["sideBet"])
        for past in data.get("gameHistory", ()):
            check("gameHistory", past)
            for row in past["globalSidebets"]:
                check("globalSidebets", row)
        if "rugpool" in data:
            check("rugpool", data["rugpool"])
        if "partialPrices" in data:
            check("partialPrices", data["partialPrices"])
    assert seen[STATE] > 150
    assert seen["globalSidebets"] > 500


def test_the_real_feed_is_read_as_phases(shared_data: Path) -> None:
    carried: dict[str, Any] = {}
    phases = Counter[Phase | None]()
    for event, data in _capture(shared_data, "socket-capture-public.jsonl.gz"):
        if event == STATE:
            carried = protocol.carry(carried, data)
            phases[protocol.phase_of(carried)] += 1
            assert protocol.tick_identity(carried) is not None
    assert phases[Phase.RUGGED] == 4
    assert phases[Phase.PRESALE] > 100
    assert phases[Phase.COOLDOWN] > 90
    assert phases[None] == 0


# frames


def test_frames_are_read_and_written() -> None:
    text = protocol.event_frame(BUY, [{"amount": 0.1}], 7)
    assert text == '427["buyOrder",{"amount":0.1}]'
    read = protocol.parse_frame(text)
    assert (read.kind, read.event, read.arguments, read.ack_id) == ("event", BUY, ({"amount": 0.1},), 7)
    assert protocol.parse_frame('437[{"success":true}]').arguments == ({"success": True},)
    assert protocol.parse_frame('40{"sid":"a"}').kind == "connect"
    assert protocol.parse_frame("2").kind == "ping"
    assert protocol.parse_frame('42/admin,["x"]').event == "x"
    assert protocol.payload_of([{"__trace": True}, {"a": 1}]) == {"a": 1}
    assert protocol.payload_of([{"a": 1}]) == {"a": 1}
    assert protocol.payload_of([]) is None


@settings(max_examples=500)
@given(st.text(max_size=40) | st.text(alphabet='420[]{}",:1e9aN/\x00\ud800', max_size=60))
def test_any_text_is_a_frame_or_a_decode_error(text: str) -> None:
    try:
        protocol.parse_frame(text)
    except DecodeError:
        return


@pytest.mark.parametrize(
    "text", ["", "4", "42", "42[]", "42[1]", "42{}", "9", "42[NaN]", '42["a",' + "[" * 5000, "x" * 20]
)
def test_what_is_no_frame_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        protocol.parse_frame(text)
