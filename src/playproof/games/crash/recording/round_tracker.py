"""Follow the rounds of one recording from its gameStateUpdates, whatever arrives twice, late or not at all.

A missing field keeps its last value within one gameId; a new gameId starts at tick 0, price 1, not
active, not rugged. The tick of a round is known by (phase, tickCount): it is told once. What comes
after a later one, or after the next round's first message, is told as late and disturbs nothing.
Leaves out: everybody's trades (decode) and the recorded player (hand).

Memory is bounded: the last rounds, and the ids of those revealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from playproof.events import Value
from playproof.game import Fact
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.json_fields import (
    to_amount,
    to_flag,
    to_list,
    to_moment,
    to_number,
    to_record,
    to_text,
    to_whole,
)
from playproof.games.crash.rules.money import proceeds
from playproof.games.crash.rules.windows import is_window
from playproof.games.crash.server.protocol import COIN_ADDRESS, Phase, phase_of

KEPT_ROUNDS = 32
KEPT_REVEALED = 256
MAX_TICK = 9_999
"""No round is longer than 5000 ticks."""
MAX_PRICE = 1e9
MAX_TIMER = 86_400_000
MAX_HISTORY = MAX_ENTRIES = 100


class RecentKeys:
    """Remember the last so many keys."""

    def __init__(self, size: int) -> None:
        self._size, self._keys = size, dict[object, None]()

    def add(self, key: object) -> bool:
        """Take a key; tell whether it is new."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > self._size:
            del self._keys[next(iter(self._keys))]
        return True


Place = tuple[int, int]
"""Phase and tick: a round goes through them in this order."""

NEW_ROUND: Mapping[str, Any] = {"active": False, "rugged": False, "tickCount": 0, "price": 1.0}

_CORE: Mapping[str, Callable[[object], Any]] = {
    "active": to_flag,
    "rugged": to_flag,
    "allowPreRoundBuys": to_flag,
    "tickCount": lambda found: to_whole(found, MAX_TICK),
    "price": lambda found: to_number(found, MAX_PRICE),
    "cooldownTimer": lambda found: to_whole(found, MAX_TIMER),
}
"""What decides where a round stands: a message in which one of these is no value is not read at all."""

Fields = Mapping[str, tuple[str, Callable[[object], Value]]]
"""Columns, with the field that each is read from and how."""

_SHOWN: Fields = {
    "connected_players": ("connectedPlayers", to_whole),
    "trade_count": ("tradeCount", to_whole),
    "average_multiplier": ("averageMultiplier", to_number),
    "count_2x": ("count2x", to_whole),
    "count_10x": ("count10x", to_whole),
    "count_50x": ("count50x", to_whole),
    "count_100x": ("count100x", to_whole),
    "highest_today": ("highestToday", to_number),
}
_RUGPOOL: Fields = {
    "rugpool_amount": ("rugpoolAmount", to_number),
    "rugpool_threshold": ("threshold", to_whole),
    "instarug_count": ("instarugCount", to_whole),
}


def read_core(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read the fields that decide where a round stands; None if one of them is no value."""
    core = {name: read(payload[name]) for name, read in _CORE.items() if name in payload}
    return None if any(value is None for value in core.values()) else core


def _read(table: Fields, payload: Mapping[str, Any]) -> dict[str, Value]:
    found = {column: read(payload.get(name)) for column, (name, read) in table.items()}
    return {column: value for column, value in found.items() if value is not None}


def read_rugpool(found: object) -> dict[str, Value]:
    """Read the side lottery; all of it or nothing."""
    pool = _read(_RUGPOOL, to_record(found))
    return pool if len(pool) == len(_RUGPOOL) else {}


def read_leaderboard(found: object, price: float) -> dict[str, Value]:
    """Read the figures of a leaderboard, as `crowd_feed.figures_of` defines them; nothing if an entry is no entry."""
    if not isinstance(found, list):
        return {}
    entries = [entry for entry in map(to_record, found[:MAX_ENTRIES]) if _plays_coin(entry)]
    held = [to_amount(entry.get("positionQty")) for entry in entries]
    known = [qty for qty in held if qty is not None]
    if len(known) < len(held):
        return {}
    return {
        "players_in_game": len(known),
        "players_with_positions": sum(qty > 0 for qty in known),
        "total_market_capital": proceeds(sum(known), price),
    }


def _plays_coin(entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry plays with the coin itself and not with practice tokens."""
    chosen = entry.get("selectedCoin")
    return chosen is None or to_record(chosen).get("address") == COIN_ADDRESS


@dataclass
class TrackedRound:
    """One round as far as it was received."""

    id: str
    state: dict[str, Any] = field(default_factory=lambda: dict(NEW_ROUND))
    """The carried fields that decide where it stands."""
    shown: dict[str, Value] = field(default_factory=dict)
    """The carried columns beside them."""
    newest: Place | None = None
    prices: dict[Place, float] = field(default_factory=dict)
    """Price of each place received."""
    rug_tick: int | None = None

    @property
    def here(self) -> dict[str, Value]:
        """Give the last tick received, as own facts name it."""
        if self.newest is None:
            return {}
        return {"tick": self.newest[1], "price": self.prices[self.newest], "game_phase": self.newest[0]}

    @property
    def saw_rug(self) -> bool:
        """Tell whether the rug was received in its turn."""
        return self.newest is not None and self.newest[0] == Phase.RUGGED

    def columns(self) -> dict[str, Value]:
        """Give everything that is shown now."""
        timer = self.state.get("cooldownTimer")
        return {**self.here, "cooldown_timer_ms": timer, **self.shown}

    def lay(self, state: dict[str, Any], payload: Mapping[str, Any]) -> None:
        """Lay a message over what was known."""
        self.state = state
        self.shown |= _read(_SHOWN, payload) | read_rugpool(payload.get("rugpool"))
        self.shown |= read_leaderboard(payload.get("leaderboard"), state["price"])

    def gap(self, place: Place) -> tuple[int, int] | None:
        """Give the first and the last tick that are missing before a place, None if none are."""
        if self.newest is None or place[0] < Phase.ACTIVE:
            return None
        expected = self.newest[1] + 1 if self.newest[0] >= Phase.ACTIVE else 0
        return (expected, place[1] - 1) if place[1] > expected else None


class RoundTracker:
    """All rounds of a recording; the current one is that whose first message came last."""

    def __init__(self) -> None:
        self.kept: dict[str, TrackedRound] = {}
        self.current: TrackedRound | None = None
        self._revealed = RecentKeys(KEPT_REVEALED)

    @property
    def current_id(self) -> str | None:
        """Give the id of the current round."""
        return self.current.id if self.current else None

    def take(self, payload: Mapping[str, Any]) -> Iterator[Fact]:
        """Read a gameStateUpdate; what it reveals of finished rounds comes first."""
        game_id, core = payload.get("gameId"), read_core(payload)
        if not isinstance(game_id, str) or not is_window(game_id) or core is None:
            return
        yield from self._reveal(to_list(payload.get("gameHistory")))
        if game_id not in self.kept:
            yield self._open(game_id, payload)
        found = self.kept[game_id]
        state = {**found.state, **core}
        phase = phase_of(state)
        if phase is not None:
            place = (int(phase), state["tickCount"])
            yield from self._place(found, place, state, payload)

    def _open(self, game_id: str, payload: Mapping[str, Any]) -> Fact:
        """Begin a round; the oldest one kept is forgotten."""
        self.current = self.kept[game_id] = TrackedRound(game_id)
        if len(self.kept) > KEPT_ROUNDS:
            del self.kept[next(iter(self.kept))]
        fair = to_record(payload.get("provablyFair"))
        seed_hash, version = to_text(fair.get("serverSeedHash")), to_text(fair.get("version"))
        return c.fact(c.ROUND, {"server_seed_hash": seed_hash, "game_version": version}, game_id)

    def _place(
        self, found: TrackedRound, place: Place, state: dict[str, Any], payload: Mapping[str, Any]
    ) -> Iterator[Fact]:
        """Tell what a message adds, by where its round stands in it."""
        if place in found.prices:
            yield from self._again(found, place, state, payload)
        elif place[0] == Phase.RUGGED and found.rug_tick is not None and place[1] > found.rug_tick:
            found.prices[place] = state["price"]
            yield c.fact(c.RUG_REPEAT, _at(place, state["price"]), found.id)
        elif found is not self.current or (found.newest is not None and place < found.newest):
            yield from self._late(found, place, state["price"])
        else:
            yield from self._tick(found, place, state, payload)

    def _tick(
        self, found: TrackedRound, place: Place, state: dict[str, Any], payload: Mapping[str, Any]
    ) -> Iterator[Fact]:
        """Tell a tick, and before it what was missed."""
        missing = found.gap(place)
        if missing is not None:
            yield c.fact(c.GAP, {"missing_from": missing[0], "missing_to": missing[1]}, found.id)
        found.lay(state, payload)
        found.newest, found.prices[place] = place, state["price"]
        if place[0] == Phase.RUGGED:
            found.rug_tick = place[1]
        yield c.fact(c.TICK, found.columns(), found.id)

    def _late(self, found: TrackedRound, place: Place, price: float) -> Iterator[Fact]:
        """Tell a tick that others have overtaken."""
        found.prices[place] = price
        if place[0] == Phase.RUGGED:
            found.rug_tick = place[1]
        if place[0] >= Phase.ACTIVE:
            yield c.fact(c.LATE_TICK, _at(place, price), found.id)

    def _again(
        self, found: TrackedRound, place: Place, state: dict[str, Any], payload: Mapping[str, Any]
    ) -> Iterator[Fact]:
        """Take a place that is known: before tick 0 the timer moves on, after it a price must not."""
        before = found.state.get("cooldownTimer", MAX_TIMER)
        if state["price"] != found.prices[place]:
            yield c.fact(c.CONFLICT, _at(place, state["price"]), found.id)
        elif place == found.newest and found is self.current:
            found.lay(state, payload)
            if place[0] < Phase.ACTIVE and state.get("cooldownTimer", MAX_TIMER) < before:
                yield c.fact(c.COUNTDOWN, found.columns(), found.id)

    def take_rugpool(self, payload: Mapping[str, Any]) -> Iterator[Fact]:
        """Read the side lottery of a gameStatePlayerUpdate, where it tells something new."""
        found, pool = self.current, read_rugpool(payload.get("rugpool"))
        if found is None or payload.get("gameId") != found.id or not pool:
            return
        if any(found.shown.get(column) != value for column, value in pool.items()):
            found.shown |= pool
            yield c.fact(c.RUGPOOL, pool, found.id)

    def _reveal(self, history: list[Any]) -> Iterator[Fact]:
        """Tell finished rounds that were not told yet, the oldest first."""
        for entry in map(to_record, reversed(history[:MAX_HISTORY])):
            game_id = entry.get("id")
            if isinstance(game_id, str) and is_window(game_id):
                yield from self._reveal_one(game_id, entry)

    def _reveal_one(self, game_id: str, entry: Mapping[str, Any]) -> Iterator[Fact]:
        prices = [to_number(price, MAX_PRICE) for price in to_list(entry.get("prices"))]
        known = [price for price in prices if price is not None]
        if not 2 <= len(prices) <= MAX_TICK + 1 or len(known) < len(prices) or not self._revealed.add(game_id):
            return
        found, fair = self.kept.get(game_id), to_record(entry.get("provablyFair"))
        told: dict[str, Value] = {
            "game_id": game_id,
            "rug_seen": found is not None and found.saw_rug,
            "rug_tick": len(known) - 1,
            "rug_price": known[-1],
            "peak": max(known),
            "ended_by_rug": to_flag(entry.get("rugged")),
            "server_seed": to_text(fair.get("serverSeed")),
            "server_seed_hash": to_text(fair.get("serverSeedHash")),
            "game_version": to_text(entry.get("gameVersion")),
        }
        yield c.fact(c.COMPLETE, told, game_id if found else None, None, to_moment(entry.get("timestamp")))


def _at(place: Place, price: float) -> dict[str, Value]:
    return {"tick": place[1], "price": price, "game_phase": place[0]}
