"""Learn a policy from recorded play alone: conservative or implicit Q-learning.

Leaves out: the learning (playproof.train.cql, playproof.train.iql).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit
from playproof.cli.train.data_options import (
    DataConfig,
    DatasetName,
    Players,
    Resume,
    Rounds,
    Settings,
    Stake,
    TrainValSplit,
    World,
    asked,
    check_new,
    epochs_bar,
    figures,
    find_lessons,
    kept_run,
    opened_run,
    read_config,
    with_options,
)

if TYPE_CHECKING:
    from playproof.evaluate.rollout import Rollout
    from playproof.game.vector_env import BatchPolicy
    from playproof.train.run import Run

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
    payload = None if resume else asked(dataset, game, world, player, rounds, seed, clock, stake)
    result = learn("cql", name, payload, seed, option)
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
    payload = None if resume else asked(dataset, game, world, player, rounds, seed, clock, stake)
    result = learn("iql", name, payload, seed, option)
    emit(result, as_json, lambda: figures("iql", result))


def learn(
    method: str, name: str, data_config: DataConfig | None, seed: int, option: list[str] | None
) -> dict[str, Any]:
    """Train in a run's folder and play the policy beside its teachers."""
    from playproof.cli.train.ppo import run_folder
    from playproof.provenance import commit
    from playproof.train.cql import CqlConfig, train_cql
    from playproof.train.data import OfflineSetup, card_of
    from playproof.train.iql import IqlConfig, train_iql

    kind: Any = CqlConfig if method == "cql" else IqlConfig
    train: Any = train_cql if method == "cql" else train_iql
    path, resume = run_folder(name), data_config is None
    if data_config is None:
        kept, data_config = kept_run(path, method)
        config = read_config(kind, kept)
    else:
        check_new(path)
        config = with_options(kind(seed=seed), option)
    lessons = find_lessons(data_config)
    table = OfflineSetup.lay(lessons.game, lessons.observation, lessons.actions)
    bar, moved = epochs_bar(config.epochs)
    with opened_run(path, method, asdict(config), data_config, resume) as run:
        with bar:
            look = watching(run, lessons, data_config, config.epochs) if lessons.world is not None else None
            made = train(table, lessons.train, config, run, moved, look)
        metrics = compare(run, lessons, made.policy, data_config) if lessons.world is not None else {}
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
        result = {
            "run": str(path),
            "checkpoint": str(path / checkpoint),
            "report": str(path / "report.html"),
            "steps": len(lessons.train.rewards),
            **metrics,
        }
        run.finish(result)
    return result


def watching(
    run: Run, lessons: TrainValSplit, data_config: DataConfig, epochs: int, windows: int = 256
) -> Callable[[int, Any], None]:
    """Give what plays the policy over the same validation windows, about ten times in all, and notes its money."""
    from playproof.policies.network import BatchPlayer

    every = max(1, epochs // 10)

    def look(epoch: int, learned: Any) -> None:
        if epoch % every:
            return
        result = played(lessons, BatchPlayer(learned.policy), data_config, windows, data_config.seed + 700_001)
        run.note("evaluation", epoch, to_note(result, lessons.heads[0]))

    return look


def to_note(rollout: Rollout, names: Sequence[str]) -> dict[str, Any]:
    """Give what a run's log keeps of a rollout: profit with its standard error, and the action mix."""
    steps = max(1, int(rollout.steps.sum()))
    return {
        "pnl": float(rollout.pnl.mean()),
        "pnl_se": float(rollout.pnl.std(ddof=1)) / len(rollout.pnl) ** 0.5,
        "staked": float(rollout.staked.mean()),
        "mix": {name: float(of) / steps for name, of in zip(names, rollout.decisions.sum(axis=0), strict=True)},
    }


def played(lessons: TrainValSplit, player: BatchPolicy, data_config: DataConfig, windows: int, seed: int) -> Rollout:
    """Play windows of the lessons' world."""
    from playproof.evaluate.rollout import RolloutOptions, rollout

    options = RolloutOptions(lessons.observation, lessons.actions, lessons.clock)
    return rollout(lessons.game, player, lessons.world or "", windows, seed, stake=data_config.stake, options=options)


def compare(
    run: Run, lessons: TrainValSplit, policy: Any, data_config: DataConfig, windows: int = 2048
) -> dict[str, Any]:
    """Play the policy and its teachers over the same fresh windows; returns are per unit reserved."""
    from playproof.policies.network import BatchPlayer
    from playproof.train.demonstrations import Mixture
    from playproof.train.players import find_player

    sizes = tuple(map(len, lessons.heads))
    teachers = Mixture([find_player(lessons.game, text, lessons.world or "", sizes) for text in data_config.players])
    own, theirs = (
        played(lessons, player, data_config, windows, data_config.seed + 900_001).pnl / data_config.stake
        for player in (BatchPlayer(policy), teachers)
    )
    for number, (name, of) in enumerate({"learned": own, "teachers": theirs}.items()):
        run.note("player", number, {"name": name, "roi": of.mean(), "se": of.std(ddof=1) / windows**0.5})
    better = own - theirs
    width = 1.96 * float(better.std(ddof=1)) / windows**0.5
    return {
        "roi": float(own.mean()),
        "teachers_roi": float(theirs.mean()),
        "better_by": float(better.mean()),
        "interval": [float(better.mean()) - width, float(better.mean()) + width],
    }
