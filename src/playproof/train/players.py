"""Find players of many lanes at once by name: baselines, the best policy of a world, and either with some chance in it.

Leaves out: playing (demonstrations).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from playproof.errors import ConfigError, UnknownName
from playproof.game import Game
from playproof.game.vector_env import BatchPolicy
from playproof.train.demonstrations import Noisy


def find_player(game: Game, text: str, world: str, sizes: tuple[int, ...]) -> BatchPolicy:
    """Give the batch player of a text such as human, best or best:0.2."""
    name, colon, share = text.partition(":")
    best = game.simulated().best
    player = best(world) if name == "best" and best is not None else _baseline(game, name)
    if not colon:
        return player
    try:
        return Noisy(player, float(share), (sizes[0], *(1 for _ in sizes[1:])))
    except ValueError:
        raise ConfigError(f"expected a player as name or name:share, found {text!r}") from None


def _baseline(game: Game, name: str) -> BatchPolicy:
    """Give a baseline that plays many lanes at once."""
    if name not in game.baselines:
        raise UnknownName("player", name, ["best", *game.baselines])
    seated: Any = game.baselines[name].make(np.random.default_rng(0))
    if not hasattr(seated, "policy"):
        raise ConfigError(f"expected a player of many lanes at once, found {name!r}, which plays one")
    player: BatchPolicy = seated.policy
    return player
