"""Change single parts of a game, wherever they are kept, to test stages and the contract with."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

from playproof.game import Display, Game, Language, Recording, Rewards, Simulation

CAPABILITIES: dict[str, type] = {
    "recording": Recording,
    "rewards": Rewards,
    "simulation": Simulation,
    "display": Display,
    "language": Language,
}


def altered(game: Game, **parts: Any) -> Game:
    """Give a game with other parts: fields of the core, or of one of its capabilities."""
    core = {field.name for field in fields(Game)}
    for name, value in parts.items():
        if name in core:
            game = replace(game, **{name: value})
            continue
        owner = next(
            (key for key, kind in CAPABILITIES.items() if name in {field.name for field in fields(kind)}), None
        )
        if owner is None:
            raise TypeError(f"expected a part of a game, found {name!r}")
        record: Any = replace(getattr(game, owner)(), **{name: value})
        given: Any = {owner: partial(_same, record)}
        game = replace(game, **given)
    return game


def _same(record: object) -> Any:
    return record
