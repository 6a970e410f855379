"""The recorder without a network: redaction, order, listeners, gaps, sequences of presses, and any bytes at all."""

from __future__ import annotations

import json
import random
import resource
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playproof.errors import ConfigError, StoreError, UnknownName
from playproof.events import Event
from playproof.game import Fact, Frame, load_game
from playproof.games.crash.recording import columns as c
from playproof.record.feeds.browser import InOrder, PageClock, read_amount, watching_script
from playproof.record.feeds.selectors import known_maps, load_map, split_selector
from playproof.record.feeds.socket import Backoff, read_auth
from playproof.record.presses import INCOMPLETE, ActionSequence, action_sequences, button_events
from playproof.record.recorder import (
    DISCARD,
    GAP,
    MAX_FRAME,
    REFUSED,
    SEQUENCE,
    START,
    STOP,
    Recorder,
    steady_clock,
)
from playproof.record.redaction import REDACTED, Redaction, clean_url, load_key
from playproof.record.session import NOTE, recorded_frames, unread
from playproof.store import EventLog, EventStore

GAME = load_game("crash")
MAP = load_map()
KEY = bytes(range(32))
START_TS = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROUND = "20250101-0123456789abcdef"
NEXT = "20250101-fedcba9876543210"
OWN = "player-0123456789abcdef"


class MemoryLog:
    """A log that keeps events in memory, or nothing at all; it can be slow and it can fail."""

    def __init__(self, keep: bool = True) -> None:
        self.keep, self.events, self.count = keep, list[Event](), 0
        self.failure: Exception | None = None

    def submit(self, events: Sequence[Event]) -> Future[None]:
        future: Future[None] = Future()
        if self.failure:
            future.set_exception(self.failure)
            return future
        self.count += len(events)
        if self.keep:
            self.events += events
        future.set_result(None)
        return future


def recorder(log: Any, **options: Any) -> Recorder:
    known: dict[str, Any] = {"redaction": Redaction(KEY), "clock": lambda: START_TS, "reading": MAP.reading}
    return Recorder(GAME, log, "session-1", "public_ws", **known | options)


def at(seconds: float) -> datetime:
    return START_TS + timedelta(seconds=seconds)


def state(tick: int, price: float, game_id: str = ROUND, **more: Any) -> str:
    payload = {"gameId": game_id, "active": True, "rugged": False, "tickCount": tick, "price": price, **more}
    return "42" + json.dumps(["gameStateUpdate", payload])


def trade(identity: str, player: str = "bob", kind: str = "buy", amount: float = 0.5, **more: Any) -> str:
    payload = {"id": identity, "gameId": ROUND, "playerId": player, "username": "Bob", "type": kind, "amount": amount}
    payload |= {"price": 1.25, "qty": 0.4, "tickIndex": 3} | more
    return "42" + json.dumps(["standard/newTrade", {"__trace": True}, payload])


# redaction


def test_secrets_go_and_everything_else_stays_to_the_byte() -> None:
    clean = Redaction(KEY).clean
    assert clean('40{"token":"s3cret","name":"Ada"}', "sent") == '40{"auth":"[redacted]"}'
    assert clean('40/trade,{"token":"s3cret"}', "sent") == '40/trade,{"auth":"[redacted]"}'
    text = '42["x",{"a" : 1.50e+3, "Token":"s3cret", "auth":{"k":["s3cret",{"deep":"s3cret"}],"n":1},"b":-0.0}]'
    assert clean(text) == ('42["x",{"a" : 1.50e+3, "Token":"[redacted]", "auth":"[redacted]","b":-0.0}]')
    assert clean('{"apiKey":12345}') == '{"apiKey":"[redacted]"}'
    assert clean(r'{"tok\u0065n":"s3cret"}') == r'{"tok\u0065n":"[redacted]"}'
    assert "s3cret" not in clean('{"cookie":"s3cret\\" still')
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
    assert clean(f'{{"note":"{jwt}"}}') == f'{{"note":"{REDACTED}"}}'
    assert clean(f'{{"h":"Bearer {"a" * 20}"}}') == f'{{"h":"{REDACTED}"}}'
    seed = '{"serverSeed":"' + "0f" * 32 + '","price":1.0}'
    assert clean(seed) == seed
    quoted = r'42["chat",{"message":"he wrote \"token\":\"mine\" there"}]'
    assert clean(quoted) == quoted.replace("mine", REDACTED)


def test_other_players_are_hashed_and_the_own_one_is_not() -> None:
    redaction = Redaction(KEY, own=[OWN])
    bob, bob_id = redaction.pseudonym("Bob"), redaction.pseudonym("p-bob")
    board = '{"leaderboard":[{"id":"p-bob","username":"Bob","pnl":1.0},{"id":"OWN","username":"Ada"}]}'
    board = board.replace("OWN", OWN)
    assert redaction.clean(board) == board.replace("p-bob", bob_id).replace("Bob", bob)
    deal = '{"id":"trade-1","playerId":"p-bob","username":null,"type":"buy"}'
    assert redaction.clean(deal) == deal.replace("p-bob", bob_id)
    assert redaction.clean(redaction.clean(deal)) == redaction.clean(deal)
    assert Redaction(KEY, keep_names=True).clean(board) == board
    assert Redaction(bytes(32)).pseudonym("Bob") != bob
    assert redaction.clean('{"id":7,"username":"Bob"}') == f'{{"id":"{redaction.pseudonym("7")}","username":"{bob}"}}'
    lone = '{"id":"p-bob"}'
    assert redaction.clean(lone) == lone


_KEYS = st.sampled_from(["id", "username", "playerId", "token", "auth", "x", "é", 'q"', "price", "Cookie"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=20,
)


def _secrets(result: Any, inside: bool = False) -> list[str]:
    if isinstance(result, dict):
        return [s for k, v in result.items() for s in _secrets(v, inside or k.lower() in ("token", "auth", "cookie"))]
    if isinstance(result, list):
        return [s for v in result for s in _secrets(v, inside)]
    return [result] if inside and isinstance(result, str) else []


def _same(one: Any, two: Any) -> bool:
    """Tell whether two documents differ in texts alone."""
    if isinstance(two, str):
        return True
    if isinstance(one, dict):
        return list(one) == list(two) and all(_same(one[k], two[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)


@given(_JSON, st.booleans())
def test_redacted_json_is_json_of_the_same_shape_without_secrets(result: Any, compact: bool) -> None:
    text = json.dumps(result, ensure_ascii=compact, separators=(",", ":") if compact else None)
    clean = json.loads(Redaction(KEY).clean(text))
    assert _same(result, clean)
    assert not [secret for secret in _secrets(clean) if secret != REDACTED]


@given(st.text(alphabet='"\\{}[]:,tokenu0ser', max_size=60))
def test_redaction_takes_any_text(text: str) -> None:
    Redaction(KEY).clean(text)


def test_redaction_is_linear_in_hostile_text() -> None:
    hostile = '"token' + '\\"' * 500_000 + "\\"
    started = time.process_time()
    Redaction(KEY).clean('{"token":1,' + hostile)
    Redaction(KEY).clean('"token"' + "{" * 200_000 + '"' * 100_001)
    assert time.process_time() - started < 5


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    key = load_key(tmp_path / "home")
    assert load_key(tmp_path / "home") == key
    path = tmp_path / "home" / "redaction.key"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"short")
    with pytest.raises(StoreError, match="expected 32 bytes"):
        load_key(tmp_path / "home")
    assert clean_url("https://me:pw@site.example/play?access=x#y") == "https://site.example/play"


# the recorder


def test_frames_become_numbered_events_that_decode_to_themselves() -> None:
    log = MemoryLog()
    one = recorder(log)
    one.start({"url": "x"})
    for seconds, text in enumerate([state(0, 1.0), state(1, 1.01), state(1, 1.01), trade("t1"), '42["chat",{}]', "2"]):
        one.take(Frame(at(seconds), text))
    one.close()
    assert [event.seq for event in log.events] == list(range(len(log.events)))
    names = [event.event_name for event in log.events]
    assert names == [START, "round", "tick", "tick", "gameStateUpdate", "trade", "chat", "ping", STOP]
    decoder = GAME.recording().decoder()
    again = [fact for frame in recorded_frames(log.events) for fact in decoder(frame) or (unread(str(frame.payload)),)]
    stored = [event for event in log.events if not event.event_name.startswith(NOTE)]
    assert [(f.event_name, dict(f.columns), f.window_id) for f in again] == [
        (e.event_name, dict(e.columns), e.window_id) for e in stored
    ]
    assert Redaction(KEY).pseudonym("bob") == next(e for e in stored if e.event_name == "trade").columns["trader"]


def test_duplicates_are_known_and_equal_trades_are_both_kept() -> None:
    log = MemoryLog()
    one = recorder(log)
    frames = [state(0, 1.0), state(1, 1.1), trade("t1"), trade("t2"), trade("t1"), state(1, 1.1), state(1, 1.2)]
    for text in [*frames, state(4, 1.3)]:
        one.take(Frame(at(0), text))
    payload = [(event.event_name, event.columns) for event in log.events if event.event_name in c.KINDS]
    assert [name for name, _ in payload] == ["round", "tick", "tick", "trade", "trade", "conflict", "gap", "tick"]
    trades = [{k: v for k, v in columns.items() if k != "trade_id"} for name, columns in payload if name == "trade"]
    assert trades[0] == trades[1]
    assert (payload[5][1]["tick"], payload[5][1]["price"]) == (1, 1.2)
    assert (payload[6][1]["missing_from"], payload[6][1]["missing_to"]) == (2, 3)
    assert one.counts.gaps == 1
    assert sum(event.raw is not None for event in log.events) == 8, "every frame is kept"


def test_an_interruption_is_told_with_the_ticks_around_it() -> None:
    log = MemoryLog()
    one = recorder(log)
    one.take(Frame(at(0), state(5, 1.0)))
    one.interrupt("cable")
    one.interrupt("again")
    one.take(Frame(at(1), '42["chat",{}]'))
    one.take(Frame(at(2), state(9, 1.4)))
    gap = next(event for event in log.events if event.event_name == GAP)
    assert gap.raw is not None
    payload = json.loads(gap.raw)
    assert (gap.doc_type, gap.window_id, payload["reason"]) == ("gap", ROUND, "cable")
    assert (payload["before"]["columns"]["tick"], payload["after"]["columns"]["tick"]) == (5, 9)
    assert log.events[gap.seq + 1].event_name == "gap", "the game says which ticks are missing"
    one.interrupt("end")
    one.close()
    last = [event for event in log.events if event.event_name == GAP][-1]
    assert json.loads(last.raw or "")["after"] is None


def test_names_that_a_feed_makes_up_are_bounded() -> None:
    one = recorder(MemoryLog(keep=False))
    for number in range(2_000):
        one.take(Frame(at(0), f'42["made-up-{number}",{{}}]'))
    assert len(one.counts.names) < 600
    assert sum(one.counts.names.values()) == 2_000


def test_large_frames_are_refused_and_counted() -> None:
    log = MemoryLog()
    one = recorder(log)
    one.take(Frame(at(0), "42" + "x" * MAX_FRAME))
    one.take(Frame(at(0), b"\xff" * (MAX_FRAME + 1)))
    one.take(Frame(at(0), state(0, 1.0)))
    assert one.counts.refused == 2
    assert [event.event_name for event in log.events] == [REFUSED, REFUSED, "round", "tick"]
    assert max(len(event.raw or "") for event in log.events) < 1000


def test_a_store_that_fails_stops_the_recording() -> None:
    log = MemoryLog()
    one = recorder(log)
    one.take(Frame(at(0), state(0, 1.0)))
    log.failure = StoreError("the disk is full")
    one.take(Frame(at(1), state(1, 1.0)))
    with pytest.raises(StoreError, match="disk"):
        one.flush()


def test_slow_and_failing_listeners_change_nothing() -> None:
    log, heard, slow = MemoryLog(), list[Event](), threading.Event()
    one = recorder(log)
    one.subscribe("*", heard.append)
    one.subscribe("tick", lambda _: slow.wait(20), size=5)
    one.subscribe("game_tick", lambda _: 1 / 0)
    started = time.monotonic()
    for tick in range(200):
        one.take(Frame(at(tick), state(tick, 1.0)))
    took = time.monotonic() - started
    deadline = time.monotonic() + 5
    while len(heard) < 201 and time.monotonic() < deadline:
        time.sleep(0.01)
    slow.set()
    one.close()
    assert took < 5
    assert log.count == 202
    assert [event.seq for event in heard[:201]] == list(range(201))
    all_of_it, waiting, failing = one.listeners
    assert (all_of_it["dropped"], all_of_it["failures"]) == (0, 0)
    assert waiting["dropped"] >= 190
    assert failing["failures"] == 200
    assert "ZeroDivisionError" in failing["last_failure"]


def test_two_sessions_in_the_real_store(tmp_path: Path) -> None:
    with EventLog.open(tmp_path, GAME.columns) as log:
        one = recorder(log)
        events = [event for tick in range(50) for event in one.take(Frame(at(tick), state(tick, 1 + tick / 100)))]
        one.mark(DISCARD)
        one.close()
    stored = list(EventStore(tmp_path, GAME.columns).events(session_id="session-1"))
    assert [event for event in stored if not event.event_name.startswith(NOTE)] == events
    assert [event.window_id for event in stored if event.event_name == DISCARD] == [ROUND]


# presses


def press(button: str, seconds: float, bet: str | None = None) -> Frame:
    payload: dict[str, Any] = {"button_id": button, "client_timestamp": 1000.5 + seconds}
    return Frame(at(seconds), json.dumps(payload | ({"bet_amount": bet} if bet else {})), "none")


def sequences_of(frames: Sequence[Frame]) -> tuple[list[Event], tuple[ActionSequence, ...]]:
    log = MemoryLog()
    one = recorder(log)
    hello = '42["usernameStatus",{"__trace":true},{"id":"OWN"}]'.replace("OWN", OWN)
    for frame in [Frame(at(-1), hello), *frames]:
        one.take(frame)
    one.close()
    return log.events, action_sequences(log.events, MAP.reading)


def order(kind: str, number: int, seconds: float, **payload: Any) -> Frame:
    return Frame(at(seconds), f"42{number}" + json.dumps([kind, payload]), "sent")


def ack(number: int, seconds: float, **body: Any) -> Frame:
    return Frame(at(seconds), f"43{number}" + json.dumps([body]))


def own(identity: str, kind: str, tick: int, price: float, qty: float, amount: float, seconds: float) -> Frame:
    return Frame(at(seconds), trade(identity, OWN, kind, amount, price=price, qty=qty, tickIndex=tick, username="Ada"))


def test_sequences_end_on_actions_pauses_and_new_rounds() -> None:
    _, result = sequences_of(
        [
            Frame(at(0), state(3, 1.5)),
            press("INC_01", 1, "0.011"),
            press("BUY", 2, "0.011"),
            press("HALF", 3),
            press("HALF", 8.5),
            press("DOUBLE", 9),
            Frame(at(10), state(0, 1.0, NEXT)),
            press("SELL_50", 11),
        ]
    )
    shape = [(s.final_action, [p.button_id for p in s.presses]) for s in result]
    assert shape == [
        ("BUY", ["INC_01", "BUY"]),
        (INCOMPLETE, ["HALF"]),
        (INCOMPLETE, ["HALF", "DOUBLE"]),
        (INCOMPLETE, ["SELL_50"]),
    ]
    first = result[0].presses
    assert [(p.sequence_position, p.tick, p.price, p.bet_amount, p.game_id) for p in first] == [
        (0, 3, 1.5, 11_000_000, ROUND),
        (1, 3, 1.5, 11_000_000, ROUND),
    ]
    assert result[3].presses[0].game_id == NEXT


def test_executions_and_outcomes_are_filled_in_when_they_become_known() -> None:
    events, result = sequences_of(
        [
            Frame(at(0), state(3, 1.25)),
            press("BUY", 1, "0.5"),
            order("buyOrder", 0, 1.01, amount=0.5),
            own("t1", "buy", 3, 1.25, 0.4, 0.5, 1.02),
            ack(0, 1.1, success=True),
            press("BUY", 2, "0.5"),
            order("buyOrder", 1, 2.01, amount=0.5),
            ack(1, 2.1, success=True),
            own("t2", "buy", 4, 1.25, 0.4, 0.5, 2.2),
            press("SELL", 3),
            order("sellOrder", 2, 3.01, percentage=75),
            own("t3", "sell", 6, 2.0, 0.6, 1.2, 3.02),
            ack(2, 3.1, success=True, executedPrice=2.0),
            press("SELL", 4),
            order("sellOrder", 3, 4.01, percentage=75),
            ack(3, 4.1, success=False, reason="there is nothing to sell"),
            press("BUY", 4.5, "0.1"),
            Frame(at(5), state(9, 0.02, rugged=True)),
            own("t4", "sell", 9, 0.02, 0.2, 0.004, 5.1),
        ]
    )
    first, second, third, refused, unanswered = result
    assert (first.outcome, first.pnl, first.entry_price, first.exit_price) == ("profit", 300_000_000, 1.25, 2.0)
    assert (first.presses[-1].execution_tick, first.presses[-1].trade_id) == (3, "t1")
    assert first.presses[-1].latency_ms == 100
    assert (second.outcome, second.pnl) == ("rugged", 400_000_000 + 4_000_000 - 500_000_000)
    assert (second.presses[-1].execution_tick, second.presses[-1].trade_id) == (4, "t2"), "the fill after the answer"
    assert (third.outcome, third.pnl, third.exit_price) == ("profit", 450_000_000, 2.0)
    assert third.presses[0].time_in_position is not None
    assert (refused.outcome, refused.pnl) == ("refused", None)
    assert (unanswered.outcome, unanswered.final_action) == (None, "BUY")
    assert [p.button_id for p in button_events(events, MAP.reading)] == ["BUY", "BUY", "SELL", "SELL", "BUY"]
    live = [json.loads(event.raw or "") for event in events if event.event_name == SEQUENCE]
    assert {payload["sequence_id"]: payload["outcome"] for payload in live} == {
        s.sequence_id: s.outcome for s in result
    }


def test_sidebets_are_won_or_lost() -> None:
    def bet(kind: str, identity: str, seconds: float, **more: Any) -> Frame:
        payload = {"playerId": OWN, "gameId": ROUND, "betAmount": 0.1, "type": kind, "id": identity, "startTick": 3}
        name = "currentSidebet" if kind == "placed" else "currentSidebetResult"
        body = json.dumps([name, {"__trace": True}, payload | {"endTick": 43, "tickIndex": 3, "xPayout": 5} | more])
        return Frame(at(seconds), "42" + body)

    for payout, outcome, pnl in ((0.5, "won", 400_000_000), (0, "lost", -100_000_000)):
        _, result = sequences_of(
            [
                Frame(at(0), state(3, 1.25)),
                press("SIDEBET", 1, "0.1"),
                order("requestSidebet", 7, 1.01, amount=0.1),
                bet("placed", "b1", 1.02),
                ack(7, 1.03, success=True),
                bet("payout", "b2", 2, payout=payout),
            ]
        )
        assert [(s.final_action, s.outcome, s.pnl) for s in result] == [("SIDEBET", outcome, pnl)]


# selector maps and clocks


def test_the_maps_that_come_along_are_whole() -> None:
    assert known_maps() == ["example-site", "playproof"]
    own_page, other = load_map("playproof"), load_map("example-site")
    assert len(own_page.buttons) == 15
    assert (other.game, other.reading, other.socket) == (own_page.game, own_page.reading, "/socket.io/")
    assert {b.button_id for b in other.buttons} < {b.button_id for b in own_page.buttons}
    assert '"BUY"' in watching_script(own_page)


@pytest.mark.parametrize(
    ("selector", "steps"),
    [
        ("#a .b > c", [("#a .b > c", None)]),
        ("a >>> b>>>c", [("a", None), ("b", None), ("c", None)]),
        ('[title=">>>"] >>> b', [('[title=">>>"]', None), ("b", None)]),
        ('b:text("Buy \\"now\\"") >>> i', [("b", 'Buy "now"'), ("i", None)]),
        (":text('1/2')", [("*", "1/2")]),
        ("""b:text("it's >>>")""", [("b", "it's >>>")]),
    ],
)
def test_a_selector_is_split_at_borders(selector: str, steps: list[tuple[str, str | None]]) -> None:
    assert [(step["css"], step["text"]) for step in split_selector(selector)] == steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("buttons", "TOML"),
        ('game = "x"', "buttons"),
        ('game = "x"\n[buttons]\nBUY = { category = "action" }', "BUY"),
        ('game = "x"\n[buttons]\n"../x" = { category = "action", key = "b" }', "button"),
        ('game = "x"\n[buttons]\n[fields]\nbet = 3', "bet"),
        ('game = "x"\n[buttons]\nBUY = { selector = "a >>> ", category = "action" }', "both sides"),
        ('game = "x"\n[buttons]\nBUY = { selector = 3, category = "action" }', "as text"),
        ('game = "x"\nevent = "wink"\n[buttons]\nBUY = { selector = "a", category = "action" }', "wink"),
        ('extends = "playproof"\n[reading]\nnonsense = "x"', "reading"),
    ],
)
def test_a_wrong_map_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "map.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_map(str(path))
    with pytest.raises(UnknownName, match="selector map"):
        load_map("nowhere")
    with pytest.raises(ConfigError, match="selector map"):
        load_map(str(tmp_path / "none.toml"))


def test_order_follows_the_items_own_clock() -> None:
    held = InOrder(hold=1.0)
    held.put(10.0, "frame", now=0.0)
    held.put(9.5, "press", now=0.5)
    held.put(10.2, "later", now=0.6)
    assert held.get(0.9) == []
    assert held.get(1.0) == [(9.5, "press"), (10.0, "frame")]
    held.put(8.0, "too late", now=1.1)
    assert (held.late, held.get(1.2)) == (1, [(8.0, "too late")])
    assert held.rest() == [(10.2, "later")]


@given(st.lists(st.floats(0, 100), max_size=40))
def test_nothing_is_lost_in_ordering(moments: list[float]) -> None:
    held, given = InOrder(hold=0.5), list[tuple[float, Any]]()
    for now, moment in enumerate(moments):
        held.put(moment, now, float(now))
        given += held.get(float(now))
    given += held.rest()
    assert sorted(number for _, number in given) == list(range(len(moments)))


def test_clocks() -> None:
    walls, ticks = iter([START_TS]), iter([5.0, 6.5, 7.0])
    clock = steady_clock(lambda: next(walls), lambda: next(ticks))
    assert (clock(), clock()) == (at(1.5), at(2))
    page = PageClock(100.0, START_TS)
    assert page.of_page(1.0, 2.0) is None
    page = replace(page, offset_ms=1000.0)
    moment = page.of_page(101_500.0, 500.0)
    assert moment == 101.0
    assert page.utc(101.0) == at(1)
    assert [read_amount(text) for text in ("0.001", "1,250.5 SOL", "Bet: 7", "none", "1'000")] == [
        "0.001", "1250.5", "7", None, "1000",
    ]  # fmt: skip
    rng = random.Random(1)
    pauses = [Backoff(first=1, longest=30, jitter=0.3).pause(n, rng) for n in range(100)]
    assert all(0.69 < pause <= 39.01 for pause in pauses)
    assert pauses[0] < pauses[3] < pauses[60]
    assert read_auth('{"name":"Ada"}') == {"name": "Ada"}
    with pytest.raises(ConfigError, match="JSON object"):
        read_auth("[1]")


# anything at all


def fuzzed(count: int, seed: int) -> Any:
    """Give frames that nearly are, hardly are and are not at all what the feed sends."""
    rng = random.Random(seed)
    real = [str(frame.payload) for frame in GAME.recording().sample()]
    odd = ["NaN", "1e999", "-1e999", "9" * 400, '"\\ud800"', '"../../x"', '"\\u0000"', "[" * 300, "{}", "null", '""']
    for _ in range(count):
        text = rng.choice(real)
        for _ in range(rng.randint(0, 4)):
            cut = rng.randrange(len(text) + 1)
            match rng.randrange(5):
                case 0:
                    text = text[:cut]
                case 1:
                    text = text[:cut] + rng.choice(odd) + text[cut + rng.randrange(8) :]
                case 2:
                    text = text[:cut] + text[rng.randrange(len(text) + 1) :]
                case 3:
                    text = text[:cut] + chr(rng.choice([0, 34, 92, 123, 0x1F600, 0xD800, 0x2028])) + text[cut:]
                case 4:
                    text = text.replace(rng.choice([":", ",", '"', "0", "true"]), rng.choice(odd), 2)
            text = text[:200_000]
        payload: str | bytes = text if rng.random() < 0.9 else text.encode("utf-8", "surrogatepass")[rng.randrange(3) :]
        yield Frame(START_TS, payload, rng.choice(["received", "received", "sent", "none"]))


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_fuzz(count: int, seed: int) -> None:
    log = MemoryLog(keep=False)
    one = recorder(log)
    frames = fuzzed(count, seed)
    for _ in range(min(5_000, count // 4)):
        one.take(next(frames))
    before = memory_mb()
    taken = sum(len(one.take(frame)) >= 1 for frame in frames)
    one.close()
    assert taken + min(5_000, count // 4) == count
    assert log.count >= count
    assert memory_mb() - before < 64


def test_any_frame_is_recorded_without_a_crash() -> None:
    run_fuzz(20_000, seed=1)


@pytest.mark.torture
def test_a_million_frames_are_recorded_without_a_crash() -> None:
    run_fuzz(1_000_000, seed=2)


def test_fuzzed_frames_survive_the_real_store(tmp_path: Path) -> None:
    with EventLog.open(tmp_path, GAME.columns) as log:
        one = recorder(log)
        taken = [event for frame in fuzzed(1_500, seed=3) for event in one.take(frame)]
        one.close()
    stored = [e for e in EventStore(tmp_path, GAME.columns).events() if not e.event_name.startswith(NOTE)]
    assert stored == taken


def test_facts_of_a_game_name_the_own_player() -> None:
    from playproof.record.recorder import own_names

    mine = Fact("identity", "system_event", {"trader": OWN}, player_id="player")
    assert own_names([mine, Fact("fill", "player_action", {"trader": "x"}, player_id="y")]) == {OWN, "player"}
