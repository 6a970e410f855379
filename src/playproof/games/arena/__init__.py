"""The arena: a shared market in which many agents trade, hour by hour."""

from __future__ import annotations


def register_environments() -> None:
    """Make the environments known to Gymnasium."""
    from gymnasium import register, registry

    if "playproof/Arena-v1" not in registry:
        register(
            "playproof/Arena-v1",
            entry_point="playproof.games.arena.learning.env:ArenaEnv",
        )
