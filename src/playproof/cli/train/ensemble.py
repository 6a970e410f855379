"""Combine a trained policy with a predictor by a fixed rule, and play the rule beside the policy alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playproof.cli.output import AsJson, emit, progress
from playproof.cli.targets import find_model, run_folder
from playproof.cli.train.group import Name, check_new, figures
from playproof.game import lookup
from playproof.json_types import Json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from playproof.game.vector_env import BatchPolicy

    Returns = NDArray[np.float64]

app = typer.Typer()


@app.command()
def ensemble(
    *,
    name: Name,
    policy: Annotated[Path, typer.Option(help="Checkpoint of the policy, or its run.")],
    predictor: Annotated[
        Path, typer.Option(help="Checkpoint of the predictor, or its run, as train sidebet writes it.")
    ],
    world: Annotated[str | None, typer.Option(help="World to play in; default: the policy's own.")] = None,
    margin: Annotated[float, typer.Option(help="Least expected profit of a bet, per unit staked.")] = 0.05,
    windows: Annotated[int, typer.Option(min=100, help="Fresh windows to play.")] = 4096,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same result.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Exit when the prediction is critical, bet when a bet is worth it, else do what the policy does.

    Writes runs/NAME with the rule's checkpoint, which names its parts by their hashes. The rule, the policy alone and
    the predictor's bets alone play the same fresh windows.

    Example: playproof train ensemble --policy runs/first/checkpoints/000004000000 --predictor
    runs/rugs/checkpoints/trees --name both
    """
    from playproof.policies.ensemble import batch_player, combine, save_ensemble
    from playproof.provenance import commit
    from playproof.train.run import CHECKPOINTS, Run

    path = run_folder(name)
    check_new(path)
    policy, predictor = Path(find_model(str(policy))), Path(find_model(str(predictor)))
    rule = combine(policy, predictor, margin)
    players = {"rule": rule, "policy": batch_player(policy), "predictor": batch_player(predictor)}
    returns, source = play(players, policy, world, windows, seed)
    metrics = gains(returns, source)
    checkpoint = path / CHECKPOINTS / "rule"
    run = Run.create(
        path, "ensemble", {"policy": str(policy), "predictor": str(predictor), "margin": margin, "seed": seed}
    )
    save_ensemble(checkpoint, policy, predictor, margin=margin, commit=commit(), metrics=metrics)
    for number, (player, of) in enumerate(returns.items()):
        run.note("player", number, {"name": player, "roi": of.mean(), "se": of.std(ddof=1) / len(of) ** 0.5})
    result = {"run": str(path), "checkpoint": str(checkpoint), "report": str(path / "report.html"), **metrics}
    run.finish(result)
    run.close()
    emit(result, as_json, lambda: figures(result, "ensemble", ".4f"))


def play(
    players: Mapping[str, BatchPolicy], policy: Path, world: str | None, windows: int, seed: int
) -> tuple[dict[str, Returns], str]:
    """Play all over the same windows; give returns per unit reserved, by player, and the world."""
    from playproof.evaluate.rollout import RolloutOptions, rollout
    from playproof.game import first, load_game
    from playproof.policies.checkpoint import load_checkpoint

    card = load_checkpoint(policy).card
    game = load_game(card.game)
    source = world or card.world or first(game.worlds)
    lookup(game.worlds, source, "world")
    options = RolloutOptions(card.observation, card.actions, card.clock)
    returns: dict[str, Returns] = {}
    with progress() as bar:
        task = bar.add_task("playing", total=len(players))
        for name, player in players.items():
            result = rollout(game, player, source, windows, seed + 900_001, stake=card.stake, options=options)
            returns[name] = result.pnl / card.stake
            bar.advance(task)
    return returns, source


def gains(returns: Mapping[str, Returns], world: str) -> Json:
    """Give each player's return, and the rule's gain over the policy with its paired interval."""
    better = returns["rule"] - returns["policy"]
    gain, width = float(better.mean()), 1.96 * float(better.std(ddof=1)) / len(better) ** 0.5
    payload: Json = {f"{name}_roi": float(of.mean()) for name, of in returns.items()}
    return payload | {"world": world, "windows": len(better), "gain": gain, "interval": [gain - width, gain + width]}
