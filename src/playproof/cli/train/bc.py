"""Clone a recorded player: behaviour cloning, as a network or as boosted trees."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.configs import Settings, configured, from_dict
from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import run_folder
from playproof.cli.train import data_options as data
from playproof.cli.train.group import Name, Resume, check_new, epochs_bar, opened_run
from playproof.errors import ConfigError
from playproof.json_types import Json
from playproof.train.config import BcConfig, TreesConfig

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.train.run import Run

app = typer.Typer()

MIX_SEED = 800_003
"""Of the windows in which a clone shows its mix."""


@app.command()
@configured(BcConfig, TreesConfig)
def bc(
    *,
    name: Name,
    dataset: data.DatasetName = None,
    game: data.WorldGame = None,
    world: data.World = None,
    player: data.Players = None,
    rounds: data.Rounds = 300,
    clock: data.Clock = "press",
    model: Annotated[str, typer.Option(help="network, which PPO can go on from, or trees, which need less data.")] = (
        "network"
    ),
    curve: Annotated[bool, typer.Option("--curve", help="Also clone from 25, 50, 100, 200 and 300 rounds.")] = False,
    stake: data.Stake = 0.1,
    interventions: Annotated[
        bool, typer.Option("--interventions", help="Only what a person did who took over from a bot.")
    ] = False,
    resume: Resume = False,
    settings: Settings,
    as_json: AsJson = False,
) -> None:
    """Clone a player and score the clone on later windows, beside what always waiting scores.

    Writes runs/NAME with a checkpoint, log and report.html. A network is saved after every epoch: --resume goes on,
    to the same weights as an unbroken run. Settings of both models are options: BcConfig is the network's,
    TreesConfig the trees'.

    Example: playproof train bc --game crash --world published --player human --model trees --name clone
    """
    path = run_folder(name)
    if model not in ("network", "trees"):
        raise ConfigError(f"expected --model network or trees, found {model!r}")
    config: BcConfig | TreesConfig
    if resume and model == "trees":
        raise ConfigError("expected to resume a network, found trees: they are grown in seconds, run them again")
    if resume:
        kept, data_config = data.kept_run(path, "bc")
        config = from_dict(BcConfig, kept)
    else:
        config = settings.make(BcConfig) if model == "network" else settings.make(TreesConfig)
        data_config = data.DataConfig.from_options(dataset, game, world, player, rounds, config.seed, clock, stake)
        check_new(path)
    split = data.load_split(data_config)
    if interventions:
        split = data.only_interventions(split)
    with opened_run(path, "bc", {"config": asdict(config), "lessons": vars(data_config)}, resume) as run:
        result = _clone(run, split, config, curve)
        run.finish(result)
    emit(result, as_json, lambda: tables(result))


def _clone(run: Run, split: data.TrainValSplit, config: BcConfig | TreesConfig, curve: bool) -> Json:
    """Clone, score, keep the checkpoint, and give what is shown."""
    from playproof.provenance import commit
    from playproof.train.bc import Clone, card_of, clone, learning_curve
    from playproof.train.bc_trees import CloneTrees, clone_habits, save_habits
    from playproof.train.run import CHECKPOINTS

    sets: Json = {"observation": split.observation, "actions": split.actions}
    made: Clone | CloneTrees
    if isinstance(config, BcConfig):
        bar, moved = epochs_bar(config.epochs)
        with bar:
            made = clone(split.game, split.train, config, **sets, run=run, notify=moved)
    else:
        made = clone_habits(split.game, split.train, config, **sets)
    scores = [score.to_json() for score in made.likeness(split.unseen, split.train, split.heads)]
    facts: Json = {
        **sets,
        "clock": split.clock,
        "stake": split.stake,
        "data_hash": split.data_hash,
        "world": split.world,
        "commit": commit(),
        "metrics": {"heads": scores},
    }
    if isinstance(made, Clone):
        checkpoint = run.save_checkpoint(made.config.epochs, card_of(split.game, made, **facts), made.weights)
    else:
        checkpoint = f"{CHECKPOINTS}/trees"
        save_habits(run.path / checkpoint, split.game, made, **facts)
    curves: dict[int, list[float]] = {}
    if curve:

        def say(count: int, _: Any) -> None:
            note(f"cloned from {count} rounds")

        parts = learning_curve(split.game, split.train, split.unseen, config, **sets, notify=say)
        curves = {count: [score.balanced for score in of] for count, of in parts.items()}
    for count, values in curves.items():
        run.note("rounds", count, {f"head_{index}": value for index, value in enumerate(values)})
    return {
        "run": str(run.path),
        "checkpoint": str(run.path / checkpoint),
        "report": str(run.path / "report.html"),
        "steps": len(split.train.rewards),
        "scored_steps": len(split.unseen.rewards),
        "heads": scores,
        "learning_curve": curves,
        "mix": _mix(split, made.policy),
    }


def _mix(split: data.TrainValSplit, policy: Any) -> dict[str, list[float | None]]:
    """Let the clone play by chance, on its clock; give each choice's share of the player's steps and of its own."""
    from playproof.datasets.dataset import starts
    from playproof.policies.network import BatchPlayer
    from playproof.train.demonstrations import DemonstrationConfig as Terms
    from playproof.train.demonstrations import demonstrate
    from playproof.train.imitation_metrics import action_mix

    his = action_mix(split.train.actions, split.heads)
    if split.world is None:
        return {name: [share, None] for name, share in his.items()}
    terms, windows = Terms(clock=split.clock, stake=split.stake), len(starts(split.unseen))
    player = BatchPlayer(policy, sample=True)
    played = demonstrate(split.game, player, split.world, windows, MIX_SEED, terms)
    own = action_mix(played.actions, split.heads)
    return {name: [share, own[name]] for name, share in his.items()}


def tables(result: Json) -> RenderableType:
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
