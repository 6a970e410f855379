"""The arena's worlds: sets of rules for what moves fundamentals, as data.

Amounts are parts per million; rates are per tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from playproof.game import lookup


@dataclass(frozen=True)
class Scenario:
    """What nature does."""

    name: str
    summary: str
    drift: int = 20
    """Of every fundamental in a tick."""
    noise: int = 700
    """Standard deviation of a fundamental's move in a tick that no news explains."""
    news: float = 1 / 60
    """Chance that a story on a company begins in a tick."""
    story: tuple[int, int] = (8_000, 26_000)
    """Least and largest move that a story brings, up or down, spread over its ticks; a move that goes on for a while
    can be followed, so that a world without any edge has none."""
    spread: tuple[int, int] = (20, 40)
    """Least and largest number of those ticks; they follow the headline."""
    accuracy: float = 0.8
    """Chance that a headline points where the story moves the fundamental; 0.5 tells nothing."""
    leaks: float = 1 / 30
    """Chance that a headline on a question appears in a tick."""
    leak_accuracy: float = 0.7
    rumours: float = 1 / 20
    """Chance that somebody in the crowd posts in a tick."""
    rumour_accuracy: float = 0.6
    scandal: float = 0.0
    """Chance that a scandal on a company breaks in a tick: a large fall that headlines tell truly."""
    pump: float = 0.0
    """Chance that a pump and dump of the smallest company begins in a tick."""


WORLDS: Mapping[str, Scenario] = {
    item.name: item
    for item in (
        Scenario("news", "headlines come before the moves that they tell of, four times out of five"),
        Scenario(
            "clear",
            "as news, with larger moves, less noise, and headlines right 19 times out of 20: easy, to begin with",
            noise=300,
            story=(30_000, 60_000),
            spread=(30, 45),
            accuracy=0.95,
            leaks=1 / 15,
            leak_accuracy=0.9,
        ),
        Scenario(
            "null",
            "prices move by chance and no news tells anything, so that fees make every trade lose on average",
            drift=0,
            noise=1_000,
            story=(0, 0),
            accuracy=0.5,
            leak_accuracy=0.5,
            rumour_accuracy=0.5,
        ),
        Scenario("bull", "as news, and every company rises by about 0.5 % an hour", drift=80),
        Scenario("bear", "as news, and every company falls by about 0.5 % an hour", drift=-80),
        Scenario("scandal", "as news, and now and then a company falls by 4 to 8 % in an hour", scandal=1 / 120),
        Scenario("pump", "as news, and the smallest company is pumped with loud posts and dumped", pump=1 / 90),
    )
}


def get_world(name: str) -> Scenario:
    """Give a world by name."""
    return lookup(WORLDS, name, "world")
