"""List the games that are installed, with their versions and worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from playproof.cli.output import AsJson, emit
from playproof.game import game_names, load_game

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer()


def listing() -> list[dict[str, Any]]:
    """Give name, version and worlds of every game."""
    games = [load_game(name) for name in game_names()]
    return [
        {
            "name": game.name,
            "version": game.version,
            "worlds": list(game.worlds),
            "market": bool(game.windows.market),
        }
        for game in games
    ]


def _table(games: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("game", "version", "worlds")
    for game in games:
        worlds = "a declared market: recorded, not simulated" if game["market"] else ", ".join(game["worlds"])
        table.add_row(game["name"], str(game["version"]), worlds)
    return table


@app.command()
def games(*, as_json: AsJson = False) -> None:
    """List the games that are installed, with their versions and worlds.

    Example: playproof games --json
    """
    result = listing()
    emit({"games": result}, as_json, lambda: _table(result))
