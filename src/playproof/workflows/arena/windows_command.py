"""Tell how many windows of the arena can be trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playproof.game import resolve
from playproof.games.arena.game import arena_game

_make: Callable[..., Any] = resolve("playproof.cli.data.windows:survey_app")

app = _make(arena_game)
