"""The feature table, the sets written from it, and what is heard of the crowd.

The twin below computes the rows of `market` and `trader` from full lists of events, by the
definitions of the table and not by the compiled code.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime
from fractions import Fraction
from gzip import open as gzip_open
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playproof.errors import InputError, RefusedOrder
from playproof.games.crash.features import history
from playproof.games.crash.features import state as fold
from playproof.games.crash.features import table as features
from playproof.games.crash.features.table import ENTRIES, FILLS, MARKET, NEEDS, OBSERVATIONS, POLICY, RECORDED, TRADER
from playproof.games.crash.rules import prices as fair
from playproof.games.crash.rules.money import MAX_LOTS, MoneyLedger
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.rules.worlds import counter_round, get_world
from playproof.games.crash.server.messages import ranked
from playproof.games.crash.server.protocol import BET, BUY, LEADERS, SELL, STATE, TRADE
from playproof.games.crash.server.round_schedule import bystander_seed
from playproof.games.crash.server.table import GameTable
from playproof.games.crash.server.table_crowd import TableCrowd
from playproof.games.crash.sim import prices_nb
from playproof.games.crash.sim.crowd import STRETCH, crowd
from playproof.games.crash.sim.crowd_feed import (
    CrowdFeed,
    CrowdUpdate,
    LeaderboardFigures,
    OwnPosition,
    figures_of,
    read_leaderboard,
    to_records,
)
from playproof.games.crash.sim.kernel import LOTS
from playproof.money import UNIT, to_units

COOLDOWN, PRESALE, ACTIVE, RUGGED = range(4)


def test_sets_have_the_lengths_of_their_lists() -> None:
    assert [(name, len(observation.features)) for name, observation in OBSERVATIONS.items()] == [
        ("policy", 31),
        ("recorded", 37),
        ("market", 40),
        ("trader", 96),
    ]
    assert dict(OBSERVATIONS["trader"].blocks) == {
        "current": 10,
        "history": 20,
        "positions": 30,
        "meta_context": 24,
        "sweet_spot": 3,
        "duration_pred": 4,
        "rug_prediction": 5,
    }


def test_every_feature_stands_once_and_says_everything() -> None:
    names = [feature.name for feature in features.FEATURES]
    used = {name for numbers in OBSERVATIONS.values() for name in numbers.features}
    assert len(names) == len(set(names)) == len(used)
    for feature in features.FEATURES:
        assert feature.unit
        assert feature.source
        assert feature.how
        assert math.isfinite(feature.fill)
    for numbers in OBSERVATIONS.values():
        assert len(numbers.features) == len(set(numbers.features))
    assert len(features.PREDICTOR_INPUTS) == 14
    assert set(POLICY) < set(RECORDED)


def test_knowledge_has_the_bits_of_the_fold() -> None:
    fold_bits = [
        fold.K_TICK,
        fold.K_PLAYER,
        fold.K_ROUND,
        fold.K_RUGPOOL,
        fold.K_SESSION,
        fold.K_HIGHEST,
        fold.K_EXECUTION,
        fold.K_CLIENT,
        fold.K_VELOCITY,
        fold.K_ACCELERATION,
        fold.K_BET,
        fold.K_TIMER,
    ]
    assert [1 << i for i in range(len(features.KNOWLEDGE))][: len(fold_bits)] == fold_bits
    assert features.KNOWLEDGE[len(fold_bits) :] == (
        "leaderboard",
        "lots",
        "past_1",
        "past_2",
        "past_3",
        "past_4",
        "past_5",
    )


def test_the_document_is_current(project: Path) -> None:
    """Write it with `make docs`."""
    text = features.to_markdown()
    assert (project / "docs" / "reference" / "features.md").read_text(encoding="utf-8") == text
    for name in (feature.name for feature in features.FEATURES):
        assert f"| `{name}` |" in text


def test_the_table_is_light() -> None:
    program = "import sys, playproof.games.crash.features.table as f; assert 'numba' not in sys.modules and f.FEATURES"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_order_is_what_the_fold_writes() -> None:
    states = fold.new_state()
    state = states[0]
    plain = {
        "price": 3.5,
        "velocity": 0.25,
        "acceleration": 0.125,
        "cash": 7 * UNIT,
        "qty": 2 * UNIT,
        "avg_cost": UNIT // 2,
        "pnl": 9 * UNIT,
        "invested": 11 * UNIT,
        "bet": 13 * UNIT,
        "tick": 100,
        "timer_ms": 250,
        "entry_tick": 60,
        "action_tick": 80,
        "phase": 5,
        "presale": 6,
        "active": 8,
        "rugged": 10,
        "execution_price": 12.0,
        "execution_client_ms": 14.0,
        "execution_tick": 15,
        "execution_latency_ms": 16.0,
        "execution_trade": 17.0,
    }
    for name, value in plain.items():
        state[name] = value
    state["context"] = [201.0 + i for i in range(12)]
    expected = {
        "tick": 100,
        "price": 3.5,
        "game_phase": 5,
        "cooldown_timer_ms": 250,
        "allow_pre_round_buys": 6,
        "active": 8,
        "rugged": 10,
        "connected_players": 201,
        "game_id_hash": 202,
        "balance": 7,
        "position_qty": 2,
        "avg_entry_price": 0.5,
        "cumulative_pnl": 9,
        "total_invested": 11,
        "rugpool_amount": 203,
        "rugpool_threshold": 204,
        "instarug_count": 205,
        "average_multiplier": 207,
        "count_2x": 208,
        "count_10x": 209,
        "count_50x": 210,
        "count_100x": 211,
        "highest_today": 212,
        "price_velocity": 0.25,
        "price_acceleration": 0.125,
        "unrealized_pnl": 6,
        "position_pnl_pct": 6,
        "rugpool_ratio": 206,
        "balance_at_risk_pct": 0.5,
        "time_in_position": 40,
        "ticks_since_last_action": 20,
        "bet_amount": 13,
        "execution_tick": 15,
        "execution_price": 12,
        "trade_id_hash": 17,
        "client_timestamp": 14,
        "latency_ms": 16,
    }
    row = np.full((1, 37), np.nan, np.float32)
    fold.observe_recorded(state, row, 0)
    assert dict(zip(RECORDED, row[0].tolist(), strict=True)) == pytest.approx(expected)
    row = np.full((1, 31), np.nan, np.float32)
    fold.observe_policy(state, row, 0)
    assert dict(zip(POLICY, row[0].tolist(), strict=True)) == pytest.approx({name: expected[name] for name in POLICY})


def test_fill_values_of_the_session_are_those_of_the_published_game() -> None:
    peaks, code = [], get_world("published").code
    for number in range(60_000):
        key = np.uint64(fair.round_key(11, number, prices_nb.PRICES))
        world_key = np.uint64(fair.round_key(11, number, prices_nb.WORLD))
        peaks.append(prices_nb.finish_round(code, key, world_key, False, 0, 0, 1.0, 1.0, 0)[1])
    rounds = np.array(peaks)
    for name, least, tolerance in (("2x", 2, 1.0), ("10x", 10, 0.5), ("50x", 50, 0.2), ("100x", 100, 0.15)):
        assert ENTRIES[f"count_{name}"].fill == pytest.approx(100 * (rounds >= least).mean(), abs=tolerance)
    means = rounds.reshape(-1, 100).mean(axis=1)
    assert ENTRIES["average_multiplier"].fill == pytest.approx(np.median(means), rel=0.07)
    ratio = ENTRIES["rugpool_amount"].fill / ENTRIES["rugpool_threshold"].fill
    assert ENTRIES["rugpool_ratio"].fill == pytest.approx(ratio)


Event = tuple[Any, ...]


class Twin:
    """Everything that was told, in order: of all rounds and of this one, by kind."""

    def __init__(self) -> None:
        self.ever: dict[str, list[Event]] = defaultdict(list)
        self.now: dict[str, list[Event]] = defaultdict(list)
        self.log: list[Event] = []

    def take(self, event: Event) -> None:
        kind, *payload = event
        if kind == "round":
            self.now, self.log = defaultdict(list), []
        self.ever[kind].append(tuple(payload))
        self.now[kind].append(tuple(payload))
        self.log.append(event)

    def last(self, kind: str) -> Event | None:
        return self.ever[kind][-1] if self.ever[kind] else None

    def last_now(self, kind: str) -> Event | None:
        return self.now[kind][-1] if self.now[kind] else None

    def prices(self) -> dict[int, float]:
        """Give the prices of this round by tick, where seen."""
        seen, newest = {0: 1.0}, 0
        for tick, price, _, phase in self.now["tick"]:
            if phase in (ACTIVE, RUGGED) and tick > newest:
                seen[tick], newest = price, tick
        return seen


def in_window(values: dict[int, float], t: int, width: int) -> list[float]:
    return [value for tick, value in values.items() if t - width < tick <= t]


def changes_of(prices: dict[int, float]) -> dict[int, float]:
    return {t: prices[t] / prices[t - 1] - 1 for t in prices if t - 1 in prices}


def deviation(values: list[float]) -> float:
    return float(np.std(values)) if len(set(values)) > 1 else 0.0


def plain_rows(twin: Twin) -> dict[str, float | None]:
    """Give the features that the fold writes; None is unknown."""
    prices = twin.prices()
    t = max(prices)
    tick = twin.last_now("tick")
    row: dict[str, float | None] = {
        "tick": tick[0] if tick else 0,
        "price": tick[1] if tick else 1.0,
        "cooldown_timer_ms": tick[2] if tick else 0,
        "game_phase": tick[3] if tick else 0,
        "allow_pre_round_buys": tick is not None and tick[3] == PRESALE,
        "rugged": tick is not None and tick[3] == RUGGED,
    }
    velocity = {k: prices[k] - prices[k - 1] for k in prices if k - 1 in prices} | {0: 0.0}
    row["price_velocity"] = velocity.get(t)
    row["price_acceleration"] = velocity[t] - velocity[t - 1] if t in velocity and t - 1 in velocity else None
    if t == 0:
        row["price_acceleration"] = 0.0
    site = twin.last("site")
    names = ("rugpool_amount", "rugpool_threshold", "instarug_count", *features.names(features.SESSION))
    row |= dict(zip(names, site or (None,) * 9, strict=True))
    row["rugpool_ratio"] = site[0] / site[1] if site else None
    return row | own_rows(twin, row["price"] or 0.0)


def own_rows(twin: Twin, price: float) -> dict[str, float | None]:
    payload = twin.last("player")
    names = (
        *features.names(features.PLAYER),
        *("unrealized_pnl", "position_pnl_pct", "time_in_position", "balance_at_risk_pct", "has_positions", "bankroll"),
    )
    if payload is None:
        return dict.fromkeys(names)
    cash, qty, avg, pnl, invested = (units / 1e9 for units in payload)
    tick, opened, held = 0, 0, False
    for kind, *rest in twin.log:
        if kind == "tick":
            tick = rest[0]
        elif kind == "player":
            opened = tick if rest[1] > 0 and not held else opened
            held = rest[1] > 0
    values = (
        *(cash, qty, avg, pnl, invested),
        qty * (price - avg),
        qty * (price - avg) / (qty * avg) if held else 0.0,
        tick - opened if held else 0,
        qty * price / (cash + qty * price) if held else 0.0,
        qty > 0,
        cash + qty * price,
    )
    return dict(zip(names, values, strict=True))


def market_row(twin: Twin) -> dict[str, float | None]:
    row = plain_rows(twin)
    t = int(row["tick"] or 0)
    board = twin.last("board")
    row["players_in_game"], row["players_with_positions"] = board[:2] if board else (None, None)
    row["total_market_capital"] = board[2] / 1e9 if board else None
    trades = twin.now["trade"]
    recent = [trade for trade in trades if t - 40 < max(trade[0], 0) <= t]
    buys = sum(amount for _, buy, amount in recent if buy) / 1e9
    sells = sum(amount for _, buy, amount in recent if not buy) / 1e9
    row["recent_buy_volume"], row["recent_sell_volume"] = buys, sells
    row["trade_flow_ratio"] = buys / (buys + sells) if buys + sells else 0.5
    sizes = [amount for _, _, amount in twin.ever["trade"][-100:]]
    row["whale_activity_flag"] = any(
        amount > 10 * statistics.median(sizes) for tick, _, amount in trades if t - 10 < max(tick, 0) <= t
    )
    by_tick = dict.fromkeys(range(max(0, t - 39), t + 1), 0)
    for tick, _, amount in recent:
        by_tick[max(tick, 0)] += amount
    volumes = [amount / 1e9 for amount in by_tick.values()]
    for name, values in (("price", in_window(twin.prices(), t, 40)), ("volume", volumes)):
        row[f"{name}_mean_40"] = float(np.mean(values))
        row[f"{name}_std_40"] = deviation(values)
        row[f"{name}_min_40"], row[f"{name}_max_40"] = min(values), max(values)
    return row


def trader_row(twin: Twin) -> dict[str, float | None]:
    row = plain_rows(twin)
    prices, price = twin.prices(), row["price"] or 0.0
    t, changes = max(prices), changes_of(prices)
    first, recent = deviation(in_window(changes, 40, 40)), deviation(in_window(changes, t, 10))
    row |= {"volatility_first_40": first, "volatility_last_10": recent}
    row["volatility_ratio"] = recent / first if first else 1.0
    return row | past_rows(twin) | lot_rows(twin, price) | indicator_rows(prices, price) | run_rows(twin, t)


def past_rows(twin: Twin) -> dict[str, float | None]:
    row: dict[str, float | None] = {}
    rounds = twin.ever["rug"][::-1][:5]
    for back in range(1, 6):
        end, duration, peak = rounds[back - 1] if len(rounds) >= back else (None, None, None)
        row[f"history_{back}_end_price"], row[f"history_{back}_duration"] = end, duration
        row[f"history_{back}_peak"] = peak
        row[f"history_{back}_ultra_short_flag"] = None if duration is None else duration < 6
    row["mean_peak_5"] = float(np.mean([peak for _, _, peak in rounds])) if rounds else None
    row["mean_duration_5"] = float(np.mean([duration for _, duration, _ in rounds])) if rounds else None
    return row


def lot_rows(twin: Twin, price: float) -> dict[str, float | None]:
    payload = twin.last("lots")
    held = (twin.last_now("lots") or ((),))[0]
    row: dict[str, float | None] = {"position_count": None if payload is None else len(held)}
    for index in range(1, 11):
        qty, cost = held[index - 1] if len(held) >= index else (0, 0)
        row[f"lot_{index}_entry_price"] = cost / qty if qty else 0.0
        row[f"lot_{index}_bet_size"] = cost / 1e9
        row[f"lot_{index}_pnl_pct"] = price / (cost / qty) - 1 if qty else 0.0
    return row


def indicator_rows(prices: dict[int, float], price: float) -> dict[str, float | None]:
    t, changes = max(prices), changes_of(prices)
    row: dict[str, float | None] = {}
    for width in (3, 5, 10, 20):
        row[f"log_return_{width}"] = math.log(price / in_window(prices, t, width + 1)[0])
    steps = [prices[k] - prices[k - 1] for k in prices if k - 1 in prices and k > t - 14]
    gains, losses = sum(x for x in steps if x > 0), -sum(x for x in steps if x < 0)
    row["rsi_14"] = 100 * gains / (gains + losses) if gains + losses else 50.0
    window = in_window(prices, t, 20)
    row["z_score_20"] = (price - float(np.mean(window))) / deviation(window) if deviation(window) else 0.0
    peak, low = max(prices.values()), min(prices.values())
    row["drawdown_from_peak"], row["run_up_from_low"] = 1 - price / peak, price / low - 1
    row["ticks_since_peak"] = t - next(k for k, value in prices.items() if value == peak)
    row["ticks_since_low"] = t - next(k for k, value in prices.items() if value == low)
    big = [k for k, change in changes.items() if abs(change) > 0.12]
    row["ticks_since_big_move"] = t - max(big, default=0)
    row["big_moves_10"] = sum(1 for k in big if k > t - 10)
    ups = [change > 0 for change in in_window(changes, t, 10)]
    row["up_share_10"] = sum(ups) / len(ups) if ups else 0.5
    window = in_window(prices, t, 10)
    row["range_10"] = (max(window) - min(window)) / max(window)
    row["log_price"], row["half_lives"] = math.log(price), t / 138
    row["in_sweet_spot"] = 25 <= price <= 50
    row["ticks_in_sweet_spot"] = sum(25 <= value <= 50 for k, value in prices.items() if k > 0)
    row["sweet_spot_reached"] = peak >= 25
    return row


def run_rows(twin: Twin, t: int) -> dict[str, float | None]:
    results = twin.ever["result"]
    traded = [pnl for pnl, active in results if active]
    streaks = {}
    for name, sign in (("win_streak", 1), ("loss_streak", -1)):
        streaks[name] = next((i for i, pnl in enumerate(reversed(traded)) if pnl * sign <= 0), len(traded))
    idle = next((i for i, (_, active) in enumerate(reversed(results)) if active), len(results))
    known = twin.last("player") is not None
    stake, end = twin.last_now("sidebet") or (0, 0)
    betting = stake > 0 and t < end and not any(phase == RUGGED for *_, phase in twin.now["tick"])
    probability, confidence, norm, duration, sure = twin.last_now("prediction") or (
        1 - 0.995**40,
        0.0,
        1.0,
        t + 200,
        0.0,
    )
    own = {
        "session_pnl": sum(pnl for pnl, _ in results) / 1e9,
        **streaks,
        "rounds_since_trade": idle,
        "sidebet_active": betting,
        "ticks_until_sidebet": end - t if betting else 0,
    }
    return {
        "rounds_in_session": len(twin.ever["round"]),
        **{name: value if known else None for name, value in own.items()},
        "predicted_duration": duration,
        "duration_confidence": sure,
        "rug_probability": probability,
        "rug_confidence": confidence,
        "ticks_to_rug_norm": norm,
        "is_critical": probability >= 0.5,
        "should_exit": probability >= 0.4,
    }


SUMMED = {
    name
    for name in (*MARKET, *TRADER)
    if "_mean_" in name
    or "_std_" in name
    or name.startswith(("volatility", "mean_"))
    or name
    in (
        "rsi_14",
        "z_score_20",
        "position_pnl_pct",
        "trade_flow_ratio",
        "bankroll",
        "balance_at_risk_pct",
        "unrealized_pnl",
    )
}
"""Features whose definition leaves open in which order to add or multiply; all others are equal to the last bit."""


class Compiled:
    """The fold and the history, told the same events."""

    def __init__(self) -> None:
        self.states, self.histories = fold.new_state(), history.new_history()
        self.lots = np.zeros(1, LOTS)

    def take(self, event: Event) -> None:
        s, h, (kind, *payload) = self.states[0], self.histories[0], event
        if kind == "round":
            fold.apply_round(s, 0.5)
            history.apply_round(h, s)
        elif kind == "tick":
            fold.apply_tick(s, *payload)
            history.apply_tick(h, s)
        elif kind == "site":
            fold.apply_rugpool(s, *payload[:3])
            fold.apply_session(s, *payload[3:8])
            fold.apply_highest(s, payload[8])
        elif kind == "player":
            fold.apply_player(s, *payload)
        elif kind == "lots":
            self._lots(h, payload[0])
        elif kind == "rug":
            history.apply_rug(h, s, payload[2])
        else:
            takers: dict[str, Any] = {
                "trade": history.apply_trade,
                "board": history.apply_leaderboard,
                "sidebet": history.apply_sidebet,
                "result": history.apply_session_result,
                "prediction": history.apply_prediction,
            }
            takers[kind](h, *payload)

    def _lots(self, h: Any, held: tuple[tuple[int, int], ...]) -> None:
        head = MAX_LOTS - 4
        for i, (qty, cost) in enumerate(held):
            self.lots["qty"][0, (head + i) % MAX_LOTS] = qty
            self.lots["cost"][0, (head + i) % MAX_LOTS] = cost
        history.apply_lots(h, self.lots[0], head, len(held))

    def look(self, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Give the row of a set and its mask, each written whole."""
        width = len(OBSERVATIONS[name].features)
        row, mask = np.full((1, width), np.nan, np.float32), np.zeros((1, width), np.bool_)
        observe, missing = {
            "market": (history.observe_market, history.missing_market),
            "trader": (history.observe_trader, history.missing_trader),
        }[name]
        observe(self.histories[0], self.states[0], row, 0)
        missing(self.histories[0], self.states[0], mask, 0)
        return row[0], mask[0]


def some_prices(rng: random.Random) -> list[float]:
    """Give a round's prices: simulated, or driven up through 25x to 50x."""
    if rng.random() < 0.6:
        return list(counter_round(get_world("published"), rng.randrange(10**6), 0).prices)[:220]
    prices = [1.0]
    while len(prices) < 160:
        change = rng.choice((-0.2, 0.0, 0.2)) if rng.random() < 0.2 else rng.uniform(-0.02, 0.09)
        prices.append(prices[-1] * (1 + change))
    return [*prices, 0.02 * min(prices)]


def some_trade(rng: random.Random, tick: int) -> Event:
    amount = round(10 ** rng.uniform(6, 8)) * (300 if rng.random() < 0.03 else 1)
    return ("trade", tick - (rng.random() < 0.1), rng.random() < 0.5, amount)


def lots_of(ledger: MoneyLedger) -> Event:
    return ("lots", tuple((lot.qty, lot.cost) for lot in ledger.lots))


def some_orders(rng: random.Random, ledger: MoneyLedger, tick: int, price: float) -> Iterator[Event]:
    """Trade at random and tell what the player is told."""
    try:
        if rng.random() < 0.3:
            ledger.buy(rng.randrange(1, 20) * 10**6, price)
        elif rng.random() < 0.2 and tick >= 0:
            ledger.sell(rng.choice((10, 25, 50, 100)), price)
        elif rng.random() < 0.2:
            bet = ledger.bet(10**6, max(tick, 0))
            yield ("sidebet", bet.stake, bet.end_tick)
        else:
            return
    except RefusedOrder:
        return
    yield player_of(ledger, price)
    yield lots_of(ledger)


def player_of(ledger: MoneyLedger, price: float) -> Event:
    return ("player", ledger.cash, ledger.qty, ledger.avg_cost, ledger.pnl(price), ledger.invested)


def some_round(rng: random.Random, ledger: MoneyLedger, spectator: bool) -> Iterator[Event]:
    """Tell a round; None stands where a row is looked at."""
    prices, plays = some_prices(rng), not spectator and rng.random() < 0.8
    yield ("round",)
    if not spectator:
        ledger.start_round()
        yield player_of(ledger, 1.0)
    if rng.random() < 0.8:
        yield ("site", *(rng.randrange(1, 100) / 8 for _ in range(9)))
    yield ("tick", 0, 1.0, 10_000, PRESALE)
    yield from (some_trade(rng, -1) for _ in range(rng.randrange(20)))
    for tick, price in enumerate(prices):
        rugs = tick == len(prices) - 1
        if not rugs and tick and rng.random() < 0.04:
            continue
        yield ("tick", tick, price, 0, RUGGED if rugs else ACTIVE)
        if rng.random() < 0.2:
            yield ("tick", tick, price, 0, RUGGED if rugs else ACTIVE)
        if rugs:
            yield ("rug", price, tick, max(prices[:-1]))
            yield ("rug", price, tick, max(prices[:-1]))
        if rng.random() < 0.5:
            yield ("board", rng.randrange(11), rng.randrange(11), rng.randrange(10**10))
        if plays and not rugs:
            ledger.pass_tick(tick)
            yield from some_orders(rng, ledger, tick, price)
        if rng.random() < 0.01:
            yield ("prediction", rng.random(), 0.25, 0.5, float(tick + 40), 0.75)
        yield from (some_trade(rng, tick) for _ in range(rng.choice((0, 0, 1, 3))))
    if not spectator:
        traded = ledger.invested > 0
        ledger.rug(len(prices) - 1, prices[-1])
        yield player_of(ledger, prices[-1])
        yield lots_of(ledger)
        yield ("result", ledger.cash - ledger.round_cash, traded)


def some_session(seed: int, rounds: int) -> list[Event]:
    """Tell several rounds; in the first nobody plays."""
    rng, ledger = random.Random(seed), MoneyLedger(UNIT)
    return [event for number in range(rounds) for event in some_round(rng, ledger, spectator=number == 0)]


def is_second_rug(events: list[Event], i: int) -> bool:
    return bool(events[i][0] == "rug" and events[i - 1][0] == "rug")


@pytest.mark.parametrize("seed", range(2))
def test_rows_equal_the_slow_twin(seed: int) -> None:
    compiled, twin, rng = Compiled(), Twin(), random.Random(seed)
    events, looks = some_session(seed, 8), 0
    for i, event in enumerate(events):
        compiled.take(event)
        if not is_second_rug(events, i):
            twin.take(event)
        if event[0] in ("round", "rug", "result") or (event[0] == "tick" and event[1] < 12) or rng.random() < 0.08:
            compare("market", compiled, market_row(twin), event)
            compare("trader", compiled, trader_row(twin), event)
            looks += 1
    assert looks > 200


def compare(name: str, compiled: Compiled, expected: dict[str, float | None], event: Event) -> None:
    row, mask = compiled.look(name)
    for feature, result, unknown in zip(OBSERVATIONS[name].features, row, mask, strict=True):
        value = expected[feature]
        assert np.isfinite(result), feature
        if value is None or unknown:
            assert result == np.float32(ENTRIES[feature].fill), (feature, event)
            assert value is None or np.float32(value) == result, (feature, event)
        elif feature in SUMMED:
            assert result == pytest.approx(value, rel=1e-6, abs=1e-9), (feature, event)
        else:
            assert result == np.float32(value), (feature, event)


def test_the_random_sessions_reach_everything() -> None:
    """Every feature takes more than one value over the sessions that the twin is compared on."""
    rows: dict[str, set[float]] = {name: set() for name in (*MARKET, *TRADER)}
    for seed in range(2):
        compiled = Compiled()
        for event in some_session(seed, 8):
            compiled.take(event)
            if event[0] == "tick":
                for name in ("market", "trader"):
                    for feature, value in zip(
                        OBSERVATIONS[name].features, compiled.look(name)[0].tolist(), strict=True
                    ):
                        rows[feature].add(value)
    assert [name for name, values in rows.items() if len(values) < 2] == []


@pytest.mark.parametrize("name", ["market", "trader"])
def test_rows_do_not_know_what_comes_later(name: str) -> None:
    events = some_session(5, 3)
    whole = seen_rows(events, name)
    for cut in (40, 300, 700):
        kept = events[:cut]
        for later in ((), tuple(altered(event) for event in events[cut:]), tuple(reversed(events[cut:]))):
            assert seen_rows([*kept, *later], name)[:cut] == whole[:cut]


def seen_rows(events: list[Event], name: str) -> list[bytes]:
    """Give the row after each event."""
    compiled, rows = Compiled(), []
    for event in events:
        compiled.take(event)
        rows.append(compiled.look(name)[0].tobytes())
    return rows


def altered(event: Event) -> Event:
    """Tell something else of the same kind."""
    kind, *payload = event
    if kind == "tick":
        return (kind, payload[0], payload[1] * 3.0, payload[2], payload[3])
    return (kind, *payload[:2], payload[2] * 7 + 1) if kind in ("trade", "board") else event


def test_what_was_not_told_holds_its_fill_value() -> None:
    compiled = Compiled()
    for name in ("market", "trader"):
        row, mask = compiled.look(name)
        assert mask.tolist() == [needs != 0 for needs in NEEDS[name]]
        assert row.tolist() == np.array(FILLS[name], np.float32).tolist()


@given(st.lists(st.tuples(st.integers(0, 300), st.floats(0, 1e6), st.integers(0, 3)), max_size=30), st.booleans())
def test_no_order_of_ticks_makes_a_row_infinite(ticks: list[tuple[int, float, int]], begun: bool) -> None:
    compiled = Compiled()
    if begun:
        compiled.take(("round",))
    for tick, price, phase in ticks:
        compiled.take(("tick", tick, price, 0, phase))
        compiled.take(("trade", tick, True, 10**6))
        assert np.isfinite(compiled.look("market")[0]).all()
        assert np.isfinite(compiled.look("trader")[0]).all()


@given(st.integers(0, 2**32), st.integers(1, 260))
def test_the_median_of_the_last_100_trades(seed: int, count: int) -> None:
    amounts = random.Random(seed).choices(range(1, 2000), k=count)
    compiled = Compiled()
    compiled.take(("round",))
    for amount in amounts:
        compiled.take(("trade", 0, True, amount))
    kept = compiled.histories["sorted_sizes"][0, : min(100, len(amounts))].tolist()
    assert kept == sorted(amounts[-100:])
    row = dict(zip(MARKET, compiled.look("market")[0].tolist(), strict=True))
    assert row["whale_activity_flag"] == (max(amounts) > 10 * statistics.median(amounts[-100:]))


def test_trades_at_once_are_trades_one_by_one() -> None:
    one, many = Compiled(), Compiled()
    made = CrowdFeed(3, 1).presale().trades
    for compiled in (one, many):
        compiled.take(("round",))
    history.apply_trades(many.histories, 0, to_records(made))
    for deal in made:
        one.take(("trade", deal.tick, deal.side == "buy", deal.amount))
    assert one.histories.tobytes() == many.histories.tobytes()
    row = dict(zip(MARKET, many.look("market")[0].tolist(), strict=True))
    assert row["recent_buy_volume"] == np.float32(sum(deal.amount for deal in made) / 1e9)


def test_a_session_starts_again_but_the_market_is_remembered() -> None:
    compiled = Compiled()
    for event in some_session(8, 4):
        compiled.take(event)
    before = dict(zip(TRADER, compiled.look("trader")[0].tolist(), strict=True))
    history.start_session(compiled.histories[0])
    after = dict(zip(TRADER, compiled.look("trader")[0].tolist(), strict=True))
    reset = ("rounds_in_session", "session_pnl", "win_streak", "loss_streak", "rounds_since_trade")
    assert before["rounds_in_session"] == 4
    assert [after[name] for name in reset] == [0.0] * 5
    assert {name: value for name, value in after.items() if name not in reset} == {
        name: value for name, value in before.items() if name not in reset
    }


def test_streaks_are_of_traded_rounds() -> None:
    compiled = Compiled()
    compiled.take(("player", UNIT, 0, 0, 0, 0))
    results = []
    for pnl, traded in ((5, True), (0, False), (3, True), (0, True), (-1, True), (0, False), (0, False)):
        compiled.take(("result", pnl, traded))
        row = dict(zip(TRADER, compiled.look("trader")[0].tolist(), strict=True))
        results.append((row["win_streak"], row["loss_streak"], row["rounds_since_trade"]))
    assert results == [(1, 0, 0), (1, 0, 1), (2, 0, 0), (0, 0, 0), (0, 1, 0), (0, 1, 1), (0, 1, 2)]


def test_one_who_joins_is_told_of_past_rounds() -> None:
    compiled = Compiled()
    for duration in (3, 250):
        history.apply_past_round(compiled.histories[0], 0.02, duration, 1.5)
    row = dict(zip(TRADER, compiled.look("trader")[0].tolist(), strict=True))
    assert [row[f"history_{back}_duration"] for back in range(1, 6)] == [250, 3, 0, 0, 0]
    assert [row[f"history_{back}_ultra_short_flag"] for back in range(1, 4)] == [0, 1, 0]
    assert row["mean_duration_5"] == 126.5


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def own_of(table: GameTable) -> OwnPosition | None:
    """Give how the table's player is ranked at the price just said."""
    ledger = table.players["ann"].ledger
    if not ledger.invested:
        return None
    return OwnPosition(ledger.pnl(table.price) + ledger.open_stake, ledger.invested, ledger.qty, "ann")


def told_by(messages: list[Any]) -> tuple[list[Any], list[tuple[str, int, int]]]:
    """Give the states said, and the trades of others."""
    states = [message.arguments[-1] for message in messages if message.event == STATE]
    trades = [message.arguments[-1] for message in messages if message.event == TRADE]
    return states, [
        (trade["type"], to_units(trade["amount"]), trade["tickIndex"]) for trade in trades if trade["playerId"] != "ann"
    ]


def trades_of(crowd_update: CrowdUpdate) -> list[tuple[str, int, int]]:
    return [(made.side, made.amount, made.tick) for made in crowd_update.trades]


def play_orders(table: GameTable, tick: int) -> None:
    """Let the player stake much, so that it comes to the top of the leaderboard, or to its end."""
    if tick == 0:
        table.order("ann", BUY, {"amount": 0.4})
        table.order("ann", BET, {"amount": 0.05})
    elif tick == 12:
        table.order("ann", SELL, {"percentage": 50})


@pytest.mark.parametrize("seed", [4, 9])
def test_the_crowd_is_heard_as_at_the_table(seed: int) -> None:
    table = GameTable(get_world("published"), seed, clock, day=date(2026, 1, 1))
    table.join("ann", "Ann")
    ranks: set[int] = set()
    for number in range(3):
        feed = CrowdFeed(bystander_seed(seed), number)
        heard: list[tuple[str, int, int]] = []
        while table.phase is not Phase.ACTIVE:
            states, trades = told_by(table.advance())
            heard += trades if table.phase is Phase.PRESALE else []
            if table.timer_ms == 10_000:
                assert read_leaderboard(states[-1]["leaderboard"], 1.0) == LeaderboardFigures()
        assert trades_of(feed.presale()) == heard
        while table.phase is Phase.ACTIVE:
            payload = feed.at(table.tick, table.price, own_of(table))
            assert read_leaderboard(states[-1]["leaderboard"], table.price) == payload.figures
            assert trades_of(payload) == trades
            ranks.update(entry["position"] for entry in states[-1]["leaderboard"] if entry["id"] == "ann")
            play_orders(table, table.tick)
            states, trades = told_by(table.advance())
        payload = feed.rug(table.tick, table.price, own_of(table))
        assert read_leaderboard(states[-1]["leaderboard"], table.price) == payload.figures
        assert trades_of(payload) == trades
        table.advance()
        table.advance()
    assert ranks


def test_the_ranking_is_that_of_the_messages_through_a_long_round() -> None:
    rng = random.Random(2)
    feed, gathering = CrowdFeed(7, 3), TableCrowd(crowd(7, 3), Fraction(5))
    feed.presale()
    gathering.presale(1.0)
    price, figures = 1.0, set()
    for tick in range(STRETCH + 60):
        for position in gathering.positions:
            position.ledger.pass_tick(tick)
        best = ranked(gathering.standings(price))[:LEADERS]
        payload = feed.at(tick, price)
        assert payload.figures == figures_of([at.qty for at in best], price)
        figures.add(payload.figures)
        if tick == STRETCH:
            gathering.add(crowd(7, 3, 1))
        assert len(payload.trades) == sum(1 for _, act in gathering.trade(tick, price) if hasattr(act, "side"))
        price = max(0.01, price * rng.uniform(0.93, 1.07))
    assert len(figures) > 100


def test_the_crowd_does_not_know_later_prices() -> None:
    prices = counter_round(get_world("published"), 5, 6).prices[:60]
    assert len(prices) == 60
    one, other = CrowdFeed(5, 6), CrowdFeed(5, 6)
    assert one.presale() == other.presale()
    for tick, price in enumerate(prices):
        payload = one.at(tick, price), other.at(tick, price if tick < 30 else 2.0 * price)
        assert (payload[0] == payload[1]) == (tick < 30)


def test_ticks_of_the_crowd_come_one_after_the_other() -> None:
    feed = CrowdFeed(1, 1)
    with pytest.raises(InputError, match="expected tick -1"):
        feed.at(0, 1.0)
    feed.presale()
    with pytest.raises(InputError, match="expected tick 0"):
        feed.at(1, 1.0)


def test_practice_tokens_are_no_capital() -> None:
    entries: list[dict[str, Any]] = [
        {"positionQty": 0.5, "selectedCoin": None},
        {"positionQty": 0, "selectedCoin": None},
        {"positionQty": 900.0, "selectedCoin": {"address": "0xPractice", "ticker": "FREE"}},
    ]
    assert read_leaderboard(entries, 1.5) == LeaderboardFigures(2, 1, 750_000_000)


def test_fill_values_of_the_crowd_are_the_recorded_means(shared_data: Path) -> None:
    results = []
    with gzip_open(shared_data / "crash" / "socket-capture-public.jsonl.gz", "rt", encoding="utf-8") as lines:
        for event in map(json.loads, lines):
            state = event["data"] if event["event"] == STATE else {}
            if state.get("active") and not state["rugged"]:
                figures = read_leaderboard(state["leaderboard"], state["price"])
                results.append((figures.players_in_game, figures.players_with_positions, figures.total_capital / UNIT))
    assert len(results) == 241
    means = np.mean(results, axis=0)
    for name, mean in zip(features.names(features.CROWD)[:3], means, strict=True):
        assert ENTRIES[name].fill == pytest.approx(mean, rel=2e-3), name
