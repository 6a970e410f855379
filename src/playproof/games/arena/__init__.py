"""The arena: a shared market in which many agents trade, hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playproof.game import Game


def game() -> Game:
    """Give the arena as the stages know it; a light import."""
    from playproof.games.arena import record

    return record.game()


def register_environments() -> None:
    """Make the environments known to Gymnasium."""
    from gymnasium import register, registry

    if "playproof/Arena-v1" not in registry:
        register(
            "playproof/Arena-v1",
            entry_point="playproof.games.arena.env:ArenaEnv",
        )
