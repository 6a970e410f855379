"""A player's own event store: Parquet rows of feed messages, presses, orders and finished rounds, in order of arrival.

Rows become the frames that they were and go through the same redaction and decoder as a live recording:

| doc type | how it is read |
|---|---|
| ws_event | the Socket.IO event of its raw_json, {"event", "data"} |
| button_event | a press; the bet field is written down before the press, or after it (`bets_are_after`) |
| player_action | an order of the player's program; trade_confirmed is its answer |
| complete_game | a finished round with its prices |
| server_state | a playerUpdate; read where the session holds no playerUpdate of the feed |
| game_tick | a tick; read where the feed's own message of that tick is missing |

Everything else is kept raw. The store has no answers to orders: an order's answer is its fill, or a change of the
player's money. An order without either within PRESS_PAUSE, or before the next order of its kind, counts as refused.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import orjson

from playproof.errors import DecodeError
from playproof.events import Direction, Value
from playproof.game import PRESS_PAUSE, Fact, Frame
from playproof.game.importers import (
    ImportedFact,
    ImportProblem,
    ImportReading,
    ImportSettings,
    PlayCounts,
    StoreImporter,
    StoreRow,
    StoreSession,
    read_moment,
)
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.decode import CrashDecoder
from playproof.games.crash.recording.importers.captures import TRACE
from playproof.games.crash.recording.importers.legacy import KEPT, RoundProgress, conflict
from playproof.games.crash.recording.json_fields import to_amount, to_id, to_number, to_record, to_whole
from playproof.games.crash.recording.player_tracker import MAX_MS
from playproof.games.crash.recording.round_tracker import MAX_TICK
from playproof.games.crash.rules.actions import ADJUSTMENTS, CATEGORIES, adjusted, button_named
from playproof.games.crash.rules.windows import is_window
from playproof.games.crash.server.protocol import BET, BUY, PLAYER, RANK, SELL, STATE, USERNAME, read_json
from playproof.money import show

ZONE = "UTC"
"""The store's times name no zone and are UTC, unlike those of the older JSON Lines recorder."""
COLUMNS = frozenset(("ts", "doc_type", "session_id", "seq", "raw_json"))
KNOWN = COLUMNS | {
    *("source", "direction", "game_id", "player_id", "username", "event_name", "price", "tick", "action_type", "cash"),
    *("position_qty", "button_id", "button_category", "sequence_id", "sequence_position", "date"),
}
"""Columns of the two schema versions; others are kept beside the row."""
UNKNOWN_ID = "unknown"
EXTRA = Fact("store_columns", "system_event")
"""Keeps columns of a row that no version of the schema that is known here has."""
NO_FILL = "no fill was recorded"
ORDER_EVENTS: Mapping[str, str] = {"BUY": BUY, "SELL": SELL, "SIDEBET": BET}
CONFIRMED = "trade_confirmed"
_DIRECTIONS: Mapping[str, Direction] = {"received": "received", "sent": "sent"}


@dataclass
class OpenOrder:
    """An order whose answer was not seen yet."""

    order_id: int
    kind: str
    deadline: datetime
    answered_at: datetime | None = None
    """When its answer came, where the press says so."""
    money_changed: bool = False
    """Was its fill seen, or did the player's money change as the order would change it?"""


class EventStoreReader:
    """Read the rows of one session."""

    def __init__(self, session: StoreSession, setting: ImportSettings) -> None:
        self.zone = setting.zone
        self.redactor = setting.redactor()
        self.decoder = CrashDecoder()
        self.decoder.rounds.completes = True
        self.progress: dict[str, RoundProgress] = {}
        self.completed: set[str] = set()
        self.problems: list[ImportProblem] = []
        self.duplicates = 0
        self.counts: Counter[str] = Counter()
        names = {name for _, name, _, _ in session.kinds}
        self._has_player_feed = PLAYER in names
        self._fed_windows = {window for doc, name, window, _ in session.kinds if doc == "ws_event" and name == STATE}
        self._bets_after = bets_are_after([to_record(_parsed(row)) for row in session.presses])
        self._derived: deque[tuple[StoreRow, datetime]] = deque()
        """Ticks derived from the feed, until it is clear whether the feed's own message of them is there."""
        self._orders: list[OpenOrder] = []
        self._qty = self._stake = 0
        own = {player for doc, _, _, player in session.kinds if doc == "server_state"} - {"", UNKNOWN_ID}
        own = own or _own_ids(session)
        self.redactor.learn(own)
        for name in sorted(own)[:1]:
            self.decoder.hand.name = to_id(name)

    def take(self, row: StoreRow) -> Iterator[ImportedFact]:
        """Give the facts of the next row."""
        try:
            ts = read_moment(row.values.get("ts"), self.zone)
        except DecodeError as error:
            self._report(row, f"{error}; the row was left out")
            return
        yield from self._due(ts)
        doc_type = row.values.get("doc_type")
        yield from self._read(str(doc_type), row, ts)
        extra = {name: value for name, value in row.values.items() if name not in KNOWN}
        if extra:
            yield ImportedFact(ts, EXTRA, self.redactor.clean(json.dumps(extra, default=str), "none"))

    def repeat(self, row: StoreRow) -> Iterator[ImportedFact]:  # noqa: ARG002
        """Count a row that stands in two files."""
        self.duplicates += 1
        yield from ()

    def close(self) -> Iterator[ImportedFact]:
        """Give the derived ticks that the feed did not bring again."""
        yield from self._flush_derived(None)

    def reading(self) -> ImportReading:
        """Give what was counted."""
        seen = tuple(
            progress.seen(window, completed=window in self.completed) for window, progress in self.progress.items()
        )
        unanswered = len(self._orders)
        if unanswered:
            self.problems.append(
                ImportProblem("", 0, f"{unanswered} orders at the end of the session have no answer recorded")
            )
        play = PlayCounts(
            self.counts["presses"],
            self.counts["sequences"],
            self.counts["orders"],
            self.counts["matched"],
            self.counts["refused"],
        )
        return ImportReading((), seen, self.duplicates, tuple(self.problems), play)

    def _read(self, doc_type: str, row: StoreRow, ts: datetime) -> Iterator[ImportedFact]:
        if doc_type == "ws_event":
            yield from self._feed(row, ts)
        elif doc_type == "button_event":
            yield from self._press(row, ts)
        elif doc_type == "player_action":
            yield from self._order(row, ts)
        elif doc_type == "complete_game":
            yield from self._finished(row, ts)
        elif doc_type == "server_state":
            if self._has_player_feed:
                self.duplicates += 1
            else:
                yield from self._message(PLAYER, str(row.values.get("raw_json")), row, ts)
        elif doc_type == "game_tick":
            yield from self._derived_tick(row, ts)
        else:
            yield self._kept(row, ts)

    # The feed

    def _feed(self, row: StoreRow, ts: datetime) -> Iterator[ImportedFact]:
        """Read a message of the socket."""
        name, data = _message_of(row)
        if name is None:
            self._report(row, 'expected {"event": ..., "data": ...} in raw_json of a ws_event; the row was kept raw')
            yield self._kept(row, ts)
            return
        if f'"{TRACE}"' in data[:200] and _is_trace(_parse(data)):
            self._report(row, f"the recorder kept only the trace of {name!r}; its payload is lost")
        if name == STATE and self._derived:
            yield from self._flush_derived(to_record(_parse(data)))
        yield from self._message(name, data, row, ts)

    def _message(self, name: str, data: str, row: StoreRow, ts: datetime) -> Iterator[ImportedFact]:
        """Decode a message as the frame that it was; `data` is the text of its payload."""
        direction = _DIRECTIONS.get(str(row.values.get("direction")), "received")
        if direction == "sent" and any(ORDER_EVENTS[order.kind] == name for order in self._orders):
            yield self._kept(row, ts)  # the order of the press before it
            return
        if direction == "received":
            frame, payload = self.redactor.clean_message(name, data)
            facts = self.decoder.take_message(name, payload)
        else:
            frame = self.redactor.clean(f"42[{_json(name)},{data}]" if data else f"42[{_json(name)}]", direction)
            facts = self.decoder(Frame(ts, frame, direction))
        if not facts:
            yield from self._nothing_new(name, row, ts, frame, direction)
            return
        raw: str | None = frame
        for fact in facts:
            self._follow(fact, row)
            yield ImportedFact(ts, fact, raw, direction)
            raw = None
            yield from self._answered_by(fact, ts)

    def _nothing_new(
        self, name: str, row: StoreRow, ts: datetime, frame: str, direction: Direction
    ) -> Iterator[ImportedFact]:
        """Count a state that said nothing new, from a second source or sent again; keep every other message raw."""
        window = str(row.values.get("game_id") or "")
        known = window in self.decoder.rounds.kept if name == STATE else self.decoder.hand.cash is not None
        if name in (STATE, PLAYER) and known:
            self.duplicates += 1
        else:
            yield ImportedFact(ts, Fact(name, "ws_event") if len(name) <= 64 else KEPT, frame, direction)

    def _derived_tick(self, row: StoreRow, ts: datetime) -> Iterator[ImportedFact]:
        """Hold a derived tick back while the feed's own message may come; read it where there is none."""
        window = str(row.values.get("game_id") or to_record(_parsed(row)).get("gameId") or "")
        if window in self._fed_windows:
            self._derived.append((row, ts))
        else:
            yield from self._tick(row, ts)

    def _flush_derived(self, state: Mapping[str, object] | None) -> Iterator[ImportedFact]:
        """Read the derived ticks that came before a message of the feed and that the feed did not bring."""
        while self._derived:
            row, ts = self._derived[0]
            payload = to_record(_parsed(row))
            window, tick = payload.get("gameId") or row.values.get("game_id"), to_whole(payload.get("tick"), MAX_TICK)
            same = state is not None and state.get("gameId") == window
            if same and state is not None and state.get("tickCount") == tick:
                self.duplicates += 1
            else:
                yield from self._tick(row, ts)
            self._derived.popleft()

    def _tick(self, row: StoreRow, ts: datetime) -> Iterator[ImportedFact]:
        """Read a derived tick as the message of a running round."""
        payload = to_record(_parsed(row))
        window = payload.get("gameId") or row.values.get("game_id")
        tick = to_whole(payload.get("tick", row.values.get("tick")), MAX_TICK)
        price = to_number(payload.get("price", _float(row.values.get("price"))))
        if not isinstance(window, str) or not is_window(window) or tick is None or price is None:
            self._report(row, "expected gameId, tick and price in a game_tick; the row was kept raw")
            yield self._kept(row, ts)
            return
        known = self.decoder.rounds.kept.get(window)
        if known is not None and ((2, tick) in known.prices or (3, tick) in known.prices):
            self.duplicates += 1
            return
        flags = {"active": True, "rugged": False, "cooldownTimer": 0, "allowPreRoundBuys": False}
        state = {"gameId": window, "tickCount": tick, "price": price, **flags}
        yield from self._message(STATE, _json(state), row, ts)

    def _finished(self, row: StoreRow, ts: datetime) -> Iterator[ImportedFact]:
        """Read a finished round; where only derived ticks stand in the store, it also says where the round rugged."""
        entry = to_record(_parsed(row))
        window, prices = str(entry.get("id") or ""), entry.get("prices")
        if not is_window(window) or not isinstance(prices, list):
            self._report(row, "expected id and prices in a complete_game; the row was kept raw")
            yield self._kept(row, ts)
            return
        raw: str | None = self.redactor.clean(str(row.values.get("raw_json")), "received")
        known = self.decoder.rounds.kept.get(window)
        facts: list[Fact] = []
        if known is not None and known.rug_tick is None and window not in self._fed_windows:
            yield from self._flush_derived(None)
            rug = {"gameId": window, "tickCount": len(prices) - 1, "price": prices[-1], "rugged": True, "active": False}
            facts += self.decoder(Frame(ts, f"42[{_json(STATE)},{_json(rug)}]", "received"))
            self.completed.add(window)
        facts += self.decoder.rounds.take_history([entry])
        if not facts:
            self.duplicates += 1
        for fact in facts:
            self._follow(fact, row)
            yield ImportedFact(ts, fact, raw, "received")
            raw = None

    def _follow(self, fact: Fact, row: StoreRow) -> None:
        """Follow the rounds, for the report."""
        if fact.doc_type == "game_tick" and fact.window_id is not None:
            self.progress.setdefault(fact.window_id, RoundProgress()).take(fact.columns)
            if fact.columns.get("from_history"):
                self.completed.add(fact.window_id)
        elif fact.event_name == c.CONFLICT:
            self._report(row, conflict(fact))

    # The player

    def _press(self, row: StoreRow, ts: datetime) -> Iterator[ImportedFact]:
        """Read a press; what the recorder wrote down of its answer is read as well."""
        payload = to_record(_parsed(row))
        named = payload.get("button_id", row.values.get("button_id"))
        button = button_named(named)
        if button is None:
            self._report(row, f"expected a button such as BUY, INC_01 or +0.01, found {str(named)[:40]!r}; kept raw")
            yield self._kept(row, ts)
            return
        bet = _amount(payload.get("bet_amount"))
        if bet is not None and not self._bets_after:
            cash = _amount(payload.get("balance")) or self.decoder.hand.cash or 0
            bet = adjusted(bet, cash, button) if button in ADJUSTMENTS else bet
        press = dict(payload) | {"button_id": button}
        if bet is not None:
            press |= {"bet_amount_recorded": payload.get("bet_amount"), "bet_amount": show(bet)}
        raw = self.redactor.clean(_json(press), "none")
        if CATEGORIES[button] == "action":
            yield from self._answer_open(button, ts)
        for fact in self.decoder(Frame(ts, raw, "none")):
            self.counts["presses"] += 1
            self.counts["sequences"] += fact.columns.get("sequence_position") == 0
            self._check_tick(row, payload, fact.columns)
            yield ImportedFact(ts, fact, raw, "none")
        if CATEGORIES[button] == "action":
            latency = to_number(payload.get("latency_ms"), MAX_MS)
            answered_at = ts + timedelta(milliseconds=latency) if latency is not None else None
            data = {"amount": show(bet) if bet is not None else None, "percentage": self.decoder.hand.share}
            yield from self._send(button, data, ts, None, answered_at)

    def _send(
        self, kind: str, data: Mapping[str, object], ts: datetime, raw: str | None, answered_at: datetime | None = None
    ) -> Iterator[ImportedFact]:
        """Tell an order, and wait for its answer."""
        order_id = self.decoder.hand.new_order_id()
        for fact in self.decoder.hand.take_order(ORDER_EVENTS[kind], data, order_id, ts):
            yield ImportedFact(ts, fact, raw, "sent")
        self.counts["orders"] += 1
        self._orders.append(OpenOrder(order_id, kind, ts + PRESS_PAUSE, answered_at))

    def _check_tick(self, row: StoreRow, payload: Mapping[str, object], columns: Mapping[str, Value]) -> None:
        """Report a press that names another tick than the last one that arrived before it."""
        tick = to_whole(payload.get("tick"), MAX_TICK)
        if tick is not None and columns.get("tick") is not None and tick != columns["tick"]:
            self._report(row, f"the press names tick {tick}, the last tick received before it is {columns['tick']}")

    def _order(self, row: StoreRow, ts: datetime) -> Iterator[ImportedFact]:
        """Read an order as the player's program sent it, or its confirmation."""
        payload = to_record(_parsed(row))
        action = str(payload.get("action_type", row.values.get("action_type")) or "").lower()
        if action == CONFIRMED and self._orders:
            self._orders[0].money_changed = True
            yield from self._settle(self._orders[0], ts)
            return
        if action.upper() not in ORDER_EVENTS:
            yield self._kept(row, ts)
            return
        kind = action.upper()
        if any(order.kind == kind for order in self._orders):  # the order of the press before it
            yield self._kept(row, ts)
            return
        amount = next((payload[name] for name in ("amount", "bet_amount", "betAmount") if name in payload), None)
        data = {"amount": amount, "percentage": payload.get("percentage")}
        yield from self._send(kind, data, ts, self.redactor.clean(_json(payload), "sent"))

    def _answered_by(self, fact: Fact, ts: datetime) -> Iterator[ImportedFact]:
        """Give the answer to an order whose fill has come, and note a change of money."""
        filled = None
        if fact.event_name == c.FILL and not fact.columns.get("forced"):
            filled = {"buy": "BUY", "sell": "SELL"}.get(str(fact.columns.get("trade_type")))
        elif fact.event_name == c.BET and fact.columns.get("sidebet_type") == "placed":
            filled = "SIDEBET"
        elif fact.event_name == c.PLAYER:
            qty, stake = _whole(fact.columns.get("position_qty")), _whole(fact.columns.get("sidebet_stake"))
            moved = {"BUY": qty > self._qty, "SELL": qty < self._qty, "SIDEBET": stake > 0 and not self._stake}
            for order in self._orders:
                order.money_changed |= moved[order.kind]
            self._qty, self._stake = qty, stake
        if filled is None:
            return
        for index, order in enumerate(self._orders):
            if order.kind == filled:
                for earlier in self._orders[:index]:  # the server answers orders in their order
                    yield from self._settle(earlier, ts)
                order.money_changed = True
                if order.answered_at is None or order.answered_at <= ts:
                    yield from self._settle(order, ts)
                return

    def _due(self, ts: datetime) -> Iterator[ImportedFact]:
        """Answer orders whose answer was due before a time."""
        for order in list(self._orders):
            due = order.answered_at or order.deadline
            if due < ts:
                yield from self._settle(order, due)

    def _answer_open(self, kind: str, ts: datetime) -> Iterator[ImportedFact]:
        """Answer the orders of a kind before the next one of it."""
        for order in [order for order in self._orders if order.kind == kind]:
            yield from self._settle(order, ts)

    def _settle(self, order: OpenOrder, ts: datetime) -> Iterator[ImportedFact]:
        """Answer an order: taken if its fill was seen or the player's money changed as it would, else refused."""
        self._orders.remove(order)
        self.counts["matched" if order.money_changed else "refused"] += 1
        body = {"success": True} if order.money_changed else {"success": False, "reason": NO_FILL}
        for fact in self.decoder.hand.take_ack(order.order_id, body, ts):
            yield ImportedFact(ts, fact, None, "received")

    def _kept(self, row: StoreRow, ts: datetime) -> ImportedFact:
        raw = row.values.get("raw_json")
        text = raw if isinstance(raw, str) else json.dumps(dict(row.values), default=str)
        return ImportedFact(ts, KEPT, self.redactor.clean(text, "none"))

    def _report(self, row: StoreRow, problem: str) -> None:
        self.problems.append(ImportProblem(row.file, row.line, problem))


def bets_are_after(presses: Sequence[Mapping[str, object]]) -> bool:
    """Tell whether bet_amount was written down after each press, by the presses that adjust it.

    Recorders differ: some write the field as it stood when the button was hit, some as it stood then. Consecutive
    presses of one sequence tell them apart; where they do not, it is before.
    """
    before = after = 0
    for last, this in pairwise(presses):
        if last.get("sequence_id") != this.get("sequence_id"):
            continue
        old, new = _amount(last.get("bet_amount")), _amount(this.get("bet_amount"))
        first, second = button_named(last.get("button_id")), button_named(this.get("button_id"))
        if old is None or new is None or first is None or second is None:
            continue
        cash = _amount(this.get("balance")) or 0
        is_before = new == (adjusted(old, cash, first) if first in ADJUSTMENTS else old)
        is_after = new == (adjusted(old, cash, second) if second in ADJUSTMENTS else old)
        before, after = before + (is_before and not is_after), after + (is_after and not is_before)
    return after > before


def _own_ids(session: StoreSession) -> set[str]:
    """Find the recorded player's id in the messages that are sent to him alone."""
    for name, key in ((PLAYER, "id"), (USERNAME, "id"), (RANK, "playerId")):
        row = session.first.get(("ws_event", name))
        identity = to_record(to_record(_parsed(row)).get("data")).get(key) if row is not None else None
        if isinstance(identity, str) and identity != UNKNOWN_ID:
            return {identity}
    row = session.first.get(("server_state", ""))
    identity = to_record(_parsed(row)).get("id") if row is not None else None
    return {identity} if isinstance(identity, str) else set()


def _message_of(row: StoreRow) -> tuple[str | None, str]:
    """Give the name and the text of the payload of a ws_event; the name is None if the row holds no message.

    The payload's own text is kept: no number is written anew.
    """
    raw, name = row.values.get("raw_json"), row.values.get("event_name")
    if isinstance(raw, str) and isinstance(name, str):
        for start in (f'{{"event": {json.dumps(name)}, "data": ', f'{{"event":{json.dumps(name)},"data":'):
            if raw.startswith(start) and raw.endswith("}"):
                return name, raw[len(start) : -1]
    message = to_record(_parsed(row))
    named, data = message.get("event"), message.get("data")
    if not isinstance(named, str):
        return None, ""
    if isinstance(data, list) and len(data) == 2 and _is_trace(data[0]):
        data = data[1]
    return named, "" if data is None else _json(data)


def _parsed(row: StoreRow) -> object:
    """Read the raw JSON of a row; None if it is none."""
    raw = row.values.get("raw_json")
    return _parse(raw) if isinstance(raw, str) else None


def _parse(text: str) -> object:
    try:
        return read_json(text)
    except DecodeError:
        return None


def _is_trace(value: object) -> bool:
    return isinstance(value, dict) and value.get(TRACE) is True


def _json(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()


def _amount(value: object) -> int | None:
    """Take an amount; floats are rounded to the nine decimals that money has."""
    if isinstance(value, float):
        value = round(value, 9)
    return to_amount(value)


def _float(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0


IMPORTER = StoreImporter(
    doc="a player's event store in Parquet: feed messages, presses, orders and finished rounds",
    zone=ZONE,
    columns=COLUMNS,
    presses="button_event",
    reader=EventStoreReader,
)
