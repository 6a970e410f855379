"""The crash game as a Game: its contract, its decoder on real and bad frames, its parity with table and environment."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playproof.errors import DecodeError
from playproof.events import Event
from playproof.game import Fact, Frame, Game, Outcome, Terms, Window, check_game, load_game
from playproof.game.checks.case import JUNK, misfits
from playproof.game.play import PlayerConfig, PlayerView, play, spans
from playproof.games.crash.features import encoder, table
from playproof.games.crash.features.encoder import decides
from playproof.games.crash.features.state import id_hash
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.decode import CrashDecoder
from playproof.games.crash.recording.player_ledger import CrashLedger
from playproof.games.crash.recording.sample import PLAYER_ID, SCRIPT, SEED, SampleRecorder, record, sample
from playproof.games.crash.recording.sample_facts import FILE, pack, sample_facts
from playproof.games.crash.rules import prices as fair
from playproof.games.crash.rules.actions import (
    ACTIONS,
    ADJUSTMENTS,
    BETS,
    MAX_BET,
    PERCENTAGES,
    SIZES,
    adjusted,
    recorded_buttons,
    recorded_buttons_share,
    recorded_trader,
)
from playproof.games.crash.rules.outcomes import read_outcome, rug_within_40
from playproof.games.crash.rules.windows import Phase, parse_window
from playproof.games.crash.server.protocol import event_frame
from playproof.games.crash.server.table import FillEntry, OrderEntry
from playproof.games.crash.sim import kernel
from playproof.games.crash.sim.env import CrashEnv
from playproof.games.crash.sim.lanes import make_tape
from playproof.money import UNIT, to_units
from playproof.policies import Constant

NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)
ONE, TWO, THREE = ("20250115-000000000000000a", "20250115-000000000000000b", "20250115-000000000000000c")
CONTEXT = (
    *("connected_players", "rugpool_amount", "rugpool_threshold", "instarug_count", "rugpool_ratio"),
    *("average_multiplier", "count_2x", "count_10x", "count_50x", "count_100x", "highest_today"),
)
"""Features that the site shows of itself; the environment's site is another one than the table's."""
PLAYED = [index for index, name in enumerate(table.POLICY) if name not in CONTEXT]


@cache
def crash() -> Game:
    return load_game("crash")


def to_events(frames: Sequence[Frame]) -> tuple[Event, ...]:
    payload = zip(frames, crash().decode(frames), strict=True)
    facts = [(frame, fact) for frame, of in payload for fact in of]
    return tuple(
        fact.event(frame.ts, "test", seq, direction=frame.direction) for seq, (frame, fact) in enumerate(facts)
    )


@cache
def sample_frames() -> tuple[Frame, ...]:
    return sample()


@cache
def sample_events() -> tuple[Event, ...]:
    return to_events(sample_frames())


def prices_of(events: Sequence[Event]) -> dict[str, list[float]]:
    """Give each round's prices by tick."""
    result: dict[str, list[float]] = {}
    for event in events:
        if event.event_name == c.TICK and event.columns["game_phase"] >= Phase.ACTIVE:
            result.setdefault(str(event.window_id), []).append(event.columns["price"])
    return result


def received(event: str, *arguments: Any) -> Frame:
    return Frame(NOW, event_frame(event, arguments))


def state(game_id: str, **fields: Any) -> Frame:
    return received("gameStateUpdate", {"gameId": game_id, **fields})


def tick(game_id: str, number: int, price: float, **fields: Any) -> Frame:
    payload = {"active": True, "rugged": False, "cooldownTimer": 0, "allowPreRoundBuys": False, **fields}
    return state(game_id, tickCount=number, price=price, **payload)


def read(frames: Sequence[Frame]) -> list[tuple[str, str | None, dict[str, Any]]]:
    decode = CrashDecoder()
    return [(fact.event_name, fact.window_id, dict(fact.columns)) for frame in frames for fact in decode(frame)]


def places(facts: Sequence[tuple[str, str | None, dict[str, Any]]]) -> list[tuple[str, str | None, int, int, float]]:
    return [
        (name, item, payload["game_phase"], payload["tick"], payload["price"])
        for name, item, payload in facts
        if "tick" in payload
    ]


# the record


def test_contract() -> None:
    check_game(crash())


def test_loading_is_light() -> None:
    script = (
        "import sys; from playproof.game import load_game; load_game('crash');"
        "print([name for name in ('numba', 'gymnasium', 'torch', 'orjson') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_fact_has_a_kind_and_every_column_is_used_by_one() -> None:
    seen = {name for event in sample_events() for name in event.columns}
    unseen = {column.name for column in c.COLUMNS} - seen
    # a table that is heard from beginning to end has no gaps, and no round that was joined late
    assert unseen == {"missing_from", "missing_to", "from_history"}
    own = {event.event_name for event in sample_events() if event.player_id is not None}
    assert own == {name for name, kind in c.KINDS.items() if kind.own} - {c.SEAT}


def test_windows() -> None:
    assert parse_window("20251215-ece018bd34bb4acc") == Window("20251215-ece018bd34bb4acc")
    day = "\u0662\u0660\u0662\u0665\u0661\u0662\u0661\u0665"  # digits, but not ours
    for text in ("20251315-" + "a" * 16, "20251215-" + "A" * 16, "20251215-" + "a" * 15, f"{day}-" + "a" * 16):
        with pytest.raises(DecodeError):
            parse_window(text)


# real frames


def capture(shared_data: Path, name: str) -> list[Frame]:
    """Give a capture as the socket's own frames."""
    path = shared_data / "crash" / f"socket-capture-{name}.jsonl.gz"
    frames = []
    for line in gzip.decompress(path.read_bytes()).splitlines():
        payload = json.loads(line)
        arguments = payload["data"] if isinstance(payload["data"], list) else [payload["data"]]
        ts = datetime.fromisoformat(payload["ts"]).replace(tzinfo=UTC)
        text = "42" + orjson.dumps([payload["event"], *arguments]).decode()
        frames.append(Frame(ts, text, payload.get("direction", "received")))
    return frames


def test_public_capture(shared_data: Path) -> None:
    frames = capture(shared_data, "public")
    events = to_events(frames)
    counts = {c.TICK: 247, c.COUNTDOWN: 259, c.TRADE: 31, c.COMPLETE: 12, c.ROUND: 3, c.RUG_REPEAT: 2}
    assert Counter(event.event_name for event in events) == counts
    windows = spans(events)
    assert len(windows) == 3
    first, second, _ = windows
    assert [event.columns["tick"] for event in windows[first] if event.event_name == c.TICK] == list(range(4, 230))
    assert [event.columns["tick"] for event in windows[second] if event.event_name == c.TICK] == [0, 0, *range(17)]
    revealed = {event.window_id: event.columns for event in events if event.event_name == c.COMPLETE}
    assert (revealed[first]["rug_tick"], revealed[second]["rug_tick"]) == (229, 16)
    assert all(revealed[window]["rug_seen"] for window in (first, second))


def test_public_capture_keeps_the_trades_payloads(shared_data: Path) -> None:
    frames = capture(shared_data, "public")
    payloads = [json.loads(str(frame.payload)[2:])[2] for frame in frames if '"standard/newTrade"' in frame.payload]  # type: ignore[operator]
    trades = [event for event in to_events(frames) if event.event_name == c.TRADE]
    assert len(trades) == len(payloads) == 31
    for event, payload in zip(trades, payloads, strict=True):
        data = event.columns
        assert (event.window_id, data["trade_type"], data["tick"]) == (
            payload["gameId"],
            payload["type"],
            payload["tickIndex"],
        )
        assert Decimal(data["trade_amount"]).scaleb(-9) == Decimal(str(payload["amount"]))
        assert Decimal(data["trade_qty"]).scaleb(-9) == Decimal(str(payload["qty"]))
        assert (data["trade_price"], data["trader"], data["coin"]) == (payload["price"], payload["playerId"], "solana")
        assert data.get("leverage") == payload.get("leverage")


def test_public_capture_gives_the_outcome_of_the_one_whole_round(shared_data: Path) -> None:
    windows = spans(to_events(capture(shared_data, "public")))
    first, second, third = (read_outcome(events) for events in windows.values())
    assert (first, third) == (None, None)  # joined on tick 4; still in its presale
    assert second is not None
    payload: Any = second.values
    replayed = fair.play_round(payload["server_seed"], second.window_id, payload["game_version"])
    assert (payload["rug_tick"], payload["server_seed_hash"]) == (16, fair.server_seed_hash(payload["server_seed"]))
    assert payload["rug_tick"] == replayed.rug_tick
    assert payload["peak"] == pytest.approx(replayed.peak, abs=1e-9)
    [recorded] = [prices for window, prices in prices_of(windows[second.window_id]).items()]
    assert recorded == pytest.approx(replayed.prices, abs=1e-9)


def test_logged_in_capture(shared_data: Path) -> None:
    events = to_events(capture(shared_data, "cdp"))
    counts = Counter(event.event_name for event in events)
    # three playerUpdates, two of them the same in the same presale; of 14 trades the recorder kept the trace alone
    assert (counts[c.PLAYER], counts[c.TRADE], counts[c.TICK], counts[c.GAP]) == (2, 0, 102, 0)
    assert {event.player_id for event in events} == {None, "did:privy:f2be6b9874ad409fa393a606"}
    money = [event for event in events if event.event_name == c.PLAYER]
    assert [item.columns["game_phase"] for item in money] == [1, 2]
    assert {item.columns["cash"] for item in money} == {17_619_831}
    assert all(event.window_id == "20251215-0229cacf684f458c" for event in money)
    [pool, _] = [event.columns for event in events if event.event_name == c.RUGPOOL]
    assert pool["rugpool_amount"] == 7.440795633500021  # no player's money: more than nine decimals
    [outcome] = [item for item in map(read_outcome, spans(events).values()) if item is not None]
    assert (outcome.values["rug_tick"], outcome.values["rug_price"]) == (99, 0.020000000000000018)


# rounds


def test_minimal_messages_carry_the_round_and_a_new_one_resets() -> None:
    facts = read(
        [
            tick(ONE, 5, 2.5, connectedPlayers=200, averageMultiplier=4.5),
            tick(ONE, 6, 0.05, rugged=True),
            state(TWO, cooldownTimer=14900, allowPreRoundBuys=False, connectedPlayers=201),
            state(TWO, cooldownTimer=14800),
        ]
    )
    assert places(facts) == [
        (c.TICK, ONE, 2, 5, 2.5),
        (c.TICK, ONE, 3, 6, 0.05),
        (c.TICK, TWO, 0, 0, 1.0),
        (c.COUNTDOWN, TWO, 0, 0, 1.0),
    ]
    carried = [payload for name, _, payload in facts if name != c.ROUND]
    assert [payload.get("connected_players") for payload in carried] == [200, 200, 201, 201]
    assert [payload.get("average_multiplier") for payload in carried] == [4.5, 4.5, None, None]
    assert [payload["cooldown_timer_ms"] for payload in carried] == [0, 0, 14900, 14800]


@pytest.mark.parametrize(
    ("fields", "phase"),
    [
        ({"rugged": True, "active": True, "allowPreRoundBuys": True, "cooldownTimer": 5}, Phase.RUGGED),
        ({"rugged": False, "active": True, "allowPreRoundBuys": True, "cooldownTimer": 5}, Phase.ACTIVE),
        ({"allowPreRoundBuys": True, "cooldownTimer": 9000}, Phase.PRESALE),
        ({"allowPreRoundBuys": False, "cooldownTimer": 9000}, Phase.COOLDOWN),
    ],
)
def test_phases_are_decided_in_order(fields: dict[str, Any], phase: Phase) -> None:
    [_, (_, _, payload)] = read([state(ONE, tickCount=0, price=1, **fields)])
    assert payload["game_phase"] == phase


def test_a_round_without_a_phase_is_no_tick() -> None:
    assert [name for name, _, _ in read([state(ONE, cooldownTimer=0)])] == [c.ROUND]


def test_duplicates_tell_nothing_and_a_changed_price_is_flagged() -> None:
    frames = [tick(ONE, 0, 1), tick(ONE, 1, 1.1)]
    assert places(read([*frames, *frames])) == places(read(frames))
    assert places(read([*frames, tick(ONE, 1, 1.2), tick(ONE, 2, 1.3)]))[2:] == [
        (c.CONFLICT, ONE, 2, 1, 1.2),
        (c.TICK, ONE, 2, 2, 1.3),
    ]


def test_every_frame_heard_twice_tells_the_same() -> None:
    frames = [frame for frame in sample_frames() if frame.direction == "received"]
    assert read([frame for frame in frames for _ in range(2)]) == read(frames)


def test_equal_trades_are_both_kept() -> None:
    trade = {"gameId": ONE, "type": "buy", "amount": 1, "qty": 1, "price": 1, "tickIndex": 0, "playerId": "a"}
    ids = ("x", "y", "x", None, None)
    frames = [received("standard/newTrade", {"__trace": True}, {**trade, "id": item}) for item in ids]
    assert len(read([tick(ONE, 0, 1), *frames])) == 2 + 4


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_reordered_frames_lose_no_tick_and_end_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames = [frame for frame in sample_frames() if '"gameStateUpdate"' in str(frame.payload)]
    order = np.argsort(np.arange(len(frames)) + rng.uniform(0, 4, len(frames)))
    clean, mixed = spans(to_events(frames)), spans(to_events([frames[index] for index in order]))
    assert set(mixed) == set(clean)
    for window, events in mixed.items():
        assert read_outcome(events) == read_outcome(clean[window])
        data = [(event.columns["game_phase"], event.columns["tick"]) for event in events if event.event_name == c.TICK]
        assert data == sorted(set(data))


def test_the_second_rug_broadcast_is_no_tick() -> None:
    rugged = {"rugged": True, "active": True}
    facts = read([tick(ONE, 15, 1.2), tick(ONE, 16, 0.02, **rugged), tick(ONE, 18, 0.02, **rugged)])
    assert places(facts)[1:] == [(c.TICK, ONE, 3, 16, 0.02), (c.RUG_REPEAT, ONE, 3, 18, 0.02)]


def test_late_messages_do_not_disturb_the_next_round() -> None:
    clean = [
        tick(ONE, 15, 1.2),
        state(TWO, cooldownTimer=14900),
        state(TWO, cooldownTimer=14800),
        tick(TWO, 0, 1),
        tick(TWO, 1, 1.02),
    ]
    late = [tick(ONE, 16, 1.3), tick(ONE, 17, 0.02, rugged=True), tick(ONE, 19, 0.02, rugged=True)]
    disturbed = [*clean[:2], late[0], clean[2], late[1], clean[3], late[2], clean[4]]
    facts = read(disturbed)
    undisturbed = [fact for fact in places(read(clean)) if fact[1] == TWO]
    assert [fact for fact in places(facts) if fact[1] == TWO] == undisturbed
    assert [fact for fact in places(facts) if fact[1] == ONE][1:] == [
        (c.LATE_TICK, ONE, 2, 16, 1.3),
        (c.LATE_TICK, ONE, 3, 17, 0.02),
        (c.RUG_REPEAT, ONE, 3, 19, 0.02),
    ]


def test_lost_ticks_are_a_gap_and_overtaken_ones_are_late() -> None:
    presale = state(ONE, cooldownTimer=100, allowPreRoundBuys=True)
    facts = read([presale, tick(ONE, 2, 1.1), tick(ONE, 5, 1.2), tick(ONE, 3, 1.15)])
    assert [(payload["missing_from"], payload["missing_to"]) for name, _, payload in facts if name == c.GAP] == [
        (0, 1),
        (3, 4),
    ]
    assert places(facts)[-1] == (c.LATE_TICK, ONE, 2, 3, 1.15)


def test_playing_with_practice_tokens_is_not_counted() -> None:
    board = [
        {"positionQty": 0.5, "selectedCoin": None},
        {"positionQty": 100, "selectedCoin": {"address": "0xPractice"}},
        {"positionQty": 0, "selectedCoin": None},
    ]
    [_, (_, _, payload)] = read([tick(ONE, 3, 1.5, leaderboard=board)])
    assert [payload[name] for name in ("players_in_game", "players_with_positions", "total_market_capital")] == [
        2,
        1,
        750_000_000,
    ]


def test_a_trade_of_a_round_that_is_not_held_opens_no_window() -> None:
    trade = {"gameId": TWO, "type": "buy", "amount": 1, "qty": 1, "price": 1, "tickIndex": 0}
    facts = read([tick(ONE, 0, 1), received("standard/newTrade", {"__trace": True}, trade)])
    assert [(name, window, payload.get("game_id")) for name, window, payload in facts][-1] == (c.TRADE, None, TWO)


def test_an_unreadable_price_is_not_carried_over() -> None:
    frames = [tick(ONE, 0, 1), tick(ONE, 1, 1.1), state(ONE, active=True, tickCount=2, price=None), tick(ONE, 3, 1.2)]
    assert [(name, payload.get("tick")) for name, _, payload in read(frames)][2:] == [
        (c.TICK, 1),
        (c.GAP, None),
        (c.TICK, 3),
    ]


# bad frames

POOL = [
    *("null", "true", "-1", "-0.0", "1e999", "NaN", "9" * 40, "1e-400", '"../x"', '"\\u0000"', '"\\ud800"', "[]", "{}"),
    *('"7"', "0.1234567891", "18446744073709551616", "-9223372036854775809", "[[[[]]]]", '{"__trace":true}', "1e308"),
]


def mutated(rng: np.random.Generator, frames: Sequence[Frame]) -> Iterator[Frame]:
    """Give frames with bytes flipped, cut, doubled, and values exchanged for bad ones."""
    texts = [str(frame.payload) for frame in frames]
    while True:
        text = texts[rng.integers(len(texts))]
        kind, at = rng.integers(6), int(rng.integers(len(text)))
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + chr(int(rng.integers(32, 0x500))) + text[at + 1 :]
        elif kind == 2:
            text = text[:at] + text[at:] * 2
        else:
            marks = [index for index, sign in enumerate(text) if sign in ":,["]
            if marks:
                start = marks[rng.integers(len(marks))] + 1
                end = next((index for index in range(start, len(text)) if text[index] in ",}]"), len(text))
                text = text[:start] + POOL[rng.integers(len(POOL))] + text[end:]
        payload = text.encode("utf-8", "surrogatepass") if kind == 5 else text
        yield Frame(NOW, payload, ("received", "sent", "none")[rng.integers(3)])


def short_frames() -> list[Frame]:
    """Give the sample's frames without those that hold the history, which are long."""
    return [frame for frame in sample_frames() if len(frame.payload) < 6000]


def test_twenty_thousand_bad_frames() -> None:
    decode, frames = CrashDecoder(), mutated(np.random.default_rng(1), short_frames())
    wrong = []
    for _ in range(20_000):
        frame = next(frames)
        wrong += [(what, frame.payload[:200]) for fact in decode(frame) for what in misfits(crash(), fact)]
    assert wrong == []
    assert len(decode.rounds.kept) <= 32
    assert all(len(kept.prices) <= 20_000 for kept in decode.rounds.kept.values())


json_values = st.recursive(
    st.sampled_from([None, True, False, ONE, "buy", "placed"]) | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
events_of_the_feed = st.sampled_from(
    [
        *("gameStateUpdate", "standard/newTrade", "playerUpdate", "gameStatePlayerUpdate", "currentSidebet"),
        *("currentSidebetResult", "usernameStatus", "playproof/session", "buyOrder", "sellOrder", "requestSidebet"),
    ]
)
fields = st.sampled_from(
    [
        *("gameId", "active", "rugged", "tickCount", "price", "cooldownTimer", "leaderboard", "rugpool", "gameHistory"),
        *("id", "cash", "positionQty", "avgCost", "cumulativePnL", "sideBet", "type", "amount", "qty", "playerId"),
        *("betAmount", "startTick", "endTick", "timestamp", "percentage", "success", "provablyFair", "prices"),
    ]
)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            events_of_the_feed,
            st.dictionaries(fields, json_values, max_size=8),
            st.sampled_from(["received", "sent", "none"]),
        ),
        max_size=8,
    )
)
def test_any_payload_is_taken(frames: list[tuple[str, dict[str, Any], Any]]) -> None:
    decode = CrashDecoder()
    for event, payload, direction in frames:
        data = {"gameId": ONE, "active": True, "tickCount": 1, "price": 1} | payload
        text = f"42{json.dumps([event, data])}"
        for fact in decode(Frame(NOW, text, direction)):
            assert list(misfits(crash(), fact)) == []


@given(st.binary(max_size=200) | st.text(max_size=200) | st.sampled_from(JUNK))
def test_any_bytes_are_taken(payload: bytes | str) -> None:
    for direction in ("received", "sent", "none"):
        assert CrashDecoder()(Frame(NOW, payload, direction)) == ()  # type: ignore[arg-type]


def test_a_server_cannot_press_buttons() -> None:
    press = '{"button_id":"BUY"}'
    assert CrashDecoder()(Frame(NOW, press, "received")) == CrashDecoder()(Frame(NOW, press, "sent")) == ()
    [fact] = CrashDecoder()(Frame(NOW, press, "none"))
    assert (fact.event_name, fact.doc_type, fact.player_id) == (c.PRESS, "button_event", "player")


# a served session


def random_script(seed: int, rounds: int) -> dict[Any, list[str]]:
    """Let any buttons be pressed, at most one action a tick, as the last of it."""
    rng = np.random.default_rng(seed)
    script: dict[Any, list[str]] = {}
    for number in range(rounds):
        for at in [(Phase.PRESALE, 0), *((Phase.ACTIVE, tick) for tick in range(400))]:
            buttons = list(rng.choice([*ADJUSTMENTS, *PERCENTAGES], rng.integers(3)))
            buttons = ["CLEAR", *rng.choice(["INC_001", "INC_01"], 1)] if rng.random() < 0.5 else buttons
            buttons += list(rng.choice(["BUY", "SELL", "SIDEBET"], 1)) if rng.random() < 0.4 else []
            script[number, *at] = [str(button) for button in buttons]
    return script


@cache
def served(seed: int, world: str = "published") -> tuple[SampleRecorder, tuple[Event, ...]]:
    recording = record(seed, random_script(seed, 2), 2, world=world, crowded=False)
    return recording, to_events(recording.frames)


SERVED = [(SEED, "published"), (3, "drift"), (11, "fair")]


@pytest.mark.parametrize(("seed", "world"), SERVED)
def test_a_served_session_gives_the_tables_own_ticks(seed: int, world: str) -> None:
    recording, events = served(seed, world)
    last = recording.table.round
    result = prices_of(events)
    assert len(result) == 2
    assert result[recording.table.game_id] == list(last.prices)
    ticks = [span.columns for span in spans(events)[recording.table.game_id] if span.event_name == c.TICK]
    timers = [payload["cooldown_timer_ms"] for payload in ticks if payload["game_phase"] >= Phase.ACTIVE]
    assert timers == [250 * left for left in last.countdown]
    assert not {c.GAP, c.CONFLICT, c.LATE_TICK} & {event.event_name for event in events}


@pytest.mark.parametrize(("seed", "world"), SERVED)
def test_a_served_session_gives_the_tables_own_orders_fills_and_balances(seed: int, world: str) -> None:
    recording, events = served(seed, world)
    orders = [entry for entry in recording.log if isinstance(entry, OrderEntry)]
    fills = [entry for entry in recording.log if isinstance(entry, FillEntry)]
    kinds = {"buyOrder": "BUY", "sellOrder": "SELL", "requestSidebet": "SIDEBET"}
    sent = [event for event in events if event.event_name == c.ORDER]
    answered = [event for event in events if event.event_name == c.ACK]
    assert [
        (item.window_id, item.columns["order_kind"], item.columns["game_phase"], item.columns["tick"]) for item in sent
    ] == [(entry.game_id, kinds[entry.kind], entry.phase, entry.tick) for entry in orders]
    assert [(item.columns["success"], item.columns.get("reason", "")) for item in answered] == [
        (entry.success, entry.reason) for entry in orders
    ]
    names = {"buy": "buy", "sell": "sell", "rug_sale": "sell"}
    traded = [entry for entry in fills if entry.kind in names]
    assert len(traded) > 10
    assert [
        (event.window_id, event.columns["trade_type"], event.columns["forced"], event.columns["tick"],
         event.columns["trade_price"], event.columns["trade_qty"], event.columns["trade_amount"])
        for event in events
        if event.event_name == c.FILL
    ] == [
        (item.game_id, names[item.kind], item.kind == "rug_sale", item.tick, item.price, item.qty, item.amount)
        for item in traded
    ]  # fmt: skip
    balances = [event.columns["cash"] for event in events if event.event_name == c.PLAYER]
    changes = [cash for position, cash in enumerate(balances) if position == 0 or cash != balances[position - 1]]
    indices: list[int] = [UNIT]
    for index, entry in enumerate(fills):
        settling = index + 1 < len(fills) and entry.kind == "rug_sale" and fills[index + 1].kind == "bet_won"
        if entry.cash != indices[-1] and not settling:
            indices.append(entry.cash)
    assert changes == indices


def test_executions_are_joined_to_their_presses() -> None:
    acks = [event.columns for event in sample_events() if event.event_name == c.ACK]
    presses = {
        sample_event.columns["sequence_id"]: sample_event.columns
        for sample_event in sample_events()
        if sample_event.event_name == c.PRESS
    }
    assert [ack["success"] for ack in acks].count(False) == 1
    for ack in acks:
        press = presses[ack["sequence_id"]]
        assert press["button_id"] == ack["order_kind"]
        assert (ack["latency_ms"], ack["client_timestamp"]) == (20.0, press["client_timestamp"])
        if ack["success"]:
            assert (ack["execution_tick"], ack["execution_price"]) == (press["tick"], press["price"])
            assert ack["trade_id"]


def test_presses_become_button_events() -> None:
    presses = [event.columns for event in sample_events() if event.event_name == c.PRESS]
    script = [button for buttons in SCRIPT.values() for button in buttons]
    assert [press["button_id"] for press in presses] == script
    fourth = [
        (press["button_id"], press["bet_amount"], press["sequence_id"], press["sequence_position"])
        for press in presses[5:8]
    ]
    assert fourth == [("DOUBLE", 22_000_000, 3, 0), ("INC_001", 23_000_000, 3, 1), ("BUY", 23_000_000, 3, 2)]
    assert [press["sell_share"] for press in presses if press["button_id"] == "SELL"] == [50, 50, 100, 100, 25]
    assert [press["ticks_since_last_action"] for press in presses[:5]] == [0, 0, 1, 3, 3]
    assert [press["time_in_position"] for press in presses[:9]] == [0, 0, 1, 4, 4, 6, 6, 6, 9]


def test_a_sequence_ends_after_five_seconds_and_with_the_round() -> None:
    decode = CrashDecoder()
    press = '{"button_id":"INC_001"}'
    moments = (0.0, 5.0, 10.1)
    sequence_ids = [decode(Frame(NOW + timedelta(seconds=s), press, "none"))[0].columns["sequence_id"] for s in moments]
    decode(tick(ONE, 0, 1))
    sequence_ids.append(decode(Frame(NOW + timedelta(seconds=11), press, "none"))[0].columns["sequence_id"])
    assert sequence_ids == [0, 0, 1, 2]


def test_a_new_round_resets_share_position_and_last_action() -> None:
    decode = CrashDecoder()
    press = '{"button_id":"INC_001"}'
    for frame in (
        tick(ONE, 5, 1.5),
        received("playerUpdate", {"cash": 0.9, "positionQty": 0.1}),
        Frame(NOW, '{"button_id":"SELL_10"}', "none"),
        Frame(NOW, '{"button_id":"SIDEBET"}', "none"),
        tick(ONE, 8, 1.6),
    ):
        decode(frame)
    columns = ("sell_share", "position_qty", "time_in_position", "ticks_since_last_action")
    [before] = decode(Frame(NOW, press, "none"))
    assert [before.columns[name] for name in columns] == [10, 100_000_000, 3, 3]
    decode(tick(TWO, 12, 1.1))
    [after] = decode(Frame(NOW, press, "none"))
    assert [after.columns[name] for name in columns] == [100, 0, 0, 12]


def test_an_order_of_its_own_is_a_choice_and_one_after_a_press_is_not() -> None:
    order = Frame(NOW, '421["sellOrder",{"percentage":25}]', "sent")
    [alone] = CrashDecoder()(order)
    event = alone.event(NOW, "test", 0)
    assert (recorded_buttons(event), recorded_buttons_share(event)) == ((2, 0), (2, 0, 2))
    assert recorded_trader(event) == (6, 0, 2)
    decode = CrashDecoder()
    decode(Frame(NOW, '{"button_id":"SELL"}', "none"))
    [after] = decode(order)
    assert all(kind.recorded(after.event(NOW, "test", 0)) is None for kind in ACTIONS.values())


# actions


def test_action_sets_are_the_kernels() -> None:
    sizes = [tuple(len(head) for head in kind.heads) for kind in ACTIONS.values()]
    assert sizes == [tuple(int(size) for size in heads if size) for heads in kernel.HEADS]
    assert tuple(kernel.SIZES) == SIZES
    assert (ACTIONS["trader"].heads[1][3], ACTIONS["trader"].heads[2][10]) == ("0.01", "100 %")


@given(st.integers(0, MAX_BET), st.integers(0, 10**13), st.sampled_from(range(9)))
def test_bet_field_is_the_kernels(bet: int, cash: int, button: int) -> None:
    assert adjusted(bet, cash, BETS[button]) == kernel.adjusted_bet(bet, cash, button)


def test_recorded_choices() -> None:
    chosen = [item for item in map(recorded_buttons_share, sample_events()) if item is not None]
    assert chosen == [
        *((0, 3, 0), (1, 0, 0), (3, 0, 0), (0, 0, 3), (2, 0, 0), (0, 7, 0), (0, 2, 0), (1, 0, 0), (2, 0, 0)),
        *((0, 0, 4), (2, 0, 0), (2, 0, 0), (0, 8, 0), (0, 6, 0), (0, 1, 0), (0, 4, 0), (1, 0, 0)),
        *((0, 6, 0), (3, 0, 0), (1, 0, 0), (1, 0, 0), (0, 0, 2), (2, 0, 0)),
    ]
    traded = [item for item in map(recorded_trader, sample_events()) if item is not None]
    assert traded[:4] == [(1, 3, 0), (3, 3, 0), (6, 0, 5), (1, 4, 0)]  # 0.011, 0.011, half, 0.023


# parity with the environment


def test_observations_are_the_environments_bit_for_bit() -> None:
    """Play the decoded sample's prices and presses in the environment, and compare before every choice."""
    prices = prices_of(sample_events())
    tape = make_tape(list(prices.values()), game_ids=list(prices))
    env = CrashEnv(tape=tape, rounds=2, clock="press", actions="buttons-share")
    view, compared, acted = PlayerView(crash(), "policy"), 0, True  # the environment starts in the presale
    seen, _ = env.reset(seed=0)

    def compare(where: Event) -> None:
        nonlocal compared
        row = np.asarray(view.look()[0])
        unlike = [table.POLICY[index] for index in PLAYED if row[index].tobytes() != seen[index].tobytes()]
        assert unlike == [], where.columns
        compared += 1

    for event in sample_events():
        begins = event.event_name == c.ROUND  # the environment goes from the rug to the next presale at once
        goes_on = begins or (event.event_name == c.TICK and event.columns["game_phase"] > Phase.COOLDOWN)
        choice = recorded_buttons_share(event)
        if choice is not None or (goes_on and not acted):
            compare(event)
            seen = env.step(choice or (0, 0, 0))[0]
            acted = begins or (choice is not None and choice[0] != 0)
        elif goes_on:
            acted = begins
        view.apply(event)
    compare(sample_events()[-1])
    assert compared > 80


def crash_env(window: str, **options: Any) -> CrashEnv:
    prices = prices_of(sample_events())[window]
    return CrashEnv(tape=make_tape([prices], game_ids=[window]), **options)


class Scripted:
    """Choose at random, the same for the same seed, and remember what was seen."""

    def __init__(self, seed: int, actions: str) -> None:
        self.rng, self.heads = np.random.default_rng(seed), ACTIONS[actions].heads

    def act(self, observation: Any) -> tuple[int, ...]:
        return tuple(int(self.rng.integers(len(head))) for head in self.heads)


def is_idle(actions: str, action: tuple[int, ...]) -> bool:
    """Tell whether nothing is pressed; in the set `trader` size and share alone press nothing."""
    return action[0] == 0 and (actions == "trader" or not any(action))


@pytest.mark.parametrize("actions", list(ACTIONS))
@pytest.mark.parametrize("world", ["published", "fair", "drift"])
@pytest.mark.parametrize("stake", [None, UNIT // 10])
def test_play_is_the_environments(actions: str, world: str, stake: int | None) -> None:
    game = crash()
    seat = PlayerConfig("policy", Terms(actions, world=world, stake=stake))
    for seed in range(8):
        for episode in play(game, lambda _, seed=seed: Scripted(seed, actions), sample_events(), seat):
            env = crash_env(episode.window_id, world=world, actions=actions, stake=stake)
            seen, info = env.reset(seed=0)
            assert episode.outcome is not None
            parts = game.rewards().presets["minimal"].compute(episode.steps, episode.outcome)
            for number, step in enumerate(episode.steps):
                row = np.asarray(episode.observations[number])
                assert [table.POLICY[item] for item in PLAYED if row[item].tobytes() != seen[item].tobytes()] == []
                seen, reward, terminated, _, info = env.step(step.action)
                assert (step.after.cash, step.after.equity) == (info["cash"], info["equity"])
                assert step.after.facts["sidebet_stake"] == info["sidebet_stake"]
                adjusted_field = bool(info["flags"] & kernel.F_ADJUSTED)
                assert step.effect == (adjusted_field or not (info["no_effect"] or is_idle(actions, step.action)))
                assert reward == parts["financial"][number] + parts["bankruptcy"][number]
                if terminated:
                    break
            assert terminated


def test_episodes_of_the_recording_hold_the_tables_money() -> None:
    from playproof.datasets.segment import segment

    for seed, world in SERVED[:1]:
        recording, events = served(seed, world)
        made = segment(crash(), events, "policy", "buttons-share")
        assert len(made.episodes) == 2
        assert made.episodes[-1].steps[-1].after.cash == recording.table.players[PLAYER_ID].ledger.cash


# what is known


@pytest.mark.parametrize("name", encoder.SETS)
def test_a_batch_is_the_stream(name: str) -> None:
    events = sample_events()
    view = PlayerView(crash(), name)
    looks = [number for number, event in enumerate(events) if decides(event)]
    rows, masks = [], []
    for event in events:
        view.apply(event)
        if decides(event):
            row, mask = view.look()
            rows.append(row)
            masks.append(mask)
    state, width = encoder.ObservationState(), len(table.OBSERVATIONS[name].features)
    out, missing = np.zeros((len(looks), width), np.float32), np.zeros((len(looks), width), np.bool_)
    packed = np.concatenate([encoder.encode(event) for event in events])
    records = (state.states, state.histories, state.books, state.lots)
    encoder.follow(*records, packed, np.array(looks), encoder.SETS.index(name), out, missing)
    assert out.tobytes() == np.stack(rows).tobytes()
    assert (missing == np.stack(masks)).all()


def watch(events: Sequence[Event], name: str) -> Iterator[tuple[Event, dict[str, float], set[str]]]:
    """Give after each event the features by name, and which of them are missing."""
    view, names = PlayerView(crash(), name), table.OBSERVATIONS[name].features
    for event in events:
        view.apply(event)
        row, mask = view.look()
        missing = {item for item, unknown in zip(names, np.asarray(mask), strict=True) if unknown}
        yield event, dict(zip(names, np.asarray(row).tolist(), strict=True)), missing


def test_one_who_joins_knows_the_last_rounds_from_the_feeds_list() -> None:
    revealed = [event.columns for event in sample_events() if event.event_name == c.COMPLETE]
    [first, *_] = [item for item in watch(sample_events(), "trader") if item[0].event_name == c.TICK]
    for back in range(1, 6):
        payload = revealed[10 - back]
        assert first[1][f"history_{back}_duration"] == payload["rug_tick"]
        assert first[1][f"history_{back}_peak"] == np.float32(payload["peak"])
    later = [item for item in watch(sample_events(), "trader") if item[0].event_name == c.TICK][-1]
    assert [later[1][f"history_{back}_duration"] for back in (1, 2, 3)] == [18, 51, revealed[9]["rug_tick"]]


def test_one_who_joins_in_mid_round_learns_its_peak_when_it_is_revealed() -> None:
    frames = [tick(ONE, 9, 1.5), tick(ONE, 10, 0.02, rugged=True)]
    entry = {"id": ONE, "prices": [1, 1.2, 2.5, 2, 2, 2, 2, 2, 2, 1.5, 0.02], "peakMultiplier": 2.5, "rugged": True}
    frames.append(state(TWO, cooldownTimer=15000, gameHistory=[entry]))
    peaks = {event.event_name: row["history_1_peak"] for event, row, _ in watch(to_events(frames[:2]), "trader")}
    assert peaks[c.TICK] == 1.5
    peaks = {event.event_name: row["history_1_peak"] for event, row, _ in watch(to_events(frames), "trader")}
    assert (peaks[c.COMPLETE], peaks[c.TICK]) == (2.5, 2.5)


def test_lots_results_and_sidebets_of_the_recording_are_known() -> None:
    steps = {
        (str(event.window_id)[-4:], event.columns["tick"]): (row, missing)
        for event, row, missing in watch(sample_events(), "trader")
        if event.event_name == c.TICK and event.columns["game_phase"] >= Phase.ACTIVE
    }
    first, second = dict.fromkeys(window for window, _ in steps)
    row, missing = steps[first, 7]  # half of the presale lot, and a second one of 0.023
    prices = next(iter(prices_of(sample_events()).values()))
    assert (row["position_count"], "lot_1_bet_size" in missing) == (2, False)
    assert (row["lot_1_entry_price"], row["lot_1_bet_size"]) == (1.0, np.float32(0.0055))
    assert row["lot_2_entry_price"] == pytest.approx(prices[6], abs=1e-6)
    assert (row["sidebet_active"], row["ticks_until_sidebet"]) == (1.0, 34.0)
    assert (steps[first, 41][0]["sidebet_active"], steps[first, 13][0]["position_count"]) == (0.0, 0.0)
    last = [row for event, row, _ in watch(sample_events(), "trader")][-1]
    payload = [event.columns for event in sample_events() if event.event_name == c.PLAYER]
    pnl = [item["cumulative_pnl"] for item in payload if item["game_phase"] == Phase.RUGGED]
    assert last["session_pnl"] == np.float32(sum(pnl) / 1e9)
    assert (last["rounds_in_session"], steps[second, 3][0]["session_pnl"]) == (2.0, np.float32(pnl[0] / 1e9))


def test_volumes_are_the_others_of_this_round() -> None:
    rows = [row for _, row, _ in watch(sample_events(), "market")]
    for index, (event, row) in enumerate(zip(sample_events(), rows, strict=True)):
        if event.event_name == c.TICK and event.columns["game_phase"] == Phase.ACTIVE:
            heard = [
                sample_event.columns
                for sample_event in sample_events()[:index]
                if sample_event.event_name == c.TRADE and sample_event.window_id == event.window_id
            ]
            now = event.columns["tick"]
            bought = sum(
                item["trade_amount"] for item in heard if item["trade_type"] == "buy" and item["tick"] > now - 40
            )
            assert row["recent_buy_volume"] == np.float32(bought / 1e9)
            assert row["players_in_game"] == event.columns["players_in_game"]


def player(**fields: Any) -> Frame:
    money = {"cash": 1, "positionQty": 0, "avgCost": 0, "cumulativePnL": 0, "totalInvested": 0, "sidebetPnl": 0}
    return received("playerUpdate", {"id": "me", **money, "sideBet": None, **fields})


def trade(game_id: str, trade_id: str, who: str, amount: float) -> Frame:
    payload = {"type": "buy", "amount": amount, "qty": amount, "price": 1, "tickIndex": 0, "coin": "solana"}
    return received(
        "standard/newTrade", {"__trace": True}, {"id": trade_id, "gameId": game_id, "playerId": who, **payload}
    )


def last_row(frames: Sequence[Frame], name: str) -> tuple[dict[str, float], set[str]]:
    *_, (_, row, missing) = watch(to_events(frames), name)
    return row, missing


def test_a_round_starts_flat_even_if_nobody_says_so() -> None:
    frames = [tick(ONE, 0, 1), player(cash=0.9, positionQty=0.1, avgCost=1, totalInvested=0.1)]
    frames += [tick(ONE, 1, 0.02, rugged=True), state(TWO, cooldownTimer=15000)]
    row, missing = last_row(frames, "policy")
    assert (row["position_qty"], row["total_invested"], row["balance"]) == (0.0, 0.0, np.float32(0.9))
    assert "balance" not in missing


def test_lots_are_unknown_while_they_do_not_add_up() -> None:
    bought = player(cash=0.9, positionQty=0.1, avgCost=1, totalInvested=0.1)
    frames = [tick(ONE, 0, 1), player(), bought]
    assert "lot_1_bet_size" in last_row(frames, "trader")[1]
    row, missing = last_row([*frames, trade(ONE, "t", "me", 0.1)], "trader")
    assert (row["lot_1_bet_size"], "lot_1_bet_size" in missing) == (np.float32(0.1), False)
    assert "lot_1_bet_size" in last_row([tick(ONE, 0, 1), bought, trade(ONE, "t", "me", 0.1)], "trader")[1]


def test_a_late_trade_of_the_last_round_is_not_this_rounds_volume() -> None:
    frames = [tick(ONE, 0, 1), state(TWO, cooldownTimer=15000), tick(TWO, 0, 1), trade(TWO, "a", "x", 0.5)]
    assert last_row([*frames, trade(ONE, "b", "x", 0.25)], "market")[0]["recent_buy_volume"] == 0.5


def test_an_order_that_carries_a_press_out_is_no_second_press() -> None:
    frames = [tick(ONE, 3, 1), Frame(NOW, '{"button_id":"BUY"}', "none"), tick(ONE, 4, 1)]
    order = Frame(NOW, '421["buyOrder",{"amount":0.001}]', "sent")
    assert last_row([*frames, order], "policy")[0]["ticks_since_last_action"] == 1.0
    assert last_row([frames[0], frames[2], order], "policy")[0]["ticks_since_last_action"] == 0.0


def test_every_window_of_play_is_a_session_of_its_own() -> None:
    seat = PlayerConfig("trader", Terms("buttons"))
    position = table.TRADER.index("rounds_in_session")
    for episode in play(crash(), lambda _: Constant((1, 0)), sample_events(), seat):
        assert {float(np.asarray(row)[position]) for row in episode.observations} == {1.0}


def test_a_spectator_knows_no_money() -> None:
    world = [event for event in sample_events() if event.player_id is None]
    for _, row, missing in watch(world, "policy"):
        assert {"balance", "position_qty", "bet_amount"} <= missing
        assert (row["balance"], row["bet_amount"]) == (1.0, np.float32(0.001))


def test_execution_columns_hold_what_was_completed_before() -> None:
    for event, row, missing in watch(sample_events(), "recorded"):
        if event.event_name == c.ACK and event.columns["success"]:
            payload = event.columns
            assert "latency_ms" not in missing
            assert (row["execution_tick"], row["latency_ms"]) == (payload["execution_tick"], 20.0)
            assert row["execution_price"] == np.float32(payload["execution_price"])
            assert row["trade_id_hash"] == id_hash(payload["trade_id"])


# money, outcome, reward, label


def take(ledger: CrashLedger, name: str, window: str, **payload: Any) -> tuple[Fact, ...]:
    return ledger.apply_world(c.fact(name, payload, window).event(NOW, "test", 0))


def test_a_round_whose_rug_was_not_seen_is_settled_by_the_worlds_rule() -> None:
    ledger = CrashLedger(Terms("buttons"))
    take(ledger, c.ROUND, ONE)
    take(ledger, c.TICK, ONE, tick=0, price=1.0, game_phase=1)
    ledger.act((1, 5))  # buy for 1.001, which is too much
    assert ledger.standing().cash == UNIT
    ledger.act((1, 6))  # half of that, 0.5005
    take(ledger, c.TICK, ONE, tick=1, price=0.5, game_phase=2)
    take(ledger, c.TICK, ONE, tick=2, price=0.7, game_phase=2)
    ledger.act((3, 1))  # a sidebet of nothing
    ledger.act((3, 3))  # a sidebet of 0.01
    take(ledger, c.ROUND, TWO)
    assert ledger.standing().cash == UNIT - 500_500_000 + to_units("0.005005") - 10_000_000 + 50_000_000
    assert ledger.total == UNIT


def test_a_presale_position_is_kept_until_tick_0_and_a_new_round_resets_the_share() -> None:
    ledger = CrashLedger(Terms("buttons-share"))
    for window in (ONE, TWO):
        take(ledger, c.ROUND, window)
        take(ledger, c.TICK, window, tick=0, price=1.0, game_phase=1)
        assert ledger.act((1, 0, 0))
        assert [fact.event_name for fact in ledger.act((2, 0, 0))] == [c.PRESS]  # refused
        take(ledger, c.TICK, window, tick=0, price=1.0, game_phase=2)
        assert ledger.act((2, 0, 0))
        assert ledger.ledger.qty == 0  # all of it: the share of the round before is forgotten
        ledger.act((0, 0, 1))
        take(ledger, c.TICK, window, tick=1, price=0.02, game_phase=3)
    assert (ledger.opened, ledger.ledger.cash) == (2, UNIT)


def test_one_who_skips_plays_again_in_the_next_round() -> None:
    ledger = CrashLedger(Terms("trader"))
    for window in (ONE, TWO):
        take(ledger, c.ROUND, window)
        take(ledger, c.TICK, window, tick=0, price=1.0, game_phase=1)
        assert [fact.event_name for fact in ledger.act((4, 0, 0))] == [
            c.PRESS,
            c.PLAYER,
            c.FILL,
            c.PRESS,
            c.PLAYER,
            c.BET,
        ]
        assert len(ledger.act((7, 0, 0))) == 1
        assert ledger.act((7, 0, 0)) == ()
        assert [fact.event_name for fact in ledger.act((1, 0, 0))] == [c.PRESS]  # refused
    assert ledger.opened == 4


def test_the_outcome_needs_every_tick_and_takes_late_ones() -> None:
    frames = [tick(ONE, 0, 1), tick(ONE, 1, 1.5), tick(ONE, 2, 1.2), tick(ONE, 3, 0.02, rugged=True)]
    whole = read_outcome(to_events(frames))
    unrevealed = {"server_seed": None, "server_seed_hash": None, "game_version": None}
    assert whole == Outcome(ONE, {"rug_tick": 3, "rug_price": 0.02, "peak": 1.5, "ended_by_rug": True, **unrevealed})
    for lost in range(4):
        assert read_outcome(to_events([frame for index, frame in enumerate(frames) if index != lost])) is None
    assert read_outcome(to_events([frames[0], frames[2], frames[1], frames[3]])) == whole
    repeated = tick(ONE, 4, 0.02, rugged=True)
    assert read_outcome(to_events([*frames[:3], repeated, frames[3]])) == whole


def test_the_label_is_the_sidebets_own_window() -> None:
    outcome = Outcome(ONE, {"rug_tick": 51})
    labels = [rug_within_40(outcome, c.fact(c.TICK, {"tick": at}, ONE).event(NOW, "test", 0)) for at in (10, 11, 50)]
    assert labels == [0.0, 1.0, 1.0]


def test_doing_nothing_tells_nothing_but_the_seat() -> None:
    episodes = list(
        play(crash(), lambda _: Constant((0, 0)), sample_events(), PlayerConfig("policy", Terms("buttons")))
    )
    assert [[fact.event_name for fact in episode.facts] for episode in episodes] == [[c.SEAT, c.PLAYER]] * 2
    assert [len(episode.steps) for episode in episodes] == [52, 19]  # the presale, and ticks 0 to before the rug


def test_the_packed_facts_are_those_of_the_decoded_sample() -> None:
    """Run scripts/pack_sample.py after a change of the decoder."""
    decoded = [fact for of in crash().decode(sample_frames()) for fact in of]
    assert list(sample_facts()) == decoded
    assert FILE.read_bytes() == pack(decoded)
