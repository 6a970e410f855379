"""Learn a policy from recorded play alone: conservative or implicit Q-learning.

Leaves out: the learning (playproof.train.cql, playproof.train.iql).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from playproof.cli.lessons import (
    Asked,
    DatasetName,
    Players,
    Resume,
    Rounds,
    Settings,
    Stake,
    World,
    asked,
    epochs_bar,
    figures,
    find_lessons,
    open_run,
    read_config,
    with_options,
)
from playproof.cli.output import AsJson, emit

cql = typer.Typer()
iql = typer.Typer()

Name = Annotated[str, typer.Option(help="Name of the run, a folder under runs/ in the home; or a path.")]
GameName = Annotated[str | None, typer.Option(help="The game of --world.")]
Clock = Annotated[str, typer.Option(help="tick, or press: as people play.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same result.")]


@cql.command()
def train_cql(
    *,
    name: Name,
    dataset: DatasetName = None,
    game: GameName = None,
    world: World = None,
    player: Players = None,
    rounds: Rounds = 1500,
    clock: Clock = "tick",
    stake: Stake = 0.1,
    seed: Seed = 0,
    resume: Resume = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Learn by conservative Q-learning: mistrusts actions that were not played.

    Writes runs/NAME; every epoch is a resume point. In a world the policy is then played beside the players it
    learned from, on the same fresh windows.

    Example: playproof train cql --game crash --world drift --player best:0.2 --player hold-40 --name offline
    """
    told = None if resume else asked(dataset, game, world, player, rounds, seed, clock, stake)
    result = learn("cql", name, told, seed, option)
    emit(result, as_json, lambda: figures("cql", result))


@iql.command()
def train_iql(
    *,
    name: Name,
    dataset: DatasetName = None,
    game: GameName = None,
    world: World = None,
    player: Players = None,
    rounds: Rounds = 1500,
    clock: Clock = "tick",
    stake: Stake = 0.1,
    seed: Seed = 0,
    resume: Resume = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Learn by implicit Q-learning: values only what was played, and imitates the better part of it.

    Writes runs/NAME; every epoch is a resume point. In a world the policy is then played beside the players it
    learned from, on the same fresh windows.

    Example: playproof train iql --game crash --world drift --player best:0.2 --player hold-40 --name offline
    """
    told = None if resume else asked(dataset, game, world, player, rounds, seed, clock, stake)
    result = learn("iql", name, told, seed, option)
    emit(result, as_json, lambda: figures("iql", result))


def learn(method: str, name: str, told: Asked | None, seed: int, option: list[str] | None) -> dict[str, Any]:
    """Train in a run's folder and play the policy beside its teachers."""
    from playproof.bench.report import commit
    from playproof.cli.train_ppo import run_folder
    from playproof.train.cql import CqlConfig, train_cql
    from playproof.train.iql import IqlConfig, train_iql
    from playproof.train.offline import Table, card_of

    kind: Any = CqlConfig if method == "cql" else IqlConfig
    train: Any = train_cql if method == "cql" else train_iql
    path, config = run_folder(name), with_options(kind(seed=seed), option)
    run = open_run(path, method, told is None, asdict(config), told or _NOTHING)
    if told is None:
        config, told = read_config(kind, run.config["config"]), Asked.from_json(run.config["lessons"])
    lessons = find_lessons(told)
    table = Table.lay(lessons.game, lessons.observation, lessons.actions)
    bar, moved = epochs_bar(config.epochs)
    with bar:
        made = train(table, lessons.train, config, run, moved)
    metrics = compare(lessons, made.policy, told) if lessons.world is not None else {}
    card = card_of(
        table,
        method,
        asdict(config),
        clock=lessons.clock,
        stake=lessons.stake,
        reward=lessons.reward,
        commit=commit(),
        seed=config.seed,
        data_hash=lessons.data_hash,
        world=lessons.world,
        metrics=metrics,
    )
    checkpoint = run.save_checkpoint(config.epochs, card, made.weights)
    result = {"run": str(path), "checkpoint": str(path / checkpoint), "steps": len(lessons.train.rewards), **metrics}
    run.finish(result)
    run.close()
    return result


_NOTHING = Asked(None, None, None, (), 10, 0, "tick", 1)


def compare(lessons: Any, policy: Any, told: Asked, windows: int = 2048) -> dict[str, Any]:
    """Play the policy and its teachers over the same fresh windows; returns are per unit reserved."""
    import numpy as np

    from playproof.evaluate.rollout import RolloutOptions, rollout
    from playproof.policies.network import BatchPlayer
    from playproof.train.demonstrations import Mixture
    from playproof.train.players import find_player

    sizes = tuple(map(len, lessons.heads))
    teachers = Mixture([find_player(lessons.game, text, lessons.world, sizes) for text in told.players])
    options = RolloutOptions(lessons.observation, lessons.actions, lessons.clock)
    returns = [
        rollout(
            lessons.game, player, lessons.world, windows, told.seed + 900_001, stake=told.stake, options=options
        ).pnl
        / told.stake
        for player in (BatchPlayer(policy), teachers)
    ]
    better = returns[0] - returns[1]
    width = 1.96 * float(better.std(ddof=1)) / np.sqrt(windows)
    return {
        "roi": float(returns[0].mean()),
        "teachers_roi": float(returns[1].mean()),
        "better_by": float(better.mean()),
        "interval": [float(better.mean()) - width, float(better.mean()) + width],
    }
