"""Teach a language model by what scripted or recorded players answered.

Leaves out: the training (playproof.train.language.sft).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.train.language_options import (
    Decisions,
    GameName,
    Holdout,
    LookbackHours,
    Name,
    Resume,
    Seed,
    Setting,
    Track,
    World,
    choose_game,
    read_settings,
    shown,
    tracking,
)
from playproof.cli.train.ppo import run_folder

if TYPE_CHECKING:
    from playproof.train.language.sft import SFTConfig

app = typer.Typer()


@app.command()
def sft(
    *,
    name: Name,
    game: GameName = None,
    base: Annotated[
        str, typer.Option(help="Model to teach: tiny, smollm2, a folder or a name of transformers.")
    ] = "smollm2",
    world: World = "news",
    player: Annotated[
        str, typer.Option(help="Scripted player to imitate; informed:0.65 does the contrary of 35 % of its trades.")
    ] = "informed",
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Imitate recorded windows instead of a scripted player.")
    ] = False,
    agent: Annotated[
        list[str] | None, typer.Option(help="Recorded agents to imitate; may be given again. Default: all.")
    ] = None,
    lookback_hours: LookbackHours = 168,
    windows: Annotated[int, typer.Option(min=1, help="Forked windows to play for lessons.")] = 200,
    decisions: Decisions = 4,
    holdout: Holdout = 32,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the answers.")] = 2,
    learning_rate: Annotated[float, typer.Option(help="Largest learning rate; adapters bear more.")] = 1e-4,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of an answer; longer ones are left out, and counted.")] = 48,
    seed: Seed = 1,
    resume: Resume = False,
    setting: Setting = None,
    track: Track = None,
    as_json: AsJson = False,
) -> None:
    """Teach a language model to answer as scripted or recorded players did, then measure it on later windows.

    Writes runs/NAME: configuration, log, resume point, and checkpoints/sft, a folder that train grpo and serve take.
    A run that was killed goes on with --resume, to the same weights.

    Example: playproof train sft --name taught --base smollm2 --player informed --windows 100
    """
    from playproof.train.language.sft import SFTConfig, train_sft

    played = choose_game(game)
    config: SFTConfig = read_settings(
        SFTConfig(
            game=played.name,
            base=base,
            world=world,
            seed=seed,
            decisions=decisions,
            player=player,
            windows=windows,
            holdout=holdout,
            epochs=epochs,
            learning_rate=learning_rate,
            max_tokens=max_tokens,
        ),
        setting,
    )
    groups = _recorded(played, agent, lookback_hours, decisions) if recorded else ()
    result = train_sft(
        played, config, run_folder(name), groups=groups, resume=resume, tracking=tracking(track, name), show=_show
    )
    emit(result, as_json, lambda: shown(result))


def _show(step: int, payload: Mapping[str, Any]) -> None:
    if step % 10 == 0 or step == payload["steps"]:
        note(f"step {step} of {payload['steps']}: loss {payload['loss']:.4f}")


def _recorded(game: Any, agents: list[str] | None, hours: float, decisions: int) -> tuple[Any, ...]:
    """Read recorded groups of one agent or more, those of the agents that are asked for."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from playproof.datasets.conversations.groups import read_groups, usable_windows
    from playproof.store.db import opened, ready

    with opened() as engine:
        tables = ready(engine)
        result = usable_windows(tables, game.windows, datetime.now(UTC), hours, 1, min(5, decisions))
        groups = read_groups(tables, [item.name for item in result], 1, min(5, decisions))
    if agents:
        groups = [replace(group, episodes=tuple(e for e in group.episodes if e.agent in agents)) for group in groups]
    return tuple(group for group in groups if group.episodes)
