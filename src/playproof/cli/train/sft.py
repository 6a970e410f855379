"""Teach a language model by what scripted or recorded players answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from playproof.cli.configs import Settings, configured
from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import language_game, recorded_game, run_folder
from playproof.cli.train.group import LanguageGame, Name, Resume, Track, figures, tracking
from playproof.train.language.config import SFTConfig

app = typer.Typer()


@app.command()
@configured(SFTConfig, defaults={"base": "smollm2"})
def sft(
    *,
    name: Name,
    game: LanguageGame = None,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Imitate recorded windows instead of a scripted player.")
    ] = False,
    agent: Annotated[
        list[str] | None, typer.Option(help="Recorded agents to imitate; may be given again. Default: all.")
    ] = None,
    marks: Annotated[
        str, typer.Option(help="Only what people marked in the dashboard: accepted, or not-rejected.")
    ] = "",
    lookback_hours: Annotated[float, typer.Option(min=0, help="How far back recorded windows may have begun.")] = 168,
    resume: Resume = False,
    track: Track = None,
    settings: Settings,
    as_json: AsJson = False,
) -> None:
    """Teach a language model to answer as scripted or recorded players did, then measure it on later windows.

    Writes runs/NAME: configuration, log, resume point, and checkpoints/sft, a folder that train grpo and serve take.
    A run that was killed goes on with --resume, to the same weights.

    Example: playproof train sft --name taught --base smollm2 --player informed --windows 100

    Example: playproof train sft --name taught --base smollm2 --game my-market --recorded
    """
    from playproof.train.language.sft import train_sft

    played = recorded_game(game) if recorded else language_game(game)
    config = settings.make(SFTConfig, game=played.name)
    groups = _recorded(played, agent, lookback_hours, config.decisions, marks) if recorded else ()
    result = train_sft(
        played, config, run_folder(name), groups=groups, resume=resume, tracking=tracking(track, name), show=_show
    )
    emit(result, as_json, lambda: figures(result))


def _show(step: int, payload: Mapping[str, object]) -> None:
    if step % 10 == 0 or step == payload["steps"]:
        note(f"step {step} of {payload['steps']}: loss {payload['loss']:.4f}")


def _recorded(game: Any, agents: list[str] | None, hours: float, decisions: int, marks: str) -> tuple[Any, ...]:
    """Read recorded groups of one agent or more, those of the agents that are asked for."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from playproof.datasets.conversations.groups import read_groups, usable_windows
    from playproof.store.db import opened, ready

    with opened() as engine:
        tables = ready(engine)
        result = usable_windows(tables, game.windows, datetime.now(UTC), hours, 1, min(5, decisions))
        names, market = [item.name for item in result], game.windows.market
        groups = read_groups(tables, names, 1, min(5, decisions), market, marks)
    if agents:
        groups = [replace(group, episodes=tuple(e for e in group.episodes if e.agent in agents)) for group in groups]
    return tuple(group for group in groups if group.episodes)
