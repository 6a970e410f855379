"""How a table deals rounds from one seed, and what it remembers of the finished ones.

A table's seed is its secret: server seeds and game ids are hashes of it, so that neither they nor
the bystanders give it away.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

from playproof.games.crash.rules.prices import server_seed_hash
from playproof.games.crash.rules.worlds import World, WorldRound, site_round
from playproof.games.crash.server.messages import VERSION, Highest, number
from playproof.games.crash.server.protocol import HISTORY, PastRound
from playproof.games.crash.sim.crowd import FIRST_ROUND
from playproof.json_types import Json

KEPT_ROUNDS = 500
"""Finished rounds that can still be looked up."""


@dataclass(frozen=True)
class DealtRound:
    """A round before it is played, with everything that stays secret until it is over."""

    number: int
    game_id: str
    server_seed: str
    played: WorldRound

    @property
    def seed_hash(self) -> str:
        """Give the commitment that is published before the round."""
        return server_seed_hash(self.server_seed)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def server_seed(seed: int, number: int) -> str:
    """Give the secret of round `number`."""
    return _digest(f"playproof-{seed}-{number}")


def game_id(seed: int, number: int, day: date) -> str:
    """Give the public id of round `number`: the day and 16 hex digits."""
    return f"{day:%Y%m%d}-{_digest(f'playproof-id-{seed}-{number}')[:16]}"


def bystander_seed(seed: int) -> int:
    """Give the seed of the bystanders, from which the table's own seed cannot be found."""
    return int(_digest(f"playproof-bystanders-{seed}")[:16], 16)


def deal(world: World, seed: int, number: int, day: date) -> DealtRound:
    """Deal round `number` of a seed; the warm-up rounds have negative numbers."""
    secret, identity = server_seed(seed, number), game_id(seed, number, day)
    return DealtRound(number, identity, secret, site_round(world, secret, identity))


@lru_cache(maxsize=4)
def warm_up_rounds(world: World, seed: int, day: date) -> tuple[DealtRound, ...]:
    """Deal the rounds before the first one, which fill statistics and history."""
    return tuple(deal(world, seed, number, day) for number in range(FIRST_ROUND, 0))


def past_round(dealt: DealtRound, timestamp: int, sidebets: list[Json]) -> PastRound:
    """Write a finished round as gameHistory shows it, with its seed."""
    return {
        "id": dealt.game_id,
        "timestamp": timestamp,
        "prices": [number(price) for price in dealt.played.prices],
        "peakMultiplier": number(dealt.played.peak),
        "rugged": True,
        "globalTrades": [],
        "globalSidebets": sidebets,
        "provablyFair": {"serverSeed": dealt.server_seed, "serverSeedHash": dealt.seed_hash},
        "gameVersion": VERSION,
    }


@dataclass
class RoundArchive:
    """Keep the last finished rounds: ten to show, some hundred to look up."""

    world: World
    history: deque[PastRound] = field(default_factory=lambda: deque(maxlen=HISTORY))
    """Newest first."""
    highest: Highest = field(default_factory=Highest)
    _revealed: dict[str, Json] = field(default_factory=dict)

    def add(self, dealt: DealtRound, past: PastRound, highest_today: float) -> None:
        """Reveal a finished round."""
        self.history.appendleft(past)
        if dealt.played.peak == highest_today:
            self.highest = Highest(past["timestamp"], dealt.played.prices)
        self._revealed[dealt.game_id] = {
            "gameId": dealt.game_id,
            "world": self.world.name,
            "version": VERSION,
            "timestamp": past["timestamp"],
            "rugTick": dealt.played.rug_tick,
            "peakMultiplier": past["peakMultiplier"],
            "prices": past["prices"],
            **past["provablyFair"],
        }
        if len(self._revealed) > KEPT_ROUNDS:
            del self._revealed[next(iter(self._revealed))]

    def find(self, identity: str) -> Json | None:
        """Give a finished round for anybody to verify; None if it is not known or not over."""
        return self._revealed.get(identity)
