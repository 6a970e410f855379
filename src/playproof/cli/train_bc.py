"""Clone a recorded player: behaviour cloning, as a network or as boosted trees.

Leaves out: the cloning (playproof.train.bc, playproof.train.bc_trees).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.lessons import (
    Asked,
    DatasetName,
    Lessons,
    Players,
    Resume,
    Rounds,
    Settings,
    Stake,
    World,
    asked,
    epochs_bar,
    find_lessons,
    open_run,
    read_config,
    with_options,
)
from playproof.cli.output import AsJson, emit, note
from playproof.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from playproof.train.likeness import HeadLikeness

app = typer.Typer()


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
    from playproof.cli.train_ppo import run_folder

    path, told = run_folder(name), None
    if not resume:
        told = asked(dataset, game, world, player, rounds, seed, clock, stake)
    if model not in ("network", "trees"):
        raise ConfigError(f"expected --model network or trees, found {model!r}")
    result = (_network if model == "network" else _trees)(path, told, seed, option, curve)
    emit(result, as_json, lambda: tables(result))


def _network(path: Path, told: Asked | None, seed: int, option: list[str] | None, curve: bool) -> dict[str, Any]:
    from playproof.bench.report import commit
    from playproof.train.bc import BcConfig, card_of, clone, learning_curve

    config = with_options(BcConfig(seed=seed), option)
    run = open_run(path, "bc", told is None, asdict(config), told or _ASKED)
    if told is None:
        config, told = read_config(BcConfig, run.config["config"]), Asked.from_json(run.config["lessons"])
    lessons = find_lessons(told)
    bar, moved = epochs_bar(config.epochs)
    with bar:
        made = clone(
            lessons.game,
            lessons.train,
            config,
            observation=lessons.observation,
            actions=lessons.actions,
            run=run,
            notify=moved,
        )
    scores = made.likeness(lessons.unseen, lessons.train, lessons.heads)
    metrics = {"heads": [score.to_json() for score in scores]}
    card = card_of(
        lessons.game,
        made,
        observation=lessons.observation,
        actions=lessons.actions,
        clock=lessons.clock,
        stake=lessons.stake,
        data_hash=lessons.data_hash,
        world=lessons.world,
        commit=commit(),
        metrics=metrics,
    )
    checkpoint = run.save_checkpoint(config.epochs, card, made.weights)
    curves = {}
    if curve:
        found = learning_curve(
            lessons.game,
            lessons.train,
            lessons.unseen,
            config,
            observation=lessons.observation,
            actions=lessons.actions,
            notify=lambda count, _: note(f"cloned from {count} rounds"),
        )
        curves = {count: [score.balanced for score in of] for count, of in found.items()}
    return _finish(run, path, lessons, scores, checkpoint, curves)


_ASKED = Asked(None, None, None, (), 10, 0, "press", 1)


def _trees(path: Path, told: Asked | None, seed: int, option: list[str] | None, curve: bool) -> dict[str, Any]:
    from playproof.bench.report import commit
    from playproof.train.bc_trees import TreesConfig, clone_habits, save_habits
    from playproof.train.demonstrations import first_windows
    from playproof.train.run import CHECKPOINTS

    if told is None:
        raise ConfigError("expected to resume a network, found trees: they are grown in seconds, run them again")
    config = with_options(TreesConfig(seed=seed), option)
    run = open_run(path, "bc", False, asdict(config), told)
    lessons = find_lessons(told)

    def cloned(rounds: int) -> Any:
        return clone_habits(
            lessons.game,
            first_windows(lessons.train, rounds),
            config,
            observation=lessons.observation,
            actions=lessons.actions,
        )

    made = cloned(10**9)
    scores = made.likeness(lessons.unseen, lessons.train, lessons.heads)
    checkpoint = f"{CHECKPOINTS}/trees"
    save_habits(
        path / checkpoint,
        lessons.game,
        made,
        observation=lessons.observation,
        actions=lessons.actions,
        clock=lessons.clock,
        stake=lessons.stake,
        commit=commit(),
        data_hash=lessons.data_hash,
        world=lessons.world,
        metrics={"heads": [score.to_json() for score in scores]},
    )
    curves: dict[int, list[float]] = {}
    if curve:
        from playproof.train.bc import CURVE
        from playproof.train.demonstrations import starts

        for count in sorted({min(each, len(starts(lessons.train))) for each in CURVE}):
            found = cloned(count).likeness(lessons.unseen, lessons.train, lessons.heads)
            curves[count] = [score.balanced for score in found]
            note(f"cloned from {count} rounds")
    return _finish(run, path, lessons, scores, checkpoint, curves)


def _finish(
    run: Any,
    path: Path,
    lessons: Lessons,
    scores: tuple[HeadLikeness, ...],
    checkpoint: str,
    curve: dict[int, list[float]],
) -> dict[str, Any]:
    """Write the result and give what is shown."""
    result = {
        "run": str(path),
        "checkpoint": str(path / checkpoint),
        "steps": len(lessons.train.rewards),
        "scored_steps": len(lessons.unseen.rewards),
        "heads": [score.to_json() for score in scores],
        "learning_curve": curve,
    }
    run.finish(result)
    run.close()
    return result


def tables(result: dict[str, Any]) -> RenderableType:
    """Lay scores, recalls and confusion out."""
    from rich.console import Group
    from rich.table import Table

    parts: list[RenderableType] = []
    for place, head in enumerate(result["heads"]):
        scores = Table("", "clone", "majority", "always first", title=f"head {place}", title_justify="left")
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
        learned = Table("rounds", *(f"balanced accuracy, head {place}" for place in range(len(result["heads"]))))
        for count, of in result["learning_curve"].items():
            learned.add_row(str(count), *(f"{value:.4f}" for value in of))
        parts.append(learned)
    return Group(*parts, f"checkpoint: {result['checkpoint']}")
