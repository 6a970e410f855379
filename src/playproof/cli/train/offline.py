"""Learn a policy from recorded play alone: conservative or implicit Q-learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import typer

from playproof.cli.configs import Settings, configured, from_dict
from playproof.cli.output import AsJson, emit
from playproof.cli.targets import run_folder
from playproof.cli.train import data_options as data
from playproof.cli.train.group import Name, Resume, check_new, epochs_bar, figures, opened_run
from playproof.json_types import Json
from playproof.train.config import CqlConfig, IqlConfig, OfflineConfig

if TYPE_CHECKING:
    from playproof.evaluate.rollout import Rollout
    from playproof.game.vector_env import BatchPolicy
    from playproof.train.run import Run

cql = typer.Typer()
iql = typer.Typer()


def _add_command(app: typer.Typer, method: str, kind: type[OfflineConfig], what: str) -> None:
    """Add one of the two commands; they differ in nothing but the method and its settings."""

    def command(
        *,
        name: Name,
        dataset: data.DatasetName = None,
        game: data.WorldGame = None,
        world: data.World = None,
        player: data.Players = None,
        rounds: data.Rounds = 1500,
        clock: data.Clock = "tick",
        stake: data.Stake = 0.1,
        resume: Resume = False,
        settings: Settings,
        as_json: AsJson = False,
    ) -> None:
        """Learn by {what}.

        Writes runs/NAME; every epoch is a resume point. In a world the policy is then played beside the players it
        learned from, on the same fresh windows.

        Example: playproof train {method} --game crash --world drift --player best:0.2 --player hold-40 --name offline
        """
        path = run_folder(name)
        if resume:
            kept, data_config = data.kept_run(path, method)
            config = from_dict(kind, kept)
        else:
            config = settings.make(kind)
            data_config = data.DataConfig.from_options(dataset, game, world, player, rounds, config.seed, clock, stake)
            check_new(path)
        split = data.load_split(data_config)
        payload = {"config": asdict(config), "lessons": vars(data_config)}
        with opened_run(path, method, payload, resume) as run:
            result = _learn(run, method, split, data_config, config)
            run.finish(result)
        emit(result, as_json, lambda: figures(result, method, ".4f"))

    help_text = cleandoc(command.__doc__ or "").format(what=what, method=method)
    app.command(help=help_text)(configured(kind)(command))


_add_command(cql, "cql", CqlConfig, "conservative Q-learning: mistrusts actions that were not played")
_add_command(
    iql, "iql", IqlConfig, "implicit Q-learning: values only what was played, and imitates the better part of it"
)


def _learn(run: Run, method: str, split: data.TrainValSplit, data_config: data.DataConfig, config: Any) -> Json:
    """Train in a run's folder and play the policy beside its teachers."""
    from playproof.provenance import commit
    from playproof.train.cql import train_cql
    from playproof.train.data import OfflineSetup, card_of
    from playproof.train.iql import train_iql

    setup = OfflineSetup.from_game(split.game, split.observation, split.actions)
    train = train_cql if method == "cql" else train_iql
    bar, moved = epochs_bar(config.epochs)
    with bar:
        look = watching(run, split, data_config, config.epochs) if split.world is not None else None
        made = train(setup, split.train, config, run, moved, look)
    metrics = compare(run, split, made.policy, data_config) if split.world is not None else {}
    card = card_of(
        setup,
        method,
        asdict(config),
        clock=split.clock,
        stake=split.stake,
        reward=split.reward,
        commit=commit(),
        seed=config.seed,
        data_hash=split.data_hash,
        world=split.world,
        metrics=metrics,
    )
    return {
        "run": str(run.path),
        "checkpoint": str(run.path / run.save_checkpoint(config.epochs, card, made.weights)),
        "report": str(run.path / "report.html"),
        "steps": len(split.train.rewards),
        **metrics,
    }


def watching(
    run: Run, split: data.TrainValSplit, data_config: data.DataConfig, epochs: int, windows: int = 256
) -> Callable[[int, Any], None]:
    """Give what plays the policy over the same validation windows, about ten times in all, and notes its money."""
    from playproof.policies.network import BatchPlayer

    every = max(1, epochs // 10)

    def look(epoch: int, learned: Any) -> None:
        if epoch % every:
            return
        result = played(split, BatchPlayer(learned.policy), data_config, windows, data_config.seed + 700_001)
        run.note("evaluation", epoch, to_note(result, split.heads[0]))

    return look


def to_note(rollout: Rollout, names: Sequence[str]) -> Json:
    """Give what a run's log keeps of a rollout: profit with its standard error, and the action mix."""
    steps = max(1, int(rollout.steps.sum()))
    return {
        "pnl": float(rollout.pnl.mean()),
        "pnl_se": float(rollout.pnl.std(ddof=1)) / len(rollout.pnl) ** 0.5,
        "staked": float(rollout.staked.mean()),
        "mix": {name: float(of) / steps for name, of in zip(names, rollout.decisions.sum(axis=0), strict=True)},
    }


def played(
    split: data.TrainValSplit, player: BatchPolicy, data_config: data.DataConfig, windows: int, seed: int
) -> Rollout:
    """Play windows of the lessons' world."""
    from playproof.evaluate.rollout import RolloutOptions, rollout

    options = RolloutOptions(split.observation, split.actions, split.clock)
    return rollout(split.game, player, split.world or "", windows, seed, stake=data_config.stake, options=options)


def compare(
    run: Run, split: data.TrainValSplit, policy: Any, data_config: data.DataConfig, windows: int = 2048
) -> Json:
    """Play the policy and its teachers over the same fresh windows; returns are per unit reserved."""
    from playproof.policies.network import BatchPlayer
    from playproof.train.demonstrations import Mixture, find_player

    sizes = tuple(map(len, split.heads))
    teachers = Mixture([find_player(split.game, text, split.world or "", sizes) for text in data_config.players])
    own, theirs = (
        played(split, player, data_config, windows, data_config.seed + 900_001).pnl / data_config.stake
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
