"""Read a user's own events, in whatever form they were kept, as the events of the product.

An event is a dict with a name and a payload (`{"event_name": ..., "data": {...}}`), a flat dict
(`{"game_id": ..., "tick": ..., "price": ..., "rugged": ...}`), a press (`{"button_id": ...}`), or an `Event` of the
store. Names are taken in any spelling: `tickCount`, `tick_count`, `tick`. What a message leaves out keeps its last
value; what is no event of the game is read as nothing. The game's own decoder does the reading.
Leaves out: files (files), features (observation) and money (training).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from playproof.errors import InputError
from playproof.events import Direction, Event
from playproof.game.types import Frame
from playproof.games.crash.recording.decode import CrashDecoder
from playproof.games.crash.recording.json_fields import to_moment
from playproof.games.crash.recording.player_tracker import ORDER_KINDS
from playproof.games.crash.rules.actions import LABELS, button_named
from playproof.games.crash.rules.windows import Phase, window_named
from playproof.games.crash.server.protocol import (
    BET,
    BUY,
    PLAYER,
    PLAYER_STATE,
    RANK,
    SELL,
    SESSION,
    SIDEBET,
    SIDEBET_RESULT,
    STATE,
    TRADE,
    USERNAME,
    event_frame,
)
from playproof.json_types import Json

UserEvent = Mapping[str, Any] | Event
"""An event as users have it."""

PRESS = "press"
UNNAMED = "unnamed"
"""The round of events that name none."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 1e15
_SECONDS_END = 1e11
"""Times above are milliseconds since 1970, others seconds."""

_STATE_NAMES: Mapping[str, str] = {
    "gameid": "gameId",
    "tick": "tickCount",
    "tickcount": "tickCount",
    "price": "price",
    "active": "active",
    "rugged": "rugged",
    "allowpreroundbuys": "allowPreRoundBuys",
    "cooldowntimer": "cooldownTimer",
    "cooldowntimerms": "cooldownTimer",
    "connectedplayers": "connectedPlayers",
    "tradecount": "tradeCount",
    "averagemultiplier": "averageMultiplier",
    "count2x": "count2x",
    "count10x": "count10x",
    "count50x": "count50x",
    "count100x": "count100x",
    "highesttoday": "highestToday",
}
_RUGPOOL_NAMES: Mapping[str, str] = {
    "rugpoolamount": "rugpoolAmount",
    "amount": "rugpoolAmount",
    "rugpoolthreshold": "threshold",
    "threshold": "threshold",
    "instarugcount": "instarugCount",
}
_PLAYER_NAMES: Mapping[str, str] = {
    "cash": "cash",
    "balance": "cash",
    "positionqty": "positionQty",
    "avgcost": "avgCost",
    "avgentryprice": "avgCost",
    "cumulativepnl": "cumulativePnL",
    "totalinvested": "totalInvested",
    "sidebetpnl": "sidebetPnl",
}
_PRESS_NAMES: Mapping[str, str] = {
    "buttonid": "button_id",
    "button": "button_id",
    "betamount": "bet_amount",
    "clienttimestamp": "client_timestamp",
}
_FLAGS = ("active", "rugged", "allowPreRoundBuys")
_WHOLE = ("tickCount", "cooldownTimer", "connectedPlayers", "tradeCount", "threshold", "instarugCount")
_RUGPOOL = ("rugpoolAmount", "threshold", "instarugCount")
_SESSION = ("averageMultiplier", "count2x", "count10x", "count50x", "count100x")
_MONEY = ("cash", "positionQty", "avgCost", "cumulativePnL", "totalInvested")
GROUPS = (_RUGPOOL, _SESSION, _MONEY)
"""Fields that the product knows together or not at all; a user's event may tell some of them."""

_EVENTS: Mapping[str, str] = {
    name.replace("_", "").lower(): name
    for name in (STATE, TRADE, PLAYER, PLAYER_STATE, SIDEBET, SIDEBET_RESULT, USERNAME, RANK, SESSION, BUY, SELL, BET)
} | {
    **dict.fromkeys(("", "tick", "gametick", "gamestate", "state"), STATE),
    **dict.fromkeys(("press", "buttonpress", "buttonevent", "button"), PRESS),
}
"""Names of events in any spelling; one without a name is known by what it holds."""
_NAME_KEYS = ("event_name", "eventName", "event", "name")
_DATA_KEYS = ("data", "payload", "raw_json", "rawJson", "raw")
_TIME_KEYS = ("ts", "timestamp", "time")


def folded(name: str) -> str:
    """Give a name without regard to its spelling."""
    return name.replace("_", "").replace("-", "").lower()


def renamed(result: Mapping[str, Any], names: Mapping[str, str]) -> Json:
    """Give the values that have a known name, under it; None and NaN tell nothing."""
    return {
        names[folded(name)]: value
        for name, value in result.items()
        if folded(name) in names and value is not None and not (isinstance(value, float) and math.isnan(value))
    }


def time_of(event: UserEvent) -> datetime | None:
    """Give when an event could be known: an aware time, ISO text, or seconds or milliseconds since 1970."""
    if isinstance(event, Event):
        return event.ts
    result = next((event[key] for key in _TIME_KEYS if event.get(key) is not None), None)
    if isinstance(result, str):
        try:
            result = datetime.fromisoformat(result)
        except ValueError:
            return None
    if isinstance(result, datetime):
        return _utc(result)
    ms = _number(result)
    return None if ms is None else to_moment(ms if abs(ms) > _SECONDS_END else ms * 1000)


def _utc(result: datetime) -> datetime | None:
    """Give a time as aware UTC; one without a zone is read as UTC, one at the ends of the calendar not at all."""
    try:
        return result.astimezone(UTC) if result.tzinfo else result.replace(tzinfo=UTC)
    except (OverflowError, ValueError):
        return None


def round_of(event: UserEvent) -> str | None:
    """Give the id of the round that an event names itself, None if it names none."""
    if isinstance(event, Event):
        return event.window_id
    _, payload = named_payload(event)
    gameid = renamed(payload, {"gameid": "gameId"}).get("gameId") or renamed(event, {"gameid": "gameId"}).get("gameId")
    return str(gameid) if gameid is not None else None


def named_payload(event: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Give an event's protocol name, or an empty text, and what it tells."""
    name = next((str(event[key]) for key in _NAME_KEYS if event.get(key) is not None), "")
    data = next((event[key] for key in _DATA_KEYS if event.get(key) is not None), None)
    if isinstance(data, str | bytes):
        name, data = _unpacked(name, data if isinstance(data, str) else data.decode("utf-8", "replace"))
    if isinstance(data, list | tuple):  # a trace and the payload
        data = next((item for item in reversed(data) if isinstance(item, Mapping)), {})
    payload = data if isinstance(data, Mapping) else event
    if folded(name) in _EVENTS:
        known = _EVENTS[folded(name)]
        is_press = not name and any(
            folded(key) in ("buttonid", "button") and value is not None for key, value in payload.items()
        )
        return (PRESS if is_press else known), payload
    return name, payload


def _unpacked(name: str, text: str) -> tuple[str, Any]:
    """Read a payload that was kept as JSON text, or as a whole Socket.IO frame."""
    try:
        payload = json.loads(text.lstrip("0123456789") if text.startswith("42") else text)
    except ValueError:
        return name, {}
    if text.startswith("42") and isinstance(payload, list) and payload and isinstance(payload[0], str):
        return payload[0], payload[1:]
    return name, payload


class EventReader:
    """Read one player's events in their order; gives what the product knows of each."""

    def __init__(self, session_id: str = "events") -> None:
        self._decoder, self._session_id = CrashDecoder(), session_id
        self._seq, self._ts = 0, _EPOCH
        self._names: dict[str, str] = {}
        self._game_id = UNNAMED
        self._core: Json = {}
        self._carried: Json = {}
        self.fields_seen: set[str] = set()
        """Fields of GROUPS that were seen so far."""

    def take(self, event: UserEvent) -> tuple[Event, ...]:
        """Give the product's events for one of the user's; an Event is taken as it is."""
        if isinstance(event, Event):
            self.fields_seen.update(field for group in GROUPS for field in group)
            return (event,)
        self._ts = max(self._ts, time_of(event) or self._ts)
        return tuple(made for frame in self._frames(event) for made in self._decoded(frame))

    def _decoded(self, frame: Frame) -> Iterator[Event]:
        for fact in self._decoder(frame):
            own = self._names.get(fact.window_id or "", fact.window_id)
            yield replace(fact, window_id=own).event(self._ts, self._session_id, self._seq, direction=frame.direction)
            self._seq += 1

    def _frames(self, event: Mapping[str, Any]) -> Iterator[Frame]:
        """Give the frames by which the site would have told the same."""
        name, payload = named_payload(event)
        if name == PRESS:
            yield self._press(payload)
            return
        if name == STATE:
            yield from self._state(payload, event)
        if name == PLAYER or (name == STATE and payload is event):
            yield from self._player(payload)
        elif name not in (STATE, PLAYER):
            fields = _plain(payload) | self._window(payload)
            if name == PLAYER_STATE and isinstance(pool := payload.get("rugpool"), Mapping):
                fields["rugpool"] = self._group(_RUGPOOL, _values(renamed(pool, _RUGPOOL_NAMES)))
            yield self._frame(name, fields, "sent" if name in ORDER_KINDS else "received")

    def _frame(self, name: str, payload: Mapping[str, Any], direction: Direction = "received") -> Frame:
        return Frame(self._ts, event_frame(name, [payload], self._seq if direction == "sent" else None), direction)

    def _window(self, payload: Mapping[str, Any]) -> dict[str, str]:
        """Give the round that a payload names, under the name that the decoder takes."""
        gameid = renamed(payload, {"gameid": "gameId"}).get("gameId")
        return {} if gameid is None else {"gameId": self._named(str(gameid))}

    def _named(self, game_id: str) -> str:
        self._names[window_named(game_id)] = game_id
        return window_named(game_id)

    def _state(self, payload: Mapping[str, Any], event: Mapping[str, Any]) -> Iterator[Frame]:
        """Write a gameStateUpdate; a flat event without anything of one gives none."""
        values = _values(renamed(payload, _STATE_NAMES))
        pool = renamed(
            payload, {name: to for name, to in _RUGPOOL_NAMES.items() if name not in ("amount", "threshold")}
        )
        pool |= renamed(nested, _RUGPOOL_NAMES) if isinstance(nested := payload.get("rugpool"), Mapping) else {}
        phase = next((payload[key] for key in payload if folded(key) in ("phase", "gamephase")), None)
        if not values and not pool and phase is None:
            return
        self._follow(str(values.get("gameId") or round_of(event) or self._game_id))
        values = self._placed(_phased(values, phase))
        values |= self._group(_SESSION, values)
        if pool:
            values["rugpool"] = self._group(_RUGPOOL, _values(pool))
        kept = {key: _plain(payload[key]) for key in ("leaderboard", "gameHistory", "provablyFair") if key in payload}
        yield self._frame(STATE, kept | values | {"gameId": self._named(self._game_id)})

    def _follow(self, game_id: str) -> None:
        if game_id != self._game_id:
            self._game_id, self._core = game_id, {}

    def _placed(self, payload: Json) -> Json:
        """Give a price without a tick its tick: a new price while the round runs is the next tick's."""
        before = self._core
        moved = (
            "price" in payload
            and "tickCount" not in payload
            and payload["price"] != before.get("price", payload["price"])
        )
        if moved and (payload.get("active") or before.get("active")):
            payload["tickCount"] = before.get("tickCount", 0) + 1
        self._core = before | {name: payload[name] for name in ("price", "tickCount", "active") if name in payload}
        return payload

    def _group(self, group: Sequence[str], payload: Mapping[str, Any]) -> Json:
        """Give a whole group if one of its fields is given: the last value, or 0, for those that are not."""
        new = {name: payload[name] for name in group if name in payload}
        if not new:
            return {}
        self.fields_seen |= set(new)
        self._carried |= new
        return {name: self._carried.get(name, 0) for name in group}

    def _player(self, payload: Mapping[str, Any]) -> Iterator[Frame]:
        """Write a playerUpdate; money is rounded to the nine decimals that it has."""
        coins = _coins(renamed(payload, _PLAYER_NAMES))
        money = self._group(_MONEY, coins)
        if not money:
            return
        rest = {key: _plain(payload[key]) for key in ("id", "sideBet") if payload.get(key) is not None}
        yield self._frame(PLAYER, rest | coins | money)

    def _press(self, payload: Mapping[str, Any]) -> Frame:
        """Write the frame of a press."""
        fields = renamed(payload, _PRESS_NAMES)
        named = fields.pop("button_id", None)
        button = button_named(named)
        if button is None:
            raise InputError(f"expected a button, one of {', '.join(LABELS)}; found {named!r}")
        press: Json = {"button_id": button} | _coins(fields)
        return Frame(self._ts, json.dumps(press), "none")


def _phased(payload: Json, phase: object) -> Json:
    """Add what the flags leave open: a tick of a round that is not counting down is one of a running round."""
    code = _phase(phase)
    if code is not None:
        flags = {"rugged": code is Phase.RUGGED, "allowPreRoundBuys": code is Phase.PRESALE}
        return {**flags, "active": code >= Phase.ACTIVE, "cooldownTimer": int(code is Phase.COOLDOWN), **payload}
    waiting = payload.get("allowPreRoundBuys") or payload.get("cooldownTimer", 0) > 0
    if (
        "active" not in payload
        and not waiting
        and ("tickCount" in payload or "price" in payload or payload.get("rugged"))
    ):
        payload = {**payload, "active": True}
    return {"cooldownTimer": 0, **payload} if payload.get("active") else payload


def _phase(value: object) -> Phase | None:
    """Read a phase: its code, or a name that holds its word."""
    if isinstance(value, str) and not value.isdigit():
        words = {"RUG": Phase.RUGGED, "ACTIVE": Phase.ACTIVE, "PRESALE": Phase.PRESALE, "COOLDOWN": Phase.COOLDOWN}
        return next((phase for word, phase in words.items() if word in value.upper()), None)
    code = _number(value)
    return Phase(int(code)) if code in tuple(Phase) else None


def _values(result: Mapping[str, Any]) -> Json:
    """Give values as the feed would write them, those that are none left out."""
    read = {name: _value(name, value) for name, value in result.items()}
    return {name: value for name, value in read.items() if value is not None}


def _value(name: str, value: object) -> str | bool | float | None:
    if name == "gameId":
        return str(value)
    if name in _FLAGS:
        return value.lower() in ("true", "1") if isinstance(value, str) else bool(value)
    number = _number(value)
    return int(number) if number is not None and name in _WHOLE and number.is_integer() else number


def _number(result: Any) -> float | None:
    """Read a finite number, also one of numpy's or one in a text."""
    try:
        number = float(result)
    except (TypeError, ValueError):
        return None
    return number if abs(number) <= _LARGEST else None


def _coins(result: Mapping[str, Any]) -> dict[str, float]:
    """Read amounts, rounded to the nine decimals that money has."""
    return {name: round(number, 9) for name, value in result.items() if (number := _number(value)) is not None}


def _plain(result: Any) -> Any:
    """Give what JSON can hold of a value; NaN becomes None."""
    if isinstance(result, Mapping):
        return {str(name): _plain(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [_plain(value) for value in result]
    if isinstance(result, float):
        return result if math.isfinite(result) else None
    if isinstance(result, str | int | bool) or result is None:
        return result
    return result.item() if hasattr(result, "item") else str(result)
