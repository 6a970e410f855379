"""Tell how many windows of the arena can be trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playproof.game import resolve
from playproof.games.arena import game

_make: Callable[..., Any] = resolve("playproof.cli.windows:survey_app")

app = _make(game)
