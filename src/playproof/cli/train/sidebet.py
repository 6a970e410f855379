"""Train a predictor of a window's end: boosted trees, calibrated, and switched off without skill.

Leaves out: the growing (playproof.train.rug_predictor).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from playproof.cli.output import AsJson, emit, note
from playproof.cli.train.data_options import (
    DatasetName,
    Rounds,
    Settings,
    Stake,
    World,
    asked,
    check_new,
    figures,
    find_lessons,
    opened_run,
    with_options,
)

app = typer.Typer()


@app.command()
def sidebet(
    *,
    name: Annotated[str, typer.Option(help="Name of the run, a folder under runs/ in the home; or a path.")],
    dataset: DatasetName = None,
    game: Annotated[str | None, typer.Option(help="The game of --world.")] = None,
    world: World = None,
    rounds: Rounds = 12_000,
    stake: Stake = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Grow a predictor on the first windows, judge it on the next, test it on the last.

    Its Brier skill is against the constant hazard, with an interval over whole windows. Without skill on the judging
    windows it is switched off: it then predicts the constant hazard, and bets nothing.

    Example: playproof train sidebet --game crash --world hazard --name rugs
    """
    from playproof.cli.train.ppo import run_folder
    from playproof.datasets.dataset import join
    from playproof.provenance import commit
    from playproof.train.rug_predictor import RugPredictorConfig, grow, save_predictor, to_metrics
    from playproof.train.run import CHECKPOINTS

    config, path = with_options(RugPredictorConfig(seed=seed), option), run_folder(name)
    check_new(path)
    payload = asked(dataset, game, world, ["wait"] if world else None, rounds, seed, "tick", stake)
    lessons = find_lessons(payload)
    names = tuple(lessons.game.observations[lessons.observation].features)  # type: ignore[union-attr]
    steps = lessons.train if dataset is None else join([lessons.train, lessons.unseen])
    with opened_run(path, "sidebet", asdict(config), payload, False) as run:
        note("growing trees; this takes seconds, and is done again if it is stopped")
        made = grow(lessons.game, steps, config, names=names, world=lessons.world)
        checkpoint = path / CHECKPOINTS / "trees"
        save_predictor(
            checkpoint,
            lessons.game,
            made,
            observation=lessons.observation,
            stake=lessons.stake,
            commit=commit(),
            data_hash=lessons.data_hash,
            world=lessons.world,
        )
        result: dict[str, Any] = {
            "run": str(path),
            "checkpoint": str(checkpoint),
            "report": str(path / "report.html"),
            **to_metrics(made),
        }
        for number, one in enumerate(made.bins):
            low, high = one.interval
            run.note("bin", number, {"predicted": one.predicted, "observed": one.observed, "low": low, "high": high})
        run.finish(result)
    emit(result, as_json, lambda: figures("sidebet predictor", _shown(result)))


def _shown(result: dict[str, Any]) -> dict[str, Any]:
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
