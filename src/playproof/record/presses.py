"""What a person did: presses, the sequences they form, and what became of each.

The game's decoder gives every press its tick, price, bet and sequence; events are immutable, so what
becomes known later stands in later events: the answer to an order names the sequence that led to it,
fills and settlements follow. `Sequences` joins them. The recorder runs it live and appends each
sequence again when more of it is known (the last one counts); `action_sequences` runs the same join
over stored events. Waiting is no event: every tick at which the game lets a player choose is stored,
and one without a press after it was a WAIT.
Leaves out: finding presses (browser) and turning them into steps (episodes).

Which events tell fills and settlements, and in which columns, comes from a selector map as a
`Reading`; the names of ButtonEvent and ActionSequence are the same for every game.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from playproof.errors import ConfigError
from playproof.events import Event, Value
from playproof.game import PRESS_PAUSE
from playproof.json_types import Json
from playproof.record.session import NOTE

INCOMPLETE = "INCOMPLETE"
ACTION = "action"
KEPT = 256
"""Sequences that may still learn something; older ones stay as they are."""

Outcome = Literal["pending", "profit", "loss", "break_even", "rugged", "won", "lost", "refused"]


@dataclass(frozen=True)
class EventRule:
    """Which of the player's own events tell something."""

    event: str
    where: Mapping[str, Value] = field(default_factory=dict)
    """Columns and the values that they must have."""

    def holds(self, event: Event) -> bool:
        """Tell whether an event is meant."""
        columns = event.columns
        return event.event_name == self.event and all(columns.get(name) == value for name, value in self.where.items())

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> EventRule:
        """Read a rule of a selector map: `event`, and columns with their values."""
        where = {name: value for name, value in payload.items() if name != "event"}
        return cls(str(payload["event"]), where)


@dataclass(frozen=True)
class Trades:
    """How positions are opened and closed, by the player's own fills."""

    buy: EventRule
    buy_button: str
    sell: EventRule
    sell_button: str
    price: str
    qty: str
    amount: str
    forced: str
    """Column that says that the game sold, and nobody's order."""


@dataclass(frozen=True)
class Bets:
    """How a bet beside the position is placed and settled."""

    placed: EventRule
    button: str
    settled: EventRule
    stake: str
    paid: str


@dataclass(frozen=True)
class PressRules:
    """How a game's events tell presses and what became of them."""

    press: str = "press"
    answer: str = "ack"
    balance: str = "balance"
    """Column with the player's wallet."""
    end_tick: str = "rug_tick"
    """Column of a finished window with its last tick."""
    trades: Trades | None = None
    bets: Bets | None = None

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> PressRules:
        """Read the table `reading` of a selector map."""
        plain = {name: value for name, value in payload.items() if isinstance(value, str)}
        try:
            return cls(**plain, trades=_read(Trades, payload.get("trades")), bets=_read(Bets, payload.get("bets")))
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"expected a [reading] table as in docs/guides/recording.md, found: {error}") from None


def _read(kind: Any, payload: Mapping[str, Any] | None) -> Any:
    """Read a table whose nested tables are rules."""
    if payload is None:
        return None
    return kind(
        **{name: EventRule.read(value) if isinstance(value, Mapping) else value for name, value in payload.items()}
    )


@dataclass(frozen=True)
class ButtonEvent:
    """One press, with what was known when it happened and, once known, what it led to."""

    ts: datetime
    server_ts: datetime | None
    button_id: str
    button_category: str
    tick: int | None
    price: float | None
    game_phase: int | None
    game_id: str | None
    balance: int | None
    """In the game's smallest unit, as `position_qty` and `bet_amount` are."""
    position_qty: int | None
    bet_amount: int | None
    ticks_since_last_action: int | None
    sequence_id: int
    sequence_position: int
    execution_tick: int | None = None
    execution_price: float | None = None
    trade_id: str | None = None
    client_timestamp: float | None = None
    latency_ms: float | None = None
    time_in_position: int | None = None


@dataclass(frozen=True)
class ActionSequence:
    """The presses that lead to one action, and what became of it."""

    session_id: str
    sequence_id: int
    player_id: str | None
    presses: tuple[ButtonEvent, ...]
    final_action: str
    """The action button, or INCOMPLETE."""
    outcome: Outcome | None = None
    """None while nothing is known: not answered, or nothing to come."""
    entry_price: float | None = None
    exit_price: float | None = None
    pnl: int | None = None
    rug_tick: int | None = None

    def to_json(self) -> Json:
        """Give the sequence as a record, presses included."""
        return asdict(self)


_COPIED = ("tick", "price", "game_phase", "position_qty", "bet_amount", "ticks_since_last_action", "time_in_position")


def read_press(event: Event, reading: PressRules) -> ButtonEvent | None:
    """Read a press from its event; None if it is none."""
    payload: Mapping[str, Any] = event.columns
    if event.doc_type != "button_event" or event.event_name != reading.press or "sequence_id" not in payload:
        return None
    return ButtonEvent(
        ts=event.ts,
        server_ts=event.server_ts,
        button_id=payload.get("button_id", ""),
        button_category=payload.get("button_category", ""),
        game_id=event.window_id,
        balance=payload.get(reading.balance),
        sequence_id=payload["sequence_id"],
        sequence_position=payload.get("sequence_position", 0),
        client_timestamp=payload.get("client_timestamp"),
        **{name: payload.get(name) for name in _COPIED},
    )


@dataclass
class _Lot:
    """What one buy holds."""

    sequence: int | None
    trade_id: str | None
    qty: int
    left: int
    cost: int
    price: float
    proceeds: int = 0
    sold_at: float = 0.0
    """Sum of price times quantity over its sales."""
    forced: bool = False


@dataclass
class _Bet:
    sequence: int | None
    trade_id: str | None
    stake: int


class Sequences:
    """Join one session's events, in their order, into sequences of presses with outcomes."""

    def __init__(self, reading: PressRules) -> None:
        self._reading = reading
        self._presses: list[ButtonEvent] = []
        """Of the sequence that is open."""
        self._of: tuple[str, str | None] = ("", None)
        self._known: dict[int, ActionSequence] = {}
        self._unfilled: list[int] = []
        """Sequences whose order was taken and whose fill was not seen yet, the oldest first."""
        self._fills: dict[str, Event] = {}
        """Own fills that no answer has named yet, by the id of the trade."""
        self._lots: list[_Lot] = []
        self._gains: dict[str, tuple[int, float | None]] = {}
        """What each sale of this window brought above its cost, and the average entry, by the id of the trade."""
        self._bet: _Bet | None = None
        self._windows: deque[str | None] = deque(maxlen=64)

    def take(self, event: Event) -> Iterator[ActionSequence]:
        """Take one event; give the sequences of which it made more known."""
        if event.event_name.startswith(NOTE):
            return
        press = read_press(event, self._reading)
        yield from self._cut(event, press)
        if press is not None:
            yield from self._press(event, press)
        elif event.event_name == self._reading.answer and event.player_id is not None:
            yield from self._answer(event)
        elif event.doc_type == "complete_game":
            yield from self._finish_window(event)
        elif event.player_id is not None:
            yield from self._money(event)

    def end(self) -> Iterator[ActionSequence]:
        """End the sequence that is open."""
        if self._presses:
            yield self._close(INCOMPLETE)

    def _cut(self, event: Event, press: ButtonEvent | None) -> Iterator[ActionSequence]:
        """End the open sequence where too much time has passed or the window has changed."""
        moved = event.doc_type == "game_tick" and event.window_id not in self._windows
        if self._presses:
            last = self._presses[-1]
            other = press is not None and press.sequence_id != last.sequence_id
            if moved or other or event.ts - last.ts > PRESS_PAUSE:
                yield self._close(INCOMPLETE)
        if moved:
            self._windows.append(event.window_id)
            self._lots, self._unfilled, self._fills, self._gains = [], [], {}, {}

    def _press(self, event: Event, press: ButtonEvent) -> Iterator[ActionSequence]:
        self._of = (event.session_id, event.player_id)
        self._presses.append(press)
        if press.button_category == ACTION:
            yield self._close(press.button_id)

    def _close(self, final: str) -> ActionSequence:
        presses, self._presses = tuple(self._presses), []
        made = ActionSequence(self._of[0], presses[0].sequence_id, self._of[1], presses, final)
        return self._keep(made)

    def _keep(self, sequence: ActionSequence) -> ActionSequence:
        self._known[sequence.sequence_id] = sequence
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return sequence

    def _answer(self, event: Event) -> Iterator[ActionSequence]:
        """Fill in what the answer to an order tells of the sequence that led to it."""
        payload: Mapping[str, Any] = event.columns
        result = self._known.get(payload.get("sequence_id", -1))
        if result is None:
            return
        if not payload.get("success"):
            yield self._keep(replace(_executed(result, payload), outcome="refused"))
            return
        self._keep(replace(_executed(result, payload), outcome="pending"))
        fill = self._fills.pop(str(payload.get("trade_id")), None)
        if fill is None:
            self._unfilled.append(result.sequence_id)
            yield self._known[result.sequence_id]
        else:
            yield from self._assign(result.sequence_id, fill)

    def _money(self, event: Event) -> Iterator[ActionSequence]:
        """Take a fill or a settlement of the player's own."""
        trades, bets = self._reading.trades, self._reading.bets
        if trades and trades.buy.holds(event):
            yield from self._opened(event)
        elif trades and trades.sell.holds(event):
            yield from self._sold(event, trades)
        elif bets and bets.placed.holds(event):
            yield from self._opened(event)
        elif bets and bets.settled.holds(event):
            yield from self._settled(event, bets)

    def _opened(self, event: Event) -> Iterator[ActionSequence]:
        """Take a buy or a bet: it belongs to the answered order that waits for it, or to one still to be answered."""
        trades, bets = self._reading.trades, self._reading.bets
        payload: Mapping[str, Any] = event.columns
        trade_id = payload.get("trade_id")
        if trades and trades.buy.holds(event):
            qty = payload.get(trades.qty) or 0
            self._lots.append(
                _Lot(None, trade_id, qty, qty, payload.get(trades.amount) or 0, payload.get(trades.price) or 0)
            )
        elif bets:
            self._bet = _Bet(None, trade_id, payload.get(bets.stake) or 0)
        yield from self._match(event)

    def _match(self, event: Event) -> Iterator[ActionSequence]:
        """Give a fill to the sequence whose taken order waits for it, else keep it for the answer to come."""
        for number in self._unfilled:
            if self._fits(number, event):
                self._unfilled.remove(number)
                yield from self._assign(number, event)
                return
        self._fills[str(event.columns.get("trade_id"))] = event
        if len(self._fills) > KEPT:
            del self._fills[next(iter(self._fills))]

    def _fits(self, number: int, event: Event) -> bool:
        """Tell whether a fill can be what an answered order asked for."""
        result = self._known.get(number)
        trade_id = result.presses[-1].trade_id if result else None
        if result is None or (trade_id is not None and trade_id != event.columns.get("trade_id")):
            return False
        return result.final_action == self._button_of(event)

    def _button_of(self, event: Event) -> str | None:
        """Name the action button that a fill follows."""
        trades, bets = self._reading.trades, self._reading.bets
        if trades and trades.buy.holds(event):
            return trades.buy_button
        if trades and trades.sell.holds(event):
            return trades.sell_button
        return bets.button if bets and bets.placed.holds(event) else None

    def _assign(self, number: int, fill: Event) -> Iterator[ActionSequence]:
        """Join a fill to its sequence."""
        payload: Mapping[str, Any] = fill.columns
        trade_id, trades = payload.get("trade_id"), self._reading.trades
        executed = self._known[number]
        if trades and (trades.buy.holds(fill) or trades.sell.holds(fill)):
            payload = {**payload, "execution_tick": payload.get("tick"), "execution_price": payload.get(trades.price)}
            executed = _executed(executed, payload)
        for lot in self._lots:
            if lot.trade_id == trade_id and lot.sequence is None:
                lot.sequence = number
                executed = replace(executed, entry_price=lot.price)
        if self._bet and self._bet.trade_id == trade_id:
            self._bet.sequence = number
            executed = replace(executed, entry_price=executed.presses[-1].execution_price)
        if trades and trades.sell.holds(fill):
            pnl, entry = self._gains.get(str(trade_id), (0, None))
            exit_price = payload.get(trades.price)
            executed = replace(executed, outcome=_result(pnl), entry_price=entry, exit_price=exit_price, pnl=pnl)
        yield self._keep(executed)

    def _sold(self, event: Event, trades: Trades) -> Iterator[ActionSequence]:
        """Close lots, the first in first, and tell what came of the presses that opened them."""
        payload: Mapping[str, Any] = event.columns
        qty, amount, forced = (
            payload.get(trades.qty) or 0,
            payload.get(trades.amount) or 0,
            bool(payload.get(trades.forced)),
        )
        price, cost_of_sale, bought_at, left = payload.get(trades.price), 0, 0.0, qty
        for lot in list(self._lots):
            part = min(lot.left, left)
            cost_of_sale += lot.cost * lot.left // lot.qty - lot.cost * (lot.left - part) // lot.qty if lot.qty else 0
            share = amount * left // qty - amount * (left - part) // qty if qty else 0
            lot.left, lot.proceeds, left = lot.left - part, lot.proceeds + share, left - part
            lot.sold_at, bought_at = lot.sold_at + (price or 0.0) * part, bought_at + lot.price * part
            lot.forced |= forced and part > 0
            if lot.left == 0:
                self._lots.remove(lot)
                yield from self._lot_done(lot)
            if left == 0:
                break
        if not forced:
            self._gains[str(payload.get("trade_id"))] = (amount - cost_of_sale, bought_at / qty if qty else None)
            yield from self._match(event)

    def _lot_done(self, lot: _Lot) -> Iterator[ActionSequence]:
        """Tell what came of a buy that is sold whole."""
        result = self._known.get(lot.sequence) if lot.sequence is not None else None
        if result is not None:
            pnl = lot.proceeds - lot.cost
            outcome: Outcome = "rugged" if lot.forced else _result(pnl)
            average = lot.sold_at / lot.qty if lot.qty else None
            yield self._keep(replace(result, outcome=outcome, exit_price=average, pnl=pnl))

    def _settled(self, event: Event, bets: Bets) -> Iterator[ActionSequence]:
        bet, self._bet = self._bet, None
        result = self._known.get(bet.sequence) if bet and bet.sequence is not None else None
        if bet is not None and result is not None:
            paid: Any = event.columns.get(bets.paid) or 0
            yield self._keep(replace(result, outcome="won" if paid > 0 else "lost", pnl=paid - bet.stake))

    def _finish_window(self, event: Event) -> Iterator[ActionSequence]:
        """Tell every action of a window where the window ended."""
        end: Any = event.columns.get(self._reading.end_tick)
        for result in list(self._known.values()):
            mine = result.presses[-1].game_id == event.window_id is not None
            if mine and result.final_action != INCOMPLETE and result.rug_tick != end:
                yield self._keep(replace(result, rug_tick=end))


def _result(pnl: int) -> Outcome:
    return "profit" if pnl > 0 else "loss" if pnl < 0 else "break_even"


def _executed(sequence: ActionSequence, payload: Mapping[str, Any]) -> ActionSequence:
    """Fill in the execution of a sequence's action; what is known already stays."""
    last = sequence.presses[-1]
    names = ("execution_tick", "execution_price", "trade_id", "latency_ms")
    new = {name: payload[name] for name in names if getattr(last, name) is None and payload.get(name) is not None}
    return replace(sequence, presses=(*sequence.presses[:-1], replace(last, **new)))


def action_sequences(events: Iterable[Event], reading: PressRules) -> tuple[ActionSequence, ...]:
    """Give the sequences of stored events of one session, each with all that became known of it."""
    join, result = Sequences(reading), dict[int, ActionSequence]()
    for event in events:
        result |= {sequence.sequence_id: sequence for sequence in join.take(event)}
    result |= {sequence.sequence_id: sequence for sequence in join.end()}
    return tuple(result.values())


def button_events(events: Iterable[Event], reading: PressRules) -> tuple[ButtonEvent, ...]:
    """Give the presses of stored events of one session, with what they led to."""
    return tuple(press for sequence in action_sequences(events, reading) for press in sequence.presses)
