"""Random numbers by address: a hash of seed and place, the same on every machine and in any order.

A fork of the world, or a lane of many, needs no state of a generator.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1


def draw(seed: int, *index: int) -> int:
    """Give 64 random bits for a place."""
    state = seed & _MASK
    for key in index:
        state = (state + 0x9E3779B97F4A7C15 * (key + 1)) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def chance(bits: int, probability: float) -> bool:
    """Tell whether something of this probability happens."""
    return bits >> 11 < probability * (1 << 53)


def within(bits: int, low: int, high: int) -> int:
    """Give a whole number from low to high, both included."""
    return low + (bits >> 16) * (high - low + 1) // (1 << 48)


def bell(bits: int, spread: int) -> int:
    """Give a whole number around 0 with a standard deviation of about `spread`: four dice of 16 bits, symmetric."""
    dice = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48)
    centred = 2 * dice - 4 * 0xFFFF
    size = abs(centred) * spread // 75_674
    return size if centred > 0 else -size


def shuffled(names: list[str], seed: int, *index: int) -> list[str]:
    """Give the names in a random order."""
    return sorted(names, key=lambda name: draw(seed, *index, *name.encode()))
