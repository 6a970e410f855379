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
from typing import TypeAlias

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
from playproof.games.crash.rules.windows import Phase, is_window
from playproof.games.crash.server.protocol import COIN_ADDRESS, phase_of
from playproof.json_types import Json

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

CoreFields: TypeAlias = Json
"""The fields that decide where a round stands, by their names in messages."""

NEW_ROUND: CoreFields = {"active": False, "rugged": False, "tickCount": 0, "price": 1.0}

_CORE: Mapping[str, Callable[[object], Value]] = {
    "active": to_flag,
    "rugged": to_flag,
    "allowPreRoundBuys": to_flag,
    "tickCount": lambda result: to_whole(result, MAX_TICK),
    "price": lambda result: to_number(result, MAX_PRICE),
    "cooldownTimer": lambda result: to_whole(result, MAX_TIMER),
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


def read_core(payload: Mapping[str, object]) -> CoreFields | None:
    """Read the fields that decide where a round stands; None if one of them is no value."""
    core = {name: read(payload[name]) for name, read in _CORE.items() if name in payload}
    return None if any(value is None for value in core.values()) else core


def _read(table: Fields, payload: Mapping[str, object]) -> dict[str, Value]:
    result = {column: read(payload.get(name)) for column, (name, read) in table.items()}
    return {column: value for column, value in result.items() if value is not None}


def read_rugpool(value: object) -> dict[str, Value]:
    """Read the side lottery; all of it or nothing."""
    pool = _read(_RUGPOOL, to_record(value))
    return pool if len(pool) == len(_RUGPOOL) else {}


def read_leaderboard(value: object, price: float) -> dict[str, Value]:
    """Read the figures of a leaderboard, as `crowd_feed.figures_of` defines them; nothing if an entry is no entry."""
    if not isinstance(value, list):
        return {}
    entries = [entry for entry in map(to_record, value[:MAX_ENTRIES]) if _plays_coin(entry)]
    held = [to_amount(entry.get("positionQty")) for entry in entries]
    known = [qty for qty in held if qty is not None]
    if len(known) < len(held):
        return {}
    return {
        "players_in_game": len(known),
        "players_with_positions": sum(qty > 0 for qty in known),
        "total_market_capital": proceeds(sum(known), price),
    }


def _plays_coin(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry plays with the coin itself and not with practice tokens."""
    chosen = entry.get("selectedCoin")
    return chosen is None or to_record(chosen).get("address") == COIN_ADDRESS


@dataclass
class TrackedRound:
    """One round as far as it was received."""

    id: str
    state: CoreFields = field(default_factory=lambda: dict(NEW_ROUND))
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

    def lay(self, state: CoreFields, payload: Mapping[str, object]) -> None:
        """Lay a message over what was known."""
        self.state = state
        self.shown |= _read(_SHOWN, payload) | read_rugpool(payload.get("rugpool"))
        self.shown |= read_leaderboard(payload.get("leaderboard"), state["price"])

    def gap(self, index: Place) -> tuple[int, int] | None:
        """Give the first and the last tick that are missing before a place, None if none are."""
        if self.newest is None or index[0] < Phase.ACTIVE:
            return None
        expected = self.newest[1] + 1 if self.newest[0] >= Phase.ACTIVE else 0
        return (expected, index[1] - 1) if index[1] > expected else None


class RoundTracker:
    """All rounds of a recording; the current one is that whose first message came last."""

    def __init__(self) -> None:
        self.kept: dict[str, TrackedRound] = {}
        self.current: TrackedRound | None = None
        self._revealed = RecentKeys(KEPT_REVEALED)
        self.completes = False
        """Are rounds that were joined late completed from the prices that are published after them?"""

    @property
    def current_id(self) -> str | None:
        """Give the id of the current round."""
        return self.current.id if self.current else None

    def take(self, payload: Mapping[str, object]) -> Iterator[Fact]:
        """Read a gameStateUpdate; what it reveals of finished rounds comes first."""
        game_id, core = payload.get("gameId"), read_core(payload)
        if not isinstance(game_id, str) or not is_window(game_id) or core is None:
            return
        yield from self._reveal(to_list(payload.get("gameHistory")))
        if game_id not in self.kept:
            yield self._open(game_id, payload)
        result = self.kept[game_id]
        state = {**result.state, **core}
        phase = phase_of(state)
        if phase is not None:
            index = (int(phase), state["tickCount"])
            yield from self._place(result, index, state, payload)

    def _open(self, game_id: str, payload: Mapping[str, object]) -> Fact:
        """Begin a round; the oldest one kept is forgotten."""
        self.current = self.kept[game_id] = TrackedRound(game_id)
        if len(self.kept) > KEPT_ROUNDS:
            del self.kept[next(iter(self.kept))]
        fair = to_record(payload.get("provablyFair"))
        seed_hash, version = to_text(fair.get("serverSeedHash")), to_text(fair.get("version"))
        return c.fact(c.ROUND, {"server_seed_hash": seed_hash, "game_version": version}, game_id)

    def _place(
        self, tracked_round: TrackedRound, index: Place, state: CoreFields, payload: Mapping[str, object]
    ) -> Iterator[Fact]:
        """Tell what a message adds, by where its round stands in it."""
        if index in tracked_round.prices:
            yield from self._again(tracked_round, index, state, payload)
        elif index[0] == Phase.RUGGED and tracked_round.rug_tick is not None and index[1] > tracked_round.rug_tick:
            tracked_round.prices[index] = state["price"]
            yield c.fact(c.RUG_REPEAT, _at(index, state["price"]), tracked_round.id)
        elif tracked_round is not self.current or (tracked_round.newest is not None and index < tracked_round.newest):
            yield from self._late(tracked_round, index, state["price"])
        else:
            yield from self._tick(tracked_round, index, state, payload)

    def _tick(
        self, tracked_round: TrackedRound, index: Place, state: CoreFields, payload: Mapping[str, object]
    ) -> Iterator[Fact]:
        """Tell a tick, and before it what was missed."""
        missing = tracked_round.gap(index)
        if missing is not None:
            yield c.fact(c.GAP, {"missing_from": missing[0], "missing_to": missing[1]}, tracked_round.id)
        tracked_round.lay(state, payload)
        tracked_round.newest, tracked_round.prices[index] = index, state["price"]
        if index[0] == Phase.RUGGED:
            tracked_round.rug_tick = index[1]
        yield c.fact(c.TICK, tracked_round.columns(), tracked_round.id)

    def _late(self, tracked_round: TrackedRound, index: Place, price: float) -> Iterator[Fact]:
        """Tell a tick that others have overtaken."""
        tracked_round.prices[index] = price
        if index[0] == Phase.RUGGED:
            tracked_round.rug_tick = index[1]
        if index[0] >= Phase.ACTIVE:
            yield c.fact(c.LATE_TICK, _at(index, price), tracked_round.id)

    def _again(
        self, tracked_round: TrackedRound, index: Place, state: CoreFields, payload: Mapping[str, object]
    ) -> Iterator[Fact]:
        """Take a place that is known: before tick 0 the timer moves on, after it a price must not."""
        before = tracked_round.state.get("cooldownTimer", MAX_TIMER)
        if state["price"] != tracked_round.prices[index]:
            yield c.fact(c.CONFLICT, _at(index, state["price"]), tracked_round.id)
        elif index == tracked_round.newest and tracked_round is self.current:
            tracked_round.lay(state, payload)
            if index[0] < Phase.ACTIVE and state.get("cooldownTimer", MAX_TIMER) < before:
                yield c.fact(c.COUNTDOWN, tracked_round.columns(), tracked_round.id)

    def take_rugpool(self, payload: Mapping[str, object]) -> Iterator[Fact]:
        """Read the side lottery of a gameStatePlayerUpdate, where it tells something new."""
        result, pool = self.current, read_rugpool(payload.get("rugpool"))
        if result is None or payload.get("gameId") != result.id or not pool:
            return
        if any(result.shown.get(column) != value for column, value in pool.items()):
            result.shown |= pool
            yield c.fact(c.RUGPOOL, pool, result.id)

    def take_history(self, history: list[object]) -> list[Fact]:
        """Read finished rounds that came by themselves and not inside a gameStateUpdate."""
        return list(self._reveal(history))

    def _reveal(self, history: list[object]) -> Iterator[Fact]:
        """Tell finished rounds that were not told yet, the oldest first."""
        for entry in map(to_record, reversed(history[:MAX_HISTORY])):
            game_id = entry.get("id")
            if isinstance(game_id, str) and is_window(game_id):
                yield from self._reveal_one(game_id, entry)

    def _reveal_one(self, game_id: str, entry: Mapping[str, object]) -> Iterator[Fact]:
        prices = [to_number(price, MAX_PRICE) for price in to_list(entry.get("prices"))]
        known = [price for price in prices if price is not None]
        if not 2 <= len(prices) <= MAX_TICK + 1 or len(known) < len(prices) or not self._revealed.add(game_id):
            return
        result, fair = self.kept.get(game_id), to_record(entry.get("provablyFair"))
        if result is not None and self.completes:
            yield from self._complete(result, known)
        payload: dict[str, Value] = {
            "game_id": game_id,
            "rug_seen": result is not None and result.saw_rug,
            "rug_tick": len(known) - 1,
            "rug_price": known[-1],
            "peak": max(known),
            "ended_by_rug": to_flag(entry.get("rugged")),
            "server_seed": to_text(fair.get("serverSeed")),
            "server_seed_hash": to_text(fair.get("serverSeedHash")),
            "game_version": to_text(entry.get("gameVersion")),
        }
        yield c.fact(c.COMPLETE, payload, game_id if result else None, None, to_moment(entry.get("timestamp")))

    def _complete(self, joined: TrackedRound, prices: list[float]) -> Iterator[Fact]:
        """Tell the prices before the recording joined a round, now that they are published.

        They come as late ticks: the round is whole, but nobody could act on them, so they give no steps. Ticks lost
        in mid-round are not completed: the player may have seen them.
        """
        active = [tick for phase, tick in joined.prices if phase == Phase.ACTIVE]
        if not joined.saw_rug or joined.rug_tick != len(prices) - 1 or not active:
            return
        if any(joined.prices[int(Phase.ACTIVE), tick] != prices[tick] for tick in active):
            return
        for tick in range(min(active)):
            index = (int(Phase.ACTIVE), tick)
            joined.prices[index] = prices[tick]
            yield c.fact(c.LATE_TICK, {**_at(index, prices[tick]), "from_history": True}, joined.id)


def _at(index: Place, price: float) -> dict[str, Value]:
    return {"tick": index[1], "price": price, "game_phase": index[0]}
