"""The crash game: a price multiplies tick by tick until it rugs."""

from __future__ import annotations


def register_environments() -> None:
    """Make the environments known to Gymnasium; it calls this for every installed plug-in."""
    from gymnasium import register, registry

    if "playproof/Crash-v1" not in registry:
        register(
            "playproof/Crash-v1",
            entry_point="playproof.games.crash.sim.env:CrashEnv",
            vector_entry_point="playproof.games.crash.sim.env:CrashVectorEnv",
        )
