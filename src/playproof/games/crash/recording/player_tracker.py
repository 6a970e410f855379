"""Follow the recorded player: presses, orders and their answers, fills, sidebets, money.

A press belongs to the last tick received before it, and so does a playerUpdate, which names neither
round nor tick. Presses that lead to one action are a sequence: it ends on an action button, after
5 s without a press, or when the round changes. An order that follows its button is the press's
doing and carries its sequence; an order by itself is a choice of its own (actions).
Leaves out: rounds (rounds) and everybody else (decode).

One recording is one player. He is called by the id that the feed told before his first own fact,
else "player"; what the feed tells of another player's money is not read as his.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from playproof.events import Value
from playproof.game import PRESS_PAUSE, Fact
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.json_fields import (
    to_amount,
    to_flag,
    to_id,
    to_moment,
    to_number,
    to_record,
    to_text,
    to_whole,
)
from playproof.games.crash.recording.round_tracker import MAX_PRICE, RoundTracker
from playproof.games.crash.rules.actions import ADJUSTMENTS, CATEGORIES, FULL_SHARE, PERCENTAGES, adjusted, button_named
from playproof.games.crash.rules.money import MIN_BET
from playproof.games.crash.server.protocol import BET, BUY, SELL, TOP_UP

NAMELESS = "player"
KEPT_ORDERS = 64
MAX_MS = 1e15
_OWN_ORDER_IDS = 10**9
"""Above every id that a client's acknowledgements use."""
ORDER_KINDS: Mapping[str, str] = {BUY: "BUY", SELL: "SELL", BET: "SIDEBET", TOP_UP: "TOP_UP"}
_FILLED_BY: Mapping[str, str] = {"buy": "BUY", "sell": "SELL"}


@dataclass
class Sequence:
    """The presses that lead to one action."""

    number: int
    position: int
    last: datetime
    open: bool = True


@dataclass(frozen=True)
class PendingPress:
    """An action button whose order was not seen yet."""

    button: str
    ts: datetime
    sequence: int
    client_timestamp: float | None


@dataclass
class PendingOrder:
    """An order that was not answered yet."""

    kind: str
    ts: datetime
    pressed: PendingPress | None
    execution: dict[str, Value] = field(default_factory=dict)
    """Tick, price and trade of its fill, once seen."""


class PlayerTracker:
    """What one recorded player did and was told."""

    def __init__(self, rounds: RoundTracker) -> None:
        self.rounds = rounds
        self.name: str | None = None
        """Who the feed says he is."""
        self.cash: int | None = None
        self.qty = 0
        self.bet: int | None = MIN_BET
        self.share = FULL_SHARE
        self.entry_tick = 0
        self.action_tick = 0
        self._told: tuple[str | None, dict[str, Value]] | None = None
        self._fixed: str | None = None
        self._round: str | None = None
        self._sequence: Sequence | None = None
        self._sequences = 0
        self._pressed: PendingPress | None = None
        self._sent: dict[int, PendingOrder] = {}
        self._own_ids = 0

    def _own(self, name: str, columns: Mapping[str, Value], server_ts: datetime | None = None) -> Fact:
        """Make an own fact of the current round."""
        return c.fact(name, columns, self.rounds.current_id, self.player_id, server_ts)

    @property
    def player_id(self) -> str:
        """Give what the player is called in this recording; fixed from the first time on."""
        self._fixed = self._fixed or self.name or NAMELESS
        return self._fixed

    def _here(self) -> dict[str, Value]:
        return self.rounds.current.here if self.rounds.current else {}

    def _tick(self) -> int:
        return self.rounds.current.newest[1] if self.rounds.current and self.rounds.current.newest else 0

    def follow(self) -> None:
        """Forget what belonged to the last round, if there is a new one: no position is held, all would be sold."""
        if self.rounds.current_id == self._round:
            return
        self._round = self.rounds.current_id
        self.share, self.qty, self.entry_tick, self.action_tick = FULL_SHARE, 0, 0, 0
        self._sequence = self._pressed = None

    def is_own(self, player: str | None) -> bool:
        """Tell whether an id is the recorded player's."""
        return player is not None and player == self.name

    def take_identity(self, value: object) -> Iterator[Fact]:
        """Learn who the recorded player is, once."""
        name = to_id(value)
        if name is not None and self.name is None:
            self.name = name
            yield self._own(c.IDENTITY, {"trader": name})

    def take_player(self, payload: Mapping[str, object]) -> Iterator[Fact]:
        """Read a playerUpdate; another player's is not read, nor one that says the same at the same tick."""
        fields = payload.get("id")
        yield from self.take_identity(fields)
        cash = to_amount(payload.get("cash"))
        if cash is None or (fields is not None and not self.is_own(to_id(fields))):
            return
        qty, bet = to_amount(payload.get("positionQty")), to_record(payload.get("sideBet"))
        self.cash = cash
        if qty is not None:
            self.entry_tick = self._tick() if self.qty == 0 < qty else self.entry_tick
            self.qty = qty
        columns: dict[str, Value] = {
            **self._here(),
            "cash": cash,
            "position_qty": qty,
            "avg_cost": to_amount(payload.get("avgCost")),
            "cumulative_pnl": to_amount(payload.get("cumulativePnL"), signed=True),
            "total_invested": to_amount(payload.get("totalInvested")),
            "sidebet_pnl": to_amount(payload.get("sidebetPnl"), signed=True),
            "sidebet_stake": to_amount(bet.get("betAmount", 0)),
            "sidebet_end_tick": to_whole(bet.get("end", 0)),
        }
        if (self.rounds.current_id, columns) != self._told:
            self._told = (self.rounds.current_id, columns)
            yield self._own(c.PLAYER, columns)

    def take_press(self, payload: Mapping[str, object], ts: datetime) -> Iterator[Fact]:
        """Read a press: button_id, and if the page says them client_timestamp and bet_amount."""
        button = button_named(payload.get("button_id"))
        if button is None:
            return
        category, sequence = CATEGORIES[button], self._next_in_sequence(ts)
        self._adjust(button, to_amount(payload.get("bet_amount")))
        columns: dict[str, Value] = {
            **self._here(),
            "button_id": button,
            "button_category": category,
            "cash": self.cash,
            "position_qty": self.qty,
            "bet_amount": self.bet,
            "sell_share": self.share,
            "ticks_since_last_action": max(0, self._tick() - self.action_tick),
            "time_in_position": max(0, self._tick() - self.entry_tick) if self.qty else 0,
            "sequence_id": sequence.number,
            "sequence_position": sequence.position,
            "client_timestamp": to_number(payload.get("client_timestamp"), MAX_MS),
        }
        if category == "action":
            sequence.open, self.action_tick = False, self._tick()
            self._pressed = PendingPress(
                button, ts, sequence.number, to_number(payload.get("client_timestamp"), MAX_MS)
            )
        yield self._own(c.PRESS, columns)

    def _next_in_sequence(self, ts: datetime) -> Sequence:
        """Go on with the open sequence, or begin the next."""
        last = self._sequence
        if last is not None and last.open and ts - last.last <= PRESS_PAUSE:
            last.position, last.last = last.position + 1, ts
            return last
        self._sequences += 1
        self._sequence = Sequence(self._sequences - 1, 0, ts)
        return self._sequence

    def _adjust(self, button: str, index: int | None) -> None:
        """Bring the bet field and the share up to date; what the page says stands."""
        if button in PERCENTAGES:
            self.share = PERCENTAGES[button]
        if index is not None:
            self.bet = index
        elif button == "MAX":
            self.bet = self.cash
        elif button == "CLEAR":
            self.bet = 0
        elif button in ADJUSTMENTS and self.bet is not None:
            self.bet = adjusted(self.bet, 0, button)

    def take_order(
        self, event: str, payload: Mapping[str, object], order_id: int | None, ts: datetime
    ) -> Iterator[Fact]:
        """Read an order that was sent."""
        kind, pressed = ORDER_KINDS[event], self._pressed
        if pressed is None or pressed.button != kind or not timedelta(0) <= ts - pressed.ts <= PRESS_PAUSE:
            pressed = None
        else:
            self._pressed = None
        if pressed is None and kind in CATEGORIES:
            self.action_tick = self._tick()
        if order_id is not None:
            self._sent[order_id] = PendingOrder(kind, ts, pressed)
            if len(self._sent) > KEPT_ORDERS:
                del self._sent[next(iter(self._sent))]
        columns: dict[str, Value] = {
            **self._here(),
            "order_kind": kind,
            "order_id": order_id,
            "order_amount": to_amount(payload.get("amount")),
            "order_share": to_whole(payload.get("percentage"), 100),
            "sequence_id": pressed.sequence if pressed else None,
        }
        yield self._own(c.ORDER, columns)

    def new_order_id(self) -> int:
        """Give an id for an order of which the recording keeps none."""
        self._own_ids += 1
        return _OWN_ORDER_IDS + self._own_ids

    def take_ack(self, order_id: int | None, body: Mapping[str, object], ts: datetime) -> Iterator[Fact]:
        """Read the answer to an order; of what was not ordered nothing is read."""
        success = to_flag(body.get("success"))
        if order_id is None or order_id not in self._sent or success is None:
            return
        sent = self._sent.pop(order_id)
        pressed = sent.pressed
        late_by = (ts - (pressed.ts if pressed else sent.ts)) / timedelta(milliseconds=1)
        columns: dict[str, Value] = {
            **self._here(),
            "order_kind": sent.kind,
            "order_id": order_id,
            "success": success,
            "reason": to_text(body.get("reason")),
            "latency_ms": late_by if 0 <= late_by < MAX_MS else None,
            "client_timestamp": pressed.client_timestamp if pressed else None,
            "sequence_id": pressed.sequence if pressed else None,
            **(self._execution(sent, body) if success else {}),
        }
        yield self._own(c.ACK, columns, to_moment(body.get("timestamp")))

    def _execution(self, sent: PendingOrder, body: Mapping[str, object]) -> dict[str, Value]:
        """Tell where an order was carried out: as its fill says, else at the last tick received."""
        price = to_number(body.get("executedPrice"), MAX_PRICE)
        if sent.execution or price is None:
            return sent.execution
        return {"execution_tick": self._tick(), "execution_price": price}

    def _executed(self, kind: str | None, execution: dict[str, Value]) -> None:
        """Note the fill with the oldest order that it can be of."""
        for sent in self._sent.values():
            if sent.kind == kind and not sent.execution:
                sent.execution = execution
                return

    def take_fill(self, columns: dict[str, Value], window_id: str | None) -> Fact:
        """Tell an own trade; the sale at the rug is nobody's order."""
        forced = columns["trade_type"] == "sell" and self._rugged(window_id, columns["tick"])
        if not forced:
            self._executed(
                _FILLED_BY.get(str(columns["trade_type"])),
                {
                    "execution_tick": columns["tick"],
                    "execution_price": columns["trade_price"],
                    "trade_id": columns["trade_id"],
                },
            )
        return c.fact(c.FILL, {**columns, "forced": forced}, window_id, self.player_id)

    def _rugged(self, window_id: str | None, tick: Value) -> bool:
        """Tell whether a round had rugged at a tick, as far as was received."""
        kept = self.rounds.kept.get(window_id) if window_id else None
        return kept is not None and kept.rug_tick is not None and isinstance(tick, int) and tick >= kept.rug_tick

    def take_bet(self, columns: dict[str, Value], window_id: str | None, server_ts: datetime | None) -> Fact:
        """Tell an own sidebet, placed or settled."""
        if columns["sidebet_type"] == "placed":
            self._executed(
                "SIDEBET",
                {
                    "execution_tick": columns["sidebet_start_tick"],
                    "execution_price": self._here().get("price"),
                    "trade_id": columns["trade_id"],
                },
            )
        return c.fact(c.BET, columns, window_id, self.player_id, server_ts)
