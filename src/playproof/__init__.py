"""Playproof: record play of market games, train on it, and prove, or refuse to claim, an edge.

The names below are the public Python surface; see `playproof.api`. They are imported when they are used, so that
`import playproof` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from playproof.game.environments import register_when_imported

if TYPE_CHECKING:
    from playproof.api import (
        TrainedRun,
        load_dataset,
        load_policy,
        make_env,
        open_store,
        record_trajectories,
        train_policy,
        validate_policy,
    )
    from playproof.game import Game, check_game, load_game

__version__ = "0.2.0"

__all__ = [
    "Game",
    "TrainedRun",
    "__version__",
    "check_game",
    "load_dataset",
    "load_game",
    "load_policy",
    "make_env",
    "open_store",
    "record_trajectories",
    "train_policy",
    "validate_policy",
]

_OF_GAME = ("Game", "check_game", "load_game")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OF_GAME:
        from playproof import game

        return getattr(game, name)
    from playproof import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)


register_when_imported()
