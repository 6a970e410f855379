"""Train a predictor of a window's end: boosted trees, calibrated, and switched off without skill."""

from __future__ import annotations

from dataclasses import asdict

import typer

from playproof.cli.configs import Settings, configured
from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import run_folder
from playproof.cli.train import data_options as data
from playproof.cli.train.group import Name, check_new, figures, opened_run
from playproof.json_types import Json
from playproof.train.config import RugPredictorConfig

app = typer.Typer()


@app.command()
@configured(RugPredictorConfig)
def sidebet(
    *,
    name: Name,
    dataset: data.DatasetName = None,
    game: data.WorldGame = None,
    world: data.World = None,
    rounds: data.Rounds = 12_000,
    stake: data.Stake = 0.1,
    settings: Settings,
    as_json: AsJson = False,
) -> None:
    """Grow a predictor on the first windows, judge it on the next, test it on the last.

    Its Brier skill is against the constant hazard, with an interval over whole windows. Without skill on the judging
    windows it is switched off: it then predicts the constant hazard, and bets nothing.

    Example: playproof train sidebet --game crash --world hazard --name rugs
    """
    from playproof.datasets.dataset import join
    from playproof.provenance import commit
    from playproof.train.rug_predictor import grow, save_predictor, to_metrics
    from playproof.train.run import CHECKPOINTS

    config, path = settings.make(RugPredictorConfig), run_folder(name)
    check_new(path)
    players = ["wait"] if world else None
    data_config = data.DataConfig.from_options(dataset, game, world, players, rounds, config.seed, "tick", stake)
    split = data.load_split(data_config)
    names = tuple(split.game.observations[split.observation].features)  # type: ignore[union-attr]
    steps = split.train if dataset is None else join([split.train, split.unseen])
    payload = {"config": asdict(config), "lessons": vars(data_config)}
    with opened_run(path, "sidebet", payload, False) as run:
        note("growing trees; this takes seconds, and is done again if it is stopped")
        made = grow(split.game, steps, config, names=names, world=split.world)
        checkpoint = path / CHECKPOINTS / "trees"
        save_predictor(
            checkpoint,
            split.game,
            made,
            observation=split.observation,
            stake=split.stake,
            commit=commit(),
            data_hash=split.data_hash,
            world=split.world,
        )
        result: Json = {
            "run": str(path),
            "checkpoint": str(checkpoint),
            "report": str(path / "report.html"),
            **to_metrics(made),
        }
        for number, one in enumerate(made.bins):
            low, high = one.interval
            run.note("bin", number, {"predicted": one.predicted, "observed": one.observed, "low": low, "high": high})
        run.finish(result)
    emit(result, as_json, lambda: figures(_shown(result), "sidebet predictor", ".4f"))


def _shown(result: Json) -> Json:
    """Give the figures that a table shows."""
    tested, best = result["tested"], result["by_theory"]
    return {
        "switched": "on" if result["skilled"] else "off: no skill on the judging windows",
        "Brier score": tested["brier"],
        "of the constant hazard": tested["reference"],
        "Brier skill": tested["skill"],
        "its interval": " to ".join(f"{value:+.4f}" for value in tested["interval"]),
        "best possible skill": None if best is None else best["skill"],
        "calibration error": tested["ece"],
        "trees": result["trees"],
        "checkpoint": result["checkpoint"],
    }
