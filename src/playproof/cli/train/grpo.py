"""Train a language model by GRPO, on this machine or by OpenPipe ART's service.

Leaves out: the training (playproof.train.language.grpo).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from playproof.cli.configs import Settings, configured
from playproof.cli.output import AsJson, emit, note
from playproof.cli.targets import find_model, language_game, recorded_game, run_folder
from playproof.cli.train.options import LanguageGame, Name, Resume, Track, figures, tracking
from playproof.errors import ConfigError
from playproof.game import Game
from playproof.money import UNIT
from playproof.train.language.config import GRPOConfig

app = typer.Typer()


@app.command()
@configured(
    GRPOConfig,
    without=("reward",),
    labels={"windows": "--windows-per-iteration", "target": "--target-trajectories"},
)
def grpo(
    *,
    name: Name,
    game: LanguageGame = None,
    source: Annotated[
        str, typer.Option(help="Groups to learn from: forks (fresh play of forked windows) or recorded (windows).")
    ] = "forks",
    judge: Annotated[
        str | None,
        typer.Option(help="Reward: computed, or judge as $JUDGE_MODEL names it. Default: the judge if there is one."),
    ] = None,
    backend: Annotated[str, typer.Option(help="local (this machine), or art (OpenPipe ART's service).")] = "local",
    resume: Resume = False,
    track: Track = None,
    settings: Settings,
    as_json: AsJson = False,
) -> None:
    """Let a language model learn from how its own answers compare within a window.

    Writes runs/NAME: configuration, log, a checkpoint and a resume point each iteration, report.html. Prints windows,
    scores, best agent, loss, checkpoint and money on held-out windows. A run that was killed goes on with --resume, to
    the same weights. Divergence stops it with exit code 2 and keeps the last good checkpoint.

    Example: playproof train grpo --name better --base runs/taught/checkpoints/sft --iterations 8

    Example: playproof train grpo --name better --base taught --game my-market --source recorded
    """
    from_windows = source == "recorded" and backend == "local"
    played = recorded_game(game) if from_windows else language_game(game)
    config = settings.make(GRPOConfig, game=played.name)
    config = replace(config, base=find_model(config.base))
    if backend == "art":
        from playproof.train.language.art import train_by_art

        train_by_art(played, config, name)
        return
    if backend != "local":
        raise ConfigError(f"expected --backend local or art, found {backend!r}")
    result = _train_here(played, config, name, source, judge, resume, track)
    emit(result, as_json, lambda: figures(result))


def _train_here(
    game: Game, config: GRPOConfig, name: str, source: str, judge: str | None, resume: bool, track: list[str] | None
) -> dict[str, Any]:
    from playproof.store.db import opened, ready
    from playproof.train.language.grpo import train_grpo

    with opened() as engine, _reward(judge, ready(engine), game) as (named, reward):
        made = _source(source, game, config, ready(engine), reward)
        return train_grpo(
            game,
            replace(config, reward=named),
            run_folder(name),
            ready(engine),
            reward=reward,
            source=made,
            resume=resume,
            tracking=tracking(track, name),
            show=_show,
        )


@contextmanager
def _reward(name: str | None, engine: Any, game: Game) -> Iterator[tuple[str, Any]]:
    """Give the reward that is asked for, or the configured one; a market may allow a judge alone."""
    from playproof.game.markets import JUDGE_ONLY, find_market
    from playproof.judge.judging import Judge, configured, reward_function

    settings = configured()
    computed = settings is None or name == "computed"
    if computed and game.windows.market and find_market(game.windows.market).reward == JUDGE_ONLY:
        raise ConfigError(
            f"expected a judge, as market {game.name} declares the reward {JUDGE_ONLY}, found none; set JUDGE_MODEL"
        )
    result = Judge(settings, engine=engine) if settings is not None and name != "computed" else None
    yield name or ("computed" if result is None else "judge"), reward_function(name, result)


def _source(source: str, game: Game, config: GRPOConfig, engine: Any, reward: Any) -> Callable[..., Any] | None:
    """Give what makes the source of recorded windows; None for forks."""
    from playproof.train.language.grpo_sources import RecordedSource, recorded_split

    if source == "forks":
        return None
    if source != "recorded":
        raise ConfigError(f"expected --source forks or recorded, found {source!r}")
    least = config.least_actions
    split = recorded_split(
        engine,
        game,
        datetime.now(UTC),
        config.lookback_hours,
        config.min_agents,
        least,
        config.holdout,
        config.embargo,
    )

    def make(ledger: Any, parent: Any) -> Any:
        ledger.hold_out(split.held)
        return RecordedSource(
            engine,
            game,
            split,
            config.windows,
            config.min_agents,
            least,
            config.seed,
            reward,
            ledger,
            parent.version,
            config.target,
            config.max_dropout,
        )

    return make


def _show(iteration: int, payload: Mapping[str, Any]) -> None:
    """Say what an iteration did."""
    line = (
        f"iteration {iteration}: {payload['windows']} windows, {payload['reward']} scores min "
        f"{payload['score_min']:+.5f} "
        f"max {payload['score_max']:+.5f} mean {payload['score_mean']:+.5f}, best {payload['best']}, loss "
        f"{payload['loss']:+.5f}, "
        f"kl {payload['kl']:.4f}, {payload['flat']} groups without spread, {payload['checkpoint']}"
    )
    if "holdout_pnl" in payload:
        line += (
            f"; held out {payload['holdout_pnl'] / UNIT:+.3f} a window ({payload['holdout_windows']} windows, "
            f"{payload['holdout_valid']:.0%} valid), against the beginning {payload['gain'] / UNIT:+.3f} "
            f"[{payload['gain_low'] / UNIT:+.3f}, {payload['gain_high'] / UNIT:+.3f}]"
        )
    note(line)
