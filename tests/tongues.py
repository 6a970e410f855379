"""Small language models and forked windows for tests: a few ten thousand weights that answer in a second."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from sqlalchemy import Engine

from playproof.game import Game, load_game
from playproof.game.forks import ForkTerms
from playproof.store.db import connect, upgrade
from playproof.train.language.model import LanguageCard, LanguageModel, save_language_model
from playproof.train.language.rollout import play, scripted_player
from playproof.train.language.tiny import make_tiny
from playproof.workflows.arena.presets import Preset

OPTIONS: dict[str, Any] = {"others": []}
TERMS = ForkTerms("news", 1, 1, "brief", OPTIONS)


def arena() -> Game:
    """Give the game whose windows are forked."""
    return load_game("arena")


def texts(windows: int = 12) -> list[str]:
    """Give prompts and answers of a scripted player."""
    played = play(arena(), TERMS, range(windows), 1, scripted_player("headline", (1,)), None)
    result = [exchange for item in played for episode in item.group.episodes for exchange in episode.exchanges]
    return [text for item in result for text in (*(payload for _, payload in item.messages), item.answer)]


def small_model(seed: int = 1) -> LanguageModel:
    """Make a model of 64 x 1."""
    torch.set_num_threads(1)
    return make_tiny(texts(), seed, width=64, layers=1)


def saved(path: Path, model: LanguageModel, version: str = "small@0") -> Path:
    """Save a model as the checkpoint of a line's beginning."""
    card = LanguageCard(version=version, method="none", game="arena", base="tiny", base_hash="", next_window=100)
    save_language_model(path, model, card)
    return path


def tables(path: Path) -> Iterator[Engine]:
    """Open fresh tables, and close them."""
    engine = connect(url=f"sqlite:///{path}")
    upgrade(engine)
    yield engine
    engine.dispose()


def small_preset(base: Path) -> Preset:
    """Give a preset of a small model for the arena's loop, from being taught to the verdict."""
    terms = {"world": "clear", "decisions": 1, "prompt": "brief"}
    whole = {"options": OPTIONS, "rank": None}
    taught = {"base": str(base), "player": "headline:0.67", "windows": 64, "holdout": 0, "epochs": 12, "batch": 8}
    trained = {"iterations": 3, "windows": 4, "forks": 5, "learning_rate": 1e-3, "holdout": 4, "max_kl": 5.0}
    return Preset(
        {**terms, **whole, **taught, "learning_rate": 2e-3, "max_tokens": 20},
        {**whole, **trained, "evaluate_every": 3},
        {**terms, "max_tokens": 20, "agents": 2, "own_agents": 1, "windows": 1, "bench_windows": 6},
    )
