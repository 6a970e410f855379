"""Clone a recorded player: behaviour cloning, as a network or as boosted trees.

Leaves out: the cloning (playproof.train.bc, playproof.train.bc_trees).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note
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
    find_lessons,
    kept_run,
    opened_run,
    read_config,
    with_options,
)
from playproof.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from playproof.train.imitation_metrics import HeadMetrics
    from playproof.train.run import Run

app = typer.Typer()

MIX_SEED = 800_003
"""Of the windows in which a clone shows its mix."""


@app.command()
def bc(
    *,
    name: Annotated[str, typer.Option(help="Name of the run, a folder under runs/ in the home; or a path.")],
    dataset: DatasetName = None,
    game: Annotated[str | None, typer.Option(help="The game of --world.")] = None,
    world: World = None,
    player: Players = None,
    rounds: Rounds = 300,
    clock: Annotated[str, typer.Option(help="tick, or press: as people play.")] = "press",
    model: Annotated[str, typer.Option(help="network, which PPO can go on from, or trees, which need less data.")] = (
        "network"
    ),
    curve: Annotated[bool, typer.Option("--curve", help="Also clone from 25, 50, 100, 200 and 300 rounds.")] = False,
    stake: Stake = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    resume: Resume = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Clone a player and score the clone on later windows, beside what always waiting scores.

    Writes runs/NAME with a checkpoint, log and report.html. A network is saved after every epoch: --resume goes on,
    to the same weights as an unbroken run.

    Example: playproof train bc --game crash --world published --player human --model trees --name clone
    """
    from playproof.cli.train.ppo import run_folder

    path, payload = run_folder(name), None
    if not resume:
        payload = asked(dataset, game, world, player, rounds, seed, clock, stake)
    if model not in ("network", "trees"):
        raise ConfigError(f"expected --model network or trees, found {model!r}")
    result = (_network if model == "network" else _trees)(path, payload, seed, option, curve)
    emit(result, as_json, lambda: tables(result))


def _network(
    path: Path, data_config: DataConfig | None, seed: int, option: list[str] | None, curve: bool
) -> dict[str, Any]:
    from playproof.provenance import commit
    from playproof.train.bc import BcConfig, card_of, clone, learning_curve

    resume = data_config is None
    if data_config is None:
        kept, data_config = kept_run(path, "bc")
        config = read_config(BcConfig, kept)
    else:
        check_new(path)
        config = with_options(BcConfig(seed=seed), option)
    lessons = find_lessons(data_config)
    sets: dict[str, Any] = {"observation": lessons.observation, "actions": lessons.actions}
    bar, moved = epochs_bar(config.epochs)
    with opened_run(path, "bc", asdict(config), data_config, resume) as run:
        with bar:
            made = clone(lessons.game, lessons.train, config, **sets, run=run, notify=moved)
        scores = made.likeness(lessons.unseen, lessons.train, lessons.heads)
        card = card_of(
            lessons.game,
            made,
            **sets,
            clock=lessons.clock,
            stake=lessons.stake,
            data_hash=lessons.data_hash,
            world=lessons.world,
            commit=commit(),
            metrics={"heads": [score.to_json() for score in scores]},
        )
        checkpoint = run.save_checkpoint(config.epochs, card, made.weights)
        curves = {}
        if curve:
            result = learning_curve(
                lessons.game,
                lessons.train,
                lessons.unseen,
                config,
                **sets,
                notify=lambda count, _: note(f"cloned from {count} rounds"),
            )
            curves = {count: [score.balanced for score in of] for count, of in result.items()}
        return _finish(run, path, lessons, made.policy, scores, checkpoint, curves)


def _trees(
    path: Path, data_config: DataConfig | None, seed: int, option: list[str] | None, curve: bool
) -> dict[str, Any]:
    from playproof.provenance import commit
    from playproof.train.bc import CURVE
    from playproof.train.bc_trees import TreesConfig, clone_habits, save_habits
    from playproof.train.demonstrations import first_windows, starts
    from playproof.train.run import CHECKPOINTS

    if data_config is None:
        raise ConfigError("expected to resume a network, found trees: they are grown in seconds, run them again")
    check_new(path)
    config = with_options(TreesConfig(seed=seed), option)
    lessons = find_lessons(data_config)
    sets = {"observation": lessons.observation, "actions": lessons.actions}

    def cloned(rounds: int) -> Any:
        return clone_habits(lessons.game, first_windows(lessons.train, rounds), config, **sets)

    with opened_run(path, "bc", asdict(config), data_config, False) as run:
        made = cloned(10**9)
        scores = made.likeness(lessons.unseen, lessons.train, lessons.heads)
        checkpoint = f"{CHECKPOINTS}/trees"
        save_habits(
            path / checkpoint,
            lessons.game,
            made,
            **sets,
            clock=lessons.clock,
            stake=lessons.stake,
            commit=commit(),
            data_hash=lessons.data_hash,
            world=lessons.world,
            metrics={"heads": [score.to_json() for score in scores]},
        )
        curves: dict[int, list[float]] = {}
        if curve:
            for count in sorted({min(item, len(starts(lessons.train))) for item in CURVE}):
                result = cloned(count).likeness(lessons.unseen, lessons.train, lessons.heads)
                curves[count] = [score.balanced for score in result]
                note(f"cloned from {count} rounds")
        return _finish(run, path, lessons, made.policy, scores, checkpoint, curves)


def _finish(
    run: Run,
    path: Path,
    lessons: TrainValSplit,
    policy: Any,
    scores: tuple[HeadMetrics, ...],
    checkpoint: str,
    curve: dict[int, list[float]],
) -> dict[str, Any]:
    """Write the result and give what is shown."""
    result = {
        "run": str(path),
        "checkpoint": str(path / checkpoint),
        "report": str(path / "report.html"),
        "steps": len(lessons.train.rewards),
        "scored_steps": len(lessons.unseen.rewards),
        "heads": [score.to_json() for score in scores],
        "learning_curve": curve,
        "mix": _mix(lessons, policy),
    }
    for count, values in curve.items():
        run.note("rounds", count, {f"head_{index}": value for index, value in enumerate(values)})
    run.finish(result)
    return result


def _mix(lessons: TrainValSplit, policy: Any) -> dict[str, list[float | None]]:
    """Let the clone play by chance, on its clock; give each choice's share of the player's steps and of its own."""
    from playproof.policies.network import BatchPlayer
    from playproof.train.demonstrations import DemonstrationConfig as Terms
    from playproof.train.demonstrations import demonstrate, starts
    from playproof.train.imitation_metrics import action_mix

    his = action_mix(lessons.train.actions, lessons.heads)
    if lessons.world is None:
        return {name: [share, None] for name, share in his.items()}
    terms, windows = Terms(clock=lessons.clock, stake=lessons.stake), len(starts(lessons.unseen))
    player = BatchPlayer(policy, sample=True)
    played = demonstrate(lessons.game, player, lessons.world, windows, MIX_SEED, terms)
    own = action_mix(played.actions, lessons.heads)
    return {name: [share, own[name]] for name, share in his.items()}


def tables(result: dict[str, Any]) -> RenderableType:
    """Lay scores, recalls and confusion out."""
    from rich.console import Group
    from rich.table import Table

    parts: list[RenderableType] = []
    for index, head in enumerate(result["heads"]):
        scores = Table("", "clone", "majority", "always first", title=f"head {index}", title_justify="left")
        scores.add_row("accuracy", *(f"{head[name]:.4f}" for name in ("accuracy", "majority", "always_wait")))
        chance = 1 / max(1, len(head["scored"]))
        scores.add_row("balanced accuracy", f"{head['balanced']:.4f}", f"{chance:.4f}", f"{chance:.4f}")
        scores.add_row("log loss", f"{head['log_loss']:.4f}", f"{head['mix_loss']:.4f}", "-")
        detail = Table("choice", "precision", "recall", *head["choices"], title="rows: the player's choice")
        for number, choice in enumerate(head["choices"]):
            shares = (head["precision"][number], head["recall"][number])
            shown = ["-" if share is None else f"{share:.3f}" for share in shares]
            detail.add_row(choice, *shown, *(str(count) for count in head["confusion"][number]))
        parts += [scores, detail]
    if result["learning_curve"]:
        learned = Table("rounds", *(f"balanced accuracy, head {position}" for position in range(len(result["heads"]))))
        for count, of in result["learning_curve"].items():
            learned.add_row(str(count), *(f"{value:.4f}" for value in of))
        parts.append(learned)
    mix = Table("choice", "share of his steps", "of the clone's, by chance")
    for name, (his, own) in result["mix"].items():
        mix.add_row(name, f"{his:.5f}", "-" if own is None else f"{own:.5f}")
    return Group(*parts, mix, f"checkpoint: {result['checkpoint']}", f"report: {result['report']}")
