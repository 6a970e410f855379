"""Look at episodes step by step: a policy at play, recorded windows, or what agents saw, thought and did."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playproof.cli.output import AsJson, console, emit, note
from playproof.cli.targets import StakeOption, find_data, find_policy, game_of, stake_units
from playproof.errors import ConfigError, InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from playproof.game import Game
    from playproof.store.db.trajectories import StoredTrajectory
    from playproof.validate.replay import Replay

app = typer.Typer()
SHARE = 10
"""Of the windows of a validation, one in so many is played unless asked for more."""


@app.command()
def replay(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="EPISODE|POLICY",
            help="A checkpoint's folder, a run, a baseline or module:attribute; with --data a window, or nothing for"
            " all of them; a trajectory's id, or a window that agents played.",
            show_default=False,
        ),
    ] = None,
    *,
    data: Annotated[str | None, typer.Option(help="A data set: recorded episodes, or windows to play again.")] = None,
    split: Annotated[str | None, typer.Option(help="Which split of the data set; a policy plays test.")] = None,
    world: Annotated[str | None, typer.Option(help="A world to simulate; default: the game's first.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Windows to play; with a number and seed of validate, its windows.")
    ] = None,
    window: Annotated[str | None, typer.Option(help="Show only this one of the windows that a policy plays.")] = None,
    show: Annotated[int, typer.Option(min=1, help="Episodes to show: the worst, the best and some between.")] = 12,
    game: Annotated[str | None, typer.Option(help="The game; default: the one that fits.")] = None,
    stake: StakeOption = None,
    seed: Annotated[int, typer.Option(help="Same seed, same windows.")] = 0,
    sample: Annotated[bool, typer.Option(help="Let the policy choose by chance rather than greedily.")] = False,
    terminal: Annotated[bool, typer.Option("--terminal", help="Step through it here; no page is written.")] = False,
    output: Annotated[Path | None, typer.Option(help="File of the page; default: in reports/ of the home.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a page, or step through a terminal: price, entries and exits, money, observations, what was thought.

    Keys: arrows step, Home and End, space plays, + and - set the speed, e goes to the next event, w and b to the
    worst and the best episode, n and p to the next and the one before.

    Example: playproof replay hold-40 --world published --rounds 200 --seed 3
    """
    from playproof.validate.replay import ReplayRequest

    if data and world:
        raise ConfigError("expected either --data or --world, found both")
    asked = ReplayRequest(world or "", "", rounds, seed, show, window)
    if data:
        result = _from_data(what, data, split, asked, stake_units(stake), sample)
    elif what is None:
        raise ConfigError("expected an episode or a policy to look at, found neither; name one, or a data set (--data)")
    elif trajectories := _trajectories(what):
        result = _from_trajectories(what, trajectories, game, show)
    else:
        result = _from_world(find_policy(what), asked, game, stake_units(stake), sample)
    if terminal and not as_json:
        from playproof.reports.replay_terminal import run

        run(result, console())
        return
    path = None if terminal else _write(result, output)
    payload = result.summary() | {"page": None if path is None else str(path)}
    emit(payload, as_json, lambda: shown(result, path))


def _from_world(what: str, asked: Any, game: str | None, stake: int | None, sample: bool) -> Replay:
    """Play a policy in a world."""
    from dataclasses import replace

    from playproof.game import first, load_game, lookup
    from playproof.validate.examine import load_subject
    from playproof.validate.replay import replay_policy

    result = load_game(game) if game else game_of([what], asked.source or None)
    result.simulated()
    world = asked.source or first(result.worlds)
    lookup(result.worlds, world, "world")
    rounds = asked.rounds or max(1, result.defaults.windows // SHARE)
    looking = replace(asked, source=world, name=f"world {world}", rounds=rounds)
    return replay_policy(result, load_subject(result, what, stake=stake, sample=sample), looking, note)


def _from_data(what: str | None, data: str, split: str | None, asked: Any, stake: int | None, sample: bool) -> Replay:
    """Show the recorded episodes of a data set, or a policy that plays its windows."""
    from dataclasses import replace

    from playproof.datasets import open_dataset
    from playproof.game import load_game
    from playproof.validate.examine import load_subject
    from playproof.validate.recorded_windows import recorded_tape
    from playproof.validate.replay import replay_dataset, replay_policy

    dataset = open_dataset(find_data(data))
    game = load_game(dataset.manifest["game"]["name"])
    windows: dict[str, str] = dataset.manifest["split"]
    if what is None or what in windows:
        return replay_dataset(game, dataset, split, what, asked.show)
    what = find_policy(what)
    if not _is_policy(what, game):
        raise InputError(
            f"expected a policy, or a window of data set {data}, found {what!r}; its windows: "
            f"{', '.join(list(windows)[:3])} ... ({len(windows)})"
        )
    part = split or "test"
    tape = recorded_tape(game, dataset, part)
    looking = replace(asked, source=tape, name=f"data set {dataset.manifest['name']}, split {part}")
    return replay_policy(game, load_subject(game, what, stake=stake, sample=sample), looking, note)


def _is_policy(what: str, game: Game) -> bool:
    from playproof.policies.checkpoint import CARD

    return (Path(what) / CARD).exists() or what in game.baselines or ":" in what


def _trajectories(what: str) -> tuple[StoredTrajectory, ...]:
    """Find stored trajectories by their id or their window; none where there is no such thing."""
    from playproof.home import home
    from playproof.store.db import opened, ready
    from playproof.store.db.trajectories import read_trajectory, read_window

    if Path(what).exists() or not (re.fullmatch(r"[0-9a-f]{16,64}", what) or re.match(r"\d{4}-\d\d-\d\dT", what)):
        return ()
    with opened(home()) as engine:
        window = read_window(ready(engine), what)
        return window or (read_trajectory(engine, what),)


def _from_trajectories(
    what: str, stored_trajectories: tuple[StoredTrajectory, ...], game: str | None, show: int
) -> Replay:
    from playproof.cli.data.trajectories import clock_game
    from playproof.validate.replay import replay_trajectories

    one = stored_trajectories[0]
    title = f"agents in {what}" if what == one.window_id else f"{one.agent_id} in {one.window_id}"
    return replay_trajectories(clock_game(game), stored_trajectories, title, show)


def _write(result: Replay, output: Path | None) -> Path:
    from playproof.home import folder, write_durably
    from playproof.reports.replay import replay_page

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", result.title).strip("-.") or "episodes"
    path = output or folder("reports") / f"replay-{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, replay_page(result).encode())
    return path


def shown(result: Replay, path: Path | None) -> RenderableType:
    """List the episodes for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from playproof.money import show

    table = Table("", "window", "player", "steps", f"P&L, {result.money}", "what happened", title_justify="left")
    table.title = f"{result.title}: {result.about}"
    table.columns[3].justify = table.columns[4].justify = "right"
    for index, episode in enumerate(result.episodes):
        happened = ", ".join(mark.text for mark in episode.marks[:3]) + (" ..." if len(episode.marks) > 3 else "")
        pnl = "" if episode.pnl is None else show(episode.pnl)
        table.add_row(result.flag(index), episode.window, episode.player, str(len(episode)), pnl, happened)
    return Group(table, Text(f"Page: {path}" if path else ""))
