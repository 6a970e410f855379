"""Find games by name among the installed packages and the markets that the home declares.

A game is an entry point of the group "playproof.games": a function without arguments that gives a
Game. A market of `playproof.toml` is a game that is recorded only.
Leaves out: checking what it gives (contract), and how markets are declared (markets).
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from playproof.errors import ConfigError, ContractError, UnknownName
from playproof.game.game import Game
from playproof.game.markets import MarketDeclaration, declared_markets

GROUP = "playproof.games"


def _points() -> dict[str, EntryPoint]:
    """Give the entry points by name; two packages that claim one name are refused."""
    result: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = result.setdefault(point.name, point)
        if other.value != point.value:
            raise ConfigError(
                f"expected one game called {point.name!r}, found {other.value} and {point.value}; uninstall one"
            )
    return result


def _markets(points: dict[str, EntryPoint]) -> dict[str, MarketDeclaration]:
    """Give the declared markets; one that is called like an installed game is refused."""
    markets = declared_markets()
    for name in markets:
        if name in points:
            raise ConfigError(f"expected a market's own name, found {name!r}, which is an installed game; rename it")
    return markets


def game_names() -> tuple[str, ...]:
    """Give the names of the installed games and declared markets, sorted, without importing any."""
    points = _points()
    return tuple(sorted((*points, *_markets(points))))


def load_game(name: str) -> Game:
    """Give the installed game or the declared market of this name."""
    points = _points()
    if name not in points:
        markets = _markets(points)
        if name not in markets:
            raise UnknownName("game", name, (*points, *markets))
        return markets[name].game()
    try:
        game = points[name].load()()
    except (ImportError, AttributeError, TypeError) as error:
        raise ContractError(
            f"expected a function giving a Game at {points[name].value} for {name!r}, found: {error}"
        ) from error
    if not isinstance(game, Game) or game.name != name:
        result = game.name if isinstance(game, Game) else type(game).__name__
        raise ContractError(f"expected the game {name!r} at {points[name].value}, found {result}")
    return game


def load_attribute(reference: str) -> Any:
    """Import what a user named as "module:attribute", such as a policy or a reward of their own."""
    module, _, attribute = reference.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ContractError(f"expected module:attribute, found {reference!r}: {error}") from error
