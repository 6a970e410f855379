"""Combine a trained policy with a predictor by a fixed rule, and play the rule beside the policy alone.

Leaves out: the rule (playproof.policies.ensemble).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from playproof.cli.lessons import figures
from playproof.cli.output import AsJson, emit

app = typer.Typer()


@app.command()
def ensemble(
    *,
    name: Annotated[str, typer.Option(help="Name of the run, a folder under runs/ in the home; or a path.")],
    policy: Annotated[Path, typer.Option(help="Checkpoint of the policy.")],
    predictor: Annotated[Path, typer.Option(help="Checkpoint of the predictor, as train sidebet writes it.")],
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
    from playproof.bench.report import commit
    from playproof.cli.train_ppo import run_folder
    from playproof.policies.ensemble import batch_player, combine, save_ensemble
    from playproof.train.run import CHECKPOINTS, Run

    path = run_folder(name)
    rule = combine(policy, predictor, margin)
    run = Run.create(
        path, "ensemble", {"policy": str(policy), "predictor": str(predictor), "margin": margin, "seed": seed}
    )
    players = {"rule": rule, "policy": batch_player(policy), "predictor": batch_player(predictor)}
    metrics = play(players, policy, world, windows, seed)
    checkpoint = path / CHECKPOINTS / "rule"
    save_ensemble(checkpoint, policy, predictor, margin=margin, commit=commit(), metrics=metrics)
    result = {"run": str(path), "checkpoint": str(checkpoint), **metrics}
    run.finish(result)
    run.close()
    emit(result, as_json, lambda: figures("ensemble", result))


def play(players: dict[str, Any], policy: Path, world: str | None, windows: int, seed: int) -> dict[str, Any]:
    """Play all over the same windows; give returns per unit reserved, and the rule's gain with its paired interval."""
    import numpy as np

    from playproof.evaluate.rollout import RolloutOptions, rollout
    from playproof.game import first, load_game
    from playproof.policies.checkpoint import load_checkpoint

    card = load_checkpoint(policy).card
    game = load_game(card.game)
    source = world or card.world or first(game.worlds)
    options = RolloutOptions(card.observation, card.actions, card.clock)
    returns = {
        name: rollout(game, player, source, windows, seed + 900_001, stake=card.stake, options=options).pnl / card.stake
        for name, player in players.items()
    }
    better = returns["rule"] - returns["policy"]
    width = 1.96 * float(better.std(ddof=1)) / np.sqrt(windows)
    told: dict[str, Any] = {f"{name}_roi": float(of.mean()) for name, of in returns.items()}
    gain = float(better.mean())
    return told | {"world": source, "windows": windows, "gain": gain, "interval": [gain - width, gain + width]}
