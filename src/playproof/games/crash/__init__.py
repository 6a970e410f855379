"""The crash game: a price multiplies tick by tick until it rugs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playproof.game import Game


def game() -> Game:
    """Give the crash game as the stages know it; a light import."""
    from playproof.games.crash import record

    return record.game()


def register_environments() -> None:
    """Make the environments known to Gymnasium; it calls this for every installed plug-in."""
    from gymnasium import register, registry

    if "playproof/Crash-v1" not in registry:
        register(
            "playproof/Crash-v1",
            entry_point="playproof.games.crash.env:CrashEnv",
            vector_entry_point="playproof.games.crash.env:CrashVectorEnv",
        )
