"""Tell how many windows of the arena can be trained on."""

from __future__ import annotations

from playproof.cli.data.windows import survey_app
from playproof.games.arena.game import arena_game

app = survey_app(arena_game)
