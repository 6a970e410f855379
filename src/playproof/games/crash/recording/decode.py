"""From the frames of one recording to facts: Engine.IO and Socket.IO text in, what happened out.

A frame is read or it is not: any bytes are taken, nothing raises, and what is not the game's gives
no fact. Presses are frames of the page, not of the socket: direction "none" and a JSON object
{"button_id": ..., "client_timestamp": ms?, "bet_amount": decimal?}.
Leaves out: rounds (rounds), the recorded player (hand), and what the facts mean (columns).

Money is read from the decimal text; amounts that are no player's money stay floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from playproof.errors import DecodeError
from playproof.events import Value
from playproof.game import Fact
from playproof.game import Frame as RawFrame
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.json_fields import to_amount, to_id, to_moment, to_number, to_record, to_whole
from playproof.games.crash.recording.player_tracker import ORDER_KINDS, PlayerTracker
from playproof.games.crash.recording.round_tracker import MAX_PRICE, MAX_TICK, RecentKeys, RoundTracker
from playproof.games.crash.rules.windows import is_window
from playproof.games.crash.server.protocol import (
    MAX_FRAME,
    PLAYER,
    PLAYER_STATE,
    RANK,
    SESSION,
    SIDEBET,
    SIDEBET_RESULT,
    STATE,
    TRADE,
    USERNAME,
    parse_frame,
    payload_of,
    read_json,
)

TRADE_TYPES = ("buy", "sell", "short_open", "short_close")
SIDEBET_TYPES = ("placed", "payout")
KEPT_TRADES = 4096
"""Ids of trades and sidebets that are remembered, to tell each once."""


def decoder() -> CrashDecoder:
    """Make a decoder for one recording."""
    return CrashDecoder()


def text_of(frame: RawFrame) -> str | None:
    """Give a frame's text; None if it has none, or too much of it."""
    if len(frame.payload) > MAX_FRAME:
        return None
    if isinstance(frame.payload, str):
        return frame.payload
    try:
        return frame.payload.decode()
    except UnicodeDecodeError:
        return None


def read_trade(payload: Mapping[str, object]) -> dict[str, Value] | None:
    """Read a standard/newTrade; None if it does not say what was traded for how much."""
    kind, amount = payload.get("type"), to_amount(payload.get("amount"))
    if not isinstance(kind, str) or kind not in TRADE_TYPES or amount is None:
        return None
    return {
        "tick": to_whole(payload.get("tickIndex"), MAX_TICK),
        "trade_id": to_id(payload.get("id")),
        "trader": to_id(payload.get("playerId")),
        "trader_level": to_whole(payload.get("level")),
        "trade_type": kind,
        "trade_price": to_number(payload.get("price"), MAX_PRICE),
        "trade_qty": to_amount(payload.get("qty")),
        "trade_amount": amount,
        "leverage": to_number(payload.get("leverage")),
        "coin": to_id(payload.get("coin")),
    }


def read_sidebet(payload: Mapping[str, object]) -> dict[str, Value] | None:
    """Read a currentSidebet or its result; None if it does not say what was staked."""
    kind, stake = payload.get("type"), to_amount(payload.get("betAmount"))
    if not isinstance(kind, str) or kind not in SIDEBET_TYPES or stake is None:
        return None
    return {
        "tick": to_whole(payload.get("tickIndex"), MAX_TICK),
        "trade_id": to_id(payload.get("id")),
        "trader": to_id(payload.get("playerId")),
        "sidebet_type": kind,
        "sidebet_stake": stake,
        "sidebet_start_tick": to_whole(payload.get("startTick"), MAX_TICK),
        "sidebet_end_tick": to_whole(payload.get("endTick"), 2 * MAX_TICK),
        "sidebet_payout": to_amount(payload.get("payout")),
        "payout_multiple": to_number(payload.get("xPayout")),
    }


class CrashDecoder:
    """Read one recording's frames in their order; a callable as the Game record wants it."""

    def __init__(self) -> None:
        self.rounds = RoundTracker()
        self.hand = PlayerTracker(self.rounds)
        self._told = RecentKeys(KEPT_TRADES)
        self._readers: Mapping[str, Callable[[Mapping[str, object]], Iterator[Fact]]] = {
            STATE: self._take_state,
            TRADE: self._take_trade,
            SIDEBET: self._take_sidebet,
            SIDEBET_RESULT: self._take_sidebet,
            PLAYER: self.hand.take_player,
            PLAYER_STATE: self._take_player_state,
            USERNAME: lambda payload: self.hand.take_identity(payload.get("id")),
            RANK: lambda payload: self.hand.take_identity(payload.get("playerId")),
            SESSION: lambda payload: self.hand.take_identity(payload.get("playerId")),
        }

    def __call__(self, frame: RawFrame) -> tuple[Fact, ...]:
        """Give the facts of one frame."""
        text = text_of(frame)
        if text is None:
            return ()
        try:
            if frame.direction == "none" and text.startswith("{"):
                return tuple(self.hand.take_press(to_record(read_json(text, nan=False)), frame.ts))
            return tuple(self._read(text, frame.direction == "sent", frame.ts))
        except DecodeError:
            return ()

    def take_message(self, name: str, payload: object) -> tuple[Fact, ...]:
        """Give the facts of a received event whose payload is read already."""
        read = self._readers.get(name)
        return tuple(read(to_record(payload))) if read is not None else ()

    def _read(self, text: str, sent: bool, ts: datetime) -> Iterator[Fact]:
        """Read a frame of the socket."""
        frame = parse_frame(text)
        payload = to_record(payload_of(frame.arguments))
        if frame.kind == "event" and sent and frame.event in ORDER_KINDS:
            yield from self.hand.take_order(frame.event, payload, frame.ack_id, ts)
        elif frame.kind == "event" and not sent and frame.event in self._readers:
            yield from self._readers[frame.event](payload)
        elif frame.kind == "ack" and not sent:
            yield from self.hand.take_ack(frame.ack_id, payload, ts)

    def _take_state(self, payload: Mapping[str, object]) -> Iterator[Fact]:
        yield from self.rounds.take(payload)
        self.hand.follow()

    def _take_player_state(self, payload: Mapping[str, object]) -> Iterator[Fact]:
        yield from self.hand.take_identity(to_record(payload.get("leaderboardEntry")).get("id"))
        yield from self.rounds.take_rugpool(payload)

    def _take_trade(self, payload: Mapping[str, object]) -> Iterator[Fact]:
        trade, game_id = read_trade(payload), payload.get("gameId")
        if trade is None or not isinstance(game_id, str) or not is_window(game_id) or not self._is_new(trade):
            return
        window_id = self._held(game_id, trade)
        if self.hand.is_own(to_id(payload.get("playerId"))):
            yield self.hand.take_fill(trade, window_id)
        else:
            yield c.fact(c.TRADE, trade, window_id)

    def _take_sidebet(self, payload: Mapping[str, object]) -> Iterator[Fact]:
        sidebet, game_id = read_sidebet(payload), payload.get("gameId")
        if sidebet is None or not isinstance(game_id, str) or not is_window(game_id) or not self._is_new(sidebet):
            return
        window_id, moment = self._held(game_id, sidebet), to_moment(payload.get("timestamp"))
        if self.hand.is_own(to_id(payload.get("playerId"))):
            yield self.hand.take_bet(sidebet, window_id, moment)
        else:
            yield c.fact(c.SIDEBET, sidebet, window_id, None, moment)

    def _is_new(self, payload: Mapping[str, Value]) -> bool:
        """Tell whether a trade or sidebet was not told yet; without an id there is no knowing, and it is kept."""
        identity = payload["trade_id"]
        return identity is None or self._told.add((identity, payload.get("sidebet_type")))

    def _held(self, game_id: str, payload: dict[str, Value]) -> str | None:
        """Give the window of a trade; one of a round that the recording does not hold has none and names it."""
        if game_id in self.rounds.kept:
            return game_id
        payload["game_id"] = game_id
        return None
